//! Where the server listens, what it is called, and the files it leaves behind for operators.

use std::path::PathBuf;
use std::time::Duration;

use super::field::{Diagnostics, Field, Read, diagnostic_at};
use crate::duration;
use crate::host_port::split_host_port;
use crate::value::{Node, Value};

/// A TCP port as an operator may ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// The operating system chooses (written `-1`).
    Random,
    /// Exactly this port; never 0.
    Fixed(u16),
}

impl Port {
    /// The number to bind with: 0 lets the operating system choose.
    pub fn to_bind(self) -> u16 {
        match self {
            Port::Random => 0,
            Port::Fixed(port) => port,
        }
    }

    /// The number as configured.
    pub fn to_number(self) -> i32 {
        match self {
            Port::Random => -1,
            Port::Fixed(port) => i32::from(port),
        }
    }
}

/// Identity, listener and lifecycle of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// Address to bind for clients, without brackets for IPv6. Default `0.0.0.0`.
    pub host: String,
    /// Client port. Default 4222.
    pub port: Port,
    /// Configured name; without one the server uses its id.
    pub name: Option<String>,
    /// `host` or `host:port` that INFO shows instead of the bound address.
    pub client_advertise: Option<String>,
    /// File that receives the process id.
    pub pid_file: Option<PathBuf>,
    /// Directory that receives `<executable>_<pid>.ports`.
    pub ports_file_dir: Option<PathBuf>,
    /// Client connections begin with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// Over how long connections are closed in lame duck mode. At least 30 s when it is configured.
    pub lame_duck_duration: Duration,
    /// Wait between announcing lame duck mode and the first close; always shorter than the
    /// duration.
    pub lame_duck_grace_period: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            host: "0.0.0.0".to_owned(),
            port: Port::Fixed(4222),
            name: None,
            client_advertise: None,
            pid_file: None,
            ports_file_dir: None,
            proxy_protocol: false,
            lame_duck_duration: Duration::from_secs(120),
            lame_duck_grace_period: Duration::from_secs(10),
        }
    }
}

impl ServerOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "listen" => {
                let listen = Listen::read(field.node(), report)?;
                self.set_host(&listen.host);
                self.port = Port::or_default(listen.port);
            }
            "host" | "net" => self.set_host(field.text()?),
            "port" => self.port = Port::or_default(Port::read(field, report)?),
            "server_name" => self.name = server_name(field)?,
            "client_advertise" => self.client_advertise = field.optional_text()?,
            "pidfile" | "pid_file" => self.pid_file = field.optional_path()?,
            "ports_file_dir" => self.ports_file_dir = field.optional_path()?,
            "proxy_protocol" => self.proxy_protocol = field.boolean()?,
            // These have no meaning here; what is written must be right all the same.
            "prof_port" | "prof_block_rate" => drop(field.integer()?),
            "disable_sublist_cache" | "no_sublist_cache" => drop(field.boolean()?),
            "lame_duck_duration" => self.lame_duck_duration = lame_duck_duration(field)?,
            "lame_duck_grace_period" => {
                let period = field.duration()?;
                self.lame_duck_grace_period =
                    if period.is_zero() { Self::default().lame_duck_grace_period } else { period };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// An empty host is the default one.
    pub(crate) fn set_host(&mut self, host: &str) {
        self.host = if host.is_empty() { Self::default().host } else { host.to_owned() };
    }
}

fn server_name(field: &Field<'_>) -> Read<Option<String>> {
    match field.optional_text()? {
        Some(name) if name.contains(' ') => Err(field.diagnostic("server name cannot contain spaces")),
        name => Ok(name),
    }
}

fn lame_duck_duration(field: &Field<'_>) -> Read<Duration> {
    const MINIMUM: Duration = Duration::from_secs(30);
    let duration = field.duration()?;
    if duration < MINIMUM {
        let shown = duration::format(duration);
        return Err(field.diagnostic(format!("invalid lame_duck_duration of {shown}, minimum is 30 seconds")));
    }
    Ok(duration)
}

impl Port {
    /// The client port that a number stands for, 0 being the default.
    pub(crate) fn or_default(port: Option<Port>) -> Port {
        port.unwrap_or(ServerOptions::default().port)
    }

    /// The port that a number stands for; `Some(None)` is 0, which means that none was chosen.
    ///
    /// The reference accepts any number and fails later, when it listens.
    pub(crate) fn from_number(number: i64) -> Option<Option<Port>> {
        match number {
            -1 => Some(Some(Port::Random)),
            0 => Some(None),
            _ => u16::try_from(number).ok().map(|port| Some(Port::Fixed(port))),
        }
    }

    /// Nobody can listen on a number that is no port.
    fn read_number(node: &Node, number: i64, report: &mut Diagnostics) -> Option<Port> {
        Self::from_number(number).unwrap_or_else(|| {
            report.refuse_start(diagnostic_at(&node.position, format!("invalid port {number}")));
            None
        })
    }

    pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Option<Port>> {
        Ok(Self::read_number(field.node(), field.integer()?, report))
    }
}

/// Value of `listen` and `http`: a port, or a host and a port.
pub(super) struct Listen {
    /// Empty when none was given.
    pub(super) host: String,
    pub(super) port: Option<Port>,
}

impl Listen {
    pub(super) fn read(node: &Node, report: &mut Diagnostics) -> Read<Self> {
        let fail = |message: String| diagnostic_at(&node.position, message);
        match &node.value {
            Value::Integer(number) => {
                Ok(Self { host: String::new(), port: Port::read_number(node, *number, report) })
            }
            Value::Text(text) => {
                let (host, port) = split_host_port(text)
                    .map_err(|_| fail(format!("could not parse address string {text:?}")))?;
                let number =
                    port.parse::<i64>().map_err(|_| fail(format!("could not parse port {port:?}")))?;
                Ok(Self { host: host.to_owned(), port: Port::read_number(node, number, report) })
            }
            other => Err(fail(format!("expected port or host:port, got {}", other.go_type()))),
        }
    }
}

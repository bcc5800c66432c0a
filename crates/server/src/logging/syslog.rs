//! The log in the hands of a syslog daemon: of this machine, or elsewhere.
//!
//! Compat: records are what Go's syslog package writes, and so is the way of a lost connection: a
//! record that cannot be written is tried once more over a new connection, and lost if that fails.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::line::SyslogIdentity;
use super::writer::{Lines, Sink};
use super::{LogOpenError, Syslog as Which};
use crate::os_error::words;
use crate::process;
use myelin_wire::error::Quoted;

/// Where daemons of this machine listen.
const LOCAL: [&str; 3] = ["/dev/log", "/var/run/syslog", "/var/run/log"];

/// Syslog's facilities: kernel, which is what the reference's remote records say, and daemon.
const KERNEL: u8 = 0;
const DAEMON: u8 = 3 << 3;

/// Patience with a daemon elsewhere.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connection to a syslog daemon, of this machine or elsewhere, with records to write.
#[derive(Debug)]
pub(super) struct Syslog {
    address: Address,
    connection: Option<Connection>,
}

#[derive(Debug)]
enum Address {
    /// The first of these paths that takes records.
    Local(Vec<PathBuf>),
    Udp(String),
    Tcp(String),
    Unix(PathBuf),
}

#[derive(Debug)]
enum Connection {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Datagram(UnixDatagram),
    Stream(UnixStream),
}

/// Connects, and says what records must tell of this process.
///
/// # Errors
/// When nobody answers, or the URL is not understood.
pub(super) fn open(which: &Which) -> Result<(Syslog, SyslogIdentity), LogOpenError> {
    match which {
        Which::Local => connect(Address::Local(LOCAL.iter().map(PathBuf::from).collect())),
        Which::Remote(url) => connect(parse(url)?),
    }
}

fn connect(address: Address) -> Result<(Syslog, SyslogIdentity), LogOpenError> {
    let connection = address.connect().map_err(LogOpenError::Connect)?;
    let origin = SyslogIdentity {
        facility: if let Address::Local(_) = address { DAEMON } else { KERNEL },
        tag: process::called(),
        hostname: match &address {
            Address::Local(_) | Address::Unix(_) => None,
            Address::Udp(_) | Address::Tcp(_) => Some(hostname(&connection)),
        },
    };
    Ok((Syslog { address, connection: Some(connection) }, origin))
}

/// This machine's name, or its address where it has none.
fn hostname(connection: &Connection) -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let address = match connection {
        Connection::Udp(socket) => socket.local_addr().ok(),
        Connection::Tcp(stream) => stream.local_addr().ok(),
        Connection::Datagram(_) | Connection::Stream(_) => None,
    };
    match address {
        Some(address) if name.is_empty() => address.to_string(),
        _ => name,
    }
}

/// Compat: only the parts of a URL that the reference looks at.
fn parse(url: &str) -> Result<Address, LogOpenError> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(LogOpenError::Network(String::new()));
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !is_scheme {
        let why = "first path segment in URL cannot contain colon";
        return Err(LogOpenError::Url(format!("parse {}: {why}", Quoted(url.as_bytes()))));
    }
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    if !host.ends_with(']') && !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(LogOpenError::Url(format!(
            "parse {}: invalid port {} after host",
            Quoted(url.as_bytes()),
            Quoted(format!(":{port}").as_bytes())
        )));
    }
    match scheme.to_ascii_lowercase().as_str() {
        "udp" => Ok(Address::Udp(host.to_owned())),
        "tcp" => Ok(Address::Tcp(host.to_owned())),
        "unix" => Ok(Address::Unix(PathBuf::from(path))),
        scheme => Err(LogOpenError::Network(scheme.to_owned())),
    }
}

impl Address {
    /// Connects, or says why not in Go's words.
    fn connect(&self) -> Result<Connection, String> {
        match self {
            Self::Local(paths) => {
                let datagram = paths.iter().find_map(|path| datagram(path).ok().map(Connection::Datagram));
                let stream = || paths.iter().find_map(|path| UnixStream::connect(path).ok());
                let connection = datagram.or_else(|| stream().map(Connection::Stream));
                connection.ok_or_else(|| "Unix syslog delivery error".to_owned())
            }
            Self::Udp(host) => dial("udp", host, udp).map(Connection::Udp),
            Self::Tcp(host) => dial("tcp", host, tcp).map(Connection::Tcp),
            Self::Unix(path) if path.as_os_str().is_empty() => Err("dial unix: missing address".to_owned()),
            Self::Unix(path) => UnixStream::connect(path)
                .map(Connection::Stream)
                .map_err(|error| format!("dial unix {}: connect: {}", path.display(), words(&error))),
        }
    }
}

fn datagram(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    Ok(socket)
}

fn dial<T>(network: &str, host: &str, connect: impl Fn(&str) -> io::Result<T>) -> Result<T, String> {
    let port = host.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    match port {
        None if host.is_empty() => Err(format!("dial {network}: missing address")),
        None => Err(format!("dial {network}: address {host}: missing port in address")),
        Some((name, _)) => connect(host).map_err(|error| {
            if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::TimedOut {
                format!("dial {network} {host}: connect: {}", words(&error))
            } else {
                format!("dial {network}: lookup {name}: no such host")
            }
        }),
    }
}

fn udp(host: &str) -> io::Result<UdpSocket> {
    let mut last = None;
    for address in host.to_socket_addrs()? {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        match UdpSocket::bind(any).and_then(|socket| socket.connect(address).map(|()| socket)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

fn tcp(host: &str) -> io::Result<TcpStream> {
    let mut last = None;
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

impl Connection {
    fn send(&mut self, record: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.send(record).map(drop),
            Self::Tcp(stream) => stream.write_all(record),
            Self::Datagram(socket) => socket.send(record).map(drop),
            Self::Stream(stream) => stream.write_all(record),
        }
    }
}

impl Syslog {
    fn send(&mut self, record: &[u8]) -> io::Result<()> {
        if let Some(connection) = &mut self.connection
            && connection.send(record).is_ok()
        {
            return Ok(());
        }
        self.connection = None;
        let connection = self.connection.insert(self.address.connect().map_err(io::Error::other)?);
        connection.send(record)
    }
}

impl Sink for Syslog {
    fn write(&mut self, lines: &Lines) -> io::Result<()> {
        // A record that is lost does not hold up the next.
        let sent: Vec<_> = lines.iter().map(|record| self.send(record)).collect();
        sent.into_iter().collect()
    }

    fn reopen(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::line::{Format, Level};
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    fn record(origin: &SyslogIdentity, text: &str) -> Lines {
        let mut lines = Lines::default();
        lines.push(&Format::record(origin.clone(), 42).line(Level::Info, &text));
        lines
    }

    fn received(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn udp_daemon() -> (UdpSocket, String) {
        let daemon = UdpSocket::bind("127.0.0.1:0").unwrap();
        daemon.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let url = format!("udp://{}", daemon.local_addr().unwrap());
        (daemon, url)
    }

    #[test]
    fn a_daemon_of_this_machine_gets_records_without_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        let (mut syslog, origin) = connect(Address::Local(vec!["/no/such/path".into(), path])).unwrap();
        syslog.write(&record(&origin, "hello")).unwrap();
        let mut buffer = [0; 256];
        let n = daemon.recv(&mut buffer).unwrap();
        let text = received(&buffer[..n]);
        assert!(
            text.starts_with("<29>") && text.ends_with(&format!(" {}[42]: hello\n", process::called())),
            "{text}"
        );
        assert_eq!(text.split_whitespace().count(), 5, "{text}");
    }

    #[test]
    fn a_daemon_of_this_machine_may_listen_to_a_stream() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let daemon = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let (mut syslog, origin) = connect(Address::Local(vec![path.clone()])).unwrap();
        syslog.write(&record(&origin, "hello")).unwrap();
        let mut line = String::new();
        BufReader::new(daemon.accept().unwrap().0).read_line(&mut line).unwrap();
        assert!(line.starts_with("<29>"), "{line}");
        let remote = Which::Remote(format!("unix://{}", path.display()));
        let (mut syslog, origin) = open(&remote).unwrap();
        syslog.write(&record(&origin, "hello")).unwrap();
        let mut line = String::new();
        BufReader::new(daemon.accept().unwrap().0).read_line(&mut line).unwrap();
        assert!(line.starts_with("<5>"), "{line}");
    }

    #[test]
    fn a_daemon_elsewhere_gets_one_datagram_for_each_record() {
        let (daemon, url) = udp_daemon();
        let (mut syslog, origin) = open(&Which::Remote(url)).unwrap();
        let mut lines = record(&origin, "one");
        record(&origin, "two\nlines").iter().for_each(|r| lines.push(std::str::from_utf8(r).unwrap()));
        syslog.write(&lines).unwrap();
        let host = origin.hostname.unwrap();
        for text in ["one\n", "two\nlines\n"] {
            let mut buffer = [0; 256];
            let n = daemon.recv(&mut buffer).unwrap();
            let record = received(&buffer[..n]);
            assert!(record.starts_with("<5>2"), "{record}");
            assert!(record.ends_with(&format!(" {host} {}[42]: {text}", process::called())), "{record}");
        }
    }

    #[test]
    fn a_lost_connection_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let daemon = UnixDatagram::bind(&path).unwrap();
        let (mut syslog, origin) = connect(Address::Local(vec![path.clone()])).unwrap();
        drop(daemon);
        syslog.write(&record(&origin, "lost")).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        let daemon = UnixDatagram::bind(&path).unwrap();
        syslog.write(&record(&origin, "found")).unwrap();
        let mut buffer = [0; 256];
        let n = daemon.recv(&mut buffer).unwrap();
        assert!(received(&buffer[..n]).ends_with(": found\n"));
    }

    #[test]
    fn tcp_gets_one_line_for_each_record() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("TCP://{}/ignored", listener.local_addr().unwrap());
        let (mut syslog, origin) = open(&Which::Remote(url)).unwrap();
        syslog.write(&record(&origin, "hello")).unwrap();
        let mut line = String::new();
        BufReader::new(listener.accept().unwrap().0).read_line(&mut line).unwrap();
        assert!(line.starts_with("<5>2") && line.ends_with(": hello\n"), "{line}");
    }

    #[test]
    fn who_cannot_be_reached_is_named_in_gos_words() {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refused = format!("dial tcp {unused}: connect: connection refused");
        let connect = |error: &str| format!("error connecting to syslog: {error:?}");
        for (url, error) in [
            ("udp://127.0.0.1", connect("dial udp: address 127.0.0.1: missing port in address")),
            (format!("tcp://{unused}").as_str(), connect(&refused)),
            ("unix:///no/log", connect("dial unix /no/log: connect: no such file or directory")),
            ("unix://x", connect("dial unix: missing address")),
            ("udp://", connect("dial udp: missing address")),
            ("foo://x", "error invalid network type: \"foo\"".to_owned()),
            ("plain", "error invalid network type: \"\"".to_owned()),
            ("localhost:514", "error invalid network type: \"localhost\"".to_owned()),
            (
                "127.0.0.1:514",
                "parse \"127.0.0.1:514\": first path segment in URL cannot contain colon".to_owned(),
            ),
            (
                "udp://127.0.0.1:abc",
                "parse \"udp://127.0.0.1:abc\": invalid port \":abc\" after host".to_owned(),
            ),
        ] {
            let found = open(&Which::Remote(url.to_owned())).unwrap_err().to_string();
            assert_eq!(found, error, "{url}");
        }
    }

    #[test]
    fn without_a_daemon_there_is_no_log() {
        let error = connect(Address::Local(vec!["/no/such/path".into()])).unwrap_err().to_string();
        assert_eq!(error, "error connecting to syslog: \"Unix syslog delivery error\"");
    }
}

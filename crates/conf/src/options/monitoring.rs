//! The HTTP endpoint that answers `/varz` and its sisters.

use super::field::{Diagnostics, Field, Read, read_block};
use super::otlp::OtlpOptions;
use super::server::{Listen, Port};
use super::table::BlockKind;
use crate::path;
use crate::value::Value;

/// Where monitoring is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitoringOptions {
    /// Address to bind; `None` is the one for clients.
    pub host: Option<String>,
    /// Port of plain HTTP; `None` serves no plain monitoring.
    pub port: Option<Port>,
    /// Port of HTTPS, with the certificate of the `tls` block; `None` serves no encrypted
    /// monitoring.
    /// Compat: not both; a start refuses that.
    pub https_port: Option<Port>,
    /// Prefix of every path: starts with `/`, ends without one unless it is `/` alone.
    pub base_path: String,
    /// Answer of `/metrics`; `None` serves no such page.
    pub metrics: Option<MetricsOptions>,
    /// The dashboard is served at `/ui`.
    pub dashboard: bool,
    /// Where metrics are pushed to; `None` pushes nothing.
    pub otlp: Option<OtlpOptions>,
}

impl Default for MonitoringOptions {
    fn default() -> Self {
        Self {
            host: None,
            port: None,
            https_port: None,
            base_path: "/".to_owned(),
            metrics: None,
            dashboard: false,
            otlp: None,
        }
    }
}

/// Answer of `/metrics`. Every limit bounds how many rows of labels there are at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Beginning of names instead of `gnatsd` and `jetstream`; empty keeps these.
    pub prefix: String,
    /// Connections of which figures are shown one by one; 0 shows sums only.
    pub max_connections: u32,
    /// Accounts that are shown.
    pub max_accounts: u32,
    /// Streams that are shown, and groups of replicas.
    pub max_streams: u32,
    /// Consumers that are shown.
    pub max_consumers: u32,
}

impl Default for MetricsOptions {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            max_connections: 0,
            max_accounts: 1_000,
            max_streams: 1_000,
            max_consumers: 10_000,
        }
    }
}

impl MetricsOptions {
    /// A switch, or a block, which switches them on unless `enabled` says otherwise.
    fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Option<Self>> {
        let map = match field.value() {
            Value::Boolean(on) => return Ok(on.then(Self::default)),
            Value::Map(map) => map,
            other => {
                let found = other.type_name();
                return Err(field.diagnostic(format!("metrics must be a boolean or a map, not {found}")));
            }
        };
        let (mut options, mut is_enabled) = (Self::default(), true);
        read_block(map, BlockKind::Metrics, report, |field, _| {
            match field.name() {
                "enabled" => is_enabled = field.boolean()?,
                "prefix" => options.prefix = prefix(field)?,
                "max_connections" => options.max_connections = field.count()?,
                "max_accounts" => options.max_accounts = field.count()?,
                "max_streams" => options.max_streams = field.count()?,
                "max_consumers" => options.max_consumers = field.count()?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        Ok(is_enabled.then_some(options))
    }
}

/// Beginning of the name of a metric.
fn prefix(field: &Field<'_>) -> Read<String> {
    let text = field.text()?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_valid = text.bytes().all(is_name) && !text.starts_with(|first: char| first.is_ascii_digit());
    if !is_valid {
        return Err(field.diagnostic(format!("{text:?} cannot begin the name of a metric")));
    }
    Ok(text.to_owned())
}

impl MonitoringOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            // Compat: there is one host for both; the last one in the file wins.
            "http" => self.port = self.listen(field, report)?,
            "https" => self.https_port = self.listen(field, report)?,
            "http_port" | "monitor_port" => self.port = Port::read(field, report)?,
            "https_port" => self.https_port = Port::read(field, report)?,
            "http_base_path" => self.base_path = path::clean(&format!("/{}", field.text()?)),
            "metrics" => self.metrics = MetricsOptions::read(field, report)?,
            "dashboard" => self.dashboard = field.boolean()?,
            "otlp" => self.otlp = OtlpOptions::read(field, report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// [`MonitoringOptions::base_path`] for people, who have not written the default.
    pub fn shown_base_path(&self) -> &str {
        if self.base_path == "/" { "" } else { &self.base_path }
    }

    fn listen(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<Option<Port>> {
        let listen = Listen::read(field.node(), report)?;
        self.host = (!listen.host.is_empty()).then_some(listen.host);
        Ok(listen.port)
    }
}

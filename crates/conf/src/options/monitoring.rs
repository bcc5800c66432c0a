//! The HTTP endpoint that answers `/varz` and its sisters.

use super::server::Port;

use super::field::{Field, Read};
use super::server::Listen;
use crate::path;

/// Where monitoring is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitoringOptions {
    /// Address to bind; `None` is the one for clients.
    pub host: Option<String>,
    /// Port of plain HTTP; `None` serves no monitoring.
    pub port: Option<Port>,
    /// Port of HTTPS; `None` serves none.
    pub https_port: Option<Port>,
    /// Prefix of every path: starts with `/`, ends without one unless it is `/` alone.
    pub base_path: String,
}

impl Default for MonitoringOptions {
    fn default() -> Self {
        Self { host: None, port: None, https_port: None, base_path: "/".to_owned() }
    }
}

impl MonitoringOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>) -> Read<bool> {
        match field.name() {
            "http" => {
                let listen = Listen::read(field.node())?;
                self.host = (!listen.host.is_empty()).then_some(listen.host);
                self.port = listen.port;
            }
            "https" => {
                let listen = Listen::read(field.node())?;
                self.host = (!listen.host.is_empty()).then_some(listen.host);
                self.https_port = listen.port;
            }
            "https_port" => self.https_port = Port::read(field.node(), field.integer()?)?,
            "http_port" | "monitor_port" => self.port = Port::read(field.node(), field.integer()?)?,
            "http_base_path" => self.base_path = path::clean(&format!("/{}", field.text()?)),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

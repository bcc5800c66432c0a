//! The HTTP endpoint that answers `/varz` and its sisters.

use super::field::{Diagnostics, Field, Read};
use super::server::{Listen, Port};
use crate::path;

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
}

impl Default for MonitoringOptions {
    fn default() -> Self {
        Self { host: None, port: None, https_port: None, base_path: "/".to_owned() }
    }
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

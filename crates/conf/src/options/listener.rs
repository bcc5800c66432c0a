//! Where a kind of connection other than clients is accepted: `listen`, `host` and `port` of a
//! block.

use super::field::{Diagnostics, Field, Read};
use super::server::{Listen, Port};

/// Address and port of one more listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerOptions {
    /// Address to bind, without brackets for IPv6. Default `0.0.0.0`.
    pub host: String,
    /// `None` does not listen.
    pub port: Option<Port>,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self { host: "0.0.0.0".to_owned(), port: None }
    }
}

impl ListenerOptions {
    /// Reads a field of the block; answers whether it is about the listener.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "listen" => {
                let listen = Listen::read(field.node(), report)?;
                self.set_host(&listen.host);
                self.port = listen.port;
            }
            "host" | "net" => self.set_host(field.text()?),
            "port" => self.port = Port::read(field, report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// An empty host is the default one.
    pub(crate) fn set_host(&mut self, host: &str) {
        self.host = if host.is_empty() { Self::default().host } else { host.to_owned() };
    }
}

//! The URL that `-cluster` listens on.

use crate::host_port::split_host_port;
use crate::secret::Secret;
use crate::url::Url;
use myelin_wire::error::Quoted;

/// Where routes are accepted, and who may connect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ClusterAddress {
    /// Without brackets; may be empty.
    pub(crate) host: String,
    /// As written, -1 for any free port.
    pub(crate) port: i64,
    pub(crate) login: Option<(String, Secret)>,
}

impl ClusterAddress {
    /// Reads `scheme://user:password@host:port`. Compat: a port of -1, which no URL can have, is
    /// taken.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let random = text.strip_suffix(":-1").map(|rest| format!("{rest}:0"));
        let url = random.as_deref().unwrap_or(text);
        let url = Url::read(url).map_err(|reason| format!("parse {}: {reason}", Quoted(url.as_bytes())))?;
        let (host, port) = split_host_port(&url.authority)?;
        let port = if random.is_some() { -1 } else { scan_number(port)? };
        let login = match url.login() {
            None => None,
            Some((user, Some(password))) => Some((user, password)),
            Some((_, None)) => return Err("expected cluster password to be set".to_owned()),
        };
        Ok(Self { host: host.to_owned(), port, login })
    }
}

/// Compat: no port at all is what reading a number from an empty text says.
fn scan_number(text: &str) -> Result<i64, String> {
    if text.is_empty() {
        return Err("EOF".to_owned());
    }
    text.parse()
        .map_err(|_| format!("strconv.ParseInt: parsing {}: value out of range", Quoted(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_host_port_and_login() {
        let parse = |text| ClusterAddress::parse(text).expect(text);
        let address = |host: &str, port, login: Option<(&str, &str)>| ClusterAddress {
            host: host.to_owned(),
            port,
            login: login.map(|(user, password)| (user.to_owned(), Secret::new(password))),
        };
        assert_eq!(parse("nats://127.0.0.1:6222"), address("127.0.0.1", 6222, None));
        assert_eq!(parse("nats://:-1"), address("", -1, None));
        assert_eq!(parse("nats://[::1]:0"), address("::1", 0, None));
        assert_eq!(parse("//h:1/path?q#f"), address("h", 1, None));
        assert_eq!(parse("nats://u:p%41:@h:1"), address("h", 1, Some(("u", "pA:"))));
    }
}

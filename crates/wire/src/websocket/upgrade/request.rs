//! A request as far as an upgrade cares for it.

use super::UpgradeRefusal;
use httparse::{EMPTY_HEADER, Error, Header, Status};

pub(super) const BAD: &str = "400 Bad Request";
const NO_HOST: &str = "400 Bad Request: missing required Host header";
const BAD_HOST: &str = "400 Bad Request: malformed Host header";
const HOSTS: &str = "400 Bad Request: too many Host headers";
const BAD_VERSION: &str = "505 HTTP Version Not Supported: unsupported protocol version";

/// Headers in one request.
const MOST_HEADERS: usize = 100;

/// The head of a request.
pub(super) struct Request<'r> {
    pub(super) method: &'r str,
    target: &'r str,
    headers: &'r [Header<'r>],
}

/// Reads a head, which must be whole, and answers what `look` makes of it.
///
/// # Errors
/// When it is no HTTP.
pub(super) fn with<R>(head: &[u8], look: impl FnOnce(&Request<'_>) -> R) -> Result<R, UpgradeRefusal> {
    let mut headers = [EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) => return Err(UpgradeRefusal::no_http(BAD)),
        Err(Error::Version) => return Err(UpgradeRefusal::no_http(BAD_VERSION)),
        Err(Error::TooManyHeaders) => return Err(UpgradeRefusal::too_long()),
        Err(_) => return Err(UpgradeRefusal::no_http(BAD)),
    }
    let request = Request {
        method: parsed.method.unwrap_or_default(),
        target: parsed.path.unwrap_or_default(),
        headers: parsed.headers,
    };
    let hosts = request.all("Host").count();
    if hosts > 1 {
        return Err(UpgradeRefusal::no_http(HOSTS));
    }
    match request.get("Host") {
        None if parsed.version == Some(1) && hosts == 0 => Err(UpgradeRefusal::no_http(NO_HOST)),
        Some(host) if !host.bytes().all(is_of_host) => Err(UpgradeRefusal::no_http(BAD_HOST)),
        None if hosts > 0 => Err(UpgradeRefusal::no_http(BAD_HOST)),
        _ => Ok(look(&request)),
    }
}

fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

impl<'r> Request<'r> {
    /// The path without its query.
    pub(super) fn path(&self) -> &'r str {
        let target = match self.target.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
            None => self.target,
        };
        target.split('?').next().unwrap_or_default()
    }

    /// The values of a header, as far as they are text.
    pub(super) fn all(&self, name: &'static str) -> impl Iterator<Item = &'r str> + use<'r> {
        let named = self.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.filter_map(|header| std::str::from_utf8(header.value).ok())
    }

    /// The first value of a header.
    pub(super) fn get(&self, name: &'static str) -> Option<&'r str> {
        self.all(name).next()
    }

    /// Whether a header has this among its values.
    pub(super) fn has_token(&self, name: &'static str, token: &str) -> bool {
        self.all(name).flat_map(|value| value.split(',')).any(|value| is(value, token))
    }

    /// Compat: with whatever parameters, for the answer says which are meant.
    pub(super) fn offers_compression(&self) -> bool {
        let mut parts = self.all("Sec-WebSocket-Extensions").flat_map(|value| value.split([',', ';']));
        parts.any(|part| is(part, "permessage-deflate"))
    }
}

fn is(value: &str, token: &str) -> bool {
    value.trim_matches([' ', '\t']).eq_ignore_ascii_case(token)
}

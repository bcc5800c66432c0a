//! The request that makes a WebSocket of an HTTP connection, and the answer to it.
//!
//! What is asked for is checked in the reference's order, since the first thing that is wrong is
//! the one that its log names; on the wire there is the status only.

mod cookies;
mod origin;
mod request;
mod solicit;

pub use cookies::{CookieNames, Cookies};
pub use origin::Origin;
pub use solicit::{Granted, NotGranted, Solicitation};

use super::frame_writer::Extensions;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use myelin_stdx::base64;
use request::Request;
use std::fmt;
use std::net::IpAddr;

/// The longest request. Cookies may be long, and there may be some of them.
pub const LONGEST_REQUEST: usize = 32 * 1024;

/// Rules of a server for requests.
#[derive(Debug, Clone, Default)]
pub struct UpgradeRules {
    /// The connection is encrypted.
    pub is_secure: bool,
    /// A page may only connect to where it comes from.
    pub same_origin: bool,
    /// Where pages may come from; empty for anywhere.
    pub allowed_origins: Vec<Origin>,
    /// Messages are compressed for who asks for it.
    pub compression: bool,
    /// More lines of the answer, each with its end.
    pub headers: String,
    /// Where credentials may be found.
    pub cookies: CookieNames,
    /// Clients may speak MQTT.
    pub takes_mqtt: bool,
}

/// Target behind the path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeTarget {
    /// The client protocol.
    Client,
    /// The protocol of leaf nodes.
    LeafNode,
    /// MQTT.
    Mqtt,
}

/// A request that is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// Target that the client wants to speak to.
    pub target: UpgradeTarget,
    /// The answer, complete.
    pub answer: Vec<u8>,
    /// How frames for it look.
    pub extensions: Extensions,
    /// Its frames have masks.
    pub is_masked: bool,
    /// Address of the client behind a proxy, as the proxy says.
    pub client_ip: Option<IpAddr>,
    /// Credentials that its browser has kept for it.
    pub cookies: Cookies,
}

/// A request that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeRefusal {
    status: RefusalStatus,
    /// For the log; what is no request at all is not worth a line.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusalStatus {
    NotFound,
    MethodNotAllowed,
    BadRequest,
    Forbidden,
    /// Nothing is said.
    Silent,
    /// The request is no HTTP, or not as much of it as is needed: the status line, which is the
    /// body too.
    NoHttp(&'static str),
}

impl UpgradeRefusal {
    fn new(status: RefusalStatus, reason: impl Into<String>) -> Self {
        Self { status, reason: Some(reason.into()) }
    }

    fn no_http(line: &'static str) -> Self {
        Self { status: RefusalStatus::NoHttp(line), reason: None }
    }

    /// For a request that is longer than [`LONGEST_REQUEST`].
    pub fn too_long() -> Self {
        Self::no_http("431 Request Header Fields Too Large")
    }

    /// For one that is followed by something before it is answered. Compat: the connection ends
    /// without an answer.
    pub fn too_eager() -> Self {
        Self::new(RefusalStatus::Silent, "client sent data before handshake is complete")
    }

    /// For one that does not come to its end in time.
    pub fn unfinished() -> Self {
        Self::no_http(request::BAD)
    }

    /// The answer; `date` is now, as HTTP writes it. The connection ends with it. Compat: the
    /// reference would listen for another request.
    pub fn answer(&self, date: &str) -> Vec<u8> {
        let line = match self.status {
            RefusalStatus::NoHttp(line) => {
                let headers = "Content-Type: text/plain; charset=utf-8\r\nConnection: close";
                return format!("HTTP/1.1 {line}\r\n{headers}\r\n\r\n{line}").into_bytes();
            }
            RefusalStatus::Silent => return Vec::new(),
            RefusalStatus::NotFound => "404 Not Found",
            RefusalStatus::MethodNotAllowed => "405 Method Not Allowed",
            RefusalStatus::BadRequest => "400 Bad Request",
            RefusalStatus::Forbidden => "403 Forbidden",
        };
        let body = &line[4..];
        let length = body.len() + 1;
        format!(
            "HTTP/1.1 {line}\r\nContent-Type: text/plain; charset=utf-8\r\nSec-Websocket-Version: 13\r\n\
             X-Content-Type-Options: nosniff\r\nDate: {date}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n\
             {body}\n"
        )
        .into_bytes()
    }
}

impl fmt::Display for UpgradeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "websocket handshake error: {}", self.reason.as_deref().unwrap_or("no HTTP request"))
    }
}

/// Where the head of a request ends, if it does. The first `seen` bytes were looked at before, in
/// vain.
pub fn end_of_head(bytes: &[u8], seen: usize) -> Option<usize> {
    let from = seen.saturating_sub(3);
    let new = bytes.get(from..).unwrap_or_default();
    memchr::memchr_iter(b'\n', new).map(|at| from + at + 1).find(|end| {
        let head = &bytes[..*end];
        head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n")
    })
}

/// Looks at the head of a request, which must be whole.
///
/// # Errors
/// When it is not granted.
pub fn negotiate(head: &[u8], rules: &UpgradeRules) -> Result<Upgrade, UpgradeRefusal> {
    request::with(head, |request| grant(request, rules))?
}

fn grant(request: &Request<'_>, rules: &UpgradeRules) -> Result<Upgrade, UpgradeRefusal> {
    let bad = |reason: &str| Err(UpgradeRefusal::new(RefusalStatus::BadRequest, reason));
    let path = request.path();
    let target = match path {
        path if path.ends_with("/leafnode") => UpgradeTarget::LeafNode,
        path if path.ends_with("/mqtt") => UpgradeTarget::Mqtt,
        _ => UpgradeTarget::Client,
    };
    if target == UpgradeTarget::Mqtt && !rules.takes_mqtt {
        return Err(UpgradeRefusal::new(RefusalStatus::NotFound, "mqtt websocket endpoint not enabled"));
    }
    if request.method != "GET" {
        return Err(UpgradeRefusal::new(RefusalStatus::MethodNotAllowed, "request method must be GET"));
    }
    let Some(host) = request.get("Host").filter(|host| !host.is_empty()) else {
        return bad("'Host' missing in request");
    };
    if !request.has_token("Upgrade", "websocket") {
        return bad("invalid value for header 'Upgrade'");
    }
    if !request.has_token("Connection", "Upgrade") {
        return bad("invalid value for header 'Connection'");
    }
    let Some(key) = request.get("Sec-WebSocket-Key").filter(|key| !key.is_empty()) else {
        return bad("key missing");
    };
    if !is_key(key) {
        return bad("invalid websocket key");
    }
    if !request.has_token("Sec-WebSocket-Version", "13") {
        return bad("invalid version");
    }
    let origin = request.get("Origin").filter(|origin| !origin.is_empty());
    let origin = origin.or_else(|| request.get("Sec-WebSocket-Origin").filter(|origin| !origin.is_empty()));
    origin.map_or(Ok(()), |origin| origin::check(origin, host, rules)).map_err(|reason| {
        UpgradeRefusal::new(RefusalStatus::Forbidden, format!("origin not allowed: {reason}"))
    })?;
    let compresses = rules.compression && request.offers_compression();
    let is_masked = request.get("Nats-No-Masking") != Some("true");
    Ok(Upgrade {
        target,
        answer: answer(key, (compresses, is_masked), target, rules),
        extensions: extensions(request.get("User-Agent").unwrap_or_default(), compresses),
        is_masked,
        client_ip: request.get("X-Forwarded-For").and_then(|ip| ip.parse().ok()),
        cookies: Cookies::find(request.all("Cookie"), &rules.cookies),
    })
}

/// Whether it is 16 bytes in base64.
fn is_key(key: &str) -> bool {
    let digits = key.strip_suffix("==").unwrap_or_default();
    digits.len() == 22 && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
}

/// Compat: Safari is a browser that names its version.
fn extensions(agent: &str, compresses: bool) -> Extensions {
    let is_browser = agent.starts_with("Mozilla/");
    let is_safari = agent.contains("Version/") && agent.contains("Safari/");
    Extensions { is_browser, takes_whole_messages: is_browser && is_safari, compresses }
}

fn answer(
    key: &str,
    (compresses, is_masked): (bool, bool),
    target: UpgradeTarget,
    rules: &UpgradeRules,
) -> Vec<u8> {
    let mut answer =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n".to_owned();
    answer.push_str(&format!("Sec-WebSocket-Accept: {}\r\n", accept(key)));
    if compresses {
        answer.push_str("Sec-WebSocket-Extensions: permessage-deflate; ");
        answer.push_str("server_no_context_takeover; client_no_context_takeover\r\n");
    }
    if !is_masked {
        answer.push_str("Nats-No-Masking: true\r\n");
    }
    if target == UpgradeTarget::Mqtt {
        answer.push_str("Sec-WebSocket-Protocol: mqtt\r\n");
    }
    answer.push_str(&rules.headers);
    answer.push_str("\r\n");
    answer.into_bytes()
}

/// Value that shows the client that its request was understood.
fn accept(key: &str) -> String {
    let seasoned = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    base64::encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, seasoned.as_bytes()).as_ref())
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;

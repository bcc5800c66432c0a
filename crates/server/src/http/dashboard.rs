//! The dashboard below `/ui`: its files, and the WebSocket that its page opens.
//!
//! A connection that asks for the socket leaves HTTP and becomes a client of a shard, as behind the
//! listener for WebSocket: whoever speaks there has yet to sign in, in the time that clients have,
//! and may do what its user may. Only a page from here may open it; where everybody is let in, only
//! under a name that nobody elsewhere can give to this machine. Whether there is a dashboard at
//! all is asked for each request, so that a reload may change it; clients that came by it stay.

use super::Body;
use crate::budget::StrangerBudget;
use crate::listener::place;
use crate::shard::{Mail, Mailbox};
use crate::tls::TrustedCerts;
use crate::websocket::{self, Upgraded};
use bytes::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION,
};
use hyper::http::uri::Authority;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use myelin_broker::ListenerInfo;
use myelin_wire::websocket::upgrade::{Upgrade, UpgradeRules, negotiate};
use rustls::ServerConnection;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::pace::Patient;
use super::request_line::Readable;
use super::secure::Encrypted;

/// Where the page is, below the base path of all pages.
const PAGE: &str = "/ui";

/// Parts of a dashboard that the server knows.
pub(crate) struct DashboardParts {
    /// Base path of all pages; empty for none.
    pub(crate) base: String,
    /// Whether there is a dashboard now.
    pub(crate) is_enabled: Box<dyn Fn() -> bool + Send + Sync>,
    /// Whether clients may come: a server that is about to end takes none.
    pub(crate) takes_clients: Box<dyn Fn() -> bool + Send + Sync>,
    /// Whether somebody may come who shows nothing.
    pub(crate) lets_in_anybody: Box<dyn Fn() -> bool + Send + Sync>,
    /// Names that the configuration has for this machine.
    pub(crate) names: Vec<String>,
    /// Shards that take its clients.
    pub(crate) shards: Vec<Mailbox>,
    /// The listener of the pages, as clients are told of it.
    pub(crate) listener_info: Arc<ListenerInfo>,
    /// The longest CONNECT, as when the server started.
    pub(crate) max_control_line: usize,
}

/// The dashboard of a site.
pub(crate) struct Dashboard {
    parts: DashboardParts,
    rules: UpgradeRules,
}

/// Outcome of a request to the dashboard.
pub(super) enum DashboardAnswer {
    Response(Response<Body>),
    /// The connection becomes a WebSocket behind this answer.
    Socket(Response<Body>, Box<Upgrade>),
}

/// A connection that is about to leave HTTP.
pub(super) struct PendingUpgrade {
    pub(super) upgrade: Box<Upgrade>,
    pub(super) stream: OnUpgrade,
}

/// A stream under HTTP that can be taken out again: the socket, and TLS if there is any.
pub(super) trait Carrier: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn into_parts(self) -> (TcpStream, Option<ServerConnection>);
}

impl Carrier for TcpStream {
    fn into_parts(self) -> (TcpStream, Option<ServerConnection>) {
        (self, None)
    }
}

impl Carrier for Encrypted {
    fn into_parts(self) -> (TcpStream, Option<ServerConnection>) {
        let (stream, connection) = self.into_inner();
        (stream, Some(connection))
    }
}

impl Dashboard {
    pub(crate) fn new(parts: DashboardParts) -> Self {
        let is_secure = parts.listener_info.is_secure;
        Self { rules: UpgradeRules { is_secure, same_origin: true, ..UpgradeRules::default() }, parts }
    }

    /// Answer to a request for `path`, which is as it was sent; nothing where the path is no part
    /// of the dashboard, or there is none.
    pub(super) fn answer<B>(&self, request: &Request<B>, path: &str) -> Option<DashboardAnswer> {
        let below = path.strip_prefix(&self.parts.base)?.strip_prefix(PAGE)?;
        let is_part = below.is_empty() || below.starts_with('/');
        if !is_part || !(self.parts.is_enabled)() {
            return None;
        }
        let mut answer = match below.strip_prefix('/') {
            None => DashboardAnswer::Response(self.to_folder()),
            Some(myelin_dashboard::SOCKET) => self.socket(request),
            Some(name) => DashboardAnswer::Response(file(request, name)),
        };
        if let DashboardAnswer::Response(response) = &mut answer {
            protect(response);
        }
        Some(answer)
    }

    /// To the page with a slash at its end: the addresses of its files are relative to that.
    fn to_folder(&self) -> Response<Body> {
        let mut response = plain(StatusCode::PERMANENT_REDIRECT);
        if let Ok(to) = HeaderValue::from_str(&format!("{}{PAGE}/", self.parts.base)) {
            response.headers_mut().insert(LOCATION, to);
        }
        response
    }

    fn socket<B>(&self, request: &Request<B>) -> DashboardAnswer {
        if !(self.parts.takes_clients)() {
            return DashboardAnswer::Response(plain(StatusCode::SERVICE_UNAVAILABLE));
        }
        // Else a page from anywhere could reach a server that asks for nothing: its name has only
        // to lead to this machine once it is loaded (DNS rebinding).
        if (self.parts.lets_in_anybody)() && !self.is_ours(request) {
            return DashboardAnswer::Response(plain(StatusCode::FORBIDDEN));
        }
        match negotiate(&head(request), &self.rules) {
            // What a proxy says of the client is not believed: anybody may say it here.
            Ok(upgrade) => DashboardAnswer::Socket(
                parsed(&upgrade.answer),
                Box::new(Upgrade { client_ip: None, ..upgrade }),
            ),
            Err(refusal) => DashboardAnswer::Response(parsed(&refusal.answer(&websocket::date()))),
        }
    }

    /// Whether a request calls this machine by an address, or by a name that is its own.
    fn is_ours<B>(&self, request: &Request<B>) -> bool {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let Some(host) = host.and_then(|host| host.parse::<Authority>().ok()) else { return false };
        let host = host.host().trim_start_matches('[').trim_end_matches(']');
        let is_own = |name: &str| name.eq_ignore_ascii_case(host);
        host.parse::<IpAddr>().is_ok()
            || is_own("localhost")
            || self.parts.names.iter().any(|name| is_own(name))
    }

    /// Hands a connection to a shard, once its answer is written. `S`: what carries its HTTP.
    pub(super) async fn hand_over<S: Carrier>(
        &self,
        leaving: PendingUpgrade,
        peer: SocketAddr,
        trusted: TrustedCerts,
    ) {
        let Ok(upgraded) = leaving.stream.await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<Readable<Patient<S>>>>() else { return };
        // Whoever speaks before the answer is there is cut off, as behind the other listener.
        let Some(stream) = parts.io.into_inner().into_inner().filter(|_| parts.read_buf.is_empty()) else {
            return;
        };
        let (stream, security) = stream.into_inner().into_parts();
        let _ = stream.set_nodelay(true);
        let Ok(stream) = stream.into_std() else { return };
        let upgraded = Upgraded {
            stream: Some(stream),
            peer,
            security,
            trusted,
            budget: StrangerBudget::new(self.parts.max_control_line),
            listener_info: Arc::clone(&self.parts.listener_info),
            mqtt: None,
            upgrade: *leaving.upgrade,
        };
        place(&self.parts.shards, Mail::Upgraded(Box::new(upgraded)));
    }
}

/// Answer to a request for a file.
fn file<B>(request: &Request<B>, name: &str) -> Response<Body> {
    match myelin_dashboard::asset(name) {
        _ if !matches!(*request.method(), Method::GET | Method::HEAD) => {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            response
        }
        None => plain(StatusCode::NOT_FOUND),
        Some(_) if is_known(request) => tagged(StatusCode::NOT_MODIFIED, Body::empty()),
        Some(asset) => {
            let mut response = tagged(StatusCode::OK, Body::from(Bytes::from_static(asset.body)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
            response
        }
    }
}

/// Whether the browser has the files already.
fn is_known<B>(request: &Request<B>) -> bool {
    let tags = request.headers().get_all(IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
    tags.flat_map(|tags| tags.split(',')).any(|tag| {
        let tag = tag.trim();
        tag.strip_prefix("W/").unwrap_or(tag) == myelin_dashboard::tag()
    })
}

fn plain(status: StatusCode) -> Response<Body> {
    let text = format!("{} {}\n", status.as_u16(), status.canonical_reason().unwrap_or_default());
    let mut response = Response::new(Body::from(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn tagged(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(ETAG, HeaderValue::from_static(myelin_dashboard::tag()));
    response
}

/// Adds the headers that every answer has.
fn protect(response: &mut Response<Body>) {
    // Kept, and asked about each time: files of two versions do not go together.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    for &(name, value) in myelin_dashboard::HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

/// The head of a request as it stands on the wire, which is how the rules of an upgrade read it.
fn head<B>(request: &Request<B>) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri().path()).into_bytes();
    for (name, value) in request.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// An answer from the wire as hyper has it.
fn parsed(answer: &[u8]) -> Response<Body> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let mut response = Response::new(Body::from(Bytes::copy_from_slice(body.as_bytes())));
    *response.status_mut() = status.unwrap_or(StatusCode::BAD_REQUEST);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            response.headers_mut().append(name, value);
        }
    }
    response
}

//! The HTTP listener for monitoring, plain or over TLS: frames requests and answers, and decides
//! nothing about the pages.
//!
//! It is HTTP/1.1 for a handful of tools, not a web server: connections are capped, a peer that
//! sends or reads too slowly is dropped (`pace`), and a request's method and body are ignored, as
//! the reference does. A connection of the dashboard's page leaves HTTP and becomes a client
//! (`dashboard`).
//!
//! Compat: what cannot be read as HTTP at all is answered by hyper: 400 as from the reference,
//! without its text.

mod body;
mod connection_slots;
mod dashboard;
mod pace;
mod renderers;
mod request_line;
mod requests;
mod secure;
mod target;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt::Arguments;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use myelin_monitor::{Effort, PageResponse};
use myelin_stdx::sync::lock;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use body::Body;
use connection_slots::ConnectionSlots;
use dashboard::{Carrier, DashboardAnswer, PendingUpgrade};
pub(crate) use dashboard::{Dashboard, DashboardParts};
use pace::{Answering, Deadlines, Patient, SharedPhase};
use renderers::Renderers;
use request_line::Readable;
pub(crate) use requests::RequestCounts;
pub(crate) use secure::Security;
use target::RequestTarget;

use crate::supervise::{self, SupervisedPart, Tasks, persist};

/// Connections at once. When one more comes, whoever is idle longest makes room; if nobody is, the
/// newcomer is closed.
const MAX_CONNECTIONS: usize = 512;

const DEADLINES: Deadlines = Deadlines {
    head: Duration::from_secs(5),
    idle: Duration::from_secs(120),
    unread: Duration::from_secs(30),
};

/// The largest head, in bytes; a longer one is answered with 431. Compat: the reference's limit is
/// 1 MiB.
const MAX_HEAD: usize = 64 * 1024;

/// Compat: the reference limits the bytes of a head only, not the number of its lines.
const MAX_HEADER_LINES: usize = 4096;

/// How long to wait after accepting failed, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often refused connections are logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Turns a path (percent-encoded) and what follows its `?` into an answer. It may take long: it
/// runs where blocking is allowed.
pub(crate) type App = dyn Fn(&str, &str) -> PageResponse + Send + Sync;

/// Effort of the answer to a path.
pub(crate) type Efforts = dyn Fn(&str) -> Effort + Send + Sync;

/// Takes a line for the log, at the level of errors.
pub(crate) type Complain = dyn Fn(Arguments<'_>) + Send + Sync;

/// Scheme of a page's URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

impl std::fmt::Display for Scheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Site: what is served, and how.
#[derive(Clone)]
pub(crate) struct Site {
    app: Arc<App>,
    efforts: Arc<Efforts>,
    complain: Arc<Complain>,
    dashboard: Option<Arc<Dashboard>>,
    /// With TLS: what to offer to a new connection.
    security: Option<Security>,
    renderers: Arc<Renderers>,
    /// Renderers of what looks at more than the server itself and is waited for all the same.
    probes: Arc<Renderers>,
    deadlines: Deadlines,
    max_connections: usize,
}

impl Site {
    /// # Errors
    /// When the operating system refuses what threads need.
    pub(crate) fn new(
        app: Arc<App>,
        complain: Arc<Complain>,
        security: Option<Security>,
    ) -> std::io::Result<Self> {
        Ok(Self {
            app,
            efforts: Arc::new(|_| Effort::Page),
            complain,
            dashboard: None,
            security,
            renderers: Arc::new(Renderers::patient()?),
            probes: Arc::new(Renderers::urgent()?),
            deadlines: DEADLINES,
            max_connections: MAX_CONNECTIONS,
        })
    }

    /// Answers what is less than a page without waiting behind pages.
    pub(crate) fn with_efforts(self, efforts: Arc<Efforts>) -> Self {
        Self { efforts, ..self }
    }

    /// Serves this dashboard, too.
    pub(crate) fn with_dashboard(self, dashboard: Dashboard) -> Self {
        Self { dashboard: Some(Arc::new(dashboard)), ..self }
    }

    /// Answers requests on `listener` until `shutdown` is done; then every connection is closed at
    /// once, in the middle of an answer too, as the reference does.
    pub(crate) async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            () = shutdown => {}
            () = persist(SupervisedPart::Monitoring, || self.accept(&listener)) => {}
        }
    }

    async fn accept(&self, listener: &TcpListener) {
        let mut slots = ConnectionSlots::new(self.max_connections);
        let mut refused = RefusedConnections::default();
        let mut connections = Tasks::new(SupervisedPart::HttpConnection);
        loop {
            tokio::select! {
                Some(()) = connections.ended(), if !connections.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) if slots.make_room() => {
                        let pace = SharedPhase::new();
                        let task = connections.spawn(self.clone().attend(stream, peer, Arc::clone(&pace)));
                        slots.take(pace, task);
                    }
                    Ok(_) => refused.count(&*self.complain, self.max_connections),
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                },
            }
        }
    }

    /// Serves one connection until its peer leaves or breaks a rule. What went wrong with the HTTP
    /// is the peer's business only.
    async fn attend(self, stream: TcpStream, peer: SocketAddr, pace: Arc<SharedPhase>) {
        let Some(security) = self.security.clone() else { return self.converse(stream, peer, pace).await };
        match tokio::time::timeout(self.deadlines.head, security.secure(stream, peer)).await {
            Ok(Ok(stream)) => self.converse(stream, peer, pace).await,
            Ok(Err(error)) => self.report_handshake(peer, &error),
            Err(_) => self.report_handshake(peer, "i/o timeout"),
        }
    }

    fn report_handshake(&self, peer: SocketAddr, error: &str) {
        (self.complain)(format_args!("monitoring: TLS handshake error from {peer}: {error}"));
    }

    async fn converse<S: Carrier>(self, stream: S, peer: SocketAddr, pace: Arc<SharedPhase>) {
        let stream = Patient::new(stream, Arc::clone(&pace), self.deadlines);
        let stream = Readable::new(stream, Arc::clone(&pace));
        let leaving = Mutex::default();
        let service = service_fn(|request| {
            let answering = Answering::begin(&pace);
            let answer = self.respond(request, &leaving);
            async move { answer.await.map(|response| response.map(|body| body.owed(answering))) }
        });
        let _ = http1::Builder::new()
            .header_read_timeout(None)
            .half_close(true)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADER_LINES)
            .title_case_headers(true)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
        let leaving = lock(&leaving).take();
        if let (Some(leaving), Some(dashboard)) = (leaving, &self.dashboard) {
            let trusted = self.security.as_ref().map(|security| security.terms.get().trusted);
            dashboard.hand_over::<S>(leaving, peer, trusted.unwrap_or_default()).await;
        }
    }

    /// Answers one request. A connection that is to become a WebSocket is put into `leaving`.
    async fn respond(
        &self,
        mut request: Request<Incoming>,
        leaving: &Mutex<Option<PendingUpgrade>>,
    ) -> Result<Response<Body>, Infallible> {
        let (path, query) = match RequestTarget::of(&request) {
            RequestTarget::Page { path, query } => (path, query),
            RequestTarget::PageResponse(answer) => return Ok(answer),
        };
        match self.dashboard.as_ref().and_then(|dashboard| dashboard.answer(&request, &path)) {
            Some(DashboardAnswer::Response(response)) => return Ok(response),
            Some(DashboardAnswer::Socket(response, upgrade)) => {
                let stream = hyper::upgrade::on(&mut request);
                *lock(leaving) = Some(PendingUpgrade { upgrade, stream });
                return Ok(response);
            }
            None => {}
        }
        let app = Arc::clone(&self.app);
        let effort = (self.efforts)(&path);
        let render = move || app(&path, &query);
        let answer = match effort {
            Effort::None => supervise::guard(SupervisedPart::Page, render),
            Effort::Probe => self.probes.run(render).await,
            Effort::Page => self.renderers.run(render).await,
        };
        Ok(answer.map_or_else(failure, framed))
    }
}

fn framed(answer: PageResponse) -> Response<Body> {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut headers: Vec<_> = answer.headers.iter().collect();
    // Compat: Go sends them sorted.
    headers.sort_unstable();
    for (name, value) in headers {
        response.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

fn failure() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// Connections that found no slot, until the log says so.
#[derive(Debug, Default)]
struct RefusedConnections {
    count: u64,
    told: Option<Instant>,
}

impl RefusedConnections {
    fn count(&mut self, complain: &Complain, limit: usize) {
        self.count += 1;
        if self.told.is_some_and(|told| told.elapsed() < REPORT_INTERVAL) {
            return;
        }
        complain(format_args!("monitoring: {} connections refused, {limit} are being answered", self.count));
        *self = Self { count: 0, told: Some(Instant::now()) };
    }
}

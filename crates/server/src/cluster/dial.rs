//! Dialling other servers: attempt after attempt, and when it is too late or enough.

use crate::listener;
use crate::logging::Logger;
use crate::os_error;
use crate::shard::{LinkSecurity, LinkWith, Mail, Mailbox, NewLink};
use crate::supervise::{self, SupervisedPart};
use crate::tls::LinkTls;
use myelin_mesh::{Dial, DialCause, LinkSide, Mesh, RouteUrl};
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// Pause between two attempts, and the longest with `connect_backoff`.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Pause before a configured server is dialled again after its link has ended.
const AGAIN: Duration = Duration::from_secs(1);
/// Random part of every pause before that: two servers that dial each other at once should not go
/// on to do so.
const JITTER: u64 = 100;
/// Longest pause before that where a reload of this server has ended the link.
const AFTER_RELOAD: u64 = 20;
/// Time for the other side to accept.
const TIMEOUT: Duration = Duration::from_secs(1);

/// TLS by which a server of another cluster is dialled: the cluster and the host are given.
pub(crate) type ForeignSecurity = Arc<dyn Fn(&str, &str) -> Option<LinkSecurity> + Send + Sync>;

/// Dials other servers on the control runtime.
pub(super) struct Dialler {
    mesh: OnceLock<Weak<Mesh>>,
    mailboxes: Vec<Mailbox>,
    log: Arc<Logger>,
    control: Handle,
    /// Where this server itself would answer.
    own: HashSet<SocketAddr>,
    tls: Arc<LinkTls>,
    /// How servers of other clusters are dialled, where there is a gateway.
    foreign: Option<ForeignSecurity>,
}

impl Dialler {
    pub(super) fn new(
        mailboxes: &[Mailbox],
        log: &Arc<Logger>,
        control: &Handle,
        (own, tls, foreign): (HashSet<SocketAddr>, &Arc<LinkTls>, Option<ForeignSecurity>),
    ) -> Self {
        Self {
            mesh: OnceLock::new(),
            mailboxes: mailboxes.to_vec(),
            log: Arc::clone(log),
            control: control.clone(),
            own,
            tls: Arc::clone(tls),
            foreign,
        }
    }

    /// From now on there is a mesh for which it dials.
    pub(super) fn begin(&self, mesh: &Arc<Mesh>) {
        let _ = self.mesh.set(Arc::downgrade(mesh));
    }

    pub(super) fn dial(self: &Arc<Self>, dial: Dial) {
        let dialler = Arc::clone(self);
        supervise::spawn_guarding_on(&self.control, async move {
            supervise::persist(SupervisedPart::Dial, || dialler.run(dial.clone())).await;
        });
    }

    fn mesh(&self) -> Option<Arc<Mesh>> {
        self.mesh.get()?.upgrade().filter(|mesh| !mesh.is_stopping())
    }

    async fn run(&self, dial: Dial) {
        if let Some(pause) = pause_before(&dial) {
            self.log
                .debug(format_args!("Attempting reconnect for solicited route {:?}", dial.url.redacted()));
            tokio::time::sleep(pause).await;
        }
        let (mut attempts, mut pause) = (0_u32, PAUSE);
        while let Some(mesh) = self.mesh() {
            if !mesh.is_wanted(&dial) {
                return;
            }
            let config = mesh.config();
            drop(mesh);
            let error = match self.attempt(&dial.url).await {
                Ok(Some((stream, peer))) => return self.hand_over(stream, peer, dial),
                Ok(None) => {
                    self.mesh().iter().for_each(|mesh| mesh.leads_to_self(&dial.url));
                    return;
                }
                Err(error) => error,
            };
            attempts += 1;
            let is_new = dial.cause == DialCause::New;
            let one_of = if is_new { config.connect_error_reports } else { config.reconnect_error_reports };
            let is_reported = attempts == 1 || attempts.is_multiple_of(one_of.max(1));
            self.report(is_reported, attempts, &error);
            let goes_on = dial.is_explicit || dial.server.is_some();
            if !goes_on && attempts > config.connect_retries {
                return;
            }
            tokio::time::sleep(pause).await;
            // A server that has other links answers soon, or is not wanted any more.
            if config.connect_backoff && dial.server.is_none() {
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    fn report(&self, is_reported: bool, attempts: u32, error: &str) {
        let line = format_args!("Error trying to connect to route (attempt {attempts}): {error}");
        if is_reported { self.log.error(line) } else { self.log.debug(line) }
    }

    /// One attempt, at one of the server's addresses; `None` if they are all of this server.
    async fn attempt(&self, url: &RouteUrl) -> Result<Option<(TcpStream, SocketAddr)>, String> {
        let host = url.host.clone();
        let found = tokio::net::lookup_host((host.as_str(), url.port)).await;
        let found =
            found.map_err(|error| format!("lookup for host {host:?}: {}", os_error::words(&error)))?;
        let all: Vec<_> = found.filter(|address| !self.own.contains(address)).collect();
        let Some(address) = all.get(RandomState::new().hash_one(url) as usize % all.len().max(1)) else {
            return Ok(None);
        };
        let shown = url.address();
        self.log.debug(format_args!("Trying to connect to route on {shown} ({address})"));
        let failed = |error: &io::Error| format!("dial tcp {address}: connect: {}", os_error::words(error));
        match tokio::time::timeout(TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => Ok(Some((stream, *address))),
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => Err(format!("dial tcp {address}: i/o timeout")),
        }
    }

    fn hand_over(&self, stream: TcpStream, peer: SocketAddr, dial: Dial) {
        let Some(mesh) = self.mesh() else { return };
        match stream.into_std() {
            Ok(stream) => {
                let of_route = || {
                    let offer = self.tls.get()?;
                    let name = offer.name_of(&dial.url.host);
                    Some(LinkSecurity::Route(offer, Some(name)))
                };
                let security = match &dial.cluster {
                    Some(cluster) => {
                        self.foreign.as_ref().and_then(|security| security(cluster, &dial.url.host))
                    }
                    None => of_route(),
                };
                let with = LinkWith::Route(mesh, LinkSide::Dialled(dial));
                let new = NewLink { stream, peer, with, security, upgrade: None };
                listener::place(&self.mailboxes, Mail::Link(Box::new(new)));
            }
            Err(error) => self.log.error(format_args!("route socket: {}", os_error::words(&error))),
        }
    }
}

/// Pause before the first attempt.
fn pause_before(dial: &Dial) -> Option<Duration> {
    let again = if dial.is_explicit || dial.server.is_some() { AGAIN } else { Duration::ZERO };
    let (least, random) = match dial.cause {
        DialCause::New => return None,
        DialCause::Ended => (again, JITTER),
        DialCause::Reloaded => (Duration::ZERO, AFTER_RELOAD),
    };
    Some(least + Duration::from_millis(RandomState::new().hash_one(&dial.url) % random))
}

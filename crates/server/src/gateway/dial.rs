//! Dialling other clusters: attempt after attempt, at one address after the other.

use super::RemoteOffers;
use crate::listener;
use crate::logging::Logger;
use crate::os_error;
use crate::shard::{LinkSecurity, LinkWith, Mail, Mailbox, NewLink};
use crate::supervise::{self, SupervisedPart};
use crate::tls::LinkTls;
use myelin_mesh::RouteUrl;
use myelin_mesh::gateway::Gateways;
use myelin_mesh::gateway::remote::GatewayRemote;
use myelin_mesh::gateway::session::GatewayDial;
use myelin_stdx::sync::{read_lock, write_lock};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, RwLock, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// Pause between two attempts, and the longest with `connect_backoff`.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Pause before a configured cluster is dialled again after its link has ended.
const AGAIN: Duration = Duration::from_secs(1);
/// Random part of every pause before that.
const JITTER: u64 = 100;
/// Time for the other side to accept.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Dials other clusters on the control runtime.
pub(super) struct GatewayDialler {
    gateways: OnceLock<Weak<Gateways>>,
    mailboxes: Vec<Mailbox>,
    log: Arc<Logger>,
    control: Handle,
    tls: Arc<LinkTls>,
    remotes: RwLock<RemoteOffers>,
}

/// A socket, where it leads to, and the address as it was known.
type Dialled = (TcpStream, SocketAddr, RouteUrl);

impl GatewayDialler {
    pub(super) fn new(
        mailboxes: &[Mailbox],
        log: &Arc<Logger>,
        control: &Handle,
        (tls, remotes): (&Arc<LinkTls>, RemoteOffers),
    ) -> Self {
        Self {
            gateways: OnceLock::new(),
            mailboxes: mailboxes.to_vec(),
            log: Arc::clone(log),
            control: control.clone(),
            tls: Arc::clone(tls),
            remotes: RwLock::new(remotes),
        }
    }

    /// From now on it dials for these.
    pub(super) fn begin(&self, gateways: &Arc<Gateways>) {
        let _ = self.gateways.set(Arc::downgrade(gateways));
    }

    /// Other TLS for the clusters that have their own.
    pub(super) fn set_remotes(&self, remotes: RemoteOffers) {
        *write_lock(&self.remotes) = remotes;
    }

    /// TLS for a server of another cluster, at this host.
    pub(super) fn security(&self, cluster: &str, host: &str) -> Option<LinkSecurity> {
        let own = read_lock(&self.remotes).get(cluster).cloned();
        let offer = own.or_else(|| self.tls.get())?;
        let name = offer.name_of(host);
        Some(LinkSecurity::Gateway(offer, Some(name)))
    }

    /// Dials a cluster until one of its servers answers, or it is given up.
    pub(super) fn dial(self: &Arc<Self>, remote: Arc<GatewayRemote>, is_first: bool) {
        let dialler = Arc::clone(self);
        supervise::spawn_guarding_on(&self.control, async move {
            supervise::persist(SupervisedPart::Dial, || dialler.run(Arc::clone(&remote), is_first)).await;
        });
    }

    fn gateways(&self, remote: &GatewayRemote) -> Option<Arc<Gateways>> {
        let gateways = self.gateways.get()?.upgrade()?;
        (!gateways.is_stopping() && !remote.is_removed()).then_some(gateways)
    }

    async fn run(&self, remote: Arc<GatewayRemote>, is_first: bool) {
        if !is_first {
            let jitter = RandomState::new().hash_one(remote.name()) % JITTER;
            tokio::time::sleep(AGAIN + Duration::from_millis(jitter)).await;
        }
        let (mut attempts, mut pause) = (0_u32, PAUSE);
        while let Some(gateways) = self.gateways(&remote) {
            let config = gateways.config();
            drop(gateways);
            attempts += 1;
            let one_of = if is_first { config.connect_error_reports } else { config.reconnect_error_reports };
            let is_reported = attempts == 1 || attempts.is_multiple_of(one_of.max(1));
            if let Some(dialled) = self.attempt(&remote, attempts, is_reported).await {
                return self.hand_over(&remote, dialled);
            }
            let is_enough = config.connect_retries == 0 || attempts > config.connect_retries;
            if remote.is_implicit() && is_enough {
                match self.gateways(&remote) {
                    Some(gateways) if !gateways.gives_up(&remote) => {}
                    _ => return,
                }
            }
            tokio::time::sleep(pause).await;
            if config.connect_backoff {
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// One attempt at each address, in an order left to chance.
    async fn attempt(&self, remote: &GatewayRemote, attempts: u32, is_reported: bool) -> Option<Dialled> {
        let mut urls = remote.urls();
        let seeds = RandomState::new();
        urls.sort_by_cached_key(|url| seeds.hash_one(url));
        for url in urls {
            self.gateways(remote)?;
            if let Some((stream, address)) = self.attempt_at(remote, &url, (attempts, is_reported)).await {
                return Some((stream, address, url));
            }
        }
        None
    }

    async fn attempt_at(
        &self,
        remote: &GatewayRemote,
        url: &RouteUrl,
        (attempts, is_reported): (u32, bool),
    ) -> Option<(TcpStream, SocketAddr)> {
        let (kind, name, shown) = (remote.kind(), remote.name(), url.address());
        let found = tokio::net::lookup_host((url.host.as_str(), url.port)).await;
        let all: Vec<_> = match found {
            Ok(found) => found.collect(),
            Err(error) => {
                let reason = format!("lookup {}: {}", url.host, os_error::words(&error));
                self.log
                    .error(format_args!("Error getting IP for {kind} gateway {name:?} ({shown}): {reason}"));
                return None;
            }
        };
        let address = *all.get(RandomState::new().hash_one(url) as usize % all.len().max(1))?;
        let what = format!("{kind} gateway {name:?} ({shown}) at {address} (attempt {attempts})");
        if is_reported {
            self.log.info(format_args!("Connecting to {what}"));
        } else {
            self.log.debug(format_args!("Connecting to {what}"));
        }
        let failed = |error: &io::Error| format!("dial tcp {address}: connect: {}", os_error::words(error));
        let error = match tokio::time::timeout(TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Some((stream, address)),
            Ok(Err(error)) => failed(&error),
            Err(_) => format!("dial tcp {address}: i/o timeout"),
        };
        let line = format_args!("Error connecting to {what}: {error}");
        if is_reported {
            self.log.error(line)
        } else {
            self.log.debug(line)
        }
        None
    }

    fn hand_over(&self, remote: &Arc<GatewayRemote>, (stream, peer, url): Dialled) {
        let Some(gateways) = self.gateways(remote) else { return };
        match stream.into_std() {
            Ok(stream) => {
                let security = self.security(remote.name(), &url.host);
                let with = LinkWith::Gateway(gateways, GatewayDial::Dialled(Arc::clone(remote), url));
                let new = NewLink { stream, peer, with, security, upgrade: None };
                listener::place(&self.mailboxes, Mail::Link(Box::new(new)));
            }
            Err(error) => self.log.error(format_args!("gateway socket: {}", os_error::words(&error))),
        }
    }
}

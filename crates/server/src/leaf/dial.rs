//! Dialling hubs: attempt after attempt, at one address after the other.

use super::LeafParts;
use super::proxy::HttpProxy;
use crate::jetstream::Current;
use crate::listener;
use crate::logging::Logger;
use crate::os_error;
use crate::shard::{LinkSecurity, LinkUpgrade, LinkWith, Mail, Mailbox, NewLink};
use crate::supervise::{self, SupervisedPart};
use crate::tls::HubTls;
use myelin_auth::KeyPair;
use myelin_auth::operator::Accounts;
use myelin_broker::Broker;
use myelin_conf::options::{ClusterMigrate, Options};
use myelin_jetstream::JetStream;
use myelin_mesh::leaf::LeafNodes;
use myelin_mesh::leaf::remote::{LeafKey, LeafRemote, LeafSigner, LeafUrl};
use myelin_mesh::leaf::session::{LeafDial, LeafSide};
use myelin_stdx::sync::{read_lock, write_lock};
use myelin_wire::websocket::upgrade::Solicitation;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, RwLock, Weak};
use std::time::{Duration, Instant, SystemTime};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// Means to reach a hub: the `means` of its configuration.
pub(super) struct Means {
    /// Exchanged by a reload; the link that is there keeps what it has.
    pub(super) terms: RwLock<Arc<HubTerms>>,
    /// Whether compressed messages are offered to a hub over WebSocket.
    pub(super) ws_compression: bool,
    /// Whether such a hub is asked to do without masks.
    pub(super) ws_no_masking: bool,
    /// Whether others lead the streams of its account while it cannot be reached.
    pub(super) migrates: ClusterMigrate,
}

/// Terms of a remote that stays, which a reload may exchange.
pub(super) struct HubTerms {
    pub(super) tls: Arc<HubTls>,
    /// Proxy through which the hub is reached.
    pub(super) proxy: Option<HttpProxy>,
}

impl Means {
    fn of(remote: &LeafRemote) -> Option<&Self> {
        remote.config.means.downcast_ref()
    }

    fn terms(&self) -> Arc<HubTerms> {
        Arc::clone(&read_lock(&self.terms))
    }

    /// Gives `remote` the terms of another remote for the same hub.
    pub(super) fn exchange(remote: &LeafRemote, other: &LeafRemote) {
        if let (Some(means), Some(other)) = (Self::of(remote), Self::of(other)) {
            *write_lock(&means.terms) = other.terms();
        }
    }

    /// The request for a WebSocket, where the hub's address is one.
    fn solicitation(&self, url: &LeafUrl) -> Option<Solicitation> {
        let web_socket = url.web_socket.as_ref()?;
        let seeds = RandomState::new();
        let key = u128::from(seeds.hash_one(0)) << 64 | u128::from(seeds.hash_one(1));
        Some(Solicitation {
            host: url.address(),
            path: web_socket.path.clone(),
            key: key.to_be_bytes(),
            compresses: self.ws_compression,
            no_masking: self.ws_no_masking,
        })
    }
}

/// Streams of an account whose leaders are elsewhere as long as its hub cannot be reached.
struct Migration<'d> {
    account: String,
    /// After how long without the hub, if at all. At the earliest before the second attempt.
    delay: Option<Duration>,
    jetstream: &'d Arc<Current>,
    /// When they are to be elsewhere, once an attempt has failed, if that is not at once.
    due: Option<Instant>,
    /// Whether that was done, and is done once.
    is_over: bool,
}

impl<'d> Migration<'d> {
    fn new(remote: &LeafRemote, jetstream: &'d Arc<Current>) -> Self {
        let delay = match Means::of(remote).map(|means| means.migrates) {
            Some(ClusterMigrate::After(delay)) => Some(delay),
            Some(ClusterMigrate::Off) | None => None,
        };
        Self { account: remote.config.account.clone(), delay, jetstream, due: None, is_over: false }
    }

    /// An attempt has failed: waits for the next one.
    async fn pause(&mut self, pause: Duration) {
        let now = Instant::now();
        let end = now + pause;
        if let Some(delay) = self.delay {
            // Compat: without a delay it is when the pause is over, and again after each one, for
            // streams that were made meanwhile; with one it is once.
            let due = if delay.is_zero() { end } else { *self.due.get_or_insert(now + delay) };
            if due <= end && !self.is_over {
                tokio::time::sleep_until(due.into()).await;
                self.with_jetstream(JetStream::set_aside_in).await;
                self.is_over = !delay.is_zero();
            }
        }
        tokio::time::sleep_until(end.into()).await;
    }

    /// The hub is there.
    async fn end(&self) {
        self.with_jetstream(JetStream::lead_again_in).await;
    }

    /// Does something with JetStream and the account, on a thread that may wait, before anything
    /// else of this.
    async fn with_jetstream(&self, act: fn(&JetStream, &str)) {
        let Some(jetstream) = self.delay.and_then(|_| self.jetstream.get()) else { return };
        let account = self.account.clone();
        let act = move || act(&jetstream, &account);
        // A panic in there is in the log.
        let _ = supervise::blocking_on(&Handle::current(), SupervisedPart::Dial, act).await;
    }
}

/// How many failed attempts make one error in the log: the first time that a hub is dialled, and
/// later.
pub(super) fn reports(options: &Options) -> [u32; 2] {
    [options.logging.connect_error_reports, options.logging.reconnect_error_reports]
}

/// Dials hubs on the control runtime.
pub(super) struct Dialler {
    nodes: OnceLock<Weak<LeafNodes>>,
    broker: Arc<Broker>,
    mailboxes: Vec<Mailbox>,
    log: Arc<Logger>,
    control: Handle,
    jetstream: Arc<Current>,
    reconnect: Duration,
    /// One of so many failed attempts is an error in the log: the first time, and later.
    reports: [AtomicU32; 2],
}

impl Dialler {
    pub(super) fn new(parts: LeafParts<'_>, options: &Options) -> Self {
        let LeafParts { broker, mailboxes, log, control, jetstream } = parts;
        Self {
            nodes: OnceLock::new(),
            broker: Arc::clone(broker),
            mailboxes: mailboxes.to_vec(),
            log: Arc::clone(log),
            control: control.clone(),
            jetstream: Arc::clone(jetstream),
            reconnect: options.leaf_nodes.reconnect,
            reports: reports(options).map(AtomicU32::new),
        }
    }

    /// Takes over which failed attempts are errors in the log.
    pub(super) fn set_reports(&self, reports: [u32; 2]) {
        self.reports.iter().zip(reports).for_each(|(one_of, now)| one_of.store(now, Relaxed));
    }

    /// From now on it dials for these.
    pub(super) fn begin(&self, nodes: &Arc<LeafNodes>) {
        let _ = self.nodes.set(Arc::downgrade(nodes));
    }

    /// Dials a hub until it answers or is removed.
    pub(super) fn dial(self: &Arc<Self>, remote: Arc<LeafRemote>, is_first: bool) {
        let dialler = Arc::clone(self);
        supervise::spawn_guarding_on(&self.control, async move {
            supervise::persist(SupervisedPart::Dial, || dialler.run(Arc::clone(&remote), is_first)).await;
        });
    }

    fn nodes(&self, remote: &LeafRemote) -> Option<Arc<LeafNodes>> {
        let nodes = self.nodes.get()?.upgrade()?;
        (!nodes.is_stopping() && !remote.is_removed()).then_some(nodes)
    }

    async fn run(&self, remote: Arc<LeafRemote>, is_first: bool) {
        if !is_first {
            tokio::time::sleep(self.reconnect).await;
        }
        tokio::time::sleep(remote.take_delay()).await;
        let mut attempts = 0_u32;
        let mut migration = Migration::new(&remote, &self.jetstream);
        while let Some(nodes) = self.nodes(&remote) {
            let Some(url) = remote.next_url() else { break };
            match self.attempt(&remote, &url).await {
                Ok((stream, peer)) => {
                    self.hand_over(nodes, (stream, peer), &remote, url).await;
                    // Compat: a connection is enough; the hub may refuse it still.
                    return migration.end().await;
                }
                Err(error) => {
                    drop(nodes);
                    attempts += 1;
                    self.report(is_first, attempts, &url, &error);
                }
            }
            // Compat: between once and twice the wait.
            let part = RandomState::new().hash_one(attempts) as f64 / u64::MAX as f64;
            let pause = self.reconnect.mul_f64(1.0 + part);
            migration.pause(pause).await;
        }
        // A hub that was taken out of the configuration.
        migration.end().await;
    }

    fn report(&self, is_first: bool, attempts: u32, url: &LeafUrl, error: &str) {
        let one_of = self.reports[usize::from(!is_first)].load(Relaxed);
        let address = url.address();
        let what = format_args!("{address:?} (attempt {attempts}): {error}");
        let line = format_args!("Error trying to connect as leafnode to remote server {what}");
        if attempts == 1 || attempts.is_multiple_of(one_of.max(1)) {
            self.log.error(line);
        } else {
            self.log.debug(line);
        }
    }

    /// One attempt, at one of the addresses of a name.
    async fn attempt(&self, remote: &LeafRemote, url: &LeafUrl) -> Result<(TcpStream, SocketAddr), String> {
        let found = tokio::net::lookup_host((url.host.as_str(), url.port)).await;
        let found = found.map_err(|error| format!("lookup {}: {}", url.host, os_error::words(&error)))?;
        let all: Vec<_> = found.collect();
        let address = all.get(RandomState::new().hash_one(url.port) as usize % all.len().max(1));
        let address = *address.ok_or_else(|| format!("lookup {}: no such host", url.host))?;
        let shown = url.address();
        let by = if shown == address.to_string() { String::new() } else { format!(" ({address})") };
        self.log.debug(format_args!("Trying to connect as leafnode to remote server on {shown:?}{by}"));
        let terms = Means::of(remote).map(Means::terms);
        if let Some(proxy) = terms.as_ref().and_then(|terms| terms.proxy.as_ref()) {
            return proxy.tunnel(&shown).await;
        }
        let failed = |error: &io::Error| format!("dial tcp {address}: connect: {}", os_error::words(error));
        match tokio::time::timeout(remote.config.dial_timeout, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => Ok((stream, address)),
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => Err(format!("dial tcp {address}: i/o timeout")),
        }
    }

    async fn hand_over(
        &self,
        nodes: Arc<LeafNodes>,
        (stream, peer): (TcpStream, SocketAddr),
        remote: &Arc<LeafRemote>,
        url: LeafUrl,
    ) {
        self.fetch_account(&remote.config.account).await;
        let signer = match signer(&remote.config.key, &self.control).await {
            Ok(signer) => signer.map(Arc::new),
            Err(error) => {
                self.log.error(error);
                // Nobody else dials it again.
                tokio::time::sleep(self.reconnect).await;
                nodes.try_again(Arc::clone(remote));
                return;
            }
        };
        match stream.into_std() {
            Ok(stream) => {
                let means = Means::of(remote);
                let is_plain = url.web_socket.as_ref().is_some_and(|web_socket| !web_socket.is_secure);
                let security = means.filter(|_| !is_plain).map(|means| {
                    let tls = Arc::clone(&means.terms().tls);
                    let name = tls.borrowed.name_of(&url.host);
                    LinkSecurity::Hub(tls, name)
                });
                let patience = remote.config.first_info_timeout;
                let upgrade = means.and_then(|means| means.solicitation(&url));
                let upgrade = upgrade.map(|solicitation| LinkUpgrade::Dialled(solicitation, patience));
                let dial = LeafDial { remote: Arc::clone(remote), url, signer };
                let with = LinkWith::LeafNode(nodes, LeafSide::Dialled(dial));
                let new = NewLink { stream, peer, with, security, upgrade };
                listener::place(&self.mailboxes, Mail::Link(Box::new(new)));
            }
            Err(error) => self.log.error(format_args!("leafnode socket: {}", os_error::words(&error))),
        }
    }
}

impl Dialler {
    /// Has the account of a token come, where it is not here yet. The link complains where there is
    /// none.
    async fn fetch_account(&self, name: &str) {
        if self.broker.account(name).is_some() {
            return;
        }
        let (broker, key) = (Arc::clone(&self.broker), name.to_owned());
        let fetching = supervise::blocking_on(&self.control, SupervisedPart::Dial, move || {
            Accounts::account(&*broker, &key, SystemTime::now()).map(drop)
        });
        if let Ok(Some(Err(error))) = fetching.await {
            self.log.debug(format_args!("Account {name} of a leafnode remote was not found: {error}"));
        }
    }
}

/// The key by which a hub lets this server in, as it is now.
async fn signer(key: &LeafKey, control: &Handle) -> Result<Option<LeafSigner>, String> {
    let of_seed = |seed: &str, jwt: String| {
        let pair = KeyPair::from_seed(seed.trim()).ok_or("Credentials file has malformed seed")?;
        Ok(Some(LeafSigner { jwt, pair }))
    };
    match key {
        LeafKey::None => Ok(None),
        LeafKey::Seed(seed) => of_seed(seed.text().unwrap_or_default(), String::new()),
        LeafKey::File(path) => {
            let path = expand(path);
            let reading = path.clone();
            let reading = supervise::blocking_on(control, SupervisedPart::Dial, move || {
                std::fs::read_to_string(reading)
            });
            let text = reading.await.ok().flatten().ok_or("Credentials file was not read")?;
            let text =
                text.map_err(|error| format!("open {}: {}", path.display(), os_error::words(&error)))?;
            let mut parts = decorated(&text).into_iter();
            let (Some(jwt), Some(seed)) = (parts.next(), parts.next()) else {
                return Err("Credentials file malformed".to_owned());
            };
            of_seed(seed, jwt.to_owned())
        }
    }
}

/// Texts between lines of dashes.
fn decorated(text: &str) -> Vec<&str> {
    let is_rule = |line: &str| line.trim().starts_with("---") && line.trim().ends_with("---");
    let lines: Vec<_> = text.lines().collect();
    let inside = lines.windows(3).filter(|three| is_rule(three[0]) && is_rule(three[2]));
    inside.map(|three| three[1].trim()).filter(|line| !line.is_empty()).collect()
}

/// A path that may begin with `~` and hold `$VARIABLES`.
fn expand(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let mut parts = text.splitn(2, "~/");
    let home = match (parts.next(), parts.next()) {
        (Some(""), Some(rest)) => {
            std::env::var("HOME").map_or_else(|_| text.to_string(), |home| format!("{home}/{rest}"))
        }
        _ => text.to_string(),
    };
    let named = |part: &str| match part.strip_prefix('$') {
        Some(name) => std::env::var(name).unwrap_or_default(),
        None => part.to_owned(),
    };
    home.split('/').map(named).collect::<Vec<_>>().join("/").into()
}

#[cfg(test)]
mod tests {
    use super::decorated;

    #[test]
    fn a_file_of_credentials_has_a_token_and_a_seed() {
        let text = "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n\n\
                    ************************* IMPORTANT *************************\nkeep it\n\n\
                    -----BEGIN USER NKEY SEED-----\r\nSUAB\r\n------END USER NKEY SEED------\r\n";
        assert_eq!(decorated(text), ["eyJ0", "SUAB"]);
        assert!(decorated("nothing\n---\n").is_empty());
    }
}

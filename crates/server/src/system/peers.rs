//! Messages of other servers in the system account: that they are there, that they go,
//! how many connections accounts have there.
//!
//! Listens only where there is a cluster. A server that is heard for the first time is told of this
//! one at once, and asked for the accounts whose connections are limited: a limit holds for the
//! whole cluster. A server is forgotten when it says that it goes, or when there has been no link
//! to it for two looks.
//!
//! Compat: the reference waits for up to four minutes until it forgets a server that says nothing.

use super::limited_accounts::{LimitedAccounts, is_limited};
use super::schedule::EventSchedule;
use super::tokens::TokenQuestions;
use super::{Job, System};
use crate::resolver::TokenPeers;
use myelin_broker::{Broker, ConnectionCount, Reach, Service, ServiceBatch, ServiceShard};
use myelin_stdx::sync::lock;
use myelin_wire::json::compact;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Servers that are remembered at most: any member of the system account can make some up.
const MOST_SERVERS: usize = 4096;

/// Names by which other servers find this one, and what they were asked.
pub(super) struct PeerNames {
    /// Eight characters made of the server's name.
    node: String,
    /// Accounts about whose connections all other servers were asked.
    asked: Mutex<HashSet<String>>,
    /// How many other servers are known that have said of themselves that they are there.
    pub(super) heard: AtomicUsize,
    pub(super) tokens: TokenQuestions,
    pub(super) limited: LimitedAccounts,
}

impl PeerNames {
    pub(super) fn of(broker: &Broker) -> Self {
        let node = myelin_stdx::id::short(&Sha256::digest(broker.name().as_bytes())[..8]);
        broker.set_node(&node);
        Self {
            node,
            asked: Mutex::default(),
            heard: AtomicUsize::default(),
            tokens: TokenQuestions::default(),
            limited: LimitedAccounts::default(),
        }
    }

    /// A subject at which an answer of another server is awaited.
    pub(super) fn inbox(&self, id: &str) -> String {
        format!("$SYS._INBOX.{}.{id}", self.node)
    }
}

/// A message of another server.
pub(super) struct PeerMessage {
    pub(super) subject: String,
    pub(super) body: Vec<u8>,
}

/// Service on the subjects at which servers tell each other of themselves.
pub(super) struct PeerIntake(Weak<System>);

impl PeerIntake {
    /// Takes what other servers say from now on, where there may be any.
    pub(super) fn open(system: &Arc<System>) {
        if !system.broker.is_clustered() {
            return;
        }
        let front: Arc<dyn Service> = Arc::new(Self(Arc::downgrade(system)));
        let (id, node) = (&system.id, &system.peers.node);
        let subjects = [
            "$SYS.SERVER.ACCOUNT.*.CONNS".to_owned(),
            "$SYS.SERVER.*.STATSZ".to_owned(),
            "$SYS.SERVER.*.SHUTDOWN".to_owned(),
            "$SYS.SERVER.*.LAMEDUCK".to_owned(),
            format!("$SYS._INBOX_.{id}"),
            format!("$SYS._INBOX.{node}.*"),
            format!("$SYS.LATENCY.M2.{node}"),
        ];
        for subject in subjects {
            system.account.bind(subject.as_bytes(), Arc::clone(&front));
        }
    }
}

impl Service for PeerIntake {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        if let Some(system) = self.0.upgrade() {
            for (at, msg) in msgs.iter().enumerate() {
                if msgs.origin(at).is_some_and(|origin| !origin.is_own()) {
                    let subject = String::from_utf8_lossy(msg.subject).into_owned();
                    system.note(Job::Peer(PeerMessage { subject, body: msg.payload.to_vec() }));
                }
            }
        }
        msgs.clear();
    }

    fn wants_origin(&self) -> bool {
        true
    }

    fn reach(&self) -> Reach {
        Reach::Elsewhere
    }
}

/// Other servers that were heard.
#[derive(Default)]
pub(super) struct KnownServers(HashMap<String, KnownServer>);

struct KnownServer {
    /// Whether there was a link to it at the last look.
    was_linked: bool,
    /// When it was heard last, if it is of another cluster: there need be no link to it.
    heard: Option<Instant>,
}

/// Time in which a server of another cluster says something of itself.
const SILENCE: Duration = Duration::from_secs(150);

#[derive(Deserialize)]
struct SaidServer {
    id: String,
    #[serde(default)]
    cluster: String,
}

/// Beginning of what a server says of itself.
#[derive(Deserialize)]
struct Said {
    server: SaidServer,
}

#[derive(Deserialize)]
struct SaidConnections {
    server: SaidServer,
    acc: String,
    #[serde(default)]
    conns: i64,
    #[serde(default)]
    leafnodes: i64,
}

impl System {
    /// Takes what another server says.
    pub(super) fn hear_peer(&self, message: &PeerMessage, pace: &mut EventSchedule) {
        let PeerMessage { subject, body } = message;
        let third = subject.split('.').nth(2).unwrap_or_default();
        if self.is_for_packs(subject) {
            self.hear_pack(body);
        } else if subject.starts_with("$SYS._INBOX.") {
            if !self.hear_token(subject, body) {
                self.hear_gathered(subject, body, pace);
            }
        } else if subject.starts_with("$SYS.LATENCY.M2.") {
            self.hear_latency(body);
        } else if subject.ends_with(".CONNS") || subject.starts_with("$SYS._INBOX_.") {
            self.hear_connections(body, pace);
        } else if subject.ends_with(".STATSZ") {
            match serde_json::from_slice::<Said>(body) {
                Ok(said) => self.hear_server(&said.server, pace),
                Err(_) => {
                    self.log.debug(format_args!("Received bad server info for remote server update"));
                }
            }
        } else if pace.servers.0.remove(third).is_some() {
            self.broker.forget_elsewhere(third);
            self.peers.heard.store(pace.servers.0.len(), Relaxed);
        }
    }

    /// Has tokens that are not here asked for elsewhere, where there are other servers.
    pub(super) fn know_token_peers(self: &Arc<Self>) {
        if let Some(tokens) = self.tokens.as_ref().filter(|_| self.broker.is_clustered()) {
            let peers: Arc<dyn TokenPeers> = Arc::clone(self) as Arc<dyn TokenPeers>;
            tokens.set_peers(Arc::downgrade(&peers));
        }
    }

    fn hear_latency(&self, body: &[u8]) {
        match self.broker.take_latency(body, Instant::now()) {
            Ok(None) => {}
            Ok(Some(event)) => self.publish_event(&event.account, &event.subject, &event.report),
            Err(error) => {
                let what = "Error unmarshalling remote latency measurement";
                self.log.error(format_args!("{what}: {error}"));
            }
        }
    }

    fn hear_connections(&self, body: &[u8], pace: &mut EventSchedule) {
        let said: SaidConnections = match serde_json::from_slice(body) {
            Ok(said) => said,
            Err(error) => {
                let what = "Error unmarshalling account connection event message";
                return self.log.error(format_args!("{what}: {error}"));
            }
        };
        if said.server.id == self.id {
            return;
        }
        // Compat: what is not used here is not counted here.
        if let Some(account) = self.broker.account(&said.acc) {
            let number = |count: i64| u32::try_from(count.max(0)).unwrap_or(u32::MAX);
            let count = ConnectionCount { clients: number(said.conns), leaf_nodes: number(said.leafnodes) };
            self.broker.count_elsewhere(&account, &said.server.id, count);
        }
        self.hear_server(&said.server, pace);
    }

    /// A server is there. One that was not there before is greeted.
    fn hear_server(&self, SaidServer { id, cluster }: &SaidServer, pace: &mut EventSchedule) {
        let servers = &mut pace.servers.0;
        let heard = (!cluster.is_empty() && *cluster != **self.broker.cluster()).then(Instant::now);
        if let Some(known) = servers.get_mut(id) {
            known.heard = heard;
            return;
        }
        if *id == self.id || servers.len() >= MOST_SERVERS {
            return;
        }
        servers.insert(id.clone(), KnownServer { was_linked: true, heard });
        self.peers.heard.store(servers.len(), Relaxed);
        pace.greet(Instant::now());
        let limited = self.broker.accounts().into_iter();
        let limited = limited.filter(|account| is_limited(account));
        let names: HashSet<String> = limited.map(|account| account.name().to_owned()).collect();
        names.iter().for_each(|name| self.ask_counts(name));
        *lock(&self.peers.asked) = names;
    }

    /// Forgets servers to which there has been no link at this look and the one before.
    pub(super) fn forget_gone_servers(&self, pace: &mut EventSchedule) {
        if pace.servers.0.is_empty() {
            return;
        }
        let linked = self.monitor.linked_servers();
        pace.servers.0.retain(|id, known| {
            let is_linked = linked.contains(id);
            let is_heard = known.heard.is_some_and(|heard| heard.elapsed() < SILENCE);
            let stays = is_linked || known.was_linked || is_heard;
            known.was_linked = is_linked;
            if !stays {
                self.log.debug(format_args!("Detected orphan remote server: \"{id}\""));
                self.broker.forget_elsewhere(id);
            }
            stays
        });
        self.peers.heard.store(pace.servers.0.len(), Relaxed);
    }

    /// Has other servers asked about an account whose connections are limited, once.
    pub(super) fn ask_once(&self, account: &str) {
        if self.broker.is_clustered() && lock(&self.peers.asked).insert(account.to_owned()) {
            self.note(Job::AskCounts(account.to_owned()));
        }
    }

    /// Asks all other servers how many connections of an account they have.
    pub(super) fn ask_counts(&self, account: &str) {
        let subject = format!("$SYS.REQ.ACCOUNT.{account}.CONNS");
        let inbox = format!("$SYS._INBOX_.{}", self.id);
        self.request(&subject, &inbox, &self.about_account(account));
    }

    /// Document in which servers tell each other of an account by its name.
    pub(super) fn about_account(&self, account: &str) -> Vec<u8> {
        #[derive(Serialize)]
        struct AboutAccount<'a> {
            server: myelin_broker::ServerInfo,
            acc: &'a str,
        }
        compact(&AboutAccount { server: self.server_info(), acc: account })
    }
}

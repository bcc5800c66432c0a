//! Links: connections to other servers, of the cluster or as leaf nodes, as the broker sees them.
//!
//! A link is a receiver with an outbox like a client's connection. What this server's clients and
//! services want is counted (`announced.rs`) and *announced* on it (`announcements.rs`); what the
//! other side wants is *remote interest* in the accounts' indexes (`remote_interest.rs`), and leads
//! messages here (`shard/remote.rs`). Messages that come from a route go to clients and services of
//! this server (`shard/routed.rs`) and to its leaf nodes: one hop within the cluster, so that no
//! message can go round. Only for a queue group whose last member has left meanwhile one goes on,
//! to a server that has another: once, and back over its link if no other server has one.
//!
//! What a link says itself (the handshake, PING, announcements) is gathered in its *control bytes*
//! and moves into the outbox ahead of the messages of each flush, whichever shard flushes: so a
//! subscription is announced before any message that is published after it. To be able to announce
//! from any thread, a change of interest adds control bytes under the lock of the account's part
//! that has changed, and wakes the link's owner shard.
//!
//! Links with leaf nodes, and with the hubs to which this server is one, are alike but for what is
//! in `leaf.rs`, and those with other clusters but for what is in `gateway.rs`.
//!
//! How two servers agree on a link, and which links there are, is decided in the crate `mesh`.

pub(crate) mod announced;
pub(crate) mod announcements;
mod complaints;
pub(crate) mod counted;
pub(crate) mod end;
pub(crate) mod gateway;
pub(crate) mod gateway_announcements;
pub(crate) mod gateway_end;
mod gateway_interest;
pub(crate) mod gateway_links;
pub(crate) mod interest_part;
pub(crate) mod leaf;
pub(crate) mod leaf_announcements;
pub(crate) mod leaf_end;
mod leaf_interest;
mod leaf_limits;
pub(crate) mod leaf_login;
pub(crate) mod linked_peer;
pub(crate) mod links;
mod protocol_log;
mod remote_groups;
pub(crate) mod remote_interest;
pub(crate) mod remote_sub;
mod rules;

use crate::account::Account;
use crate::broker::Broker;
use crate::conn::Conn;
use crate::log::Level;
use crate::shard::Shard;
use announcements::Announcing;
use bytes::Bytes;
use end::LinkEnd;
pub use end::LinkScope;
use hashbrown::HashMap;
use myelin_stdx::equal::equal;
use myelin_stdx::id;
use myelin_stdx::nkey::Role;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::parser::{PeerInterest, Routed};
use remote_interest::{RemoteInterests, RemoteRemoval};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

impl Conn {
    /// Says something on a link that is no message: it goes ahead of all messages that are flushed
    /// later.
    pub fn say(self: &Arc<Self>, bytes: &[u8]) {
        if let Some(link) = self.link()
            && link.say(bytes)
        {
            self.sink().wake(self);
        }
    }

    /// Prepares the owner shard for a flush that it was woken for: what is said from now
    /// on wakes it again.
    pub fn has_woken(&self) {
        if let Some(link) = self.link() {
            link.is_woken.store(false, Relaxed);
        }
    }
}

impl Broker {
    /// Writes a line about what the other side of a link has done, which may do so again and again:
    /// of each kind the first, and later how many more there were.
    pub fn complain(&self, level: Level, conn: &Conn, kind: &'static str, line: fmt::Arguments<'_>) {
        let is_first = || conn.link().is_none_or(|link| link.complaints.begin(kind, level));
        if self.log().enabled(level) && is_first() {
            self.log_for(level, conn, line);
        }
    }

    /// Writes how many complaints were left out. `now`: only of those that wait for long enough.
    #[inline]
    fn count_complaints(&self, conn: &Conn, now: Option<Instant>) {
        let Some(link) = conn.link().filter(|link| link.complaints.is_any()) else { return };
        for complaint in link.complaints.take_due(now).iter().filter(|complaint| complaint.count > 0) {
            let (kind, count) = (complaint.kind, complaint.count);
            self.log_for(complaint.level, conn, format_args!("{kind}: {count} more"));
        }
    }
}

/// Bytes that may wait for a peer before it is answered less.
const LARGEST_BACKLOG: usize = 1024 * 1024;

/// Memory of an account that is not there yet, about.
const EACH_ACCOUNT: usize = 8 * 1024;

/// Beginning of the subjects that servers with JetStream listen to in each account that may use it.
const JETSTREAM_API: &[u8] = b"$JS.API.";

/// A link, owned by one shard: what its other side is interested in, and where messages from it go.
pub struct Link {
    conn: Arc<Conn>,
    broker: Arc<Broker>,
    /// The account that it is dedicated to.
    account: Option<Arc<Account>>,
    interest: RemoteInterests,
    /// The account of the message before: the next one is mostly of the same.
    last: Option<Arc<Account>>,
    /// The account of the interest before, within what has come at once.
    told: Option<Arc<Account>>,
    /// Terms for the interest of a leaf node or a hub, within what has come at once.
    told_under: Option<leaf::InterestTerms>,
    /// Accounts whose tokens have not come yet, where accounts have tokens.
    expected: HashMap<Box<str>, Arc<Account>>,
    buffers: crate::shard::RoutedBuffers,
    /// A leaf node whose login was reported: its end is, too.
    is_reported: bool,
    login_limits: leaf_limits::LoginLimits,
    /// Interest of another cluster in accounts that are not here.
    held: gateway_interest::HeldInterest,
    /// Accounts in which the other side has become interested in something just now.
    young: gateway_interest::YoungAccounts,
}

/// Work that remains for a link that has ended, away from the data path.
pub struct LinkRemoval(RemoteRemoval);

impl LinkRemoval {
    /// Takes the interest of the other side away.
    pub fn run(self) {
        self.0.run();
    }
}

impl Link {
    /// The broker's part of a link whose handshake begins.
    pub fn new(broker: &Arc<Broker>, conn: &Arc<Conn>) -> Self {
        Self {
            conn: Arc::clone(conn),
            broker: Arc::clone(broker),
            account: None,
            interest: RemoteInterests::new(conn),
            last: None,
            told: None,
            told_under: None,
            expected: HashMap::new(),
            buffers: Default::default(),
            is_reported: false,
            login_limits: Default::default(),
            held: Default::default(),
            young: Default::default(),
        }
    }

    /// The connection.
    pub fn conn(&self) -> &Arc<Conn> {
        &self.conn
    }

    /// The broker.
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// A nonce, as each INFO has one.
    pub fn nonce(&self) -> String {
        id::nonce(self.broker.entropy())
    }

    /// Says something that is no message.
    pub fn say(&self, bytes: &[u8]) {
        self.conn.say(bytes);
    }

    /// Whether so much waits for the other side that it does not seem to read: then it is answered
    /// less.
    pub fn is_behind(&self) -> bool {
        self.conn.pending() > LARGEST_BACKLOG
    }

    /// Says what the other side has done wrong, where the link stays. A peer that goes on and does
    /// not read is not told each time: the log is.
    fn complain_to_peer(&self, bytes: &[u8]) {
        if !self.is_behind() {
            self.say(bytes);
        }
    }

    /// The other side has said its name, and whether it tells what becomes of traced messages.
    pub fn meet(&self, name: &str, traces: bool) {
        self.conn.update_details(|details| details.set_name(name));
        if let Some(link) = self.conn.link() {
            link.traces.store(traces, Relaxed);
        }
    }

    /// The other side is a server of ours, which says who has sent requests to JetStream.
    pub fn meet_kin(&self) {
        if let Some(link) = self.conn.link() {
            link.says_askers.store(true, Relaxed);
        }
    }

    /// The handshake is over: from now on messages go out, and changes of interest are announced.
    /// What is to be announced of before is returned; that may be long.
    ///
    /// # Errors
    /// When the link is dedicated to an account that is not known here.
    pub fn begin(&mut self, scope: LinkScope, headers: bool) -> Result<Announcing, String> {
        let sought = match &scope {
            LinkScope::Dedicated(name) => Some((name, self.broker.account(name))),
            LinkScope::Internal(name) => Some((name, self.broker.internal_account(name))),
            LinkScope::Pooled(_) | LinkScope::All => None,
        };
        if let Some((name, account)) = sought {
            self.account = Some(
                account
                    .ok_or_else(|| format!("Unable to lookup account {name:?}: nats: account not found"))?,
            );
        }
        self.conn.set_headers(headers);
        if let Some(link) = self.conn.link() {
            let _ = link.scope.set(scope);
        }
        self.broker.links.add(&self.conn);
        Ok(Announcing::new(&self.broker, &self.conn))
    }

    /// Remote subscriptions of the other side.
    pub fn subscriptions(&self) -> usize {
        self.interest.len()
    }

    /// The other side has begun to be interested in something, or is so with another weight.
    ///
    /// # Errors
    /// When it has brought more than a link may: the link must end.
    pub fn subscribe(&mut self, interest: &PeerInterest<'_>) -> Result<(), CloseReason> {
        let known = self.told.take().filter(|told| told.name().as_bytes() == interest.account);
        let account = known.or_else(|| self.find(interest.account));
        let Some(account) = account.or_else(|| self.expect(interest.account)) else {
            let (account, subject) = (lossy(interest.account), lossy(interest.subject));
            let line = format_args!("Unknown account {account:?} for remote subject {subject:?}");
            self.broker.complain(Level::Error, &self.conn, "Unknown account for remote subject", line);
            return Ok(());
        };
        if !myelin_subject::is_well_formed(interest.subject) {
            let line = format_args!("Could not insert subscription: nats: invalid subject");
            self.broker.complain(Level::Error, &self.conn, "Could not insert subscription", line);
            self.complain_to_peer(b"-ERR 'Invalid Subscription'\r\n");
            return Ok(());
        }
        if !self.may_take(interest.subject) {
            let subject = lossy(interest.subject);
            let line = format_args!("Can not export {subject:?}, ignoring remote subscription request");
            self.broker.complain(Level::Debug, &self.conn, "Ignored remote subscription request", line);
            return Ok(());
        }
        if self.conn.gateway().is_none() {
            self.young.subscribed(&account);
        }
        if interest.subject.starts_with(JETSTREAM_API) {
            self.broker.trusted().into_iter().for_each(|trusted| trusted.seek(account.name()));
        }
        let taken = self.interest.add(&account, interest);
        self.told = Some(account);
        taken
    }

    /// The other side is interested no more.
    pub fn unsubscribe(&mut self, interest: &PeerInterest<'_>) {
        let Ok(name) = std::str::from_utf8(interest.account) else { return };
        if let Some(account) = self.find(interest.account).or_else(|| self.expected.get(name).cloned()) {
            self.interest.remove(&account, interest);
        } else if !self.interest.remove_of_gone(name, interest) {
            let subject = lossy(interest.subject);
            let line = format_args!("Unknown account {name:?} for subject {subject:?}");
            self.broker.complain(Level::Debug, &self.conn, "Unknown account for subject", line);
        }
    }

    /// A message has come from the other side: it goes to who wants it here.
    #[inline]
    pub fn publish(
        &mut self,
        shard: &mut Shard,
        message: &Routed<'_>,
        backing: Option<&Bytes>,
        now: Instant,
    ) {
        // Perf: nothing is counted that other shards count, too, for nearly all messages.
        let is_last = self.last.as_ref().is_some_and(|last| equal(last.name().as_bytes(), message.account));
        if self.account.is_none() && !is_last {
            self.last = self.find(message.account);
        }
        let Some(account) = self.account.as_ref().or(self.last.as_ref()) else {
            let (account, subject) = (lossy(message.account), lossy(message.subject));
            let line = format_args!("Unknown account {account:?} for routed message on subject: {subject:?}");
            self.broker.complain(Level::Debug, &self.conn, "Unknown account for routed message", line);
            return;
        };
        shard.publish_routed(&self.conn, account, (message, backing), &mut self.buffers, now);
    }

    /// Counts messages and bytes that have come. What servers say to each other for themselves
    /// counts for the link only.
    pub fn count_in(&self, shard: &mut Shard, msgs: u64, bytes: u64) {
        self.conn.traffic.in_msgs.add(msgs);
        self.conn.traffic.in_bytes.add(bytes);
        if !self.conn.link().is_some_and(LinkEnd::is_internal) {
            shard.count_in_from_link(msgs, bytes);
        }
    }

    /// Notes that something has come at this moment.
    pub fn heard(&mut self, now: Instant, opened: Instant) {
        self.told = None;
        self.told_under = None;
        self.young.note(now);
        self.broker.count_complaints(&self.conn, Some(now));
        self.conn.touch(now.saturating_duration_since(opened));
        if let Some(link) = self.conn.link() {
            link.subscriptions.store(self.interest.len(), Relaxed);
        }
    }

    /// Ends the link: nothing more goes to it. What the other side was interested in is returned,
    /// for it may take long to remove.
    pub fn end(&mut self, reason: CloseReason) -> LinkRemoval {
        self.broker.count_complaints(&self.conn, None);
        self.conn.mark_closed(reason);
        if std::mem::take(&mut self.is_reported)
            && let Some(client_events) = self.broker.client_events()
        {
            client_events.leaf_node_gone(&self.conn, reason);
        }
        if self.conn.leaf().is_some() {
            self.account.iter().for_each(|account| account.announced.remove_leaf(&self.conn));
        } else if let Some(gateway) = self.conn.gateway() {
            if let Some(gateways) = gateway_links::GatewayLinks::of(&self.broker.cluster) {
                gateways.remove(&self.conn, gateway.is_outbound());
            }
        } else {
            self.broker.links.remove(&self.conn);
        }
        LinkRemoval(self.interest.take())
    }

    /// The account of which interest comes before its token does. `None` where accounts have none,
    /// and for a name that is no account's public key: no token can come for it.
    fn expect(&mut self, name: &[u8]) -> Option<Arc<Account>> {
        let (trusted, name) = (self.broker.trusted()?, std::str::from_utf8(name).ok()?);
        if let Some(account) = self.expected.get(name) {
            return Some(Arc::clone(account));
        }
        if !Role::Account.owns(name) || !self.interest.reserve(EACH_ACCOUNT) {
            return None;
        }
        let account = trusted.expected(name, &self.broker.cluster);
        self.expected.insert(name.into(), Arc::clone(&account));
        Some(account)
    }

    /// The account of a message that has come.
    fn account_of(&mut self, name: &[u8], what: &str, subject: &[u8]) -> Option<Arc<Account>> {
        if let Some(last) = self.last.take_if(|last| last.name().as_bytes() == name) {
            return Some(last);
        }
        let found = self.find(name);
        if found.is_none() {
            let (account, subject) = (lossy(name), lossy(subject));
            let line = format_args!("Unknown account {account:?} for {what} on subject: {subject:?}");
            self.broker.complain(Level::Debug, &self.conn, "Unknown account for message", line);
        }
        found
    }

    fn find(&self, name: &[u8]) -> Option<Arc<Account>> {
        if let Some(account) = &self.account {
            return Some(Arc::clone(account));
        }
        if let Some(last) = &self.last
            && last.name().as_bytes() == name
        {
            return Some(Arc::clone(last));
        }
        self.broker.account(std::str::from_utf8(name).ok()?)
    }
}

fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

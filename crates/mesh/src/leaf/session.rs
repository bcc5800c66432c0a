//! One link with a leaf node or a hub: what its bytes mean, as states that hold only what is valid
//! in them.
//!
//! A peer that sends what makes no sense, too much of it, or nothing, loses the link.

use super::compression::Negotiation;
use super::reload::LeafAdmission;
use super::remote::{LeafRemote, LeafSigner, LeafUrl};
use super::tls_state::TlsState;
use super::{LeafFacts, LeafNodes, LeafState};
use crate::certificate::PeerCertificate;
use crate::peer_session::{Announcement, Ingested, Next, PeerSession};
use crate::session::common::{
    self, HANDSHAKE_LINE, INTEREST_PER_TURN, LARGEST_BACKLOG, LONGEST_LINE, one_line,
};
use crate::session::timers::{Due, LinkTimers};
use bytes::Bytes;
use myelin_auth::{Identity, Reject};
use myelin_broker::{
    Broker, Conn, LeafAnnouncing, LeafFault, LeafLogin, LeafRole, Level, Link, LinkRemoval, Shard,
};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::leaf::LeafConnect;
use myelin_wire::peer::parser::{self, Parsed, PeerError, PeerLimits, PeerOp, Routed};
use myelin_wire::s2::S2Level;
use std::fmt::Arguments;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Time for a hub to answer CONNECT.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
/// Wait before a hub is dialled again to which there is a way in a circle.
const AFTER_LOOP: Duration = Duration::from_secs(30);
/// Wait before a hub is dialled again whose cluster has the name of this one.
const AFTER_SAME_CLUSTER: Duration = Duration::from_secs(30);
/// Wait before a leaf node is dialled again that has done what it may not.
const AFTER_VIOLATION: Duration = Duration::from_secs(30);
/// Wait before a hub is dialled again for which this server is too old.
const AFTER_TOO_OLD: Duration = Duration::from_secs(5);

/// Hub that was dialled, and how.
#[derive(Debug, Clone)]
pub struct LeafDial {
    /// The hub.
    pub remote: Arc<LeafRemote>,
    /// The address that was dialled.
    pub url: LeafUrl,
    /// Key by which to log in there.
    pub signer: Option<Arc<LeafSigner>>,
}

/// The server that began a link.
#[derive(Debug, Clone)]
pub enum LeafSide {
    /// The other server has dialled.
    Accepted,
    /// This server has dialled.
    Dialled(LeafDial),
}

/// State of a link, with what only it has.
pub(super) enum LeafPhase {
    /// The other server has dialled and must say who it is.
    AwaitConnect,
    /// Its credentials are being checked.
    Checking(Box<LeafConnect>),
    /// The hub that was dialled must say what it is like.
    AwaitInfo,
    /// A hub that must answer CONNECT.
    AwaitAnswer,
    /// The link is there.
    Ready,
    /// Nothing more happens.
    Closed,
}

/// Session of one link with a leaf node or a hub.
pub struct LeafSession {
    pub(super) link: Link,
    nodes: Arc<LeafNodes>,
    known: Arc<LeafState>,
    pub(super) dial: Option<LeafDial>,
    pub(super) state: LeafPhase,
    pub(super) limits: PeerLimits,
    pub(super) timers: LinkTimers,
    pub(super) compression: Negotiation,
    /// Nonce that was said, or heard.
    pub(super) nonce: String,
    /// The hub's headers, and permissions of its INFO.
    pub(super) heard: super::dialled::Heard,
    pub(super) tls: TlsState,
    /// Announcements of interest here that the other side is still to get, which may take long.
    pub(super) announcing: Option<LeafAnnouncing>,
    /// Credentials by which a leaf node is here.
    pub(super) admission: LeafAdmission,
    /// The account has counted it.
    pub(super) is_counted: bool,
    has_left: bool,
}

/// How one operation went.
pub(super) type Step = Result<LeafStep, CloseReason>;

/// Step after an operation.
pub(super) enum LeafStep {
    On,
    /// Credentials have to be checked first.
    Check(Box<LeafLogin>),
}

impl LeafSession {
    /// Session of a link that begins.
    pub fn open(
        nodes: &Arc<LeafNodes>,
        broker: &Arc<Broker>,
        conn: &Arc<Conn>,
        side: LeafSide,
        now: Instant,
    ) -> Self {
        let config = nodes.config();
        let (state, dial) = match side {
            LeafSide::Accepted => (LeafPhase::AwaitConnect, None),
            LeafSide::Dialled(dial) => (LeafPhase::AwaitInfo, Some(dial)),
        };
        let facts = match &dial {
            Some(dial) => LeafFacts {
                did_solicit: true,
                is_spoke: !dial.remote.config.is_hub,
                is_isolated: config.is_isolated || dial.remote.config.is_isolated,
                account: dial.remote.config.account.clone(),
                ..LeafFacts::default()
            },
            None => LeafFacts { is_isolated: config.is_isolated, ..LeafFacts::default() },
        };
        Self {
            link: Link::new(broker, conn),
            nodes: Arc::clone(nodes),
            known: LeafState::new(conn, dial.as_ref().map(|dial| Arc::clone(&dial.remote)), facts),
            dial,
            state,
            limits: PeerLimits {
                max_line: HANDSHAKE_LINE,
                // Messages come behind the handshake only.
                max_payload: 0,
                is_dedicated: true,
                names_origin: false,
                is_leaf: true,
            },
            timers: LinkTimers::new((config.ping_interval, config.ping_max), conn.cid(), now),
            compression: Negotiation::default(),
            nonce: String::new(),
            heard: Default::default(),
            tls: TlsState::default(),
            announcing: None,
            admission: LeafAdmission::default(),
            is_counted: false,
            has_left: false,
        }
    }

    pub(super) fn nodes(&self) -> &Arc<LeafNodes> {
        &self.nodes
    }

    pub(super) fn known(&self) -> &Arc<LeafState> {
        &self.known
    }

    pub(super) fn broker(&self) -> &Arc<Broker> {
        self.link.broker()
    }

    /// The hub, where this server has dialled.
    pub(super) fn remote(&self) -> Option<&Arc<LeafRemote>> {
        self.dial.as_ref().map(|dial| &dial.remote)
    }

    pub(super) fn role(&self) -> LeafRole {
        if self.known.facts().is_spoke { LeafRole::Spoke } else { LeafRole::Hub }
    }

    /// Name of the cluster of this server, or what it is called by other servers without one.
    pub(super) fn own_cluster(&self) -> String {
        let own = self.broker().cluster();
        if own.is_empty() { self.nodes.config().cluster.clone() } else { own.to_string() }
    }

    pub(super) fn say(&self, bytes: &[u8]) {
        self.link.say(bytes);
    }

    /// The handshake is over.
    pub(super) fn is_ready_now(&mut self, now: Instant) {
        self.limits.max_line = LONGEST_LINE;
        self.follow_limits();
        self.timers.ready(now);
        self.state = LeafPhase::Ready;
    }

    /// Takes over the largest message as it is now, by the configuration, the account and the
    /// token.
    fn follow_limits(&mut self) {
        self.limits.max_payload = self.link.max_leaf_payload(self.nodes.config().max_payload);
    }

    pub(super) fn await_answer(&mut self, now: Instant) {
        self.timers.greeted(Some(CONNECT_PATIENCE), now);
        self.state = LeafPhase::AwaitAnswer;
    }

    #[inline(always)]
    fn publish(
        &mut self,
        shard: &mut Shard,
        message: &Routed<'_>,
        backing: Option<&Bytes>,
        counts: &mut (u64, u64),
        now: Instant,
    ) -> Result<(), CloseReason> {
        counts.0 += 1;
        counts.1 += message.body.len() as u64;
        let taken = self.link.publish_leaf(shard, message, backing, now);
        taken.map_err(|fault| self.fault(fault, "Publish", message.subject))
    }

    /// Ends the link for something that the other side has done.
    fn fault(&self, fault: LeafFault, what: &str, subject: &[u8]) -> CloseReason {
        let subject = String::from_utf8_lossy(subject);
        match fault {
            LeafFault::Loop => self.fail(format_args!("{}", self.loop_text())),
            LeafFault::Denied => {
                self.delay(AFTER_VIOLATION);
                let to = if what == "Publish" { "Publish" } else { "Subscription" };
                let line = format!("-ERR 'Permissions Violation for {to} to {subject:?}'\r\n");
                self.say(line.as_bytes());
                let line = format_args!("{what} Violation on {subject:?} - Check other side configuration");
                self.log(Level::Error, line);
            }
            LeafFault::TooMuch(reason) => {
                self.fail(format_args!("maximum subscriptions exceeded"));
                return reason;
            }
        }
        CloseReason::ProtocolViolation
    }

    /// Says that there is a circle, which ends the link.
    pub(super) fn found_loop(&self) -> CloseReason {
        self.fault(LeafFault::Loop, "Subscription", b"")
    }

    /// There is a circle: whoever has dialled waits.
    fn loop_text(&self) -> String {
        self.delay(AFTER_LOOP);
        let (account, delay) = (self.known.facts().account, AFTER_LOOP.as_secs());
        format!("Loop detected for leafnode account={account:?}. Delaying attempt to reconnect for {delay}s")
    }

    /// Has the hub that was dialled wait for the next attempt.
    fn delay(&self, delay: Duration) {
        self.remote().iter().for_each(|remote| remote.delay(delay));
    }

    #[inline(never)]
    fn operate(
        &mut self,
        shard: &mut Shard,
        op: PeerOp<'_>,
        backing: Option<&Bytes>,
        counts: &mut (u64, u64),
        now: Instant,
    ) -> Step {
        match (&self.state, op) {
            (LeafPhase::Closed, _) => return Err(CloseReason::ServerShutdown),
            (LeafPhase::AwaitConnect, PeerOp::Connect(json)) => return self.connect(shard, json, now),
            (LeafPhase::AwaitConnect, PeerOp::Info(json)) if self.may_compress() => {
                self.info_of_dialler(json, now)?;
            }
            (LeafPhase::AwaitConnect, _) => return Err(self.deny_stranger()),
            (LeafPhase::Ready, PeerOp::Message(message)) => {
                self.publish(shard, &message, backing, counts, now)?;
            }
            (LeafPhase::Ready, PeerOp::Interest(interest)) => {
                let taken = self.link.subscribe_leaf(&interest);
                taken.map_err(|fault| self.fault(fault, "Subscription", interest.subject))?;
            }
            (LeafPhase::Ready, PeerOp::NoInterest(interest)) => self.link.unsubscribe_leaf(&interest),
            (LeafPhase::AwaitInfo | LeafPhase::AwaitAnswer, PeerOp::Info(json)) => {
                self.info_of_hub(json, now)?;
            }
            (LeafPhase::Ready, PeerOp::Info(json)) => self.later_info(json)?,
            (LeafPhase::Ready, PeerOp::Connect(_)) if self.may_have_duplicates() => {
                self.fail(format_args!("{}", CloseReason::DuplicateLeafNode.text()));
                return Err(CloseReason::DuplicateLeafNode);
            }
            (_, PeerOp::Ping) => {
                common::answer_ping(&self.link, &mut self.timers, now);
            }
            (_, PeerOp::Pong) => {
                self.timers.ponged(now);
                self.follow_round_trip(self.timers.rtt());
            }
            (_, PeerOp::PeerError(text)) => {
                let text = one_line(&String::from_utf8_lossy(text));
                self.peer_error(text.as_bytes())?;
            }
            (LeafPhase::AwaitInfo | LeafPhase::AwaitAnswer | LeafPhase::Checking(_), PeerOp::Message(_)) => {
                self.fail(format_args!("Authorization Violation"));
                return Err(CloseReason::ProtocolViolation);
            }
            // Compat: passed over.
            (_, PeerOp::Ok | PeerOp::Account(..) | PeerOp::Connect(_) | PeerOp::Info(_)) => {}
            (_, PeerOp::Interest(_) | PeerOp::NoInterest(_)) => {
                self.fail(format_args!("Authorization Violation"));
                return Err(CloseReason::ProtocolViolation);
            }
        }
        Ok(LeafStep::On)
    }

    /// The other side says what is wrong. Compat: only after some of that the link ends here, too.
    fn peer_error(&self, text: &[u8]) -> Result<(), CloseReason> {
        let text = String::from_utf8_lossy(text);
        let line = format_args!("Leafnode Error {text}");
        self.broker().complain(Level::Error, self.link.conn(), "Leafnode Error", line);
        let dropped = |why: &str, delay: Duration| {
            self.delay(delay);
            let delay = delay.as_secs();
            let line = format_args!("{why}. Delaying attempt to reconnect for {delay}s");
            self.log(Level::Error, format_args!("Leafnode connection dropped {line}"));
        };
        if text.contains("remote leafnode has same cluster name") {
            dropped("with same cluster name error", AFTER_SAME_CLUSTER);
        } else if text.contains("connection rejected since minimum version required is") {
            dropped("due to minimum version requirement", AFTER_TOO_OLD);
        } else if text.contains("Loop detected") {
            self.log(Level::Error, format_args!("{}", self.loop_text()));
            return Err(CloseReason::ProtocolViolation);
        }
        Ok(())
    }

    /// Bytes that are no operation.
    fn refuse(&self, error: PeerError, rest: &[u8]) -> CloseReason {
        if !matches!(self.state, LeafPhase::Ready) {
            return self.deny_stranger();
        }
        common::refuse_bytes(&self.link, "Leafnode", error, rest)
    }

    /// Tells the other side and the log what is wrong.
    pub(super) fn fail(&self, text: Arguments<'_>) {
        self.say(format!("-ERR '{text}'\r\n").as_bytes());
        self.log(Level::Error, text);
    }

    /// Logs a line. Names that the other side has said do not end it.
    pub(super) fn log(&self, level: Level, line: Arguments<'_>) {
        let line = one_line(&line.to_string());
        self.broker().log_for(level, self.link.conn(), format_args!("{line}"));
    }

    fn leave(&mut self) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        if std::mem::take(&mut self.is_counted) {
            // A link that was refused after it was counted has no account yet.
            let named = || self.broker().account(&self.known.facts().account);
            let account = self.link.account().cloned().or_else(named);
            account.iter().for_each(|account| account.leave_as_leaf_node());
        }
        let again = self.remote().filter(|remote| !remote.is_removed()).cloned();
        self.nodes.leave(&self.known, again);
    }
}

impl PeerSession for LeafSession {
    fn conn(&self) -> &Arc<Conn> {
        self.link.conn()
    }

    fn greet(&mut self, shard: &mut Shard, now: Instant) {
        self.begin(now);
        shard.flush_link(self.link.conn());
    }

    fn secured(&mut self, shown: Option<PeerCertificate>, now: Instant) -> Result<(), CloseReason> {
        self.has_secured(shown, now)
    }

    fn take_wish_for_tls(&mut self) -> bool {
        self.tls.takes_wish()
    }

    fn leave_compression(&mut self) {
        self.leave_to_web_socket();
    }

    fn take_announcing(&mut self) -> Option<Announcement> {
        self.announcing.take().map(Announcement::Leaf)
    }

    fn ingest(&mut self, shard: &mut Shard, buf: &[u8], backing: Option<&Bytes>, now: Instant) -> Ingested {
        let (mut at, mut counts, mut interest) = (0, (0, 0), 0);
        let is_logged = self.link.is_logged();
        let next = loop {
            let is_ready = matches!(self.state, LeafPhase::Ready);
            if let Some(reason) = self.conn().close_requested() {
                break Next::Close(reason);
            }
            if !is_ready && self.conn().pending() > LARGEST_BACKLOG {
                break Next::Close(CloseReason::SlowConsumerPendingBytes);
            }
            if shard.is_full() {
                break Next::Flush;
            }
            let rest = &buf[at..];
            if rest.is_empty() {
                break Next::More(1);
            }
            if is_ready
                && !is_logged
                && let Some((message, len)) = parser::plain_message(rest, &self.limits)
            {
                at += len;
                if let Err(reason) = self.publish(shard, &message, backing, &mut counts, now) {
                    break Next::Close(reason);
                }
                continue;
            }
            match parser::next(rest, &self.limits) {
                Ok(Parsed::Op(op, len)) => {
                    at += len;
                    if is_logged {
                        self.link.log_in(&op, &rest[..len]);
                    }
                    interest += u32::from(matches!(op, PeerOp::Interest(_) | PeerOp::NoInterest(_)));
                    match self.operate(shard, op, backing, &mut counts, now) {
                        Ok(LeafStep::On) => {}
                        Ok(LeafStep::Check(login)) => break Next::Check(login),
                        Err(reason) => break Next::Close(reason),
                    }
                    if self.announcing.is_some() || self.is_waiting() || interest >= INTEREST_PER_TURN {
                        break Next::Flush;
                    }
                }
                Ok(Parsed::Need(need)) => break Next::More(need),
                Err(error) => break Next::Close(self.refuse(error, rest)),
            }
        };
        self.link.heard(now, self.timers.opened());
        let (subscriptions, rtt) = (self.link.subscriptions(), self.timers.rtt());
        self.known.update(|facts| (facts.subscriptions, facts.rtt) = (subscriptions, rtt));
        if counts.0 > 0 {
            self.link.count_in(shard, counts.0, counts.1);
        }
        Ingested { bytes: at, next }
    }

    fn checked(
        &mut self,
        shard: &mut Shard,
        outcome: Result<Identity, Reject>,
        now: Instant,
    ) -> Result<(), CloseReason> {
        match std::mem::replace(&mut self.state, LeafPhase::AwaitConnect) {
            LeafPhase::Checking(connect) => {
                self.logged_in(shard, &connect, outcome, now)?;
                // The account may have got another token meanwhile, and a proxy may have lost its
                // trust.
                self.check_proxy()?;
                self.check_claims()
            }
            other => {
                self.state = other;
                Ok(())
            }
        }
    }

    fn take_switch(&mut self) -> Option<S2Level> {
        self.take_compression_switch()
    }

    fn has_switched(&mut self) {
        if self.dial.is_none() {
            self.say_first_info();
        }
    }

    fn take_level(&mut self) -> Option<S2Level> {
        self.take_compression_level()
    }

    fn reload(&mut self, _: &mut Shard) -> Result<(), CloseReason> {
        self.check_account()?;
        self.check_proxy()?;
        self.check_claims()?;
        if matches!(self.state, LeafPhase::Ready) {
            self.follow_limits();
        }
        Ok(())
    }

    fn deadline(&self) -> Instant {
        self.admission.expiry().map_or(self.timers.deadline(), |expiry| expiry.min(self.timers.deadline()))
    }

    fn on_deadline(&mut self, now: Instant) -> Option<CloseReason> {
        if let Some(owner) = self.admission.expired(now) {
            return Some(self.expire(owner));
        }
        match self.timers.strike(matches!(self.state, LeafPhase::Ready), now) {
            Due::Nothing => None,
            Due::Ping => {
                self.log(Level::Debug, format_args!("Leafnode Ping Timer"));
                common::ping(&self.link);
                None
            }
            Due::Silent => match self.state {
                // Compat: the hub is not told.
                LeafPhase::AwaitInfo => Some(CloseReason::ReadError),
                LeafPhase::AwaitAnswer => {
                    let text = "Stale Leaf Node Connection - Closing";
                    self.say(format!("-ERR '{text}'\r\n").as_bytes());
                    self.log(Level::Debug, format_args!("{text}"));
                    Some(CloseReason::StaleConnection)
                }
                _ => {
                    self.say(b"-ERR 'Authentication Timeout'\r\n");
                    self.log(Level::Debug, format_args!("Authentication Timeout"));
                    Some(CloseReason::AuthenticationTimeout)
                }
            },
            Due::Stale => {
                self.broker().counters().stale_leaf_nodes.fetch_add(1, Relaxed);
                Some(common::give_up_stale(&self.link))
            }
        }
    }

    fn end(&mut self, reason: CloseReason) -> Option<LinkRemoval> {
        if let LeafPhase::Closed = std::mem::replace(&mut self.state, LeafPhase::Closed) {
            return None;
        }
        self.announcing = None;
        common::log_end(&self.link, "Leafnode", reason, &self.known.facts().name);
        let removal = self.link.end(reason);
        self.leave();
        Some(removal)
    }

    fn abandon(&mut self, reason: CloseReason) -> LinkRemoval {
        self.state = LeafPhase::Closed;
        self.announcing = None;
        let removal = self.link.end(reason);
        self.leave();
        removal
    }

    fn kind(&self) -> &'static str {
        "leafnode"
    }
}

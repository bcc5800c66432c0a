//! One link with a server of another cluster: what its bytes mean, as states that hold only what is
//! valid in them.
//!
//! Interest comes over links that this server has dialled, messages over those that it has
//! accepted. A peer that sends what makes no sense, too much of it, or nothing, loses the link.

use super::remote::GatewayRemote;
use super::{GatewayState, Gateways};
use crate::certificate::PeerCertificate;
use crate::config::RouteUrl;
use crate::peer_session::{Announcement, Ingested, Next, PeerSession};
use crate::session::LinkSession;
use crate::session::common::{
    self, HANDSHAKE_LINE, INTEREST_PER_TURN, LARGEST, LARGEST_BACKLOG, LONGEST_LINE, one_line,
};
use crate::session::timers::{Due, LinkTimers};
use bytes::Bytes;
use myelin_auth::ClientCertificate;
use myelin_auth::{Identity, Reject};
use myelin_broker::{Broker, Conn, GatewayAnnouncing, Level, Link, LinkRemoval, Shard};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::parser::{self, Parsed, PeerError, PeerLimits, PeerOp, Routed};
use myelin_wire::s2::S2Level;
use std::fmt::Arguments;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Longest time between two PINGs. Compat: whatever is configured.
const LONGEST_INTERVAL: Duration = Duration::from_secs(15);

/// The server that began a link.
#[derive(Debug, Clone)]
pub enum GatewayDial {
    /// The other server has dialled.
    Accepted,
    /// This server has dialled: the cluster, and the address.
    Dialled(Arc<GatewayRemote>, RouteUrl),
}

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GatewayPhase {
    /// The other server has dialled and must say who it is.
    AwaitConnect,
    /// The other server must say what it is like.
    AwaitInfo,
    /// The link is there.
    Ready,
    /// Nothing more happens.
    Closed,
}

/// How one operation went.
pub(super) type Step = Result<(), CloseReason>;

/// Session of one link with a server of another cluster.
pub struct GatewaySession {
    pub(super) link: Link,
    gateways: Arc<Gateways>,
    known: Arc<GatewayState>,
    url: Option<RouteUrl>,
    pub(super) state: GatewayPhase,
    limits: PeerLimits,
    pub(super) timers: LinkTimers,
    /// Announcements of interest here that the other side is still to get, which may take long.
    pub(super) announcing: Option<GatewayAnnouncing>,
    /// Names in the certificate that the other side has shown.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    /// Whether the cluster is dialled again when the link has ended.
    pub(super) dials_again: bool,
    has_left: bool,
    /// INFO as the other side was told it first, until the link is there.
    pub(super) told: Vec<u8>,
    /// Session by which the link goes on that turned out to be for an internal account.
    pub(super) successor: Option<Box<LinkSession>>,
}

impl GatewaySession {
    /// Session of a link that begins.
    pub fn open(
        gateways: &Arc<Gateways>,
        broker: &Arc<Broker>,
        conn: &Arc<Conn>,
        dial: GatewayDial,
        now: Instant,
    ) -> Self {
        let config = gateways.config();
        let (remote, url, state) = match dial {
            GatewayDial::Accepted => (None, None, GatewayPhase::AwaitConnect),
            GatewayDial::Dialled(remote, url) => (Some(remote), Some(url), GatewayPhase::AwaitInfo),
        };
        Self {
            link: Link::new(broker, conn),
            gateways: Arc::clone(gateways),
            known: GatewayState::new(conn, remote),
            url,
            state,
            limits: PeerLimits {
                max_line: HANDSHAKE_LINE,
                // Messages come behind the handshake only.
                max_payload: 0,
                is_dedicated: false,
                names_origin: false,
                is_leaf: false,
            },
            timers: LinkTimers::new(
                (config.ping_interval.min(LONGEST_INTERVAL), config.ping_max),
                conn.cid(),
                now,
            ),
            announcing: None,
            certificate: None,
            dials_again: true,
            has_left: false,
            told: Vec::new(),
            successor: None,
        }
    }

    pub(super) fn gateways(&self) -> &Arc<Gateways> {
        &self.gateways
    }

    pub(super) fn known(&self) -> &Arc<GatewayState> {
        &self.known
    }

    pub(super) fn broker(&self) -> &Arc<Broker> {
        self.link.broker()
    }

    /// The cluster that was dialled and the address, where this server has dialled.
    pub(super) fn dial(&self) -> Option<(&Arc<GatewayRemote>, &RouteUrl)> {
        self.known.remote().zip(self.url.as_ref())
    }

    fn is_ready(&self) -> bool {
        self.state == GatewayPhase::Ready
    }

    /// The other side is known: it may send what is long.
    pub(super) fn is_trusted(&mut self) {
        self.limits.max_line = LONGEST_LINE;
        self.limits.max_payload = LARGEST;
    }

    pub(super) fn say(&self, bytes: &[u8]) {
        self.link.say(bytes);
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

    #[inline(always)]
    fn publish(
        &mut self,
        shard: &mut Shard,
        message: &Routed<'_>,
        backing: Option<&Bytes>,
        counts: &mut (u64, u64),
        now: Instant,
    ) {
        counts.0 += 1;
        counts.1 += message.body.len() as u64;
        self.link.publish_from_gateway(shard, message, backing, now);
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
        let is_outbound = self.known.remote().is_some();
        match (self.state, op) {
            (GatewayPhase::Closed, _) => Err(CloseReason::ServerShutdown),
            (GatewayPhase::AwaitConnect, PeerOp::Connect(json)) => self.connect(json, now),
            (GatewayPhase::AwaitConnect, _) => Err(self.refuse_login()),
            (GatewayPhase::AwaitInfo | GatewayPhase::Ready, PeerOp::Info(json)) => self.info(json, now),
            (_, PeerOp::Ping) => {
                common::answer_ping(&self.link, &mut self.timers, now);
                Ok(())
            }
            (_, PeerOp::Pong) => {
                self.timers.ponged(now);
                self.timers.rtt().iter().for_each(|rtt| self.link.note_round_trip(*rtt));
                Ok(())
            }
            (_, PeerOp::PeerError(text)) => {
                let text = one_line(&String::from_utf8_lossy(text));
                self.log(Level::Error, format_args!("Gateway Error {text}"));
                Err(CloseReason::ParseError)
            }
            (_, PeerOp::Ok) => Ok(()),
            // What a second CONNECT says does not count.
            (GatewayPhase::Ready, PeerOp::Connect(_)) if !is_outbound => Ok(()),
            (GatewayPhase::Ready, PeerOp::Message(message)) if !is_outbound => {
                self.publish(shard, &message, backing, counts, now);
                Ok(())
            }
            (GatewayPhase::Ready, op) if is_outbound => self.interest(op),
            (_, op) => Err(self.misplaced(&op)),
        }
    }

    /// Interest of the other cluster.
    fn interest(&mut self, op: PeerOp<'_>) -> Step {
        match op {
            PeerOp::Interest(interest) if interest.leaf.is_none() => {
                let taken = self.link.subscribe_gateway(&interest);
                taken.inspect_err(|_| self.fail(format_args!("maximum subscriptions exceeded")))
            }
            PeerOp::NoInterest(interest) if interest.leaf.is_none() => {
                self.link.unsubscribe_gateway(&interest);
                Ok(())
            }
            PeerOp::Account(name, is_wanted) => {
                self.link.account_wanted(name, is_wanted);
                Ok(())
            }
            op => Err(self.misplaced(&op)),
        }
    }

    /// The other side may not say that on this link.
    fn misplaced(&self, op: &PeerOp<'_>) -> CloseReason {
        let what = match op {
            PeerOp::Interest(_) => "RS+",
            PeerOp::NoInterest(_) => "RS-",
            PeerOp::Account(_, true) => "A+",
            PeerOp::Account(_, false) => "A-",
            PeerOp::Message(_) => "RMSG",
            _ => "CONNECT",
        };
        let side = if self.known.remote().is_some() { "outbound" } else { "inbound" };
        self.log(Level::Error, format_args!("Received {what} from gateway on {side} connection"));
        CloseReason::ProtocolViolation
    }

    /// Bytes that are no operation.
    fn refuse(&self, error: PeerError, rest: &[u8]) -> CloseReason {
        if self.state == GatewayPhase::AwaitConnect {
            return self.refuse_login();
        }
        common::refuse_bytes(&self.link, "Gateway", error, rest)
    }

    fn leave(&mut self) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        let again = self.dials_again;
        if let Some((remote, _)) = self.dial().filter(|_| again && !self.gateways.is_stopping()) {
            let name = remote.name();
            let line = if remote.is_removed() {
                format!("Gateway {name:?} not in configuration, not attempting reconnect")
            } else {
                format!("Attempting reconnect for gateway {name:?}")
            };
            self.log(Level::Debug, format_args!("{line}"));
        }
        self.gateways.leave(&self.known, again);
    }
}

impl PeerSession for GatewaySession {
    fn conn(&self) -> &Arc<Conn> {
        self.link.conn()
    }

    fn greet(&mut self, shard: &mut Shard, now: Instant) {
        self.begin(now);
        shard.flush_link(self.link.conn());
    }

    fn secured(&mut self, shown: Option<PeerCertificate>, _: Instant) -> Result<(), CloseReason> {
        if let Some(PeerCertificate { names, key }) = shown {
            self.certificate = Some(names);
            self.known.update(|facts| facts.key = key);
        }
        Ok(())
    }

    fn take_successor(&mut self) -> Option<Box<dyn PeerSession>> {
        self.successor.take().map(|successor| successor as Box<dyn PeerSession>)
    }

    /// Between clusters the handshake of TLS comes before everything else.
    fn take_wish_for_tls(&mut self) -> bool {
        false
    }

    fn take_announcing(&mut self) -> Option<Announcement> {
        self.announcing.take().map(Announcement::Gateway)
    }

    fn ingest(&mut self, shard: &mut Shard, buf: &[u8], backing: Option<&Bytes>, now: Instant) -> Ingested {
        let (mut at, mut counts, mut interest) = (0, (0, 0), 0);
        let is_logged = self.link.is_logged();
        let is_inbound = self.known.remote().is_none();
        let next = loop {
            if let Some(reason) = self.conn().close_requested() {
                break Next::Close(reason);
            }
            if !self.is_ready() && self.conn().pending() > LARGEST_BACKLOG {
                break Next::Close(CloseReason::SlowConsumerPendingBytes);
            }
            if shard.is_full() {
                break Next::Flush;
            }
            let rest = &buf[at..];
            if rest.is_empty() {
                break Next::More(1);
            }
            if is_inbound
                && !is_logged
                && self.is_ready()
                && let Some((message, len)) = parser::plain_message(rest, &self.limits)
            {
                at += len;
                self.publish(shard, &message, backing, &mut counts, now);
                continue;
            }
            match parser::next(rest, &self.limits) {
                Ok(Parsed::Op(op, len)) => {
                    at += len;
                    if is_logged {
                        self.link.log_in(&op, &rest[..len]);
                    }
                    interest += u32::from(matches!(op, PeerOp::Interest(_) | PeerOp::NoInterest(_)));
                    if let Err(reason) = self.operate(shard, op, backing, &mut counts, now) {
                        break Next::Close(reason);
                    }
                    if self.announcing.is_some() || self.successor.is_some() || interest >= INTEREST_PER_TURN
                    {
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

    /// Nothing that takes long is checked between clusters.
    fn checked(&mut self, _: &mut Shard, _: Result<Identity, Reject>, _: Instant) -> Result<(), CloseReason> {
        Ok(())
    }

    /// Links between clusters are not compressed.
    fn take_switch(&mut self) -> Option<S2Level> {
        None
    }

    fn has_switched(&mut self) {}

    fn take_level(&mut self) -> Option<S2Level> {
        None
    }

    fn reload(&mut self, _: &mut Shard) -> Result<(), CloseReason> {
        self.link.take_known_accounts();
        Ok(())
    }

    fn deadline(&self) -> Instant {
        self.timers.deadline()
    }

    fn on_deadline(&mut self, now: Instant) -> Option<CloseReason> {
        match self.timers.strike(self.is_ready(), now) {
            Due::Nothing => None,
            Due::Ping => {
                self.log(Level::Debug, format_args!("Gateway Ping Timer"));
                common::ping(&self.link);
                None
            }
            Due::Silent if self.known.remote().is_some() => {
                let text = "Stale Client Connection - Closing";
                self.log(Level::Debug, format_args!("{text}"));
                Some(CloseReason::StaleConnection)
            }
            Due::Silent => {
                self.say(b"-ERR 'Authentication Timeout'\r\n");
                self.log(Level::Debug, format_args!("Authentication Timeout"));
                Some(CloseReason::AuthenticationTimeout)
            }
            Due::Stale => {
                self.broker().counters().stale_gateways.fetch_add(1, Relaxed);
                Some(common::give_up_stale(&self.link))
            }
        }
    }

    fn end(&mut self, reason: CloseReason) -> Option<LinkRemoval> {
        if self.state == GatewayPhase::Closed {
            return None;
        }
        self.state = GatewayPhase::Closed;
        self.announcing = None;
        common::log_end(&self.link, "Gateway", reason, &self.known.facts().server_name);
        let removal = self.link.end(reason);
        self.leave();
        Some(removal)
    }

    fn abandon(&mut self, reason: CloseReason) -> LinkRemoval {
        self.state = GatewayPhase::Closed;
        self.announcing = None;
        let removal = self.link.end(reason);
        self.leave();
        removal
    }

    fn kind(&self) -> &'static str {
        "gateway"
    }
}

//! One link: what its bytes mean, as states that hold only what is valid in them.
//!
//! Who dialled says CONNECT, and both sides say INFO; who accepted says its INFO first, for the
//! other needs it to find out which place the link gets. Before CONNECT nothing else is listened
//! to. Interest and messages go to the broker's [`Link`]. Compat: also those that come before INFO;
//! what is wanted here is announced after it.
//!
//! A peer that sends what makes no sense, too much of it, or nothing, loses the link.

pub(crate) mod common;
mod compression;
mod foreign;
mod handshake;
mod reload;
mod served;
pub(crate) mod timers;

use crate::config::RouteUrl;
use crate::gossip::{DialPlace, Making};
use crate::peer_session::{Ingested, Next};
use crate::peers::{Dial, LinkFacts, LinkState, Mesh};
use bytes::Bytes;
use common::{HANDSHAKE_LINE, INTEREST_PER_TURN, LARGEST, LARGEST_BACKLOG, LONGEST_LINE, one_line};
use compression::Negotiation;
use myelin_auth::ClientCertificate;
use myelin_broker::{Announcing, Broker, Conn, Level, Link, LinkRemoval, Shard};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::{GossipMode, PeerInfo};
use myelin_wire::peer::parser::{self, Parsed, PeerError, PeerLimits, PeerOp, Routed};
use std::fmt::Arguments;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use timers::LinkTimers;

/// Largest message of a peer that has said CONNECT and not yet what it is like.
const HANDSHAKE_PAYLOAD: u32 = 64 * 1024;

/// The server that began a link.
#[derive(Debug, Clone)]
pub enum LinkSide {
    /// The other server has dialled.
    Accepted,
    /// This server has dialled.
    Dialled(Dial),
}

/// Session of one link.
pub struct LinkSession {
    link: Link,
    mesh: Arc<Mesh>,
    known: Arc<LinkState>,
    state: LinkPhase,
    limits: PeerLimits,
    timers: LinkTimers,
    making: Making,
    /// Certificate that the other side has shown.
    certificate: Option<Arc<ClientCertificate>>,
    compression: Negotiation,
    /// Permissions that the link has now.
    rules: reload::Rules,
    /// How accounts are spread over links, as far as this one knows.
    spread: Spread,
    /// User and password of the other side, which a reload may refuse.
    login: Option<(String, String)>,
    /// Held until the link has its own place.
    dial_place: Option<Arc<DialPlace>>,
    /// Announcements of interest here that the other side is still to get, which may take long.
    announcing: Option<Announcing>,
    end_is_logged: bool,
    /// The place of the link is free again.
    has_left: bool,
}

/// How accounts are spread over the links to the other server.
struct Spread {
    /// Accounts with links of their own.
    dedicated: Vec<String>,
    /// Size of the other side's pool.
    their_pool: u32,
}

enum LinkPhase {
    /// The other server has dialled and must say who it is.
    AwaitConnect,
    /// The other server must say what it is like.
    AwaitInfo,
    /// The link has its place. The next ones may be dialled once a PONG has come.
    Ready(Vec<Dial>),
    /// Nothing more happens.
    Closed,
}

/// How one operation went.
type Step = Result<(), CloseReason>;

impl LinkSession {
    /// Session of a link that begins. What has to be said first is said by [`greet`](Self::greet),
    /// when it is known whether there is TLS.
    pub fn open(
        mesh: &Arc<Mesh>,
        broker: &Arc<Broker>,
        conn: &Arc<Conn>,
        side: LinkSide,
        now: Instant,
    ) -> Self {
        let config = mesh.config();
        let mut foreign = None;
        let (facts, making, state, (dial_place, sought)) = match side {
            LinkSide::Accepted => {
                let making = Making { did_solicit: false, is_explicit: false, mode: GossipMode::Default };
                (LinkFacts::default(), making, LinkPhase::AwaitConnect, (None, None))
            }
            LinkSide::Dialled(Dial { url, is_explicit, mode, account, place, server, cluster, .. }) => {
                let making = Making { did_solicit: true, is_explicit, mode };
                let facts = LinkFacts {
                    did_solicit: true,
                    is_explicit,
                    account,
                    url: Some(url),
                    ..LinkFacts::default()
                };
                foreign = cluster;
                (facts, making, LinkPhase::AwaitInfo, (place, server))
            }
        };
        let known = LinkState::new(conn, sought, facts);
        foreign.iter().for_each(|cluster: &String| known.set_foreign(cluster));
        Self {
            link: Link::new(broker, conn),
            mesh: Arc::clone(mesh),
            known,
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
                (config.ping_interval.min(timers::LONGEST_INTERVAL), config.ping_max),
                conn.cid(),
                now,
            ),
            making,
            certificate: None,
            compression: Negotiation::default(),
            rules: None,
            spread: Spread { dedicated: config.dedicated.clone(), their_pool: 0 },
            login: None,
            dial_place,
            announcing: None,
            end_is_logged: false,
            has_left: false,
        }
    }

    /// The connection.
    pub fn conn(&self) -> &Arc<Conn> {
        self.link.conn()
    }

    /// State of the link, as other links see it.
    pub fn known(&self) -> &Arc<LinkState> {
        &self.known
    }

    /// Takes the announcements of this server's interest, once after the handshake. They may take
    /// long.
    pub fn take_announcing(&mut self) -> Option<Announcing> {
        self.announcing.take()
    }

    /// Works off what has come. `backing` is the same bytes where they are in memory that can be
    /// shared.
    pub fn ingest(
        &mut self,
        shard: &mut Shard,
        buf: &[u8],
        backing: Option<&Bytes>,
        now: Instant,
    ) -> Ingested {
        let (mut at, mut counts, mut interest) = (0, (0, 0), 0);
        let is_logged = self.link.is_logged();
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
            if self.is_ready()
                && !is_logged
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
                    // Nothing of a handshake comes in masses; interest and messages do.
                    if self.announcing.is_some() || self.is_switching() || interest >= INTEREST_PER_TURN {
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
        self.link.publish(shard, message, backing, now);
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
        match (&mut self.state, op) {
            (LinkPhase::Ready(_) | LinkPhase::AwaitInfo, PeerOp::Message(message)) => {
                self.publish(shard, &message, backing, counts, now);
                Ok(())
            }
            (LinkPhase::Ready(_) | LinkPhase::AwaitInfo, PeerOp::Interest(interest)) => {
                let taken = self.link.subscribe(&interest);
                taken.inspect_err(|_| self.fail(format_args!("maximum subscriptions exceeded")))
            }
            (LinkPhase::Ready(_) | LinkPhase::AwaitInfo, PeerOp::NoInterest(interest)) => {
                self.link.unsubscribe(&interest);
                Ok(())
            }
            (LinkPhase::Ready(_) | LinkPhase::AwaitInfo, PeerOp::Account(..)) | (_, PeerOp::Ok) => Ok(()),
            (LinkPhase::Ready(next), PeerOp::Pong) => {
                self.timers.ponged(now);
                std::mem::take(next).into_iter().for_each(|dial| self.mesh.host().dial(dial));
                self.follow_round_trip(self.timers.rtt());
                Ok(())
            }
            (LinkPhase::Closed, _) => Err(CloseReason::ServerShutdown),
            (LinkPhase::AwaitInfo | LinkPhase::Ready(_), PeerOp::Ping) => {
                common::answer_ping(&self.link, &mut self.timers, now);
                Ok(())
            }
            (_, PeerOp::Pong) => {
                self.timers.ponged(now);
                Ok(())
            }
            (_, PeerOp::PeerError(text)) => {
                let text = one_line(&String::from_utf8_lossy(text));
                self.log(Level::Error, format_args!("Route Error {text}"));
                Err(CloseReason::ParseError)
            }
            (LinkPhase::AwaitConnect, PeerOp::Connect(json)) => self.connect(json),
            (LinkPhase::AwaitInfo, PeerOp::Info(json)) => self.first_info(json, now),
            (LinkPhase::Ready(_), PeerOp::Info(json)) => self.later_info(json),
            // What a second CONNECT says does not count.
            (LinkPhase::Ready(_) | LinkPhase::AwaitInfo, PeerOp::Connect(_)) => Ok(()),
            (LinkPhase::AwaitConnect, _) => {
                self.fail(format_args!("Authorization Violation"));
                Err(CloseReason::ProtocolViolation)
            }
        }
    }

    /// INFO on a link that has its place: news of a third server, or of this one.
    fn later_info(&mut self, json: &[u8]) -> Step {
        let info = self.parse_info(json)?;
        if self.is_foreign() {
            // The gateway says what is new of another cluster.
            return Ok(());
        }
        if !info.gateway.is_empty() {
            self.mesh.heard_of_gateway(&info, &self.known);
        } else if !info.route_acc_add_reqid.is_empty() {
            self.hear_of_dedicated(info);
        } else if info.id != self.known.facts().remote_id {
            self.mesh.heard_of(&info, &self.known);
        } else if info.ldm {
            self.mesh.is_leaving(&self.known);
        } else {
            self.note_filters(&info);
            self.note_part(&info);
        }
        Ok(())
    }

    fn parse_info(&self, json: &[u8]) -> Result<PeerInfo, CloseReason> {
        PeerInfo::parse(json).map_err(|error| {
            self.log(Level::Error, format_args!("Error reading INFO: {error}"));
            CloseReason::ProtocolViolation
        })
    }

    /// Bytes that are no operation.
    fn refuse(&self, error: PeerError, rest: &[u8]) -> CloseReason {
        // Compat: nothing but CONNECT is looked at before it has come, not even for what it is.
        let is_early = matches!(self.state, LinkPhase::AwaitConnect)
            && rest.first().is_none_or(|first| !first.eq_ignore_ascii_case(&b'C'));
        if is_early || (error == PeerError::PayloadTooLarge && !self.is_ready()) {
            self.fail(format_args!("Authorization Violation"));
            return CloseReason::ProtocolViolation;
        }
        common::refuse_bytes(&self.link, "Router", error, rest)
    }

    fn is_ready(&self) -> bool {
        matches!(self.state, LinkPhase::Ready(_))
    }

    /// Tells the other side and the log what is wrong.
    fn fail(&self, text: Arguments<'_>) {
        self.link.say(format!("-ERR '{text}'\r\n").as_bytes());
        self.log(Level::Error, text);
    }

    fn log(&self, level: Level, line: Arguments<'_>) {
        self.link.broker().log_for(level, self.conn(), line);
    }

    /// When [`on_deadline`](Self::on_deadline) wants to be called next.
    pub fn deadline(&self) -> Instant {
        self.timers.deadline()
    }

    /// Sends PING, or ends a link whose other side does not answer or does not say who it is.
    pub fn on_deadline(&mut self, now: Instant) -> Option<CloseReason> {
        match self.timers.strike(self.is_ready(), now) {
            timers::Due::Nothing => None,
            timers::Due::Ping => {
                self.log(Level::Debug, format_args!("Router Ping Timer"));
                common::ping(&self.link);
                None
            }
            timers::Due::Silent => {
                self.fail(format_args!("Authentication Timeout"));
                Some(CloseReason::AuthenticationTimeout)
            }
            timers::Due::Stale => {
                self.link.broker().counters().stale_links.fetch_add(1, Relaxed);
                Some(common::give_up_stale(&self.link))
            }
        }
    }

    /// Ends the link. What remains to be done may take long.
    pub fn end(&mut self, reason: CloseReason) -> Option<LinkRemoval> {
        if let LinkPhase::Closed = std::mem::replace(&mut self.state, LinkPhase::Closed) {
            return None;
        }
        self.announcing = None;
        if !std::mem::replace(&mut self.end_is_logged, true) {
            common::log_end(&self.link, "Router", reason, &self.known.facts().remote_name);
        }
        let removal = self.link.end(reason);
        self.leave();
        Some(removal)
    }

    /// Does what [`end`](Self::end) has not done, be it that it has failed in the middle: nothing
    /// that names the link remains, and its place is free.
    pub fn abandon(&mut self, reason: CloseReason) -> LinkRemoval {
        self.state = LinkPhase::Closed;
        self.announcing = None;
        let removal = self.link.end(reason);
        self.leave();
        removal
    }

    fn leave(&mut self) {
        self.dial_place = None;
        if !std::mem::replace(&mut self.has_left, true) {
            self.mesh.leave(&self.known);
        }
    }

    /// Address of the other server, as gossip would tell it.
    fn met_at(&self, info: &PeerInfo) -> Option<RouteUrl> {
        let mut info = info.clone();
        crate::gossip::complete(&mut info, self.conn().peer().ip());
        RouteUrl::of_gossip(&info.ip)
    }
}

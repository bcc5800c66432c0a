//! A session's clock: the time to authenticate, PINGs, and the end of peers that do not answer.

use super::{Session, SessionState, SessionStatus};
use crate::conn::Conn;
use crate::log::{Level, Span};
use crate::settings::Settings;
use crate::shard::Shard;
use crate::token_ends::{TokenEnds, TokenOwner};
use myelin_wire::encode;
use myelin_wire::error::{CloseReason, ErrorText};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The first PING comes early: it measures the round trip.
const FIRST_PING: Duration = Duration::from_secs(2);
/// The round trip is measured again after this time even if the peer is busy.
const MEASURE_AGAIN: Duration = Duration::from_secs(3600);

/// How many times the time to authenticate a check of credentials may take, with all those in front
/// of it.
const VERDICT_PATIENCE: u32 = 5;

/// When something is due, and what was heard.
pub(super) struct Timers {
    /// End of the time to authenticate.
    auth: Option<Instant>,
    ping: Instant,
    pub(super) opened: Instant,
    pub(super) last_heard: Instant,
    /// When the last PING went out.
    pinged: Option<Instant>,
    unanswered: u32,
    /// Carried over a second CONNECT: the INFO after the first PING comes once.
    pub(super) first_ping_done: bool,
}

impl Timers {
    pub(super) fn new(settings: &Settings, now: Instant, conn: &Conn) -> Self {
        Self {
            auth: None,
            ping: now + first_ping(settings, conn),
            opened: now,
            last_heard: now,
            pinged: None,
            unanswered: 0,
            first_ping_done: false,
        }
    }

    pub(super) fn expect_connect(&mut self, settings: &Settings, conn: &Conn) {
        self.auth = Some(self.opened + auth_timeout(settings, conn));
    }

    /// The time to authenticate begins now, if it is limited.
    pub(super) fn expect_connect_from(&mut self, settings: &Settings, now: Instant, conn: &Conn) {
        if self.auth.is_some() {
            self.auth = Some(now + auth_timeout(settings, conn));
        }
    }

    /// CONNECT has come: its time is no longer limited, and the first PING is due anew.
    pub(super) fn connected(&mut self, settings: &Settings, now: Instant, conn: &Conn) {
        self.auth = None;
        self.pinged = None;
        self.ping = now + first_ping(settings, conn);
    }

    /// CONNECT has come and its credentials are being checked: a peer that has left must not wait
    /// in line for ever.
    pub(super) fn expect_verdict(&mut self, settings: &Settings, now: Instant, conn: &Conn) {
        self.auth = Some(now + auth_timeout(settings, conn) * VERDICT_PATIENCE);
    }

    #[inline]
    pub(super) fn heard(&mut self, now: Instant) {
        self.last_heard = now;
    }
}

/// A way in may have an interval of its own.
fn ping_interval(settings: &Settings, conn: &Conn) -> Duration {
    conn.websocket_origin()
        .and_then(|websocket_origin| websocket_origin.listener_info.ping_interval)
        .unwrap_or(settings.ping_interval)
}

/// Time in which a client of this connection's listener has to authenticate.
fn auth_timeout(settings: &Settings, conn: &Conn) -> Duration {
    let own = match conn.mqtt() {
        Some(mqtt) => mqtt.terms.auth_timeout,
        None => conn.websocket_origin().and_then(|origin| origin.listener_info.auth_timeout),
    };
    own.unwrap_or(settings.auth_timeout)
}

/// Spread by up to a fifth, so that a thousand clients that reconnect together do not ping
/// together.
fn first_ping(settings: &Settings, conn: &Conn) -> Duration {
    let base = ping_interval(settings, conn).min(FIRST_PING);
    let spread = (conn.cid().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / (1u64 << 24) as f64;
    base + base.mul_f64(spread / 5.0)
}

impl Session {
    /// When [`on_deadline`](Self::on_deadline) wants to be called next. Operations may move it,
    /// also nearer.
    pub fn deadline(&self) -> Instant {
        [self.timers.auth, self.expiry(), self.mqtt_deadline()]
            .into_iter()
            .flatten()
            .fold(self.timers.ping, Instant::min)
    }

    /// Does what is due.
    pub fn on_deadline(&mut self, shard: &mut Shard, now: Instant) -> SessionStatus {
        if self.timers.auth.is_some_and(|due| due <= now) {
            self.timers.auth = None;
            let text = ErrorText::AuthenticationTimeout;
            let verdict = self.refuse(shard, &text, CloseReason::AuthenticationTimeout);
            self.log_rarely(Level::Debug, &text.to_string(), now);
            return verdict;
        }
        if self.expiry().is_some_and(|due| due <= now) {
            return self.expired(shard, self.first_to_expire(), now);
        }
        if self.mqtt_deadline().is_some_and(|due| due <= now) {
            return self.mqtt_due(shard, now);
        }
        if self.timers.ping <= now { self.ping_due(shard, now) } else { SessionStatus::Continue }
    }

    /// When the credentials come to their end.
    fn expiry(&self) -> Option<Instant> {
        if let SessionState::Ready(ready) = &self.state { ready.expiry } else { None }
    }

    /// Owner of the token that comes to its end first.
    fn first_to_expire(&self) -> TokenOwner {
        let SessionState::Ready(ready) = &self.state else { return TokenOwner::User };
        let ends = TokenEnds::of(ready.claims.as_deref(), ready.callout_grant.as_deref());
        ends.first().map_or(TokenOwner::User, |(_, owner)| owner)
    }

    pub(super) fn expired(&mut self, shard: &mut Shard, whose: TokenOwner, now: Instant) -> SessionStatus {
        if let SessionState::Ready(ready) = &mut self.state {
            ready.expiry = None;
        }
        let text = whose.text();
        let verdict = self.refuse(shard, &text, CloseReason::AuthenticationExpired);
        self.log_rarely(Level::Debug, &text.to_string(), now);
        verdict
    }

    fn ping_due(&mut self, shard: &mut Shard, now: Instant) -> SessionStatus {
        let interval = ping_interval(shard.settings(), &self.conn);
        self.timers.ping = now + interval;
        if self.mqtt.is_some() {
            // Nothing is asked of the client: its keep alive is its own.
            self.rest();
            return SessionStatus::Continue;
        }
        let SessionState::Ready(ready) = &self.state else { return SessionStatus::Continue };
        // Compat: the early PING is only for those who have sent CONNECT.
        if !ready.connected && now.duration_since(self.timers.opened) < interval {
            return SessionStatus::Continue;
        }
        self.log(Level::Debug, format_args!("Client Ping Timer"));
        let quiet = now.duration_since(self.timers.last_heard);
        let measured = self.timers.pinged.is_some_and(|at| now.duration_since(at) < MEASURE_AGAIN);
        if quiet < interval && measured {
            let quiet = Span(Duration::from_secs_f64(quiet.as_secs_f64().round()));
            let line = format_args!("Delaying PING due to remote client data or ping {quiet} ago");
            self.log(Level::Debug, line);
            return SessionStatus::Continue;
        }
        if self.timers.unanswered >= shard.settings().ping_max {
            self.broker.counters().stale_connections.fetch_add(1, Relaxed);
            self.log(Level::Debug, format_args!("Stale Client Connection - Closing"));
            // Compat: the protocol log does not show this `-ERR`.
            shard.stage_error(&self.conn, &ErrorText::StaleConnection);
            return SessionStatus::Close(CloseReason::StaleConnection);
        }
        self.timers.unanswered += 1;
        self.timers.pinged = Some(now);
        self.log_sent("PING");
        shard.stage_line(&self.conn, encode::PING);
        SessionStatus::Continue
    }

    pub(super) fn pong(&mut self, now: Instant) {
        self.timers.unanswered = 0;
        if let (Some(pinged), SessionState::Ready(_)) = (self.timers.pinged, &self.state) {
            let rtt = now.duration_since(pinged);
            self.conn.update_details(|details| details.set_rtt(rtt));
        }
    }
}

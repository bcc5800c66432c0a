//! A link's clock: the time for a handshake, PINGs, and the end of peers that do not answer.

use std::time::{Duration, Instant};

/// The first PING comes early: it measures the round trip.
const FIRST_PING: Duration = Duration::from_secs(1);
/// Longest time between two PINGs of a route. Compat: whatever is configured.
pub(crate) const LONGEST_INTERVAL: Duration = Duration::from_secs(30);
/// Time for a handshake after which a silent peer is given up, once it has logged in.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// Least time between two PONGs for a peer that is behind.
const REST: Duration = Duration::from_secs(1);

/// Action that is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Ping,
    /// The handshake takes too long.
    Silent,
    /// Too many PINGs stayed without an answer.
    Stale,
}

pub(crate) struct LinkTimers {
    opened: Instant,
    /// End of the time to log in, and of that for the handshake.
    login: Option<Instant>,
    handshake: Instant,
    ping: Instant,
    interval: Duration,
    max: u32,
    last_pinged: Option<Instant>,
    unanswered: u32,
    rtt: Option<Duration>,
    first: Duration,
    /// When a PING was answered.
    answered: Option<Instant>,
}

impl LinkTimers {
    /// Time between two PINGs, and how many of them may stay without an answer; `seed` spreads the
    /// first PING of several links.
    pub(crate) fn new((interval, max): (Duration, u32), seed: u64, now: Instant) -> Self {
        let first = interval.min(FIRST_PING);
        let spread = (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / (1u64 << 24) as f64;
        Self {
            opened: now,
            login: None,
            handshake: now + HANDSHAKE,
            ping: now + HANDSHAKE,
            interval,
            max,
            last_pinged: None,
            unanswered: 0,
            rtt: None,
            first: first + first.mul_f64(spread / 5.0),
            answered: None,
        }
    }

    /// Other times from now on; the next PING comes when it was to come.
    pub(crate) fn change(&mut self, interval: Duration, max: u32) {
        (self.interval, self.max) = (interval, max);
    }

    pub(crate) fn opened(&self) -> Instant {
        self.opened
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// The handshake begins; `login` is the time for the other side to log in, where it has to.
    /// Compat: it takes no longer than PINGs would stay unanswered.
    pub(crate) fn greeted(&mut self, login: Option<Duration>, now: Instant) {
        self.login = login.map(|login| now + login);
        self.handshake = now + HANDSHAKE.min(self.interval * self.max.saturating_add(1));
        self.ping = self.handshake;
    }

    /// The other side has said who it is.
    pub(crate) fn named(&mut self) {
        self.login = None;
    }

    /// The handshake is over.
    pub(crate) fn ready(&mut self, now: Instant) {
        self.login = None;
        self.ping = now + self.first;
    }

    /// A PING was sent.
    pub(crate) fn pinged(&mut self, now: Instant) {
        self.last_pinged = Some(now);
        self.unanswered += 1;
    }

    /// Whether a PING is answered. Of a peer that is behind not each: one that asks and does not
    /// read would take all memory. No server asks more often than that.
    pub(crate) fn answers(&mut self, is_behind: bool, now: Instant) -> bool {
        let is_early = self.answered.is_some_and(|last| now.saturating_duration_since(last) < REST);
        if is_behind && is_early {
            return false;
        }
        self.answered = Some(now);
        true
    }

    /// A PONG has come.
    pub(crate) fn ponged(&mut self, now: Instant) {
        self.unanswered = 0;
        if let Some(pinged) = self.last_pinged.take() {
            self.rtt = Some(now.saturating_duration_since(pinged));
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.login.unwrap_or(self.ping).min(self.ping)
    }

    pub(crate) fn strike(&mut self, is_ready: bool, now: Instant) -> Due {
        if now < self.deadline() {
            return Due::Nothing;
        }
        if !is_ready {
            let is_late = self.login.is_some_and(|end| end <= now) || self.handshake <= now;
            return if is_late { Due::Silent } else { Due::Nothing };
        }
        if self.unanswered >= self.max {
            return Due::Stale;
        }
        self.ping = now + self.interval;
        self.pinged(now);
        Due::Ping
    }
}

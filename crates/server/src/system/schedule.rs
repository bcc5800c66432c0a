//! Schedule of what the system account tells by time: statistics, counts of connections, and what
//! has waited long enough for other servers.

use super::System;
use super::gatherings::Gatherings;
use super::peers::KnownServers;
use myelin_stdx::sync::lock;
use std::time::{Duration, Instant};

/// How often it is told how many connections accounts have.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Counting what accounts have moved means a look at every connection. For each moment that it
/// takes so many are rest, however fast connections come and go.
const REST: u32 = 9;
/// How often the server tells of itself in the end; it begins with more.
const STATSZ: Duration = Duration::from_secs(10);
const FIRST_STATSZ: Duration = Duration::from_millis(250);
/// Servers that are new are told of this one at once, but not more often than this.
const SHORTEST_STATSZ: Duration = Duration::from_secs(1);

/// When something is told without a request, and what the thread that tells it knows.
pub(super) struct EventSchedule {
    statsz: Instant,
    pub(super) statsz_every: Duration,
    last_statsz: Option<Instant>,
    connections: Instant,
    /// Before this it is not told again that connections have come or gone.
    changes: Instant,
    /// Some have.
    pub(super) changes_wait: bool,
    /// When tokens are to be compared with other servers.
    pub(super) comparison: Option<Instant>,
    pub(super) servers: KnownServers,
    pub(super) gatherings: Gatherings,
}

impl EventSchedule {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            statsz: now + FIRST_STATSZ,
            statsz_every: FIRST_STATSZ,
            last_statsz: None,
            connections: now + HEARTBEAT,
            changes: now,
            changes_wait: false,
            comparison: None,
            servers: KnownServers::default(),
            gatherings: Gatherings::default(),
        }
    }

    /// Time until something is due.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let others = [self.changes_wait.then_some(self.changes), self.gatherings.due(), self.comparison];
        let next = others.into_iter().flatten().fold(self.statsz.min(self.connections), Instant::min);
        next.saturating_duration_since(now)
    }

    /// Compat: twice as long each time, up to the full time.
    fn next_statsz(&mut self, now: Instant) {
        self.statsz_every = (self.statsz_every * 2).min(STATSZ);
        self.statsz = now + self.statsz_every;
        self.last_statsz = Some(now);
    }

    /// The statistics were told to everybody for another reason.
    pub(super) fn told_statsz(&mut self, now: Instant) {
        self.statsz = now + self.statsz_every;
        self.last_statsz = Some(now);
    }

    /// Another server has begun to listen: it is to learn soon what others know.
    pub(super) fn greet(&mut self, now: Instant) {
        let earliest = self.last_statsz.map_or(now, |last| (last + SHORTEST_STATSZ).max(now));
        self.statsz = self.statsz.min(earliest);
        self.connections = now;
        self.comparison = Some(earliest);
    }
}

impl System {
    /// Publishes the events that are due by time.
    pub(super) fn publish_periodic(&self, pace: &mut EventSchedule, now: Instant) {
        self.publish_limited_counts();
        if pace.statsz <= now {
            pace.next_statsz(now);
            self.publish_statsz();
            self.forget_gone_servers(pace);
        }
        if pace.connections <= now {
            pace.connections = now + HEARTBEAT;
            self.publish_all_counts();
            // Whoever was to be told of these may have found the queue full.
            pace.changes_wait |= !lock(&self.changed).is_empty();
        }
        if pace.changes_wait && pace.changes <= now {
            pace.changes_wait = false;
            self.publish_changed_counts();
            let end = Instant::now();
            pace.changes = end + (end - now) * REST;
        }
        if pace.comparison.is_some_and(|comparison| comparison <= now) {
            pace.comparison = None;
            self.compare_tokens(pace, now);
        }
        self.end_gatherings(pace, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_comes_is_told_at_once_and_many_are_told_together() {
        let start = Instant::now();
        let mut pace = EventSchedule::new(start);
        pace.next_statsz(start);
        let later = start + Duration::from_secs(3);
        pace.statsz = start + STATSZ;
        pace.greet(later);
        assert_eq!(pace.left(later), Duration::ZERO);
        pace.next_statsz(later);
        pace.connections = later + HEARTBEAT;
        pace.greet(later);
        assert_eq!((pace.statsz, pace.connections), (later + SHORTEST_STATSZ.min(pace.statsz_every), later));
    }
}

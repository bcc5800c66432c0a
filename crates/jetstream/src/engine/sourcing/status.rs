//! How a source reader stands, as `STREAM.INFO` shows it.

use myelin_jsapi::ApiError;
use myelin_store::{Seq, Timestamp};

/// How often the reference's consumers give a sign of life: while an origin is there, `active` is
/// never older.
const HEARTBEAT: i64 = 1_000_000_000;

const SECOND: Timestamp = 1_000_000_000;
/// How often the time until it is looked for again doubles. One that is made is noticed at once.
const DOUBLED: u32 = 4;

/// Status of a source reader, as `STREAM.INFO` shows it.
#[derive(Default)]
pub(super) struct SourceStatus {
    /// Whether the origin was asked for. Compat: a mirror tells its filter only from then on.
    pub(super) was_tried: bool,
    /// Whether the origin is there, on this server.
    pub(super) is_connected: bool,
    /// When something came of it.
    pub(super) heard: Option<Timestamp>,
    /// Why nothing comes.
    pub(super) error: Option<ApiError>,
    /// The last sequence of the origin that was stored, or need not be.
    pub(super) seq: Seq,
    /// Messages that were still to come when the origin was there last.
    pub(super) lag: u64,
    /// When the first of these was stored at the origin, if that is known.
    pub(super) next_stored: Option<Timestamp>,
    /// When the last message that came was stored at the origin.
    pub(super) last_stored: Option<Timestamp>,
    /// How often it was not there.
    pub(super) failures: u32,
    /// No alarm looks for it before: those that were set for something else go off, too.
    pub(super) not_before: Timestamp,
}

impl SourceStatus {
    /// Nanoseconds since the origin was heard; -1: never.
    pub(super) fn active(&self, now: Timestamp) -> i64 {
        match self.heard {
            None => -1,
            Some(heard) if self.is_connected => now.saturating_sub(heard).max(0) % HEARTBEAT,
            Some(heard) => now.saturating_sub(heard).max(0),
        }
    }

    /// When the oldest message that is still to come was stored at the origin, or the last one that
    /// came.
    pub(super) fn waits_since(&self) -> Option<Timestamp> {
        self.next_stored.or(self.last_stored).filter(|_| self.lag > 0)
    }

    /// The origin is there, on this server or on another.
    pub(super) fn connected(&mut self, now: Timestamp, is_here: bool) {
        (self.is_connected, self.heard, self.error, self.failures) = (is_here, Some(now), None, 0);
    }

    /// Notes that the origin is not there, or cannot be read. Returns when to look again: after a
    /// longer pause each time.
    pub(super) fn failed(&mut self, why: Option<ApiError>, now: Timestamp) -> Timestamp {
        (self.is_connected, self.error) = (false, why);
        self.not_before = now.saturating_add(SECOND << self.failures.min(DOUBLED));
        self.failures = self.failures.saturating_add(1);
        self.not_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_to_come_waits_since_it_was_stored_or_the_one_before_it() {
        let mut status = SourceStatus { last_stored: Some(5), ..SourceStatus::default() };
        assert_eq!(status.waits_since(), None, "nothing is to come");
        status.lag = 2;
        assert_eq!(status.waits_since(), Some(5));
        status.next_stored = Some(9);
        assert_eq!(status.waits_since(), Some(9));
    }

    #[test]
    fn an_origin_that_is_there_was_heard_a_moment_ago() {
        let mut status = SourceStatus::default();
        assert_eq!(status.active(5), -1);
        status.connected(10, true);
        assert_eq!(status.active(10 + 5 * HEARTBEAT + 7), 7);
        status.failed(None, 10);
        assert_eq!(status.active(10 + 5 * HEARTBEAT + 7), 5 * HEARTBEAT + 7);
        // One on another server gives its signs of life itself.
        status.connected(20, false);
        assert_eq!(status.active(20 + 2 * HEARTBEAT), 2 * HEARTBEAT);
    }
}

//! Pacing of deliveries that somebody wants: a limit of bytes per second, and old messages that are
//! to come with the pauses that were between them.

use myelin_jsapi::consumer::config::{ConsumerConfig, ReplayPolicy};
use myelin_store::{Seq, Timestamp};

const SECOND: i128 = 1_000_000_000;

/// Pacer of deliveries: the rate limit, and replay at the original speed.
#[derive(Default)]
pub(super) struct Pacer {
    rate: Option<Rate>,
    replay: Option<OriginalReplay>,
}

/// Bytes per second: a bucket that holds one large message.
struct Rate {
    bytes_per_second: i128,
    /// Nanoseconds that a full bucket lasts.
    burst: i128,
    /// When all that was sent is paid for.
    paid_at: i128,
}

/// Pauses between messages that were there when the consumer began.
struct OriginalReplay {
    through: Seq,
    /// The last message: when it was stored, and when it was delivered.
    last: Option<(Timestamp, Timestamp)>,
}

impl Pacer {
    /// `last`: the stream's last message; `largest`: bytes of the largest that may come.
    pub(super) fn new(config: &ConsumerConfig, last: Seq, largest: i64) -> Self {
        let bytes_per_second = i128::from(config.rate_limit_bps / 8);
        let rate = (config.rate_limit_bps > 0).then(|| {
            let bytes_per_second = bytes_per_second.max(1);
            Rate { bytes_per_second, burst: i128::from(largest) * SECOND / bytes_per_second, paid_at: 0 }
        });
        let replay = (config.replay_policy == ReplayPolicy::Original)
            .then_some(OriginalReplay { through: last, last: None });
        Self { rate, replay }
    }

    /// Takes over what does not change with another configuration.
    pub(super) fn update(&mut self, config: &ConsumerConfig, largest: i64) {
        self.rate = Self::new(config, 0, largest).rate;
    }

    /// Whether the message may go now; else when it may.
    pub(super) fn check(&self, timestamp: Timestamp, size: i64, now: Timestamp) -> Result<(), Timestamp> {
        match self.replay_holds(timestamp, now).or_else(|| self.rate_holds(size, now)) {
            None => Ok(()),
            Some(at) => Err(at),
        }
    }

    /// Until when the message is to wait for the pause behind the one before it.
    #[inline]
    pub(super) fn replay_holds(&self, timestamp: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let (stored, delivered) = self.replay.as_ref().and_then(|replay| replay.last)?;
        let at = delivered.saturating_add(timestamp - stored);
        // Compat: a pause of up to a millisecond is none.
        (timestamp - stored > 1_000_000 && at > now).then_some(at)
    }

    /// Until when so many bytes are to wait for the limit of bytes per second.
    #[inline]
    fn rate_holds(&self, size: i64, now: Timestamp) -> Option<Timestamp> {
        let rate = self.rate.as_ref()?;
        let at = rate.paid_after(size, now) - rate.burst;
        (at > i128::from(now)).then(|| Timestamp::try_from(at).unwrap_or(Timestamp::MAX))
    }

    /// The message went: it counts.
    pub(super) fn delivered(&mut self, (seq, timestamp): (Seq, Timestamp), size: i64, now: Timestamp) {
        if let Some(rate) = &mut self.rate {
            let paid_at = rate.paid_after(size, now);
            debug_assert!(paid_at >= rate.paid_at, "what was sent is paid for once, one after the other");
            rate.paid_at = paid_at;
        }
        if let Some(replay) = &mut self.replay {
            replay.last = Some((timestamp, now));
            if seq >= replay.through {
                self.replay = None;
            }
        }
    }
}

impl Rate {
    /// When all is paid for, with another message of this size.
    fn paid_after(&self, size: i64, now: Timestamp) -> i128 {
        self.paid_at.max(i128::from(now)) + i128::from(size) * SECOND / self.bytes_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn bytes_per_second_are_kept_behind_a_first_burst() {
        let config = ConsumerConfig { rate_limit_bps: 8_000, ..Default::default() };
        let mut pacer = Pacer::new(&config, 0, 500);
        assert_eq!(go(&mut pacer, (1, 0), 500, 0), Ok(()), "a full bucket");
        assert_eq!(go(&mut pacer, (2, 0), 100, 0), Err(100 * MS));
        assert_eq!(pacer.check(0, 100, 100 * MS), Ok(()), "what does not go is not paid");
        assert_eq!(go(&mut pacer, (2, 0), 100, 100 * MS), Ok(()));
        assert_eq!(go(&mut pacer, (3, 0), 100, 100 * MS), Err(200 * MS));
    }

    /// One that goes if it may.
    fn go(pacer: &mut Pacer, place: (Seq, Timestamp), size: i64, now: Timestamp) -> Result<(), Timestamp> {
        pacer.check(place.1, size, now)?;
        pacer.delivered(place, size, now);
        Ok(())
    }

    #[test]
    fn old_messages_come_with_their_pauses() {
        let config = ConsumerConfig { replay_policy: ReplayPolicy::Original, ..Default::default() };
        let mut pacer = Pacer::new(&config, 3, 500);
        assert_eq!(go(&mut pacer, (1, 10 * MS), 1, 1_000 * MS), Ok(()));
        assert_eq!(go(&mut pacer, (2, 30 * MS), 1, 1_005 * MS), Err(1_020 * MS));
        assert_eq!(go(&mut pacer, (2, 30 * MS), 1, 1_020 * MS), Ok(()));
        assert_eq!(go(&mut pacer, (3, 30 * MS), 1, 1_020 * MS), Ok(()), "no pause");
        assert_eq!(go(&mut pacer, (4, 90 * MS), 1, 1_020 * MS), Ok(()), "new");
    }
}

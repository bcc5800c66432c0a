//! Clocks of other servers, as they say them: what most take for the time of day.

use myelin_replica::Peer;
use myelin_replica::frame::TimeWord;
use myelin_store::Timestamp;
use std::collections::BTreeMap;

/// Nanoseconds for which a clock counts that was heard.
const FRESH: u64 = 10_000_000_000;
/// Nanoseconds on the way, there and back, after which nobody knows how late it is.
const TOO_LONG: u64 = 500_000_000;
/// Clocks of which one can be outvoted.
const ENOUGH: usize = 3;

/// Clocks of servers. Times without a day are nanoseconds of the clock that only goes forward.
#[derive(Debug, Default)]
pub(super) struct DayClocks {
    /// When a clock was heard, and what it said then.
    heard: BTreeMap<Peer, (u64, Timestamp)>,
    /// Nanoseconds by which this server's is ahead of the median, at the last look.
    pub(super) ahead: Timestamp,
}

impl DayClocks {
    /// Another server has said how late it is, asked at a time.
    pub(super) fn hear(&mut self, peer: Peer, word: TimeWord, now: u64) {
        if let Some(on_the_way) = now.checked_sub(word.sent).filter(|time| *time < TOO_LONG) {
            let half = Timestamp::try_from(on_the_way / 2).unwrap_or(0);
            self.heard.insert(peer, (now, word.day.saturating_add(half)));
        }
    }

    /// The median of all clocks, this server's (`day`) among them: of an even number the one of the
    /// middle two that is nearer to it. `None`: too few are heard.
    pub(super) fn median(&self, day: Timestamp, now: u64) -> Option<Timestamp> {
        let of_others = self.heard.values().filter_map(|&(at, said)| {
            let passed = now.saturating_sub(at);
            (passed < FRESH).then(|| said.saturating_add(Timestamp::try_from(passed).unwrap_or(0)))
        });
        let mut all: Vec<Timestamp> = of_others.chain([day]).collect();
        if all.len() < ENOUGH {
            return None;
        }
        all.sort_unstable();
        Some(day.clamp(all[(all.len() - 1) / 2], all[all.len() / 2]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_of_clocks_that_were_heard_lately() {
        let peers = ["server-B", "server-C", "server-D"].map(|name| Peer::parse(name).expect("a name"));
        let mut clocks = DayClocks::default();
        let mut hear = |peer, sent, day, now| {
            clocks.hear(peer, TimeWord { sent, day }, now);
            clocks.median(1000, now)
        };
        assert_eq!(hear(peers[0], 0, 10, 20), None, "of two nobody knows which is right");
        assert_eq!(hear(peers[1], 10, 12, 20), Some(20), "half of the way is counted");
        assert_eq!(hear(peers[2], 20, 5000, 20), Some(1000), "it is between the two in the middle");
        hear(peers[2], 0, 9, TOO_LONG);
        assert_eq!(clocks.heard[&peers[2]], (20, 5000), "that was too long on its way");
        assert_eq!(clocks.median(1000, FRESH + 20), None);
    }
}

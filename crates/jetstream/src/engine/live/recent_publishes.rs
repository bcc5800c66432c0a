//! Publishes that have come to a replica since it leads, for the leader before it.
//!
//! While a stream is handed over both receive, so that nobody hears that nobody is there. The one
//! before holds what it gets, and refuses it when the other one is heard of: but a message that
//! the other one has got, too, is stored and acknowledged there. Were it refused as well, its
//! publisher might hear that first, and send it again. So the one before says which it holds, and
//! hears which of them were taken. Of those that were not none is taken any more.

use myelin_broker::ServiceBatch;
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

/// A leader before that has not asked after so long does not ask any more.
const ASKED_WITHIN: Duration = Duration::from_secs(3);

/// Longest way here of what the leader before has refused as well. Whatever comes later was sent
/// again, as clients do 250 ms after a refusal, some with the same reply.
const ON_ITS_WAY: Duration = Duration::from_millis(200);

/// Most publishes that are known at once: what comes behind them is not.
const MOST: usize = 1 << 16;

/// Identity of a publish: its reply, and a checksum of what else it says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::engine) struct PublishKey(String, u32);

impl PublishKey {
    /// `None`: nobody waits for an answer.
    pub(super) fn of(msg: &MessageRef<'_>) -> Option<Self> {
        let reply = std::str::from_utf8(msg.reply).ok().filter(|reply| !reply.is_empty())?;
        let parts = [msg.subject, msg.headers, msg.payload];
        let checksum = parts.iter().fold(0, |checksum, part| crc32c::crc32c_append(checksum, part));
        Some(Self(reply.to_owned(), checksum))
    }
}

/// Publishes of the first seconds of a leader.
#[derive(Default)]
pub(super) struct RecentPublishes {
    /// Perf: each batch of publishes looks here.
    is_on: AtomicBool,
    known: Mutex<KnownPublishes>,
}

#[derive(Default)]
struct KnownPublishes {
    until: Option<Instant>,
    /// Publishes that have come.
    taken: PublishCounts,
    /// Publishes that are refused by the leader before, and may still come until then.
    refused: PublishCounts,
    refused_until: Option<Instant>,
}

/// Publishes, and how many there are of each.
#[derive(Default)]
pub(super) struct PublishCounts(BTreeMap<PublishKey, usize>);

impl FromIterator<PublishKey> for PublishCounts {
    fn from_iter<I: IntoIterator<Item = PublishKey>>(keys: I) -> Self {
        let mut counts = Self::default();
        keys.into_iter().for_each(|key| counts.add(key));
        counts
    }
}

impl PublishCounts {
    fn add(&mut self, key: PublishKey) {
        *self.0.entry(key).or_default() += 1;
    }

    /// Takes one of these away, if there is one.
    pub(super) fn take(&mut self, key: &PublishKey) -> bool {
        let Some(count) = self.0.get_mut(key) else { return false };
        *count -= 1;
        if *count == 0 {
            self.0.remove(key);
        }
        true
    }
}

impl RecentPublishes {
    /// Leads from now on.
    pub(super) fn begin(&self, now: Instant) {
        *lock(&self.known) = KnownPublishes { until: Some(now + ASKED_WITHIN), ..KnownPublishes::default() };
        self.is_on.store(true, Release);
    }

    /// Whether the leader before may still ask.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Acquire)
    }

    /// Notes publishes that come. Answers the numbers of those that the leader before has refused.
    pub(super) fn note(&self, msgs: &ServiceBatch, now: Instant) -> Vec<usize> {
        let mut known = lock(&self.known);
        if known.until.is_none_or(|until| now >= until) {
            *known = KnownPublishes::default();
            self.is_on.store(false, Release);
            return Vec::new();
        }
        if known.refused_until.is_some_and(|until| now >= until) {
            (known.refused, known.refused_until) = (PublishCounts::default(), None);
        }
        let mut refused = Vec::new();
        for (at, msg) in msgs.iter().enumerate() {
            let Some(key) = PublishKey::of(&msg) else { continue };
            if known.refused.take(&key) {
                refused.push(at);
            } else if known.taken.0.len() < MOST {
                known.taken.add(key);
            }
        }
        refused
    }

    /// The leader before holds these. Answers those that have come here, too; the others it
    /// refuses.
    pub(super) fn settle(&self, held: Vec<PublishKey>, now: Instant) -> Vec<PublishKey> {
        let mut known = lock(&self.known);
        let (taken, refused): (Vec<_>, Vec<_>) = held.into_iter().partition(|key| known.taken.take(key));
        if known.until.is_some() {
            known.refused_until = Some(now + ON_ITS_WAY);
            refused.into_iter().for_each(|key| known.refused.add(key));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(msgs: &[(&str, &str)]) -> ServiceBatch {
        let mut batch = ServiceBatch::default();
        for (reply, payload) in msgs {
            let (reply, payload) = (reply.as_bytes(), payload.as_bytes());
            batch.push(MessageRef { subject: b"S.a", reply, payload, ..MessageRef::default() });
        }
        batch
    }

    fn keys(msgs: &[(&str, &str)]) -> Vec<PublishKey> {
        batch(msgs).iter().filter_map(|msg| PublishKey::of(&msg)).collect()
    }

    #[test]
    fn each_publish_is_taken_by_one_of_two_leaders() {
        let (recent, now) = (RecentPublishes::default(), Instant::now());
        recent.begin(now);
        assert!(recent.note(&batch(&[("r.1", "a"), ("", "b"), ("r.2", "c"), ("r.2", "c")]), now).is_empty());
        let held = keys(&[("r.1", "a"), ("", "b"), ("r.2", "c"), ("r.3", "d"), ("r.1", "other")]);
        assert_eq!(held.len(), 4, "nobody is told of what has no reply");
        assert_eq!(recent.settle(held, now), keys(&[("r.1", "a"), ("r.2", "c")]));
        let late = batch(&[("r.3", "d"), ("r.1", "other"), ("r.3", "d"), ("r.1", "a"), ("", "b")]);
        assert_eq!(recent.note(&late, now), [0, 1], "each once");
    }

    #[test]
    fn what_was_refused_and_is_sent_again_is_taken() {
        let (recent, now) = (RecentPublishes::default(), Instant::now());
        recent.begin(now);
        assert!(recent.settle(keys(&[("r.1", "a"), ("r.2", "b")]), now).is_empty());
        let just_before = now + ON_ITS_WAY - Duration::from_nanos(1);
        assert_eq!(recent.note(&batch(&[("r.1", "a")]), just_before), [0]);
        assert!(recent.note(&batch(&[("r.2", "b")]), now + ON_ITS_WAY).is_empty());
    }

    #[test]
    fn a_leader_before_that_does_not_ask_is_forgotten() {
        let (recent, now) = (RecentPublishes::default(), Instant::now());
        assert!(!recent.is_on() && recent.settle(keys(&[("r", "a")]), now).is_empty());
        recent.begin(now);
        assert!(recent.settle(keys(&[("r", "a")]), now).is_empty() && recent.is_on());
        assert!(recent.note(&batch(&[("r", "a")]), now + ASKED_WITHIN).is_empty());
        assert!(!recent.is_on());
    }
}

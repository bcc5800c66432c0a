//! PUBRELs on their way to a client, and the messages that it has had before them: plain data.

use myelin_mqtt::packet::PacketId;
use std::collections::{BTreeMap, VecDeque};

/// Messages of which is known that the client has had them. A consumer that has lost their
/// acknowledgements, by a change of its leader, delivers those again that were last.
const MOST_HAD: usize = 1024;

/// PUBRELs of one session. Boxed: most sessions never have any.
#[derive(Default)]
pub(in crate::session::mqtt) struct PubRels(Option<Box<SessionPubRels>>);

#[derive(Default)]
struct SessionPubRels {
    /// PUBRELs whose exchange is not over.
    open: BTreeMap<PacketId, OpenPubRel>,
    /// How many of these the client has not answered.
    unanswered: usize,
    /// Sequences of the last messages that the client has had.
    had: VecDeque<u64>,
    /// The highest sequence that was among them.
    highest: u64,
}

/// A PUBREL whose exchange is not over.
#[derive(Default)]
struct OpenPubRel {
    /// Where it is said that it is over.
    reply: Box<[u8]>,
    /// The message's consumer has not confirmed that it does not come again.
    awaits_consumer: bool,
    /// The client has answered.
    is_answered: bool,
}

impl PubRels {
    /// Adds one that is stored, or its place where it is acknowledged; `sequence` is that of its
    /// message, if it is known.
    pub(super) fn open(&mut self, id: PacketId, reply: &[u8], sequence: Option<u64>) {
        let is_known = sequence.is_none_or(|sequence| self.has_had(sequence));
        let SessionPubRels { open, unanswered, had, highest } = &mut **self.0.get_or_insert_default();
        let count = open.len();
        open.entry(id).or_default().reply = reply.into();
        *unanswered += open.len() - count;
        let Some(sequence) = sequence.filter(|_| !is_known) else { return };
        if had.len() == MOST_HAD {
            had.pop_front();
        }
        had.push_back(sequence);
        *highest = sequence.max(*highest);
    }

    /// One is not over before the consumer of its message has confirmed something.
    pub(super) fn await_consumer(&mut self, id: PacketId) {
        debug_assert!(self.contains(id), "a PUBREL is there before its message is settled");
        let open = self.0.as_mut().and_then(|pubrels| pubrels.open.get_mut(&id));
        open.into_iter().for_each(|open| open.awaits_consumer = true);
    }

    /// The consumer has confirmed it: where the end is said, if the client has answered, too.
    pub(super) fn settled(&mut self, id: PacketId) -> Option<Box<[u8]>> {
        self.end(id, |open| open.awaits_consumer = false)
    }

    /// The client has answered one: where that is said, if nothing else is awaited.
    pub(super) fn close(&mut self, id: PacketId) -> Option<Box<[u8]>> {
        self.end(id, |open| open.is_answered = true)
    }

    fn end(&mut self, id: PacketId, note: impl FnOnce(&mut OpenPubRel)) -> Option<Box<[u8]>> {
        let SessionPubRels { open: all, unanswered, .. } = &mut **self.0.as_mut()?;
        let open = all.get_mut(&id)?;
        let was_answered = open.is_answered;
        note(open);
        *unanswered -= usize::from(open.is_answered && !was_answered);
        if open.awaits_consumer || !open.is_answered {
            return None;
        }
        all.remove(&id).map(|open| open.reply)
    }

    pub(super) fn contains(&self, id: PacketId) -> bool {
        self.0.as_ref().is_some_and(|pubrels| pubrels.open.contains_key(&id))
    }

    /// Count of those that the client has not answered.
    pub(super) fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |pubrels| pubrels.unanswered)
    }

    /// Whether the client has had the message at this sequence, as far as that is known. Almost all
    /// are above these.
    pub(super) fn has_had(&self, sequence: u64) -> bool {
        let has_had =
            |pubrels: &SessionPubRels| sequence <= pubrels.highest && pubrels.had.contains(&sequence);
        self.0.as_deref().is_some_and(has_had)
    }

    /// Where answers to those are to be said that have none.
    pub(super) fn replies(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().flat_map(|pubrels| pubrels.open.values().map(|open| &*open.reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_has_had_is_known_for_a_while() {
        let (mut pubrels, id) = (PubRels::default(), PacketId::MIN);
        assert!(!pubrels.has_had(1));
        // Its record comes behind it.
        pubrels.open(id, b"", Some(1));
        pubrels.open(id, b"reply", Some(1));
        assert!(pubrels.has_had(1) && pubrels.contains(id));
        assert_eq!((pubrels.count(), pubrels.close(id).as_deref()), (1, Some(&b"reply"[..])));
        assert!(pubrels.has_had(1) && pubrels.close(id).is_none());
        let most = MOST_HAD as u64;
        (2..=most).for_each(|sequence| pubrels.open(id, b"", Some(sequence)));
        assert!(pubrels.has_had(1) && pubrels.has_had(most));
        pubrels.open(id, b"", Some(most + 1));
        assert!(!pubrels.has_had(1) && pubrels.has_had(2));
    }

    #[test]
    fn an_exchange_is_over_when_the_client_and_the_consumer_have_answered() {
        let (mut pubrels, id) = (PubRels::default(), PacketId::MIN);
        for is_client_first in [true, false] {
            pubrels.open(id, b"", Some(1));
            pubrels.await_consumer(id);
            pubrels.open(id, b"reply", Some(1));
            let first = if is_client_first { pubrels.close(id) } else { pubrels.settled(id) };
            assert!(first.is_none() && pubrels.contains(id));
            assert_eq!(pubrels.count(), usize::from(!is_client_first));
            let last = if is_client_first { pubrels.settled(id) } else { pubrels.close(id) };
            assert_eq!(last.as_deref(), Some(&b"reply"[..]));
            assert!(!pubrels.contains(id));
        }
    }
}

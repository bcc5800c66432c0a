//! Messages of QoS 2 that a client has published: held until it releases them, then on their way to
//! the stream of messages, then removed. Plain data; `releases.rs` asks JetStream.
//!
//! What came over this connection is kept in memory, too, so that a release does not have to read
//! it, and its sequences are known: so all that is released up to one of them is removed at once.

use super::api::StoredMessage;
use myelin_mqtt::packet::PacketId;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of messages that are kept in memory. Others are read from the stream.
const MOST_KEPT: usize = 128 * 1024;

/// Releases that may be under way before the client has to wait: each one looks at the others.
const MOST_RELEASES: usize = 1024;

/// Messages of one session that are held or being released.
#[derive(Default)]
pub(in crate::session::mqtt) struct HeldMessages {
    /// Messages that are not released, as far as they came over this connection.
    messages: BTreeMap<PacketId, HeldMessage>,
    /// Bytes of those that are kept.
    kept: usize,
    /// Releases in the order in which they came.
    releases: VecDeque<Release>,
    /// Whether there may be some that came over another connection.
    pub(super) inherits: bool,
}

struct HeldMessage {
    /// Where it is held; 0 while that is not known.
    sequence: u64,
    /// The message, if it is kept.
    copy: Option<HeldCopy>,
}

struct HeldCopy {
    headers: Box<[u8]>,
    payload: Box<[u8]>,
}

impl HeldMessage {
    fn size(&self) -> usize {
        self.copy.as_ref().map_or(0, |copy| copy.headers.len() + copy.payload.len())
    }
}

/// Release of a message that is held.
struct Release {
    id: PacketId,
    stage: ReleaseStage,
    /// Where the message is held; 0 while that is not known.
    sequence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReleaseStage {
    /// Its turn has not come.
    Waiting,
    /// The message is read.
    Reading,
    /// The message is being stored for sessions.
    Storing,
    /// The message is stored, and not held any more once it is removed.
    Stored,
    Removing,
}

/// The release whose turn has come.
pub(super) enum NextRelease {
    /// Its message is published.
    Publish(PacketId, StoredMessage),
    /// Its message is to be read before.
    Read(PacketId),
}

/// Messages that can be removed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeldRemoval {
    /// Numbers of the releases.
    pub(super) ids: Vec<PacketId>,
    pub(super) which: RemovedSequences,
}

/// Sequences of messages that can be removed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RemovedSequences {
    One(u64),
    /// All of the session up to here.
    UpTo(u64),
}

impl HeldMessages {
    /// Keeps a message that is being stored. One that comes again is held as it came first.
    pub(super) fn hold(&mut self, id: PacketId, headers: &[u8], payload: &[u8]) {
        let size = headers.len() + payload.len();
        let copy = || HeldCopy { headers: headers.into(), payload: payload.into() };
        let copy = (self.kept + size <= MOST_KEPT).then(copy);
        self.messages.entry(id).or_insert_with(|| {
            self.kept += if copy.is_some() { size } else { 0 };
            HeldMessage { sequence: 0, copy }
        });
    }

    /// The message is held at this sequence.
    pub(super) fn stored(&mut self, id: PacketId, sequence: u64) {
        if let Some(message) = self.messages.get_mut(&id).filter(|message| message.sequence == 0) {
            message.sequence = sequence;
        }
    }

    /// The message was not stored: there is none, or another one of its number.
    pub(super) fn not_stored(&mut self, id: PacketId) {
        if self.messages.get(&id).is_some_and(|message| message.sequence == 0) {
            self.take(id);
        }
    }

    fn take(&mut self, id: PacketId) -> Option<HeldMessage> {
        let message = self.messages.remove(&id)?;
        self.kept -= message.size();
        Some(message)
    }

    /// Whether so much is being released that the client has to wait.
    pub(super) fn releases_much(&self) -> bool {
        self.releases.len() >= MOST_RELEASES
    }

    /// Adds a release. One that comes again while it is under way is answered with it.
    pub(super) fn release(&mut self, id: PacketId) {
        if !self.releases.iter().any(|release| release.id == id) {
            self.releases.push_back(Release { id, stage: ReleaseStage::Waiting, sequence: 0 });
        }
    }

    /// The next release, if it does not wait for the message of another one: messages are published
    /// in the order of their releases.
    pub(super) fn next(&mut self) -> Option<NextRelease> {
        let at = self.releases.iter().position(|release| release.stage <= ReleaseStage::Reading)?;
        let Release { id, stage: ReleaseStage::Waiting, .. } = self.releases[at] else { return None };
        let message = self.take(id);
        let next = &mut self.releases[at];
        next.sequence = message.as_ref().map_or(0, |message| message.sequence);
        match message.and_then(|message| message.copy) {
            Some(HeldCopy { headers, payload }) if next.sequence > 0 => {
                next.stage = ReleaseStage::Storing;
                let (sequence, headers, payload) = (next.sequence, headers.into(), payload.into());
                Some(NextRelease::Publish(id, StoredMessage { sequence, headers, payload }))
            }
            _ => {
                next.stage = ReleaseStage::Reading;
                Some(NextRelease::Read(id))
            }
        }
    }

    fn release_of(&mut self, id: PacketId) -> Option<&mut Release> {
        self.releases.iter_mut().find(|release| release.id == id)
    }

    /// The message of a release was read from this sequence.
    pub(super) fn was_read(&mut self, id: PacketId, sequence: u64) {
        if let Some(release) = self.release_of(id) {
            (release.stage, release.sequence) = (ReleaseStage::Storing, sequence);
        }
    }

    /// The message of a release is stored for sessions, or for nobody.
    pub(super) fn was_published(&mut self, id: PacketId) {
        if let Some(release) = self.release_of(id) {
            release.stage = ReleaseStage::Stored;
        }
    }

    /// Where the message of a release is held that is being stored for its receivers.
    pub(super) fn sequence_of_release(&self, id: PacketId) -> Option<u64> {
        let mut releases = self.releases.iter();
        let release = releases.find(|release| release.id == id && release.stage == ReleaseStage::Storing)?;
        Some(release.sequence)
    }

    /// Where messages are held that are stored for their receivers, and are not being removed.
    pub(super) fn stored_releases(&self) -> impl Iterator<Item = u64> {
        let stored = self.releases.iter().filter(|release| release.stage == ReleaseStage::Stored);
        stored.map(|release| release.sequence)
    }

    /// The release is over.
    pub(super) fn was_released(&mut self, id: PacketId) {
        self.releases.retain(|release| release.id != id);
    }

    /// The next removal, if there is one. While something is removed, the others gather.
    pub(super) fn removal(&mut self) -> Option<HeldRemoval> {
        let is_removing = self.releases.iter().any(|release| release.stage == ReleaseStage::Removing);
        if is_removing && !self.inherits {
            return None;
        }
        // What is being stored gets a sequence behind these.
        let held = self.messages.values().map(|message| message.sequence).filter(|sequence| *sequence > 0);
        let under_way = self.releases.iter().filter(|release| release.stage < ReleaseStage::Stored);
        let kept = held.chain(under_way.map(|release| release.sequence)).min();
        let end = if self.inherits { 0 } else { kept.unwrap_or(u64::MAX) };
        let stored = self.releases.iter_mut().filter(|release| release.stage == ReleaseStage::Stored);
        let mut stored: Vec<&mut Release> = stored.collect();
        if stored.iter().filter(|release| release.sequence < end).count() > 1 {
            stored.retain(|release| release.sequence < end);
        } else {
            stored.truncate(1);
        }
        stored.iter_mut().for_each(|release| release.stage = ReleaseStage::Removing);
        let last = stored.iter().map(|release| release.sequence).max()?;
        let which = if stored.len() > 1 { RemovedSequences::UpTo(last) } else { RemovedSequences::One(last) };
        Some(HeldRemoval { ids: stored.iter().map(|release| release.id).collect(), which })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> PacketId {
        PacketId::new(number).unwrap()
    }

    /// Holds messages, whose sequences are ten times their numbers.
    fn holding(numbers: &[u16]) -> HeldMessages {
        let mut held = HeldMessages::default();
        for number in numbers {
            held.hold(id(*number), b"h", &number.to_be_bytes());
            held.stored(id(*number), u64::from(*number) * 10);
        }
        held
    }

    fn release(held: &mut HeldMessages, numbers: &[u16]) {
        numbers.iter().for_each(|number| held.release(id(*number)));
    }

    fn published(held: &mut HeldMessages, numbers: &[u16]) {
        numbers.iter().for_each(|number| held.was_published(id(*number)));
    }

    fn released(held: &mut HeldMessages, numbers: &[u16]) {
        numbers.iter().for_each(|number| held.was_released(id(*number)));
    }

    /// Sequences of the next messages that are published.
    fn publish(held: &mut HeldMessages, count: usize) -> Vec<u64> {
        let next = |_| match held.next() {
            Some(NextRelease::Publish(_, message)) => message.sequence,
            _ => panic!("nothing to publish"),
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn what_is_released_in_order_is_removed_at_once() {
        let mut held = holding(&[1, 2, 3, 4]);
        release(&mut held, &[1, 2, 3]);
        assert_eq!(publish(&mut held, 3), [10, 20, 30]);
        assert!(held.next().is_none() && held.removal().is_none());
        held.was_published(id(1));
        let one = HeldRemoval { ids: vec![id(1)], which: RemovedSequences::One(10) };
        assert_eq!(held.removal(), Some(one));
        published(&mut held, &[2, 3]);
        assert_eq!(held.removal(), None, "one after the other");
        held.was_released(id(1));
        let others = HeldRemoval { ids: vec![id(2), id(3)], which: RemovedSequences::UpTo(30) };
        assert_eq!(held.removal(), Some(others));
        released(&mut held, &[2, 3]);
        assert!(held.removal().is_none() && held.releases.is_empty());
        assert_eq!(held.kept, 3, "the fourth is held");
    }

    #[test]
    fn nothing_that_is_held_is_removed_with_others() {
        let mut held = holding(&[1, 2, 3, 4]);
        // 2 stays, and 1 is under way.
        release(&mut held, &[1, 3, 4]);
        publish(&mut held, 3);
        published(&mut held, &[3, 4]);
        let one =
            |number, sequence| HeldRemoval { ids: vec![id(number)], which: RemovedSequences::One(sequence) };
        assert_eq!(held.removal(), Some(one(3, 30)));
        held.was_released(id(3));
        assert_eq!(held.removal(), Some(one(4, 40)));
        // Those of another connection may be anywhere.
        let mut held = holding(&[1, 2]);
        held.inherits = true;
        release(&mut held, &[1, 2]);
        publish(&mut held, 2);
        published(&mut held, &[1, 2]);
        assert_eq!([held.removal(), held.removal()], [Some(one(1, 10)), Some(one(2, 20))]);
    }

    #[test]
    fn what_is_not_known_is_read_in_its_turn() {
        let mut held = holding(&[2]);
        release(&mut held, &[1, 2, 1]);
        assert!(matches!(held.next(), Some(NextRelease::Read(first)) if first == id(1)));
        assert!(held.next().is_none(), "the second waits");
        held.was_read(id(1), 5);
        assert_eq!(publish(&mut held, 1), [20]);
        assert!(held.next().is_none(), "the first is released once");
    }

    #[test]
    fn the_client_waits_while_much_is_released() {
        let mut held = HeldMessages::default();
        let most = u16::try_from(MOST_RELEASES).unwrap();
        release(&mut held, &(1..most).collect::<Vec<_>>());
        assert!(!held.releases_much());
        release(&mut held, &[1, most]);
        assert!(held.releases_much());
        released(&mut held, &[7]);
        assert!(!held.releases_much());
    }

    #[test]
    fn what_came_first_is_held_and_little_is_kept() {
        let mut held = holding(&[1]);
        held.hold(id(1), b"h", b"other");
        held.not_stored(id(1));
        held.release(id(1));
        assert!(matches!(held.next(), Some(NextRelease::Publish(_, message)) if message.payload == [0, 1]));
        // Another connection has left one of this number.
        held.hold(id(2), b"h", b"mine");
        held.not_stored(id(2));
        held.release(id(2));
        assert!(matches!(held.next(), Some(NextRelease::Read(_))));
        held.was_released(id(2));
        held.hold(id(3), b"h", &[0; MOST_KEPT]);
        held.stored(id(3), 30);
        held.release(id(3));
        assert!(matches!(held.next(), Some(NextRelease::Read(_))) && held.kept == 0);
    }
}

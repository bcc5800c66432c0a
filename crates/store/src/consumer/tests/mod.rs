//! The consumers' room against its twins, on disks that fail, and on files that were damaged.

mod crashes;
mod damage;
mod group;
mod journal;
mod log;
mod speed;
mod transitions;
mod twin;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::{Disk, File};

use super::*;
use crate::cipher::CipherKind;
use crate::entropy::SeededEntropy;
use crate::keys::StreamKey;
use crate::{FileId, FileKind, StreamId, Timestamp};

/// Append-only files that write and sync at once.
#[derive(Debug)]
pub(super) struct SyncedTails;

#[derive(Debug)]
struct SyncedTail {
    file: Arc<dyn File>,
    end: u64,
    refuses: bool,
}

impl Tails for SyncedTails {
    fn attach(&self, _: FileId, _: &Path, file: Arc<dyn File>, end: u64) -> io::Result<Box<dyn Tail>> {
        Ok(Box::new(SyncedTail { file, end, refuses: false }))
    }
}

impl Tail for SyncedTail {
    fn end(&self) -> u64 {
        self.end
    }

    fn releasable(&self) -> u64 {
        self.end
    }

    fn durable(&self) -> u64 {
        self.end
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        self.file.allocate((self.end + length).next_multiple_of(4096))
    }

    fn append(&mut self, bytes: &[u8], _: Timestamp) -> io::Result<u64> {
        assert!(!self.refuses, "appended to a file that had refused");
        self.refuses = true;
        self.file.write_at(bytes, self.end)?;
        self.file.sync()?;
        self.refuses = false;
        self.end += bytes.len() as u64;
        Ok(self.end)
    }

    fn abandon(&mut self) {
        self.refuses = true;
    }

    fn has_failed(&self) -> bool {
        self.refuses
    }
}

pub(super) const STREAM: StreamId = StreamId(7);

pub(super) fn directory() -> PathBuf {
    PathBuf::from("/streams/7")
}

pub(super) fn place(disk: Arc<dyn Disk>, cipher: Option<CipherKind>) -> LogStorage {
    let entropy = Arc::new(SeededEntropy::new(1));
    disk.make_directory(&directory()).expect("the disk is healthy");
    disk.sync_directory(Path::new("/streams")).expect("the disk is healthy");
    disk.sync_directory(Path::new("/")).expect("the disk is healthy");
    place_as_is(disk, cipher, entropy)
}

pub(super) fn place_as_is(
    disk: Arc<dyn Disk>,
    cipher: Option<CipherKind>,
    entropy: Arc<SeededEntropy>,
) -> LogStorage {
    let key = cipher.map(|kind| (kind, StreamKey::generate(&SeededEntropy::new(2))));
    LogStorage { disk, directory: directory(), stream: STREAM, tails: Arc::new(SyncedTails), entropy, key }
}

/// The states of all consumers.
pub(super) fn states(consumers: &Consumers) -> BTreeMap<ConsumerId, ConsumerState> {
    consumers.iter().map(|(id, consumer)| (id, consumer.state().clone())).collect()
}

/// Everything that outlives a restart.
pub(super) fn everything(
    consumers: &Consumers,
) -> BTreeMap<ConsumerId, (String, AckRules, Vec<u8>, ConsumerState)> {
    let flat = |consumer: &Consumer| {
        (consumer.name().to_owned(), consumer.rules(), consumer.config().to_owned(), consumer.state().clone())
    };
    consumers.iter().map(|(id, consumer)| (id, flat(consumer))).collect()
}

pub(super) fn delivered(delivery: u64, seq: u64) -> Delta {
    Delta::Delivered { delivery: DeliverySeq(delivery), seq, count: 1, timestamp: 1000 + seq as i64 }
}

pub(super) fn acknowledged(delivery: u64, seq: u64) -> Delta {
    Delta::Acknowledged { delivery: DeliverySeq(delivery), seq }
}

/// Change of a consumer, in words that are turned into a delta when its state is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A new message, some sequences after the last one.
    Deliver(u8),
    /// The message that is pending at this place, again.
    Redeliver(u8),
    /// An acknowledgement of the message that is pending at this place, of its first or of a later
    /// delivery.
    Acknowledge(u8, u8),
    /// One of any message.
    AcknowledgeAny(u8, u8),
    Forget(u8),
    DropBelow(u8),
    Skip(u8),
    CutAbove(u8),
    Reset(u8),
    ForgetCounts(u8),
}

impl Event {
    /// Delta that a server would apply to a consumer in `state`.
    pub(super) fn delta(self, state: &ConsumerState) -> Delta {
        let next = DeliverySeq(state.delivered().consumer.0 + 1);
        let last = state.delivered().stream;
        let base = state.ack_floor().stream;
        let timestamp = 1_700_000_000_000_000_000 + (next.0 / 3) as i64 * 1_000_003;
        let pending = |at: u8| {
            let len = state.pending().len();
            (len > 0).then(|| state.pending().iter().nth(at as usize % len).expect("there are so many"))
        };
        let near = |at: u8| base.saturating_sub(3) + u64::from(at) % (last - base + 8);
        match self {
            Event::Deliver(gap) => {
                let seq = last + 1 + u64::from(gap.saturating_sub(240));
                Delta::Delivered { delivery: next, seq, count: 1, timestamp }
            }
            Event::Redeliver(at) => match pending(at) {
                Some((seq, _)) => {
                    let count = state.redelivered().get(&seq).map_or(2, |times| times + 2);
                    Delta::Delivered { delivery: next, seq, count, timestamp }
                }
                None => Event::Deliver(0).delta(state),
            },
            Event::Acknowledge(at, later) => match pending(at) {
                Some((seq, found)) if later < 200 => Delta::Acknowledged { delivery: found.delivery, seq },
                Some((seq, _)) => Delta::Acknowledged { delivery: state.delivered().consumer, seq },
                None => Event::Deliver(0).delta(state),
            },
            Event::AcknowledgeAny(delivery, at) => acknowledged(
                state.ack_floor().consumer.0.saturating_sub(2) + u64::from(delivery % 16),
                near(at),
            ),
            Event::Forget(at) => Delta::Forget { seq: near(at) },
            Event::DropBelow(at) => Delta::DropBelow { seq: near(at) },
            Event::Skip(at) => Delta::Skip { seq: near(at) },
            Event::CutAbove(at) => Delta::CutAbove { seq: near(at) },
            Event::Reset(at) => Delta::Reset { seq: near(at) },
            Event::ForgetCounts(at) => Delta::ForgetCountsBelow { seq: near(at) },
        }
    }
}

pub(super) mod strategy {
    use std::num::NonZeroU64;

    use proptest::prelude::*;

    use super::*;

    pub(in super::super) fn rules() -> impl Strategy<Value = AckRules> {
        let acks = prop_oneof![1 => Just(AckPolicy::None), 1 => Just(AckPolicy::All), 3 => Just(AckPolicy::Explicit)];
        (acks, 0u64..4).prop_map(|(acks, max)| AckRules { acks, max_deliver: NonZeroU64::new(max) })
    }

    /// Events of a stream that only grows and is trimmed.
    pub(in super::super) fn growing() -> impl Strategy<Value = Event> {
        prop_oneof![
            20 => any::<u8>().prop_map(Event::Deliver),
            5 => any::<u8>().prop_map(Event::Redeliver),
            8 => (0u8..3, any::<u8>()).prop_map(|(at, later)| Event::Acknowledge(at, later)),
            8 => any::<(u8, u8)>().prop_map(|(at, later)| Event::Acknowledge(at, later)),
            2 => any::<(u8, u8)>().prop_map(|(delivery, at)| Event::AcknowledgeAny(delivery, at)),
            1 => any::<u8>().prop_map(Event::Forget),
            1 => any::<u8>().prop_map(Event::DropBelow),
            1 => any::<u8>().prop_map(Event::ForgetCounts),
        ]
    }

    pub(in super::super) fn anything() -> impl Strategy<Value = Event> {
        prop_oneof![
            30 => growing(),
            1 => any::<u8>().prop_map(Event::Skip),
            1 => any::<u8>().prop_map(Event::CutAbove),
            1 => any::<u8>().prop_map(Event::Reset),
        ]
    }
}

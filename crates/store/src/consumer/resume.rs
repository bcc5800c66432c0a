//! Consumers as entries tell of them, one by one, also when entries are missing.
//!
//! Owns the one way in which an entry changes a consumer, whether it is read from a log at a start
//! or was decided by the leader of a group ([`ConsumerTable`]), and what may be believed after a
//! gap. A gap may hide deliveries, so what was delivered behind it and is not known to be pending
//! may be unacknowledged; it may hide acknowledgements, too. Hence: what was pending before the gap
//! stays pending unless an acknowledgement is seen; the floor is the one that the next entry
//! states; and what was delivered after the gap is forgotten, so that it is delivered again. A
//! whole state, or a reset, ends the doubt.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::{ByteReader, MalformedBytes};
use super::delta::{Operations, ReadDelta};
use super::entry::LogEntryKind;
use super::payload::{self, Definition, Floors};
use super::{AckPolicy, Applied, ConsumerId, ConsumerState, Delta, PendingMessages, SequencePair};
use crate::Seq;

/// Consumers as entries tell of them.
#[derive(Clone, Debug)]
pub(super) struct ConsumerTable {
    pub(super) consumers: BTreeMap<ConsumerId, Resumed>,
    /// Consumers of which there were entries, but no definition.
    pub(super) orphans: BTreeSet<ConsumerId>,
    /// The id of the next consumer to be created.
    pub(super) next: u64,
}

impl ConsumerTable {
    pub(super) fn new(next: u64) -> Self {
        Self { consumers: BTreeMap::new(), orphans: BTreeSet::new(), next: next.max(1) }
    }

    /// Applies an entry. `serial`: its number among those of its consumer, where some may be
    /// missing before it. `room`: how many messages may become pending.
    ///
    /// # Errors
    /// The entry says nothing that a consumer's entry can say. Some of it may have happened.
    pub(super) fn apply(
        &mut self,
        (id, kind): (ConsumerId, LogEntryKind),
        serial: Option<u64>,
        mut reader: ByteReader<'_>,
        room: usize,
    ) -> Result<(), MalformedBytes> {
        self.next = self.next.max(id.0.saturating_add(1));
        if kind == LogEntryKind::Define {
            return self.define(id, serial, &mut reader, room);
        }
        let Some(consumer) = self.consumers.get_mut(&id) else {
            if kind == LogEntryKind::Remove {
                self.orphans.remove(&id);
            } else {
                self.orphans.insert(id);
            }
            return Ok(());
        };
        match kind {
            LogEntryKind::Checkpoint => {
                let state = payload::read_state(&mut reader, room)?;
                consumer.count(serial);
                consumer.replace(state);
            }
            LogEntryKind::Remove => {
                self.consumers.remove(&id);
            }
            LogEntryKind::Delta | LogEntryKind::Define => {
                consumer.count(serial);
                consumer.change(reader)?;
            }
        }
        Ok(())
    }

    fn define(
        &mut self,
        id: ConsumerId,
        serial: Option<u64>,
        reader: &mut ByteReader<'_>,
        room: usize,
    ) -> Result<(), MalformedBytes> {
        let definition = payload::read_definition(reader)?;
        self.orphans.remove(&id);
        match self.consumers.get_mut(&id) {
            Some(consumer) => {
                consumer.count(serial);
                consumer.definition = definition;
            }
            None => {
                let serial = serial.unwrap_or(0);
                let mut consumer = Resumed::new(definition, serial, room);
                // Its first entry, unless what came before is lost: then nothing is certain but
                // what follows.
                if serial != 0 {
                    consumer.belief = Belief::Doubt { certain: 0 };
                }
                self.consumers.insert(id, consumer);
            }
        }
        Ok(())
    }
}

/// A consumer while its log is read.
#[derive(Clone, Debug)]
pub(super) struct Resumed {
    pub(super) definition: Definition,
    pub(super) state: ConsumerState,
    /// The next entry's.
    pub(super) serial: u64,
    pub(super) belief: Belief,
}

/// How far the state can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belief {
    /// No entry is missing.
    Sound,
    /// A range was passed over since the consumer's last entry; it may have held one.
    Suspect,
    /// Entries are missing. Deliveries up to `certain` are known.
    Doubt { certain: Seq },
}

impl Resumed {
    /// With room for so many pending messages.
    pub(super) fn new(definition: Definition, serial: u64, room: usize) -> Self {
        let state =
            ConsumerState { pending: PendingMessages::with_capacity(room), ..ConsumerState::default() };
        Self { definition, state, serial: serial.wrapping_add(1), belief: Belief::Sound }
    }

    /// A range was passed over.
    pub(super) fn suspect(&mut self) {
        if self.belief == Belief::Sound {
            self.belief = Belief::Suspect;
        }
    }

    /// An entry of the consumer was passed over.
    pub(super) fn doubt(&mut self) {
        self.serial = self.serial.wrapping_add(1);
        self.begin_doubt(self.state.delivered.stream);
    }

    fn begin_doubt(&mut self, certain: Seq) {
        if !matches!(self.belief, Belief::Doubt { .. }) {
            self.belief = Belief::Doubt { certain };
        }
    }

    /// Looks whether entries are missing before the one with this number. `None`: none can be.
    pub(super) fn count(&mut self, serial: Option<u64>) {
        let serial = serial.unwrap_or(self.serial);
        match self.belief {
            Belief::Suspect if serial == self.serial => self.belief = Belief::Sound,
            _ if serial == self.serial => {}
            _ => self.begin_doubt(self.state.delivered.stream),
        }
        self.serial = serial.wrapping_add(1);
    }

    /// The whole state: whatever was doubted is known now.
    pub(super) fn replace(&mut self, state: ConsumerState) {
        self.state = state;
        self.belief = Belief::Sound;
    }

    /// The changes of one entry.
    pub(super) fn change(&mut self, mut reader: ByteReader<'_>) -> Result<(), MalformedBytes> {
        let floors = payload::read_floors(&mut reader)?;
        let mut operations = Operations::new(reader, floors.before);
        loop {
            match operations.next() {
                Ok(Some(operation)) => self.operate(operation, floors.after),
                Ok(None) => break,
                Err(malformed) => {
                    self.begin_doubt(self.state.ack_floor.stream);
                    return Err(malformed);
                }
            }
        }
        self.agree(floors);
        Ok(())
    }

    fn operate(&mut self, operation: ReadDelta, floor: SequencePair) {
        if let Belief::Doubt { certain } = self.belief {
            self.salvage(operation, certain, floor);
            return;
        }
        if !self.apply(operation) {
            self.begin_doubt(self.state.ack_floor.stream);
        }
    }

    /// Applies an operation. One that was written had an effect, so it must have one again.
    /// Otherwise the state is not the one it was written for; that also ends rows that claim more
    /// than there is.
    fn apply(&mut self, operation: ReadDelta) -> bool {
        let rules = self.definition.rules;
        match operation {
            ReadDelta::One(Delta::Acknowledged { .. }) if myelin_stdx::planted::bug(11) => true,
            ReadDelta::One(Delta::Delivered { count: 2.., .. }) if myelin_stdx::planted::bug(12) => true,
            ReadDelta::One(delta) => self.state.apply(rules, delta) == Applied::Changed,
            ReadDelta::Row { first, more } => (0..=more).all(|step| {
                let delta = Delta::Acknowledged {
                    delivery: super::DeliverySeq(first.consumer.0.wrapping_add(step)),
                    seq: first.stream.wrapping_add(step),
                };
                self.state.apply(rules, delta) == Applied::Changed
            }),
        }
    }

    /// Takes from an operation what is true when others are missing: what is done stays done.
    /// `floor` is that of the entry's end.
    fn salvage(&mut self, operation: ReadDelta, certain: Seq, floor: SequencePair) {
        let state = &mut self.state;
        match operation {
            ReadDelta::One(Delta::Delivered { delivery, seq, count, timestamp }) => {
                state.delivered.consumer = state.delivered.consumer.max(delivery);
                if state.pending.touch(seq, timestamp) && count > 1 {
                    let times = state.redelivered.entry(seq).or_default();
                    *times = (*times).max(count - 1);
                }
            }
            ReadDelta::One(Delta::Acknowledged { delivery, seq }) => {
                let first = SequencePair { consumer: delivery, stream: seq };
                self.salvage_acknowledged(first, 0, floor);
            }
            ReadDelta::Row { first, more } => self.salvage_acknowledged(first, more, floor),
            ReadDelta::One(Delta::Reset { seq }) => {
                state.reset(seq);
                self.belief = Belief::Sound;
            }
            ReadDelta::One(Delta::Forget { seq }) => state.remove_pending_range(seq, seq),
            ReadDelta::One(Delta::DropBelow { seq }) => state.remove_pending_range(0, seq.saturating_sub(1)),
            ReadDelta::One(Delta::CutAbove { seq }) => {
                state.cut_above(seq);
                self.belief = Belief::Doubt { certain: certain.min(seq) };
            }
            ReadDelta::One(Delta::ForgetCountsBelow { seq }) => {
                state.forget_counts_below(seq);
            }
            // Passing over messages is what a doubtful consumer must not do; the floor says what is
            // certain.
            ReadDelta::One(Delta::Skip { .. }) => {}
        }
    }

    /// An acknowledgement of a delivery below the floor came too late, and nothing was done by it;
    /// the floor of then is not known, and never above the one of the entry's end. Whatever that
    /// one covers is done by it.
    fn salvage_acknowledged(&mut self, first: SequencePair, more: u64, floor: SequencePair) {
        if self.definition.rules.acks != AckPolicy::Explicit {
            return;
        }
        let late = floor.consumer.0.saturating_add(1).saturating_sub(first.consumer.0);
        if late <= more {
            self.state
                .remove_pending_range(first.stream.saturating_add(late), first.stream.saturating_add(more));
        }
    }

    /// After an entry: the floor is the one it states.
    fn agree(&mut self, floors: Floors) {
        if !matches!(self.belief, Belief::Doubt { .. }) {
            if self.state.ack_floor == floors.after {
                return;
            }
            self.begin_doubt(self.state.ack_floor.stream.min(floors.after.stream));
        }
        if floors.after.stream < self.state.ack_floor.stream {
            // The gap hid a reset: nothing from before it is true any more.
            self.state.restart(floors.after);
            self.belief = Belief::Doubt { certain: floors.after.stream };
        } else {
            self.state.raise_floor(floors.after);
        }
    }

    /// At the log's end: forgets deliveries that may have company that nobody knows.
    pub(super) fn forget_doubtful(&mut self) {
        if let Belief::Doubt { certain } = self.belief {
            self.state.rewind(certain);
        }
    }
}

/// Transitions that only doubt needs.
impl ConsumerState {
    /// Messages in `from..=to` are done. The floor stays.
    fn remove_pending_range(&mut self, from: Seq, to: Seq) {
        if from > to {
            return;
        }
        self.pending.remove_range(from, to);
        let mut above = self.redelivered.split_off(&from);
        self.redelivered.append(&mut above.split_off(&to.saturating_add(1)));
    }

    fn raise_floor(&mut self, floor: SequencePair) {
        self.remove_pending_range(0, floor.stream);
        self.ack_floor.consumer = self.ack_floor.consumer.max(floor.consumer);
        self.ack_floor.stream = self.ack_floor.stream.max(floor.stream);
        self.delivered.consumer = self.delivered.consumer.max(floor.consumer);
        self.delivered.stream = self.delivered.stream.max(floor.stream);
    }

    /// Begins at a floor. The numbers of deliveries go on.
    fn restart(&mut self, floor: SequencePair) {
        let consumer = self.delivered.consumer.max(floor.consumer);
        let delivered = SequencePair { consumer, stream: floor.stream };
        *self = Self { delivered, ack_floor: floor, ..Self::default() };
    }

    /// Takes back deliveries above `certain`, except those below the floor.
    fn rewind(&mut self, certain: Seq) {
        let last = certain.max(self.ack_floor.stream);
        if last < self.delivered.stream {
            self.pending.remove_above(last);
            self.redelivered.split_off(&last.saturating_add(1));
            self.delivered.stream = last;
        }
    }
}

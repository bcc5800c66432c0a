//! Changes that wait to be written, in the order in which they are: to a log of the consumers' own,
//! or to the log of a group.

use std::ops::Range;

use super::consumers::Unwritten;
use super::entry::LogEntryKind;
use super::payload::{self, Definition, Floors};
use super::rewrite::{Map, Queued};
use super::{Consumer, ConsumerId};

/// Changes that wait.
#[derive(Debug, Default)]
pub(super) struct ChangeQueue {
    /// Entries whose order matters, before the changes of those in `dirty`.
    queue: Vec<Queued>,
    dirty: Vec<ConsumerId>,
}

impl ChangeQueue {
    pub(super) fn dirty(&mut self, id: ConsumerId) {
        debug_assert!(!self.dirty.contains(&id), "a consumer becomes dirty once until it is written");
        self.dirty.push(id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.dirty.is_empty() && self.queue.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.dirty.clear();
    }

    pub(super) fn define(&mut self, id: ConsumerId, definition: &Definition) {
        let mut payload = Vec::new();
        payload::put_definition(&mut payload, definition);
        self.queue.push(Queued { id, kind: LogEntryKind::Define, serial: None, payload });
    }

    /// Moves a consumer's changes into the queue, so that what is queued next comes after them.
    pub(super) fn close_changes(&mut self, id: ConsumerId, consumer: &mut Consumer) {
        if consumer.unwritten == Unwritten::Changes {
            let mut payload = Vec::new();
            put_changes(&mut payload, consumer);
            self.queue.push(Queued { id, kind: LogEntryKind::Delta, serial: None, payload });
            consumer.written();
            self.dirty.retain(|other| *other != id);
        }
    }

    /// A consumer is gone, and what waited of it. `serial` is that of its next entry: 0 if nobody
    /// was told of it at all.
    pub(super) fn remove(&mut self, id: ConsumerId, serial: u64) {
        self.queue.retain(|queued| queued.id != id);
        self.dirty.retain(|other| *other != id);
        if serial > 0 && !myelin_stdx::planted::bug(8) {
            self.queue.push(Queued {
                id,
                kind: LogEntryKind::Remove,
                serial: Some(serial),
                payload: Vec::new(),
            });
        }
    }

    /// Takes all that waits: `write` gets the consumer, what the entry is, its number among those
    /// of the consumer, and what it says.
    pub(super) fn drain(
        &mut self,
        consumers: &mut Map,
        mut write: impl FnMut((ConsumerId, LogEntryKind, u64), &[u8]),
    ) {
        for queued in self.queue.drain(..) {
            let serial = match queued.serial {
                Some(serial) => serial,
                None => take_serial(consumers, queued.id),
            };
            write((queued.id, queued.kind, serial), &queued.payload);
        }
        let mut payload = Vec::new();
        for id in self.dirty.drain(..) {
            let Some(consumer) = consumers.get_mut(&id) else { continue };
            debug_assert!(consumer.serial > 0, "a consumer is defined before it changes");
            payload.clear();
            let kind = match consumer.unwritten {
                Unwritten::Nothing => continue,
                Unwritten::Changes => {
                    put_changes(&mut payload, consumer);
                    LogEntryKind::Delta
                }
                Unwritten::Whole => {
                    payload::put_state(&mut payload, &consumer.state);
                    LogEntryKind::Checkpoint
                }
            };
            let serial = consumer.serial;
            consumer.serial += 1;
            consumer.written();
            write((id, kind, serial), &payload);
        }
    }
}

/// Changes that go to the log of a group, as proposals: all that wait at a time are one.
#[derive(Debug, Default)]
pub(super) struct ProposalQueue {
    pub(super) changes: ChangeQueue,
    /// The number of the last proposal that was taken out; the first is 1.
    taken: u64,
    /// Whether somebody may wait for the next one, also if there is nothing left to go with it.
    is_next_known: bool,
    /// Proposals up to this one are committed, or lost.
    committed: u64,
    /// The last ones that are lost: they never will be committed.
    lost: Range<u64>,
}

impl ProposalQueue {
    /// The proposal with which everything goes that was decided so far. It does not go back where
    /// that is undone: a number that was answered once is taken.
    pub(super) fn last(&mut self) -> u64 {
        self.is_next_known |= !self.changes.is_empty();
        self.taken + u64::from(self.is_next_known)
    }

    /// Whether there is something to take: changes, or a number for which somebody may wait.
    pub(super) fn is_dirty(&self) -> bool {
        self.is_next_known || !self.changes.is_empty()
    }

    /// Takes out what waits, if anything does, as [`ChangeQueue::drain`].
    pub(super) fn take(
        &mut self,
        consumers: &mut Map,
        write: impl FnMut((ConsumerId, LogEntryKind, u64), &[u8]),
    ) {
        self.taken = self.last();
        self.is_next_known = false;
        self.changes.drain(consumers, write);
    }

    /// The number of the last proposal that was taken out.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Proposals up to `proposal` are committed.
    pub(super) fn commit(&mut self, proposal: u64) {
        debug_assert!(proposal <= self.taken, "what is committed was proposed");
        self.committed = self.committed.max(proposal);
    }

    pub(super) fn is_committed(&self, proposal: u64) -> bool {
        proposal <= self.committed && !self.lost.contains(&proposal)
    }

    /// Forgets what was decided and is not committed, which is nothing any more; no number is
    /// given again.
    pub(super) fn begin_anew(&mut self) {
        let last = self.last();
        if last > self.committed {
            self.lost = self.committed + 1..last + 1;
        }
        self.changes.clear();
        self.is_next_known = false;
        // Of what is decided next, and of nothing, another one speaks.
        (self.taken, self.committed) = (last + 1, last + 1);
    }
}

fn put_changes(payload: &mut Vec<u8>, consumer: &mut Consumer) {
    let floors = Floors { before: consumer.base, after: consumer.state.ack_floor() };
    payload::put_floors(payload, floors);
    payload.extend_from_slice(consumer.changes.finish());
}

fn take_serial(consumers: &mut Map, id: ConsumerId) -> u64 {
    let Some(consumer) = consumers.get_mut(&id) else { return 0 };
    consumer.serial += 1;
    consumer.serial - 1
}

//! Messages that were delivered and await their acknowledgement, in the order of the stream.
//!
//! Owns a ring of slots. New deliveries come with growing sequences, so they go to its end; most
//! acknowledgements concern the oldest, so it shrinks at its front. A message is found by the
//! number of its delivery, counted from the front's: exact while nothing was redelivered in
//! between; else the sequences are searched, which are sorted.
//!
//! Perf: per message one `push` and one `remove`. No allocation once the ring has its size, 24
//! bytes per message.

use std::collections::VecDeque;

use super::DeliverySeq;
use crate::{Seq, Timestamp};

/// Delivery of a message that awaits its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its first delivery: redeliveries do not change it.
    pub delivery: DeliverySeq,
    /// Its last delivery.
    pub timestamp: Timestamp,
}

/// The ring. A slot whose delivery is `GONE` is empty; neither the first nor the last slot ever is.
#[derive(Clone, Debug, Default)]
pub struct PendingMessages {
    slots: VecDeque<PendingSlot>,
    live: usize,
}

#[derive(Clone, Copy, Debug)]
struct PendingSlot {
    seq: Seq,
    delivery: DeliverySeq,
    timestamp: Timestamp,
}

/// No delivery has this number.
const GONE: DeliverySeq = DeliverySeq(0);

/// Slots a ring may keep without looking how many are in use.
const SMALL: usize = 64;

impl PendingSlot {
    fn is_live(self) -> bool {
        self.delivery != GONE
    }

    fn pending(self) -> Pending {
        Pending { delivery: self.delivery, timestamp: self.timestamp }
    }
}

impl PendingMessages {
    /// Messages in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether nothing awaits its acknowledgement.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Whether this message awaits its acknowledgement, and since when.
    #[must_use]
    pub fn get(&self, seq: Seq) -> Option<Pending> {
        self.find(seq, GONE).map(|at| self.slots[at].pending())
    }

    /// The message with the lowest sequence.
    #[must_use]
    pub fn oldest(&self) -> Option<(Seq, Pending)> {
        self.slots.front().map(|slot| (slot.seq, slot.pending()))
    }

    /// The message with the highest sequence.
    #[must_use]
    pub fn newest(&self) -> Option<(Seq, Pending)> {
        self.slots.back().map(|slot| (slot.seq, slot.pending()))
    }

    /// All messages, in the order of the stream.
    pub fn iter(&self) -> impl Iterator<Item = (Seq, Pending)> + '_ {
        self.slots.iter().filter(|slot| slot.is_live()).map(|slot| (slot.seq, slot.pending()))
    }

    /// The messages from `seq` on, in the order of the stream.
    pub fn iter_from(&self, seq: Seq) -> impl Iterator<Item = (Seq, Pending)> + '_ {
        let from = self.slots.partition_point(|slot| slot.seq < seq);
        self.slots.range(from..).filter(|slot| slot.is_live()).map(|slot| (slot.seq, slot.pending()))
    }

    /// With room for so many.
    pub(super) fn with_capacity(many: usize) -> Self {
        Self { slots: VecDeque::with_capacity(many), live: 0 }
    }

    /// For how many messages there is room.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Adds a message behind all others. Answers `false`, and changes nothing, if it is not behind
    /// them or its delivery has the number 0.
    pub(super) fn push(&mut self, seq: Seq, pending: Pending) -> bool {
        if pending.delivery == GONE || self.slots.back().is_some_and(|last| last.seq >= seq) {
            return false;
        }
        self.slots.push_back(PendingSlot { seq, delivery: pending.delivery, timestamp: pending.timestamp });
        self.live += 1;
        true
    }

    /// Notes another delivery of a message. `false` if it is not there.
    pub(super) fn touch(&mut self, seq: Seq, timestamp: Timestamp) -> bool {
        let Some(at) = self.find(seq, GONE) else { return false };
        self.slots[at].timestamp = timestamp;
        true
    }

    /// Takes a message out. `hint` is the number of a delivery of it; a wrong one costs time only.
    pub(super) fn remove(&mut self, seq: Seq, hint: DeliverySeq) -> Option<Pending> {
        let at = self.find(seq, hint)?;
        let pending = self.slots[at].pending();
        debug_assert!(self.slots[at].seq == seq && self.live > 0, "a message that is there is taken once");
        self.slots[at].delivery = GONE;
        self.live -= 1;
        self.tidy();
        Some(pending)
    }

    /// Takes out all messages up to and with `seq`; answers the highest number of a delivery among
    /// them.
    pub(super) fn remove_through(&mut self, seq: Seq) -> Option<DeliverySeq> {
        let mut highest = None;
        while let Some(slot) = self.slots.pop_front_if(|slot| slot.seq <= seq) {
            if slot.is_live() {
                self.live -= 1;
                highest = highest.max(Some(slot.delivery));
            }
        }
        self.tidy();
        debug_assert!(self.oldest().is_none_or(|(oldest, _)| oldest > seq), "nothing up to there is left");
        highest
    }

    /// Takes out all messages above `seq`.
    pub(super) fn remove_above(&mut self, seq: Seq) {
        while let Some(slot) = self.slots.pop_back_if(|slot| slot.seq > seq) {
            self.live -= usize::from(slot.is_live());
        }
        self.tidy();
        debug_assert!(self.newest().is_none_or(|(newest, _)| newest <= seq), "nothing above it is left");
    }

    /// Takes out all messages with sequences in `from..=to`.
    pub(super) fn remove_range(&mut self, from: Seq, to: Seq) {
        let first = self.slots.partition_point(|slot| slot.seq < from);
        for slot in self.slots.range_mut(first..) {
            if slot.seq > to {
                break;
            }
            self.live -= usize::from(slot.is_live());
            slot.delivery = GONE;
        }
        self.tidy();
    }

    fn find(&self, seq: Seq, hint: DeliverySeq) -> Option<usize> {
        let front = self.slots.front()?;
        let guess = hint.0.wrapping_sub(front.delivery.0);
        let at = match usize::try_from(guess) {
            Ok(at) if self.slots.get(at).is_some_and(|slot| slot.seq == seq) => at,
            _ => self.slots.binary_search_by_key(&seq, |slot| slot.seq).ok()?,
        };
        self.slots[at].is_live().then_some(at)
    }

    /// Restores what holds between calls: live ends, and not many more slots than messages.
    fn tidy(&mut self) {
        while self.slots.pop_front_if(|slot| !slot.is_live()).is_some() {}
        while self.slots.pop_back_if(|slot| !slot.is_live()).is_some() {}
        let many = self.slots.len() > SMALL && self.live < self.slots.len() / 4;
        if many {
            self.slots.retain(|slot| slot.is_live());
        }
        let capacity = self.slots.capacity();
        if capacity > SMALL * 4 && self.slots.len() < capacity / 8 {
            self.slots.shrink_to(capacity / 2);
        }
        debug_assert!(self.live <= self.slots.len(), "a message has a slot");
        debug_assert!(self.slots.front().is_none_or(|slot| slot.is_live()), "the first slot is in use");
        debug_assert!(self.slots.back().is_none_or(|slot| slot.is_live()), "the last slot is in use");
        debug_assert!(self.live > 0 || self.slots.is_empty(), "no slots without messages");
        debug_assert!(
            self.slots.len() > SMALL || self.live == self.slots.iter().filter(|slot| slot.is_live()).count(),
            "messages are counted"
        );
        debug_assert!(
            self.slots.len() > SMALL || self.slots.iter().is_sorted_by_key(|slot| slot.seq),
            "messages are in the order of the stream"
        );
    }
}

/// Equal when the same messages are in them, whatever the rings went through.
impl PartialEq for PendingMessages {
    fn eq(&self, other: &Self) -> bool {
        self.live == other.live && self.iter().eq(other.iter())
    }
}

impl Eq for PendingMessages {}

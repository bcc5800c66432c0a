//! A consumer's state as plain maps, with the rules written down once more.

use std::collections::BTreeMap;

use super::*;

/// The twin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Twin {
    pub(super) delivered: (u64, u64),
    pub(super) floor: (u64, u64),
    pub(super) pending: BTreeMap<u64, (u64, i64)>,
    pub(super) redelivered: BTreeMap<u64, u64>,
    /// Moves the floor as the reference does it: only from the delivery right behind it.
    pub(super) literally: bool,
}

impl Twin {
    /// Makes the twin of a state.
    pub(super) fn of(state: &ConsumerState) -> Self {
        let pair = |pair: SequencePair| (pair.consumer.0, pair.stream);
        Self {
            delivered: pair(state.delivered()),
            floor: pair(state.ack_floor()),
            pending: state
                .pending()
                .iter()
                .map(|(seq, one)| (seq, (one.delivery.0, one.timestamp)))
                .collect(),
            redelivered: state.redelivered().clone(),
            literally: false,
        }
    }

    pub(super) fn apply(&mut self, rules: AckRules, delta: Delta) {
        match delta {
            Delta::Delivered { delivery, seq, count, timestamp } => {
                self.deliver(rules, delivery.0, seq, count, timestamp);
            }
            Delta::Acknowledged { delivery, seq } => self.acknowledge(rules, delivery.0, seq),
            Delta::Reset { seq } => {
                *self = Self {
                    delivered: (0, seq),
                    floor: (0, seq),
                    literally: self.literally,
                    ..Self::default()
                };
            }
            Delta::Skip { seq } => {
                if seq > self.delivered.1 {
                    self.delivered.1 = seq;
                    if rules.acks == AckPolicy::None {
                        self.floor.1 = seq;
                    }
                }
            }
            Delta::DropBelow { seq } => self.drop_below(seq),
            Delta::Forget { seq } => {
                self.redelivered.remove(&seq);
                self.remove_pending(seq);
            }
            Delta::CutAbove { seq } => self.cut_above(seq),
            Delta::ForgetCountsBelow { seq } => self.redelivered.retain(|counted, _| *counted >= seq),
        }
    }

    fn deliver(&mut self, rules: AckRules, delivery: u64, seq: u64, count: u64, timestamp: i64) {
        let none = rules.acks == AckPolicy::None;
        let is_done = delivery <= self.floor.0 && !self.pending.contains_key(&seq);
        if (none && count != 1) || is_done {
            return;
        }
        if !none && seq > self.delivered.1 {
            self.pending.insert(seq, (delivery, timestamp));
        } else if let Some(known) = self.pending.get_mut(&seq) {
            known.1 = timestamp;
        }
        self.delivered = (self.delivered.0.max(delivery), self.delivered.1.max(seq));
        if none {
            self.floor = self.delivered;
        } else if count > 1 {
            let times = self.redelivered.get(&seq).copied().unwrap_or(0);
            self.redelivered.insert(seq, times.max(count - 1));
            if rules.max_deliver.is_some_and(|max| count > max.get()) {
                self.remove_pending(seq);
            }
        }
    }

    fn acknowledge(&mut self, rules: AckRules, delivery: u64, seq: u64) {
        if rules.acks == AckPolicy::None {
            return;
        }
        self.redelivered.remove(&seq);
        if delivery <= self.floor.0 || !self.pending.contains_key(&seq) {
            return;
        }
        if rules.acks == AckPolicy::Explicit {
            self.remove_pending(seq);
            return;
        }
        self.pending.retain(|pending, _| *pending > seq);
        self.redelivered.retain(|counted, _| *counted > seq);
        self.floor = (delivery.min(self.delivered.0), seq);
    }

    fn remove_pending(&mut self, seq: u64) {
        let Some((delivery, _)) = self.pending.remove(&seq) else { return };
        if self.literally {
            self.raise_literally(delivery, seq);
            return;
        }
        match self.pending.first_key_value() {
            None => self.floor = self.delivered,
            Some((oldest, (first, _))) if delivery < *first => {
                self.floor = (self.floor.0.max(first - 1), self.floor.1.max(oldest - 1));
            }
            Some(_) => {}
        }
    }

    fn raise_literally(&mut self, delivery: u64, seq: u64) {
        if self.pending.is_empty() {
            self.floor = self.delivered;
        } else if delivery == self.floor.0 + 1 {
            self.floor = (delivery, seq);
            if let Some((next, (first, _))) = self.pending.range(seq + 1..).next() {
                self.floor = (first - 1, next - 1);
            }
        }
    }

    fn drop_below(&mut self, seq: u64) {
        self.redelivered.retain(|counted, _| *counted >= seq);
        if seq == 0 || seq - 1 <= self.floor.1 {
            return;
        }
        self.pending.retain(|pending, _| *pending >= seq);
        self.delivered.1 = self.delivered.1.max(seq - 1);
        self.floor = match self.pending.first_key_value() {
            None => self.delivered,
            Some((_, (first, _))) => (self.floor.0.max(first - 1), seq - 1),
        };
    }

    fn cut_above(&mut self, last: u64) {
        self.redelivered.retain(|counted, _| *counted <= last);
        if last >= self.delivered.1 {
            return;
        }
        self.pending.retain(|pending, _| *pending <= last);
        self.delivered.1 = last;
        self.floor.1 = self.floor.1.min(last);
        if self.pending.is_empty() {
            self.floor = self.delivered;
        }
    }
}

//! Message ids in entries that a leader has decided, until it is known that they count.
//!
//! Owns which entries belong to one decision: ids of one that was aborted are never known.

use std::collections::VecDeque;

use myelin_store::record::{LogEntryKind, canonical};
use myelin_store::{DecidedEntry, Seq, Timestamp};

use super::msg_headers::{Key, MsgHeaders};

/// Message of a decision, as far as others are compared with it.
pub(super) struct DecidedMsg {
    pub(super) seq: Seq,
    pub(super) time: Timestamp,
    /// Its message id; empty for none.
    pub(super) id: Vec<u8>,
}

struct WaitingEntry {
    index: u64,
    kind: LogEntryKind,
    /// Its decision goes on with the next entry.
    more: bool,
    msgs: Vec<DecidedMsg>,
}

/// Messages in entries that are not known to be committed, in order.
#[derive(Default)]
pub(super) struct DecidedIds {
    /// Entries that were appended.
    entries: VecDeque<WaitingEntry>,
    /// First and last sequence of those before, which a start has found in its log: what is
    /// released of them is read.
    found: Option<(Seq, Seq)>,
}

impl DecidedIds {
    /// A start has found messages that are not released.
    pub(super) fn find(&mut self, first: Seq, last: Seq) {
        self.found = (first <= last).then_some((first, last));
    }

    /// First and last sequence of the found messages that are released when those up to `released`
    /// are. Named once.
    pub(super) fn take_found(&mut self, released: Seq) -> Option<(Seq, Seq)> {
        let (first, last) = self.found.filter(|(first, _)| *first <= released)?;
        self.find(released + 1, last);
        Some((first, last.min(released)))
    }

    /// Keeps what an entry brings.
    pub(super) fn append(&mut self, decided: &DecidedEntry) {
        let msgs = canonical::messages(decided.records()).map(|message| {
            let id = MsgHeaders::scan(message.headers).get(Key::MsgId).to_vec();
            DecidedMsg { seq: message.seq, time: message.timestamp, id }
        });
        let (index, kind, more) = (decided.entry.index, decided.entry.kind, decided.entry.more);
        self.entries.push_back(WaitingEntry { index, kind, more, msgs: msgs.collect() });
    }

    /// Takes out what counts when entries up to `commit` are committed. A decision counts as a
    /// whole. One behind which the next entry is missing was aborted here.
    pub(super) fn take(&mut self, commit: u64) -> Vec<DecidedMsg> {
        let is_end = |entry: &WaitingEntry| entry.index <= commit && !entry.more;
        let Some(last) = self.entries.iter().rposition(is_end) else { return Vec::new() };
        let (mut counting, mut parts, mut next) = (Vec::new(), Vec::new(), 0);
        for mut entry in self.entries.drain(..=last) {
            if entry.index != next || entry.kind == LogEntryKind::Abort {
                parts.clear();
            }
            next = entry.index + 1;
            parts.append(&mut entry.msgs);
            if !entry.more {
                counting.append(&mut parts);
            }
        }
        counting
    }

    /// Forgets the entries from `first` on, and messages behind `last_seq`.
    pub(super) fn take_back(&mut self, first: u64, last_seq: Seq) {
        if let Some((first, last)) = self.found {
            self.find(first, last.min(last_seq));
        }
        self.entries.truncate(self.entries.partition_point(|entry| entry.index < first));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.found.is_none()
    }

    /// Forgets all: what counts was taken.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

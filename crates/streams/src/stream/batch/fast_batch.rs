//! One fast batch: what was received, what is stored, and when its publisher hears of it.

use super::ReplySink;
use super::fast::FastRefusal;
use super::flow_subject::{FlowOperation, FlowSubject};
use std::cmp::Ordering;

/// Messages that all batches of a stream together should send between two acknowledgements.
const TARGET: u16 = 500;

/// State of one fast batch. Places are counted from 1 within the batch.
#[derive(Debug)]
pub(super) struct FastBatch {
    id: Box<[u8]>,
    /// The last place that a message took, or that is known to be lost.
    last: u64,
    /// Up to this place every message is stored, lost, refused or a duplicate.
    settled: u64,
    /// The place that the last acknowledgement spoke of.
    acked: u64,
    /// Messages that are to be stored and of which nothing was heard yet.
    pending: u64,
    /// The last message's sequence in the stream.
    stored: u64,
    /// Messages from one acknowledgement to the next.
    flow: u16,
    /// The most that the client takes for that.
    most: u16,
    gap_ok: bool,
    /// Nothing more is taken: the publisher waits for what is pending.
    committing: bool,
    /// Where the publisher hears of its last message.
    reply: Vec<u8>,
}

/// Message of a fast batch that is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingMsg {
    sequence: u64,
    gap_ok: bool,
    commits: bool,
}

/// Status of a batch after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchStatus {
    /// More may come.
    Open,
    /// Only what is pending.
    Committing,
    /// No batch.
    Over,
}

impl FastBatch {
    /// Begins a batch: one that is alone starts with what it asks for, any other carefully.
    pub(super) fn new(first: &FlowSubject<'_>, alone: bool) -> Self {
        let flow = if alone { first.flow.min(TARGET) } else { 1 };
        let (most, gap_ok) = (first.flow, first.gap_ok);
        let id = first.id.into();
        Self {
            id,
            last: 0,
            settled: 0,
            acked: 0,
            pending: 0,
            stored: 0,
            flow,
            most,
            gap_ok,
            committing: false,
            reply: Vec::new(),
        }
    }

    /// Another message came. Perf: into memory that is kept.
    pub(super) fn note_reply(&mut self, reply: &[u8]) {
        self.reply.clear();
        self.reply.extend_from_slice(reply);
    }

    pub(super) fn reply(&self) -> &[u8] {
        &self.reply
    }

    /// Whether a message of it has a later sequence than this.
    pub(super) fn has_stored_behind(&self, seq: u64) -> bool {
        self.stored > seq
    }

    /// Whether this place is the next one.
    pub(super) fn expects(&self, sequence: u64) -> bool {
        !self.committing && sequence == self.last + 1
    }

    /// The client has heard nothing for a while.
    pub(super) fn ping(
        &mut self,
        flow_subject: &FlowSubject<'_>,
        open: usize,
        sink: &mut ReplySink<'_>,
    ) -> BatchStatus {
        if flow_subject.sequence > self.last {
            sink.gap(self.last + 1, flow_subject.sequence + 1);
            if self.gap_ok {
                self.last = flow_subject.sequence;
                self.settle_if_idle();
                if self.ack_if_due(open, sink) {
                    return self.after();
                }
            } else if self.commit(sink) == BatchStatus::Over {
                return BatchStatus::Over;
            }
        }
        sink.flow(self.acked, self.flow);
        self.after()
    }

    /// Any message but a ping. `Err` if it is not to be stored.
    pub(super) fn message(
        &mut self,
        flow_subject: &FlowSubject<'_>,
        sink: &mut ReplySink<'_>,
    ) -> Result<PendingMsg, BatchStatus> {
        if self.committing {
            return Err(BatchStatus::Committing);
        }
        let expected = self.last + 1;
        if flow_subject.sequence != expected {
            sink.gap(expected, flow_subject.sequence);
            if flow_subject.sequence < expected || !self.gap_ok {
                return Err(self.commit(sink));
            }
        }
        self.last = flow_subject.sequence;
        match flow_subject.operation {
            FlowOperation::CommitBefore => {
                self.last -= 1;
                return Err(self.commit(sink));
            }
            FlowOperation::Commit => self.committing = true,
            _ if flow_subject.sequence == 1 && !sink.replies.no_ack => sink.flow(0, self.flow),
            _ => {}
        }
        self.pending += 1;
        let FlowSubject { sequence, gap_ok, .. } = *flow_subject;
        Ok(PendingMsg { sequence, gap_ok, commits: self.committing })
    }

    pub(super) fn stored(
        &mut self,
        entry: PendingMsg,
        seq: u64,
        open: usize,
        sink: &mut ReplySink<'_>,
    ) -> BatchStatus {
        debug_assert!(self.pending > 0, "what was stored was to be stored");
        debug_assert!(seq > self.stored, "messages of a batch are stored in their order");
        self.pending = self.pending.saturating_sub(1);
        self.stored = seq;
        self.settled = entry.sequence;
        self.settle_if_idle();
        if self.committing && self.last == self.settled {
            return self.commit(sink);
        }
        self.ack_if_due(open, sink);
        self.after()
    }

    pub(super) fn refused(
        &mut self,
        entry: PendingMsg,
        why: &FastRefusal,
        open: usize,
        sink: &mut ReplySink<'_>,
    ) -> BatchStatus {
        debug_assert!(self.pending > 0, "what was refused was to be stored");
        self.pending = self.pending.saturating_sub(1);
        if matches!(why, FastRefusal::Duplicate(_)) {
            if self.pending == 0 {
                self.settled = entry.sequence;
                self.ack_if_due(open, sink);
            }
            if !entry.commits {
                return self.after();
            }
        }
        // Compat: here it is this message that says whether gaps are fine, elsewhere the first one
        // does.
        if !entry.gap_ok && entry.sequence == 1 {
            sink.plainly(&self.id, why);
            return BatchStatus::Over;
        }
        if let FastRefusal::Error(error) = why {
            sink.replies.fast_error(sink.reply, entry.sequence, error, sink.out);
            if entry.gap_ok && !entry.commits {
                return self.after();
            }
            self.last = entry.sequence - 1;
        }
        self.commit(sink)
    }

    /// Takes nothing more; tells the publisher if nothing is pending.
    ///
    /// The reference forgets to tell, and never gives the batch up, if the messages before were
    /// refused.
    fn commit(&mut self, sink: &mut ReplySink<'_>) -> BatchStatus {
        self.committing = true;
        self.settle_if_idle();
        if self.last != self.settled {
            debug_assert!(self.pending > 0, "a batch that is not committed waits for something");
            return BatchStatus::Committing;
        }
        sink.replies.committed(sink.reply, self.stored, &self.id, self.last, sink.out);
        BatchStatus::Over
    }

    fn after(&self) -> BatchStatus {
        if self.committing { BatchStatus::Committing } else { BatchStatus::Open }
    }

    fn settle_if_idle(&mut self) {
        if self.pending == 0 {
            self.settled = self.last;
        }
    }

    /// Acknowledges if enough is settled, once for all that is. Whether it did.
    fn ack_if_due(&mut self, open: usize, sink: &mut ReplySink<'_>) -> bool {
        let flow = u64::from(self.flow);
        let steps = self.settled.saturating_sub(self.acked) / flow;
        if steps == 0 {
            return false;
        }
        self.acked += steps * flow;
        debug_assert!(self.acked <= self.settled, "no more is acknowledged than is settled");
        self.adapt(open);
        debug_assert!(
            (1..=self.most).contains(&self.flow),
            "acknowledgements come as often as the client takes them"
        );
        sink.flow(self.acked, self.flow);
        true
    }

    /// Towards a fair share of the target, by no more than twice or half.
    fn adapt(&mut self, open: usize) {
        let share = usize::from(TARGET).checked_div(open).map_or(TARGET, |share| share as u16);
        let goal = share.clamp(1, self.most);
        self.flow = match self.flow.cmp(&goal) {
            Ordering::Less => self.flow.saturating_mul(2).min(goal),
            Ordering::Equal => goal,
            Ordering::Greater => (self.flow / 2).max(goal),
        };
    }
}

impl ReplySink<'_> {
    fn flow(&mut self, seq: u64, messages: u16) {
        self.replies.flow(self.reply, seq, messages, self.out);
    }

    fn gap(&mut self, expected: u64, seq: u64) {
        self.replies.gap(self.reply, expected, seq, self.out);
    }

    /// A batch that never came to anything: as a message without a batch is refused.
    ///
    /// Compat: also on a stream that acknowledges nothing.
    fn plainly(&mut self, id: &[u8], why: &FastRefusal) {
        let Self { reply, replies, out } = self;
        match why {
            FastRefusal::Duplicate(seq) => replies.duplicate(reply, *seq, id, 1, out),
            FastRefusal::Error(error) => replies.refused(reply, error, out),
        }
    }
}

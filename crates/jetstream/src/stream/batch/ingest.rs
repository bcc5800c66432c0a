//! One fast batch: what was received, what is stored, and when its publisher hears of it.

use super::Answer;
use super::fast::Refusal;
use super::flow_subject::{FlowSubject, Operation};
use std::cmp::Ordering;

/// What all batches of a stream together should send between two acknowledgements.
const TARGET: u16 = 500;

/// See the module. Places are counted from 1 within the batch.
#[derive(Debug)]
pub(super) struct Ingest {
    id: Box<[u8]>,
    /// The last place that a message took, or that is known to be lost.
    last: u64,
    /// Up to this place every message is stored, lost, refused or a duplicate.
    settled: u64,
    /// The place that the last acknowledgement spoke of.
    told: u64,
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

/// What is remembered of a message that is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    sequence: u64,
    gap_ok: bool,
    commits: bool,
}

/// What a message leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// More may come.
    Open,
    /// Only what is pending.
    Committing,
    /// No batch.
    Over,
}

impl Ingest {
    /// Who is alone starts with what it asks for, any other carefully.
    pub(super) fn new(first: &FlowSubject<'_>, alone: bool) -> Self {
        let flow = if alone { first.flow.min(TARGET) } else { 1 };
        let (most, gap_ok) = (first.flow, first.gap_ok);
        let id = first.id.into();
        Self {
            id,
            last: 0,
            settled: 0,
            told: 0,
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

    /// Whether this place is the next one.
    pub(super) fn expects(&self, sequence: u64) -> bool {
        !self.committing && sequence == self.last + 1
    }

    /// The client has heard nothing for a while.
    pub(super) fn ping(&mut self, ticket: &FlowSubject<'_>, open: usize, answer: &mut Answer<'_>) -> After {
        if ticket.sequence > self.last {
            answer.gap(self.last + 1, ticket.sequence + 1);
            if self.gap_ok {
                self.last = ticket.sequence;
                self.settle_if_idle();
                if self.tell_if_due(open, answer) {
                    return self.after();
                }
            } else if self.commit(answer) == After::Over {
                return After::Over;
            }
        }
        answer.flow(self.told, self.flow);
        self.after()
    }

    /// Any message but a ping. `Err` if it is not to be stored.
    pub(super) fn message(
        &mut self,
        ticket: &FlowSubject<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<Entry, After> {
        if self.committing {
            return Err(After::Committing);
        }
        let expected = self.last + 1;
        if ticket.sequence != expected {
            answer.gap(expected, ticket.sequence);
            if ticket.sequence < expected || !self.gap_ok {
                return Err(self.commit(answer));
            }
        }
        self.last = ticket.sequence;
        match ticket.operation {
            Operation::CommitBefore => {
                self.last -= 1;
                return Err(self.commit(answer));
            }
            Operation::Commit => self.committing = true,
            _ if ticket.sequence == 1 && !answer.voice.no_ack => answer.flow(0, self.flow),
            _ => {}
        }
        self.pending += 1;
        let FlowSubject { sequence, gap_ok, .. } = *ticket;
        Ok(Entry { sequence, gap_ok, commits: self.committing })
    }

    pub(super) fn stored(&mut self, entry: Entry, seq: u64, open: usize, answer: &mut Answer<'_>) -> After {
        self.pending = self.pending.saturating_sub(1);
        self.stored = seq;
        self.settled = entry.sequence;
        self.settle_if_idle();
        if self.committing && self.last == self.settled {
            return self.commit(answer);
        }
        self.tell_if_due(open, answer);
        self.after()
    }

    pub(super) fn refused(
        &mut self,
        entry: Entry,
        why: &Refusal,
        open: usize,
        answer: &mut Answer<'_>,
    ) -> After {
        self.pending = self.pending.saturating_sub(1);
        if matches!(why, Refusal::Duplicate(_)) {
            if self.pending == 0 {
                self.settled = entry.sequence;
                self.tell_if_due(open, answer);
            }
            if !entry.commits {
                return self.after();
            }
        }
        // Compat: here it is this message that says whether gaps are fine, elsewhere the first one does.
        if !entry.gap_ok && entry.sequence == 1 {
            answer.plainly(&self.id, why);
            return After::Over;
        }
        if let Refusal::Error(error) = why {
            answer.voice.fast_error(answer.reply, entry.sequence, error, answer.out);
            if entry.gap_ok && !entry.commits {
                return self.after();
            }
            self.last = entry.sequence - 1;
        }
        self.commit(answer)
    }

    /// Takes nothing more; tells the publisher if nothing is pending.
    ///
    /// The reference forgets to tell, and never gives the batch up, if the messages before were refused.
    fn commit(&mut self, answer: &mut Answer<'_>) -> After {
        self.committing = true;
        self.settle_if_idle();
        if self.last != self.settled {
            return After::Committing;
        }
        answer.voice.committed(answer.reply, self.stored, &self.id, self.last, answer.out);
        After::Over
    }

    fn after(&self) -> After {
        if self.committing { After::Committing } else { After::Open }
    }

    fn settle_if_idle(&mut self) {
        if self.pending == 0 {
            self.settled = self.last;
        }
    }

    /// Acknowledges if enough is settled, once for all that is. Whether it did.
    fn tell_if_due(&mut self, open: usize, answer: &mut Answer<'_>) -> bool {
        let flow = u64::from(self.flow);
        let steps = self.settled.saturating_sub(self.told) / flow;
        if steps == 0 {
            return false;
        }
        self.told += steps * flow;
        self.adapt(open);
        answer.flow(self.told, self.flow);
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

impl Answer<'_> {
    fn flow(&mut self, seq: u64, messages: u16) {
        self.voice.flow(self.reply, seq, messages, self.out);
    }

    fn gap(&mut self, expected: u64, seq: u64) {
        self.voice.gap(self.reply, expected, seq, self.out);
    }

    /// A batch that never came to anything: as a message without a batch is refused.
    ///
    /// Compat: also on a stream that acknowledges nothing.
    fn plainly(&mut self, id: &[u8], why: &Refusal) {
        let Self { reply, voice, out } = self;
        match why {
            Refusal::Duplicate(seq) => voice.duplicate(reply, *seq, id, 1, out),
            Refusal::Error(error) => voice.refused(reply, error, out),
        }
    }
}

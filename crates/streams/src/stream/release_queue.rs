//! Messages that may be sent only when the store has released a batch: acknowledgements and
//! republished messages, in order.

use std::collections::VecDeque;

use myelin_store::{Release, Ticket};
use myelin_wire::message_buf::MessageBuf;

/// Emptied buffers that are kept.
const SPARE: usize = 4;

/// Messages that wait for the release of what they speak of, in order.
#[derive(Default)]
pub(super) struct ReleaseQueue {
    waiting: VecDeque<WaitingMsgs>,
    spare: Vec<MessageBuf>,
}

/// Messages that wait for one ticket.
struct WaitingMsgs {
    ticket: Ticket,
    msgs: MessageBuf,
    /// Whether they speak of a rollup that has not removed all that it takes the place of.
    awaits_rollup: bool,
}

impl ReleaseQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// An empty buffer.
    pub(super) fn msgs(&mut self) -> MessageBuf {
        let msgs = self.spare.pop().unwrap_or_default();
        debug_assert!(msgs.is_empty(), "a buffer that is used again says nothing of before");
        msgs
    }

    /// Holds a buffer back until `ticket` is released.
    pub(super) fn wait(&mut self, ticket: Ticket, msgs: MessageBuf) {
        self.push(WaitingMsgs { ticket, msgs, awaits_rollup: false });
    }

    /// Holds back a buffer that speaks of a rollup, and all that follow, until
    /// [`rollups_are_through`](Self::rollups_are_through).
    pub(super) fn await_rollup(&mut self, ticket: Ticket, msgs: MessageBuf) {
        self.push(WaitingMsgs { ticket, msgs, awaits_rollup: true });
    }

    fn push(&mut self, waiting: WaitingMsgs) {
        debug_assert!(
            self.waiting.back().is_none_or(|last| last.ticket <= waiting.ticket),
            "what waits for its release is in the order of tickets"
        );
        self.waiting.push_back(waiting);
    }

    /// Rollups have removed what they take the place of, which is released with `ticket`: what
    /// speaks of them waits for that, and so does what follows.
    pub(super) fn rollups_are_through(&mut self, ticket: Ticket) {
        let first = self.waiting.iter().position(|waiting| waiting.awaits_rollup);
        for waiting in self.waiting.iter_mut().skip(first.unwrap_or(usize::MAX)) {
            waiting.awaits_rollup = false;
            waiting.ticket = waiting.ticket.max(ticket);
        }
    }

    /// Forgets what speaks of rollups that nobody goes on with.
    pub(super) fn forget_rollups(&mut self) {
        self.waiting.retain(|waiting| !waiting.awaits_rollup);
    }

    /// Moves what is released to `out`.
    pub(super) fn release(&mut self, release: &Release, out: &mut MessageBuf) {
        let is_due =
            |waiting: &mut WaitingMsgs| !waiting.awaits_rollup && release.is_released(waiting.ticket);
        while let Some(WaitingMsgs { mut msgs, .. }) = self.waiting.pop_front_if(is_due) {
            out.append(&mut msgs);
            if self.spare.len() < SPARE {
                msgs.clear();
                self.spare.push(msgs);
            }
            debug_assert!(self.spare.len() <= SPARE, "few emptied buffers are kept");
        }
    }

    /// Forgets what waits for `first` and later tickets, which are never released.
    pub(super) fn take_back(&mut self, first: Ticket) {
        self.waiting.truncate(self.waiting.partition_point(|waiting| waiting.ticket < first));
    }

    /// Takes out what will never be released.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = MessageBuf> {
        self.waiting.drain(..).map(|waiting| waiting.msgs)
    }
}

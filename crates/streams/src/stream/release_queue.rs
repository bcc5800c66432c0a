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
    waiting: VecDeque<(Ticket, MessageBuf)>,
    spare: Vec<MessageBuf>,
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
        debug_assert!(
            self.waiting.back().is_none_or(|(last, _)| *last <= ticket),
            "what waits for its release is in the order of tickets"
        );
        self.waiting.push_back((ticket, msgs));
    }

    /// Moves what is released to `out`.
    pub(super) fn release(&mut self, release: &Release, out: &mut MessageBuf) {
        while let Some((ticket, msgs)) = self.waiting.front_mut()
            && release.is_released(*ticket)
        {
            out.append(msgs);
            let (_, mut msgs) = self.waiting.pop_front().expect("it was just looked at");
            if self.spare.len() < SPARE {
                msgs.clear();
                self.spare.push(msgs);
            }
            debug_assert!(self.spare.len() <= SPARE, "few emptied buffers are kept");
        }
    }

    /// Forgets what waits for `first` and later tickets, which are never released.
    pub(super) fn take_back(&mut self, first: Ticket) {
        self.waiting.truncate(self.waiting.partition_point(|(ticket, _)| *ticket < first));
    }

    /// Takes out what will never be released.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = MessageBuf> {
        self.waiting.drain(..).map(|(_, msgs)| msgs)
    }
}

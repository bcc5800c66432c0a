//! What may be said only when the store has released a batch: acknowledgements and republished messages, in order.

use std::collections::VecDeque;

use myelin_broker::MessageBuf;
use myelin_store::{Release, Ticket};

/// Emptied buffers that are kept.
const SPARE: usize = 4;

/// See the module.
#[derive(Default)]
pub(super) struct Outgoing {
    waiting: VecDeque<(Ticket, MessageBuf)>,
    spare: Vec<MessageBuf>,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// An empty buffer.
    pub(super) fn msgs(&mut self) -> MessageBuf {
        self.spare.pop().unwrap_or_default()
    }

    /// Holds a buffer back until `ticket` is released.
    pub(super) fn wait(&mut self, ticket: Ticket, msgs: MessageBuf) {
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
        }
    }

    /// What will never be released.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = MessageBuf> {
        self.waiting.drain(..).map(|(_, msgs)| msgs)
    }
}

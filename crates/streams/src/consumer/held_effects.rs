//! Effects of a consumer that wait until what they tell of counts as stored: written and synced, or
//! committed by the group of the stream.
//!
//! Owns their order. What waits was not sent, and where it never will be, it is as if it had not
//! been said.

use super::effects::ConsumerEvent;
use myelin_store::Timestamp;
use myelin_store::consumer::Flushed;
use myelin_wire::message_buf::MessageBuf;
use std::collections::VecDeque;

/// Queue of effects that wait.
#[derive(Default)]
pub(super) struct HeldEffects(VecDeque<HeldTurn>);

/// Effects of one turn.
pub(super) struct HeldTurn {
    /// Position that must be released before; `None`: nothing.
    pub(super) position: Option<Flushed>,
    pub(super) out: MessageBuf,
    pub(super) events: Vec<ConsumerEvent>,
    /// When deliveries were decided that are among it.
    pub(super) decided: Option<Timestamp>,
}

impl HeldEffects {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, turn: HeldTurn) {
        self.0.push_back(turn);
    }

    /// The next turn of which all may be said.
    pub(super) fn pop(&mut self, is_released: impl Fn(Option<Flushed>) -> bool) -> Option<HeldTurn> {
        self.0.pop_front_if(|turn| is_released(turn.position))
    }

    /// When the first deliveries were decided that wait.
    pub(super) fn first_decided(&self) -> Option<Timestamp> {
        self.0.iter().find_map(|turn| turn.decided)
    }

    /// Replies of the requests for messages to which something was to be sent, in order. An answer
    /// to an acknowledgement is none: it has no headers, and no address of its own; a dead letter
    /// is none either, which wants an answer itself.
    pub(super) fn requests(&self) -> impl Iterator<Item = &[u8]> {
        let replies = self.0.iter().flat_map(|turn| turn.out.iter()).map(|msg| {
            let is_status = msg.to.is_empty() && !msg.headers.is_empty() && msg.reply.is_empty();
            if is_status { msg.subject } else { msg.to }
        });
        replies.filter(|reply| !reply.is_empty())
    }

    /// Replies of the acknowledgements that were to be answered, in order.
    pub(super) fn confirmations(&self) -> impl Iterator<Item = &[u8]> {
        let all = self.0.iter().flat_map(|turn| turn.out.iter());
        let answers = all.filter(|msg| msg.to.is_empty() && msg.headers.is_empty() && msg.reply.is_empty());
        answers.map(|msg| msg.subject)
    }
}

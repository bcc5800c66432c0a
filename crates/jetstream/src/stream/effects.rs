//! What a turn wants from others: run after it by whoever embeds the stream (house.md 3.3).

use myelin_broker::{MessageBuf, MessageTrace};
use std::sync::Arc;

use super::batch::Abandoned;

/// See the module. Kept between turns: [`Effects::clear`] keeps its memory.
#[derive(Default)]
pub struct Effects {
    /// Messages to be published in the stream's account, in order: acknowledgements, republished messages, advisories.
    pub out: MessageBuf,
    /// Whether [`StreamCore::next_due`](super::StreamCore::next_due) may be earlier than it was before.
    pub due_changed: bool,
    /// Why the stream has failed, if that was found in this turn. It must be opened anew.
    pub failed: Option<String>,
    /// Atomic batches that were given up, for an advisory each.
    pub abandoned: Vec<Abandoned>,
    /// Messages without a reply subject that were not taken in this turn, so that nobody was told.
    pub lost: u64,
    /// Whether messages were not taken because the disk is full.
    pub is_full: bool,
    /// Traces of messages that are complete now: each is to be served on some shard.
    pub traced: Vec<Arc<MessageTrace>>,
}

impl Effects {
    /// Nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
            && !self.due_changed
            && self.failed.is_none()
            && self.lost == 0
            && !self.is_full
            && self.abandoned.is_empty()
            && self.traced.is_empty()
    }

    /// Empties it for the next turn.
    pub fn clear(&mut self) {
        self.out.clear();
        self.due_changed = false;
        self.failed = None;
        self.abandoned.clear();
        self.lost = 0;
        self.is_full = false;
        self.traced.clear();
    }
}

//! Effects of a stream's turn on others: run after it by whoever embeds the stream (contracts.md
//! C3).

use myelin_wire::message_buf::MessageBuf;

use super::batch::Abandoned;

/// Effects of a stream's turn, run after it. Kept between turns: [`Effects::clear`] keeps its
/// memory.
#[derive(Default)]
pub struct Effects {
    /// Messages to be published in the stream's account, in order: acknowledgements, republished
    /// messages, advisories.
    pub out: MessageBuf,
    /// Whether [`StreamCore::next_due`](super::StreamCore::next_due) may be earlier than it was
    /// before.
    pub due_changed: bool,
    /// Why the stream has failed, if that was found in this turn. It must be opened anew.
    pub failed: Option<String>,
    /// Atomic batches that were given up, for an advisory each.
    pub abandoned: Vec<Abandoned>,
    /// Messages without a reply subject that were not taken in this turn, so that nobody was told.
    pub dropped: u64,
    /// Whether messages were not taken because the disk is full.
    pub is_full: bool,
    /// Whether consumers may have something to say: what they have proposed is committed.
    pub are_proposals_released: bool,
    /// Whether the image of the group's consumers is to be written anew
    /// ([`StreamCore::draw_image`](super::StreamCore::draw_image)).
    pub is_image_due: bool,
}

impl Effects {
    /// Nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
            && !self.due_changed
            && self.failed.is_none()
            && self.dropped == 0
            && !self.is_full
            && !self.are_proposals_released
            && !self.is_image_due
            && self.abandoned.is_empty()
    }

    /// Empties it for the next turn.
    pub fn clear(&mut self) {
        self.out.clear();
        self.due_changed = false;
        self.failed = None;
        self.abandoned.clear();
        self.dropped = 0;
        self.is_full = false;
        self.are_proposals_released = false;
        self.is_image_due = false;
    }
}

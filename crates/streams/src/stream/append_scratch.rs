//! Memory that appends of a stream use again and again, and their random numbers. Means nothing
//! between two turns.

use myelin_stdx::rng::Rng;
use myelin_store::{AppendResult, NewMessage};

use super::append_run::SPARE_MESSAGES;

/// Buffers for one append at a time.
pub(super) struct AppendScratch {
    /// Results of the log for each message.
    pub(super) outcomes: Vec<AppendResult>,
    /// The messages that the log is given.
    pub(super) spare: Vec<NewMessage<'static>>,
    /// Memory for one text at a time.
    pub(super) text: Vec<u8>,
    /// Random numbers for the choices of subject transforms.
    pub(super) rng: Rng,
}

impl AppendScratch {
    /// Empty buffers.
    pub(super) fn new(seed: u64) -> Self {
        Self { outcomes: Vec::new(), spare: Vec::new(), text: Vec::new(), rng: Rng::seeded(seed) }
    }

    /// Gives back what a large run has taken.
    pub(super) fn shrink(&mut self) {
        self.outcomes.shrink_to(SPARE_MESSAGES);
        self.spare.shrink_to(SPARE_MESSAGES);
    }
}

//! Counts of messages that were lost before a stream was opened, or that a reader has missed since.

use std::sync::OnceLock;

use hashbrown::HashMap;

use crate::index::SubjectId;

/// Lost messages of each subject that has any.
pub(super) type LostBySubject = HashMap<SubjectId, u64, foldhash::fast::RandomState>;

/// Messages that count and are not there, as far as that is known.
#[derive(Debug, Default)]
pub(super) struct LostMessages {
    /// Whether there may be any.
    pub(super) is_damaged: bool,
    /// Filled when somebody asks: that takes a look at all tables.
    pub(super) by_subject: OnceLock<LostBySubject>,
}

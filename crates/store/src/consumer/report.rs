//! What was found when a consumer log was read.
//!
//! Owns facts only: where bytes were not what they should be, and which consumers that concerns.

use std::ops::Range;

use super::ConsumerId;

/// What reading a stream's consumer logs brought to light. Empty when all was well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The log that was read; `None` if there was none.
    pub file: Option<u64>,
    /// What was cut off its end.
    pub torn: Option<Torn>,
    /// Ranges that are not what was written: damaged, or never synced before the power failed.
    pub bad: Vec<BadRange>,
    /// Consumers that these ranges concern, or may concern.
    pub affected: Vec<(ConsumerId, Box<str>, Affected)>,
    /// Consumers that are mentioned but not defined: their names and configurations are lost.
    pub orphans: Vec<ConsumerId>,
    /// Consumers that the log began with and that are not there any more.
    pub missing: u32,
    /// Logs that could not be read at all.
    pub unusable: Vec<String>,
}

impl Report {
    /// Whether nothing has to be told.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let Self { file: _, torn, bad, affected, orphans, missing, unusable } = self;
        torn.is_none()
            && bad.is_empty()
            && affected.is_empty()
            && orphans.is_empty()
            && *missing == 0
            && unusable.is_empty()
    }
}

/// An end that was being written when the process or the power failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where it begins.
    pub offset: u64,
    /// Up to the last byte that is not 0.
    pub bytes: u64,
}

/// A part of a log that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRange {
    /// Where, in bytes of the file.
    pub range: Range<u64>,
    /// What is wrong with it.
    pub fault: BadBytes,
}

/// What is wrong with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBytes {
    /// No entry begins there, or its checksum is wrong.
    Unreadable,
    /// An entry with the right checksum that was sealed with another key, or says what cannot be.
    Impossible,
}

/// How a bad range concerns a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affected {
    /// Changes are missing. It is set back to what is certain: messages may be delivered again.
    Rewound,
    /// Nothing of it follows the range, so changes may be missing. Its state is that before the range.
    Perhaps,
}

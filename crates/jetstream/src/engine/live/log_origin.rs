//! Whether a stream's log is that of a group, as is written down beside it.

use super::LiveStream;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Word beside a stream's log of whether that is of a group, which is there where the log is lost.
#[derive(Default)]
pub(super) struct LogOrigin {
    /// Whether it is written down that it is.
    pub(super) is_written: AtomicBool,
    /// Whether it was, and the log that was found is of none.
    pub(super) has_lost_log: AtomicBool,
}

impl LiveStream {
    /// Notes that it is written down that its log is, or is to be, of a group, and whether that is
    /// lost.
    pub(in crate::engine) fn note_of_group(&self, has_lost_log: bool) {
        self.membership.origin.is_written.store(true, Release);
        self.membership.origin.has_lost_log.store(has_lost_log, Release);
    }

    /// Whether it is written down that its log is of a group.
    pub(in crate::engine) fn is_noted_of_group(&self) -> bool {
        self.membership.origin.is_written.load(Acquire)
    }

    /// Whether it was of a group, and damage has taken the log that says so: it is not served
    /// before it is a member again.
    pub(in crate::engine) fn has_lost_log(&self) -> bool {
        self.membership.origin.has_lost_log.load(Acquire) && !self.consumers.is_of_group()
    }
}

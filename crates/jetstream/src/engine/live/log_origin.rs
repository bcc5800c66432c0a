//! Whether a stream's log is that of a group, as is written down beside it.

use std::sync::atomic::AtomicBool;

/// Word beside a stream's log of whether that is of a group, which is there where the log is lost.
#[derive(Default)]
pub(super) struct LogOrigin {
    /// Whether it is written down that it is.
    pub(super) is_written: AtomicBool,
    /// Whether it was, and the log that was found is of none.
    pub(super) has_lost_log: AtomicBool,
}

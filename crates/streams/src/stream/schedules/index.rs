//! Index of a stream's schedules beside its messages, so that a start need not read all of these.
//!
//! A schedule that is due once needs no more than its message: the store takes that away with what
//! it fires. One that repeats says when it comes next in what it has fired, which may be gone by
//! the time of a crash: consumers had it, or limits took it in the very write that stored it. So
//! that is written here before it fires, with the sequence that what it fires will have: a start
//! sees by the stream's last sequence whether it came to that.
//!
//! The index and the messages reach the disk apart from each other, so a page says which log it is
//! of: one of messages that a loss of power took away, and that others have taken the place of, is
//! not believed.

use myelin_store::{Seq, Timestamp};

/// One schedule or step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleChange {
    /// The message with this sequence is due then. New ones come in the order of their sequences.
    Due(Seq, Timestamp),
    /// The message is no schedule any more.
    Gone(Seq),
}

/// Page of the index: what is written down beside the schedules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulePage {
    /// Schedules in messages up to here are all there.
    pub through: Seq,
    /// When the last of these messages was stored: none of them is younger.
    pub time: Timestamp,
    /// Firings that were about to be stored.
    pub firings: Vec<PlannedFiring>,
}

/// A schedule that repeats and was about to fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFiring {
    /// Its message.
    pub schedule: Seq,
    /// As long as the stream has never had this message, it has not fired,
    pub at: Seq,
    /// and is still due then, whatever else is written.
    pub due: Timestamp,
}

/// Index of a stream's schedules beside its messages. Asked from inside a stream's turn: it may
/// write, and wait for no sync.
pub trait ScheduleIndex: Send + Sync {
    /// Reads the page that was written last, and how many schedules there are; `None`: nothing ever
    /// was.
    fn read(&self) -> Option<(SchedulePage, usize)>;

    /// Goes through the schedules, in the order of their sequences.
    fn each(&self, visit: &mut dyn FnMut(Seq, Timestamp));

    /// Begins anew with nothing. What was there does not come back, not even with a loss of power:
    /// for the start of a stream, which may wait.
    fn reset(&self);

    /// Notes changes, which with all before make what there is to say of messages up to those of
    /// the page. Answers whether they are the system's; if not, they are with the next write.
    fn write(&self, changes: &[ScheduleChange], page: &SchedulePage) -> bool;
}

/// Keeps nothing: a stream in memory has nobody to tell after its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoScheduleIndex;

impl ScheduleIndex for NoScheduleIndex {
    fn read(&self) -> Option<(SchedulePage, usize)> {
        None
    }

    fn each(&self, _: &mut dyn FnMut(Seq, Timestamp)) {}

    fn reset(&self) {}

    fn write(&self, _: &[ScheduleChange], _: &SchedulePage) -> bool {
        true
    }
}

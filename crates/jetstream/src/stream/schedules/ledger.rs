//! What a stream writes down of its schedules beside its messages, so that a start need not read all of these.
//!
//! A schedule that is due once needs no more than its message: the store takes that away with what it fires. One that repeats
//! says when it comes next in what it has fired, which may be gone by the time of a crash: consumers had it, or limits took
//! it. So that is written here before the turn ends in which it fired, and nothing can be gone before.

use myelin_store::{Seq, Timestamp};

/// One schedule or step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The message with this sequence is due then. New ones come in the order of their sequences.
    Due(Seq, Timestamp),
    /// It is no schedule any more.
    Gone(Seq),
}

/// What was written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Schedules in messages up to here are all there.
    pub through: Seq,
    /// Schedules, in the order of their sequences.
    pub due: Vec<(Seq, Timestamp)>,
}

/// See the module. Asked from inside a stream's turn: it may write, and wait for no sync.
pub trait Ledger: Send + Sync {
    /// All that was written down; `None`: nothing ever was.
    fn read(&self) -> Option<Kept>;

    /// Begins anew with nothing.
    fn reset(&self);

    /// Notes changes, which with all before make what there is to say of messages up to `through`. If `is_urgent`, they are
    /// the system's when this returns.
    fn write(&self, changes: &[Change], through: Seq, is_urgent: bool);
}

/// Keeps nothing: a stream in memory has nobody to tell after its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forgetful;

impl Ledger for Forgetful {
    fn read(&self) -> Option<Kept> {
        None
    }

    fn reset(&self) {}

    fn write(&self, _: &[Change], _: Seq, _: bool) {}
}

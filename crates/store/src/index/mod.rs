//! Indexes of a stream's messages in memory: subjects and their order, what was deleted, what
//! expires when.
//!
//! Pure structures: no file, no clock, no thread. Everything here can be built again from the
//! stream's files, and nothing here is ever the only place that knows something. Each is written
//! for a million entries: no call may stop the publishing thread for more than a few milliseconds,
//! however large the index has become.

mod deleted;
mod expiry;
mod merge;
mod order;
mod records;
mod runs;
mod seek;
mod subjects;
mod table;

pub use deleted::{Deleted, DeletedCursor, Ranges};
pub use expiry::ExpiryIndex;
pub use order::{SubjectScan, SubjectSummary};
pub use subjects::{SubjectId, SubjectIndex, SubjectState};

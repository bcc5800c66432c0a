//! Reading a stream without consumers: direct get, message get, and what STREAM.INFO says of its
//! contents.
//!
//! Everything here works on [`myelin_store::StreamReader`]s and takes no turn, so that readers do
//! not wait for publishers. It owns the bytes of direct answers and the rules of their requests. On
//! a shard nothing here waits for the device or walks long tables: such a request becomes a
//! [`SlicedAnswer`] that a disk thread goes on with.

mod answer;
mod consecutive;
mod details;
mod direct;
mod faults;
mod lookup;
mod message;
mod multi_last;
mod sliced_answer;
#[cfg(test)]
mod tests;

pub use answer::refuse;
pub use details::{SUBJECTS_PER_PAGE, StreamContents, SubjectPage, contents, subject_page};
pub use direct::Requests;
pub(crate) use direct::is_too_high;
pub use message::{GetRefused, check_message_get, message_get};
pub use sliced_answer::{AnswerProgress, SlicedAnswer};

use std::sync::Arc;

use myelin_store::{Filter, Seq, StreamReader};

/// A stream as its readers know it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Readable {
    /// The stream's name.
    pub name: Arc<str>,
    /// Its messages.
    pub reader: StreamReader,
    /// Bytes of one answer where the request does not say: the server's `max_pending`.
    pub max_bytes: i64,
}

impl Readable {
    /// The last sequence that can be seen, whether its message is still there or not.
    fn last_seq(&self) -> Seq {
        self.reader.state().totals.last_seq
    }

    /// Whether the message with this sequence was removed.
    fn lacks(&self, seq: Seq) -> bool {
        self.reader.next_seq(&Filter::All, seq).is_ok_and(|next| next != Some(seq))
    }
}

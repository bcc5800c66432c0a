//! The numbers by which the store knows things. Names live in a stream's `meta` file only.

use std::fmt;

pub use myelin_stdx::seq::Seq;
pub use myelin_stdx::time::Timestamp;

/// The clock as the journal counts it. Before 1970 nothing was ever late.
pub(crate) fn nanos(now: Timestamp) -> u64 {
    u64::try_from(now).unwrap_or(0)
}

/// Names one stream for as long as its store exists: never used again, not even after the stream
/// was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// Numbers the segments of one stream, from 1, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNo(pub u64);

/// Which append-only file of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// `NNNN.seg`: records of messages.
    Segment(SegmentNo),
    /// `consumers.NNNN`: changes of consumers' states; the number grows with each rewrite.
    Consumers(u64),
}

/// Part of a stream that has one writer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum StreamPart {
    Messages,
    Consumers,
}

/// In words for operators: `segment 3`, `consumer log 2`.
impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(SegmentNo(no)) => write!(f, "segment {no}"),
            Self::Consumers(no) => write!(f, "consumer log {no}"),
        }
    }
}

impl FileKind {
    /// Part of the stream that the file belongs to.
    pub(crate) fn part(self) -> StreamPart {
        match self {
            Self::Segment(_) => StreamPart::Messages,
            Self::Consumers(_) => StreamPart::Consumers,
        }
    }
}

/// Names an append-only file of the store, also inside the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The stream whose file it is.
    pub stream: StreamId,
    /// Which of its files.
    pub kind: FileKind,
}

/// Where only numbers are known, in words by which the stream's folder is found.
impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the stream in streams/{:016x}", self.kind, self.stream.0)
    }
}

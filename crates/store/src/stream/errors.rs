//! Why a stream could not do what it was asked.

use std::fmt;
use std::io;

use myelin_disk::is_full;

use crate::Seq;

/// Why one message was not taken. The others of its batch are not concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendRefusal {
    /// The stream has as many messages as it may, and discards new ones.
    MaxMessages,
    /// The stream would have more bytes than it may, and discards new messages.
    MaxBytes,
    /// The subject has as many messages as it may, and the stream refuses more.
    MaxMessagesPerSubject,
    /// Headers and payload are larger than the stream allows, or than an entry can be.
    TooLarge,
    /// The message has no subject.
    NoSubject,
    /// The caller named a sequence, and it is not the next one, nor a little behind it.
    WrongSequence {
        /// The last sequence of the stream.
        last: Seq,
    },
}

impl fmt::Display for AppendRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first three are the reference's texts: clients see them.
        match self {
            Self::MaxMessages => f.write_str("maximum messages exceeded"),
            Self::MaxBytes => f.write_str("maximum bytes exceeded"),
            Self::MaxMessagesPerSubject => f.write_str("maximum messages per subject exceeded"),
            Self::TooLarge => f.write_str("message size exceeds maximum allowed"),
            Self::NoSubject => f.write_str("a message needs a subject"),
            Self::WrongSequence { last } => write!(f, "wrong sequence: the stream's last is {last}"),
        }
    }
}

impl std::error::Error for AppendRefusal {}

/// Why nothing of a request was done.
#[derive(Debug)]
pub enum StoreError {
    /// The device is full. Nothing has changed; the request may be repeated when there is space.
    Full,
    /// The stream does not work any more: what is in memory may differ from what is on disk. It
    /// must be opened anew.
    Failed(String),
    /// A batch is larger than a segment can be (4 GiB). Nothing has changed.
    TooLarge,
    /// The entry is not the one behind the last of its group's log here. Nothing has changed.
    NotNext {
        /// Index of the entry that comes next; 0 without a group.
        expected: u64,
    },
    /// An entry of the group's log is committed, and stays. Nothing has changed.
    Committed {
        /// The last index that is.
        through: u64,
    },
    /// Something in the log waits for its release, which this cannot come before. Nothing has
    /// changed.
    Unreleased,
    /// The request names a sequence that no stream may reach.
    SequenceTooHigh(Seq),
    /// The bytes that the request needs cannot be read.
    Read(ReadError),
    /// The operating system refused, and nothing has changed.
    Io(io::Error),
}

impl StoreError {
    /// Sorts an error of a system call that changed nothing.
    pub(crate) fn from_io(error: io::Error) -> Self {
        if is_full(&error) { Self::Full } else { Self::Io(error) }
    }

    /// As an error of a system call, of the same kind.
    pub(crate) fn into_io(self) -> io::Error {
        match self {
            Self::Full => io::ErrorKind::StorageFull.into(),
            Self::Io(error) | Self::Read(ReadError::Io(error)) => error,
            other => io::Error::other(other.to_string()),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("no space left on the device"),
            Self::Failed(why) => write!(f, "the stream has failed: {why}"),
            Self::TooLarge => f.write_str("the batch is larger than a segment can be"),
            Self::NotNext { expected } => write!(f, "entry {expected} comes next, as its leader decided it"),
            Self::Committed { through } => write!(f, "entries up to {through} are committed"),
            Self::Unreleased => f.write_str("not everything in the log is released"),
            Self::SequenceTooHigh(seq) => write!(f, "sequence {seq} is too high"),
            Self::Read(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Why a stored message or table could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The message is not what was written.
    Damaged(String),
    /// The message is not in memory, and the caller asked not to wait for the device.
    WouldWait,
    /// A slice of a long search is done, and the caller asked not to wait: ask again after others
    /// had their turn.
    More,
    /// The operating system refused.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(what) => write!(f, "damaged: {what}"),
            Self::WouldWait => f.write_str("not in memory"),
            Self::More => f.write_str("not found yet"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

//! Whether a reader may wait for the disk.

/// Whether a read may wait for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// On a disk thread.
    Allowed,
    /// On a shard: [`ReadError::WouldWait`](super::ReadError::WouldWait) instead, and
    /// [`ReadError::More`](super::ReadError::More) where a long search would hold it up. Tables of
    /// segments are read nevertheless, except by a [`Cursor`](super::Cursor) that has a filter, or
    /// whose stream has to do first what was released.
    Forbidden,
}

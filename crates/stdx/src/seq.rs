//! Sequence numbers of streams, as those who store messages and those who speak of them count.

/// A stream's sequence number: 1 for the first message, unless the stream was told to begin
/// elsewhere; 0 is before it.
pub type Seq = u64;

/// Highest sequence to which a stream moves on at the request of a client: counting messages from
/// here on never overflows.
pub const MAX_SEQ: Seq = 1 << 62;

//! Numbers out of bytes, as nats-server writes them into its state files.

use myelin_stdx::varint;

/// Takes a number.
pub(super) fn unsigned(input: &mut &[u8]) -> Option<u64> {
    varint::take(input)
}

/// Takes a number that may be negative: the sign is at the low end.
pub(super) fn signed(input: &mut &[u8]) -> Option<i64> {
    varint::take(input).map(|value| (value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

/// Takes so many bytes.
pub(super) fn take<'a>(input: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(count)?;
    *input = rest;
    Some(taken)
}

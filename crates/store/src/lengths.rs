//! Lengths and counts, from one width to another with a check.
//!
//! No module but those that `lib.rs` excepts may cut a number with `as`: it would put another one
//! into a file, or take another place for the one that is meant.

/// A number of bytes of something that is in memory, such as a place in a buffer.
///
/// # Panics
/// If memory could not hold so many.
#[inline]
#[must_use]
pub(crate) fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).expect("what is in memory has a length that fits")
}

/// The number of a row or of a subject of one segment, as its tables have it.
///
/// # Panics
/// If it is above 32 bits: segments end long before.
#[inline]
#[must_use]
pub(crate) fn table_number(number: usize) -> u32 {
    u32::try_from(number).expect("segments have fewer than 2^32 messages")
}

//! Primitive fields as they are written.

/// Bytes of the longest variable byte integer.
pub(super) const LONGEST_VARINT: usize = 4;
/// The largest variable byte integer.
pub(super) const MAX_VARINT: u32 = 0x0fff_ffff;

/// Bytes of `value` as a variable byte integer.
pub(super) fn varint_len(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 4,
    }
}

/// Appends `value` as a variable byte integer; above [`MAX_VARINT`] it could not be read.
pub(super) fn varint(mut value: usize, out: &mut Vec<u8>) {
    debug_assert!(value <= MAX_VARINT as usize, "packets are shorter");
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends two bytes.
pub(super) fn short(value: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends binary data or a string, with its length in front.
///
/// # Panics
/// When it is longer than a length can say: the caller has checked that.
pub(super) fn bytes(value: &[u8], out: &mut Vec<u8>) {
    short(u16::try_from(value.len()).expect("a field of at most 65,535 bytes"), out);
    out.extend_from_slice(value);
}

/// Appends the head of a packet whose body has `remaining` bytes.
pub(super) fn head(first: u8, remaining: usize, out: &mut Vec<u8>) {
    out.push(first);
    varint(remaining, out);
}

/// Appends a packet whose body `body` appends.
pub(super) fn packet(first: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(first);
    let at = out.len();
    body(out);
    let mut length = Vec::with_capacity(LONGEST_VARINT);
    varint(out.len() - at, &mut length);
    out.splice(at..at, length);
}

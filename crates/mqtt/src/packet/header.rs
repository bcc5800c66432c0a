//! The fixed header: first byte and length of a packet.

use super::fault::PacketFault;
use super::write;

/// Head of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedHeader {
    /// Kind and flags.
    pub first: u8,
    /// Bytes of the header itself: 2 to 5.
    pub len: usize,
    /// Bytes behind the header.
    pub remaining: u32,
}

impl FixedHeader {
    /// Bytes of the whole packet.
    pub fn packet_len(&self) -> usize {
        self.len + self.remaining as usize
    }

    /// Whether the length has no more bytes than it needs, as MQTT 5 demands.
    pub(super) fn is_shortest(&self) -> bool {
        self.len == 1 + write::varint_len(self.remaining as usize)
    }
}

/// Reads the fixed header at the front of `buf`; `None` while it is not whole.
///
/// # Errors
/// [`PacketFault::LengthForm`] when four bytes of length want a fifth.
pub fn fixed_header(buf: &[u8]) -> Result<Option<FixedHeader>, PacketFault> {
    let Some((&first, rest)) = buf.split_first() else { return Ok(None) };
    let mut remaining = 0;
    for (index, byte) in rest.iter().take(write::LONGEST_VARINT).enumerate() {
        remaining |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some(FixedHeader { first, len: index + 2, remaining }));
        }
    }
    if rest.len() < write::LONGEST_VARINT { Ok(None) } else { Err(PacketFault::LengthForm) }
}

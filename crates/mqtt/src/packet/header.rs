//! The fixed header: kind, flags and length of a packet.

use super::{PacketFault, write};

/// Kind of a packet, by the number in its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum PacketKind {
    Connect = 1,
    ConnAck,
    Publish,
    PubAck,
    PubRec,
    PubRel,
    PubComp,
    Subscribe,
    SubAck,
    Unsubscribe,
    UnsubAck,
    PingReq,
    PingResp,
    Disconnect,
    Auth,
}

impl PacketKind {
    /// The kind that the first byte of a packet says; 0 is none.
    pub fn of(first: u8) -> Option<Self> {
        Some(match first >> 4 {
            1 => Self::Connect,
            2 => Self::ConnAck,
            3 => Self::Publish,
            4 => Self::PubAck,
            5 => Self::PubRec,
            6 => Self::PubRel,
            7 => Self::PubComp,
            8 => Self::Subscribe,
            9 => Self::SubAck,
            10 => Self::Unsubscribe,
            11 => Self::UnsubAck,
            12 => Self::PingReq,
            13 => Self::PingResp,
            14 => Self::Disconnect,
            15 => Self::Auth,
            _ => return None,
        })
    }

    /// Flags that the first byte has to have; `None` where they say something.
    pub fn fixed_flags(self) -> Option<u8> {
        match self {
            Self::Publish => None,
            Self::PubRel | Self::Subscribe | Self::Unsubscribe => Some(2),
            _ => Some(0),
        }
    }

    /// First byte of a packet of this kind, the flags of a PUBLISH aside.
    pub fn first_byte(self) -> u8 {
        (self as u8) << 4 | self.fixed_flags().unwrap_or(0)
    }
}

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

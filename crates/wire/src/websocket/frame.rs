//! Frames: how their headers look, and what a peer can get wrong with them.

use super::close;
use std::fmt;

/// Opcode of a frame, in its first byte.
pub(super) const CONTINUATION: u8 = 0;
pub(super) const TEXT: u8 = 1;
pub(super) const BINARY: u8 = 2;
pub(super) const CLOSE: u8 = 8;
pub(super) const PING: u8 = 9;
pub(super) const PONG: u8 = 10;
/// The last frame of its message.
pub(super) const FIN: u8 = 0x80;
/// The first frame of a compressed message.
pub(super) const COMPRESSED: u8 = 0x40;
/// Bits of the first byte that have no meaning.
pub(super) const RESERVED: u8 = 0x30;
pub(super) const OPCODE: u8 = 0x0f;
/// Of the second byte: there is a mask.
pub(super) const MASK: u8 = 0x80;

/// The longest payload of a close frame, a ping or a pong.
pub const MAX_CONTROL: usize = 125;

/// The longest header that a peer can send.
pub(super) const LONGEST_HEADER: usize = 14;

/// A header as it is written: by a server without a mask, by whoever has dialled with one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FrameHeader {
    bytes: [u8; LONGEST_HEADER],
    len: u8,
}

impl FrameHeader {
    pub(super) fn new(first: u8, payload: usize) -> Self {
        let mut header = Self::default();
        header.bytes[0] = first;
        if let (Ok(short), true) = (u8::try_from(payload), payload <= MAX_CONTROL) {
            header.bytes[1] = short;
            header.len = 2;
        } else if let Ok(payload) = u16::try_from(payload) {
            header.bytes[1] = 126;
            header.bytes[2..4].copy_from_slice(&payload.to_be_bytes());
            header.len = 4;
        } else {
            header.bytes[1] = 127;
            header.bytes[2..10].copy_from_slice(&(payload as u64).to_be_bytes());
            header.len = 10;
        }
        header
    }

    /// A header of a frame whose payload has this mask.
    pub(super) fn masked(first: u8, payload: usize, key: [u8; 4]) -> Self {
        let mut header = Self::new(first, payload);
        let len = usize::from(header.len);
        header.bytes[1] |= MASK;
        header.bytes[len..len + 4].copy_from_slice(&key);
        header.len += 4;
        header
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Fault in what a peer has sent. The texts are the reference's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFault {
    /// One of the bits that mean nothing is set.
    Reserved,
    /// A compressed message, although none were agreed on.
    NotCompressing,
    /// A frame without a mask.
    NoMask,
    /// A close frame, ping or pong with a long payload.
    LongControl,
    /// A close frame, ping or pong that does not end with itself.
    SplitControl,
    /// A compressed close frame, ping or pong.
    CompressedControl,
    /// A message within a message.
    Nested,
    /// The continuation of nothing, or one that says again that it is compressed.
    Continuation,
    /// A kind of frame that does not exist.
    Opcode(u8),
    /// More than 63 bits of length.
    Length,
    /// A close frame with half a status.
    ShortClose,
    /// A close frame with a status that is none.
    CloseStatus(u16),
    /// The content should be compressed and is not.
    Compression,
    /// The content that was compressed is too long.
    TooBig,
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserved => "RSV2 and RSV3 must be clear",
            Self::NotCompressing => "compressed frame received without negotiated permessage-deflate",
            Self::NoMask => "mask bit missing",
            Self::LongControl => "control frame length bigger than maximum allowed of 125 bytes",
            Self::SplitControl => "control frame does not have final bit set",
            Self::CompressedControl => "control frame must not be compressed",
            Self::Nested => "new message started before final frame for previous message was received",
            Self::Continuation => "invalid continuation frame",
            Self::Opcode(opcode) => return write!(f, "unknown opcode {opcode}"),
            Self::Length => "invalid 64-bit payload length",
            Self::ShortClose => "close frame payload cannot be 1 byte",
            Self::CloseStatus(status) => return write!(f, "invalid close status code {status}"),
            Self::Compression => "flate: corrupt input",
            Self::TooBig => "maximum payload exceeded",
        })
    }
}

impl FrameFault {
    /// The payload of the close frame that answers it.
    pub fn farewell(self) -> Vec<u8> {
        let status = match self {
            Self::Compression => close::INVALID_DATA,
            Self::TooBig => close::TOO_BIG,
            _ => close::PROTOCOL_ERROR,
        };
        close::payload(status, &self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_the_length_in_as_few_bytes_as_they_can() {
        for (len, expected) in [
            (0, &b"\x82\x00"[..]),
            (125, b"\x82\x7d"),
            (126, b"\x82\x7e\x00\x7e"),
            (65535, b"\x82\x7e\xff\xff"),
            (65536, b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"),
        ] {
            assert_eq!(FrameHeader::new(BINARY | FIN, len).bytes(), expected, "{len}");
        }
    }
}

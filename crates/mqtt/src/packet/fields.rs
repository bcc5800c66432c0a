//! Fields of a packet, one after another.

use super::exchange::PacketId;
use super::fault::{PacketFault, PacketField};
use super::kind::PacketKind;
use super::reason::ReasonCode;
use super::write;

/// Bytes of a packet that are not read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Says so when there are bytes that no field wants.
    pub(super) fn end(self) -> Result<(), PacketFault> {
        if self.rest.is_empty() { Ok(()) } else { Err(PacketFault::Trailing) }
    }

    /// Takes `len` bytes as they are.
    pub(super) fn take(&mut self, len: usize, field: PacketField) -> Result<&'a [u8], PacketFault> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(PacketFault::Cut(field))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self, field: PacketField) -> Result<u8, PacketFault> {
        let (byte, rest) = self.rest.split_first().ok_or(PacketFault::CutByte(field))?;
        self.rest = rest;
        Ok(*byte)
    }

    pub(super) fn short(&mut self, field: PacketField) -> Result<u16, PacketFault> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(PacketFault::Cut(field))?;
        self.rest = rest;
        Ok(u16::from_be_bytes(*bytes))
    }

    pub(super) fn long(&mut self, field: PacketField) -> Result<u32, PacketFault> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(PacketFault::Cut(field))?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    /// A variable byte integer, in as few bytes as it needs.
    pub(super) fn varint(&mut self, field: PacketField) -> Result<u32, PacketFault> {
        let mut value = 0;
        for index in 0..write::LONGEST_VARINT {
            let byte = self.byte(field)?;
            value |= u32::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                let is_shortest = byte != 0 || index == 0;
                return if is_shortest { Ok(value) } else { Err(PacketFault::LengthForm) };
            }
        }
        Err(PacketFault::LengthForm)
    }

    /// Binary data.
    pub(super) fn bytes(&mut self, field: PacketField) -> Result<&'a [u8], PacketFault> {
        let len = self.short(field)?;
        self.take(usize::from(len), field)
    }

    /// A string: UTF-8 without U+0000.
    pub(super) fn text(&mut self, field: PacketField) -> Result<&'a str, PacketFault> {
        text(self.bytes(field)?, field)
    }

    /// A reason that packets of `kind` may say.
    pub(super) fn reason(&mut self, kind: PacketKind) -> Result<ReasonCode, PacketFault> {
        let code = self.byte(PacketField::Reason)?;
        ReasonCode::new(code).filter(|reason| reason.is_for(kind)).ok_or(PacketFault::Reason(code))
    }

    pub(super) fn packet_id(&mut self) -> Result<PacketId, PacketFault> {
        PacketId::new(self.short(PacketField::PacketId)?).ok_or(PacketFault::PacketIdZero)
    }
}

/// Checks that `bytes` are UTF-8 without U+0000.
pub(super) fn text(bytes: &[u8], field: PacketField) -> Result<&str, PacketFault> {
    let text = std::str::from_utf8(bytes).map_err(|_| PacketFault::Utf8(field, bytes.into()))?;
    if text.contains('\0') { Err(PacketFault::Null(field, bytes.into())) } else { Ok(text) }
}

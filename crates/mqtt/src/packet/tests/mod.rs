//! Packets of both versions: bytes and back, in pieces, and malformed.

mod malformed;
mod pieces;
mod round_trip;
mod samples;

use super::property::PropertyPlace;
use super::*;
use std::num::NonZeroU16;

/// Limits that none of the packets in the tests meets.
pub(super) const LIMITS: PacketLimits =
    PacketLimits { max_connect: 1 << 20, max_packet: Some(1 << 20), accepts_5: true, accepts_qos2: true };

pub(super) fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

/// The bytes of a hexadecimal text; blanks do not matter.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

//! The state of a consumer, `o.dat`: what was delivered, what was acknowledged, and what is in between.

use super::bytes::{signed, unsigned};
use std::collections::BTreeMap;

const MAGIC: u8 = 22;
const SECOND: i64 = 1_000_000_000;

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The last delivery: its number, and the sequence in the stream.
    pub delivered: (u64, u64),
    /// What everything up to is done, in both ways.
    pub ack_floor: (u64, u64),
    /// Sequences that await an acknowledgement: number of the delivery, and when that was.
    pub pending: BTreeMap<u64, (u64, i64)>,
    /// How often others than the first time.
    pub redelivered: BTreeMap<u64, u64>,
}

impl State {
    /// Reads a state that is not encrypted. Nothing at all: a consumer that has done nothing.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut input = bytes;
        let (magic, version) = (*bytes.first()?, *bytes.get(1)?);
        if magic != MAGIC || !(1..=2).contains(&version) {
            return None;
        }
        input = &input[2..];
        let input = &mut input;
        let ack_floor = (unsigned(input)?, unsigned(input)?);
        let mut delivered = (unsigned(input)?, unsigned(input)?);
        if version == 1 {
            // What was to come next, counted from the floor.
            delivered.0 = delivered.0.checked_add(ack_floor.0.saturating_sub(1))?;
            delivered.1 = delivered.1.checked_add(ack_floor.1.saturating_sub(1))?;
        }
        let mut state = Self { delivered, ack_floor, ..Self::default() };
        let count = unsigned(input)?;
        if count > 0 {
            let base = signed(input)?;
            for _ in 0..count {
                let seq = unsigned(input)?.checked_add(ack_floor.1)?;
                let delivery = if version == 2 { unsigned(input)?.checked_add(ack_floor.0)? } else { 0 };
                let offset = signed(input)?;
                let seconds = if version == 2 { base.checked_sub(offset) } else { base.checked_add(offset) }?;
                state.pending.insert(seq, (delivery, seconds.saturating_mul(SECOND)));
            }
        }
        for _ in 0..unsigned(input)? {
            let (seq, count) = (unsigned(input)?, unsigned(input)?);
            if seq > 0 && count > 0 {
                state.redelivered.insert(seq.checked_add(ack_floor.1)?, count);
            }
        }
        Some(state)
    }
}

//! The state of a consumer, `o.dat`: what was delivered, what was acknowledged, and what is in
//! between.

use super::bytes::{signed, unsigned};
use std::collections::BTreeMap;

const MAGIC: u8 = 22;
const SECOND: i64 = 1_000_000_000;

/// State of a consumer as nats-server keeps it in `o.dat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsConsumerState {
    /// The last delivery: its number, and the sequence in the stream.
    pub delivered: (u64, u64),
    /// Delivery and sequence up to which everything is acknowledged.
    pub ack_floor: (u64, u64),
    /// Sequences that await an acknowledgement: number of the delivery, and when that was.
    pub pending: BTreeMap<u64, (u64, i64)>,
    /// How often others than the first time.
    pub redelivered: BTreeMap<u64, u64>,
}

impl NatsConsumerState {
    /// Reads a state that is not encrypted.
    ///
    /// Compat: it may end before its lists do; what was delivered again is then known in part.
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
        let count = unsigned(input).unwrap_or(0);
        if count > 0 {
            let base = signed(input)?;
            for _ in 0..count {
                let seq = unsigned(input)?.checked_add(ack_floor.1).filter(|seq| *seq > 0)?;
                let delivery = if version == 2 { unsigned(input)?.checked_add(ack_floor.0)? } else { 0 };
                let offset = signed(input)?;
                let seconds = if version == 2 { base.checked_sub(offset) } else { base.checked_add(offset) }?;
                state.pending.insert(seq, (delivery, seconds.saturating_mul(SECOND)));
            }
        }
        if version == 1 {
            // Their numbers were not written down: what is later was delivered later.
            for ((delivery, _), number) in state.pending.values_mut().zip(1..) {
                *delivery = ack_floor.0.saturating_add(number);
            }
        }
        for _ in 0..unsigned(input).unwrap_or(0) {
            let (Some(seq), Some(count)) = (unsigned(input), unsigned(input)) else { break };
            if seq > 0 && count > 0 {
                state.redelivered.insert(seq.checked_add(ack_floor.1)?, count);
            }
        }
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers below 64 are a byte each, as they are or, with a sign, doubled.
    fn signs(number: i8) -> u8 {
        (number as u8) << 1
    }

    #[test]
    fn both_versions_are_read() {
        // Floors 2 and 5, delivered 4 and 8; pending 7 and 8, delivered again 8.
        let two = [22, 2, 2, 5, 4, 8, 2, signs(60), 2, 1, signs(10), 3, 2, signs(9), 1, 3, 4];
        let state = NatsConsumerState {
            delivered: (4, 8),
            ack_floor: (2, 5),
            pending: BTreeMap::from([(7, (3, 50 * SECOND)), (8, (4, 51 * SECOND))]),
            redelivered: BTreeMap::from([(8, 4)]),
        };
        assert_eq!(NatsConsumerState::read(&two), Some(state.clone()));
        // The first: what is delivered is counted from the floor and is the next one, pending have
        // no numbers, in any order.
        let one = [22, 1, 2, 5, 3, 4, 2, signs(50), 3, signs(1), 2, signs(0), 1, 3, 4];
        assert_eq!(NatsConsumerState::read(&one), Some(state));
        let fresh = [22, 1, 0, 0, 1, 1, 0, 0];
        assert_eq!(
            NatsConsumerState::read(&fresh).map(|state| (state.delivered, state.ack_floor)),
            Some(((1, 1), (0, 0)))
        );
    }

    /// As the reference has it.
    #[test]
    fn what_ends_early_is_read_as_far_as_it_is_clear() {
        let all = [22, 2, 2, 5, 4, 8, 2, signs(60), 2, 1, signs(10), 3, 2, signs(9), 1, 3, 4];
        let read = |length: usize| NatsConsumerState::read(&all[..length]);
        assert_eq!(read(5), None);
        assert_eq!(read(6).map(|state| (state.delivered, state.pending.len())), Some(((4, 8), 0)));
        assert!((7..14).all(|length| read(length).is_none()));
        assert!((14..17).all(|length| read(length).is_some_and(|state| state.redelivered.is_empty())));
        assert_eq!(NatsConsumerState::read(&[22, 3, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(NatsConsumerState::read(&[21, 2, 0, 0, 0, 0, 0, 0]), None);
        // A message without a number.
        assert_eq!(NatsConsumerState::read(&[22, 2, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0]), None);
    }
}

//! Sizes of the messages of a sealed segment, and nothing else of its table.
//!
//! A stream that keeps the newest message of each of many subjects removes one somewhere in the log
//! with every message. For that it needs of each table one number per message, in as few bytes as
//! will do: tables with their subjects and offsets are twenty times as large, and would not stay in
//! memory.

use super::column::{self, Form};
use super::slots::unless_counting;

/// Size of each message of a sealed segment, in as few bytes as the largest needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Sequence less the segment's first; empty if that is the index.
    deltas: Vec<u32>,
    /// Smallest size: the others are counted from it.
    least: u32,
    above: Above,
    count: usize,
}

/// Numbers, in bytes enough for the largest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Above {
    Nothing,
    Bytes(Box<[u8]>),
    Halves(Box<[u16]>),
    Words(Box<[u32]>),
}

/// The number in fewer bits.
fn narrowed<T: TryFrom<u32>>(above: u32) -> T {
    T::try_from(above).ok().expect("the width follows from the largest")
}

impl Sizes {
    fn new(deltas: Vec<u32>, sizes: &[u32]) -> Self {
        let least = sizes.iter().copied().min().unwrap_or(0);
        let most = sizes.iter().copied().max().unwrap_or(0) - least;
        let above = match most {
            0 => Above::Nothing,
            1..=0xff => Above::Bytes(sizes.iter().map(|size| narrowed(size - least)).collect()),
            0x100..=0xffff => Above::Halves(sizes.iter().map(|size| narrowed(size - least)).collect()),
            _ => Above::Words(sizes.iter().map(|size| size - least).collect()),
        };
        Self { deltas: unless_counting(deltas), least, above, count: sizes.len() }
    }

    /// Out of the section `slots`, of which the rest is not looked at. `None` if it is none.
    pub(crate) fn decode(input: &[u8]) -> Option<Self> {
        let (count, mut input) = input.split_first_chunk()?;
        let count = u32::from_le_bytes(*count) as usize;
        column::decode_u32(count, Form::Plain, &mut input)?;
        let deltas = column::decode_u32(count, Form::Short, &mut input)?;
        let sizes = column::decode_u32(count, Form::Short, &mut input)?;
        deltas.windows(2).all(|pair| pair[0] < pair[1]).then(|| Self::new(deltas, &sizes))
    }

    /// Size of the message with this delta, if the segment has it.
    #[must_use]
    pub fn find(&self, delta: u32) -> Option<u32> {
        let index = if self.deltas.is_empty() {
            Some(delta as usize).filter(|index| *index < self.count)?
        } else {
            self.deltas.binary_search(&delta).ok()?
        };
        let above = match &self.above {
            Above::Nothing => 0,
            Above::Bytes(above) => u32::from(above[index]),
            Above::Halves(above) => u32::from(above[index]),
            Above::Words(above) => above[index],
        };
        Some(self.least + above)
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let width = match self.above {
            Above::Nothing => 0,
            Above::Bytes(_) => 1,
            Above::Halves(_) => 2,
            Above::Words(_) => 4,
        };
        size_of::<Self>() + 4 * self.deltas.len() + width * self.count
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Slots, Texts};
    use super::*;

    #[test]
    fn sizes_are_those_of_the_table() {
        for spread in [0, 200, 60_000, 3_000_000] {
            for step in [1, 3] {
                let sizes: Vec<u32> = (0..100).map(|n| 170 + n * spread / 99).collect();
                let deltas: Vec<u32> = (0..100).map(|n| n * step).collect();
                let mut texts = Texts::new();
                texts.push(b"a");
                let offsets = (0..100).map(|n| 128 + 200 * n).collect();
                let slots = Slots::assemble(7, deltas, offsets, sizes, vec![0; 100], &texts);
                let found = Sizes::decode(&slots.encode(&[0])).unwrap();
                for delta in 0..310 {
                    let expected = slots.find(delta).map(|index| slots.size(index));
                    assert_eq!(found.find(delta), expected, "{spread} {step} {delta}");
                }
                assert!(found.memory() < slots.memory());
            }
        }
    }

    #[test]
    fn what_is_no_table_has_no_sizes() {
        assert_eq!(Sizes::decode(&[]), None);
        assert_eq!(Sizes::decode(&[0xff; 60]), None);
    }
}

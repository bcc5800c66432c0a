//! `index.db`: what nats-server knew of a stream when it was stopped, or a while before.
//!
//! Blocks say which messages clients have deleted, but not which ones limits have taken: only this does. It is believed
//! if its last record is the last one of the blocks; otherwise it is old, and nobody needs it.

use super::bytes::{signed, take, unsigned};
use super::hash::Hasher;
use super::keys::Seed;
use crate::Seq;
use roaring::RoaringTreemap;

const MAGIC: u8 = 11;
const VERSIONS: std::ops::RangeInclusive<u8> = 1..=4;
const SET_MAGIC: u8 = 22;
/// Bytes of a node of a set: where it begins, a bit for each of 2,048 sequences, and its height.
const WORDS: usize = 32;
const NODE: usize = 8 + WORDS * 8 + 2;

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// Messages.
    pub messages: u64,
    /// The first one, or the next one to come.
    pub first_seq: Seq,
    /// The last sequence that was given out.
    pub last_seq: Seq,
    /// First and last sequence of each block, in order.
    pub blocks: Vec<(u32, Seq, Seq)>,
    /// Sequences in between that hold nothing.
    pub deleted: RoaringTreemap,
    /// The last block, and the checksum of its last record.
    pub last_block: u32,
    /// See above.
    pub checksum: [u8; 8],
}

impl Index {
    /// Reads it. `None`: it is damaged, or of an unknown version, or cannot be decrypted.
    #[must_use]
    pub fn read(bytes: &[u8], stream: &str, seed: Option<&Seed>) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        if Hasher::new(stream).sum(&[body]) != *sum {
            return None;
        }
        match seed {
            Some(seed) => Self::parse(&seed.open(body)?),
            None => Self::parse(body),
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, mut input) = bytes.split_first_chunk::<2>()?;
        let [magic, version] = *head;
        if magic != MAGIC || !VERSIONS.contains(&version) {
            return None;
        }
        let input = &mut input;
        let messages = unsigned(input)?;
        unsigned(input)?;
        let first_seq = unsigned(input)?;
        signed(input)?;
        let last_seq = unsigned(input)?;
        signed(input)?;
        for _ in 0..unsigned(input)? {
            let length = usize::try_from(unsigned(input)?).ok()?;
            if length == 0 {
                continue;
            }
            take(input, length)?;
            let total = unsigned(input)?;
            unsigned(input)?;
            if total > 1 || version >= 4 {
                unsigned(input)?;
            }
        }
        let mut index = Self { messages, first_seq, last_seq, ..Self::default() };
        for _ in 0..unsigned(input)? {
            index.block(input, version)?;
        }
        index.last_block = u32::try_from(unsigned(input)?).ok()?;
        index.checksum = take(input, 8)?.try_into().ok()?;
        Some(index)
    }

    fn block(&mut self, input: &mut &[u8], version: u8) -> Option<()> {
        let number = u32::try_from(unsigned(input)?).ok()?;
        unsigned(input)?;
        let first = unsigned(input)?;
        signed(input)?;
        let last = unsigned(input)?;
        signed(input)?;
        let deleted = unsigned(input)?;
        // Messages with a lifetime, and with a schedule.
        for _ in 2..=version.min(3) {
            unsigned(input)?;
        }
        self.blocks.push((number, first, last));
        if deleted > 0 {
            read_set(input, &mut self.deleted)?;
        }
        Some(())
    }
}

/// Takes a set of sequences.
fn read_set(input: &mut &[u8], out: &mut RoaringTreemap) -> Option<()> {
    let [magic, version] = *take(input, 2)?.first_chunk::<2>()?;
    let words = match (magic, version) {
        (SET_MAGIC, 2) => WORDS,
        // Twice as many.
        (SET_MAGIC, 1) => 2 * WORDS,
        _ => return None,
    };
    let number = |bytes: &[u8]| bytes.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
    let nodes = u32::from_le_bytes(take(input, 4)?.try_into().ok()?) as usize;
    take(input, 4)?;
    let bytes = take(input, nodes.checked_mul(NODE + (words - WORDS) * 8)?)?;
    for node in bytes.chunks_exact(NODE + (words - WORDS) * 8) {
        let base = number(node)?;
        for (at, word) in node[8..8 + words * 8].chunks_exact(8).enumerate() {
            let mut bits = number(word)?;
            while bits != 0 {
                let bit = u64::from(bits.trailing_zeros());
                out.insert(base.checked_add(at as u64 * 64 + bit)?);
                bits &= bits - 1;
            }
        }
    }
    Some(())
}

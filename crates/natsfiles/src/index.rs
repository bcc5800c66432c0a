//! `index.db`: what nats-server knew of a stream when it was stopped, or a while before.
//!
//! Blocks say which messages clients have deleted, but not which ones limits have taken: only this
//! does. It is believed if its last record is the last one of the blocks; otherwise it is old, and
//! nobody needs it.

use super::bytes::{signed, take, unsigned};
use super::hash::Hasher;
use super::keys::Seed;
use super::sequences::Sequences;

const MAGIC: u8 = 11;
const VERSIONS: std::ops::RangeInclusive<u8> = 1..=4;
const SET_MAGIC: u8 = 22;
/// Words of a node of a set: a bit for each of 2,048 sequences.
const WORDS: usize = 32;

/// Contents of an `index.db`: totals of a stream, and which of its messages are removed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NatsIndex {
    /// Messages.
    pub messages: u64,
    /// The first one, or the next one to come.
    pub first_seq: u64,
    /// The last sequence that was given out.
    pub last_seq: u64,
    /// Sequences in between that hold nothing.
    pub deleted: Sequences,
    /// The last block, and the checksum of its last record.
    pub last_block: u32,
    /// See above.
    pub checksum: [u8; 8],
}

impl NatsIndex {
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
        index.deleted.sort();
        index.last_block = u32::try_from(unsigned(input)?).ok()?;
        index.checksum = take(input, 8)?.try_into().ok()?;
        Some(index)
    }

    fn block(&mut self, input: &mut &[u8], version: u8) -> Option<()> {
        // Number, bytes, and for the first and the last message its sequence and time.
        for _ in 0..3 {
            unsigned(input)?;
        }
        signed(input)?;
        unsigned(input)?;
        signed(input)?;
        let deleted = unsigned(input)?;
        // Messages with a lifetime, and with a schedule.
        for _ in 2..=version.min(3) {
            unsigned(input)?;
        }
        if deleted > 0 {
            read_set(input, &mut self.deleted)?;
        }
        Some(())
    }
}

/// Takes a set of sequences: nodes of where one begins, its words and its height.
fn read_set(input: &mut &[u8], out: &mut Sequences) -> Option<()> {
    let [magic, version] = *take(input, 2)?.first_chunk::<2>()?;
    let words = match (magic, version) {
        (SET_MAGIC, 2) => WORDS,
        (SET_MAGIC, 1) => 2 * WORDS,
        _ => return None,
    };
    let nodes = u32::from_le_bytes(take(input, 4)?.try_into().ok()?) as usize;
    take(input, 4)?;
    let node = 8 + words * 8 + 2;
    for node in take(input, nodes.checked_mul(node)?)?.chunks_exact(node) {
        let base = u64::from_le_bytes(*node.first_chunk::<8>()?);
        for (at, word) in node[8..8 + words * 8].chunks_exact(8).enumerate() {
            let bits = u64::from_le_bytes(*word.first_chunk::<8>()?);
            out.push(base.checked_add(at as u64 * 64)?, bits)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of an index of one block with a set of these nodes.
    fn written(nodes: &[(u64, [u64; WORDS])]) -> Vec<u8> {
        // One message, from 1 to 2; no subjects; one block with deletions.
        let mut bytes = vec![MAGIC, 4, 1, 9, 1, 0, 2, 0, 0, 1, 1, 9, 1, 0, 2, 0, 1, 0, 0, SET_MAGIC, 2];
        bytes.extend_from_slice(&(nodes.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for (base, words) in nodes {
            bytes.extend_from_slice(&base.to_le_bytes());
            words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
            bytes.extend_from_slice(&[1, 0]);
        }
        bytes.push(1);
        bytes.extend_from_slice(&[7; 8]);
        let sum = Hasher::new("S").sum(&[&bytes]);
        bytes.extend_from_slice(&sum);
        bytes
    }

    #[test]
    fn deletions_are_read_in_any_order_of_nodes() {
        let mut words = [0; WORDS];
        words[1] = 0b101;
        let index = NatsIndex::read(&written(&[(2048, words), (0, words)]), "S", None).expect("it is one");
        let found: Vec<u64> = (0..5000).filter(|seq| index.deleted.contains(*seq)).collect();
        assert_eq!(found, [64, 66, 2112, 2114]);
        assert_eq!((index.last_block, index.checksum), (1, [7; 8]));
    }

    /// A few bytes of a compressed backup may be a million nodes, far apart and full.
    #[test]
    fn a_set_takes_memory_for_its_bytes_alone() {
        let nodes: Vec<_> = (0..4000).map(|n| (n << 40, [u64::MAX; WORDS])).collect();
        let bytes = written(&nodes);
        let index = NatsIndex::read(&bytes, "S", None).expect("it is one");
        assert!(index.deleted.memory_bytes() <= 5 * bytes.len() / 2, "{}", index.deleted.memory_bytes());
        assert!(index.deleted.contains((3999 << 40) + 2047));
        assert!(!index.deleted.contains((3999 << 40) + 2048));
    }

    /// An index as each version writes it: three messages of two subjects, of which the second has
    /// its last block named in all of them, and a set of one word.
    fn of_version(version: u8, set: u8) -> Vec<u8> {
        let mut bytes = vec![MAGIC, version, 3, 9, 1, 0, 5, 0, 2, 1, b'a', 1, 1];
        bytes.extend((version == 4).then_some(1));
        bytes.extend([1, b'b', 2, 1, 1, 1, 1, 9, 1, 0, 5, 0, 2]);
        // Lifetimes came with the second, schedules with the third.
        bytes.extend([7, 7].iter().take(usize::from(version.min(3) - 1)));
        bytes.extend([SET_MAGIC, set, 1, 0, 0, 0, 2, 0, 0, 0]);
        bytes.extend([0; 8]);
        bytes.extend(0b10100_u64.to_le_bytes());
        bytes.resize(bytes.len() + (if set == 1 { 63 } else { 31 }) * 8, 0);
        bytes.extend([1, 0, 1]);
        bytes.extend([7; 8]);
        let sum = Hasher::new("S").sum(&[&bytes]);
        bytes.extend(sum);
        bytes
    }

    #[test]
    fn all_versions_are_read() {
        for (version, set) in [(1, 1), (1, 2), (2, 2), (3, 2), (4, 2)] {
            let index = NatsIndex::read(&of_version(version, set), "S", None).expect("it is one");
            let deleted: Vec<u64> = (0..9).filter(|seq| index.deleted.contains(*seq)).collect();
            assert_eq!((index.messages, index.first_seq, index.last_seq, deleted), (3, 1, 5, vec![2, 4]));
            assert_eq!((index.last_block, index.checksum), (1, [7; 8]), "{version}");
        }
        let unknown = of_version(4, 3);
        assert_eq!(NatsIndex::read(&unknown, "S", None), None);
        assert_eq!(NatsIndex::read(&of_version(4, 2), "T", None), None);
    }

    #[test]
    fn a_set_that_cannot_be_is_none() {
        assert_eq!(NatsIndex::read(&written(&[(1, [1; WORDS])]), "S", None), None);
        assert_eq!(NatsIndex::read(&written(&[(u64::MAX - 63, [1; WORDS])]), "S", None), None);
    }
}

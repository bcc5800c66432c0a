//! A block of the journal: bytes of append-only files, and where they belong.
//!
//! Owns the layout, which `docs/formats/journal.md` draws. It must never believe a length before a
//! checksum, and never allocate because of one.

use crate::flipped;
use crate::{FileId, FileKind, SegmentNo, StreamId};

/// Blocks begin and end on pages.
pub(super) const PAGE: usize = 4096;
/// A part of a round is written when its block has become this long.
pub(super) const BLOCK_BYTES: usize = 4 * 1024 * 1024;
/// No block is longer. A chunk never makes a block longer than `BLOCK_BYTES` by more than its own
/// header and padding.
pub(super) const LONGEST_BLOCK: usize = 2 * BLOCK_BYTES;
pub(super) const HEADER: usize = 80;
pub(super) const CHUNK_HEADER: usize = 40;

const MAGIC: &[u8; 8] = b"MYELJNL1";
const VERSION: u32 = 1;
/// Numbers of files and rounds are smaller: nobody writes so many, and the next one can always be
/// counted.
const NUMBERS_END: u64 = 1 << 62;
const SEGMENT: u32 = 1;
const CONSUMERS: u32 = 2;
const DROPPED: u32 = 3;

/// Where a block is: part of its checksums, so that a block elsewhere or of another journal is no
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockAddress {
    pub(super) store: u64,
    pub(super) number: u64,
    pub(super) offset: u64,
}

impl BlockAddress {
    fn seed(self) -> u32 {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.store.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..].copy_from_slice(&self.offset.to_le_bytes());
        crc32c::crc32c(&bytes)
    }
}

/// Facts that a block says about its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoundInfo {
    /// The journal file it was written to.
    pub(super) number: u64,
    /// Counts rounds, also abandoned ones.
    pub(super) round: u64,
    /// The last round that was completed before.
    pub(super) previous: u64,
    /// The first journal file that is still needed.
    pub(super) needed: u64,
    /// Which part of the round, from 0, and whether it is the last.
    pub(super) part: u32,
    pub(super) is_last: bool,
}

impl RoundInfo {
    fn is_plausible(&self) -> bool {
        self.number < NUMBERS_END
            && self.round < NUMBERS_END
            && self.previous < self.round
            && self.needed <= self.number
    }
}

/// The number of the store that a header with this checksum at this place belongs to, if it is a
/// header. Numbers that have the same effect on checksums are as good as each other.
pub(super) fn implied_store(page: &[u8], offset: u64) -> u64 {
    let seed = flipped::unappend(get_u32(page, HEADER - 4), &page[..HEADER - 4]);
    let seed = flipped::unappend(seed, &offset.to_le_bytes());
    let wanted = flipped::unappend(seed, &page[16..24]);
    // Of the eight bytes the first four are 0, and the others what makes up for it.
    let begun = crc32c::crc32c(&[0; 4]);
    u64::from(begun ^ flipped::unappend(wanted, &[0; 4])) << 32
}

/// A block being filled.
#[derive(Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    chunks: u32,
}

impl Builder {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(HEADER, 0);
        self.chunks = 0;
    }

    /// Bytes that can be added before the block should be written.
    pub(super) fn room(&self, limit: usize) -> usize {
        limit.saturating_sub(self.bytes.len() + CHUNK_HEADER)
    }

    /// Bytes that the sealed block has.
    pub(super) fn sealed_length(&self) -> usize {
        self.bytes.len().next_multiple_of(PAGE)
    }

    /// Begins a chunk; the caller adds exactly `length` bytes to what this returns.
    pub(super) fn begin_bytes(
        &mut self,
        id: FileId,
        generation: u64,
        offset: u64,
        length: u32,
    ) -> &mut Vec<u8> {
        let (kind, number) = match id.kind {
            FileKind::Segment(number) => (SEGMENT, number.0),
            FileKind::Consumers(number) => (CONSUMERS, number),
        };
        self.push(kind, length, [id.stream.0, number, generation, offset]);
        &mut self.bytes
    }

    pub(super) fn push_dropped(&mut self, stream: StreamId) {
        self.push(DROPPED, 0, [stream.0, 0, 0, 0]);
    }

    fn push(&mut self, kind: u32, length: u32, fields: [u64; 4]) {
        debug_assert!(self.bytes.len() >= HEADER, "a block was begun");
        debug_assert!(kind != DROPPED || length == 0, "a stream that is dropped has no bytes");
        self.chunks += 1;
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.bytes.extend_from_slice(&length.to_le_bytes());
        for field in fields {
            self.bytes.extend_from_slice(&field.to_le_bytes());
        }
    }

    /// Pads the block, puts the header in front and gives its bytes. After `clear` it can be filled
    /// again.
    pub(super) fn seal(&mut self, place: BlockAddress, head: RoundInfo) -> &[u8] {
        let used = self.bytes.len();
        let length = self.sealed_length();
        debug_assert!(used >= HEADER, "a block was begun");
        debug_assert!(length <= LONGEST_BLOCK, "a replay reads the longest block");
        debug_assert!(head.is_plausible(), "a replay believes what a block says of its round");
        debug_assert!(head.number == place.number, "a block says where it is");
        debug_assert!(place.offset.is_multiple_of(PAGE as u64), "blocks begin on pages");
        self.bytes.resize(length, 0);
        let seed = place.seed();
        let body = crc32c::crc32c_append(seed, &self.bytes[HEADER..used]);
        let header = &mut self.bytes[..HEADER];
        header.fill(0);
        header[..8].copy_from_slice(MAGIC);
        put_u32(header, 8, VERSION);
        put_u32(header, 12, self.chunks);
        put_u64(header, 16, head.number);
        put_u64(header, 24, head.round);
        put_u64(header, 32, head.previous);
        put_u64(header, 40, head.needed);
        put_u32(header, 48, head.part);
        put_u32(header, 52, u32::from(head.is_last));
        put_u32(header, 56, u32::try_from(length).expect("a block has a few megabytes"));
        put_u32(header, 60, u32::try_from(used).expect("a block has a few megabytes"));
        put_u32(header, 64, body);
        let crc = crc32c::crc32c_append(seed, &header[..HEADER - 4]);
        put_u32(header, HEADER - 4, crc);
        debug_assert!(
            matches!(Self::header_of(&self.bytes, place), BlockStart::BlockHeader(found) if found.head == head),
            "what is written is read"
        );
        &self.bytes
    }
}

impl Builder {
    fn header_of(bytes: &[u8], place: BlockAddress) -> BlockStart {
        BlockHeader::parse(bytes, place.store, place.offset)
    }
}

/// A header whose checksum was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) head: RoundInfo,
    pub(super) chunks: u32,
    /// Bytes of the block, and those before its padding.
    pub(super) length: usize,
    pub(super) used: usize,
    body: u32,
    seed: u32,
}

/// Bytes where a block may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockStart {
    BlockHeader(BlockHeader),
    /// A header of ours in a version that this program does not know.
    Newer(u32),
    /// Not a header of this journal at this place.
    Nothing,
}

/// Whether `bytes` begin like a block of any journal.
pub(super) fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

impl BlockHeader {
    /// Reads the header at `offset` of a file of the store `store`. One bit that is wrong in it is
    /// no damage.
    pub(super) fn parse(bytes: &[u8], store: u64, offset: u64) -> BlockStart {
        Self::parse_corrected(bytes, store, offset).0
    }

    /// Reads the header at `offset`, as [`parse`](Self::parse) does, and returns which bit of it is
    /// wrong, if one is.
    pub(super) fn parse_corrected(bytes: &[u8], store: u64, offset: u64) -> (BlockStart, Option<usize>) {
        let found = Self::parse_exactly(bytes, store, offset);
        let Some(header) = bytes.first_chunk::<HEADER>().filter(|_| found == BlockStart::Nothing) else {
            return (found, None);
        };
        // Not of what is no header at all.
        let wrong = |(byte, magic): (&u8, &u8)| (byte ^ magic).count_ones();
        if header.iter().zip(MAGIC).map(wrong).sum::<u32>() > 1 {
            return (found, None);
        }
        let number = get_u64(header, 16);
        // A wrong bit in the number is one in the seed, too.
        let numbers = std::iter::once(number).chain((0..u64::BITS).map(|bit| number ^ 1 << bit));
        for candidate in numbers {
            let mut corrected = *header;
            put_u64(&mut corrected, 16, candidate);
            let seed = BlockAddress { store, number: candidate, offset }.seed();
            let bit = if candidate == number {
                flipped::correct(&mut corrected, seed)
            } else {
                Some(16 * 8 + (candidate ^ number).trailing_zeros() as usize)
            };
            let again = bit.map_or(BlockStart::Nothing, |_| Self::parse_exactly(&corrected, store, offset));
            if let BlockStart::BlockHeader(_) = again {
                return (again, bit);
            }
        }
        (found, None)
    }

    fn parse_exactly(bytes: &[u8], store: u64, offset: u64) -> BlockStart {
        if bytes.len() < HEADER || !has_magic(bytes) {
            return BlockStart::Nothing;
        }
        let number = get_u64(bytes, 16);
        let seed = BlockAddress { store, number, offset }.seed();
        if crc32c::crc32c_append(seed, &bytes[..HEADER - 4]) != get_u32(bytes, HEADER - 4) {
            return BlockStart::Nothing;
        }
        let version = get_u32(bytes, 8);
        if version != VERSION {
            return BlockStart::Newer(version);
        }
        let (length, used) = (get_u32(bytes, 56) as usize, get_u32(bytes, 60) as usize);
        if used < HEADER || length != used.next_multiple_of(PAGE) || length > LONGEST_BLOCK {
            return BlockStart::Nothing;
        }
        let head = RoundInfo {
            number,
            round: get_u64(bytes, 24),
            previous: get_u64(bytes, 32),
            needed: get_u64(bytes, 40),
            part: get_u32(bytes, 48),
            is_last: get_u32(bytes, 52) != 0,
        };
        if !head.is_plausible() {
            return BlockStart::Nothing;
        }
        BlockStart::BlockHeader(Self {
            head,
            chunks: get_u32(bytes, 12),
            length,
            used,
            body: get_u32(bytes, 64),
            seed,
        })
    }

    /// Whether `block`, all bytes of the block, are those that were written.
    pub(super) fn is_whole(&self, block: &[u8]) -> bool {
        block.len() >= self.used && crc32c::crc32c_append(self.seed, &block[HEADER..self.used]) == self.body
    }
}

/// One thing that a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockChunk<'a> {
    Bytes { id: FileId, generation: u64, offset: u64, bytes: &'a [u8] },
    Dropped(StreamId),
}

/// A chunk that is longer than its block, or of a kind that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadChunk;

/// The chunks of a block whose checksum was right.
pub(super) struct Chunks<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Chunks<'a> {
    pub(super) fn new(header: &BlockHeader, block: &'a [u8]) -> Self {
        Self { rest: &block[HEADER..header.used], left: header.chunks }
    }

    fn parse(&mut self) -> Result<BlockChunk<'a>, BadChunk> {
        let (header, rest) = self.rest.split_at_checked(CHUNK_HEADER).ok_or(BadChunk)?;
        let (bytes, rest) = rest.split_at_checked(get_u32(header, 4) as usize).ok_or(BadChunk)?;
        self.rest = rest;
        let stream = StreamId(get_u64(header, 8));
        let (number, generation, offset) = (get_u64(header, 16), get_u64(header, 24), get_u64(header, 32));
        let kind = match get_u32(header, 0) {
            SEGMENT => FileKind::Segment(SegmentNo(number)),
            CONSUMERS => FileKind::Consumers(number),
            DROPPED => return Ok(BlockChunk::Dropped(stream)),
            _ => return Err(BadChunk),
        };
        offset.checked_add(bytes.len() as u64).ok_or(BadChunk)?;
        Ok(BlockChunk::Bytes { id: FileId { stream, kind }, generation, offset, bytes })
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<BlockChunk<'a>, BadChunk>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return (!std::mem::take(&mut self.rest).is_empty()).then_some(Err(BadChunk));
        }
        self.left -= 1;
        let chunk = self.parse();
        if chunk.is_err() {
            (self.left, self.rest) = (0, &[]);
        }
        Some(chunk)
    }
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

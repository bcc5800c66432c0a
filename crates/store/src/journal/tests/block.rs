//! Blocks: what was sealed is read again, and nothing else is.

use proptest::prelude::*;

use super::super::block::{
    BadChunk, BlockAddress, BlockChunk, BlockHeader, BlockStart, Builder, Chunks, HEADER, PAGE, RoundInfo,
    implied_store,
};
use crate::{FileId, FileKind, SegmentNo, StreamId};

const PLACE: BlockAddress = BlockAddress { store: 5, number: 3, offset: 8192 };

fn head() -> RoundInfo {
    RoundInfo { number: 3, round: 9, previous: 8, needed: 2, part: 1, is_last: true }
}

fn id(stream: u64) -> FileId {
    FileId { stream: StreamId(stream), kind: FileKind::Segment(SegmentNo(7)) }
}

fn block(chunks: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut builder = Builder::default();
    builder.clear();
    for (stream, bytes) in chunks {
        builder.begin_bytes(id(*stream), 1, 100, bytes.len() as u32).extend_from_slice(bytes);
    }
    builder.push_dropped(StreamId(4));
    builder.seal(PLACE, head()).to_vec()
}

fn parse(bytes: &[u8]) -> Option<BlockHeader> {
    match BlockHeader::parse(bytes, PLACE.store, PLACE.offset) {
        BlockStart::BlockHeader(header) => Some(header).filter(|header| header.is_whole(bytes)),
        _ => None,
    }
}

#[test]
fn numbers_stand_where_the_format_says() {
    let bytes = block(&[(1, vec![7; 10])]);
    assert_eq!(bytes.len(), PAGE);
    assert_eq!(&bytes[..8], b"MYELJNL1");
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!((u32_at(8), u32_at(12)), (1, 2));
    assert_eq!((u64_at(16), u64_at(24), u64_at(32), u64_at(40)), (3, 9, 8, 2));
    assert_eq!((u32_at(48), u32_at(52), u32_at(56), u32_at(60)), (1, 1, 4096, 80 + 40 + 10 + 40));
    assert_eq!((u32_at(80), u32_at(84)), (1, 10));
    assert_eq!((u64_at(88), u64_at(96), u64_at(104), u64_at(112)), (1, 7, 1, 100));
    assert_eq!((u32_at(130), u32_at(134), u64_at(138)), (3, 0, 4));
}

#[test]
fn a_block_elsewhere_is_none() {
    let bytes = block(&[(1, vec![7; 10])]);
    assert!(parse(&bytes).is_some());
    assert_eq!(BlockHeader::parse(&bytes, PLACE.store + 1, PLACE.offset), BlockStart::Nothing);
    assert_eq!(BlockHeader::parse(&bytes, PLACE.store, PLACE.offset + 4096), BlockStart::Nothing);
    assert_eq!(BlockHeader::parse(&bytes[..HEADER - 1], PLACE.store, PLACE.offset), BlockStart::Nothing);
}

#[test]
fn chunks_that_overrun_are_malformed() {
    let mut builder = Builder::default();
    builder.clear();
    builder.begin_bytes(id(1), 1, 0, 50).extend_from_slice(&[0; 10]);
    let bytes = builder.seal(PLACE, head()).to_vec();
    let header = parse(&bytes).unwrap();
    assert_eq!(Chunks::new(&header, &bytes).collect::<Vec<_>>(), [Err(BadChunk)]);
}

proptest! {
    #[test]
    fn what_was_sealed_is_read(chunks in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..3000)), 0..9)) {
        let bytes = block(&chunks);
        let header = parse(&bytes).unwrap();
        prop_assert_eq!(header.head, head());
        let read: Vec<_> = Chunks::new(&header, &bytes).map(Result::unwrap).collect();
        let mut expected: Vec<_> = chunks
            .iter()
            .map(|(stream, bytes)| BlockChunk::Bytes { id: id(*stream), generation: 1, offset: 100, bytes })
            .collect();
        expected.push(BlockChunk::Dropped(StreamId(4)));
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn a_changed_byte_is_noticed(length in 0_usize..6000, place in any::<prop::sample::Index>(), bit in 0_u32..8) {
        let mut bytes = block(&[(1, vec![7; length])]);
        let header = parse(&bytes).unwrap();
        let place = place.index(header.used);
        bytes[place] ^= 1_u8 << bit;
        // One bit of a header is told from what was written.
        prop_assert_eq!(parse(&bytes), Some(header).filter(|_| place < HEADER));
        bytes[place] ^= 1_u8 << ((bit + 3) % 8);
        prop_assert_eq!(parse(&bytes), None);
    }

    #[test]
    fn a_header_tells_its_store(store in any::<u64>(), number in 0..1_u64 << 40, page in 0..1_u64 << 20) {
        let place = BlockAddress { store, number, offset: page * PAGE as u64 };
        let mut builder = Builder::default();
        builder.clear();
        builder.push_dropped(StreamId(4));
        let bytes = builder.seal(place, RoundInfo { number, needed: 0, ..head() }).to_vec();
        let found = implied_store(&bytes, place.offset);
        let BlockStart::BlockHeader(header) = BlockHeader::parse(&bytes, found, place.offset) else { panic!("no header") };
        prop_assert!(header.is_whole(&bytes));
    }
}

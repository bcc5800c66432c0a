use std::path::Path;
use std::sync::{Arc, OnceLock};

use myelin_disk::handles::Handles;
use myelin_disk::memory::MemoryDisk;
use proptest::prelude::*;

use super::*;
use crate::SegmentNo;
use crate::record::FileContext;
use crate::stream::{SealedFile, SegmentFile};

const LENGTH: u64 = 10 * BLOCK_BYTES + 700;

fn segment(no: u64, generation: u64) -> Segment {
    let handles = Arc::new(Handles::new(Arc::new(MemoryDisk::new()), 1));
    Segment {
        stream: StreamId(1),
        no: SegmentNo(no),
        generation,
        first_seq: 1,
        context: FileContext { seed: (100 * no + generation) as u32, cipher: None },
        source: SegmentFile::Plain(SealedFile::new(Path::new("/x"), &handles, LENGTH, LENGTH)),
        header: OnceLock::new(),
    }
}

/// Bytes of the file at these offsets.
fn content(segment: &Segment, range: Range<u64>) -> Vec<u8> {
    range.map(|at| (at / 64 + at * 7 + u64::from(segment.context.seed)) as u8).collect()
}

fn keep(blocks: &Blocks, segment: &Segment, block: u64) {
    let range = block * BLOCK_BYTES..((block + 1) * BLOCK_BYTES).min(LENGTH);
    blocks.keep(segment, block, &content(segment, range));
}

/// Looks for bytes, which are right if they are there.
fn look(blocks: &Blocks, segment: &Segment, range: Range<u64>) -> CacheLookup {
    let mut buffer = vec![0; (range.end - range.start) as usize];
    let look = blocks.read(segment, &mut buffer, range.start);
    if look == CacheLookup::Whole {
        assert_eq!(buffer, content(segment, range));
    }
    look
}

fn has(blocks: &Blocks, segment: &Segment, block: u64) -> bool {
    look(blocks, segment, block * BLOCK_BYTES..block * BLOCK_BYTES + 9) == CacheLookup::Whole
}

#[test]
fn the_second_read_is_worth_keeping() {
    let (blocks, one) = (Blocks::new(4 * 4096), segment(1, 0));
    assert_eq!(look(&blocks, &one, 100..200), CacheLookup::Missing);
    blocks.note(&one, 100..200);
    assert_eq!(look(&blocks, &one, 300..400), CacheLookup::Wanted);
    assert_eq!(look(&blocks, &one, 5000..5100), CacheLookup::Missing, "that is another block");
    keep(&blocks, &one, 0);
    assert_eq!(look(&blocks, &one, 100..200), CacheLookup::Whole);
    blocks.forget(&one);
    assert_eq!(look(&blocks, &one, 100..200), CacheLookup::Missing, "it was kept once, and begins anew");
}

#[test]
fn a_read_long_ago_does_not_count() {
    let (blocks, one) = (Blocks::new(4 * 4096), segment(1, 0));
    blocks.note(&one, 0..100);
    assert_eq!(look(&blocks, &one, 0..100), CacheLookup::Wanted);
    for other in 2..200 {
        blocks.note(&segment(other, 0), 0..100);
    }
    assert_eq!(look(&blocks, &one, 0..100), CacheLookup::Missing);
}

#[test]
fn what_was_not_asked_for_makes_room() {
    let (blocks, one) = (Blocks::new(4 * 4096), segment(1, 0));
    (0..4).for_each(|block| keep(&blocks, &one, block));
    assert!(has(&blocks, &one, 0) && has(&blocks, &one, 2));
    keep(&blocks, &one, 4);
    keep(&blocks, &one, 5);
    let there: Vec<u64> = (0..6).filter(|&block| has(&blocks, &one, block)).collect();
    assert_eq!(there, [0, 2, 4, 5]);
    assert_eq!(blocks.bytes(), 4 * 4096);
}

#[test]
fn a_message_that_spans_blocks_needs_all_of_them() {
    let (blocks, one) = (Blocks::new(16 * 4096), segment(1, 0));
    keep(&blocks, &one, 0);
    keep(&blocks, &one, 2);
    assert_eq!(look(&blocks, &one, 4000..9000), CacheLookup::Missing);
    blocks.note(&one, 4096..8192);
    assert_eq!(look(&blocks, &one, 4000..9000), CacheLookup::Wanted);
    assert_eq!(look(&blocks, &one, 4000..13_000), CacheLookup::Missing, "block 3 was never read");
    keep(&blocks, &one, 1);
    assert_eq!(look(&blocks, &one, 4000..9000), CacheLookup::Whole);
    assert_eq!(look(&blocks, &one, 4096..8192), CacheLookup::Whole);
}

#[test]
fn the_last_block_of_a_file_is_short() {
    let (blocks, one) = (Blocks::new(16 * 4096), segment(1, 0));
    keep(&blocks, &one, 10);
    assert_eq!(look(&blocks, &one, LENGTH - 50..LENGTH), CacheLookup::Whole);
    assert_eq!(look(&blocks, &one, LENGTH - 50..LENGTH + 1), CacheLookup::Missing);
    assert_eq!(blocks.bytes(), 700);
    keep(&blocks, &one, 10);
    assert_eq!(blocks.bytes(), 700, "it is there once");
}

#[test]
fn files_are_told_apart() {
    let (blocks, old, new) = (Blocks::new(16 * 4096), segment(1, 0), segment(1, 1));
    keep(&blocks, &old, 3);
    assert!(!has(&blocks, &new, 3));
    keep(&blocks, &new, 3);
    assert!(has(&blocks, &new, 3) && has(&blocks, &old, 3));
    blocks.forget(&old);
    assert!(has(&blocks, &new, 3) && !has(&blocks, &old, 3));
}

#[test]
fn without_room_nothing_is_kept() {
    for budget in [0, 4095] {
        let (blocks, one) = (Blocks::new(budget), segment(1, 0));
        blocks.note(&one, 0..100);
        keep(&blocks, &one, 0);
        assert_eq!(look(&blocks, &one, 0..100), CacheLookup::Missing);
        assert_eq!(blocks.bytes(), 0);
    }
}

proptest! {
    #[test]
    fn what_is_there_is_what_is_in_the_file(
        budget in 1..200usize,
        steps in prop::collection::vec((0..10u8, 1..4u64, 0..3u64, 0..LENGTH, 1..9000u64), 1..400),
    ) {
        let blocks = Blocks::new(budget * 4096);
        for (what, no, generation, begin, length) in steps {
            let (file, range) = (segment(no, generation), begin..(begin + length).min(LENGTH));
            if what == 0 {
                blocks.forget(&file);
                prop_assert_ne!(look(&blocks, &file, range), CacheLookup::Whole);
                continue;
            }
            match look(&blocks, &file, range.clone()) {
                CacheLookup::Whole => {}
                CacheLookup::Missing => blocks.note(&file, range),
                CacheLookup::Wanted => {
                    let last = numbers(range.clone()).last();
                    numbers(range).for_each(|block| keep(&blocks, &file, block));
                    prop_assert!(last.is_none_or(|last| has(&blocks, &file, last)));
                }
            }
            prop_assert!(blocks.bytes() <= budget * 4096);
        }
    }
}

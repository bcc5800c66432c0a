//! Loss where a stream begins, and neither a footer nor a manifest says with which message.

use std::path::PathBuf;

use super::*;

/// A stream whose segments are closed, and none is sealed.
pub(super) struct Written {
    store: Store,
    stream: Stream,
    disk: Arc<FaultyDisk>,
}

impl Written {
    pub(super) fn new() -> Self {
        let disk = Arc::new(FaultyDisk::new(9));
        let store = open(&disk, 1);
        let stream = store.create_stream("A", "S", b"", config(Compression::None), 1).unwrap();
        Self { store, stream, disk }
    }

    /// A segment with so many messages.
    pub(super) fn segment(&mut self, messages: u64) {
        (0..messages).for_each(|_| append_one(&mut self.stream));
        self.stream.close_segment(0, 2).unwrap();
    }

    /// Kills the process, and leaves nothing in the journal that would write files again.
    pub(super) fn end(self) -> Left {
        let Self { store, stream, disk } = self;
        store.journal().round_now(&|| 3).unwrap();
        store.write_watermarks().unwrap();
        let id = stream.id();
        drop((stream, store));
        let disk = Arc::new(disk.kill());
        drop(open(&disk, 2));
        Left { disk, id }
    }
}

pub(super) struct Left {
    pub(super) disk: Arc<FaultyDisk>,
    pub(super) id: StreamId,
}

impl Left {
    /// The file of the last segment that begins with this sequence.
    pub(super) fn segment_with(&self, first: Seq) -> PathBuf {
        let directory = stream_directory(Path::new("/store"), self.id);
        let names = self.disk.list(&directory).unwrap().into_iter().map(|entry| entry.name);
        let segments = names.filter(|name| crate::stream::segment_number(name).is_some());
        let first_of =
            |path: &PathBuf| SegmentHeader::read(&*self.disk.open(path).unwrap()).unwrap().first_seq;
        segments.map(|name| directory.join(name)).filter(|path| first_of(path) == first).max().unwrap()
    }

    /// Starts; answers which sequences are told as lost, and which are there.
    fn start(&self) -> (Vec<Seq>, Vec<Seq>) {
        let store = open(&self.disk, 3);
        let (stream, report) = store.open_stream(self.id, config(Compression::None), 5).unwrap();
        assert!(report.is_damaged());
        let lost = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
        (lost, sequences(&stream))
    }
}

pub(super) fn seqs(range: std::ops::RangeInclusive<Seq>) -> Vec<Seq> {
    range.collect()
}

#[test]
fn a_first_segment_that_is_gone_is_told_as_lost() {
    for how in ["removed", "emptied", "zeroed"] {
        let mut written = Written::new();
        written.segment(10);
        written.segment(10);
        written.segment(5);
        let left = written.end();
        let path = left.segment_with(1);
        match how {
            "removed" => left.disk.remove_file(&path).unwrap(),
            "emptied" => left.disk.truncate(&path, 0).unwrap(),
            _ => left.disk.open(&path).unwrap().write_at(&[0; HEADER_BYTES], 0).map(drop).unwrap(),
        }
        assert_eq!(left.start(), (seqs(1..=10), seqs(11..=25)), "{how}");
    }
}

#[test]
fn what_was_removed_of_a_first_segment_is_not_lost_with_it() {
    for (first, lost) in [(1, seqs(1..=10)), (5, seqs(5..=10)), (10, seqs(10..=10)), (11, Vec::new())] {
        let mut written = Written::new();
        written.segment(10);
        append_one(&mut written.stream);
        while written.stream.compact(first, 3, 2).unwrap().more {}
        written.segment(9);
        let left = written.end();
        left.disk.remove_file(&left.segment_with(1)).unwrap();
        assert_eq!(left.start(), (lost, seqs(11..=20)), "removed below {first}");
    }
}

#[test]
fn a_first_message_that_is_damaged_is_told_as_lost() {
    let mut written = Written::new();
    written.segment(10);
    written.segment(5);
    let left = written.end();
    left.disk.flip_bit(&left.segment_with(1), HEADER_BYTES as u64 + 60, 3).unwrap();
    assert_eq!(left.start(), (seqs(1..=1), seqs(2..=15)));
}

#[test]
fn a_segment_behind_a_purge_that_is_gone_is_told_as_lost() {
    for is_listed in [false, true] {
        let mut written = Written::new();
        written.segment(10);
        while written.stream.compact(0, 100, 2).unwrap().more {}
        if is_listed {
            settle(&written.store, &mut written.stream);
        }
        written.stream.close_segment(0, 2).unwrap();
        written.segment(10);
        written.segment(5);
        let left = written.end();
        left.disk.remove_file(&left.segment_with(11)).unwrap();
        assert_eq!(left.start(), (seqs(11..=20), seqs(21..=25)), "in a manifest: {is_listed}");
    }
}

/// Removals before a truncation say nothing of the messages that get their sequences.
#[test]
fn a_segment_with_sequences_that_begin_again_is_told_as_lost() {
    let mut written = Written::new();
    written.segment(20);
    while written.stream.compact(0, 100, 2).unwrap().more {}
    written.store.journal().round_now(&|| 2).unwrap();
    written.stream.truncate(12, 2).unwrap();
    written.segment(10);
    written.segment(5);
    let left = written.end();
    left.disk.remove_file(&left.segment_with(13)).unwrap();
    assert_eq!(left.start(), (seqs(13..=22), seqs(23..=27)));
}

/// Footers behind the segment count without the messages that were deleted in it.
#[test]
fn a_deletion_that_is_lost_with_its_segment_breaks_no_count() {
    let mut written = Written::new();
    written.segment(10);
    written.stream.delete(5, 2).unwrap();
    written.segment(10);
    written.segment(5);
    settle(&written.store, &mut written.stream);
    while written.stream.compact(3, 100, 2).unwrap().more {}
    let left = written.end();
    left.disk.remove_file(&left.segment_with(11)).unwrap();
    let (lost, there) = left.start();
    assert_eq!(lost, seqs(11..=20));
    // The message that was deleted is back.
    assert_eq!(there, seqs(3..=10).into_iter().chain(seqs(21..=25)).collect::<Vec<_>>());
}

/// Which of the lost sequences had no message any more, the lost segment alone said.
#[test]
fn a_purge_of_lost_sequences_removes_nothing_behind_them() {
    let mut written = Written::new();
    written.segment(10);
    append_one(&mut written.stream);
    written.stream.skip(4000, 2).unwrap();
    written.stream.close_segment(0, 2).unwrap();
    written.segment(5);
    written.segment(5);
    settle(&written.store, &mut written.stream);
    let left = written.end();
    left.disk.remove_file(&left.segment_with(11)).unwrap();
    let store = open(&left.disk, 3);
    let (mut stream, report) = store.open_stream(left.id, config(Compression::None), 5).unwrap();
    let lost: Vec<Seq> = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
    assert_eq!(lost, seqs(11..=4000));
    assert_eq!(stream.state().totals.messages, 21, "with the lost one");
    while stream.compact(2000, 100, 6).unwrap().more {}
    assert_eq!(sequences(&stream), seqs(4001..=4010));
    assert_eq!(stream.state().totals.messages, 10);
}

/// A start without a file takes nothing away from one that has it again: neither where most of the
/// lost sequences had no message, nor where the lost segment said of others that they are gone.
#[test]
fn a_lost_segment_that_is_put_back_has_all_its_messages() {
    for (skipped, deleted, expected) in [(3999, 0, 4000..=4009), (10, 4, 11..=20)] {
        let mut written = Written::new();
        written.segment(10);
        written.stream.skip(skipped, 2).unwrap();
        (1..=deleted).for_each(|seq| written.stream.delete(seq, 2).map(drop).unwrap());
        written.segment(10);
        written.segment(5);
        written.segment(5);
        settle(&written.store, &mut written.stream);
        let left = written.end();
        let path = left.segment_with(11);
        let file = left.disk.open(&path).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        left.disk.remove_file(&path).unwrap();
        let store = open(&left.disk, 3);
        let (mut stream, _) = store.open_stream(left.id, config(Compression::None), 5).unwrap();
        // Until a manifest says what there is.
        for _ in 0..20 {
            append_one(&mut stream);
            stream.close_segment(0, 6).unwrap();
            settle(&store, &mut stream);
        }
        store.journal().round_now(&|| 7).unwrap();
        store.write_watermarks().unwrap();
        drop((stream, store));
        let file = left.disk.create(&path).unwrap();
        file.write_at(&bytes, 0).unwrap();
        let store = open(&left.disk, 4);
        let (stream, report) = store.open_stream(left.id, config(Compression::None), 8).unwrap();
        let there = sequences(&stream);
        assert!(expected.clone().all(|seq| there.contains(&seq)), "{there:?}, {:?}", report.lost);
    }
}

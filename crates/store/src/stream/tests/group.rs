//! Streams that lead a group, and streams that follow in it.

use super::*;
use crate::SegmentNo;
use crate::segment::SegmentHeader;

fn small() -> StreamConfig {
    StreamConfig { segment_bytes: Some(400), ..StreamConfig::default() }
}

fn header(bench: &Bench, stream: &Stream) -> SegmentHeader {
    let path = stream.files().unwrap().segment_path(stream.active.segment.no);
    stream.active.file.flush().unwrap();
    SegmentHeader::read(&*bench.disk.open(&path).unwrap()).unwrap()
}

#[test]
fn a_follower_refuses_what_does_not_come_next_and_is_as_before() {
    let (_bench, mut leader) = member(small());
    let (_other, mut follower) = member(small());
    for n in 1..=3 {
        put(&mut leader, "a", "x", n).unwrap();
    }
    let entries = leader.take_decided();
    assert_eq!(entries.iter().map(|decided| decided.entry.index).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(leader.take_decided().is_empty(), "they are given once");
    follower.append_decided(&entries[0], 9).unwrap();
    let (end, state, position) = (follower.end(), follower.state(), follower.group());
    let mut refused = |decided: &DecidedEntry| {
        let error = follower.append_decided(decided, 9).unwrap_err();
        assert!(matches!(error, StoreError::NotNext { expected: 2 }), "{error}");
        assert_eq!((follower.end(), follower.state(), follower.group()), (end, state, position));
    };
    refused(&entries[0]);
    refused(&entries[2]);
    let entry = |change: fn(&mut crate::record::LogEntry)| {
        let mut decided = entries[1].clone();
        change(&mut decided.entry);
        decided
    };
    refused(&entry(|entry| entry.chain ^= 1));
    refused(&entry(|entry| entry.term += 1));
    for at in 0..entries[1].records().len() {
        refused(&entries[1].with_records(|records| records[at] ^= 1));
        // A chain over nonsense makes no sense of it.
        let mut decided = entries[1].with_records(|records| records.truncate(at));
        decided.entry.chain = decided.entry.chained(position.unwrap().chain, decided.records());
        if at > 0 {
            refused(&decided);
        }
    }
    entries[1..].iter().for_each(|decided| follower.append_decided(decided, 9).unwrap());
    follower.committed(3);
    leader.committed(3);
    assert_eq!(contents(&follower), contents(&leader));
    let mut alone = Stream::in_memory(small(), 1, 1);
    assert!(matches!(alone.append_decided(&entries[0], 9), Err(StoreError::NotNext { expected: 0 })));
}

#[test]
fn what_a_leader_decides_waits_for_its_commit() {
    let (bench, mut leader) = member(StreamConfig { durability: Durability::Synced, ..small() });
    put(&mut leader, "a", "x", 1).unwrap();
    let first = leader.ticket();
    leader.delete(1, 2).unwrap();
    bench.store.as_ref().unwrap().journal().round_now(&|| 10).unwrap();
    assert!(!leader.release().is_released(first), "a sync is not what it waits for");
    leader.committed(1);
    assert!(leader.release().is_released(first) && !leader.release().is_released(leader.ticket()));
    leader.committed(2);
    assert!(leader.release().is_released(leader.ticket()));
}

#[test]
fn a_batch_of_which_nothing_is_taken_is_no_entry() {
    let limits = Limits { messages: Some(1), discard: Discard::New, ..Limits::default() };
    let (_bench, mut leader) = member(StreamConfig { limits, ..small() });
    put(&mut leader, "a", "x", 1).unwrap();
    assert_eq!(put(&mut leader, "a", "y", 2), Err(AppendRefusal::MaxMessages));
    assert_eq!(leader.take_decided().len(), 1);
    leader.committed(1);
    assert!(leader.release().is_released(leader.ticket()), "nobody waits for what was not decided");
}

#[test]
fn segments_say_where_they_stand_and_are_sealed_up_to_the_commit() {
    let (bench, mut leader) = member(small());
    leader.lead(6);
    for n in 1..=20 {
        put(&mut leader, &format!("s.{}", n % 3), "some bytes to fill a segment", n).unwrap();
    }
    let position = leader.group().unwrap();
    assert_eq!((position.index, position.term), (20, 6));
    let header = header(&bench, &leader);
    let group = header.group.unwrap();
    assert!(header.segment > SegmentNo(2) && group.first_index > 1 && group.first_index <= 21);
    assert_eq!((header.epoch, header.term), (3, 6));
    assert!(leader.next_job(30).is_none(), "all of it could still be taken back");
    let sealable = (1..=20).find_map(|index| {
        leader.committed(index);
        Some((index, leader.next_job(40)?))
    });
    let (first, job) = sealable.expect("the first one is whole at some time");
    assert!(first < 20, "{first}");
    leader.finish(job.run(), 40).unwrap();
    assert!(leader.next_job(50).is_none(), "the next one is not committed");
}

#[test]
fn a_stream_that_is_opened_again_goes_on_in_the_log_of_its_group() {
    for (compression, committed) in [(Compression::None, 0), (Compression::None, 30), (Compression::S2, 30)] {
        let config = StreamConfig { compression, ..small() };
        let (mut bench, mut leader) = member(config);
        let mut before = leader.group().unwrap();
        for n in 1..=30 {
            put(&mut leader, &format!("s.{}", n % 3), "some bytes to fill a segment", n).unwrap();
            before = leader.group().unwrap();
            leader.committed(committed.min(before.index));
        }
        while let Some(job) = leader.next_job(40) {
            leader.finish(job.run(), 40).unwrap();
        }
        leader.flush().unwrap();
        drop(leader);
        let (mut leader, report) = bench.reopen(config);
        assert_eq!(report.notices, []);
        let found = leader.group().unwrap();
        let place = |position: GroupPosition| (position.epoch, position.term, position.index, position.chain);
        assert_eq!(place(found), place(before));
        assert!(found.commit <= before.index && (committed == 0 || found.commit > 0));
        // One entry is one message here.
        assert_eq!(leader.released(), found.commit, "the rest may still be taken back");
        leader.committed(30);
        assert_eq!(leader.released(), 30);
        put(&mut leader, "more", "x", 50).unwrap();
        assert_eq!(leader.take_decided()[0].entry.index, 31);
    }
}

/// A power cut took the segment that had been begun: the header that would say where the log ends.
#[test]
fn the_end_of_the_log_is_found_in_a_sealed_segment() {
    for compression in [Compression::None, Compression::S2] {
        let config = StreamConfig { compression, ..small() };
        let (mut bench, mut leader) = member(config);
        for n in 1..=4 {
            put(&mut leader, "a", "some bytes", n).unwrap();
        }
        leader.committed(4);
        leader.close_segment(0, 5).unwrap();
        while let Some(job) = leader.next_job(6) {
            leader.finish(job.run(), 6).unwrap();
        }
        let (before, path) = (leader.group().unwrap(), leader.active.file.path().to_path_buf());
        drop(leader);
        bench.store = None;
        bench.disk.remove_file(&path).unwrap();
        let (leader, _) = bench.reopen(config);
        assert_eq!(leader.group().map(|found| (found.index, found.chain)), Some((4, before.chain)));
    }
}

/// A power cut took a segment, as above, where a manifest could list all before it, which nobody
/// reads at a start.
#[test]
fn a_manifest_waits_for_the_header_that_says_where_the_log_goes_on() {
    let (mut bench, mut leader) = member(small());
    let work = |leader: &mut Stream| {
        while let Some(job) = leader.next_job(50) {
            leader.finish(job.run(), 50).unwrap();
        }
    };
    for n in 1..=40 {
        put(&mut leader, "a", "some bytes", n).unwrap();
        leader.committed(n.unsigned_abs());
        leader.close_segment(0, n).unwrap();
        work(&mut leader);
    }
    assert_eq!(leader.covers(), SegmentNo(0), "nothing of the last segment is durable");
    let (before, path) = (leader.group().unwrap(), leader.active.file.path().to_path_buf());
    drop(leader);
    bench.store = None;
    bench.disk.remove_file(&path).unwrap();
    let (mut leader, _) = bench.reopen(small());
    assert_eq!(leader.group().map(|found| (found.index, found.chain)), Some((40, before.chain)));
    bench.store.as_ref().unwrap().journal().round_now(&|| 60).unwrap();
    work(&mut leader);
    assert!(leader.covers() > SegmentNo(30), "{:?}", leader.covers());
}

#[test]
fn a_stream_without_a_group_writes_files_that_earlier_versions_read() {
    let bench = Bench::new();
    let mut stream = bench.create(StreamConfig::default());
    put(&mut stream, "a", "x", 1).unwrap();
    stream.delete(1, 2).unwrap();
    let begun = header(&bench, &stream);
    assert_eq!(begun.encode()[8..16], [1, 0, 0, 0, 0, 0, 0, 0]);
    let mut kinds = Vec::new();
    let (file, end) = (&stream.active.file, stream.active.file.end());
    let mut bytes = vec![0; end as usize];
    file.read_at(&mut bytes, 0).unwrap();
    let mut at = crate::segment::HEADER_BYTES;
    while at < bytes.len() {
        let head = crate::record::peek(&bytes[at..]).unwrap();
        kinds.push(head.kind);
        at += head.size();
    }
    use crate::record::EntryKind::{Durable, Message, Trim};
    kinds.retain(|kind| *kind != Durable);
    assert_eq!(kinds, [Message, Trim]);
}

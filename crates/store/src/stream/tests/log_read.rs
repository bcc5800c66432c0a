//! Entries of a group's log that are read back from its segments.

use super::*;
use crate::record::ConsumerRecord;
use crate::stream::group_log::DecidedEntry;

const ALL: std::ops::Range<u64> = 1..u64::MAX;

fn config() -> StreamConfig {
    let limits = Limits { messages: Some(20), ..Limits::default() };
    StreamConfig { segment_bytes: Some(1500), limits, ..StreamConfig::default() }
}

/// Does what becomes an entry of each kind, and answers those.
fn live(leader: &mut Stream) -> Vec<DecidedEntry> {
    leader.bound_entries(80);
    let long = [b'x'; 300];
    for n in 1..=20 {
        put(leader, &format!("s.{}", n % 3), "ten bytes.", n).unwrap();
    }
    let message = NewMessage { subject: b"a", payload: &long, timestamp: 21, ..NewMessage::default() };
    leader.append(&[message; 3], Admission::Check, 21, &mut Vec::new()).unwrap();
    leader.delete(5, 22).unwrap();
    let mut purge = Purge { filter: None, below: 8, keep: 0, through: 0 };
    leader.purge(&mut purge, usize::MAX, 23).unwrap();
    let payload = b"define".as_slice().into();
    leader.propose_consumers(&[ConsumerRecord { consumer: 1, kind: 1, payload }], 24).unwrap();
    leader.propose_notes(&[(b"key", b"value")], 25).unwrap();
    leader.propose_config(b"config", 26).unwrap();
    put(leader, "s.1", "", 27).unwrap();
    let decided = leader.take_decided();
    assert!(decided.len() > 25 && decided.iter().any(|decided| decided.entry.more));
    decided
}

fn read_all(stream: &Stream) -> Vec<DecidedEntry> {
    stream.read_log(ALL, usize::MAX).unwrap()
}

#[test]
fn entries_are_read_back_as_they_were_decided() {
    let (mut bench, mut leader) = member(config());
    let decided = live(&mut leader);
    assert_eq!(leader.log_begin().unwrap(), Some(1));
    assert!(read_all(&leader) == decided);
    leader.flush().unwrap();
    drop(leader);
    let (stream, report) = bench.reopen(config());
    assert!(!report.is_damaged());
    assert!(read_all(&stream) == decided, "after a restart");
    // Another one follows from them.
    let (_other, mut follower) = member(StreamConfig::default());
    let mut before = 0;
    for entry in read_all(&stream) {
        assert!(entry.follows(before));
        before = entry.entry.chain;
        follower.append_decided(&entry, 30).unwrap();
    }
    let last = decided.last().unwrap().entry.index;
    let mut stream = stream;
    stream.committed(last);
    follower.committed(last);
    assert_eq!(contents(&follower), contents(&stream));
    assert_eq!(follower.note(b"key"), Some(b"value".as_slice()));
}

/// In memory a segment that is closed is sealed.
#[test]
fn entries_of_a_stream_in_memory_are_read_as_well() {
    let mut leader = Stream::in_memory(config(), 1, 1);
    leader.join_group(BEGINNING, 1).unwrap();
    let decided = live(&mut leader);
    let begin = leader.log_begin().unwrap().unwrap();
    assert!(begin > 1 && begin <= decided.len() as u64, "{begin}");
    assert!(leader.read_log(begin..u64::MAX, usize::MAX).unwrap() == decided[begin as usize - 1..]);
}

#[test]
fn so_many_are_read_as_are_wanted() {
    let (_bench, mut leader) = member(config());
    let decided = live(&mut leader);
    let indexes = |wanted, most| {
        let read = leader.read_log(wanted, most).unwrap();
        read.iter().map(|decided| decided.entry.index).collect::<Vec<_>>()
    };
    assert_eq!(indexes(3..6, usize::MAX), [3, 4, 5]);
    assert_eq!(indexes(3..6, 0), [3], "one at least");
    let two = decided[2].records.len() + decided[3].records.len();
    assert_eq!(indexes(3..6, two), [3, 4]);
    assert_eq!(indexes(3..6, two - 1), [3]);
    let last = decided.len() as u64;
    assert_eq!(indexes(last..last + 9, usize::MAX), [last]);
    assert_eq!(indexes(last + 1..last + 9, usize::MAX), [0; 0]);
    let alone = bench_without_group();
    assert_eq!(alone.log_begin().unwrap(), None);
    assert!(read_all(&alone).is_empty());
}

fn bench_without_group() -> Stream {
    Stream::in_memory(StreamConfig::default(), 1, 1)
}

/// Entries that were taken back do not count, wherever they stand.
#[test]
fn entries_that_were_taken_back_are_not_read() {
    for rolls in [0, 1, 2] {
        let (mut bench, mut stream) = member(StreamConfig::default());
        let roll = |stream: &mut Stream, at| {
            if rolls > at {
                stream.close_segment(0, 5).unwrap();
            }
        };
        put(&mut stream, "a", "1", 1).unwrap();
        put(&mut stream, "a", "2", 2).unwrap();
        roll(&mut stream, 0);
        put(&mut stream, "a", "3", 3).unwrap();
        roll(&mut stream, 1);
        put(&mut stream, "a", "4", 4).unwrap();
        let first = stream.take_decided();
        stream.take_back(2, 6).unwrap();
        assert_eq!(read_all(&stream), first[..1], "{rolls}");
        put(&mut stream, "a", "another", 7).unwrap();
        let again = stream.take_decided();
        let expected = [&first[..1], &again[..]].concat();
        assert!(read_all(&stream) == expected, "{rolls}");
        stream.flush().unwrap();
        drop(stream);
        let (stream, _) = bench.reopen(StreamConfig::default());
        assert!(read_all(&stream) == expected, "{rolls}, after a restart");
    }
}

/// Sealed segments are not read: they may be compacted.
#[test]
fn the_log_begins_behind_sealed_segments() {
    let (_bench, mut leader) = member(StreamConfig { segment_bytes: Some(400), ..StreamConfig::default() });
    for n in 1..=20 {
        put(&mut leader, "a", "some bytes to fill a segment", n).unwrap();
    }
    let decided = leader.take_decided();
    leader.committed(20);
    while let Some(job) = leader.next_job(40) {
        leader.finish(job.run(), 40).unwrap();
    }
    let begin = leader.log_begin().unwrap().unwrap();
    assert!(begin > 1 && begin <= 20, "{begin}");
    assert!(leader.read_log(1..21, usize::MAX).unwrap().is_empty());
    assert!(leader.read_log(begin..21, usize::MAX).unwrap() == decided[begin as usize - 1..]);
}

/// A new leader's first entry says nothing, and does not finish what its log ends in: that is
/// aborted by the next.
#[test]
fn the_empty_entry_of_a_new_leader_leaves_a_decision_open() {
    let (mut bench, mut stream) = member(StreamConfig::default());
    let (_other, mut leader) = member(StreamConfig::default());
    leader.bound_entries(80);
    put(&mut leader, "a", "ten bytes.", 1).unwrap();
    let message = NewMessage { subject: b"a", payload: &[b'x'; 60], timestamp: 2, ..NewMessage::default() };
    leader.append(&[message; 2], Admission::Check, 2, &mut Vec::new()).unwrap();
    let decided = leader.take_decided();
    decided[..2].iter().for_each(|entry| stream.append_decided(entry, 3).unwrap());
    let chain = decided[1].entry.chain;
    let closing = DecidedEntry::empty(3, 2, chain, false);
    assert!(stream.append_decided(&closing, 4).is_err(), "it would finish another's decision");
    stream.append_decided(&DecidedEntry::empty(3, 2, chain, true), 4).unwrap();
    stream.committed(3);
    assert_eq!(sequences(&stream), [1]);
    stream.flush().unwrap();
    drop(stream);
    let (mut stream, _) = bench.reopen(StreamConfig::default());
    assert!(stream.is_unfinished());
    stream.abort_unfinished(5).unwrap();
    let read = read_all(&stream);
    assert_eq!(read.len(), 4);
    assert_eq!(read[3], stream.take_decided()[0]);
    stream.committed(4);
    assert_eq!(sequences(&stream), [1]);
    let chain = read[3].entry.chain;
    assert!(stream.append_decided(&DecidedEntry::empty(5, 2, chain, true), 6).is_err(), "nothing is open");
    stream.append_decided(&DecidedEntry::empty(5, 2, chain, false), 6).unwrap();
    stream.committed(5);
    put(&mut stream, "a", "3", 7).unwrap();
    stream.committed(6);
    assert_eq!(sequences(&stream).len(), 2);
}

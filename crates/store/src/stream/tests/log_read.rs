//! Entries of a group's log that are read back from its segments.

use super::*;
use crate::record::ConsumerRecord;
use crate::stream::DecidedEntry;
use crate::stream::log_read::SENT_BESIDE;

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
    assert_eq!(leader.log_outline().unwrap().unwrap().base, (0, 0));
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

/// A segment in memory gives back what is removed from it, and the log begins behind it.
#[test]
fn entries_of_a_stream_in_memory_are_read_as_well() {
    let mut leader = Stream::in_memory(config(), 1, 1);
    leader.join_group(BEGINNING, 1).unwrap();
    let decided = live(&mut leader);
    let (base, _) = leader.log_outline().unwrap().unwrap().base;
    assert!(base < decided.len() as u64, "{base}");
    let read = leader.read_log(base + 1..u64::MAX, usize::MAX).unwrap();
    assert!(read == decided[base as usize..]);
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
    let two = decided[2..4].iter().map(|entry| SENT_BESIDE + entry.records().len()).sum::<usize>();
    assert_eq!(indexes(3..6, two), [3, 4]);
    assert_eq!(indexes(3..6, two - 1), [3]);
    let last = decided.len() as u64;
    assert_eq!(indexes(last..last + 9, usize::MAX), [last]);
    assert_eq!(indexes(last + 1..last + 9, usize::MAX), [0; 0]);
    let alone = bench_without_group();
    assert_eq!(alone.log_outline().unwrap(), None);
    assert!(read_all(&alone).is_empty());
}

/// A member that is behind asks for a little at a time.
#[test]
fn who_reads_on_does_not_look_for_the_place() {
    let (_bench, mut leader) = member(StreamConfig::default());
    let (short, long) = ("x".repeat(1000), "y".repeat(200 << 10));
    for n in 1..=200 {
        put(&mut leader, "s", if n % 50 == 0 { &long } else { &short }, n).unwrap();
    }
    let decided = leader.take_decided();
    let mut read = leader.read_log(1..u64::MAX, 3000).unwrap();
    assert!(read.len() < 4);
    while read.len() < decided.len() {
        let next = read.len() as u64 + 1;
        read.extend(leader.read_log(next..u64::MAX, 3000).unwrap());
    }
    assert!(read == decided);
    // Also who does not go on where another reading has ended reads little that is not wanted.
    for index in 1..=decided.len() as u64 {
        let segment = leader.log_segments(index).expect("a disk in memory")[0].segment.no;
        let places = &leader.group.as_ref().expect("it is a member").places;
        let place = places.before(segment, index).expect("a place in each segment");
        assert!(index - place.index <= 128, "{index}: {place:?}");
    }
    assert!(leader.read_log(7..9, 0).unwrap() == decided[6..7], "elsewhere as well");
    leader.committed(198);
    leader.take_back(200, 201).unwrap();
    for n in 201..=203 {
        put(&mut leader, "s", &long, n).unwrap();
    }
    let anew = leader.take_decided();
    assert!(leader.read_log(200..u64::MAX, 1 << 20).unwrap() == anew, "nothing is where it was");
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

/// Twenty entries of 1 message each, in segments that are sealed but for the last ones.
fn sealed(compression: Compression) -> (Bench, Stream, Vec<DecidedEntry>) {
    let config = StreamConfig { segment_bytes: Some(400), compression, ..StreamConfig::default() };
    let (bench, mut leader) = member(config);
    for n in 1..=20 {
        if n == 8 {
            leader.lead(9);
        }
        put(&mut leader, &format!("a{n}"), "some bytes to fill a segment", n).unwrap();
    }
    let decided = leader.take_decided();
    leader.committed(20);
    run_jobs(&mut leader);
    assert!(leader.open_segments().count() < 4, "some are sealed");
    (bench, leader, decided)
}

fn run_jobs(stream: &mut Stream) {
    while let Some(job) = stream.next_job(40) {
        stream.finish(job.run(), 40).unwrap();
    }
}

#[test]
fn entries_in_sealed_segments_are_read() {
    let (_bench, leader, decided) = sealed(Compression::None);
    assert!(leader.read_log(1..21, usize::MAX).unwrap() == decided);
    assert!(leader.read_log(9..12, usize::MAX).unwrap() == decided[8..11]);
    let outline = LogOutline { base: (0, 0), terms: vec![(1, BEGINNING.term), (8, 9)] };
    assert_eq!(leader.log_outline().unwrap(), Some(outline));
}

/// A segment that was written anew, compacted or compressed, has not all of its records any more.
#[test]
fn the_log_begins_behind_what_was_written_anew() {
    let (_bench, leader, decided) = sealed(Compression::S2);
    let LogOutline { base, terms } = leader.log_outline().unwrap().unwrap();
    assert!(base.0 > 8 && base.0 < 20, "{base:?}");
    let before = &decided[base.0 as usize - 1].entry;
    assert_eq!(((before.index, before.term), terms), (base, vec![(base.0 + 1, 9)]));
    assert!(leader.read_log(3..21, usize::MAX).unwrap().is_empty());
    let rest = base.0 + 1;
    assert!(leader.read_log(rest..21, usize::MAX).unwrap() == decided[rest as usize - 1..]);
}

/// A message that was erased is read by nobody, and what is behind it does not follow.
#[test]
fn an_erased_message_ends_what_is_read() {
    let (bench, mut leader, decided) = sealed(Compression::None);
    leader.erase(5, 41).unwrap();
    leader.committed(21);
    bench.store.as_ref().unwrap().journal().round_now(&|| 41).unwrap();
    run_jobs(&mut leader);
    let read = leader.read_log(1..21, usize::MAX).unwrap();
    assert!(read.len() < 5 && read == decided[..read.len()], "{}", read.len());
    assert!(leader.read_log(5..21, usize::MAX).unwrap().is_empty());
    assert!(leader.read_log(15..21, usize::MAX).unwrap() == decided[14..20]);
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

/// Entries behind those that were taken back follow on the term of the entry that is left in front.
#[test]
fn a_log_whose_end_was_taken_back_ends_in_the_term_of_what_is_left() {
    let (mut bench, mut stream) = member(StreamConfig::default());
    put(&mut stream, "a", "kept", 1).unwrap();
    stream.committed(1);
    stream.lead(7);
    put(&mut stream, "a", "taken back", 2).unwrap();
    assert_eq!(stream.group().unwrap().term, 7);
    stream.take_back(2, 3).unwrap();
    assert_eq!(stream.group().unwrap().term, BEGINNING.term);
    drop(stream);
    let (stream, _) = bench.reopen(StreamConfig::default());
    assert_eq!(stream.group().unwrap().term, BEGINNING.term);
}

#[test]
fn an_entry_comes_back_from_its_bytes() {
    let (_bench, mut leader) = member(config());
    for decided in live(&mut leader) {
        let (index, term, bytes) = (decided.entry.index, decided.entry.term, decided.to_bytes());
        assert!(DecidedEntry::from_bytes(index, term, &bytes).as_ref() == Some(&decided));
        assert!(DecidedEntry::from_bytes(index, term + 1, &bytes).is_none(), "of another term");
        assert!(DecidedEntry::from_bytes(index, term, &bytes.slice(..20)).is_none());
    }
}

/// All that is in a sealed segment is committed, though no entry says so that a start reads, and
/// also where it does not look at that segment.
#[test]
fn a_start_knows_that_sealed_segments_are_committed() {
    for is_merged in [false, true] {
        let (mut bench, mut leader, _) = sealed(Compression::None);
        if is_merged {
            leader.renew(41).unwrap();
        }
        let open = leader.log_segments(0).unwrap();
        let first = open.iter().find(|part| !part.segment.is_sealed()).unwrap().counts.start;
        assert!(first > 10, "{first}");
        drop(leader);
        let (stream, _) = bench.reopen(StreamConfig::default());
        let position = stream.group().unwrap();
        assert_eq!(position.index, 20);
        assert_eq!(position.commit, first - 1, "merged: {is_merged}");
    }
}

/// Replicas may be behind what is sealed: files stay as they are.
#[test]
fn entries_that_a_replica_may_need_are_kept() {
    let limits = Limits { messages: Some(1), ..Limits::default() };
    let config = StreamConfig { segment_bytes: Some(400), limits, ..StreamConfig::default() };
    let (mut bench, mut leader) = member(config);
    leader.keep_log_behind(Some(2));
    for n in 1..=20 {
        put(&mut leader, "a", "some bytes to fill a segment", n).unwrap();
    }
    let decided = leader.take_decided();
    leader.committed(decided.len() as u64);
    leader.renew(41).unwrap();
    assert!(read_all(&leader) == decided);
    drop(leader);
    let (mut stream, _) = bench.reopen(config);
    stream.keep_log_behind(Some(2));
    stream.renew(42).unwrap();
    assert!(read_all(&stream) == decided, "after a restart");
    stream.keep_log_behind(Some(20));
    stream.renew(43).unwrap();
    assert!(stream.log_outline().unwrap().unwrap().base.0 > 10, "all have them");
}

/// The header of a segment says where the log stands. Where power is lost before it is written, the
/// sealed segment in front of it does.
#[test]
fn a_log_whose_last_header_is_lost_ends_where_the_sealed_segment_does() {
    let (mut bench, leader, decided) = sealed(Compression::None);
    let parts = leader.log_segments(0).unwrap();
    let open: Vec<_> = parts.iter().filter(|part| !part.segment.is_sealed()).collect();
    let (last, chain) = (open[0].counts.start - 1, decided[open[0].counts.start as usize - 2].entry.chain);
    let files = leader.segment_storage.files().unwrap();
    let paths: Vec<_> = open.iter().map(|part| files.segment_path(part.segment.no)).collect();
    drop(leader);
    bench.store = None;
    for path in paths {
        bench.disk.open(&path).unwrap().set_len(0).unwrap();
    }
    let (mut stream, _) = bench.reopen(StreamConfig::default());
    let position = stream.group().unwrap();
    assert_eq!((position.index, position.chain, position.commit), (last, chain, last));
    stream.append_decided(&decided[last as usize], 42).unwrap();
}

/// A segment is missing in front of one: whether its entries were committed is not known.
#[test]
fn a_hole_in_the_log_is_not_taken_for_committed() {
    let config = StreamConfig { segment_bytes: Some(400), ..StreamConfig::default() };
    let (mut bench, mut leader) = member(config);
    for n in 1..=20 {
        put(&mut leader, &format!("a{n}"), "some bytes to fill a segment", n).unwrap();
    }
    let starts: Vec<u64> = leader.log_segments(0).unwrap().iter().map(|part| part.counts.start).collect();
    leader.committed(starts[2] - 1);
    run_jobs(&mut leader);
    let parts = leader.log_segments(0).unwrap();
    let sealed: Vec<bool> = parts.iter().map(|part| part.segment.is_sealed()).collect();
    assert_eq!(sealed[..4], [true, true, false, false]);
    let behind = starts[3];
    let path = leader.segment_storage.files().unwrap().segment_path(parts[2].segment.no);
    drop(leader);
    bench.store = None;
    bench.disk.remove_file(&path).unwrap();
    let found = bench.open();
    let store = bench.store.as_ref().unwrap();
    let (stream, report) = store.open_stream(found[0].id, config, 1).unwrap();
    assert!(report.is_damaged());
    let commit = stream.group().unwrap().commit;
    assert!(commit < behind - 1, "{commit} and {behind}");
}

//! Entries of a group's log that are taken back.

use super::*;
use crate::record::{ConsumerRecord, LogEntry, LogEntryKind};
use crate::stream::LogTail;

/// Puts messages, one in each entry, and answers where the log stands behind them.
fn put_all(stream: &mut Stream, timestamps: std::ops::RangeInclusive<Timestamp>) -> GroupPosition {
    for n in timestamps {
        put(stream, &format!("s.{}", n % 3), "some bytes to fill a segment", n).unwrap();
    }
    stream.group().unwrap()
}

fn place(position: GroupPosition) -> (u64, u64) {
    (position.index, position.chain)
}

fn seal_all(stream: &mut Stream, now: Timestamp) {
    while let Some(job) = stream.next_job(now) {
        stream.finish(job.run(), now).unwrap();
    }
}

#[test]
fn what_is_taken_back_is_never_released_and_its_tickets_come_no_more() {
    let (_bench, mut stream) = member(StreamConfig::default());
    let before = put_all(&mut stream, 1..=3);
    let kept = stream.ticket();
    put_all(&mut stream, 4..=6);
    let lost = stream.ticket();
    stream.committed(2);
    let taken = stream.take_back(4, 10).unwrap();
    assert_eq!((taken.first_ticket, taken.last_seq), (Some(Ticket(kept.0 + 1)), 3));
    assert_eq!(stream.ticket(), kept, "the newest batch is the one before");
    assert_eq!(place(stream.group().unwrap()), place(before));
    assert_eq!(stream.state().totals.last_seq, 3);
    let again = put_all(&mut stream, 11..=11);
    assert_eq!(again.index, 4);
    assert!(stream.ticket() > lost, "no ticket is given twice");
    stream.committed(3);
    assert!(stream.release().is_released(kept) && !stream.release().is_released(taken.first_ticket.unwrap()));
    stream.committed(4);
    assert_eq!(sequences(&stream), [1, 2, 3, 4]);
    assert_eq!(stream.read(4, &mut Vec::new()).unwrap().unwrap().timestamp, 11);
}

#[test]
fn what_is_committed_stays_and_nothing_is_nothing() {
    let (_bench, mut stream) = member(StreamConfig::default());
    put_all(&mut stream, 1..=3);
    stream.committed(2);
    for first in [0, 1, 2] {
        let refused = stream.take_back(first, 5).unwrap_err();
        assert!(matches!(refused, StoreError::Committed { through: 2 }), "{refused}");
    }
    let (end, nothing) = (stream.end(), stream.take_back(4, 5).unwrap());
    assert_eq!((nothing.first_ticket, nothing.last_seq, stream.end()), (None, 3, end));
    let mut alone = Stream::in_memory(StreamConfig::default(), 1, 1);
    assert!(matches!(alone.take_back(1, 5), Err(StoreError::NotNext { expected: 0 })));
}

/// Removals, lifetimes and records of consumers come off as well, however many segments they are
/// in, and however often.
#[test]
fn everything_that_an_entry_says_is_taken_back_with_it() {
    for segment_bytes in [None, Some(400)] {
        let config = StreamConfig { segment_bytes, ..StreamConfig::default() };
        let (mut bench, mut stream) = member(config);
        let short = NewMessage { subject: b"a", timestamp: 1, expires: Some(20), ..NewMessage::default() };
        stream.append(&[short], Admission::Check, 1, &mut Vec::new()).unwrap();
        let before = put_all(&mut stream, 2..=6);
        stream.committed(before.index);
        let (was, state) = (contents(&stream), stream.state());
        for now in [30, 40] {
            stream.expire(now, 10, None).unwrap();
            assert_eq!(stream.state().totals.first_seq, 2);
            stream.delete_all(&[3, 5], now).unwrap();
            put_all(&mut stream, now..=now + 9);
            stream.purge(&mut Purge::default(), usize::MAX, now).unwrap();
            put_all(&mut stream, now..=now + 4);
            let record = ConsumerRecord { consumer: 1, kind: 1, payload: Vec::new().into() };
            stream.propose_consumers(&[record], now).unwrap();
            stream.take_back(before.index + 1, now).unwrap();
            assert_eq!((stream.state(), place(stream.group().unwrap())), (state, place(before)));
            assert_eq!(contents(&stream), was);
            assert_eq!(stream.next_expiry().unwrap(), Some(20), "what was to end ends later");
            assert!(stream.committed_consumers(0).next().is_none());
        }
        stream.flush().unwrap();
        drop(stream);
        let (mut stream, report) = bench.reopen(config);
        assert_eq!(report.notices, []);
        assert_eq!((contents(&stream), place(stream.group().unwrap())), (was, place(before)));
        let after = put_all(&mut stream, 50..=70);
        stream.committed(after.index);
        seal_all(&mut stream, 80);
        let (all, state) = (contents(&stream), stream.state().totals);
        assert_eq!(all.len(), 27);
        drop(stream);
        let (mut stream, report) = bench.reopen(config);
        assert_eq!(report.notices, []);
        stream.committed(after.index);
        assert_eq!((contents(&stream), place(stream.group().unwrap())), (all, place(after)));
        assert_eq!(
            (stream.state().totals.messages, stream.state().totals.bytes),
            (state.messages, state.bytes)
        );
    }
}

/// A loss of power took the segment that was begun: the one before says itself where it ends.
#[test]
fn a_segment_says_itself_what_of_it_was_taken_back() {
    for (compression, is_sealed) in
        [(Compression::None, false), (Compression::None, true), (Compression::S2, true)]
    {
        let config = StreamConfig { compression, ..StreamConfig::default() };
        let (mut bench, mut stream) = member(config);
        let before = put_all(&mut stream, 1..=3);
        put_all(&mut stream, 4..=6);
        stream.committed(before.index);
        stream.take_back(before.index + 1, 10).unwrap();
        if is_sealed {
            seal_all(&mut stream, 11);
        }
        let path = stream.active.file.path().to_path_buf();
        drop(stream);
        bench.store = None;
        bench.disk.remove_file(&path).unwrap();
        let (mut stream, _) = bench.reopen(config);
        assert_eq!(place(stream.group().unwrap()), place(before), "{compression:?} {is_sealed}");
        stream.committed(before.index);
        assert_eq!(sequences(&stream), [1, 2, 3]);
        put(&mut stream, "a", "x", 12).unwrap();
        stream.committed(before.index + 1);
        assert_eq!(sequences(&stream), [1, 2, 3, 4]);
    }
}

/// Where the entry that says so is damaged, the header of the new segment says the same.
#[test]
fn the_header_of_the_next_segment_says_what_was_taken_back() {
    let (mut bench, mut stream) = member(StreamConfig::default());
    let before = put_all(&mut stream, 1..=3);
    put_all(&mut stream, 4..=6);
    let (path, end) = (stream.active.file.path().to_path_buf(), stream.active.file.end());
    stream.take_back(before.index + 1, 10).unwrap();
    let after = put_all(&mut stream, 11..=12);
    bench.store.take().unwrap().close(&|| 13).unwrap();
    drop(stream);
    let file = bench.disk.open(&path).unwrap();
    let mut entry = vec![0; 8];
    file.read_at(&mut entry, end).unwrap();
    entry.iter_mut().for_each(|byte| *byte ^= 0x55);
    file.write_at(&entry, end).unwrap();
    let (mut stream, report) = bench.reopen(StreamConfig::default());
    assert_eq!(place(stream.group().unwrap()), place(after), "{report:?}");
    stream.committed(after.index);
    assert_eq!(sequences(&stream), [1, 2, 3, 4, 5]);
    assert_eq!(stream.read(4, &mut Vec::new()).unwrap().unwrap().timestamp, 11);
}

/// Entries that are taken back are in several segments, of which some are sealed: where one of them
/// begins says nothing of what is committed.
#[test]
fn what_was_taken_back_in_sealed_segments_commits_nothing() {
    for seals in 0..4 {
        let (mut bench, mut stream) = member(StreamConfig::default());
        let before = put_all(&mut stream, 1..=2);
        stream.committed(before.index);
        put_all(&mut stream, 3..=4);
        stream.close_segment(0, 5).unwrap();
        put_all(&mut stream, 5..=6);
        stream.take_back(before.index + 1, 10).unwrap();
        for _ in 0..seals {
            let Some(job) = stream.next_job(11) else { break };
            stream.finish(job.run(), 11).unwrap();
        }
        put_all(&mut stream, 12..=13);
        stream.flush().unwrap();
        drop(stream);
        let (mut stream, report) = bench.reopen(StreamConfig::default());
        assert_eq!(report.notices, []);
        let position = stream.group().unwrap();
        assert_eq!((position.index, position.commit), (4, 2), "{seals} jobs");
        assert_eq!(sequences(&stream), [1, 2], "{seals} jobs");
        stream.take_back(4, 14).unwrap();
        stream.committed(3);
        assert_eq!(sequences(&stream), [1, 2, 3]);
        assert_eq!(stream.read(3, &mut Vec::new()).unwrap().unwrap().timestamp, 12);
    }
}

/// Decisions of several entries are taken back over several segments, too: a segment begins within
/// one that was taken back.
#[test]
fn a_part_that_was_taken_back_behind_a_sealed_segment_is_not_released() {
    for seals in 0..4 {
        let (mut bench, mut stream) = member(StreamConfig::default());
        let (_other, mut leader) = member(StreamConfig::default());
        leader.bound_entries(80);
        let message =
            NewMessage { subject: b"a", payload: &[b'x'; 60], timestamp: 2, ..NewMessage::default() };
        put_all(&mut leader, 1..=1);
        leader.append(&[message; 3], Admission::Check, 2, &mut Vec::new()).unwrap();
        let decided = leader.take_decided();
        assert_eq!(decided.len(), 4);
        stream.append_decided(&decided[0], 3).unwrap();
        stream.committed(1);
        stream.append_decided(&decided[1], 3).unwrap();
        stream.close_segment(0, 4).unwrap();
        stream.append_decided(&decided[2], 5).unwrap();
        stream.take_back(2, 6).unwrap();
        for _ in 0..seals {
            let Some(job) = stream.next_job(7) else { break };
            stream.finish(job.run(), 7).unwrap();
        }
        stream.append_decided(&decided[1], 8).unwrap();
        stream.append_decided(&decided[2], 8).unwrap();
        stream.flush().unwrap();
        drop(stream);
        let (mut stream, report) = bench.reopen(StreamConfig::default());
        assert_eq!(report.notices, []);
        stream.committed(1);
        assert_eq!((stream.group().unwrap().commit, stream.is_unfinished()), (1, true), "{seals} jobs");
        assert_eq!(sequences(&stream), [1], "{seals} jobs");
        stream.append_decided(&decided[3], 9).unwrap();
        stream.committed(4);
        assert_eq!(sequences(&stream), [1, 2, 3, 4]);
    }
}

/// Of entries that were taken back a message is in a sealed segment, which does not count it, and
/// the next segments begin behind it: it is not lost.
#[test]
fn what_was_taken_back_between_segments_is_not_told_as_lost() {
    for seals in 0..4 {
        let (mut bench, mut stream) = member(StreamConfig::default());
        put_all(&mut stream, 1..=2);
        stream.committed(2);
        put_all(&mut stream, 3..=3);
        for seq in [1, 2] {
            stream.close_segment(0, 4).unwrap();
            stream.delete(seq, 5).unwrap();
        }
        stream.take_back(3, 6).unwrap();
        for _ in 0..seals {
            let Some(job) = stream.next_job(7) else { break };
            stream.finish(job.run(), 7).unwrap();
        }
        stream.flush().unwrap();
        drop(stream);
        let (mut stream, report) = bench.reopen(StreamConfig::default());
        assert_eq!((report.notices, report.lost), (vec![], vec![]), "{seals} jobs");
        stream.committed(2);
        put_all(&mut stream, 8..=8);
        stream.committed(3);
        assert_eq!(sequences(&stream), [1, 2, 3], "{seals} jobs");
    }
}

/// The entry that says what was taken back goes behind what it takes back, however full the
/// segment is: no segment begins between them.
#[test]
fn a_full_segment_takes_the_entry_that_takes_back() {
    let config = StreamConfig { segment_bytes: Some(400), ..StreamConfig::default() };
    let (_bench, mut stream) = member(config);
    let mut numbers = Vec::new();
    for n in 1..=12 {
        let before = stream.group().unwrap().index;
        put_all(&mut stream, n..=n);
        numbers.push(stream.active.segment.no.0);
        stream.take_back(before + 1, n).unwrap();
        numbers.push(stream.active.segment.no.0);
        put_all(&mut stream, n..=n);
        stream.committed(before + 1);
    }
    assert!(numbers.chunks(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
}

/// A packed segment is read entry by entry where it has lost its footer: what was taken back in it
/// does not count, though the segment was sealed.
#[test]
fn what_was_taken_back_in_a_packed_segment_stays_so_without_its_footer() {
    let (mut bench, mut stream) = member(packed());
    put_all(&mut stream, 1..=2);
    stream.committed(2);
    put_all(&mut stream, 3..=4);
    let lost = stream.active.file.path().to_path_buf();
    stream.close_segment(0, 5).unwrap();
    put_all(&mut stream, 5..=5);
    // This is said in the second one.
    stream.take_back(3, 6).unwrap();
    put_all(&mut stream, 12..=12);
    stream.close_segment(0, 13).unwrap();
    seal_all(&mut stream, 13);
    stream.flush().unwrap();
    bench.store.take().unwrap().close(&|| 14).unwrap();
    drop(stream);
    let file = bench.disk.open(&lost).unwrap();
    file.set_len(file.len().unwrap() - 60).unwrap();
    let (mut stream, report) = bench.reopen(packed());
    assert!(report.is_damaged(), "the footer is gone");
    assert_eq!(report.lost, [], "nothing is missing");
    let position = stream.group().unwrap();
    assert_eq!((position.index, position.commit), (3, 2));
    stream.committed(3);
    assert_eq!(sequences(&stream), [1, 2, 3]);
    assert_eq!(stream.read(3, &mut Vec::new()).unwrap().unwrap().timestamp, 12);
}

fn packed() -> StreamConfig {
    StreamConfig { compression: Compression::S2, ..StreamConfig::default() }
}

/// The log in front of entries that damage has taken is known as long as these may be taken back.
#[test]
fn a_log_goes_on_before_what_damage_has_taken() {
    let entry = |index: u64, commit| LogEntry {
        index,
        term: 5 + index / 8,
        commit,
        chain: 100 + index,
        kind: LogEntryKind::Normal,
        more: false,
    };
    let mut tail = LogTail::new(BEGINNING);
    (1..=4).for_each(|index| tail.pass(&entry(index, index.saturating_sub(2))));
    assert_eq!(tail.first_missing(), None);
    // Nothing is left of 5, of 6 and of 8.
    [7, 9, 10].iter().for_each(|&index| tail.pass(&entry(index, 3)));
    assert_eq!(tail.first_missing(), Some(5));
    let before = |tail: &LogTail, first| {
        tail.before(first).map(|tail| (tail.position().term, tail.position().index, tail.position().chain))
    };
    assert_eq!(before(&tail, 5), Some((5, 4, 104)));
    assert_eq!(before(&tail, 4), Some((5, 3, 103)));
    assert_eq!((before(&tail, 7), before(&tail, 10)), (None, Some((6, 9, 109))));
    let short = tail.before(5).expect("it is known");
    assert_eq!((short.first_missing(), short.position().commit), (None, 3));
    // Nobody takes back what is committed.
    tail.commit(4);
    assert_eq!(tail.first_missing(), Some(5));
    tail.commit(5);
    assert_eq!((tail.first_missing(), before(&tail, 5)), (None, None));
}

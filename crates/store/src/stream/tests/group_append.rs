//! Decisions that are several entries of a group's log.

use super::*;
use crate::record::LogEntryKind;

/// Some messages as one decision.
fn put_all(stream: &mut Stream, count: usize, now: Timestamp) {
    let message =
        NewMessage { subject: b"a", payload: b"ten bytes.", timestamp: now, ..NewMessage::default() };
    let mut outcomes = Vec::new();
    stream.append(&vec![message; count], Admission::Check, now, &mut outcomes).unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
}

/// A member whose entries have two such messages each.
fn small_entries(config: StreamConfig) -> (Bench, Stream) {
    let (bench, mut stream) = member(config);
    stream.bound_entries(80);
    (bench, stream)
}

#[test]
fn a_decision_is_released_when_its_last_part_is_committed() {
    let limits = Limits { messages: Some(6), ..Limits::default() };
    let config = StreamConfig { limits, ..StreamConfig::default() };
    let (_bench, mut leader) = small_entries(config);
    let (_other, mut follower) = member(StreamConfig::default());
    put_all(&mut leader, 4, 1);
    let first = leader.ticket();
    put_all(&mut leader, 5, 2);
    let decided = leader.take_decided();
    let more: Vec<bool> = decided.iter().map(|decided| decided.entry.more).collect();
    assert_eq!(more, [true, false, true, true, false]);
    assert!(decided.iter().all(|decided| decided.records().len() <= 80 || !decided.entry.more));
    for (decided, released) in decided.iter().zip([0, 4, 4, 4, 9]) {
        follower.append_decided(decided, 3).unwrap();
        for stream in [&mut leader, &mut follower] {
            stream.committed(decided.entry.index);
            assert_eq!(stream.released(), released);
        }
        assert_eq!(leader.release().is_released(first), released > 0);
    }
    assert!(leader.release().is_released(leader.ticket()));
    assert_eq!(sequences(&leader), [4, 5, 6, 7, 8, 9]);
    assert_eq!(contents(&follower), contents(&leader));
}

#[test]
fn a_message_that_is_larger_than_an_entry_has_one_of_its_own() {
    let (_bench, mut leader) = small_entries(StreamConfig::default());
    let long = [b'x'; 500];
    let message = |payload| NewMessage { subject: b"a", payload, timestamp: 1, ..NewMessage::default() };
    let messages = [message(b"short"), message(&long), message(b"short"), message(b"short")];
    leader.append(&messages, Admission::Check, 1, &mut Vec::new()).unwrap();
    let sizes: Vec<usize> = leader.take_decided().iter().map(|decided| decided.records().len()).collect();
    assert_eq!(sizes, [34, 529, 68]);
}

/// Whoever leads next takes away what a decision has brought that was not finished; nothing of it
/// is ever seen. What comes then goes on behind the sequences that it had.
#[test]
fn an_unfinished_decision_is_aborted_by_the_next_leader() {
    for is_opened_anew in [false, true] {
        let (_bench, mut leader) = small_entries(StreamConfig::default());
        let (mut bench, mut follower) = member(StreamConfig::default());
        let (_third, mut third) = member(StreamConfig::default());
        put_all(&mut leader, 1, 1);
        put_all(&mut leader, 6, 2);
        for decided in &leader.take_decided()[..3] {
            follower.append_decided(decided, 3).unwrap();
            third.append_decided(decided, 3).unwrap();
        }
        follower.committed(3);
        third.committed(3);
        assert!(follower.is_unfinished());
        assert_eq!((follower.released(), sequences(&follower)), (1, vec![1]));
        if is_opened_anew {
            follower.flush().unwrap();
            drop(follower);
            follower = bench.reopen(StreamConfig::default()).0;
            follower.committed(3);
            assert!(follower.is_unfinished());
            assert_eq!((follower.released(), sequences(&follower)), (1, vec![1]));
        }
        follower.lead(9);
        put(&mut follower, "b", "next", 4).unwrap();
        assert!(!follower.is_unfinished());
        let decided = follower.take_decided();
        assert_eq!(decided[0].entry.kind, LogEntryKind::Abort);
        assert_eq!((decided.len(), decided[0].entry.index, decided[0].entry.more), (2, 4, false));
        for decided in &decided {
            third.append_decided(decided, 5).unwrap();
            assert_eq!(third.released(), if decided.entry.index == 4 { 1 } else { 5 });
            for stream in [&mut follower, &mut third] {
                stream.committed(decided.entry.index);
                assert_eq!(stream.released(), if decided.entry.index == 4 { 5 } else { 6 });
            }
        }
        assert_eq!(sequences(&third), [1, 6]);
        assert_eq!(contents(&follower), contents(&third));
    }
}

/// The first leader is back with the rest of its decision: what aborted it was not committed.
#[test]
fn an_abort_that_is_taken_back_leaves_the_decision_as_it_was() {
    let (_bench, mut leader) = small_entries(StreamConfig::default());
    let (mut bench, mut follower) = member(StreamConfig::default());
    put_all(&mut leader, 6, 1);
    let decided = leader.take_decided();
    decided[..2].iter().for_each(|decided| follower.append_decided(decided, 2).unwrap());
    follower.abort_unfinished(3).unwrap();
    follower.committed(2);
    follower.take_back(3, 4).unwrap();
    assert!(follower.is_unfinished());
    follower.flush().unwrap();
    drop(follower);
    let (mut follower, report) = bench.reopen(StreamConfig::default());
    assert_eq!(report.notices, []);
    assert!(follower.is_unfinished());
    follower.append_decided(&decided[2], 5).unwrap();
    follower.committed(2);
    assert_eq!(follower.released(), 0);
    follower.committed(3);
    assert_eq!(sequences(&follower), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn an_entry_that_no_leader_writes_there_is_refused() {
    let (_bench, mut leader) = small_entries(StreamConfig::default());
    let (_other, mut follower) = member(StreamConfig::default());
    put_all(&mut leader, 3, 1);
    leader.delete(1, 2).unwrap();
    let decided = leader.take_decided();
    let refused = |follower: &mut Stream, at: usize, change: fn(&mut crate::record::LogEntry)| {
        let mut decided = decided[at].clone();
        change(&mut decided.entry);
        decided.entry.chain = decided.entry.chained(follower.group().unwrap().chain, decided.records());
        let error = follower.append_decided(&decided, 3).unwrap_err();
        assert!(matches!(error, StoreError::NotNext { .. }), "{error}");
    };
    refused(&mut follower, 0, |entry| (entry.kind, entry.more) = (LogEntryKind::Abort, false));
    refused(&mut follower, 0, |entry| entry.kind = LogEntryKind::Empty);
    let mut turned = decided[0].clone();
    turned.entry.more = false;
    assert!(follower.append_decided(&turned, 3).is_err(), "the chain says whether it goes on");
    decided[..2].iter().for_each(|decided| follower.append_decided(decided, 3).unwrap());
    refused(&mut follower, 2, |entry| entry.more = true);
    follower.append_decided(&decided[2], 3).unwrap();
}

/// A segment that was sealed ends within a decision: all of that is committed, whatever the rest of
/// it says was known.
#[test]
fn a_decision_that_begins_in_a_sealed_segment_is_committed() {
    let (_bench, mut leader) = small_entries(StreamConfig::default());
    let (mut bench, mut follower) = member(StreamConfig::default());
    put_all(&mut leader, 4, 1);
    let decided = leader.take_decided();
    follower.append_decided(&decided[0], 2).unwrap();
    follower.close_segment(0, 3).unwrap();
    follower.append_decided(&decided[1], 4).unwrap();
    follower.committed(2);
    let job = follower.next_job(5).expect("its first segment is to be sealed");
    follower.finish(job.run(), 5).unwrap();
    follower.flush().unwrap();
    drop(follower);
    let (follower, report) = bench.reopen(StreamConfig::default());
    assert_eq!(report.notices, []);
    assert_eq!(sequences(&follower), [1, 2, 3, 4]);
}

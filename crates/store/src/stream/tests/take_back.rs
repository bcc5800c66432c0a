//! Entries of a group's log that are taken back.

use super::*;
use crate::record::ConsumerRecord;

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

//! Bounds of requests and batches, however large their numbers are, and messages that slices of
//! work leave alone.

use super::*;

fn stream_of(config: StreamConfig, messages: i64) -> Stream {
    let mut stream = Stream::in_memory(config, 7, 1);
    for n in 1..=messages {
        put(&mut stream, &format!("a.{}", n % 3), "x", n).unwrap();
    }
    stream
}

#[test]
fn a_purge_spares_what_is_stored_between_its_slices() {
    let mut stream = stream_of(StreamConfig::default(), 30);
    let mut purge = Purge { filter: Some(Filter::new(b"a.1")), keep: 2, ..Purge::default() };
    assert!(stream.purge(&mut purge, 3, 1).unwrap().more);
    for n in 31..=39 {
        put(&mut stream, &format!("a.{}", n % 3), "x", n).unwrap();
    }
    while stream.purge(&mut purge, 3, 1).unwrap().more {}
    let left: Vec<_> = sequences(&stream).into_iter().filter(|seq| seq % 3 == 1).collect();
    assert_eq!(left, [25, 28, 31, 34, 37], "two of those from the beginning, and all that came later");
    let mut purge = Purge { keep: 4, ..Purge::default() };
    assert!(stream.purge(&mut purge, 1, 1).unwrap().more);
    put(&mut stream, "b", "x", 40).unwrap();
    while stream.purge(&mut purge, 5, 1).unwrap().more {}
    assert_eq!(sequences(&stream), [36, 37, 38, 39, 40]);
}

#[test]
fn sequences_that_leave_no_room_are_refused() {
    const HIGHEST: Seq = 1 << 62;
    everywhere(StreamConfig::default(), |stream| {
        put(stream, "a", "x", 1).unwrap();
        for seq in [HIGHEST + 1, Seq::MAX] {
            let refused = |result| matches!(result, Err(StoreError::SequenceTooHigh(at)) if at == seq);
            assert!(refused(stream.compact(seq, 10, 1).map(drop)));
            assert!(refused(stream.skip(seq, 1)));
            assert!(refused(stream.purge(&mut Purge { below: seq, ..Purge::default() }, 10, 1).map(drop)));
            assert_eq!(stream.delete(seq, 1).unwrap(), Removed::default());
            assert_eq!(stream.truncate(seq, 1).unwrap(), Removed::default());
        }
        assert_eq!(sequences(stream), [1]);
        let budget = usize::MAX;
        assert!(!stream.compact(HIGHEST, budget, 1).unwrap().more);
        assert_eq!(put(stream, "a", "x", 2), Ok(HIGHEST));
        assert_eq!(stream.compact(HIGHEST, budget, 1).unwrap(), RemovalProgress::default());
        assert_eq!(put(stream, "a", "x", 2), Ok(HIGHEST + 1));
        assert_eq!(stream.purge(&mut Purge::default(), budget, 1).unwrap().removed.messages, 2);
        assert_eq!(put(stream, "a", "x", 3), Ok(HIGHEST + 2));
    });
    let config = StreamConfig { first_seq: Seq::MAX, ..StreamConfig::default() };
    assert_eq!(put(&mut Stream::in_memory(config, 1, 1), "a", "x", 1), Ok(HIGHEST));
}

#[test]
fn tightened_limits_are_met_little_by_little() {
    let everything = [
        Limits { messages: Some(10), ..Limits::default() },
        Limits { bytes: Some(400), ..Limits::default() },
        Limits { messages_per_subject: Some(1), ..Limits::default() },
    ];
    for limits in everything {
        let story = |stream: &mut Stream| {
            for n in 1..=1000 {
                put(stream, "a", "x", n).unwrap();
            }
            stream.set_config(StreamConfig { limits, ..*stream.config() }, 1).unwrap();
            put(stream, "a", "x", 1001).unwrap();
            assert_eq!(stream.state().totals.messages, 1000 - 64);
            assert_eq!(stream.evicted(), [1..=65]);
            put(stream, "a", "x", 1002).unwrap();
            assert_eq!((stream.state().totals.messages, stream.evicted()), (1000 - 128, &[66..=130][..]));
            while stream.enforce(100, 1).unwrap() {}
            put(stream, "a", "x", 1003).unwrap();
            assert!(stream.state().totals.messages <= 25);
            assert_eq!(stream.evicted().len(), 1, "as many go as come");
            stream.set_config(StreamConfig { limits: Limits::default(), ..*stream.config() }, 1).unwrap();
        };
        story(&mut Stream::in_memory(StreamConfig::default(), 7, 1));
        story(&mut Bench::new().create(StreamConfig::default()));
    }
}

#[test]
fn a_large_message_takes_the_place_of_many_small_ones() {
    let limits = Limits { bytes: Some(100_000), ..Limits::default() };
    let mut stream = Bench::new().create(StreamConfig { limits, ..StreamConfig::default() });
    // 32 bytes each.
    for n in 1..=4000 {
        put(&mut stream, "a", "x", n).unwrap();
    }
    assert_eq!(stream.state().totals.messages, 3125);
    put(&mut stream, "a", &"x".repeat(90_000), 4001).unwrap();
    assert!(stream.state().totals.bytes <= 100_000);
}

#[test]
fn what_a_batch_evicts_is_told() {
    let limits = Limits { messages: Some(6), messages_per_subject: Some(2), ..Limits::default() };
    everywhere(StreamConfig { limits, ..StreamConfig::default() }, |stream| {
        for (n, subject) in ["a", "b", "c", "c", "a"].into_iter().enumerate() {
            put(stream, subject, "x", n as i64).unwrap();
            assert_eq!(stream.evicted(), []);
        }
        put(stream, "c", "x", 6).unwrap();
        assert_eq!(stream.evicted(), [3..=3]);
        put(stream, "d", "x", 7).unwrap();
        assert_eq!(stream.evicted(), []);
        put(stream, "c", "x", 8).unwrap();
        assert_eq!(stream.evicted(), [4..=4]);
        put(stream, "d", "x", 9).unwrap();
        assert_eq!(stream.evicted(), [1..=1]);
        assert_eq!(stream.last_of(b"c").unwrap(), Some(8));
        assert_eq!(stream.last_of(b"b").unwrap(), Some(2));
        assert_eq!(stream.last_of(b"e").unwrap(), None);
    });
}

#[test]
fn the_last_of_a_subject_need_not_be_released() {
    let bench = Bench::new();
    let mut stream = bench.create(StreamConfig { durability: Durability::Synced, ..StreamConfig::default() });
    put(&mut stream, "a", "x", 1).unwrap();
    assert_eq!(stream.released(), 0);
    assert_eq!(stream.last_of(b"a").unwrap(), Some(1));
    assert_eq!(stream.reader().last_seq(&Filter::new(b"a")).unwrap(), None);
}

#[test]
fn batches_larger_than_a_segment_are_refused() {
    let payload = vec![0; 32 << 20];
    let message = NewMessage { subject: b"a", payload: &payload, ..NewMessage::default() };
    let mut stream = stream_of(StreamConfig::default(), 1);
    let refused = stream.append(&[message; 130], Admission::Check, 1, &mut Vec::new());
    assert!(matches!(refused, Err(StoreError::TooLarge)), "{refused:?}");
    assert_eq!(put(&mut stream, "a", "x", 1), Ok(2));
}

#[test]
fn a_message_without_a_subject_is_refused() {
    everywhere(StreamConfig::default(), |stream| {
        assert_eq!(put(stream, "", "x", 1), Err(AppendRefusal::NoSubject));
        assert_eq!(put(stream, "a", "x", 1), Ok(1));
    });
}

#[test]
fn a_clock_that_goes_back_hides_nothing() {
    let mut stream =
        Stream::in_memory(StreamConfig { segment_bytes: Some(400), ..StreamConfig::default() }, 7, 1);
    for timestamp in [10, 20, 90, 30, 40, 50, 60] {
        put(&mut stream, "a", "x", timestamp).unwrap();
    }
    let times: Vec<_> = stream.shared.catalog().segments().iter().map(|view| view.reached).collect();
    assert!(times.len() > 3 && times.is_sorted() && times.last() == Some(&90), "{times:?}");
    assert_eq!(stream.state().totals.last_timestamp, 60);
    assert_eq!(stream.reader().seq_at(15).unwrap(), 2);
    assert_eq!(stream.reader().seq_at(35).unwrap(), 3);
}

#[test]
fn lifetimes_of_messages_that_are_gone_are_forgotten() {
    let limits = Limits { messages_per_subject: Some(1), ..Limits::default() };
    let mut stream = Stream::in_memory(StreamConfig { limits, ..StreamConfig::default() }, 7, 1);
    for n in 0..20_000 {
        let subject = format!("a.{}", n % 100);
        let message = NewMessage {
            subject: subject.as_bytes(),
            timestamp: n,
            // Neither in the order of arrival nor in the reverse one.
            expires: Some(1_000_000 + n * 7919 % 20_000),
            ..NewMessage::default()
        };
        stream.append(&[message], Admission::Check, n, &mut Vec::new()).unwrap();
    }
    // Twice as many as there are messages, and some.
    let kept = stream.shared.catalog().lifetimes().0;
    assert!(kept < 2 * 100 + 1024 + 100, "{kept} lifetimes");
    while stream.tidy(1) {}
    assert!(stream.shared.catalog().lifetimes().0 <= 2 * 100 + 1024);
    assert_eq!(stream.expire(2_000_000, 1000, None).unwrap().removed.messages, 100);
}

#[test]
fn messages_that_never_end_are_passed_over_once() {
    let limits = Limits { age: Some(Duration::from_nanos(10)), ..Limits::default() };
    everywhere(StreamConfig { limits, ..StreamConfig::default() }, |stream| {
        let until = |stream: &Stream| stream.shared.catalog().lifetimes().1;
        let store = |stream: &mut Stream, timestamp, expires| {
            let message = NewMessage { subject: b"a", timestamp, expires, ..NewMessage::default() };
            stream.append(&[message], Admission::Check, timestamp, &mut Vec::new()).unwrap();
        };
        (1..=5).for_each(|n| store(stream, n, Some(Timestamp::MAX)));
        assert_eq!((stream.next_expiry().unwrap(), until(stream)), (None, 6));
        (6..=8).for_each(|n| store(stream, n, None));
        assert_eq!((stream.next_expiry().unwrap(), until(stream)), (Some(16), 6));
        assert_eq!(stream.expire(17, 10, None).unwrap().removed.messages, 2);
        assert_eq!((stream.next_expiry().unwrap(), until(stream)), (Some(18), 8));
        // Sequences that are given out again may end.
        stream.truncate(3, 1).unwrap();
        store(stream, 20, None);
        assert_eq!((stream.next_expiry().unwrap(), until(stream)), (Some(30), 4));
        assert_eq!(stream.expire(30, 10, None).unwrap().removed.messages, 1);
        stream.delete(1, 1).unwrap();
        assert_eq!(sequences(stream), [2, 3]);
    });
}

#[test]
fn what_is_known_of_lifetimes_goes_with_their_messages() {
    let limits = Limits { messages: Some(3), age: Some(Duration::from_nanos(10)), ..Limits::default() };
    everywhere(StreamConfig { limits, ..StreamConfig::default() }, |stream| {
        for timestamp in 1..=5 {
            let expires = Some(Timestamp::MAX);
            let message = NewMessage { subject: b"a", timestamp, expires, ..NewMessage::default() };
            stream.append(&[message], Admission::Check, timestamp, &mut Vec::new()).unwrap();
        }
        let known = |stream: &Stream| -> Vec<Seq> {
            let catalog = stream.shared.catalog();
            (1..=6).filter(|seq| catalog.never_expires(*seq)).collect()
        };
        assert_eq!((sequences(stream), known(stream)), (vec![3, 4, 5], vec![3, 4, 5]));
        stream.delete(4, 1).unwrap();
        assert_eq!(known(stream), [3, 5]);
        stream.compact(5, 10, 1).unwrap();
        assert_eq!(known(stream), [5]);
    });
}

#[test]
fn the_table_of_a_head_that_rests_is_let_go_of() {
    let limits = Limits { messages: Some(5), ..Limits::default() };
    let mut stream =
        Stream::in_memory(StreamConfig { limits, segment_bytes: Some(400), ..StreamConfig::default() }, 7, 1);
    for n in 1..=20 {
        put(&mut stream, "a", "x", n).unwrap();
    }
    stream.tidy(1);
    assert!(stream.shared.catalog().has_head_table());
    stream.tidy(1);
    assert!(!stream.shared.catalog().has_head_table());
    assert_eq!(put(&mut stream, "a", "x", 21), Ok(21));
    assert_eq!(sequences(&stream), [17, 18, 19, 20, 21]);
}

#[test]
fn what_is_not_released_is_not_counted() {
    let bench = Bench::new();
    let mut stream = bench.create(StreamConfig { durability: Durability::Synced, ..StreamConfig::default() });
    let reader = stream.reader();
    let all = Filter::All;
    let one = Filter::new(b"a.1");
    for n in 1..=6 {
        put(&mut stream, &format!("a.{}", n % 2), "x", n).unwrap();
    }
    assert_eq!((reader.pending(&all, 0).unwrap(), reader.seq_at(3).unwrap()), (0, 1));
    bench.store.as_ref().unwrap().journal().round_now(&|| 1).unwrap();
    assert_eq!((reader.pending(&all, 0).unwrap(), reader.seq_at(3).unwrap()), (6, 3));
    for n in 7..=9 {
        put(&mut stream, &format!("a.{}", n % 2), "x", n).unwrap();
    }
    assert_eq!(reader.pending(&all, 3).unwrap(), 4);
    assert_eq!((reader.pending(&one, 0).unwrap(), reader.pending(&one, 5).unwrap()), (3, 1));
    assert_eq!((reader.pending(&one, 7).unwrap(), reader.pending(&all, 100).unwrap()), (0, 0));
    assert_eq!(reader.seq_at(8).unwrap(), 7);
}

/// Time follows the messages: one step for each sequence would take years.
#[test]
fn sequences_that_were_skipped_cost_nothing() {
    const FAR: Seq = 1 << 60;
    let limits = Limits { age: Some(Duration::from_nanos(10)), ..Limits::default() };
    everywhere(StreamConfig { limits, ..StreamConfig::default() }, |stream| {
        for n in 1..=5 {
            put(stream, "a", "x", n).unwrap();
        }
        stream.delete(4, 5).unwrap();
        stream.skip(FAR, 6).unwrap();
        assert_eq!(put(stream, "b", "y", 7), Ok(FAR + 1));
        let bytes = stream.state().totals.bytes;
        let removed = stream.truncate(2, 8).unwrap();
        assert_eq!((removed.messages, stream.state().totals.messages), (3, 2));
        assert_eq!(removed.bytes + stream.state().totals.bytes, bytes);
        assert_eq!((stream.state().subjects, stream.state().deleted), (1, 0));
        assert_eq!(put(stream, "a", "x", 9), Ok(3));
        stream.skip(FAR, 10).unwrap();
        put(stream, "a", "z", 30).unwrap();
        assert_eq!(stream.expire(35, 100, None).unwrap().removed.messages, 3);
        assert_eq!(sequences(stream), [FAR + 1]);
        assert_eq!(stream.truncate(1, 36).unwrap().messages, 1);
        assert_eq!((stream.state().totals.first_seq, stream.state().totals.last_seq), (2, 1));
        assert_eq!(put(stream, "a", "x", 37), Ok(2));
    });
}

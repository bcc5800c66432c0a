//! What requests and batches may not do, however large their numbers are, and what slices of work leave alone.

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
    const HIGHEST: Seq = 1 << 63;
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
        assert_eq!(stream.compact(HIGHEST, budget, 1).unwrap(), Progress::default());
        assert_eq!(put(stream, "a", "x", 2), Ok(HIGHEST + 1));
        assert_eq!(stream.purge(&mut Purge::default(), budget, 1).unwrap().removed.messages, 2);
        assert_eq!(put(stream, "a", "x", 3), Ok(HIGHEST + 2));
    });
    let config = StreamConfig { first_seq: Seq::MAX, ..StreamConfig::default() };
    assert_eq!(put(&mut Stream::in_memory(config, 1, 1), "a", "x", 1), Ok(HIGHEST));
}

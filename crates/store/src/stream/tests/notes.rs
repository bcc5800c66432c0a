//! Notes of a stream, and its configuration, in the log of its group.

use super::*;

fn all(stream: &Stream) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    stream.notes().map(|(key, value)| (text(key), text(value))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn notes_count_when_they_are_released_and_the_last_of_a_key_does() {
    let (_bench, mut leader) = member(StreamConfig::default());
    let (_other, mut follower) = member(StreamConfig::default());
    leader.propose_notes(&[(b"a", b"1"), (b"b", b"1")], 1).unwrap();
    leader.propose_config(b"as it was made", 1).unwrap();
    leader.propose_notes(&[(b"a", b"2"), (b"b", b"")], 2).unwrap();
    leader.propose_config(b"changed", 2).unwrap();
    assert_eq!((all(&leader), leader.decided_config()), (vec![], None));
    assert_eq!((leader.decided_note(b"a"), leader.decided_note(b"b")), (Some(&b"2"[..]), None));
    for decided in leader.take_decided() {
        follower.append_decided(&decided, 3).unwrap();
    }
    for (commit, expected, config) in [
        (1, vec![("a", "1"), ("b", "1")], None),
        (2, vec![("a", "1"), ("b", "1")], Some((2, &b"as it was made"[..]))),
        (4, vec![("a", "2")], Some((4, &b"changed"[..]))),
    ] {
        for stream in [&mut leader, &mut follower] {
            stream.committed(commit);
            assert_eq!((all(stream), stream.decided_config()), (pairs(&expected), config));
        }
    }
}

#[test]
fn notes_that_are_taken_back_were_never_there() {
    let (mut bench, mut stream) = member(StreamConfig::default());
    stream.propose_notes(&[(b"a", b"1")], 1).unwrap();
    stream.committed(1);
    stream.propose_notes(&[(b"a", b""), (b"b", b"2")], 2).unwrap();
    stream.propose_config(b"another", 2).unwrap();
    stream.take_back(2, 3).unwrap();
    assert_eq!((stream.decided_note(b"a"), stream.decided_note(b"b")), (Some(&b"1"[..]), None));
    put(&mut stream, "s", "x", 4).unwrap();
    stream.committed(2);
    assert_eq!((all(&stream), stream.decided_config()), (pairs(&[("a", "1")]), None));
    stream.flush().unwrap();
    drop(stream);
    let (mut stream, _) = bench.reopen(StreamConfig::default());
    stream.committed(2);
    assert_eq!((all(&stream), stream.decided_config()), (pairs(&[("a", "1")]), None));
}

/// Segments that say notes are sealed, merged and compacted away: the notes stay.
#[test]
fn notes_outlive_the_segments_that_say_them() {
    let config = StreamConfig { segment_bytes: Some(400), ..StreamConfig::default() };
    let (mut bench, mut stream) = member(config);
    stream.propose_config(b"blob", 1).unwrap();
    for now in 1..=40 {
        put(&mut stream, "s", "some bytes to fill a segment", now).unwrap();
        let (key, value) = (format!("key {}", now % 3), format!("{now}"));
        stream.propose_notes(&[(key.as_bytes(), value.as_bytes())], now).unwrap();
        stream.committed(stream.group().unwrap().index);
        stream.purge(&mut Purge::default(), usize::MAX, now).unwrap();
        stream.committed(stream.group().unwrap().index);
        // A manifest waits for the header of the next segment.
        bench.store.as_ref().unwrap().journal().round_now(&|| now.unsigned_abs()).unwrap();
        while let Some(job) = stream.next_job(now) {
            stream.finish(job.run(), now).unwrap();
        }
    }
    let expected = pairs(&[("key 0", "39"), ("key 1", "40"), ("key 2", "38")]);
    let commit = stream.group().unwrap().index;
    assert!(bench.disk.list(&stream.files().unwrap().directory).unwrap().len() < 12, "old segments go");
    stream.flush().unwrap();
    drop(stream);
    let (mut stream, report) = bench.reopen(config);
    assert_eq!(report.notices, []);
    stream.committed(commit);
    assert_eq!((all(&stream), stream.decided_config()), (expected, Some((1, &b"blob"[..]))));
}

#[test]
fn notes_are_bounded() {
    let (_bench, mut stream) = member(StreamConfig::default());
    let value = vec![b'x'; 64 << 10];
    let mut refused = 0;
    for n in 0..70_u8 {
        refused += u32::from(stream.propose_notes(&[(&[n], &value)], 1).is_err());
    }
    assert_eq!(refused, 7, "together they have at most 4 MiB");
    for (key, value) in [(&b""[..], &b"x"[..]), (&[b'k'; 1025], b"x"), (b"k", &[b'x'; (64 << 10) + 1])] {
        let error = stream.propose_notes(&[(key, value)], 1).unwrap_err();
        assert!(matches!(error, StoreError::TooLarge), "{error}");
    }
    let mut alone = Stream::in_memory(StreamConfig::default(), 1, 1);
    assert!(matches!(alone.propose_config(b"x", 1), Err(StoreError::NotNext { expected: 0 })));
}

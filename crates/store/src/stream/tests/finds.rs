//! Finding and reading in one: the same as by sequence, and nothing is missed while a writer goes
//! on.

use std::collections::BTreeMap;

use super::*;

fn keys(limit: Option<u64>) -> StreamConfig {
    let limits = Limits { messages_per_subject: limit, ..Limits::default() };
    StreamConfig { limits, ..StreamConfig::default() }
}

/// Sixty messages of seven subjects, some of them deleted.
fn fill(stream: &mut Stream) {
    for n in 1..=60 {
        put(stream, &format!("k.{}", n * n % 7 + n % 2), "x", n).unwrap();
    }
    for seq in [7, 20, 21, 22, 58, 60] {
        stream.delete(seq, 60).unwrap();
    }
}

#[test]
fn the_last_of_each_subject_up_to_anywhere() {
    everywhere(keys(None), |stream| {
        fill(stream);
        check_last(stream);
    });
}

#[test]
fn the_last_of_each_subject_in_sealed_segments() {
    let bench = Bench::new();
    let mut stream = bench.create(StreamConfig { segment_bytes: Some(400), ..keys(None) });
    fill(&mut stream);
    while let Some(job) = stream.next_job(100) {
        let done = job.run();
        stream.finish(done, 100).unwrap();
    }
    let is_sealed = |view: &SegmentView| matches!(view.form, Form::Sealed);
    assert!(stream.shared().catalog().segments().iter().filter(|view| is_sealed(view)).count() > 2);
    check_last(&stream);
}

/// Compares all answers with what a walk over the messages says.
fn check_last(stream: &Stream) {
    let (reader, contents) = (stream.reader(), contents(stream));
    for to in 0..=62 {
        for patterns in [&["k.*"][..], &["k.1", "k.2", "k.1"], &["k.3", ">"], &["none", "k.0"], &[""]] {
            let mut last = BTreeMap::new();
            for (seq, subject, _) in contents.iter().filter(|(seq, ..)| *seq <= to) {
                if Filter::any(patterns.iter().map(|p| p.as_bytes().to_vec()).collect())
                    .accepts(subject.as_bytes())
                    && patterns != [""]
                {
                    last.insert(subject.clone(), *seq);
                }
            }
            let mut expected: Vec<Seq> = last.into_values().collect();
            expected.sort_unstable();
            let find = |limit| {
                let found = reader.find_last(patterns, to, limit).unwrap();
                found.map(|found| found.iter().map(FoundMessage::seq).collect::<Vec<_>>())
            };
            assert_eq!(find(100), Some(expected.clone()), "{patterns:?} up to {to}");
            assert_eq!(find(expected.len()), Some(expected.clone()));
            if !expected.is_empty() {
                assert_eq!(find(expected.len() - 1), None, "one too many");
            }
        }
    }
}

#[test]
fn one_message_by_its_subject() {
    everywhere(keys(None), |stream| {
        fill(stream);
        let (reader, contents) = (stream.reader(), contents(stream));
        let mut buffer = Vec::new();
        for pattern in ["k.1", "k.2", "k.*", ">", "none"] {
            let filter = Filter::new(pattern.as_bytes());
            let passing: Vec<Seq> =
                contents.iter().filter(|c| filter.accepts(c.1.as_bytes())).map(|c| c.0).collect();
            let last = reader.last(&filter, Wait::Forbidden, &mut buffer).unwrap().map(|m| m.seq);
            assert_eq!(last, passing.last().copied(), "{pattern}");
            if matches!(filter, Filter::Subject(_)) {
                let last = reader.last_of(pattern.as_bytes(), Wait::Forbidden, &mut buffer).unwrap();
                assert_eq!(last.map(|m| m.seq), passing.last().copied(), "{pattern}");
            }
            for from in 0..=61 {
                let expected = passing.iter().copied().find(|seq| *seq >= from);
                let next = reader.next(&filter, (from, Seq::MAX), Wait::Forbidden, &mut buffer).unwrap();
                assert_eq!(next.map(|m| m.seq), expected, "{pattern} from {from}");
                let near = reader.next(&filter, (from, from + 3), Wait::Forbidden, &mut buffer).unwrap();
                assert_eq!(near.map(|m| m.seq), expected.filter(|seq| *seq <= from + 3));
                let mut found = Vec::new();
                reader.find(&filter, (from, 50), 4, &mut found).unwrap();
                let seqs: Vec<Seq> = found.iter().map(FoundMessage::seq).collect();
                let range = passing.iter().copied().filter(|seq| (from..=50).contains(seq));
                assert_eq!(seqs, range.take(4).collect::<Vec<_>>(), "{pattern} from {from}");
            }
        }
    });
}

#[test]
fn what_was_found_stays_readable_when_it_is_replaced() {
    everywhere(keys(Some(1)), |stream| {
        put(stream, "key", "old", 1).unwrap();
        let reader = stream.reader();
        let found = reader.find_last(&["key"], Seq::MAX, 1).unwrap().unwrap();
        put(stream, "key", "new", 2).unwrap();
        let mut buffer = Vec::new();
        let old = reader.fetch(&found[0], Wait::Allowed, &mut buffer).unwrap();
        assert_eq!((old.seq, old.payload), (1, &b"old"[..]));
        let new = reader.last_of(b"key", Wait::Allowed, &mut buffer).unwrap().unwrap();
        assert_eq!((new.seq, new.payload), (2, &b"new"[..]));
    });
}

#[test]
fn a_key_is_never_missing_between_an_eviction_and_its_release() {
    let bench = Bench::new();
    let config = StreamConfig { durability: crate::Durability::Synced, ..keys(Some(1)) };
    let mut stream = bench.create(config);
    put(&mut stream, "key", "old", 1).unwrap();
    let (reader, mut buffer) = (stream.reader(), Vec::new());
    assert!(reader.last_of(b"key", Wait::Allowed, &mut buffer).unwrap().is_none());
    assert!(reader.last(&Filter::All, Wait::Allowed, &mut buffer).unwrap().is_none());
    assert!(reader.find_last(&["key"], Seq::MAX, 1).unwrap().unwrap().is_empty());
    assert!(reader.subjects(b">", None, 9).is_empty());
    assert_eq!((reader.state().totals.messages, stream.state().totals.messages), (0, 1));
    bench.store.as_ref().unwrap().journal().round_now(&|| 10).unwrap();
    assert_eq!(stream.released(), 1);
    put(&mut stream, "key", "new", 2).unwrap();
    assert_eq!(
        (stream.last_of(b"key").unwrap(), stream.count_of(b"key"), stream.has(1)),
        (Some(2), 1, false)
    );
    let key = reader.last_of(b"key", Wait::Allowed, &mut buffer).unwrap().unwrap();
    assert_eq!(key.payload, b"old", "the old one is there until the new one is released");
    assert_eq!(reader.state().totals.last_seq, 1);
    bench.store.as_ref().unwrap().journal().round_now(&|| 20).unwrap();
    let key = reader.last_of(b"key", Wait::Allowed, &mut buffer).unwrap().unwrap();
    assert_eq!(key.payload, b"new");
}

//! Batches in the log that are not released.

use super::*;

fn round(bench: &Bench, now: u64) {
    bench.store.as_ref().unwrap().journal().round_now(&|| now).unwrap();
}

/// Nobody who reads waits for the disk while a round releases: what was looked at for a decision
/// may have left the cache since.
#[test]
fn tables_that_a_release_needs_are_read_before_the_lock_is_taken() {
    let bench = Bench::new();
    let config =
        StreamConfig { durability: Durability::Synced, segment_bytes: Some(400), ..StreamConfig::default() };
    let mut stream = bench.create(config);
    for n in 1..=40 {
        put(&mut stream, &format!("s.{n}"), "some bytes to fill a segment", n).unwrap();
    }
    round(&bench, 41);
    while let Some(job) = stream.next_job(42) {
        stream.finish(job.run(), 42).unwrap();
        round(&bench, 42);
    }
    stream.compact(12, 100, 43).unwrap();
    stream.delete_all(&[16, 30, 40], 43).unwrap();
    assert_eq!(stream.reader().state().totals.messages, 40, "nothing of it is released");
    let slots = Arc::clone(&stream.files().unwrap().store_env.slots);
    let catalog = stream.shared.catalog();
    let segments: Vec<_> = catalog.segments().iter().map(|view| Arc::clone(&view.segment)).collect();
    segments.iter().for_each(|segment| slots.forget(segment));
    let tables = catalog.tables_to_release(2);
    let needed: Vec<_> = [1, 5, 11, 16, 30].iter().filter_map(|seq| catalog.segment_of(*seq)).collect();
    drop(catalog);
    tables.read();
    for (at, segment) in segments.iter().enumerate() {
        let is_needed = needed.contains(&at) && segment.is_sealed();
        assert!(slots.at_hand(segment).is_some() || !is_needed, "the table of segment {at} is needed");
        assert!(slots.at_hand(segment).is_none() || at <= needed[needed.len() - 1], "nobody needs {at}");
    }
    assert!(segments.iter().filter(|segment| slots.at_hand(segment).is_some()).count() > 3);
    round(&bench, 44);
    assert_eq!(stream.reader().state().totals.messages, 26);
}

/// In a group something waits all the time.
#[test]
fn lifetimes_that_were_looked_at_are_forgotten_with_their_messages() {
    let bench = Bench::new();
    let mut stream = bench.create(StreamConfig::default());
    stream.join_group(GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 }, 1).unwrap();
    let mut committed = 0;
    for n in 1..=100 {
        let message =
            NewMessage { subject: b"a", timestamp: n, expires: Some(n + 1), ..NewMessage::default() };
        stream.append(&[message], Admission::Check, n, &mut Vec::new()).unwrap();
        stream.expire(n, 10, None).unwrap();
        stream.committed(committed);
        committed = stream.group().unwrap().index;
        let noted = stream.shared.catalog().noted_lifetimes();
        assert!(noted <= 4, "{noted} lifetimes are noted behind {n} messages");
    }
    assert!(stream.shared.catalog().has_unreleased());
    assert!(stream.state().totals.messages < 5);
}

//! A stream from end to end, in memory and on a disk in memory.

use std::sync::Arc;
use std::time::Duration;

use myelin_disk::Disk;
use myelin_disk::memory::MemoryDisk;

use super::*;
use crate::config::{Compression, Discard, Limits};
use crate::entropy::SeededEntropy;
use crate::store::{Store, StoreOptions};
use crate::{Message, StreamReport};

mod blocks;
mod bounds;
mod faults;
mod finds;
mod given_back;
mod group;
mod group_append;
mod group_consumers;
mod install;
mod log_read;
mod notes;
mod take_back;
mod unreleased;

/// A store on a disk in memory, which can be opened again.
struct Bench {
    disk: Arc<dyn Disk>,
    store: Option<Store>,
    seed: u64,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self { disk: Arc::new(MemoryDisk::new()), store: None, seed: 0 };
        bench.open();
        bench
    }

    fn open(&mut self) -> Vec<crate::FoundStream> {
        self.store = None;
        self.seed += 1;
        let entropy = Arc::new(SeededEntropy::new(self.seed));
        let options = StoreOptions {
            journal_file_bytes: 1 << 20,
            reserve: crate::Reserve::Nothing,
            ..StoreOptions::new("/store")
        };
        let (store, report) = Store::open(Arc::clone(&self.disk), options, entropy).unwrap();
        assert_eq!(report.notices, []);
        assert!(report.unreadable.is_empty());
        self.store = Some(store);
        report.streams
    }

    fn create(&self, config: StreamConfig) -> Stream {
        self.store.as_ref().unwrap().create_stream("A", "S", b"", config, 1).unwrap()
    }

    fn reopen(&mut self, config: StreamConfig) -> (Stream, StreamReport) {
        let found = self.open();
        assert_eq!(found.len(), 1);
        self.store.as_ref().unwrap().open_stream(found[0].id, config, 1).unwrap()
    }
}

/// Where the log of a group begins.
const BEGINNING: GroupPosition = GroupPosition { epoch: 3, term: 5, index: 0, chain: 0, commit: 0 };

/// A stream of its own store that has joined a group.
fn member(config: StreamConfig) -> (Bench, Stream) {
    let bench = Bench::new();
    let mut stream = bench.create(config);
    stream.join_group(BEGINNING, 1).unwrap();
    (bench, stream)
}

fn put(stream: &mut Stream, subject: &str, payload: &str, timestamp: Timestamp) -> AppendResult {
    let message = NewMessage {
        subject: subject.as_bytes(),
        payload: payload.as_bytes(),
        timestamp,
        ..NewMessage::default()
    };
    let mut outcomes = Vec::new();
    stream.append(&[message], Admission::Check, timestamp, &mut outcomes).unwrap();
    outcomes.pop().unwrap()
}

/// Everything a reader sees: sequence, subject, payload.
fn contents(stream: &Stream) -> Vec<(Seq, String, String)> {
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    let mut all = Vec::new();
    while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        all.push((message.seq, text(message.subject), text(message.payload)));
    }
    all
}

fn sequences(stream: &Stream) -> Vec<Seq> {
    contents(stream).into_iter().map(|(seq, ..)| seq).collect()
}

/// Runs the same story on a stream in memory and on one in files, which is opened again at its end.
fn everywhere(config: StreamConfig, story: impl Fn(&mut Stream)) {
    let mut memory = Stream::in_memory(config, 7, 1);
    story(&mut memory);
    for segment_bytes in [None, Some(400)] {
        let mut bench = Bench::new();
        let config = StreamConfig { segment_bytes, ..config };
        let mut stream = bench.create(config);
        story(&mut stream);
        assert_eq!(contents(&stream), contents(&memory));
        let (state, before) = (stream.state(), contents(&stream));
        let mut told = state.totals;
        drop(stream);
        let (stream, report) = bench.reopen(config);
        assert_eq!(report.notices, []);
        assert_eq!(contents(&stream), before);
        let found = stream.state();
        told.first_timestamp = found.totals.first_timestamp;
        assert_eq!((found.totals, found.subjects, found.deleted), (told, state.subjects, state.deleted));
    }
}

#[test]
fn a_stream_that_nobody_has_any_more_takes_no_memory() {
    let bench = Bench::new();
    let mut stream = bench.create(StreamConfig { segment_bytes: Some(400), ..StreamConfig::default() });
    for n in 1..=20 {
        put(&mut stream, "a", "x", n).unwrap();
    }
    let (shared, file) = (Arc::downgrade(stream.shared()), Arc::downgrade(&stream.active.file));
    drop(stream);
    assert!(shared.upgrade().is_none(), "its last segment keeps it");
    drop(bench);
    assert!(file.upgrade().is_none(), "the journal keeps it");
}

#[test]
fn messages_come_back_in_order() {
    everywhere(StreamConfig::default(), |stream| {
        for n in 1..=20 {
            assert_eq!(put(stream, &format!("a.{}", n % 3), &format!("m{n}"), n as i64), Ok(n));
        }
        let reader = stream.reader();
        let mut buffer = Vec::new();
        let seventh = reader.get(7, Wait::Allowed, &mut buffer).unwrap().unwrap();
        assert_eq!((seventh.payload, seventh.timestamp), (&b"m7"[..], 7));
        assert_eq!(reader.get(21, Wait::Allowed, &mut buffer).unwrap(), None);
        assert_eq!(reader.last_seq(&Filter::new(b"a.1")).unwrap(), Some(19));
        assert_eq!(reader.last_seq(&Filter::new(b"a.*")).unwrap(), Some(20));
        assert_eq!(reader.next_seq(&Filter::new(b"a.2"), 3).unwrap(), Some(5));
        let until = |to| reader.next_seq_until(&Filter::new(b"a.2"), 3, to).unwrap();
        assert_eq!((until(4), until(5)), (None, Some(5)));
        assert_eq!(reader.seq_at(12).unwrap(), 12);
        assert_eq!(reader.seq_at(50).unwrap(), 21);
        let times = [0, 1, 20, 21].map(|seq| reader.time_of(seq).unwrap());
        assert_eq!(times, [None, Some(1), Some(20), None]);
        assert_eq!(reader.pending(&Filter::new(b"a.0"), 10).unwrap(), 3);
        assert_eq!(reader.subjects(b">", None, 9).len(), 3);
    });
}

#[test]
fn limits_evict_the_oldest() {
    let limits = Limits { messages: Some(5), ..Limits::default() };
    everywhere(StreamConfig { limits, ..StreamConfig::default() }, |stream| {
        for n in 1..=30 {
            put(stream, &format!("a.{}", n % 7), "x", n as i64).unwrap();
        }
        assert_eq!(sequences(stream), [26, 27, 28, 29, 30]);
        assert_eq!(stream.state().subjects, 5);
    });
}

#[test]
fn a_key_keeps_its_newest_value() {
    let limits = Limits { messages_per_subject: Some(1), ..Limits::default() };
    everywhere(StreamConfig { limits, ..StreamConfig::default() }, |stream| {
        for n in 1..=30 {
            put(stream, &format!("k.{}", n % 4), "x", n as i64).unwrap();
        }
        assert_eq!(sequences(stream), [27, 28, 29, 30]);
    });
}

#[test]
fn new_messages_are_refused() {
    let limits = Limits { messages: Some(3), discard: Discard::New, ..Limits::default() };
    everywhere(StreamConfig { limits, ..StreamConfig::default() }, |stream| {
        for n in 1..=3 {
            put(stream, "a", "x", n).unwrap();
        }
        assert_eq!(put(stream, "a", "x", 9), Err(AppendRefusal::MaxMessages));
        assert_eq!(stream.delete(2, 9).unwrap().messages, 1);
        assert_eq!(put(stream, "b", "x", 9), Ok(4));
    });
}

#[test]
fn removed_messages_stay_removed() {
    everywhere(StreamConfig::default(), |stream| {
        for n in 1..=20 {
            put(stream, &format!("a.{}", n % 3), "x", n).unwrap();
        }
        stream.delete(5, 1).unwrap();
        stream.delete(20, 1).unwrap();
        stream.delete(1, 1).unwrap();
        assert_eq!(stream.delete(5, 1).unwrap(), Removed::default());
        let mut purge = Purge { filter: Some(Filter::new(b"a.2")), below: 12, ..Purge::default() };
        while stream.purge(&mut purge, 2, 1).unwrap().more {}
        assert_eq!(sequences(stream), [3, 4, 6, 7, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19]);
        assert!(!stream.compact(10, 100, 1).unwrap().more);
        assert_eq!(sequences(stream), [10, 12, 13, 14, 15, 16, 17, 18, 19]);
        stream.truncate(16, 1).unwrap();
        assert_eq!(put(stream, "again", "y", 30), Ok(17));
        stream.skip(40, 1).unwrap();
        assert_eq!(put(stream, "behind", "y", 31), Ok(41));
        assert_eq!(sequences(stream), [10, 12, 13, 14, 15, 16, 17, 41]);
    });
}

#[test]
fn a_reader_before_a_gap_waits_for_what_is_released_behind_it() {
    everywhere(StreamConfig::default(), |stream| {
        put(stream, "a", "x", 1).unwrap();
        let mut cursor = stream.reader().cursor(Filter::All, 1);
        while cursor.next(Wait::Allowed).unwrap().is_some() {}
        stream.skip(40, 1).unwrap();
        assert!(cursor.next(Wait::Allowed).unwrap().is_none());
        assert!(cursor.position() > stream.reader().release().seq(), "else it is woken again at once");
        assert_eq!(put(stream, "a", "y", 2), Ok(41));
        assert_eq!(cursor.next(Wait::Allowed).unwrap().map(|message| message.seq), Some(41));
    });
}

#[test]
fn a_purged_stream_goes_on() {
    everywhere(StreamConfig::default(), |stream| {
        for n in 1..=9 {
            put(stream, "a", "x", n).unwrap();
        }
        assert_eq!(stream.purge(&mut Purge::default(), 2, 1).unwrap().removed.messages, 9);
        assert_eq!(stream.state().totals.first_seq, 10);
        assert_eq!(put(stream, "b", "x", 10), Ok(10));
        assert_eq!(stream.state().subjects, 1);
    });
}

/// Leaves a marker for every subject.
#[derive(Debug)]
struct Mark;

impl Markers for Mark {
    fn marker(&self, last: &Message<'_>) -> Option<Marker> {
        last.headers
            .is_empty()
            .then(|| Marker { headers: b"NATS/1.0\r\nM: 1\r\n\r\n".to_vec(), expires: Some(90) })
    }
}

#[test]
fn messages_end_by_age_and_by_their_own_lifetime() {
    let limits = Limits { age: Some(Duration::from_nanos(10)), ..Limits::default() };
    everywhere(StreamConfig { limits, ..StreamConfig::default() }, |stream| {
        let message = |subject: &'static str, timestamp, expires| NewMessage {
            subject: subject.as_bytes(),
            timestamp,
            expires,
            ..NewMessage::default()
        };
        let messages = [
            message("a", 1, None),
            message("b", 2, Some(Timestamp::MAX)),
            message("a", 3, None),
            message("c", 4, Some(6)),
        ];
        stream.append(&messages, Admission::Check, 4, &mut Vec::new()).unwrap();
        assert_eq!(stream.next_expiry().unwrap(), Some(6));
        let expired = stream.expire(7, 10, Some(&Mark)).unwrap();
        assert_eq!((expired.removed.messages, expired.markers, expired.next), (1, 1, Some(11)));
        assert_eq!(sequences(stream), [1, 2, 3, 5]);
        let expired = stream.expire(13, 1, None).unwrap();
        assert!(expired.more, "the third message has ended as well");
        let expired = stream.expire(13, 10, None).unwrap();
        assert_eq!((expired.removed.messages, expired.more), (1, false));
        assert_eq!(sequences(stream), [2, 5], "the second message never ends");
    });
}

#[test]
fn memory_of_removed_messages_comes_back() {
    let limits = Limits { messages_per_subject: Some(1), ..Limits::default() };
    let config = StreamConfig { limits, segment_bytes: Some(4000), ..StreamConfig::default() };
    let mut stream = Stream::in_memory(config, 1, 1);
    let held = |stream: &Stream| stream.usage().segment_bytes;
    for n in 0..2000 {
        // One subject in twenty is written once and stays.
        let subject = if n % 20 == 0 { format!("stays.{n}") } else { "changes".to_owned() };
        put(&mut stream, &subject, "twenty bytes of text", n).unwrap();
    }
    let (before, contents_before) = (held(&stream), contents(&stream));
    while stream.reclaim().unwrap() {}
    assert!(held(&stream) < before / 5, "{} of {before} bytes", held(&stream));
    assert_eq!(contents(&stream), contents_before);
    assert_eq!(stream.reader().next_seq(&Filter::new(b"stays.40"), 0).unwrap(), Some(41));
    stream.purge(&mut Purge::default(), 10, 1).unwrap();
    assert!(held(&stream) < 5000);
}

#[test]
fn a_message_may_end_another_with_its_arrival() {
    everywhere(StreamConfig::default(), |stream| {
        for n in 1..=5 {
            put(stream, "a", "x", n).unwrap();
        }
        let ending = |ends, timestamp| NewMessage { subject: b"b", ends, timestamp, ..NewMessage::default() };
        let mut outcomes = Vec::new();
        // The first one, one in the middle, one that is gone, one that never was, and one of the
        // same batch.
        let messages = [ending(1, 6), ending(3, 7), ending(3, 8), ending(99, 9), ending(9, 10)];
        stream.append(&messages, Admission::Check, 10, &mut outcomes).unwrap();
        assert_eq!(outcomes, [Ok(6), Ok(7), Ok(8), Ok(9), Ok(10)]);
        assert_eq!(sequences(stream), [2, 4, 5, 6, 7, 8, 10]);
        let gone: Vec<Seq> = stream.evicted().iter().cloned().flatten().collect();
        assert_eq!(gone, [1, 3, 9]);
    });
}

#[test]
fn the_writer_reads_what_is_not_released() {
    let bench = Bench::new();
    let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
    let mut stream = bench.create(config);
    put(&mut stream, "a", "one", 1).unwrap();
    put(&mut stream, "a", "two", 2).unwrap();
    let mut buffer = Vec::new();
    assert_eq!(stream.reader().get(2, Wait::Allowed, &mut buffer).unwrap(), None);
    assert_eq!(stream.read_last(b"a", &mut buffer).unwrap().unwrap().payload, b"two");
    assert_eq!(stream.read(1, &mut buffer).unwrap().unwrap().payload, b"one");
    assert!(stream.read(3, &mut buffer).unwrap().is_none());
    assert!(stream.read_last(b"b", &mut buffer).unwrap().is_none());
}

//! Memory and disk of a stream: messages that it no longer has take neither.

use super::*;
use crate::config::Compression;
use crate::journal::Wake;

/// Messages of a stream at its limit.
const KEPT: u64 = 500;

fn limited(config: StreamConfig) -> StreamConfig {
    let limits = Limits { messages: Some(KEPT), ..Limits::default() };
    StreamConfig { limits, segment_bytes: Some(64 << 10), ..config }
}

/// Does all upkeep that is due, as a server does it after every turn.
fn upkeep(stream: &mut Stream) {
    while let Some(job) = stream.next_job(1) {
        stream.finish(job.run(), 1).unwrap();
    }
}

/// Stores messages with subjects that never come again, a few at a time.
fn store_distinct(stream: &mut Stream, count: u64) {
    let from = stream.state().totals.last_seq;
    let mut outcomes = Vec::new();
    for batch in 0..count / 20 {
        let subjects: Vec<_> = (0..20).map(|n| format!("subject.of.{:x}", from + batch * 20 + n)).collect();
        let messages: Vec<_> = subjects
            .iter()
            .map(|subject| NewMessage { subject: subject.as_bytes(), timestamp: 1, ..NewMessage::default() })
            .collect();
        stream.append(&messages, Admission::Check, 1, &mut outcomes).unwrap();
        upkeep(stream);
    }
}

fn disk_and_stream(config: StreamConfig) -> (MemoryDisk, Bench, Stream) {
    let disk = MemoryDisk::new();
    let mut bench = Bench { disk: Arc::new(disk.clone()), store: None, seed: 0 };
    bench.open();
    let stream = bench.create(config);
    (disk, bench, stream)
}

#[test]
fn subjects_that_never_come_again_take_no_memory() {
    let story = |stream: &mut Stream| {
        store_distinct(stream, 20_000);
        let early = stream.usage();
        // Those of the active segment and of one that is closed stay until it is sealed.
        assert!(early.index_subjects < 10 * KEPT, "{early:?}");
        store_distinct(stream, 60_000);
        let late = stream.usage();
        assert!(late.index_subjects < 10 * KEPT, "{late:?}");
        assert!(late.index_bytes < 2 * early.index_bytes.max(256 << 10), "{early:?}, then {late:?}");
        assert_eq!(stream.state().subjects, KEPT);
    };
    let mut memory = Stream::in_memory(limited(StreamConfig::default()), 7, 1);
    story(&mut memory);
    let (_, _bench, mut files) = disk_and_stream(limited(StreamConfig::default()));
    story(&mut files);
    let texts = |stream: &Stream| contents(stream).into_iter().map(|(_, text, _)| text).collect::<Vec<_>>();
    assert_eq!(texts(&memory), texts(&files));
    let filter = Filter::new(b"subject.of.*");
    assert_eq!(memory.reader().pending(&filter, 0).unwrap(), KEPT);
    assert_eq!(memory.reader().next_seq(&filter, 79_900).unwrap(), Some(79_900));
}

#[test]
fn a_stream_that_rests_gives_back_what_its_messages_took() {
    for storage in [Storage::Memory, Storage::File] {
        let config = StreamConfig { segment_bytes: Some(64 << 10), ..StreamConfig::default() };
        let (_, _bench, files) = disk_and_stream(config);
        let mut stream = if storage == Storage::File { files } else { Stream::in_memory(config, 7, 1) };
        let empty = stream.usage().index_bytes;
        store_distinct(&mut stream, 40_000);
        let full = stream.usage().index_bytes;
        assert!(full > 20 * empty.max(64 << 10), "{full} bytes");
        // One by one: a purge of everything forgets the whole index.
        for first in (1..=40_000).step_by(500) {
            let seqs: Vec<_> = (first..first + 500).collect();
            stream.delete_all(&seqs, 1).unwrap();
        }
        upkeep(&mut stream);
        assert!(stream.is_untidy());
        for _ in 0..2 {
            while stream.tidy(1) {}
        }
        let usage = stream.usage();
        assert!(!stream.is_untidy(), "{usage:?}");
        // Of those in the active segment a footer will tell.
        assert!(usage.index_subjects < 2_000, "{usage:?}");
        assert!(usage.index_bytes < full / 8, "{usage:?}, {full} bytes before");
    }
}

#[test]
fn memory_of_a_segment_that_one_message_keeps_comes_back_at_rest() {
    let config = StreamConfig { segment_bytes: Some(64 << 10), ..StreamConfig::default() };
    let mut stream = Stream::in_memory(config, 7, 1);
    store_distinct(&mut stream, 20_000);
    let full = stream.usage().segment_bytes;
    let removed: Vec<_> = (1..=20_000).filter(|seq| seq % 100 != 0).collect();
    stream.delete_all(&removed, 1).unwrap();
    while stream.tidy(1) {}
    assert!(stream.usage().segment_bytes < full / 10, "{:?}, {full} bytes before", stream.usage());
    assert_eq!(sequences(&stream), (1..=200).map(|n| n * 100).collect::<Vec<_>>());
}

#[test]
fn no_file_of_a_removed_segment_stays_open() {
    for compression in [Compression::None, Compression::S2] {
        let config = StreamConfig { compression, ..limited(StreamConfig::default()) };
        let (disk, bench, mut stream) = disk_and_stream(config);
        let journal = Arc::clone(bench.store.as_ref().unwrap().journal());
        // Two streams: rounds go into the journal then.
        let mut other = bench.store.as_ref().unwrap().create_stream("A", "T", b"", config, 1).unwrap();
        let mut now = 1;
        for _ in 0..40 {
            store_distinct(&mut stream, 500);
            store_distinct(&mut other, 20);
            journal.round_now(&|| now).unwrap();
            now += 1_000_000;
        }
        assert!(stream.active.segment.no.0 > 10, "segments were closed");
        assert!(stream.usage().segments < 5, "and removed: {:?}", stream.usage());
        rest(&journal, &mut now);
        assert_eq!(disk.removed_but_open(), 0, "{compression:?}");
        // Active ones, and no sealed ones.
        assert!(journal.files_held() <= 2, "{} files", journal.files_held());
    }
}

/// Runs the rounds of a disk thread for five seconds in which nothing comes.
fn rest(journal: &crate::journal::Journal, now: &mut u64) {
    for _ in 0..20 {
        *now += 250_000_000;
        assert_ne!(journal.wait(Duration::ZERO), Wake::Urgent);
        if journal.next_due(*now) == Some(Duration::ZERO) {
            journal.round(&|| *now).unwrap();
        }
    }
}

#[test]
fn a_cursor_that_is_paused_keeps_no_file() {
    for filter in [Filter::All, Filter::new(b"subject.of.*"), Filter::new(b"none")] {
        for compression in [Compression::None, Compression::S2] {
            let config = StreamConfig { compression, ..limited(StreamConfig::default()) };
            let (disk, bench, mut stream) = disk_and_stream(config);
            store_distinct(&mut stream, 400);
            let mut cursor = stream.reader().cursor(filter.clone(), 0);
            let first = cursor.next(Wait::Allowed).unwrap().map(|message| message.seq);
            assert_eq!(first.is_some(), !matches!(filter, Filter::Subject(_)));
            cursor.pause();
            store_distinct(&mut stream, 20_000);
            let journal = Arc::clone(bench.store.as_ref().unwrap().journal());
            rest(&journal, &mut 1);
            assert_eq!(disk.removed_but_open(), 0, "{filter:?}, {compression:?}");
            let state = stream.state().totals;
            let seen: Vec<_> =
                std::iter::from_fn(|| cursor.next(Wait::Allowed).unwrap().map(|m| m.seq)).collect();
            let there: Vec<_> = (state.first_seq..=state.last_seq).collect();
            assert_eq!(seen, if first.is_some() { there } else { Vec::new() });
        }
    }
}

#[test]
fn a_cursor_that_is_paused_goes_on_where_it_was() {
    for filter in [Filter::All, Filter::new(b"subject.*.*")] {
        let config = StreamConfig { segment_bytes: Some(8 << 10), ..StreamConfig::default() };
        let (_, _bench, mut stream) = disk_and_stream(config);
        let mut cursor = stream.reader().cursor(filter, 0);
        let mut seen = Vec::new();
        // Segments are sealed and replaced meanwhile.
        for _ in 0..50 {
            store_distinct(&mut stream, 20);
            for _ in 0..15 {
                seen.extend(cursor.next(Wait::Allowed).unwrap().map(|message| message.seq));
                cursor.pause();
            }
        }
        seen.extend(std::iter::from_fn(|| cursor.next(Wait::Allowed).unwrap().map(|message| message.seq)));
        assert_eq!(seen, (1..=1000).collect::<Vec<_>>());
    }
}

#[test]
fn a_cursor_that_is_taken_up_again_while_its_segment_goes_finds_the_next() {
    for filter in [Filter::All, Filter::new(b"subject.of.*")] {
        let (_, _bench, mut stream) = disk_and_stream(limited(StreamConfig::default()));
        store_distinct(&mut stream, 4_000);
        // At the first message of a sealed segment, the bytes of which are not read again.
        let view = stream.shared.catalog().segments()[0].clone();
        let mut cursor = stream.reader().cursor(filter, 0);
        let first = cursor.next(Wait::Allowed).unwrap().unwrap().seq;
        cursor.pause();
        store_distinct(&mut stream, 4_000);
        // As if whoever removes it still had it in hand.
        let next = cursor.next(Wait::Allowed).unwrap().unwrap().seq;
        assert!(next > first && next >= stream.state().totals.first_seq);
        drop(view);
    }
}

/// Stores 1,000 messages of 1 KiB, of which every second one has a subject like `subject.even.5`.
fn store_large(stream: &mut Stream) {
    let payload = "x".repeat(1 << 10);
    for n in 1..=1000 {
        let parity = if n % 2 == 0 { "even" } else { "odd" };
        put(stream, &format!("subject.{parity}.{n}"), &payload, 1).unwrap();
        upkeep(stream);
    }
}

#[test]
fn a_cursor_that_shrinks_needs_little_memory_and_goes_on_where_it_was() {
    let even = Filter::new(b"subject.even.*");
    for (filter, step) in [(Filter::All, 1), (even, 2)] {
        for compression in [Compression::None, Compression::S2] {
            let config =
                StreamConfig { compression, segment_bytes: Some(512 << 10), ..StreamConfig::default() };
            let (_, _bench, mut stream) = disk_and_stream(config);
            store_large(&mut stream);
            let mut cursor = stream.reader().cursor(filter.clone(), 0);
            let (mut seen, mut largest) = (Vec::new(), 0);
            // Turns of different lengths, with a rest after each.
            for turn in 0.. {
                let before = seen.len();
                for _ in 0..[1, 7, 90][turn % 3] {
                    seen.extend(cursor.next(Wait::Allowed).unwrap().map(|message| message.seq));
                }
                largest = largest.max(cursor.piece.capacity());
                cursor.pause();
                cursor.shrink();
                assert!(cursor.piece.capacity() <= 8 << 10, "{} bytes", cursor.piece.capacity());
                if seen.len() == before {
                    break;
                }
            }
            assert!(largest > 16 << 10, "{filter:?}, {compression:?}: {largest} bytes");
            let all: Vec<_> = (step..=1000).step_by(step as usize).collect();
            assert_eq!(seen, all, "{filter:?}, {compression:?}");
        }
    }
}

#[test]
fn a_cursor_that_does_not_rest_reads_large_pieces() {
    let (_, _bench, mut stream) = disk_and_stream(StreamConfig::default());
    store_large(&mut stream);
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    let mut pieces = Vec::new();
    while cursor.next(Wait::Allowed).unwrap().is_some() {
        pieces.push(cursor.piece.len() >> 10);
    }
    pieces.dedup();
    assert_eq!(pieces[..4], [32, 64, 128, 256], "{pieces:?}");
}

#[test]
fn an_erasure_that_waits_keeps_no_file() {
    let config = StreamConfig { segment_bytes: Some(8 << 10), ..StreamConfig::default() };
    let (_, bench, mut stream) = disk_and_stream(config);
    store_distinct(&mut stream, 400);
    let log = Arc::downgrade(&stream.active.file);
    let held = log.strong_count();
    stream.erase(1, 1).unwrap();
    assert_eq!(stream.erasing(), 1, "its segment is sealed");
    // But for the journal, to which it is dirty.
    assert!(log.strong_count() <= held + 1);
    bench_round(&bench);
    assert!(log.strong_count() <= held);
    upkeep(&mut stream);
    assert_eq!(stream.erasing(), 0);
}

fn bench_round(bench: &Bench) {
    bench.store.as_ref().unwrap().journal().round_now(&|| 1).unwrap();
}

#[test]
fn the_journal_keeps_no_file_that_was_written_anew() {
    let config = StreamConfig { segment_bytes: Some(8 << 10), ..StreamConfig::default() };
    let (disk, bench, mut stream) = disk_and_stream(config);
    store_distinct(&mut stream, 20);
    // Bytes that replace others, in a round after the segment was sealed: the file has them, and
    // nobody has synced it since.
    stream.erase(1, 1).unwrap();
    store_distinct(&mut stream, 400);
    bench_round(&bench);
    assert!(bench.store.as_ref().unwrap().journal().files_held() > 0);
    stream.erase(2, 1).unwrap();
    bench_round(&bench);
    upkeep(&mut stream);
    assert_eq!(stream.erasing(), 0, "the segment was written anew");
    assert_eq!(disk.removed_but_open(), 0);
}

#[test]
fn what_waits_to_be_overwritten_is_asked_for_at_rest() {
    let config = StreamConfig {
        compression: Compression::S2,
        segment_bytes: Some(8 << 10),
        ..StreamConfig::default()
    };
    let (disk, bench, mut stream) = disk_and_stream(config);
    store_distinct(&mut stream, 400);
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    cursor.next(Wait::Allowed).unwrap();
    stream.erase(2, 1).unwrap();
    assert!(stream.is_untidy(), "the deletion is not durable yet");
    bench_round(&bench);
    upkeep(&mut stream);
    assert_eq!((stream.erasing(), disk.removed_but_open()), (1, 1), "the cursor reads the old file");
    assert!(stream.is_untidy());
    cursor.pause();
    upkeep(&mut stream);
    assert_eq!((stream.erasing(), disk.removed_but_open()), (0, 0));
    while stream.is_untidy() {
        stream.tidy(1);
    }
}

#[test]
fn a_consumers_log_that_was_replaced_is_let_go_of() {
    let (disk, bench, mut stream) = disk_and_stream(StreamConfig::default());
    let store = bench.store.as_ref().unwrap();
    let (mut consumers, _) = store.open_consumers(stream.id(), Durability::Written, None).unwrap();
    let journal = Arc::clone(store.journal());
    let mut now = 1;
    for n in 0..300 {
        let rules =
            crate::consumer::AckRules { acks: crate::consumer::AckPolicy::Explicit, max_deliver: None };
        let id = consumers.create(&format!("c{n}"), rules, &[7; 4096]).unwrap();
        consumers.flush(1).unwrap();
        consumers.remove(id).unwrap();
        consumers.flush(1).unwrap();
        put(&mut stream, "a", "x", 1).unwrap();
        journal.round_now(&|| now).unwrap();
        now += 1_000_000;
        if consumers.checkpoint_due() {
            consumers.checkpoint().unwrap();
            assert!(store.put_away(&mut consumers).is_empty());
        }
    }
    rest(&journal, &mut now);
    assert_eq!(disk.removed_but_open(), 0);
}

#[test]
fn tables_that_nobody_has_asked_for_take_a_small_part_of_the_cache() {
    let config = StreamConfig { segment_bytes: Some(256 << 10), ..StreamConfig::default() };
    let (_, bench, mut stream) = disk_and_stream(config);
    store_distinct(&mut stream, 100_000);
    let tables = || bench.store.as_ref().unwrap().table_bytes();
    let unread = tables();
    assert!((1 << 20..3 << 20).contains(&unread), "{unread} bytes");
    assert_eq!(sequences(&stream).len(), 100_000);
    let read = tables();
    assert!(read > unread + (1 << 20), "{unread} bytes, then {read}");
}

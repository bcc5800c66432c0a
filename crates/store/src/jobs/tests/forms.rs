//! One job at a time.

use super::*;
use crate::stream::SegmentFile;

fn text(n: u64) -> Vec<u8> {
    format!("message number {n}, {}", "and more ".repeat(12)).into_bytes()
}

fn fill(bench: &mut Bench, count: u64) {
    for n in 0..count {
        bench.put(&format!("s.{}", n % 5), &text(n));
    }
}

#[test]
fn sealed_segments_read_as_before_on_a_real_disk() {
    for shape in SHAPES {
        let folder = tempfile::tempdir().unwrap();
        let mut bench = Bench::new(Arc::new(RealDisk), folder.path(), shape, 8000);
        fill(&mut bench, 200);
        let before = contents(bench.stream());
        let unsealed = bench.bytes();
        let names = bench.settle();
        assert!(names.contains(&"seal"), "{shape:?}");
        assert_eq!(contents(bench.stream()), before, "{shape:?}");
        assert!(bench.bytes() < unsealed, "what was allocated ahead is cut: {shape:?}");
        bench.reopen();
        assert_eq!(contents(bench.stream()), before, "{shape:?}");
        assert!(bench.names().iter().all(|name| !name.ends_with(".tmp")));
    }
}

#[test]
fn packed_segments_are_smaller() {
    let sizes: Vec<u64> = SHAPES
        .iter()
        .map(|shape| {
            let mut bench = Bench::in_memory(*shape, 40_000);
            fill(&mut bench, 1000);
            bench.stream().close_segment(0, 1).unwrap();
            bench.settle();
            bench.bytes()
        })
        .collect();
    assert!(sizes[1] * 2 < sizes[0] && sizes[3] * 2 < sizes[2], "{sizes:?}");
}

#[test]
fn a_cursor_goes_on_while_its_segment_is_replaced_and_removed() {
    for shape in SHAPES {
        let mut bench = Bench::in_memory(shape, 8000);
        fill(&mut bench, 400);
        bench.settle();
        let reader = bench.stream().reader();
        let mut cursor = reader.cursor(Filter::All, 0);
        assert_eq!(cursor.next(Wait::Allowed).unwrap().unwrap().seq, 1);
        for seq in 2..=400 {
            if seq % 4 != 0 {
                bench.stream().delete(seq, 1).unwrap();
            }
        }
        for _ in 0..8 {
            bench.put("other", b"");
            bench.stream().close_segment(0, 1).unwrap();
        }
        let names = bench.settle();
        assert!(names.contains(&"compact"), "{names:?}");
        assert_eq!(cursor.next(Wait::Allowed).unwrap().unwrap().seq, 4);
        while bench.stream().compact(390, 1000, 1).unwrap().more {}
        for _ in 0..8 {
            bench.put("other", b"");
            bench.stream().close_segment(0, 1).unwrap();
        }
        let names = bench.settle();
        assert!(names.contains(&"remove"), "{names:?}");
        assert_eq!(cursor.next(Wait::Allowed).unwrap().unwrap().seq, 392);
    }
}

#[test]
fn a_merge_shortens_the_next_start_and_waits_for_eight_segments() {
    let mut bench = Bench::in_memory(SHAPES[0], 1 << 20);
    for n in 0..7 {
        bench.put("a", &text(n));
        bench.stream().close_segment(0, 1).unwrap();
    }
    assert_eq!(bench.settle(), ["seal"; 7]);
    assert!(bench.manifest().is_none());
    bench.put("a", &text(8));
    bench.stream().close_segment(0, 1).unwrap();
    assert_eq!(bench.settle(), ["seal", "merge"]);
    let manifest = bench.manifest().unwrap();
    assert_eq!((manifest.covers, manifest.totals.messages, manifest.segments.len()), (SegmentNo(8), 8, 8));
    assert!(bench.names().contains(&crate::recovery::base_name(SegmentNo(8))));
    assert_eq!(bench.settle(), [""; 0]);
}

#[test]
fn in_a_rush_of_seals_what_is_gone_is_removed_all_the_same() {
    let mut bench = Bench::in_memory(SHAPES[0], 1 << 20);
    let close = |bench: &mut Bench, n: u64| {
        let last = bench.put(&format!("a.{n}"), b"x");
        bench.stream().close_segment(0, 1).unwrap();
        while bench.stream().compact(last, 1000, 1).unwrap().more {}
    };
    (0..2).for_each(|n| close(&mut bench, n));
    for n in 2..300 {
        close(&mut bench, n);
        assert!(bench.step().is_some(), "there is always one more to seal");
    }
    assert!(bench.segments().len() < 120, "{} of 300 segments are there", bench.segments().len());
}

#[test]
fn files_of_dead_segments_go_after_the_manifest_and_not_before() {
    let mut bench = Bench::in_memory(SHAPES[0], 2000);
    fill(&mut bench, 200);
    bench.settle();
    let listed = bench.segments();
    while bench.stream().compact(150, 1000, 1).unwrap().more {}
    assert_eq!(bench.segments(), listed, "a trim alone removes nothing");
    let mut names = Vec::new();
    while bench.segments() == listed || names.last() != Some(&"remove") {
        let before = bench.segments();
        let name = bench.step().expect("dead segments are removed");
        names.push(name);
        if name != "remove" {
            assert!(before.iter().all(|no| bench.segments().contains(no)), "{name} removed a file");
            continue;
        }
        let manifest = bench.manifest().unwrap();
        for no in before.iter().filter(|no| !bench.segments().contains(no)) {
            assert!(manifest.segments.iter().all(|entry| entry.no.0 != *no), "segment {no} is listed");
            assert!(*no <= manifest.covers.0);
        }
    }
    let left = contents(bench.stream());
    assert_eq!(left.len(), 51);
    assert!(bench.segments().len() < listed.len() / 2);
    bench.reopen();
    assert_eq!(contents(bench.stream()), left);
}

#[test]
fn a_purged_stream_gives_its_space_back() {
    for shape in SHAPES {
        let mut bench = Bench::in_memory(shape, 16 << 20);
        for n in 0..100u64 {
            let noise: Vec<u8> = (0..30_000u64).map(|at| ((at * at * (n + 7)) >> 7) as u8).collect();
            bench.put("a", &noise);
        }
        bench.settle();
        assert!(bench.bytes() > 2_000_000);
        bench.stream().purge(&mut Purge::default(), 1000, 1).unwrap();
        let names = bench.settle();
        assert_eq!(names, ["seal", "merge", "remove"], "{shape:?}");
        // The new segment is allocated ahead.
        assert!(bench.bytes() < 70_000, "{} bytes are left", bench.bytes());
        assert_eq!(bench.put("b", b"x"), 101);
        bench.reopen();
        assert_eq!(contents(bench.stream()).len(), 1);
    }
}

#[test]
fn erased_bytes_are_gone_from_open_closed_and_sealed_segments() {
    let secret = b"the secret words of this test";
    for shape in [SHAPES[0], SHAPES[2]] {
        for sealed in [false, true] {
            let mut bench = Bench::in_memory(shape, 1 << 20);
            fill(&mut bench, 10);
            let seq = bench.put("s.1", secret);
            fill(&mut bench, 10);
            assert_eq!(holds(&bench, secret), !shape.is_encrypted);
            if sealed {
                bench.stream().close_segment(0, 1).unwrap();
                bench.settle();
            }
            let before = contents(bench.stream());
            assert_eq!(bench.stream().erase(seq, 1).unwrap().messages, 1);
            assert_eq!(bench.stream().erasing(), usize::from(sealed));
            assert_eq!(bench.settle(), [""; 0], "not before the deletion is durable");
            bench.round();
            assert_eq!(bench.settle().len(), usize::from(sealed));
            assert_eq!(bench.stream().erasing(), 0);
            assert!(!holds(&bench, secret));
            let mut left = before;
            left.remove(&seq);
            assert_eq!(contents(bench.stream()), left);
            bench.reopen();
            assert_eq!(contents(bench.stream()), left);
        }
    }
}

#[test]
fn what_is_erased_while_a_job_copies_it_is_erased_in_the_copy() {
    let mut bench = Bench::in_memory(SHAPES[1], 1 << 20);
    fill(&mut bench, 10);
    let seq = bench.put("s.1", b"incompressible secret 8f3a");
    bench.stream().close_segment(0, 1).unwrap();
    let job: Job = bench.stream().next_job(1).unwrap();
    let done = job.run();
    bench.stream().erase(seq, 1).unwrap();
    bench.stream().finish(done, 1).unwrap();
    assert_eq!(bench.stream().erasing(), 1);
    bench.round();
    assert_eq!(bench.settle(), ["compact", "overwrite"]);
    assert!(!holds(&bench, b"secret 8f3a"));
    assert_eq!(contents(bench.stream()).len(), 10);
}

#[test]
fn a_damaged_base_is_made_again() {
    let mut bench = Bench::in_memory(SHAPES[0], 2000);
    fill(&mut bench, 100);
    bench.stream().delete(7, 1).unwrap();
    bench.settle();
    let base = bench.manifest().unwrap().base.unwrap();
    let path = bench.directory().join(crate::recovery::base_name(base.number));
    let file = bench.disk.open(&path).unwrap();
    file.write_at(b"damaged", base.file_len / 2).unwrap();
    fill(&mut bench, 100);
    assert!(bench.settle().contains(&"merge"));
    let before = (contents(bench.stream()), bench.stream().reader().subjects(b">", None, 100));
    bench.reopen();
    assert_eq!((contents(bench.stream()), bench.stream().reader().subjects(b">", None, 100)), before);
}

/// Number, generation and salt of each segment file.
fn headers(bench: &Bench) -> Vec<(u64, u64, [u8; 16])> {
    let header = |no: u64| {
        let path = bench.directory().join(crate::stream::segment_name(SegmentNo(no)));
        let header = crate::segment::SegmentHeader::read(&*bench.disk.open(&path).unwrap()).unwrap();
        (no, header.generation, header.salt)
    };
    bench.segments().into_iter().map(header).collect()
}

#[test]
fn an_encrypted_segment_that_was_found_on_disk_is_sealed_in_a_new_file() {
    for shape in SHAPES {
        let mut bench = Bench::in_memory(shape, 1 << 20);
        fill(&mut bench, 20);
        let before = contents(bench.stream());
        let old = headers(&bench)[0];
        bench.reopen();
        bench.stream().close_segment(0, 1).unwrap();
        assert!(bench.settle().contains(&"seal"));
        let new = headers(&bench)[0];
        let is_rewritten = shape != SHAPES[0];
        assert_eq!((new.0, new.1), (old.0, u64::from(is_rewritten)), "{shape:?}");
        assert_eq!(new.2 != old.2, is_rewritten, "a key of its own: {shape:?}");
        assert_eq!(contents(bench.stream()), before, "{shape:?}");
        bench.reopen();
        assert_eq!(contents(bench.stream()), before, "{shape:?}");
    }
}

#[test]
fn what_can_be_read_of_a_damaged_encrypted_segment_is_sealed_and_the_rest_kept_aside() {
    for shape in [SHAPES[2], SHAPES[3]] {
        let mut bench = Bench::in_memory(shape, 1 << 20);
        fill(&mut bench, 20);
        bench.reopen();
        let path = bench.directory().join(crate::stream::segment_name(SegmentNo(1)));
        bench.disk.open(&path).unwrap().write_at(b"damage", 1000).unwrap();
        let old = headers(&bench)[0];
        assert_eq!(bench.settle(), ["seal"]);
        assert_ne!(headers(&bench)[0].2, old.2);
        let aside = bench.disk.list(&bench.root.join(crate::recovery::QUARANTINE)).unwrap();
        assert_eq!(aside.len(), 1);
        assert!(aside[0].name.ends_with(".damaged"));
        let reader = bench.stream().reader();
        let lost = (1..=20).filter(|seq| reader.get(*seq, Wait::Allowed, &mut Vec::new()).is_err()).count();
        assert!(lost == 1, "{lost} are lost: {shape:?}");
    }
}

#[test]
fn what_shares_a_frame_with_an_erased_message_can_be_read_all_the_while() {
    for shape in [SHAPES[1], SHAPES[3]] {
        let mut bench = Bench::in_memory(shape, 1 << 20);
        fill(&mut bench, 20);
        bench.stream().close_segment(0, 1).unwrap();
        bench.settle();
        let mut cursor = bench.stream().reader().cursor(Filter::All, 0);
        assert_eq!(cursor.next(Wait::Allowed).unwrap().unwrap().seq, 1);
        let old = Arc::clone(&bench.stream().shared().catalog().segments()[0].segment);
        bench.stream().erase(5, 1).unwrap();
        bench.round();
        let job = bench.stream().next_job(1).unwrap();
        let done = job.run();
        // The catalog has the old file still.
        assert_eq!(contents(bench.stream()).len(), 19, "{shape:?}");
        bench.stream().finish(done, 1).unwrap();
        assert_eq!(contents(bench.stream()).len(), 19, "{shape:?}");
        assert_eq!(bench.stream().erasing(), 1);
        let SegmentFile::Packed(sealed, frames) = &old.source else { panic!("{shape:?} packs") };
        let (file, at) = (sealed.open().unwrap(), frames.frames()[0].file());
        let is_blank = || {
            let mut bytes = vec![1; (at.end - at.start) as usize];
            file.read_at(&mut bytes, at.start).unwrap();
            bytes.iter().all(|byte| *byte == 0)
        };
        assert!(!is_blank());
        assert_eq!(bench.settle(), [""; 0], "a cursor is in the old file");
        for seq in (2..=20).filter(|seq| *seq != 5) {
            assert_eq!(cursor.next(Wait::Allowed).unwrap().unwrap().seq, seq);
        }
        drop(cursor);
        drop(old);
        assert_eq!(bench.settle(), ["overwrite"]);
        assert_eq!(bench.stream().erasing(), 0);
        assert!(is_blank());
    }
}

#[test]
fn an_erasure_in_a_damaged_segment_is_not_forgotten_and_holds_nothing_up() {
    let mut bench = Bench::in_memory(SHAPES[0], 2000);
    fill(&mut bench, 100);
    bench.settle();
    let path = bench.directory().join(crate::stream::segment_name(SegmentNo(1)));
    let file = bench.disk.open(&path).unwrap();
    let mut sound = [0; 6];
    file.read_at(&mut sound, 200).unwrap();
    file.write_at(b"damage", 200).unwrap();
    bench.stream().erase(5, 1).unwrap();
    bench.round();
    let job = bench.stream().next_job(1).unwrap();
    let done = job.run();
    assert!(bench.stream().finish(done, 1).is_err());
    assert_eq!(bench.stream().erasing(), 1);
    fill(&mut bench, 100);
    let (soon, late) = (2_000_000_000, 100_000_000_000);
    let job = bench.stream().next_job(soon).expect("other upkeep goes on");
    assert_eq!(job.name(), "seal");
    let done = job.run();
    bench.stream().finish(done, soon).unwrap();
    file.write_at(&sound, 200).unwrap();
    let mut names = Vec::new();
    while let Some(job) = bench.stream().next_job(late) {
        names.push(job.name());
        let done = job.run();
        bench.stream().finish(done, late).unwrap();
    }
    assert!(names.contains(&"compact"), "{names:?}");
    assert_eq!(bench.stream().erasing(), 0);
}

#[test]
fn a_job_that_does_not_come_back_is_done_again() {
    let late = 100_000_000_000;
    let mut bench = Bench::in_memory(SHAPES[1], 2000);
    fill(&mut bench, 100);
    let before = contents(bench.stream());
    drop(bench.stream().next_job(1).unwrap());
    assert!(bench.stream().next_job(1).is_none(), "upkeep rests");
    let job = bench.stream().next_job(late).unwrap();
    assert_eq!(job.name(), "seal");
    // What it did is not known to the stream.
    drop(job.run());
    assert!(bench.stream().next_job(late).is_none());
    let mut names = Vec::new();
    while let Some(job) = bench.stream().next_job(2 * late) {
        names.push(job.name());
        let done = job.run();
        bench.stream().finish(done, 2 * late).unwrap();
    }
    assert!(names.contains(&"merge"), "no segment is missing: {names:?}");
    assert_eq!(contents(bench.stream()), before);
    bench.reopen();
    assert_eq!(contents(bench.stream()), before);
}

#[test]
fn a_job_of_a_stream_that_has_failed_changes_nothing() {
    for shape in SHAPES {
        let mut bench = Bench::in_memory(shape, 2000);
        let mut seen = Vec::new();
        for round in 0..40 {
            bench.put("s", &text(round));
            while bench.stream().compact(round / 2, 100, 1).unwrap().more {}
            let Some(job) = bench.stream().next_job(1) else { continue };
            seen.push(job.name());
            let before = everything(&bench);
            bench.stream().shared().fail("a test");
            let done = job.run();
            assert_eq!(everything(&bench), before, "{seen:?}");
            assert!(bench.stream().finish(done, 1).is_err());
            bench.reopen();
            bench.settle();
        }
        assert!(seen.contains(&"seal"), "{seen:?}");
    }
}

fn everything(bench: &Bench) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let file = bench.disk.open(&bench.directory().join(&name)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        (name, bytes)
    };
    bench.names().into_iter().map(read).collect()
}

#[test]
fn headroom_that_was_given_up_is_taken_back_after_a_job() {
    let mut bench = Bench::in_memory(SHAPES[0], 2000);
    fill(&mut bench, 100);
    let job = bench.stream().next_job(1).unwrap();
    let store_env = Arc::clone(&job.env.files.store_env);
    assert!(store_env.headroom.release().unwrap());
    let done = job.run();
    assert!(store_env.headroom.is_held());
    bench.stream().finish(done, 1).unwrap();
}

#[test]
fn a_segment_that_cannot_be_packed_on_a_full_disk_is_sealed_as_it_is() {
    use myelin_disk::faulty::{DiskFault, FaultyDisk};
    let disk = FaultyDisk::new(7);
    disk.make_directory(Path::new("/store")).unwrap();
    let mut bench = Bench::new(Arc::new(disk.clone()), Path::new("/store"), SHAPES[1], 1 << 20);
    for n in 0..3u64 {
        let noise: Vec<u8> = (0..30_000u64).map(|at| ((at * at * (n + 7)) >> 7) as u8).collect();
        bench.put("a", &noise);
    }
    bench.stream().close_segment(0, 1).unwrap();
    let before = contents(bench.stream());
    disk.fail_at(disk.points(), DiskFault::FullAfter(2000));
    assert_eq!(bench.step(), Some("seal"));
    assert_eq!(headers(&bench)[0].1, 0, "it is the same file");
    assert_eq!(contents(bench.stream()), before);
}

/// Messages that a truncation cut off stay in the file of their segment, and must not come back
/// when a later merge counts the segment anew because its beginning went.
#[test]
fn what_was_truncated_stays_gone_when_its_segment_is_counted_again() {
    for shape in SHAPES {
        let mut bench = Bench::in_memory(shape, 1500);
        for n in 0..9u8 {
            bench.put("s", &[n; 40]);
        }
        bench.stream().truncate(8, 1).unwrap();
        bench.put("again", b"with the sequence of what was cut off");
        // Enough segments for a merge that covers both that hold a message 9, and one more behind
        // it.
        for merge in 1..=2 {
            for _ in 0..8 {
                bench.put("fill", &[0; 10]);
                bench.stream().close_segment(0, 1).unwrap();
            }
            bench.stream().compact(4 + merge, 100, 1).unwrap();
            bench.settle();
        }
        let before = contents(bench.stream());
        let manifest = bench.manifest().unwrap();
        let ends: Vec<_> =
            manifest.segments.iter().take(2).map(|entry| (entry.first_seq, entry.last_seq)).collect();
        assert_eq!(ends, [(5, 8), (9, 10)], "{shape:?}");
        bench.reopen();
        assert_eq!(contents(bench.stream()), before, "{shape:?}");
    }
}

/// One message is of a far later time than those behind it. Neither a look-up by time nor a limit
/// of age may take it for as old as they are, whatever form its segment has.
#[test]
fn a_clock_that_went_back_hides_nothing_in_files() {
    const EARLY: Timestamp = 100_000;
    let fill = |bench: &mut Bench| {
        for _ in 0..60 {
            let seq = bench.stream().state().totals.last_seq + 1;
            let timestamp = if seq == 5 { EARLY } else { seq as Timestamp * 10 };
            let message =
                NewMessage { subject: b"s", payload: &[7; 300], timestamp, ..NewMessage::default() };
            bench.stream().append(&[message], Admission::Check, timestamp, &mut Vec::new()).unwrap();
        }
    };
    let check = |bench: &mut Bench, stage: &str| {
        let reader = bench.stream().reader();
        assert_eq!(reader.seq_at(EARLY / 2).unwrap(), 5, "{stage}: {:?}", bench.shape);
        let behind = reader.state().totals.last_seq + 1;
        assert_eq!(reader.seq_at(EARLY + 1).unwrap(), behind, "{stage}: {:?}", bench.shape);
    };
    for shape in SHAPES {
        let mut bench = Bench::in_memory(shape, 4000);
        fill(&mut bench);
        check(&mut bench, "appended");
        bench.reopen();
        check(&mut bench, "walked");
        bench.settle();
        check(&mut bench, "sealed");
        bench.reopen();
        check(&mut bench, "sealed, and opened again");
        let path = bench.directory().join(crate::stream::segment_name(SegmentNo(1)));
        let before = bench.disk.open(&path).unwrap().len().unwrap();
        for seq in [2, 3, 6, 7, 8, 9, 10, 11, 12] {
            bench.stream().delete(seq, 1).unwrap();
        }
        for _ in 0..4 {
            fill(&mut bench);
            bench.settle();
        }
        assert!(bench.disk.open(&path).unwrap().len().unwrap() < before, "compacted: {shape:?}");
        bench.reopen();
        let early = bench.stream().reader().seq_at(EARLY / 2).unwrap();
        assert_eq!(early, 5, "compacted: {shape:?}");
        let limits = crate::config::Limits {
            age: Some(std::time::Duration::from_nanos(100)),
            ..crate::config::Limits::default()
        };
        let config = StreamConfig { limits, ..bench.config };
        bench.stream().set_config(config, 1).unwrap();
        let removed = bench.stream().expire(2000, 1000, None).unwrap().removed;
        assert_eq!((removed.messages, bench.stream().state().totals.first_seq), (2, 5), "{shape:?}");
    }
}

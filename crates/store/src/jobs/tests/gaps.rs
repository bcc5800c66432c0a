//! Upkeep of a stream that has lost a segment.

use super::*;
use crate::segment::SegmentHeader;

fn fill(bench: &mut Bench, count: u64) {
    for n in 0..count {
        bench.put(&format!("s.{}", n % 5), &[b'x'; 200]);
    }
}

/// Opens the stream again; what is missing.
fn reopen(bench: &mut Bench) -> Vec<Notice> {
    bench.open = None;
    let store = bench.open_store();
    let id = store_id(bench);
    let (stream, report) = store.open_stream(id, bench.config, 1).unwrap();
    bench.open = Some((store, stream));
    report.notices
}

fn store_id(bench: &Bench) -> crate::StreamId {
    let name = bench.disk.list(&bench.root.join("streams")).unwrap().remove(0).name;
    crate::StreamId(u64::from_str_radix(&name, 16).unwrap())
}

fn sequences(bench: &mut Bench) -> Vec<Seq> {
    contents(bench.stream()).into_keys().collect()
}

fn count(bench: &mut Bench, subject: &str) -> u64 {
    bench.stream().reader().pending(&Filter::new(subject.as_bytes()), 0).unwrap()
}

#[test]
fn what_is_around_a_missing_segment_is_merged_and_compacted() {
    for shape in SHAPES {
        let mut bench = Bench::in_memory(shape, 4000);
        // Fewer segments than a merge waits for.
        while bench.segments().len() < 6 {
            fill(&mut bench, 1);
            bench.settle();
        }
        assert_eq!(bench.manifest(), None, "{shape:?}");
        let whole = sequences(&mut bench);
        let lost = bench.directory().join(crate::stream::segment_name(SegmentNo(3)));
        bench.open = None;
        bench.disk.rename(&lost, Path::new("/aside")).unwrap();
        let missing = vec![Notice::Missing { segments: SegmentNo(3)..=SegmentNo(3) }];
        assert_eq!(reopen(&mut bench), missing);
        let left = sequences(&mut bench);
        let gone: Vec<_> = whole.iter().copied().filter(|seq| !left.contains(seq)).collect();
        assert!(gone.len() > 3, "{shape:?}: {left:?}");
        fill(&mut bench, 200);
        let names = bench.settle();
        assert!(names.contains(&"merge"), "{shape:?}: {names:?}");
        let manifest = bench.manifest().unwrap();
        assert!(manifest.covers > SegmentNo(10), "{shape:?}: {manifest:?}");
        let entry = manifest.segments.iter().find(|entry| entry.no == SegmentNo(3)).unwrap();
        assert_eq!((entry.first_seq, entry.last_seq), (gone[0], gone[gone.len() - 1]));

        let all = sequences(&mut bench);
        for seq in all.iter().copied().filter(|seq| seq % 4 != 1) {
            bench.stream().delete(seq, 1).unwrap();
        }
        fill(&mut bench, 300);
        let names = bench.settle();
        assert!(names.iter().filter(|name| **name == "compact").count() > 4, "{shape:?}: {names:?}");
        for (no, side) in [(2, "before"), (5, "behind")] {
            let path = bench.directory().join(crate::stream::segment_name(SegmentNo(no)));
            let header = SegmentHeader::read(&*bench.disk.open(&path).unwrap()).unwrap();
            // Packing writes it once.
            assert!(header.generation > u64::from(header.packed), "{side} the gap: {shape:?}");
        }
        let all = sequences(&mut bench);
        assert_eq!(reopen(&mut bench), missing, "as long as it may come back");
        assert_eq!(sequences(&mut bench), all, "{shape:?}");

        // It was found in a backup.
        bench.open = None;
        bench.disk.rename(Path::new("/aside"), &lost).unwrap();
        assert_eq!(reopen(&mut bench), []);
        for life in 0..3 {
            let back: Vec<_> = sequences(&mut bench).into_iter().filter(|seq| gone.contains(seq)).collect();
            assert_eq!(back, gone, "{shape:?} {life}");
            let of_one =
                contents(bench.stream()).into_values().filter(|message| message.0 == "s.1").count() as u64;
            assert_eq!(count(&mut bench, "s.1"), of_one, "{shape:?} {life}");
            fill(&mut bench, 300);
            bench.settle();
            assert_eq!(reopen(&mut bench), []);
        }
    }
}

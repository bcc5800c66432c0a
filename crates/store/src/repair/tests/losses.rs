//! Segments that are gone, with documents beside them that are gone, too: a repair names what is
//! lost, and the starts after it tell it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::Seq;
use crate::stream::{segment_name, segment_number};

use super::*;

/// Contents of a stream that was left by a process.
struct Written {
    name: &'static str,
    id: StreamId,
    there: BTreeSet<Seq>,
    last: Seq,
}

/// A store that was left by a process, and its streams.
struct Left {
    disk: FaultyDisk,
    streams: Vec<Written>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Clean,
    Killed,
}

/// A few messages in each segment.
fn shape() -> StreamConfig {
    StreamConfig { segment_bytes: Some(1_200), ..config(Compression::None) }
}

/// Segments without a seal, segments that a manifest lists, and such of which the first were
/// removed long ago.
fn left(end: End) -> Left {
    let disk = FaultyDisk::new(5);
    let store = open(&disk, None, 1);
    let (mut streams, mut open_streams) = (Vec::new(), Vec::new());
    for (name, is_sealed, removed_below) in [("YOUNG", false, 0), ("SEALED", true, 0), ("TRIMMED", true, 30)]
    {
        let mut stream = store.create_stream("A", name, b"", shape(), 1).unwrap();
        for n in 1..=60 {
            put(&mut stream, n);
            if n == 50 && removed_below > 0 {
                while stream.compact(removed_below, 100, 50).unwrap().more {}
            }
            store.journal().round_now(&|| n).unwrap();
            while let Some(job) = stream.next_job(n as i64).filter(|_| is_sealed) {
                stream.finish(job.run(), n as i64).unwrap();
            }
        }
        let there = sequences(&stream);
        streams.push(Written { name, id: stream.id(), there, last: stream.state().totals.last_seq });
        // They live as long as the process.
        open_streams.push(stream);
    }
    store.write_watermarks().unwrap();
    if end == End::Clean {
        store.close(&|| 101).unwrap();
        return Left { disk: disk.power_cycle(Survival::All), streams };
    }
    drop((open_streams, store));
    let disk = disk.kill();
    // Nothing is left in the journal that would write files again.
    drop(open(&disk, None, 2));
    Left { disk: disk.kill(), streams }
}

fn sequences(stream: &Stream) -> BTreeSet<Seq> {
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    let mut all = BTreeSet::new();
    while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
        all.insert(message.seq);
    }
    all
}

/// Findings of a start of a stream, which then gets a message.
#[derive(Debug)]
struct Told {
    there: BTreeSet<Seq>,
    lost: BTreeSet<Seq>,
    next: Seq,
}

fn start(disk: &FaultyDisk, id: StreamId, seed: u64) -> Told {
    let store = open(disk, None, seed);
    let (mut stream, report) = store.open_stream(id, shape(), 200).unwrap();
    let there = sequences(&stream);
    put(&mut stream, 300);
    let next = stream.state().totals.last_seq;
    drop(stream);
    store.close(&|| 201).unwrap();
    let lost = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
    Told { there, lost, next }
}

/// Sequences that a repair names as lost.
fn named(told: &[String]) -> BTreeSet<Seq> {
    let range = |line: &String| -> Option<RangeInclusive<Seq>> {
        let (_, rest) = line.split_once("messages ")?;
        let mut words = rest.split(' ');
        let first = words.next()?.parse().ok()?;
        let last = words.nth(1)?.trim_end_matches([':', ';', ',']).parse().ok()?;
        Some(first..=last)
    };
    told.iter().filter(|line| line.contains("lost")).filter_map(range).flatten().collect()
}

fn segments(disk: &FaultyDisk, id: StreamId) -> Vec<SegmentNo> {
    let names = disk.list(&stream_directory(Path::new(ROOT), id)).unwrap();
    let mut numbers: Vec<_> = names.iter().filter_map(|entry| segment_number(&entry.name)).collect();
    numbers.sort();
    numbers
}

/// Documents that are gone beside a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    Nothing,
    OneManifest,
    Manifests,
    BrokenManifests,
    Base,
    OneMeta,
    OneWatermarks,
    Watermarks,
    Journal,
}

impl Gone {
    const ALL: [Self; 9] = [
        Self::Nothing,
        Self::OneManifest,
        Self::Manifests,
        Self::BrokenManifests,
        Self::Base,
        Self::OneMeta,
        Self::OneWatermarks,
        Self::Watermarks,
        Self::Journal,
    ];

    fn apply(self, disk: &FaultyDisk, id: StreamId) {
        let root = Path::new(ROOT);
        let below = |directory: &Path, begin: &str| -> Vec<PathBuf> {
            let names = disk.list(directory).unwrap().into_iter().map(|entry| entry.name);
            names.filter(|name| name.starts_with(begin)).map(|name| directory.join(name)).collect()
        };
        let directory = stream_directory(root, id);
        let paths = match self {
            Self::Nothing => Vec::new(),
            Self::OneManifest => below(&directory, COPIES[0]),
            Self::Manifests | Self::BrokenManifests => below(&directory, "manifest."),
            Self::Base => below(&directory, "index."),
            Self::OneMeta => vec![directory.join(META_COPIES[0])],
            Self::OneWatermarks => vec![root.join(crate::watermarks::NAMES[0])],
            Self::Watermarks => crate::watermarks::NAMES.map(|name| root.join(name)).to_vec(),
            Self::Journal => below(&root.join("journal"), ""),
        };
        for path in paths {
            if self == Self::BrokenManifests {
                break_file(disk, &path);
            } else {
                disk.remove_file(&path).unwrap();
            }
        }
    }

    /// Whether nobody knows any more where a stream ends.
    fn hides_ends(self) -> bool {
        self == Self::Watermarks
    }
}

/// Which segments are gone, by their place among those that are there.
fn choices(numbers: &[SegmentNo]) -> Vec<(&'static str, Vec<SegmentNo>)> {
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    vec![
        ("first", vec![first]),
        ("first two", numbers[..2].to_vec()),
        ("middle", vec![numbers[numbers.len() / 2]]),
        ("last", vec![last]),
        ("first and last", vec![first, last]),
        ("all", numbers.to_vec()),
    ]
}

/// One store that was damaged.
struct Case<'a> {
    what: String,
    written: &'a Written,
    disk: FaultyDisk,
    gone: Gone,
}

impl Case<'_> {
    fn missing(&self, there: &BTreeSet<Seq>) -> BTreeSet<Seq> {
        // What nothing tells of may be anywhere behind the last one that is there.
        let end = if self.gone.hides_ends() { there.last().copied().unwrap_or(0) } else { self.written.last };
        self.written.there.range(..=end).filter(|seq| !there.contains(seq)).copied().collect()
    }

    /// Rules that do not hold with a repair before any start: it names what is lost, and the starts
    /// after it tell it.
    fn broken_by_a_repair(&self) -> Vec<String> {
        let disk = self.disk.power_cycle(Survival::All);
        let would = run(&disk, false, None, &[]).unwrap();
        let (summary, words) = run(&disk, true, None, &[]).unwrap();
        let mut rules = vec![(would == (summary, words.clone()), "does as announced".to_owned())];
        // Where nobody knows the end, the first start gives its sequences out again.
        let starts = if self.gone.hides_ends() { &[10][..] } else { &[10, 11] };
        for &seed in starts {
            let told = start(&disk, self.written.id, seed);
            let missing = self.missing(&told.there);
            let own: BTreeSet<Seq> = told.there.range(..=self.written.last).copied().collect();
            let next = told.next;
            rules.extend([
                (own.is_subset(&self.written.there), format!("nothing comes back ({seed}): {own:?}")),
                (missing.is_subset(&named(&words)), format!("it names {missing:?}")),
                (missing.is_subset(&told.lost), format!("{missing:?} are told ({seed}): {:?}", told.lost)),
                (told.lost.is_disjoint(&told.there), format!("what is told is missing ({seed}): {told:?}")),
                (self.gone.hides_ends() || next > self.written.last, format!("{next} comes once ({seed})")),
            ]);
        }
        self.broken("a repair", &words, rules)
    }

    /// Rules that do not hold where starts before the repair have told it: it is said once more.
    fn broken_by_an_acknowledgement(&self) -> Vec<String> {
        let disk = self.disk.power_cycle(Survival::All);
        let before = [start(&disk, self.written.id, 10), start(&disk, self.written.id, 11)];
        let mut rules = Vec::new();
        for told in &before {
            let missing = self.missing(&told.there);
            rules.push((missing.is_subset(&told.lost), format!("{missing:?} are told: {:?}", told.lost)));
        }
        let (_, words) = run(&disk, true, None, &[]).unwrap();
        let told = start(&disk, self.written.id, 12);
        let missing = self.missing(&told.there);
        rules.extend([
            (missing.is_subset(&named(&words)), format!("it says {missing:?} once more")),
            (before[1].there.is_subset(&told.there), format!("all is there that was: {told:?}")),
            (told.next > before[1].next, format!("{} comes once", told.next)),
            (before[1].next > before[0].next, format!("{} comes once", before[1].next)),
        ]);
        self.broken("starts and a repair", &words, rules)
    }

    fn broken(&self, after: &str, words: &[String], rules: Vec<(bool, String)>) -> Vec<String> {
        let broken = rules.into_iter().filter(|(holds, _)| !holds);
        broken.map(|(_, rule)| format!("{}, {after}: not so: {rule}; {words:#?}", self.what)).collect()
    }
}

fn is_never_silent(end: End) {
    let left = left(end);
    let mut broken = Vec::new();
    for written in &left.streams {
        let numbers = segments(&left.disk, written.id);
        assert!(numbers.len() > 3, "{}: {numbers:?}", written.name);
        for (which, lost) in choices(&numbers) {
            for gone in Gone::ALL {
                let disk = left.disk.power_cycle(Survival::All);
                for no in &lost {
                    disk.remove_file(&path(written.id, &segment_name(*no))).unwrap();
                }
                gone.apply(&disk, written.id);
                let what =
                    format!("{}, {end:?}: {which} of {} segments, {gone:?}", written.name, numbers.len());
                let case = Case { what, written, disk, gone };
                broken.extend(case.broken_by_a_repair());
                // Without a manifest that can be read no start opens a stream that had one.
                if gone != Gone::BrokenManifests || written.name == "YOUNG" {
                    broken.extend(case.broken_by_an_acknowledgement());
                }
            }
        }
    }
    assert!(broken.is_empty(), "{} rules: {}", broken.len(), broken.join("\n"));
}

#[test]
fn a_segment_that_is_gone_is_named_after_a_stop() {
    is_never_silent(End::Clean);
}

#[test]
fn a_segment_that_is_gone_is_named_after_a_kill() {
    is_never_silent(End::Killed);
}

/// Without a manifest, what was removed long ago is missing, too.
#[test]
fn what_was_removed_long_ago_is_not_named() {
    for end in [End::Clean, End::Killed] {
        let left = left(end);
        for written in &left.streams {
            for gone in [Gone::Manifests, Gone::BrokenManifests] {
                let disk = left.disk.power_cycle(Survival::All);
                gone.apply(&disk, written.id);
                let (summary, words) = run(&disk, true, None, &[]).unwrap();
                let what = format!("{}, {end:?}, {gone:?}: {words:#?}", written.name);
                assert!(summary.is_whole(), "{what}");
                let told = start(&disk, written.id, 10);
                assert_eq!((&told.there, told.lost.len()), (&written.there, 0), "{what}: {told:?}");
            }
        }
    }
}

/// The first segment of a stream that never had a manifest, as an operator sees it.
#[test]
fn a_first_segment_that_is_gone_is_named() {
    let left = left(End::Killed);
    let young = &left.streams[0];
    let first = segment_name(SegmentNo(1));
    left.disk.remove_file(&path(young.id, &first)).unwrap();
    let header = segments(&left.disk, young.id)[0];
    let file = left.disk.open(&path(young.id, &segment_name(header))).unwrap();
    let next = crate::segment::SegmentHeader::read(&*file).unwrap().first_seq;
    let place = format!("streams/{}", hex(young.id));
    for apply in [false, true] {
        let (summary, told) = run(&left.disk, apply, None, &[]).unwrap();
        assert_eq!(summary.lost, 2, "{told:#?}");
        let lines = [
            format!("lost: {place} (A > YOUNG): segments 1 to 1 are missing"),
            format!(
                "lost: {place}/{first} (A > YOUNG): messages 1 to {} are lost: it is missing in part or as a whole",
                next - 1
            ),
        ];
        assert!(lines.iter().all(|line| told.contains(line)), "{told:#?}");
    }
    let told = start(&left.disk, young.id, 10);
    assert_eq!(told.lost, (1..next).collect());
    // The new manifest knows of no segment before, and the repair that comes then says it for good.
    let (summary, told) = run(&left.disk, true, None, &[]).unwrap();
    assert!(summary.is_whole() && named(&told) == (1..next).collect(), "{told:#?}");
    assert_eq!(start(&left.disk, young.id, 11).lost, BTreeSet::new());
}

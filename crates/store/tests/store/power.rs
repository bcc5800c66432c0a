//! Loss of power where messages are acknowledged before they are synced: no sequence that was given
//! out is given out again, wherever it strikes; nobody waits for that on an ordinary run; and a
//! stream at rest leaves no gap.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use myelin_disk::Disk;
use myelin_disk::faulty::{DiskFault, DiskOperation, FaultyDisk, Survival};
use myelin_store::entropy::SeededEntropy;
use myelin_store::verify::{self, Severity};
use myelin_store::{
    Admission, Durability, Lost, NewMessage, Notice, OnRelease, Reserve, Seq, Store, StoreOptions, Stream,
    StreamConfig, StreamId, StreamReport, Ticket,
};

const ROOT: &str = "/store";
const SECOND: u64 = 1_000_000_000;
/// Sequences that a stream gives out before its first mark.
const AHEAD: u64 = 64;

fn config(durability: Durability) -> StreamConfig {
    StreamConfig { durability, ..StreamConfig::default() }
}

fn open(disk: &FaultyDisk, turn: u64, ahead: u64) -> Option<(Store, Vec<(StreamId, String)>)> {
    let options = StoreOptions {
        headroom_bytes: 0,
        journal_file_bytes: 64 << 10,
        reserve: Reserve::Ahead(ahead),
        ..StoreOptions::new(ROOT)
    };
    let entropy = Arc::new(SeededEntropy::new(turn));
    let (store, report) = Store::open(Arc::new(disk.clone()), options, entropy).ok()?;
    let found = report.streams.into_iter().map(|found| (found.id, found.meta.name)).collect();
    Some((store, found))
}

/// Stores `count` messages as one batch; answers the last sequence.
fn put(stream: &mut Stream, count: u64) -> Option<Seq> {
    let message = NewMessage { subject: b"a", timestamp: 1, ..NewMessage::default() };
    let mut outcomes = Vec::new();
    stream.append(&vec![message; count as usize], Admission::Granted, 1, &mut outcomes).ok()?;
    outcomes.last().and_then(|outcome| (*outcome).ok())
}

fn round(store: &Store, now: u64) {
    store.journal().round_now(&|| now).expect("a healthy disk");
}

/// A store with one stream, and what its opening says of that.
fn reopen(disk: &FaultyDisk, turn: u64, config: StreamConfig) -> (Store, Stream, StreamReport) {
    let (store, found) = open(disk, turn, 4096).expect("a healthy disk");
    let (stream, report) = store.open_stream(found[0].0, config, 1).expect("a healthy disk");
    (store, stream, report)
}

fn created(disk: &FaultyDisk, config: StreamConfig) -> (Store, Stream) {
    let (store, _) = open(disk, 1, 4096).expect("a healthy disk");
    let stream = store.create_stream("A", "S", b"", config, 1).expect("a healthy disk");
    (store, stream)
}

const STREAMS: [(&str, Durability); 4] = [
    ("one", Durability::Written),
    ("two", Durability::Written),
    ("lazy", Durability::Memory),
    ("synced", Durability::Synced),
];

fn durability(name: &str) -> Durability {
    STREAMS.iter().find(|(other, _)| *other == name).expect("it is one of them").1
}

/// Works until the disk is off, and notes the last sequence of each stream that was released while
/// it was on.
fn work(disk: &FaultyDisk, turn: u64, given: &mut BTreeMap<&'static str, Seq>) -> Option<()> {
    let (store, found) = open(disk, turn, AHEAD)?;
    let mut streams = Vec::new();
    for (name, durability) in STREAMS {
        let known = found.iter().find(|(_, other)| other == name);
        let stream = match known {
            Some((id, _)) => store.open_stream(*id, config(durability), 1).ok()?.0,
            None => store.create_stream("A", name, b"", config(durability), 1).ok()?,
        };
        streams.push((name, stream));
    }
    let mut now = turn << 40;
    // Bursts of all lengths, short and long rests, rounds that come late.
    let turns: [(&[u64; 4], u64, bool); 16] = [
        (&[1, 3, 40, 2], 0, false),
        (&[30, 30, 30, 30], 5, true),
        (&[40, 1, 1, 1], 5, false),
        (&[40, 100, 80, 1], 5, true),
        (&[3000, 1, 1, 1], 10, true),
        (&[3000, 200, 1, 1], 10, true),
        (&[6000, 200, 300, 7], 10, true),
        (&[1, 0, 0, 0], 2000, true),
        (&[0, 1, 0, 0], 2000, true),
        (&[0, 0, 0, 1], 70_000, true),
        (&[1, 0, 1, 0], 70_000, true),
        (&[1, 1, 1, 1], 10, false),
        (&[5, 5, 5, 5], 10, true),
        (&[9000, 1, 6000, 1], 10, false),
        (&[1, 1, 1, 1], 10, true),
        (&[1, 1, 1, 1], 10, false),
    ];
    for (counts, millis, has_round) in turns {
        for ((name, stream), count) in streams.iter_mut().zip(counts) {
            if *count > 0 {
                put(stream, *count)?;
            }
            note(disk, name, stream, given);
        }
        now += millis * SECOND / 1000;
        if has_round {
            store.journal().round_now(&|| now).ok()?;
            let _ = store.write_watermarks();
        }
        for (name, stream) in &streams {
            note(disk, name, stream, given);
        }
    }
    Some(())
}

fn note(disk: &FaultyDisk, name: &'static str, stream: &Stream, given: &mut BTreeMap<&'static str, Seq>) {
    if !disk.is_off() {
        let last = given.entry(name).or_default();
        *last = stream.released().max(*last);
    }
}

/// The next sequence of each stream is behind all that were given out.
fn check(disk: &FaultyDisk, given: &BTreeMap<&'static str, Seq>, what: &str) {
    let (store, found) = open(disk, 77, AHEAD).expect("a healthy disk");
    for (id, name) in found {
        let (mut stream, report) =
            store.open_stream(id, config(durability(&name)), 1).expect("a healthy disk");
        assert!(!report.is_damaged() && report.lost.is_empty(), "{what}: {name}: {report:?}");
        let next = put(&mut stream, 1).expect("a healthy disk");
        let last = given.get(name.as_str()).copied().unwrap_or(0);
        assert!(next > last, "{what}: {name} gives {next} out again, where {last} was given out: {report:?}");
        assert!(next <= last + 20_000_000, "{what}: {name}: {next} after {last}");
        let passed = report.notices.iter().any(|notice| matches!(notice, Notice::PassedOver { .. }));
        assert_eq!(passed, report.uncertain.is_some(), "{what}: {name}: {report:?}");
    }
}

#[test]
fn no_sequence_is_given_out_twice_wherever_the_power_fails() {
    let healthy = FaultyDisk::new(3);
    work(&healthy, 1, &mut BTreeMap::new()).expect("a healthy disk");
    let points = healthy.points();
    let moved = healthy.journal().iter().filter(|step| is_sync_of_marks(step)).count();
    assert!(points > 200 && moved > 7, "{points} points, {moved} moves");
    for point in 0..=points {
        let disk = FaultyDisk::new(3);
        disk.fail_at(point, DiskFault::Crash);
        let mut given = BTreeMap::new();
        let _ = work(&disk, 1, &mut given);
        for survival in
            [Survival::None, Survival::All, Survival::Random(point), Survival::Random(point + 1000)]
        {
            check(&disk.power_cycle(survival), &given, &format!("{point} {survival:?}"));
        }
        // The next process is killed before it has done much: the doubt stays.
        let next = disk.power_cycle(Survival::None);
        next.fail_at(point % 61, DiskFault::Crash);
        let mut later = given.clone();
        let _ = work(&next, 2, &mut later);
        // What a kill takes out of memory is another matter.
        given.get("lazy").map(|seq| later.insert("lazy", *seq));
        check(&next.kill(), &later, &format!("{point}, then a kill at {}", point % 61));
        // The next process works on, and loses power, too.
        for behind in [point % 23, 60 + point % 31] {
            let next = disk.power_cycle(Survival::Random(behind));
            next.fail_at((point + behind) % points, DiskFault::Crash);
            let mut given = given.clone();
            let _ = work(&next, 2, &mut given);
            check(&next.power_cycle(Survival::None), &given, &format!("{point}, then {behind}"));
        }
    }
}

fn is_sync_of_marks(step: &myelin_disk::faulty::DiskStep) -> bool {
    step.path == Path::new(ROOT).join("watermarks") && step.operation == DiskOperation::Sync
}

/// Lost sequences may be given out again after all where nothing is stated: the test above can
/// fail.
#[test]
fn without_marks_sequences_come_again() {
    let disk = FaultyDisk::new(3);
    let options = StoreOptions { reserve: Reserve::Nothing, headroom_bytes: 0, ..StoreOptions::new(ROOT) };
    let entropy = Arc::new(SeededEntropy::new(1));
    let (store, _) = Store::open(Arc::new(disk.clone()), options, entropy).expect("a healthy disk");
    let mut stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).expect("a healthy disk");
    round(&store, 1);
    put(&mut stream, 10);
    let (_store, mut stream, _) = reopen(&disk.power_cycle(Survival::None), 2, StreamConfig::default());
    assert!(put(&mut stream, 1) <= Some(10));
}

#[derive(Default)]
struct Told(Mutex<Vec<Seq>>);

impl OnRelease for Told {
    fn released(&self, _: StreamId, seq: Seq, _: Ticket) {
        self.0.lock().expect("nobody panics").push(seq);
    }
    fn failed(&self, _: StreamId, _: &str) {
        self.0.lock().expect("nobody panics").push(0);
    }
    fn damaged(&self, _: StreamId, lost: &Lost, _: usize) {
        panic!("nothing is damaged: {lost:?}");
    }
}

#[test]
fn what_is_behind_the_mark_waits_for_it_and_is_told() {
    let disk = FaultyDisk::new(4);
    let (store, mut stream) = created(&disk, StreamConfig::default());
    let told = Arc::new(Told::default());
    stream.on_release(Arc::clone(&told) as Arc<dyn OnRelease>);
    assert_eq!(put(&mut stream, 1), Some(1));
    assert_eq!(stream.released(), 0, "nothing states that the stream has files");
    store.journal().round(&|| 4).expect("a healthy disk");
    assert_eq!(put(&mut stream, 4096), Some(4097));
    assert_eq!(stream.released(), 4097, "without a round");
    assert_eq!(put(&mut stream, 1), Some(4098));
    assert_eq!(put(&mut stream, 1), Some(4099));
    let ticket = stream.ticket();
    assert_eq!((stream.released(), stream.release().is_released(ticket)), (4097, false));
    assert_eq!(store.journal().next_due(5), Some(std::time::Duration::ZERO), "somebody waits");
    store.journal().round(&|| SECOND).expect("a healthy disk");
    assert_eq!((stream.released(), stream.release().is_released(ticket)), (4099, true));
    assert_eq!(*told.0.lock().expect("nobody panics"), [1, 4099]);
    // Nobody waits where the mark moves in time.
    for burst in 1..=20 {
        put(&mut stream, 2000);
        assert_eq!(stream.released(), 4099 + 2000 * burst);
        store.journal().round(&|| (burst + 1) * SECOND).expect("a healthy disk");
    }
    assert_eq!(told.0.lock().expect("nobody panics").len(), 2);
}

/// A panic in a round, at any point of the disk that the journal survives.
#[test]
fn a_mark_that_a_panic_kept_from_moving_moves_with_the_next_round() {
    let mut survived = 0;
    for nth in 0.. {
        let points = Arc::new(AtomicUsize::new(usize::MAX));
        let left = Arc::clone(&points);
        let pass = move |left: usize| (left < usize::MAX).then(|| left.checked_sub(1).unwrap_or(usize::MAX));
        let watcher = move |_: &DiskOperation| {
            assert_ne!(left.fetch_update(Relaxed, Relaxed, pass), Ok(0), "planned");
        };
        let (store, mut stream) =
            created(&FaultyDisk::new(4).watched(Arc::new(watcher)), StreamConfig::default());
        put(&mut stream, 5000);
        assert_eq!(stream.released(), 0, "it waits for the mark");
        points.store(nth, Relaxed);
        let panicked =
            catch_unwind(AssertUnwindSafe(|| drop(store.journal().round_now(&|| SECOND)))).is_err();
        points.store(usize::MAX, Relaxed);
        if !panicked {
            break;
        }
        if store.journal().round_now(&|| 2 * SECOND).is_ok() {
            survived += 1;
            assert_eq!(stream.released(), 5000, "at point {nth}");
        }
    }
    assert!(survived > 1, "marks are stated outside of what ends a journal");
}

#[test]
fn a_mark_that_cannot_be_stated_fails_who_waits_for_it_and_one_copy_is_enough() {
    for (fails_both, expected) in [(false, true), (true, false)] {
        let disk = FaultyDisk::new(6);
        let (store, mut stream) = created(&disk, StreamConfig::default());
        let healthy = FaultyDisk::new(6);
        let (other, mut twin) = created(&healthy, StreamConfig::default());
        put(&mut twin, 5000);
        round(&other, 1);
        let at = healthy.journal().into_iter().rfind(is_sync_of_marks).expect("they are synced").point;
        let fault = if fails_both { DiskFault::ErrorsFrom } else { DiskFault::Error };
        disk.fail_at(at, fault(std::io::ErrorKind::Other));
        put(&mut stream, 5000);
        let _ = store.journal().round_now(&|| 1);
        assert_eq!(stream.failure().is_none(), expected, "{:?}", stream.failure());
        assert_eq!(stream.released() == 5000, expected);
        disk.heal();
        if fails_both {
            // What it has is shown, since the new one has synced it.
            store.reopen_stream(&mut stream, 1).expect("a healthy disk");
            put(&mut stream, 1);
            let _ = store.journal().round_now(&|| 2);
            assert_eq!((stream.failure(), stream.released()), (None, 5001));
        }
        assert!(store.write_watermarks().is_err(), "an operator hears of it");
        store.write_watermarks().expect("once");
        let next = disk.power_cycle(Survival::None);
        let last = stream.released();
        let (_store, mut stream, _) = reopen(&next, 3, StreamConfig::default());
        assert!(put(&mut stream, 1) > Some(last));
    }
}

#[test]
fn a_stream_at_rest_leaves_no_gap_and_one_that_was_busy_a_short_one() {
    let disk = FaultyDisk::new(7);
    let (store, mut stream) = created(&disk, StreamConfig::default());
    for burst in 0..5 {
        put(&mut stream, 20_000);
        round(&store, SECOND + burst * 10_000_000);
    }
    let last = stream.released();
    assert_eq!(last, 100_000);
    let gap = |disk: &FaultyDisk| {
        let next = disk.power_cycle(Survival::None);
        let (_store, mut stream, report) = reopen(&next, 2, StreamConfig::default());
        let next = put(&mut stream, 1).expect("a healthy disk");
        assert_eq!(report.uncertain, (next > last + 1).then_some(last + 1..=next - 1));
        next - last - 1
    };
    assert!(gap(&disk) > 100_000, "what comes in a second");
    for second in 2..5 {
        store.journal().round(&|| second * SECOND).expect("a healthy disk");
    }
    assert_eq!(gap(&disk), 4096);
    store.journal().round(&|| 70 * SECOND).expect("a healthy disk");
    assert_eq!(gap(&disk), 0);
    assert_eq!(store.journal().next_due(71 * SECOND), None, "nothing is left to do");
    // The next message waits for one sync, and no other one does.
    put(&mut stream, 1);
    assert_eq!(stream.released(), last);
    store.journal().round(&|| 72 * SECOND).expect("a healthy disk");
    put(&mut stream, 300);
    assert_eq!(stream.released(), last + 301);
}

#[test]
fn a_stop_leaves_no_gap_and_nobody_waits_after_it() {
    for durability in [Durability::Written, Durability::Memory] {
        let disk = FaultyDisk::new(8);
        let (store, mut stream) = created(&disk, config(durability));
        put(&mut stream, 600);
        round(&store, 1);
        store.close(&|| 2).expect("a healthy disk");
        drop((store, stream));
        let disk = disk.power_cycle(Survival::None);
        let (_store, mut stream, report) = reopen(&disk, 2, config(durability));
        assert_eq!((report.notices, report.uncertain), (vec![], None));
        assert_eq!((put(&mut stream, 1), stream.released()), (Some(601), 601));
    }
}

#[test]
fn where_each_message_is_synced_no_sequence_is_passed_over() {
    let disk = FaultyDisk::new(9);
    let (store, _) = open(&disk, 1, 0).expect("a healthy disk");
    let mut stream =
        store.create_stream("A", "S", b"", config(Durability::Synced), 1).expect("a healthy disk");
    put(&mut stream, 5);
    round(&store, 1);
    put(&mut stream, 5);
    let (_store, mut stream, report) =
        reopen(&disk.power_cycle(Survival::None), 2, config(Durability::Synced));
    assert_eq!((put(&mut stream, 1), report.notices), (Some(6), vec![]));
}

#[test]
fn a_kill_leaves_no_gap() {
    for (durability, next) in [(Durability::Written, 11), (Durability::Memory, 6)] {
        let disk = FaultyDisk::new(10);
        let (store, mut stream) = created(&disk, config(durability));
        put(&mut stream, 5);
        round(&store, 1);
        put(&mut stream, 5);
        let (_store, mut stream, report) = reopen(&disk.kill(), 2, config(durability));
        assert_eq!((put(&mut stream, 1), report.uncertain), (Some(next), None));
    }
}

#[test]
fn it_is_told_and_a_check_calls_it_no_damage() {
    let disk = FaultyDisk::new(11);
    let (store, mut stream) = created(&disk, StreamConfig::default());
    put(&mut stream, 10);
    round(&store, 1);
    put(&mut stream, 10);
    let next = disk.power_cycle(Survival::None);
    let mut told = Vec::new();
    let shared: Arc<dyn Disk> = Arc::new(next.clone());
    let summary = verify::check(&shared, Path::new(ROOT), None, &mut |finding| told.push(finding.clone()));
    assert!(summary.expect("it can be read").is_sound(), "{told:?}");
    let told: Vec<_> = told.iter().filter(|finding| finding.sequences.is_some()).collect();
    assert_eq!(
        (told.len(), told[0].severity, told[0].sequences.clone()),
        (1, Severity::Note, Some(11..=4106))
    );
    let (store, stream, report) = reopen(&next, 2, StreamConfig::default());
    let words: Vec<_> = report.notices.iter().map(ToString::to_string).collect();
    let expected = "the machine stopped without having synced its last messages: sequences 11 to 4106 are not \
                    used, because some of them may have been given out";
    assert_eq!(words, [expected]);
    assert!(report.lost.is_empty() && !report.is_damaged());
    assert_eq!(stream.state().totals.last_seq, 4106);
    // Once: the next loss of power comes behind it.
    store.close(&|| 2).expect("a healthy disk");
    drop((store, stream));
    let (_store, stream, report) = reopen(&next.kill(), 3, StreamConfig::default());
    assert_eq!((stream.state().totals.last_seq, report.notices), (4106, vec![]));
}

#[test]
fn a_copy_goes_on_where_its_log_ends_until_it_is_a_stream_of_its_own() {
    let copy = StreamConfig { is_copy: true, ..StreamConfig::default() };
    let disk = FaultyDisk::new(12);
    let (store, mut stream) = created(&disk, copy);
    put(&mut stream, 10);
    round(&store, 1);
    put(&mut stream, 10);
    let (_store, mut stream, report) = reopen(&disk.power_cycle(Survival::None), 2, copy);
    assert_eq!((report.notices, report.uncertain), (vec![], Some(11..=4106)));
    assert_eq!(put(&mut stream, 2), Some(12), "its origin has them still");
    stream.set_config(StreamConfig::default(), 3).expect("a healthy disk");
    assert_eq!(put(&mut stream, 1), Some(4107));
}

/// Whatever ends the processes after a loss of power: a copy that has not come as far as it had
/// shown before still knows how far that was.
#[test]
fn what_a_copy_owes_is_known_to_later_processes() {
    let copy = StreamConfig { is_copy: true, ..StreamConfig::default() };
    for stops in [[false, false], [false, true], [true, false], [true, true]] {
        let disk = FaultyDisk::new(13);
        let (store, mut stream) = created(&disk, copy);
        put(&mut stream, 10);
        round(&store, 1);
        put(&mut stream, 10);
        let mut disk = disk.power_cycle(Survival::None);
        for (turn, is_stopped) in stops.into_iter().enumerate() {
            let (store, mut stream, _) = reopen(&disk, 2 + turn as u64, copy);
            put(&mut stream, 1);
            // At rest the mark comes back, but not behind what is owed.
            for second in [1, 3, 70] {
                store.journal().round(&|| second * SECOND).expect("a healthy disk");
            }
            if is_stopped {
                store.close(&|| 71 * SECOND).expect("a healthy disk");
            }
            drop((store, stream));
            disk = disk.kill();
        }
        let (store, mut stream, report) = reopen(&disk, 9, copy);
        assert_eq!(report.notices, []);
        stream.set_config(StreamConfig::default(), 3).expect("a healthy disk");
        assert_eq!(put(&mut stream, 1), Some(4107), "{stops:?}");
        // It is paid.
        store.close(&|| 80 * SECOND).expect("a healthy disk");
        drop((store, stream));
        let (_store, mut stream, _) = reopen(&disk.kill(), 10, StreamConfig::default());
        assert_eq!(put(&mut stream, 1), Some(4108), "{stops:?}");
    }
}

/// Does the stream's jobs until none is left.
fn tend(store: &Store, stream: &mut Stream) {
    round(store, 2);
    while let Some(job) = stream.next_job(2) {
        stream.finish(job.run(), 2).expect("a healthy disk");
        round(store, 2);
    }
}

/// Segments on the disk.
fn segments(disk: &FaultyDisk) -> usize {
    let names = |path: &Path| disk.list(path).expect("a healthy disk").into_iter().map(|entry| entry.name);
    let streams = Path::new(ROOT).join("streams");
    let of_stream = |name: String| names(&streams.join(name)).filter(|name| name.ends_with(".seg")).count();
    names(&streams).map(of_stream).sum()
}

/// A start that finds nothing but sealed segments passes over sequences before it begins one, whose
/// footer has to say so.
#[test]
fn what_was_passed_over_stays_so_when_the_segment_behind_it_is_sealed() {
    let disk = FaultyDisk::new(14);
    let (store, mut stream) = created(&disk, StreamConfig::default());
    put(&mut stream, 10);
    round(&store, 1);
    stream.close_segment(0, 2).expect("a healthy disk");
    let job = stream.next_job(2).expect("a segment is to be sealed");
    stream.finish(job.run(), 2).expect("a healthy disk");
    // Of the segment that was begun behind it nothing is synced.
    put(&mut stream, 1);
    let disk = disk.power_cycle(Survival::None);
    let (store, mut stream, report) = reopen(&disk, 2, StreamConfig::default());
    let passed = report.passed_over.clone().expect("sequences were given out and not synced");
    assert_eq!((passed.clone(), segments(&disk)), (11..=4106, 2), "the sealed one, and a new one");
    let next = put(&mut stream, 5).expect("a healthy disk");
    stream.close_segment(0, 2).expect("a healthy disk");
    tend(&store, &mut stream);
    drop((store, stream));
    let (_store, mut stream, report) = reopen(&disk.kill(), 3, StreamConfig::default());
    assert_eq!(report.notices, []);
    assert_eq!((stream.state().totals.messages, stream.state().totals.last_seq), (15, next));
    assert_eq!(stream.reader().deleted(), [passed]);
    stream.compact(3, 100, 3).expect("a healthy disk");
    assert_eq!(stream.state().totals.messages, 13);
}

#[test]
fn what_waits_for_the_mark_is_known_behind_a_stronger_mode() {
    let disk = FaultyDisk::new(15);
    let (store, mut stream) = created(&disk, StreamConfig::default());
    assert_eq!((put(&mut stream, 3), stream.released()), (Some(3), 0));
    stream.set_config(config(Durability::Synced), 2).expect("a healthy disk");
    assert_eq!(stream.reader().last_logged(), 3);
    round(&store, 2);
    assert_eq!((stream.released(), stream.reader().last_logged()), (3, 3));
}

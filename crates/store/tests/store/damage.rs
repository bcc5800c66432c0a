//! Files are damaged while nobody uses the store: what is missing is said, and no sequence is given
//! out twice.
//!
//! After a clean stop, and after a kill once the watermarks were written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_store::consumer::AckRules;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{
    Admission, Durability, Filter, NewMessage, Reserve, Seq, Store, StoreOptions, StoreReport, Stream,
    StreamConfig, StreamReport, Wait, verify,
};

const MESSAGES: u64 = 400;
const ROOT: &str = "/store";

/// How the process before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    Kill,
}

const ENDS: [End; 2] = [End::Stop, End::Kill];
const MODES: [Durability; 2] = [Durability::Written, Durability::Synced];

fn config(durability: Durability) -> StreamConfig {
    StreamConfig { durability, ..StreamConfig::default() }
}

fn open(disk: &FaultyDisk, turn: u64) -> (Store, StoreReport) {
    let options = StoreOptions {
        headroom_bytes: 0,
        journal_file_bytes: 1 << 20,
        reserve: Reserve::Nothing,
        ..StoreOptions::new(ROOT)
    };
    let entropy = Arc::new(SeededEntropy::new(turn));
    Store::open(Arc::new(disk.clone()), options, entropy).expect("the store opens")
}

fn append(stream: &mut Stream, subject: &str) -> Seq {
    let message = NewMessage {
        timestamp: 5,
        subject: subject.as_bytes(),
        payload: b"some thirty bytes of a message",
        ..NewMessage::default()
    };
    let mut outcomes = Vec::new();
    stream.append(&[message], Admission::Check, 5, &mut outcomes).expect("there is room");
    outcomes[0].expect("nothing limits it")
}

/// A store with two streams of 400 messages each, as the next process finds it.
fn left(durability: Durability, end: End) -> FaultyDisk {
    let disk = FaultyDisk::new(3);
    let (store, _) = open(&disk, 1);
    let made = |name| store.create_stream("A", name, b"", config(durability), 1).expect("a stream");
    let mut streams = ["hurt", "other"].map(made);
    for turn in 0..MESSAGES {
        streams.iter_mut().for_each(|stream| {
            append(stream, "a.b");
        });
        if turn % 50 == 0 {
            store.journal().round_now(&|| 5).expect("the disk works");
        }
    }
    store.journal().round_now(&|| 5).expect("the disk works");
    match end {
        End::Stop => store.close(&|| 5).expect("the disk works"),
        End::Kill => store.write_watermarks().expect("the disk works"),
    }
    drop((streams, store));
    disk.kill()
}

/// The directory of a stream.
fn directory(disk: &FaultyDisk, name: &str) -> PathBuf {
    let clean = disk.kill();
    let (_store, report) = open(&clean, 9);
    let found = report.streams.iter().find(|found| found.meta.name == name).expect("it was made");
    Path::new(ROOT).join("streams").join(format!("{:016x}", found.id.0))
}

fn segment(disk: &FaultyDisk) -> PathBuf {
    directory(disk, "hurt").join("0000000000000001.seg")
}

/// Where the entries of a segment end: behind them everything is zero.
fn used(disk: &FaultyDisk, path: &Path) -> u64 {
    let bytes = disk.read_all(path).expect("it is there");
    bytes.iter().rposition(|byte| *byte != 0).expect("it was written to") as u64 + 1
}

struct Found {
    store: Store,
    stream: Stream,
    report: StreamReport,
    notices: Vec<String>,
}

fn reopen(disk: &FaultyDisk, durability: Durability, turn: u64) -> Found {
    let (store, report) = open(disk, turn);
    let notices = report.notices.iter().map(ToString::to_string).collect();
    let mut hurt = None;
    for found in &report.streams {
        let opened = store.open_stream(found.id, config(durability), 7).expect("it opens");
        if found.meta.name == "hurt" {
            hurt = Some(opened);
        } else {
            assert_eq!(opened.0.state().totals.messages, MESSAGES, "the other stream");
            assert!(!opened.1.is_damaged(), "{:?}", opened.1);
        }
    }
    let (stream, report) = hurt.expect("it is there");
    Found { store, stream, report, notices }
}

/// Sequences of the messages that can be read.
pub(super) fn sequences(stream: &Stream) -> Vec<Seq> {
    let reader = stream.reader();
    let mut cursor = reader.cursor(Filter::All, 0);
    let mut seqs = Vec::new();
    while let Some(message) = cursor.next(Wait::Allowed).expect("what is there can be read") {
        seqs.push(message.seq);
    }
    seqs
}

fn check(disk: &FaultyDisk) -> (verify::Summary, Vec<String>) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut told = Vec::new();
    let summary = verify::check(&disk, Path::new(ROOT), None, &mut |finding| told.push(finding.to_string()));
    (summary.expect("there is a store"), told)
}

/// Checks that missing messages were reported, that the sequences go on, and that a later start
/// goes on behind them. Answers the sequences that are left.
fn goes_on(disk: &FaultyDisk, durability: Durability, what: &str) -> Vec<Seq> {
    let (summary, told) = check(disk);
    assert!(!summary.is_sound(), "{what}: {told:#?}");
    let Found { store, mut stream, report, .. } = reopen(disk, durability, 2);
    let there = sequences(&stream);
    assert_eq!(stream.state().totals.last_seq, MESSAGES, "{what}: {report:?}");
    assert_eq!(stream.state().totals.messages, there.len() as u64, "{what}");
    assert!(report.is_damaged(), "{what}");
    for missing in (1..=MESSAGES).filter(|seq| !there.contains(seq)) {
        assert!(
            report.lost.iter().any(|lost| lost.sequences.contains(&missing)),
            "{what}: {missing}: {report:?}"
        );
    }
    assert_eq!(append(&mut stream, "a.new"), MESSAGES + 1, "{what}");
    store.journal().round_now(&|| 5).expect("the disk works");
    store.write_watermarks().expect("the disk works");
    drop((stream, store));
    let killed = disk.kill();
    let Found { mut stream, .. } = reopen(&killed, durability, 3);
    assert_eq!(stream.state().totals.last_seq, MESSAGES + 1, "{what}");
    assert_eq!(append(&mut stream, "a.new"), MESSAGES + 2, "{what}");
    // Without the watermarks' word, as after a loss of power that takes what was not synced of
    // them.
    let off = disk.power_cycle(Survival::None);
    let Found { stream, .. } = reopen(&off, durability, 4);
    assert!(stream.state().totals.last_seq > MESSAGES, "{what}");
    there
}

fn remove_journal(disk: &FaultyDisk) {
    let journal: Vec<_> =
        disk.files().into_keys().filter(|path| path.starts_with("/store/journal")).collect();
    assert!(!journal.is_empty());
    journal.iter().for_each(|path| disk.remove_file(path).expect("it is there"));
}

fn everywhere(what: &str, hurt: impl Fn(&FaultyDisk, &Path, u64), judge: impl Fn(&[Seq], &str)) {
    for durability in MODES {
        for end in ENDS {
            let what = format!("{what}, {durability:?}, {end:?}");
            let disk = left(durability, end);
            let path = segment(&disk);
            let used = used(&disk, &path);
            hurt(&disk, &path, used);
            if end == End::Kill {
                let whole = disk.kill();
                let stream = reopen(&whole, durability, 2).stream;
                assert_eq!(
                    sequences(&stream),
                    (1..=MESSAGES).collect::<Vec<_>>(),
                    "{what}: the journal has all"
                );
                remove_journal(&disk);
            }
            judge(&goes_on(&disk, durability, &what), &what);
        }
    }
}

#[test]
fn what_is_not_damaged_is_sound() {
    for durability in MODES {
        for end in ENDS {
            let disk = left(durability, end);
            let (summary, told) = check(&disk);
            assert!(summary.is_sound() && summary.suspicious == 0, "{durability:?}, {end:?}: {told:?}");
            let Found { stream, report, notices, .. } = reopen(&disk, durability, 2);
            assert!(notices.is_empty() && report.notices.is_empty() && report.lost.is_empty());
            assert_eq!(stream.state().totals.last_seq, MESSAGES, "no gap: {durability:?}, {end:?}");
        }
    }
}

#[test]
fn a_flipped_bit_costs_the_message_that_it_touches() {
    let flip = |part: u64| {
        move |disk: &FaultyDisk, path: &Path, used: u64| {
            disk.flip_bit(path, used * part / 8, 3).expect("it is there");
        }
    };
    for part in [1, 4, 7] {
        everywhere("a bit", flip(part), |there, what| assert_eq!(there.len() as u64, MESSAGES - 1, "{what}"));
    }
}

#[test]
fn a_flipped_bit_in_the_last_message_is_no_torn_end() {
    let flip =
        |disk: &FaultyDisk, path: &Path, used: u64| disk.flip_bit(path, used - 3, 0).expect("it is there");
    everywhere("the last byte", flip, |there, what| assert_eq!(there.len() as u64, MESSAGES - 1, "{what}"));
}

#[test]
fn what_was_cut_is_missed() {
    let cut = |disk: &FaultyDisk, path: &Path, used: u64| disk.truncate(path, used / 2).expect("it is there");
    everywhere("cut in half", cut, |there, what| {
        assert!((195..205).contains(&there.len()), "{what}: {}", there.len());
        assert_eq!(there.last(), Some(&(there.len() as u64)), "{what}");
    });
    let byte =
        |disk: &FaultyDisk, path: &Path, used: u64| disk.truncate(path, used - 1).expect("it is there");
    everywhere("cut by a byte", byte, |there, what| assert_eq!(there.len() as u64, MESSAGES - 1, "{what}"));
}

#[test]
fn an_emptied_file_is_missed() {
    let empty = |disk: &FaultyDisk, path: &Path, _| disk.truncate(path, 0).expect("it is there");
    everywhere("emptied", empty, |there, what| assert!(there.is_empty(), "{what}"));
    let zero = |disk: &FaultyDisk, path: &Path, used| disk.zero(path, 0..used).expect("it is there");
    everywhere("zeros", zero, |there, what| assert!(there.is_empty(), "{what}"));
}

#[test]
fn a_removed_file_is_missed() {
    let remove = |disk: &FaultyDisk, path: &Path, _| disk.remove_file(path).expect("it is there");
    everywhere("removed", remove, |there, what| assert!(there.is_empty(), "{what}"));
}

#[test]
fn a_file_that_is_put_back_brings_its_messages_back() {
    let disk = left(Durability::Written, End::Stop);
    let path = segment(&disk);
    let content = disk.read_all(&path).expect("it is there");
    disk.remove_file(&path).expect("it is there");
    goes_on(&disk, Durability::Written, "removed");
    let disk = disk.kill();
    let file = disk.create(&path).expect("its number was not used again");
    file.write_at(&content, 0).expect("there is room");
    let Found { stream, .. } = reopen(&disk, Durability::Written, 6);
    assert_eq!(sequences(&stream), (1..=MESSAGES + 1).collect::<Vec<_>>());
}

#[test]
fn a_lost_journal_costs_nothing_that_was_stated() {
    let disk = left(Durability::Synced, End::Kill);
    remove_journal(&disk);
    assert!(!check(&disk).0.is_sound());
    let Found { stream, notices, .. } = reopen(&disk, Durability::Synced, 2);
    assert_eq!(stream.state().totals.messages, MESSAGES);
    // What came after the last statement cannot be known.
    assert!(notices.iter().any(|one| one.starts_with("journal: its files are missing")), "{notices:?}");
}

#[test]
fn a_lost_journal_of_a_store_that_was_stopped_is_none() {
    let disk = left(Durability::Synced, End::Stop);
    remove_journal(&disk);
    assert!(check(&disk).0.is_sound());
    let Found { stream, notices, .. } = reopen(&disk, Durability::Synced, 2);
    assert_eq!((stream.state().totals.messages, notices), (MESSAGES, Vec::new()));
}

#[test]
fn a_stream_whose_directory_is_gone_is_missed() {
    for end in ENDS {
        let disk = left(Durability::Written, end);
        let directory = directory(&disk, "other");
        let inside = |path: &PathBuf| path.starts_with(&directory);
        disk.files()
            .into_keys()
            .filter(inside)
            .for_each(|path| disk.remove_file(&path).expect("it is there"));
        disk.remove_directory(&directory).expect("it is empty");
        let (summary, told) = check(&disk);
        assert!(!summary.is_sound(), "{told:?}");
        let (_store, report) = open(&disk, 2);
        let told =
            report.notices.iter().any(|notice| notice.to_string().contains("its last message was 400"));
        assert!(told, "{report:?}");
    }
}

/// Puts a directory in the place of a file.
fn exchange(disk: &FaultyDisk, path: &Path) {
    disk.remove_file(path).expect("it is there");
    disk.make_directory(path).expect("nothing is in its place");
}

#[test]
fn a_directory_in_place_of_a_file_is_moved_aside_and_the_file_missed() {
    for end in ENDS {
        let whole = left(Durability::Written, end);
        let (hurt, other) = (segment(&whole), directory(&whole, "other"));
        for path in whole.files().into_keys().filter(|path| !path.starts_with(&other)) {
            let (what, disk) = (format!("{}, {end:?}", path.display()), whole.kill());
            exchange(&disk, &path);
            let (summary, told) = check(&disk);
            assert!(!summary.is_sound(), "{what}: {told:?}");
            assert!(
                told.iter().any(|told| told.contains("a directory where a file belongs")),
                "{what}: {told:?}"
            );
            if path == hurt {
                if end == End::Kill {
                    // It has all of the segment.
                    remove_journal(&disk);
                }
                goes_on(&disk, Durability::Written, &what);
                continue;
            }
            let Found { stream, notices, store, .. } = reopen(&disk, Durability::Written, 2);
            assert_eq!(stream.state().totals.messages, MESSAGES, "{what}");
            let is_said = |notice: &String| notice.contains("a directory where a file belongs");
            assert!(notices.iter().any(is_said), "{what}: {notices:?}");
            store.close(&|| 5).expect("the disk works");
            drop((stream, store));
            let Found { notices, .. } = reopen(&disk, Durability::Written, 3);
            assert!(!notices.iter().any(is_said), "{what}: {notices:?}");
        }
    }
}

#[test]
fn a_file_in_place_of_a_directory_is_moved_aside() {
    for name in ["journal", "quarantine"] {
        let disk = left(Durability::Written, End::Stop);
        let path = Path::new(ROOT).join(name);
        let inside: Vec<_> = disk.files().into_keys().filter(|file| file.starts_with(&path)).collect();
        inside.iter().for_each(|file| disk.remove_file(file).expect("it is there"));
        let _ = disk.remove_directory(&path);
        disk.create(&path).expect("nothing is in its place").write_at(b"a file", 0).expect("there is room");
        assert!(!check(&disk).0.is_sound(), "{name}");
        let Found { stream, notices, .. } = reopen(&disk, Durability::Written, 2);
        assert_eq!(stream.state().totals.messages, MESSAGES, "{name}");
        assert!(notices.iter().any(|one| one.contains("a file where a directory belongs")), "{notices:?}");
    }
    let disk = left(Durability::Written, End::Stop);
    let inside: Vec<_> = disk.files().into_keys().filter(|file| file.starts_with("/store/streams")).collect();
    inside.iter().for_each(|file| disk.remove_file(file).expect("it is there"));
    for name in disk.list(Path::new("/store/streams")).expect("it is there") {
        disk.remove_directory(&Path::new("/store/streams").join(name.name)).expect("it is empty");
    }
    disk.remove_directory(Path::new("/store/streams")).expect("it is empty");
    disk.create(Path::new("/store/streams")).expect("nothing is in its place");
    let (_store, report) = open(&disk, 2);
    let told = report.notices.iter().filter(|notice| notice.to_string().contains("its last message was 400"));
    assert_eq!(told.count(), 2, "{report:?}");
}

#[test]
fn one_copy_of_the_watermarks_is_enough() {
    type Hurt = fn(&FaultyDisk, &Path);
    let faults: [Hurt; 5] = [
        |disk, path| disk.flip_bit(path, 40, 1).expect("it is there"),
        |disk, path| disk.flip_bit(path, 512 + 70, 1).expect("it is there"),
        |disk, path| disk.truncate(path, 600).expect("it is there"),
        |disk, path| disk.truncate(path, 0).expect("it is there"),
        |disk, path| disk.remove_file(path).expect("it is there"),
    ];
    for name in ["/store/watermarks", "/store/watermarks.copy"] {
        for (at, fault) in faults.iter().enumerate() {
            let disk = left(Durability::Written, End::Stop);
            fault(&disk, Path::new(name));
            let path = segment(&disk);
            let used = used(&disk, &path);
            disk.truncate(&path, used / 2).expect("it is there");
            goes_on(&disk, Durability::Written, &format!("{name}, fault {at}"));
            let copies =
                ["/store/watermarks", "/store/watermarks.copy"].map(|path| disk.read_all(Path::new(path)));
            let [one, other] = copies.map(|copy| copy.expect("it was made again"));
            assert_eq!(one, other, "{name}, fault {at}");
        }
    }
}

#[test]
fn without_watermarks_the_store_opens_and_says_so() {
    let disk = left(Durability::Written, End::Stop);
    for name in ["/store/watermarks", "/store/watermarks.copy"] {
        disk.remove_file(Path::new(name)).expect("it is there");
    }
    let Found { stream, report, notices, .. } = reopen(&disk, Durability::Written, 2);
    assert_eq!(stream.state().totals.last_seq, MESSAGES, "no gap: nothing says that power was lost");
    assert!(report.notices.is_empty());
    assert!(matches!(&notices[..], [one] if one.contains("stated nowhere")), "{notices:?}");
}

#[test]
fn a_deleted_stream_is_not_missed() {
    for end in ENDS {
        let disk = FaultyDisk::new(3);
        let (store, _) = open(&disk, 1);
        let mut stream =
            store.create_stream("A", "gone", b"", config(Durability::Written), 1).expect("a stream");
        append(&mut stream, "a.b");
        store.write_watermarks().expect("the disk works");
        store.delete_stream(&mut stream).expect("the disk works");
        if end == End::Stop {
            store.close(&|| 5).expect("the disk works");
        }
        drop((stream, store));
        let (_store, report) = open(&disk.kill(), 2);
        assert!(report.streams.is_empty() && report.notices.is_empty(), "{report:?}");
    }
}

/// A store whose stream has three consumers, and the log of these.
fn with_consumers(end: End) -> (FaultyDisk, PathBuf) {
    let disk = FaultyDisk::new(3);
    let (store, _) = open(&disk, 1);
    let mut stream = store.create_stream("A", "hurt", b"", config(Durability::Written), 1).expect("a stream");
    append(&mut stream, "a.b");
    let (mut consumers, _) = store.open_consumers(stream.id(), Durability::Written, None).expect("new");
    for name in ["one", "two", "three"] {
        consumers.create(name, AckRules::default(), b"{}").expect("it is new");
        consumers.flush(5).expect("the disk works");
        if name == "one" {
            // The register vouches for the first log, and would bring back what that began with.
            consumers.checkpoint().expect("the disk works");
        }
    }
    drop(store.put_away(&mut consumers));
    store.journal().round_now(&|| 5).expect("the disk works");
    match end {
        End::Stop => store.close(&|| 5).expect("the disk works"),
        End::Kill => store.write_watermarks().expect("the disk works"),
    }
    let log = format!("/store/streams/{:016x}/consumers.", stream.id().0);
    drop((stream, consumers, store));
    let disk = disk.kill();
    let mut logs: Vec<_> =
        disk.files().into_keys().filter(|path| path.to_string_lossy().starts_with(&log)).collect();
    assert_eq!(logs.len(), 1, "{logs:?}");
    (disk, logs.remove(0))
}

/// How many consumers are there, and what is said of them.
fn consumers(disk: &FaultyDisk, turn: u64) -> (usize, Vec<String>) {
    let (store, report) = open(disk, turn);
    let id = report.streams[0].id;
    let (stream, _) = store.open_stream(id, config(Durability::Written), 7).expect("it opens");
    let (mut consumers, report) = store.open_consumers(id, Durability::Written, None).expect("they open");
    consumers.create(&format!("made {turn}"), AckRules::default(), b"{}").expect("it is new");
    consumers.flush(7).expect("the disk works");
    drop(store.put_away(&mut consumers));
    store.journal().round_now(&|| 7).expect("the disk works");
    store.close(&|| 7).expect("the disk works");
    drop(stream);
    (consumers.len() - 1, report.notices())
}

#[test]
fn consumers_that_are_gone_with_their_log_are_counted() {
    type Hurt = fn(&FaultyDisk, &Path);
    let faults: [(Hurt, &str); 3] = [
        (|disk, path| disk.remove_file(path).expect("it is there"), "is missing or cannot be read: 3 of 3"),
        (|disk, path| disk.truncate(path, 0).expect("it is there"), "is missing or cannot be read: 3 of 3"),
        (
            |disk, path| disk.truncate(path, used(disk, path) - 20).expect("it is there"),
            "1 of 3 consumers are lost",
        ),
    ];
    for end in ENDS {
        for (at, (hurt, words)) in faults.iter().enumerate() {
            let what = format!("{end:?}, fault {at}");
            let (disk, log) = with_consumers(end);
            hurt(&disk, &log);
            if end == End::Kill {
                remove_journal(&disk);
            }
            let (summary, told) = check(&disk);
            assert!(!summary.is_sound() && told.iter().any(|line| line.contains(words)), "{what}: {told:?}");
            let (count, notices) = consumers(&disk, 2);
            assert!(notices.iter().any(|line| line.contains(words)), "{what}: {notices:?}");
            assert_eq!(count, if at == 2 { 2 } else { 0 }, "{what}");
            // It is said once, and no number comes twice.
            let (again, notices) = consumers(&disk.kill(), 3);
            assert_eq!((again, notices), (count + 1, Vec::new()), "{what}");
        }
        let (disk, _) = with_consumers(end);
        assert_eq!(consumers(&disk, 2), (3, Vec::new()), "{end:?}");
        let (disk, _) = with_consumers(end);
        assert!(check(&disk).0.is_sound(), "{end:?}");
    }
}

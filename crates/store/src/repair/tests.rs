//! Stores that were damaged in ways that no start mends, and what a repair makes of them.

mod interrupted;
mod losses;

use std::collections::BTreeMap;
use std::path::PathBuf;

use myelin_disk::faulty::{FaultyDisk, Survival};

use super::*;
use crate::Compression;
use crate::Durability;
use crate::SegmentNo;
use crate::cipher::CipherKind;
use crate::consumer::{AckRules, DeliverySeq, Delta};
use crate::entropy::SeededEntropy;
use crate::keys::MasterKey;
use crate::manifest::COPIES;
use crate::meta::META_COPIES;
use crate::recovery::stream_directory;
use crate::store::{Reserve, Store, StoreOptions};
use crate::stream::{Admission, Filter, NewMessage, Stream, Wait};
use crate::verify::{self, Finding};

const ROOT: &str = "/store";

fn keys() -> Option<Keys> {
    Some(Keys { kind: CipherKind::Aes256Gcm, current: MasterKey::derive(b"key"), previous: None })
}

fn config(compression: Compression) -> StreamConfig {
    StreamConfig {
        durability: Durability::Synced,
        segment_bytes: Some(700),
        compression,
        ..StreamConfig::default()
    }
}

fn open(disk: &FaultyDisk, keys: Option<Keys>, seed: u64) -> Store {
    let options = StoreOptions {
        keys,
        journal_file_bytes: 16 << 10,
        headroom_bytes: 8 << 10,
        reserve: Reserve::Nothing,
        ..StoreOptions::new(ROOT)
    };
    Store::open(Arc::new(disk.clone()), options, Arc::new(SeededEntropy::new(seed))).unwrap().0
}

fn put(stream: &mut Stream, n: u64) {
    let subject = format!("s.{}", n % 5);
    let message = NewMessage {
        timestamp: n as i64,
        expires: n.is_multiple_of(7).then_some(1_000_000),
        subject: subject.as_bytes(),
        payload: &[n as u8; 40],
        ..NewMessage::default()
    };
    stream.append(&[message], Admission::Check, n as i64, &mut Vec::new()).unwrap();
}

/// Two streams: the first with sealed segments, a manifest and a consumer, the second with little.
fn build(keys: Option<Keys>, compression: Compression) -> (FaultyDisk, [StreamId; 2]) {
    let disk = FaultyDisk::new(3);
    let store = open(&disk, keys.clone(), 1);
    let create = |name| store.create_stream("A", name, name.as_bytes(), config(compression), 1).unwrap();
    let mut streams = [create("ONE"), create("TWO")];
    for n in 1..=60 {
        put(&mut streams[0], n);
        if n % 20 == 0 {
            put(&mut streams[1], n);
        }
        if n % 6 == 0 {
            streams[0].delete(n - 3, n as i64).unwrap();
        }
        store.journal().round_now(&|| n).unwrap();
    }
    while let Some(job) = streams[0].next_job(100) {
        streams[0].finish(job.run(), 100).unwrap();
    }
    let ids = [streams[0].id(), streams[1].id()];
    let mut consumers = store.open_consumers(ids[0], Durability::Synced, None).unwrap().0;
    let consumer = consumers.create("C", AckRules::default(), b"blob").unwrap();
    let delivered = Delta::Delivered { delivery: DeliverySeq(1), seq: 1, count: 1, timestamp: 100 };
    consumers.apply(consumer, &[delivered]).unwrap();
    consumers.flush(100).unwrap();
    store.journal().round_now(&|| 100).unwrap();
    drop((streams, consumers));
    store.journal().close(&|| 101).unwrap();
    drop(store);
    // Another start: the register lets go of streams whose names are durable.
    open(&disk, keys, 2).journal().close(&|| 102).unwrap();
    (disk.power_cycle(Survival::None), ids)
}

type Seen = BTreeMap<String, (Vec<(u64, Vec<u8>)>, Vec<String>)>;

/// All messages and consumers, by the streams' names.
fn see(disk: &FaultyDisk, keys: Option<Keys>) -> Seen {
    let options = StoreOptions {
        keys,
        journal_file_bytes: 16 << 10,
        headroom_bytes: 8 << 10,
        reserve: Reserve::Nothing,
        ..StoreOptions::new(ROOT)
    };
    let disk = disk.power_cycle(Survival::None);
    let (store, report) = Store::open(Arc::new(disk), options, Arc::new(SeededEntropy::new(77))).unwrap();
    let mut seen = Seen::new();
    for found in report.streams {
        let (stream, _) = store.open_stream(found.id, config(Compression::None), 200).unwrap();
        let mut cursor = stream.reader().cursor(Filter::All, 0);
        let mut messages = Vec::new();
        while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
            messages.push((message.seq, message.payload.to_vec()));
        }
        let (consumers, _) = store.open_consumers(found.id, Durability::Synced, None).unwrap();
        let names = consumers.iter().map(|(_, one)| one.name().to_owned()).collect();
        seen.insert(found.meta.name, (messages, names));
    }
    seen
}

fn given(id: Option<StreamId>, name: &str) -> Given {
    Given {
        directory: id,
        account: "A".to_owned(),
        name: name.to_owned(),
        config: name.as_bytes().to_vec(),
        created: 1,
    }
}

fn run(
    disk: &FaultyDisk,
    apply: bool,
    keys: Option<Keys>,
    given: &[Given],
) -> io::Result<(Summary, Vec<String>)> {
    let shape = |_: &Meta| config(Compression::None);
    let entropy = Arc::new(SeededEntropy::new(500));
    let options = RepairOptions { apply, keys, given: given.to_vec(), shape: &shape, entropy, now: 300 };
    let mut told = Vec::new();
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let summary = repair(&disk, Path::new(ROOT), &options, &mut |action| told.push(action.to_string()))?;
    Ok((summary, told))
}

fn check(disk: &FaultyDisk, keys: Option<&Keys>) -> Vec<Finding> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut findings = Vec::new();
    verify::check(&disk, Path::new(ROOT), keys, &mut |finding| findings.push(finding.clone())).unwrap();
    findings.retain(|finding| finding.severity > verify::Severity::Note);
    findings
}

fn break_file(disk: &FaultyDisk, path: &Path) {
    let length = disk.read_all(path).unwrap().len() as u64;
    // Not in the key of an encrypted stream, which is told to be lost then.
    for at in [9, 20, length - 1] {
        disk.flip_bit(path, at, 1).unwrap();
    }
}

fn path(id: StreamId, name: &str) -> PathBuf {
    stream_directory(Path::new(ROOT), id).join(name)
}

/// A look says the same as the repair and changes nothing; the repair leaves a sound store with
/// everything in it.
fn is_repaired(
    disk: &FaultyDisk,
    keys: Option<Keys>,
    given: &[Given],
    whole: &Seen,
    what: &str,
) -> Vec<String> {
    let before: BTreeMap<_, _> =
        disk.files().into_keys().map(|path| (path.clone(), disk.read_all(&path).unwrap())).collect();
    let (would, words) = run(disk, false, keys.clone(), given).unwrap();
    for (path, bytes) in &before {
        assert!(disk.read_all(path).unwrap() == *bytes, "{what}: a look has changed {}", path.display());
    }
    assert_eq!(disk.files().len(), before.len(), "{what}");
    let (summary, told) = run(disk, true, keys.clone(), given).unwrap();
    assert_eq!((would, &words), (summary, &told), "{what}");
    assert!(summary.repaired > 0 && summary.is_whole(), "{what}: {told:#?}");
    assert_eq!(check(disk, keys.as_ref()), [], "{what}: {told:#?}");
    assert!(see(disk, keys.clone()) == *whole, "{what}: {told:#?}");
    let (again, words) = run(disk, true, keys, given).unwrap();
    assert!(again.is_whole() || !given.is_empty(), "{what}: {words:#?}");
    told
}

#[test]
fn a_sound_store_is_left_alone() {
    for (keys, compression) in [(None, Compression::None), (keys(), Compression::S2)] {
        let (disk, _) = build(keys.clone(), compression);
        assert_eq!(check(&disk, keys.as_ref()), []);
        let whole = see(&disk, keys.clone());
        assert_eq!((whole["ONE"].0.len(), whole["TWO"].0.len(), whole["ONE"].1.len()), (50, 3, 1));
        let (summary, told) = run(&disk, true, keys.clone(), &[]).unwrap();
        assert!(summary.is_empty(), "{told:?}");
        assert_eq!((check(&disk, keys.as_ref()), see(&disk, keys)), (Vec::new(), whole));
    }
}

#[test]
fn a_directory_in_the_place_of_the_lock_is_moved_away() {
    let (disk, _) = build(None, Compression::None);
    let whole = see(&disk, None);
    let lock = Path::new(ROOT).join(LOCK);
    if disk.files().contains_key(&lock) {
        disk.remove_file(&lock).unwrap();
    }
    disk.make_directory(&lock).unwrap();
    let told = is_repaired(&disk, None, &[], &whole, "lock");
    assert!(told[0].contains("a directory where a file belongs; moved to quarantine/lock"), "{told:?}");
}

#[test]
fn names_come_back_from_a_configuration() {
    for (keys, compression) in [(None, Compression::None), (keys(), Compression::S2)] {
        let (disk, ids) = build(keys.clone(), compression);
        let whole = see(&disk, keys.clone());
        let broken = || {
            let disk = disk.power_cycle(Survival::None);
            for name in META_COPIES {
                break_file(&disk, &path(ids[0], name));
            }
            disk
        };
        // Nobody says what it is called.
        let (summary, told) = run(&broken(), true, keys.clone(), &[]).unwrap();
        assert_eq!((summary.left, summary.lost), (1, 0), "{told:?}");
        assert!(told[0].contains(&format!("--config {}=FILE.json", hex(ids[0]))), "{told:?}");
        is_repaired(&broken(), keys.clone(), &[given(None, "ONE")], &whole, "the only one");
        let both = [given(None, "ONE"), given(Some(ids[1]), "TWO")];
        let disk = broken();
        for name in META_COPIES {
            break_file(&disk, &path(ids[1], name));
        }
        is_repaired(&disk, keys.clone(), &both, &whole, "two");
        // The name is that of another stream.
        let (summary, _) = run(&broken(), true, keys.clone(), &[given(None, "TWO")]).unwrap();
        assert_eq!(summary.left, 1);
    }
}

#[test]
fn a_lost_key_is_said() {
    let (disk, ids) = build(keys(), Compression::None);
    for name in META_COPIES {
        disk.truncate(&path(ids[0], name), 40).unwrap();
    }
    let (summary, told) = run(&disk, true, keys(), &[given(None, "ONE")]).unwrap();
    assert_eq!((summary.lost, summary.left), (1, 0), "{told:?}");
    assert!(told[0].contains("nothing is left of its key"), "{told:?}");
    let (summary, told) = run(&disk, true, None, &[given(None, "ONE")]).unwrap();
    assert!(summary.left > 0 && told[0].contains("--key-file"), "{told:?}");
}

#[test]
fn one_bit_in_both_copies_is_corrected() {
    let (disk, ids) = build(None, Compression::None);
    let whole = see(&disk, None);
    let damaged = |paths: &[PathBuf]| {
        let disk = disk.power_cycle(Survival::None);
        for path in paths {
            let length = disk.read_all(path).unwrap().len() as u64;
            disk.flip_bit(path, length / 2, 3).unwrap();
        }
        disk
    };
    is_repaired(&damaged(&META_COPIES.map(|name| path(ids[0], name))), None, &[], &whole, "meta");
    is_repaired(&damaged(&COPIES.map(|name| path(ids[0], name))), None, &[], &whole, "manifest");
    let markers = [MARKER, COPY].map(|name| Path::new(ROOT).join(name));
    is_repaired(&damaged(&markers), None, &[], &whole, "marker");
}

#[test]
fn a_copy_that_may_not_be_read_is_moved_away_where_the_other_one_can_be() {
    let (built, _) = build(None, Compression::None);
    let whole = see(&built, None);
    for name in [MARKER, COPY, crate::register::NAMES[0], crate::register::NAMES[1]] {
        let disk = built.power_cycle(Survival::All);
        let path = Path::new(ROOT).join(name);
        disk.forbid(&path).unwrap();
        let (summary, told) = run(&disk, true, None, &[]).unwrap();
        assert!(summary.repaired > 0 && summary.is_whole(), "{name}: {told:#?}");
        assert!(told[0].contains("cannot read it: permission denied"), "{name}: {told:#?}");
        let quarantined = disk.list(&Path::new(ROOT).join(QUARANTINE)).unwrap();
        assert!(quarantined.iter().any(|entry| entry.name.ends_with(name)), "{name}: {quarantined:?}");
        assert!(see(&disk, None) == whole, "{name}: {told:#?}");
    }
    for copies in [[MARKER, COPY], crate::register::NAMES] {
        let disk = built.power_cycle(Survival::All);
        for name in copies {
            disk.forbid(&Path::new(ROOT).join(name)).unwrap();
        }
        let error = run(&disk, true, None, &[]).map(|(_, told)| told).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        assert!(error.to_string().contains(copies[0]), "it names the file: {error}");
    }
}

#[test]
fn watermarks_and_journal_know_a_store_that_has_lost_its_mark() {
    let (disk, _) = build(None, Compression::None);
    let whole = see(&disk, None);
    // As a process that was killed: the journal is needed.
    let store = open(&disk, None, 9);
    drop(store);
    let markers = [MARKER, COPY].map(|name| Path::new(ROOT).join(name));
    for is_missing in [false, true] {
        let disk = disk.power_cycle(Survival::None);
        for path in &markers {
            if is_missing {
                disk.remove_file(path).unwrap();
            } else {
                break_file(&disk, path);
            }
        }
        let without_watermarks = disk.power_cycle(Survival::All);
        let told = is_repaired(&disk, None, &[], &whole, "markers");
        assert!(told[0].contains("from what the watermarks say"), "{told:?}");
        for name in crate::watermarks::NAMES {
            without_watermarks.remove_file(&Path::new(ROOT).join(name)).unwrap();
        }
        let (_, told) = run(&without_watermarks, true, None, &[]).unwrap();
        assert!(told[0].contains("from what the journal's checksums say"), "{told:?}");
        assert!(see(&without_watermarks, None) == whole, "{told:#?}");
    }
}

#[test]
fn bases_and_manifests_are_made_again() {
    for (keys, compression) in
        [(None, Compression::None), (None, Compression::S2), (keys(), Compression::None)]
    {
        let (disk, ids) = build(keys.clone(), compression);
        let whole = see(&disk, keys.clone());
        let names: Vec<String> = disk
            .list(&stream_directory(Path::new(ROOT), ids[0]))
            .unwrap()
            .into_iter()
            .map(|e| e.name)
            .collect();
        let base = names.iter().find(|name| name.starts_with("index.")).expect("it has one");
        let what = format!("{compression:?}, {}", keys.is_some());
        let damaged = disk.power_cycle(Survival::None);
        break_file(&damaged, &path(ids[0], base));
        is_repaired(&damaged, keys.clone(), &[], &whole, &format!("{what}: base"));
        let missing = disk.power_cycle(Survival::None);
        missing.remove_file(&path(ids[0], base)).unwrap();
        is_repaired(&missing, keys.clone(), &[], &whole, &format!("{what}: missing base"));
        let damaged = disk.power_cycle(Survival::None);
        COPIES.iter().for_each(|name| break_file(&damaged, &path(ids[0], name)));
        is_repaired(&damaged, keys.clone(), &[], &whole, &format!("{what}: manifests"));
    }
}

/// A store of which a part is only in a journal file that a start has set aside, and all that was
/// in it.
fn with_a_kept_journal() -> (FaultyDisk, Seen) {
    let disk = FaultyDisk::new(4);
    let store = open(&disk, None, 1);
    let journal = Path::new(ROOT).join("journal");
    let begun = disk.read_all(&journal.join("00000001.jnl")).unwrap();
    let create = |n: u64| {
        let name = format!("S{n}");
        store.create_stream("A", &name, name.as_bytes(), config(Compression::None), 1).unwrap()
    };
    // So many that rounds go through the journal.
    let mut streams: Vec<_> = (0..8).map(create).collect();
    for n in 1..=3 {
        streams.iter_mut().for_each(|stream| put(stream, n));
        assert!(store.journal().round_now(&|| n).unwrap().journaled > 0);
    }
    drop((streams, store));
    let disk = disk.power_cycle(Survival::None);
    let whole = see(&disk, None);
    assert!(whole.len() == 8 && whole.values().all(|(messages, _)| messages.len() == 3), "{whole:?}");
    disk.rename(&journal.join("00000001.jnl"), &journal.join("kept-00000001.jnl")).unwrap();
    // The start that sets a file aside begins another.
    let file = disk.create(&journal.join("00000001.jnl")).unwrap();
    file.write_at(&begun, 0).unwrap();
    file.sync().unwrap();
    disk.sync_directory(&journal).unwrap();
    (disk, whole)
}

#[test]
fn what_only_a_kept_journal_has_comes_back() {
    let (disk, whole) = with_a_kept_journal();
    let told = is_repaired(&disk, None, &[], &whole, "kept");
    assert!(told[0].contains("are written there"), "{told:?}");
}

#[test]
fn losses_that_starts_have_told_are_acknowledged() {
    let (disk, ids) = build(None, Compression::None);
    disk.remove_file(&path(ids[1], &crate::stream::segment_name(SegmentNo(1)))).unwrap();
    let told_by_a_start = || -> Vec<u64> {
        let store = open(&disk, None, 5);
        let (stream, report) = store.open_stream(ids[1], config(Compression::None), 200).unwrap();
        drop(stream);
        store.close(&|| 201).unwrap();
        report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect()
    };
    assert_eq!([told_by_a_start(), told_by_a_start()], [[1], [1]]);
    let words = "messages 1 to 1 were lost with 0000000000000001.seg, as earlier starts have told";
    for apply in [false, true] {
        let (summary, told) = run(&disk, apply, None, &[]).unwrap();
        assert!(summary.is_whole() && told.iter().any(|line| line.contains(words)), "{told:?}");
    }
    assert_eq!(told_by_a_start(), []);
    assert!(run(&disk, true, None, &[]).unwrap().0.is_empty());
}

//! One copy of a `meta` that is damaged, missing or old.

use std::path::PathBuf;
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::faulty::{DiskFault, DiskOperation, FaultyDisk, Survival};

use super::*;
use crate::StreamConfig;
use crate::document::DocumentFormat;
use crate::entropy::SeededEntropy;
use crate::meta::META_COPIES;
use crate::recovery::stream_directory;
use crate::store::{Reserve, Store, StoreOptions};
use crate::stream::Stream;

const ROOT: &str = "/store";

fn open(disk: &FaultyDisk, seed: u64) -> (Store, StoreReport) {
    let options = StoreOptions {
        journal_file_bytes: 64 << 10,
        headroom_bytes: 64 << 10,
        reserve: Reserve::Nothing,
        ..StoreOptions::new(ROOT)
    };
    Store::open(Arc::new(disk.clone()), options, Arc::new(SeededEntropy::new(seed))).unwrap()
}

fn create(store: &Store, name: &str) -> Stream {
    store.create_stream("A", name, b"first", StreamConfig::default(), 1).unwrap()
}

/// A store with one stream whose text was written twice, and which the register knows no more;
/// where its copies are, and what they were before.
fn store_env() -> (FaultyDisk, StreamId, [PathBuf; 2], Vec<u8>) {
    let disk = FaultyDisk::new(1);
    let (store, _) = open(&disk, 1);
    let id = create(&store, "S").id();
    store.store_env.make_files(id).unwrap();
    drop(store);
    let (store, _) = open(&disk, 4);
    assert!(store.store_env.register.meta(id).is_none(), "both copies are durable");
    let paths = META_COPIES.map(|name| stream_directory(Path::new(ROOT), id).join(name));
    let before = disk.read_all(&paths[0]).unwrap();
    assert_eq!(disk.read_all(&paths[1]).unwrap(), before);
    store.write_blob(id, b"second").unwrap();
    drop(store);
    (disk.power_cycle(Survival::None), id, paths, before)
}

fn put(disk: &FaultyDisk, path: &Path, bytes: &[u8]) {
    let _ = disk.remove_file(path);
    let file = disk.create(path).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_directory(path.parent().unwrap()).unwrap();
}

/// Opens twice: the first start says `words`, the second nothing, and both find the second text.
fn is_repaired(disk: &FaultyDisk, words: &[&str]) {
    let (store, report) = open(disk, 2);
    assert_eq!(report.unreadable, []);
    assert_eq!(report.streams[0].meta.config, b"second");
    let told: Vec<String> = report.notices.iter().map(ToString::to_string).collect();
    assert!(report.notices.iter().all(|notice| matches!(notice, Notice::Repaired { .. })), "{told:?}");
    assert_eq!(told.len(), words.len(), "{told:?}");
    assert!(told.iter().zip(words).all(|(told, words)| told.contains(words)), "{told:?}");
    drop(store);
    let (_, report) = open(&disk.power_cycle(Survival::None), 3);
    assert_eq!((report.notices.len(), &report.streams[0].meta.config[..]), (0, &b"second"[..]), "{report:?}");
}

#[test]
fn either_copy_may_be_lost_in_any_way() {
    for which in 0..2 {
        let (disk, _, paths, before) = store_env();
        let path = &paths[which];
        let name = META_COPIES[which];
        let of = format!("{name} of stream S of account A: ");
        for offset in 0..disk.read_all(path).unwrap().len() as u64 {
            let disk = disk.power_cycle(Survival::None);
            disk.flip_bit(path, offset, (offset % 8) as u8).unwrap();
            is_repaired(&disk, &[&of]);
        }
        let disk_of = || disk.power_cycle(Survival::None);
        let cut = disk_of();
        put(&cut, path, &[]);
        is_repaired(&cut, &[&format!("{of}ends too early; written again from the other copy")]);
        let gone = disk_of();
        gone.remove_file(path).unwrap();
        is_repaired(&gone, &[&format!("{of}it is missing; written again")]);
        let old = disk_of();
        put(&old, path, &before);
        is_repaired(&old, &[&format!("{of}it has generation 1, the other copy 2; written again")]);
    }
}

#[test]
fn the_only_copy_of_another_stream_is_kept() {
    let (disk, _, paths, _) = store_env();
    let foreign = Meta { stream: StreamId(77), ..Meta::decode(&disk.read_all(&paths[0]).unwrap()).unwrap() };
    put(&disk, &paths[1], &foreign.encode());
    is_repaired(&disk, &["it belongs to stream 000000000000004d; moved to /store/quarantine/"]);
    let kept: Vec<_> =
        disk.files().into_keys().filter(|path| path.starts_with("/store/quarantine")).collect();
    assert_eq!(Meta::decode(&disk.read_all(&kept[0]).unwrap()).unwrap(), foreign);
}

#[test]
fn without_a_copy_both_are_named_and_nothing_is_touched() {
    let (disk, id, paths, _) = store_env();
    disk.flip_bit(&paths[0], 20, 1).unwrap();
    put(&disk, &paths[1], &[]);
    let before: Vec<_> = paths.iter().map(|path| disk.read_all(path).unwrap()).collect();
    let (_, report) = open(&disk, 2);
    let words = "meta: wrong checksum; meta.copy: ends too early".to_owned();
    assert_eq!(report.unreadable, [(id, words)]);
    assert_eq!(paths.iter().map(|path| disk.read_all(path).unwrap()).collect::<Vec<_>>(), before);
}

#[test]
fn a_lone_meta_of_the_first_version_gets_its_twin_without_a_word() {
    let (disk, _, paths, _) = store_env();
    let bytes = disk.read_all(&paths[0]).unwrap();
    let body = &bytes[16..bytes.len() - 4 - 8];
    put(&disk, &paths[0], &DocumentFormat { magic: *b"MYELMETA", version: 1, what: "meta" }.frame(body));
    disk.remove_file(&paths[1]).unwrap();
    is_repaired(&disk, &[]);
    let copies = paths.map(|path| Meta::decode(&disk.read_all(&path).unwrap()).unwrap());
    assert_eq!((copies[0].generation, &copies[0]), (1, &copies[1]));
}

/// Whatever a crash has left of both copies, the register has what counts.
#[test]
fn what_only_the_register_has_for_sure_is_written_again() {
    for survival in [Survival::None, Survival::All, Survival::Random(3)] {
        let disk = FaultyDisk::new(1);
        let (store, _) = open(&disk, 1);
        let id = create(&store, "S").id();
        store.store_env.make_files(id).unwrap();
        store.write_blob(id, b"second").unwrap();
        drop(store);
        let disk = disk.power_cycle(survival);
        is_repaired(&disk, &[]);
        let (store, report) = open(&disk, 5);
        assert_eq!(report.streams.len(), 1);
        drop(store);
    }
}

/// Creating waits for one sync, and so does changing, as long as the register knows the stream;
/// changing both copies later waits for one more than with one copy.
#[test]
fn each_creation_costs_one_sync() {
    let disk = FaultyDisk::new(1);
    let (store, _) = open(&disk, 1);
    create(&store, "FIRST");
    let syncs = |from: u64| {
        let steps = disk.journal();
        let new = steps.iter().filter(|step| step.point >= from);
        new.filter(|step| matches!(step.operation, DiskOperation::Sync | DiskOperation::SyncDirectory))
            .count()
    };
    let before = disk.points();
    let id = create(&store, "S").id();
    assert_eq!(syncs(before), 1, "{:?}", disk.journal());
    let before = disk.points();
    store.write_blob(id, b"second").unwrap();
    assert_eq!(syncs(before), 1);
    store.store_env.make_files(id).unwrap();
    drop(store);
    let (store, _) = open(&disk, 2);
    let before = disk.points();
    store.write_blob(id, b"third").unwrap();
    assert_eq!(syncs(before), 3);
}

/// A store with a stream whose second text only the register has; what it is.
fn with_an_old_directory() -> (FaultyDisk, Vec<u8>) {
    let disk = FaultyDisk::new(1);
    let (store, _) = open(&disk, 1);
    let id = create(&store, "S").id();
    store.store_env.make_files(id).unwrap();
    // It does not fit in where the first one stands.
    store.write_blob(id, &[7; 9000]).unwrap();
    (disk, vec![7; 9000])
}

fn is_served(disk: &FaultyDisk, seed: u64, blob: &[u8]) -> Vec<Notice> {
    let (_store, report) = open(disk, seed);
    assert_eq!(report.streams[0].meta.config, blob);
    report.notices
}

#[test]
fn what_only_the_register_says_is_written_with_the_headroom_of_a_full_disk() {
    let (disk, blob) = with_an_old_directory();
    disk.set_capacity(Some(disk.used()));
    let disk = disk.kill();
    assert_eq!(is_served(&disk, 2, &blob), []);
    assert_eq!(is_served(&disk.kill(), 3, &blob), []);
}

/// A start that finds no room at any point goes on with what the register says, and so does the
/// next one.
#[test]
fn what_only_the_register_says_outlives_a_start_on_a_full_disk() {
    let (whole, blob) = with_an_old_directory();
    for ahead in 0..200 {
        let disk = whole.kill();
        disk.remove_file(&Path::new(ROOT).join("headroom")).unwrap();
        let point = disk.points() + ahead;
        disk.fail_at(point, DiskFault::Error(std::io::ErrorKind::StorageFull));
        let options = StoreOptions { headroom_bytes: 0, ..StoreOptions::new(ROOT) };
        let opened = Store::open(Arc::new(disk.clone()), options, Arc::new(SeededEntropy::new(2)));
        if let Ok((_, report)) = opened {
            assert_eq!(report.streams[0].meta.config, blob, "{ahead}");
            if disk.points() <= point {
                assert!(ahead > 10, "{ahead}");
                return;
            }
        }
        let left = disk.kill();
        is_served(&left, 3, &blob);
        is_served(&left.power_cycle(Survival::None), 4, &blob);
    }
    panic!("a start takes fewer steps");
}

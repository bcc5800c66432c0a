//! Space is kept back while there is plenty, given up once, and taken again; restarts change
//! nothing.

use super::*;
use crate::faulty::{DiskFault, FaultyDisk, Survival};

const BYTES: u64 = 1 << 20;

fn path() -> &'static Path {
    Path::new("/headroom")
}

fn open(disk: &FaultyDisk) -> Headroom {
    Headroom::open(Arc::new(disk.clone()), path(), BYTES..=BYTES).unwrap()
}

fn disk_with(capacity: u64) -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(Some(capacity));
    disk
}

/// Fills the disk to the last block.
fn fill(disk: &FaultyDisk) -> Arc<dyn File> {
    let file = disk.create(Path::new("/data")).unwrap();
    file.allocate(disk.free_bytes(path()).unwrap()).unwrap();
    assert_eq!(disk.free_bytes(path()).unwrap(), 0);
    file
}

#[test]
fn a_full_disk_gets_room_once() {
    let disk = disk_with(10 << 20);
    let headroom = open(&disk);
    assert!(headroom.is_held());
    assert_eq!((disk.used(), headroom.bytes()), (BYTES, BYTES));
    let data = fill(&disk);
    assert_eq!(data.write_at(b"x", 10 << 20).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(headroom.release().unwrap());
    assert!(!headroom.is_held());
    data.write_at(b"x", 10 << 20).unwrap();
    assert!(!headroom.release().unwrap(), "there is nothing more to give");
}

#[test]
fn it_is_taken_again_only_with_twice_the_room() {
    let disk = disk_with(10 << 20);
    let headroom = open(&disk);
    let data = fill(&disk);
    headroom.release().unwrap();
    assert!(!headroom.restore(), "one time its size is free");
    data.set_len(8 << 20).unwrap();
    assert!(!headroom.restore(), "exactly twice its size is free");
    data.set_len((8 << 20) - 8192).unwrap();
    assert!(headroom.restore());
    assert!(headroom.is_held() && headroom.restore());
    assert_eq!(disk.files()[path()], BYTES);
    assert!(headroom.release().unwrap());
}

#[test]
fn a_restart_finds_it_held_even_on_a_full_disk() {
    let disk = disk_with(10 << 20);
    drop(open(&disk));
    fill(&disk);
    let headroom = open(&disk.kill());
    assert!(headroom.is_held());
    assert!(headroom.release().unwrap());
}

#[test]
fn a_restart_finds_it_released_and_takes_it_when_it_can() {
    let disk = disk_with(10 << 20);
    let headroom = open(&disk);
    let data = fill(&disk);
    headroom.release().unwrap();
    data.write_at(&[1; 4096], 9 << 20).unwrap();
    assert!(!open(&disk.kill()).is_held());
    data.set_len(0).unwrap();
    assert!(open(&disk.kill()).is_held());
}

#[test]
fn other_sizes_and_holes_are_put_right() {
    let disk = disk_with(10 << 20);
    let file = disk.create(path()).unwrap();
    for length in [1, BYTES - 1, BYTES, BYTES + 1, 5 * BYTES] {
        file.set_len(0).unwrap();
        file.set_len(length).unwrap();
        assert_eq!(disk.used(), 0, "set_len leaves a hole");
        assert!(open(&disk).is_held());
        assert_eq!((disk.used(), disk.files()[path()]), (BYTES, BYTES));
    }
    file.set_len(0).unwrap();
    file.set_len(BYTES).unwrap();
    fill(&disk);
    assert!(!open(&disk).is_held(), "a hole on a full disk holds nothing");
}

#[test]
fn a_smaller_one_is_held_on_a_full_disk() {
    let disk = disk_with(10 << 20);
    drop(open(&disk));
    fill(&disk);
    let headroom = Headroom::open(Arc::new(disk.clone()), path(), 0..=BYTES / 2).unwrap();
    assert!(headroom.is_held());
    assert_eq!(disk.files()[path()], BYTES / 2);
}

#[test]
fn half_an_allocation_is_given_back() {
    let disk = disk_with(10 << 20);
    let headroom = open(&disk);
    headroom.release().unwrap();
    disk.fail_at(disk.points(), DiskFault::FullAfter(8192));
    assert!(!headroom.restore());
    assert_eq!(disk.used(), 0);
}

#[test]
fn a_loss_of_power_leaves_nothing_odd() {
    let disk = disk_with(10 << 20);
    let headroom = open(&disk);
    for seed in 0..20 {
        assert!(open(&disk.power_cycle(Survival::Random(seed))).is_held());
    }
    headroom.release().unwrap();
    assert!(open(&disk.power_cycle(Survival::None)).is_held());
    assert!(open(&disk.power_cycle(Survival::All)).is_held());
}

#[test]
fn no_room_is_no_error() {
    for capacity in [0, BYTES] {
        let disk = disk_with(capacity);
        let headroom = open(&disk);
        assert!(!headroom.is_held() && !headroom.restore());
        assert!(!headroom.release().unwrap());
        disk.set_capacity(Some(10 << 20));
        assert!(headroom.restore());
        assert_eq!(disk.files()[path()], BYTES);
    }
}

#[test]
fn space_that_cannot_be_given_up_or_taken_is_not_counted() {
    let disk = disk_with(10 << 20);
    let headroom = open(&disk);
    disk.fail_at(disk.points(), DiskFault::Error(ErrorKind::Other));
    headroom.release().unwrap_err();
    assert!(headroom.is_held());
    headroom.release().unwrap();
    disk.fail_at(disk.points(), DiskFault::Error(ErrorKind::Other));
    assert!(!headroom.restore());
    assert!(!headroom.is_held());
    assert!(headroom.restore());
}

fn growing(disk: &FaultyDisk) -> Headroom {
    Headroom::open(Arc::new(disk.clone()), path(), BYTES / 4..=BYTES).unwrap()
}

#[test]
fn it_grows_and_shrinks_with_what_is_stored() {
    let disk = disk_with(100 << 20);
    let headroom = growing(&disk);
    let sizes = [
        (0, BYTES / 4),
        (50 * BYTES - 1, BYTES / 4),
        (50 * BYTES, BYTES / 2),
        (99 * BYTES, BYTES / 2),
        (100 * BYTES, BYTES),
        (u64::MAX, BYTES),
        // A half would do: it stays.
        (60 * BYTES, BYTES),
        (0, BYTES / 4),
    ];
    for (stored, held) in sizes {
        headroom.fit(stored);
        assert_eq!((headroom.bytes(), disk.used()), (held, held), "{stored} bytes are stored");
        assert!(headroom.is_held());
    }
}

#[test]
fn it_grows_only_with_twice_the_room_and_is_kept_over_a_restart() {
    let disk = disk_with(100 << 20);
    let headroom = growing(&disk);
    headroom.fit(50 * BYTES);
    fill(&disk);
    headroom.fit(100 * BYTES);
    assert_eq!((headroom.bytes(), headroom.is_held()), (BYTES / 2, true));
    let disk = disk.kill();
    let headroom = growing(&disk);
    assert_eq!((headroom.bytes(), headroom.is_held()), (BYTES / 2, true));
    // What is given up comes back in the size that is wanted then.
    headroom.release().unwrap();
    headroom.fit(100 * BYTES);
    assert!(!headroom.is_held(), "the disk is full");
    disk.open(Path::new("/data")).unwrap().set_len(0).unwrap();
    headroom.fit(100 * BYTES);
    assert_eq!((headroom.bytes(), headroom.is_held()), (BYTES, true));
}

#[test]
fn growth_that_fails_half_way_leaves_what_there_was() {
    let disk = disk_with(100 << 20);
    let headroom = growing(&disk);
    disk.fail_at(disk.points(), DiskFault::FullAfter(8192));
    headroom.fit(100 * BYTES);
    assert_eq!((headroom.bytes(), headroom.is_held(), disk.used()), (BYTES / 4, true, BYTES / 4));
}

#[test]
fn all_of_it_is_kept_where_little_is_free() {
    // Of a small disk from the beginning.
    let disk = disk_with((64 << 20) - 4096);
    assert_eq!((growing(&disk).bytes(), disk.used()), (BYTES, BYTES));
    // Of a larger one before it is full.
    let disk = disk_with(100 << 20);
    let headroom = growing(&disk);
    assert_eq!(disk.used(), BYTES / 4);
    let data = disk.create(Path::new("/data")).unwrap();
    data.allocate(40 << 20).unwrap();
    headroom.fit(0);
    assert_eq!((headroom.bytes(), headroom.is_held()), (BYTES, true));
    data.set_len(0).unwrap();
    headroom.fit(0);
    assert_eq!((headroom.bytes(), headroom.is_held()), (BYTES / 4, true));
}

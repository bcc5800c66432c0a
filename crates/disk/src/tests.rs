//! Rules for every disk, run against all three.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::faulty::FaultyDisk;
use super::memory::{MemoryDisk, MemoryFile};
use super::real::RealDisk;
use super::{DirectoryEntry, Disk, File};

/// Runs `test` against each disk, with a directory that exists and is empty.
fn on_each(test: impl Fn(&dyn Disk, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let disks: [(Arc<dyn Disk>, PathBuf); 3] = [
        (Arc::new(RealDisk), folder.path().join("store")),
        (Arc::new(MemoryDisk::new()), PathBuf::from("/some/store")),
        (Arc::new(FaultyDisk::new(1)), PathBuf::from("/some/store")),
    ];
    for (disk, root) in disks {
        println!("{disk:?}");
        disk.make_directory(&root).unwrap();
        test(&*disk, &root);
    }
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    result.err().map(|error| error.kind()).expect("an error")
}

fn names(disk: &dyn Disk, directory: &Path) -> Vec<String> {
    disk.list(directory).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut content = vec![0xee; file.len().unwrap() as usize + 10];
    let length = file.read_at(&mut content, 0).unwrap();
    content.truncate(length);
    content
}

#[test]
fn files_are_created_once_and_opened_when_they_exist() {
    on_each(|disk, root| {
        let path = root.join("a");
        assert_eq!(kind(disk.open(&path)), ErrorKind::NotFound);
        disk.create(&path).unwrap().write_at(b"first", 0).unwrap();
        assert_eq!(kind(disk.create(&path)), ErrorKind::AlreadyExists);
        assert_eq!(content(&*disk.open(&path).unwrap()), b"first");
        assert_eq!(kind(disk.create(&root.join("missing/a"))), ErrorKind::NotFound);
        assert_eq!(kind(disk.create(&path.join("below a file"))), ErrorKind::NotADirectory);
        assert_eq!(kind(disk.open(root)), ErrorKind::IsADirectory);
    });
}

#[test]
fn directories_are_listed_in_order() {
    on_each(|disk, root| {
        disk.make_directory(&root.join("b/c/d")).unwrap();
        disk.make_directory(&root.join("b")).unwrap();
        disk.create(&root.join("c")).unwrap();
        disk.create(&root.join("a")).unwrap();
        let entry = |name: &str, is_directory| DirectoryEntry { name: name.into(), is_directory };
        assert_eq!(disk.list(root).unwrap(), [entry("a", false), entry("b", true), entry("c", false)]);
        assert_eq!(names(disk, &root.join("b")), ["c"]);
        assert_eq!(names(disk, &root.join("b/c/d")), [""; 0]);
        assert_eq!(kind(disk.list(&root.join("x"))), ErrorKind::NotFound);
        assert_eq!(kind(disk.list(&root.join("a"))), ErrorKind::NotADirectory);
        assert_eq!(kind(disk.make_directory(&root.join("a"))), ErrorKind::AlreadyExists);
        assert_eq!(kind(disk.make_directory(&root.join("a/b"))), ErrorKind::NotADirectory);
        disk.sync_directory(root).unwrap();
        assert_eq!(kind(disk.sync_directory(&root.join("x"))), ErrorKind::NotFound);
        assert!(disk.free_bytes(root).unwrap() > 0);
    });
}

#[test]
fn renaming_replaces_files_and_moves_directories() {
    on_each(|disk, root| {
        let [a, b, d] = ["a", "b", "d"].map(|name| root.join(name));
        disk.create(&a).unwrap().write_at(b"new", 0).unwrap();
        let old = disk.create(&b).unwrap();
        old.write_at(b"old", 0).unwrap();
        disk.rename(&a, &b).unwrap();
        assert_eq!(names(disk, root), ["b"]);
        assert_eq!(content(&*disk.open(&b).unwrap()), b"new");
        assert_eq!(content(&*old), b"old", "a replaced file stays readable");
        disk.rename(&b, &b).unwrap();
        disk.make_directory(&d.join("e")).unwrap();
        disk.rename(&b, &d.join("e/b")).unwrap();
        disk.rename(&d, &a).unwrap();
        assert_eq!(content(&*disk.open(&a.join("e/b")).unwrap()), b"new");
        assert_eq!(kind(disk.rename(&b, &d)), ErrorKind::NotFound);
        disk.create(&b).unwrap();
        assert_eq!(kind(disk.rename(&b, &a)), ErrorKind::IsADirectory);
        assert_eq!(kind(disk.rename(&a, &b)), ErrorKind::NotADirectory);
        assert_eq!(kind(disk.rename(&a, &a.join("e/f"))), ErrorKind::InvalidInput);
    });
}

#[test]
fn what_is_removed_is_gone_but_stays_readable_where_it_is_open() {
    on_each(|disk, root| {
        let [a, d] = ["a", "d"].map(|name| root.join(name));
        let file = disk.create(&a).unwrap();
        file.write_at(b"content", 0).unwrap();
        disk.make_directory(&d).unwrap();
        disk.create(&d.join("x")).unwrap();
        disk.remove_file(&a).unwrap();
        assert_eq!(kind(disk.open(&a)), ErrorKind::NotFound);
        assert_eq!(kind(disk.remove_file(&a)), ErrorKind::NotFound);
        assert_eq!(content(&*file), b"content");
        disk.create(&a).unwrap();
        assert_eq!(content(&*file), b"content");
        assert_eq!(kind(disk.remove_file(&d)), ErrorKind::IsADirectory);
        assert_eq!(kind(disk.remove_directory(&d)), ErrorKind::DirectoryNotEmpty);
        assert_eq!(kind(disk.remove_directory(&a)), ErrorKind::NotADirectory);
        disk.remove_file(&d.join("x")).unwrap();
        disk.remove_directory(&d).unwrap();
        assert_eq!(kind(disk.remove_directory(&d)), ErrorKind::NotFound);
        assert_eq!(names(disk, root), ["a"]);
    });
}

#[test]
fn lengths_are_as_asked_and_new_parts_are_zeros() {
    on_each(|disk, root| {
        let file = disk.create(&root.join("a")).unwrap();
        assert!(file.is_empty().unwrap());
        file.allocate(0).unwrap();
        file.write_at(&[7; 3000], 2000).unwrap();
        assert_eq!(file.len().unwrap(), 5000);
        file.allocate(4000).unwrap();
        assert_eq!(file.len().unwrap(), 5000, "allocate never shortens");
        file.allocate(200_000).unwrap();
        assert_eq!(file.len().unwrap(), 200_000);
        file.set_len(2001).unwrap();
        file.set_len(2010).unwrap();
        let mut expected = vec![0; 2010];
        expected[2000] = 7;
        assert_eq!(content(&*file), expected, "what was cut does not come back");
        file.sync().unwrap();
        assert_eq!(content(&*file), expected);
    });
}

#[test]
fn reads_are_short_only_at_the_end() {
    on_each(|disk, root| {
        let file = disk.create(&root.join("a")).unwrap();
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n / 7) as u8).collect();
        file.write_at(&bytes, 0).unwrap();
        let mut buffer = vec![0; 200_000];
        for offset in [0, 1, 4095, 70_000, 99_999, 100_001, 299_999] {
            let expected = 200_000.min(300_000 - offset);
            assert_eq!(file.read_at(&mut buffer, offset as u64).unwrap(), expected);
            assert_eq!(buffer[..expected], bytes[offset..offset + expected]);
            buffer.fill(0);
            // Just written, so it is cached.
            assert_eq!(file.read_cached_at(&mut buffer, offset as u64).unwrap(), Some(expected));
            assert_eq!(buffer[..expected], bytes[offset..offset + expected]);
        }
        assert_eq!(file.read_at(&mut buffer, 300_000).unwrap(), 0);
        assert_eq!(file.read_cached_at(&mut buffer, 400_000).unwrap(), Some(0));
        assert_eq!(file.read_at(&mut [], 5).unwrap(), 0);
    });
}

#[test]
fn absurd_places_are_errors_and_cost_nothing() {
    on_each(|disk, root| {
        let file = disk.create(&root.join("a")).unwrap();
        assert!(file.write_at(b"x", u64::MAX).is_err());
        assert!(file.set_len(u64::MAX).is_err());
        assert!(file.allocate(u64::MAX).is_err());
        let _ = file.read_at(&mut [0; 4], u64::MAX);
        assert_eq!(file.len().unwrap(), 0);
    });
}

#[cfg(unix)]
#[test]
fn real_files_belong_to_their_user() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("a/b");
    RealDisk.make_directory(&directory).unwrap();
    RealDisk.create(&directory.join("c")).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(&directory), mode(directory.parent().unwrap())], [0o700; 2]);
    assert_eq!(mode(&directory.join("c")), 0o600);
}

#[cfg(target_os = "linux")]
#[test]
fn allocation_takes_real_space_and_errors_keep_their_number() {
    use std::os::unix::fs::MetadataExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let file = RealDisk.create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    file.allocate(1 << 20).unwrap();
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20, "the hole was not filled");
    assert!(RealDisk.open(&folder.path().join("b")).unwrap_err().raw_os_error().is_some());
    assert!(file.allocate(1 << 62).unwrap_err().raw_os_error().is_some());
    assert!(RealDisk.free_bytes(Path::new("/no/such/place")).unwrap_err().raw_os_error().is_some());
}

/// A part of the file is in memory: the answer is all or nothing.
#[cfg(target_os = "linux")]
#[test]
fn a_cached_read_is_never_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let file = RealDisk.create(&path).unwrap();
    file.write_at(&vec![7; 1 << 20], 0).unwrap();
    file.sync().unwrap();
    let raw = std::fs::File::open(&path).unwrap();
    rustix::fs::fadvise(&raw, 0, None, rustix::fs::Advice::Random).unwrap();
    rustix::fs::fadvise(&raw, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    std::os::unix::fs::FileExt::read_at(&raw, &mut [0; 8192], 0).unwrap();
    let mut buffer = vec![0; 1 << 20];
    match file.read_cached_at(&mut buffer, 0).unwrap() {
        None => {}
        Some(length) => assert!(length == 1 << 20 && buffer.iter().all(|byte| *byte == 7)),
    }
}

#[test]
fn files_in_memory_commit_little_and_give_it_back() {
    let file = MemoryFile::new();
    file.allocate(16 << 20).unwrap();
    file.set_len(32 << 20).unwrap();
    assert_eq!(file.committed(), 0);
    file.write_at(b"x", 100).unwrap();
    assert_eq!(file.committed(), 4096);
    file.write_at(&[1; 8192], 0).unwrap();
    assert_eq!(file.committed(), 8192);
    file.write_at(&vec![1; 1 << 20], 0).unwrap();
    assert_eq!(file.committed(), 1 << 20);
    file.hole(4000..(1 << 19) + 100);
    assert_eq!(file.committed(), (1 << 19) + 4096);
    assert_eq!(file.len().unwrap(), 32 << 20);
    let mut around = [9; 200];
    file.read_at(&mut around, (1 << 19) + 50).unwrap();
    assert_eq!(around, [[0; 50].as_slice(), &[1; 150]].concat().as_slice());
    file.set_len(4097).unwrap();
    assert_eq!(file.committed(), 4096);
    file.hole(0..u64::MAX);
    assert_eq!((file.committed(), file.len().unwrap()), (0, 4097));
    file.set_len(0).unwrap();
    assert_eq!(file.committed(), 0);
}

/// One thread appends, others read what it has announced: never zeros, never too little.
#[test]
fn files_in_memory_are_read_while_they_grow() {
    let file = MemoryFile::new();
    let announced = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut buffer = vec![0; 100_000];
                loop {
                    let end = announced.load(Ordering::Acquire);
                    let start = end.saturating_sub(buffer.len() as u64);
                    let length = (end - start) as usize;
                    assert_eq!(file.read_at(&mut buffer[..length], start).unwrap(), length);
                    let right = |(byte, place): (&u8, u64)| *byte == (place % 251) as u8 + 1;
                    assert!(buffer[..length].iter().zip(start..).all(right));
                    if end >= 2_000_000 {
                        break;
                    }
                }
            });
        }
        for start in (0..2_000_000_u64).step_by(777) {
            let bytes: Vec<u8> = (start..start + 777).map(|place| (place % 251) as u8 + 1).collect();
            file.write_at(&bytes, start).unwrap();
            announced.store(start + 777, Ordering::Release);
        }
    });
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let file = MemoryFile::new();
    file.write_at(b"before", 10).unwrap();
    let snapshot = file.snapshot();
    file.write_at(b"after", 10).unwrap();
    assert_eq!(content(&snapshot)[10..], *b"before");
}

#[derive(Clone, Debug)]
enum Action {
    Write(u64, Vec<u8>),
    Allocate(u64),
    SetLen(u64),
    Sync,
    Hole(u64, u64),
    Read(u64, usize),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let place = prop_oneof![0..10_000_u64, 60_000..70_000_u64, 0..400_000_u64];
    let bytes = (prop_oneof![0..600_usize, 0..150_000_usize], any::<u8>()).prop_map(|(length, first)| {
        (0..length).map(|n| (n as u8).wrapping_mul(7).wrapping_add(first)).collect()
    });
    let action = prop_oneof![
        4 => (place.clone(), bytes).prop_map(|(offset, bytes)| Action::Write(offset, bytes)),
        1 => place.clone().prop_map(Action::Allocate),
        2 => place.clone().prop_map(Action::SetLen),
        1 => Just(Action::Sync),
        2 => (place.clone(), place.clone()).prop_map(|(start, length)| Action::Hole(start, length)),
        4 => (place, 0..100_000_usize).prop_map(|(offset, length)| Action::Read(offset, length)),
    ];
    proptest::collection::vec(action, 1..30)
}

/// The twin of a file. Holes are written as zeros where the disk has no word for them.
fn run(file: &dyn File, hole: impl Fn(u64, u64), actions: &[Action]) {
    let mut twin: Vec<u8> = Vec::new();
    for action in actions {
        match action {
            Action::Write(offset, bytes) => {
                file.write_at(bytes, *offset).unwrap();
                let end = *offset as usize + bytes.len();
                if !bytes.is_empty() {
                    twin.resize(twin.len().max(end), 0);
                    twin[*offset as usize..end].copy_from_slice(bytes);
                }
            }
            Action::Allocate(length) => {
                file.allocate(*length).unwrap();
                twin.resize(twin.len().max(*length as usize), 0);
            }
            Action::SetLen(length) => {
                file.set_len(*length).unwrap();
                twin.resize(*length as usize, 0);
            }
            Action::Sync => file.sync().unwrap(),
            Action::Hole(start, length) => {
                let end = (start + length).min(twin.len() as u64);
                hole(*start, end);
                if let Some(range) = twin.get_mut(*start as usize..end as usize) {
                    range.fill(0);
                }
            }
            Action::Read(offset, length) => {
                let mut buffer = vec![0xee; *length];
                let read = file.read_at(&mut buffer, *offset).unwrap();
                let rest = twin.get(*offset as usize..).unwrap_or_default();
                assert_eq!(buffer[..read], rest[..rest.len().min(*length)]);
            }
        }
        assert_eq!(file.len().unwrap(), twin.len() as u64);
    }
    assert!(content(file) == twin);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_do_as_their_twin(actions in actions()) {
        let memory = MemoryFile::new();
        run(&memory, |start, end| memory.hole(start..end), &actions);
        on_each(|disk, root| {
            let file = disk.create(&root.join("a")).unwrap();
            let zeros = |start: u64, end: u64| {
                file.write_at(&vec![0; end.saturating_sub(start) as usize], start).unwrap();
            };
            run(&*file, zeros, &actions);
        });
    }
}

#[test]
fn a_lock_is_held_once_and_ends_when_it_is_dropped() {
    on_each(|disk, root| {
        let path = root.join("lock");
        let lock = disk.lock(&path).unwrap();
        let _other = disk.lock(&root.join("other")).unwrap();
        assert_eq!(kind(disk.lock(&path)), ErrorKind::ResourceBusy);
        assert_eq!(kind(disk.lock(&path)), ErrorKind::ResourceBusy, "a refusal ends nothing");
        drop(lock);
        disk.lock(&path).unwrap();
        disk.lock(&path).unwrap();
        assert_eq!(kind(disk.lock(root)), ErrorKind::IsADirectory);
    });
}

/// A pipe would be waited for, and a device may do something.
#[test]
fn what_is_no_regular_file_is_not_opened_to_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    for path in [pipe.as_path(), link.as_path(), folder.path(), Path::new("/dev/null")] {
        assert_eq!(kind(RealDisk.open_read_only(path)), ErrorKind::InvalidInput, "{path:?}");
    }
}

//! The cache opens what it must, holds no more than it may and never serves a file that was
//! forgotten.

use super::*;
use crate::interrupted::{Interrupted, Moment};
use crate::memory::MemoryDisk;
use std::path::PathBuf;

fn path(number: usize) -> PathBuf {
    PathBuf::from(format!("/{number}"))
}

/// A disk with the files /0 to /9, each holding its number, and a cache of 4.
fn cache() -> (Arc<Interrupted<MemoryDisk>>, Arc<Handles>) {
    let disk = MemoryDisk::new();
    for number in 0..10 {
        disk.create(&path(number)).unwrap().write_at(&[number as u8], 0).unwrap();
    }
    let disk = Arc::new(Interrupted::at(Moment::Opened, disk));
    let handles = Arc::new(Handles::new(Arc::clone(&disk) as Arc<dyn Disk>, 4));
    (disk, handles)
}

fn number_in(file: &dyn File) -> u8 {
    let mut byte = [0];
    file.read_at(&mut byte, 0).unwrap();
    byte[0]
}

#[test]
fn a_file_is_opened_once_while_it_is_in_use() {
    let (disk, handles) = cache();
    for round in 0..20 {
        handles.open(&path(1)).unwrap();
        handles.open(&path(2)).unwrap();
        // These pass through the other two places.
        handles.open(&path(3 + round % 7)).unwrap();
        assert!(handles.len() <= 4);
    }
    let others = disk.opened() - 2;
    assert!(others <= 20, "the files in use were opened {others} times more than the others can explain");
    assert!(others >= 12, "seven files went through two places in {others} openings");
}

#[test]
fn every_open_gives_the_right_file() {
    let (_, handles) = cache();
    let mut rng = myelin_stdx::rng::Rng::seeded(3);
    for _ in 0..2000 {
        let number = rng.below(10) as usize;
        if rng.below(5) == 0 {
            handles.forget(&path(number));
        }
        assert_eq!(number_in(&*handles.open(&path(number)).unwrap()), number as u8);
        let clock = handles.clock();
        assert!(clock.slots.len() <= 4 && clock.slot_of.len() == clock.slots.len());
        assert!(clock.slot_of.iter().all(|(path, index)| clock.slots[*index].path == *path));
    }
}

#[test]
fn an_evicted_file_stays_usable() {
    let (_, handles) = cache();
    let first = handles.open(&path(0)).unwrap();
    for number in 1..10 {
        handles.open(&path(number)).unwrap();
    }
    assert_eq!(number_in(&*first), 0);
}

#[test]
fn a_forgotten_file_is_opened_anew() {
    let (disk, handles) = cache();
    handles.open(&path(0)).unwrap();
    disk.rename(&path(1), &path(0)).unwrap();
    handles.forget(&path(0));
    handles.forget(&path(99));
    assert_eq!(number_in(&*handles.open(&path(0)).unwrap()), 1);
    assert_eq!(handles.open(&path(1)).unwrap_err().kind(), io::ErrorKind::NotFound);
    disk.create(&path(1)).unwrap();
    handles.open(&path(1)).unwrap();
}

#[test]
fn a_file_that_is_forgotten_while_it_is_being_opened_is_not_kept() {
    let (disk, handles) = cache();
    let (names, cache) = (disk.disk.clone(), Arc::clone(&handles));
    disk.interrupt(move || {
        names.rename(&path(1), &path(0)).unwrap();
        cache.forget(&path(0));
    });
    handles.open(&path(0)).unwrap();
    assert_eq!(number_in(&*handles.open(&path(0)).unwrap()), 1);
}

#[test]
fn two_that_open_at_once_share_one_file() {
    let (disk, handles) = cache();
    let other = Arc::new(Mutex::new(None));
    let (cache, seen) = (Arc::clone(&handles), Arc::clone(&other));
    disk.interrupt(move || {
        *seen.lock().unwrap() = Some(cache.open(&path(0)).unwrap());
    });
    let file = handles.open(&path(0)).unwrap();
    assert!(Arc::ptr_eq(&file, other.lock().unwrap().as_ref().unwrap()));
    assert_eq!(handles.len(), 1);
}

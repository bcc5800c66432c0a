//! Manifests in two copies, on a disk that is a map, and that stops at any step.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use myelin_disk::{DirectoryEntry, File, Lock};
use proptest::prelude::*;

use super::*;
use crate::segment::MAX_SEQ;
use crate::segment::tests::Bytes;

/// A disk of one flat name space that fails from a given step on.
#[derive(Debug, Default)]
struct Map {
    files: Mutex<BTreeMap<PathBuf, Arc<Bytes>>>,
    steps_left: Mutex<Option<u32>>,
}

impl Map {
    fn step(&self) -> io::Result<()> {
        match &mut *self.steps_left.lock().unwrap() {
            None => Ok(()),
            Some(0) => Err(io::Error::other("stopped")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    fn damage(&self, name: &str) {
        let files = self.files.lock().unwrap();
        files[Path::new("/s").join(name).as_path()].0.lock().unwrap()[30] ^= 1;
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for Map {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.step()?;
        let file = Arc::new(Bytes::default());
        self.files.lock().unwrap().insert(path.to_owned(), file.clone());
        Ok(file)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = self.files.lock().unwrap().get(path).cloned();
        file.map(|file| file as Arc<dyn File>).ok_or_else(missing)
    }
    fn list(&self, _: &Path) -> io::Result<Vec<DirectoryEntry>> {
        Ok(Vec::new())
    }
    fn make_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        let mut files = self.files.lock().unwrap();
        let file = files.remove(from).ok_or_else(missing)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.files.lock().unwrap().remove(path).map(|_| ()).ok_or_else(missing)
    }
    fn remove_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        self.step()
    }
    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(0)
    }
    fn lock(&self, _: &Path) -> io::Result<Box<dyn Lock>> {
        Ok(Box::new(()))
    }
}

fn manifest(generation: u64) -> Manifest {
    let segment = |no, through, sealed| SegmentEntry {
        no: SegmentNo(no),
        through: SegmentNo(through),
        generation: 2,
        first_seq: 10,
        last_seq: 20,
        messages: 8,
        bytes: 900,
        file_len: 5000,
        sealed,
    };
    Manifest {
        generation,
        stream: StreamId(6),
        covers: SegmentNo(4),
        base: Some(BaseFile { number: SegmentNo(4), generation: 3, file_len: 777 }),
        totals: Totals {
            first_seq: 2,
            last_seq: 20,
            messages: 8,
            bytes: 900,
            first_timestamp: 4,
            last_timestamp: 5,
        },
        epoch: 1,
        term: 2,
        deleted: Ranges::from_unsorted(vec![3, 4, 9]),
        segments: vec![segment(1, 3, true), segment(4, 4, true), segment(5, 5, false)],
    }
}

#[test]
fn a_manifest_comes_back_and_changed_ones_do_not() {
    let bare = Manifest { base: None, deleted: Ranges::new(), segments: vec![], ..manifest(1) };
    assert_eq!(Manifest::decode(&bare.encode()).unwrap(), bare);
    let good = manifest(1).encode();
    assert_eq!(Manifest::decode(&good).unwrap(), manifest(1));
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Manifest::decode(&bad).is_err(), "bit {bit}");
    }
    for cut in 0..good.len() {
        assert!(Manifest::decode(&good[..cut]).is_err(), "cut at {cut}");
    }
    let body = manifest(1).body();
    for cut in 0..body.len() {
        assert!(matches!(Manifest::decode(&FILE.frame(&body[..cut])), Err(Damage::Content(_))));
    }
    let mut unordered = manifest(1);
    unordered.segments.swap(0, 1);
    assert!(matches!(Manifest::decode(&unordered.encode()), Err(Damage::Content(_))));
}

#[test]
fn a_manifest_with_impossible_sequences_is_none() {
    let is_refused = |manifest: Manifest| {
        assert!(matches!(Manifest::decode(&manifest.encode()), Err(Damage::Content(_))), "{manifest:?}");
    };
    for (first_seq, last_seq) in [(2, u64::MAX), (2, MAX_SEQ + 1), (22, 20)] {
        let totals = Totals { first_seq, last_seq, ..manifest(1).totals };
        is_refused(Manifest { totals, ..manifest(1) });
        let mut listed = manifest(1);
        (listed.segments[1].first_seq, listed.segments[1].last_seq) = (first_seq, last_seq);
        is_refused(listed);
    }
    is_refused(Manifest { deleted: Ranges::from_unsorted(vec![3, 21]), ..manifest(1) });
}

proptest! {
    #[test]
    fn any_body_is_a_manifest_or_none(body in prop::collection::vec(any::<u8>(), 0..400), count in any::<u64>()) {
        let _ = Manifest::decode(&FILE.frame(&body));
        let mut real = manifest(1).body();
        let at = real.len() - 3 * ENTRY_BYTES - 8 - 5;
        real[at..at + 8].copy_from_slice(&count.to_le_bytes());
        let _ = Manifest::decode(&FILE.frame(&real));
    }
}

#[test]
fn the_better_copy_counts() {
    let (disk, directory) = (Map::default(), Path::new("/s"));
    let copies = read(&disk, directory);
    assert!(copies.best.is_none() && copies.faults.is_empty());
    manifest(7).write(&disk, directory).unwrap();
    assert_eq!(read(&disk, directory).best, Some(manifest(7)));
    disk.damage("manifest.a");
    let copies = read(&disk, directory);
    assert_eq!(copies.best, Some(manifest(7)));
    assert!(matches!(copies.faults[..], [("manifest.a", Damage::Checksum(_))]));
    disk.files.lock().unwrap().remove(Path::new("/s/manifest.a"));
    assert!(matches!(read(&disk, directory).faults[..], [("manifest.a", Damage::Io(_))]));
    disk.damage("manifest.b");
    let copies = read(&disk, directory);
    assert!(copies.best.is_none() && copies.faults.len() == 2);
}

#[test]
fn one_of_two_manifests_counts_wherever_writing_stops() {
    let mut seen = [false; 2];
    for steps in 0..9 {
        let (disk, directory) = (Map::default(), Path::new("/s"));
        manifest(1).write(&disk, directory).unwrap();
        *disk.steps_left.lock().unwrap() = Some(steps);
        let written = manifest(2).write(&disk, directory);
        let copies = read(&disk, directory);
        let best = copies.best.unwrap();
        assert!(copies.faults.is_empty());
        assert!(best == manifest(2) || (written.is_err() && best == manifest(1)));
        seen[best.generation as usize - 1] = true;
        // What was left behind is in nobody's way.
        *disk.steps_left.lock().unwrap() = None;
        manifest(3).write(&disk, directory).unwrap();
        assert_eq!(read(&disk, directory).best, Some(manifest(3)));
    }
    assert_eq!(seen, [true; 2]);
}

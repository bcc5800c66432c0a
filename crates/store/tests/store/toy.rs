//! A log so small that its right order of writes and syncs is plain, and the same log with one flaw
//! at a time.
//!
//! The right one must pass the enumeration, and each flaw must be found by it: that is what the
//! enumeration is tested with.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::faulty::FaultyDisk;
use myelin_disk::{Disk, File};

use crate::enumeration::{Enumeration, Loss, Script};

/// Checksum, number, payload.
const RECORD: usize = 300;
const RECORDS: u64 = 12;

/// Flaw of a toy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Promises before the sync has returned.
    SyncsTooLate,
    /// Believes a second sync after a failed one.
    RetriesSyncs,
    /// Does not sync the directory of a new or renamed file.
    ForgetsDirectories,
    /// Renames a file whose content was not synced.
    RenamesUnsynced,
    /// Takes every record that is there for valid.
    HasNoChecksums,
    /// Writes the mark of the first record over itself while it recovers.
    RecoversInPlace,
    /// Takes for safe, after a sync, what it reads from a file whose sync may have failed in
    /// another process.
    TrustsTheCache,
    /// Stays failed after the disk was full.
    GivesUpWhenFull,
    /// Panics when its log ends in the middle of a record.
    Panics,
}

/// Promises of the toy to its callers.
#[derive(Clone, Debug, Default)]
struct Promises {
    /// Records whose append was begun.
    begun: u64,
    /// Records that survive the process.
    written: u64,
    /// Records that survive a loss of power.
    durable: u64,
    /// Records below were asked to go, and are gone for certain.
    trim_begun: u64,
    trimmed: u64,
}

fn log_path() -> &'static Path {
    Path::new("/toy/log")
}

fn mark_path() -> &'static Path {
    Path::new("/toy/first")
}

fn record(number: u64) -> Vec<u8> {
    let mut record = vec![0; 4];
    record.extend(number.to_le_bytes());
    record.resize(RECORD, number as u8);
    let sum = crc32c::crc32c(&record[4..]);
    record[..4].copy_from_slice(&sum.to_le_bytes());
    record
}

struct Toy<'a> {
    disk: &'a FaultyDisk,
    flaw: Flaw,
    log: Arc<dyn File>,
    records: u64,
    failed: bool,
}

impl<'a> Toy<'a> {
    /// Opens or creates it: cuts the log at the first record that is not whole, and makes that
    /// safe.
    fn open(disk: &'a FaultyDisk, flaw: Flaw) -> io::Result<Self> {
        disk.make_directory(Path::new("/toy"))?;
        let log = match disk.open(log_path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(log_path())?,
            opened => opened?,
        };
        let mut toy = Self { disk, flaw, log, records: 0, failed: false };
        let torn = toy.log.len()? % RECORD as u64 != 0;
        assert!(flaw != Flaw::Panics || !torn, "the log is torn");
        while toy.is_whole(toy.records)? {
            toy.records += 1;
        }
        toy.log.set_len(toy.end())?;
        // A process that was killed may have left what is seen, but not safe. If its last sync
        // failed, the next sync would save nothing that is not written again.
        if flaw != Flaw::TrustsTheCache {
            let mut bytes = vec![0; toy.end() as usize];
            toy.log.read_at(&mut bytes, 0)?;
            toy.log.write_at(&bytes, 0)?;
        }
        toy.log.sync()?;
        toy.sync_directory("/toy")?;
        toy.sync_directory("/")?;
        if flaw == Flaw::RecoversInPlace && disk.open(mark_path()).is_ok() {
            let first = toy.first()?;
            let mark = disk.open(mark_path())?;
            mark.set_len(0)?;
            mark.write_at(&first.to_le_bytes(), 0)?;
            mark.sync()?;
        }
        Ok(toy)
    }

    fn end(&self) -> u64 {
        self.records * RECORD as u64
    }

    fn is_whole(&self, number: u64) -> io::Result<bool> {
        let mut bytes = vec![0; RECORD];
        let length = self.log.read_at(&mut bytes, number * RECORD as u64)?;
        Ok(length == RECORD && (self.flaw == Flaw::HasNoChecksums || bytes == record(number)))
    }

    fn sync_directory(&self, path: &str) -> io::Result<()> {
        if self.flaw == Flaw::ForgetsDirectories { Ok(()) } else { self.disk.sync_directory(Path::new(path)) }
    }

    /// After an error the record is not there, and the toy can be used if cutting it off worked.
    fn append(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("failed earlier"));
        }
        let bytes = record(self.records);
        let written = self.log.write_at(&bytes, self.end());
        if written.is_err() {
            self.failed = self.flaw == Flaw::GivesUpWhenFull || self.log.set_len(self.end()).is_err();
        }
        written?;
        self.records += 1;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        match self.log.sync() {
            Err(_) if self.flaw == Flaw::RetriesSyncs => self.log.sync(),
            synced => synced,
        }
    }

    /// Makes the records below `first` go.
    fn trim(&self, first: u64) -> io::Result<()> {
        let new = Path::new("/toy/first.new");
        let _ = self.disk.remove_file(new);
        let file = self.disk.create(new)?;
        file.write_at(&first.to_le_bytes(), 0)?;
        if self.flaw != Flaw::RenamesUnsynced {
            file.sync()?;
        }
        self.disk.rename(new, mark_path())?;
        self.sync_directory("/toy")
    }

    /// The first record that is not trimmed.
    fn first(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        match self.disk.open(mark_path()) {
            Ok(file) => file.read_at(&mut bytes, 0).map(|_| u64::from_le_bytes(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull
}

/// Appends, syncs now and then, trims twice; goes on after a full disk and stops at other errors.
fn work(disk: &FaultyDisk, promises: &mut Promises, flaw: Flaw) -> io::Result<()> {
    let mut toy = match Toy::open(disk, flaw) {
        // A full disk at the start: later there is room.
        Err(error) if is_full(&error) => {
            disk.set_capacity(None);
            Toy::open(disk, flaw)?
        }
        opened => opened?,
    };
    while toy.records < RECORDS {
        promises.begun = toy.records + 1;
        match toy.append() {
            Err(error) if is_full(&error) => {
                disk.set_capacity(None);
                toy.append().expect("the store resumes when there is room");
            }
            appended => appended?,
        }
        promises.written = toy.records;
        if toy.records % 3 == 0 {
            if flaw == Flaw::SyncsTooLate {
                promises.durable = toy.records;
            }
            toy.sync()?;
            promises.durable = toy.records;
        }
        if toy.records % 5 == 0 {
            promises.trim_begun = toy.records - 2;
            match toy.trim(promises.trim_begun) {
                Err(error) if is_full(&error) => disk.set_capacity(None),
                trimmed => {
                    trimmed?;
                    promises.trimmed = promises.trim_begun;
                }
            }
        }
    }
    Ok(())
}

/// Holds what is left against the promises, and sees that the log can be used.
fn check(disk: &FaultyDisk, promises: &Promises, loss: Loss, flaw: Flaw) -> Result<(), String> {
    let mut toy = match Toy::open(disk, flaw) {
        Err(error) if loss == Loss::ProcessOnFullDisk && is_full(&error) => return Ok(()),
        opened => opened.map_err(|error| format!("it does not open: {error}"))?,
    };
    let least = if let Loss::Power(_) = loss { promises.durable } else { promises.written };
    if toy.records < least || toy.records > promises.begun {
        return Err(format!("{} records are there", toy.records));
    }
    if toy.log.len().map_err(|error| error.to_string())? != toy.end() {
        return Err("there is something behind the records".into());
    }
    let content = disk.read_all(log_path()).map_err(|error| error.to_string())?;
    if content.chunks(RECORD).zip(0..).any(|(bytes, number)| bytes != record(number)) {
        return Err("a record is not what was appended".into());
    }
    let first = toy.first().map_err(|error| format!("the mark cannot be read: {error}"))?;
    if first < promises.trimmed || first > promises.trim_begun {
        return Err(format!("the first record is {first}"));
    }
    match toy.append().and_then(|()| toy.sync()).and_then(|()| toy.trim(first)) {
        Err(error) if loss == Loss::ProcessOnFullDisk && is_full(&error) => Ok(()),
        used => used.map_err(|error| format!("it cannot be used: {error}")),
    }
}

impl Script for Flaw {
    type Promises = Promises;

    fn work(&self, disk: &FaultyDisk, promises: &mut Promises) {
        // What it could not do, it did not promise.
        let _ = work(disk, promises, *self);
    }

    fn recover(&self, disk: &FaultyDisk, promises: &mut Promises) {
        // What it shows must not vanish any more.
        if let Ok(toy) = Toy::open(disk, *self) {
            promises.durable = promises.durable.max(toy.records);
            promises.trimmed = toy.first().map_or(promises.trimmed, |first| first.max(promises.trimmed));
        }
    }

    fn check(&self, disk: &FaultyDisk, promises: &Promises, loss: Loss) -> Result<(), String> {
        check(disk, promises, loss, *self)
    }
}

fn plan() -> Enumeration {
    Enumeration::new("toy", 7)
}

#[test]
fn a_log_that_is_right_passes() {
    let summary = plan().run(&Flaw::None).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{summary:?}");
    assert!(summary.points > 30 && summary.runs == 2 + summary.points * 6);
    assert!(summary.checks > summary.runs * 6 && summary.nested > summary.points * 30);
}

#[test]
fn every_flaw_is_found() {
    for (flaw, sign) in [
        (Flaw::SyncsTooLate, "records are there"),
        (Flaw::RetriesSyncs, "records are there"),
        (Flaw::ForgetsDirectories, ""),
        (Flaw::RenamesUnsynced, "the first record is"),
        (Flaw::HasNoChecksums, "a record is not what was appended"),
        (Flaw::RecoversInPlace, "the first record is"),
        (Flaw::TrustsTheCache, "records are there"),
        (Flaw::GivesUpWhenFull, "the workload panicked: the store resumes"),
        (Flaw::Panics, "panicked: the log is torn"),
    ] {
        let failure = plan().run(&flaw).err().unwrap_or_else(|| panic!("{flaw:?} was not found"));
        assert!(failure.reason.contains(sign), "{flaw:?}: {failure}");
        println!("{flaw:?}: {:?}", failure.case);
        // The case alone shows it again.
        let again = plan().replay(&flaw, failure.case);
        assert_eq!(again.unwrap_err().reason, failure.reason);
    }
}

/// Does something else in each run.
#[derive(Default)]
struct Fickle {
    runs: Cell<u64>,
}

impl Script for Fickle {
    type Promises = ();

    fn work(&self, disk: &FaultyDisk, (): &mut ()) {
        self.runs.set(self.runs.get() + 1);
        disk.make_directory(&Path::new("/").join(self.runs.get().to_string())).expect("a healthy disk");
    }

    fn recover(&self, _disk: &FaultyDisk, (): &mut ()) {}

    fn check(&self, _disk: &FaultyDisk, (): &(), _loss: Loss) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_workload_that_does_not_repeat_itself_is_refused() {
    let failure = plan().run(&Fickle::default()).unwrap_err();
    assert_eq!(failure.reason, "two equal runs differ");
}

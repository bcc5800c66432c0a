//! A file system that is read-only, from the beginning of a start or from any point of it on: the
//! start ends with the reason or goes on without what it could not write; nothing is lost, and
//! everything is there when the file system can be written to again.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::faulty::{DiskFault, FaultyDisk};
use myelin_store::entropy::SeededEntropy;
use myelin_store::{
    Admission, NewMessage, OpenError, Reserve, Store, StoreOptions, StoreReport, Stream, StreamConfig, verify,
};

use crate::damage::sequences;

const ROOT: &str = "/store";
const STREAMS: [&str; 2] = ["one", "other"];
const MESSAGES: u64 = 60;

fn config() -> StreamConfig {
    StreamConfig { segment_bytes: Some(2_000), ..StreamConfig::default() }
}

fn open(disk: &FaultyDisk, turn: u64) -> Result<(Store, StoreReport), OpenError> {
    let options = StoreOptions {
        headroom_bytes: 0,
        journal_file_bytes: 1 << 20,
        reserve: Reserve::Nothing,
        ..StoreOptions::new(ROOT)
    };
    Store::open(Arc::new(disk.clone()), options, Arc::new(SeededEntropy::new(turn)))
}

fn append(stream: &mut Stream) -> Result<(), String> {
    let message = NewMessage { timestamp: 5, subject: b"a", payload: &[7; 90], ..NewMessage::default() };
    let mut outcomes = Vec::new();
    let appended = stream.append(&[message], Admission::Check, 5, &mut outcomes);
    appended.map(drop).map_err(|error| error.to_string())
}

/// A store with segments that are sealed, one that is not, and a journal that is not empty: the
/// process was killed.
fn left() -> FaultyDisk {
    let disk = FaultyDisk::new(3);
    let (store, _) = open(&disk, 1).expect("a new store");
    for name in STREAMS {
        let mut stream = store.create_stream("A", name, b"", config(), 1).expect("a stream");
        for turn in 0..MESSAGES {
            append(&mut stream).expect("there is room");
            if turn < MESSAGES / 2 {
                while let Some(job) = stream.next_job(5) {
                    stream.finish(job.run(), 5).expect("the disk works");
                }
            }
        }
        store.write_watermarks().expect("the disk works");
    }
    disk.kill()
}

/// Starts with the store, uses each stream, and is killed. Answers what the start, the streams or
/// their publishers are told instead, and how many changes had been asked of the disk by then.
fn start(disk: &FaultyDisk) -> (Vec<String>, u64) {
    let (store, report) = match open(disk, 2) {
        Ok(opened) => opened,
        Err(error) => return (vec![error.to_string()], disk.points()),
    };
    let mut streams = Vec::new();
    let mut told: Vec<String> = report.notices.iter().map(ToString::to_string).collect();
    for found in &report.streams {
        match store.open_stream(found.id, config(), 7) {
            Ok((mut stream, report)) => {
                told.extend(report.notices.iter().map(ToString::to_string));
                assert_eq!(sequences(&stream).len() as u64, MESSAGES, "all can be read: {told:?}");
                told.extend(append(&mut stream).err());
                streams.push(stream);
            }
            Err(error) => told.push(error.to_string()),
        }
    }
    (told, disk.points())
}

/// Everything is there, and nothing is wrong.
fn assert_whole(disk: &FaultyDisk, after: &str) {
    let looked: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut findings = Vec::new();
    let checked =
        verify::check(&looked, Path::new(ROOT), None, &mut |finding| findings.push(finding.to_string()));
    assert!(checked.expect("there is a store").is_sound(), "{after}: {findings:?}");
    let (store, report) = open(disk, 3).expect("it can be written to again");
    assert_eq!(report.streams.len(), STREAMS.len(), "{after}");
    for found in &report.streams {
        let (mut stream, report) = store.open_stream(found.id, config(), 9).expect("it opens");
        assert!(!report.is_damaged(), "{after}: {report:?}");
        let found = sequences(&stream);
        assert!(found.starts_with(&(1..=MESSAGES).collect::<Vec<_>>()), "{after}: {found:?}");
        append(&mut stream).expect("there is room");
    }
}

#[test]
fn a_start_on_a_read_only_file_system_is_refused_with_the_reason_and_changes_nothing() {
    let disk = left();
    let before = disk.kill();
    disk.fail_at(disk.points(), DiskFault::ErrorsFrom(ErrorKind::ReadOnlyFilesystem));
    let (told, _) = start(&disk);
    let [why] = &told[..] else { panic!("one reason: {told:?}") };
    assert!(why.contains("cannot write to it: "), "{why}");
    assert_eq!(disk.difference(&before), None, "a file has changed");
    disk.heal();
    assert_whole(&disk.kill(), "the start that was refused");
}

#[test]
fn a_file_system_that_becomes_read_only_during_a_start_loses_nothing() {
    let image = left();
    let points = {
        let disk = image.kill();
        let before = disk.points();
        let (told, after) = start(&disk);
        assert_eq!(told, Vec::<String>::new());
        after - before
    };
    assert!(points > 20, "a start writes something: {points}");
    for point in 0..points {
        let disk = image.kill();
        disk.fail_at(disk.points() + point, DiskFault::ErrorsFrom(ErrorKind::ReadOnlyFilesystem));
        let (told, _) = start(&disk);
        let step = || disk.journal().last().map(|step| format!("{step:?}"));
        assert!(!told.is_empty(), "nobody says that point {point} of {points} has failed: {:?}", step());
        let is_plain = |line: &String| !line.contains(['{', '"']) && !line.contains("Some(");
        assert!(told.iter().all(is_plain), "{told:?}");
        disk.heal();
        assert_whole(&disk.kill(), &format!("read-only from point {point} of {points} on, {told:?}"));
    }
}

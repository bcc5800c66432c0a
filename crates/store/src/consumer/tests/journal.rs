//! Logs whose bytes the device's journal makes durable.

use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};
use std::io::ErrorKind;

use super::*;
use crate::Durability;
use crate::id::StreamPart;
use crate::journal::{Journal, JournalConfig, Resolution};

fn config() -> JournalConfig {
    // No direct syncs: everything has to come back out of the journal.
    JournalConfig { file_bytes: 1 << 20, files: 2, direct_files_max: 0, ..JournalConfig::default() }
}

fn start(disk: &FaultyDisk) -> (Arc<Journal>, Consumers, LogReport) {
    let (journal, mut replay) =
        Journal::open(Arc::new(disk.clone()), Path::new("/journal"), config()).expect("healthy");
    let resolve = &mut |target: &crate::journal::ReplayTarget| {
        let FileKind::Consumers(number) = target.file.kind else { return Ok(Resolution::Unknown) };
        let path = directory().join(format!("consumers.{number:08}"));
        match disk.open(&path) {
            Ok(file) => Ok(Resolution::Apply(file, None)),
            Err(_) => Ok(Resolution::Skip),
        }
    };
    let report = replay.run(resolve).expect("healthy");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let tails = JournalTails { journal: journal.clone(), durability: Durability::Synced, on_durable: None };
    let place = LogStorage { tails: Arc::new(tails), ..place(Arc::new(disk.clone()), None) };
    let (consumers, report) = Consumers::open(place).expect("healthy");
    (journal, consumers, report)
}

#[test]
fn a_flush_is_released_by_a_round_and_survives() {
    let disk = FaultyDisk::new(5);
    let (journal, mut consumers, _) = start(&disk);
    let id = consumers.create("a", AckRules::default(), b"").expect("it is new");
    consumers.flush(0).expect("healthy");
    for seq in 1..=20 {
        consumers.apply(id, &[delivered(seq, seq), acknowledged(seq, seq)]).expect("it exists");
        let position = consumers.flush(seq as i64).expect("healthy").expect("a file");
        assert!(!consumers.is_released(position));
        if seq == 15 {
            consumers.checkpoint().expect("healthy");
        } else {
            journal.round_now(&|| seq).expect("healthy");
        }
        assert!(consumers.is_released(position), "{seq}");
        for survival in [Survival::None, Survival::All, Survival::Random(seq)] {
            let (_, again, report) = start(&disk.power_cycle(survival));
            assert!(report.is_clean(), "{report:?}");
            assert_eq!(states(&again), states(&consumers), "{seq} {survival:?}");
        }
    }
}

/// The removal of a stream that could not be stated: until the log is written anew, which a disk
/// may refuse, the journal has what it says.
#[test]
fn what_was_flushed_outlives_a_removal_of_its_stream_that_failed() {
    let disk = FaultyDisk::new(5);
    let (journal, mut consumers, _) = start(&disk);
    let [_, removed] = ["a", "b"].map(|name| consumers.create(name, AckRules::default(), b"").expect("new"));
    consumers.flush(0).expect("healthy");
    journal.round_now(&|| 1).expect("healthy");
    consumers.remove(removed).expect("it exists");
    let position = consumers.flush(2).expect("healthy").expect("a file");
    journal.round_now(&|| 2).expect("healthy");
    assert!(consumers.is_synced(position));
    consumers.suspend_log();
    consumers.resume_log();
    // Nobody could write the log anew, and the journal's files were used again and again.
    let left = journal.leave(place(Arc::new(disk.clone()), None).stream, StreamPart::Consumers, Vec::new());
    left.expect("healthy");
    journal.close(&|| 3).expect("healthy");
    for survival in [Survival::None, Survival::All, Survival::Random(1)] {
        let (_, again, report) = start(&disk.power_cycle(survival));
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(states(&again), states(&consumers), "{survival:?}");
    }
}

/// A consumer was changed, the round for that failed, and so did the removal of its stream.
#[test]
fn what_a_failed_round_has_lost_is_owed_after_a_removal_that_failed() {
    let disk = FaultyDisk::new(5);
    let (journal, mut consumers, _) = start(&disk);
    let id = consumers.create("a", AckRules::default(), b"before").expect("it is new");
    consumers.flush(0).expect("healthy");
    journal.round_now(&|| 1).expect("healthy");
    consumers.update(id, AckRules::default(), b"after").expect("it exists");
    consumers.flush(2).expect("healthy");
    disk.fail_at(disk.points(), DiskFault::ErrorsFrom(ErrorKind::Other));
    let _ = journal.round_now(&|| 2);
    consumers.suspend_log();
    assert!(consumers.flush_failed(3).is_err(), "nothing is written while the stream is being removed");
    consumers.resume_log();
    assert!(consumers.flush_failed(4).is_err(), "the disk refuses it");
    disk.heal();
    consumers.flush_failed(5).expect("healthy");
    let (_, again, _) = start(&disk.power_cycle(Survival::None));
    assert_eq!(states(&again), states(&consumers));
    assert_eq!(again.get(id).expect("it was made").config(), b"after");
}

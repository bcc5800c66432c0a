//! Crash enumeration of the store: a script that touches everything, ended at every point in every
//! way.
//!
//! Each operation on a stream is one batch, so a stream has a history of states, and what a crash
//! leaves must be one of them: none older than what was promised in the stream's mode, none newer
//! than what was begun. That covers order and content, what was deleted, and gaps. Besides, nothing
//! panics, nothing is called damaged, opening again finds the same, and messages can be appended.

mod consumers;
mod metas;
mod promise;
mod register;
mod script;

use std::collections::BTreeSet;

use myelin_disk::faulty::{DiskFault, DiskOperation, DiskStep, FaultyDisk};
use myelin_store::{Compression, Durability};

use crate::enumeration::{Enumeration, Script};
use script::{Rounds, Workload};

/// Every fault at every point, and a second loss of power at every point of every recovery: with
/// `MYELIN_CRASH_DEEP`, which takes half an hour. Without it a third of the faults at each point,
/// another third with another `MYELIN_RANDOM_SEED` (CI has one for each commit), fewer ways to
/// survive a loss of power, and a second one at some points of each recovery and after some.
fn enumerate(name: &'static str, workload: &impl Script) {
    let mut plan = Enumeration::new(name, 7);
    if std::env::var_os("MYELIN_CRASH_DEEP").is_none() {
        (plan.prefixes, plan.randoms) = (1, 1);
        (plan.recovery_step, plan.after_step) = (29, 3);
        let seed = std::env::var("MYELIN_RANDOM_SEED").ok().and_then(|seed| seed.parse().ok());
        (plan.fault_step, plan.first_fault) = (3, seed.unwrap_or(0) % 3);
    }
    let began = std::time::Instant::now();
    let summary = plan.run(workload).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{name}: {summary:?} in {:?}", began.elapsed());
    assert!(summary.points > 100);
}

/// How many files the journal has in a healthy run, and how often one of them was begun.
fn journal_files(workload: &impl Script) -> (usize, usize) {
    let disk = FaultyDisk::new(7);
    workload.work(&disk, &mut Default::default());
    let begun = |step: &DiskStep| {
        let is_journal = step.path.extension().is_some_and(|extension| extension == "jnl");
        is_journal && matches!(step.operation, DiskOperation::Write { offset: 0, .. })
    };
    let begun: Vec<_> = disk.journal().into_iter().filter(begun).map(|step| step.path).collect();
    (begun.iter().collect::<BTreeSet<_>>().len(), begun.len())
}

/// The disk fills up at each point: no removal and no acknowledgement is refused as long as there
/// is headroom. The script looks itself.
fn fill_everywhere(workload: &impl Script) {
    let healthy = FaultyDisk::new(7);
    workload.work(&healthy, &mut Default::default());
    for point in 0..healthy.points() {
        for room in [0, 4096, 8192, 32768] {
            let disk = FaultyDisk::new(7);
            disk.fail_at(point, DiskFault::FullAfter(room));
            workload.work(&disk, &mut Default::default());
        }
    }
}

#[test]
fn full_disk_with_headroom() {
    for durability in [Durability::Written, Durability::Synced] {
        fill_everywhere(&Workload::new(durability, Rounds::Direct));
        fill_everywhere(&consumers::Workload::new(durability, Rounds::Direct));
        fill_everywhere(&consumers::Workload::new(durability, Rounds::Journal));
    }
}

#[test]
fn written() {
    enumerate("written", &Workload::new(Durability::Written, Rounds::Direct));
}

#[test]
fn synced() {
    enumerate("synced", &Workload::new(Durability::Synced, Rounds::Direct));
}

#[test]
fn in_memory() {
    enumerate("memory", &Workload::new(Durability::Memory, Rounds::Direct));
}

#[test]
fn packed_and_encrypted() {
    let workload = Workload::new(Durability::Synced, Rounds::Direct);
    enumerate("encrypted", &Workload { compression: Compression::S2, is_encrypted: true, ..workload });
}

#[test]
fn in_a_group() {
    let workload = Workload::new(Durability::Written, Rounds::Direct);
    enumerate("group", &Workload { is_in_group: true, ..workload });
}

#[test]
fn through_the_journal() {
    let workload = Workload::new(Durability::Synced, Rounds::Journal);
    let (files, begun) = journal_files(&workload);
    assert!(files >= 4 && begun >= files + 2, "{files} files of the journal were begun {begun} times");
    enumerate("journal", &workload);
}

#[test]
fn names_and_configurations() {
    enumerate("metas", &metas::Workload);
}

#[test]
fn streams_that_come_and_go() {
    enumerate("register", &register::Workload);
}

#[test]
fn consumers() {
    enumerate("consumers synced", &consumers::Workload::new(Durability::Synced, Rounds::Direct));
}

#[test]
fn consumers_written() {
    enumerate("consumers written", &consumers::Workload::new(Durability::Written, Rounds::Direct));
}

#[test]
fn consumers_encrypted() {
    let workload = consumers::Workload::new(Durability::Synced, Rounds::Direct);
    enumerate("consumers encrypted", &consumers::Workload { is_encrypted: true, ..workload });
}

#[test]
fn consumers_through_the_journal() {
    enumerate("consumers journal", &consumers::Workload::new(Durability::Synced, Rounds::Journal));
}

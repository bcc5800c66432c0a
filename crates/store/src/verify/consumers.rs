//! The logs of a stream's consumers.

use myelin_disk::File;

use crate::consumer::{self, Inspected, Unreadable};

use super::Finding;
use super::stream::Checking;

/// Checks the logs with these numbers, of which the highest complete one is in force.
pub(super) fn check(checking: &mut Checking<'_, '_>, numbers: &[u64]) {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.reverse();
    let mut is_chosen = false;
    let mut in_force = (consumer::LogReport::default(), None);
    for number in numbers {
        let name = consumer::file_name(number);
        let path = checking.path(&name);
        let looked = checking.open(&name).map(|file| inspect(checking, &*file, number));
        match looked {
            Err(error) => checking.unreadable(path, &error.into()),
            Ok(Err(Unreadable::Empty)) => {
                let meaning = "It was begun when the process or the power failed; an older log is in force.";
                checking.emit(Finding::note(path, "nothing was written to it", meaning));
            }
            Ok(Err(Unreadable::Damaged(damage))) => {
                let meaning = "What it says of consumers is lost: they begin where an older log, if there is one, ends.";
                checking.emit(Finding::damage(path, damage.to_string(), meaning));
            }
            Ok(Ok(_)) if is_chosen => {
                let meaning = "A newer log is in force; it is removed in the course of operation.";
                checking.emit(Finding::note(path, "no one needs it any more", meaning));
            }
            Ok(Ok(inspected)) => {
                is_chosen |= inspected.is_complete;
                report(checking, &name, &inspected);
                if is_chosen {
                    in_force = (inspected.report, inspected.consumers);
                }
            }
        }
    }
    compare(checking, &in_force.0, in_force.1);
}

/// Compares with the watermarks: reports what these say that there was more.
fn compare(checking: &mut Checking<'_, '_>, report: &consumer::LogReport, consumers: Option<usize>) {
    let known = checking.looking.statement(checking.id());
    let (log, end) = known.log;
    let stated = consumer::Stated { log, end, consumers: known.consumers, synced: 0 };
    // Without its key nobody knows how many there are.
    let present = consumers.unwrap_or(if report.file.is_some() { usize::MAX } else { 0 });
    if let Some(set_back) = stated.compare(report, present) {
        let path = checking.path(consumer::file_name(stated.log));
        let meaning = "Restore it from a backup before the next start, or go on with what is there.";
        checking.emit(Finding::damage(path, set_back.to_string(), meaning));
    }
}

fn inspect(checking: &Checking<'_, '_>, file: &dyn File, number: u64) -> Result<Inspected, Unreadable> {
    consumer::inspect(file, checking.id(), number, checking.key.as_ref())
}

fn report(checking: &mut Checking<'_, '_>, name: &str, inspected: &Inspected) {
    let report = &inspected.report;
    let path = checking.path(name);
    let names = report.affected.iter().map(|(_, name, _)| &**name).collect::<Vec<_>>().join(", ");
    let again = "Consumers that it concerns get some messages again; none is skipped.";
    for bad in &report.bad {
        let about = if names.is_empty() { String::new() } else { format!(" (consumers {names})") };
        let what = format!("these bytes are not what was written{about}");
        checking.emit(Finding::damage(&*path, what, again).at(bad.range.clone()));
    }
    for bit in &report.corrected {
        let (byte, what) = (bit / 8, crate::flipped::words(*bit as usize));
        let meaning =
            "It can be told which; the next start writes the log anew as it was, and nothing is lost.";
        checking.emit(Finding::damage(&*path, what, meaning).at(byte..byte + 1));
    }
    if let Some(torn) = report.torn {
        let bytes = torn.offset..torn.offset.saturating_add(torn.bytes);
        let meaning =
            "Its last write was not finished or is being made; nothing of it had been confirmed as safe.";
        checking.emit(Finding::note(&*path, "it ends with an incomplete entry", meaning).at(bytes));
    }
    let lost = "They have to be created again.";
    if !report.orphans.is_empty() {
        let what = format!("{} consumers have lost their name and configuration", report.orphans.len());
        checking.emit(Finding::damage(&*path, what, lost));
    }
    if report.missing > 0 {
        let what = format!("{} consumers that it began with are not there any more", report.missing);
        checking.emit(Finding::damage(&*path, what, lost));
    }
    if !inspected.is_complete {
        let meaning = "The part of it that is missing had been synced.";
        checking.emit(Finding::damage(&*path, "it ends before its first states do", meaning));
    }
}

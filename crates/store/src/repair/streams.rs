//! Repair of streams: what a start does, done now; and new bases, manifests and consumer logs where
//! the old ones were damaged.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use myelin_disk::Disk;

use crate::config::{Durability, Limits, StreamConfig};
use crate::consumer;
use crate::lengths::in_memory;
use crate::ranges::Ranges;
use crate::recovery::{LOST_COPIES, Lost, Notice, OpenError, forget_losses, read_losses, stream_directory};
use crate::store::{FoundStream, Reserve, Store, StoreOptions};
use crate::{StreamId, Timestamp};

use super::{RepairAction, RepairOutcome, Repairing, losses};

const REFUSED: &str = "it cannot be opened";

pub(super) fn repair(repairing: &mut Repairing<'_>, renewed: &BTreeSet<StreamId>) -> io::Result<()> {
    let (disk, entropy) = (Arc::clone(&repairing.disk), Arc::clone(&repairing.options.entropy));
    let options = StoreOptions {
        keys: repairing.options.keys.clone(),
        // Space for a full disk is the server's own affair.
        headroom_bytes: headroom(&*disk, repairing.root),
        // No messages are added.
        reserve: Reserve::Nothing,
        ..StoreOptions::new(repairing.root)
    };
    let (store, report) = Store::open(disk, options, entropy).map_err(words)?;
    for notice in &report.notices {
        let outcome = outcome(notice);
        repairing.emit(RepairAction::new(outcome, "", notice.to_string()));
    }
    for problem in &report.replay.problems {
        repairing.emit(RepairAction::new(RepairOutcome::Lost, "journal", problem.to_string()));
    }
    let clock = clock(repairing.options.now);
    for found in &report.streams {
        if let Err(error) = open(repairing, &store, found, renewed.contains(&found.id)) {
            let path = stream_directory(repairing.root, found.id);
            let action = RepairAction::new(RepairOutcome::Left, path, format!("{REFUSED}: {error}"));
            repairing.emit(action.of(found.id, &found.meta.account, &found.meta.name));
        }
        store.journal().round_now(&clock).map_err(|error| io::Error::other(error.to_string()))?;
    }
    store.journal().close(&clock).map_err(|error| io::Error::other(error.to_string()))
}

fn headroom(disk: &dyn Disk, root: &std::path::Path) -> u64 {
    disk.open_read_only(&root.join("headroom")).and_then(|file| file.len()).unwrap_or(0)
}

fn clock(now: Timestamp) -> impl Fn() -> u64 {
    move || now.unsigned_abs()
}

fn words(error: OpenError) -> io::Error {
    io::Error::other(error.to_string())
}

/// Outcome that a notice of a start means for a repair.
fn outcome(notice: &Notice) -> RepairOutcome {
    let is_made_again = |file: &str, what: &str| {
        ["index.", "manifest."].iter().any(|name| file.starts_with(name))
            || what.contains("its entries were read")
    };
    match notice {
        Notice::Repaired { .. }
        | Notice::Cut { .. }
        | Notice::SetAside { .. }
        | Notice::PassedOver { .. } => RepairOutcome::Repaired,
        Notice::Damaged { file, what } if is_made_again(file, what) => RepairOutcome::Repaired,
        Notice::Left { .. } => RepairOutcome::Left,
        Notice::DamagedEntries { .. }
        | Notice::EndLost { .. }
        | Notice::Damaged { .. }
        | Notice::Missing { .. } => RepairOutcome::Lost,
    }
}

fn open(
    repairing: &mut Repairing<'_>,
    store: &Store,
    found: &FoundStream,
    is_renewed: bool,
) -> Result<(), String> {
    let path = stream_directory(repairing.root, found.id);
    let acknowledged = acknowledge(repairing, found).map_err(|error| error.to_string())?;
    let now = repairing.options.now;
    let config = StreamConfig { limits: Limits::default(), ..(repairing.options.shape)(&found.meta) };
    let opened = store.open_stream(found.id, config, now);
    let (mut stream, report) = opened.map_err(|error| error.to_string())?;
    let emit = |repairing: &mut Repairing<'_>, notices: &[Notice]| {
        for notice in notices {
            let action = RepairAction::new(outcome(notice), &path, notice.to_string());
            repairing.emit(action.of(found.id, &found.meta.account, &found.meta.name));
        }
    };
    let lost = if is_renewed {
        losses::left_to_tell(&report, &acknowledged, stream.state().totals.first_seq)
    } else {
        report.lost.clone()
    };
    let is_told = |notice: &&Notice| !is_renewed || losses::is_to_be_told(notice, &lost);
    let notices: Vec<Notice> = report.notices.iter().filter(is_told).cloned().collect();
    emit(repairing, &notices);
    for one in losses::unnamed(&lost, &notices) {
        let action = RepairAction::new(RepairOutcome::Lost, path.join(&one.file), losses::words(one));
        repairing.emit(action.of(found.id, &found.meta.account, &found.meta.name));
    }
    let has_base =
        |notice: &Notice| matches!(notice, Notice::Damaged { file, .. } if file.starts_with("index."));
    if is_renewed || report.notices.iter().any(has_base) {
        stream.renew(now).map_err(|error| format!("no new manifest: {error}"))?;
    }
    if is_renewed && lost.is_empty() {
        forget_losses(&*repairing.disk, &path).map_err(|error| error.to_string())?;
    }
    let opened = store.open_consumers(found.id, Durability::Synced, None);
    let (mut consumers, report) = opened.map_err(|error| error.to_string())?;
    if !report.is_clean() {
        let action = RepairAction::new(consumers_outcome(&report), &path, consumers_words(&report));
        repairing.emit(action.of(found.id, &found.meta.account, &found.meta.name));
        consumers.checkpoint().map_err(|error| format!("no new log of the consumers: {error}"))?;
    }
    emit(repairing, &store.put_away(&mut consumers));
    let flushed = consumers.flush(now).map_err(|error| error.to_string());
    drop((stream, consumers));
    flushed.map(drop)
}

/// Acknowledges what earlier starts have told as lost: it is said once more, and forgotten. Answers
/// which sequences these are.
fn acknowledge(repairing: &mut Repairing<'_>, found: &FoundStream) -> io::Result<Ranges> {
    let directory = stream_directory(repairing.root, found.id);
    let Some(told) = read_losses(&*repairing.disk, &directory, found.id).best else {
        return Ok(Ranges::default());
    };
    // A repair that is killed in between has said it.
    for Lost { file, sequences, .. } in &told.lost {
        let (first, last) = (sequences.start(), sequences.end());
        let what = format!(
            "messages {first} to {last} were lost with {file}, as earlier starts have told: later ones tell only what they \
             find again"
        );
        let action = RepairAction::new(RepairOutcome::Repaired, directory.join(LOST_COPIES[0]), what);
        repairing.emit(action.of(found.id, &found.meta.account, &found.meta.name));
    }
    forget_losses(&*repairing.disk, &directory)?;
    Ok(Ranges::from_ranges(told.lost.iter().map(|lost| lost.sequences.clone())))
}

fn consumers_outcome(report: &consumer::LogReport) -> RepairOutcome {
    let is_whole = report.bad.is_empty()
        && report.orphans.is_empty()
        && report.missing == 0
        && report.set_back.is_none()
        && report.unusable.is_empty();
    if is_whole { RepairOutcome::Repaired } else { RepairOutcome::Lost }
}

fn consumers_words(report: &consumer::LogReport) -> String {
    let consumer::LogReport {
        file,
        end: _,
        set_back,
        torn,
        bad,
        affected,
        orphans,
        missing,
        unusable,
        corrected,
    } = report;
    let mut words = Vec::new();
    words.extend(set_back.as_ref().map(ToString::to_string));
    if !unusable.is_empty() {
        words.push(format!("{} cannot be read", unusable.join(", ")));
    }
    words.extend(corrected.iter().map(|bit| crate::flipped::words(in_memory(*bit))));
    words.extend(
        bad.iter()
            .map(|bad| format!("bytes {} to {} are not what was written", bad.range.start, bad.range.end)),
    );
    if torn.is_some() {
        words.push("an incomplete end was cut".to_owned());
    }
    if !affected.is_empty() {
        let names: Vec<&str> = affected.iter().map(|(_, name, _)| &**name).collect();
        words.push(format!("consumers {} may get some messages again", names.join(", ")));
    }
    let gone = u64::from(*missing).max(orphans.len() as u64);
    if gone > 0 {
        words.push(format!("{gone} consumers are gone: create them again"));
    }
    let name = file.map_or("consumers".to_owned(), consumer::file_name);
    format!("{name}: {}; a new log was written", words.join("; "))
}

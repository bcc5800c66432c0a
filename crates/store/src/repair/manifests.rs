//! Streams of which no copy of the manifest can be read: a new one is made from the segments.
//!
//! A manifest is a shortcut but for one thing: which files count. Of what it listed all is still
//! there; what it did not list any more was removed, or a crash came before that, and is there
//! again.

use std::collections::BTreeSet;
use std::io;

use crate::StreamId;
use crate::damage::Damage;
use crate::flipped;
use crate::manifest::{self, COPIES, Manifest};
use crate::recovery::stream_directory;
use crate::stream::segment_number;

use super::{RepairAction, RepairOutcome, Repairing, hex, whole};

/// Moves what cannot be read out of the way; answers the streams that need a new manifest.
pub(super) fn repair(repairing: &mut Repairing<'_>) -> io::Result<BTreeSet<StreamId>> {
    let mut renewed = BTreeSet::new();
    for id in repairing.streams()? {
        let directory = stream_directory(repairing.root, id);
        let copies = manifest::read(&*repairing.disk, &directory);
        if copies.best.is_some() {
            continue;
        }
        if copies.faults.is_empty() {
            // As a repair leaves it that was interrupted: without a manifest all segments from the
            // first on are there.
            if has_gaps(repairing, id)? {
                let what = "both copies are missing beside segments that need one; a new one is made from the segments";
                repairing.emit(RepairAction::new(RepairOutcome::Repaired, directory.join(COPIES[0]), what));
                renewed.insert(id);
            }
            continue;
        }
        let path = directory.join(COPIES[0]);
        if let Some((_, damage)) =
            copies.faults.iter().find(|(_, damage)| matches!(damage, Damage::Version(..)))
        {
            let what = format!("{damage}: use a server of that version");
            repairing.emit(RepairAction::new(RepairOutcome::Left, path, what));
            continue;
        }
        let words: Vec<String> =
            copies.faults.iter().map(|(name, damage)| format!("{name}: {damage}")).collect();
        let words = words.join("; ");
        let corrected = corrected(repairing, id)?;
        for name in COPIES {
            if repairing.disk.open_read_only(&directory.join(name)).is_ok() {
                repairing.copy_aside(&directory.join(name), &hex(id))?;
            }
        }
        if let Some(manifest) = corrected {
            manifest.write(&*repairing.disk, &directory)?;
            let what = format!("{words}; one bit was not what was written, and was corrected");
            repairing.emit(RepairAction::new(RepairOutcome::Repaired, path, what));
            continue;
        }
        for name in COPIES {
            match repairing.disk.remove_file(&directory.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        repairing.disk.sync_directory(&directory)?;
        let what = format!(
            "{words}; moved to quarantine, and a new one is made from the segments. Messages whose deletion was written \
             down in segments that are gone may be there again"
        );
        repairing.emit(RepairAction::new(RepairOutcome::Repaired, path, what));
        renewed.insert(id);
    }
    Ok(renewed)
}

/// Whether segments are missing between those that are there, or before them.
fn has_gaps(repairing: &Repairing<'_>, id: StreamId) -> io::Result<bool> {
    let names = repairing.disk.list(&stream_directory(repairing.root, id))?;
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|entry| segment_number(&entry.name)).map(|no| no.0).collect();
    numbers.sort_unstable();
    Ok(!numbers.iter().copied().eq(1..=numbers.len() as u64))
}

/// The newer of the copies that have a single wrong bit.
fn corrected(repairing: &Repairing<'_>, id: StreamId) -> io::Result<Option<Manifest>> {
    let directory = stream_directory(repairing.root, id);
    let mut best: Option<Manifest> = None;
    for name in COPIES {
        let Ok(file) = repairing.disk.open_read_only(&directory.join(name)) else { continue };
        let mut bytes = whole(&*file)?;
        if flipped::correct(&mut bytes, 0).is_none() {
            continue;
        }
        let Ok(manifest) = Manifest::decode(&bytes) else { continue };
        let is_newer = best.as_ref().is_none_or(|best| best.generation < manifest.generation);
        if manifest.stream == id && is_newer {
            best = Some(manifest);
        }
    }
    Ok(best)
}

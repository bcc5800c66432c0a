//! The store's own mark, of which both copies are gone.
//!
//! The watermarks say its number. It is part of every checksum in the journal, too, so the journal
//! still knows it: the checksum of a block's header says with which number it was begun. What is
//! found is proven by the checksum of the block's body. Without either the number means nothing,
//! and any other will do.

use std::io;

use crate::damage::Damage;
use crate::flipped;
use crate::journal::store_number;
use crate::meta::{MARKER, Marker};
use crate::register;
use crate::store::{COPY, number};
use crate::watermarks;

use super::{RepairAction, RepairOutcome, Repairing, named, whole};

/// Answers the store's number; `None` if the store was made by a later version.
pub(super) fn repair(repairing: &mut Repairing<'_>) -> io::Result<Option<u64>> {
    let copies = [MARKER, COPY].map(|name| (name, Marker::read(&*repairing.disk, repairing.root, name)));
    let faults: Vec<_> =
        copies.iter().filter_map(|(name, copy)| Some((*name, copy.as_ref().err()?))).collect();
    if faults.iter().any(|(_, damage)| matches!(damage, Damage::Version(..))) {
        let what = "a later version wrote it: use a server of that version";
        repairing.emit(RepairAction::new(RepairOutcome::Left, repairing.root.join(MARKER), what));
        return Ok(None);
    }
    let closed = faults.iter().find_map(|(name, damage)| Some((name, unreadable(damage)?)));
    let valid = copies.iter().find_map(|(_, copy)| copy.as_ref().ok()).copied();
    let (marker, from) = match valid {
        Some(marker) if faults.is_empty() => return Ok(Some(number(&marker))),
        Some(marker) => (marker, "written again from the other copy"),
        None => match closed {
            Some((name, error)) => return Err(named(&repairing.root.join(name), error)),
            None => found(repairing)?,
        },
    };
    for (name, damage) in faults {
        let path = repairing.root.join(name);
        if unreadable(damage).is_some() {
            // Whoever may read it, or makes its sectors readable again, finds it there.
            repairing.move_aside(&path, "")?;
        } else if !matches!(damage, Damage::Io(_)) {
            repairing.copy_aside(&path, "")?;
        }
        marker.write(&*repairing.disk, repairing.root, name)?;
        repairing.emit(RepairAction::new(RepairOutcome::Repaired, path, format!("{damage}; {from}")));
    }
    Ok(Some(number(&marker)))
}

/// Why a file that is there cannot be read.
fn unreadable(damage: &Damage) -> Option<&io::Error> {
    match damage {
        Damage::Io(error) if error.kind() != io::ErrorKind::NotFound => Some(error),
        _ => None,
    }
}

/// A marker for a store that has none, and where it is from.
fn found(repairing: &Repairing<'_>) -> io::Result<(Marker, &'static str)> {
    for name in [MARKER, COPY] {
        let Ok(file) = repairing.disk.open_read_only(&repairing.root.join(name)) else { continue };
        let mut bytes = whole(&*file)?;
        if flipped::correct(&mut bytes, 0).is_some()
            && let Ok(marker) = Marker::decode(&bytes)
        {
            return Ok((marker, "one bit was not what was written, and was corrected"));
        }
    }
    let mut id = [0; 16];
    repairing.options.entropy.fill(&mut id);
    let names = repairing.disk.list(repairing.root)?;
    let has_register = names.iter().any(|entry| register::NAMES.contains(&entry.name.as_str()));
    if let Some(number) = watermarks::store_number(&*repairing.disk, repairing.root) {
        id[..8].copy_from_slice(&number.to_le_bytes());
        return Ok((Marker { id, has_register }, "made again from what the watermarks say"));
    }
    if let Some(number) = store_number(&*repairing.disk, &repairing.root.join("journal"))? {
        id[..8].copy_from_slice(&number.to_le_bytes());
        return Ok((Marker { id, has_register }, "made again from what the journal's checksums say"));
    }
    Ok((Marker { id, has_register }, "made anew; the journal holds nothing that needs the old one"))
}

//! Names of streams that only the register has for sure: into their directories, before anybody
//! asks for them.

use std::io;

use crate::damage::Damage;
use crate::meta::{MARKER, Marker};
use crate::recovery::stream_directory;
use crate::register::{NAMES, Register, read};
use crate::store::{COPY, restore_registered};

use super::{RepairAction, RepairOutcome, Repairing, named, whole};

pub(super) fn repair(repairing: &mut Repairing<'_>, store: u64) -> io::Result<()> {
    move_unreadable(repairing)?;
    let (disk, root) = (&repairing.disk, repairing.root);
    let markers = [MARKER, COPY].map(|name| Marker::read(&**disk, root, name));
    let is_announced = markers.into_iter().flatten().any(|marker| marker.has_register);
    match read(&**disk, root, store, is_announced) {
        // What is wrong with it, the start tells that follows.
        Ok(contents) => {
            let register = Register::resume(disk, root, store, &contents, is_announced);
            // What such a file holds may be for a stream that has no directory yet.
            let journal = disk.list(&root.join("journal")).unwrap_or_default();
            let has_kept = journal.iter().any(|entry| entry.name.starts_with("kept-"));
            for restored in restore_registered(&**disk, root, &register, &contents, has_kept)? {
                let path = stream_directory(root, restored.meta.stream).join(restored.name);
                let what = format!("{}; written again from the register", restored.fault);
                repairing.emit(RepairAction::new(RepairOutcome::Repaired, path, what));
            }
            Ok(())
        }
        Err(Damage::Io(error)) => Err(named(&root.join(NAMES[0]), &error)),
        Err(damage) => {
            let what = format!("{damage}: use a server of that version");
            repairing.emit(RepairAction::new(RepairOutcome::Left, root.join("register"), what));
            Ok(())
        }
    }
}

/// Moves a copy that cannot be opened or read to quarantine, if the other one can be: no start does
/// that by itself, because a permission or a cable can be what is missing.
fn move_unreadable(repairing: &mut Repairing<'_>) -> io::Result<()> {
    let fault = |name| {
        let bytes = repairing.disk.open_read_only(&repairing.root.join(name)).and_then(|file| whole(&*file));
        bytes.err()
    };
    let (name, error) = match NAMES.map(fault) {
        [Some(error), None] => (NAMES[0], error),
        [None, Some(error)] => (NAMES[1], error),
        _ => return Ok(()),
    };
    if error.kind() == io::ErrorKind::NotFound {
        return Ok(());
    }
    let path = repairing.root.join(name);
    repairing.move_aside(&path, "")?;
    let what = format!("{}; moved to quarantine, the other copy counts", Damage::Io(error));
    repairing.emit(RepairAction::new(RepairOutcome::Repaired, path, what));
    Ok(())
}

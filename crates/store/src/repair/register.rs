//! Names of streams that only the register has for sure: into their directories, before anybody
//! asks for them.

use std::io;

use crate::meta::{MARKER, Marker};
use crate::recovery::stream_directory;
use crate::register::{Register, read};
use crate::store::{COPY, restore_registered};

use super::{RepairAction, RepairOutcome, Repairing};

pub(super) fn repair(repairing: &mut Repairing<'_>, store: u64) -> io::Result<()> {
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
        Err(damage) => {
            let what = format!("{damage}: use a server of that version");
            repairing.emit(RepairAction::new(RepairOutcome::Left, root.join("register"), what));
            Ok(())
        }
    }
}

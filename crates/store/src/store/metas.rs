//! The names of streams when a store is opened: both copies of each `meta` say the same afterwards.

use std::io;
use std::path::Path;

use myelin_disk::Disk;

use crate::StreamId;
use crate::meta::{Meta, MetaCopies, MetaFault, read_copies};
use crate::recovery::{Notice, move_aside};

use super::{FoundStream, StoreReport};

/// Reads the names of stream `id` in `directory`, and repairs one copy from the other.
pub(super) fn list(disk: &dyn Disk, directory: &Path, id: StreamId, report: &mut StoreReport) {
    let copies = read_copies(disk, directory, id);
    let words = copies.words();
    let MetaCopies { best, faults } = copies;
    match best {
        Ok(meta) => {
            report.notices.extend(repair(disk, directory, &meta, &faults));
            report.streams.push(FoundStream { id, meta });
        }
        Err(_) => report.unreadable.push((id, words)),
    }
}

/// Makes both copies say what `best` does. What was done is said; only a first second copy is not
/// worth a word.
pub(crate) fn repair(
    disk: &dyn Disk,
    directory: &Path,
    best: &Meta,
    faults: &[(&'static str, MetaFault)],
) -> Vec<Notice> {
    if faults.iter().any(|(_, fault)| matches!(fault, MetaFault::Missing { is_first: true })) {
        let written = best.write(disk, directory);
        return written.err().map(|error| left(directory, "meta.copy", &error)).into_iter().collect();
    }
    let mended = |(name, fault): &(&'static str, MetaFault)| match mend(disk, directory, best, name, fault) {
        Ok(done) => Notice::Repaired {
            file: format!("{name} of stream {} of account {}", best.name, best.account),
            what: format!("{fault}; {done}"),
        },
        Err(error) => left(directory, name, &error),
    };
    faults.iter().map(mended).collect()
}

fn left(directory: &Path, name: &str, error: &io::Error) -> Notice {
    let (path, error) = (directory.join(name), myelin_stdx::os_error::words(error));
    Notice::Left { what: format!("cannot write {}: {error}", path.display()) }
}

fn mend(disk: &dyn Disk, directory: &Path, best: &Meta, name: &str, fault: &MetaFault) -> io::Result<String> {
    let aside = match fault {
        // It may be the only one that the other stream has.
        MetaFault::Elsewhere(_) => Some(move_aside(disk, &directory.join(name), name)?),
        _ => None,
    };
    best.write_copy(disk, directory, name)?;
    let moved = aside.map_or(String::new(), |to| format!("moved to {} and ", to.display()));
    Ok(format!("{moved}written again from the other copy"))
}

#[cfg(test)]
mod tests;

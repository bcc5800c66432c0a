//! The names of streams when a store is opened: both copies of each `meta` say the same afterwards.

use std::io;
use std::path::Path;

use myelin_disk::Disk;
use myelin_disk::headroom::Headroom;

use crate::StreamId;
use crate::damage::Damage;
use crate::meta::{self, META_COPIES, Meta, MetaCopies, MetaFault, read_copies};
use crate::recovery::{Notice, move_aside};
use crate::register::Register;

use super::{FoundStream, StoreReport};

/// Reads the names of stream `id` in `directory`, and repairs one copy from the other, or both from
/// the register.
pub(super) fn list(
    disk: &dyn Disk,
    directory: &Path,
    id: StreamId,
    (register, headroom): (&Register, &Headroom),
    report: &mut StoreReport,
) {
    let mut copies = read_copies(disk, directory, id);
    match headroom.with_room(|| restore_from(disk, directory, (id, &copies), register)) {
        Ok(None) => {}
        Ok(Some(restored)) => {
            report.notices.extend(restored.into_iter().map(Restored::notice));
            copies = read_copies(disk, directory, id);
        }
        Err(error) => {
            report.notices.push(left(directory, META_COPIES[0], &error));
            report.streams.extend(register.meta(id).map(|meta| FoundStream { id, meta }));
            return;
        }
    }
    let words = copies.words();
    let MetaCopies { best, faults } = copies;
    match best {
        Ok(meta) => {
            if faults.is_empty() {
                register.note_meta(id, &meta);
            }
            report.notices.extend(repair(disk, directory, &meta, &faults));
            report.streams.push(FoundStream { id, meta });
        }
        Err(_) => report.unreadable.push((id, words)),
    }
}

/// A damaged copy that was written again from the register.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) meta: Meta,
    pub(crate) name: &'static str,
    /// Fault, in words.
    pub(crate) fault: String,
}

impl Restored {
    fn notice(self) -> Notice {
        let Self { meta: Meta { name: stream, account, .. }, name, fault } = self;
        Notice::Repaired {
            file: format!("{name} of stream {stream} of account {account}"),
            what: format!("{fault}; written again from the register"),
        }
    }
}

/// Writes both copies as the register has them, if it has something newer. Answers those that were
/// damaged.
pub(super) fn restore_older(
    disk: &dyn Disk,
    directory: &Path,
    id: StreamId,
    register: &Register,
) -> io::Result<Vec<Restored>> {
    let copies = read_copies(disk, directory, id);
    Ok(restore_from(disk, directory, (id, &copies), register)?.unwrap_or_default())
}

/// As [`restore_older`], with copies that were read. `None`: they are as the register has them, or
/// are left alone.
fn restore_from(
    disk: &dyn Disk,
    directory: &Path,
    (id, copies): (StreamId, &MetaCopies),
    register: &Register,
) -> io::Result<Option<Vec<Restored>>> {
    let Some(meta) = register.meta(id) else { return Ok(None) };
    let is_whole = !is_older(copies, &meta) && copies.faults.is_empty();
    if is_whole || matches!(copies.best, Err(Damage::Version(..))) {
        return Ok(None);
    }
    restore(disk, directory, &meta, copies).map(Some)
}

/// Whether what the register says of a stream is newer than what its directory does.
pub(super) fn is_older(copies: &MetaCopies, meta: &Meta) -> bool {
    copies.best.as_ref().map_or(true, |best| best.generation < meta.generation)
}

/// Writes both copies as the register has them. What a crash leaves of copies that were being
/// written is worth no word.
fn restore(disk: &dyn Disk, directory: &Path, meta: &Meta, copies: &MetaCopies) -> io::Result<Vec<Restored>> {
    let is_told = |name: &str, fault: &MetaFault| match fault {
        MetaFault::Missing { .. } | MetaFault::Older { .. } => false,
        MetaFault::Damaged(_) => !is_unfinished(disk, &directory.join(name), meta),
        MetaFault::Differs | MetaFault::Elsewhere(_) => true,
    };
    let told = copies.faults.iter().filter(|(name, fault)| is_told(name, fault));
    let told: Vec<Restored> =
        told.map(|(name, fault)| Restored { meta: meta.clone(), name, fault: fault.to_string() }).collect();
    for (name, fault) in &copies.faults {
        if matches!(fault, MetaFault::Elsewhere(_)) {
            // It may be the only one that the other stream has.
            move_aside(disk, &directory.join(name), name)?;
        }
    }
    for name in META_COPIES {
        meta.write_copy(disk, directory, name)?;
    }
    Ok(told)
}

/// Whether a copy is what a crash may leave of one that was being written: the beginning of it, or
/// with sectors of zeros.
fn is_unfinished(disk: &dyn Disk, path: &Path, meta: &Meta) -> bool {
    const SECTOR: usize = 512;
    let Ok(bytes) = meta::read_bytes(disk, path) else { return false };
    let has_empty_sector = bytes.chunks(SECTOR).any(|sector| sector.iter().all(|byte| *byte == 0));
    meta.encode().starts_with(&bytes) || has_empty_sector
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

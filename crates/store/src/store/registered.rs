//! Streams of the register when a store is opened: those that have no files, those whose files a
//! crash left unfinished, and those that were removed.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use myelin_disk::headroom::Headroom;
use myelin_disk::{Disk, is_full, write_again};

use crate::StreamId;
use crate::entropy::Entropy;
use crate::meta::{META_COPIES, read_copies};
use crate::recovery::{Notice, stream_directory};
use crate::register::{NAMES, Register, RegisterContents};
use crate::watermarks::Watermarks;

use super::metas::{self, Restored};
use super::{FoundStream, StoreReport, stream_number};

/// Notices about the files of the register, for an operator.
pub(crate) fn notices(contents: &RegisterContents) -> Vec<Notice> {
    let healed = contents.healed.iter().map(|(name, what)| Notice::Repaired {
        file: (*name).to_owned(),
        what: format!("{what}; it was written again from the other copy"),
    });
    let lost = contents.lost.iter().map(|what| Notice::Damaged {
        file: NAMES[0].to_owned(),
        what: format!(
            "{what}: streams that had stored nothing may be missing, and removed ones be there again"
        ),
    });
    healed.chain(lost).collect()
}

/// Gives directories of streams that were removed the name under which they are removed.
pub(crate) fn hide_removed(disk: &dyn Disk, streams: &Path, contents: &RegisterContents) -> io::Result<()> {
    if contents.removed.is_empty() {
        return Ok(());
    }
    // A process that was killed may have written that they were removed, and not synced it: nothing
    // goes before that is durable.
    let root = streams.parent().unwrap_or(streams);
    for name in NAMES {
        match disk.open(&root.join(name)) {
            Ok(file) => write_again(&*file, 0, file.len()?)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    for entry in disk.list(streams)? {
        if stream_number(&entry.name).is_some_and(|id| contents.removed.contains(&id)) {
            let path = streams.join(&entry.name);
            disk.rename(&path, &path.with_extension("tmp"))?;
        }
    }
    Ok(())
}

/// Gives streams of the register that have a directory their `meta`, where that is not as new, and
/// the others a directory if `all` are to have one. Answers which copies had been damaged. For who
/// looks at a store that is not open.
pub(crate) fn restore(
    disk: &dyn Disk,
    root: &Path,
    register: &Register,
    contents: &RegisterContents,
    all: bool,
) -> io::Result<Vec<Restored>> {
    let mut restored = Vec::new();
    for id in contents.ids() {
        let directory = stream_directory(root, id);
        let is_there = disk.list(&directory).is_ok();
        if is_there {
            register.note_files(id);
            restored.extend(metas::restore_older(disk, &directory, id, register)?);
        } else if all || register.log(id).is_some() {
            register.make_files(id)?;
        } else {
            continue;
        }
        register.restore_log(id)?;
    }
    Ok(restored)
}

/// The last steps of a start: adds streams that have no directory, and writes the register anew.
pub(super) fn finish(
    disk: &dyn Disk,
    root: &Path,
    (register, contents): (&Register, &RegisterContents),
    watermarks: &Watermarks,
    with: (&dyn Entropy, &Headroom),
    report: &mut StoreReport,
) -> io::Result<()> {
    list(register, contents, watermarks, with.1, report)?;
    settle(disk, root, register, with, report)
}

/// Adds streams that the listing of directories has not met. One that is stated to have had files
/// gets its directory: whoever opens it misses them.
fn list(
    register: &Register,
    contents: &RegisterContents,
    watermarks: &Watermarks,
    headroom: &Headroom,
    report: &mut StoreReport,
) -> io::Result<()> {
    let listed: HashSet<StreamId> = report.streams.iter().map(|found| found.id).collect();
    let unreadable: HashSet<StreamId> = report.unreadable.iter().map(|(id, _)| *id).collect();
    for id in contents.ids().filter(|id| !listed.contains(id) && !unreadable.contains(id)) {
        if watermarks.is_stated(id) {
            headroom.with_room(|| register.make_durable_files(id))?;
        }
        report.streams.extend(register.meta(id).map(|meta| FoundStream { id, meta }));
    }
    Ok(())
}

/// Writes the register anew, without what stands in the streams' directories durably.
fn settle(
    disk: &dyn Disk,
    root: &Path,
    register: &Register,
    (entropy, headroom): (&dyn Entropy, &Headroom),
    report: &mut StoreReport,
) -> io::Result<()> {
    let streams = root.join("streams");
    disk.sync_directory(&streams)?;
    let mut is_settled = |id| sync_files(disk, root, register, id).unwrap_or(false);
    let has_left = |id: StreamId| disk.list(&stream_directory(root, id).with_extension("tmp")).is_ok();
    match register.settle((entropy, headroom), &mut is_settled, &has_left) {
        Err(error) if is_full(&error) => {
            let what = format!("cannot write {}: {error}; it is tried again", root.join(NAMES[0]).display());
            report.notices.push(Notice::Left { what });
            Ok(())
        }
        settled => settled,
    }
}

/// Makes both copies of a stream's `meta` durable, and the first log of its consumers. Whether
/// there are both, and what the register says: it could not be written to a full disk.
fn sync_files(disk: &dyn Disk, root: &Path, register: &Register, id: StreamId) -> io::Result<bool> {
    let directory = stream_directory(root, id);
    let copies = read_copies(disk, &directory, id);
    let is_older = register.meta(id).is_some_and(|meta| metas::is_older(&copies, &meta));
    if is_older || copies.best.is_err() || !copies.faults.is_empty() {
        return Ok(false);
    }
    for name in META_COPIES {
        disk.open(&directory.join(name))?.sync()?;
    }
    register.sync_log(id)?;
    disk.sync_directory(&directory)?;
    Ok(true)
}

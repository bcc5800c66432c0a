//! Journal files that a start could not use altogether and set aside: what of them is still missing
//! in the streams' files is written there, and then they go to quarantine.
//!
//! Only what is missing is written: where a file has other bytes, they are newer, or were cut and
//! written again.

use std::io;
use std::sync::Arc;

use myelin_disk::{Disk, File};

use crate::journal::{ReplayTarget, each_kept};
use crate::manifest;
use crate::recovery::stream_directory;
use crate::segment::SegmentHeader;
use crate::stream::segment_name;
use crate::{FileKind, SegmentNo};

use super::{RepairAction, RepairOutcome, Repairing};

#[derive(Default)]
struct Counted {
    /// Bytes that are where they belong, or that nobody needs any more.
    there: u64,
    written: u64,
    /// Bytes of files that are not there.
    homeless: u64,
}

pub(super) fn repair(repairing: &mut Repairing<'_>, store: u64) -> io::Result<()> {
    let directory = repairing.root.join("journal");
    let entries = match repairing.disk.list(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries.iter().filter(|entry| entry.name.starts_with("kept-") && !entry.is_directory) {
        let path = directory.join(&entry.name);
        let mut counted = Counted::default();
        let disk = Arc::clone(&repairing.disk);
        each_kept(&*disk, &path, store, &mut |target, bytes| {
            put(&*disk, repairing.root, &target, bytes, &mut counted)
        })?;
        // This repair may have made directories of streams: from here on nothing else has what was
        // written there.
        repairing.disk.sync_directory(&repairing.root.join("streams"))?;
        repairing.move_aside(&path, "journal")?;
        let Counted { there, written, homeless } = counted;
        let what = format!(
            "set aside by an earlier start: {there} bytes of it are in the streams' files or not needed any more, {written} \
             were missing and are written there; moved to quarantine"
        );
        repairing.emit(RepairAction::new(RepairOutcome::Repaired, &path, what));
        if homeless > 0 {
            let what = format!(
                "{homeless} bytes of it belong to files that are not there: if you put those back from a backup, move it \
                 back from quarantine and repair again"
            );
            repairing.emit(RepairAction::new(RepairOutcome::Lost, &path, what));
        }
    }
    Ok(())
}

fn put(
    disk: &dyn Disk,
    root: &std::path::Path,
    target: &ReplayTarget,
    bytes: &[u8],
    counted: &mut Counted,
) -> io::Result<()> {
    let length = bytes.len() as u64;
    let directory = stream_directory(root, target.file.stream);
    if disk.list(&directory).is_err() {
        // A stream that was deleted.
        counted.there += length;
        return Ok(());
    }
    let name = match target.file.kind {
        FileKind::Segment(no) => {
            let manifest = manifest::read(disk, &directory).best;
            if no <= manifest.map_or(SegmentNo(0), |manifest| manifest.covers) {
                counted.there += length;
                return Ok(());
            }
            segment_name(no)
        }
        FileKind::Consumers(number) => crate::consumer::file_name(number),
    };
    let path = directory.join(name);
    let is_segment = matches!(target.file.kind, FileKind::Segment(_));
    let file = match disk.open(&path) {
        // Only the journal had made it durable.
        Err(error) if error.kind() == io::ErrorKind::NotFound && target.offset == 0 && is_segment => {
            let file = disk.create(&path)?;
            disk.sync_directory(&directory)?;
            file
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            counted.homeless += length;
            return Ok(());
        }
        file => file?,
    };
    let is_other =
        is_segment && SegmentHeader::read(&*file).is_ok_and(|header| header.generation != target.generation);
    if is_other || !is_free(&*file, target.offset, bytes)? {
        counted.there += length;
        return Ok(());
    }
    file.write_at(bytes, target.offset)?;
    file.sync()?;
    counted.written += length;
    Ok(())
}

/// Whether nothing was ever written where the bytes belong.
fn is_free(file: &dyn File, offset: u64, bytes: &[u8]) -> io::Result<bool> {
    let mut there = vec![0; bytes.len()];
    let read = file.read_at(&mut there, offset)?;
    Ok(there[..read].iter().all(|byte| *byte == 0) && bytes.iter().any(|byte| *byte != 0))
}

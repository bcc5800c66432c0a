//! Where the journal's bytes belong.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use myelin_disk::Disk;

use crate::consumer::FIRST_LOG;
use crate::journal::{JournalReplay, ReplayReport, ReplayTarget, Resolution};
use crate::manifest;
use crate::recovery::stream_directory;
use crate::register::Register;
use crate::segment::SegmentHeader;
use crate::stream::segment_name;
use crate::{FileKind, SegmentNo, StreamId};

/// Writes what the journal holds into the streams' files.
pub(crate) fn run(
    disk: &dyn Disk,
    root: &Path,
    register: &Register,
    replay: &mut JournalReplay,
) -> io::Result<ReplayReport> {
    let mut covered = HashMap::new();
    replay.run(&mut |target| {
        if register.is_removed(target.file.stream) {
            return Ok(Resolution::Skip);
        }
        let stream = target.file.stream;
        let is_vouched = target.file.kind == FileKind::Consumers(FIRST_LOG) && register.log(stream).is_some();
        if target.offset == 0 || is_vouched {
            // Only the journal made its first bytes durable, and with them that it has a directory;
            // or the register vouches for what is before them.
            register.make_durable_files(stream)?;
        }
        if is_vouched {
            register.restore_log(stream)?;
        }
        resolve(disk, root, &mut covered, target)
    })
}

fn resolve(
    disk: &dyn Disk,
    root: &Path,
    covered: &mut HashMap<StreamId, SegmentNo>,
    target: &ReplayTarget,
) -> io::Result<Resolution> {
    let stream = target.file.stream;
    let directory = stream_directory(root, stream);
    if disk.list(&directory).is_err() {
        // A stream that was being removed still has its directory, under another name.
        let is_going = disk.list(&directory.with_extension("tmp")).is_ok();
        return Ok(if is_going { Resolution::Skip } else { Resolution::Unknown });
    }
    let name = match target.file.kind {
        FileKind::Segment(no) => {
            let covers = *covered.entry(stream).or_insert_with(|| covers(disk, &directory));
            if no <= covers {
                // Sealed and synced long ago, with its name; it may be compacted or removed by now.
                return Ok(Resolution::Skip);
            }
            segment_name(no)
        }
        FileKind::Consumers(number) => crate::consumer::file_name(number),
    };
    let resolution = open(disk, &directory, &name, target)?;
    if matches!(resolution, Resolution::Skip) {
        // The process that gave the file that is seen its name may have been killed before that was
        // safe. The journal lets go of what is skipped, and a loss of power would bring back the
        // file before, which has nothing but the journal.
        disk.sync_directory(&directory)?;
    }
    Ok(resolution)
}

fn covers(disk: &dyn Disk, directory: &Path) -> SegmentNo {
    manifest::read(disk, directory).best.map_or(SegmentNo(0), |manifest| manifest.covers)
}

fn open(disk: &dyn Disk, directory: &Path, name: &str, target: &ReplayTarget) -> io::Result<Resolution> {
    let path = directory.join(name);
    match disk.open(&path) {
        Ok(file) => {
            let header = matches!(target.file.kind, FileKind::Segment(_))
                .then(|| SegmentHeader::read(&*file).ok())
                .flatten();
            // A file that was written anew holds the same entries at other places.
            let is_other = header.is_some_and(|header| header.generation != target.generation);
            Ok(if is_other {
                Resolution::Skip
            } else {
                Resolution::Apply(file, Some(directory.to_path_buf()))
            })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && target.offset == 0 => {
            Ok(Resolution::Apply(disk.create(&path)?, Some(directory.to_path_buf())))
        }
        // Consumers' files that were written anew and removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_replaced(disk, directory, target)? => {
            Ok(Resolution::Skip)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Resolution::Unknown),
        Err(error) => Err(error),
    }
}

fn is_replaced(disk: &dyn Disk, directory: &Path, target: &ReplayTarget) -> io::Result<bool> {
    let FileKind::Consumers(number) = target.file.kind else { return Ok(false) };
    let names = disk.list(directory)?;
    let others = names.iter().map(|entry| crate::consumer::read_name(&entry.name));
    Ok(others
        .into_iter()
        .any(|name| matches!(name, crate::consumer::LogFileName::Log(other) if other > number)))
}

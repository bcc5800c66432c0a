//! A stream's directory: which files are there, and what to do with those that should not be.

use std::path::{Path, PathBuf};

use myelin_disk::Disk;

use crate::manifest::{COPIES, Manifest};
use crate::meta::META_COPIES;
use crate::notes::NOTES_FILE;
use crate::stream::{Files, segment_name, segment_number};
use crate::{SegmentNo, StreamId};

use super::remembered::LOST_COPIES;
use super::{Notice, OpenError, Recovering, StreamReport};

/// Name of the directory for what is moved aside, in a store's root.
pub(crate) const QUARANTINE: &str = "quarantine";

/// Names that are ours.
#[derive(Debug, Default)]
pub(super) struct FoundFiles {
    /// Ascending.
    pub(super) segments: Vec<SegmentNo>,
    pub(super) bases: Vec<SegmentNo>,
    /// Whether there is a copy of what earlier starts have told as lost.
    pub(super) has_losses: bool,
    /// Whether there is a file of notes.
    pub(super) has_notes: bool,
}

/// Lists the directory of a stream. Unfinished files are removed, foreign ones set aside.
pub(super) fn read(id: StreamId, files: &Files, report: &mut StreamReport) -> Result<FoundFiles, OpenError> {
    let disk = &*files.store_env.disk;
    let failed = |error| OpenError::new("directory", error);
    let entries = disk.list(&files.directory).map_err(failed)?;
    // A process that was killed may have left names that are seen and not safe: what is decided by
    // them must be.
    //
    // Perf: not where the register would make all of them again. 900 streams with a consumer and no
    // message were as many syncs, most of the time of a start where one takes a millisecond.
    let names = entries.iter().map(|entry| entry.name.as_str());
    if !files.store_env.register.vouches_for(id, names) {
        disk.sync_directory(&files.directory).map_err(failed)?;
    }
    let mut found = FoundFiles::default();
    for entry in entries {
        if let Some(no) = segment_number(&entry.name) {
            found.segments.push(no);
        } else if let Some(no) = base_number(&entry.name) {
            found.bases.push(no);
        } else if LOST_COPIES.contains(&entry.name.as_str()) {
            found.has_losses = true;
        } else if entry.name == NOTES_FILE {
            found.has_notes = true;
        } else if entry.name.ends_with(".tmp") && !entry.is_directory {
            remove(disk, &files.directory.join(&entry.name), report);
        } else if !is_ours(&entry.name) {
            set_aside(files, &entry.name, "it is not a file of a stream", report);
        }
    }
    found.segments.sort_unstable();
    Ok(found)
}

fn is_ours(name: &str) -> bool {
    META_COPIES.contains(&name) || COPIES.contains(&name) || name.starts_with("consumers.")
}

/// The file name of a base.
pub(crate) fn base_name(no: SegmentNo) -> String {
    format!("index.{:016}", no.0)
}

/// The number in a base's file name.
pub(crate) fn base_number(name: &str) -> Option<SegmentNo> {
    let digits = name.strip_prefix("index.")?;
    let no = SegmentNo(digits.parse().ok()?);
    (base_name(no) == name).then_some(no)
}

fn remove(disk: &dyn Disk, path: &Path, report: &mut StreamReport) {
    if let Err(error) = disk.remove_file(path) {
        report.note(Notice::Left { what: format!("cannot remove {}: {error}", path.display()) });
    }
}

/// Moves `name` out of a stream's directory. It stays where it is if that fails.
pub(super) fn set_aside(files: &Files, name: &str, why: &'static str, report: &mut StreamReport) {
    let from = files.directory.join(name);
    match move_aside(&*files.store_env.disk, &from, name) {
        Ok(to) => report.note(Notice::SetAside { name: name.to_owned(), to, why }),
        Err(error) => {
            report.note(Notice::Left { what: format!("cannot set {} aside: {error}", from.display()) })
        }
    }
}

fn stream_of(directory: &Path) -> String {
    directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Where something of stream `stream` called `name` goes in the quarantine: a name that is not
/// taken.
pub(crate) fn place_aside(
    disk: &dyn Disk,
    root: &Path,
    stream: &str,
    name: &str,
) -> std::io::Result<PathBuf> {
    let quarantine = root.join(QUARANTINE);
    disk.make_directory(&quarantine)?;
    let taken = disk.list(&quarantine)?;
    let base = if stream.is_empty() { name.to_owned() } else { format!("{stream}.{name}") };
    let mut number = 0;
    loop {
        let candidate = if number == 0 { base.clone() } else { format!("{base}.{number}") };
        if taken.iter().all(|entry| entry.name != candidate) {
            return Ok(quarantine.join(candidate));
        }
        number += 1;
    }
}

/// Moves a file of a stream, which is called `name`, to quarantine. Answers where it is.
pub(crate) fn move_aside(disk: &dyn Disk, from: &Path, name: &str) -> std::io::Result<PathBuf> {
    // ROOT/streams/ID/NAME
    let stream = from.parent().map(stream_of).unwrap_or_default();
    let root = from.ancestors().nth(3).unwrap_or_else(|| Path::new("/"));
    let to = place_aside(disk, root, &stream, name)?;
    disk.rename(from, &to)?;
    Ok(to)
}

impl Recovering<'_> {
    /// Moves a segment file aside that cannot belong to the log.
    pub(super) fn set_aside(&mut self, no: SegmentNo, why: &'static str) {
        set_aside(self.files, &segment_name(no), why, &mut self.report);
    }

    /// Whether nothing was ever written to a segment file: it has no byte but zeros.
    pub(super) fn is_blank(&self, no: SegmentNo) -> bool {
        let blank = || -> std::io::Result<bool> {
            let file = self.files.store_env.disk.open(&self.files.segment_path(no))?;
            let (length, mut at, mut piece) = (file.len()?, 0, vec![0; 1 << 16]);
            while at < length {
                let read = file.read_at(&mut piece, at)?;
                if read == 0 || piece[..read].iter().any(|&byte| byte != 0) {
                    return Ok(read == 0);
                }
                at += read as u64;
            }
            Ok(true)
        };
        blank().unwrap_or(false)
    }

    pub(super) fn remove_blank(&mut self, no: SegmentNo) {
        remove(&*self.files.store_env.disk, &self.files.segment_path(no), &mut self.report);
    }

    /// Removes what the manifest no longer lists: a crash came between writing it and removing the
    /// files.
    pub(super) fn remove_obsolete(&mut self, manifest: Option<&Manifest>, found: &FoundFiles) {
        let disk = &*self.files.store_env.disk;
        let covers = manifest.map_or(SegmentNo(0), |manifest| manifest.covers);
        for &no in found.segments.iter().filter(|no| **no <= covers) {
            let is_listed =
                manifest.is_some_and(|manifest| manifest.segments.iter().any(|entry| entry.no == no));
            if !is_listed {
                remove(disk, &self.files.segment_path(no), &mut self.report);
            }
        }
        let current = manifest.and_then(|manifest| manifest.base.as_ref()).map(|base| base.number);
        for &no in found.bases.iter().filter(|no| Some(**no) != current) {
            remove(disk, &self.files.directory.join(base_name(no)), &mut self.report);
        }
    }
}

/// The directory of a stream.
pub(crate) fn stream_directory(root: &Path, id: StreamId) -> PathBuf {
    root.join("streams").join(format!("{:016x}", id.0))
}

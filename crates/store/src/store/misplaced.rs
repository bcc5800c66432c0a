//! Names of a store that are a directory where a file belongs, or the other way round.
//!
//! A start moves them to quarantine before it reads anything, and then finds that what belongs
//! there is missing: that is told and mended as it always is. Nothing in them is looked at.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use myelin_disk::{DirectoryEntry, Disk};

use crate::manifest::COPIES;
use crate::meta::META_COPIES;
use crate::notes::NOTES_FILE;
use crate::recovery::{LOST_COPIES, Notice, QUARANTINE, base_number, place_aside};
use crate::stream::segment_number;

use super::{LOCK, OURS, stream_number};

/// Names in the root that are directories.
const DIRECTORIES: [&str; 3] = ["journal", "streams", QUARANTINE];

/// A name of ours that stands for something of another kind.
#[derive(Debug)]
pub(crate) struct Misplaced {
    pub(crate) path: PathBuf,
    name: String,
    is_directory: bool,
}

impl Misplaced {
    fn new(directory: &Path, entry: DirectoryEntry) -> Self {
        let DirectoryEntry { name, is_directory } = entry;
        Self { path: directory.join(&name), name, is_directory }
    }

    /// Fault, in words.
    pub(crate) const fn why(&self) -> &'static str {
        if self.is_directory {
            "it is a directory where a file belongs"
        } else {
            "it is a file where a directory belongs"
        }
    }
}

/// Finds all of them.
pub(crate) fn find(disk: &dyn Disk, root: &Path) -> io::Result<Vec<Misplaced>> {
    let mut found = Vec::new();
    for entry in list(disk, root)? {
        let belongs = DIRECTORIES.contains(&entry.name.as_str());
        if OURS.contains(&entry.name.as_str()) && entry.is_directory != belongs {
            found.push(Misplaced::new(root, entry));
        }
    }
    let mut look = |directory: &Path, is_ours: fn(&str) -> bool| -> io::Result<()> {
        let entries = list(disk, directory)?.into_iter();
        let wrong = entries.filter(|entry| entry.is_directory && is_ours(&entry.name));
        found.extend(wrong.map(|entry| Misplaced::new(directory, entry)));
        Ok(())
    };
    look(&root.join("journal"), |name| name.ends_with(".jnl"))?;
    let streams = root.join("streams");
    for stream in list(disk, &streams)? {
        if stream.is_directory && stream_number(&stream.name).is_some() {
            look(&streams.join(&stream.name), is_of_stream)?;
        }
    }
    Ok(found)
}

fn is_of_stream(name: &str) -> bool {
    META_COPIES.contains(&name)
        || COPIES.contains(&name)
        || LOST_COPIES.contains(&name)
        || name == NOTES_FILE
        || name.starts_with("consumers.")
        || segment_number(name).is_some()
        || base_number(name).is_some()
}

/// Entries of a directory; none if it is a file or missing.
fn list(disk: &dyn Disk, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
    match disk.list(directory) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        entries => entries,
    }
}

/// Moves the lock aside if it is a directory, which nobody can have locked.
pub(crate) fn set_lock_aside(disk: &dyn Disk, root: &Path) -> io::Result<Vec<Notice>> {
    let is_lock = |entry: &DirectoryEntry| entry.name == LOCK && entry.is_directory;
    let lock = list(disk, root)?.into_iter().find(is_lock);
    lock.map(|entry| set_aside(disk, root, Misplaced::new(root, entry))).into_iter().collect()
}

/// Moves all of them to quarantine.
pub(crate) fn set_all_aside(disk: &dyn Disk, root: &Path) -> io::Result<Vec<Notice>> {
    let mut found = find(disk, root)?;
    // The others go there.
    found.sort_by_key(|one| one.name != QUARANTINE);
    found.into_iter().map(|one| set_aside(disk, root, one)).collect()
}

fn set_aside(disk: &dyn Disk, root: &Path, one: Misplaced) -> io::Result<Notice> {
    let why = one.why();
    let parent = one.path.parent().unwrap_or(root);
    let to = if one.name == QUARANTINE {
        beside(disk, root)?
    } else {
        let inside = parent.file_name().filter(|_| parent != root).unwrap_or_default();
        place_aside(disk, root, &inside.to_string_lossy(), &one.name)?
    };
    disk.rename(&one.path, &to)?;
    disk.sync_directory(to.parent().unwrap_or(root))?;
    disk.sync_directory(parent)?;
    Ok(Notice::SetAside { name: one.name, to, why })
}

/// A place for what has the quarantine's name.
fn beside(disk: &dyn Disk, root: &Path) -> io::Result<PathBuf> {
    let taken = disk.list(root)?;
    let mut names = (0_u32..).map(|number| format!("{QUARANTINE}.{number}"));
    let name = names.find(|name| taken.iter().all(|entry| entry.name != *name));
    Ok(root.join(name.expect("numbers do not end before names do")))
}

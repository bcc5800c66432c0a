//! Names: which directory holds which file, for the disks that live in memory.
//!
//! Every operation on names is planned first (that is where it can fail) and then applied as one
//! [`NameChange`], so that a disk which forgets unsynced changes can keep them in a list. Files are
//! numbers here: this room knows no content.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;

use super::DirectoryEntry;

/// The directory `/`, which always exists.
const ROOT: u64 = 0;

/// Inode that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InodeId {
    File(u64),
    Directory(u64),
}

/// A name in a directory, whether or not something is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryName {
    pub(super) directory: u64,
    name: String,
}

/// One change of names; it is done wholly or not at all.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Link(EntryName, InodeId),
    Unlink(EntryName),
    Move { from: EntryName, to: EntryName },
}

impl NameChange {
    /// The directories that it changes.
    pub(super) fn directories(&self) -> [u64; 2] {
        match self {
            Self::Link(place, _) | Self::Unlink(place) => [place.directory; 2],
            Self::Move { from, to } => [from.directory, to.directory],
        }
    }
}

/// Names in a directory. Copies of a disk share them until they change.
type Names = Arc<BTreeMap<String, InodeId>>;

/// All directories of a disk.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    directories: HashMap<u64, Names, foldhash::fast::FixedState>,
    next: u64,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { directories: [(ROOT, Names::default())].into_iter().collect(), next: ROOT + 1 }
    }

    /// A number that no file or directory has had.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Goes on with the names of `other`, without giving a number twice.
    pub(super) fn replaced_by(&self, other: &Self) -> Self {
        Self { directories: other.directories.clone(), next: self.next.max(other.next) }
    }

    /// The number of a directory.
    pub(super) fn directory(&self, path: &Path) -> io::Result<u64> {
        let mut directory = ROOT;
        for component in path.components() {
            let name = match component {
                Component::RootDir => continue,
                Component::Normal(name) => name.to_str().ok_or(ErrorKind::InvalidInput)?,
                _ => return Err(ErrorKind::InvalidInput.into()),
            };
            directory = match self.names(directory)?.get(name) {
                Some(InodeId::Directory(number)) => *number,
                Some(InodeId::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                None => return Err(ErrorKind::NotFound.into()),
            };
        }
        Ok(directory)
    }

    /// The number of a file.
    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        let (directory, name) = self.found(path)?;
        match self.directories.get(&directory).and_then(|names| names.get(name)) {
            Some(InodeId::File(number)) => Ok(*number),
            Some(InodeId::Directory(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// A directory cannot be locked; what is not there can.
    pub(super) fn may_be_locked(&self, path: &Path) -> io::Result<()> {
        match self.file(path) {
            Err(error) if error.kind() == ErrorKind::IsADirectory => Err(error),
            _ => Ok(()),
        }
    }

    /// Lists a directory, sorted by name.
    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let names = self.names(self.directory(path)?)?;
        let entry = |(name, node): (&String, &InodeId)| DirectoryEntry {
            name: name.clone(),
            is_directory: matches!(node, InodeId::Directory(_)),
        };
        Ok(names.iter().map(entry).collect())
    }

    /// All files with their paths, sorted by path.
    pub(super) fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        let mut open = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, directory)) = open.pop() {
            for (name, node) in self.directories.get(&directory).into_iter().flat_map(|names| &**names) {
                match node {
                    InodeId::File(number) => files.push((path.join(name), *number)),
                    InodeId::Directory(number) => open.push((path.join(name), *number)),
                }
            }
        }
        files.sort();
        files
    }

    /// Plans a new name for the file `number`.
    pub(super) fn creation(&self, path: &Path, number: u64) -> io::Result<NameChange> {
        let place = self.place(path)?;
        if self.node(&place).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        Ok(NameChange::Link(place, InodeId::File(number)))
    }

    /// Makes a directory and those above it that are missing; gives back what it did.
    pub(super) fn make_directory(&mut self, path: &Path) -> io::Result<Vec<NameChange>> {
        let ancestors: Vec<&Path> = path.ancestors().collect();
        let mut changes = Vec::new();
        for ancestor in ancestors.into_iter().rev() {
            match self.directory(ancestor) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let node = InodeId::Directory(self.number());
                    let change = NameChange::Link(self.place(ancestor)?, node);
                    self.apply(&change);
                    changes.push(change);
                }
                // As mkdir has it: the last name exists, one above it is no directory.
                Err(error) if error.kind() == ErrorKind::NotADirectory && ancestor == path => {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(changes)
    }

    /// Plans to take away the name of a file.
    pub(super) fn removal_of_file(&self, path: &Path) -> io::Result<NameChange> {
        self.file(path)?;
        Ok(NameChange::Unlink(self.place(path)?))
    }

    /// Plans to take away an empty directory.
    pub(super) fn removal_of_directory(&self, path: &Path) -> io::Result<NameChange> {
        let directory = self.directory(path)?;
        if !self.names(directory)?.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        Ok(NameChange::Unlink(self.place(path)?))
    }

    /// Plans to give a file or directory another name. Directories replace nothing.
    pub(super) fn renaming(&self, from: &Path, to: &Path) -> io::Result<NameChange> {
        let change = NameChange::Move { from: self.place(from)?, to: self.place(to)? };
        let NameChange::Move { from: source, to: target } = &change else { return Ok(change) };
        match (self.node(source), self.node(target)) {
            (None, _) => Err(ErrorKind::NotFound.into()),
            (Some(InodeId::File(_)), Some(InodeId::Directory(_))) => Err(ErrorKind::IsADirectory.into()),
            (Some(InodeId::Directory(_)), Some(InodeId::File(_))) => Err(ErrorKind::NotADirectory.into()),
            (Some(InodeId::Directory(_)), Some(InodeId::Directory(_))) if from != to => {
                Err(ErrorKind::DirectoryNotEmpty.into())
            }
            (Some(InodeId::Directory(_)), None) if to.starts_with(from) => {
                Err(ErrorKind::InvalidInput.into())
            }
            _ => Ok(change),
        }
    }

    /// Does what was planned; gives back the file that lost its name by it.
    pub(super) fn apply(&mut self, change: &NameChange) -> Option<u64> {
        let lost = match change {
            NameChange::Link(place, node) => {
                if let InodeId::Directory(number) = node {
                    self.directories.entry(*number).or_default();
                }
                self.put(place, *node)
            }
            NameChange::Unlink(place) => self.take(place),
            NameChange::Move { from, to } if from == to => None,
            NameChange::Move { from, to } => self.take(from).and_then(|node| self.put(to, node)),
        };
        match lost? {
            InodeId::File(number) => Some(number),
            InodeId::Directory(_) => None,
        }
    }

    fn put(&mut self, place: &EntryName, node: InodeId) -> Option<InodeId> {
        let names = self.directories.entry(place.directory).or_default();
        Arc::make_mut(names).insert(place.name.clone(), node)
    }

    fn take(&mut self, place: &EntryName) -> Option<InodeId> {
        Arc::make_mut(self.directories.get_mut(&place.directory)?).remove(&place.name)
    }

    fn names(&self, directory: u64) -> io::Result<&BTreeMap<String, InodeId>> {
        self.directories.get(&directory).map(|names| &**names).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn node(&self, place: &EntryName) -> Option<InodeId> {
        self.directories.get(&place.directory)?.get(&place.name).copied()
    }

    fn place(&self, path: &Path) -> io::Result<EntryName> {
        let (directory, name) = self.found(path)?;
        Ok(EntryName { directory, name: name.to_owned() })
    }

    /// The directory of a path, and the name in it.
    fn found<'a>(&self, path: &'a Path) -> io::Result<(u64, &'a str)> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let name = name.to_str().ok_or(ErrorKind::InvalidInput)?;
        Ok((self.directory(above)?, name))
    }
}

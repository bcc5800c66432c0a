//! Names: which directory holds which file, for the disks that live in memory.
//!
//! Every operation on names is planned first (that is where it can fail) and then applied as one [`Change`],
//! so that a disk which forgets unsynced changes can keep them in a list. Files are numbers here: this room
//! knows no content.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use super::DirectoryEntry;

/// The directory `/`, which always exists.
const ROOT: u64 = 0;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(u64),
    Directory(u64),
}

/// A name in a directory, whether or not something is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) directory: u64,
    name: String,
}

/// One change of names; it is done wholly or not at all.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Link(Place, Node),
    Unlink(Place),
    Move { from: Place, to: Place },
}

impl Change {
    /// The directories that it changes.
    pub(super) fn directories(&self) -> [u64; 2] {
        match self {
            Self::Link(place, _) | Self::Unlink(place) => [place.directory; 2],
            Self::Move { from, to } => [from.directory, to.directory],
        }
    }
}

/// All directories of a disk.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    directories: HashMap<u64, BTreeMap<String, Node>>,
    next: u64,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { directories: HashMap::from([(ROOT, BTreeMap::new())]), next: ROOT + 1 }
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
                Some(Node::Directory(number)) => *number,
                Some(Node::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                None => return Err(ErrorKind::NotFound.into()),
            };
        }
        Ok(directory)
    }

    /// The number of a file.
    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        match self.node(&self.place(path)?) {
            Some(Node::File(number)) => Ok(number),
            Some(Node::Directory(_)) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    /// What a directory holds, sorted by name.
    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let names = self.names(self.directory(path)?)?;
        let entry = |(name, node): (&String, &Node)| DirectoryEntry {
            name: name.clone(),
            is_directory: matches!(node, Node::Directory(_)),
        };
        Ok(names.iter().map(entry).collect())
    }

    /// All files with their paths, sorted by path.
    pub(super) fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        let mut open = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, directory)) = open.pop() {
            for (name, node) in self.directories.get(&directory).into_iter().flatten() {
                match node {
                    Node::File(number) => files.push((path.join(name), *number)),
                    Node::Directory(number) => open.push((path.join(name), *number)),
                }
            }
        }
        files.sort();
        files
    }

    /// Plans a new name for the file `number`.
    pub(super) fn creation(&self, path: &Path, number: u64) -> io::Result<Change> {
        let place = self.place(path)?;
        if self.node(&place).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        Ok(Change::Link(place, Node::File(number)))
    }

    /// Makes a directory and those above it that are missing; gives back what it did.
    pub(super) fn make_directory(&mut self, path: &Path) -> io::Result<Vec<Change>> {
        let ancestors: Vec<&Path> = path.ancestors().collect();
        let mut changes = Vec::new();
        for ancestor in ancestors.into_iter().rev() {
            match self.directory(ancestor) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let node = Node::Directory(self.number());
                    let change = Change::Link(self.place(ancestor)?, node);
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
    pub(super) fn removal_of_file(&self, path: &Path) -> io::Result<Change> {
        self.file(path)?;
        Ok(Change::Unlink(self.place(path)?))
    }

    /// Plans to take away an empty directory.
    pub(super) fn removal_of_directory(&self, path: &Path) -> io::Result<Change> {
        let directory = self.directory(path)?;
        if !self.names(directory)?.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        Ok(Change::Unlink(self.place(path)?))
    }

    /// Plans to give a file or directory another name. Directories replace nothing.
    pub(super) fn renaming(&self, from: &Path, to: &Path) -> io::Result<Change> {
        let change = Change::Move { from: self.place(from)?, to: self.place(to)? };
        let Change::Move { from: source, to: target } = &change else { return Ok(change) };
        match (self.node(source), self.node(target)) {
            (None, _) => Err(ErrorKind::NotFound.into()),
            (Some(Node::File(_)), Some(Node::Directory(_))) => Err(ErrorKind::IsADirectory.into()),
            (Some(Node::Directory(_)), Some(Node::File(_))) => Err(ErrorKind::NotADirectory.into()),
            (Some(Node::Directory(_)), Some(Node::Directory(_))) if from != to => {
                Err(ErrorKind::DirectoryNotEmpty.into())
            }
            (Some(Node::Directory(_)), None) if to.starts_with(from) => Err(ErrorKind::InvalidInput.into()),
            _ => Ok(change),
        }
    }

    /// Does what was planned; gives back the file that lost its name by it.
    pub(super) fn apply(&mut self, change: &Change) -> Option<u64> {
        let lost = match change {
            Change::Link(place, node) => {
                if let Node::Directory(number) = node {
                    self.directories.entry(*number).or_default();
                }
                self.put(place, *node)
            }
            Change::Unlink(place) => self.take(place),
            Change::Move { from, to } if from == to => None,
            Change::Move { from, to } => self.take(from).and_then(|node| self.put(to, node)),
        };
        match lost? {
            Node::File(number) => Some(number),
            Node::Directory(_) => None,
        }
    }

    fn put(&mut self, place: &Place, node: Node) -> Option<Node> {
        self.directories.entry(place.directory).or_default().insert(place.name.clone(), node)
    }

    fn take(&mut self, place: &Place) -> Option<Node> {
        self.directories.get_mut(&place.directory)?.remove(&place.name)
    }

    fn names(&self, directory: u64) -> io::Result<&BTreeMap<String, Node>> {
        self.directories.get(&directory).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn node(&self, place: &Place) -> Option<Node> {
        self.directories.get(&place.directory)?.get(&place.name).copied()
    }

    fn place(&self, path: &Path) -> io::Result<Place> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let name = name.to_str().ok_or(ErrorKind::InvalidInput)?;
        Ok(Place { directory: self.directory(above)?, name: name.to_owned() })
    }
}

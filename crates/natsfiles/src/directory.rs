//! A store directory of nats-server: what is in it, read file by file.
//!
//! `ACCOUNT/streams/STREAM/` has the description `meta.inf` with its checksum, `msgs/N.blk`, and
//! `obs/CONSUMER/` with the same for each consumer. With a key beside them, files are sealed.
//! Everything is opened to be read, and nothing else.

use super::block;
use super::consumer::NatsConsumerState;
use super::hash::Hasher;
use super::index::NatsIndex;
use super::keys::{Keys, Seed};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::{DirectoryEntry, Disk};

/// Bytes of a file, at most. A block has eight megabytes, and one message more.
const LARGEST_FILE: u64 = 256 << 20;
/// Bytes of a block that is decompressed.
const LARGEST_BLOCK: usize = 256 << 20;

/// Why something cannot be taken from the directory.
#[derive(Debug)]
pub enum Unreadable {
    /// The operating system's word.
    Io(PathBuf, io::Error),
    /// The file is larger than such files are.
    TooLarge(PathBuf),
    /// The file is encrypted, and no key opens it.
    Locked(PathBuf),
    /// Its checksum is wrong, or it cannot be understood.
    Damaged(PathBuf, &'static str),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::TooLarge(path) => write!(f, "{}: it is too large", path.display()),
            Self::Locked(path) => write!(f, "{}: it is encrypted, and no key given opens it", path.display()),
            Self::Damaged(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for Unreadable {}

/// Store directory of nats-server, opened only to be read.
#[derive(Debug)]
pub struct NatsDirectory {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    keys: Keys,
}

/// A stream in it.
#[derive(Debug)]
pub struct StreamFiles<'a> {
    of: &'a NatsDirectory,
    /// Its account.
    pub account: String,
    /// Its name.
    pub name: String,
    path: PathBuf,
    messages: PathBuf,
    seed: Option<Seed>,
    /// Its description, readable.
    pub meta: Vec<u8>,
}

/// A consumer of it.
#[derive(Debug)]
pub struct ConsumerFiles {
    /// Its name.
    pub name: String,
    /// Its description, readable.
    pub meta: Vec<u8>,
    /// `None`: it has done nothing that was written down.
    pub state: Option<NatsConsumerState>,
}

impl NatsDirectory {
    /// The directory `root`: what a configuration of nats-server calls `store_dir`, or the folder
    /// `jetstream` inside.
    ///
    /// # Errors
    /// There is nothing of the kind.
    pub fn open(disk: Arc<dyn Disk>, root: &Path, keys: Keys) -> io::Result<Self> {
        let inner = root.join("jetstream");
        let root = if disk.list(&inner).is_ok() { inner } else { root.to_owned() };
        disk.list(&root)?;
        Ok(Self { disk, root, keys })
    }

    /// Accounts and streams in it, by name.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn streams(&self) -> io::Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        for account in folders(&*self.disk, &self.root)? {
            let Ok(streams) = folders(&*self.disk, &self.root.join(&account).join("streams")) else {
                continue;
            };
            // One with a dot was being deleted. What has no description is none.
            let is_stream = |name: &String| {
                !name.starts_with('.')
                    && self.has(&self.root.join(&account).join("streams").join(name).join("meta.inf"))
            };
            found.extend(streams.into_iter().filter(is_stream).map(|stream| (account.clone(), stream)));
        }
        Ok(found)
    }

    /// A stream by account and name.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn stream(&self, account: &str, name: &str) -> Result<StreamFiles<'_>, Unreadable> {
        let path = self.root.join(account).join("streams").join(name);
        let (meta, seed) = self.description(&path, account, name, name)?;
        // A purge puts what is left into the second folder, which takes the place of the first when
        // it has a block.
        let left = path.join("__new_msgs__");
        let is_purged = self
            .disk
            .list(&left)
            .is_ok_and(|entries| entries.iter().any(|entry| entry.name.ends_with(".blk")));
        let messages = if is_purged { left } else { path.join("msgs") };
        let (account, name) = (account.to_owned(), name.to_owned());
        Ok(StreamFiles { of: self, account, name, path, messages, seed, meta })
    }

    fn has(&self, path: &Path) -> bool {
        !matches!(self.disk.open_read_only(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, Unreadable> {
        let failed = |error| Unreadable::Io(path.to_owned(), error);
        let file = self.disk.open_read_only(path).map_err(failed)?;
        let length = file.len().map_err(failed)?;
        if length > LARGEST_FILE {
            return Err(Unreadable::TooLarge(path.to_owned()));
        }
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// The file, or `None` if there is none.
    fn read_if_there(&self, path: &Path) -> Result<Option<Vec<u8>>, Unreadable> {
        match self.read(path) {
            Err(Unreadable::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// The description of a stream or consumer, and the key of its other files. `context` is what
    /// its key is made for, `name` what its checksum is made for.
    fn description(
        &self,
        path: &Path,
        account: &str,
        context: &str,
        name: &str,
    ) -> Result<(Vec<u8>, Option<Seed>), Unreadable> {
        let file = path.join("meta.inf");
        let meta = self.read(&file)?;
        let sum = self.read(&path.join("meta.sum"))?;
        if !Hasher::new(name).is_sum_of(&meta, &sum) {
            return Err(Unreadable::Damaged(file, "its checksum is not the one in meta.sum"));
        }
        let Some(key) = self.read_if_there(&path.join("meta.key"))? else { return Ok((meta, None)) };
        let seed = self.keys.unseal(account, context, &key);
        let seed = seed.ok_or_else(|| Unreadable::Locked(path.join("meta.key")))?;
        let meta = seed.open(&meta).ok_or(Unreadable::Damaged(file, "it cannot be decrypted"))?;
        Ok((meta, Some(seed)))
    }
}

impl StreamFiles<'_> {
    fn messages(&self) -> &Path {
        &self.messages
    }

    /// Numbers of its blocks, in order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn blocks(&self) -> Result<Vec<u32>, Unreadable> {
        let folder = self.messages();
        let entries = match self.of.disk.list(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Unreadable::Io(folder.to_owned(), error)),
        };
        let number = |entry: &DirectoryEntry| entry.name.strip_suffix(".blk")?.parse::<u32>().ok();
        let mut numbers: Vec<u32> = entries.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// A block in readable form.
    ///
    /// # Errors
    /// It cannot be read as a whole.
    pub fn block(&self, number: u32) -> Result<Vec<u8>, Unreadable> {
        let path = self.messages().join(format!("{number}.blk"));
        let bytes = self.of.read(&path)?;
        let key_path = self.messages().join(format!("{number}.key"));
        let seed = match self.of.read_if_there(&key_path)? {
            None => None,
            Some(key) => {
                let context = format!("{}:{number}", self.name);
                let seed = self.of.keys.unseal(&self.account, &context, &key);
                Some(seed.ok_or(Unreadable::Locked(key_path))?)
            }
        };
        block::readable(bytes, seed.as_ref(), LARGEST_BLOCK).map_err(|why| Unreadable::Damaged(path, why))
    }

    /// Reads what the server knew when it was stopped, if that is there and whole.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn index(&self) -> Result<Option<NatsIndex>, Unreadable> {
        let bytes = self.of.read_if_there(&self.messages().join("index.db"))?;
        Ok(bytes.and_then(|bytes| NatsIndex::read(&bytes, &self.name, self.seed.as_ref())))
    }

    /// Names of its consumers.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn consumers(&self) -> Result<Vec<String>, Unreadable> {
        let folder = self.path.join("obs");
        match folders(&*self.of.disk, &folder) {
            Ok(names) => Ok(names.into_iter().filter(|name| !name.starts_with('.')).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Unreadable::Io(folder, error)),
        }
    }

    /// A consumer by name.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn consumer(&self, name: &str) -> Result<ConsumerFiles, Unreadable> {
        let path = self.path.join("obs").join(name);
        let context = format!("{}.{name}", self.name);
        let named = format!("{}/{name}", self.name);
        let (meta, seed) = self.of.description(&path, &self.account, &context, &named)?;
        let file = path.join("o.dat");
        let state = match self.of.read_if_there(&file)?.filter(|bytes| !bytes.is_empty()) {
            None => None,
            Some(bytes) => {
                let bytes = match &seed {
                    Some(seed) => seed
                        .open(&bytes)
                        .ok_or_else(|| Unreadable::Damaged(file.clone(), "it cannot be decrypted"))?,
                    None => bytes,
                };
                Some(
                    NatsConsumerState::read(&bytes)
                        .ok_or(Unreadable::Damaged(file, "it cannot be understood"))?,
                )
            }
        };
        Ok(ConsumerFiles { name: name.to_owned(), meta, state })
    }
}

fn folders(disk: &dyn Disk, path: &Path) -> io::Result<Vec<String>> {
    Ok(disk.list(path)?.into_iter().filter(|entry| entry.is_directory).map(|entry| entry.name).collect())
}

//! The directory of a backup.
//!
//! ```text
//! manifest.json                    written last
//! streams/ORDERS/backup.json       configuration and state, as the nats command has them
//! streams/ORDERS/stream.arc.s2     the archive, as the server sent it
//! partial/ORDERS/                  a stream that is not whole yet
//! ```
//!
//! Owns the names of files and when they are durable: a stream's folder is renamed into `streams`
//! when its files are synced. `streams` and each folder in it are what the nats command's `backup`
//! makes of an account and a stream.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::backup::contents::{Contents, ContentsReader, MessageDigest, hexadecimal};
use crate::backup::error::BackupError;
use crate::backup::manifest::Manifest;

const MANIFEST: &str = "manifest.json";
const STREAMS: &str = "streams";
const PARTIAL: &str = "partial";
const ARCHIVE: &str = "stream.arc.s2";
const DESCRIPTION: &str = "backup.json";

/// Bytes of an archive that are read at once.
pub(super) const PIECE: usize = 256 << 10;

/// Directory of a backup.
#[derive(Debug)]
pub(super) struct BackupPlace {
    root: PathBuf,
    /// Held for as long as somebody writes here.
    _lock: Option<File>,
}

/// Archive that was read whole.
pub(super) struct ReadArchive {
    pub(super) size: u64,
    pub(super) sha256: String,
    pub(super) contents: Contents,
}

impl BackupPlace {
    /// The directory for a new backup, or for one that was interrupted.
    ///
    /// # Errors
    /// There is something else, a whole backup, or another process that makes one.
    pub(super) fn begin(root: &Path) -> Result<Self, BackupError> {
        let shown = root.display();
        fs::create_dir_all(root).map_err(BackupError::file(root))?;
        let lock = File::open(root).map_err(BackupError::file(root))?;
        lock.try_lock().map_err(|error| {
            BackupError::Other(format!("{shown}: {error}: another myelin makes a backup there"))
        })?;
        if root.join(MANIFEST).exists() {
            return Err(BackupError::Other(format!(
                "{shown} has a whole backup: name another directory (`myelin backup --check {shown}` looks at this \
                 one)"
            )));
        }
        let ours = [STREAMS, PARTIAL, &written(MANIFEST)].map(std::ffi::OsString::from);
        for entry in fs::read_dir(root).map_err(BackupError::file(root))? {
            let name = entry.map_err(BackupError::file(root))?.file_name();
            if !ours.contains(&name) {
                let name = name.display();
                let why = format!("{shown} holds something else, {name:?}: name a new directory");
                return Err(BackupError::Other(why));
            }
        }
        let place = Self { root: root.to_owned(), _lock: Some(lock) };
        let partial = place.root.join(PARTIAL);
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(BackupError::file(&partial))?;
        }
        for folder in [partial, place.root.join(STREAMS)] {
            fs::create_dir_all(&folder).map_err(BackupError::file(&folder))?;
        }
        Ok(place)
    }

    /// A backup that is whole, by its manifest.
    ///
    /// # Errors
    /// There is none, or half of one.
    pub(super) fn open(root: &Path) -> Result<(Self, Manifest), BackupError> {
        let place = Self { root: root.to_owned(), _lock: None };
        let path = root.join(MANIFEST);
        let shown = root.display();
        match fs::read(&path) {
            Ok(bytes) => Ok((place, Manifest::read(&bytes)?)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BackupError::File(path, error)),
            Err(_) if root.join(STREAMS).is_dir() => Err(BackupError::Other(format!(
                "{shown} is half a backup, without manifest.json: run `myelin backup {shown}` again to make it \
                 whole; single streams in {shown}/streams are whole, and `nats stream restore` takes them"
            ))),
            Err(_) => Err(BackupError::Other(format!("{shown} is no backup: it has no manifest.json"))),
        }
    }

    /// Where a stream's archive is, from the directory on.
    pub(super) fn archive_name(stream: &str) -> String {
        format!("{STREAMS}/{stream}/{ARCHIVE}")
    }

    /// Where a stream's archive is.
    pub(super) fn archive(&self, stream: &str) -> PathBuf {
        self.root.join(Self::archive_name(stream))
    }

    /// Whether the stream is here, whole.
    pub(super) fn has(&self, stream: &str) -> bool {
        self.archive(stream).exists()
    }

    /// Names in `streams`.
    pub(super) fn streams(&self) -> Result<Vec<String>, BackupError> {
        let folder = self.root.join(STREAMS);
        let entries = fs::read_dir(&folder).map_err(BackupError::file(&folder))?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        names.collect::<Result<_, _>>().map_err(BackupError::file(&folder))
    }

    /// A new file for a stream's archive, which nobody takes for whole.
    pub(super) fn new_archive(&self, stream: &str) -> Result<NewArchive, BackupError> {
        let folder = self.root.join(PARTIAL).join(stream);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(BackupError::file(&folder))?;
        }
        fs::create_dir(&folder).map_err(BackupError::file(&folder))?;
        let path = folder.join(ARCHIVE);
        let file = File::create(&path).map_err(BackupError::file(&path))?;
        Ok(NewArchive { folder, path, file, size: 0, hash: Sha256::new() })
    }

    /// Puts a stream in its place: the files of `made`, and this description. Answers size and
    /// SHA-256 of the archive, and the SHA-256 of the description.
    pub(super) fn keep(
        &self,
        stream: &str,
        made: NewArchive,
        description: &[u8],
    ) -> Result<(u64, String, String), BackupError> {
        let NewArchive { folder, path, file, size, hash } = made;
        file.sync_all().map_err(BackupError::file(&path))?;
        write_durably(&folder.join(DESCRIPTION), description)?;
        let target = self.root.join(STREAMS).join(stream);
        if target.exists() {
            fs::remove_dir_all(&target).map_err(BackupError::file(&target))?;
        }
        fs::rename(&folder, &target).map_err(BackupError::file(&target))?;
        sync_folder(&self.root.join(STREAMS))?;
        Ok((size, hexadecimal(&hash.finalize()), sha256(description)))
    }

    /// Ends the backup.
    pub(super) fn finish(&self, manifest: &Manifest) -> Result<(), BackupError> {
        let (path, new) = (self.root.join(MANIFEST), self.root.join(written(MANIFEST)));
        let text = serde_json::to_vec_pretty(manifest)
            .map_err(|error| BackupError::Other(format!("manifest.json: {error}")))?;
        let partial = self.root.join(PARTIAL);
        fs::remove_dir_all(&partial).map_err(BackupError::file(&partial))?;
        write_durably(&new, &text)?;
        fs::rename(&new, &path).map_err(BackupError::file(&path))?;
        sync_folder(&self.root)
    }

    /// Configuration and state of a stream, and the SHA-256 of the file that has them.
    pub(super) fn description(&self, stream: &str) -> Result<(Value, String), BackupError> {
        let path = self.root.join(STREAMS).join(stream).join(DESCRIPTION);
        let bytes = fs::read(&path).map_err(BackupError::file(&path))?;
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|error| BackupError::Other(format!("{}: {error}", path.display())))?;
        if value["config"]["name"] != stream {
            let why = format!("{}: it describes another stream", path.display());
            return Err(BackupError::Other(why));
        }
        Ok((value, sha256(&bytes)))
    }

    /// Reads a stream's archive to its end; `read` hears of bytes.
    pub(super) fn read(&self, stream: &str, read: &dyn Fn(usize)) -> Result<ReadArchive, BackupError> {
        let path = self.archive(stream);
        let (mut pieces, mut reader) = (ArchivePieces::open(&path)?, ContentsReader::default());
        let (mut size, mut hash) = (0, Sha256::new());
        let of_file = |error| BackupError::Other(format!("{}: {error}", path.display()));
        while let Some(bytes) = pieces.next()? {
            size += bytes.len() as u64;
            hash.update(bytes);
            read(bytes.len());
            reader.feed(bytes, &mut |_| Ok(())).map_err(of_file)?;
        }
        let contents = reader.finish().map_err(of_file)?;
        Ok(ReadArchive { size, sha256: hexadecimal(&hash.finalize()), contents })
    }
}

/// Archive that is being written.
pub(super) struct NewArchive {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    size: u64,
    hash: Sha256,
}

impl NewArchive {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.size += bytes.len() as u64;
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(BackupError::file(&self.path))
    }
}

/// Bytes of an archive, piece by piece.
pub(super) struct ArchivePieces {
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
}

impl ArchivePieces {
    pub(super) fn open(path: &Path) -> Result<Self, BackupError> {
        let file = File::open(path).map_err(BackupError::file(path))?;
        Ok(Self { path: path.to_owned(), file, bytes: vec![0; PIECE] })
    }

    /// The next piece; `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, BackupError> {
        let count = self.file.read(&mut self.bytes).map_err(BackupError::file(&self.path))?;
        Ok(Some(&self.bytes[..count]).filter(|bytes| !bytes.is_empty()))
    }
}

/// Messages of an archive in a file, one after the other.
pub(super) struct ArchivedMessages {
    pieces: ArchivePieces,
    reader: ContentsReader,
    ready: std::collections::VecDeque<MessageDigest>,
}

impl ArchivedMessages {
    pub(super) fn open(path: &Path) -> Result<Self, BackupError> {
        let (reader, ready) = (ContentsReader::default(), std::collections::VecDeque::new());
        Ok(Self { pieces: ArchivePieces::open(path)?, reader, ready })
    }

    /// The next message, which stays the next one until it is taken.
    pub(super) fn peek(&mut self) -> Result<Option<MessageDigest>, BackupError> {
        while self.ready.is_empty() {
            let Some(bytes) = self.pieces.next()? else { return Ok(None) };
            let ready = &mut self.ready;
            self.reader.feed(bytes, &mut |message| {
                ready.push_back(message);
                Ok(())
            })?;
        }
        Ok(self.ready.front().copied())
    }

    /// Takes the message that was looked at.
    pub(super) fn take(&mut self) {
        self.ready.pop_front();
    }

    /// Consumers and sums, when all messages were taken.
    pub(super) fn finish(self) -> Result<Contents, BackupError> {
        self.reader.finish()
    }
}

/// Name of a file that is being written.
fn written(name: &str) -> String {
    format!("{name}.part")
}

fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(BackupError::file(path))
}

fn sync_folder(path: &Path) -> Result<(), BackupError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(BackupError::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::contents::tests::packed;
    use serde_json::json;

    #[test]
    fn a_stream_is_in_its_place_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("b");
        let place = BackupPlace::begin(&root).unwrap();
        let busy = BackupPlace::begin(&root).unwrap_err().to_string();
        assert!(busy.contains("another myelin"), "{busy}");
        let archive = packed(&[(1, "a")], &[], true);
        let mut made = place.new_archive("S").unwrap();
        made.write(&archive).unwrap();
        assert!(!place.has("S") && root.join("partial/S/stream.arc.s2").exists());
        let half = BackupPlace::open(&root).unwrap_err().to_string();
        assert!(half.contains("half a backup"), "{half}");
        let description = serde_json::to_vec(&json!({"config": {"name": "S"}})).unwrap();
        let (size, sha, _) = place.keep("S", made, &description).unwrap();
        let read = place.read("S", &|_| {}).unwrap();
        assert_eq!((read.size, read.sha256, read.contents.messages), (size, sha, 1));
        assert_eq!(place.streams().unwrap(), ["S"]);
        place.finish(&Manifest::new(&json!({}), None, String::new())).unwrap();
        assert!(!root.join("partial").exists());
        drop(place);
        assert!(BackupPlace::open(&root).is_ok());
        let whole = BackupPlace::begin(&root).unwrap_err().to_string();
        assert!(whole.contains("has a whole backup"), "{whole}");
    }

    #[test]
    fn a_folder_with_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("letter.txt"), "dear").unwrap();
        let other = BackupPlace::begin(folder.path()).unwrap_err().to_string();
        assert!(other.contains("something else, \"letter.txt\""), "{other}");
        let none = BackupPlace::open(folder.path()).unwrap_err().to_string();
        assert!(none.contains("is no backup"), "{none}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

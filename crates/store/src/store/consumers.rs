//! The consumers of a stream in a store: their log grows in an append-only file like any other.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::append_file::{AppendFile, AppendFileOptions, WriteFailed};
use crate::config::Durability;
use crate::consumer::{self, Consumers, Tail, Tails};
use crate::disk::File;
use crate::recovery::stream_directory;
use crate::stream::{Ground, is_full, nanos};
use crate::{FileId, StreamId, Timestamp};

use super::{OpenError, Store};

impl Store {
    /// Opens the consumers of a stream, beside the stream itself. On a full disk their changes are written from the
    /// headroom.
    ///
    /// # Errors
    /// They cannot be known. Nothing was changed.
    pub fn open_consumers(
        &self,
        id: StreamId,
        durability: Durability,
    ) -> Result<(Consumers, consumer::Report), OpenError> {
        let directory = stream_directory(&self.root, id);
        let key = self.open_key(&directory)?;
        let kind = self.ground.keys.as_ref().map(|keys| keys.kind);
        let place = consumer::Place {
            disk: Arc::clone(&self.ground.disk),
            directory,
            stream: id,
            tails: Arc::new(Appended { ground: Arc::clone(&self.ground), durability }),
            entropy: Arc::clone(&self.ground.entropy),
            key: kind.zip(key),
        };
        let opened = Consumers::open(place);
        opened.map_err(|error| OpenError::new("consumers", io::Error::other(error.to_string())))
    }
}

/// Makes the files of one stream's logs.
#[derive(Debug)]
struct Appended {
    ground: Arc<Ground>,
    durability: Durability,
}

impl Tails for Appended {
    fn attach(&self, id: FileId, path: &Path, file: Arc<dyn File>, end: u64) -> io::Result<Box<dyn Tail>> {
        let options = AppendFileOptions {
            id,
            generation: 0,
            file,
            path: path.to_path_buf(),
            end,
            is_new: false,
            durability: self.durability,
            bound: u64::MAX,
            on_durable: None,
        };
        let file = AppendFile::new(&self.ground.journal, options);
        Ok(Box::new(Log { file, ground: Arc::clone(&self.ground) }))
    }
}

/// One log.
#[derive(Debug)]
struct Log {
    file: Arc<AppendFile>,
    ground: Arc<Ground>,
}

impl Tail for Log {
    fn end(&self) -> u64 {
        self.file.end()
    }

    fn releasable(&self) -> u64 {
        self.file.releasable()
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        match self.file.reserve(length) {
            Err(error) if is_full(&error) && self.ground.headroom.release().unwrap_or(false) => {
                self.file.reserve(length)
            }
            result => result,
        }
    }

    fn append(&mut self, bytes: &[u8], now: Timestamp) -> io::Result<u64> {
        self.file.append(bytes, nanos(now)).map_err(|error: WriteFailed| error.to_io())
    }

    fn abandon(&mut self) {
        self.file.abandon();
    }
}

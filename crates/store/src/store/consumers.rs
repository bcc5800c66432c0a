//! The consumers of a stream in a store: their log grows in an append-only file like any other.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::config::Durability;
use crate::consumer::{self, Consumers, JournalTails, Tail, Tails};
use crate::disk::{File, is_full};
use crate::recovery::stream_directory;
use crate::stream::Ground;
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
        let tails = JournalTails { journal: Arc::clone(self.journal()), durability, on_durable: None };
        let place = consumer::Place {
            disk: Arc::clone(&self.ground.disk),
            directory,
            stream: id,
            tails: Arc::new(WithHeadroom { tails, ground: Arc::clone(&self.ground) }),
            entropy: Arc::clone(&self.ground.entropy),
            key: kind.zip(key),
        };
        let opened = Consumers::open(place);
        let words = |error: consumer::OpenError| match error {
            // Its kind says whether the disk is full.
            consumer::OpenError::Io(error) => error,
            other => io::Error::other(other.to_string()),
        };
        opened.map_err(|error| OpenError::new("consumers", words(error)))
    }
}

/// Logs in the journal's care, with the headroom behind them.
#[derive(Debug)]
struct WithHeadroom {
    tails: JournalTails,
    ground: Arc<Ground>,
}

impl Tails for WithHeadroom {
    fn attach(&self, id: FileId, path: &Path, file: Arc<dyn File>, end: u64) -> io::Result<Box<dyn Tail>> {
        let tail = self.tails.attach(id, path, file, end)?;
        Ok(Box::new(Log { tail, ground: Arc::clone(&self.ground) }))
    }

    fn give_room(&self) -> bool {
        self.ground.headroom.release().unwrap_or(false)
    }
}

/// One log.
#[derive(Debug)]
struct Log {
    tail: Box<dyn Tail>,
    ground: Arc<Ground>,
}

impl Tail for Log {
    fn end(&self) -> u64 {
        self.tail.end()
    }

    fn releasable(&self) -> u64 {
        self.tail.releasable()
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        match self.tail.reserve(length) {
            Err(error) if is_full(&error) && self.ground.headroom.release().unwrap_or(false) => {
                self.tail.reserve(length)
            }
            result => result,
        }
    }

    fn append(&mut self, bytes: &[u8], now: Timestamp) -> io::Result<u64> {
        self.tail.append(bytes, now)
    }

    fn abandon(&mut self) {
        self.tail.abandon();
    }
}

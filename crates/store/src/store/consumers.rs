//! The consumers of a stream in a store: their log grows in an append-only file like any other.

use std::io;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::{Disk, File};

use crate::config::Durability;
use crate::consumer::{self, Consumers, Fate, JournalTails, Obsolete, Stated, Tail, Tails};
use crate::id::StreamPart;
use crate::recovery::{Notice, move_aside, stream_directory};
use crate::stream::{Claimed, StoreEnv};
use crate::{FileId, OnDurable, StreamId, Timestamp};

use super::{OpenError, Store};

impl Store {
    /// Opens the consumers of a stream, beside the stream itself. On a full disk their changes are
    /// written from the headroom. `on_durable` is told when the log has become durable, or cannot
    /// any more: then look again what [is released](Consumers::is_released).
    ///
    /// # Errors
    /// They are open, or cannot be known. Nothing was changed. Or what dropped ones had in memory
    /// could not be written: this may be repeated.
    pub fn open_consumers(
        &self,
        id: StreamId,
        durability: Durability,
        on_durable: Option<Arc<dyn OnDurable>>,
    ) -> Result<(Consumers, consumer::LogReport), OpenError> {
        let claim = self.claim(id, StreamPart::Consumers)?;
        let directory = stream_directory(&self.root, id);
        let key = self.open_key(&directory, id)?;
        let left = self.store_env.journal.leave(id, StreamPart::Consumers, Vec::new());
        left.map_err(|error| OpenError::new("what the consumers had in memory", error.to_io()))?;
        let kind = self.store_env.keys.as_ref().map(|keys| keys.kind);
        let tails = JournalTails { journal: Arc::clone(self.journal()), durability, on_durable };
        let place = consumer::LogStorage {
            disk: Arc::clone(&self.store_env.disk),
            directory,
            stream: id,
            tails: Arc::new(WithHeadroom {
                tails,
                store_env: Arc::clone(&self.store_env),
                stream: id,
                _claim: claim,
            }),
            entropy: Arc::clone(&self.store_env.entropy),
            key: kind.zip(key),
        };
        let known = self.store_env.watermarks.statement(id);
        let stated = Stated { log: known.log.0, end: known.log.1, consumers: known.consumers };
        let opened = Consumers::open_stated(place, stated);
        let words = |error: consumer::OpenError| match error {
            // Its kind says whether the disk is full.
            consumer::OpenError::Io(error) => error,
            other => io::Error::other(other.to_string()),
        };
        let (consumers, report) = opened.map_err(|error| OpenError::new("consumers", words(error)))?;
        self.store_env.watermarks.count(id, consumers.counter());
        Ok((consumers, report))
    }

    /// Removes logs that `consumers` need no more; those that were not understood in every part go
    /// to quarantine. To be called after the consumers were opened and after a flush or a
    /// checkpoint, where a slow disk is in nobody's way. What could not be done is left to the next
    /// start. Answers what an operator should know.
    pub fn put_away(&self, consumers: &mut Consumers) -> Vec<Notice> {
        let disk = &*self.store_env.disk;
        let put_away = |Obsolete { path, fate }: Obsolete| {
            let left = |error: io::Error| Notice::Left {
                what: format!("cannot put {} away: {error}", path.display()),
            };
            match fate {
                Fate::Remove => disk.remove_file(&path).err().map(left),
                Fate::Quarantine => Some(set_aside(disk, &path).unwrap_or_else(left)),
            }
        };
        consumers.take_obsolete().into_iter().filter_map(put_away).collect()
    }
}

fn set_aside(disk: &dyn Disk, path: &Path) -> io::Result<Notice> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let to = move_aside(disk, path, &name)?;
    Ok(Notice::SetAside { name, to, why: "parts of it were not understood; a new one has taken its place" })
}

/// Logs in the journal's care, with the headroom behind them.
#[derive(Debug)]
struct WithHeadroom {
    tails: JournalTails,
    store_env: Arc<StoreEnv>,
    stream: StreamId,
    /// Held for as long as the consumers are.
    _claim: Claimed,
}

impl Tails for WithHeadroom {
    fn attach(&self, id: FileId, path: &Path, file: Arc<dyn File>, end: u64) -> io::Result<Box<dyn Tail>> {
        let tail = self.tails.attach(id, path, file, end)?;
        Ok(Box::new(RoomyTail { tail, store_env: Arc::clone(&self.store_env) }))
    }

    fn prepare(&self) -> io::Result<()> {
        self.store_env.make_files(self.stream)
    }

    fn give_room(&self) -> bool {
        self.store_env.headroom.release().unwrap_or(false)
    }
}

/// One log.
#[derive(Debug)]
struct RoomyTail {
    tail: Box<dyn Tail>,
    store_env: Arc<StoreEnv>,
}

impl Tail for RoomyTail {
    fn end(&self) -> u64 {
        self.tail.end()
    }

    fn releasable(&self) -> u64 {
        self.tail.releasable()
    }

    fn durable(&self) -> u64 {
        self.tail.durable()
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        self.store_env.headroom.with_room(|| self.tail.reserve(length))
    }

    fn append(&mut self, bytes: &[u8], now: Timestamp) -> io::Result<u64> {
        self.tail.append(bytes, now)
    }

    fn abandon(&mut self) {
        self.tail.abandon();
    }
}

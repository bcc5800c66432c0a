//! The consumers of a stream in a store: their log grows in an append-only file like any other.

use std::io;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::{Disk, File};

use crate::config::Durability;
use crate::consumer::{
    self, Consumers, FIRST_LOG, Fate, GroupConsumers, JournalTails, Obsolete, Stated, Tail, Tails,
};
use crate::id::StreamPart;
use crate::recovery::{Notice, move_aside, stream_directory};
use crate::register::write_log;
use crate::stream::{Claimed, StoreEnv};
use crate::{FileId, FileKind, OnDurable, StreamId, Timestamp};

use super::{OpenError, Store};

/// Bytes of a first log that the register vouches for, at most.
const MOST_VOUCHED: usize = 16 << 10;

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
        let place = self.log_storage(id, durability, on_durable)?;
        let known = self.store_env.watermarks.statement(id);
        let (log, end) = known.log;
        let stated = Stated { log, end, consumers: known.consumers, synced: known.log_synced };
        let opened = Consumers::open_stated(place, stated);
        let (consumers, report) = opened.map_err(open_error)?;
        self.store_env.watermarks.count(id, consumers.counter());
        Ok((consumers, report))
    }

    /// Opens the consumers of a stream whose log is that of a group, as of the index of their
    /// image; beside the stream itself, which has the entries behind that.
    ///
    /// # Errors
    /// They are open, or cannot be known in every part: then the log of the group does not lead on
    /// from here. Nothing was changed.
    pub fn open_group_consumers(
        &self,
        id: StreamId,
        durability: Durability,
    ) -> Result<(GroupConsumers, consumer::LogReport), OpenError> {
        let opened = GroupConsumers::open(self.log_storage(id, durability, None)?);
        let (consumers, report) = opened.map_err(open_error)?;
        if report.has_losses() {
            return Err(OpenError::new("consumers", io::Error::other(report.notices().join("; "))));
        }
        Ok((consumers, report))
    }

    /// Where the log or the image of a stream's consumers is, as whoever has it for itself.
    fn log_storage(
        &self,
        id: StreamId,
        durability: Durability,
        on_durable: Option<Arc<dyn OnDurable>>,
    ) -> Result<consumer::LogStorage, OpenError> {
        let claim = self.claim(id, StreamPart::Consumers)?;
        let directory = stream_directory(&self.root, id);
        self.restore_log(id)?;
        let key = self.open_key(&directory, id)?;
        let left = self.store_env.journal.leave(id, StreamPart::Consumers, Vec::new());
        left.map_err(|error| OpenError::new("what the consumers had in memory", error.to_io()))?;
        let kind = self.store_env.keys.as_ref().map(|keys| keys.kind);
        let tails = JournalTails { journal: Arc::clone(self.journal()), durability, on_durable };
        Ok(consumer::LogStorage {
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
        })
    }

    /// Has a stream's first log as the register has it, before anybody reads it.
    fn restore_log(&self, id: StreamId) -> Result<(), OpenError> {
        let StoreEnv { register, headroom, .. } = &*self.store_env;
        if register.log(id).is_none() {
            return Ok(());
        }
        let restored = headroom.with_room(|| {
            self.store_env.make_files(id)?;
            register.restore_log(id)
        });
        restored.map_err(|error| OpenError::new("consumers", error))
    }

    /// Removes logs that `consumers` need no more; those that were not understood in every part go
    /// to quarantine. To be called after the consumers were opened and after a flush or a
    /// checkpoint, where a slow disk is in nobody's way. What could not be done is left to the next
    /// start. Answers what an operator should know.
    pub fn put_away(&self, consumers: &mut Consumers) -> Vec<Notice> {
        self.put_away_files(consumers.take_obsolete())
    }

    /// As [`Store::put_away`], for the files that an image has made
    /// [obsolete](GroupConsumers::take_obsolete).
    pub fn put_away_files(&self, obsolete: Vec<Obsolete>) -> Vec<Notice> {
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
        obsolete.into_iter().filter_map(put_away).collect()
    }
}

fn open_error(error: consumer::OpenError) -> OpenError {
    let error = match error {
        // Its kind says whether the disk is full.
        consumer::OpenError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    };
    OpenError::new("consumers", error)
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
        let is_new = matches!(id.kind, FileKind::Consumers(number) if self.vouched(number) > 0);
        let tail = Box::new(self.tails.open(id, path, file, end, is_new));
        Ok(Box::new(RoomyTail { tail, store_env: Arc::clone(&self.store_env) }))
    }

    fn begin(&self, path: &Path, bytes: &[u8], is_shared: bool) -> io::Result<Option<Arc<dyn File>>> {
        let StoreEnv { disk, register, headroom, entropy, .. } = &*self.store_env;
        if bytes.len() > MOST_VOUCHED || !register.has_stream(self.stream) {
            return Ok(None);
        }
        let file = headroom.with_room(|| {
            self.prepare()?;
            write_log(&**disk, path, bytes)
        })?;
        match register.state_log(self.stream, bytes, is_shared, (&**entropy, headroom)) {
            Ok(true) => Ok(Some(file)),
            otherwise => {
                let removed = disk.remove_file(path);
                otherwise.and(removed).map(|()| None)
            }
        }
    }

    fn vouched(&self, number: u64) -> u64 {
        let log = if number == FIRST_LOG { self.store_env.register.log(self.stream) } else { None };
        log.map_or(0, |bytes| bytes.len() as u64)
    }

    fn replaced(&self) {
        self.store_env.register.forget_log(self.stream, &*self.store_env.entropy);
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

    fn has_failed(&self) -> bool {
        self.tail.has_failed()
    }
}

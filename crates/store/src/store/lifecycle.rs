//! How streams come and go: an entry of the register each, before there are files and after.

use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, MutexGuard};

use myelin_stdx::sync::lock;

use crate::config::StreamConfig;
use crate::id::StreamPart;
use crate::keys::StreamKey;
use crate::meta::Meta;
use crate::recovery::{OpenError, stream_directory};
use crate::stream::{
    Beginning, Catalog, Claimed, Files, SegmentStorage, StoreEnv, Stream, StreamReader, StreamShared,
};
use crate::watermarks::OpenedStream;
use crate::{SegmentNo, Storage, StreamId, Timestamp};

use super::Store;
use super::removed_files::RemovedFiles;

impl Store {
    /// Makes a stream. It is there for good when this returns.
    ///
    /// # Errors
    /// Nothing was made.
    pub fn create_stream(
        &self,
        account: &str,
        name: &str,
        blob: &[u8],
        config: StreamConfig,
        now: Timestamp,
    ) -> Result<Stream, OpenError> {
        let stream = self.note_stream(account, name, blob, config, now)?;
        match self.settle_streams() {
            Ok(()) => Ok(stream),
            Err(error) => {
                self.store_env.register.forget(stream.id());
                Err(OpenError::new("a new stream", error))
            }
        }
    }

    /// Has the next [`Store::settle`] make durable what is in the journal's care, too: what
    /// consumers' logs say.
    pub fn owe_round(&self) {
        self.owes_round.store(true, Release);
    }

    /// Whether [`Store::settle`] has something to make durable.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.owes_round.load(Acquire) || !self.store_env.register.is_complete()
    }

    /// Makes durable what [`Store::note_stream`] has made, and what a round [is
    /// owed](Store::owe_round) for: one sync of each kind for all that was asked for since the last
    /// call. `clock` as in [`Journal::round`](crate::journal::Journal::round).
    ///
    /// # Errors
    /// Nobody knows what the disk has of it.
    pub fn settle(&self, clock: &dyn Fn() -> u64) -> io::Result<()> {
        if myelin_stdx::planted::bug(7) {
            return Ok(());
        }
        self.settle_streams()?;
        if self.owes_round.swap(false, AcqRel) {
            self.journal().round_now(clock).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Makes durable what [`Store::note_stream`] has made.
    ///
    /// # Errors
    /// Nobody knows what the disk has of it.
    pub fn settle_streams(&self) -> io::Result<()> {
        let StoreEnv { register, entropy, headroom, .. } = &*self.store_env;
        register.complete(&**entropy, headroom)
    }

    /// Makes a stream that is there for good with [`Store::settle_streams`]: so several share its
    /// sync.
    ///
    /// # Errors
    /// Nothing was made.
    pub fn note_stream(
        &self,
        account: &str,
        name: &str,
        blob: &[u8],
        config: StreamConfig,
        now: Timestamp,
    ) -> Result<Stream, OpenError> {
        let mut number = [0; 8];
        self.store_env.entropy.fill(&mut number);
        let id = StreamId(u64::from_le_bytes(number).max(1));
        let claim = self.claim(id, StreamPart::Messages)?;
        let config = self.in_files(config);
        let (key, sealed_keys) = self.new_key(id);
        let meta = Meta {
            stream: id,
            created: now,
            account: account.to_owned(),
            name: name.to_owned(),
            config: blob.to_vec(),
            sealed_keys,
            generation: 1,
        };
        let noted = self.store_env.register.note_stream(&meta, &*self.store_env.entropy);
        noted.map_err(|error| OpenError::new("a new stream", error))?;
        Ok(self.begin_stream(id, config, key, claim, now))
    }

    /// A stream that is there and has stored nothing: its files are made when it does.
    pub(super) fn begin_stream(
        &self,
        id: StreamId,
        config: StreamConfig,
        key: Option<StreamKey>,
        claim: Claimed,
        now: Timestamp,
    ) -> Stream {
        let directory = stream_directory(&self.root, id);
        let files = Files { store_env: Arc::clone(&self.store_env), directory, key, _claim: claim };
        let catalog = Catalog::new(self.index_seed, Arc::clone(&self.store_env.slots), config.first_seq);
        let first_seq = catalog.next_seq();
        let shared = StreamShared::new(id, Storage::File, catalog, Arc::clone(&self.store_env.blocks));
        let active = Stream::placeholder(id, Beginning::anew(SegmentNo(1), first_seq), now);
        shared.catalog_mut().begin_segment(Arc::clone(&active.segment));
        let opened =
            OpenedStream { found: first_seq.saturating_sub(1), durability: config.durability, owed: None };
        self.store_env.watermarks.attach_without_files(id, &shared, opened);
        Stream::assemble(shared, config, SegmentStorage::Files(files), active, Vec::new(), None)
    }

    /// The configuration of a stream of this store.
    pub(super) fn in_files(&self, config: StreamConfig) -> StreamConfig {
        let segment_bytes = config.segment_bytes.or(self.store_env.segment_bytes);
        StreamConfig { storage: Storage::File, segment_bytes, ..config }
    }

    fn new_key(&self, id: StreamId) -> (Option<StreamKey>, Vec<u8>) {
        let Some(keys) = &self.store_env.keys else { return (None, Vec::new()) };
        let key = StreamKey::generate(&*self.store_env.entropy);
        let sealed = key.seal(keys.kind, &keys.current, id, &*self.store_env.entropy);
        (Some(key), sealed)
    }

    /// Removes a stream and all its data. It is gone for good once this returns, even if files are
    /// left over: those go at the next start. Its consumers must not be used any more.
    ///
    /// # Errors
    /// The stream is still there as it was, and this may be repeated. But if [`Stream::failure`]
    /// says that it was deleted, the disk does not say which: the next start finds all of it or
    /// nothing.
    pub fn delete_stream(&self, stream: &mut Stream) -> Result<(), OpenError> {
        if let Err(refused) = self.state_removed(stream.id()) {
            if !refused.is_there {
                self.abandon_stream(stream);
            }
            return Err(refused.error);
        }
        self.retire_stream(stream).remove_all();
        Ok(())
    }

    /// States that a stream is removed: the first step of [`Store::delete_stream`], which alone
    /// waits for a sync. Whoever has the stream may go on with it until it is
    /// [retired](Store::retire_stream); the next start does not find it.
    ///
    /// # Errors
    /// The removal is not stated.
    pub fn state_removed(&self, id: StreamId) -> Result<(), RemovalRefused> {
        let StoreEnv { register, entropy, headroom, .. } = &*self.store_env;
        register.state_removed(id, &**entropy, headroom).map_err(|(error, is_there)| RemovalRefused {
            error: OpenError::new("a stream to delete", error),
            is_there,
        })
    }

    /// Ends a stream of which nobody knows whether it is stated to be removed. The next start may
    /// find it, and finds all of it: rounds go on with what its files are owed.
    pub fn abandon_stream(&self, stream: &mut Stream) {
        stream.give_up("the stream was deleted");
    }

    /// Ends a stream that is [stated](Store::state_removed) to be removed. Its files are left to
    /// the caller.
    pub fn retire_stream(&self, stream: &mut Stream) -> RemovedFiles {
        // From here on nothing needs its files.
        stream.abandon();
        let files = self.retire(stream.id());
        self.gone().push(stream.reader());
        files
    }

    /// Streams that were deleted and that nobody else has any more: to be dropped on a thread that
    /// may wait for the disk.
    ///
    /// Perf: a file that was removed is freed where it is closed last. On a file system that tells
    /// its device (`discard`) that is 30 ms for a shard that has sent the last message of a stream.
    #[must_use = "who drops them closes their files"]
    pub fn take_gone(&self) -> Vec<StreamReader> {
        self.gone().extract_if(.., |reader| reader.is_last()).collect()
    }

    fn gone(&self) -> MutexGuard<'_, Vec<StreamReader>> {
        lock(&self.gone)
    }

    /// Removes a stream that nobody has opened, as [`Store::delete_stream`] does.
    ///
    /// # Errors
    /// The stream is open; or as [`Store::delete_stream`].
    pub fn delete_unopened(&self, id: StreamId) -> Result<(), OpenError> {
        let _claim = self.claim(id, StreamPart::Messages)?;
        self.state_removed(id).map_err(|refused| refused.error)?;
        self.retire(id).remove_all();
        Ok(())
    }

    /// Forgets a stream that is stated to be removed.
    fn retire(&self, id: StreamId) -> RemovedFiles {
        let store_env = &self.store_env;
        // A journal that has failed says so to everybody.
        let _ = store_env.journal.drop_stream(id);
        store_env.slots.forget_stream(id);
        store_env.blocks.forget_stream(id);
        store_env.watermarks.remove(id);
        RemovedFiles::hide(store_env, stream_directory(&self.root, id))
    }
}

/// Refusal of a removal.
#[derive(Debug)]
pub struct RemovalRefused {
    /// Why.
    pub error: OpenError,
    /// Whether the stream is there as it was. Otherwise the disk does not say, and it must not be
    /// used any more.
    pub is_there: bool,
}

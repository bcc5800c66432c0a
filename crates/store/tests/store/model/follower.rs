//! A stream of the same group, which takes what the other one decides.
//!
//! It has no limits of its own, other files and other boundaries of segments, and no key: whatever
//! it shows, it shows because an entry says so.

use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::memory::MemoryDisk;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{
    Compression, DecidedEntry, Durability, Limits, Reserve, Storage, Store, StoreOptions, Stream,
    StreamConfig, Timestamp,
};

use super::world::BEGINNING;

/// A follower and its files.
pub(crate) struct Follower {
    stream: Option<Stream>,
    store: Option<Store>,
    disk: Arc<dyn Disk>,
    config: StreamConfig,
    seed: u64,
    opened: u64,
}

fn words(error: &dyn std::fmt::Display) -> String {
    format!("the follower: {error}")
}

impl Follower {
    /// The follower of a stream that was made with `leader`.
    pub(crate) fn of(leader: &StreamConfig, seed: u64, now: Timestamp) -> Self {
        let config = StreamConfig {
            limits: Limits::default(),
            durability: Durability::Written,
            compression: if seed & 1 == 0 { Compression::S2 } else { Compression::None },
            segment_bytes: (seed & 2 == 0).then_some(900),
            ..*leader
        };
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let mut follower = Self { stream: None, store: None, disk, config, seed, opened: 0 };
        let mut stream = if config.storage == Storage::Memory {
            Stream::in_memory(config, !seed, now)
        } else {
            let store = follower.open().expect("a healthy disk");
            let stream = store.create_stream("A", "S", b"blob", config, now).expect("a healthy disk");
            follower.store = Some(store);
            stream
        };
        stream.join_group(BEGINNING, now).expect("a healthy disk");
        follower.stream = Some(stream);
        follower
    }

    fn open(&mut self) -> Result<Store, String> {
        self.opened += 1;
        let entropy = Arc::new(SeededEntropy::new((!self.seed).wrapping_mul(1000).wrapping_add(self.opened)));
        let options = StoreOptions {
            journal_file_bytes: 1 << 20,
            headroom_bytes: 1 << 20,
            reserve: Reserve::Nothing,
            ..StoreOptions::new("/follower")
        };
        let (store, report) =
            Store::open(Arc::clone(&self.disk), options, entropy).map_err(|error| words(&error))?;
        if !report.notices.is_empty() || !report.unreadable.is_empty() {
            return Err(format!("the follower's store reports {report:?}"));
        }
        Ok(store)
    }

    pub(crate) fn stream(&mut self) -> &mut Stream {
        self.stream.as_mut().expect("it is open")
    }

    /// Takes an entry, and refuses it a second time.
    pub(crate) fn append(&mut self, decided: &DecidedEntry, now: Timestamp) -> Result<(), String> {
        self.stream().append_decided(decided, now).map_err(|error| words(&error))?;
        match self.stream().append_decided(decided, now) {
            Err(myelin_store::StoreError::NotNext { expected }) if expected == decided.entry.index + 1 => {
                Ok(())
            }
            other => Err(format!("the follower takes an entry twice: {other:?}")),
        }
    }

    /// Opens the stream anew, and lets some jobs run.
    pub(crate) fn restart(&mut self, now: Timestamp) -> Result<(), String> {
        if self.config.storage == Storage::Memory {
            return Ok(());
        }
        let before = self.stream().group();
        self.stream().flush().map_err(|error| words(&error))?;
        let id = self.stream().id();
        (self.stream, self.store) = (None, None);
        let store = self.open()?;
        let (stream, report) = store.open_stream(id, self.config, now).map_err(|error| words(&error))?;
        if !report.notices.is_empty() {
            return Err(format!("the follower's stream reports {:?}", report.notices));
        }
        (self.stream, self.store) = (Some(stream), Some(store));
        let (found, was) = (self.stream().group(), before);
        let position = |group: Option<myelin_store::GroupPosition>| {
            group.map(|group| (group.epoch, group.term, group.index, group.chain))
        };
        if position(found) != position(was) {
            return Err(format!("the follower stood at {was:?} and finds {found:?}"));
        }
        // What it found counts as committed once its leader says so.
        self.stream().committed(before.map_or(0, |group| group.index));
        for _ in 0..4 {
            let Some(job) = self.stream().next_job(now) else { break };
            let done = job.run();
            self.stream().finish(done, now).map_err(|error| words(&error))?;
        }
        Ok(())
    }
}

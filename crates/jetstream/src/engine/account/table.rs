//! The table of an account's streams, with what of their configurations a new one is held against.
//!
//! Owns sums and subjects beside the streams, so that who makes one of five thousand does not look
//! at all the others.

use crate::engine::live::LiveStream;
use crate::engine::reservations::{Reservations, place, reserved, reserved_here};
use myelin_jsapi::config::{Storage, StreamConfig, TakenSubjects};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct StreamTable {
    by_name: BTreeMap<String, TableEntry>,
    taken: TakenSubjects,
    /// Bytes reserved in memory and in files. Wider than one limit: the sum of many may be.
    reserved: [i128; 2],
    /// Reservations of all accounts.
    of_all: Arc<Reservations>,
}

struct TableEntry {
    live: Arc<LiveStream>,
    /// The configuration with which the stream is counted.
    config: Arc<StreamConfig>,
}

impl StreamTable {
    pub(super) fn new(of_all: &Arc<Reservations>) -> Self {
        let (by_name, taken, of_all) = (BTreeMap::new(), TakenSubjects::default(), Arc::clone(of_all));
        Self { by_name, taken, reserved: [0; 2], of_all }
    }

    /// A stream by name, unless it is being deleted and has no core any more.
    pub(super) fn get(&self, name: &str) -> Option<Arc<LiveStream>> {
        let entry = self.by_name.get(name).filter(|entry| !entry.live.is_gone())?;
        Some(Arc::clone(&entry.live))
    }

    /// All streams, by name.
    pub(super) fn all(&self) -> Vec<Arc<LiveStream>> {
        self.by_name.values().map(|entry| Arc::clone(&entry.live)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Subjects of all streams.
    pub(super) fn taken(&self) -> &TakenSubjects {
        &self.taken
    }

    /// Bytes that streams have reserved in a storage.
    pub(super) fn reserved(&self, storage: Storage) -> i64 {
        i64::try_from(self.reserved[place(storage)]).unwrap_or(i64::MAX)
    }

    /// Enters a stream, or one that has another configuration.
    pub(super) fn insert(&mut self, live: &Arc<LiveStream>) {
        let config = live.config();
        let now = reserved(&config);
        let before = self.take(live.name());
        self.of_all.replace(before, reserved_here(&config));
        self.reserved = [0, 1].map(|at| self.reserved[at] + now[at]);
        self.taken.add(live.name(), &config.subjects);
        self.by_name.insert(live.name().to_owned(), TableEntry { live: Arc::clone(live), config });
    }

    /// Takes a stream out, and no other one of its name.
    pub(super) fn remove(&mut self, live: &Arc<LiveStream>) {
        if self.by_name.get(live.name()).is_some_and(|entry| Arc::ptr_eq(&entry.live, live)) {
            let before = self.take(live.name());
            self.of_all.replace(before, [0; 2]);
        }
    }

    /// Takes a stream out. Answers what it had reserved here, which the server counts still.
    fn take(&mut self, name: &str) -> [i128; 2] {
        let Some(TableEntry { config, .. }) = self.by_name.remove(name) else { return [0; 2] };
        self.taken.remove(name, &config.subjects);
        let bytes = reserved(&config);
        self.reserved = [0, 1].map(|at| self.reserved[at] - bytes[at]);
        reserved_here(&config)
    }
}

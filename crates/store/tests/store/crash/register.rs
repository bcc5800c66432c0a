//! Crash enumeration of the register: streams that come, store something or not, and go. What is
//! made lazily is there when something was promised, what was removed does not come back.

use std::collections::BTreeMap;
use std::sync::Arc;

use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_store::consumer::AckRules;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{
    Admission, Durability, NewMessage, Notice, Reserve, Store, StoreOptions, StoreReport, Stream,
    StreamConfig,
};

use super::script::{begun, is_the_same_twice};
use crate::enumeration::{Loss, Script};

/// Script that makes streams and removes them.
#[derive(Clone, Debug)]
pub(super) struct Workload;

/// Promises about a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    is_made: bool,
    removal_begun: bool,
    is_removed: bool,
    /// Messages and consumers that are there for good.
    messages: u64,
    consumers: usize,
    /// Messages that were begun.
    begun: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Promises(BTreeMap<&'static str, Promise>);

fn config() -> StreamConfig {
    StreamConfig { durability: Durability::Synced, ..StreamConfig::default() }
}

/// A run of the script. `None`: it is over.
struct Run<'a> {
    store: Store,
    promises: &'a mut Promises,
    streams: BTreeMap<&'static str, Stream>,
}

impl Run<'_> {
    fn promise(&mut self, name: &'static str) -> &mut Promise {
        self.promises.0.entry(name).or_default()
    }

    fn make(&mut self, name: &'static str) -> Option<()> {
        self.promise(name);
        let stream = self.store.create_stream("A", name, name.as_bytes(), config(), 1).ok()?;
        self.promise(name).is_made = true;
        self.streams.insert(name, stream);
        Some(())
    }

    /// Appends to several streams and makes it durable, by the journal if there are several.
    fn append(&mut self, names: &[&'static str]) -> Option<()> {
        for name in names {
            self.promise(name).begun += 1;
            let stream = self.streams.get_mut(name)?;
            let message = NewMessage { subject: b"a", payload: b"payload", ..NewMessage::default() };
            stream.append(&[message], Admission::Check, 1, &mut Vec::new()).ok()?;
        }
        self.store.journal().round_now(&|| 1).ok()?;
        for name in names {
            let stream = &self.streams[name];
            if stream.failure().is_none() {
                self.promises.0.entry(name).or_default().messages = stream.released();
            }
        }
        Some(())
    }

    fn consume(&mut self, name: &'static str) -> Option<()> {
        let id = self.streams.get(name)?.id();
        let (mut consumers, _) = self.store.open_consumers(id, Durability::Synced, None).ok()?;
        consumers.create("C", AckRules::default(), b"config").ok()?;
        let flushed = consumers.flush(1).ok()?;
        self.store.journal().round_now(&|| 1).ok()?;
        if flushed.is_some_and(|flushed| consumers.is_released(flushed)) {
            self.promise(name).consumers = 1;
        }
        Some(())
    }

    /// Makes streams with a consumer each, all of which share a sync.
    fn make_together(&mut self, names: &[&'static str]) -> Option<()> {
        for name in names {
            self.promise(name);
            let stream = self.store.note_stream("A", name, name.as_bytes(), config(), 1).ok()?;
            let (mut consumers, _) = self.store.open_consumers(stream.id(), Durability::Synced, None).ok()?;
            consumers.create("C", AckRules::default(), b"config").ok()?;
            consumers.flush_noted(1).ok()?;
            self.streams.insert(name, stream);
        }
        self.store.settle_streams().ok()?;
        for name in names {
            let promise = self.promise(name);
            (promise.is_made, promise.consumers) = (true, 1);
        }
        Some(())
    }

    /// Makes a second consumer, which is appended to the log that the first one began.
    fn consume_more(&mut self, name: &'static str) -> Option<()> {
        let id = self.streams.get(name)?.id();
        let (mut consumers, _) = self.store.open_consumers(id, Durability::Synced, None).ok()?;
        consumers.create("D", AckRules::default(), b"config").ok()?;
        let flushed = consumers.flush(1).ok()?;
        self.store.journal().round_now(&|| 1).ok()?;
        if flushed.is_some_and(|flushed| consumers.is_released(flushed)) {
            self.promise(name).consumers = 2;
        }
        // All that was said of both, in a log of its own.
        consumers.checkpoint().ok()?;
        self.store.put_away(&mut consumers);
        Some(())
    }

    fn remove(&mut self, name: &'static str) -> Option<()> {
        self.promise(name).removal_begun = true;
        let mut stream = self.streams.remove(name)?;
        self.store.delete_stream(&mut stream).ok()?;
        self.promise(name).is_removed = true;
        Some(())
    }

    fn all(&mut self) -> Option<()> {
        self.make("EMPTY")?;
        self.make("GONE")?;
        self.make("ONE")?;
        self.append(&["ONE"])?;
        self.make("TWO")?;
        self.make("THREE")?;
        self.append(&["TWO", "THREE"])?;
        self.consume("EMPTY")?;
        self.remove("GONE")?;
        self.make("LATE")?;
        self.append(&["ONE", "LATE"])?;
        self.remove("TWO")?;
        self.append(&["ONE", "THREE"])?;
        self.make_together(&["SIX", "SEVEN"])?;
        self.consume_more("SIX")?;
        self.append(&["ONE", "SEVEN"])
    }
}

impl Workload {
    fn open(disk: &FaultyDisk, turn: u64) -> Result<(Store, StoreReport), String> {
        let options = StoreOptions {
            headroom_bytes: 64 << 10,
            journal_file_bytes: 8 << 10,
            reserve: Reserve::Nothing,
            ..StoreOptions::new("/store")
        };
        let entropy = Arc::new(SeededEntropy::new(80 + turn));
        Store::open(Arc::new(disk.clone()), options, entropy).map_err(|error| error.to_string())
    }

    /// Messages and consumers of each stream that is there.
    fn look(disk: &FaultyDisk, turn: u64) -> Result<(Vec<Seen>, StoreReport), String> {
        let (store, report) = Self::open(disk, turn)?;
        let mut seen = Vec::new();
        for found in &report.streams {
            if found.meta.config != found.meta.name.as_bytes() {
                return Err(format!("{} has the configuration of another", found.meta.name));
            }
            let (stream, opened) =
                store.open_stream(found.id, config(), 2).map_err(|error| error.to_string())?;
            if opened.is_damaged() {
                return Err(format!("{}: {:?}", found.meta.name, opened.notices));
            }
            let (consumers, _) = store
                .open_consumers(found.id, Durability::Synced, None)
                .map_err(|error| error.to_string())?;
            let count = consumers.iter().count();
            seen.push((found.meta.name.clone(), stream.state().totals.last_seq, count));
        }
        seen.sort();
        Ok((seen, report))
    }
}

/// A stream's name, its last sequence, and how many consumers it has.
type Seen = (String, u64, usize);

impl Script for Workload {
    type Promises = Promises;

    fn work(&self, disk: &FaultyDisk, promises: &mut Promises) {
        let Some((store, _)) = begun(disk, |turn| Self::open(disk, turn)) else { return };
        let mut run = Run { store, promises, streams: BTreeMap::new() };
        // What follows a failure proves nothing more.
        let _ = run.all();
    }

    fn recover(&self, disk: &FaultyDisk, promises: &mut Promises) {
        // What a start has shown must not go back.
        let Ok((seen, _)) = Self::look(disk, 2) else { return };
        for (name, promise) in &mut promises.0 {
            let found = seen.iter().find(|(seen, ..)| seen == name);
            promise.is_removed |= found.is_none() && (promise.removal_begun || !promise.is_made);
            if let Some((_, messages, consumers)) = found {
                promise.is_made = true;
                promise.messages = promise.messages.max(*messages);
                promise.consumers = promise.consumers.max(*consumers);
            }
        }
    }

    fn check(&self, disk: &FaultyDisk, promises: &Promises, loss: Loss) -> Result<(), String> {
        let look = |turn| {
            let (seen, report) = Self::look(disk, turn)?;
            let is_known = |notice: &Notice| {
                matches!(notice, Notice::Left { .. }) && loss == Loss::ProcessOnFullDisk
                    || matches!(notice, Notice::Repaired { .. })
            };
            if !report.unreadable.is_empty() || !report.notices.iter().all(is_known) {
                return Err(format!("the store says {report:?}"));
            }
            for (name, promise) in &promises.0 {
                let found = seen.iter().find(|(seen, ..)| seen == name);
                let is_right = match found {
                    None => !promise.is_made || promise.removal_begun || promise.is_removed,
                    Some((_, messages, consumers)) => {
                        !promise.is_removed
                            && (promise.messages..=promise.begun).contains(messages)
                            && *consumers >= promise.consumers
                    }
                };
                if !is_right {
                    return Err(format!("{name} is {found:?}, and {promise:?} was promised"));
                }
            }
            if seen.iter().any(|(name, ..)| !promises.0.contains_key(name.as_str())) {
                return Err(format!("nobody made all of {seen:?}"));
            }
            Ok(seen)
        };
        if !is_the_same_twice(loss, look)? {
            return Ok(());
        }
        let (_, report) = Self::open(&disk.power_cycle(Survival::None), 6)?;
        if report.notices.is_empty() { Ok(()) } else { Err(format!("the third start says {report:?}")) }
    }
}

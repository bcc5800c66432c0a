//! The script for consumers: a log for each stream, with flushes, rounds, removals and checkpoints.
//!
//! Each flush is a step in the life of each consumer it concerns. What is left must be one of these
//! steps: none older than what was promised, none newer than what was begun, and no consumer that
//! was removed. Only where sectors survived in any order may a consumer be between two of them;
//! then it says so, and nothing that it was told for good is forgotten, nor a message that nobody
//! acknowledged.

mod promise;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::sync::Arc;

use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_store::cipher::CipherKind;
use myelin_store::consumer::{AckPolicy, AckRules, Consumers, DeliverySeq, Delta, Flushed};
use myelin_store::entropy::SeededEntropy;
use myelin_store::keys::{Keys, MasterKey};
use myelin_store::{
    Admission, Durability, NewMessage, Reserve, Store, StoreOptions, StoreReport, Stream, StreamConfig,
};

use super::script::{Rounds, begun, has_no_room, is_the_same_twice};
use crate::enumeration::{Loss, Script};
use promise::{All, Key, Promise, Promises, hold, known};

/// Script for the consumers of one stream, with the settings under which it runs.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) durability: Durability,
    pub(super) is_encrypted: bool,
    pub(super) rounds: Rounds,
}

/// Bytes that make a definition longer than a sector.
const LONG: [u8; 700] = [b'l'; 700];

impl Workload {
    pub(super) fn new(durability: Durability, rounds: Rounds) -> Self {
        Self { durability, is_encrypted: false, rounds }
    }

    fn open(&self, disk: &FaultyDisk, turn: u64) -> Result<(Store, StoreReport), String> {
        let keys = self.is_encrypted.then(|| Keys {
            kind: CipherKind::Aes256Gcm,
            current: MasterKey::derive(b"a key"),
            previous: None,
        });
        let options = StoreOptions {
            keys,
            headroom_bytes: 64 << 10,
            journal_file_bytes: 32 << 10,
            reserve: Reserve::Nothing,
            ..StoreOptions::new("/store")
        };
        let entropy = Arc::new(SeededEntropy::new(3000 + turn));
        Store::open(Arc::new(disk.clone()), options, entropy).map_err(|error| error.to_string())
    }

    fn config(&self) -> StreamConfig {
        StreamConfig { durability: self.durability, segment_bytes: Some(16 << 10), ..StreamConfig::default() }
    }

    fn streams(&self) -> &'static [&'static str] {
        match self.rounds {
            Rounds::Direct => &["s"],
            // With a segment and a log each too many for rounds without the journal.
            Rounds::Journal => &["s", "t", "u"],
        }
    }
}

/// New messages are delivered, one of those that wait is delivered again, and some are
/// acknowledged, not the oldest.
fn work(consumers: &mut Consumers, name: &str, new: u64) {
    let Some(id) = consumers.find(name) else { return };
    let state = consumers.state(id).expect("it was found").clone();
    let (delivery, last) = (state.delivered().consumer.0, state.delivered().stream);
    let timestamp = 1000 + last as i64;
    let mut deltas: Vec<_> = (1..=new)
        .map(|n| Delta::Delivered { delivery: DeliverySeq(delivery + n), seq: last + n, count: 1, timestamp })
        .collect();
    let mut waiting = state.pending().iter();
    if let Some((seq, _)) = waiting.next() {
        let count = state.redelivered().get(&seq).map_or(2, |times| times + 2);
        deltas.push(Delta::Delivered { delivery: DeliverySeq(delivery + new + 1), seq, count, timestamp });
    }
    let some = waiting.step_by(2).take(3);
    deltas.extend(some.map(|(seq, found)| Delta::Acknowledged { delivery: found.delivery, seq }));
    if last % 3 == 1 {
        deltas.push(Delta::Skip { seq: last + new + 2 });
    }
    consumers.apply(id, &deltas).expect("it was found");
}

/// A run of the script.
struct Run<'a> {
    workload: &'a Workload,
    disk: &'a FaultyDisk,
    promises: &'a mut Promises,
    store: Store,
    homes: Vec<Home>,
    now: i64,
}

/// A stream with its consumers.
struct Home {
    name: &'static str,
    stream: Stream,
    consumers: Consumers,
    /// Position of the last flush, and the state of each consumer then, as an index of its history.
    flushed: Option<(Flushed, BTreeMap<Key, usize>)>,
}

/// The run is over: something failed for good.
struct Over;

impl Run<'_> {
    fn create(&mut self, name: &'static str) -> Result<(), Over> {
        let config = self.workload.config();
        let mut created = self.store.create_stream("A", name, b"", config, self.now);
        if created.is_err() && !self.disk.is_off() {
            self.disk.set_capacity(None);
            created = self.store.create_stream("A", name, b"", config, self.now);
        }
        let stream = created.map_err(|_| Over)?;
        let mut opened = self.store.open_consumers(stream.id(), config.durability, None);
        if opened.is_err() && !self.disk.is_off() {
            opened = self.store.open_consumers(stream.id(), config.durability, None);
        }
        let (consumers, report) = opened.map_err(|_| Over)?;
        assert!(report.is_clean(), "a new stream has {report:?}");
        self.promises.streams.insert(name);
        self.homes.push(Home { name, stream, consumers, flushed: None });
        Ok(())
    }

    /// Does the same to the consumers of all streams.
    fn all(&mut self, act: impl Fn(&mut Consumers)) {
        self.homes.iter_mut().for_each(|home| act(&mut home.consumers));
    }

    fn define(&mut self, name: &str, acks: AckPolicy, config: &[u8]) {
        let rules = AckRules { acks, max_deliver: NonZeroU64::new(3) };
        self.all(|consumers| {
            consumers.create(name, rules, config).expect("there is none of this name");
        });
    }

    fn remove(&mut self, name: &str) {
        self.all(|consumers| {
            let id = consumers.find(name).expect("it was defined");
            consumers.remove(id).expect("it was found");
        });
    }

    fn update(&mut self, name: &str, config: &[u8]) {
        self.all(|consumers| {
            let id = consumers.find(name).expect("it was defined");
            let rules = consumers.get(id).expect("it was found").rules();
            consumers.update(id, rules, config).expect("it was found");
        });
    }

    fn work(&mut self, names: &[&str]) {
        self.all(|consumers| {
            for (name, new) in names.iter().zip(2..) {
                work(consumers, name, new);
            }
        });
    }

    /// Messages, so that rounds have more to do than logs.
    fn append(&mut self) {
        self.now += 10;
        for home in &mut self.homes {
            let message =
                NewMessage { timestamp: self.now, subject: b"m", payload: &[7; 90], ..NewMessage::default() };
            // Whether it can be taken is the matter of another script.
            let _ = home.stream.append(&[message], Admission::Granted, self.now, &mut Vec::new());
        }
    }

    fn flush(&mut self) {
        let (now, disk) = (self.now, self.disk);
        for at in 0..self.homes.len() {
            self.step(at, |store, consumers| {
                let held = store.headroom().is_held();
                let mut result = consumers.flush(now);
                let is_full = |result: &Result<_, std::io::Error>| {
                    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::StorageFull)
                };
                assert!(
                    !(is_full(&result) && held && has_no_room(disk)),
                    "refused a flush with headroom: {result:?}"
                );
                if is_full(&result) {
                    disk.set_capacity(None);
                    result = consumers.flush(now);
                    assert!(!is_full(&result), "there is room again");
                }
                result.map(|position| (position, false))
            });
        }
    }

    fn checkpoint(&mut self) {
        for at in 0..self.homes.len() {
            self.step(at, |_, consumers| consumers.checkpoint().map(|position| (position, true)));
            self.store.put_away(&mut self.homes[at].consumers);
        }
    }

    /// Promises the states of a stream's consumers: begun before `write`, and kept after it.
    /// `write` answers whether they are safe from a loss of power as well.
    fn step(
        &mut self,
        at: usize,
        write: impl FnOnce(&Store, &mut Consumers) -> std::io::Result<(Option<Flushed>, bool)>,
    ) {
        if self.disk.is_off() {
            return;
        }
        let home = &mut self.homes[at];
        let now = known(&home.consumers);
        for id in now.keys() {
            self.promises.consumers.entry((home.name, *id)).or_insert_with(|| Promise::settled(None));
        }
        let mut newest = BTreeMap::new();
        for (key, promise) in self.promises.consumers.iter_mut().filter(|(key, _)| key.0 == home.name) {
            let is_now = now.get(&key.1);
            if promise.history[promise.newest()].as_ref() != is_now {
                promise.history.push(is_now.cloned());
            }
            newest.insert(*key, promise.newest());
        }
        let Ok((position, is_safe)) = write(&self.store, &mut home.consumers) else { return };
        let is_written = self.workload.durability == Durability::Written;
        self.promises.keep(&newest, is_written || is_safe, is_safe);
        home.flushed = position.map(|position| (position, newest));
    }

    /// Makes everything durable.
    fn round(&mut self) -> Result<(), Over> {
        let now = self.now as u64;
        let failed = self.store.journal().statistics(now).failed_files;
        self.store.journal().round_now(&|| now).map_err(|_| Over)?;
        // In other modes than `Synced` nobody is told of a file that failed.
        let all_is_well = self.store.journal().statistics(now).failed_files == failed;
        for home in &mut self.homes {
            let Some((position, newest)) = home.flushed.take() else { continue };
            let is_safe = match self.workload.durability {
                Durability::Synced => home.consumers.is_released(position),
                Durability::Written | Durability::Memory => all_is_well,
            };
            if is_safe {
                self.promises.keep(&newest, true, true);
            }
            assert!(
                is_safe || !all_is_well || home.consumers.is_dirty(),
                "nothing failed, and it is not safe"
            );
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), Over> {
        for name in self.workload.streams() {
            self.create(name)?;
        }
        self.define("one", AckPolicy::Explicit, b"1");
        self.flush();
        self.define("two", AckPolicy::All, b"2");
        self.work(&["one", "two"]);
        self.flush();
        self.append();
        self.round()?;
        self.work(&["two", "one"]);
        self.flush();
        self.define("three", AckPolicy::Explicit, &LONG);
        self.work(&["one", "two", "three"]);
        self.flush();
        self.work(&["three"]);
        self.flush();
        self.append();
        self.round()?;
        self.work(&["two"]);
        self.checkpoint();
        self.work(&["one", "two", "three"]);
        self.flush();
        self.append();
        self.remove("two");
        self.flush();
        self.round()?;
        self.update("one", &LONG);
        self.work(&["one", "three"]);
        self.flush();
        self.define("two", AckPolicy::None, b"another");
        self.work(&["two", "one"]);
        self.checkpoint();
        self.work(&["three", "one"]);
        self.remove("three");
        self.flush();
        self.work(&["one", "two"]);
        self.flush();
        self.append();
        self.round()?;
        self.remove("two");
        self.checkpoint();
        for round in 0..4 {
            self.work(&["one"]);
            self.flush();
            self.define(["four", "five", "six", "seven"][round], AckPolicy::Explicit, &LONG[round * 200..]);
            self.work(&["four", "one"]);
            self.flush();
            self.append();
            self.round()?;
            // The log alone: it is synced itself.
            self.work(&["one"]);
            self.flush();
            self.round()?;
        }
        self.remove("five");
        self.flush();
        self.round()?;
        self.checkpoint();
        self.work(&["six", "four", "one"]);
        self.flush();
        self.round()?;
        self.update("one", b"short");
        self.flush();
        self.work(&["one"]);
        Ok(())
    }
}

impl Script for Workload {
    type Promises = Promises;

    fn work(&self, disk: &FaultyDisk, promises: &mut Promises) {
        let Some((store, _)) = begun(disk, |turn| self.open(disk, turn)) else { return };
        let mut run = Run { workload: self, disk, promises, store, homes: Vec::new(), now: 1000 };
        let _ = run.run();
    }

    fn recover(&self, disk: &FaultyDisk, promises: &mut Promises) {
        promises.is_second = true;
        let Ok((store, report)) = self.open(disk, 2) else { return };
        for found in report.streams {
            let Some(name) = promises.streams.iter().find(|name| **name == found.meta.name).copied() else {
                continue;
            };
            let Ok(_stream) = store.open_stream(found.id, self.config(), 50_000) else { continue };
            let Ok((mut consumers, _)) = store.open_consumers(found.id, self.durability, None) else {
                continue;
            };
            let shown = known(&consumers);
            let is_flushed = consumers.flush(50_000).is_ok();
            store.put_away(&mut consumers);
            for (key, promise) in promises.consumers.iter_mut().filter(|(key, _)| key.0 == name) {
                let shown = shown.get(&key.1).cloned();
                if is_flushed {
                    // From here on nothing of it may be lost any more.
                    *promise = Promise::settled(shown);
                } else {
                    promise.between.extend(shown);
                }
            }
        }
    }

    fn check(&self, disk: &FaultyDisk, promises: &Promises, loss: Loss) -> Result<(), String> {
        let look = |turn| self.look(disk, promises, loss, turn);
        if is_the_same_twice(loss, look)? { self.go_on(disk, promises) } else { Ok(()) }
    }
}

impl Workload {
    /// Opens everything, and gives back what all consumers are.
    fn look(&self, disk: &FaultyDisk, promises: &Promises, loss: Loss, turn: u64) -> Result<All, String> {
        let (store, report) = self.open(disk, turn)?;
        if !report.unreadable.is_empty() || !report.notices.is_empty() || !report.replay.problems.is_empty() {
            return Err(format!("the store says {report:?}"));
        }
        let mut all = All::new();
        for &name in &promises.streams {
            let found = report.streams.iter().find(|found| found.meta.name == name);
            let id = found.ok_or_else(|| format!("{name} is not there"))?.id;
            let words = |error: myelin_store::OpenError| format!("{name}: {error}");
            store.open_stream(id, self.config(), 50_000).map_err(words)?;
            let (consumers, report) = store.open_consumers(id, self.durability, None).map_err(words)?;
            let found = known(&consumers);
            hold(promises, name, &found, &report, loss)
                .map_err(|why| format!("{name}: {why}; {report:?}"))?;
            all.extend(found.into_iter().map(|(id, known)| ((name, id), known)));
        }
        Ok(all)
    }

    /// Changes are taken, and are there after a loss of power.
    fn go_on(&self, disk: &FaultyDisk, promises: &Promises) -> Result<(), String> {
        let (store, report) = self.open(disk, 5)?;
        let mut expected = Vec::new();
        for found in report.streams.iter().filter(|found| promises.streams.contains(&*found.meta.name)) {
            let opened = store.open_consumers(found.id, self.durability, None);
            let (mut consumers, _) = opened.map_err(|error| error.to_string())?;
            let new = consumers.create("new", AckRules::default(), b"").map_err(|error| error.to_string())?;
            let mut durable = promises
                .consumers
                .iter()
                .filter(|(_, promise)| promise.history[..=promise.durable].iter().any(Option::is_some));
            if durable.any(|((name, id), _)| *name == found.meta.name && *id == new) {
                return Err(format!("{new:?} is the id of another consumer"));
            }
            for name in ["new", "one", "two", "three"] {
                work(&mut consumers, name, 3);
            }
            consumers.flush(60_000).map_err(|error| error.to_string())?;
            store.put_away(&mut consumers);
            store.journal().round_now(&|| 60_000).map_err(|error| error.to_string())?;
            expected.push((found.id, known(&consumers)));
        }
        drop(store);
        let disk = disk.power_cycle(Survival::None);
        let (store, _) = self.open(&disk, 6)?;
        for (id, expected) in expected {
            let opened = store.open_consumers(id, self.durability, None);
            let (consumers, report) = opened.map_err(|error| error.to_string())?;
            if !report.is_clean() || known(&consumers) != expected {
                return Err(format!("{:?} instead of {expected:?}; {report:?}", known(&consumers)));
            }
        }
        Ok(())
    }
}

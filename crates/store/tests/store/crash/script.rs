//! The script: what is done to a store, with a note of each promise when it is made.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use myelin_disk::Disk;
use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_store::cipher::CipherKind;
use myelin_store::entropy::SeededEntropy;
use myelin_store::keys::{Keys, MasterKey};
use myelin_store::{
    Admission, Compression, Durability, Filter, GroupPosition, Limits, Marker, Markers, Message, NewMessage,
    Purge, Reserve, Seq, Storage, Store, StoreError, StoreOptions, StoreReport, Stream, StreamConfig,
    Timestamp,
};

use super::promise::{Life, Promise, Promises, Shown};
use crate::enumeration::{Loss, Script};
use crate::twin::Twin;

/// How rounds make things durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounds {
    /// Few files: one that is dirty alone is synced, two go into a block of the journal.
    Direct,
    /// Many files: blocks of the journal that fill its files.
    Journal,
}

/// Script of changes to a store, with the settings under which it runs.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) durability: Durability,
    pub(super) compression: Compression,
    pub(super) is_encrypted: bool,
    pub(super) rounds: Rounds,
    /// Whether its streams lead groups whose other replicas are elsewhere: all is committed at
    /// once.
    pub(super) is_in_group: bool,
}

/// Streams in use besides the two of the direct script: enough for rounds to fill the journal's
/// files.
const CROWD: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];
const SEGMENT_BYTES: u32 = 700;
const HEADROOM: u64 = 64 << 10;

/// Purpose of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Other,
    /// To make the stream smaller: that works on a full disk, too, from the headroom.
    Removal,
}

impl Workload {
    pub(super) fn new(durability: Durability, rounds: Rounds) -> Self {
        Self { durability, compression: Compression::None, is_encrypted: false, rounds, is_in_group: false }
    }

    fn open(&self, disk: &FaultyDisk, turn: u64) -> Result<(Store, StoreReport), String> {
        let keys = self.is_encrypted.then(|| Keys {
            kind: CipherKind::ChaCha20Poly1305,
            current: MasterKey::derive(b"a key"),
            previous: None,
        });
        let options = StoreOptions {
            keys,
            headroom_bytes: HEADROOM,
            // So small that the journal comes round to its files again.
            journal_file_bytes: if self.rounds == Rounds::Journal { 8 << 10 } else { 64 << 10 },
            reserve: Reserve::Nothing,
            ..StoreOptions::new("/store")
        };
        let entropy = Arc::new(SeededEntropy::new(1000 + turn));
        Store::open(Arc::new(disk.clone()), options, entropy).map_err(|error| error.to_string())
    }

    fn config(&self, name: &str) -> StreamConfig {
        let limits = match name {
            "limited" => Limits {
                messages: Some(7),
                messages_per_subject: Some(2),
                age: Some(Duration::from_nanos(1000)),
                ..Limits::default()
            },
            _ => Limits::default(),
        };
        StreamConfig {
            storage: Storage::File,
            limits,
            durability: self.durability,
            compression: self.compression,
            first_seq: 1,
            is_copy: false,
            segment_bytes: Some(SEGMENT_BYTES),
        }
    }
}

/// A run of the script.
struct Run<'a> {
    workload: &'a Workload,
    disk: &'a FaultyDisk,
    promises: &'a mut Promises,
    store: Store,
    streams: Vec<(&'static str, Stream)>,
    now: Timestamp,
}

/// The run is over: something failed for good.
struct Over;

#[derive(Debug)]
struct Mark;

fn marker() -> Marker {
    Marker { headers: b"NATS/1.0\r\n\r\n".to_vec(), expires: Some(90_000) }
}

impl Markers for Mark {
    fn marker(&self, last: &Message<'_>) -> Option<Marker> {
        last.headers.is_empty().then(marker)
    }
}

/// Whether it is the disk that is full, and not one bad moment.
pub(super) fn has_no_room(disk: &FaultyDisk) -> bool {
    disk.free_bytes(Path::new("/")).is_ok_and(|free| free < HEADROOM)
}

/// The store of a run that begins: on a full disk, or after one bad moment, it is opened again.
pub(super) fn begun<T>(disk: &FaultyDisk, open: impl Fn(u64) -> Result<T, String>) -> Option<T> {
    match open(0) {
        Err(_) if !disk.is_off() => {
            disk.set_capacity(None);
            open(1).ok()
        }
        opened => opened.ok(),
    }
}

/// Says that all entries of a stream's group are committed.
fn commit(stream: &mut Stream) {
    let _ = stream.take_decided();
    stream.committed(stream.group().map_or(0, |position| position.index));
}

const NO_ROOM: &str = "no storage space";

/// Looks at what is left twice, and holds the second look against the first. Answers whether a
/// closer look is worth it: not on a full disk, which may refuse to be opened, and a mixture is
/// worth more of it than what is whole.
pub(super) fn is_the_same_twice<T: PartialEq + fmt::Debug>(
    loss: Loss,
    look: impl Fn(u64) -> Result<T, String>,
) -> Result<bool, String> {
    let is_full = loss == Loss::ProcessOnFullDisk;
    let first = match look(3) {
        Err(why) if is_full && (why.contains("no space") || why.contains(NO_ROOM)) => return Ok(false),
        looked => looked?,
    };
    if is_full || matches!(loss, Loss::Power(Survival::All | Survival::Prefix(_))) {
        return Ok(false);
    }
    let second = look(4)?;
    if first == second {
        return Ok(true);
    }
    Err(format!("the second opening finds {second:?} instead of {first:?}"))
}

/// Whether something was refused, or a stream failed, for lack of space.
fn is_full(result: &Result<(), StoreError>, stream: &Stream) -> bool {
    let failed = stream.failure().is_some_and(|why| why.contains("no storage space"));
    failed || matches!(result, Err(StoreError::Full))
}

impl Run<'_> {
    fn create(&mut self, name: &'static str) -> Result<(), Over> {
        let config = self.workload.config(name);
        let twin = Twin::new(Storage::File, config.limits, 1);
        self.promises.streams.insert(name, Promise::new(config.durability, twin));
        let created = self.store.create_stream("A", name, b"", config, self.now);
        let mut stream = match created {
            Ok(stream) => stream,
            Err(_) if !self.disk.is_off() => {
                // A full disk, or one bad moment.
                self.disk.set_capacity(None);
                self.store.create_stream("A", name, b"", config, self.now).map_err(|_| Over)?
            }
            Err(_) => return Err(Over),
        };
        if self.workload.is_in_group {
            // If it fails, the stream goes on by itself.
            let position = GroupPosition { epoch: 1, term: 1, ..GroupPosition::default() };
            let _ = stream.join_group(position, self.now);
        }
        let id = stream.id();
        let promise = self.promise(name);
        (promise.life, promise.id) = (Life::There, Some(id));
        self.streams.push((name, stream));
        Ok(())
    }

    fn promise(&mut self, name: &str) -> &mut Promise {
        self.promises.streams.get_mut(name).expect("it was created")
    }

    fn delete(&mut self, name: &'static str) -> Result<(), Over> {
        let Some(at) = self.streams.iter().position(|(other, _)| *other == name) else { return Ok(()) };
        let (_, mut stream) = self.streams.remove(at);
        self.promise(name).life = Life::Ending;
        match self.store.delete_stream(&mut stream) {
            Ok(()) => self.promise(name).life = Life::Gone,
            Err(_) if self.store.journal().check().is_err() => return Err(Over),
            Err(_) => {}
        }
        Ok(())
    }

    /// One batch: told to the twin first, so that it may be there from the moment it is begun.
    fn batch(
        &mut self,
        name: &str,
        purpose: Purpose,
        twin: impl Fn(&mut Twin, Timestamp),
        act: impl Fn(&mut Stream, Timestamp) -> Result<(), StoreError>,
    ) {
        self.now += 10;
        let now = self.now;
        let Some(at) = self.streams.iter().position(|(other, _)| *other == name) else { return };
        let promise = self.promises.streams.get_mut(name).expect("it was created");
        let mut next = Twin::clone(promise.history.last().expect("it began with one"));
        twin(&mut next, now);
        promise.history.push(Arc::new(next));
        let stream = &mut self.streams[at].1;
        let is_held = self.store.headroom().is_held();
        let mut result = act(stream, now);
        if purpose == Purpose::Removal && is_held && has_no_room(self.disk) {
            assert!(!is_full(&result, stream), "refused a removal with headroom: {result:?}");
        }
        if matches!(result, Err(StoreError::Full)) {
            self.disk.set_capacity(None);
            result = act(stream, now);
            assert!(
                !matches!(result, Err(StoreError::Full)) || stream.failure().is_some(),
                "there is room again, and {name} is full"
            );
        }
        commit(stream);
        match result {
            Ok(()) if promise.durability == Durability::Written => promise.released = promise.newest(),
            Ok(()) => {}
            Err(_) if stream.failure().is_some() => drop(self.streams.remove(at)),
            // Nothing has changed.
            Err(_) => drop(promise.history.pop()),
        }
    }

    fn append(&mut self, name: &str, messages: &[(&str, usize)]) {
        let sent = |now| -> Vec<(String, Vec<u8>, Option<Timestamp>)> {
            let message = |(at, (subject, length)): (usize, &(&str, usize))| {
                let payload = (0..*length).map(|byte| (byte as i64 + now + at as i64) as u8).collect();
                let expires = subject.starts_with("short").then_some(now + 50);
                ((*subject).to_owned(), payload, expires)
            };
            messages.iter().enumerate().map(message).collect()
        };
        let told = |now, each: &mut dyn FnMut(&[NewMessage<'_>])| {
            let sent = sent(now);
            let messages: Vec<_> = sent
                .iter()
                .map(|(subject, payload, expires)| NewMessage {
                    timestamp: now,
                    expires: *expires,
                    subject: subject.as_bytes(),
                    ends: subject.strip_prefix("ends.").map_or(0, |seq| seq.parse().expect("a sequence")),
                    payload,
                    ..NewMessage::default()
                })
                .collect();
            each(&messages);
        };
        self.batch(
            name,
            Purpose::Other,
            |twin, now| {
                told(now, &mut |messages| {
                    for one in messages {
                        let _ = twin.append(one, true);
                    }
                });
            },
            |stream, now| {
                let mut result = Ok(());
                told(now, &mut |messages| {
                    result = stream.append(messages, Admission::Check, now, &mut Vec::new());
                });
                result
            },
        );
    }

    fn remove(&mut self, name: &str, seqs: &[Seq]) {
        self.batch(
            name,
            Purpose::Removal,
            |twin, _| {
                twin.remove(seqs);
            },
            |stream, now| stream.delete_all(seqs, now).map(drop),
        );
    }

    fn purge(&mut self, name: &str, purge: &Purge) {
        self.batch(
            name,
            Purpose::Removal,
            |twin, _| {
                twin.purge(purge);
            },
            |stream, now| stream.purge(&mut purge.clone(), 1000, now).map(drop),
        );
    }

    fn truncate(&mut self, name: &str, last: Seq) {
        self.batch(
            name,
            Purpose::Removal,
            |twin, _| {
                twin.truncate(last);
            },
            |stream, now| stream.truncate(last, now).map(drop),
        );
    }

    fn skip(&mut self, name: &str, last: Seq) {
        self.batch(name, Purpose::Removal, |twin, _| twin.skip(last), |stream, now| stream.skip(last, now));
    }

    fn expire(&mut self, name: &str, pause: Timestamp) {
        self.now += pause;
        self.batch(
            name,
            Purpose::Other,
            |twin, now| {
                twin.expire(now, |kept| kept.headers.is_empty().then(marker));
            },
            |stream, now| stream.expire(now, 1000, Some(&Mark)).map(drop),
        );
    }

    /// Makes everything durable.
    fn round(&mut self) -> Result<(), Over> {
        let now = self.now as u64;
        for (_, stream) in &mut self.streams {
            // Also what only memory has.
            let _ = stream.flush();
        }
        let round = self.store.journal().round_now(&|| now);
        // What cannot be stated is a lower bound as before.
        let _ = self.store.write_watermarks();
        if round.is_err() {
            return Err(Over);
        }
        self.streams.retain(|(_, stream)| stream.failure().is_none());
        for (name, stream) in &self.streams {
            if stream.release().is_released(stream.ticket()) {
                let promise = self.promises.streams.get_mut(name).expect("it was created");
                promise.durable = promise.newest();
                promise.released = promise.newest();
            }
        }
        Ok(())
    }

    /// All upkeep that is due.
    fn upkeep(&mut self) {
        let now = self.now;
        for (_, stream) in &mut self.streams {
            while let Some(job) = stream.next_job(now) {
                if stream.finish(job.run(), now).is_err() {
                    break;
                }
            }
        }
        self.streams.retain(|(_, stream)| stream.failure().is_none());
    }

    fn close(&mut self, name: &str) {
        let now = self.now;
        if let Some((_, stream)) = self.streams.iter_mut().find(|(other, _)| *other == name) {
            let _ = stream.close_segment(0, now);
        }
    }

    fn direct(&mut self) -> Result<(), Over> {
        self.create("plain")?;
        self.append("plain", &[("a.1", 20), ("a.2", 30), ("short.1", 10)]);
        self.round()?;
        self.append("plain", &[("a.1", 200), ("b.2", 300)]);
        self.create("limited")?;
        self.append("limited", &[("k.1", 20), ("k.2", 20), ("k.1", 30), ("k.1", 40)]);
        self.append("plain", &[("a.3", 250), ("ends.4", 90), ("ends.1", 20)]);
        self.remove("plain", &[2, 6]);
        self.round()?;
        self.append("limited", &[("k.3", 100), ("k.4", 100), ("k.2", 20), ("short.k", 20), ("k.5", 200)]);
        self.expire("plain", 100);
        self.upkeep();
        self.round()?;
        self.truncate("plain", 6);
        self.append("plain", &[("again", 60)]);
        self.round()?;
        self.append("plain", &[("again", 80), ("b.2", 220)]);
        self.skip("plain", 14);
        self.purge("plain", &Purge { filter: Some(Filter::new(b"a.*")), keep: 1, ..Purge::default() });
        // From the front and behind it, in one batch.
        self.remove("plain", &[8, 4, 3, 5]);
        self.expire("limited", 60);
        self.close("plain");
        self.upkeep();
        self.append("limited", &[("k.6", 300), ("k.7", 300)]);
        self.append("limited", &[("k.8", 300), ("k.9", 300)]);
        self.round()?;
        self.create("doomed")?;
        self.append("doomed", &[("x", 40)]);
        self.round()?;
        self.append("doomed", &[("x", 40)]);
        self.delete("doomed")?;
        self.expire("limited", 2000);
        self.upkeep();
        self.append("plain", &[("end", 500)]);
        self.purge("plain", &Purge::default());
        self.append("plain", &[("new.1", 30)]);
        self.round()?;
        self.upkeep();
        self.append("plain", &[("new.2", 30)]);
        let _ = self.store.write_watermarks();
        self.append("limited", &[("k.1", 30)]);
        Ok(())
    }

    /// Many streams with little each; the journal is rotated several times.
    fn journaled(&mut self) -> Result<(), Over> {
        for name in CROWD {
            self.create(name)?;
        }
        for turn in 0..5 {
            for (at, name) in CROWD.iter().enumerate() {
                let length = if turn == 2 { 3000 } else { 60 * at };
                self.append(name, &[("a", 10), ("b", length)]);
            }
            if turn == 1 {
                self.remove("c1", &[1]);
                self.truncate("c2", 3);
                self.append("c2", &[("c", 10)]);
            }
            if turn == 3 {
                self.upkeep();
                self.delete("c4")?;
            }
            self.round()?;
        }
        self.append("c0", &[("tail", 10)]);
        let now = self.now as u64;
        self.store.close(&|| now).map_err(|_| Over)?;
        self.append("c1", &[("tail", 10)]);
        Ok(())
    }
}

impl Script for Workload {
    type Promises = Promises;

    fn work(&self, disk: &FaultyDisk, promises: &mut Promises) {
        let Some((store, _)) = begun(disk, |turn| self.open(disk, turn)) else { return };
        let mut run = Run { workload: self, disk, promises, store, streams: Vec::new(), now: 1000 };
        let _ = match self.rounds {
            Rounds::Direct => run.direct(),
            Rounds::Journal => run.journaled(),
        };
    }

    fn recover(&self, disk: &FaultyDisk, promises: &mut Promises) {
        let Ok((store, report)) = self.open(disk, 2) else { return };
        for found in report.streams {
            let mut streams = promises.streams.iter_mut();
            let Some((name, promise)) = streams.find(|(name, _)| **name == found.meta.name) else { continue };
            if promise.id.is_some_and(|id| id != found.id) {
                continue;
            }
            let Ok((mut stream, _)) = store.open_stream(found.id, self.config(name), 50_000) else {
                continue;
            };
            commit(&mut stream);
            let Ok(shown) = Shown::of(&stream) else { continue };
            if let Ok(at) = promise.find(&shown, Loss::Power(Survival::None))
                && promise.life != Life::Ending
            {
                promise.is_shown(at);
            }
        }
    }

    fn check(&self, disk: &FaultyDisk, promises: &Promises, loss: Loss) -> Result<(), String> {
        let look = |turn| match self.look(disk, promises, loss, turn) {
            Err(why) if loss == Loss::ProcessOnFullDisk && why.contains("planned at") => Err(NO_ROOM.into()),
            looked => looked,
        };
        if is_the_same_twice(loss, look)? { self.go_on(disk) } else { Ok(()) }
    }
}

impl Workload {
    /// Opens everything, and gives back what each stream shows.
    fn look(
        &self,
        disk: &FaultyDisk,
        promises: &Promises,
        loss: Loss,
        turn: u64,
    ) -> Result<Vec<(&'static str, Shown)>, String> {
        let (store, report) = self.open(disk, turn)?;
        if !report.unreadable.is_empty() || !report.notices.is_empty() || !report.replay.problems.is_empty() {
            return Err(format!("the store says {report:?}"));
        }
        let mut all = Vec::new();
        for (&name, promise) in &promises.streams {
            let mut found: Vec<_> = report.streams.iter().filter(|found| found.meta.name == name).collect();
            if promise.life == Life::There {
                // A name that came back after a creation that failed.
                found.retain(|found| promise.id.is_none_or(|id| id == found.id));
            }
            let Some(found) = found.first() else {
                if promise.life == Life::There {
                    return Err(format!("{name} is not there"));
                }
                continue;
            };
            if promise.life == Life::Gone {
                return Err(format!("{name} is there again"));
            }
            let opened = store.open_stream(found.id, self.config(name), 50_000);
            let (mut stream, report) = opened.map_err(|error| format!("{name}: {error}"))?;
            commit(&mut stream);
            if report.is_damaged() {
                return Err(format!("{name} is called damaged: {:?}", report.notices));
            }
            let shown = Shown::of(&stream).map_err(|error| format!("{name}: {error}"))?;
            // What is being removed need not be whole.
            if promise.life != Life::Ending {
                promise.find(&shown, loss).map_err(|why| format!("{name}: {why}; {:?}", report.notices))?;
            }
            all.push((name, shown));
        }
        Ok(all)
    }

    /// New messages are taken, and are there after a loss of power.
    fn go_on(&self, disk: &FaultyDisk) -> Result<(), String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let (store, report) = self.open(disk, 5)?;
        let mut expected = Vec::new();
        for found in &report.streams {
            let opened = store.open_stream(found.id, self.config(&found.meta.name), 60_000);
            let (mut stream, _) = opened.map_err(|error| words(&error))?;
            let message = NewMessage { timestamp: 60_000, subject: b"more", ..NewMessage::default() };
            let mut outcomes = Vec::new();
            let appended = stream.append(&[message], Admission::Granted, 60_000, &mut outcomes);
            appended.map_err(|error| words(&error))?;
            expected.push((found.id, outcomes[0]));
            commit(&mut stream);
            stream.flush().map_err(|error| words(&error))?;
            store.journal().round_now(&|| 60_000).map_err(|error| words(&error))?;
            while let Some(job) = stream.next_job(60_000) {
                let name = job.name();
                stream.finish(job.run(), 60_000).map_err(|error| format!("{name}: {error}"))?;
            }
        }
        drop(store);
        let disk = disk.power_cycle(Survival::None);
        let (store, report) = self.open(&disk, 6)?;
        for (id, outcome) in expected {
            let found = report.streams.iter().find(|found| found.id == id).ok_or("a stream has gone")?;
            let opened = store.open_stream(found.id, self.config(&found.meta.name), 60_000);
            let (stream, report) = opened.map_err(|error| words(&error))?;
            if report.is_damaged() {
                return Err(format!("after upkeep {} is called damaged: {report:?}", found.meta.name));
            }
            let last = stream.state().totals.last_seq;
            if outcome != Ok(last) {
                return Err(format!("{} ends with {last}, and {outcome:?} was appended", found.meta.name));
            }
        }
        Ok(())
    }
}

//! The store whose files are damaged, and what is known of it: every message that was acknowledged
//! and every consumer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::real::RealDisk;
use myelin_store::cipher::CipherKind;
use myelin_store::consumer::{AckRules, ConsumerState, Consumers, DeliverySeq, Delta};
use myelin_store::entropy::SeededEntropy;
use myelin_store::keys::{Keys, MasterKey};
use myelin_store::{
    Admission, Compression, Durability, NewMessage, Seq, Store, StoreOptions, StoreReport, Stream,
    StreamConfig,
};
use tempfile::TempDir;

/// The streams, in the order in which they are made.
pub(super) const STREAMS: [&str; 6] = ["PLAIN", "PACKED", "SYNCED", "OTHER", "SECRET", UNSEALED];

/// The stream whose segments nobody seals, so that no manifest lists them.
const UNSEALED: &str = "YOUNG";

/// Time stands still.
pub(super) const NOW: i64 = 1_000;

pub(super) fn config(name: &str) -> StreamConfig {
    StreamConfig {
        durability: if ["SYNCED", "OTHER"].contains(&name) {
            Durability::Synced
        } else {
            Durability::Written
        },
        compression: if name == "PACKED" { Compression::S2 } else { Compression::None },
        segment_bytes: Some(3_000),
        ..StreamConfig::default()
    }
}

pub(super) fn keys() -> Keys {
    Keys { kind: CipherKind::Aes256Gcm, current: MasterKey::derive(b"key"), previous: None }
}

/// Opens the store in `root`. Streams that are made with keys are encrypted.
pub(super) fn open(
    root: &Path,
    turn: u64,
    with_keys: bool,
) -> Result<(Store, StoreReport), myelin_store::OpenError> {
    let options = StoreOptions {
        keys: with_keys.then(keys),
        journal_file_bytes: 256 << 10,
        headroom_bytes: 32 << 10,
        ..StoreOptions::new(root)
    };
    Store::open(Arc::new(RealDisk), options, Arc::new(SeededEntropy::new(turn)))
}

/// Contents that a stream must have.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    /// The payload of each message that is there.
    pub(super) messages: BTreeMap<Seq, Vec<u8>>,
    /// Sequences that were deleted on purpose.
    pub(super) deleted: BTreeSet<Seq>,
    pub(super) last_seq: Seq,
    pub(super) consumers: BTreeMap<String, ConsumerState>,
}

/// How the process ended that wrote the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Clean,
    Killed,
}

impl End {
    pub(super) const BOTH: [Self; 2] = [Self::Clean, Self::Killed];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Clean => "clean stop",
            Self::Killed => "SIGKILL",
        }
    }
}

/// Copies of one store's directory at several times.
pub(super) struct Images {
    folder: TempDir,
    pub(super) truth: BTreeMap<&'static str, Truth>,
}

/// Copies from before: one when the segments were others, one when they were the same and shorter.
const OLD: [&str; 2] = ["old.1", "old.2"];

impl Images {
    pub(super) fn build() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut images = Self { folder, truth: BTreeMap::new() };
        let root = images.folder.path().join("store");
        let (store, _) = open(&root, 1, false).expect("a new store");
        for name in &STREAMS[..4] {
            drop(store.create_stream("A", name, b"first", config(name), NOW).expect("a stream"));
        }
        drop(store);
        let mut working = Working::open(&root, 2);
        working.write(&mut images.truth, 70, true);
        images.take(&root, OLD[0]);
        working.write(&mut images.truth, 60, true);
        working.rename(b"second");
        working.stop();
        // The journal knows nothing of what was before.
        let mut working = Working::open(&root, 3);
        working.write(&mut images.truth, 3, false);
        images.take(&root, OLD[1]);
        working.write(&mut images.truth, 6, false);
        // Nothing is ever stored in it.
        let empty = working.store.create_stream("A", "EMPTY", b"first", config("EMPTY"), NOW);
        drop(empty.expect("a healthy disk"));
        images.truth.insert("EMPTY", Truth::default());
        working.rest();
        images.take(&root, "killed");
        for (name, consumers) in &working.consumers {
            let states = consumers.iter().map(|(_, one)| (one.name().to_owned(), one.state().clone()));
            images.truth.get_mut(name).expect("it was written to").consumers = states.collect();
        }
        working.stop();
        images.take(&root, "clean");
        images
    }

    fn take(&self, root: &Path, name: &str) {
        copy(root, &self.folder.path().join(name)).expect("there is room");
    }

    pub(super) fn of(&self, end: End) -> PathBuf {
        self.folder.path().join(if end == End::Clean { "clean" } else { "killed" })
    }

    /// An older copy of a file: of the very one, else of what was in its place.
    pub(super) fn older(&self, below: &Path, current: &[u8]) -> Option<Vec<u8>> {
        let own = OLD.iter().rev().map(|old| self.folder.path().join(old).join(below));
        let others = OLD.iter().rev().flat_map(|old| alike(&self.folder.path().join(old), below));
        own.chain(others).filter_map(|path| fs::read(path).ok()).find(|older| older != current)
    }
}

/// Files with other numbers beside the place of `below`.
fn alike(root: &Path, below: &Path) -> Vec<PathBuf> {
    let kind = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.chars().filter(|letter| !letter.is_ascii_digit()).collect::<String>()
    };
    let Some(parent) = below.parent() else { return Vec::new() };
    let Ok(entries) = fs::read_dir(root.join(parent)) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // The manifests are each other's copies, and so are those with "copy" in their names.
    found.retain(|path| kind(path) == kind(below) && kind(below) != "manifest.a" && kind(below) != "store");
    found.sort();
    found
}

/// Copies a directory; what is zero at the ends of files takes no room.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            write_sparse(&target, &fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

pub(super) fn write_sparse(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut file = fs::File::create(path)?;
    file.write_all(&bytes[..used])?;
    file.set_len(bytes.len() as u64)
}

/// The open store while it is written to.
struct Working {
    store: Store,
    streams: Vec<(&'static str, Stream)>,
    consumers: BTreeMap<&'static str, Consumers>,
}

impl Working {
    fn open(root: &Path, turn: u64) -> Self {
        let (store, report) = open(root, turn, true).expect("the store opens");
        let mut streams = Vec::new();
        for name in STREAMS {
            let stream = match report.streams.iter().find(|found| found.meta.name == name) {
                Some(found) => store.open_stream(found.id, config(name), NOW).map(|(stream, _)| stream),
                None => store.create_stream("A", name, b"first", config(name), NOW),
            };
            streams.push((name, stream.expect("a healthy disk")));
        }
        let mut consumers = BTreeMap::new();
        for (name, stream) in &streams {
            if ["PLAIN", "SECRET", "OTHER"].contains(name) {
                let durability = stream.config().durability;
                let (mut all, _) =
                    store.open_consumers(stream.id(), durability, None).expect("a healthy disk");
                for consumer in ["ONE", "TWO"] {
                    if all.find(consumer).is_none() {
                        all.create(consumer, AckRules::default(), b"config").expect("it is the first");
                    }
                }
                consumers.insert(*name, all);
            }
        }
        Self { store, streams, consumers }
    }

    /// Has the streams' owner write something else about them.
    fn rename(&self, blob: &[u8]) {
        for (_, stream) in &self.streams {
            self.store.write_blob(stream.id(), blob).expect("a healthy disk");
        }
    }

    /// Writes `count` messages to each stream, a round for every third, and has consumers work.
    fn write(&mut self, truth: &mut BTreeMap<&'static str, Truth>, count: u64, with_upkeep: bool) {
        for _ in 0..count {
            let mut last = 0;
            for (name, stream) in &mut self.streams {
                let truth = truth.entry(*name).or_default();
                append(stream, truth);
                last = stream.state().totals.last_seq;
                if with_upkeep && *name != UNSEALED {
                    upkeep(stream);
                }
            }
            for consumers in self.consumers.values_mut() {
                work(consumers, last);
                consumers.flush(NOW).expect("a healthy disk");
            }
            // The last ones are in their files, and no round has seen them.
            if last % 3 == 0 && last < 138 {
                self.round();
            }
        }
    }

    fn round(&self) {
        self.store.write_watermarks().expect("a healthy disk");
        self.store.journal().round_now(&|| NOW.unsigned_abs()).expect("a healthy disk");
    }

    /// Does the work that a running server has done for everything that is older than a moment.
    fn rest(&mut self) {
        // A stream that asks for syncs has acknowledged after one.
        for (name, stream) in &mut self.streams {
            if *name == "SYNCED" && stream.released() < stream.state().totals.last_seq {
                self.store.journal().round(&|| NOW.unsigned_abs()).expect("a healthy disk");
            }
        }
        self.store.write_watermarks().expect("a healthy disk");
    }

    fn stop(mut self) {
        for consumers in self.consumers.values_mut() {
            consumers.flush(NOW).expect("a healthy disk");
            let _ = self.store.put_away(consumers);
        }
        self.store.close(&|| NOW.unsigned_abs()).expect("a healthy disk");
    }
}

fn append(stream: &mut Stream, truth: &mut Truth) {
    let seq = truth.last_seq + 1;
    let payload = format!("message {seq} of {:x} ", stream.id().0).repeat(4).into_bytes();
    let subject = format!("s.{}", seq % 7);
    let message = NewMessage {
        timestamp: NOW,
        subject: subject.as_bytes(),
        payload: &payload,
        ..NewMessage::default()
    };
    stream.append(&[message], Admission::Check, NOW, &mut Vec::new()).expect("there is room");
    truth.messages.insert(seq, payload);
    truth.last_seq = seq;
    if seq.is_multiple_of(10) {
        stream.delete(seq - 4, NOW).expect("there is room");
        truth.messages.remove(&(seq - 4));
        truth.deleted.insert(seq - 4);
    }
}

fn upkeep(stream: &mut Stream) {
    while let Some(job) = stream.next_job(NOW) {
        stream.finish(job.run(), NOW).expect("a healthy disk");
    }
}

/// One consumer leaves every fifth message open, the other is always done.
fn work(consumers: &mut Consumers, seq: Seq) {
    for (name, leaves_open) in [("ONE", true), ("TWO", false)] {
        let id = consumers.find(name).expect("it was made");
        let next = consumers.state(id).expect("it is there").delivered();
        for seq in next.stream + 1..=seq {
            let delivery = DeliverySeq(seq);
            let delivered = Delta::Delivered { delivery, seq, count: 1, timestamp: NOW };
            let acknowledged = Delta::Acknowledged { delivery, seq };
            let steps = if leaves_open && seq % 5 == 0 { 1 } else { 2 };
            consumers.apply(id, &[delivered, acknowledged][..steps]).expect("it is there");
        }
    }
}

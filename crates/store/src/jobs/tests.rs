//! Upkeep against a twin that is a map, in every form of segments, with restarts in between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::memory::MemoryDisk;
use myelin_disk::real::RealDisk;
use proptest::prelude::*;

use crate::cipher::CipherKind;
use crate::config::{Compression, StreamConfig};
use crate::entropy::SeededEntropy;
use crate::keys::{Keys, MasterKey};
use crate::manifest;
use crate::store::{Reserve, Store, StoreOptions};
use crate::stream::{Admission, Filter, NewMessage, Purge, Stream, Wait, segment_number};
use crate::{Job, Notice, SegmentNo, Seq, Timestamp};

mod crashes;
mod forms;
mod gaps;
mod twin;

/// How segments are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    is_encrypted: bool,
    compression: Compression,
}

const SHAPES: [Shape; 4] = [
    Shape { is_encrypted: false, compression: Compression::None },
    Shape { is_encrypted: false, compression: Compression::S2 },
    Shape { is_encrypted: true, compression: Compression::None },
    Shape { is_encrypted: true, compression: Compression::S2 },
];

impl Shape {
    fn config(self, segment_bytes: u32) -> StreamConfig {
        StreamConfig {
            segment_bytes: Some(segment_bytes),
            compression: self.compression,
            ..StreamConfig::default()
        }
    }

    fn options(self, root: &Path) -> StoreOptions {
        let current = MasterKey::derive(b"a key");
        let keys =
            self.is_encrypted.then(|| Keys { kind: CipherKind::ChaCha20Poly1305, current, previous: None });
        StoreOptions {
            keys,
            journal_file_bytes: 256 << 10,
            headroom_bytes: 0,
            // Fewer than the stories have segments, so that blocks come and go.
            block_bytes: 3 * 4096,
            reserve: Reserve::Nothing,
            ..StoreOptions::new(root)
        }
    }
}

/// A store with one stream, which can be opened again.
struct Bench {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    shape: Shape,
    config: StreamConfig,
    seed: u64,
    id: crate::StreamId,
    open: Option<(Store, Stream)>,
}

impl Bench {
    fn new(disk: Arc<dyn Disk>, root: &Path, shape: Shape, segment_bytes: u32) -> Self {
        let config = shape.config(segment_bytes);
        let id = crate::StreamId(0);
        let mut bench = Self { disk, root: root.to_owned(), shape, config, seed: 0, id, open: None };
        let store = bench.open_store();
        let stream = store.create_stream("A", "S", b"", config, 1).unwrap();
        bench.id = stream.id();
        bench.open = Some((store, stream));
        bench
    }

    fn in_memory(shape: Shape, segment_bytes: u32) -> Self {
        Self::new(Arc::new(MemoryDisk::new()), Path::new("/store"), shape, segment_bytes)
    }

    fn open_store(&mut self) -> Store {
        self.seed += 1;
        let entropy = Arc::new(SeededEntropy::new(self.seed));
        Store::open(Arc::clone(&self.disk), self.shape.options(&self.root), entropy).unwrap().0
    }

    /// As after the process was killed.
    fn reopen(&mut self) {
        self.open = None;
        let store = self.open_store();
        let (stream, mut report) = store.open_stream(self.id, self.config, 1).unwrap();
        // Power was lost between the two copies of a first manifest.
        report
            .notices
            .retain(|notice| !matches!(notice, Notice::Damaged { file, .. } if file == manifest::COPIES[1]));
        assert_eq!(report.notices, []);
        self.open = Some((store, stream));
    }

    fn stream(&mut self) -> &mut Stream {
        &mut self.open.as_mut().unwrap().1
    }

    fn round(&self) {
        self.open.as_ref().unwrap().0.journal().round_now(&|| 1).unwrap();
    }

    fn directory(&self) -> PathBuf {
        crate::recovery::stream_directory(&self.root, self.id)
    }

    fn names(&self) -> Vec<String> {
        self.disk.list(&self.directory()).unwrap_or_default().into_iter().map(|entry| entry.name).collect()
    }

    fn segments(&self) -> Vec<u64> {
        self.names().iter().filter_map(|name| segment_number(name)).map(|no| no.0).collect()
    }

    fn bytes(&self) -> u64 {
        let directory = self.directory();
        let length = |name: String| self.disk.open(&directory.join(name)).unwrap().len().unwrap();
        self.names().into_iter().map(length).sum()
    }

    /// Runs one job; its name, if there was one.
    fn step(&mut self) -> Option<&'static str> {
        let job = self.stream().next_job(1)?;
        let name = job.name();
        let done = job.run();
        self.stream().finish(done, 1).unwrap();
        Some(name)
    }

    fn settle(&mut self) -> Vec<&'static str> {
        let mut names = Vec::new();
        while let Some(name) = self.step() {
            names.push(name);
            assert!(names.len() < 10_000, "upkeep does not end");
        }
        names
    }

    fn put(&mut self, subject: &str, payload: &[u8]) -> Seq {
        put(self.stream(), subject, payload, None)
    }

    fn manifest(&self) -> Option<manifest::Manifest> {
        manifest::read(&*self.disk, &self.directory()).best
    }
}

fn put(stream: &mut Stream, subject: &str, payload: &[u8], expires: Option<Timestamp>) -> Seq {
    let timestamp = stream.state().totals.last_timestamp + 1;
    let message =
        NewMessage { subject: subject.as_bytes(), payload, timestamp, expires, ..NewMessage::default() };
    let mut outcomes = Vec::new();
    stream.append(&[message], Admission::Check, timestamp, &mut outcomes).unwrap();
    outcomes.pop().unwrap().unwrap()
}

/// A message by subject, payload and lifetime.
type Message = (String, Vec<u8>, Option<Timestamp>);

fn contents(stream: &Stream) -> BTreeMap<Seq, Message> {
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    let mut all = BTreeMap::new();
    while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
        let subject = String::from_utf8(message.subject.to_vec()).unwrap();
        all.insert(message.seq, (subject, message.payload.to_vec(), message.expires));
    }
    all
}

/// Whether a needle stands anywhere in the files of the stream.
fn holds(bench: &Bench, needle: &[u8]) -> bool {
    let directory = bench.directory();
    bench.names().into_iter().any(|name| {
        let file = bench.disk.open(&directory.join(name)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes.windows(needle.len()).any(|window| window == needle)
    })
}

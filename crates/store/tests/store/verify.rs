//! The check of a store: silent about sound ones, and never about damaged ones.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::memory::MemoryDisk;
use myelin_stdx::rng::Rng;
use myelin_store::cipher::CipherKind;
use myelin_store::consumer::{AckRules, DeliverySeq, Delta};
use myelin_store::entropy::SeededEntropy;
use myelin_store::keys::{Keys, MasterKey};
use myelin_store::verify::{self, Finding, Severity, Summary};
use myelin_store::{
    Admission, Compression, Durability, NewMessage, Store, StoreOptions, Stream, StreamConfig,
};

const ROOT: &str = "/store";
const STREAMS: usize = 6;

/// A store on a disk in memory, closed.
struct Ground {
    disk: Arc<dyn Disk>,
    keys: Option<Keys>,
    config: StreamConfig,
    opened: u64,
}

impl Ground {
    fn new(cipher: Option<CipherKind>, compression: Compression) -> Self {
        let keys =
            cipher.map(|kind| Keys { kind, current: MasterKey::derive(b"of the operator"), previous: None });
        let config = StreamConfig { compression, segment_bytes: Some(2048), ..StreamConfig::default() };
        let mut ground = Self { disk: Arc::new(MemoryDisk::new()), keys, config, opened: 0 };
        ground.live(200, 0);
        ground
    }

    /// One that was closed in order, with all segments but the last sealed: its journal repairs
    /// nothing any more.
    fn closed(compression: Compression) -> Self {
        let mut ground = Self::new(None, compression);
        let (store, mut streams) = ground.open();
        for stream in &mut streams {
            while let Some(job) = stream.next_job(1 << 41) {
                stream.finish(job.run(), 1 << 41).unwrap();
            }
        }
        store.journal().close(&|| 1 << 41).unwrap();
        drop(streams);
        ground
    }

    fn open(&mut self) -> (Store, Vec<Stream>) {
        self.opened += 1;
        let options = StoreOptions {
            keys: self.keys.clone(),
            journal_file_bytes: 1 << 18,
            headroom_bytes: 1 << 16,
            ..StoreOptions::new(ROOT)
        };
        let entropy = Arc::new(SeededEntropy::new(self.opened));
        let (store, report) = Store::open(Arc::clone(&self.disk), options, entropy).unwrap();
        assert!(report.notices.is_empty() && report.unreadable.is_empty(), "{report:?}");
        let open = |id| store.open_stream(id, self.config, 1).unwrap().0;
        let mut streams: Vec<_> = report.streams.iter().map(|found| open(found.id)).collect();
        while streams.len() < STREAMS {
            let name = format!("S{}", streams.len());
            streams.push(store.create_stream("A", &name, b"blob", self.config, 1).unwrap());
        }
        (store, streams)
    }

    /// A life of the store: messages, removals, upkeep, consumers; then the process is gone.
    fn live(&mut self, messages: u64, from: i64) {
        let (store, mut streams) = self.open();
        let mut consumers = store.open_consumers(streams[0].id(), Durability::Written, None).unwrap().0;
        assert_eq!(store.put_away(&mut consumers), []);
        let id =
            consumers.find("c").or_else(|| consumers.create("c", AckRules::default(), b"it").ok()).unwrap();
        for at in 0..messages {
            let now = from + at as i64 + 1;
            for (number, stream) in streams.iter_mut().enumerate() {
                if number > 1 && at % 40 > 0 {
                    continue;
                }
                put(stream, at, now);
                if at % 7 == 3 {
                    let first = stream.state().totals.first_seq;
                    stream.delete(first + at / 3, now).unwrap();
                }
                if at % 20 == 0 && number == 0 {
                    upkeep(stream, now);
                }
            }
            let delivery = consumers.state(id).unwrap().delivered().consumer.0 + 1;
            let seq = consumers.state(id).unwrap().delivered().stream + 1;
            let delivered =
                Delta::Delivered { delivery: DeliverySeq(delivery), seq, count: 1, timestamp: now };
            consumers.apply(id, &[delivered]).unwrap();
            consumers.flush(now).unwrap();
            if at % 10 == 0 {
                store.journal().round_now(&|| now as u64).unwrap();
            }
        }
        assert_eq!(store.put_away(&mut consumers), []);
        store.journal().round_now(&|| 1 << 40).unwrap();
    }

    fn check(&self) -> (Summary, Vec<Finding>) {
        self.check_with(self.keys.as_ref())
    }

    fn check_with(&self, keys: Option<&Keys>) -> (Summary, Vec<Finding>) {
        let mut findings = Vec::new();
        let told = &mut |finding: &Finding| findings.push(finding.clone());
        let summary = verify::check(&self.disk, Path::new(ROOT), keys, told).unwrap();
        (summary, findings)
    }

    /// All files below a directory.
    fn files(&self, below: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut directories = vec![Path::new(ROOT).join(below)];
        while let Some(directory) = directories.pop() {
            for entry in self.disk.list(&directory).unwrap() {
                let path = directory.join(&entry.name);
                if entry.is_directory { directories.push(path) } else { files.push(path) }
            }
        }
        files.sort();
        files
    }

    fn bytes(&self, path: &Path) -> Vec<u8> {
        let file = self.disk.open(path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
        bytes
    }

    fn write(&self, path: &Path, bytes: &[u8]) {
        let file = self.disk.open(path).unwrap();
        file.set_len(0).unwrap();
        file.write_at(bytes, 0).unwrap();
    }

    fn flip(&self, path: &Path, bit: u64) {
        let file = self.disk.open(path).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, bit / 8).unwrap();
        file.write_at(&[byte[0] ^ 1 << (bit % 8)], bit / 8).unwrap();
    }

    /// The files of the stream that has a manifest and the most segments.
    fn rich(&self) -> Vec<PathBuf> {
        let files = self.files("streams");
        let manifest = files.iter().find(|path| path.ends_with("manifest.a")).unwrap();
        let directory = manifest.parent().unwrap().to_owned();
        files.into_iter().filter(|path| path.starts_with(&directory)).collect()
    }

    fn segments(&self) -> Vec<PathBuf> {
        self.rich().into_iter().filter(|path| path.extension().is_some_and(|name| name == "seg")).collect()
    }
}

fn put(stream: &mut Stream, at: u64, now: i64) {
    let (subject, payload) = (format!("a.{}", at % 9), format!("<{now}>{}", "abc".repeat(at as usize % 60)));
    let message = NewMessage {
        subject: subject.as_bytes(),
        headers: if at.is_multiple_of(5) { b"NATS/1.0\r\nA: b\r\n\r\n" } else { b"" },
        payload: payload.as_bytes(),
        timestamp: now,
        expires: at.is_multiple_of(11).then_some(now + 1_000_000),
        ..NewMessage::default()
    };
    let mut outcomes = Vec::new();
    stream.append(&[message, message], Admission::Check, now, &mut outcomes).unwrap();
    assert!(outcomes.iter().all(Result::is_ok));
}

fn upkeep(stream: &mut Stream, now: i64) {
    while let Some(job) = stream.next_job(now) {
        let done = job.run();
        stream.finish(done, now).unwrap();
    }
}

fn below(path: &Path) -> &Path {
    path.strip_prefix(ROOT).unwrap()
}

const VARIANTS: [(Option<CipherKind>, Compression); 5] = [
    (None, Compression::None),
    (None, Compression::S2),
    (Some(CipherKind::ChaCha20Poly1305), Compression::None),
    (Some(CipherKind::Aes256Gcm), Compression::None),
    (Some(CipherKind::Aes256Gcm), Compression::S2),
];

#[test]
fn sound_stores_give_no_finding() {
    for (cipher, compression) in VARIANTS {
        let mut ground = Ground::new(cipher, compression);
        assert!(ground.segments().len() > 4, "a store of some size");
        for life in 1..4 {
            let files = ground.files("");
            let before: Vec<_> = files.iter().map(|path| ground.bytes(path)).collect();
            let (summary, findings) = ground.check();
            assert_eq!(findings, [], "{cipher:?} {compression:?} {life}");
            assert_eq!((summary.streams, summary.locked), (STREAMS as u64, 0));
            assert!(summary.messages > 100 && summary.segments > 8, "{summary:?}");
            assert_eq!(ground.files(""), files);
            assert!(files.iter().zip(&before).all(|(path, bytes)| ground.bytes(path) == *bytes), "unchanged");
            ground.live(50, life * 1000);
        }
    }
}

#[test]
fn without_a_key_the_structure_is_checked() {
    let ground = Ground::new(Some(CipherKind::Aes256Gcm), Compression::None);
    let (summary, findings) = ground.check_with(None);
    assert_eq!((summary.locked, summary.damage, summary.suspicious), (STREAMS as u64, 0, 0), "{findings:?}");
    assert!(findings.iter().all(|finding| finding.file.ends_with("meta")));
    let other = Keys { kind: CipherKind::Aes256Gcm, current: MasterKey::derive(b"another"), previous: None };
    let (summary, _) = ground.check_with(Some(&other));
    assert_eq!((summary.locked, summary.damage, summary.suspicious), (STREAMS as u64, 0, STREAMS as u64));
}

/// Every file of a stream and both markers are covered, byte for byte: whatever bit is flipped is
/// found, with a finding for the file that has it. Bits behind the end of what was appended look
/// like a write that was not finished.
fn flips_are_found(ground: &Ground, keys: Option<&Keys>, seed: u64, flips: usize) {
    let mut rng = Rng::seeded(seed);
    let mut files = ground.files("streams");
    files.extend([Path::new(ROOT).join("store"), Path::new(ROOT).join("store.copy")]);
    let (_, before) = ground.check_with(keys);
    for _ in 0..flips {
        let path = &files[rng.below(files.len() as u64) as usize];
        let length = ground.bytes(path).len() as u64;
        let bit = rng.below(length * 8);
        ground.flip(path, bit);
        let (_, findings) = ground.check_with(keys);
        let is_new = |finding: &&Finding| !before.contains(finding) && finding.file == below(path);
        assert!(
            findings.iter().any(|finding| is_new(&finding)),
            "bit {bit} of {} of {length} bytes: {findings:#?}",
            path.display()
        );
        ground.flip(path, bit);
    }
    assert_eq!(ground.check_with(keys).1, before);
}

#[test]
fn flipped_bits_are_found() {
    for (seed, (cipher, compression)) in VARIANTS.into_iter().enumerate() {
        let ground = Ground::new(cipher, compression);
        flips_are_found(&ground, ground.keys.as_ref(), seed as u64, 15);
        if cipher.is_some() {
            flips_are_found(&ground, None, 100 + seed as u64, 6);
        }
    }
}

/// Flips bits of a journal. Nothing covers the padding of blocks, bytes that earlier uses of a file
/// left, and the last block, whose loss looks like a write that never happened.
#[test]
fn a_flipped_bit_in_the_journal_never_panics() {
    let ground = Ground::new(None, Compression::None);
    let mut rng = Rng::seeded(3);
    let files: Vec<_> =
        ground.files("journal").into_iter().chain([Path::new(ROOT).join("headroom")]).collect();
    let mut found = 0;
    for _ in 0..60 {
        let path = &files[rng.below(files.len() as u64) as usize];
        let used = ground.bytes(path).iter().rposition(|byte| *byte != 0).unwrap_or(4096) as u64;
        let bit = rng.below((used + 1) * 8);
        ground.flip(path, bit);
        let (_, findings) = ground.check();
        found += u64::from(findings.iter().any(|finding| finding.file.starts_with("journal")));
        ground.flip(path, bit);
    }
    assert!(found > 0, "blocks between others are covered");
}

#[test]
fn a_damaged_message_is_named() {
    let ground = Ground::closed(Compression::None);
    let segments = ground.segments();
    let path = &segments[segments.len() - 2];
    let bytes = ground.bytes(path);
    let at = bytes.windows(3).position(|window| window == b"abc").unwrap();
    ground.flip(path, at as u64 * 8);
    let (summary, findings) = ground.check();
    assert_eq!((summary.damage, summary.is_sound()), (1, false), "{findings:#?}");
    let [finding] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!((finding.severity, &*finding.file), (Severity::Damage, below(path)));
    assert!(finding.bytes.clone().unwrap().contains(&(at as u64)));
    let sequences = finding.sequences.clone().unwrap();
    assert_eq!(sequences.start(), sequences.end());
    assert_eq!(finding.stream.as_ref().unwrap().account, "A");
}

#[test]
fn missing_and_exchanged_files_are_named() {
    let ground = Ground::closed(Compression::None);
    let segments = ground.segments();
    for path in ground.rich().iter().filter(|path| !path.ends_with("manifest.b")) {
        let name = path.file_name().unwrap().to_string_lossy();
        if name.starts_with("consumers") || path == segments.last().unwrap() {
            // Nothing else says that there were consumers; the open segment is the next test's.
            continue;
        }
        let aside = Path::new("/aside");
        ground.disk.rename(path, aside).unwrap();
        let (_, findings) = ground.check();
        let named = |finding: &&Finding| finding.severity == Severity::Damage && finding.file == below(path);
        let finding = findings.iter().find(named).unwrap_or_else(|| panic!("{name}: {findings:#?}"));
        if segments.contains(path) {
            assert!(finding.sequences.is_some(), "{finding}");
        }
        ground.disk.rename(aside, path).unwrap();
    }
    let (one, other) = (&segments[0], &segments[1]);
    let (first, second) = (ground.bytes(one), ground.bytes(other));
    ground.write(one, &second);
    ground.write(other, &first);
    let (_, findings) = ground.check();
    for path in [one, other] {
        let finding = findings.iter().find(|finding| finding.file == below(path)).unwrap();
        assert!(finding.what.starts_with("it is segment"), "{finding}");
    }
}

#[test]
fn a_cut_file_is_found() {
    let ground = Ground::closed(Compression::S2);
    let mut rng = Rng::seeded(4);
    for path in ground.rich() {
        let bytes = ground.bytes(&path);
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for _ in 0..2 {
            let length = rng.below(used as u64) as usize;
            ground.write(&path, &bytes[..length]);
            let (_, findings) = ground.check();
            // An open file that ends between two entries is as good as a shorter one.
            let is_open =
                path == *ground.segments().last().unwrap() || path.to_string_lossy().contains("consumers");
            let found = findings.iter().any(|finding| finding.file == below(&path));
            assert!(found || is_open, "{} cut to {length} of {used}: {findings:#?}", path.display());
        }
        ground.write(&path, &bytes);
    }
}

#[test]
fn strange_files_are_named() {
    let ground = Ground::new(None, Compression::None);
    let directory = ground.segments()[0].parent().unwrap().to_owned();
    let places = [
        (Path::new(ROOT).join("jetstream"), Severity::Note),
        (Path::new(ROOT).join("streams/x"), Severity::Suspicious),
        (directory.join("core"), Severity::Suspicious),
        (directory.join("meta.tmp"), Severity::Note),
        (Path::new(ROOT).join("journal/x"), Severity::Note),
    ];
    for (path, _) in &places {
        ground.disk.create(path).unwrap();
    }
    ground.disk.make_directory(&Path::new(ROOT).join("quarantine")).unwrap();
    ground.disk.create(&Path::new(ROOT).join("quarantine/old")).unwrap();
    let (summary, findings) = ground.check();
    for (path, severity) in &places {
        assert!(
            findings.iter().any(|finding| finding.file == below(path) && finding.severity == *severity),
            "{}: {findings:#?}",
            path.display()
        );
    }
    assert_eq!((findings.len(), summary.notes), (6, 4));
    assert!(summary.is_sound());
}

#[test]
fn a_directory_without_a_store_is_an_error() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    assert!(verify::check(&disk, Path::new("/nothing"), None, &mut |_| {}).is_err());
    disk.make_directory(Path::new("/empty")).unwrap();
    assert!(verify::check(&disk, Path::new("/empty"), None, &mut |_| {}).is_err());
}

#[test]
fn a_store_is_shown_in_numbers() {
    for (cipher, compression) in VARIANTS {
        let mut ground = Ground::new(cipher, compression);
        let info = verify::info(&ground.disk, Path::new(ROOT), ground.keys.as_ref()).unwrap();
        let (_, streams) = ground.open();
        assert_eq!(info.streams.len(), STREAMS);
        assert!(info.last_round > 0);
        for stream in &streams {
            let shown = info.streams.iter().find(|shown| shown.id == stream.id()).unwrap();
            let state = stream.state();
            assert_eq!(
                (shown.totals.as_ref().unwrap().messages, shown.subjects),
                (state.totals.messages, state.subjects)
            );
            assert_eq!(shown.is_encrypted, cipher.is_some());
        }
    }
}

/// The lock is for those who write.
#[test]
fn an_open_store_can_be_checked() {
    use myelin_disk::real::RealDisk;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let open = || {
        let options = StoreOptions { headroom_bytes: 0, ..StoreOptions::new(&root) };
        Store::open(Arc::clone(&disk), options, Arc::new(SeededEntropy::new(1)))
    };
    let (store, _) = open().unwrap();
    let stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
    let refused = open().unwrap_err().to_string();
    assert!(refused.contains("another process") && refused.contains(root.to_str().unwrap()), "{refused}");
    let mut findings = Vec::new();
    let told = &mut |finding: &Finding| findings.push(finding.clone());
    verify::check(&disk, &root, None, told).unwrap();
    assert_eq!(findings, [], "the lock is a name of ours");
    drop((store, stream));
    let (_, report) = open().unwrap();
    assert_eq!(report.notices, []);
}

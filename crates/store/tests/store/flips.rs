//! One bit of a small store is flipped, at many places of every file: what is opened then is what
//! it was, or is reported, and nothing else is lost than what the report speaks of.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_store::cipher::CipherKind;
use myelin_store::consumer::{AckRules, Consumer, ConsumerState, Consumers, DeliverySeq, Delta};
use myelin_store::entropy::SeededEntropy;
use myelin_store::keys::{Keys, MasterKey};
use myelin_store::verify::{self, Finding, Severity};
use myelin_store::{
    Admission, Compression, Durability, NewMessage, Notice, Reserve, Seq, Store, StoreOptions, StoreReport,
    Stream, StreamConfig, Wait,
};

use crate::twin::Kept;

/// Bytes from one flip to the next; no divisor of anything.
const STEP: u64 = 5;
const MESSAGES: u64 = 40;
/// How a sealed segment ends.
const TRAILER_MAGIC: &[u8] = b"MYELFOOT";
const TRAILER_BYTES: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Kind {
    compression: Compression,
    is_encrypted: bool,
    /// Whether some segments are sealed and merged.
    upkeep: bool,
}

impl Kind {
    fn config(self) -> StreamConfig {
        StreamConfig {
            durability: Durability::Synced,
            compression: self.compression,
            segment_bytes: Some(600),
            ..StreamConfig::default()
        }
    }

    fn keys(self) -> Option<Keys> {
        let current = MasterKey::derive(b"key");
        self.is_encrypted.then_some(Keys { kind: CipherKind::Aes256Gcm, current, previous: None })
    }

    fn open(self, disk: &FaultyDisk, turn: u64) -> Result<(Store, StoreReport), String> {
        let options = StoreOptions {
            keys: self.keys(),
            journal_file_bytes: 16 << 10,
            headroom_bytes: 8 << 10,
            reserve: Reserve::Nothing,
            ..StoreOptions::new("/store")
        };
        let entropy = Arc::new(SeededEntropy::new(turn));
        Store::open(Arc::new(disk.clone()), options, entropy).map_err(|error| error.to_string())
    }

    /// A store with everything durable, and all messages that were ever in it.
    fn build(self) -> (FaultyDisk, BTreeMap<Seq, Kept>) {
        let disk = FaultyDisk::new(3);
        let mut written = BTreeMap::new();
        let (store, _) = self.open(&disk, 1).expect("a healthy disk");
        let mut stream = store.create_stream("A", "S", b"blob", self.config(), 1).expect("a healthy disk");
        for n in 1..=MESSAGES {
            let subject = format!("s.{}", n % 5);
            let message = NewMessage {
                timestamp: n as i64,
                expires: (n % 7 == 0).then_some(1_000_000),
                subject: subject.as_bytes(),
                payload: &[n as u8; 30],
                ..NewMessage::default()
            };
            stream.append(&[message], Admission::Check, n as i64, &mut Vec::new()).expect("there is room");
            let kept = Kept {
                timestamp: message.timestamp,
                expires: message.expires,
                subject: subject.clone().into_bytes(),
                headers: Vec::new(),
                payload: message.payload.to_vec(),
            };
            written.insert(n, kept);
            store.journal().round_now(&|| n).expect("a healthy disk");
            if n % 6 == 0 {
                stream.delete(n - 3, n as i64).expect("there is room");
            }
        }
        store.journal().round_now(&|| MESSAGES).expect("a healthy disk");
        while let Some(job) = stream.next_job(100).filter(|_| self.upkeep) {
            stream.finish(job.run(), 100).expect("a healthy disk");
        }
        let consumers =
            store.open_consumers(stream.id(), Durability::Synced, None).expect("a healthy disk").0;
        consume(consumers, &store);
        drop((stream, store));
        // The journal's last block cannot be told from one that was never written. A replay leaves
        // nothing that needs it.
        drop(self.open(&disk, 3).expect("a healthy disk"));
        (disk.power_cycle(Survival::None), written)
    }
}

/// A consumer that has worked through a few messages.
fn consume(mut consumers: Consumers, store: &Store) {
    let id = consumers.create("C", AckRules::default(), b"blob").expect("it is the first");
    for n in 1..=6 {
        let delivery = DeliverySeq(n);
        let delivered = Delta::Delivered { delivery, seq: n, count: 1, timestamp: 100 };
        let acknowledged = Delta::Acknowledged { delivery, seq: n };
        consumers.apply(id, &[delivered, acknowledged][..1 + n as usize % 2]).expect("it is there");
        consumers.flush(100).expect("a healthy disk");
        store.journal().round_now(&|| 100).expect("a healthy disk");
    }
}

fn is_deleted(seq: Seq) -> bool {
    (seq + 3).is_multiple_of(6) && seq + 3 <= MESSAGES
}

/// Contents of a stream, and what could not be read.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    messages: BTreeMap<Seq, Kept>,
    /// Errors that a reader gets instead of messages.
    errors: BTreeMap<Seq, String>,
    consumers: Vec<(String, ConsumerState)>,
}

fn see(stream: &Stream) -> Seen {
    let mut seen = Seen::default();
    let (reader, mut buffer) = (stream.reader(), Vec::new());
    for seq in 1..=MESSAGES + 2 {
        match reader.get(seq, Wait::Allowed, &mut buffer) {
            Ok(Some(message)) => drop(seen.messages.insert(seq, Kept::of(&message))),
            Ok(None) => {}
            Err(error) => drop(seen.errors.insert(seq, error.to_string())),
        }
    }
    seen
}

/// Reports to an operator.
#[derive(Debug, Default)]
struct Told {
    words: String,
    /// Messages that may be lost.
    ranges: Vec<RangeInclusive<Seq>>,
}

impl Told {
    fn covers(&self, seq: Seq) -> bool {
        self.ranges.iter().any(|range| range.contains(&seq))
    }
}

/// Whether somebody speaks of this very file.
fn names(words: &str, path: &Path) -> bool {
    let name = path.file_name().expect("a file has a name").to_string_lossy();
    // Words call a segment by its number, and a marker what it is.
    let number = name.strip_suffix(".seg").and_then(|number| number.parse::<u64>().ok());
    let is_segment = |number| [':', ' '].iter().any(|end| words.contains(&format!("segment {number}{end}")));
    words.contains(&*name)
        || number.is_some_and(is_segment)
        || (name.starts_with("store") && words.contains("marker"))
}

fn look(kind: Kind, disk: &FaultyDisk) -> (Seen, Told) {
    let mut told = Told::default();
    let (store, report) = match kind.open(disk, 2) {
        Ok(opened) => opened,
        Err(words) => return (Seen::default(), Told { words, ..told }),
    };
    for (id, why) in &report.unreadable {
        told.words += &format!(" {:016x} {why}", id.0);
    }
    if !report.notices.is_empty() || !report.replay.problems.is_empty() {
        told.words += &format!(" {:?} {:?}", report.notices, report.replay.problems);
    }
    let Some(found) = report.streams.first() else { return (Seen::default(), told) };
    match store.open_stream(found.id, kind.config(), 200) {
        Err(error) => {
            told.words += &format!(" {error}");
            (Seen::default(), told)
        }
        Ok((stream, report)) => {
            for notice in &report.notices {
                told.words += &format!(" {notice}");
                if let Notice::DamagedEntries { sequences: Some(range), .. } = notice {
                    told.ranges.push(range.clone());
                }
            }
            let mut seen = see(&stream);
            match store.open_consumers(found.id, Durability::Synced, None) {
                Ok((consumers, report)) => {
                    let flat = |one: &Consumer| (one.name().to_owned(), one.state().clone());
                    seen.consumers = consumers.iter().map(|(_, one)| flat(one)).collect();
                    if !report.is_clean() {
                        told.words += &format!(" consumers.00000001: {report:?}");
                    }
                }
                Err(error) => told.words += &format!(" {error}"),
            }
            (seen, told)
        }
    }
}

/// Whether a check has something to say that is no mere note.
fn is_found_by_a_check(kind: Kind, disk: &FaultyDisk) -> bool {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let keys = kind.keys();
    let mut worst = Severity::Note;
    let told = &mut |finding: &Finding| worst = worst.max(finding.severity);
    let checked = verify::check(&disk, Path::new("/store"), keys.as_ref(), told);
    checked.is_err() || worst > Severity::Note
}

/// Whether every bit of a file counts. It does not in `headroom`, whose content nobody reads; in
/// the journal, which has padding and what earlier uses left; and in the newest segment, whose last
/// write cannot be told from one that never happened. What is allocated and was never written is
/// behind what [`used`] gives.
fn counts(disk: &FaultyDisk, path: &Path) -> bool {
    let name = path.file_name().expect("a file has a name").to_string_lossy();
    if name.ends_with(".seg") {
        let content = disk.read_all(path).expect("it is there");
        let trailer = content.len().checked_sub(TRAILER_BYTES);
        return trailer.is_some_and(|at| content[at..].starts_with(TRAILER_MAGIC));
    }
    name.starts_with("meta")
        || name.starts_with("manifest.")
        || name.starts_with("index.")
        || name.starts_with("store")
}

fn flip_everywhere(kind: Kind) {
    let (healthy, written) = kind.build();
    let (whole, told) = look(kind, &healthy.power_cycle(Survival::None));
    assert_eq!((told.words.as_str(), whole.errors.len()), ("", 0));
    let expected = written.iter().filter(|(seq, _)| !is_deleted(**seq));
    assert!(expected.eq(whole.messages.iter()), "{whole:?}");
    let (mut flips, mut reports, mut lost) = (0, 0, 0);
    for (path, length) in healthy.files() {
        let counts = counts(&healthy, &path);
        for offset in (0..length.min(used(&healthy, &path))).step_by(STEP as usize) {
            let disk = healthy.power_cycle(Survival::None);
            disk.flip_bit(&path, offset, (offset % 8) as u8).expect("there is such a byte");
            let place = format!("{kind:?}: {} at {offset}", path.display());
            if counts {
                assert!(is_found_by_a_check(kind, &disk), "{place}: a check finds nothing");
            }
            let (seen, told) = look(kind, &disk);
            flips += 1;
            reports += u64::from(!told.words.is_empty());
            lost = lost.max(compare(&whole, &written, &seen, &told, &path, &place));
        }
    }
    println!("{kind:?}: {flips} flips, {reports} reports, {lost} messages lost by one of them");
}

/// Holds what is there after a flip in `path` against what was there. Gives back how many messages
/// are missing.
fn compare(
    whole: &Seen,
    written: &BTreeMap<Seq, Kept>,
    seen: &Seen,
    told: &Told,
    path: &Path,
    place: &str,
) -> usize {
    for (seq, kept) in &seen.messages {
        assert_eq!(Some(kept), written.get(seq), "{place}: {seq} is another message");
        let is_back = !whole.messages.contains_key(seq);
        assert!(!is_back || names(&told.words, path), "{place}: {seq} was deleted and is back; {told:?}");
    }
    // Unless the stream itself cannot be opened, which is told above all.
    let is_other = !seen.messages.is_empty() && seen.consumers != whole.consumers;
    assert!(!is_other || names(&told.words, path), "{place}: {:?}; {told:?}", seen.consumers);
    let missing: Vec<Seq> =
        whole.messages.keys().copied().filter(|seq| !seen.messages.contains_key(seq)).collect();
    for seq in &missing {
        assert!(
            told.covers(*seq)
                || names(&told.words, path)
                || seen.errors.get(seq).is_some_and(|error| names(error, path)),
            "{place}: {seq} is missing without a word of it; {told:?}, {:?}",
            seen.errors
        );
    }
    missing.len()
}

/// Where a file's last byte is that is not zero.
fn used(disk: &FaultyDisk, path: &PathBuf) -> u64 {
    let content = disk.read_all(Path::new(path)).expect("it is there");
    content.iter().rposition(|byte| *byte != 0).map_or(0, |at| at as u64 + 1)
}

#[test]
fn of_plain_segments_that_are_not_sealed() {
    flip_everywhere(Kind { compression: Compression::None, is_encrypted: false, upkeep: false });
}

#[test]
fn of_sealed_segments_and_manifests() {
    flip_everywhere(Kind { compression: Compression::None, is_encrypted: false, upkeep: true });
}

#[test]
fn of_packed_and_encrypted_segments() {
    flip_everywhere(Kind { compression: Compression::S2, is_encrypted: true, upkeep: true });
}

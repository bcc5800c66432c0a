//! One bit of a small store is flipped, at many places of every file: what is opened then is what it was, or is
//! reported, and nothing else is lost than what the report speaks of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_store::cipher::CipherKind;
use myelin_store::disk::faulty::{FaultyDisk, Survival};
use myelin_store::entropy::SeededEntropy;
use myelin_store::keys::{Keys, MasterKey};
use myelin_store::{
    Admission, Compression, Durability, NewMessage, Seq, Store, StoreOptions, StoreReport, Stream,
    StreamConfig, Wait,
};

use crate::twin::Kept;

/// Bytes from one flip to the next; no divisor of anything.
const STEP: u64 = 5;
const MESSAGES: u64 = 40;

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

    fn open(self, disk: &FaultyDisk, turn: u64) -> Result<(Store, StoreReport), String> {
        let current = MasterKey::derive(b"key");
        let keys = Keys { kind: CipherKind::Aes256Gcm, current, previous: None };
        let options = StoreOptions {
            keys: self.is_encrypted.then_some(keys),
            journal_file_bytes: 16 << 10,
            headroom_bytes: 8 << 10,
            ..StoreOptions::new("/store")
        };
        let entropy = Arc::new(SeededEntropy::new(turn));
        Store::open(Arc::new(disk.clone()), options, entropy).map_err(|error| error.to_string())
    }

    /// A store with everything durable.
    fn build(self) -> FaultyDisk {
        let disk = FaultyDisk::new(3);
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
            store.journal().round_now(&|| n).expect("a healthy disk");
            if n % 6 == 0 {
                stream.delete(n - 3, n as i64).expect("there is room");
            }
        }
        store.journal().round_now(&|| MESSAGES).expect("a healthy disk");
        while let Some(job) = stream.next_job(100).filter(|_| self.upkeep) {
            stream.finish(job.run(), 100).expect("a healthy disk");
        }
        drop((stream, store));
        disk.power_cycle(Survival::None)
    }
}

/// What is there, and what could not be read.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    messages: BTreeMap<Seq, Kept>,
    errors: Vec<String>,
}

fn see(stream: &Stream) -> Seen {
    let mut seen = Seen::default();
    let (reader, mut buffer) = (stream.reader(), Vec::new());
    for seq in 1..=MESSAGES + 2 {
        match reader.get(seq, Wait::Allowed, &mut buffer) {
            Ok(Some(message)) => drop(seen.messages.insert(seq, Kept::of(&message))),
            Ok(None) => {}
            Err(error) => seen.errors.push(error.to_string()),
        }
    }
    seen
}

/// What an operator is told; empty if nothing.
fn look(kind: Kind, disk: &FaultyDisk) -> (Seen, String) {
    let (store, report) = match kind.open(disk, 2) {
        Ok(opened) => opened,
        Err(why) => return (Seen::default(), why),
    };
    let mut told = String::new();
    if !report.unreadable.is_empty() || !report.notices.is_empty() || !report.replay.problems.is_empty() {
        told = format!("{report:?}");
    }
    let Some(found) = report.streams.first() else { return (Seen::default(), told) };
    match store.open_stream(found.id, kind.config(), 200) {
        Err(error) => (Seen::default(), format!("{told} {error}")),
        Ok((stream, report)) => {
            for notice in &report.notices {
                told += &format!(" {notice}");
            }
            (see(&stream), told)
        }
    }
}

fn flip_everywhere(kind: Kind) {
    let healthy = kind.build();
    let (whole, told) = look(kind, &healthy.power_cycle(Survival::None));
    assert_eq!((told.as_str(), whole.errors.len()), ("", 0));
    let (mut flips, mut reports, mut lost) = (0, 0, 0);
    for (path, length) in healthy.files() {
        for offset in (0..length).step_by(STEP as usize).take_while(|offset| *offset < used(&healthy, &path))
        {
            let disk = healthy.power_cycle(Survival::None);
            disk.flip_bit(&path, offset, (offset % 8) as u8).expect("there is such a byte");
            let (seen, told) = look(kind, &disk);
            flips += 1;
            reports += u64::from(!told.is_empty());
            if seen == whole {
                continue;
            }
            lost = lost.max(whole.messages.keys().filter(|seq| !seen.messages.contains_key(seq)).count());
            let place = format!("{kind:?}: {} at {offset}", path.display());
            assert!(!told.is_empty() || !seen.errors.is_empty(), "{place}: silently {seen:?}");
            // A message that was deleted may be there again, if a report says so.
            for (seq, kept) in &seen.messages {
                let was_deleted = whole.messages.get(seq).is_none_or(|was| was != kept);
                assert!(!was_deleted || !told.is_empty(), "{place}: {seq} is {kept:?}");
            }
        }
    }
    println!("{kind:?}: {flips} flips, {reports} reports, {lost} messages lost by one of them");
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

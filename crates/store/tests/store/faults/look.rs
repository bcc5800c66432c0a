//! Contents and reports of a damaged store: as an operator and as clients see it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::real::RealDisk;
use myelin_store::consumer::{ConsumerState, Consumers};
use myelin_store::entropy::SeededEntropy;
use myelin_store::repair::{self, RepairOptions};
use myelin_store::verify::{self, Finding, Severity};
use myelin_store::{Admission, NewMessage, Seq, Store, StoreReport, Stream, StreamReport, Wait};

use super::image::{NOW, config, keys, open};

/// Contents of one stream.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) messages: BTreeMap<Seq, Vec<u8>>,
    /// Errors that a reader gets instead of messages.
    pub(super) errors: BTreeMap<Seq, String>,
    /// Messages that the start reports as lost.
    pub(super) told: Vec<RangeInclusive<Seq>>,
    pub(super) consumers: BTreeMap<String, ConsumerState>,
    /// The sequence of the next message.
    pub(super) next: Seq,
}

/// Outcome of a start.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// Error with which the store was not opened.
    pub(super) refused: Option<String>,
    /// Streams that were opened.
    pub(super) streams: BTreeMap<String, Seen>,
    /// Reports of the start, each with the stream in front that it speaks of.
    pub(super) words: Vec<String>,
}

/// Outcome of a check.
#[derive(Debug, Default)]
pub(super) struct Check {
    /// Exit code of `myelin store check`.
    pub(super) code: u8,
    /// Findings that are more than notes.
    pub(super) findings: Vec<String>,
}

pub(super) fn check(root: &Path) -> Check {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut findings = Vec::new();
    let told = &mut |finding: &Finding| {
        if finding.severity > Severity::Note {
            findings.push(finding.to_string());
        }
    };
    let code = match verify::check(&disk, root, Some(&keys()), told) {
        Ok(summary) if summary.is_sound() => 0,
        Ok(_) => 1,
        Err(error) => {
            findings.push(error.to_string());
            2
        }
    };
    Check { code, findings }
}

/// Repairs the store as `myelin store repair --apply` does.
pub(super) fn repair(root: &Path) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let options = RepairOptions {
        apply: true,
        keys: Some(keys()),
        given: Vec::new(),
        shape: &|meta| config(&meta.name),
        entropy: Arc::new(SeededEntropy::new(99)),
        now: NOW,
    };
    repair::repair(&disk, root, &options, &mut |_| {}).expect("nobody uses it");
}

/// Opens the store, reads everything, publishes a message to each stream, and stops.
pub(super) fn start(root: &Path, turn: u64) -> Start {
    let mut start = Start::default();
    let (store, report) = match open(root, turn, true) {
        Ok(opened) => opened,
        Err(error) => return Start { refused: Some(error.to_string()), ..start },
    };
    note_store(&report, &mut start.words);
    let mut opened = Vec::new();
    for found in &report.streams {
        let name = &found.meta.name;
        match store.open_stream(found.id, config(name), NOW) {
            Ok((stream, report)) => {
                let mut seen = see(&stream);
                note_stream(name, &report, &mut seen, &mut start.words);
                let consumers = see_consumers(&store, &stream, name, &mut seen, &mut start.words);
                start.streams.insert(name.clone(), seen);
                opened.push((name, stream, consumers));
            }
            Err(error) => start.words.push(format!("{name}: {error}")),
        }
    }
    for (name, stream, _) in &mut opened {
        let seen = start.streams.get_mut(*name).expect("it was just opened");
        match publish(stream) {
            Ok(seq) => seen.next = seq,
            Err(error) => start.words.push(format!("{name}: {error}")),
        }
    }
    stop(&store);
    start
}

fn stop(store: &Store) {
    store.close(&|| NOW.unsigned_abs()).expect("a healthy disk");
}

fn note_store(report: &StoreReport, words: &mut Vec<String>) {
    words.extend(report.unreadable.iter().map(|(id, why)| format!("stream {:016x}: {why}", id.0)));
    words.extend(report.replay.problems.iter().map(|problem| format!("journal: {problem}")));
    words.extend(report.replay.kept.iter().map(|path| format!("journal: kept {}", path.display())));
    words.extend(report.notices.iter().map(ToString::to_string));
}

fn note_stream(name: &str, report: &StreamReport, seen: &mut Seen, words: &mut Vec<String>) {
    words.extend(report.notices.iter().map(|notice| format!("{name}: {notice}")));
    seen.told.extend(report.lost.iter().map(|lost| lost.sequences.clone()));
}

fn see(stream: &Stream) -> Seen {
    let mut seen = Seen::default();
    let (reader, mut buffer) = (stream.reader(), Vec::new());
    for seq in 1..=stream.state().totals.last_seq {
        match reader.get(seq, Wait::Allowed, &mut buffer) {
            Ok(Some(message)) => drop(seen.messages.insert(seq, message.payload.to_vec())),
            Ok(None) => {}
            Err(error) => drop(seen.errors.insert(seq, error.to_string())),
        }
    }
    seen
}

fn see_consumers(
    store: &Store,
    stream: &Stream,
    name: &str,
    seen: &mut Seen,
    words: &mut Vec<String>,
) -> Option<Consumers> {
    match store.open_consumers(stream.id(), stream.config().durability, None) {
        Ok((mut consumers, report)) => {
            words.extend(report.notices().iter().map(|notice| format!("{name}: {notice}")));
            words.extend(store.put_away(&mut consumers).iter().map(|notice| format!("{name}: {notice}")));
            let states = consumers.iter().map(|(_, one)| (one.name().to_owned(), one.state().clone()));
            seen.consumers = states.collect();
            Some(consumers)
        }
        Err(error) => {
            words.push(format!("{name}: {error}"));
            None
        }
    }
}

/// The message after all others.
const AFTER: &[u8] = b"after";

fn publish(stream: &mut Stream) -> Result<Seq, String> {
    let message = NewMessage { timestamp: NOW, subject: b"after", payload: AFTER, ..NewMessage::default() };
    let mut outcomes = Vec::new();
    stream.append(&[message], Admission::Granted, NOW, &mut outcomes).map_err(|error| error.to_string())?;
    outcomes[0].map_err(|refusal| format!("{refusal:?}"))
}

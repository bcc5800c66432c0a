//! Reads a consumer log from its first entry to its last.
//!
//! Owns what follows from bytes that are no entry: with entries behind them they are a bad range
//! and the consumers that missed something are doubted; without, they are a torn end. Must never
//! panic nor hang, whatever the bytes, nor take more memory than a small multiple of the file.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

use super::bytes::{ByteReader, MalformedBytes};
use super::entry::{EntrySearch, FoundEntry, LogContext};
use super::header::{HEADER_BYTES, LogHeader};
use super::report::{Affected, BadBytes, BadRange, LogReport, Torn};
use super::resume::{Belief, ConsumerTable, Resumed};
use super::room;
use super::{AckRules, ConsumerId, ConsumerState};
use crate::StreamId;

/// Contents of a log, for tools and tests; a stream reads its own with `Consumers::open`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReplay {
    /// In the order of their ids.
    pub consumers: Vec<Replayed>,
    /// Faults that were found.
    pub report: LogReport,
}

/// A consumer as a log tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Its id.
    pub id: ConsumerId,
    /// Its name.
    pub name: Box<str>,
    /// Its rules.
    pub rules: AckRules,
    /// Its configuration.
    pub config: Box<[u8]>,
    /// Its state.
    pub state: ConsumerState,
}

/// Reads the log `number` of `stream`, which is not encrypted. `None` if the header is not one.
#[must_use]
pub fn replay(mut file: Vec<u8>, stream: StreamId, number: u64) -> Option<LogReplay> {
    let header = LogHeader::decode(&file, stream, number).ok().filter(|header| header.cipher.is_none())?;
    let read = read(&mut file, &header, &LogContext::new(&header, None));
    let consumers = read.consumers.into_iter().map(|(id, resumed)| Replayed {
        id,
        name: resumed.definition.name,
        rules: resumed.definition.rules,
        config: resumed.definition.config,
        state: resumed.state,
    });
    Some(LogReplay { consumers: consumers.collect(), report: read.report })
}

/// Result of reading a log.
#[derive(Debug)]
pub(super) struct ReplayResult {
    pub(super) consumers: BTreeMap<ConsumerId, Resumed>,
    pub(super) next_consumer: u64,
    /// Where the entries end.
    pub(super) end: u64,
    /// As [`LogHeader::applied`].
    pub(super) applied: Option<u64>,
    pub(super) report: LogReport,
    /// Entries that could be opened.
    pub(super) entries: u64,
}

/// Reads a log whose header is known. Encrypted payloads are decrypted in place.
pub(super) fn read(file: &mut [u8], header: &LogHeader, frame: &LogContext) -> ReplayResult {
    let mut reading = ReplayState {
        table: ConsumerTable::new(header.next_consumer),
        rooms: room::rooms(file, frame),
        entries: 0,
        report: LogReport { file: Some(header.number), ..LogReport::default() },
    };
    let mut at = HEADER_BYTES.min(file.len());
    let mut present = None;
    let mut budget = file.len().saturating_mul(4).saturating_add(1 << 20);
    let image_end = usize::try_from(header.image_end).unwrap_or(usize::MAX);
    while at < file.len() {
        if present.is_none() && at >= image_end {
            present = Some(reading.table.consumers.len());
        }
        let found = frame.find(file, at);
        match found {
            Some(entry) => {
                reading.entry(file, frame, &entry);
                at = entry.end();
            }
            None if is_zero(&file[at..]) => break,
            None => match frame.find_next(file, at, &mut budget) {
                // Read again, now that it is what was written.
                EntrySearch::FoundEntry(next) if reading.correct(file, frame, at, next.at) => {}
                EntrySearch::FoundEntry(next) => {
                    reading.bad(at, next.at, BadBytes::Unreadable);
                    at = next.at;
                }
                EntrySearch::Nothing if reading.correct_last(file, frame, at) => {}
                EntrySearch::Nothing => {
                    reading.torn(file, at);
                    break;
                }
                EntrySearch::GivenUp => {
                    reading.bad(at, file.len(), BadBytes::Unreadable);
                    at = file.len();
                }
            },
        }
    }
    let present = present.unwrap_or(reading.table.consumers.len());
    reading.finish(header, at, image_end, present)
}

/// Reports of an encrypted log without its key where no entries are.
pub(super) fn structure(file: &[u8], header: &LogHeader, frame: &LogContext) -> LogReport {
    let mut report = LogReport { file: Some(header.number), ..LogReport::default() };
    let mut at = HEADER_BYTES.min(file.len());
    let mut budget = file.len().saturating_mul(4).saturating_add(1 << 20);
    while at < file.len() && !is_zero(&file[at..]) {
        if let Some(entry) = frame.find(file, at) {
            at = entry.end();
            continue;
        }
        let next = match frame.find_next(file, at, &mut budget) {
            EntrySearch::FoundEntry(next) => next.at,
            EntrySearch::Nothing if at as u64 >= header.image_end => {
                report.end = at as u64;
                report.torn = Some(Torn { offset: at as u64, bytes: (file.len() - at) as u64 });
                return report;
            }
            EntrySearch::Nothing | EntrySearch::GivenUp => file.len(),
        };
        report.bad.push(BadRange { range: at as u64..next as u64, fault: BadBytes::Unreadable });
        at = next;
    }
    report.end = at as u64;
    let image_end = header.image_end.min(file.len() as u64);
    if (at as u64) < image_end {
        report.bad.push(BadRange { range: at as u64..image_end, fault: BadBytes::Unreadable });
    }
    report
}

/// Zeros that an entry may end with and that are tried.
const MOST_ZEROS: usize = 16;

/// The end of the last byte that is not 0.
fn used(file: &[u8]) -> usize {
    file.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// State of a replay: what is known so far.
#[derive(Debug)]
struct ReplayState {
    table: ConsumerTable,
    /// Where many pending messages are to be expected.
    rooms: HashMap<ConsumerId, usize, RandomState>,
    entries: u64,
    report: LogReport,
}

impl ReplayState {
    fn entry(&mut self, file: &mut [u8], frame: &LogContext, entry: &FoundEntry) {
        let understood = frame.open(file, entry).and_then(|payload| self.payload(entry, payload));
        if understood.is_ok() {
            self.entries += 1;
            return;
        }
        self.report
            .bad
            .push(BadRange { range: entry.at as u64..entry.end() as u64, fault: BadBytes::Impossible });
        match self.table.consumers.get_mut(&entry.id) {
            Some(consumer) => consumer.doubt(),
            None => {
                self.table.orphans.insert(entry.id);
            }
        }
    }

    fn payload(&mut self, entry: &FoundEntry, payload: &[u8]) -> Result<(), MalformedBytes> {
        let mut reader = ByteReader::new(payload);
        let serial = reader.number()?;
        let room = self.rooms.get(&entry.id).copied().unwrap_or(0);
        self.table.apply((entry.id, entry.kind), Some(serial), reader, room)
    }

    /// Whether the bytes from `from` to `to` are an entry, but for one bit; that is put right.
    fn correct(&mut self, file: &mut [u8], frame: &LogContext, from: usize, to: usize) -> bool {
        let bit = frame.correct(file, from, to);
        self.report.corrected.extend(bit.map(|bit| bit as u64));
        bit.is_some()
    }

    /// Puts one wrong bit of the last entry right. A few zeros at its end may be part of it.
    fn correct_last(&mut self, file: &mut [u8], frame: &LogContext, from: usize) -> bool {
        let used = used(file);
        (used..=file.len().min(used + MOST_ZEROS)).any(|to| self.correct(file, frame, from, to))
    }

    fn bad(&mut self, from: usize, to: usize, fault: BadBytes) {
        self.report.bad.push(BadRange { range: from as u64..to as u64, fault });
        self.table.consumers.values_mut().for_each(Resumed::suspect);
    }

    fn torn(&mut self, file: &[u8], at: usize) {
        let used = file[at..].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.report.torn = Some(Torn { offset: at as u64, bytes: used as u64 });
    }

    fn finish(mut self, header: &LogHeader, end: usize, image_end: usize, present: usize) -> ReplayResult {
        if end < image_end {
            // The image was synced before the file got its name: this is no torn end.
            self.report.torn = None;
            self.bad(end, image_end, BadBytes::Unreadable);
        }
        if !self.report.bad.is_empty() {
            let present = u32::try_from(present).unwrap_or(u32::MAX);
            self.report.missing = header.consumers.saturating_sub(present);
        }
        for (id, consumer) in &mut self.table.consumers {
            consumer.forget_doubtful();
            let how = match consumer.belief {
                Belief::Sound => continue,
                Belief::Suspect => Affected::Perhaps,
                Belief::Doubt { .. } => Affected::Rewound,
            };
            self.report.affected.push((*id, consumer.definition.name.clone(), how));
        }
        self.report.end = end as u64;
        self.report.orphans = self.table.orphans.into_iter().collect();
        ReplayResult {
            consumers: self.table.consumers,
            next_consumer: self.table.next,
            end: end as u64,
            applied: header.applied,
            report: self.report,
            entries: self.entries,
        }
    }
}

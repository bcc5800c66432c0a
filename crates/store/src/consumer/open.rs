//! Finds and reads a stream's consumer logs when the store starts.
//!
//! Owns the choice among them: the highest that is complete. It writes nothing and removes nothing;
//! what may go or must be kept for an operator is told to the caller, and `log` sees to it that
//! what was read is durable.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use myelin_disk::Disk;

use super::entry::LogContext;
use super::header::{self, HEADER_BYTES, HeaderFault, LogFileName, LogHeader};
use super::replay::{self, ReplayResult};
use super::report::{LogReport, SetBack};
use super::tail::Tails;
use crate::StreamId;
use crate::cipher::{Cipher, CipherKind};
use crate::entropy::Entropy;
use crate::keys::StreamKey;

/// Where a stream's consumer logs are, and with what they are written.
#[derive(Clone, Debug)]
pub struct LogStorage {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The stream's directory.
    pub directory: PathBuf,
    /// The stream.
    pub stream: StreamId,
    /// Appended files that carry the logs.
    pub tails: Arc<dyn Tails>,
    /// For salts.
    pub entropy: Arc<dyn Entropy>,
    /// The stream's key, and the cipher for new logs. `None` writes them in the clear.
    pub key: Option<(CipherKind, StreamKey)>,
}

impl LogStorage {
    /// Header of a file that is begun, with a salt of its own.
    pub(super) fn new_header(&self, number: u64, next_consumer: u64, applied: Option<u64>) -> LogHeader {
        let mut salt = [0; 16];
        self.entropy.fill(&mut salt);
        LogHeader {
            stream: self.stream,
            number,
            next_consumer,
            image_end: 0,
            consumers: 0,
            salt,
            cipher: self.key.as_ref().map(|(kind, _)| *kind),
            applied,
        }
    }

    pub(super) fn cipher(&self, header: &LogHeader) -> Option<Cipher> {
        let kind = header.cipher?;
        let (_, key) = self.key.as_ref()?;
        Some(key.file_cipher(kind, "consumers", header.number, &header.salt))
    }
}

/// How far a stream's consumer logs had come, by what is not one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// The number of the log; 0 if nothing is known.
    pub log: u64,
    /// Where its entries ended at least.
    pub end: u64,
    /// How many consumers there were.
    pub consumers: u32,
    /// Up to where it was synced at least, with its name.
    pub synced: u64,
}

impl Stated {
    /// Compares with the log that was found: returns what that lacks.
    pub(crate) fn compare(&self, report: &LogReport, present: usize) -> Option<SetBack> {
        let Self { log, end, consumers, .. } = *self;
        let now = report.file.filter(|file| *file >= log).map(|file| (file, report.end));
        let is_there = now.is_some_and(|(file, now)| file > log || now >= end);
        let lost = consumers.saturating_sub(u32::try_from(present).unwrap_or(u32::MAX));
        let is_known = log > 0 && !is_there;
        is_known.then_some(SetBack { log, end, now: now.map(|(_, now)| now), consumers, lost })
    }
}

/// Why the consumers of a stream cannot be known. Nothing was changed on the disk.
#[derive(Debug)]
pub enum OpenError {
    /// The disk does not give the directory or a log.
    Io(io::Error),
    /// A log is encrypted, and there is no key or another one.
    Locked(PathBuf),
    /// A log was written by a later version.
    Version(PathBuf),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read consumers: {}", myelin_stdx::os_error::words(error)),
            Self::Locked(path) => {
                write!(f, "{} is encrypted: configure the key it was written with", path.display())
            }
            Self::Version(path) => {
                write!(f, "{} was written by a later version: use a newer server", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A log that is needed no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obsolete {
    /// The file.
    pub path: PathBuf,
    /// Fate of the file.
    pub fate: Fate,
}

/// Fate of a file that is needed no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All it said stands elsewhere: remove it.
    Remove,
    /// Parts of it were not understood: move it to quarantine.
    Quarantine,
}

/// Consumers as they were found on the disk.
#[derive(Debug)]
pub(super) struct OpenedConsumers {
    pub(super) read: ReplayResult,
    /// The log to go on with, if it can be gone on with.
    pub(super) log: Option<OpenedLog>,
    /// Logs that become obsolete with the next one: the one that was read, and damaged ones. Until
    /// then their numbers must stay where the next start finds them, because no number may come
    /// again.
    pub(super) current: Vec<Obsolete>,
    pub(super) highest: u64,
    pub(super) obsolete: Vec<Obsolete>,
}

#[derive(Debug)]
pub(super) struct OpenedLog {
    pub(super) header: LogHeader,
    pub(super) file: Arc<dyn myelin_disk::File>,
    /// Whether it is known that it was synced up to its end.
    pub(super) is_synced: bool,
}

struct Candidate {
    number: u64,
    path: PathBuf,
    file: Arc<dyn myelin_disk::File>,
    length: u64,
    header: Result<LogHeader, HeaderFault>,
    /// Of the header.
    corrected: Option<usize>,
}

/// Reads what there is, and compares it with what is `stated`.
pub(super) fn open(place: &LogStorage, stated: Stated) -> Result<OpenedConsumers, OpenError> {
    // No number may come again, not even that of a log that is gone.
    let highest = stated.log;
    let mut opened =
        OpenedConsumers { read: nothing(), log: None, current: Vec::new(), highest, obsolete: Vec::new() };
    let mut candidates = list(place, &mut opened)?;
    candidates.sort_by_key(|candidate| std::cmp::Reverse((candidate.is_complete(), candidate.number)));
    let mut unusable = Vec::new();
    let mut chosen: Option<Candidate> = None;
    for candidate in candidates {
        opened.highest = opened.highest.max(candidate.number);
        match candidate.header {
            Ok(_) if chosen.is_none() => chosen = Some(candidate),
            // Newer than the one that counts, so it is not complete; but it was, before it got its
            // name.
            Ok(_) if chosen.as_ref().is_some_and(|chosen| chosen.number < candidate.number) => {
                unusable.push(header::file_name(candidate.number));
                opened.current.push(Obsolete { path: candidate.path, fate: Fate::Quarantine });
            }
            Ok(_) | Err(HeaderFault::Empty) => {
                opened.obsolete.push(Obsolete { path: candidate.path, fate: Fate::Remove });
            }
            Err(HeaderFault::Version(_)) => return Err(OpenError::Version(candidate.path)),
            Err(HeaderFault::Damaged | HeaderFault::Elsewhere) => {
                unusable.push(header::file_name(candidate.number));
                opened.current.push(Obsolete { path: candidate.path, fate: Fate::Quarantine });
            }
        }
    }
    if let Some(Candidate { path, file, length, header: Ok(header), corrected, .. }) = chosen {
        opened.choose(place, path, (file, length), header, corrected)?;
    }
    opened.read.report.unusable = unusable;
    opened.compare(stated);
    Ok(opened)
}

fn nothing() -> ReplayResult {
    ReplayResult {
        consumers: BTreeMap::new(),
        next_consumer: 1,
        end: 0,
        applied: None,
        report: LogReport::default(),
        entries: 0,
    }
}

fn list(place: &LogStorage, opened: &mut OpenedConsumers) -> Result<Vec<Candidate>, OpenError> {
    let mut candidates = Vec::new();
    let entries = match place.disk.list(&place.directory) {
        // A stream that has stored nothing has no directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries?,
    };
    for entry in entries {
        if entry.is_directory {
            continue;
        }
        let path = place.directory.join(&entry.name);
        match header::read_name(&entry.name) {
            LogFileName::Foreign => {}
            LogFileName::Temporary => opened.obsolete.push(Obsolete { path, fate: Fate::Remove }),
            LogFileName::Log(number) => {
                let file = place.disk.open(&path)?;
                let length = file.len()?;
                let mut head =
                    vec![0; usize::try_from(length).map_or(HEADER_BYTES, |length| length.min(HEADER_BYTES))];
                let got = file.read_at(&mut head, 0)?;
                let (header, corrected) = LogHeader::decode_corrected(&mut head[..got], place.stream, number);
                candidates.push(Candidate { number, path, file, length, header, corrected });
            }
        }
    }
    Ok(candidates)
}

impl Candidate {
    fn is_complete(&self) -> bool {
        self.header.is_ok_and(|header| header.image_end <= self.length)
    }
}

impl OpenedConsumers {
    /// A log that is shorter than it was is not gone on with: its end would come a second time. It
    /// is kept for an operator.
    fn compare(&mut self, stated: Stated) {
        self.read.report.set_back = stated.compare(&self.read.report, self.read.consumers.len());
        if self.read.report.set_back.is_some() {
            self.log = None;
            self.current.iter_mut().for_each(|one| one.fate = Fate::Quarantine);
        }
        if let Some(log) = &mut self.log {
            log.is_synced = log.header.number == stated.log && self.read.end <= stated.synced;
        }
    }

    fn choose(
        &mut self,
        place: &LogStorage,
        path: PathBuf,
        (file, length): (Arc<dyn myelin_disk::File>, u64),
        header: LogHeader,
        corrected: Option<usize>,
    ) -> Result<(), OpenError> {
        let cipher = place.cipher(&header);
        if header.cipher.is_some() && cipher.is_none() {
            return Err(OpenError::Locked(path));
        }
        let mut bytes = load(&*file, length)?;
        self.read = replay::read(&mut bytes, &header, &LogContext::new(&header, cipher));
        self.read.report.corrected.extend(corrected.map(|bit| bit as u64));
        let report = &self.read.report;
        if header.cipher.is_some() && self.read.entries == 0 && !report.bad.is_empty() {
            return Err(OpenError::Locked(path));
        }
        // What was corrected stands in the next log as it should.
        let understood = report.bad.is_empty()
            && report.orphans.is_empty()
            && report.torn.is_none()
            && report.corrected.is_empty();
        // An encrypted log is never gone on with after a restart: a place that was written to is
        // not written again.
        if understood && header.cipher.is_none() && place.key.is_none() {
            self.log = Some(OpenedLog { header, file, is_synced: false });
        }
        let fate = if understood { Fate::Remove } else { Fate::Quarantine };
        self.current.push(Obsolete { path, fate });
        Ok(())
    }
}

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// The whole file. It grows with what is read, so that a file with a hole of a terabyte is an error
/// and no abort.
pub(super) fn load(file: &dyn myelin_disk::File, length: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    while bytes.len() < length {
        let from = bytes.len();
        bytes.resize(length.min(from + CHUNK), 0);
        let got = file.read_at(&mut bytes[from..], from as u64)?;
        bytes.truncate(from + got);
        if got == 0 {
            break;
        }
    }
    Ok(bytes)
}

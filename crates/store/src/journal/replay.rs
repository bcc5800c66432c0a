//! The replay: writes what the journal holds into the files it belongs to, and begins a fresh
//! journal.
//!
//! Everything complete is applied in order; a round whose last part is missing was never reported
//! durable and is cut. What cannot be applied is reported, and the journal files that hold it are
//! set aside, not written again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::{Disk, File, is_full, write_again};

use super::Journal;
use super::block::{BlockChunk, Builder, Chunks};
use super::files::{Files, FreeFile, set_aside};
use super::scan::{JournalScan, Scanned, ScannedBlock, read_block, scan};
use crate::{FileId, StreamId};

/// A block may leave a hole in a file only after damage, and no larger one.
const WIDEST_HOLE: u64 = 64 * 1024 * 1024;

/// The first bytes for a file that a replay comes across.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayTarget {
    /// Which file.
    pub file: FileId,
    /// Which rewrite of it.
    pub generation: u64,
    /// Where the bytes belong. 0: the file may be missing, for only the journal made it durable.
    pub offset: u64,
}

/// Decision about the bytes of a file.
#[derive(Debug)]
pub enum Resolution {
    /// Write them. If the file had to be created, or was not synced with its directory, that
    /// directory.
    Apply(Arc<dyn File>, Option<PathBuf>),
    /// The file was rewritten, sealed and synced, or removed on purpose: durably, for its bytes are
    /// let go of.
    Skip,
    /// Nobody knows it.
    Unknown,
}

/// Something that an operator has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Rounds are missing between two that are there: damage, for only the end can be torn.
    MissingRounds {
        /// The file that holds the later round.
        file: PathBuf,
        /// The last round before.
        after: u64,
        /// The first round behind.
        before: u64,
    },
    /// The beginning of what is needed is missing.
    MissingStart {
        /// The number of the journal file that should be there.
        needed: u64,
    },
    /// A file that was not written by this journal, or is damaged as a whole.
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// A block says nonsense though its checksum is right.
    Malformed {
        /// The journal file.
        file: PathBuf,
        /// Where the block begins.
        offset: u64,
    },
    /// Bytes for a file that nobody knows.
    UnknownTarget {
        /// The file.
        file: FileId,
        /// Which rewrite of it.
        generation: u64,
        /// How many.
        bytes: u64,
    },
    /// Bytes could not be written where they belong.
    NotApplied {
        /// The file.
        file: FileId,
        /// Which rewrite of it.
        generation: u64,
        /// Error of the disk.
        error: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingRounds { file, after, before } => {
                write!(formatter, "{}: nothing valid between rounds {after} and {before}", file.display())
            }
            Self::MissingStart { needed } => {
                write!(formatter, "journal file number {needed} is missing or damaged")
            }
            Self::Foreign { file } => write!(formatter, "{}: not a file of this journal", file.display()),
            Self::Malformed { file, offset } => {
                write!(formatter, "{}: the block at {offset} is malformed", file.display())
            }
            Self::UnknownTarget { file, bytes, .. } => {
                write!(
                    formatter,
                    "{bytes} bytes for {file}, which is not there: they stay in the journal file"
                )
            }
            Self::NotApplied { file, error, .. } => {
                write!(formatter, "what the journal holds of {file} could not be written there: {error}")
            }
        }
    }
}

/// Report of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Complete rounds applied, and the bytes and files in them.
    pub rounds: u64,
    /// Bytes written to files.
    pub bytes: u64,
    /// Files written to.
    pub files: u64,
    /// Bytes that nobody needs any more.
    pub skipped: u64,
    /// Rounds cut because they were torn. Nothing of them was reported durable.
    pub cut: u64,
    /// Problems that a replay met.
    pub problems: Vec<Problem>,
    /// Journal files set aside, now or earlier.
    pub kept: Vec<PathBuf>,
    /// Whether no block was found at all, and no file that an earlier start has set aside: so it
    /// is before the first start, and where the files are gone.
    pub is_blank: bool,
    /// Names in the journal's directory that are none of ours, left alone.
    pub unknown: Vec<PathBuf>,
    /// Bits that were not what was written, in places where it can be told which it is: counted
    /// from the start of the file. Nothing is lost by them.
    pub corrected: Vec<(PathBuf, u64)>,
}

/// Contents of the journal after a start.
pub struct JournalReplay {
    journal: Arc<Journal>,
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    scan: Option<JournalScan>,
}

impl JournalReplay {
    pub(super) fn prepare(journal: Arc<Journal>, disk: Arc<dyn Disk>, directory: &Path) -> io::Result<Self> {
        disk.make_directory(directory)?;
        if let Some(parent) = directory.parent() {
            disk.sync_directory(parent)?;
        }
        let scan = scan(&*disk, directory, journal.config.store_id)?;
        if let Some((path, version)) = &scan.newer {
            let text = format!("{}: journal version {version} is newer than this program", path.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(Self { journal, disk, directory: directory.to_path_buf(), scan: Some(scan) })
    }

    /// Applies everything, syncs the files and begins a fresh journal file: rounds work from then
    /// on. `resolve` is asked once per file and generation. An error is one of the disk; nothing is
    /// lost by it, and a later start can try again. A second call finds nothing to do.
    pub fn run(
        &mut self,
        resolve: &mut dyn FnMut(&ReplayTarget) -> io::Result<Resolution>,
    ) -> io::Result<ReplayReport> {
        let mut report = ReplayReport::default();
        let Some(mut scan) = self.scan.take() else { return Ok(report) };
        report.kept = std::mem::take(&mut scan.kept);
        report.unknown = std::mem::take(&mut scan.unknown);
        report.corrected = std::mem::take(&mut scan.corrected);
        report.is_blank = report.kept.is_empty() && scan.files.iter().all(|file| file.blocks.is_empty());
        let mut sequence = Sequence::assemble(&scan.files, &mut report);
        let mut applying = Applying {
            scan: &scan,
            report: &mut report,
            resolve,
            targets: HashMap::new(),
            dropped: HashSet::new(),
            keep: std::mem::take(&mut sequence.keep),
        };
        applying.collect_dropped(&sequence)?;
        applying.apply(&sequence)?;
        applying.sync(&*self.disk)?;
        let keep = applying.keep;
        self.begin(scan, &sequence, &keep, &mut report)?;
        Ok(report)
    }

    fn begin(
        &self,
        scan: JournalScan,
        sequence: &Sequence,
        keep: &HashSet<usize>,
        report: &mut ReplayReport,
    ) -> io::Result<()> {
        rewrite_last_round(&scan)?;
        let mut files = Files {
            disk: Arc::clone(&self.disk),
            directory: self.directory.clone(),
            store: self.journal.config.store_id,
            file_bytes: self.journal.config.file_bytes,
            wanted: self.journal.config.files.max(2),
            free: Vec::new(),
            retired: Vec::new(),
            live: Default::default(),
            next_number: sequence.last_number + 1,
            next_round: sequence.last_round + 1,
            previous: sequence.last_round,
            recorded: sequence.needed,
            next_name: scan.next_name,
            builder: Builder::default(),
            looked_at: (0, 0),
        };
        let mut aside = Vec::new();
        for (index, scanned) in scan.files.into_iter().enumerate() {
            let slot = FreeFile { file: scanned.file, path: scanned.path, capacity: scanned.length };
            if keep.contains(&index) {
                aside.push((slot.path, scanned.number));
            } else {
                files.adopt(slot, scanned.number);
            }
        }
        files.begin_anew()?;
        for (path, number) in aside {
            // What is foreign has no number that is sure to be used once.
            let number = if number == 0 { files.take_number() } else { number };
            report.kept.push(set_aside(&*self.disk, &self.directory, &path, number)?);
        }
        *self.journal.lock().map_err(|failed| io::Error::other(failed.to_string()))? = Some(files);
        Ok(())
    }
}

/// Makes the last round durable. The process that wrote it may have been killed before its sync, or
/// after one that failed; and what it says of older files, that they are not needed, counts for
/// writing over them only when it is durable. Every earlier round is, because the next one began.
fn rewrite_last_round(scan: &JournalScan) -> io::Result<()> {
    let heads = scan.files.iter().flat_map(|file| file.blocks.iter().map(|block| block.header.head));
    let sure = heads.map(|head| head.previous).max().unwrap_or(0);
    for scanned in &scan.files {
        let mut last = scanned.blocks.iter().filter(|block| block.header.head.round > sure);
        let Some(first) = last.next() else { continue };
        let end = last.next_back().unwrap_or(first);
        write_again(&*scanned.file, first.offset, end.offset + end.header.length as u64)?;
    }
    Ok(())
}

/// The complete rounds, in order.
struct Sequence {
    /// Index of the file, and the block.
    blocks: Vec<(usize, ScannedBlock)>,
    needed: u64,
    last_number: u64,
    last_round: u64,
    /// Files to be set aside.
    keep: HashSet<usize>,
}

impl Sequence {
    fn assemble(files: &[Scanned], report: &mut ReplayReport) -> Self {
        let heads = || files.iter().flat_map(|file| file.blocks.iter().map(|block| block.header.head));
        let needed = heads().map(|head| head.needed).max().unwrap_or(0);
        let mut sequence = Self {
            blocks: Vec::new(),
            needed,
            last_number: heads().map(|head| head.number).max().unwrap_or(0),
            last_round: heads().map(|head| head.round).max().unwrap_or(0),
            keep: HashSet::new(),
        };
        for (index, file) in files.iter().enumerate().filter(|(_, file)| file.is_foreign) {
            report.problems.push(Problem::Foreign { file: file.path.clone() });
            sequence.keep.insert(index);
        }
        let mut order: Vec<usize> = (0..files.len()).filter(|index| files[*index].number >= needed).collect();
        order.retain(|index| !files[*index].blocks.is_empty());
        order.sort_by_key(|index| files[*index].number);
        sequence.check_start(files, &order, report);
        sequence.collect_rounds(files, &order, report);
        sequence
    }

    fn check_start(&mut self, files: &[Scanned], order: &[usize], report: &mut ReplayReport) {
        let Some(first) = order.first() else { return };
        let is_start = files[*first].number == self.needed && files[*first].blocks[0].offset == 0;
        if !is_start {
            report.problems.push(Problem::MissingStart { needed: self.needed });
            self.keep.insert(*first);
        }
    }

    fn collect_rounds(&mut self, files: &[Scanned], order: &[usize], report: &mut ReplayReport) {
        let mut open: Vec<(usize, ScannedBlock)> = Vec::new();
        let (mut last_seen, mut last_complete) = (0, None);
        let blocks = order.iter().flat_map(|index| files[*index].blocks.iter().map(|block| (*index, *block)));
        for (position, (index, block)) in blocks.enumerate() {
            let head = block.header.head;
            if head.round < last_seen {
                continue; // Left by a round that was abandoned and partly written over.
            }
            let continues = open.last().is_some_and(|(_, before)| {
                before.header.head.round == head.round && before.header.head.part + 1 == head.part
            });
            if !continues {
                report.cut += u64::from(!open.is_empty());
                open.clear();
                // A round may have begun in a file that is not needed any more.
                if head.part != 0 && position != 0 {
                    report.cut += u64::from(head.round > last_seen);
                    last_seen = head.round;
                    continue;
                }
            }
            last_seen = head.round;
            open.push((index, block));
            if !head.is_last {
                continue;
            }
            // One behind `previous` was given up, and all of it had arrived in spite of the error.
            if let Some(last) = last_complete.filter(|last| *last < head.previous) {
                let file = files[index].path.clone();
                report.problems.push(Problem::MissingRounds { file, after: last, before: head.round });
                self.keep.insert(index);
                self.keep.extend(self.blocks.last().map(|(index, _)| *index));
            }
            last_complete = Some(head.round);
            report.rounds += 1;
            self.blocks.append(&mut open);
        }
        report.cut += u64::from(!open.is_empty());
    }
}

/// Where bytes go.
enum ReplayDestination {
    File { file: Arc<dyn File>, directory: Option<PathBuf>, is_written: bool },
    Skip,
    Unknown { bytes: u64 },
    Failed(String),
}

struct Applying<'a> {
    scan: &'a JournalScan,
    report: &'a mut ReplayReport,
    resolve: &'a mut dyn FnMut(&ReplayTarget) -> io::Result<Resolution>,
    targets: HashMap<(FileId, u64), ReplayDestination>,
    dropped: HashSet<StreamId>,
    keep: HashSet<usize>,
}

impl Applying<'_> {
    /// A note counts for everything before it, and numbers of streams are not used again.
    fn collect_dropped(&mut self, sequence: &Sequence) -> io::Result<()> {
        let mut buffer = Vec::new();
        for (index, block) in &sequence.blocks {
            read_block(&*self.scan.files[*index].file, block.offset, &block.header, &mut buffer)?;
            for chunk in Chunks::new(&block.header, whole(&buffer, block)?) {
                if let Ok(BlockChunk::Dropped(stream)) = chunk {
                    self.dropped.insert(stream);
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, sequence: &Sequence) -> io::Result<()> {
        let mut buffer = Vec::new();
        for (index, block) in &sequence.blocks {
            let scanned = &self.scan.files[*index];
            read_block(&*scanned.file, block.offset, &block.header, &mut buffer)?;
            for chunk in Chunks::new(&block.header, whole(&buffer, block)?) {
                match chunk {
                    Ok(BlockChunk::Bytes { id, generation, offset, bytes }) => {
                        self.apply_bytes(*index, ReplayTarget { file: id, generation, offset }, bytes)?;
                    }
                    Ok(BlockChunk::Dropped(_)) => {}
                    Err(_) => {
                        let file = scanned.path.clone();
                        self.report.problems.push(Problem::Malformed { file, offset: block.offset });
                        self.keep.insert(*index);
                    }
                }
            }
        }
        Ok(())
    }

    fn apply_bytes(&mut self, index: usize, target: ReplayTarget, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        if self.dropped.contains(&target.file.stream) {
            self.report.skipped += length;
            return Ok(());
        }
        let key = (target.file, target.generation);
        if !self.targets.contains_key(&key) {
            let place = match (self.resolve)(&target)? {
                Resolution::Apply(file, directory) => {
                    ReplayDestination::File { file, directory, is_written: false }
                }
                Resolution::Skip => ReplayDestination::Skip,
                Resolution::Unknown => ReplayDestination::Unknown { bytes: 0 },
            };
            self.targets.insert(key, place);
        }
        let Some(place) = self.targets.get_mut(&key) else { return Ok(()) };
        match place {
            ReplayDestination::File { file, is_written, .. } => match write(&**file, target.offset, bytes) {
                Ok(()) => {
                    *is_written = true;
                    self.report.bytes += length;
                }
                // There may be room at the next start: what was promised is not to be missed until
                // then.
                Err(error) if is_full(&error) => return Err(error),
                Err(error) => {
                    *place = ReplayDestination::Failed(error.to_string());
                    self.keep.insert(index);
                }
            },
            ReplayDestination::Skip => self.report.skipped += length,
            ReplayDestination::Unknown { bytes } => {
                *bytes += length;
                self.keep.insert(index);
            }
            ReplayDestination::Failed(_) => {
                self.keep.insert(index);
            }
        }
        Ok(())
    }

    /// A file that cannot be synced keeps the whole journal: nobody knows which of its bytes are
    /// safe.
    fn sync(&mut self, disk: &dyn Disk) -> io::Result<()> {
        let mut directories = BTreeSet::new();
        let mut targets: Vec<_> = self.targets.drain().collect();
        targets.sort_by_key(|(key, _)| *key);
        for ((file, generation), place) in targets {
            match place {
                ReplayDestination::File { file: handle, directory, is_written } if is_written => {
                    handle.sync()?;
                    self.report.files += 1;
                    directories.extend(directory);
                }
                ReplayDestination::Unknown { bytes } => {
                    self.report.problems.push(Problem::UnknownTarget { file, generation, bytes });
                }
                ReplayDestination::Failed(error) => {
                    self.report.problems.push(Problem::NotApplied { file, generation, error });
                }
                ReplayDestination::File { .. } | ReplayDestination::Skip => {}
            }
        }
        directories.iter().try_for_each(|directory| disk.sync_directory(directory))
    }
}

fn write(file: &dyn File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    if offset > file.len()?.saturating_add(WIDEST_HOLE) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the bytes before are missing"));
    }
    file.write_at(bytes, offset)
}

/// The block was whole when it was scanned.
fn whole<'a>(buffer: &'a [u8], block: &ScannedBlock) -> io::Result<&'a [u8]> {
    if block.header.is_whole(buffer) {
        Ok(buffer)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "a journal file changed while it was replayed"))
    }
}

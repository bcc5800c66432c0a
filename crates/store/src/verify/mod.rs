//! A check of a whole store that changes nothing: is every byte what was written, and do all files
//! say the same?
//!
//! Owns judgement, not repair. It reads the disk given to it through an `overlay`, in which the
//! journal is replayed and streams are recovered as the next start would do it; and it walks every
//! entry of every segment into a second, plain count of each stream (`state`), which footers,
//! bases, manifests and the recovered stream must agree with. It takes no lock and needs none, but
//! a store that is in use changes while it is read: torn tails, and files that are gone before they
//! were looked at, mean nothing then.
//!
//! Memory: 16 bytes per message of the stream that is being looked at, and its subjects. A stream
//! with more than [`MOST_MESSAGES`] is checked file by file, and not counted.

mod apply;
mod base;
mod consumers;
mod entries;
mod finding;
mod info;
mod journal;
mod manifests;
mod metas;
mod overlay;
mod recovered;
mod root;
mod sealed;
mod segment;
mod state;
mod stream;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::Disk;

use crate::keys::Keys;

pub use finding::{Finding, Severity, StreamName};
pub use info::{StoreInfo, StreamDetails, info};
pub(crate) use overlay::Overlay;

/// Messages of one stream that are counted, at most: 1 GiB of memory.
pub const MOST_MESSAGES: usize = 64 << 20;

/// Result of a check, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Streams that were looked at.
    pub streams: u64,
    /// Encrypted streams whose content could not be looked at for want of a key.
    pub locked: u64,
    /// Segment files.
    pub segments: u64,
    /// Messages that are there, of streams that could be counted.
    pub messages: u64,
    /// Findings by [`Severity`].
    pub damage: u64,
    /// See [`Severity::Suspicious`].
    pub suspicious: u64,
    /// See [`Severity::Note`].
    pub notes: u64,
}

impl Summary {
    /// Whether nothing that was safe is lost.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damage == 0
    }
}

/// Checks the store in `root` and calls `progress` with each finding as it is made. Nothing on
/// `disk` is changed.
///
/// Without `keys` an encrypted store is checked as far as its structure goes, and a note says so.
///
/// # Errors
/// There is no store in `root`, or the disk does not let it be read.
pub fn check(
    disk: &Arc<dyn Disk>,
    root: &Path,
    keys: Option<&Keys>,
    progress: &mut dyn FnMut(&Finding),
) -> io::Result<Summary> {
    let mut reporter = Reporter { root, progress, summary: Summary::default() };
    let disk = &root::without_misplaced(disk, root, &mut reporter)?;
    let looking = root::check_root(disk, root, keys, &mut reporter)?;
    for (id, directory) in root::streams(&looking, &mut reporter)? {
        stream::check(&looking, id, &directory, &mut reporter);
    }
    Ok(reporter.summary)
}

/// Counts findings and passes them on.
struct Reporter<'a> {
    root: &'a Path,
    progress: &'a mut dyn FnMut(&Finding),
    summary: Summary,
}

impl Reporter<'_> {
    fn emit(&mut self, mut finding: Finding) {
        match finding.severity {
            Severity::Damage => self.summary.damage += 1,
            Severity::Suspicious => self.summary.suspicious += 1,
            Severity::Note => self.summary.notes += 1,
        }
        if let Ok(below) = finding.file.strip_prefix(self.root) {
            finding.file = below.to_owned();
        }
        (self.progress)(&finding);
    }
}

impl Finding {
    fn new(
        severity: Severity,
        file: impl Into<PathBuf>,
        what: impl Into<String>,
        meaning: &'static str,
    ) -> Self {
        let (file, what) = (file.into(), what.into());
        Self { severity, stream: None, file, bytes: None, sequences: None, what, meaning }
    }

    fn damage(file: impl Into<PathBuf>, what: impl Into<String>, meaning: &'static str) -> Self {
        Self::new(Severity::Damage, file, what, meaning)
    }

    fn suspicious(file: impl Into<PathBuf>, what: impl Into<String>, meaning: &'static str) -> Self {
        Self::new(Severity::Suspicious, file, what, meaning)
    }

    fn note(file: impl Into<PathBuf>, what: impl Into<String>, meaning: &'static str) -> Self {
        Self::new(Severity::Note, file, what, meaning)
    }

    fn at(self, bytes: std::ops::Range<u64>) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    fn messages(self, first: crate::Seq, last: crate::Seq) -> Self {
        Self { sequences: (first <= last).then_some(first..=last), ..self }
    }
}

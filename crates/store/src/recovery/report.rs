//! Report of opening a stream, as an operator should know it.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use crate::ranges::Ranges;
use crate::{SegmentNo, Seq};

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The end of the log was not complete. Nothing of it had been released as synced.
    Cut {
        /// The segment.
        segment: SegmentNo,
        /// Where it was cut.
        at: u64,
        /// Where the bytes behind went, if there were whole entries among them.
        kept: Option<PathBuf>,
    },
    /// Bytes that had been synced are not what was written.
    DamagedEntries {
        /// The segment.
        segment: SegmentNo,
        /// Where in the file.
        bytes: Range<u64>,
        /// Messages that were there, if that is known.
        sequences: Option<RangeInclusive<Seq>>,
    },
    /// The end of the log is lost. The stream goes on behind the sequences that it had given out.
    EndLost {
        /// Sequences that had been released and are not there.
        sequences: RangeInclusive<Seq>,
    },
    /// The power may have failed, and what had been given out just before is not known.
    PassedOver {
        /// Sequences that are not used again. Some may have been given out.
        sequences: RangeInclusive<Seq>,
    },
    /// A file that can be read in part or not at all.
    Damaged {
        /// Its name.
        file: String,
        /// Fault that was found.
        what: String,
    },
    /// Segment files are not there.
    Missing {
        /// Their numbers.
        segments: RangeInclusive<SegmentNo>,
    },
    /// A file or directory that is none of ours, or useless, was moved.
    SetAside {
        /// Its name.
        name: String,
        /// Where it is now.
        to: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// A file was wrong and is right again; nothing is lost.
    Repaired {
        /// Its name, and whose it is.
        file: String,
        /// Fault, and what was done.
        what: String,
    },
    /// Something could not be put in order; it is tried again at the next start.
    Left {
        /// What.
        what: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { segment, at, kept: None } => {
                write!(f, "segment {}: cut an incomplete batch at byte {at}", segment.0)
            }
            Self::Cut { segment, at, kept: Some(path) } => {
                write!(
                    f,
                    "segment {}: cut at byte {at}; what stood behind is in {}",
                    segment.0,
                    path.display()
                )
            }
            Self::DamagedEntries { segment, bytes, sequences: Some(lost) } if !lost.is_empty() => write!(
                f,
                "segment {}: bytes {} to {} are damaged or missing: messages {} to {} may be lost",
                segment.0,
                bytes.start,
                bytes.end,
                lost.start(),
                lost.end()
            ),
            Self::DamagedEntries { segment, bytes, .. } => {
                write!(
                    f,
                    "segment {}: bytes {} to {} are damaged or missing",
                    segment.0, bytes.start, bytes.end
                )
            }
            Self::EndLost { sequences } => write!(
                f,
                "messages {} to {} had been stored and are lost; the next one gets {}",
                sequences.start(),
                sequences.end(),
                sequences.end().saturating_add(1)
            ),
            Self::PassedOver { sequences } => write!(
                f,
                "the machine stopped without having synced its last messages: sequences {} to {} are not used, \
                 because some of them may have been given out",
                sequences.start(),
                sequences.end()
            ),
            Self::Damaged { file, what } | Self::Repaired { file, what } => write!(f, "{file}: {what}"),
            Self::Missing { segments } => {
                write!(f, "segments {} to {} are missing", segments.start().0, segments.end().0)
            }
            Self::SetAside { name, to, why } => write!(f, "moved {name} to {}: {why}", to.display()),
            Self::Left { what } => f.write_str(what),
        }
    }
}

/// Messages that had been stored and are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The file that held them.
    pub file: String,
    /// The sequences that they can have had. Some of these may have been deleted before.
    pub sequences: RangeInclusive<Seq>,
    /// How many bytes of the file are missing or damaged; 0 if that is not known.
    pub bytes: u64,
}

impl Lost {
    /// The parts of it whose sequences are not in a set.
    pub(crate) fn without(&self, set: &Ranges) -> Vec<Self> {
        let parts = without(&self.sequences, set).into_iter();
        parts
            .map(|sequences| {
                // How much of it a part had nobody knows.
                let bytes = if sequences == self.sequences { self.bytes } else { 0 };
                Self { file: self.file.clone(), sequences, bytes }
            })
            .collect()
    }
}

/// The sequences of a set that are among lost ones.
pub(super) fn among(lost: &[Lost], set: &Ranges) -> Vec<RangeInclusive<Seq>> {
    lost.iter().flat_map(|lost| set.within(lost.sequences.clone()).iter().collect::<Vec<_>>()).collect()
}

/// The parts of a range that are not in a set.
fn without(range: &RangeInclusive<Seq>, set: &Ranges) -> Vec<RangeInclusive<Seq>> {
    let (mut from, end) = (*range.start(), *range.end());
    let mut parts = Vec::new();
    for inside in set.within(range.clone()).iter() {
        if from < *inside.start() {
            parts.push(from..=*inside.start() - 1);
        }
        match inside.end().checked_add(1) {
            Some(next) => from = next,
            None => return parts,
        }
    }
    if from <= end {
        parts.push(from..=end);
    }
    parts
}

/// Report of opening one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamReport {
    /// Findings, in the order in which they were met.
    pub notices: Vec<Notice>,
    /// Entries that were walked one by one.
    pub entries: u64,
    /// Messages that are missing, in order. Also what the notices tell of them.
    pub lost: Vec<Lost>,
    /// Sequences behind the end of the log that may have been given out before the power failed.
    /// The stream goes on behind them, unless it [is a copy](crate::StreamConfig::is_copy).
    pub uncertain: Option<RangeInclusive<Seq>>,
    /// Sequences behind the end of the log that the stream goes on behind, lost or uncertain.
    pub passed_over: Option<RangeInclusive<Seq>>,
    /// Whether segments are gone that no manifest lists: with entries, though none of them need
    /// have been a message that had been released.
    pub lacks_log: bool,
}

impl StreamReport {
    /// The last sequence that was found, of a stream that now ends at `last`: what another file
    /// says of sequences behind it is said of messages that are lost.
    #[must_use]
    pub fn found_end(&self, last: Seq) -> Seq {
        self.passed_over.as_ref().map_or(last, |passed| passed.start().saturating_sub(1))
    }

    pub(crate) fn note(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Whether bytes that had been synced are gone.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.notices.iter().any(|notice| {
            matches!(
                notice,
                Notice::DamagedEntries { .. }
                    | Notice::EndLost { .. }
                    | Notice::Damaged { .. }
                    | Notice::Missing { .. }
            )
        })
    }
}

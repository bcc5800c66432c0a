//! Actions of a repair, as it tells them.

use std::fmt;
use std::path::PathBuf;

use crate::StreamId;

/// Outcome of the repair of one fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairOutcome {
    /// The thing is right again, or would be.
    Repaired,
    /// The thing cannot be brought back: its bytes are not there.
    Lost,
    /// Somebody has to decide, or to give what is missing.
    Left,
}

impl fmt::Display for RepairOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Repaired => "repair",
            Self::Lost => "lost",
            Self::Left => "left",
        })
    }
}

/// One thing that was wrong, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairAction {
    /// Outcome of the repair.
    pub outcome: RepairOutcome,
    /// Which stream it is about: directory, account and name, as far as they are known.
    pub stream: Option<(StreamId, String, String)>,
    /// The file, below the store's directory.
    pub file: PathBuf,
    /// Fault, and what was done.
    pub what: String,
}

impl RepairAction {
    pub(super) fn new(outcome: RepairOutcome, file: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self { outcome, stream: None, file: file.into(), what: what.into() }
    }

    pub(super) fn of(self, id: StreamId, account: &str, name: &str) -> Self {
        Self { stream: Some((id, account.to_owned(), name.to_owned())), ..self }
    }
}

impl fmt::Display for RepairAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outcome, stream, file, what } = self;
        write!(f, "{outcome}: {}", file.display())?;
        match stream {
            Some((_, account, name)) if !name.is_empty() => write!(f, " ({account} > {name})")?,
            _ => {}
        }
        write!(f, ": {what}")
    }
}

/// A repair in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Things that are right again, or would be.
    pub repaired: u64,
    /// Things that cannot be brought back.
    pub lost: u64,
    /// Things that were left to the operator.
    pub left: u64,
}

impl Summary {
    pub(super) fn count(&mut self, outcome: RepairOutcome) {
        *match outcome {
            RepairOutcome::Repaired => &mut self.repaired,
            RepairOutcome::Lost => &mut self.lost,
            RepairOutcome::Left => &mut self.left,
        } += 1;
    }

    /// Whether nothing was wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether nothing is lost or left.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lost == 0 && self.left == 0
    }
}

//! What a repair tells.

use std::fmt;
use std::path::PathBuf;

use crate::StreamId;

/// What became of something that was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It is right again, or would be.
    Repaired,
    /// It cannot be brought back: its bytes are not there.
    Lost,
    /// Somebody has to decide, or to give what is missing.
    Left,
}

impl fmt::Display for Outcome {
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
pub struct Action {
    /// What became of it.
    pub outcome: Outcome,
    /// Which stream it is about: directory, account and name, as far as they are known.
    pub stream: Option<(StreamId, String, String)>,
    /// The file, below the store's directory.
    pub file: PathBuf,
    /// What was wrong, and what was done.
    pub what: String,
}

impl Action {
    pub(super) fn new(outcome: Outcome, file: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self { outcome, stream: None, file: file.into(), what: what.into() }
    }

    pub(super) fn of(self, id: StreamId, account: &str, name: &str) -> Self {
        Self { stream: Some((id, account.to_owned(), name.to_owned())), ..self }
    }
}

impl fmt::Display for Action {
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
    pub(super) fn count(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Repaired => &mut self.repaired,
            Outcome::Lost => &mut self.lost,
            Outcome::Left => &mut self.left,
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

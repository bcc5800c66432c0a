//! Votes of the members of a store's groups, in its file `hard`.
//!
//! Owns when that file is appended to, and when it is written anew. Its form is `replica`'s
//! (`hard_state`), its syncs are `store`'s. Many groups may vote at once, when a server is gone:
//! they share one write and one sync.

use std::io;

use myelin_replica::GroupId;
use myelin_replica::hard_state::{Damaged, HardState, HardStates, RECORD_BYTES};
use myelin_store::{HardFile, Store};

/// The file may have so many bytes that say nothing more, and as many as it needs.
const SLACK_BYTES: usize = 1024 * RECORD_BYTES;

/// Hard states of all groups of a store.
#[derive(Debug)]
pub struct GroupVotes {
    file: HardFile,
    states: HardStates,
}

/// Why a store's groups cannot begin.
#[derive(Debug)]
pub enum VotesUnreadable {
    /// The disk.
    Io(io::Error),
    /// A record is damaged that others have counted on: which votes are forgotten is not known.
    Damaged(Damaged),
}

impl GroupVotes {
    /// Reads the file, if the store has one. Takes off the torn end of a write.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged: a member that forgets a vote could vote twice.
    pub fn open(store: &Store) -> Result<Self, VotesUnreadable> {
        let (mut file, bytes) = store.open_hard_file().map_err(VotesUnreadable::Io)?;
        let (states, end) = HardStates::read(&bytes).map_err(VotesUnreadable::Damaged)?;
        file.cut(end as u64).map_err(VotesUnreadable::Io)?;
        Ok(Self { file, states })
    }

    /// State that a member remembers. `None`: nothing yet.
    #[must_use]
    pub fn get(&self, group: GroupId) -> Option<HardState> {
        self.states.get(group)
    }

    /// All groups whose members remember something, with their states.
    pub fn all(&self) -> impl Iterator<Item = (GroupId, HardState)> {
        self.states.iter()
    }

    /// Has these groups remember this, durably: one write, one sync.
    ///
    /// # Errors
    /// Of the disk: nobody may count on it, and what they remember is as it was.
    pub fn set(&mut self, changes: &[(GroupId, HardState)]) -> io::Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        changes.iter().for_each(|(group, state)| HardStates::write(*group, state, &mut bytes));
        let live = self.states.live_bytes();
        let is_long = self.file.len() + bytes.len() as u64 > (2 * live + SLACK_BYTES) as u64;
        if is_long || self.file.has_failed() {
            let mut states = self.states.clone();
            changes.iter().for_each(|&(group, state)| states.set(group, state));
            bytes.clear();
            states.write_all(&mut bytes);
            self.file.write_anew(&bytes)?;
            self.states = states;
        } else {
            self.file.append(&bytes)?;
            changes.iter().for_each(|&(group, state)| self.states.set(group, state));
        }
        Ok(())
    }
}

impl std::fmt::Display for VotesUnreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Damaged(Damaged { at }) => {
                write!(f, "the record at byte {at} is damaged, and groups have counted on it")
            }
        }
    }
}

impl std::error::Error for VotesUnreadable {}

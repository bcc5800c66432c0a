//! Votes of the members of a store's groups, in its file `hard`.
//!
//! Owns when that file is appended to, and when it is written anew. Its form is `replica`'s
//! (`hard_state`), its syncs are `store`'s. Many groups may vote at once, when a server is gone:
//! they share one write and one sync.

use std::io;
use std::path::PathBuf;

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

/// Damage of a store's votes: what groups remember may be older than what others have counted on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedVotes {
    /// Byte of the first record that is damaged.
    pub at: usize,
    /// Where the file is kept as it was.
    pub kept: PathBuf,
}

impl GroupVotes {
    /// Reads the file, if the store has one. Takes off the torn end of a write; `boot` tells the
    /// run of the machine. Of a damaged one, which is told, each group is amnesiac: a member that
    /// forgets a vote could vote twice.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(store: &Store, boot: Option<u64>) -> io::Result<(Self, Option<DamagedVotes>)> {
        let (mut file, bytes) = store.open_hard_file()?;
        match HardStates::read(&bytes, boot) {
            Ok((states, end)) => {
                file.cut(end as u64)?;
                Ok((Self { file, states }, None))
            }
            Err(Damaged { at }) => {
                let kept = file.keep_aside(&bytes)?;
                let (states, mut whole) = (HardStates::salvage(&bytes), Vec::new());
                states.write_all(&mut whole);
                file.write_anew(&whole)?;
                Ok((Self { file, states }, Some(DamagedVotes { at, kept })))
            }
        }
    }

    /// State that a member remembers. `None`: nothing yet.
    #[must_use]
    pub fn get(&self, group: GroupId) -> Option<HardState> {
        self.states.get(group)
    }

    /// States of all groups.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, HardState)> {
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

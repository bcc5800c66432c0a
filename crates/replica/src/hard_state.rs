//! Hard state: what members must remember of elections, as bytes of a file.
//!
//! Owns the form of a record and what a file of them says. The file, its name and its syncs belong
//! to `store`. Must never take a record for whole that is not, and never forget one behind which a
//! whole one follows: a member that forgets its vote can vote twice.
//!
//! All numbers are little-endian. The last record of a group counts.
//!
//! ```text
//!  0 u32 CRC32C of all that follows, of 60 bytes in all    4 u32 version: 1
//!  8 u64 group    16 u32 epoch    20 u32 flags: 1 amnesiac, 2 damaged, 4 removed
//! 24 u64 term     32 u64 voted for, or 0     40 u64 incarnation of the store
//! 48 u64 index of the membership that is applied     56 u32 records before it in its write
//! ```

use std::collections::BTreeMap;

use crate::{GroupId, Peer, Vote};

/// Bytes of a record.
pub const RECORD_BYTES: usize = 60;
const VERSION: u32 = 1;
const AMNESIAC: u32 = 1;
const DAMAGED: u32 = 2;
const REMOVED: u32 = 4;
/// Group under whose number the record of the store itself stands: its `incarnation` is the life
/// that has begun last, `membership` tells the run of the machine in which it did, and
/// `is_amnesiac` is set until that life has ended with everything synced.
pub const OF_STORE: GroupId = GroupId(0);
/// Number that no group has.
const NO_GROUP: GroupId = GroupId(u64::MAX);

/// State of one member that has to outlive its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// Of its group.
    pub epoch: u32,
    /// Its term, and its vote in it.
    pub vote: Vote,
    /// The life of its store in which this was written.
    pub incarnation: u64,
    /// Index of the entry with the members that it counts; 0: those of the beginning.
    pub membership: u64,
    /// Whether it may have lost what it has confirmed.
    pub is_amnesiac: bool,
    /// Whether that was not, or not only, a loss of power: it may have lost its vote, or what it
    /// had synced.
    pub is_damaged: bool,
    /// Whether it is no member any more: nothing else of it counts, and it may be forgotten.
    pub is_removed: bool,
}

/// All groups of a store with what they must remember.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardStates {
    states: BTreeMap<GroupId, HardState>,
}

/// Where a file of records stops being one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Where the record begins that is not whole, and was once.
    pub at: usize,
}

/// A write that its process did not live to end comes to a whole number of these bytes: pages, or
/// parts of one.
const SHORT_WRITE_BYTES: usize = 512;

impl HardStates {
    /// Reads all records of a file, and how many bytes they have: what is behind is the torn end of
    /// the last write, which nobody counted on. `boot`: the run of the machine that goes on; power
    /// has torn nothing of what was written in it.
    ///
    /// # Errors
    /// A record is damaged, and was durable once: which votes are forgotten is not known.
    pub fn read(bytes: &[u8], boot: Option<u64>) -> Result<(Self, usize), Damaged> {
        let mut found = Self::default();
        let mut end = None;
        for (number, record) in bytes.chunks_exact(RECORD_BYTES).enumerate() {
            match (parse(record), end) {
                (Some((group, state, _)), None) => found.set(group, state),
                // A later write: whoever made it counted on the one before.
                (Some((.., before)), Some(end)) if number - before.min(number) > end => {
                    return Err(Damaged { at: end * RECORD_BYTES });
                }
                (None, None) => end = Some(number),
                // Of the same write, of which power took a part.
                (_, Some(_)) => {}
            }
        }
        let end = end.unwrap_or(bytes.len() / RECORD_BYTES) * RECORD_BYTES;
        let run = found.get(OF_STORE).map(|store| store.membership).filter(|&run| run > 0);
        let is_of_this_run = run.is_some() && run == boot;
        let is_short = bytes.len() - end < RECORD_BYTES && bytes.len().is_multiple_of(SHORT_WRITE_BYTES);
        if bytes.len() > end && is_of_this_run && !is_short {
            return Err(Damaged { at: end });
        }
        Ok((found, end))
    }

    /// Reads what is whole of a damaged file. Any of its groups may have lost its latest vote: each
    /// is amnesiac, whatever it syncs.
    #[must_use]
    pub fn salvage(bytes: &[u8]) -> Self {
        let mut found = Self::default();
        for (group, state, _) in bytes.chunks_exact(RECORD_BYTES).filter_map(parse) {
            found.set(group, HardState { is_amnesiac: true, is_damaged: true, ..state });
        }
        found
    }

    /// Has the state of a group be this one.
    pub fn set(&mut self, group: GroupId, state: HardState) {
        if state.is_removed {
            self.states.remove(&group);
        } else {
            self.states.insert(group, state);
        }
    }

    /// State of the member of a group.
    #[must_use]
    pub fn get(&self, group: GroupId) -> Option<HardState> {
        self.states.get(&group).copied()
    }

    /// All groups with their states, in order.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, HardState)> {
        self.states.iter().map(|(&group, &state)| (group, state))
    }

    /// Bytes that a file has which says the same and nothing twice.
    #[must_use]
    pub fn live_bytes(&self) -> usize {
        self.states.len() * RECORD_BYTES
    }

    /// Appends all records to `out`: for a new file. As that gets its name when it is whole, each
    /// is a write of its own, and the last one is of no group: so none that is damaged is taken
    /// for a torn end.
    pub fn write_all(&self, out: &mut Vec<u8>) {
        self.states.iter().for_each(|(&group, state)| write(group, state, 0, out));
        write(NO_GROUP, &HardState { is_removed: true, ..HardState::default() }, 0, out);
    }

    /// Appends the record of a state to `out`, which has the records of the same write.
    pub fn write(group: GroupId, state: &HardState, out: &mut Vec<u8>) {
        write(group, state, out.len() / RECORD_BYTES, out);
    }
}

fn write(group: GroupId, state: &HardState, before: usize, out: &mut Vec<u8>) {
    let start = out.len();
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let flags =
        flag(state.is_amnesiac, AMNESIAC) | flag(state.is_damaged, DAMAGED) | flag(state.is_removed, REMOVED);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&group.0.to_le_bytes());
    out.extend_from_slice(&state.epoch.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    let voted_for = state.vote.voted_for.map_or(0, Peer::number);
    for number in [state.vote.term, voted_for, state.incarnation, state.membership] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    out.extend_from_slice(&before.to_le_bytes());
    let checksum = crc32c::crc32c(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// A record, and how many stand before it in its write.
fn parse(record: &[u8]) -> Option<(GroupId, HardState, usize)> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(*record.get(at..)?.first_chunk()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(*record.get(at..)?.first_chunk()?));
    if u32_at(0)? != crc32c::crc32c(&record[4..]) || u32_at(4)? != VERSION {
        return None;
    }
    let flags = u32_at(20)?;
    let state = HardState {
        epoch: u32_at(16)?,
        vote: Vote { term: u64_at(24)?, voted_for: Peer::from_number(u64_at(32)?) },
        incarnation: u64_at(40)?,
        membership: u64_at(48)?,
        is_amnesiac: flags & AMNESIAC != 0,
        is_damaged: flags & DAMAGED != 0,
        is_removed: flags & REMOVED != 0,
    };
    Some((GroupId(u64_at(8)?), state, u32_at(56)? as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(term: u64) -> HardState {
        let voted_for = Peer::from_number(term % 3);
        HardState {
            epoch: 2,
            vote: Vote { term, voted_for },
            incarnation: 7,
            membership: 11,
            is_amnesiac: term.is_multiple_of(2),
            is_damaged: term.is_multiple_of(3),
            is_removed: false,
        }
    }

    /// Three groups, of which the second was voted in twice and the third was removed.
    fn file() -> (HardStates, Vec<u8>) {
        let (mut states, mut bytes) = (HardStates::default(), Vec::new());
        for (group, term) in [(1, 1), (2, 2), (3, 3), (2, 6)] {
            bytes.append(&mut one(&mut states, group, state(term)));
        }
        let removed = HardState { is_removed: true, ..HardState::default() };
        bytes.append(&mut one(&mut states, 3, removed));
        (states, bytes)
    }

    fn one(states: &mut HardStates, group: u64, state: HardState) -> Vec<u8> {
        let mut write = Vec::new();
        HardStates::write(GroupId(group), &state, &mut write);
        states.set(GroupId(group), state);
        write
    }

    /// Power may take any part of a write.
    #[test]
    fn a_write_that_is_torn_in_its_middle_is_cut_off() {
        let (mut states, bytes) = file();
        let before = states.clone();
        let mut write = Vec::new();
        (4..8).for_each(|group| HardStates::write(GroupId(group), &state(group), &mut write));
        for torn in 0..4 {
            let mut file = [&bytes[..], &write[..]].concat();
            file[bytes.len() + torn * RECORD_BYTES..][..RECORD_BYTES].fill(0);
            let (found, whole) = HardStates::read(&file, None).expect("nobody counted on that write");
            assert_eq!(whole, bytes.len() + torn * RECORD_BYTES);
            assert_eq!(found.live_bytes(), before.live_bytes() + torn * RECORD_BYTES);
            file.append(&mut one(&mut states, 9, state(1)));
            assert_eq!(HardStates::read(&file, None), Err(Damaged { at: whole }), "somebody wrote behind it");
        }
    }

    #[test]
    fn the_last_record_of_a_group_counts() {
        let (states, bytes) = file();
        assert_eq!(HardStates::read(&bytes, None), Ok((states.clone(), 5 * RECORD_BYTES)));
        assert_eq!(states.get(GroupId(1)), Some(state(1)));
        assert_eq!(states.get(GroupId(2)), Some(state(6)));
        assert_eq!(states.get(GroupId(3)), None);
        let mut anew = Vec::new();
        states.write_all(&mut anew);
        assert_eq!((anew.len(), states.live_bytes()), (3 * RECORD_BYTES, 2 * RECORD_BYTES));
        assert_eq!(HardStates::read(&anew, None), Ok((states, anew.len())));
        for at in [0, RECORD_BYTES] {
            let mut changed = anew.clone();
            changed[at + 30] ^= 1;
            assert_eq!(
                HardStates::read(&changed, None),
                Err(Damaged { at }),
                "it was whole when it was named"
            );
        }
    }

    #[test]
    fn a_torn_end_is_cut_off_and_nothing_else() {
        let (_, bytes) = file();
        for end in 0..bytes.len() {
            let (_, whole) = HardStates::read(&bytes[..end], None).expect("no damage");
            assert_eq!(whole, end - end % RECORD_BYTES);
        }
    }

    #[test]
    fn a_changed_bit_is_damage_unless_it_is_in_the_last_record() {
        let (_, bytes) = file();
        let last = bytes.len() - RECORD_BYTES;
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let at = bit / 8 / RECORD_BYTES * RECORD_BYTES;
            match HardStates::read(&changed, None) {
                Err(damaged) => assert_eq!(damaged, Damaged { at }),
                Ok((states, whole)) => {
                    assert_eq!((at, whole), (last, last));
                    assert_eq!(states.get(GroupId(3)), Some(state(3)));
                }
            }
        }
    }

    /// What was written since the machine runs is there, but for a write that its process did not
    /// live to end.
    #[test]
    fn an_end_that_is_not_whole_is_damage_where_power_was_not_lost() {
        let (mut states, mut bytes) = (HardStates::default(), Vec::new());
        let begun = HardState { membership: 77, ..state(0) };
        bytes.append(&mut one(&mut states, OF_STORE.0, begun));
        (1..20).for_each(|group| bytes.append(&mut one(&mut states, group, state(group))));
        let last = bytes.len() - RECORD_BYTES;
        let read = |bytes: &[u8], boot| HardStates::read(bytes, boot).map(|(_, whole)| whole);
        assert_eq!(read(&bytes, Some(77)), Ok(bytes.len()));
        let mut flipped = bytes.clone();
        flipped[last + 30] ^= 1;
        let mut zeros = bytes.clone();
        zeros[1024..].fill(0);
        let damaged = |at: usize| Err(Damaged { at: at / RECORD_BYTES * RECORD_BYTES });
        for (file, at) in [(&flipped[..], last), (&zeros[..], 1024), (&bytes[..bytes.len() / 2 + 7], 607)] {
            assert_eq!(read(file, Some(77)), damaged(at));
            for boot in [None, Some(78)] {
                assert_eq!(read(file, boot), Ok(at / RECORD_BYTES * RECORD_BYTES), "power took it");
            }
        }
        assert_eq!(read(&bytes[..1024], Some(77)), Ok(1020), "it was being written");
    }
}

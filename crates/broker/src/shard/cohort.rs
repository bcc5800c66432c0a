//! Cohorts: connections that receive the same frames, byte for byte.
//!
//! Clients number their subscriptions alike, so the thousand receivers of a fan-out mostly have the
//! same sid and their frames are equal. Such receivers form a cohort: a frame is rendered once into
//! a block that all of them share. Equal sets of connections are one cohort whatever the subject or
//! the sid, so a run of messages over many subjects still fills one block.
//!
//! Perf: `bench table` rows 1:4, 1:64, 1:1000.

use crate::conn::Conn;
use bytes::Bytes;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A block is handed over at this size, so that memory is given back in pieces.
const BLOCK: usize = 64 * 1024;

/// Fewest connections that share.
pub(super) const SMALLEST: usize = 2;

/// Index of a cohort in its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CohortId(u32);

/// A finished block.
pub(super) struct CohortBlock {
    pub(super) bytes: Bytes,
    pub(super) msgs: u64,
    pub(super) payload: u64,
}

/// Members in ascending order of slot.
type Members = Rc<[Arc<Conn>]>;

struct Cohort {
    members: Members,
    /// Cached routes that name it.
    users: usize,
    block: Vec<u8>,
    msgs: u64,
    payload: u64,
    stalled: bool,
    is_open: bool,
}

/// All cohorts of a shard.
#[derive(Default)]
pub(super) struct Cohorts {
    cohorts: Vec<Option<Cohort>>,
    free: Vec<u32>,
    by_members: HashMap<Vec<u32>, CohortId>,
    open: Vec<CohortId>,
    /// Memory for the next block.
    spare: Vec<u8>,
}

impl Cohorts {
    /// The cohort of these connections, which must be distinct; one more route uses it now.
    pub(super) fn intern(&mut self, mut members: Vec<Arc<Conn>>) -> CohortId {
        members.sort_unstable_by_key(|conn| conn.slot());
        let key: Vec<u32> = members.iter().map(|conn| conn.slot()).collect();
        // A slot names one living connection and a cohort keeps its members alive: equal keys are
        // equal members.
        debug_assert!(key.len() >= SMALLEST, "one connection alone shares nothing");
        debug_assert!(key.windows(2).all(|pair| pair[0] < pair[1]), "members are distinct");
        if let Some(id) = self.by_members.get(&key) {
            let id = *id;
            let cohort = self.get(id);
            debug_assert!(cohort.users > 0 || cohort.is_open, "a cohort that nobody uses is forgotten");
            cohort.users += 1;
            return id;
        }
        let cohort = Cohort {
            members: members.into(),
            users: 1,
            block: Vec::new(),
            msgs: 0,
            payload: 0,
            stalled: false,
            is_open: false,
        };
        let id = self.place(cohort);
        self.by_members.insert(key, id);
        id
    }

    fn place(&mut self, cohort: Cohort) -> CohortId {
        match self.free.pop() {
            Some(at) => {
                debug_assert!(self.cohorts[at as usize].is_none(), "a free place is empty");
                self.cohorts[at as usize] = Some(cohort);
                CohortId(at)
            }
            None => {
                self.cohorts.push(Some(cohort));
                CohortId(self.cohorts.len() as u32 - 1)
            }
        }
    }

    /// A route uses the cohort no longer.
    pub(super) fn release(&mut self, id: CohortId) {
        let cohort = self.get(id);
        debug_assert!(cohort.users > 0, "a route gives a cohort back once");
        cohort.users -= 1;
        if cohort.users == 0 && !cohort.is_open {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: CohortId) {
        if let Some(cohort) = self.cohorts[id.0 as usize].take() {
            let key: Vec<u32> = cohort.members.iter().map(|conn| conn.slot()).collect();
            debug_assert!(cohort.users == 0 && !cohort.is_open, "nobody uses a cohort that is forgotten");
            let known = self.by_members.remove(&key);
            debug_assert!(known == Some(id), "a cohort is found by its members");
            self.free.push(id.0);
        }
    }

    #[inline]
    fn get(&mut self, id: CohortId) -> &mut Cohort {
        self.cohorts[id.0 as usize].as_mut().expect("an id lives as long as a route or a block uses it")
    }

    pub(super) fn members(&mut self, id: CohortId) -> Members {
        Rc::clone(&self.get(id).members)
    }

    pub(super) fn contains(&mut self, id: CohortId, conn: &Conn) -> bool {
        self.get(id).members.binary_search_by_key(&conn.slot(), |member| member.slot()).is_ok()
    }

    pub(super) fn is_open(&mut self, id: CohortId) -> bool {
        self.get(id).is_open
    }

    /// Bytes in the open block.
    pub(super) fn filled(&mut self, id: CohortId) -> usize {
        self.get(id).block.len()
    }

    pub(super) fn open(&mut self, id: CohortId, stalled: bool) {
        let block = std::mem::take(&mut self.spare);
        debug_assert!(block.is_empty(), "spare memory is empty");
        let cohort = self.get(id);
        debug_assert!(!cohort.is_open, "a block is opened once");
        debug_assert!(cohort.msgs == 0 && cohort.payload == 0, "a block begins with nothing");
        cohort.block = block;
        cohort.is_open = true;
        cohort.stalled = stalled;
        self.open.push(id);
    }

    /// Appends a frame to an open block. Returns whether it should be handed over, and whether a
    /// member is far behind.
    #[inline]
    pub(super) fn extend(&mut self, id: CohortId, head: &[u8], tail: &[u8], payload: usize) -> (bool, bool) {
        let cohort = self.get(id);
        debug_assert!(cohort.is_open, "only an open block takes frames");
        if cohort.block.capacity() == 0 {
            cohort.block.reserve_exact(BLOCK + head.len() + tail.len());
        }
        cohort.block.extend_from_slice(head);
        cohort.block.extend_from_slice(tail);
        cohort.msgs += 1;
        cohort.payload += payload as u64;
        (cohort.block.len() >= BLOCK, cohort.stalled)
    }

    /// Closes the block, if there is one.
    pub(super) fn seal(&mut self, id: CohortId) -> Option<CohortBlock> {
        let cohort = self.get(id);
        if !std::mem::take(&mut cohort.is_open) {
            return None;
        }
        let mut filled = std::mem::take(&mut cohort.block);
        // A little is copied out, so that no receiver keeps a whole block's memory for it.
        let bytes = if filled.len() < BLOCK / 2 {
            let bytes = Bytes::copy_from_slice(&filled);
            filled.clear();
            self.spare = filled;
            bytes
        } else {
            Bytes::from(filled)
        };
        // Mostly the last one: flushes seal from the end.
        let listed = self.open.iter().rposition(|open| *open == id);
        debug_assert!(listed.is_some(), "an open block is listed");
        if let Some(at) = listed {
            self.open.swap_remove(at);
        }
        let cohort = self.get(id);
        debug_assert!(cohort.msgs > 0, "a block is opened for a message");
        let block = CohortBlock {
            bytes: cohort.members[0].share(bytes),
            msgs: std::mem::take(&mut cohort.msgs),
            payload: std::mem::take(&mut cohort.payload),
        };
        Some(block)
    }

    /// Whether the list of open blocks has this one: for assertions.
    pub(super) fn is_listed_open(&self, id: CohortId) -> bool {
        self.open.contains(&id)
    }

    pub(super) fn any_open(&self) -> Option<CohortId> {
        self.open.last().copied()
    }

    /// After its members have taken the block: forgets a cohort that no route names any more.
    pub(super) fn release_if_unused(&mut self, id: CohortId) {
        if self.get(id).users == 0 {
            self.remove(id);
        }
    }
}

//! How a member begins with what its stream's log has.

use std::collections::VecDeque;
use std::sync::Arc;

use myelin_replica::{Broken, Consensus, LogStart, MemberStart, Peer, Vote};
use myelin_stdx::histogram::Latencies;
use myelin_store::Stream;

use super::commit_wait::CommitWait;
use super::kept_log::{KeptLog, KeptLogBounds};
use super::persisting::Unpersisted;
use super::state_check::StateCheck;
use super::{GroupMember, MemberFailed, Persistence, changes, raft_entry};
use crate::stream::StreamCore;

/// Facts with which a member begins, beside its stream.
#[derive(Clone, Debug)]
pub struct GroupStart {
    /// The member itself.
    pub me: Peer,
    /// Members that voted when the group was made. Who does now stands in its log.
    pub voters: Vec<Peer>,
    /// The last one that was made durable.
    pub vote: Vote,
    /// Whether it may have lost what it has confirmed; see
    /// [`MemberStart::is_amnesiac`](myelin_replica::MemberStart::is_amnesiac).
    pub is_amnesiac: bool,
    /// Whether it is known to lack something that others have: where its log contradicts itself it
    /// begins behind that, if it counts as one that may have lost what it has confirmed, too.
    pub is_damaged: bool,
    /// Seed of its draws of election time-outs.
    pub seed: u64,
    /// Rule by which an entry counts as persisted.
    pub persistence: Persistence,
    /// How much of the log stays for members that are behind.
    pub kept_log: KeptLogBounds,
    /// Counts how long its entries wait until they are committed, while it leads.
    pub commit_waits: Arc<Latencies>,
}

impl GroupStart {
    /// Whether a member that begins with this log has to wait until it is synced: it is not, and
    /// only what is synced counts, always or as this member alone is a majority among others.
    #[must_use]
    pub fn lacks_sync(&self, store: &Stream) -> bool {
        let needs_sync = self.persistence == Persistence::Synced || changes::stands_alone(self.me, store);
        needs_sync && !store.is_synced(store.end())
    }
}

/// Bytes of entries that are read at once.
const READ_BYTES: usize = 1 << 20;

impl GroupMember {
    /// A member whose log is that of a stream, which follows.
    ///
    /// # Errors
    /// The stream is in no group, its log cannot be read, has a [hole](MemberFailed::Hole),
    /// [contradicts itself](MemberFailed::Contradiction) or is not synced where that is what
    /// counts, or says nothing of its members that is understood.
    pub fn open(stream: &mut StreamCore, start: GroupStart) -> Result<Self, MemberFailed> {
        debug_assert!(!stream.role().leads(), "a member begins as a follower");
        // Consensus takes all that it begins with for persisted.
        if start.lacks_sync(stream.store()) {
            return Err(MemberFailed::NotSynced);
        }
        let GroupStart {
            me,
            voters,
            vote,
            is_amnesiac,
            is_damaged,
            seed,
            persistence,
            kept_log,
            commit_waits,
        } = start;
        if persistence == Persistence::Written {
            stream.store_mut().flush()?;
        }
        let log = match read_log(stream)? {
            log if log.is_sound() => log,
            log if is_damaged && is_amnesiac => log.behind_damage().ok_or(MemberFailed::Contradiction)?,
            _ => return Err(MemberFailed::Contradiction),
        };
        let last_term = log.terms.last().map_or(log.base.1, |&(_, term)| term);
        // An entry of a later term than the vote: it is durable, and the vote was not yet.
        let vote = if last_term > vote.term { Vote { term: last_term, voted_for: None } } else { vote };
        let known = log.tail.last().map_or(log.committed, |entry| entry.index);
        let members = changes::members_of(stream.store(), &voters)
            .ok_or_else(|| Broken { reason: "the log says nothing known of its members".to_owned() })?;
        let start = MemberStart { me, members, vote, log, is_amnesiac, seed };
        let consensus = Consensus::open(&start)?;
        let mut member = Self {
            me,
            consensus,
            unpersisted: Unpersisted::new(persistence),
            unproposed: VecDeque::new(),
            known,
            elected: 0,
            kept_log: KeptLog::new(kept_log),
            members: Vec::new(),
            is_settled: true,
            wanted: Vec::new(),
            forgetful: Vec::new(),
            state_check: StateCheck::default(),
            commit_wait: CommitWait::new(commit_waits),
            has_failed: false,
        };
        member.follow_members(stream.store())?;
        Ok(member)
    }
}

/// The stream's log, as consensus begins with it.
fn read_log(stream: &StreamCore) -> Result<LogStart, MemberFailed> {
    let store = stream.store();
    if let Some(missing) = store.first_missing_entry() {
        return Err(MemberFailed::Hole(missing));
    }
    let (Some(position), Some(outline)) = (store.group(), store.log_outline()?) else {
        return Err(MemberFailed::NoGroup);
    };
    // Where damage took the segment behind an entry, nothing says any more how far that was
    // committed, and the entry cannot be read: whoever begins so gets the whole stream anew.
    let committed = position.commit.max(outline.base.0).min(position.index);
    let mut tail = Vec::new();
    let mut next = committed + 1;
    while next <= position.index {
        let read = store.read_log(next..position.index + 1, READ_BYTES)?;
        if read.is_empty() {
            return Err(MemberFailed::Hole(next));
        }
        next += read.len() as u64;
        tail.extend(read.iter().map(raft_entry));
    }
    Ok(LogStart { base: outline.base, terms: outline.terms, committed, tail })
}

//! A stream's member of its group: joins consensus to the stream's log.
//!
//! Owns the order of things between the two: what the stream has decided is proposed, what another
//! member has decided is appended, what is committed is told to the stream, and nothing that
//! confirms an entry or a vote leaves before that is persisted. Who elects, and who has confirmed
//! what, is for `replica`; what an entry does to a stream is for [`StreamCore`]. Must never let the
//! stream's log and the one that consensus sees differ once [`GroupMember::advance`] is through:
//! where that is impossible the member has failed, and is opened anew from what is stored.
//!
//! # One entry, on its leader
//!
//! 1. [`StreamCore::publish`] decides and writes it.
//! 2. [`GroupMember::advance`] takes it from the stream, proposes it, and gives the messages for
//!    the other members.
//! 3. Their answers come to [`GroupMember::step`]. The next `advance` tells the stream what is
//!    committed, and acknowledgements are in its effects.

pub mod install;

mod changes;
mod commit_wait;
mod kept_log;
mod open;
mod persisting;
mod state_check;
#[cfg(test)]
mod tests;
mod votes;

pub use kept_log::KeptLogBounds;
pub use open::GroupStart;
pub use persisting::Persistence;
pub use votes::{DamagedVotes, GroupVotes};

use std::collections::VecDeque;

use bytes::Bytes;
use myelin_replica::{Broken, Consensus, Fetch, Peer, RaftEntry, RaftMessage, RaftRole, Ready, Status, Vote};
use myelin_store::{DecidedEntry, GroupPosition, StoreError, Timestamp};

use crate::ReplicaRole;
use crate::stream::{Effects, StreamCore};
use commit_wait::CommitWait;
use kept_log::KeptLog;
use persisting::Unpersisted;
use state_check::StateCheck;

/// The member of one group whose log is that of a stream.
#[derive(Debug)]
pub struct GroupMember {
    me: Peer,
    consensus: Consensus,
    unpersisted: Unpersisted,
    /// Entries that are decided and written here, and not proposed: too much is under way.
    unproposed: VecDeque<DecidedEntry>,
    /// The last entry of the stream's log that consensus knows.
    known: u64,
    /// The last term in which this member was elected, and in which entries are its own.
    elected: u64,
    kept_log: KeptLog,
    /// The note that says who is a member, as it counts here; empty where there is none.
    members: Vec<u8>,
    /// Whether that is known to whoever begins anew.
    is_settled: bool,
    /// Peers that are to be the members; empty: as they are.
    wanted: Vec<Peer>,
    /// Others that may have lost entries which they had confirmed.
    forgetful: Vec<Peer>,
    state_check: StateCheck,
    commit_wait: CommitWait,
    /// Whether it has failed: what it has taken from consensus since is perhaps not done.
    has_failed: bool,
}

/// Work that is to be done for a member, in this order.
#[derive(Debug, Default)]
pub struct GroupWork {
    /// The role that the stream, its consumers and all that belongs to them are to have. Until the
    /// stream has it the member does nothing more.
    pub role: Option<ReplicaRole>,
    /// To be made durable, and then told to [`GroupMember::vote_persisted`].
    pub vote: Option<Vote>,
    /// Whether the stream's log is to be synced, after which [`GroupMember::advance`] is to be
    /// called: something waits for that.
    pub needs_sync: bool,
    /// Whether this member, which leads, is to hand over to its [heir](GroupMember::heir): a change
    /// of members that is under way leaves it out. Asked for with each call until another one
    /// leads.
    pub hands_over: bool,
    /// To be sent, each to who it is for.
    pub messages: Vec<RaftMessage>,
}

/// A member that does nothing any more, until it is opened anew.
#[derive(Debug)]
pub enum MemberFailed {
    /// Consensus has ended, or what is stored is no log.
    Consensus(Broken),
    /// The stream could not append, take back or read what it had to.
    Stream(StoreError),
    /// The stream has no group.
    NoGroup,
    /// The stream's log is not synced, where that is what counts.
    NotSynced,
    /// The stream's log lacks this entry, of which nobody knows that it is committed: without those
    /// from there on ([`StreamCore::take_back`]) it is a log, of a member that may have confirmed
    /// more.
    Hole(u64),
    /// The stream's log contradicts itself, as damage has taken entries that were committed: no
    /// member begins with it but one of which that is [known](GroupStart::is_damaged).
    Contradiction,
    /// The member had failed before.
    Ended,
}

impl GroupMember {
    /// Time has passed: one tick for all members of a server, some 100 ms.
    ///
    /// # Errors
    /// The member has failed.
    pub fn tick(&mut self) -> Result<(), MemberFailed> {
        self.check()?;
        Ok(self.consensus.tick()?)
    }

    /// Takes a message of another member.
    ///
    /// # Errors
    /// The member has failed.
    pub fn step(&mut self, message: RaftMessage) -> Result<(), MemberFailed> {
        self.check()?;
        Ok(self.consensus.step(message)?)
    }

    /// A vote of [`GroupWork::vote`] is durable.
    pub fn vote_persisted(&mut self, vote: Vote) {
        self.unpersisted.vote_persisted(vote);
    }

    /// How this member sees its group.
    #[must_use]
    pub fn status(&self) -> Status {
        self.consensus.status()
    }

    /// The member to which this one hands over best, if it leads and there is another one.
    /// `is_there` says whose server can be reached.
    #[must_use]
    pub fn heir(&self, is_there: impl Fn(Peer) -> bool) -> Option<Peer> {
        changes::heir(&self.consensus, self.me, is_there)
    }

    /// Whether its stream may begin to decide, as [`GroupWork::role`] has asked for: that may be
    /// over when somebody comes to it.
    #[must_use]
    pub fn may_lead(&self, stream: &StreamCore) -> bool {
        stream.store().group().is_some_and(|position| self.may_lead_behind(position))
    }

    /// The consensus behind it, to look at.
    #[must_use]
    pub fn consensus(&self) -> &Consensus {
        &self.consensus
    }

    /// The consensus behind it: elections, handing over, resting. Who calls it calls
    /// [`GroupMember::advance`] next.
    pub fn consensus_mut(&mut self) -> &mut Consensus {
        &mut self.consensus
    }

    /// Members that may have lost entries which they had confirmed, and vote for nobody yet. Counts
    /// while this member leads, and until others are named.
    pub fn set_forgetful(&mut self, peers: impl Iterator<Item = Peer>) {
        self.forgetful.clear();
        self.forgetful.extend(peers);
    }

    /// Keeps the entries behind `index` for a member that gets the stream as of there: until it has
    /// them, or nobody has said so for 30 seconds.
    pub fn hold_log(&mut self, peer: Peer, index: u64, now: Timestamp) {
        self.kept_log.hold(peer, index, now);
    }

    /// Proposes what the stream has decided so far: to be called before this member hands over,
    /// which proposes nothing from then on, so that nothing is taken back without an answer.
    ///
    /// # Errors
    /// The member has failed.
    pub fn propose_decided(&mut self, stream: &mut StreamCore) -> Result<(), MemberFailed> {
        self.check()?;
        if stream.role().leads() && self.leads() {
            self.unproposed.extend(stream.store_mut().take_decided());
            self.propose()?;
        }
        Ok(())
    }

    /// Brings the stream and consensus to the same point: to be called after everything else here,
    /// and after each turn in which the stream has decided something.
    ///
    /// # Errors
    /// The member has failed.
    pub fn advance(
        &mut self,
        stream: &mut StreamCore,
        now: Timestamp,
        effects: &mut Effects,
    ) -> Result<GroupWork, MemberFailed> {
        self.check()?;
        let work = self.try_advance(stream, now, effects);
        self.has_failed = work.is_err();
        work
    }

    fn check(&self) -> Result<(), MemberFailed> {
        if self.has_failed { Err(MemberFailed::Ended) } else { Ok(()) }
    }

    fn try_advance(
        &mut self,
        stream: &mut StreamCore,
        now: Timestamp,
        effects: &mut Effects,
    ) -> Result<GroupWork, MemberFailed> {
        let mut work = GroupWork::default();
        self.unproposed.extend(stream.store_mut().take_decided());
        if stream.role().leads() && !self.leads() {
            work.role = Some(ReplicaRole::Follower);
            return Ok(work);
        }
        if !stream.role().leads() {
            self.take_back_unproposed(stream, now)?;
        }
        loop {
            work.hands_over |= self.change_members(stream, now);
            self.propose()?;
            self.serve_fetches(stream)?;
            if let Some(number) = self.unpersisted.settle(stream, &mut work) {
                self.consensus.persisted(number)?;
            }
            let Some(ready) = self.consensus.ready()? else { break };
            self.take(ready, stream, (now, effects), &mut work)?;
        }
        if myelin_stdx::planted::bug(102) && stream.role().leads() {
            let written = self.known;
            stream.committed(written, effects);
        }
        if myelin_stdx::planted::bug(107) && self.consensus.role() == RaftRole::Leader {
            let mut matched: Vec<u64> = self.status().members.iter().map(|one| one.matched).collect();
            matched.sort_unstable();
            let counted = matched.get((matched.len() - 1) / 2).copied().unwrap_or(0);
            stream.committed(counted.min(self.known), effects);
        }
        match self.leads() {
            true => self.commit_wait.look((self.known, self.consensus.committed()), now),
            false => self.commit_wait.forget(),
        }
        let kept_behind = self.kept_log.behind(&self.consensus, now);
        stream.store_mut().keep_log_behind(kept_behind);
        stream.store_mut().keep_log_form(self.kept_log.has_installs());
        let position = stream.store().group().ok_or(MemberFailed::NoGroup)?;
        self.pass_state_check(position.commit, stream, effects);
        debug_assert_eq!(position.index, self.known + self.unproposed.len() as u64, "one log");
        if !stream.role().leads() && self.may_lead_behind(position) {
            stream.store_mut().lead(position.term);
            work.role = Some(ReplicaRole::Leader);
        }
        Ok(work)
    }

    /// Whether this member leads in the term in which the stream decides.
    fn leads(&self) -> bool {
        self.consensus.role() == RaftRole::Leader && self.consensus.term() == self.elected
    }

    /// Whether its stream may begin to decide: the first entry of its term is in the log, and
    /// everything in it is committed.
    fn may_lead_behind(&self, position: GroupPosition) -> bool {
        self.leads() && position.term == self.elected && position.commit >= position.index
    }

    /// Proposes what the stream has decided, as much as may be under way.
    fn propose(&mut self) -> Result<(), MemberFailed> {
        while self.consensus.can_propose()
            && let Some(decided) = self.unproposed.pop_front()
        {
            let (index, data) = (decided.entry.index, decided.to_bytes());
            self.kept_log.add(data.len());
            let refused = self.consensus.propose(index, data).err();
            self.consensus.check()?;
            if let Some(refused) = refused {
                let reason = format!("the entry {index} of the stream was not taken: {refused}");
                return Err(Broken { reason }.into());
            }
            self.known = index;
        }
        Ok(())
    }

    /// A stream that leads no more forgets what it has decided and nobody else has heard of.
    fn take_back_unproposed(&mut self, stream: &mut StreamCore, now: Timestamp) -> Result<(), MemberFailed> {
        self.unproposed.clear();
        let position = stream.store().group().ok_or(MemberFailed::NoGroup)?;
        if position.index > self.known {
            stream.take_back(self.known + 1, now)?;
        }
        Ok(())
    }

    /// Does what consensus asks for.
    fn take(
        &mut self,
        ready: Ready,
        stream: &mut StreamCore,
        (now, effects): (Timestamp, &mut Effects),
        work: &mut GroupWork,
    ) -> Result<(), MemberFailed> {
        if self.consensus.role() == RaftRole::Leader {
            self.elected = self.consensus.term();
        }
        let mut is_behind_change = false;
        for entry in &ready.append {
            if is_behind_change && myelin_stdx::planted::bug(115) {
                let RaftEntry { index, term, .. } = *entry;
                self.append(&RaftEntry { index, term, data: Bytes::new() }, stream, (now, &mut *effects))?;
                continue;
            }
            is_behind_change |=
                cfg!(planted) && entry.data.windows(13).any(|bytes| bytes == b"group.members");
            self.append(entry, stream, (now, &mut *effects))?;
        }
        if let Some(commit) = ready.commit {
            self.pass_state_check(commit, stream, effects);
            stream.committed(commit, effects);
            self.follow_members(stream.store())?;
        }
        self.unpersisted.add(ready, stream, work)?;
        Ok(())
    }

    /// Has the stream's log have an entry as consensus has it.
    fn append(
        &mut self,
        entry: &RaftEntry,
        stream: &mut StreamCore,
        (now, effects): (Timestamp, &mut Effects),
    ) -> Result<(), MemberFailed> {
        let &RaftEntry { index, term, ref data } = entry;
        if index <= self.known {
            if term == self.elected && self.leads() {
                // The stream has decided it, and written it before it was proposed.
                return Ok(());
            }
            stream.take_back(index, now)?;
        }
        let decided = if data.is_empty() {
            stream.store().first_entry(term)
        } else {
            DecidedEntry::from_bytes(index, term, data)
        };
        let decided = decided.filter(|decided| decided.entry.index == index);
        let decided =
            decided.ok_or_else(|| Broken { reason: format!("nobody writes an entry as {index} is") })?;
        // What it says to be committed counts with it.
        self.pass_state_check(decided.entry.commit, stream, effects);
        stream.append_decided(&decided, now)?;
        if myelin_stdx::planted::bug(103) {
            stream.committed(index, effects);
        }
        self.known = index;
        self.kept_log.add(data.len());
        Ok(())
    }

    /// Reads what members need that are behind.
    fn serve_fetches(&mut self, stream: &StreamCore) -> Result<(), MemberFailed> {
        for Fetch { id, from, to, max_bytes } in self.consensus.wanted() {
            let bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
            // A segment that cannot be read keeps another member behind, and is none of this one's
            // business: it is asked for again.
            let read = stream.store().read_log(from..to, bytes);
            if read.as_ref().is_ok_and(Vec::is_empty)
                && let Ok(Some(outline)) = stream.store().log_outline()
            {
                // Nobody asks for them again. An entry that was erased, or is damaged, is in the
                // log, and yet nothing up to it can be given.
                self.consensus.forget_before(outline.base.0.max(from) + 1);
            }
            let read = read.unwrap_or_default();
            self.consensus.fetched(id, read.iter().map(raft_entry).collect())?;
        }
        Ok(())
    }
}

/// An entry as consensus has it: the first one of a leader is empty.
fn raft_entry(decided: &DecidedEntry) -> RaftEntry {
    let data = if decided.is_empty() { Bytes::new() } else { decided.to_bytes() };
    RaftEntry { index: decided.entry.index, term: decided.entry.term, data }
}

impl From<Broken> for MemberFailed {
    fn from(broken: Broken) -> Self {
        Self::Consensus(broken)
    }
}

impl From<StoreError> for MemberFailed {
    fn from(error: StoreError) -> Self {
        Self::Stream(error)
    }
}

impl std::fmt::Display for MemberFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Consensus(Broken { reason }) => f.write_str(reason),
            Self::Stream(error) => error.fmt(f),
            Self::NoGroup => f.write_str("the stream has no group"),
            Self::NotSynced => f.write_str("the stream's log is not synced"),
            Self::Hole(index) => write!(f, "the entry {index} of the stream's log cannot be read"),
            Self::Contradiction => f.write_str("the log of the group has a gap"),
            Self::Ended => f.write_str("the member has failed before"),
        }
    }
}

impl std::error::Error for MemberFailed {}

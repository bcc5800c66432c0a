//! How a member sees its group.

use raft::StateRole;

use super::{Consensus, Vote};
use crate::Peer;

/// Part of a member in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaftRole {
    /// Decides.
    Leader,
    /// Follows a leader, or waits for one.
    Follower,
    /// Stands for election, or asks whether it would be elected.
    Candidate,
}

/// How far another member is, as its leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberProgress {
    /// Who.
    pub peer: Peer,
    /// The last index that it has confirmed in this life.
    pub matched: u64,
    /// Whether it was heard since the last look, some 10 ticks ago.
    pub is_active: bool,
}

/// How a member sees its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its part.
    pub role: RaftRole,
    /// Its term.
    pub term: u64,
    /// The leader, if it knows of one.
    pub leader: Option<Peer>,
    /// Index of the last entry in its log, persisted or not.
    pub last: u64,
    /// Index up to which it has persisted its log.
    pub persisted: u64,
    /// Index up to which it knows the log to be committed.
    pub committed: u64,
    /// Index up to which all members have confirmed the log, as this leader knows it, or as one has
    /// said: 0 before.
    pub confirmed_by_all: u64,
    /// All members, in order, if it leads.
    pub members: Vec<MemberProgress>,
    /// Whether it may neither vote nor lead: see [`MemberStart`](super::MemberStart).
    pub is_amnesiac: bool,
}

impl Consensus {
    /// Its part.
    #[must_use]
    pub fn role(&self) -> RaftRole {
        match self.node.raft.state {
            StateRole::Leader => RaftRole::Leader,
            StateRole::Follower => RaftRole::Follower,
            StateRole::Candidate | StateRole::PreCandidate => RaftRole::Candidate,
        }
    }

    /// Its term.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.node.raft.term
    }

    /// The leader, if it knows of one.
    #[must_use]
    pub fn leader(&self) -> Option<Peer> {
        Peer::from_number(self.node.raft.leader_id)
    }

    /// Term and index of the last entry in its log.
    #[must_use]
    pub fn last(&self) -> (u64, u64) {
        let log = &self.node.raft.raft_log;
        (log.last_term(), log.last_index())
    }

    /// Term and index of the last entry that it has persisted, and so may have confirmed; zeros
    /// where there is none.
    #[must_use]
    pub fn confirmed(&self) -> (u64, u64) {
        let log = &self.node.raft.raft_log;
        (log.store().term_of(log.persisted).unwrap_or(0), log.persisted)
    }

    /// Its term, and its vote in it.
    #[must_use]
    pub fn vote(&self) -> Vote {
        Vote { term: self.node.raft.term, voted_for: Peer::from_number(self.node.raft.vote) }
    }

    /// Index up to which it knows the log to be committed.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.node.raft.raft_log.committed
    }

    /// Index up to which all members have confirmed the log: see [`Status::confirmed_by_all`].
    #[must_use]
    pub fn confirmed_by_all(&self) -> u64 {
        let raft = &self.node.raft;
        let is_leader = raft.state == StateRole::Leader;
        let matched = raft.prs().iter().map(|(_, progress)| progress.matched).min();
        matched.filter(|_| is_leader).unwrap_or(self.confirmed_by_all)
    }

    /// How this member sees its group.
    #[must_use]
    pub fn status(&self) -> Status {
        let raft = &self.node.raft;
        let role = self.role();
        let mut members: Vec<MemberProgress> = Vec::new();
        if role == RaftRole::Leader {
            let standings = raft.prs().iter().filter_map(|(&number, progress)| {
                let peer = Peer::from_number(number)?;
                let is_active = progress.recent_active || peer == self.me;
                Some(MemberProgress { peer, matched: progress.matched, is_active })
            });
            members.extend(standings);
            members.sort_by_key(|standing| standing.peer);
        }
        Status {
            role,
            term: self.term(),
            leader: self.leader(),
            last: raft.raft_log.last_index(),
            persisted: raft.raft_log.persisted,
            committed: self.committed(),
            confirmed_by_all: self.confirmed_by_all(),
            members,
            is_amnesiac: self.is_amnesiac,
        }
    }
}

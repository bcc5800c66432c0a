//! How a member sees its group.

use raft::StateRole;

use super::Consensus;
use crate::Peer;

/// What a member does in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Decides.
    Leader,
    /// Follows a leader, or waits for one.
    Follower,
    /// Stands for election, or asks whether it would be elected.
    Candidate,
}

/// How far another member is, as its leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
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
    /// What it does.
    pub role: Role,
    /// Its term.
    pub term: u64,
    /// Who leads, if it knows.
    pub leader: Option<Peer>,
    /// Index of the last entry in its log, persisted or not.
    pub last: u64,
    /// Index up to which it has persisted its log.
    pub persisted: u64,
    /// Index up to which it knows the log to be committed.
    pub committed: u64,
    /// All members, in order, if it leads.
    pub members: Vec<Standing>,
    /// Whether it may neither vote nor lead: see [`Start`](super::Start).
    pub is_amnesiac: bool,
}

impl Consensus {
    /// How this member sees its group.
    #[must_use]
    pub fn status(&self) -> Status {
        let raft = &self.node.raft;
        let role = match raft.state {
            StateRole::Leader => Role::Leader,
            StateRole::Follower => Role::Follower,
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
        };
        let mut members: Vec<Standing> = Vec::new();
        if role == Role::Leader {
            let standings = raft.prs().iter().filter_map(|(&number, progress)| {
                let peer = Peer::from_number(number)?;
                let is_active = progress.recent_active || peer == self.me;
                Some(Standing { peer, matched: progress.matched, is_active })
            });
            members.extend(standings);
            members.sort_by_key(|standing| standing.peer);
        }
        Status {
            role,
            term: raft.term,
            leader: Peer::from_number(raft.leader_id),
            last: raft.raft_log.last_index(),
            persisted: raft.raft_log.persisted,
            committed: raft.raft_log.committed,
            members,
            is_amnesiac: self.is_amnesiac,
        }
    }
}

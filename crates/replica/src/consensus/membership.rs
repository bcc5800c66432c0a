//! Members of a group, as the library has to know them.
//!
//! A change of members is an entry like any other: its bytes are the stream's, and the library is
//! told of it when it is committed. So the library proposes, parses and leaves nothing by itself.

use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};

use super::{Broken, Consensus};
use crate::{Members, Peer};

impl Consensus {
    /// Members of the group, as this one knows it.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// An entry is committed that says who is a member from now on. To be called in the order of
    /// such entries, before anything else is told to this member; some may be passed over.
    ///
    /// # Errors
    /// The member has failed.
    pub fn set_members(&mut self, members: &Members) -> Result<(), Broken> {
        if *members == self.members {
            return self.check();
        }
        let (from, to) = (self.counting(&self.members), self.counting(members));
        self.members.clone_from(members);
        self.change_library(&from, &to)
    }

    /// Has just these of those that vote count from now on, here and by nobody's consent, and what
    /// they agree on be the group's: for a group that has lost too many for good. `None`: all count
    /// again. Two parts of a group that are rescued apart from each other both go on.
    ///
    /// # Errors
    /// The member has failed.
    pub fn rescue(&mut self, few: Option<Vec<Peer>>) -> Result<(), Broken> {
        let from = self.counting(&self.members);
        self.rescued = few;
        let to = self.counting(&self.members);
        self.change_library(&from, &to)
    }

    /// Begins an epoch of the group: terms go on from this one at least, so that no entry of before
    /// can be taken for one of it.
    ///
    /// # Errors
    /// The member has failed.
    pub fn begin_epoch(&mut self, term: u64) -> Result<(), Broken> {
        if self.node.raft.term >= term {
            return self.check();
        }
        self.call(|node| node.raft.become_follower(term, 0))
    }

    /// Members as they count.
    pub(super) fn counting(&self, members: &Members) -> Members {
        if myelin_stdx::planted::bug(108) && !members.is_joint() {
            return Members::of(&members.all());
        }
        if myelin_stdx::planted::bug(109) {
            return Members { learners: members.learners.clone(), ..Members::of(&members.all_voters()) };
        }
        self.rescued.as_ref().map_or_else(|| members.clone(), |few| members.limited_to(few))
    }

    /// Whoever says something learns: planted bug 116.
    #[cfg(planted)]
    pub(super) fn let_in(&mut self, peer: Peer) -> Result<(), Broken> {
        if self.node.raft.prs().get(peer.number()).is_some() {
            return Ok(());
        }
        let from = self.counting(&self.members);
        let learners = [&from.learners[..], &[peer]].concat();
        let to = Members { learners, ..from.clone() };
        self.change_library(&from, &to)
    }

    fn change_library(&mut self, from: &Members, to: &Members) -> Result<(), Broken> {
        if from == to {
            return self.check();
        }
        for step in steps(from, to) {
            let changed = self.call(|node| node.apply_conf_change(&step).map(drop))?;
            if let Err(error) = changed {
                self.broken = Some(Broken { reason: format!("members cannot change so: {error}") });
                return self.check();
            }
        }
        Ok(())
    }

    /// Whether a member that learns has so much of the log that it may vote: all but what is on its
    /// way. Only a leader knows.
    #[must_use]
    pub fn has_log(&self, learner: Peer) -> bool {
        /// Entries that may be on their way.
        const ON_THEIR_WAY: u64 = 1000;
        let raft = &self.node.raft;
        let progress = raft.prs().get(learner.number()).filter(|progress| progress.recent_active);
        progress.is_some_and(|progress| {
            progress.matched > 0 && progress.matched + ON_THEIR_WAY >= raft.raft_log.committed
        })
    }

    /// Whether this member is about to hand over.
    #[must_use]
    pub fn is_handing_over(&self) -> bool {
        self.node.raft.lead_transferee.is_some()
    }
}

/// Members as the library begins with them.
pub(super) fn conf_state(members: &Members) -> ConfState {
    let numbers = |peers: &[Peer]| peers.iter().map(|peer| peer.number()).collect();
    ConfState {
        voters: numbers(&members.voters),
        voters_outgoing: numbers(&members.outgoing),
        learners: numbers(&members.learners),
        ..ConfState::default()
    }
}

/// Changes that lead the library from one set to another one. It takes no more than one voter at
/// once, but over two majorities.
fn steps(from: &Members, to: &Members) -> Vec<ConfChangeV2> {
    let mut steps = Vec::new();
    let mut now = from.clone();
    if now.is_joint() {
        steps.push(ConfChangeV2::default());
        now.outgoing.clear();
    }
    if to.is_joint() && now.voters != to.outgoing {
        steps.extend([enter_joint(&now, &Members::of(&to.outgoing)), ConfChangeV2::default()]);
        now = Members::of(&to.outgoing);
    }
    if to.is_joint() {
        steps.push(enter_joint(&now, to));
    } else if now.voters == to.voters {
        // One by one: more of them would be taken for a change of majorities.
        steps.extend(changes(&now, to).into_iter().map(|change| with(vec![change])));
    } else {
        steps.extend([enter_joint(&now, to), ConfChangeV2::default()]);
    }
    steps
}

fn with(changes: Vec<ConfChangeSingle>) -> ConfChangeV2 {
    let mut step = ConfChangeV2::default();
    step.set_changes(changes.into());
    step
}

fn enter_joint(from: &Members, to: &Members) -> ConfChangeV2 {
    let mut step = with(changes(from, to));
    step.set_transition(ConfChangeTransition::Explicit);
    step
}

/// Changes, one for each peer that becomes something else.
fn changes(from: &Members, to: &Members) -> Vec<ConfChangeSingle> {
    let change = |peer: Peer, kind| {
        let mut change = ConfChangeSingle::default();
        change.set_change_type(kind);
        change.node_id = peer.number();
        change
    };
    let is_gone = |peer: &Peer| !to.voters.contains(peer) && !to.learners.contains(peer);
    let gone = from.all().into_iter().filter(is_gone);
    let voters = to.voters.iter().filter(|peer| !from.voters.contains(peer));
    let learners = to.learners.iter().filter(|peer| !from.learners.contains(peer));
    gone.map(|peer| change(peer, ConfChangeType::RemoveNode))
        .chain(voters.map(|&peer| change(peer, ConfChangeType::AddNode)))
        .chain(learners.map(|&peer| change(peer, ConfChangeType::AddLearnerNode)))
        .collect()
}

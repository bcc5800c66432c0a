//! Messages that wait until a vote or entries are persisted: the word of a member counts only then.

use std::collections::VecDeque;

use myelin_replica::{RaftMessage, Ready, Vote};
use myelin_store::{LogEnd, StoreError};

use super::GroupWork;
use crate::stream::StreamCore;

/// Rule by which an entry counts as persisted, so that a member may confirm it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// The operating system has it, or memory for a stream in memory: it outlives the process.
    Written,
    /// The disk has it: it outlives a loss of power (`sync_interval: always`).
    Synced,
}

/// Work that waits, in the order in which consensus has asked for it.
#[derive(Debug)]
pub(super) struct Unpersisted {
    persistence: Persistence,
    waiting: VecDeque<UnpersistedReady>,
    /// The vote that is to be made durable and is not yet.
    vote: Option<Vote>,
}

#[derive(Debug)]
struct UnpersistedReady {
    /// For [`myelin_replica::Consensus::persisted`].
    number: u64,
    /// Whether a vote has to be durable.
    needs_vote: bool,
    /// Up to where the log has to be synced.
    end: Option<LogEnd>,
    messages: Vec<RaftMessage>,
}

impl Unpersisted {
    pub(super) fn new(persistence: Persistence) -> Self {
        Self { persistence, waiting: VecDeque::new(), vote: None }
    }

    /// Takes what consensus asks for: it is in the stream's log, and the vote is still to be made
    /// durable.
    ///
    /// # Errors
    /// The stream has failed.
    pub(super) fn add(
        &mut self,
        ready: Ready,
        stream: &mut StreamCore,
        work: &mut GroupWork,
    ) -> Result<(), StoreError> {
        let Ready { number, vote, append, now, after, .. } = ready;
        if vote.is_some() {
            self.vote = vote;
            work.vote = vote;
        }
        let has_entries = !append.is_empty();
        if has_entries && self.persistence == Persistence::Written {
            stream.store_mut().flush()?;
        }
        let end = (has_entries && self.persistence == Persistence::Synced).then(|| stream.store().end());
        let needs_vote = self.vote.is_some() && !myelin_stdx::planted::bug(101);
        let mut messages = after;
        if needs_vote {
            messages.splice(..0, now);
        } else {
            work.messages.extend(now);
        }
        self.waiting.push_back(UnpersistedReady { number, needs_vote, end, messages });
        Ok(())
    }

    pub(super) fn vote_persisted(&mut self, vote: Vote) {
        if self.vote == Some(vote) {
            self.vote = None;
            self.waiting.iter_mut().for_each(|waiting| waiting.needs_vote = false);
        }
    }

    /// Numbers of what is persisted now. What waited for that may leave.
    pub(super) fn settle(&mut self, stream: &StreamCore, work: &mut GroupWork) -> Option<u64> {
        let mut settled = None;
        while let Some(waiting) = self.waiting.front() {
            let is_synced = waiting.end.is_none_or(|end| stream.store().is_synced(end));
            if waiting.needs_vote || !is_synced {
                break;
            }
            let Some(UnpersistedReady { number, messages, .. }) = self.waiting.pop_front() else { break };
            settled = Some(number);
            work.messages.extend(messages);
        }
        work.needs_sync = self.waiting.iter().any(|waiting| waiting.end.is_some());
        settled
    }
}

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
    /// Whether nobody hears of an entry before the disk has it.
    is_kept_to_itself: bool,
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
        Self { persistence, is_kept_to_itself: false, waiting: VecDeque::new(), vote: None }
    }

    /// Whether nobody is to hear of an entry before the disk has it, from the next one on.
    pub(super) fn keep_to_itself(&mut self, is_kept: bool) {
        self.is_kept_to_itself = is_kept;
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
        let is_synced_first = self.persistence == Persistence::Synced || self.is_kept_to_itself;
        if has_entries && !is_synced_first {
            stream.store_mut().flush()?;
        }
        let end = (has_entries && is_synced_first).then(|| stream.store().end());
        let needs_vote = self.vote.is_some() && !myelin_stdx::planted::bug(101);
        let mut messages = after;
        if needs_vote || self.is_kept_to_itself {
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
        let is_unsynced = |end: LogEnd| !stream.store().is_synced(end);
        while let Some(waiting) = self.waiting.front() {
            if waiting.needs_vote || waiting.end.is_some_and(is_unsynced) {
                break;
            }
            let Some(UnpersistedReady { number, messages, .. }) = self.waiting.pop_front() else { break };
            settled = Some(number);
            work.messages.extend(messages);
        }
        // What waits for a vote, and is synced, needs no sync: the disk may refuse the vote. Where
        // the last end is synced, those before it are.
        work.needs_sync = self.waiting.iter().rev().find_map(|waiting| waiting.end).is_some_and(is_unsynced);
        settled
    }
}

//! Work that a member asks for: to write, to send, to read.

use raft::{RaftLog, Storage, eraftpb};

use super::entry::RaftEntry;
use super::{Broken, Consensus, MAX_MESSAGE_BYTES, Vote};
use crate::{Peer, RaftMessage, RaftMessageKind};

/// Work that is to be done now, in this order: write `vote` and `append`, tell the stream of
/// `commit`, send `now`; and when everything up to this `number` is persisted, say
/// [`persisted`](Consensus::persisted) and send `after`.
#[derive(Debug, Default)]
pub struct Ready {
    /// Grows by one.
    pub number: u64,
    /// To be persisted before anything else of this member leaves.
    pub vote: Option<Vote>,
    /// Entries for the log. Where the first is not the next one, it and all behind it in the log
    /// are taken back first. A leader has written those that it proposed; its own first one, which
    /// is empty, it has not.
    pub append: Vec<RaftEntry>,
    /// A new index up to which everything is committed. May be beyond what is persisted here.
    pub commit: Option<u64>,
    /// May leave at once: only a leader has them.
    pub now: Vec<RaftMessage>,
    /// May leave when this number is persisted.
    pub after: Vec<RaftMessage>,
}

/// One request for entries that are no more in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FetchId(u64);

/// Entries that are to be read from the log, for a member that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// For [`Consensus::fetched`].
    pub id: FetchId,
    /// The first index.
    pub from: u64,
    /// The index behind the last one that can be of use.
    pub to: u64,
    /// More than these bytes are of no use; the first entry always is.
    pub max_bytes: u64,
}

/// Why an entry was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The member does not lead, or may not propose now.
    NotNow,
    /// Its index is not the next one.
    NotNext {
        /// The next index.
        expected: u64,
    },
    /// The member has failed.
    Broken,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotNow => f.write_str("the member does not lead, or may not propose now"),
            Self::NotNext { expected } => write!(f, "the next entry is {expected}"),
            Self::Broken => f.write_str("the member has failed"),
        }
    }
}

impl std::error::Error for Refused {}

impl Consensus {
    /// Work that is to be done; `None` if nothing is. To be asked until then after every call.
    ///
    /// # Errors
    /// The member has failed.
    pub fn ready(&mut self) -> Result<Option<Ready>, Broken> {
        self.check()?;
        if !self.node.has_ready() {
            return Ok(None);
        }
        let mut done = Ready::default();
        self.call(|node| {
            let mut ready = node.ready();
            done.number = ready.number();
            done.append = ready.entries().iter().map(RaftEntry::of_raft).collect();
            let confirmed = node.raft.prs().iter().map(|(_, progress)| progress.matched).min();
            let mut now = ready.take_messages();
            now.retain_mut(|message| is_in_place(message, &node.raft.raft_log));
            done.now = messages(now, confirmed.unwrap_or(0));
            done.after = messages(ready.take_persisted_messages(), 0);
            let applied = ready.take_committed_entries().last().map(|entry| entry.index);
            node.mut_store().append(&done.append);
            node.advance_append_async(ready);
            if let Some(applied) = applied {
                // The library scans what is committed and not applied at each election.
                node.advance_apply_to(applied);
                node.mut_store().trim(applied);
            }
        })?;
        let raft = &self.node.raft;
        let vote = Vote { term: raft.term, voted_for: Peer::from_number(raft.vote) };
        done.vote = (vote != self.vote).then_some(vote);
        self.vote = vote;
        let committed = raft.raft_log.committed;
        done.commit = (committed > self.told.committed).then_some(committed);
        self.told.committed = committed;
        let confirms =
            |message: &&RaftMessage| message.kind == RaftMessageKind::AppendAnswer && !message.is_refused;
        let confirmed = done.after.iter().filter(confirms).map(|answer| (answer.term, answer.index));
        self.told.confirmed = confirmed.fold(self.told.confirmed, Ord::max);
        Ok(Some(done))
    }

    /// Everything up to this number of a [`Ready`] is persisted: written in the default mode,
    /// synced under `always`.
    ///
    /// # Errors
    /// The member has failed.
    pub fn persisted(&mut self, number: u64) -> Result<(), Broken> {
        self.call(|node| node.on_persist_ready(number))
    }

    /// Entries that have to be read from the log for members that are behind.
    pub fn wanted(&mut self) -> Vec<Fetch> {
        let wanted = self.node.mut_store().take_wanted();
        let mut fetches: Vec<Fetch> = Vec::new();
        for one in wanted {
            // Each answer of a member asks for the same again until it is there.
            if self.fetches.iter().any(|&(_, low, _)| low == one.low) {
                continue;
            }
            let id = FetchId(self.next_fetch);
            self.next_fetch += 1;
            self.fetches.push((id, one.low, one.context));
            fetches.push(Fetch { id, from: one.low, to: one.high, max_bytes: one.max_bytes });
        }
        fetches
    }

    /// Members that need the whole stream, as this leader sees it: what they lack can be read no
    /// more ([`Consensus::forget_before`]). Each is named again with its next answer, until its log
    /// goes on where that of the leader can be read ([`Consensus::reset_peer`]).
    pub fn lacking(&mut self) -> Vec<Peer> {
        self.node.mut_store().take_lacking().into_iter().filter_map(Peer::from_number).collect()
    }

    /// Entries that were read. None, if they cannot be read: the member is asked for again with the
    /// next answer.
    ///
    /// # Errors
    /// The member has failed.
    pub fn fetched(&mut self, id: FetchId, entries: Vec<RaftEntry>) -> Result<(), Broken> {
        let Some(at) = self.fetches.iter().position(|(other, ..)| *other == id) else { return Ok(()) };
        let (.., context) = self.fetches.swap_remove(at);
        if entries.is_empty() {
            return Ok(());
        }
        self.call(|node| {
            node.mut_store().lend(entries);
            node.on_entries_fetched(context);
            node.mut_store().lend(Vec::new());
        })
    }
}

/// Whether a message says which entry is before the first one that it has. The library puts entries
/// into a message that waits for the same member, and that said so of others if it had none: a
/// member whose answers come between is asked for two places at once.
fn is_in_place<S: Storage>(message: &mut eraftpb::Message, log: &RaftLog<S>) -> bool {
    let Some(before) = message.entries.first().map(|first| first.index - 1) else { return true };
    if before != message.index {
        let Ok(term) = log.term(before) else { return false };
        (message.index, message.log_term) = (before, term);
    }
    true
}

/// Messages that the library wants to be sent; a leader's heartbeats say what all have confirmed.
fn messages(messages: Vec<eraftpb::Message>, confirmed: u64) -> Vec<RaftMessage> {
    let mut messages: Vec<RaftMessage> = messages.iter().filter_map(RaftMessage::of_raft).collect();
    let heartbeats = messages.iter_mut().filter(|message| message.kind == RaftMessageKind::Heartbeat);
    heartbeats.for_each(|heartbeat| heartbeat.index = confirmed);
    messages.into_iter().flat_map(in_pieces).collect()
}

/// A message as several whose entries are as many as may be in one: the library puts all that is
/// under way to a member into one message.
fn in_pieces(message: RaftMessage) -> Vec<RaftMessage> {
    let bytes: u64 = message.entries.iter().map(RaftEntry::weight).sum();
    if bytes <= MAX_MESSAGE_BYTES {
        return vec![message];
    }
    let head = RaftMessage { entries: Vec::new(), ..message.clone() };
    let (mut pieces, mut piece, mut bytes) = (Vec::new(), head.clone(), 0);
    for entry in message.entries {
        if bytes > 0 && bytes + entry.weight() > MAX_MESSAGE_BYTES {
            let before =
                piece.entries.last().map_or((piece.index, piece.log_term), |one| (one.index, one.term));
            let next = RaftMessage { index: before.0, log_term: before.1, ..head.clone() };
            pieces.push(std::mem::replace(&mut piece, next));
            bytes = 0;
        }
        bytes += entry.weight();
        piece.entries.push(entry);
    }
    pieces.push(piece);
    pieces
}

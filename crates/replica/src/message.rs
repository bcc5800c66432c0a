//! Messages between members of a group.
//!
//! Owns the translation between our messages and those of the library, and which of them may come
//! from outside at all. Must never hand the library a message that ends in one of its assertions:
//! what contradicts itself is refused before.

use raft::eraftpb;

use crate::Peer;
use crate::consensus::RaftEntry;

/// Kinds of messages. Numbers stand in frames and stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RaftMessageKind {
    /// From a leader: entries behind one that the receiver should have, or only what is committed.
    Append = 1,
    /// Whether they followed on what the receiver has.
    AppendAnswer = 2,
    /// Whether the receiver would vote for the sender.
    PreVote = 3,
    /// Whether it would.
    PreVoteAnswer = 4,
    /// Asks for a vote.
    Vote = 5,
    /// The vote, or a refusal.
    VoteAnswer = 6,
    /// From a leader, that it is one.
    Heartbeat = 7,
    /// Says that the sender hears its leader.
    HeartbeatAnswer = 8,
    /// From a leader that hands over: stand for election now.
    TimeoutNow = 9,
}

/// One message between two members.
///
/// Which fields say something depends on the kind; the others are zero. See the Raft paper and the
/// thesis (Ongaro 2014), sections 3 and 9.6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftMessage {
    /// Which one.
    pub kind: RaftMessageKind,
    /// The sender.
    pub from: Peer,
    /// The receiver.
    pub to: Peer,
    /// Term of the sender; for [`PreVote`](RaftMessageKind::PreVote) the one that it would begin.
    pub term: u64,
    /// `Append`: index of the entry before the first; its answer: the last index that agrees, or
    /// what was refused; `Vote`: the last index of the sender; `Heartbeat`: every member has
    /// confirmed the entries up to there.
    pub index: u64,
    /// Term of the entry at `index`, where one is meant; of a refusal, the term at `reject_hint`.
    pub log_term: u64,
    /// Index up to which the sender knows the log to be committed.
    pub commit: u64,
    /// Term of the entry at `commit`: for votes.
    pub commit_term: u64,
    /// Whether an answer is a refusal.
    pub is_refused: bool,
    /// Of a refusal: where the receiver's log may agree.
    pub reject_hint: u64,
    /// Of a vote: the leader has asked for it, so that nobody protects that leader.
    pub is_transfer: bool,
    /// `Append`: entries, one behind the other.
    pub entries: Vec<RaftEntry>,
}

/// Marks the vote of a transfer, in the library's messages.
const TRANSFER: &[u8] = b"CampaignTransfer";

/// The highest number that a term or index may have: far from where counting ends.
pub(crate) const MAX_NUMBER: u64 = 1 << 62;

impl RaftMessageKind {
    /// All kinds, by their numbers.
    pub const ALL: [Self; 9] = [
        Self::Append,
        Self::AppendAnswer,
        Self::PreVote,
        Self::PreVoteAnswer,
        Self::Vote,
        Self::VoteAnswer,
        Self::Heartbeat,
        Self::HeartbeatAnswer,
        Self::TimeoutNow,
    ];

    fn to_raft(self) -> eraftpb::MessageType {
        use eraftpb::MessageType as Theirs;
        match self {
            Self::Append => Theirs::MsgAppend,
            Self::AppendAnswer => Theirs::MsgAppendResponse,
            Self::PreVote => Theirs::MsgRequestPreVote,
            Self::PreVoteAnswer => Theirs::MsgRequestPreVoteResponse,
            Self::Vote => Theirs::MsgRequestVote,
            Self::VoteAnswer => Theirs::MsgRequestVoteResponse,
            Self::Heartbeat => Theirs::MsgHeartbeat,
            Self::HeartbeatAnswer => Theirs::MsgHeartbeatResponse,
            Self::TimeoutNow => Theirs::MsgTimeoutNow,
        }
    }

    /// Whether the kind answers another one: only who was asked says it.
    #[must_use]
    pub fn is_answer(self) -> bool {
        matches!(self, Self::AppendAnswer | Self::PreVoteAnswer | Self::VoteAnswer | Self::HeartbeatAnswer)
    }

    /// Whether the kind asks for a vote, or is given for one.
    #[must_use]
    pub fn is_of_election(self) -> bool {
        matches!(self, Self::PreVote | Self::PreVoteAnswer | Self::Vote | Self::VoteAnswer | Self::TimeoutNow)
    }
}

impl RaftMessage {
    /// Whether a member can have said this: terms and indexes that do not contradict each other.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        let numbers = [self.term, self.index, self.log_term, self.commit, self.commit_term, self.reject_hint];
        if self.term == 0 || self.from == self.to || numbers.iter().any(|&number| number > MAX_NUMBER) {
            return false;
        }
        if self.kind != RaftMessageKind::Append {
            return self.entries.is_empty();
        }
        let mut before = self.log_term;
        let are_in_order = (self.index + 1..).zip(&self.entries).all(|(index, entry)| {
            let is_next = entry.index == index && entry.term >= before && entry.term <= self.term;
            before = entry.term;
            is_next && entry.term > 0
        });
        are_in_order && self.log_term <= self.term && (self.log_term == 0) == (self.index == 0)
    }

    pub(crate) fn into_raft(self) -> eraftpb::Message {
        let mut message = eraftpb::Message::default();
        message.set_msg_type(self.kind.to_raft());
        (message.from, message.to) = (self.from.number(), self.to.number());
        (message.term, message.index, message.log_term) = (self.term, self.index, self.log_term);
        (message.commit, message.commit_term) = (self.commit, self.commit_term);
        (message.reject, message.reject_hint) = (self.is_refused, self.reject_hint);
        if self.is_transfer {
            message.context = TRANSFER.into();
        }
        message.set_entries(self.entries.iter().map(RaftEntry::to_raft).collect::<Vec<_>>().into());
        message
    }

    /// A message that the library wants to be sent. `None` for kinds that never leave this server.
    pub(crate) fn of_raft(message: &eraftpb::Message) -> Option<Self> {
        let theirs = message.get_msg_type();
        let kind = RaftMessageKind::ALL.into_iter().find(|kind| kind.to_raft() == theirs)?;
        Some(Self {
            kind,
            from: Peer::from_number(message.from)?,
            to: Peer::from_number(message.to)?,
            term: message.term,
            index: message.index,
            log_term: message.log_term,
            commit: message.commit,
            commit_term: message.commit_term,
            is_refused: message.reject,
            reject_hint: message.reject_hint,
            is_transfer: *message.context == *TRANSFER,
            entries: message.entries.iter().map(RaftEntry::of_raft).collect(),
        })
    }
}

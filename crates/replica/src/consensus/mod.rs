//! One member of a group: the seam to the library that does Raft.
//!
//! Owns a member's role, term and view of what is committed. The library is `raft` 0.7; nothing of
//! it is in the signatures, so that another can take its place. It panics where its rules are
//! broken: each call is caught, the member is [`Broken`] from then on and is opened anew from what
//! it has stored. Must never be given a message that it would panic at, and never let a message of
//! a follower leave before what it confirms is persisted.

mod entry;
mod log;
mod membership;
mod seam;
mod status;

pub use entry::RaftEntry;
pub use log::LogStart;
pub use seam::{Fetch, FetchId, Ready, Refused};
pub use status::{MemberProgress, RaftRole, Status};

use std::panic::{AssertUnwindSafe, catch_unwind};

use myelin_stdx::rng::Rng;
use raft::{Config, GetEntriesContext, RawNode, StateRole};

use crate::{Members, Peer, RaftMessage, RaftMessageKind};
use log::LogView;

/// Ticks without a leader's word after which a member may stand for election, at least.
const ELECTION_TICKS: usize = 10;
/// Ticks between two heartbeats of a leader.
const HEARTBEAT_TICKS: usize = 2;
/// With as many bytes of entries under way a leader proposes nothing more.
const MAX_UNCOMMITTED_BYTES: u64 = 16 << 20;
/// Bound of the library, which counts the next entry, too: that is written when it is proposed.
const REFUSED_BYTES: u64 = 1 << 30;
/// Bytes of entries in one message, unless one entry has more.
const MAX_MESSAGE_BYTES: u64 = 256 << 10;
/// Messages with entries on their way to one member.
const MAX_INFLIGHT_MESSAGES: usize = 64;
/// No group has as many elections while a member is away. One that took a term far beyond its own
/// would never come back from it, and with the highest ones nobody could be elected any more.
const FARTHEST_TERM: u64 = 1 << 32;

/// A term, and for whom a member voted in it: has to outlive its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    /// The highest term that it has seen.
    pub term: u64,
    /// The member that has its vote in this term.
    pub voted_for: Option<Peer>,
}

/// With what a member begins.
#[derive(Clone, Debug)]
pub struct MemberStart {
    /// The member itself.
    pub me: Peer,
    /// All members, as the entries that are known to be committed say. This one is not among them
    /// before it has heard that it is.
    pub members: Members,
    /// As it was persisted last.
    pub vote: Vote,
    /// Its log.
    pub log: LogStart,
    /// Whether it may have lost entries that it has confirmed (a loss of power, in the default
    /// mode): it takes entries, and neither votes nor stands for election until
    /// [`Consensus::recovered`].
    pub is_amnesiac: bool,
    /// Where its draws of election time-outs begin.
    pub seed: u64,
}

/// The member has failed, by a rule of the library or by what it was given. It is to be opened
/// anew from what is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// In words, for the log.
    pub reason: String,
}

/// State that a member has told last.
struct Told {
    /// Index that is committed; to its stream.
    committed: u64,
    /// Term in which it has confirmed entries, and up to which index; to its leader.
    confirmed: (u64, u64),
}

/// One member of a group.
pub struct Consensus {
    node: RawNode<LogView>,
    me: Peer,
    members: Members,
    /// Members whose votes alone count: see [`rescue`](Self::rescue).
    rescued: Option<Vec<Peer>>,
    rng: Rng,
    /// Ticks until this member stands for election, as it was drawn here and not by the library.
    timeout: usize,
    /// Term and role when the time-out was drawn last.
    drawn: (u64, StateRole),
    is_amnesiac: bool,
    /// While it is: the one that it votes for all the same.
    chosen: Option<Peer>,
    /// Whether ticks do not count: see [`rest`](Self::rest).
    is_resting: bool,
    /// As it was given to be persisted last.
    vote: Vote,
    told: Told,
    /// Index up to which all have confirmed the log, as a leader has said, or 0.
    confirmed_by_all: u64,
    /// Under way, with where they begin.
    fetches: Vec<(FetchId, u64, GetEntriesContext)>,
    next_fetch: u64,
    broken: Option<Broken>,
}

impl Consensus {
    /// A member with what it has stored.
    ///
    /// # Errors
    /// Its log contradicts itself, or nobody is a member.
    pub fn open(start: &MemberStart) -> Result<Self, Broken> {
        let MemberStart { me, members, vote, log, is_amnesiac, seed } = start;
        if members.voters.is_empty() {
            return Err(Broken { reason: "the group has no members".to_owned() });
        }
        let voted_for = vote.voted_for.map_or(0, Peer::number);
        let view = LogView::open(log, (vote.term, voted_for), membership::conf_state(members));
        let view = view.ok_or_else(|| Broken { reason: "the log of the group has a gap".to_owned() })?;
        let config = Config {
            id: me.number(),
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied: log.committed,
            max_size_per_msg: MAX_MESSAGE_BYTES,
            max_inflight_msgs: MAX_INFLIGHT_MESSAGES,
            check_quorum: true,
            pre_vote: true,
            batch_append: true,
            max_uncommitted_size: REFUSED_BYTES,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = caught(|| RawNode::new(&config, view, &logger))?;
        let node = node.map_err(|error| Broken { reason: error.to_string() })?;
        let mut member = Self {
            drawn: (0, StateRole::Follower),
            node,
            me: *me,
            members: members.clone(),
            rescued: None,
            rng: Rng::seeded(*seed),
            timeout: 0,
            is_amnesiac: *is_amnesiac,
            chosen: None,
            is_resting: false,
            vote: *vote,
            told: Told { committed: log.committed, confirmed: (0, 0) },
            confirmed_by_all: 0,
            fetches: Vec::new(),
            next_fetch: 0,
            broken: None,
        };
        member.draw();
        Ok(member)
    }

    /// Time has passed: one tick for all members of a server. A member that leads sends heartbeats;
    /// another one that hears of no leader stands for election after 10 to 19 ticks.
    ///
    /// # Errors
    /// The member has failed.
    pub fn tick(&mut self) -> Result<(), Broken> {
        let raft = &self.node.raft;
        // A group of one becomes leader at once, for which all must be persisted.
        let is_behind = raft.prs().conf().voters().ids().len() == 1
            && raft.raft_log.persisted < raft.raft_log.last_index();
        let may_not_stand = (self.is_amnesiac || is_behind) && raft.state != StateRole::Leader;
        if self.is_resting || may_not_stand {
            return self.check();
        }
        self.call(|node| node.tick()).map(drop)
    }

    /// Whether this follower stands for election with the next [tick](Self::tick).
    #[must_use]
    pub fn is_about_to_stand(&self) -> bool {
        let raft = &self.node.raft;
        raft.state == StateRole::Follower && raft.election_elapsed + 1 >= raft.randomized_election_timeout()
    }

    /// Whether nothing is left to do in the group, as its leader sees it: all members have the same
    /// log, and all of it is committed. Whether their servers are there is for whoever asks.
    #[must_use]
    pub fn can_rest(&self) -> bool {
        let Status { role, last, persisted, committed, members, .. } = self.status();
        let has_all = |member: &MemberProgress| member.matched == last;
        role == RaftRole::Leader
            && self.can_propose()
            && self.members.is_settled()
            && (persisted, committed) == (last, last)
            && (myelin_stdx::planted::bug(120) || members.iter().all(has_all))
    }

    /// Whether nobody else can lead now: members that are a majority, this one among them, have
    /// confirmed an entry of its term and support its server (see [`liveness`](crate::liveness)),
    /// and it is not handing over. Reads that it answers then are never older than an answered
    /// write.
    #[must_use]
    pub fn is_sure(&self, supports: impl Fn(Peer) -> bool) -> bool {
        self.sure_until(|peer| u64::from(supports(peer))) > 0
    }

    /// Until when it is sure in this way, where it is known until when others support its server;
    /// 0: it is not.
    #[must_use]
    pub fn sure_until(&self, supported_until: impl Fn(Peer) -> u64) -> u64 {
        let raft = &self.node.raft;
        let Some(begin) = raft.raft_log.store().begin_of(raft.term) else { return 0 };
        let Status { role, members, .. } = self.status();
        if role != RaftRole::Leader || raft.lead_transferee.is_some() {
            return 0;
        }
        let until = |peer: &Peer| {
            let has_confirmed = |member: &MemberProgress| member.peer == *peer && member.matched >= begin;
            if *peer == self.me {
                u64::MAX
            } else if members.iter().any(has_confirmed) {
                supported_until(*peer)
            } else {
                0
            }
        };
        // So many are supported for longer that they are a majority with the one in this place.
        let of_majority = |of: &[Peer]| {
            let mut times: Vec<u64> = of.iter().map(until).collect();
            times.sort_unstable();
            times.get(times.len().saturating_sub(1) / 2).copied().unwrap_or(u64::MAX)
        };
        let counting = self.counting(&self.members);
        of_majority(&counting.voters).min(of_majority(&counting.outgoing))
    }

    /// Lets no time pass for this member until [`wake`](Self::wake), and gives back memory.
    /// Somebody else has to notice that the leader's server is gone. Messages are taken as ever.
    pub fn rest(&mut self) {
        self.is_resting = true;
        self.node.raft.maybe_free_inflight_buffers();
    }

    /// Time passes again. If the leader `is_lost`, as much has passed that this member votes for
    /// another one at once, and stands for election itself within 10 ticks.
    ///
    /// # Errors
    /// The member has failed.
    pub fn wake(&mut self, is_lost: bool) -> Result<(), Broken> {
        self.is_resting = false;
        if !is_lost
            || myelin_stdx::planted::bug(121)
            || self.is_amnesiac
            || self.node.raft.state != StateRole::Follower
        {
            return self.check();
        }
        self.call(|node| {
            // While time stood still the library took the leader for one that it had just heard.
            // Members that were held back from standing do not stand all at once now.
            node.raft.election_elapsed = 0;
            node.raft.set_randomized_election_timeout(2 * ELECTION_TICKS - 1);
            (0..ELECTION_TICKS).for_each(|_| {
                node.tick();
            });
        })
    }

    /// Takes a message of another member. What cannot be meant for this member, or cannot be true,
    /// is dropped, as if the network had lost it.
    ///
    /// # Errors
    /// The member has failed.
    pub fn step(&mut self, message: RaftMessage) -> Result<(), Broken> {
        self.check()?;
        #[cfg(planted)]
        if myelin_stdx::planted::bug(116) && self.role() == RaftRole::Leader {
            self.let_in(message.from)?;
        }
        if !self.is_welcome(&message) {
            return Ok(());
        }
        if let Some(index) = self.contradicted(&message) {
            let reason =
                format!("{} has another entry {index} than this member, where it is committed", message.from);
            self.broken = Some(Broken { reason });
            return self.check();
        }
        if message.kind == RaftMessageKind::Heartbeat && message.term >= self.node.raft.term {
            self.confirmed_by_all = message.index;
        }
        let needs_no_answer = self.needs_no_answer(&message);
        self.call(|node| {
            // An error says that the library has no use for the message.
            let _ = node.step(message.into_raft());
            let is_confirmation = |answer: &raft::eraftpb::Message| {
                answer.get_msg_type() == raft::eraftpb::MessageType::MsgAppendResponse && !answer.reject
            };
            let _ = node.raft.msgs.pop_if(|answer| needs_no_answer && is_confirmation(answer));
        })
    }

    /// Whether a leader says with a message that more is committed, and nothing else, and has heard
    /// from this member already that it has that. Should it have forgotten, its next heartbeat
    /// makes up for it.
    ///
    /// Perf: each publish that is waited for leads to two of these.
    fn needs_no_answer(&self, message: &RaftMessage) -> bool {
        let raft = &self.node.raft;
        message.kind == RaftMessageKind::Append
            && message.entries.is_empty()
            && message.commit > raft.raft_log.committed
            && message.term == raft.term
            && raft.leader_id == message.from.number()
            && self.told.confirmed >= (message.term, message.index)
    }

    /// Whether a message is for this member, and the library can take it. Who asks may be a member
    /// of which this one has not heard yet.
    fn is_welcome(&self, message: &RaftMessage) -> bool {
        let raft = &self.node.raft;
        let is_known = raft.prs().get(message.from.number()).is_some();
        let is_of_group = message.to == self.me && (is_known || !message.kind.is_answer());
        let last = raft.raft_log.last_index();
        let counts_on_more = match message.kind {
            // On entries of an earlier life of this member; its leader will hear of the new one.
            RaftMessageKind::Heartbeat => message.commit > last,
            RaftMessageKind::AppendAnswer => message.index > last,
            _ => false,
        };
        let is_barred =
            self.is_amnesiac && message.kind.is_of_election() && self.chosen != Some(message.from);
        let is_in_reach = message.term <= raft.term.saturating_add(FARTHEST_TERM);
        is_of_group && message.is_plausible() && is_in_reach && !counts_on_more && !is_barred
    }

    /// Index of an entry that is committed here, and that the message has in another term: one of
    /// the two is wrong for good. The library would end at it.
    fn contradicted(&self, message: &RaftMessage) -> Option<u64> {
        let raft = &self.node.raft;
        let committed = raft.raft_log.committed;
        let differs = |entry: &&RaftEntry| {
            let known = raft.raft_log.term(entry.index).ok().filter(|&term| term > 0);
            entry.index <= committed && known.is_some_and(|term| term != entry.term)
        };
        let is_of_now = message.term >= raft.term;
        message.entries.iter().filter(|_| is_of_now).find(differs).map(|entry| entry.index)
    }

    /// Whether an entry that is proposed now will be in the log: the member leads and is one still,
    /// an entry of its term is committed, it is not handing over, and not too much is under way.
    #[must_use]
    pub fn can_propose(&self) -> bool {
        let raft = &self.node.raft;
        self.broken.is_none()
            && raft.state == StateRole::Leader
            && raft.commit_to_current_term()
            && raft.prs().get(self.me.number()).is_some()
            && raft.lead_transferee.is_none()
            && (raft.uncommitted_size() as u64) < MAX_UNCOMMITTED_BYTES
    }

    /// The entry `index` is `data`, which is written already; the next [`ready`](Self::ready) gives
    /// it to the others.
    ///
    /// # Errors
    /// The entry is not in the log: [`can_propose`](Self::can_propose) would have said so, or
    /// `index` is not the next one.
    pub fn propose(&mut self, index: u64, data: bytes::Bytes) -> Result<(), Refused> {
        if !self.can_propose() {
            return Err(Refused::NotNow);
        }
        let next = self.node.raft.raft_log.last_index() + 1;
        if index != next || data.is_empty() {
            return Err(Refused::NotNext { expected: next });
        }
        let entry = raft::eraftpb::Entry { data, ..raft::eraftpb::Entry::default() };
        let mut message = raft::eraftpb::Message::default();
        message.set_msg_type(raft::eraftpb::MessageType::MsgPropose);
        message.from = self.me.number();
        message.set_entries(vec![entry].into());
        match self.call(|node| node.raft.step(message)) {
            Ok(Ok(())) if self.node.raft.raft_log.last_index() == index => Ok(()),
            Ok(_) => Err(Refused::NotNow),
            Err(_) => Err(Refused::Broken),
        }
    }

    /// A member has a new life: what it confirmed before counts no more.
    ///
    /// # Errors
    /// The member has failed.
    pub fn reset_peer(&mut self, peer: Peer) -> Result<(), Broken> {
        self.call(|node| {
            let raft = &mut node.raft;
            let next = raft.raft_log.last_index() + 1;
            if let Some(progress) = raft.mut_prs().get_mut(peer.number()) {
                progress.matched = 0;
                // Sets the next index to 1, which would ask for everything.
                progress.become_probe();
                progress.next_idx = next;
            }
        })
    }

    /// Hands over to another member, if this one leads and that one is up to date, or soon is.
    ///
    /// # Errors
    /// The member has failed.
    pub fn transfer(&mut self, to: Peer) -> Result<(), Broken> {
        self.call(|node| node.transfer_leader(to.number()))
    }

    /// Stands for election at once. (The first leader of a new group; a test.)
    ///
    /// # Errors
    /// The member has failed.
    pub fn campaign(&mut self) -> Result<(), Broken> {
        if self.is_amnesiac {
            return self.check();
        }
        self.call(|node| node.campaign()).map(drop)
    }

    /// The member has everything that was committed when its life began, and may vote.
    ///
    /// A vote that it has forgotten may have been for who leads: nobody else gets it in this term,
    /// in a later life either.
    pub fn recovered(&mut self) {
        (self.is_amnesiac, self.chosen) = (false, None);
        let raft = &mut self.node.raft;
        if raft.vote == raft::INVALID_ID {
            raft.vote = raft.leader_id;
        }
    }

    /// A member that may have lost entries votes for this one, if anybody: too few remember
    /// everything, and this one has the most of the log. There is no leader any more then.
    ///
    /// # Errors
    /// The member has failed.
    pub fn vote_for(&mut self, chosen: Option<Peer>) -> Result<(), Broken> {
        self.chosen = chosen;
        let raft = &self.node.raft;
        if chosen.is_none() || !self.is_amnesiac || raft.leader_id == 0 || raft.state != StateRole::Follower {
            return self.check();
        }
        // No time passes for this member: the library would take the leader for one that it has
        // just heard, and vote for nobody.
        let term = raft.term;
        self.call(|node| node.raft.become_follower(term, 0))
    }

    /// Index of the first entry of its term; `None` if its log has none. What a leader says to be
    /// committed before that is may be less than what its members had committed.
    #[must_use]
    pub fn begin_of_term(&self) -> Option<u64> {
        self.node.raft.raft_log.store().begin_of(self.node.raft.term)
    }

    /// Whether its log has the entry `index`, of this term.
    #[must_use]
    pub fn has_entry(&self, index: u64, term: u64) -> bool {
        self.node.raft.raft_log.store().term_of(index) == Some(term)
    }

    /// Entries before `first` can be read no more: members that lack them need the whole stream.
    pub fn forget_before(&mut self, first: u64) {
        let applied = self.node.raft.raft_log.applied;
        self.node.mut_store().forget_before(first.min(applied + 1));
    }

    /// Whether the member has failed.
    ///
    /// # Errors
    /// The member has failed.
    pub fn check(&self) -> Result<(), Broken> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Calls the library. A panic in it is the member's end, not the server's.
    fn call<R>(&mut self, what: impl FnOnce(&mut RawNode<LogView>) -> R) -> Result<R, Broken> {
        self.check()?;
        let node = &mut self.node;
        let done = caught(|| what(node));
        match done {
            Ok(_) => self.draw(),
            Err(ref broken) => self.broken = Some(broken.clone()),
        }
        done
    }

    /// Draws the time-out of the next election where the library has drawn one of its own: it
    /// takes it from a random source of the process.
    fn draw(&mut self) {
        let raft = &mut self.node.raft;
        if self.timeout == 0 || self.drawn != (raft.term, raft.state) {
            self.drawn = (raft.term, raft.state);
            // Below 10, so that the sum is below 20.
            let more = usize::try_from(self.rng.below(ELECTION_TICKS as u64)).unwrap_or(0);
            self.timeout = ELECTION_TICKS + more;
        }
        raft.set_randomized_election_timeout(self.timeout);
    }
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consensus")
            .field("me", &self.me)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// Runs a call of the library.
fn caught<R>(call: impl FnOnce() -> R) -> Result<R, Broken> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Broken { reason: text.unwrap_or("a panic without a text").to_owned() }
    })
}

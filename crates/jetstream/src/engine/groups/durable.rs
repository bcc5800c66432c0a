//! Votes and entries that have to be durable before a member's word counts: many share one sync.

use crate::engine::live::{LiveStream, MemberEvent};
use myelin_replica::frame::GroupPlace;
use myelin_replica::hard_state::HardState;
use myelin_replica::{GroupId, Vote};
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_store::journal::Journal;
use myelin_streams::group::GroupVotes;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, Mutex, Weak};

/// Votes that are to be made durable.
pub(super) struct VoteRequests {
    /// Held while the disk takes votes.
    file: Mutex<GroupVotes>,
    waiting: Mutex<Vec<VoteRequest>>,
    /// Whether somebody is on the way to write what waits.
    is_asked: AtomicBool,
}

/// State of a member that is to be made durable.
pub(super) struct VoteRequest {
    place: GroupPlace,
    /// `None`: the last one.
    vote: Option<Vote>,
    is_amnesiac: bool,
    incarnation: u64,
    live: Weak<LiveStream>,
}

impl VoteRequest {
    pub(super) fn new(
        place: GroupPlace,
        (vote, is_amnesiac): (Option<Vote>, bool),
        incarnation: u64,
        live: &Arc<LiveStream>,
    ) -> Self {
        Self { place, vote, is_amnesiac, incarnation, live: Arc::downgrade(live) }
    }

    /// The state that its group has then.
    fn behind(&self, before: HardState) -> HardState {
        let vote = self.vote.unwrap_or(before.vote);
        let Self { is_amnesiac, incarnation, .. } = *self;
        HardState { epoch: self.place.epoch, vote, incarnation, is_amnesiac, ..before }
    }
}

impl VoteRequests {
    pub(super) fn new(votes: GroupVotes) -> Self {
        Self { file: Mutex::new(votes), waiting: Mutex::default(), is_asked: AtomicBool::new(false) }
    }

    /// State that a member remembers. Waits for the disk if it is busy.
    pub(super) fn get(&self, group: GroupId) -> Option<HardState> {
        lock(&self.file).get(group)
    }

    /// Adds a vote. Answers whether [`VoteRequests::write`] has to be called.
    #[must_use = "nobody else writes it"]
    pub(super) fn add(&self, request: VoteRequest) -> bool {
        lock(&self.waiting).push(request);
        !self.is_asked.swap(true, AcqRel)
    }

    /// Whether votes wait that nobody is on the way to write.
    pub(super) fn is_waiting(&self) -> bool {
        !self.is_asked.load(Acquire) && !lock(&self.waiting).is_empty() && {
            !self.is_asked.swap(true, AcqRel)
        }
    }

    /// Writes all that wait, with one sync, and tells their members. For threads that may wait.
    ///
    /// # Errors
    /// The disk: they wait on.
    pub(super) fn write(&self) -> io::Result<()> {
        self.is_asked.store(false, Release);
        let mut file = lock(&self.file);
        let requests = std::mem::take(&mut *lock(&self.waiting));
        let mut states = BTreeMap::new();
        for request in &requests {
            let group = request.place.group;
            let before = states.get(&group).copied().or_else(|| file.get(group)).unwrap_or_default();
            states.insert(group, request.behind(before));
        }
        let changes: Vec<_> = states.into_iter().collect();
        if let Err(error) = file.set(&changes) {
            lock(&self.waiting).splice(..0, requests);
            return Err(error);
        }
        drop(file);
        for VoteRequest { vote, live, .. } in requests {
            if let (Some(vote), Some(live)) = (vote, live.upgrade()) {
                live.tell_member(MemberEvent::VotePersisted(vote));
                live.serve_member_off_shard();
            }
        }
        Ok(())
    }
}

/// Streams whose members wait for what they have written to be synced.
pub(super) struct SyncRequests {
    journal: Arc<Journal>,
    waiting: Mutex<Vec<Weak<LiveStream>>>,
    is_asked: AtomicBool,
}

impl SyncRequests {
    pub(super) fn new(journal: Arc<Journal>) -> Self {
        Self { journal, waiting: Mutex::default(), is_asked: AtomicBool::new(false) }
    }

    /// Adds a stream. Answers whether [`SyncRequests::run`] has to be called.
    #[must_use = "nobody else syncs it"]
    pub(super) fn add(&self, live: &Arc<LiveStream>) -> bool {
        let live = Arc::downgrade(live);
        let mut waiting = lock(&self.waiting);
        if !waiting.iter().any(|other| other.ptr_eq(&live)) {
            waiting.push(live);
        }
        drop(waiting);
        !self.is_asked.swap(true, AcqRel)
    }

    /// Syncs everything that is written, once, and has the members look. For threads that may wait.
    pub(super) fn run(&self, now: Timestamp) {
        self.is_asked.store(false, Release);
        let streams = std::mem::take(&mut *lock(&self.waiting));
        self.round(now);
        streams.iter().filter_map(Weak::upgrade).for_each(|live| live.serve_member_off_shard());
    }
    /// Syncs everything that is written, once. For threads that may wait.
    pub(super) fn round(&self, now: Timestamp) {
        // A round that fails has its streams fail, which their members see.
        let _ = self.journal.round_now(&|| now.unsigned_abs());
    }
}

//! Votes and entries that have to be durable before a member's word counts: many share one sync.

use super::replica::{GroupReplica, MemberEvent};
use myelin_replica::GroupId;
use myelin_replica::frame::GroupPlace;
use myelin_replica::hard_state::{HardState, OF_STORE};
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_store::journal::Journal;
use myelin_streams::group::GroupVotes;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Mutex, Weak};

/// Votes that are to be made durable.
pub(super) struct VoteRequests {
    /// Held while the disk takes votes.
    file: Mutex<GroupVotes>,
    waiting: Mutex<Vec<VoteRequest>>,
    /// Whether somebody is on the way to write what waits.
    is_asked: AtomicBool,
    /// Groups whose streams are removed for good, and that may have votes.
    removed: Mutex<Vec<GroupId>>,
    /// Whether somebody is on the way to forget those.
    is_forgetting: AtomicBool,
    /// Whether the disk has refused the last ones, which is told once.
    pub(super) is_refused: AtomicBool,
}

struct VoteRequest {
    group: GroupId,
    state: HardState,
    live: Weak<dyn GroupReplica>,
}

impl VoteRequests {
    pub(super) fn new(votes: GroupVotes) -> Self {
        Self {
            file: Mutex::new(votes),
            waiting: Mutex::default(),
            is_asked: AtomicBool::default(),
            removed: Mutex::default(),
            is_forgetting: AtomicBool::default(),
            is_refused: AtomicBool::default(),
        }
    }

    /// State that a member remembers. Waits for the disk if it is busy.
    pub(super) fn get(&self, group: GroupId) -> Option<HardState> {
        lock(&self.file).get(group)
    }

    /// Notes that the life of the store has ended with everything synced.
    pub(super) fn end_life(&self) -> io::Result<()> {
        let mut file = lock(&self.file);
        let state = HardState { is_amnesiac: false, ..file.get(OF_STORE).unwrap_or_default() };
        file.set(&[(OF_STORE, state)])
    }

    /// Changes the record of the store, durably. Only for threads that may wait.
    pub(super) fn set_store(&self, change: impl FnOnce(&mut HardState)) -> io::Result<()> {
        let mut file = lock(&self.file);
        let mut state = file.get(OF_STORE).unwrap_or_default();
        change(&mut state);
        file.set(&[(OF_STORE, state)])
    }

    /// Adds a vote, behind those that were added before.
    pub(super) fn add(&self, group: GroupId, state: HardState, live: Weak<dyn GroupReplica>) {
        lock(&self.waiting).push(VoteRequest { group, state, live });
    }

    /// Has a member's next life know that it may have lost what it had confirmed. Only for threads
    /// that may wait.
    ///
    /// # Errors
    /// Of the disk: it does not.
    pub(super) fn mark_amnesiac(&self, place: GroupPlace, incarnation: u64) -> io::Result<()> {
        let mut file = lock(&self.file);
        let mark = |state: &mut HardState| (state.is_amnesiac, state.is_damaged) = (true, true);
        // Whoever has left those did not know.
        let mut waiting = lock(&self.waiting);
        waiting.iter_mut().filter(|one| one.group == place.group).for_each(|one| mark(&mut one.state));
        drop(waiting);
        let known = file.get(place.group).unwrap_or_default();
        let mut state = HardState { epoch: place.epoch, incarnation, ..known };
        mark(&mut state);
        file.set(&[(place.group, state)])
    }

    /// Takes it over to call [`VoteRequests::write`], if votes wait and nobody is on the way to.
    #[must_use = "nobody else writes them"]
    pub(super) fn claim(&self) -> bool {
        !lock(&self.waiting).is_empty() && !self.is_asked.swap(true, AcqRel)
    }

    /// Writes all that wait, with one sync, and tells their members. For threads that may wait.
    ///
    /// # Errors
    /// The disk: they wait on.
    pub(super) fn write(&self) -> io::Result<()> {
        self.is_asked.store(false, Release);
        let mut file = lock(&self.file);
        let requests = std::mem::take(&mut *lock(&self.waiting));
        let changes: Vec<_> = requests.iter().map(|request| (request.group, request.state)).collect();
        if let Err(error) = file.set(&changes) {
            lock(&self.waiting).splice(..0, requests);
            return Err(error);
        }
        drop(file);
        for VoteRequest { state, live, .. } in requests {
            if let Some(live) = live.upgrade() {
                live.tell(MemberEvent::VotePersisted(state.vote));
                live.serve_off_shard();
            }
        }
        Ok(())
    }

    /// Adds a group whose stream is removed for good. Answers whether [`VoteRequests::forget`] has
    /// to be called.
    #[must_use = "nobody else forgets it"]
    pub(super) fn add_removed(&self, group: GroupId) -> bool {
        lock(&self.removed).push(group);
        !self.is_forgetting.swap(true, AcqRel)
    }

    /// Has the file forget the votes of groups that were added, once `sync` has made durable that
    /// their streams are removed: a member that came back without its vote could vote twice. For
    /// threads that may wait.
    ///
    /// # Errors
    /// The disk: they are forgotten with the next ones.
    pub(super) fn forget(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.is_forgetting.store(false, Release);
        let mut removed = std::mem::take(&mut *lock(&self.removed));
        {
            let (file, waiting) = (lock(&self.file), lock(&self.waiting));
            let waits = |group: GroupId| waiting.iter().any(|request| request.group == group);
            removed.retain(|&group| file.get(group).is_some() || waits(group));
        }
        if removed.is_empty() {
            return Ok(());
        }
        let forgotten = sync().and_then(|()| {
            let mut file = lock(&self.file);
            // Else one that waits would be written behind it.
            lock(&self.waiting).retain(|request| !removed.contains(&request.group));
            let state = HardState { is_removed: true, ..HardState::default() };
            let changes: Vec<_> = removed.iter().map(|&group| (group, state)).collect();
            file.set(&changes)
        });
        if forgotten.is_err() {
            lock(&self.removed).append(&mut removed);
        }
        forgotten
    }
}

/// Streams whose members wait for what they have written to be synced.
pub(super) struct SyncRequests {
    journal: Arc<Journal>,
    waiting: Mutex<Vec<Weak<dyn GroupReplica>>>,
    is_asked: AtomicBool,
}

impl SyncRequests {
    pub(super) fn new(journal: Arc<Journal>) -> Self {
        Self { journal, waiting: Mutex::default(), is_asked: AtomicBool::new(false) }
    }

    /// Adds a stream. Answers whether [`SyncRequests::run`] has to be called.
    #[must_use = "nobody else syncs it"]
    pub(super) fn add(&self, live: &Arc<dyn GroupReplica>) -> bool {
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
        streams.iter().filter_map(Weak::upgrade).for_each(|live| live.serve_off_shard());
    }

    /// Syncs everything that is written, once. For threads that may wait.
    pub(super) fn round(&self, now: Timestamp) {
        // A round that fails has its streams fail, which their members see.
        let _ = self.try_round(now);
    }

    /// As [`SyncRequests::round`], for who has to know whether it is.
    ///
    /// # Errors
    /// Of the disk: it is not.
    pub(super) fn try_round(&self, now: Timestamp) -> io::Result<()> {
        let round = self.journal.round_now(&|| now.unsigned_abs());
        round.map(drop).map_err(|error| io::Error::other(error.to_string()))
    }
}

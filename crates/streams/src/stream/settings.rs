//! Settings of a stream from the server and the account that it lives in.

use super::batch::InFlight;
use super::interest::{Interest, NoConsumers};
use super::schedules::{NoScheduleIndex, ScheduleIndex};
use crate::ReplicaRole;
use myelin_jsapi::ApiError;
use myelin_store::{Seq, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// Bytes for message ids that a stream remembers, unless it is told otherwise.
const DEDUPE_BYTES: usize = 1 << 30;

/// Settings that a stream gets from its server and its account.
#[derive(Clone)]
pub struct StreamSettings {
    /// The JetStream domain; empty for none.
    pub domain: String,
    /// Budget of the account for the stream's kind of storage.
    pub account: Arc<StorageBudget>,
    /// Budget of the server for that kind of storage.
    pub server: Arc<StorageBudget>,
    /// Counts of batches that all streams share.
    pub in_flight: Arc<InFlight>,
    /// Interest of the stream's consumers.
    pub interest: Arc<dyn Interest>,
    /// Where it is written down which schedules the stream has.
    pub schedule_index: Arc<dyn ScheduleIndex>,
    /// The last sequence that was found of the stream, where it goes on behind others that a loss
    /// of power has taken: what the index says of those is not believed. `None`: all that it has.
    pub found_end: Option<Seq>,
    /// Whether messages count as stored only when they are synced (`sync_interval: always`).
    pub always_syncs: bool,
    /// Bytes of a message with its headers, at most: what becomes of one here may be larger than
    /// what came.
    pub max_payload: usize,
    /// Beyond so much memory, the oldest message ids are forgotten before their time.
    pub dedupe_bytes: usize,
    /// For hashes and for the random choices of subject transforms. Should be hard to guess.
    pub seed: u64,
    /// Role with which it begins.
    pub role: ReplicaRole,
    /// Whether a majority of its group has no room on their disks: see
    /// [`StreamCore::set_group_full`](super::StreamCore::set_group_full).
    pub is_group_full: bool,
}

impl Default for StreamSettings {
    fn default() -> Self {
        let (account, server, in_flight) = (Arc::default(), Arc::default(), Arc::default());
        Self {
            domain: String::new(),
            account,
            server,
            in_flight,
            interest: Arc::new(NoConsumers),
            schedule_index: Arc::new(NoScheduleIndex),
            found_end: None,
            always_syncs: false,
            max_payload: usize::MAX,
            dedupe_bytes: DEDUPE_BYTES,
            seed: 0,
            role: ReplicaRole::Leader,
            is_group_full: false,
        }
    }
}

/// Stored bytes against a limit; shared by all streams that it is for. Counted as the reference
/// counts them.
#[derive(Debug)]
pub struct StorageBudget {
    used: AtomicI64,
    /// Negative: none.
    limit: AtomicI64,
    /// Bytes that other servers are about to store of what streams have stored that are led here,
    /// since they have said what they store; less than none where those lose something.
    expected: AtomicI64,
    /// Whether it is of a tier that the account has no more.
    is_absent: AtomicBool,
    /// When the disk had no room for what should have been stored, last; 0: it always had.
    full_at: AtomicI64,
}

impl Default for StorageBudget {
    fn default() -> Self {
        Self::new(-1)
    }
}

impl StorageBudget {
    /// Nothing is used yet. A negative limit is none.
    #[must_use]
    pub const fn new(limit: i64) -> Self {
        let [used, expected, full_at] = [const { AtomicI64::new(0) }; 3];
        let (limit, is_absent) = (AtomicI64::new(limit), AtomicBool::new(false));
        Self { used, limit, expected, is_absent, full_at }
    }

    /// Another limit; what is stored beyond it stays.
    pub fn set_limit(&self, limit: i64) {
        self.limit.store(limit, Relaxed);
        self.is_absent.store(false, Relaxed);
    }

    /// Nothing more may be stored: the account has no such tier. What is stored stays.
    pub fn set_absent(&self) {
        self.limit.store(0, Relaxed);
        self.is_absent.store(true, Relaxed);
    }

    /// Error for what an account's budget does not admit.
    pub(super) fn refusal(&self) -> ApiError {
        match self.is_absent.load(Relaxed) {
            true => ApiError::NO_LIMITS,
            false => ApiError::ACCOUNT_RESOURCES_EXCEEDED,
        }
    }

    /// The limit; negative for none.
    #[must_use]
    pub fn limit(&self) -> i64 {
        self.limit.load(Relaxed)
    }

    /// The bytes that streams store.
    #[must_use]
    pub fn used(&self) -> i64 {
        self.used.load(Relaxed)
    }

    /// Whether `bytes` more are within the limit.
    #[must_use]
    pub fn admits(&self, bytes: i64) -> bool {
        let limit = self.limit.load(Relaxed);
        let expected = self.expected.load(Relaxed).max(0);
        limit < 0 || self.used().saturating_add(expected).saturating_add(bytes) <= limit
    }

    /// Counts what other servers are about to store, or to lose.
    pub(super) fn expect(&self, bytes: i64) {
        self.expected.fetch_add(bytes, Relaxed);
    }

    /// Others have said what they store: the limit is what they leave.
    pub fn expect_nothing(&self) {
        self.expected.store(0, Relaxed);
    }

    /// Notes that the disk has no room.
    #[cold]
    pub(super) fn note_full(&self, now: Timestamp) {
        self.full_at.store(now, Relaxed);
    }

    /// When the disk had no room, last.
    pub(super) fn full_at(&self) -> Option<Timestamp> {
        Some(self.full_at.load(Relaxed)).filter(|at| *at != 0)
    }

    /// Counts a stream's growth, or what it lost.
    pub fn add(&self, bytes: i64) {
        self.used.fetch_add(bytes, Relaxed);
    }
}

//! Upkeep of the log of a stream's consumers: who waits for its release, whether it is being
//! written anew, and whether it can be written at all.

use super::LiveConsumer;
use super::active_times::ActiveTimes;
use crate::engine::host::Host;
use crate::engine::waits::Waiters;
use myelin_jsapi::ApiError;
use myelin_stdx::sync::lock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Marks of what is under way with the log.
#[derive(Default)]
pub(super) struct LogUpkeep {
    /// Consumers that have something to say when the log is released.
    unreleased: Mutex<Vec<Arc<LiveConsumer>>>,
    has_unreleased: AtomicBool,
    /// Whether a position could not be written.
    has_unwritten: AtomicBool,
    /// Whether it is asked for already that the log is written anew.
    is_rewriting: AtomicBool,
    /// Whether it is the log of the stream's group.
    is_of_group: AtomicBool,
    /// Whether another replica is about to lead.
    is_leaving: AtomicBool,
    /// How often this replica has begun to lead the group or to follow: even while it leads.
    role_changes: AtomicU64,
    /// Calls that wait until the group has agreed.
    agreements: Waiters,
    /// Consumers that nobody uses, and that are about to be ended.
    unused: Mutex<Vec<Arc<LiveConsumer>>>,
    /// When consumers of the group were active.
    active: OnceLock<Arc<ActiveTimes>>,
}

/// Time during which this replica leads a group without a break. What was decided in it is lost
/// where it ends first, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Leadership(u64);

impl LogUpkeep {
    /// Notes that the log is that of the stream's group from here on.
    pub(super) fn join_group(&self) {
        self.is_of_group.store(true, Release);
    }

    /// When consumers of the group were active.
    pub(super) fn active_times(&self, host: &Arc<dyn Host>) -> &Arc<ActiveTimes> {
        self.active.get_or_init(|| ActiveTimes::new(host))
    }

    /// Whether the log is that of the stream's group.
    pub(super) fn is_of_group(&self) -> bool {
        self.is_of_group.load(Acquire)
    }

    /// The time during which this replica leads, for a call that is about to decide something: it
    /// has to know before it does.
    ///
    /// # Errors
    /// Another replica leads.
    pub(super) fn leadership(&self) -> Result<Leadership, ApiError> {
        let leadership = Leadership(self.role_changes.load(SeqCst));
        if leadership.0.is_multiple_of(2) { Ok(leadership) } else { Err(ApiError::CLUSTER_NOT_AVAIL) }
    }

    /// Whether this replica leads since then.
    pub(super) fn leads_since(&self, leadership: Leadership) -> bool {
        self.role_changes.load(SeqCst) == leadership.0
    }

    /// Notes that this replica leads, or follows. Follows: before what it has decided is nothing
    /// any more. Calls that wait hear of it.
    pub(super) fn set_leads(&self, leads: bool) {
        if self.role_changes.load(SeqCst).is_multiple_of(2) != leads {
            self.role_changes.fetch_add(1, SeqCst);
        }
        self.agreements.wake();
    }

    /// Notes whether another replica is about to lead.
    pub(super) fn set_leaving(&self, is_leaving: bool) {
        self.is_leaving.store(is_leaving, SeqCst);
    }

    /// Whether another replica is about to lead.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(SeqCst)
    }

    /// Calls that wait until the group has agreed.
    pub(super) fn agreements(&self) -> &Waiters {
        &self.agreements
    }

    /// Keeps a consumer that has something to say when the log is released. It looks once more
    /// afterwards.
    pub(super) fn await_release(&self, consumer: &Weak<LiveConsumer>) {
        lock(&self.unreleased).extend(consumer.upgrade());
        self.has_unreleased.store(true, SeqCst);
    }

    /// Takes the consumers that have waited for the release, also those that are gone meanwhile.
    pub(super) fn take_waiting(&self) -> Vec<Arc<LiveConsumer>> {
        if !self.has_unreleased.swap(false, AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *lock(&self.unreleased))
    }

    /// Keeps a consumer that nobody uses. Answers whether the caller has to have it ended, with
    /// those that come until then.
    #[must_use = "nobody else has it ended"]
    pub(super) fn add_unused(&self, consumer: Arc<LiveConsumer>) -> bool {
        let mut unused = lock(&self.unused);
        unused.push(consumer);
        unused.len() == 1
    }

    /// Takes the consumers that nobody uses.
    pub(super) fn take_unused(&self) -> Vec<Arc<LiveConsumer>> {
        std::mem::take(&mut lock(&self.unused))
    }

    /// Notes whether a position could be written. Answers whether that is news.
    pub(super) fn note_write(&self, has_failed: bool) -> bool {
        self.has_unwritten.swap(has_failed, AcqRel) != has_failed
    }

    /// Takes the order to write the log anew. False: somebody has it already.
    #[must_use = "nobody else does it"]
    pub(super) fn order_rewrite(&self) -> bool {
        !self.is_rewriting.swap(true, AcqRel)
    }

    /// Notes that the log is about to be written anew: what comes now may be a reason to do so once
    /// more.
    pub(super) fn rewrite_begins(&self) {
        self.is_rewriting.store(false, Release);
    }
}

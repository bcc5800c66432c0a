//! Who is connected, and who was: for monitoring, limits and lame duck mode.

use crate::conn::{Conn, ConnDetails, Endpoint, lock};
use crate::subscription::Subscription;
use hashbrown::HashMap;
use myelin_wire::error::CloseReason;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// What remains of a connection that has ended.
#[derive(Debug, Clone)]
pub struct ClosedConn {
    /// Its client id.
    pub cid: u64,
    /// Where it came from and when.
    pub endpoint: Endpoint,
    /// When it ended.
    pub stop: SystemTime,
    /// Why.
    pub reason: CloseReason,
    /// What it said of itself.
    pub details: ConnDetails,
    /// When it last sent something.
    pub last_activity: SystemTime,
    /// Messages and bytes received from it.
    pub received: (u64, u64),
    /// Messages and bytes sent to it.
    pub sent: (u64, u64),
    /// How many subscriptions it had at the end.
    pub subscriptions: usize,
    /// These subscriptions: up to [`ClosedSub::KEPT`] of them, and none once the registry remembers too many.
    pub subs: Arc<[ClosedSub]>,
    /// How often publishers were paused for it.
    pub stalls: u64,
}

/// A subscription that a connection had at its end.
#[derive(Debug, Clone)]
pub struct ClosedSub {
    /// Subject, then queue name, then sid.
    text: Box<[u8]>,
    queue: Option<Range<u32>>,
    subject_len: u32,
    /// Messages delivered.
    pub delivered: u64,
}

impl ClosedSub {
    /// How many are remembered of one connection, so that an end takes no long time.
    ///
    /// Compat: the reference remembers all.
    pub const KEPT: usize = 4096;

    /// What is to be remembered of the subscriptions of an ended connection.
    pub(crate) fn of(subs: &[Arc<Subscription>]) -> Arc<[Self]> {
        subs.iter().take(Self::KEPT).map(|sub| Self::new(sub)).collect()
    }

    fn new(sub: &Subscription) -> Self {
        let start = sub.subject().len() as u32;
        let queue = sub.queue().map(|queue| start..start + queue.len() as u32);
        Self {
            text: [sub.subject(), sub.queue().unwrap_or_default(), sub.sid()].concat().into(),
            queue,
            subject_len: start,
            delivered: sub.delivered(),
        }
    }

    /// The pattern.
    pub fn subject(&self) -> &[u8] {
        &self.text[..self.subject_len as usize]
    }

    /// The queue group, if any.
    pub fn queue(&self) -> Option<&[u8]> {
        self.queue.as_ref().map(|queue| &self.text[queue.start as usize..queue.end as usize])
    }

    /// The client's name for it.
    pub fn sid(&self) -> &[u8] {
        let start = self.queue.as_ref().map_or(self.subject_len, |queue| queue.end);
        &self.text[start as usize..]
    }
}

/// What ended connections have moved, all that ever were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PastTraffic {
    /// Messages and bytes received from them.
    pub received: (u64, u64),
    /// Messages and bytes sent to them.
    pub sent: (u64, u64),
    /// Those that were cut off as slow consumers.
    pub slow_consumers: u64,
}

impl PastTraffic {
    fn add(&mut self, record: &ClosedConn) {
        self.received.0 += record.received.0;
        self.received.1 += record.received.1;
        self.sent.0 += record.sent.0;
        self.sent.1 += record.sent.1;
        let slow = matches!(
            record.reason,
            CloseReason::SlowConsumerPendingBytes | CloseReason::SlowConsumerWriteDeadline
        );
        self.slow_consumers += u64::from(slow);
    }
}

/// Subscriptions of ended connections that are remembered in all: about 10 MiB.
///
/// Compat: the reference remembers all, and a client that subscribes much and returns often fills its memory.
const KEPT_SUBS: usize = 100_000;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Registry {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    open: HashMap<u64, Arc<Conn>>,
    closed: VecDeque<ClosedConn>,
    /// Subscriptions that `closed` remembers.
    kept_subs: usize,
    /// How many of the oldest in `closed` have had to forget theirs.
    forgetful: usize,
    /// By account.
    past: HashMap<String, PastTraffic>,
    total: u64,
}

impl Inner {
    fn forget_oldest(&mut self) {
        if let Some(record) = self.closed.pop_front() {
            self.kept_subs -= record.subs.len();
            self.forgetful = self.forgetful.saturating_sub(1);
        }
    }

    fn remember(&mut self, record: ClosedConn) {
        self.kept_subs += record.subs.len();
        self.closed.push_back(record);
        while self.kept_subs > KEPT_SUBS
            && let Some(oldest) = self.closed.get_mut(self.forgetful)
        {
            self.kept_subs -= oldest.subs.len();
            oldest.subs = Arc::default();
            self.forgetful += 1;
        }
    }
}

impl Registry {
    /// Adds a connection and returns how many there are now.
    pub(crate) fn add(&self, conn: &Arc<Conn>) -> usize {
        let mut inner = lock(&self.inner);
        inner.total += 1;
        inner.open.insert(conn.cid(), Arc::clone(conn));
        inner.open.len()
    }

    /// Moves a connection to the closed ones, of which `keep` are remembered.
    pub(crate) fn remove(&self, record: ClosedConn, keep: usize) {
        let mut inner = lock(&self.inner);
        if inner.open.remove(&record.cid).is_none() {
            return;
        }
        inner.past.entry_ref(record.details.account.as_str()).or_default().add(&record);
        while inner.closed.len() >= keep.max(1) {
            inner.forget_oldest();
        }
        if keep > 0 {
            inner.remember(record);
        }
    }

    pub(crate) fn census(&self) -> (Vec<Arc<Conn>>, Vec<(String, PastTraffic)>) {
        let inner = lock(&self.inner);
        let past = inner.past.iter().map(|(account, past)| (account.clone(), *past));
        (inner.open.values().cloned().collect(), past.collect())
    }

    pub(crate) fn open(&self) -> Vec<Arc<Conn>> {
        lock(&self.inner).open.values().cloned().collect()
    }

    pub(crate) fn closed(&self) -> Vec<ClosedConn> {
        lock(&self.inner).closed.iter().cloned().collect()
    }

    /// Connections now, and since the start.
    pub(crate) fn counts(&self) -> (usize, u64) {
        let inner = lock(&self.inner);
        (inner.open.len(), inner.total)
    }
}

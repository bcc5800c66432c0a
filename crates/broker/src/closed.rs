//! Records of connections that have ended: the last of them for monitoring, sums for ever.

use crate::conn::Conn;
use crate::conn_details::{ConnDetails, Endpoint};
use crate::subscription::Subscription;
use myelin_auth::ConnectionType;
use myelin_wire::error::CloseReason;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// Record of a connection that has ended.
#[derive(Debug, Clone)]
pub struct ClosedConn {
    /// Its client id.
    pub cid: u64,
    /// Where it came from and when.
    pub endpoint: Endpoint,
    /// Which kind of connection it was.
    pub via: ConnectionType,
    /// When it ended.
    pub stop: SystemTime,
    /// Why.
    pub reason: CloseReason,
    /// Details as the connection gave them.
    pub details: ConnDetails,
    /// When it last sent something.
    pub last_activity: SystemTime,
    /// Messages and bytes received from it.
    pub received: (u64, u64),
    /// Messages and bytes sent to it.
    pub sent: (u64, u64),
    /// How many subscriptions it had at the end.
    pub subscriptions: usize,
    /// Subscriptions: up to [`ClosedSub::KEPT`] of them, and none once the registry remembers
    /// too many.
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

    /// Lists what is to be remembered of the subscriptions of an ended connection.
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

/// Traffic of all connections that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PastTraffic {
    /// Messages and bytes received from them.
    pub received: (u64, u64),
    /// Messages and bytes sent to them.
    pub sent: (u64, u64),
    /// Connections that were cut off as slow consumers.
    pub slow_consumers: u64,
}

impl PastTraffic {
    /// Traffic of a connection up to now.
    pub(crate) fn of(conn: &Conn) -> Self {
        Self { received: conn.received(), sent: conn.sent(), slow_consumers: 0 }
    }

    /// Takes another sum into this one.
    pub fn join(&mut self, other: &Self) {
        self.received.0 += other.received.0;
        self.received.1 += other.received.1;
        self.sent.0 += other.sent.0;
        self.sent.1 += other.sent.1;
        self.slow_consumers += other.slow_consumers;
    }

    pub(crate) fn add(&mut self, record: &ClosedConn) {
        let is_slow = matches!(
            record.reason,
            CloseReason::SlowConsumerPendingBytes | CloseReason::SlowConsumerWriteDeadline
        );
        self.join(&Self { received: record.received, sent: record.sent, slow_consumers: u64::from(is_slow) });
    }
}

/// Subscriptions of ended connections that are remembered in all: about 10 MiB.
///
/// Compat: the reference remembers all, and a client that subscribes much and returns often fills
/// its memory.
const KEPT_SUBS: usize = 100_000;

/// The last connections that have ended, oldest first. Handing them out copies none.
#[derive(Default)]
pub(crate) struct ClosedConns {
    conns: VecDeque<Arc<ClosedConn>>,
    /// Subscriptions that `conns` remember.
    kept_subs: usize,
    /// How many of the oldest have had to forget theirs.
    forgetful: usize,
}

impl ClosedConns {
    /// Adds one; `keep` are remembered.
    pub(crate) fn add(&mut self, record: ClosedConn, keep: usize) {
        while self.conns.len() >= keep.max(1) {
            self.drop_oldest();
        }
        if keep > 0 {
            self.kept_subs += record.subs.len();
            self.conns.push_back(Arc::new(record));
            self.forget_subs();
        }
        debug_assert!(self.conns.len() <= keep.max(1), "no more are remembered than were asked for");
        debug_assert!(self.kept_subs <= KEPT_SUBS, "few subscriptions are remembered");
        debug_assert!(self.forgetful <= self.conns.len(), "only what is remembered can forget");
    }

    pub(crate) fn all(&self) -> Vec<Arc<ClosedConn>> {
        self.conns.iter().cloned().collect()
    }

    fn drop_oldest(&mut self) {
        if let Some(record) = self.conns.pop_front() {
            self.kept_subs -= record.subs.len();
            self.forgetful = self.forgetful.saturating_sub(1);
        }
    }

    /// Makes the oldest forget until few enough are remembered.
    fn forget_subs(&mut self) {
        while self.kept_subs > KEPT_SUBS
            && let Some(oldest) = self.conns.get_mut(self.forgetful)
        {
            let oldest = Arc::make_mut(oldest);
            self.kept_subs -= oldest.subs.len();
            oldest.subs = Arc::default();
            self.forgetful += 1;
        }
    }
}

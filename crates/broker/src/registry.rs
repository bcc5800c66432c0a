//! Who is connected, and who was: for monitoring, limits and lame duck mode.

use crate::conn::{Conn, ConnDetails, Endpoint, lock};
use hashbrown::HashMap;
use myelin_wire::error::CloseReason;
use std::collections::VecDeque;
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
    /// Subscriptions it had at the end.
    pub subscriptions: usize,
    /// How often publishers were paused for it.
    pub stalls: u64,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Registry {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    open: HashMap<u64, Arc<Conn>>,
    closed: VecDeque<ClosedConn>,
    total: u64,
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
        while inner.closed.len() >= keep.max(1) {
            inner.closed.pop_front();
        }
        if keep > 0 {
            inner.closed.push_back(record);
        }
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

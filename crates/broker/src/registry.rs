//! Registry of the connections that are open, and of those that were: for monitoring, limits and
//! lame duck mode.
//!
//! Perf: connections are spread over several locks, so that a page that lists ten thousand of them
//! holds up nobody who comes or goes for longer than the copy of one part takes.

use crate::closed::{ClosedConn, ClosedConns, PastTraffic};
use crate::conn::Conn;
use crate::mqtt_clients::MqttClients;
use crate::mqtt_storage::MqttStores;
use hashbrown::HashMap;
use myelin_stdx::sync::lock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Locks over which connections are spread; a power of two.
const PARTS: usize = 16;

/// Registry of the connections that are open, and of those that were closed last.
#[derive(Default)]
pub(crate) struct Registry {
    parts: [Mutex<Partition>; PARTS],
    ended: Mutex<ClosedConns>,
    /// Owners of client ids of MQTT.
    pub(crate) mqtt_clients: MqttClients,
    /// Where sessions and messages of MQTT are stored.
    pub(crate) mqtt_stores: MqttStores,
    open: AtomicUsize,
    total: AtomicU64,
}

/// The connections whose ids share their lowest bits.
#[derive(Default)]
struct Partition {
    open: HashMap<u64, Arc<Conn>>,
    /// Traffic of those that have ended, by account. Under the lock of `open`, so that nothing
    /// counts twice.
    past: HashMap<String, PastTraffic>,
}

impl Registry {
    fn part(&self, cid: u64) -> &Mutex<Partition> {
        &self.parts[cid as usize % PARTS]
    }

    /// Adds a connection and returns how many there are now.
    pub(crate) fn add(&self, conn: &Arc<Conn>) -> usize {
        let other = lock(self.part(conn.cid())).open.insert(conn.cid(), Arc::clone(conn));
        debug_assert!(other.is_none(), "an id names one connection");
        self.total.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed) + 1
    }

    /// Moves a connection to the closed ones, of which `keep` are remembered.
    pub(crate) fn remove(&self, record: ClosedConn, keep: usize) {
        {
            let mut part = lock(self.part(record.cid));
            if part.open.remove(&record.cid).is_none() {
                return;
            }
            part.past.entry_ref(record.details.account.as_str()).or_default().add(&record);
        }
        let before = self.open.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a connection is removed once");
        lock(&self.ended).add(record, keep);
    }

    /// Remembers a link that has ended, which was never among the connections here.
    pub(crate) fn remember(&self, record: ClosedConn, keep: usize) {
        lock(&self.ended).add(record, keep);
    }

    pub(crate) fn get(&self, cid: u64) -> Option<Arc<Conn>> {
        lock(self.part(cid)).open.get(&cid).cloned()
    }

    pub(crate) fn open(&self) -> Vec<Arc<Conn>> {
        let mut open = Vec::with_capacity(self.open.load(Relaxed));
        #[expect(clippy::disallowed_methods, reason = "they are sorted")]
        self.parts.iter().for_each(|part| open.extend(lock(part).open.values().cloned()));
        open.sort_unstable_by_key(|conn: &Arc<Conn>| conn.cid());
        open
    }

    /// Traffic of the connections of each account, those that have ended included, by its name.
    ///
    /// Perf: each connection is looked at where it is. Collected before they were summed up, ten
    /// thousand took twice as long (docs/results/core.md, "Scrapes").
    #[expect(clippy::disallowed_methods, reason = "sums, which are sorted")]
    pub(crate) fn traffic(&self) -> Vec<(String, PastTraffic)> {
        let mut sums: HashMap<String, PastTraffic> = HashMap::default();
        let mut add = |account: &str, moved: &PastTraffic| sums.entry_ref(account).or_default().join(moved);
        for part in &self.parts {
            let part = lock(part);
            part.past.iter().for_each(|(account, moved)| add(account, moved));
            for conn in part.open.values() {
                let moved = PastTraffic::of(conn);
                conn.look(|details| add(&details.account, &moved));
            }
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        sums
    }

    pub(crate) fn closed(&self) -> Vec<Arc<ClosedConn>> {
        lock(&self.ended).all()
    }

    /// Connections now, and since the start.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.open.load(Relaxed), self.total.load(Relaxed))
    }
}

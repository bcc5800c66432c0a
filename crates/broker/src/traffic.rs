//! Counters of messages and bytes, one set per shard: written by one thread, read by any.

use myelin_stdx::sync::lock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A counter with a single writer.
///
/// Perf: a plain load and store instead of a locked add, because only the owning shard writes.
#[derive(Debug, Default)]
pub struct ShardCounter(AtomicU64);

impl ShardCounter {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The value at this moment.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Traffic of one shard.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Messages that clients published.
    pub in_msgs: ShardCounter,
    /// Their payload bytes, headers included.
    pub in_bytes: ShardCounter,
    /// Messages delivered.
    pub out_msgs: ShardCounter,
    /// Their payload bytes.
    pub out_bytes: ShardCounter,
    /// Of all that, messages and bytes from links to other servers, then those to them.
    pub(crate) links: [ShardCounter; 4],
    pub(crate) routes: SharedRouteCounts,
}

/// Traffic of one connection that its outbox does not count.
#[derive(Debug, Default)]
pub(crate) struct ConnTraffic {
    /// Messages received from it.
    pub(crate) in_msgs: ShardCounter,
    /// Their payload bytes, headers included.
    pub(crate) in_bytes: ShardCounter,
    /// Milliseconds from its start to when it last sent or got something.
    pub(crate) last_activity: AtomicU64,
    /// How often publishers were paused for it.
    pub(crate) stalls: AtomicU64,
}

/// How the route caches do, as of the last flush of each shard.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RouteCounts {
    /// Look-ups that had to ask the interest index.
    pub misses: u64,
    /// Routes in the caches.
    pub cached: u64,
    /// Subscriptions on those routes.
    pub fanout: u64,
    /// Subscriptions on the widest route ever cached.
    pub widest: u64,
}

impl RouteCounts {
    /// Takes the counts of one shard into the sum.
    pub(crate) fn join(&mut self, other: Self) {
        self.misses += other.misses;
        self.cached += other.cached;
        self.fanout += other.fanout;
        self.widest = self.widest.max(other.widest);
    }
}

/// One shard's [`RouteCounts`] where other threads can read them.
#[derive(Debug, Default)]
pub(crate) struct SharedRouteCounts {
    misses: ShardCounter,
    cached: ShardCounter,
    fanout: ShardCounter,
    widest: ShardCounter,
}

impl SharedRouteCounts {
    pub(crate) fn set(&self, counts: RouteCounts) {
        self.misses.set(counts.misses);
        self.cached.set(counts.cached);
        self.fanout.set(counts.fanout);
        self.widest.set(counts.widest);
    }

    pub(crate) fn get(&self) -> RouteCounts {
        RouteCounts {
            misses: self.misses.get(),
            cached: self.cached.get(),
            fanout: self.fanout.get(),
            widest: self.widest.get(),
        }
    }
}

/// The server's counters that are rare enough for shared atomics, plus the sum of all shards.
#[derive(Debug, Default)]
pub struct Counters {
    /// Clients that are too slow: most are cut off.
    pub slow_consumers: AtomicU64,
    /// Links to other servers that were found to be slow.
    pub slow_links: AtomicU64,
    /// Clients cut off for unanswered PINGs.
    pub stale_connections: AtomicU64,
    /// Links to other servers that ended for that.
    pub stale_links: AtomicU64,
    /// Links with leaf nodes and hubs that were found to be slow.
    pub slow_leaf_nodes: AtomicU64,
    /// Links with other clusters that were too slow.
    pub slow_gateways: AtomicU64,
    /// Links with other clusters that ended for unanswered PINGs.
    pub stale_gateways: AtomicU64,
    /// Links with leaf nodes and hubs that ended for unanswered PINGs.
    pub stale_leaf_nodes: AtomicU64,
    /// How often a publisher was paused for a receiver that is far behind.
    pub stalls: AtomicU64,
    /// Messages dropped for a receiver that is far behind (`no_fast_producer_stall`).
    pub stall_drops: AtomicU64,
}

/// Kind of a connection, of which some counters are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnKind {
    /// A client's.
    Client,
    /// A link to another server of the cluster.
    Route,
    /// A link with a leaf node or a hub.
    LeafNode,
    /// A link with a server of another cluster.
    Gateway,
}

impl Counters {
    /// Counter of slow connections of this kind.
    pub fn slow(&self, kind: ConnKind) -> &AtomicU64 {
        match kind {
            ConnKind::LeafNode => &self.slow_leaf_nodes,
            ConnKind::Gateway => &self.slow_gateways,
            ConnKind::Route => &self.slow_links,
            ConnKind::Client => &self.slow_consumers,
        }
    }
}

/// Traffic of all shards, and what is rare.
#[derive(Debug, Default)]
pub(crate) struct AllTraffic {
    /// Rare events.
    pub(crate) counters: Counters,
    shards: Mutex<Vec<Arc<Traffic>>>,
}

impl AllTraffic {
    /// Counters of one more shard.
    pub(crate) fn add_shard(&self) -> Arc<Traffic> {
        let traffic = Arc::new(Traffic::default());
        lock(&self.shards).push(Arc::clone(&traffic));
        traffic
    }

    /// Messages and bytes in, then out.
    pub(crate) fn sum(&self) -> [u64; 4] {
        let mut sum = [0; 4];
        for shard in lock(&self.shards).iter() {
            let counts = [&shard.in_msgs, &shard.in_bytes, &shard.out_msgs, &shard.out_bytes];
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum += count.get();
            }
        }
        sum
    }

    /// Of [`sum`](Self::sum), what comes from and goes to other servers.
    pub(crate) fn links(&self) -> [u64; 4] {
        let mut sum = [0; 4];
        for shard in lock(&self.shards).iter() {
            sum.iter_mut().zip(&shard.links).for_each(|(sum, count)| *sum += count.get());
        }
        sum
    }

    /// How the route caches do together.
    pub(crate) fn routes(&self) -> RouteCounts {
        let mut sum = RouteCounts::default();
        lock(&self.shards).iter().for_each(|shard| sum.join(shard.routes.get()));
        sum
    }
}

//! The server's part in a cluster, as the rest of JetStream knows it.
//!
//! Everything else about it is in `groups` and `meta`, which know JetStream as a whole.

use super::groups::Groups;
use super::live::LiveStream;
use myelin_streams::stream::StorageBudget;
use std::any::Any;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// Meta group, as far as whoever opens accounts and repairs streams has to know it.
pub(super) trait ClusterMember: Any + Send + Sync {
    /// The internal stream, which is in no account's table.
    fn meta_stream(&self) -> Arc<LiveStream>;

    /// An account may use JetStream here from now on: its streams are made that were assigned
    /// before.
    fn account_is_there(&self, account: &str);
}

/// Search for the meta group of this server's cluster, and of those that gateways join with it.
pub(super) trait MetaSearch: Send + Sync {
    /// Another server is linked: its name, and its cluster's.
    fn is_linked(&self, name: &str, cluster: &str);

    /// Another cluster has said whether some of its servers take part.
    fn cluster_heard(&self, cluster: &str, has_any: bool);

    /// How many servers a new group has.
    fn expected(&self) -> usize;

    /// A new group has so many servers.
    fn expect(&self, servers: usize);

    /// Asks all other servers.
    fn ask(&self);
}

/// The server's part in a cluster, if it is in one: each is set once.
#[derive(Default)]
pub(super) struct ClusterPart {
    /// Run of the machine, if that is known: see [`Disk::boot`](myelin_disk::Disk::boot).
    pub(super) boot: Option<u64>,
    /// Members of groups.
    pub(super) groups: OnceLock<Arc<Groups>>,
    /// Search for the meta group, which also answers those who look for it.
    pub(super) search: OnceLock<Arc<dyn MetaSearch>>,
    /// The meta group.
    pub(super) meta: OnceLock<Arc<dyn ClusterMember>>,
    /// Bytes of the servers' own streams, which have no limit: by them streams of accounts are
    /// removed, and room is made.
    pub(super) own_files: Arc<StorageBudget>,
    pub(super) repairs: RepairCounters,
}

/// Replicas that were found damaged since the start, or not as most of their group, and those that
/// others have given all to.
#[derive(Default)]
pub(super) struct RepairCounters {
    pub(super) damaged: AtomicU64,
    pub(super) disagreed: AtomicU64,
    pub(super) repaired: AtomicU64,
}

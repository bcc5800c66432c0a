//! The server's part in a cluster, as the rest of JetStream knows it.
//!
//! Everything else about it is in `groups` and `meta`, which know JetStream as a whole.

use super::groups::Groups;
use super::live::LiveStream;
use super::meta::Greeter;
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// Meta group, as far as whoever opens accounts and repairs streams has to know it.
pub(super) trait ClusterMember: Any + Send + Sync {
    /// The internal stream, which is in no account's table.
    fn meta_stream(&self) -> Arc<LiveStream>;

    /// An account may use JetStream here from now on: its streams are made that were assigned
    /// before.
    fn account_is_there(&self, account: &str);
}

/// The server's part in a cluster, if it is in one: each is set once.
#[derive(Default)]
pub(super) struct ClusterPart {
    /// Run of the machine, if that is known: see [`Disk::boot`](myelin_disk::Disk::boot).
    pub(super) boot: Option<u64>,
    /// Members of groups.
    pub(super) groups: OnceLock<Arc<Groups>>,
    /// Whoever asks for a meta group and answers those who do.
    pub(super) greeter: OnceLock<Arc<Greeter>>,
    /// The meta group.
    pub(super) meta: OnceLock<Arc<dyn ClusterMember>>,
}

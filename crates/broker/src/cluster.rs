//! The name of the server's cluster, which a reload may change: one for the broker and all its
//! accounts.

use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;

/// Name of the server's cluster, which a reload may change. Empty for none.
#[derive(Default)]
pub(crate) struct ClusterName(ArcSwap<String>);

impl ClusterName {
    pub(crate) fn get(&self) -> Arc<String> {
        self.0.load_full()
    }

    /// For a look at it: nothing is counted that other shards count, too.
    pub(crate) fn look(&self) -> Guard<Arc<String>> {
        self.0.load()
    }

    pub(crate) fn set(&self, name: &str) {
        self.0.store(Arc::new(name.to_owned()));
    }
}

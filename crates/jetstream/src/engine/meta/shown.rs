//! What monitoring shows of a server's part in its cluster beside the groups themselves.

use crate::engine::JetStream;

impl JetStream {
    /// Whether the cluster has streams of an account, on whichever of its servers.
    pub fn has_assigned(&self, account: &str) -> bool {
        self.meta().is_some_and(|meta| !meta.view().of_account(account).is_empty())
    }
}

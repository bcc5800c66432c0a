//! Clients of a consumer and of its twin: who does not listen, and who is behind.

use std::collections::BTreeSet;

/// Clients that do not listen, and clients that are behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    pub(super) absent: BTreeSet<String>,
    pub(super) behind: BTreeSet<String>,
}

impl Clients {
    /// Inboxes are `inbox.<client>.<request>`.
    fn of(reply: &str) -> &str {
        reply.split('.').nth(1).unwrap_or("")
    }

    pub(super) fn listens(&self, reply: &str) -> bool {
        !self.absent.contains(Self::of(reply))
    }

    pub(super) fn is_behind(&self, reply: &str) -> bool {
        self.behind.contains(Self::of(reply))
    }
}

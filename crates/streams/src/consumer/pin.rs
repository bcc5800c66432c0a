//! The client that a group of pull requests is pinned to.

use myelin_store::Timestamp;

/// Pin of a group of pull requests to one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    pub(super) group: String,
    /// Id that the client's requests must show.
    pub(super) id: String,
    /// Since when.
    pub(super) since: Timestamp,
    /// When it ends unless the client asks for more.
    pub(super) until: Timestamp,
}

impl Pin {
    pub(super) fn new(group: &str, id: String, timeout: i64, now: Timestamp) -> Self {
        Self { group: group.to_owned(), id, since: now, until: now.saturating_add(timeout) }
    }

    /// The client was heard of.
    pub(super) fn renew(&mut self, timeout: i64, now: Timestamp) {
        self.until = now.saturating_add(timeout);
    }
}

//! A request to the system account, as it came.

use myelin_broker::Conn;
use std::sync::Arc;

/// The old general call: every server tells of itself.
pub(super) const PING: &str = "$SYS.REQ.SERVER.PING";

/// A request as it came.
pub(super) struct SystemRequest {
    pub(super) subject: String,
    pub(super) reply: Vec<u8>,
    pub(super) headers: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// Connection that asks.
    pub(super) origin: Option<Arc<Conn>>,
    /// The account of an asker who is no member of the system account.
    pub(super) guest: Option<String>,
}

impl SystemRequest {
    /// Token number `at` of the subject, from 0.
    pub(super) fn token(&self, at: usize) -> &str {
        self.subject.split('.').nth(at).unwrap_or_default()
    }

    /// The last token of the subject.
    pub(super) fn last(&self) -> &str {
        self.subject.rsplit('.').next().unwrap_or_default()
    }

    /// Whether the server is to tell of itself: by name, or by the old general call.
    pub(super) fn is_statsz(&self) -> bool {
        self.subject == PING || (self.token(2) == "SERVER" && self.last() == "STATSZ")
    }

    /// Whether the answer takes no time.
    pub(super) fn is_quick(&self) -> bool {
        self.is_statsz() || matches!(self.last(), "IDZ") || self.token(2) == "USER"
    }
}

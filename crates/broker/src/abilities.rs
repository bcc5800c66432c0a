//! Abilities of a client, as it has shown them: by CONNECT, for the most part.

use std::sync::atomic::AtomicBool;

/// Abilities of one client.
#[derive(Debug, Default)]
pub(crate) struct Abilities {
    /// Whether it takes HMSG. Changes only with CONNECT, which outdates the routes of its
    /// subscriptions.
    pub(crate) headers: AtomicBool,
    /// Whether it wants to know when nobody receives its requests.
    pub(crate) no_responders: AtomicBool,
    /// Whether it has shown that it takes an INFO out of turn.
    pub(crate) accepts_async_info: AtomicBool,
}

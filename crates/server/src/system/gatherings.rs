//! Questions to all servers whose answers are gathered, and what has come of them so far.

use std::collections::HashMap;
use std::time::Instant;

/// A question to all servers, with what is known here.
pub(super) struct Gathering {
    pub(super) account: String,
    pub(super) subject: String,
    pub(super) queue: Option<String>,
    pub(super) reply: Vec<u8>,
    pub(super) count: i64,
}

/// A question that waits for answers.
pub(super) struct OpenGathering {
    pub(super) reply: Vec<u8>,
    pub(super) count: i64,
    /// Servers that have not answered.
    pub(super) left: usize,
    pub(super) end: Instant,
}

/// Questions that wait for answers, by where these come.
#[derive(Default)]
pub(super) struct Gatherings(pub(super) HashMap<String, OpenGathering>);

impl Gatherings {
    /// When the first of them has waited long enough.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().map(|waiting| waiting.end).min()
    }
}

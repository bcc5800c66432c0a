//! Requests for messages that wait at a leader, as its group's other members know them, and the
//! words in which they hear of them.

use crate::engine::host::Timer;
use myelin_replica::Peer;
use myelin_store::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};

/// Word of a leader to another member of its group. The subject has the receiver in it, in the
/// account of frames.
#[derive(Serialize, Deserialize)]
pub(in crate::engine) struct AskedWord {
    pub(in crate::engine) account: String,
    pub(in crate::engine) stream: String,
    /// By the names of consumers, all that wait there: where each is answered, and for how many
    /// nanoseconds longer it waits.
    pub(in crate::engine) waiting: BTreeMap<String, Vec<(String, i64)>>,
    /// Nobody waits there any more: the leader leaves the group.
    #[serde(default)]
    pub(in crate::engine) are_told: bool,
}

impl AskedWord {
    /// Subject on which a server hears such words.
    pub(in crate::engine) fn subject(receiver: Peer) -> String {
        format!("_asked_.{receiver}")
    }
}

/// Consumers that were asked, and what others have said of theirs.
#[derive(Default)]
pub(super) struct AskedConsumers {
    /// Consumers of which others are to hear.
    pub(super) unsaid: Mutex<BTreeSet<String>>,
    pub(super) watch: OnceLock<Arc<dyn Timer>>,
    /// Requests that wait at the leader, and until when.
    pub(super) elsewhere: Mutex<BTreeMap<String, Vec<(String, Timestamp)>>>,
}

//! Requests for messages that wait at a leader, as its group's other members know them, and the
//! words in which they hear of them.

use crate::engine::host::Timer;
use myelin_replica::Peer;
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};

/// Requests of one consumer that others hear of, at most.
pub(super) const MOST: usize = 128;

/// Consumers of one stream whose requests others keep, at most.
const MOST_CONSUMERS: usize = 1024;

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

impl AskedConsumers {
    /// The leader has said who waits there.
    pub(super) fn hear(&self, word: AskedWord, now: Timestamp) {
        let mut elsewhere = lock(&self.elsewhere);
        if word.are_told {
            elsewhere.clear();
        }
        for (name, mut requests) in word.waiting {
            requests.truncate(MOST);
            elsewhere.remove(&name);
            if elsewhere.len() >= MOST_CONSUMERS {
                // Nobody says of a consumer that it is gone.
                elsewhere.retain(|_, requests| requests.iter().any(|(_, until)| *until > now));
            }
            if !requests.is_empty() && elsewhere.len() < MOST_CONSUMERS {
                let until = |(reply, left): (String, i64)| (reply, now.saturating_add(left));
                elsewhere.insert(name, requests.into_iter().map(until).collect());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_that_are_gone_are_forgotten_at_last() {
        let asked = AskedConsumers::default();
        let hear = |name: String, requests: Vec<(String, i64)>, are_told, now| {
            let waiting = BTreeMap::from([(name, requests)]);
            asked.hear(AskedWord { account: "$G".into(), stream: "S".into(), waiting, are_told }, now);
            lock(&asked.elsewhere).len()
        };
        let one = |left| vec![("_INBOX.a".to_owned(), left)];
        for number in 0..3 * MOST_CONSUMERS {
            let now = number as Timestamp;
            assert!(hear(format!("c{number}"), one(10), false, now) <= MOST_CONSUMERS);
        }
        let now = 3 * MOST_CONSUMERS as Timestamp;
        assert!(lock(&asked.elsewhere).contains_key(&format!("c{}", 3 * MOST_CONSUMERS - 1)));
        let before = lock(&asked.elsewhere).len();
        assert_eq!(hear(format!("c{}", 3 * MOST_CONSUMERS - 1), Vec::new(), false, now), before - 1);
        assert_eq!(hear("last".to_owned(), one(10), true, now), 1);
    }
}

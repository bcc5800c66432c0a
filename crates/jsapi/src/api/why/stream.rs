//! Causes that hold publishes to a stream back, or cost it messages.

use super::{Cause, Holds, count, seconds, span};
use myelin_stdx::time::Timestamp;
use serde_json::{Value, json};

/// Causes that hold publishes back, in the order of the checks that a message passes; behind that
/// what costs messages, and why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are the numbers of the answer, under the same names")]
pub enum StreamCause {
    /// Its log could not be written.
    WaitsForDisk { error: String },
    /// Copies of another stream alone are taken.
    Mirror { origin: String },
    /// No messages are taken ever again.
    Sealed,
    /// The streams of the server have all that it allows them.
    ServerFull { used: i64, limit: i64 },
    /// The streams of the account have all that it allows them.
    AccountFull { used: i64, limit: i64 },
    /// Limits are reached, and more is refused.
    Full { limit: &'static str, used: u64, most: u64 },
    /// Subjects have as many messages as each may, and more of them are refused.
    SubjectsFull { subjects: u64, first: String, most: u64 },
    /// Messages wait for their turn.
    PublishersWait { messages: u64, bytes: u64 },
    /// Limits are reached, and each message costs the oldest.
    DiscardsOldest { limit: &'static str, used: u64, most: u64, first_at: Timestamp },
    /// Messages that no consumer wants stay in a work queue.
    InterestGone { messages: u64, consumers: u64 },
    /// Origins have more, or cannot be reached.
    OriginBehind { origin: String, lag: u64, active: i64, error: Option<String> },
    /// Nobody has published to its subjects yet.
    NothingPublished { subjects: Vec<String> },
}

impl StreamCause {
    /// Word of the cause.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::WaitsForDisk { .. } => "waits_for_disk",
            Self::Mirror { .. } => "mirror",
            Self::Sealed => "sealed",
            Self::ServerFull { .. } => "server_full",
            Self::AccountFull { .. } => "account_full",
            Self::Full { .. } | Self::SubjectsFull { .. } => "full",
            Self::PublishersWait { .. } => "publishers_wait",
            Self::DiscardsOldest { .. } => "discards_oldest",
            Self::InterestGone { .. } => "interest_gone",
            Self::OriginBehind { .. } => "origin_behind",
            Self::NothingPublished { .. } => "nothing_published",
        }
    }

    /// The cause, as an answer tells it.
    #[must_use]
    pub fn told(&self, holds: Holds, stream: &str, now: Timestamp) -> Cause {
        let remedy = self.remedy().replace("<stream>", stream);
        Cause::new(self.word(), holds, self.numbers(now), self.says(now), remedy)
    }

    fn numbers(&self, now: Timestamp) -> Value {
        match self {
            Self::WaitsForDisk { error } => json!({ "error": error }),
            Self::Mirror { origin } => json!({ "origin": origin }),
            Self::Sealed => json!({}),
            Self::ServerFull { used, limit } | Self::AccountFull { used, limit } => {
                json!({ "used": used, "limit": limit })
            }
            Self::Full { limit, used, most } => json!({ "name": limit, "used": used, "limit": most }),
            Self::SubjectsFull { subjects, first, most } => {
                json!({ "name": "max_msgs_per_subject", "subjects": subjects, "first": first, "limit": most })
            }
            Self::PublishersWait { messages, bytes } => json!({ "messages": messages, "bytes": bytes }),
            Self::DiscardsOldest { limit, used, most, first_at } => json!({
                "name": limit, "used": used, "limit": most, "seconds": seconds(*first_at, now),
            }),
            Self::InterestGone { messages, consumers } => {
                json!({ "messages": messages, "consumers": consumers })
            }
            Self::OriginBehind { origin, lag, active, error } => {
                let idle = if *active < 0 { -1 } else { active / 1_000_000_000 };
                json!({ "origin": origin, "lag": lag, "seconds": idle, "error": error })
            }
            Self::NothingPublished { subjects } => json!({ "subjects": subjects }),
        }
    }

    fn says(&self, now: Timestamp) -> String {
        match self {
            Self::WaitsForDisk { error } => format!("its log cannot be written: {error}"),
            Self::Mirror { origin } => {
                format!("it is a mirror of {origin} and takes no messages from anybody else")
            }
            Self::Sealed => "it is sealed: it takes no messages any more, and loses none".to_owned(),
            Self::ServerFull { used, limit } => {
                format!("streams have {used} bytes on this server, which may have {limit}")
            }
            Self::AccountFull { used, limit } => {
                format!("streams of the account have {used} bytes, and may have {limit}")
            }
            Self::Full { limit, used, most } => {
                format!("it has {used} of {most} ({limit}) and refuses more (discard: new)")
            }
            Self::SubjectsFull { subjects, first, most } => format!(
                "{} with {most} messages or more (the first is {first}), as many as each may have: more are \
                 refused",
                count(*subjects, "subject")
            ),
            Self::PublishersWait { messages, bytes } => {
                format!("{} with {bytes} bytes wait to be stored", count(*messages, "message"))
            }
            Self::DiscardsOldest { limit, used, most, first_at } => format!(
                "it has {used} of {most} ({limit}): each message costs the oldest, which is {} old",
                span(now.saturating_sub(*first_at))
            ),
            Self::InterestGone { messages, consumers } => {
                let there = if *consumers == 1 { "is" } else { "are" };
                let what = if *messages == 1 { "that" } else { "those" };
                format!(
                    "no consumer wants {} of the work queue: nobody will ever take {what} ({} {there} there)",
                    count(*messages, "message"),
                    count(*consumers, "consumer")
                )
            }
            Self::OriginBehind { origin, lag, active, error } => {
                let what = error.as_ref().map_or(String::new(), |error| format!(": {error}"));
                let when = if *active < 0 {
                    "nothing has come".to_owned()
                } else {
                    format!("the last came {} ago", span(*active))
                };
                format!("{} of {origin} are still to come, {when}{what}", count(*lag, "message"))
            }
            Self::NothingPublished { subjects } => {
                format!("nothing was ever stored; it listens to {}", subjects.join(", "))
            }
        }
    }

    /// `<stream>` stands for the name.
    fn remedy(&self) -> &'static str {
        match self {
            Self::WaitsForDisk { .. } => {
                "look at the server's log and at the disk; the stream goes on by itself when it can be written"
            }
            Self::Mirror { .. } => {
                "publish to the origin; to write here, remove the mirror from the configuration"
            }
            Self::Sealed => "nothing undoes it: restore a backup under another name, or make another stream",
            Self::ServerFull { .. } => {
                "raise max_file_store or max_memory_store of the server, remove messages, or move streams"
            }
            Self::AccountFull { .. } => {
                "raise the account's limits of JetStream, or remove messages of its streams"
            }
            Self::Full { .. } | Self::SubjectsFull { .. } => {
                "raise the limit, have consumers acknowledge what is there (work queue, interest), purge, or set \
                 discard to old"
            }
            Self::PublishersWait { .. } => {
                "it passes; where it lasts, the disk is too slow for what is published, or one stream has too much"
            }
            Self::DiscardsOldest { .. } => {
                "nothing, if that is wanted; to keep messages longer: raise the limit, or max_age alone"
            }
            Self::InterestGone { .. } => {
                "nats stream subjects <stream> shows whose they are: make a consumer for them, or purge them"
            }
            Self::OriginBehind { .. } => {
                "see that the origin is there and can be reached (its domain, imports, permissions)"
            }
            Self::NothingPublished { .. } => "publish to one of these subjects",
        }
    }
}

//! What is told about consumers and the messages that they deliver.

use super::{Action, Advisory, Stamp, advisory, event};
use crate::json::Moment;
use myelin_store::Timestamp;
use serde::Serialize;

/// Which consumer.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// Its stream.
    pub stream: &'a str,
    /// Its name.
    pub consumer: &'a str,
}

impl Whose<'_> {
    fn subject(self, verb: &str) -> String {
        format!("CONSUMER.{verb}.{}.{}", self.stream, self.consumer)
    }
}

/// A message, as one delivery of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Delivery {
    /// Deliveries of the consumer, counted from 1.
    pub consumer_seq: u64,
    /// The message.
    pub stream_seq: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// A consumer was made or deleted; there is no [`Action::Modify`] of one. Ephemeral ones count, direct ones too.
pub fn consumer_action(stamp: Stamp<'_>, whose: Whose<'_>, action: Action) -> Advisory {
    #[derive(Serialize)]
    struct Changed<'a> {
        stream: &'a str,
        consumer: &'a str,
        action: Action,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let verb = if action == Action::Delete { "DELETED" } else { "CREATED" };
    let Whose { stream, consumer } = whose;
    let changed = Changed { stream, consumer, action, domain: stamp.domain };
    advisory(whose.subject(verb), "consumer_action", stamp, changed)
}

/// A consumer pauses, or does so no longer. `until` is what its configuration says; Go's zero time stands for nothing.
pub fn paused(stamp: Stamp<'_>, whose: Whose<'_>, until: Option<Moment>) -> Advisory {
    #[derive(Serialize)]
    struct Pause<'a> {
        stream: &'a str,
        consumer: &'a str,
        paused: bool,
        pause_until: Moment,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let Whose { stream, consumer } = whose;
    let paused = until.is_some_and(|until| stamp.time < until.timestamp());
    let pause_until = until.unwrap_or_default();
    let pause = Pause { stream, consumer, paused, pause_until, domain: stamp.domain };
    advisory(whose.subject("PAUSE"), "consumer_pause", stamp, pause)
}

/// A message was delivered as often as it may be.
pub fn max_deliveries(stamp: Stamp<'_>, whose: Whose<'_>, stream_seq: u64, deliveries: u64) -> Advisory {
    #[derive(Serialize)]
    struct Exceeded<'a> {
        stream: &'a str,
        consumer: &'a str,
        stream_seq: u64,
        deliveries: u64,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let Whose { stream, consumer } = whose;
    let exceeded = Exceeded { stream, consumer, stream_seq, deliveries, domain: stamp.domain };
    advisory(whose.subject("MAX_DELIVERIES"), "max_deliver", stamp, exceeded)
}

/// A client wants a message to be delivered again.
pub fn message_naked(stamp: Stamp<'_>, whose: Whose<'_>, delivery: Delivery) -> Advisory {
    refused(stamp, whose, ("MSG_NAKED", "nak"), delivery, "")
}

/// A message is not delivered again, because a client or a limit says so; the reason may be empty.
pub fn message_terminated(stamp: Stamp<'_>, whose: Whose<'_>, delivery: Delivery, reason: &str) -> Advisory {
    refused(stamp, whose, ("MSG_TERMINATED", "terminated"), delivery, reason)
}

fn refused(
    stamp: Stamp<'_>,
    whose: Whose<'_>,
    (verb, kind): (&str, &str),
    delivery: Delivery,
    reason: &str,
) -> Advisory {
    #[derive(Serialize)]
    struct Refused<'a> {
        stream: &'a str,
        consumer: &'a str,
        #[serde(flatten)]
        delivery: Delivery,
        #[serde(skip_serializing_if = "str::is_empty")]
        reason: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let Whose { stream, consumer } = whose;
    let refused = Refused { stream, consumer, delivery, reason, domain: stamp.domain };
    advisory(whose.subject(verb), kind, stamp, refused)
}

/// Another client of a group is served. `pin` is what it must say from now on.
pub fn group_pinned(stamp: Stamp<'_>, account: &str, whose: Whose<'_>, group: &str, pin: &str) -> Advisory {
    #[derive(Serialize)]
    struct Pinned<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        account: &'a str,
        stream: &'a str,
        consumer: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
        group: &'a str,
        pinned_id: &'a str,
    }
    let Whose { stream, consumer } = whose;
    let pinned = Pinned { account, stream, consumer, domain: stamp.domain, group, pinned_id: pin };
    advisory(whose.subject("PINNED"), "consumer_group_pinned", stamp, pinned)
}

/// Why a client is served no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unpinned {
    /// Somebody asked for it.
    Admin,
    /// It was silent for too long.
    Timeout,
}

/// No client of a group is served.
pub fn group_unpinned(
    stamp: Stamp<'_>,
    account: &str,
    whose: Whose<'_>,
    group: &str,
    reason: Unpinned,
) -> Advisory {
    #[derive(Serialize)]
    struct Event<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        account: &'a str,
        stream: &'a str,
        consumer: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
        group: &'a str,
        reason: Unpinned,
    }
    let Whose { stream, consumer } = whose;
    let unpinned = Event { account, stream, consumer, domain: stamp.domain, group, reason };
    advisory(whose.subject("UNPINNED"), "consumer_group_unpinned", stamp, unpinned)
}

/// A message was acknowledged, and is one of those that are measured (`sample_freq`). `delivered`: when it was delivered first.
pub fn acknowledged(
    stamp: Stamp<'_>,
    whose: Whose<'_>,
    delivery: Delivery,
    delivered: Timestamp,
) -> Advisory {
    #[derive(Serialize)]
    struct Acknowledged<'a> {
        stream: &'a str,
        consumer: &'a str,
        consumer_seq: u64,
        stream_seq: u64,
        ack_time: i64,
        deliveries: u64,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let Whose { stream, consumer } = whose;
    let Delivery { consumer_seq, stream_seq, deliveries } = delivery;
    let ack_time = stamp.time.saturating_sub(delivered);
    let domain = stamp.domain;
    let acknowledged =
        Acknowledged { stream, consumer, consumer_seq, stream_seq, ack_time, deliveries, domain };
    let subject = format!("$JS.EVENT.METRIC.{}", whose.subject("ACK"));
    event(subject, "io.nats.jetstream.metric.v1.consumer_ack".to_owned(), stamp, acknowledged)
}

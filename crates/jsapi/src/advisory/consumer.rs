//! Advisories about consumers and the messages that they deliver.

use super::{Action, Advisory, AdvisoryHeader, advisory, event};
use crate::json::Moment;
use myelin_stdx::time::Timestamp;
use serde::Serialize;

/// Which consumer.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerRef<'a> {
    /// Its stream.
    pub stream: &'a str,
    /// Its name.
    pub consumer: &'a str,
}

impl ConsumerRef<'_> {
    pub(super) fn subject(self, verb: &str) -> String {
        format!("CONSUMER.{verb}.{}.{}", self.stream, self.consumer)
    }
}

/// A message, as one delivery of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DeliveryInfo {
    /// Deliveries of the consumer, counted from 1.
    pub consumer_seq: u64,
    /// The message.
    pub stream_seq: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// A consumer was made or deleted; there is no [`Action::Modify`] of one. Ephemeral ones count,
/// direct ones too.
pub fn consumer_action(
    header: AdvisoryHeader<'_>,
    consumer_ref: ConsumerRef<'_>,
    action: Action,
) -> Advisory {
    #[derive(Serialize)]
    struct ConsumerActionBody<'a> {
        stream: &'a str,
        consumer: &'a str,
        action: Action,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let verb = if action == Action::Delete { "DELETED" } else { "CREATED" };
    let ConsumerRef { stream, consumer } = consumer_ref;
    let changed = ConsumerActionBody { stream, consumer, action, domain: header.domain };
    advisory(consumer_ref.subject(verb), "consumer_action", header, changed)
}

/// A consumer pauses, or does so no longer. `until` is what its configuration says; Go's zero time
/// stands for nothing.
pub fn paused(header: AdvisoryHeader<'_>, consumer_ref: ConsumerRef<'_>, until: Option<Moment>) -> Advisory {
    #[derive(Serialize)]
    struct Pause<'a> {
        stream: &'a str,
        consumer: &'a str,
        paused: bool,
        pause_until: Moment,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let ConsumerRef { stream, consumer } = consumer_ref;
    let paused = until.is_some_and(|until| header.time < until.timestamp());
    let pause_until = until.unwrap_or_default();
    let pause = Pause { stream, consumer, paused, pause_until, domain: header.domain };
    advisory(consumer_ref.subject("PAUSE"), "consumer_pause", header, pause)
}

/// A message was delivered as often as it may be.
pub fn max_deliveries(
    header: AdvisoryHeader<'_>,
    consumer_ref: ConsumerRef<'_>,
    stream_seq: u64,
    deliveries: u64,
) -> Advisory {
    #[derive(Serialize)]
    struct Exceeded<'a> {
        stream: &'a str,
        consumer: &'a str,
        stream_seq: u64,
        deliveries: u64,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let ConsumerRef { stream, consumer } = consumer_ref;
    let exceeded = Exceeded { stream, consumer, stream_seq, deliveries, domain: header.domain };
    advisory(consumer_ref.subject("MAX_DELIVERIES"), "max_deliver", header, exceeded)
}

/// A client wants a message to be delivered again.
pub fn message_naked(
    header: AdvisoryHeader<'_>,
    consumer_ref: ConsumerRef<'_>,
    delivery: DeliveryInfo,
) -> Advisory {
    refused(header, consumer_ref, ("MSG_NAKED", "nak"), delivery, "")
}

/// A message is not delivered again, because a client or a limit says so; the reason may be empty.
pub fn message_terminated(
    header: AdvisoryHeader<'_>,
    consumer_ref: ConsumerRef<'_>,
    delivery: DeliveryInfo,
    reason: &str,
) -> Advisory {
    refused(header, consumer_ref, ("MSG_TERMINATED", "terminated"), delivery, reason)
}

fn refused(
    header: AdvisoryHeader<'_>,
    consumer_ref: ConsumerRef<'_>,
    (verb, kind): (&str, &str),
    delivery: DeliveryInfo,
    reason: &str,
) -> Advisory {
    #[derive(Serialize)]
    struct RefusedBody<'a> {
        stream: &'a str,
        consumer: &'a str,
        #[serde(flatten)]
        delivery: DeliveryInfo,
        #[serde(skip_serializing_if = "str::is_empty")]
        reason: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let ConsumerRef { stream, consumer } = consumer_ref;
    let refused = RefusedBody { stream, consumer, delivery, reason, domain: header.domain };
    advisory(consumer_ref.subject(verb), kind, header, refused)
}

/// Another client of a group is served. `pin` is what it must say from now on.
pub fn group_pinned(
    header: AdvisoryHeader<'_>,
    account: &str,
    consumer_ref: ConsumerRef<'_>,
    group: &str,
    pin: &str,
) -> Advisory {
    #[derive(Serialize)]
    struct PinnedBody<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        account: &'a str,
        stream: &'a str,
        consumer: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
        group: &'a str,
        pinned_id: &'a str,
    }
    let ConsumerRef { stream, consumer } = consumer_ref;
    let pinned = PinnedBody { account, stream, consumer, domain: header.domain, group, pinned_id: pin };
    advisory(consumer_ref.subject("PINNED"), "consumer_group_pinned", header, pinned)
}

/// Why a client is served no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unpinned {
    /// Somebody asked for it.
    Admin,
    /// The client was silent for too long.
    Timeout,
}

/// No client of a group is served.
pub fn group_unpinned(
    header: AdvisoryHeader<'_>,
    account: &str,
    consumer_ref: ConsumerRef<'_>,
    group: &str,
    reason: Unpinned,
) -> Advisory {
    #[derive(Serialize)]
    struct UnpinnedBody<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        account: &'a str,
        stream: &'a str,
        consumer: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
        group: &'a str,
        reason: Unpinned,
    }
    let ConsumerRef { stream, consumer } = consumer_ref;
    let unpinned = UnpinnedBody { account, stream, consumer, domain: header.domain, group, reason };
    advisory(consumer_ref.subject("UNPINNED"), "consumer_group_unpinned", header, unpinned)
}

/// A message was acknowledged, and is one of those that are measured (`sample_freq`). `delivered`:
/// when it was delivered first.
pub fn acknowledged(
    header: AdvisoryHeader<'_>,
    consumer_ref: ConsumerRef<'_>,
    delivery: DeliveryInfo,
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
    let ConsumerRef { stream, consumer } = consumer_ref;
    let DeliveryInfo { consumer_seq, stream_seq, deliveries } = delivery;
    let ack_time = header.time.saturating_sub(delivered);
    let domain = header.domain;
    let acknowledged =
        Acknowledged { stream, consumer, consumer_seq, stream_seq, ack_time, deliveries, domain };
    let subject = format!("$JS.EVENT.METRIC.{}", consumer_ref.subject("ACK"));
    event(subject, "io.nats.jetstream.metric.v1.consumer_ack".to_owned(), header, acknowledged)
}

/// The stream `target` does not take the dead letters of a consumer, and why; `None`: it does
/// again. Ours: the reference has no dead letters.
pub fn dead_letters(
    header: AdvisoryHeader<'_>,
    consumer_ref: ConsumerRef<'_>,
    target: &str,
    why: Option<&str>,
) -> Advisory {
    #[derive(Serialize)]
    struct DeadLetters<'a> {
        stream: &'a str,
        consumer: &'a str,
        dead_letter_stream: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let (verb, kind) = match why {
        Some(_) => ("DEAD_LETTERS_REFUSED", "consumer_dead_letters_refused"),
        None => ("DEAD_LETTERS_TAKEN", "consumer_dead_letters_taken"),
    };
    let ConsumerRef { stream, consumer } = consumer_ref;
    let domain = header.domain;
    let body = DeadLetters { stream, consumer, dead_letter_stream: target, reason: why, domain };
    advisory(consumer_ref.subject(verb), kind, header, body)
}

//! Causes that hold deliveries of a consumer back.

use super::{Cause, Holds, count, seconds, span, until};
use crate::json::rfc3339;
use myelin_stdx::time::Timestamp;
use serde_json::{Value, json};

/// Causes that hold deliveries back, in the order in which the loop of deliveries meets them;
/// behind that what holds back some, and why there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are the numbers of the answer, under the same names")]
pub enum ConsumerCause {
    /// The configuration says so.
    Paused { until: Timestamp },
    /// No request for messages waits; `since` the last one, if there was any.
    NoPullWaits { pending: u64, since: Option<Timestamp> },
    /// The last request, for so many bytes at most, was ended by a message of this size.
    RequestsTooSmall { size: i64, largest: i64 },
    /// Nobody subscribes to where it pushes.
    NobodyListens { subject: String, group: String, since: Option<Timestamp> },
    /// The client has to answer first.
    FlowControl { sent: i64, window: i64 },
    /// The disk could not be read, or has not been yet.
    WaitsForDisk { seq: u64, retry_at: Option<Timestamp> },
    /// The next message exceeds the bits of this second.
    RateLimit { bits_per_second: u64, next_at: Timestamp },
    /// The next message came later than the one before it, when they were published.
    OriginalPace { next_at: Timestamp },
    /// A client, by its connection, does not read what it got.
    ReceiverBehind { conn: u64, bytes: u64, bound: u64 },
    /// As many await their acknowledgement as may.
    MaxAckPending { pending: u64, limit: i64, oldest: u64, since: Timestamp },
    /// The client that is served does not ask.
    PinnedElsewhere { group: String, id: String, until: Timestamp },
    /// Requests want more to be there first.
    TooFewForRequests { pending: u64, outstanding: u64, min_pending: i64, min_ack_pending: i64 },
    /// Messages are with clients, and come again unless they are acknowledged.
    RedeliveryWaits { messages: u64, next_at: Option<Timestamp> },
    /// Messages were delivered as often as may be, and never acknowledged.
    DeliveriesExhausted { messages: u64, max_deliver: i64, first: u64 },
    /// Messages are dead and not moved yet; `refusal`: what the other stream said of the last ones.
    DeadLettersWait { messages: u64, stream: String, refusal: Option<String>, retry_at: Option<Timestamp> },
    /// The stream has messages, on other subjects.
    FilterMatchesNothing { filters: Vec<String>, messages: u64 },
    /// The first message that it wants has not come yet.
    BeginsLater { start: u64, last: u64 },
    /// The stream has no messages.
    StreamEmpty { last: u64 },
    /// Everything was delivered.
    CaughtUp { delivered: u64, last: u64 },
}

impl ConsumerCause {
    /// Word of the cause.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Paused { .. } => "paused",
            Self::NoPullWaits { .. } => "no_pull_waits",
            Self::RequestsTooSmall { .. } => "requests_too_small",
            Self::NobodyListens { .. } => "nobody_listens",
            Self::FlowControl { .. } => "flow_control",
            Self::WaitsForDisk { .. } => "waits_for_disk",
            Self::RateLimit { .. } => "rate_limit",
            Self::OriginalPace { .. } => "original_pace",
            Self::ReceiverBehind { .. } => "receiver_behind",
            Self::MaxAckPending { .. } => "max_ack_pending",
            Self::PinnedElsewhere { .. } => "pinned_elsewhere",
            Self::TooFewForRequests { .. } => "too_few_for_requests",
            Self::RedeliveryWaits { .. } => "redelivery_waits",
            Self::DeliveriesExhausted { .. } => "deliveries_exhausted",
            Self::DeadLettersWait { .. } => "dead_letters_wait",
            Self::FilterMatchesNothing { .. } => "filter_matches_nothing",
            Self::BeginsLater { .. } => "begins_later",
            Self::StreamEmpty { .. } => "stream_empty",
            Self::CaughtUp { .. } => "caught_up",
        }
    }

    /// The cause, as an answer tells it.
    #[must_use]
    pub fn told(&self, holds: Holds, (stream, consumer): (&str, &str), now: Timestamp) -> Cause {
        let remedy = self.remedy().replace("<stream>", stream).replace("<consumer>", consumer);
        Cause::new(self.word(), holds, self.numbers(now), self.says(now), remedy)
    }

    fn numbers(&self, now: Timestamp) -> Value {
        match self {
            Self::Paused { until } => json!({ "until": rfc3339(*until), "seconds": seconds(now, *until) }),
            Self::NoPullWaits { pending, since } => {
                let idle = since.map(|since| seconds(since, now));
                json!({ "pending": pending, "since": since.map(rfc3339), "seconds": idle })
            }
            Self::RequestsTooSmall { size, largest } => json!({ "size": size, "largest": largest }),
            Self::NobodyListens { subject, group, since } => {
                let since = since.unwrap_or(now);
                json!({
                    "subject": subject, "group": group,
                    "since": rfc3339(since), "seconds": seconds(since, now),
                })
            }
            Self::FlowControl { sent, window } => json!({ "sent": sent, "window": window }),
            Self::WaitsForDisk { seq, retry_at } => json!({ "seq": seq, "retry_at": retry_at.map(rfc3339) }),
            Self::RateLimit { bits_per_second, next_at } => {
                json!({ "bits_per_second": bits_per_second, "next_at": rfc3339(*next_at) })
            }
            Self::OriginalPace { next_at } => json!({ "next_at": rfc3339(*next_at) }),
            Self::ReceiverBehind { conn, bytes, bound } => {
                json!({ "cid": conn, "bytes": bytes, "bound": bound })
            }
            Self::MaxAckPending { pending, limit, oldest, since } => json!({
                "pending": pending, "limit": limit, "oldest": oldest,
                "since": rfc3339(*since), "seconds": seconds(*since, now),
            }),
            Self::PinnedElsewhere { group, id, until } => {
                json!({ "group": group, "id": id, "until": rfc3339(*until) })
            }
            Self::TooFewForRequests { pending, outstanding, min_pending, min_ack_pending } => json!({
                "pending": pending, "ack_pending": outstanding,
                "min_pending": min_pending, "min_ack_pending": min_ack_pending,
            }),
            Self::RedeliveryWaits { messages, next_at } => {
                json!({ "messages": messages, "next_at": next_at.map(rfc3339) })
            }
            Self::DeliveriesExhausted { messages, max_deliver, first } => {
                json!({ "messages": messages, "max_deliver": max_deliver, "first": first })
            }
            Self::DeadLettersWait { messages, stream, refusal, retry_at } => json!({
                "messages": messages, "stream": stream,
                "refusal": refusal, "retry_at": retry_at.map(rfc3339),
            }),
            Self::FilterMatchesNothing { filters, messages } => {
                json!({ "filters": filters, "messages": messages })
            }
            Self::BeginsLater { start, last } => json!({ "start": start, "last": last }),
            Self::StreamEmpty { last } => json!({ "last": last }),
            Self::CaughtUp { delivered, last } => json!({ "delivered": delivered, "last": last }),
        }
    }

    fn says(&self, now: Timestamp) -> String {
        match self {
            Self::Paused { until: end } => format!("it is paused until {}", until(*end, now)),
            Self::NoPullWaits { pending, since } => {
                let ago =
                    since.map_or(String::new(), |since| format!(", the last one {} ago", span(now - since)));
                let messages = count(*pending, "message");
                format!("nobody asks: no pull request waits{ago}; to be delivered: {messages}")
            }
            Self::RequestsTooSmall { size, largest } => format!(
                "the next message has {size} bytes, and the last request allowed {largest} (max_bytes): it was \
                 ended with 409 Message Size Exceeds MaxBytes"
            ),
            Self::NobodyListens { subject, group, since } => {
                let ago = since.map_or(String::new(), |since| format!(", for {}", span(now - since)));
                let how = if group.is_empty() { String::new() } else { format!(" in queue group {group}") };
                format!("nobody listens to {subject}{how}{ago}")
            }
            Self::FlowControl { sent, window } => format!(
                "the client has not answered a flow control request: {sent} bytes are on their way to it, and \
                 {window} may be"
            ),
            Self::WaitsForDisk { seq, retry_at: None } => {
                format!("message {seq} has to be read from the disk, and has not been yet")
            }
            Self::WaitsForDisk { seq, retry_at: Some(at) } => {
                format!(
                    "message {seq} could not be read from the disk; that is tried again at {}",
                    until(*at, now)
                )
            }
            Self::RateLimit { bits_per_second, next_at } => format!(
                "the rate limit of {bits_per_second} bits per second is used up until {}",
                until(*next_at, now)
            ),
            Self::OriginalPace { next_at } => format!(
                "messages come with the pauses with which they were published: the next at {}",
                until(*next_at, now)
            ),
            Self::ReceiverBehind { conn, bytes, bound } => format!(
                "the client on connection {conn} does not read what it has got: {bytes} bytes wait for it, and \
                 {bound} may"
            ),
            Self::MaxAckPending { pending, limit, oldest, since } => format!(
                "{} await their acknowledgement, and {limit} may; the oldest is {oldest}, delivered {} ago",
                count(*pending, "message"),
                span(now - since)
            ),
            Self::PinnedElsewhere { group, id, until: end } => format!(
                "group {group} is pinned to a client with the id {id}, which does not ask; the others wait until {}",
                until(*end, now)
            ),
            Self::TooFewForRequests { pending, outstanding, min_pending, min_ack_pending } => format!(
                "requests want at least {min_pending} to be pending (there are {pending}), or {min_ack_pending} \
                 to await their acknowledgement (there are {outstanding}); 0 is no wish"
            ),
            _ => self.says_of_messages(now),
        }
    }

    /// Of single messages, and of none.
    fn says_of_messages(&self, now: Timestamp) -> String {
        match self {
            Self::RedeliveryWaits { messages, next_at } => {
                let when = next_at
                    .map_or("never by themselves".to_owned(), |at| format!("from {} on", until(at, now)));
                let is_one = *messages == 1;
                let verb = if is_one { "is with a client and comes" } else { "are with clients and come" };
                format!("{} {verb} again, unless acknowledged, {when}", count(*messages, "message"))
            }
            Self::DeliveriesExhausted { messages, max_deliver, first } => {
                let verb = if *messages == 1 { "was" } else { "were" };
                format!(
                    "{} {verb} delivered as often as may be ({max_deliver}) and never acknowledged, the first is \
                     {first}: nobody gets them again",
                    count(*messages, "message")
                )
            }
            Self::DeadLettersWait { messages, stream, refusal, retry_at } => {
                let is_one = *messages == 1;
                let verb = if is_one { "is dead and has" } else { "are dead and have" };
                let why = refusal
                    .as_ref()
                    .map_or(String::new(), |why| format!(", which has not taken them: {why}"));
                let when =
                    retry_at.map_or(String::new(), |at| format!("; tried again at {}", until(at, now)));
                format!("{} {verb} to move to stream {stream}{why}{when}", count(*messages, "message"))
            }
            Self::FilterMatchesNothing { filters, messages } => format!(
                "none of the {} of the stream match {}",
                count(*messages, "message"),
                filters.join(", ")
            ),
            Self::BeginsLater { start, last } => {
                format!("it begins with message {start}, and the last one of the stream is {last}")
            }
            Self::StreamEmpty { last } => format!("the stream has no messages; the last one was {last}"),
            Self::CaughtUp { delivered, last } => {
                let deliveries = if *delivered == 1 { "delivery" } else { "deliveries" };
                format!(
                    "everything was delivered, in {delivered} {deliveries}; the last message of the stream is {last}"
                )
            }
            _ => String::new(),
        }
    }

    /// `<stream>` and `<consumer>` stand for the names.
    fn remedy(&self) -> &'static str {
        match self {
            Self::Paused { .. } => "nats consumer resume <stream> <consumer>",
            Self::NoPullWaits { .. } => "start the application, or look why it does not ask for messages",
            Self::RequestsTooSmall { .. } => "ask with a larger max_bytes, or with none",
            Self::NobodyListens { .. } => {
                "subscribe to that very subject, as the configuration says (with that queue group, or without one)"
            }
            Self::FlowControl { .. } => {
                "the client has to publish to the reply subject of flow control requests: a client library does so \
                 for ordered and push consumers; without one, set flow_control to false"
            }
            Self::WaitsForDisk { .. } => "look at the server's log and at the disk",
            Self::RateLimit { .. } => "raise rate_limit_bps, or set it to 0",
            Self::OriginalPace { .. } => "replay_policy instant has no pauses; it needs another consumer",
            Self::ReceiverBehind { .. } => {
                "look at the client of this connection (/connz?cid=…): it reads more slowly than messages come, or \
                 not at all"
            }
            Self::MaxAckPending { .. } => {
                "acknowledge, or raise max_ack_pending; what is not acknowledged comes again after ack_wait"
            }
            Self::PinnedElsewhere { .. } => {
                "nats consumer unpin <stream> <consumer>, or wait: the pin ends unless the client asks"
            }
            Self::TooFewForRequests { .. } => {
                "have one client ask without min_pending and min_ack_pending, or with less"
            }
            Self::RedeliveryWaits { .. } => {
                "acknowledge them; sooner: a shorter ack_wait or backoff, or a smaller delay with -NAK"
            }
            Self::DeliveriesExhausted { .. } => {
                "look at these messages (nats stream get <stream>) and at why they are not acknowledged; to have them \
                 again: raise max_deliver and reset the consumer, or make another one"
            }
            Self::DeadLettersWait { .. } => {
                "wait; if the stream refuses them: make room there, make the stream, or change myelin.dlq.stream and \
                 myelin.dlq.subject in the consumer's metadata"
            }
            Self::FilterMatchesNothing { .. } => {
                "nats stream subjects <stream> shows which subjects there are; change the filter, or wait"
            }
            Self::BeginsLater { .. } => "wait for the first message, or reset the consumer to an earlier one",
            Self::StreamEmpty { .. } => "publish; myelin why stream <stream> says what holds publishes back",
            Self::CaughtUp { .. } => "nothing; if messages should come: myelin why stream <stream>",
        }
    }
}

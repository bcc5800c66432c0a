//! Spans of acknowledgements. What a client says of a message that a consumer has delivered has no
//! headers: to which trace it belongs is kept here, by the subject that it is said to.

use super::spans::{Attributes, ConsumerDelivery, MessageSpan, SpanRole};
use crate::conn::Conn;
use crate::traffic::ConnKind;
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageRef;
use myelin_wire::trace_parent::TraceParent;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

/// Most deliveries whose acknowledgements are awaited; the oldest is given up for one more.
const MOST_AWAITED: usize = 8192;

/// Subjects of acknowledgements begin like this.
const ACKNOWLEDGEMENT: &[u8] = b"$JS.ACK.";

/// Deliveries of traced messages that nobody has acknowledged yet.
#[derive(Default)]
pub(super) struct AwaitedAcknowledgements {
    is_any: AtomicBool,
    deliveries: Mutex<Deliveries>,
}

#[derive(Default)]
struct Deliveries {
    by_subject: HashMap<Arc<[u8]>, Delivered>,
    /// The oldest first, with those that were acknowledged since.
    order: VecDeque<Arc<[u8]>>,
}

/// Delivery whose acknowledgement is awaited.
#[derive(Clone, Copy)]
struct Delivered {
    parent: TraceParent,
    at: Instant,
}

/// Word of a client about a traced message, and of which delivery.
pub(super) struct Acknowledgement {
    parent: TraceParent,
    delivery: ConsumerDelivery,
    times: [Instant; 2],
    outcome: &'static str,
}

impl AwaitedAcknowledgements {
    /// A consumer delivers a traced message, at that moment, with this reply.
    pub(super) fn delivered(&self, parent: TraceParent, reply: &[u8], at: Instant) {
        if !reply.starts_with(ACKNOWLEDGEMENT) {
            return;
        }
        let deliveries = &mut *lock(&self.deliveries);
        if deliveries.order.len() >= MOST_AWAITED
            && let Some(oldest) = deliveries.order.pop_front()
        {
            deliveries.by_subject.remove(&oldest);
        }
        let subject: Arc<[u8]> = reply.into();
        deliveries.order.push_back(Arc::clone(&subject));
        deliveries.by_subject.insert(subject, Delivered { parent, at });
        self.is_any.store(true, Relaxed);
    }

    /// Whether there are any.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    /// A message has come for a service. Answers what it is an acknowledgement of, if that is
    /// awaited.
    pub(super) fn heard(&self, msg: &MessageRef<'_>, now: Instant) -> Option<Acknowledgement> {
        if !msg.subject.starts_with(ACKNOWLEDGEMENT) {
            return None;
        }
        let outcome = outcome(msg.payload);
        let deliveries = &mut *lock(&self.deliveries);
        // Work that is in progress is acknowledged later.
        let Delivered { parent, at } = if outcome == "in progress" {
            *deliveries.by_subject.get(msg.subject)?
        } else {
            deliveries.by_subject.remove(msg.subject)?
        };
        if deliveries.by_subject.is_empty() {
            *deliveries = Deliveries::default();
            self.is_any.store(false, Relaxed);
        }
        let delivery = ConsumerDelivery::of(&MessageRef { reply: msg.subject, ..MessageRef::default() });
        Some(Acknowledgement { parent, delivery, times: [at, now.max(at)], outcome })
    }
}

/// Meaning of an acknowledgement's payload.
fn outcome(payload: &[u8]) -> &'static str {
    match payload.split(u8::is_ascii_whitespace).next().unwrap_or_default() {
        b"-NAK" => "nak",
        b"+WPI" => "in progress",
        b"+TERM" => "term",
        b"+NXT" => "next",
        _ => "ack",
    }
}

impl Acknowledgement {
    /// The span of it: from the delivery until the word of the client has come, whoever that is if
    /// it is one of this server.
    pub(super) fn span(
        self,
        from: &Conn,
        span_id: [u8; 8],
        wall: impl Fn(Instant) -> SystemTime,
    ) -> MessageSpan {
        let Self { parent, delivery, times, outcome } = self;
        let mut attributes = Attributes::of("acknowledge");
        attributes.text("messaging.operation.type", "settle");
        attributes.delivery(&delivery);
        if from.kind() == ConnKind::Client && !from.is_own() {
            attributes.client(from.cid(), &super::name_of(from));
        }
        attributes.text("myelin.outcome", outcome);
        MessageSpan {
            parent,
            span_id,
            name: "acknowledge".to_owned(),
            role: SpanRole::Takes,
            times: times.map(wall),
            attributes: attributes.into_list(),
            error: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent() -> TraceParent {
        TraceParent { trace_id: [1; 16], span_id: [2; 8] }
    }

    fn word<'m>(subject: &'m str, payload: &'m str) -> MessageRef<'m> {
        MessageRef { subject: subject.as_bytes(), payload: payload.as_bytes(), ..MessageRef::default() }
    }

    #[test]
    fn the_last_word_ends_a_delivery() {
        let (awaited, now) = (AwaitedAcknowledgements::default(), Instant::now());
        let subject = "$JS.ACK.S.C.1.7.3.0.0";
        awaited.delivered(parent(), b"_INBOX.a", now);
        assert!(!awaited.is_any(), "nobody acknowledges that");
        awaited.delivered(parent(), subject.as_bytes(), now);
        let heard = |payload| awaited.heard(&word(subject, payload), now).map(|one| one.outcome);
        assert!(awaited.heard(&word("$JS.ACK.S.C.1.8.3.0.0", ""), now).is_none(), "of another message");
        assert_eq!(
            [heard("+WPI"), heard("+WPI"), heard("-NAK {\"delay\": 5}"), heard("+ACK")],
            [Some("in progress"), Some("in progress"), Some("nak"), None]
        );
        assert!(!awaited.is_any());
        for (payload, expected) in [("", "ack"), ("+ACK", "ack"), ("+NXT 5", "next"), ("+TERM no", "term")] {
            awaited.delivered(parent(), subject.as_bytes(), now);
            let heard = awaited.heard(&word(subject, payload), now).map(|one| one.outcome);
            assert_eq!(heard, Some(expected), "{payload:?}");
        }
    }

    #[test]
    fn what_nobody_acknowledges_is_given_up_at_last() {
        let (awaited, now) = (AwaitedAcknowledgements::default(), Instant::now());
        let subject = |n: usize| format!("$JS.ACK.S.C.1.{n}.3.0.0");
        (0..=MOST_AWAITED).for_each(|n| awaited.delivered(parent(), subject(n).as_bytes(), now));
        assert_eq!(lock(&awaited.deliveries).by_subject.len(), MOST_AWAITED);
        let is_heard = |n: usize| awaited.heard(&word(&subject(n), ""), now).is_some();
        assert!(!is_heard(0) && is_heard(1) && is_heard(MOST_AWAITED));
        // Those that were acknowledged take room until their turn comes.
        (0..MOST_AWAITED).for_each(|n| awaited.delivered(parent(), subject(n).as_bytes(), now));
        assert!(lock(&awaited.deliveries).order.len() <= MOST_AWAITED);
    }
}

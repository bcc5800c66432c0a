//! Spans of a message that another system traces: what its trace knows, for a collector.
//!
//! Made when the last party has said what became of the message, of the events that the trace has
//! noted; attributes have the names of OpenTelemetry's conventions for messaging where there is
//! one, else they begin with `myelin.`. Nothing of it reaches the message, and nobody waits.

use super::acknowledgements::AwaitedAcknowledgements;
use super::{CLIENT, MessageTrace, Story, TraceEvent, What, Withheld};
use crate::conn::Conn;
use myelin_stdx::entropy::Entropy;
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageRef;
use myelin_wire::trace_parent::TraceParent;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Instant, SystemTime};

/// Most receivers of one message that have a span; how many there are more is an attribute.
const MOST_RECEIVERS: usize = 100;

/// Most bytes of a text: names and subjects are chosen by clients.
const MOST_TEXT: usize = 256;

/// Place that spans go to, and the clock that dates them.
pub trait SpanSink: Send + Sync {
    /// The moment at which it is asked.
    fn now(&self) -> Instant;

    /// Takes the spans of one message, on the thread that serves clients: it must not wait.
    fn take(&self, spans: Vec<MessageSpan>);
}

/// Step on the way of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageSpan {
    /// The trace, and the span that this one is a part of.
    pub parent: TraceParent,
    /// Id of this span.
    pub span_id: [u8; 8],
    /// Name of the span: the step, and the stream if it is one.
    pub name: String,
    /// Role of the server in this step.
    pub role: SpanRole,
    /// Beginning and end, of which the second is not earlier.
    pub times: [SystemTime; 2],
    /// Attributes in the order in which they are shown.
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// Reason why the step did not succeed.
    pub error: Option<String>,
}

/// Role of the server in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanRole {
    /// Taking a message.
    Takes,
    /// Handing a message on.
    Gives,
    /// Work of its own.
    Within,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanValue {
    /// A text of bounded length.
    Text(String),
    /// A number.
    Number(u64),
}

/// Switch for spans, and their sink.
#[derive(Default)]
pub(crate) struct SpanSwitch {
    is_on: AtomicBool,
    /// With the source of ids: not a shard's, whose numbers decide who gets a message.
    sink: OnceLock<(Arc<dyn SpanSink>, Mutex<Rng>)>,
    acknowledgements: AwaitedAcknowledgements,
}

impl SpanSwitch {
    /// Sets where spans go. Only the first call counts.
    pub(crate) fn set_sink(&self, sink: Arc<dyn SpanSink>, entropy: &dyn Entropy) {
        let mut seed = [0; 8];
        entropy.fill(&mut seed);
        let _ = self.sink.set((sink, Mutex::new(Rng::seeded(u64::from_le_bytes(seed)))));
    }

    pub(crate) fn turn(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
    }

    /// Whether spans are made.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Looks what spans of a message with these headers need; `None` if there are to be none.
    pub(crate) fn begin(&self, headers: &[u8]) -> Option<SpanOrigin> {
        let (sink, ids) = self.sink.get().filter(|_| self.is_on())?;
        let parent = TraceParent::sampled(headers)?;
        let seed = lock(ids).next_u64();
        Some(SpanOrigin { parent, sink: Arc::clone(sink), seed, delivery: None })
    }

    /// A consumer delivers a message with these spans: so is what becomes of its acknowledgement.
    pub(crate) fn await_acknowledgement(&self, of: &SpanOrigin, reply: &[u8]) {
        self.acknowledgements.delivered(of.parent, reply, of.now());
    }

    /// Whether there are traced messages which nobody has acknowledged yet.
    #[inline]
    pub(crate) fn awaits_acknowledgements(&self) -> bool {
        self.acknowledgements.is_any()
    }

    /// A message has come for a service, perhaps an acknowledgement that is awaited.
    /// `wall`: time of day at a moment.
    pub(crate) fn hear_acknowledgement(
        &self,
        (from, msg): (&Conn, &MessageRef<'_>),
        wall: impl Fn(Instant) -> SystemTime,
    ) {
        let Some((sink, ids)) = self.sink.get() else { return };
        let Some(heard) = self.acknowledgements.heard(msg, sink.now()) else { return };
        if self.is_on() {
            let span_id = id(&mut lock(ids));
            debug_assert!(span_id != [0; 8], "zeros are no id of a span");
            sink.take(vec![heard.span(from, span_id, wall)]);
        }
    }
}

/// Origin of the spans of one message.
pub(crate) struct SpanOrigin {
    parent: TraceParent,
    sink: Arc<dyn SpanSink>,
    /// Ids follow from it.
    seed: u64,
    /// The consumer that delivers the message, where no client has published it.
    delivery: Option<ConsumerDelivery>,
}

impl SpanOrigin {
    /// Makes it that of a message which a service sends: nothing is told of its coming.
    pub(crate) fn of_service(self, msg: &MessageRef<'_>) -> Self {
        Self { delivery: Some(ConsumerDelivery::of(msg)), ..self }
    }

    /// Whether it is a service's message.
    pub(super) fn is_of_service(&self) -> bool {
        self.delivery.is_some()
    }

    pub(super) fn now(&self) -> Instant {
        self.sink.now()
    }
}

/// Delivery by a consumer, as far as its acknowledgement's subject says.
pub(super) struct ConsumerDelivery {
    subject: String,
    stream: String,
    consumer: String,
    numbers: Option<[u64; 2]>,
}

impl ConsumerDelivery {
    /// The delivery of a message that has the subject of its acknowledgement as its reply.
    pub(super) fn of(msg: &MessageRef<'_>) -> Self {
        let mut delivery = Self {
            subject: bounded(&String::from_utf8_lossy(msg.subject)),
            stream: String::new(),
            consumer: String::new(),
            numbers: None,
        };
        let reply = std::str::from_utf8(msg.reply).unwrap_or_default();
        let tokens: Vec<_> = reply.strip_prefix("$JS.ACK.").unwrap_or_default().split('.').collect();
        // Since 2.12 with domain and account in front.
        let tokens = if tokens.len() > 7 { &tokens[2..] } else { &tokens[..] };
        if let [stream, consumer, times, sequence, _, _, _, ..] = tokens {
            (delivery.stream, delivery.consumer) = (bounded(stream), bounded(consumer));
            delivery.numbers = times.parse().ok().zip(sequence.parse().ok()).map(|(times, at)| [times, at]);
        }
        delivery
    }
}

/// Text of bounded length.
fn bounded(text: &str) -> String {
    let end = (0..=MOST_TEXT.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or_default()].to_owned()
}

/// Attributes that are being gathered; empty texts are left out.
#[derive(Default)]
pub(super) struct Attributes(Vec<(&'static str, SpanValue)>);

impl Attributes {
    /// Attributes of a step in the service of messaging.
    pub(super) fn of(operation: &str) -> Self {
        let mut attributes = Self::default();
        attributes.text("messaging.system", "nats");
        attributes.text("messaging.operation.name", operation);
        attributes
    }

    pub(super) fn text(&mut self, name: &'static str, value: &str) {
        if !value.is_empty() {
            self.0.push((name, SpanValue::Text(bounded(value))));
        }
    }

    fn number(&mut self, name: &'static str, value: u64) {
        self.0.push((name, SpanValue::Number(value)));
    }

    pub(super) fn client(&mut self, cid: u64, name: &str) {
        self.text("messaging.client.id", name);
        self.number("myelin.connection", cid);
    }

    /// Which consumer has delivered which message, how often.
    pub(super) fn delivery(&mut self, delivery: &ConsumerDelivery) {
        self.text("messaging.consumer.group.name", &delivery.consumer);
        self.text("myelin.stream", &delivery.stream);
        if let Some([times, sequence]) = delivery.numbers {
            self.number("myelin.sequence", sequence);
            self.number("myelin.deliveries", times);
        }
    }

    pub(super) fn into_list(self) -> Vec<(&'static str, SpanValue)> {
        self.0
    }
}

/// Spans of one message while they are made.
struct Draft<'a> {
    trace: &'a MessageTrace,
    origin: &'a SpanOrigin,
    /// Id of the span that the others are a part of.
    root: [u8; 8],
    ids: Rng,
    spans: Vec<MessageSpan>,
}

impl Draft<'_> {
    fn add(
        &mut self,
        (name, role): (String, SpanRole),
        [start, end]: [Instant; 2],
        attributes: Attributes,
        error: Option<String>,
    ) {
        let parent = TraceParent { span_id: self.root, ..self.origin.parent };
        let times = [start, end.max(start)].map(|moment| self.trace.server.wall(moment));
        let span_id = id(&mut self.ids);
        let error = error.map(|error| bounded(&error));
        self.spans.push(MessageSpan { parent, span_id, name, role, times, attributes: attributes.0, error });
    }

    /// The span of the message's coming, which those of its receivers are a part of.
    fn came(&mut self, story: &Story, end: Instant) {
        let Some(TraceEvent { what: What::Ingress { kind, cid, name, acc, subj, error }, .. }) =
            story.events.first()
        else {
            return;
        };
        let operation = if *kind == CLIENT { "publish" } else { "receive" };
        let mut attributes = Attributes::of(operation);
        attributes.text("messaging.operation.type", "receive");
        attributes.text("messaging.destination.name", subj);
        attributes.number("messaging.message.envelope.size", story.request.msgsize as u64);
        attributes.text("myelin.account", acc);
        attributes.client(*cid, name);
        let mapped = story.events.iter().find_map(|event| match &event.what {
            What::Mapping { to } => Some(to),
            _ => None,
        });
        mapped.into_iter().for_each(|to| attributes.text("myelin.mapped_to", to));
        if story.left_out > 0 {
            attributes.number("myelin.receivers_left_out", story.left_out);
        }
        self.add((operation.to_owned(), SpanRole::Takes), [self.trace.now, end], attributes, error.clone());
        self.root = self.spans.last().map_or(self.root, |span| span.span_id);
    }

    /// `published`: the subject under which the message came; one that is refused has no other.
    fn stored(&mut self, event: &TraceEvent, published: &str) {
        let What::JetStream { stream, subject, nointerest, error, seq, .. } = &event.what else { return };
        let mut attributes = Attributes::of("store");
        attributes.text("messaging.destination.name", if subject.is_empty() { published } else { subject });
        attributes.text("myelin.stream", stream);
        if let Some(seq) = seq {
            attributes.number("myelin.sequence", *seq);
        }
        if *nointerest {
            attributes.text("myelin.outcome", "no interest");
        }
        let name = format!("store {}", bounded(stream));
        let ends = event.ends();
        self.add((name, SpanRole::Within), ends, attributes, error.clone());
    }

    fn delivered(&mut self, event: &TraceEvent, subject: &str) {
        let What::Egress { kind: CLIENT, cid, name, acc, sub, queue, error, .. } = &event.what else {
            return;
        };
        if *error == Some(Withheld::Echo.text()) {
            return;
        }
        let mut attributes = Attributes::of("deliver");
        attributes.text("messaging.operation.type", "send");
        attributes.text("messaging.destination.name", subject);
        attributes.text("messaging.destination.subscription.name", sub);
        attributes.text("myelin.account", acc.as_deref().unwrap_or_else(|| self.trace.account.name()));
        attributes.client(*cid, name);
        match &self.origin.delivery {
            Some(delivery) if !delivery.stream.is_empty() => attributes.delivery(delivery),
            _ => attributes.text("messaging.consumer.group.name", queue.as_deref().unwrap_or_default()),
        }
        let error = error.map(str::to_owned);
        self.add(("deliver".to_owned(), SpanRole::Gives), event.ends(), attributes, error);
    }
}

/// An id that is not all zeros.
fn id(ids: &mut Rng) -> [u8; 8] {
    ids.next_u64().max(1).to_be_bytes()
}

impl TraceEvent {
    fn ends(&self) -> [Instant; 2] {
        [self.at, self.until.unwrap_or(self.at)]
    }
}

impl MessageTrace {
    /// Whether there is room for one more receiver. Those that are only told to a collector are
    /// bounded.
    pub(super) fn has_room(&self, story: &mut Story) -> bool {
        let has_room = self.is_told() || story.events.len() < MOST_RECEIVERS;
        story.left_out += u64::from(!has_room);
        has_room
    }

    /// Hands the spans over, now that all is known.
    pub(super) fn hand_over_spans(&self, story: &Story) {
        let Some(origin) = &self.spans else { return };
        let (ids, root) = (Rng::seeded(origin.seed), origin.parent.span_id);
        let mut draft = Draft { trace: self, origin, root, ids, spans: Vec::new() };
        draft.came(story, story.published_at.unwrap_or(self.now));
        let subject = match (&origin.delivery, story.events.first()) {
            (Some(delivery), _) => delivery.subject.as_str(),
            (None, Some(TraceEvent { what: What::Ingress { subj, .. }, .. })) => subj,
            _ => "",
        };
        for event in &story.events {
            draft.stored(event, subject);
            draft.delivered(event, subject);
        }
        if !draft.spans.is_empty() {
            origin.sink.take(draft.spans);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumers_delivery_says_which() {
        for (reply, expected) in [
            ("$JS.ACK.S.C.2.40.7.1795963618634825642.0", ("S", "C", Some([2, 40]))),
            ("$JS.ACK.hub.hash.S.C.2.40.7.1795963618634825642.0", ("S", "C", Some([2, 40]))),
            ("$JS.ACK._.hash.S.C.2.40.7.1795963618634825642.0.random", ("S", "C", Some([2, 40]))),
            ("$JS.ACK.S.C.x.40.7.1.0", ("S", "C", None)),
            ("$JS.ACK.S.C", ("", "", None)),
            ("_INBOX.a", ("", "", None)),
            ("", ("", "", None)),
        ] {
            let msg = MessageRef { subject: b"a", reply: reply.as_bytes(), ..MessageRef::default() };
            let found = ConsumerDelivery::of(&msg);
            assert_eq!((&*found.stream, &*found.consumer, found.numbers), expected, "{reply:?}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(bounded("abc"), "abc");
        let long = "ä".repeat(MOST_TEXT);
        assert_eq!(bounded(&long).len(), MOST_TEXT);
        let odd = format!("a{long}");
        assert_eq!(bounded(&odd).len(), MOST_TEXT - 1);
    }
}

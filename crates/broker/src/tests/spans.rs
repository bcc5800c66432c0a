//! Messages that another system traces: delivered as if they were not, and told to a collector.

use super::message_trace::{Stream, play};
use super::net::{Net, Peer, login, user};
use crate::imports::{AccountConfig, Export, Import, StreamExport, StreamImport, TraceDestination};
use crate::message_trace::spans::{MessageSpan, SpanRole, SpanSink, SpanValue};
use crate::service::{Service, ServiceShard};
use crate::service_batch::{ServiceBatch, StoredAs};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SAMPLED: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
/// Of the same length.
const UNSAMPLED: &str = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n";
const PARENT: [u8; 8] = [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31];

/// A collector that keeps everything, a millisecond later each time it is asked for the time.
struct Kept {
    now: Mutex<Instant>,
    spans: Mutex<Vec<MessageSpan>>,
}

impl SpanSink for Kept {
    fn now(&self) -> Instant {
        let mut now = lock(&self.now);
        *now += Duration::from_millis(1);
        *now
    }

    fn take(&self, spans: Vec<MessageSpan>) {
        lock(&self.spans).extend(spans);
    }
}

impl Kept {
    fn of(net: &Net) -> Arc<Self> {
        let kept = Arc::new(Self { now: Mutex::new(net.now()), spans: Mutex::default() });
        net.broker.set_span_sink(Arc::clone(&kept) as Arc<dyn SpanSink>);
        net.broker.make_spans(true);
        kept
    }

    fn taken(&self) -> Vec<MessageSpan> {
        std::mem::take(&mut *lock(&self.spans))
    }

    /// Names of the spans that have come since.
    fn names(&self) -> Vec<String> {
        self.taken().into_iter().map(|span| span.name).collect()
    }
}

/// An attribute as a text; empty where there is none.
fn attribute(span: &MessageSpan, name: &str) -> String {
    let value = span.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
    match value {
        Some(SpanValue::Text(text)) => text.clone(),
        Some(SpanValue::Number(number)) => number.to_string(),
        None => String::new(),
    }
}

impl Peer {
    fn traced(&mut self, subject: &str, headers: &str, payload: &str) {
        let block = format!("NATS/1.0\r\n{headers}\r\n");
        let (header_len, len) = (block.len(), block.len() + payload.len());
        self.send(format!("HPUB {subject} {header_len} {len}\r\n{block}{payload}\r\n"));
    }
}

#[test]
fn a_message_with_spans_is_delivered_like_any_other() {
    let mut made = 0;
    for seed in 0..40 {
        let nets = [Net::new(), Net::new()];
        let kept = Kept::of(&nets[0]);
        let sides = nets.iter().zip([SAMPLED, UNSAMPLED]).map(|(net, headers)| play(net, headers, seed));
        let [traced, plain] = sides.collect::<Vec<_>>().try_into().expect("two of them");
        assert_eq!(traced.replace(SAMPLED, UNSAMPLED), plain, "seed {seed}");
        let spans = kept.taken();
        let ids: BTreeSet<_> = spans.iter().map(|span| span.span_id).collect();
        assert_eq!(ids.len(), spans.len(), "ids are unique, seed {seed}");
        made += spans.len();
    }
    assert!(made > 100, "{made}");
}

#[test]
fn a_publish_and_its_deliveries_are_spans() {
    let net = Net::new();
    let kept = Kept::of(&net);
    let mut a = net.peer_as(0, r#""echo":false,"name":"shop""#);
    let mut b = net.peer_as(1, r#""name":"billing""#);
    a.send("SUB o.> 1\r\n");
    b.send("SUB o.> 1\r\nSUB o.* workers 2\r\n");
    a.traced("o.new", SAMPLED, "hello");
    net.flush_all();
    let spans = kept.taken();
    let [publish, plain, grouped] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((&*publish.name, publish.role, publish.parent.span_id), ("publish", SpanRole::Takes, PARENT));
    for (name, value) in [
        ("messaging.system", "nats"),
        ("messaging.operation.name", "publish"),
        ("messaging.operation.type", "receive"),
        ("messaging.destination.name", "o.new"),
        ("messaging.message.envelope.size", &(SAMPLED.len() + 12 + 5).to_string()),
        ("messaging.client.id", "shop"),
        ("myelin.account", "$G"),
        ("myelin.connection", "1"),
    ] {
        assert_eq!(attribute(publish, name), value, "{name}");
    }
    for span in [plain, grouped] {
        assert_eq!((&*span.name, span.role), ("deliver", SpanRole::Gives));
        assert_eq!((span.parent.span_id, span.parent.trace_id), (publish.span_id, publish.parent.trace_id));
        assert_eq!(attribute(span, "messaging.client.id"), "billing");
        assert!(span.times[0] >= publish.times[0] && span.times[1] <= publish.times[1], "{spans:#?}");
    }
    assert_eq!(attribute(plain, "messaging.destination.subscription.name"), "o.>");
    assert_eq!(attribute(grouped, "messaging.consumer.group.name"), "workers");
    assert!(spans.iter().all(|span| span.error.is_none() && span.times[0] <= span.times[1]));
}

#[test]
fn nothing_is_made_unless_it_is_wanted() {
    let net = Net::new();
    let kept = Kept::of(&net);
    let mut a = net.peer(0);
    for headers in [UNSAMPLED, "A: 1\r\n", "traceparent: 00-a-b-01\r\n"] {
        a.traced("a", headers, "m");
        a.publish("a", "m");
    }
    net.broker.make_spans(false);
    a.traced("a", SAMPLED, "m");
    net.flush_all();
    assert_eq!(kept.taken(), []);
    net.broker.make_spans(true);
    a.traced("a", SAMPLED, "m");
    assert_eq!(kept.names(), ["publish"], "nobody listens");
}

#[test]
fn a_refused_publish_says_why() {
    let net = Net::with(|setup| {
        let rules = super::net::permissions([&["ok"], &[]], [&[], &[]], None);
        setup.users([user("p", "A", rules)]);
    });
    let kept = Kept::of(&net);
    let mut p = net.peer_as(0, &login("p"));
    p.traced("no", SAMPLED, "m");
    let spans = kept.taken();
    let [span] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!(span.error.as_deref(), Some("Permissions Violation for Publish to \"no\""));
}

#[test]
fn a_stream_says_when_it_has_stored() {
    let net = Net::new();
    let kept = Kept::of(&net);
    let mut a = net.peer(0);
    let stream = Arc::new(Stream::default());
    net.broker.account("$G").unwrap().bind(b"s.>", Arc::clone(&stream) as Arc<dyn Service>);
    for _ in 0..2 {
        a.traced("s.a", SAMPLED, "m");
    }
    net.flush_all();
    assert_eq!(kept.taken(), [], "the stream has not said");
    let got = std::mem::take(&mut *stream.0.lock().unwrap());
    let [(headers, stored), (_, refused)] = &got[..] else { panic!("two are traced") };
    assert_eq!(*headers, format!("NATS/1.0\r\n{SAMPLED}\r\n"), "nothing is added");
    let outcome = StoredAs { subject: b"s.b", seq: Some(42), is_unwanted: false };
    assert!(!stored.settled(Ok(outcome)), "there is nothing to be published");
    let spans = kept.taken();
    let [publish, store] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!(
        (&*store.name, store.role, store.parent.span_id),
        ("store S", SpanRole::Within, publish.span_id)
    );
    assert_eq!(
        (&*attribute(store, "myelin.stream"), &*attribute(store, "messaging.destination.name")),
        ("S", "s.b")
    );
    assert_eq!(&*attribute(store, "myelin.sequence"), "42");
    assert!(store.times[1] > publish.times[1], "it was stored later than it was handed over");
    assert!(!refused.settled(Err("maximum messages exceeded".to_owned())));
    let store = &kept.taken()[1];
    assert_eq!(store.error.as_deref(), Some("maximum messages exceeded"));
    assert_eq!(&*attribute(store, "messaging.destination.name"), "s.a", "one that is not stored has its own");
}

#[test]
fn a_consumers_delivery_is_a_span_of_the_publisher() {
    let net = Net::new();
    let kept = Kept::of(&net);
    let mut client = net.peer(1);
    client.send("SUB inbox 7\r\n");
    let headers = format!("NATS/1.0\r\n{SAMPLED}\r\n");
    let reply = b"$JS.ACK.S.C.2.40.7.1795963618634825642.0";
    let message = |headers| MessageRef { subject: b"o.new", to: b"inbox", reply, headers, payload: b"m" };
    let account = net.broker.account("$G").unwrap();
    let mut msgs = MessageBuf::default();
    for headers in [headers.as_bytes(), b"", b"NATS/1.0\r\nA: 1\r\n\r\n"] {
        msgs.push(message(headers));
    }
    net.shards[0].borrow_mut().send(&account, &mut msgs, net.now());
    net.flush_all();
    let received = client.received();
    let [length, size] = [headers.len(), headers.len() + 1];
    let reply = std::str::from_utf8(reply).unwrap();
    assert!(
        received.starts_with(&format!("HMSG o.new 7 {reply} {length} {size}\r\n{headers}m\r\nMSG o.new 7 ")),
        "{received}"
    );
    assert_eq!(received.matches("MSG o.new 7 ").count(), 3);
    let spans = kept.taken();
    let [span] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((&*span.name, span.role, span.parent.span_id), ("deliver", SpanRole::Gives, PARENT));
    for (name, value) in [
        ("messaging.destination.name", "o.new"),
        ("messaging.destination.subscription.name", "inbox"),
        ("messaging.consumer.group.name", "C"),
        ("myelin.stream", "S"),
        ("myelin.sequence", "40"),
        ("myelin.deliveries", "2"),
    ] {
        assert_eq!(attribute(span, name), value, "{name}");
    }
}

/// Stands for a consumer that hears what clients say of its messages.
struct Consumer(Mutex<Vec<String>>);

impl Service for Consumer {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let said = batch.msgs.iter().map(|msg| String::from_utf8_lossy(msg.payload).into_owned());
        lock(&self.0).extend(said);
    }
}

#[test]
fn an_acknowledgement_is_a_span_of_the_publisher() {
    let net = Net::new();
    let kept = Kept::of(&net);
    let account = net.broker.account("$G").unwrap();
    let consumer = Arc::new(Consumer(Mutex::default()));
    let service: Arc<dyn Service> = consumer.clone();
    let _binding = account.bind(b"$JS.ACK.S.C.>", service);
    let mut client = net.peer_as(1, r#""name":"worker""#);
    client.send("SUB inbox 7\r\n");
    let headers = format!("NATS/1.0\r\n{SAMPLED}\r\n");
    let replies = [40, 41].map(|sequence| format!("$JS.ACK.S.C.2.{sequence}.7.1795963618634825642.0"));
    let mut msgs = MessageBuf::default();
    for (reply, headers) in replies.iter().zip([headers.as_bytes(), b""]) {
        let reply = reply.as_bytes();
        msgs.push(MessageRef { subject: b"o.new", to: b"inbox", reply, headers, payload: b"m" });
    }
    net.shards[0].borrow_mut().send(&account, &mut msgs, net.now());
    net.flush_all();
    assert_eq!(kept.names(), ["deliver"], "the other one is not traced");
    client.publish(&replies[1], "+ACK");
    client.publish(&replies[0], "+WPI");
    client.publish(&replies[0], "+ACK");
    client.publish(&replies[0], "+ACK");
    net.flush_all();
    assert_eq!(*lock(&consumer.0), ["+ACK", "+WPI", "+ACK", "+ACK"]);
    let spans = kept.taken();
    let [progress, acknowledged] = &spans[..] else { panic!("{spans:#?}") };
    for (span, outcome) in [(progress, "in progress"), (acknowledged, "ack")] {
        assert_eq!((&*span.name, span.role, span.parent.span_id), ("acknowledge", SpanRole::Takes, PARENT));
        assert!(span.times[0] < span.times[1], "from the delivery on");
        for (name, value) in [
            ("messaging.operation.type", "settle"),
            ("messaging.consumer.group.name", "C"),
            ("myelin.stream", "S"),
            ("myelin.sequence", "40"),
            ("myelin.deliveries", "2"),
            ("messaging.client.id", "worker"),
            ("myelin.connection", "1"),
            ("myelin.outcome", outcome),
        ] {
            assert_eq!(attribute(span, name), value, "{name}");
        }
    }
    assert_ne!(progress.span_id, acknowledged.span_id);
}

#[test]
fn a_border_between_accounts_ends_documents_only() {
    let net = Net::with(|setup| {
        let export = Export::Stream(StreamExport { subject: "o.>".to_owned(), ..StreamExport::default() });
        let import = Import::Stream(StreamImport {
            account: "A".to_owned(),
            subject: "o.>".to_owned(),
            to: "o.>".to_owned(),
            ..StreamImport::default()
        });
        setup.accounts = vec![
            AccountConfig { exports: vec![export], ..AccountConfig::named("A") },
            AccountConfig { imports: vec![import], ..AccountConfig::named("B") },
        ];
        setup.users([user("a", "A", None), user("b", "B", None)]);
    });
    let kept = Kept::of(&net);
    let (mut a, mut b) = (net.peer_as(0, &login("a")), net.peer_as(0, &login("b")));
    b.send("SUB o.new 1\r\n");
    a.traced("o.new", SAMPLED, "m");
    net.flush_all();
    let spans = kept.taken();
    assert_eq!(spans.len(), 2, "{spans:#?}");
    assert_eq!(attribute(&spans[1], "myelin.account"), "B");
    assert!(b.received().ends_with(&format!("{SAMPLED}\r\nm\r\n")));
    // With a document, both know the same.
    a.traced("o.new", &format!("{SAMPLED}Nats-Trace-Dest: t\r\n"), "m");
    net.flush_all();
    assert_eq!(kept.names(), ["publish"]);
}

#[test]
fn an_account_that_samples_has_both() {
    let net = Net::with(|setup| {
        let trace = Some(TraceDestination { subject: "t".to_owned(), sampling: 100 });
        setup.accounts = vec![AccountConfig { trace, ..AccountConfig::named("A") }];
        setup.users([user("a", "A", None)]);
    });
    let kept = Kept::of(&net);
    let (mut a, mut t) = (net.peer_as(0, &login("a")), net.peer_as(0, &login("a")));
    t.send("SUB t 1\r\n");
    a.traced("o", SAMPLED, "m");
    net.flush_all();
    assert!(t.received().contains("\"events\":["), "a document");
    assert_eq!(kept.names(), ["publish"]);
}

#[test]
fn what_one_message_can_make_is_bounded() {
    let net = Net::new();
    let kept = Kept::of(&net);
    let mut peers: Vec<_> = (0..150).map(|_| net.peer(0)).collect();
    peers.iter_mut().for_each(|peer| peer.send("SUB o 1\r\n"));
    let name = "n".repeat(1000);
    let mut a = net.peer_as(0, &format!(r#""name":"{name}""#));
    a.traced("o", SAMPLED, "m");
    net.flush_all();
    assert!(peers.iter().all(|peer| peer.received().ends_with("m\r\n")));
    let spans = kept.taken();
    // The publish and 99 receivers.
    assert_eq!(spans.len(), 100);
    assert_eq!(attribute(&spans[0], "myelin.receivers_left_out"), "51");
    assert_eq!(attribute(&spans[0], "messaging.client.id").len(), 256);
}

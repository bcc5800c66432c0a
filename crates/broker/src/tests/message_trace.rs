//! Messages that are traced: delivered as if they were not, and told of; or told of alone.

use super::net::{Net, Peer, login, permissions, user};
use crate::imports::AccountConfig;
use crate::imports::TraceDestination;
use crate::service::{Service, ServiceShard, TraceRole};
use crate::service_batch::{ServiceBatch, StoredAs, Traced};
use myelin_stdx::rng::Rng;
use myelin_wire::message_buf::MessageRef;
use std::sync::{Arc, Mutex};

const TRACED: &str = "Nats-Trace-Dest: t\r\n";
/// Of the same length, and nothing to the server.
const PLAIN: &str = "Nats-Trace-Tsed: t\r\n";
const ONLY: &str = "Nats-Trace-Dest: t\r\nNats-Trace-Only: 1\r\n";

impl Peer {
    fn hpub(&mut self, subject: &str, headers: &str, payload: &str) {
        let block = format!("NATS/1.0\r\n{headers}\r\n");
        let (header_len, len) = (block.len(), block.len() + payload.len());
        self.send(format!("HPUB {subject} {header_len} {len}\r\n{block}{payload}\r\n"));
    }
}

/// Outcome of a message in which nobody is interested.
fn unwanted(subject: &[u8]) -> StoredAs<'_> {
    StoredAs { subject, seq: None, is_unwanted: true }
}

/// The events of the one trace in what was received: what stands between their times and their end.
fn events(received: &str) -> Vec<String> {
    let (_, events) =
        received.split_once("\"events\":[").unwrap_or_else(|| panic!("no trace in {received:?}"));
    assert!(!events.contains("\"events\":["), "more than one trace in {received:?}");
    let events = events.rsplit_once("]}").expect("the end of the trace").0;
    let events = events.split("{\"type\":").skip(1);
    let events = events.map(|event| {
        let (kind, rest) = event.split_once(",\"ts\":\"").expect("a time");
        let rest = rest.split_once('"').expect("its end").1;
        format!("{}{}", kind.trim_matches('"'), rest.trim_end_matches([',', '}']))
    });
    events.collect()
}

#[test]
fn a_traced_message_is_delivered_like_any_other() {
    for seed in 0..40 {
        let nets = [Net::new(), Net::new()];
        let sides = nets.iter().zip([TRACED, PLAIN]).map(|(net, headers)| play(net, headers, seed));
        let [traced, plain] = sides.collect::<Vec<_>>().try_into().expect("two of them");
        assert_eq!(traced.replace(TRACED, PLAIN), plain, "seed {seed}");
    }
}

/// Subscribes and publishes at random. What everybody has received and how much was counted.
pub(super) fn play(net: &Net, headers: &str, seed: u64) -> String {
    let mut rng = Rng::seeded(seed);
    let mut peers: Vec<_> = (0..6)
        .map(|n| {
            net.peer_as(
                n % 2,
                if n == 1 {
                    r#""echo":false"#
                } else if n == 2 {
                    r#""headers":false"#
                } else {
                    ""
                }
                .trim(),
            )
        })
        .collect();
    for (at, peer) in peers.iter_mut().enumerate() {
        for sid in 1..=3 {
            let subject = ["a", "a.b", "a.*", "*.b", "a.>"][rng.below(5) as usize];
            let queue = ["", "", "q ", "r "][rng.below(4) as usize];
            // Cohorts have one sid.
            let sid = if at < 4 { sid } else { sid + 10 };
            peer.send(format!("SUB {subject} {queue}{sid}\r\n"));
            if rng.below(4) == 0 {
                peer.send(format!("UNSUB {sid} {}\r\n", 1 + rng.below(4)));
            }
        }
    }
    for number in 0..12 {
        let (from, subject) = (rng.below(6) as usize, ["a", "a.b", "b"][rng.below(3) as usize]);
        if from != 2 {
            peers[from].hpub(subject, headers, &format!("{number:02}"));
        }
        if rng.below(3) == 0 {
            net.flush_all();
        }
    }
    net.flush_all();
    let mut told = String::new();
    for peer in &peers {
        told.push_str(&sorted(&peer.received()));
        let delivered = (1..=13).filter_map(|sid: u32| peer.conn().subscription(sid.to_string().as_bytes()));
        delivered.for_each(|sub| told.push_str(&format!(" {}", sub.delivered())));
        told.push('\n');
    }
    told
}

/// The messages of a connection; those of one publish in the order of their heads, since their own
/// is nobody's promise.
fn sorted(received: &str) -> String {
    let starts =
        received.match_indices("MSG ").map(|(at, _)| if received[..at].ends_with('H') { at - 1 } else { at });
    let starts: Vec<_> = starts.chain([received.len()]).collect();
    let mut messages: Vec<_> = starts.windows(2).map(|ends| &received[ends[0]..ends[1]]).collect();
    let number = |message: &str| message[message.len() - 4..message.len() - 2].to_owned();
    assert!(
        messages.is_sorted_by_key(|message| number(message)),
        "in the order of the publishes: {received}"
    );
    messages.sort_by_key(|message| (number(message), message.to_string()));
    messages.concat()
}

#[test]
fn what_is_only_traced_reaches_and_counts_nothing() {
    let net = Net::new();
    let mut peers: Vec<_> = (0..5).map(|n| net.peer(n % 2)).collect();
    for peer in &mut peers {
        peer.send("SUB a 1\r\nSUB a q 2\r\n");
    }
    peers[0].send("SUB a 3\r\nUNSUB 3 1\r\nSUB t 4\r\n");
    for _ in 0..3 {
        peers[1].hpub("a", ONLY, "m");
        net.flush_all();
        let events = events(&peers[0].received());
        assert_eq!(events[0], r#"in,"kind":0,"cid":2,"acc":"$G","subj":"a""#);
        assert_eq!(events.len(), 1 + 5 + 1 + 1, "{events:?}");
        assert!(events[1..].iter().all(|event| event.starts_with("eg,") && !event.contains("error")));
        assert!(peers[1..].iter().all(|peer| peer.received().is_empty()));
    }
    for (peer, sid) in peers.iter().zip([b"1", b"2", b"1", b"2", b"1"]) {
        assert_eq!(peer.conn().subscription(sid).expect("it stays").delivered(), 0);
    }
    peers[1].publish("a", "m");
    net.flush_all();
    assert!(peers[0].received().contains("MSG a 3 1\r\n"), "its one message is still to come");
}

#[test]
fn who_gets_nothing_is_told_why() {
    let net = Net::new();
    let (mut a, mut b) = (net.peer_as(0, r#""echo":false,"name":"me""#), net.peer(1));
    let t = {
        let mut t = net.peer(1);
        t.send("SUB t 1\r\n");
        t
    };
    a.send("SUB x 1\r\nSUB x q 2\r\n");
    a.hpub("x", TRACED, "m");
    net.flush_all();
    let echo = r#""error":"Not delivered because of no echo""#;
    let me = r#"eg,"kind":0,"cid":1,"name":"me","sub":"x""#;
    assert_eq!(events(&t.received())[1..], [format!("{me},{echo}"), format!("{me},\"queue\":\"q\",{echo}")]);
    // The last message came on another shard, which has not told yet.
    b.send("SUB y 1\r\nUNSUB 1 1\r\n");
    a.publish("y", "m");
    a.hpub("y", TRACED, "m");
    net.flush_all();
    assert_eq!(events(&t.received()).len(), 1, "it has ended");
    b.send("SUB y 1\r\n");
    b.conn().close(myelin_wire::error::CloseReason::ClientClosed);
    a.hpub("y", TRACED, "m");
    net.flush_all();
    assert_eq!(
        events(&t.received())[1..],
        [r#"eg,"kind":0,"cid":2,"sub":"y","error":"Not delivered because client is closed""#]
    );
}

/// A stream that settles what it gets when it is told to.
#[derive(Default)]
pub(super) struct Stream(pub(super) Mutex<Vec<(String, Traced)>>);

impl Service for Stream {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let traces = msgs.iter().enumerate().filter_map(|(at, msg)| {
            let headers = String::from_utf8_lossy(msg.headers).into_owned();
            msgs.trace(at).map(|trace| (headers, trace.clone()))
        });
        self.0.lock().unwrap().extend(traces);
    }

    fn trace_role(&self) -> TraceRole<'_> {
        TraceRole::Stream("S")
    }
}

#[test]
fn a_trace_waits_for_the_stream() {
    let net = Net::new();
    let (mut a, t) = (net.peer(0), {
        let mut t = net.peer(1);
        t.send("SUB t 1\r\n");
        t
    });
    let stream = Arc::new(Stream::default());
    net.broker.account("$G").unwrap().bind(b"s.>", Arc::clone(&stream) as Arc<dyn Service>);
    a.publish("s.a", "untraced");
    a.hpub("s.a", TRACED, "m");
    a.hpub("s.a", ONLY, "m");
    net.flush_all();
    assert_eq!(t.received(), "");
    let got = std::mem::take(&mut *stream.0.lock().unwrap());
    let [(headers, stored), (only_headers, only)] = &got[..] else { panic!("two are traced") };
    assert_eq!(headers, "NATS/1.0\r\nNats-Trace-Dest: trace disabled\r\n\r\n");
    assert_eq!(*only_headers, format!("NATS/1.0\r\n{ONLY}\r\n"));
    assert!(!stored.is_only() && only.is_only());
    assert!(stored.settled(Ok(unwanted(b"s.b"))));
    assert!(!stored.settled(Ok(unwanted(b"s.c"))), "once is enough");
    assert!(only.settled(Err("no".to_owned())));
    for (trace, expected) in [
        (stored, r#"js,"stream":"S","subject":"s.b","nointerest":true"#),
        (only, r#"js,"stream":"S","error":"no""#),
    ] {
        net.shards[0].borrow_mut().wake(&trace.trace());
        net.flush_all();
        assert_eq!(events(&t.received())[1..], [expected]);
    }
}

/// As two accounts may have them, one of which gets its messages by an import.
#[test]
fn streams_of_one_name_have_outcomes_of_their_own() {
    let net = Net::new();
    let (mut a, t) = (net.peer(0), {
        let mut t = net.peer(1);
        t.send("SUB t 1\r\n");
        t
    });
    let streams = [Arc::new(Stream::default()), Arc::new(Stream::default())];
    for stream in &streams {
        net.broker.account("$G").unwrap().bind(b"s.>", Arc::clone(stream) as Arc<dyn Service>);
    }
    a.hpub("s.a", TRACED, "m");
    net.flush_all();
    let mut traced = streams.map(|stream| stream.0.lock().unwrap()[0].1.clone());
    traced.sort_by_key(|traced| traced.event);
    // The one that was handed the message last is the first to know.
    assert!(!traced[1].settled(Err("last".to_owned())));
    assert!(traced[0].settled(Err("first".to_owned())));
    net.shards[0].borrow_mut().wake(&traced[0].trace());
    net.flush_all();
    let of = |error: &str| format!("js,\"stream\":\"S\",\"error\":\"{error}\"");
    assert_eq!(events(&t.received())[1..], [of("first"), of("last")]);
}

#[test]
fn traces_stay_with_their_messages() {
    let net = Net::new();
    let mut a = net.peer(0);
    let stream = Arc::new(Stream::default());
    net.broker.account("$G").unwrap().bind(b"s", Arc::clone(&stream) as Arc<dyn Service>);
    a.hpub("s", TRACED, "m");
    net.flush_all();
    let trace = stream.0.lock().unwrap()[0].1.clone();
    let msg = MessageRef { subject: b"s", ..MessageRef::default() };
    let mut batch = ServiceBatch::default();
    batch.push(msg);
    batch.push_traced(msg, None);
    assert!(!batch.is_traced());
    batch.push_traced(msg, Some(&trace));
    batch.push(msg);
    let traced: Vec<_> = (0..5).map(|at| batch.trace(at).is_some()).collect();
    assert_eq!(traced, [false, false, true, false, false]);
    assert!(batch.is_traced() && batch.traces().count() == 1);
}

#[test]
fn a_message_that_is_too_large_may_come_in_any_pieces() {
    let message = format!("HPUB a 32 9000000\r\nNATS/1.0\r\n{TRACED}\r\n");
    for end in 1..message.len() {
        let net = Net::new();
        let (mut a, t) = (net.peer(0), {
            let mut t = net.peer(0);
            t.send("SUB t 1\r\n");
            t
        });
        a.send(&message[..end]);
        a.send(&message[end..]);
        net.flush_all();
        assert!(a.closed.is_some());
        let told = t.received();
        // What has come when its size is known counts.
        let is_known = end < message.find("NATS/1.0").unwrap() || end >= message.rfind("\r\n").unwrap();
        assert!(told.is_empty() || events(&told)[0].contains(r#""error":"maximum payload exceeded""#));
        assert!(!is_known || !told.is_empty(), "{end}");
    }
}

#[test]
fn a_share_of_the_messages_is_traced() {
    let of = |sampling| TraceDestination { subject: "t".to_owned(), sampling };
    let share = |sampling| (0..100).filter(|drawn| of(sampling).samples(*drawn)).count();
    assert_eq!([share(100), share(50), share(1)], [100, 51, 2], "as many as the reference's");
}

/// SN 2026-15 and 2026-20: a trace was a way to publish where its publisher must not. Whatever way
/// it takes, it is told only where a message of the publisher's own could go.
#[test]
fn a_trace_goes_nowhere_where_its_publisher_must_not_publish() {
    let net = Net::with(|setup| {
        let rules = permissions([&["ok.>", "a", "s"], &["ok.no"]], [&[], &[]], None);
        let trace = Some(TraceDestination { subject: "account.only".to_owned(), sampling: 100 });
        setup.accounts = vec![AccountConfig { trace, ..AccountConfig::named("A") }];
        setup.users([user("p", "A", rules), user("w", "A", None)]);
    });
    let mut w = net.peer_as(1, &login("w"));
    w.send("SUB > 1\r\n");
    let too_large = "HPUB a 5 9000000\r\n";
    for destination in
        ["no", "ok.no", "account.only", "_GR_.x", "$GR.x", "$NRG.x", "$SYS.REQ.SERVER.PING", "$JS.API.INFO"]
    {
        for more in ["", "Nats-Trace-Only: 1\r\n", "Accept-Encoding: gzip\r\n"] {
            let mut p = net.peer_as(0, &login("p"));
            p.hpub("a", &format!("Nats-Trace-Dest: {destination}\r\n{more}"), "m");
            net.flush_all();
            let error = format!("Permissions Violation for Publish to \"{destination}\"");
            assert_eq!(p.received(), format!("-ERR '{error}'\r\n"));
            let noted = p.conn().details().refused.expect("a refusal like any other").last;
            let denied_by = (destination == "ok.no").then(|| "ok.no".to_owned());
            assert_eq!((noted.len(), &noted[0].error, &noted[0].denied_by), (1, &error, &denied_by));
            assert_eq!(w.received(), "", "nobody gets the message either");
        }
        // Nor by a message that is refused itself.
        let block = format!("NATS/1.0\r\nNats-Trace-Dest: {destination}\r\n\r\n");
        for message in [
            too_large.replace('5', &block.len().to_string()) + &block,
            format!("HPUB none {0} {0}\r\n{block}\r\n", block.len()),
        ] {
            let mut p = net.peer_as(0, &login("p"));
            p.send(message);
            net.flush_all();
            assert_eq!(w.received(), "", "{destination}");
        }
    }
    // Patterns are no subjects, and the account's own destination is no exception.
    let mut p = net.peer_as(0, &login("p"));
    for destination in ["ok.*", "ok.>", "ok..a", ".ok", "ok."] {
        p.hpub("a", &format!("Nats-Trace-Dest: {destination}\r\nNats-Trace-Only: 1\r\n"), "m");
        net.flush_all();
        assert_eq!((p.received().as_str(), w.received().as_str()), ("", ""), "{destination}");
    }
    p.hpub("a", "traceparent: 00-a-b-01\r\n", "m");
    net.flush_all();
    assert_eq!(p.received(), "-ERR 'Permissions Violation for Publish to \"account.only\"'\r\n");
    assert_eq!(w.received(), "");
    p.hpub("a", "Nats-Trace-Dest: ok.yes\r\n", "m");
    net.flush_all();
    let told = w.received();
    assert!(told.contains("MSG a 1 ") && told.contains("MSG ok.yes 1 "), "{told}");
}

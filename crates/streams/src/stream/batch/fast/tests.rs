//! Publishers of fast batches, answered as the reference answers them.

use super::super::{BatchLimits, BatchReplies};
use super::*;
use myelin_wire::message_buf::MessageBuf;
use proptest::prelude::*;

const EXPECTED_STREAM: ApiError = ApiError {
    code: 400,
    err_code: 10060,
    description: std::borrow::Cow::Borrowed("expected stream does not match"),
};

/// A stream S that stores what it gets, and a publisher.
struct Stream {
    batches: FastBatches,
    in_flight: Arc<InFlight>,
    replies: BatchReplies,
    last: u64,
    now: Timestamp,
}

impl Stream {
    fn new() -> Self {
        let in_flight = Arc::new(InFlight::new(BatchLimits::configured(3, 4, 0, 10)));
        let batches = FastBatches::new(Arc::clone(&in_flight), true);
        Self { batches, in_flight, replies: BatchReplies::new("S", "", false), last: 0, now: 0 }
    }

    /// Sends a message with a ticket like `b.3.ok.1.0`, then maybe ` bad` or ` dup`. What was said,
    /// in short.
    fn send(&mut self, message: &str) -> String {
        let (fields, fate) = message.split_once(' ').unwrap_or((message, ""));
        let reply = format!("inb.p.{fields}.$FI");
        let read = FlowSubject::read(reply.as_bytes()).expect("it ends like a ticket");
        let mut out = MessageBuf::default();
        let mut sink = ReplySink { reply: reply.as_bytes(), replies: &mut self.replies, out: &mut out };
        let level = (fate == "level").then_some(&b"99"[..]);
        if let FastStep::Store(place) = self.batches.take(read, level, self.now, &mut sink) {
            match fate {
                "bad" => self.batches.refused(place, &FastRefusal::Error(EXPECTED_STREAM), &mut sink),
                "dup" => self.batches.refused(place, &FastRefusal::Duplicate(38), &mut sink),
                _ => {
                    self.last += 1;
                    self.batches.stored(place, self.last, &mut sink);
                }
            }
        }
        assert!(out.iter().all(|msg| msg.subject == reply.as_bytes()));
        let said = out.iter().map(|msg| short(std::str::from_utf8(msg.payload).unwrap()));
        said.collect::<Vec<_>>().join(", ")
    }

    fn play(script: &str) {
        let mut stream = Self::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (message, expected) = line.split_once("=>").expect("a message and what is said");
            assert_eq!(stream.send(message.trim()), expected.trim(), "{message}");
        }
        assert_eq!((stream.batches.len(), stream.in_flight.open()), (0, (0, 0)), "all batches ended");
    }
}

/// `ack 3/2`: acknowledged up to 3, next after 2. `gap 2/4`: expected 2, got 4. `done 24/2`: 2
/// messages, the last of them is 24. `err 2 10060`, and a plain error is its number.
fn short(said: &str) -> String {
    let numbers: Vec<_> = said.split(|c: char| !c.is_ascii_digit()).filter(|text| !text.is_empty()).collect();
    let rendered = |text: String| (text == said).then_some(());
    let (head, short) = match said {
        _ if said.starts_with(r#"{"type":"ack""#) => {
            let [seq, messages] = numbers[..] else { panic!("{said}") };
            let exact = rendered(format!(r#"{{"type":"ack","seq":{seq},"msgs":{messages}}}"#));
            (exact, format!("ack {seq}/{messages}"))
        }
        _ if said.starts_with(r#"{"type":"gap""#) => {
            let [last, seq] = numbers[..] else { panic!("{said}") };
            let exact = rendered(format!(r#"{{"type":"gap","last_seq":{last},"seq":{seq}}}"#));
            (exact, format!("gap {last}/{seq}"))
        }
        _ if said.starts_with(r#"{"type":"err""#) => (Some(()), format!("err {} {}", numbers[0], numbers[2])),
        _ if said.starts_with(r#"{"error""#) => (Some(()), numbers[1].to_owned()),
        _ => {
            let again = if said.contains(r#","duplicate": true,"#) { "again" } else { "done" };
            (Some(()), format!("{again} {}/{}", numbers[0], numbers[numbers.len() - 1]))
        }
    };
    assert!(head.is_some(), "{said}");
    short
}

// All scripts were played to the reference, with other sequences of the stream.

#[test]
fn tickets_that_are_wrong_are_refused() {
    Stream::play(
        "b.10.ok.0.0 => 10206
         b.10.ok.2.1 => 10208
         b.10.ok.2.2 => 10208
         b.10.ok.1.4 => 10208
         b.0.fail.1.0 => ack 0/10
         b.0.fail.1.4 => ack 0/10
         b.0.fail.2.3 => done 1/1
         b.99999999.fail.1.0 => ack 0/500
         b.9.fail.2.2 => done 3/2
         b.9.fail.3.1 => 10208
         b.9.fail.1.2 => done 4/1
         b.9.ok.1.2 => done 5/1
         b.3.ok.1.0 level => 10185
         b.3.ok.2.1 => 10208",
    );
    let long = "b".repeat(65);
    assert_eq!(Stream::new().send(&format!("{long}.10.ok.1.0")), "10207");
}

#[test]
fn every_so_many_messages_are_acknowledged() {
    Stream::play(
        "b.3.fail.1.0 => ack 0/3
         b.3.fail.2.1 =>
         b.3.fail.3.1 => ack 3/3
         b.3.fail.4.1 =>
         b.3.fail.5.1 =>
         b.3.fail.6.1 => ack 6/3
         b.3.fail.7.1 =>
         b.3.fail.8.3 => done 7/7",
    );
}

#[test]
fn a_batch_that_minds_no_gaps_goes_on() {
    Stream::play(
        "b.3.ok.1.0 => ack 0/3
         b.3.ok.3.1 => gap 2/3, ack 3/3
         b.3.ok.5.1 => gap 4/5
         b.3.ok.8.4 => gap 6/9, ack 6/3
         b.3.ok.8.4 => ack 6/3
         b.3.ok.9.1 => ack 9/3
         b.3.ok.4.1 => gap 10/4, done 4/9
         b.3.ok.10.1 => 10208
         b.3.ok.1.0 => ack 0/3
         b.3.ok.4.2 => gap 2/4, done 6/4
         b.3.ok.1.0 => ack 0/3
         b.3.ok.4.3 => gap 2/4, done 7/3",
    );
}

#[test]
fn a_batch_that_minds_gaps_ends_at_the_first() {
    Stream::play(
        "b.3.fail.1.0 => ack 0/3
         b.3.fail.2.1 =>
         b.3.fail.4.1 => gap 3/4, done 2/2
         b.3.fail.5.1 => 10208
         b.3.fail.1.0 => ack 0/3
         b.3.fail.2.1 =>
         b.3.fail.3.4 => gap 3/4, done 4/2
         b.3.fail.1.0 => ack 0/3
         b.3.fail.1.0 => gap 2/1, done 5/1
         b.3.fail.1.0 => ack 0/3
         b.3.fail.4.2 => gap 2/4, done 6/1
         b.3.fail.1.0 => ack 0/3
         b.3.fail.4.3 => gap 2/4, done 7/1",
    );
}

#[test]
fn errors_end_a_batch_unless_it_minds_no_gaps() {
    Stream::play(
        "b.3.fail.1.0 bad => ack 0/3, 10060
         b.3.fail.2.1 => 10208
         b.3.fail.1.2 bad => 10060
         b.3.ok.1.2 bad => err 1 10060, done 0/0
         b.3.ok.1.0 bad => ack 0/3, err 1 10060
         b.3.ok.2.1 bad => err 2 10060
         b.3.ok.3.1 => ack 3/3
         b.3.ok.4.1 bad => err 4 10060
         b.3.ok.4.4 => ack 3/3
         b.3.ok.5.3 => done 1/4
         b.3.fail.1.0 => ack 0/3
         b.3.fail.2.1 bad => err 2 10060, done 2/1
         b.3.fail.3.1 => 10208
         b.3.fail.1.0 => ack 0/3
         b.3.fail.2.2 bad => err 2 10060, done 3/1
         b.3.ok.1.0 => ack 0/3
         b.3.ok.2.2 bad => err 2 10060, done 4/1
         b.3.ok.1.0 => ack 0/3
         b.3.fail.2.1 bad => err 2 10060, done 5/1",
    );
}

/// The reference falls silent here for good: the gap is the last that its publisher hears, and the
/// batch stays open.
#[test]
fn a_batch_of_refused_messages_has_an_end() {
    Stream::play(
        "b.3.ok.1.0 bad => ack 0/3, err 1 10060
         b.3.ok.2.1 bad => err 2 10060
         b.3.ok.1.2 => gap 3/1, done 0/2",
    );
}

#[test]
fn duplicates_count_and_are_not_stored() {
    Stream::play(
        "b.2.fail.1.0 => ack 0/2
         b.2.fail.2.1 dup => ack 2/2
         b.2.fail.3.1 dup =>
         b.2.fail.4.1 => ack 4/2
         b.2.fail.5.2 dup => done 2/5
         b.2.fail.1.0 dup => ack 0/2
         b.2.fail.2.1 => ack 2/2
         b.2.fail.3.1 =>
         b.2.fail.4.3 => done 4/3
         b.2.fail.1.2 dup => again 38/1
         b.2.ok.1.2 dup => done 0/1
         b.2.ok.1.0 dup => ack 0/2
         b.2.ok.2.1 dup => ack 2/2
         b.2.ok.3.2 dup => done 0/3
         b.2.fail.1.0 dup => ack 0/2
         b.2.fail.2.1 bad => err 2 10060, done 0/1",
    );
}

#[test]
fn who_joins_others_starts_carefully_and_all_leave_silently() {
    let mut stream = Stream::new();
    let mut said = |message: &str| stream.send(message);
    assert_eq!(said("p.100.ok.1.0"), "ack 0/100");
    assert_eq!(said("q.100.ok.1.0"), "ack 0/1, ack 1/2");
    let acks: Vec<_> = (2..=8).map(|at| said(&format!("q.100.ok.{at}.1"))).collect();
    assert_eq!(acks, ["", "ack 3/4", "", "", "", "ack 7/8", ""]);
    assert_eq!(said("r.2.ok.1.0"), "ack 0/1, ack 1/2");
    assert_eq!([said("t.2.ok.1.0"), said("t.2.ok.1.2")], ["10211", "10211"]);
    let acks: Vec<_> = (2..=5).map(|at| said(&format!("r.2.ok.{at}.1"))).collect();
    assert_eq!(acks, ["", "ack 3/2", "", "ack 5/2"]);
    assert_eq!((stream.batches.next_due(), stream.batches.due(9), stream.batches.due(10)), (Some(10), 0, 3));
    assert_eq!((stream.send("q.100.ok.9.1"), stream.in_flight.open()), ("10208".into(), (0, 0)));
}

#[test]
fn a_batch_lives_as_long_as_messages_come() {
    let mut stream = Stream::new();
    stream.send("b.9.ok.1.0");
    stream.now = 8;
    stream.send("b.9.ok.1.4");
    assert_eq!((stream.batches.due(17), stream.batches.due(18)), (0, 1));
}

#[test]
fn flow_is_halved_towards_a_fair_share() {
    let mut stream = Stream::new();
    assert_eq!(stream.send("a.400.ok.1.0"), "ack 0/400");
    stream.send("b.400.ok.1.0");
    stream.send("c.400.ok.1.0");
    assert_eq!(stream.send("a.400.ok.400.1"), "gap 2/400, ack 400/200");
    assert_eq!(stream.send("a.400.ok.800.1"), "gap 401/800, ack 800/166");
}

/// Compat: observed. Only refusals and the first acknowledgement are left out.
#[test]
fn a_stream_that_acknowledges_nothing_still_steers() {
    let mut stream = Stream::new();
    stream.replies.no_ack = true;
    let mut said = |message: &str| stream.send(message);
    assert_eq!([said("n.2.fail.1.0"), said("n.2.fail.2.1"), said("n.2.fail.3.1")], ["", "ack 2/2", ""]);
    assert_eq!(said("n.2.fail.3.4"), "ack 2/2");
    assert_eq!([said("n.2.fail.5.1"), said("n.2.fail.5.1")], ["gap 4/5, done 3/3", ""]);
    assert_eq!([said("n.2.fail.1.2"), said("n.2.fail.1.0 bad")], ["done 4/1", "10060"]);
    assert_eq!([said("n.2.fail.1.0"), said("n.2.fail.2.1 bad")], ["", "err 2 10060, done 5/1"]);
}

#[test]
fn without_permission_there_are_no_batches() {
    let mut stream = Stream::new();
    stream.send("z.5.fail.1.0");
    stream.batches.enable(false);
    assert_eq!((stream.send("z.5.fail.2.1"), stream.send("z.5.fail.0.1")), ("10205".into(), "10205".into()));
    stream.batches.enable(true);
    assert_eq!(stream.send("z.5.fail.2.1"), "10208");
}

/// Takes the first three messages of a batch, the last of which commits, before any of them is
/// stored.
fn three_at_once(stream: &mut Stream, gap: &str, out: &mut MessageBuf) -> Vec<FastPlace> {
    let mut sink = ReplySink { reply: b"r", replies: &mut stream.replies, out };
    let places = [(1, 0), (2, 1), (3, 2)].map(|(at, operation)| {
        let reply = format!("p.b.5.{gap}.{at}.{operation}.$FI");
        let step = stream.batches.take(FlowSubject::read(reply.as_bytes()).unwrap(), None, 0, &mut sink);
        let FastStep::Store(place) = step else { panic!("{step:?}") };
        place
    });
    places.into()
}

fn said(out: &MessageBuf) -> Vec<String> {
    out.iter().map(|msg| short(std::str::from_utf8(msg.payload).unwrap())).collect()
}

/// As it is when messages are stored in runs, or replicated.
#[test]
fn a_commit_waits_for_what_is_pending() {
    let (mut stream, mut out) = (Stream::new(), MessageBuf::default());
    let places = three_at_once(&mut stream, "fail", &mut out);
    assert_eq!(stream.batches.due(100), 0, "what is being committed does not run out of time");
    let mut sink = ReplySink { reply: b"r", replies: &mut stream.replies, out: &mut out };
    for (place, seq) in places.into_iter().zip(7..) {
        stream.batches.stored(place, seq, &mut sink);
    }
    assert_eq!((said(&out), stream.batches.len()), (vec!["ack 0/5".into(), "done 9/3".into()], 0));
}

#[test]
fn the_first_that_fails_late_speaks_for_those_behind_it() {
    let error = FastRefusal::Error(EXPECTED_STREAM);
    let failing = [
        ("fail", 0, vec!["ack 0/5", "10060"]),
        ("fail", 1, vec!["ack 0/5", "err 2 10060", "done 7/1"]),
        ("ok", 1, vec!["ack 0/5", "err 2 10060", "err 3 10060", "done 7/2"]),
    ];
    for (gap, good, expected) in failing {
        let (mut stream, mut out) = (Stream::new(), MessageBuf::default());
        let places = three_at_once(&mut stream, gap, &mut out);
        let mut sink = ReplySink { reply: b"r", replies: &mut stream.replies, out: &mut out };
        for (at, place) in places.into_iter().enumerate() {
            match at < good {
                true => stream.batches.stored(place, 7, &mut sink),
                false => stream.batches.refused(place, &error, &mut sink),
            }
        }
        assert_eq!(
            (said(&out), stream.batches.len()),
            (expected.into_iter().map(str::to_owned).collect(), 0)
        );
    }
}

proptest! {
    #[test]
    fn whatever_is_sent_the_counts_hold(
        messages in prop::collection::vec("[a-d]\\.[0-9]{1,3}\\.(ok|fail)\\.([1-9]|1844674407370955161[34])\\.[0-4]( bad| dup|)", 0..60)
    ) {
        let mut stream = Stream::new();
        for message in messages {
            stream.send(&message);
            let open = stream.batches.len();
            prop_assert!(open <= 3);
            prop_assert_eq!(stream.in_flight.open(), (0, open));
        }
        stream.batches.due(Timestamp::MAX - 1);
        prop_assert_eq!(stream.in_flight.open(), (0, 0));
    }
}

//! Publishes into streams with interest retention. What is said and what stays was seen at the
//! reference.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use myelin_store::{Seq, Wait};
use myelin_wire::message_buf::MessageRef;

use super::release::{has_begun, on_disk};
use super::{Bench, block, config, error, msg};
use crate::stream::{Interest, StorageBudget, StreamSettings};
use myelin_jsapi::config::{Discard, Republish, Retention, StreamConfig, SubjectTransform};

/// Consumers that need whatever they want until it is said to be settled.
#[derive(Default)]
pub(super) struct Consumers {
    patterns: Mutex<Vec<&'static str>>,
    cleanup: Mutex<BTreeSet<Seq>>,
    /// Messages that another stream has still to copy.
    uncopied: Mutex<BTreeSet<Seq>>,
    /// The next who asks what another stream has still to copy panics.
    panics: AtomicBool,
    /// How many messages were asked about, and how many consumers each question asks.
    asked: AtomicUsize,
    price: AtomicUsize,
}

impl Consumers {
    pub(super) fn want(patterns: &[&'static str]) -> Arc<Self> {
        let consumers = Arc::new(Self::default());
        consumers.change(patterns);
        consumers
    }

    pub(super) fn change(&self, patterns: &[&'static str]) {
        *self.patterns.lock().unwrap() = patterns.to_vec();
    }

    /// Others are in their place, which know of no acknowledgement.
    pub(super) fn replace(&self) {
        self.cleanup.lock().unwrap().clear();
    }

    pub(super) fn copy_soon(&self, seqs: impl IntoIterator<Item = Seq>) {
        *self.uncopied.lock().unwrap() = seqs.into_iter().collect();
    }

    pub(super) fn panic_once(&self) {
        self.panics.store(true, Relaxed);
    }

    /// How many messages were asked about since the last call.
    pub(super) fn take_asked(&self) -> usize {
        self.asked.swap(0, Relaxed)
    }

    /// Each question about a message asks so many consumers.
    pub(super) fn ask_many(&self, price: usize) {
        self.price.store(price, Relaxed);
    }

    pub(super) fn settle(&self, seqs: impl IntoIterator<Item = Seq>) {
        self.cleanup.lock().unwrap().extend(seqs);
    }
}

impl Interest for Consumers {
    fn wants(&self, subject: &[u8]) -> bool {
        let matches = |pattern: &&str| myelin_subject::matches(pattern.as_bytes(), subject);
        self.patterns.lock().unwrap().iter().any(matches)
    }

    fn needs(&self, subject: &[u8], seq: Seq, looks: &mut usize) -> bool {
        self.asked.fetch_add(1, Relaxed);
        *looks += self.price.load(Relaxed);
        self.wants(subject) && !self.cleanup.lock().unwrap().contains(&seq)
    }

    fn is_to_be_copied(&self, _: &[u8], seq: Seq) -> bool {
        assert!(!self.panics.swap(false, Relaxed), "planned");
        self.uncopied.lock().unwrap().contains(&seq)
    }

    fn has_consumers(&self) -> bool {
        !self.patterns.lock().unwrap().is_empty()
    }
}

pub(super) fn interested(interest: &Arc<Consumers>) -> StreamSettings {
    StreamSettings { interest: Arc::clone(interest) as Arc<dyn Interest>, ..StreamSettings::default() }
}

/// A stream whose only consumer wants `a`.
fn bench(config: StreamConfig) -> Bench {
    let config = StreamConfig { retention: Retention::Interest, ..config };
    Bench::with(config, interested(&Consumers::want(&["a"])))
}

fn everything() -> StreamConfig {
    StreamConfig {
        allow_atomic: true,
        allow_batched: true,
        allow_msg_ttl: true,
        allow_rollup_hdrs: true,
        ..config()
    }
}

impl Bench {
    /// The sequences that hold a message.
    pub(super) fn stored(&self) -> Vec<Seq> {
        let (reader, mut buffer) = (self.core.reader(), Vec::new());
        let mut is_there = |seq: &Seq| reader.get(*seq, Wait::Allowed, &mut buffer).unwrap().is_some();
        (1..=self.last()).filter(|seq| is_there(seq)).collect()
    }

    fn batch(&mut self, id: &str, members: &[(&str, &[&str])]) -> String {
        for (at, (subject, more)) in members.iter().enumerate() {
            let mut lines = vec![format!("Nats-Batch-Id: {id}"), format!("Nats-Batch-Sequence: {}", at + 1)];
            lines.extend(more.iter().map(|line| (*line).to_owned()));
            let is_last = at + 1 == members.len();
            lines.extend(is_last.then(|| "Nats-Batch-Commit: 1".to_owned()));
            let headers = block(&lines.iter().map(String::as_str).collect::<Vec<_>>());
            let said = self.msgs(&[MessageRef { headers: headers.as_bytes(), ..msg(subject, "r") }]);
            if is_last || said[0] != "r" {
                return said[0].strip_prefix("r ").expect("replies go to the reply subject").to_owned();
            }
        }
        unreachable!("the last message is answered");
    }
}

fn ack(seq: Seq) -> String {
    format!(r#"{{"stream":"S","seq":{seq}}}"#)
}

fn wrong_last(last: Seq) -> String {
    error(400, 10071, &format!("wrong last sequence: {last}"))
}

#[test]
fn what_somebody_wants_is_stored_and_the_rest_gets_sequences() {
    let rule = Republish { source: ">".into(), destination: "again.>".into(), headers_only: true };
    let mut bench = bench(StreamConfig { republish: Some(rule), ..config() });
    let said = bench.msgs(&["b", "a", "b", "b", "a", "b"].map(|subject| msg(subject, "r")));
    let acks: Vec<_> = said.iter().filter(|line| line.starts_with("r ")).cloned().collect();
    assert_eq!(acks, (1..=6).map(|seq| format!("r {}", ack(seq))).collect::<Vec<_>>());
    assert_eq!(bench.stored(), [2, 5]);
    let totals = bench.core.state().totals;
    assert_eq!((totals.messages, totals.first_seq, totals.last_seq), (2, 2, 6));
    let again: Vec<_> = said.iter().filter(|line| line.starts_with("again.")).collect();
    assert_eq!(again.len(), 2);
    assert!(again[0].starts_with("again.a ") && again[0].contains("Nats-Sequence: 2\r\n"), "{}", again[0]);
    assert!(again[1].contains("Nats-Sequence: 5\r\n") && again[1].contains("Nats-Last-Sequence: 2\r\n"));
    assert_eq!((said[0].as_str(), &said[1]), (r#"r {"stream":"S","seq":1}"#, again[0]), "in order");
}

#[test]
fn what_is_not_stored_is_no_last_message_of_its_subject() {
    let mut bench = bench(everything());
    bench.msgs(&["a", "b", "a", "b"].map(|subject| msg(subject, "")));
    let of_subject = |seq: u64| format!("Nats-Expected-Last-Subject-Sequence: {seq}");
    assert_eq!(bench.publish("b", &[&of_subject(4)], "x"), wrong_last(0));
    assert_eq!(bench.publish("b", &[&of_subject(0)], "x"), ack(5));
    assert_eq!(bench.publish("a", &[&of_subject(0)], "x"), wrong_last(3));
    assert_eq!(bench.publish("a", &[&of_subject(3)], "x"), ack(6));
    assert_eq!(bench.publish("b", &["Nats-Expected-Last-Sequence: 6"], "x"), ack(7));
    assert_eq!(bench.publish("b", &["Nats-Expected-Last-Sequence: 7"], "x"), ack(8));
    assert_eq!(bench.stored(), [1, 3, 6]);
}

#[test]
fn ids_of_what_is_not_stored_are_known() {
    let mut bench = bench(everything());
    assert_eq!(bench.publish("b", &["Nats-Msg-Id: one"], "x"), ack(1));
    assert_eq!(bench.publish("b", &["Nats-Msg-Id: one"], "x"), r#"{"stream":"S","seq":1,"duplicate": true}"#);
    assert_eq!(bench.publish("b", &["Nats-Expected-Last-Msg-Id: one"], "x"), ack(2));
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: two"], "x"), ack(3));
    assert_eq!(bench.publish("b", &[], "x"), ack(4));
    let wrong = error(400, 10070, "wrong last msg ID: ");
    assert_eq!(bench.publish("b", &["Nats-Expected-Last-Msg-Id: two"], "x"), wrong);
}

#[test]
fn nobody_reads_the_time_to_live_of_what_is_not_stored() {
    let mut bench = bench(everything());
    assert_eq!(bench.publish("b", &["Nats-TTL: x"], "x"), ack(1));
    assert_eq!(bench.publish("a", &["Nats-TTL: x"], "x"), error(400, 10165, "invalid per-message TTL"));
    assert_eq!(bench.publish("a", &["Nats-TTL: 1h"], "x"), ack(2));
}

#[test]
fn a_rollup_that_is_not_stored_removes_nevertheless() {
    let mut bench = bench(everything());
    bench.msgs(&["a", "a", "b"].map(|subject| msg(subject, "")));
    assert_eq!(bench.publish("b", &["Nats-Rollup: sub"], "x"), ack(4));
    assert_eq!(bench.stored(), [1, 2]);
    assert_eq!(bench.publish("a", &["Nats-Rollup: sub"], "x"), ack(5));
    assert_eq!(bench.stored(), [5]);
    assert_eq!(bench.publish("b", &["Nats-Rollup: all"], "x"), ack(6));
    let totals = bench.core.state().totals;
    assert_eq!((totals.messages, totals.first_seq, totals.last_seq), (0, 7, 6));
}

#[test]
fn a_full_stream_refuses_only_what_it_would_store() {
    let new = StreamConfig { discard: Discard::New, ..everything() };
    let mut limited = bench(StreamConfig { max_msgs: 2, ..new.clone() });
    let said = limited.msgs(&["a", "b", "a", "a", "b"].map(|subject| msg(subject, "r")));
    let full = error(503, 10077, "maximum messages exceeded");
    let expected = [ack(1), ack(2), ack(3), full.clone(), ack(4)].map(|line| format!("r {line}"));
    assert_eq!((said, limited.stored()), (expected.to_vec(), vec![1, 3]));
    // Compat: in a batch it counts what it would not store.
    assert_eq!(limited.batch("one", &[("b", &[])]), full);
    let said = limited.msgs(&[msg("b", "_I.u.1.fail.1.2.$FI")]);
    assert!(said.len() == 1 && said[0].ends_with(&full), "{said:?}");
    let mut bytes = bench(StreamConfig { max_bytes: 60, ..new });
    bytes.publish("a", &[], "x");
    assert_eq!(bytes.publish("b", &[], &"y".repeat(100)), ack(2));
    assert_eq!(bytes.publish("a", &[], &"y".repeat(100)), error(503, 10077, "maximum bytes exceeded"));
}

#[test]
fn an_atomic_batch_is_stored_in_part() {
    let mut bench = bench(everything());
    let done = |last: Seq, id: &str, count: u64| {
        format!(r#"{{"stream":"S","seq":{last},"batch":"{id}","count":{count}}}"#)
    };
    assert_eq!(bench.batch("one", &[("a", &[]), ("b", &[]), ("a", &[]), ("b", &[])]), done(4, "one", 4));
    assert_eq!(bench.batch("two", &[("b", &[]), ("b", &[])]), done(6, "two", 2));
    assert_eq!(bench.stored(), [1, 3]);
    let expects = ["Nats-Expected-Last-Subject-Sequence: 0"];
    let refused = error(400, 10164, "wrong last sequence");
    assert_eq!(bench.batch("three", &[("b", &[]), ("b", &expects)]), refused);
    // Compat: here the time to live is read.
    let refused = error(400, 10165, "invalid per-message TTL");
    assert_eq!(bench.batch("four", &[("a", &[]), ("b", &["Nats-TTL: x"])]), refused);
    assert_eq!(bench.batch("five", &[("a", &[]), ("b", &["Nats-Msg-Id: k"])]), done(8, "five", 2));
    assert_eq!(bench.publish("b", &["Nats-Msg-Id: k"], "x"), r#"{"stream":"S","seq":8,"duplicate": true}"#);
    assert_eq!(bench.batch("six", &[("b", &["Nats-Rollup: all"]), ("b", &[])]), done(10, "six", 2));
    assert_eq!(bench.core.state().totals.messages, 0);
}

#[test]
fn a_fast_batch_counts_what_is_not_stored() {
    let mut bench = bench(everything());
    let replies = [(1, 0), (2, 1), (3, 1), (4, 2)].map(|(place, op)| format!("_I.u.2.fail.{place}.{op}.$FI"));
    let refs: Vec<_> =
        ["a", "b", "a", "b"].iter().zip(&replies).map(|(subject, reply)| msg(subject, reply)).collect();
    let said = bench.msgs(&refs);
    let expected = [
        r#"_I.u.2.fail.1.0.$FI {"type":"ack","seq":0,"msgs":2}"#,
        r#"_I.u.2.fail.2.1.$FI {"type":"ack","seq":2,"msgs":2}"#,
        r#"_I.u.2.fail.4.2.$FI {"stream":"S","seq":4,"batch":"u","count":4}"#,
    ];
    assert_eq!((said, bench.stored()), (expected.map(str::to_owned).to_vec(), vec![1, 3]));
}

#[test]
fn what_is_not_stored_takes_nothing_of_the_account() {
    let account = Arc::new(StorageBudget::new(30));
    let settings = StreamSettings { account: Arc::clone(&account), ..interested(&Consumers::want(&["a"])) };
    let config = StreamConfig { retention: Retention::Interest, ..everything() };
    let mut bench = Bench::with(config, settings);
    let refused = error(400, 10002, "resource limits exceeded for account");
    let large = "y".repeat(100);
    assert_eq!(bench.publish("a", &[], &large), refused);
    assert_eq!(bench.publish("b", &[], &large), ack(1));
    assert_eq!(bench.publish("a", &[], "x"), ack(2));
    // Compat: in a batch it counts.
    let headers = block(&["Nats-Batch-Id: one", "Nats-Batch-Sequence: 1"]);
    let member = MessageRef { headers: headers.as_bytes(), payload: large.as_bytes(), ..msg("b", "r") };
    assert_eq!(bench.msgs(&[member]), [format!("r {refused}")]);
    let fast = MessageRef { payload: large.as_bytes(), ..msg("b", "_I.u.1.ok.1.0.$FI") };
    assert_eq!(bench.msgs(&[fast]), [format!("_I.u.1.ok.1.0.$FI {refused}")]);
}

#[test]
fn the_subject_under_which_it_would_be_stored_counts() {
    let rule = SubjectTransform { source: "x".into(), destination: "a".into() };
    let mut bench = bench(StreamConfig { subject_transform: Some(rule), ..config() });
    bench.msgs(&["x", "a", "y"].map(|subject| msg(subject, "")));
    assert_eq!(bench.stored(), [1, 2]);
}

#[test]
fn on_a_full_disk_what_came_before_is_answered_as_it_is() {
    let settings = interested(&Consumers::want(&["a"]));
    let config = StreamConfig { retention: Retention::Interest, ..config() };
    let (mut bench, store, disk) = on_disk(config, settings);
    has_begun(&mut bench, &store);
    disk.set_capacity(Some(disk.used()));
    let payload = vec![b'x'; 4 << 20];
    let large = MessageRef { payload: &payload, ..msg("a", "r") };
    let said = bench.msgs(&[msg("b", "r"), large, msg("b", "r")]);
    let refused = error(503, 10023, "insufficient resources");
    assert_eq!(said, [ack(2), refused.clone(), refused].map(|line| format!("r {line}")));
    disk.set_capacity(None);
    assert_eq!(bench.publish("a", &[], "x"), ack(3));
    assert_eq!(bench.stored(), [3]);
}

#[test]
fn an_atomic_batch_of_which_a_part_is_wanted_is_stored_as_a_whole_or_not_at_all() {
    let settings = interested(&Consumers::want(&["a"]));
    let config = StreamConfig { retention: Retention::Interest, ..everything() };
    let (mut bench, store, disk) = on_disk(config, settings);
    has_begun(&mut bench, &store);
    let (large, small) = (vec![b'x'; 4 << 20], b"x".to_vec());
    let members = |bench: &mut Bench, id: &str, last: &[u8]| {
        let subjects = ["a", "b", "a", "b"];
        let mut said = Vec::new();
        for (at, subject) in subjects.iter().enumerate() {
            let mut lines = vec![format!("Nats-Batch-Id: {id}"), format!("Nats-Batch-Sequence: {}", at + 1)];
            lines.extend((at == 3).then(|| "Nats-Batch-Commit: 1".to_owned()));
            let headers = block(&lines.iter().map(String::as_str).collect::<Vec<_>>());
            let payload = if at == 2 { last } else { b"x" };
            said = bench.msgs(&[MessageRef { headers: headers.as_bytes(), payload, ..msg(subject, "r") }]);
        }
        said
    };
    let before = bench.last();
    disk.set_capacity(Some(disk.used()));
    assert_eq!(
        members(&mut bench, "one", &large),
        [format!("r {}", error(503, 10023, "insufficient resources"))]
    );
    assert_eq!((bench.last(), bench.stored()), (before, Vec::new()));
    disk.set_capacity(None);
    let last = before + 4;
    let ack = format!(r#"r {{"stream":"S","seq":{last},"batch":"two","count":4}}"#);
    assert_eq!(members(&mut bench, "two", &small), [ack]);
    assert_eq!((bench.last(), bench.stored()), (last, vec![before + 1, before + 3]));
}

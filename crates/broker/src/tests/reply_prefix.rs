//! Answers to consumers: one route serves many of them, and nobody gets what is not for it.

use super::net::{Net, Peer, login, permissions, user};
use crate::account::Account;
use crate::service::{Binding, Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use myelin_subject::matches;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// Notes the subjects of what it gets.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Service for Recorder {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let subjects = msgs.iter().map(|msg| String::from_utf8_lossy(msg.subject).into_owned());
        self.0.lock().unwrap().extend(subjects);
    }
}

impl Recorder {
    fn at(account: &Account, subject: &str) -> (Arc<Self>, Arc<Binding>) {
        let recorder = Arc::new(Self::default());
        let binding = account.bind(subject.as_bytes(), Arc::clone(&recorder) as Arc<dyn Service>);
        (recorder, binding)
    }

    /// Subjects of the messages that it got since the last call.
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Subjects of the messages that a client got since the last call.
fn received(peer: &Peer) -> Vec<String> {
    let received = peer.received();
    let lines = received.lines().filter_map(|line| line.strip_prefix("MSG "));
    lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn acks(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|n| format!("$JS.ACK.S.C.1.{n}.{n}.1700000000000000000.{n}")).collect()
}

fn publish(net: &Net, peer: &mut Peer, subjects: &[String]) {
    subjects.iter().for_each(|subject| peer.publish(subject, "x"));
    net.flush_all();
}

#[test]
fn distinct_acknowledgements_share_a_route() {
    let net = Net::new();
    let account = net.broker.account("$G").unwrap();
    let (recorder, _binding) = Recorder::at(&account, "$JS.ACK.S.>");
    let (_other, _other_binding) = Recorder::at(&account, "$JS.ACK.*.*.S.>");
    let mut peer = net.peer(0);
    publish(&net, &mut peer, &acks(0..100));
    assert_eq!(recorder.taken(), acks(0..100));
    let counts = net.broker.route_counts();
    assert_eq!((counts.misses, counts.cached), (2, 1), "the second one is kept");
}

#[test]
fn a_client_gets_the_acknowledgements_that_it_asks_for() {
    let net = Net::new();
    let account = net.broker.account("$G").unwrap();
    let (recorder, binding) = Recorder::at(&account, "$JS.ACK.S.>");
    let (mut peer, mut listener) = (net.peer(0), net.peer(1));
    publish(&net, &mut peer, &acks(0..5));
    for (pattern, expected) in [
        ("$JS.ACK.S.C.1.7.>", acks(7..8)),
        ("$JS.ACK.>", acks(5..10)),
        ("$JS.ACK.S.C.1.>", acks(5..10)),
        ("*.*.*.*.*.7.*.*.*", acks(7..8)),
        ("$JS.ACK.S.C.1.7.7.1700000000000000000.7", acks(7..8)),
        (">", acks(5..10)),
        ("$JS.ACK.S.D.>", vec![]),
    ] {
        listener.send(format!("SUB {pattern} 1\r\n"));
        publish(&net, &mut peer, &acks(5..10));
        assert_eq!(received(&listener), expected, "{pattern}");
        listener.send("UNSUB 1\r\n");
        publish(&net, &mut peer, &acks(5..10));
        assert_eq!(received(&listener), [""; 0], "{pattern}");
    }
    assert!(account.suffix_inspectors.is_empty());
    assert_eq!(recorder.taken().len(), 5 + 7 * 10);
    account.unbind(&binding);
    publish(&net, &mut peer, &acks(0..5));
    assert!(recorder.taken().is_empty());
}

#[test]
fn what_ends_behind_a_beginning_is_something_else() {
    let net = Net::new();
    let account = net.broker.account("$G").unwrap();
    let (recorder, _binding) = Recorder::at(&account, "$JS.ACK.S.>");
    let (exact, _exact_binding) = Recorder::at(&account, "$JS.ACK.S.C.1");
    let mut peer = net.peer(0);
    for _ in 0..3 {
        let subjects =
            ["$JS.ACK.S.C.1.2", "$JS.ACK.S.C.1", "$JS.ACK.S.C.1.", "$JS.ACK.S.C.1.2.", "$JS.ACK.S.C.1..2"];
        publish(&net, &mut peer, &subjects.map(str::to_owned));
        assert_eq!(recorder.taken(), subjects[..2]);
        assert_eq!(exact.taken(), subjects[1..2]);
    }
}

#[test]
fn permissions_look_at_each_subject() {
    let denied = permissions([&[], &["$JS.ACK.S.C.1.3.>"]], [&[], &[]], None);
    let deaf = permissions([&[], &[]], [&[], &["$JS.ACK.S.C.1.3.>"]], None);
    let net = Net::with(|setup| {
        setup.users([user("a", "A", denied), user("deaf", "A", deaf), user("free", "A", None)]);
    });
    let account = net.broker.account("A").unwrap();
    let (recorder, _binding) = Recorder::at(&account, "$JS.ACK.S.>");
    let mut peer = net.peer_as(0, &login("a"));
    let allowed = [acks(0..3), acks(4..6)].concat();
    for _ in 0..2 {
        publish(&net, &mut peer, &acks(0..6));
        assert_eq!(recorder.taken(), allowed);
        assert_eq!(peer.received().matches("-ERR 'Permissions Violation for Publish").count(), 1);
    }
    let (mut free, mut listener) = (net.peer_as(0, &login("free")), net.peer_as(0, &login("deaf")));
    listener.send("SUB $JS.ACK.> 1\r\n");
    // The first one, whose route might be kept, is denied to it.
    publish(&net, &mut free, &[acks(3..4), acks(3..4), acks(0..6)].concat());
    assert_eq!(received(&listener), allowed);
}

#[derive(Debug, Clone)]
enum Step {
    Subscribe(String, bool),
    Unsubscribe(usize),
    Bind(String),
    Unbind(usize),
    Publish(String),
}

fn subject(token: &'static str) -> impl Strategy<Value = String> {
    ("(\\$JS|\\$JS|\\$JS|x)", "(ACK|ACK|FC|x)", proptest::collection::vec(token, 0..6))
        .prop_map(|(first, second, rest)| [vec![first, second], rest].concat().join("."))
}

fn pattern() -> impl Strategy<Value = String> {
    ("(\\$JS|\\$JS|\\*)", "(ACK|FC|\\*)", proptest::collection::vec("(a|b|\\*)", 0..6), "(\\.>)?")
        .prop_map(|(first, second, rest, end)| [vec![first, second], rest].concat().join(".") + &end)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (pattern(), any::<bool>()).prop_map(|(pattern, queue)| Step::Subscribe(pattern, queue)),
        1 => any::<usize>().prop_map(Step::Unsubscribe),
        1 => pattern().prop_map(Step::Bind),
        1 => any::<usize>().prop_map(Step::Unbind),
        12 => subject("(a|a|a|b)").prop_map(Step::Publish),
        1 => subject("(a|b|)").prop_map(Step::Publish),
    ]
}

/// Plays steps, and compares after each of them who got something with who should.
fn play(steps: Vec<Step>) {
    let net = Net::new();
    let account = net.broker.account("$G").unwrap();
    let (mut publisher, mut listener) = (net.peer(0), net.peer(0));
    let (mut subs, mut recorders) = (Vec::<(usize, String)>::new(), Vec::new());
    let mut sids = 0..;
    for step in steps {
        match step {
            Step::Subscribe(pattern, is_queue) => {
                let sid = sids.next().unwrap();
                // A queue of its own, so that each gets everything.
                let queue = if is_queue { format!("q{sid} ") } else { String::new() };
                listener.send(format!("SUB {pattern} {queue}{sid}\r\n"));
                subs.push((sid, pattern));
            }
            Step::Unsubscribe(at) if !subs.is_empty() => {
                let (sid, _) = subs.swap_remove(at % subs.len());
                listener.send(format!("UNSUB {sid}\r\n"));
            }
            Step::Bind(pattern) => recorders.push((Recorder::at(&account, &pattern), pattern)),
            Step::Unbind(at) if !recorders.is_empty() => {
                let ((recorder, binding), _) = recorders.swap_remove(at % recorders.len());
                account.unbind(&binding);
                assert!(recorder.taken().is_empty());
            }
            Step::Unsubscribe(_) | Step::Unbind(_) => {}
            Step::Publish(subject) => {
                publish(&net, &mut publisher, std::slice::from_ref(&subject));
                let is_for = |pattern: &str| matches(pattern.as_bytes(), subject.as_bytes());
                let count = subs.iter().filter(|(_, pattern)| is_for(pattern)).count();
                assert_eq!(received(&listener), vec![subject.clone(); count], "to subscriptions");
                for ((recorder, _), pattern) in &recorders {
                    let expected = vec![subject.clone(); usize::from(is_for(pattern))];
                    assert_eq!(recorder.taken(), expected, "to the service at {pattern}");
                }
            }
        }
    }
    for (_, binding) in recorders.into_iter().map(|(recorder, _)| recorder) {
        account.unbind(&binding);
    }
    listener.leave();
    assert!(account.suffix_inspectors.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn everybody_gets_what_is_for_it(steps in proptest::collection::vec(step(), 1..200)) {
        play(steps);
    }
}

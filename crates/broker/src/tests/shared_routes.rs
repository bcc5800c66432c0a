//! Routes that replies share: one serves all that go to an inbox, and everybody gets what it would
//! get if each subject had a route of its own.

use super::leafs::{denied, interest};
use super::links::routed;
use super::net::{Net, Peer, login, permissions, user};
use super::sink::FakeSink;
use crate::account::Account;
use crate::imports::{AccountConfig, Export, Import, StreamExport, StreamImport};
use crate::link::Link;
use crate::link::leaf_end::{LeafDenials, LeafDialler, LeafRole};
use crate::service::{Binding, Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use myelin_wire::peer::parser::{self, Parsed, PeerInterest, PeerLimits, PeerOp};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

/// Sends one message for each subject and ends the tick.
fn publish(net: &Net, peer: &mut Peer, subjects: &[String]) {
    subjects.iter().for_each(|subject| peer.publish(subject, "x"));
    net.flush_all();
}

/// Replies to requests with these numbers.
fn replies(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|n| format!("_INBOX.abc.{n}")).collect()
}

/// Frames that a client gets for these.
fn frames(subjects: &[String], sid: &str) -> String {
    subjects.iter().map(|subject| format!("MSG {subject} {sid} 1\r\nx\r\n")).collect()
}

/// Routes that were built so far on all shards.
fn built(net: &Net) -> u64 {
    net.broker.route_counts().misses
}

#[test]
fn distinct_replies_share_a_route_and_show_their_subjects() {
    let net = Net::new();
    let (mut requester, mut responder) = (net.peer(0), net.peer(1));
    requester.send("SUB _INBOX.abc.* 1\r\n");
    publish(&net, &mut responder, &replies(8..1012));
    assert_eq!(requester.received(), frames(&replies(8..1012), "1"));
    let counts = net.broker.route_counts();
    assert_eq!((counts.misses, counts.cached), (2, 1), "the second one is kept");
    // A queue group, and headers.
    requester.send("UNSUB 1\r\nSUB _INBOX.> q 22\r\n");
    responder.send(
        "HPUB _INBOX.abc.a 12 13\r\nNATS/1.0\r\n\r\nx\r\nHPUB _INBOX.abc.ab 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
    );
    net.flush_all();
    let frame = |end: &str| format!("HMSG _INBOX.abc.{end} 22 12 13\r\nNATS/1.0\r\n\r\nx\r\n");
    assert_eq!(requester.received(), frame("a") + &frame("ab"));
    assert_eq!(built(&net), 3, "what has changed is found once");
}

#[test]
fn who_looks_behind_one_inbox_does_no_harm_to_others() {
    let net = Net::new();
    let (mut requester, mut responder) = (net.peer(0), net.peer(0));
    requester.send("SUB _INBOX.abc.* 1\r\nSUB _INBOX.other.5 2\r\nSUB _INBOX.5 3\r\nSUB orders.*.5 4\r\n");
    publish(&net, &mut responder, &replies(0..100));
    assert_eq!(built(&net), 2);
    requester.send("SUB _INBOX.*.150 5\r\n");
    publish(&net, &mut responder, &replies(100..200));
    assert_eq!(built(&net), 102, "each has a route of its own");
    let got = requester.received();
    assert_eq!(got.matches(" 1 1\r\n").count(), 200);
    assert_eq!(got.matches("MSG _INBOX.abc.150 5 1\r\n").count(), 1);
    requester.send("UNSUB 5\r\n");
    publish(&net, &mut responder, &replies(200..300));
    assert!(built(&net) <= 104, "and one again");
    requester.leave();
    assert!(net.broker.account("$G").unwrap().suffix_inspectors.is_empty());
}

/// Replies that another server wants share no route: they are cached by their subjects, as others.
#[test]
fn what_cannot_be_shared_is_cached_by_its_subject() {
    let net = Net::new();
    let (mut link, sink) = routed(&net);
    hear(&net, &mut link, "RS+ $G _INBOX.abc.*\r\n");
    let mut responder = net.peer(0);
    (0..20).for_each(|_| publish(&net, &mut responder, &replies(0..2)));
    let text = String::from_utf8(sink.take()).unwrap();
    assert_eq!(text.matches("RMSG $G _INBOX.abc.1 1\r\n").count(), 20);
    assert!(built(&net) <= 6, "{}", built(&net));
}

/// Lets the other side of a link say this.
fn hear(net: &Net, link: &mut Link, said: &str) {
    let limits = PeerLimits {
        max_line: 4096,
        max_payload: 4096,
        is_dedicated: false,
        names_origin: false,
        is_leaf: false,
    };
    let Ok(Parsed::Op(op, _)) = parser::next(said.as_bytes(), &limits) else { panic!("{said}") };
    match op {
        PeerOp::Interest(wish) => link.subscribe(&wish).expect("it may"),
        PeerOp::NoInterest(wish) => link.unsubscribe(&wish),
        PeerOp::Message(message) => {
            link.publish(&mut net.shards[0].borrow_mut(), &message, None, net.now());
        }
        other => panic!("{other:?}"),
    }
    net.flush_all();
}

/// Publisher of a message.
#[derive(Debug, Clone, Copy)]
enum By {
    /// One of the clients.
    Client(usize),
    /// A service.
    Service,
    /// A client of another server.
    Route,
}

#[derive(Debug, Clone)]
enum Step {
    Subscribe {
        client: usize,
        pattern: String,
        queue: Option<&'static str>,
    },
    Unsubscribe(usize),
    /// The subscription ends after so many messages more or less.
    Limit(usize, u8),
    Bind(String),
    Unbind(usize),
    /// Another server of the cluster, or a leaf node, wants something.
    Want {
        leaf: bool,
        pattern: String,
    },
    /// The last that it wanted is not wanted any more.
    Unwant {
        leaf: bool,
    },
    Publish {
        by: By,
        subject: String,
    },
}

/// Subjects, of which most are inboxes.
fn subject() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => ("(a|a|a|b)", "(x|y|zz|zzzz)")
            .prop_map(|(client, request)| format!("_INBOX.{client}.{request}")),
        3 => "(x|y)".prop_map(|request| format!("_INBOX.a.b.{request}")),
        2 => "(x|y)".prop_map(|request| format!("_INBOX_u.a.{request}")),
        1 => "_INBOX(_u|)\\.(a|a\\.|\\.x|a\\.\\*|a\\.\\.x)".prop_map(|odd| odd),
    ]
}

fn pattern() -> impl Strategy<Value = String> {
    let token = "(a|a|b|x|y|zz|\\*|\\*)";
    let any = ("(_INBOX|_INBOX|_INBOX_u|\\*)", proptest::collection::vec(token, 0..4), "(\\.>)?")
        .prop_map(|(first, rest, end)| [vec![first], rest].concat().join(".") + &end);
    let common =
        "(_INBOX\\.a\\.\\*|_INBOX\\.a\\.b|_INBOX\\.a\\.x|_INBOX\\.>|>|\\*\\.a\\.>|_INBOX\\.a\\.b\\.\\*)";
    prop_oneof![any, common]
}

fn step() -> impl Strategy<Value = Step> {
    let by = prop_oneof![
        4 => (0..CLIENTS.len()).prop_map(By::Client),
        2 => Just(By::Service),
        1 => Just(By::Route),
    ];
    let queue = prop_oneof![2 => Just(None), 1 => Just(Some("g")), 1 => Just(Some("h"))];
    prop_oneof![
        4 => (0..CLIENTS.len(), pattern(), queue)
            .prop_map(|(client, pattern, queue)| Step::Subscribe { client, pattern, queue }),
        3 => any::<usize>().prop_map(Step::Unsubscribe),
        1 => (any::<usize>(), 1..9_u8).prop_map(|(at, max)| Step::Limit(at, max)),
        1 => pattern().prop_map(Step::Bind),
        1 => any::<usize>().prop_map(Step::Unbind),
        1 => (any::<bool>(), pattern()).prop_map(|(leaf, pattern)| Step::Want { leaf, pattern }),
        2 => any::<bool>().prop_map(|leaf| Step::Unwant { leaf }),
        30 => (by, subject()).prop_map(|(by, subject)| Step::Publish { by, subject }),
    ]
}

/// Users: one that may do anything, one with denials, and one of an account that imports inboxes.
const CLIENTS: [&str; 3] = ["free", "bound", "guest"];

/// Notes the subjects of what it gets.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Service for Recorder {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let subjects = msgs.iter().map(|msg| String::from_utf8_lossy(msg.subject).into_owned());
        self.0.lock().unwrap().extend(subjects);
    }
}

/// A server, its clients and its links.
struct World {
    net: Net,
    account: Arc<Account>,
    clients: Vec<Peer>,
    route: (Link, FakeSink),
    leaf: (Link, FakeSink),
    /// Patterns that the other server wants, and the leaf node.
    wanted: [Vec<String>; 2],
    /// Client, sid, and whether it is one of a queue group.
    subs: Vec<(usize, String, bool)>,
    services: Vec<(Arc<Recorder>, Arc<Binding>)>,
    sids: usize,
}

impl World {
    fn new(shares: bool) -> Self {
        let net = Net::with(|setup| {
            let export = Export::Stream(StreamExport { subject: "_INBOX.a.>".into(), ..Default::default() });
            let [account, subject] = ["A", "_INBOX.a.>"].map(str::to_owned);
            let to = "in.a.>".to_owned();
            let import = Import::Stream(StreamImport { account, subject, to, ..Default::default() });
            setup.accounts = vec![
                AccountConfig { exports: vec![export], ..AccountConfig::named("A") },
                AccountConfig { imports: vec![import], ..AccountConfig::named("B") },
            ];
            let denials = permissions([&[], &["_INBOX.a.y"]], [&[], &["_INBOX.a.x"]], None);
            let users = [(CLIENTS[0], "A", None), (CLIENTS[1], "A", denials), (CLIENTS[2], "B", None)];
            setup.users(users.map(|(name, account, permissions)| user(name, account, permissions)));
        });
        let clients = CLIENTS.map(|name| net.peer_as(0, &login(name))).into();
        let account = net.broker.account("A").unwrap();
        if !shares {
            // Looks behind all inboxes of this test, and gets nothing: no route is shared.
            let patterns = ["*.*.none", "*.*.*.none"].map(str::as_bytes);
            for account in [&account, &net.broker.account("B").unwrap()] {
                patterns.iter().for_each(|pattern| account.suffix_inspectors.comes(pattern));
            }
        }
        let kept = LeafDenials { kept: vec!["_INBOX.a.zz".into()], ..LeafDenials::default() };
        Self {
            account,
            clients,
            route: routed(&net),
            leaf: denied(&net, "A", (LeafRole::Hub, LeafDialler::There), "EDGE", kept),
            wanted: Default::default(),
            subs: Vec::new(),
            services: Vec::new(),
            sids: 0,
            net,
        }
    }

    /// Plays a step. Answers who got what, in an order that means nothing: of a queue group it is
    /// not said which member did.
    fn play(&mut self, step: &Step) -> Vec<String> {
        match step {
            Step::Subscribe { client, pattern, queue } => {
                self.sids += 1;
                let sid = format!("{}{}", queue.unwrap_or("p"), self.sids);
                let queue = queue.map(|queue| format!("{queue} ")).unwrap_or_default();
                self.clients[*client].send(format!("SUB {pattern} {queue}{sid}\r\n"));
                self.subs.push((*client, sid, !queue.is_empty()));
            }
            Step::Unsubscribe(at) if !self.subs.is_empty() => {
                let (client, sid, _) = self.subs.swap_remove(at % self.subs.len());
                self.clients[client].send(format!("UNSUB {sid}\r\n"));
            }
            Step::Limit(at, max) if !self.subs.is_empty() => {
                let (client, sid, is_member) = &self.subs[at % self.subs.len()];
                // Which member would have had its last is drawn.
                if !is_member {
                    self.clients[*client].send(format!("UNSUB {sid} {max}\r\n"));
                }
            }
            Step::Bind(pattern) => {
                let recorder = Arc::new(Recorder::default());
                let service = Arc::clone(&recorder) as Arc<dyn Service>;
                self.services.push((recorder, self.account.bind(pattern.as_bytes(), service)));
            }
            Step::Unbind(at) if !self.services.is_empty() => {
                let (_, binding) = self.services.swap_remove(at % self.services.len());
                self.account.unbind(&binding);
            }
            Step::Want { leaf, pattern } => self.want(*leaf, pattern),
            Step::Unwant { leaf } => self.unwant(*leaf),
            Step::Publish { by, subject } => self.publish(*by, subject),
            Step::Unsubscribe(_) | Step::Limit(..) | Step::Unbind(_) => {}
        }
        self.net.flush_all();
        self.got()
    }

    fn want(&mut self, is_leaf: bool, pattern: &str) {
        let wanted = &mut self.wanted[usize::from(is_leaf)];
        if wanted.iter().any(|known| known == pattern) {
            return;
        }
        wanted.push(pattern.to_owned());
        match is_leaf {
            true => self.leaf.0.subscribe_leaf(&interest(pattern.as_bytes())).expect("it may"),
            false => hear(&self.net, &mut self.route.0, &format!("RS+ A {pattern}\r\n")),
        }
    }

    fn unwant(&mut self, is_leaf: bool) {
        let Some(pattern) = self.wanted[usize::from(is_leaf)].pop() else { return };
        match is_leaf {
            true => self.leaf.0.unsubscribe_leaf(&PeerInterest { ..interest(pattern.as_bytes()) }),
            false => hear(&self.net, &mut self.route.0, &format!("RS- A {pattern}\r\n")),
        }
    }

    fn publish(&mut self, by: By, subject: &str) {
        match by {
            By::Client(client) => self.clients[client].publish(subject, "x"),
            By::Route => hear(&self.net, &mut self.route.0, &format!("RMSG A {subject} 1\r\nx\r\n")),
            By::Service => {
                let mut out = MessageBuf::default();
                let subject = subject.as_bytes();
                out.push(MessageRef { subject, payload: b"x", ..MessageRef::default() });
                self.net.shards[0].borrow_mut().send(&self.account, &mut out, self.net.now());
            }
        }
    }

    fn got(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for (client, peer) in CLIENTS.iter().zip(&self.clients) {
            for line in peer.received().lines().filter(|line| *line != "x") {
                match line.split(' ').collect::<Vec<_>>()[..] {
                    ["MSG", subject, sid, _] if !sid.starts_with('p') => {
                        // A member in the account that imports sees another subject.
                        let subject = subject.replacen("in.a.", "_INBOX.a.", 1);
                        all.push(format!("group {} gets {subject}", &sid[..1]));
                    }
                    _ => all.push(format!("{client} gets {line}")),
                }
            }
        }
        for (name, sink) in [("route", &self.route.1), ("leaf", &self.leaf.1)] {
            let text = String::from_utf8(sink.take()).unwrap();
            let messages = text.lines().filter(|line| line.starts_with("RMSG") || line.starts_with("LMSG"));
            all.extend(messages.map(|line| format!("{name} gets {line}")));
        }
        for (at, (recorder, _)) in self.services.iter().enumerate() {
            let subjects = std::mem::take(&mut *recorder.0.lock().unwrap());
            all.extend(subjects.iter().map(|subject| format!("service {at} gets {subject}")));
        }
        all.sort_unstable();
        all
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn shared_routes_lead_where_those_of_each_subject_do(steps in proptest::collection::vec(step(), 1..150)) {
        let (mut shared, mut apart) = (World::new(true), World::new(false));
        for step in &steps {
            prop_assert_eq!(shared.play(step), apart.play(step), "{:?}", step);
        }
    }
}

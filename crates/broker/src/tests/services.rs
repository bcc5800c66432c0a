//! Services: what they get, and what they send.

use super::net::{Net, Peer};
use crate::account::Account;
use crate::service::{Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Sends back what it gets, and notes each call.
struct Echo {
    account: Arc<Account>,
    now: Instant,
    calls: Mutex<Vec<Vec<String>>>,
}

fn text(msg: MessageRef<'_>) -> String {
    let parts = [msg.subject, msg.reply, msg.headers, msg.payload];
    parts.map(|part| String::from_utf8_lossy(part).into_owned()).join("|")
}

impl Service for Echo {
    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        self.calls.lock().unwrap().push(msgs.iter().map(text).collect());
        let mut out = MessageBuf::default();
        for MessageRef { reply, headers, payload, .. } in msgs.iter().filter(|msg| !msg.reply.is_empty()) {
            out.push(MessageRef { subject: reply, headers, payload, ..MessageRef::default() });
        }
        shard.send(&self.account, &mut out, self.now);
    }

    fn wants_origin(&self) -> bool {
        true
    }
}

fn with_echo(net: &Net, subject: &str) -> Arc<Echo> {
    let account = net.broker.account("$G").unwrap();
    let echo = Arc::new(Echo { account, now: net.now(), calls: Mutex::default() });
    echo.account.bind(subject.as_bytes(), Arc::clone(&echo) as Arc<dyn Service>);
    echo
}

fn client(net: &Net) -> Peer {
    let mut peer = net.peer_as(0, r#""headers":true,"no_responders":true"#);
    peer.send("SUB in.* 9\r\n");
    peer
}

#[test]
fn a_service_gets_what_one_tick_published_at_once_and_its_answers_leave_with_it() {
    let net = Net::new();
    let echo = with_echo(&net, "orders.>");
    let mut peer = client(&net);
    peer.send(
        "PUB orders.1 in.a 2\r\nhi\r\nHPUB orders.2 in.b 12 14\r\nNATS/1.0\r\n\r\nyo\r\nPUB other 0\r\n\r\n",
    );
    peer.send("PUB orders.3 0\r\n\r\nPING\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "PONG\r\nMSG in.a 9 2\r\nhi\r\nHMSG in.b 9 12 14\r\nNATS/1.0\r\n\r\nyo\r\n");
    let expected = ["orders.1|in.a||hi", "orders.2|in.b|NATS/1.0\r\n\r\n|yo", "orders.3|||"];
    assert_eq!(*echo.calls.lock().unwrap(), [expected]);
}

#[test]
fn a_service_that_is_gone_is_let_go_of_within_two_quiet_seconds() {
    let net = Net::new();
    let account = net.broker.account("$G").unwrap();
    let gone: Arc<dyn Service> = Arc::new(Laggard::default());
    let binding = account.bind(b"orders.*", Arc::clone(&gone));
    let mut peer = client(&net);
    // The second time its route is kept.
    for _ in 0..3 {
        (0..50).for_each(|at| peer.send(format!("PUB orders.{at} 0\r\n\r\n")));
        net.flush(0);
    }
    account.unbind(&binding);
    let weak = Arc::downgrade(&gone);
    drop((gone, binding));
    assert!(weak.strong_count() > 0, "routes lead to it");
    (0..2).for_each(|_| net.quiet_second(0));
    assert_eq!(weak.strong_count(), 0, "a removed stream would keep its file open");
}

/// Takes what comes, and is behind when it is told so.
#[derive(Default)]
struct Laggard {
    is_behind: AtomicBool,
    taken: AtomicUsize,
}

impl Service for Laggard {
    fn is_behind(&self) -> bool {
        self.is_behind.load(Relaxed)
    }

    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        self.taken.fetch_add(msgs.len(), Relaxed);
    }
}

#[test]
fn who_publishes_to_a_service_that_is_behind_pauses_after_each_message() {
    let net = Net::new();
    let laggard = Arc::<Laggard>::default();
    let account = net.broker.account("$G").unwrap();
    account.bind(b"slow", Arc::clone(&laggard) as Arc<dyn Service>);
    let (mut peer, mut other) = (client(&net), client(&net));
    let three = "PUB slow 0\r\n\r\n".repeat(3);
    peer.send(&three);
    net.flush(0);
    assert_eq!((peer.stalls, laggard.taken.load(Relaxed)), (0, 3));
    laggard.is_behind.store(true, Relaxed);
    peer.send(&three);
    assert_eq!((peer.stalls, laggard.taken.load(Relaxed)), (3, 6), "nothing is lost");
    assert_eq!(net.broker.counters().stalls.load(Relaxed), 3);
    other.send("PUB other 0\r\n\r\nPING\r\n");
    assert_eq!(other.stalls, 0, "who publishes elsewhere is not held up");
    laggard.is_behind.store(false, Relaxed);
    peer.send(&three);
    assert_eq!(peer.stalls, 3);
}

#[test]
fn what_services_send_to_one_that_is_behind_holds_nobody_up() {
    let net = Net::new();
    let laggard = Arc::<Laggard>::default();
    laggard.is_behind.store(true, Relaxed);
    let echo = with_echo(&net, "a");
    echo.account.bind(b"slow", Arc::clone(&laggard) as Arc<dyn Service>);
    let mut peer = client(&net);
    peer.send("PUB a slow 0\r\n\r\n");
    net.flush(0);
    net.flush(0);
    assert_eq!(laggard.taken.load(Relaxed), 1);
    peer.send("PUB other 0\r\n\r\n");
    assert_eq!(peer.stalls, 0);
}

#[test]
fn a_service_is_a_responder_until_it_is_unbound() {
    let net = Net::new();
    let echo = with_echo(&net, "a");
    let account = &echo.account;
    let second = account.bind(b"b", Arc::clone(&echo) as Arc<dyn Service>);
    let mut peer = client(&net);
    for _ in 0..3 {
        peer.send("PUB b in.x 0\r\n\r\n");
    }
    net.flush(0);
    assert!(!peer.received().contains("503"));
    account.unbind(&second);
    peer.send("PUB b in.x 0\r\n\r\nPUB a in.y 0\r\n\r\n");
    net.flush(0);
    let received = peer.received();
    assert!(received.contains("503") && received.ends_with("MSG in.y 9 0\r\n\r\n"), "{received}");
}

#[test]
fn subscribers_get_what_a_service_gets() {
    let net = Net::new();
    let echo = with_echo(&net, "a");
    let mut peer = client(&net);
    peer.send("SUB a 1\r\nPUB a in.x 1\r\n1\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "MSG a 1 in.x 1\r\n1\r\nMSG in.x 9 1\r\n1\r\n");
    assert_eq!(echo.calls.lock().unwrap().len(), 1);
}

#[test]
fn a_wake_up_is_a_call_without_messages() {
    let net = Net::new();
    let echo = with_echo(&net, "a");
    let service: Arc<dyn Service> = Arc::clone(&echo) as Arc<dyn Service>;
    net.shards[0].borrow_mut().wake(&service);
    assert!(net.shards[0].borrow().is_dirty());
    net.flush(0);
    assert_eq!(*echo.calls.lock().unwrap(), [Vec::<String>::new()]);
    assert!(!net.shards[0].borrow().is_dirty());
}

#[test]
fn services_that_publish_to_each_other_for_ever_leave_the_shard_alone() {
    struct Loop(Arc<Account>, Instant, AtomicUsize);
    impl Service for Loop {
        fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
            self.2.fetch_add(msgs.len(), Relaxed);
            shard.send(&self.0, &mut msgs.msgs, self.1);
        }
    }
    let net = Net::new();
    let account = net.broker.account("$G").unwrap();
    let service = Arc::new(Loop(Arc::clone(&account), net.now(), AtomicUsize::new(0)));
    account.bind(b"a", Arc::clone(&service) as Arc<dyn Service>);
    let mut peer = net.peer(0);
    peer.send("PUB a 0\r\n\r\n");
    net.flush(0);
    let first = service.2.load(Relaxed);
    assert!(net.shards[0].borrow().is_dirty(), "the rest waits for the next flush");
    net.flush(0);
    assert!(service.2.load(Relaxed) > first);
}

#[test]
fn who_asks_is_told_when_what_it_sent_is_in_the_outboxes() {
    struct Twice(Arc<Account>, Instant, Mutex<Vec<usize>>, std::sync::Weak<Twice>, Arc<crate::conn::Conn>);
    impl Twice {
        fn say(&self, shard: &mut ServiceShard) {
            let mut out = MessageBuf::default();
            out.push(MessageRef { subject: b"in.x", payload: b"hi", ..MessageRef::default() });
            shard.send(&self.0, &mut out, self.1);
            shard.after_flush(self.3.upgrade().unwrap());
        }
    }
    impl Service for Twice {
        fn serve(&self, _: &mut ServiceBatch, shard: &mut ServiceShard) {
            self.say(shard);
        }
        fn flushed(&self, shard: &mut ServiceShard) {
            let mut seen = self.2.lock().unwrap();
            seen.push(self.4.pending());
            if seen.len() < 2 {
                self.say(shard);
            }
        }
    }
    let net = Net::new();
    let mut peer = client(&net);
    let (account, conn) = (net.broker.account("$G").unwrap(), Arc::clone(peer.conn()));
    let service = Arc::new_cyclic(|me| {
        Twice(Arc::clone(&account), net.now(), Mutex::default(), std::sync::Weak::clone(me), conn)
    });
    account.bind(b"a", Arc::clone(&service) as Arc<dyn Service>);
    peer.send("PUB a 0\r\n\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "MSG in.x 9 2\r\nhi\r\n");
    assert!(net.shards[0].borrow().is_dirty(), "what it said then leaves with the next flush");
    net.flush(0);
    assert_eq!(peer.received(), "MSG in.x 9 2\r\nhi\r\n");
    assert!(service.2.lock().unwrap().iter().all(|pending| *pending > 0), "in the outbox, not yet written");
}

//! Watches: whoever wants to know hears of every change of interest, however it came about.

use super::net::{Net, Peer, login, permissions, user};
use crate::account::Account;
use crate::service::{Service, ServiceShard, Watcher};
use crate::service_batch::ServiceBatch;
use crate::watch::Watch;
use myelin_auth::{AuthConfig, Method, Users};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, Weak};

/// Looks, whenever it is told, and notes whether there is interest and whether it was told on a
/// shard.
struct Observer {
    account: Arc<Account>,
    subject: &'static str,
    seen: Mutex<Vec<(bool, bool)>>,
}

impl Watcher for Observer {
    fn interest_changed(&self, shard: Option<&mut ServiceShard>) {
        let interest = self.account.has_interest(self.subject.as_bytes());
        self.seen.lock().unwrap().push((interest, shard.is_some()));
    }
}

impl Observer {
    /// Observations since the last call: whether there was interest, and whether it was told on a
    /// shard.
    fn seen(&self) -> Vec<(bool, bool)> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn weak<W: Watcher + 'static>(watcher: &Arc<W>) -> Weak<dyn Watcher> {
    Arc::downgrade(&(Arc::clone(watcher) as Arc<dyn Watcher>))
}

fn observe(net: &Net, account: &str, subject: &'static str) -> (Arc<Observer>, Watch) {
    let account = net.broker.account(account).unwrap();
    let observer = Arc::new(Observer { account, subject, seen: Mutex::default() });
    let watch = observer.account.watch(subject.as_bytes(), weak(&observer));
    (observer, watch)
}

const BEGUN: [(bool, bool); 1] = [(true, true)];
const ENDED: [(bool, bool); 1] = [(false, true)];

#[test]
fn subscriptions_are_told_when_they_come_and_when_they_go() {
    let net = Net::new();
    let (observer, _watch) = observe(&net, "$G", "in.a");
    let mut peer = net.peer(0);
    for sub in
        ["SUB in.a 1\r\n", "SUB in.a group 1\r\n", "SUB in.* 1\r\n", "SUB > group 1\r\n", "SUB *.a 1\r\n"]
    {
        peer.send(sub);
        assert_eq!(observer.seen(), BEGUN, "{sub}");
        peer.send("UNSUB 1\r\n");
        assert_eq!(observer.seen(), ENDED, "{sub}");
    }
    peer.send(
        "SUB in.b 1\r\nSUB in 2\r\nSUB in.a.* 3\r\nSUB *.b 4\r\nSUB in.a.> 5\r\nUNSUB 1\r\nUNSUB 5\r\n",
    );
    assert!(observer.seen().is_empty(), "none of them receives in.a");
}

#[test]
fn the_last_message_of_a_subscription_is_told() {
    for is_traced in [false, true] {
        let net = Net::with(|setup| {
            if is_traced {
                setup.log = Arc::new(Loud);
            }
        });
        let (observer, _watch) = observe(&net, "$G", "in.a");
        let (mut peer, mut publisher) = (net.peer(0), net.peer(1));
        peer.send("SUB in.a 1\r\nUNSUB 1 2\r\n");
        assert_eq!(observer.seen(), BEGUN);
        publisher.publish("in.a", "1");
        assert!(observer.seen().is_empty());
        publisher.publish("in.a", "2");
        // While it traces, the shard is busy.
        assert_eq!(observer.seen(), [(false, !is_traced)]);
        // The limit was reached before it was set.
        peer.send("SUB in.a 1\r\n");
        publisher.publish("in.a", "1");
        net.flush(1);
        peer.send("UNSUB 1 1\r\n");
        assert_eq!(observer.seen(), [BEGUN, ENDED].concat());
    }
}

/// Wants every line and writes none.
struct Loud;

impl crate::log::Log for Loud {
    fn enabled(&self, _: crate::log::Level) -> bool {
        true
    }

    fn write(&self, _: crate::log::Level, _: std::fmt::Arguments<'_>) {}
}

#[test]
fn the_end_of_a_connection_is_told() {
    let net = Net::new();
    let (observer, _watch) = observe(&net, "$G", "in.a");
    let mut peer = net.peer(0);
    peer.send("SUB in.a 1\r\nSUB other 2\r\n");
    assert_eq!(observer.seen(), BEGUN);
    peer.leave();
    assert_eq!(observer.seen(), ENDED);
    // One with so many subscriptions that they are removed elsewhere.
    let mut peer = net.peer(1);
    peer.send((0..5000).map(|sid| format!("SUB other.{sid} {sid}\r\n")).collect::<String>());
    peer.send("SUB in.* a\r\n");
    assert_eq!(observer.seen(), BEGUN);
    let removal = peer.end_slowly().expect("it takes long");
    assert!(observer.seen().is_empty());
    std::thread::scope(|scope| scope.spawn(|| removal.run()).join()).unwrap();
    assert_eq!(observer.seen(), [(false, false)]);
}

#[test]
fn services_are_told() {
    struct Nothing;
    impl Service for Nothing {
        fn serve(&self, _: &mut ServiceBatch, _: &mut ServiceShard) {}
    }
    let net = Net::new();
    let (observer, _watch) = observe(&net, "$G", "in.a");
    let binding = observer.account.bind(b"in.>", Arc::new(Nothing));
    observer.account.unbind(&binding);
    assert_eq!(observer.seen(), [(true, false), (false, false)]);
}

#[test]
fn a_client_that_becomes_somebody_else_is_told_in_the_account_that_it_leaves() {
    let users = || [user("a", "A", None), user("b", "B", None)];
    let net = Net::with(|setup| setup.users(users()));
    let (left, _watch) = observe(&net, "A", "x");
    let (other, _other_watch) = observe(&net, "B", "x");
    let mut peer = net.peer_as(0, &login("a"));
    peer.send("SUB x 1\r\n");
    assert_eq!((left.seen(), other.seen()), (BEGUN.to_vec(), vec![]));
    peer.connect(&login("b"));
    assert_eq!((left.seen(), other.seen()), (ENDED.to_vec(), vec![]));
}

#[test]
fn a_subscription_that_new_permissions_forbid_is_told() {
    let allowed = |subjects| permissions([&[], &[]], [subjects, &[]], None);
    let net = Net::with(|setup| setup.users([user("a", "A", allowed(&["x", "y"]))]));
    let (observer, _watch) = observe(&net, "A", "x");
    let mut peer = net.peer_as(0, &login("a"));
    peer.send("SUB x 1\r\nSUB y 2\r\n");
    assert_eq!(observer.seen(), BEGUN);
    let auth = AuthConfig::new(Method::Users(Users::new([user("a", "A", allowed(&["y"]))])));
    let accounts = [crate::AccountConfig::named("A")];
    net.broker.set_auth_and_accounts(net.broker.stage_auth_and_accounts(auth, &accounts).unwrap());
    peer.refresh();
    assert_eq!(observer.seen(), ENDED);
    let refused = peer.conn().details().refused.expect("whoever asks why is told, too");
    assert_eq!((refused.count, &refused.last[0].denied_by), (1, &None));
    assert_eq!(refused.last[0].error, "Permissions Violation for Subscription to \"x\" (sid \"1\")");
}

#[test]
fn nobody_is_told_when_the_watch_has_ended() {
    let net = Net::new();
    let (observer, watch) = observe(&net, "$G", "in.a");
    drop(watch);
    let mut peer = net.peer(0);
    peer.send("SUB in.a 1\r\nUNSUB 1\r\n");
    assert!(observer.seen().is_empty());
}

#[test]
fn a_service_that_watches_can_be_served_in_the_same_tick() {
    /// Counts its wake-ups.
    struct Pusher(AtomicUsize, Weak<Self>);
    impl Service for Pusher {
        fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
            assert!(msgs.is_empty());
            self.0.fetch_add(1, SeqCst);
        }
    }
    impl Watcher for Pusher {
        fn interest_changed(&self, shard: Option<&mut ServiceShard>) {
            shard.unwrap().wake(&(self.1.upgrade().unwrap() as Arc<dyn Service>));
        }
    }
    let net = Net::new();
    let pusher = Arc::new_cyclic(|me| Pusher(AtomicUsize::new(0), Weak::clone(me)));
    let _watch = net.broker.account("$G").unwrap().watch(b"in.a", weak(&pusher));
    let mut peer = net.peer(1);
    peer.send("SUB in.a 1\r\nSUB in.* 2\r\n");
    assert_eq!(pusher.0.load(SeqCst), 0, "the tick goes on");
    net.flush(1);
    assert_eq!(pusher.0.load(SeqCst), 1);
}

/// Notes that it was told.
struct Flag(AtomicBool);

impl Watcher for Flag {
    fn interest_changed(&self, _: Option<&mut ServiceShard>) {
        self.0.store(true, SeqCst);
    }
}

/// Races a client's `change` against the beginning of a watch, many times: none may miss it.
fn race(before: &str, change: &str, after: &str, has_interest: bool) {
    const ROUNDS: usize = 3000;
    let net = Net::new();
    let account = net.broker.account("$G").unwrap();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut missed = 0;
            for _ in 0..ROUNDS {
                let flag = Arc::new(Flag(AtomicBool::new(false)));
                barrier.wait();
                let watch = account.watch(b"in.a", weak(&flag));
                let saw = account.has_interest(b"in.a") == has_interest;
                barrier.wait();
                // The change is made: it was seen, or it was told.
                missed += usize::from(!saw && !flag.0.load(SeqCst));
                drop(watch);
                barrier.wait();
            }
            missed
        });
        let mut peer: Peer = net.peer(0);
        for round in 0..ROUNDS {
            peer.send(before);
            barrier.wait();
            // Now one is first and now the other.
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            peer.send(change);
            barrier.wait();
            barrier.wait();
            peer.send(after);
        }
        assert_eq!(watching.join().unwrap(), 0, "of {ROUNDS} times {change:?} was neither seen nor told");
    });
}

#[test]
fn whoever_begins_to_watch_misses_no_subscription() {
    race("", "SUB in.a 1\r\n", "UNSUB 1\r\n", true);
    race("", "SUB *.a group 1\r\n", "UNSUB 1\r\n", true);
    race("", "SUB in.* 1\r\n", "UNSUB 1\r\n", true);
}

#[test]
fn whoever_begins_to_watch_misses_no_end() {
    race("SUB in.a 1\r\n", "UNSUB 1\r\n", "", false);
    race("SUB > 1\r\n", "UNSUB 1\r\n", "", false);
}

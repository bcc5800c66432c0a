//! Receivers with much waiting, and the services that wait for them.

use super::net::{Net, Peer, assert_idle};
use crate::outbox::Drained;
use crate::service::{Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use crate::shard::Shard;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that may wait for one receiver in these tests: a quarter of it is congestion.
const MAX_PENDING: usize = 400_000;
const BOUND: usize = MAX_PENDING / 4;

fn net() -> Net {
    Net::with(|setup| setup.settings.max_pending = MAX_PENDING)
}

/// Counts how often it is called.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Service for Bell {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        assert!(msgs.is_empty());
        self.0.fetch_add(1, Relaxed);
    }
}

fn bell() -> (Arc<Bell>, Arc<dyn Service>) {
    let bell = Arc::new(Bell::default());
    (Arc::clone(&bell), bell)
}

fn is_congested(net: &Net, shard: usize, waiter: &Arc<dyn Service>) -> bool {
    let account = net.broker.account("$G").unwrap();
    net.shards[shard].borrow_mut().is_congested(&account, b"in.a", waiter)
}

/// Stages `bytes` of frames for `in.a`.
fn send(net: &Net, shard: usize, bytes: usize) {
    let account = net.broker.account("$G").unwrap();
    let mut msgs = MessageBuf::default();
    // A frame of 1,000 bytes.
    let payload = &vec![b'x'; 1000 - "MSG orders 1 980\r\n\r\n".len()];
    for _ in 0..bytes / 1000 {
        msgs.push(MessageRef { to: b"in.a", subject: b"orders", payload, ..MessageRef::default() });
    }
    net.shards[shard].borrow_mut().send(&account, &mut msgs, net.now());
}

fn receiver(net: &Net, shard: usize, sub: &str) -> Peer {
    let mut peer = net.peer(shard);
    peer.send(sub);
    peer
}

/// Bytes that wait for the receiver of `in.a` for which the waiter waits.
fn awaited(net: &Net, waiter: &Arc<dyn Service>) -> Option<usize> {
    let account = net.broker.account("$G").unwrap();
    account
        .awaited_receiver(b"in.a", waiter)
        .inspect(|one| assert_eq!(one.bound, BOUND))
        .map(|one| one.pending)
}

#[test]
fn nobody_and_services_are_never_congested() {
    let net = net();
    let (bell, waiter) = bell();
    assert!(!is_congested(&net, 0, &waiter));
    net.broker.account("$G").unwrap().bind(b"in.a", Arc::clone(&waiter));
    assert!(!is_congested(&net, 0, &waiter));
    net.flush_all();
    assert_eq!(bell.0.load(Relaxed), 0);
}

#[test]
fn the_bound_is_one_mebibyte_or_less() {
    let net = Net::new();
    let mut settings = (*net.broker.settings()).clone();
    assert_eq!(settings.max_backlog(), 1024 * 1024);
    settings.max_pending = MAX_PENDING;
    assert_eq!(settings.max_backlog(), BOUND);
}

#[test]
fn staged_bytes_count_and_their_flush_wakes() {
    let net = net();
    let peer = receiver(&net, 1, "SUB in.a 1\r\n");
    let (bell, waiter) = bell();
    send(&net, 0, BOUND - 1000);
    assert!(!is_congested(&net, 0, &waiter));
    send(&net, 0, 2000);
    assert!(is_congested(&net, 0, &waiter));
    assert!(is_congested(&net, 0, &waiter), "asked twice, woken once");
    net.flush(0);
    assert!(net.shards[0].borrow().is_dirty(), "the wake-up wants another flush");
    net.flush(0);
    assert_eq!(bell.0.load(Relaxed), 1);
    assert!(!is_congested(&net, 0, &waiter));
    assert_eq!(peer.received().matches("MSG orders").count(), (BOUND + 1000) / 1000);
    net.flush_all();
    assert_eq!(bell.0.load(Relaxed), 1);
}

#[test]
fn what_a_cohort_shares_counts() {
    let net = net();
    let peers = [0, 1].map(|shard| receiver(&net, shard, "SUB in.a 1\r\n"));
    let (bell, waiter) = bell();
    for _ in 0..2 {
        send(&net, 0, 1000);
        net.flush(0);
    }
    for _ in 0..BOUND / 1000 {
        assert!(!is_congested(&net, 0, &waiter));
        send(&net, 0, 1000);
    }
    assert!(is_congested(&net, 0, &waiter));
    net.flush(0);
    net.flush(0);
    assert_eq!(bell.0.load(Relaxed), 1);
    assert!(peers.iter().all(|peer| peer.received().len() > BOUND));
}

#[test]
fn who_waits_is_woken_when_half_is_written() {
    let net = net();
    let peer = receiver(&net, 0, "SUB in.a 1\r\n");
    let (bell, waiter) = bell();
    peer.sink.block_after(0);
    send(&net, 1, BOUND);
    net.flush(1);
    assert_eq!(awaited(&net, &waiter), None, "it was not told yet");
    assert!(is_congested(&net, 1, &waiter));
    assert_eq!(awaited(&net, &waiter), Some(BOUND));
    peer.sink.block_after(BOUND / 2);
    assert_eq!(peer.drain(), Drained::Blocked { progress: true });
    net.flush_all();
    assert_eq!(bell.0.load(Relaxed), 0, "half of it still waits");
    assert!(!is_congested(&net, 1, &waiter), "though it takes more again");
    peer.sink.block_after(1);
    assert_eq!(peer.drain(), Drained::Blocked { progress: true });
    assert!(net.shards[0].borrow().is_dirty(), "on the shard that has written");
    net.flush_all();
    assert_eq!((bell.0.load(Relaxed), awaited(&net, &waiter)), (1, None));
    peer.sink.unblock();
    peer.drain();
    net.flush_all();
    assert_eq!(bell.0.load(Relaxed), 1);
    peer.received();
    assert_idle(&net, &[&peer]);
}

#[test]
fn any_plain_subscription_decides() {
    let net = net();
    let slow = receiver(&net, 0, "SUB in.a 1\r\n");
    let _quick = [receiver(&net, 0, "SUB in.* 1\r\n"), receiver(&net, 1, "SUB in.a 3\r\n")];
    let (bell, waiter) = bell();
    slow.sink.block_after(0);
    send(&net, 1, BOUND);
    net.flush(1);
    assert!(is_congested(&net, 1, &waiter));
    slow.sink.unblock();
    slow.drain();
    net.flush(0);
    assert_eq!(bell.0.load(Relaxed), 1);
    assert!(!is_congested(&net, 1, &waiter));
}

#[test]
fn a_queue_group_has_room_while_one_member_has() {
    let net = net();
    let peers = [0, 1].map(|shard| receiver(&net, shard, "SUB in.a g 1\r\n"));
    let (bell, waiter) = bell();
    for peer in &peers {
        assert!(!is_congested(&net, 0, &waiter));
        peer.sink.block_after(0);
        fill(&net, peer);
    }
    assert!(is_congested(&net, 0, &waiter) && awaited(&net, &waiter).is_some());
    peers[1].sink.unblock();
    peers[1].drain();
    net.flush_all();
    assert_eq!(bell.0.load(Relaxed), 1);
    assert!(!is_congested(&net, 0, &waiter));
}

/// Has `peer`, and nobody else, wait for more than the bound.
fn fill(net: &Net, peer: &Peer) {
    use crate::outbox::{AppendCounts, Segment, Staged};
    let mut staged = Staged::from_iter([Segment::Own(vec![b'x'; BOUND])]);
    let load = AppendCounts { wire: BOUND, own: BOUND, ..AppendCounts::default() };
    let _ = peer.conn().queue(&mut staged, load);
    peer.drain();
    net.flush_all();
}

#[test]
fn the_end_of_a_connection_wakes_and_nobody_waits_for_it_afterwards() {
    let net = net();
    let mut peer = receiver(&net, 1, "SUB in.a 1\r\n");
    let (bell, waiter) = bell();
    peer.sink.block_after(0);
    send(&net, 0, BOUND);
    net.flush(0);
    assert!(is_congested(&net, 0, &waiter));
    peer.leave();
    net.flush(1);
    assert_eq!(bell.0.load(Relaxed), 1);
    assert!(!is_congested(&net, 0, &waiter));
}

#[test]
fn who_is_about_to_end_is_not_waited_for() {
    let net = net();
    let peer = receiver(&net, 1, "SUB in.a 1\r\n");
    let (_, waiter) = bell();
    peer.sink.block_after(0);
    send(&net, 0, BOUND);
    net.flush(0);
    peer.conn().close(myelin_wire::error::CloseReason::ClientClosed);
    assert!(!is_congested(&net, 0, &waiter));
}

/// A consumer in small: sends as long as its receiver takes more.
struct Pump {
    left: AtomicUsize,
    waits: AtomicUsize,
    me: std::sync::Weak<Self>,
    account: Arc<crate::account::Account>,
    now: std::time::Instant,
}

impl Service for Pump {
    fn serve(&self, _: &mut ServiceBatch, shard: &mut ServiceShard) {
        let me: Arc<dyn Service> = self.me.upgrade().unwrap();
        let mut out = MessageBuf::default();
        loop {
            if shard.is_congested(&self.account, b"in.a", &me) {
                self.waits.fetch_add(1, Relaxed);
                return;
            }
            if self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
                return;
            }
            out.push(MessageRef {
                to: b"in.a",
                subject: b"o",
                payload: &[b'x'; 1000],
                ..MessageRef::default()
            });
            shard.send(&self.account, &mut out, self.now);
        }
    }
}

#[test]
fn no_wake_up_is_lost_between_two_threads() {
    // The consumer delivers on one shard, on a thread of its own; here the transport takes a little
    // at a time.
    const MESSAGES: usize = 3000;
    let net = net();
    let peer = receiver(&net, 0, "SUB in.a 1\r\n");
    let (account, now) = (net.broker.account("$G").unwrap(), net.now());
    let pump = Arc::new_cyclic(|me| Pump {
        left: AtomicUsize::new(MESSAGES),
        waits: AtomicUsize::new(0),
        me: std::sync::Weak::clone(me),
        account,
        now,
    });
    peer.sink.block_after(0);
    let thread = {
        let (broker, pump) = (Arc::clone(&net.broker), Arc::clone(&pump));
        std::thread::spawn(move || {
            let mut shard = Shard::new(&broker, 3);
            let service: Arc<dyn Service> = Arc::clone(&pump) as Arc<dyn Service>;
            shard.wake(&service);
            // Only wake-ups of this thread's own shard are worked off here.
            while pump.left.load(Relaxed) > 0 {
                shard.flush();
                std::thread::yield_now();
            }
            shard.flush();
        })
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let (mut received, mut handed, mut holds) = (0, 0, false);
    while received < MESSAGES {
        assert!(std::time::Instant::now() < deadline, "a wake-up was lost: {received} of {MESSAGES}");
        peer.sink.block_after(30_000);
        if !holds && peer.sink.waits() > handed {
            (handed, holds) = (handed + 1, true);
        }
        holds = holds && peer.drain() != Drained::Empty;
        // Wake-ups that this shard saw lead to deliveries on this shard.
        net.flush(0);
        received += peer.received().matches("MSG o 1").count();
    }
    thread.join().unwrap();
    assert!(pump.waits.load(Relaxed) > 1);
}

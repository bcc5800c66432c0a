//! Links with leaf nodes and hubs that do not read.

use super::net::Net;
use super::protocol_log::traced;
use super::sink::FakeSink;
use crate::conn_details::Endpoint;
use crate::link::Link;
use crate::link::leaf_end::{LeafDenials, LeafDialler, LeafPermissions, LeafRole, LeafTerms};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::parser::PeerInterest;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// A link of the global account with a server that is the leaf node, and what is written to it.
pub(super) fn leaf(net: &Net, dialler: LeafDialler, cluster: &str) -> (Link, FakeSink) {
    linked(net, "$G", (LeafRole::Hub, dialler), cluster)
}

/// A link of an account with a leaf node or a hub of that cluster, and what is written to it.
pub(super) fn linked(
    net: &Net,
    account: &str,
    (role, dialler): (LeafRole, LeafDialler),
    cluster: &str,
) -> (Link, FakeSink) {
    denied(net, account, (role, dialler), cluster, LeafDenials::default())
}

/// A link with a leaf node or a hub that is not sent some subjects, or from which some are not
/// taken.
pub(super) fn denied(
    net: &Net,
    account: &str,
    (role, dialler): (LeafRole, LeafDialler),
    cluster: &str,
    denials: LeafDenials,
) -> (Link, FakeSink) {
    net.broker.form_leaf_nodes();
    let sink = FakeSink::default();
    let endpoint = Endpoint { peer: ([127, 0, 0, 1], 5).into(), start: SystemTime::UNIX_EPOCH };
    let conn = net.broker.connect_leaf(endpoint, Box::new(sink.clone()), false);
    let mut link = Link::new(&net.broker, &conn);
    let account = net.broker.account(account).expect("it is configured");
    let permissions = LeafPermissions::new(dialler, None, denials).expect("they are well formed");
    let terms = LeafTerms { role, is_isolated: false, cluster: cluster.to_owned(), permissions };
    link.begin_leaf(&account, terms, true).run();
    (link, sink)
}

/// Interest of the other side.
pub(super) fn interest(subject: &[u8]) -> PeerInterest<'_> {
    PeerInterest { account: &[], subject, queue: None, weight: 1, leaf: None }
}

/// The bound is for others' servers: to a hub that this one has dialled anything may wait.
#[test]
fn a_leaf_node_that_does_not_read_is_cut_off_in_the_end() {
    for dialler in [LeafDialler::There, LeafDialler::Here] {
        let (net, log) = traced(|setup| {
            setup.settings.link_writes.leaf_nodes.max_pending = Some(100_000);
            setup.settings.max_pending = 10_000;
        });
        let (mut link, sink) = leaf(&net, dialler, "");
        sink.block_after(0);
        link.subscribe_leaf(&interest(b"a")).expect("it may");
        let mut client = net.peer(0);
        let payload = "x".repeat(1000);
        for _ in 0..90 {
            client.publish("a", &payload);
            net.flush_all();
        }
        assert_eq!(link.conn().close_requested(), None, "more waits than for a client");
        for _ in 0..20 {
            client.publish("a", &payload);
            net.flush_all();
        }
        let is_cut_off = dialler == LeafDialler::There;
        let reason = is_cut_off.then_some(CloseReason::SlowConsumerPendingBytes);
        assert_eq!(link.conn().close_requested(), reason);
        let said = "Slow Consumer Detected: MaxPending of 100000 Exceeded";
        assert_eq!(log.take().iter().filter(|line| line.contains(said)).count(), usize::from(is_cut_off));
        let counted = net.broker.counters().slow(link.conn().kind()).load(Relaxed);
        assert_eq!(counted, u64::from(is_cut_off));
    }
}

#[test]
fn a_leaf_node_that_does_not_read_is_not_told_of_its_faults() {
    let net = Net::new();
    let (mut link, sink) = leaf(&net, LeafDialler::There, "");
    sink.block_after(0);
    for _ in 0..200_000 {
        link.subscribe_leaf(&interest(b"a..b")).expect("the link stays");
        if link.conn().pending() < 2 * 1024 * 1024 {
            net.shards[0].borrow_mut().flush_link(link.conn());
            net.flush_all();
        }
    }
    let pending = link.conn().pending();
    assert!((1024 * 1024..1024 * 1024 + 1000).contains(&pending), "{pending} bytes wait");
}

//! Changes of interest while leaf nodes come and go.

use super::leafs::{interest, leaf};
use super::net::Net;
use super::sink::FakeSink;
use crate::cluster::LinkTerms;
use crate::conn_details::Endpoint;
use crate::link::leaf_end::LeafDialler;
use crate::link::{Link, LinkScope};
use myelin_wire::peer::parser::PeerInterest;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// Two leaf nodes that hear of different things, of which one comes and goes all the time: the
/// other is told of each change of its own sum, and of nothing else.
#[test]
fn a_leaf_node_is_told_its_own_changes_while_others_come_and_go() {
    const ROUNDS: usize = 20_000;
    let net = Net::new();
    net.broker.form_cluster(LinkTerms { pool_size: 1, dedicated: Vec::new() });
    let endpoint = Endpoint { peer: ([127, 0, 0, 1], 5).into(), start: SystemTime::UNIX_EPOCH };
    let conn = net.broker.connect_link(endpoint, Box::<FakeSink>::default());
    let mut route = Link::new(&net.broker, &conn);
    route.begin(LinkScope::All, true).expect("no account is needed").run();
    let (same, sink) = leaf(&net, LeafDialler::There, "x");
    let (other, _) = leaf(&net, LeafDialler::There, "");
    let of_cluster = PeerInterest { account: b"$G", leaf: Some(b"x"), ..interest(b"s") };
    route.subscribe(&of_cluster).expect("it may");
    let account = net.broker.account("$G").expect("it is always there");
    let announced = &account.announced;
    let both = Arc::new(vec![Arc::clone(other.conn()), Arc::clone(same.conn())]);
    let one = Arc::new(vec![Arc::clone(same.conn())]);
    let rounds = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while rounds.fetch_add(1, Relaxed) < ROUNDS {
                announced.leafs.store(Arc::clone(&both));
                announced.leafs.store(Arc::clone(&one));
            }
        });
        while rounds.load(Relaxed) < ROUNDS {
            announced.only_leafs_changed(b"s", true);
            announced.only_leafs_changed(b"s", false);
        }
    });
    net.shards[0].borrow_mut().flush_link(same.conn());
    net.flush_all();
    let said = String::from_utf8(sink.take()).expect("lines");
    let said: Vec<&str> = said.lines().filter(|line| line.ends_with(" s")).collect();
    assert!(said.len() >= 2, "{said:?}");
    for pair in said.chunks(2) {
        assert_eq!(pair, ["LS+ s", "LS- s"]);
    }
}

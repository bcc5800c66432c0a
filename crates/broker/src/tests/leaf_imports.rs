//! Where what comes over a link goes on to behind an import.

use super::leafs::{interest, linked};
use super::links::routed;
use super::net::{Net, Peer, login, user};
use super::sink::FakeSink;
use crate::imports::{
    AccountConfig, Export, Import, ServiceExport, ServiceImport, StreamExport, StreamImport,
};
use crate::link::Link;
use crate::link::leaf_end::{LeafDialler, LeafRole};
use myelin_auth::{AuthConfig, Method, Users};
use myelin_wire::peer::parser::{self, Parsed, PeerInterest, PeerLimits, PeerOp};
use std::sync::Arc;

/// A link and what is written to it.
struct Wire {
    link: Link,
    sink: FakeSink,
    is_leaf: bool,
}

/// Servers to which one account has links.
struct Wires {
    route: Wire,
    /// Of the clusters `H`, none, and `X`.
    hubs: [Wire; 3],
    /// Of the cluster `L`.
    leaf: Wire,
}

impl Wire {
    fn leaf(net: &Net, account: &str, role: LeafRole, cluster: &str) -> Self {
        let dialler = if role == LeafRole::Hub { LeafDialler::There } else { LeafDialler::Here };
        let (link, sink) = linked(net, account, (role, dialler), cluster);
        Self { link, sink, is_leaf: true }
    }

    fn route(net: &Net) -> Self {
        let (link, sink) = routed(net);
        Self { link, sink, is_leaf: false }
    }

    /// The other side wants `subject` of an account.
    fn wants(&mut self, account: &str, subject: &str) {
        let wish = interest(subject.as_bytes());
        if self.is_leaf {
            self.link.subscribe_leaf(&wish).expect("it may");
        } else {
            let wish = PeerInterest { account: account.as_bytes(), ..wish };
            self.link.subscribe(&wish).expect("it may");
        }
    }

    /// The other side sends a message.
    fn sends(&mut self, net: &Net, line: &str) {
        let frame = format!("{line} 2\r\nhi\r\n");
        let limits = PeerLimits {
            max_line: 4096,
            max_payload: 4096,
            is_dedicated: self.is_leaf,
            names_origin: false,
            is_leaf: self.is_leaf,
        };
        let Ok(Parsed::Op(PeerOp::Message(message), _)) = parser::next(frame.as_bytes(), &limits) else {
            panic!("{frame}");
        };
        let mut shard = net.shards[0].borrow_mut();
        if self.is_leaf {
            self.link.publish_leaf(&mut shard, &message, None, net.now()).expect("it may");
        } else {
            self.link.publish(&mut shard, &message, None, net.now());
        }
        drop(shard);
        net.flush_all();
    }

    /// How many messages were written to it.
    fn got(&self) -> usize {
        String::from_utf8(self.sink.take()).expect("lines").matches("\r\nhi\r\n").count()
    }
}

impl Wires {
    fn new(net: &Net, account: &str, subject: &str) -> Self {
        let mut wires = Self {
            route: Wire::route(net),
            hubs: ["H", "", "X"].map(|cluster| Wire::leaf(net, account, LeafRole::Spoke, cluster)),
            leaf: Wire::leaf(net, account, LeafRole::Hub, "L"),
        };
        for wire in [&mut wires.route, &mut wires.leaf].into_iter().chain(&mut wires.hubs) {
            wire.wants(account, subject);
        }
        wires
    }

    /// How many messages have come: over the route, to the three hubs, to the leaf node.
    fn got(&self) -> [usize; 5] {
        let [h, unnamed, x] = self.hubs.each_ref().map(Wire::got);
        [self.route.got(), h, unnamed, x, self.leaf.got()]
    }
}

/// A imports services and a stream of B, and what B is asked as a stream under another name; C
/// imports that, too.
fn net() -> Net {
    let [name, svc, st] = ["B", "svc.>", "st.>"].map(str::to_owned);
    let stream = |subject: &str| StreamExport { subject: subject.to_owned(), ..StreamExport::default() };
    let exports = vec![
        Export::Service(Arc::new(ServiceExport::public(&svc))),
        Export::Stream(stream(&svc)),
        Export::Stream(stream(&st)),
    ];
    let import = |subject: &str, to: &str| {
        let [account, subject, to] = [&*name, subject, to].map(str::to_owned);
        Import::Stream(StreamImport { account, subject, to, ..StreamImport::default() })
    };
    let service = ServiceImport {
        account: name.clone(),
        subject: svc.clone(),
        to: svc.clone(),
        ..ServiceImport::default()
    };
    let imports = vec![Import::Service(Arc::new(service)), import(&st, &st), import(&svc, "asked.>")];
    let asked = vec![import(&svc, &svc)];
    Net::with(|setup| {
        setup.accounts = vec![
            AccountConfig { imports, ..AccountConfig::named("A") },
            AccountConfig { exports, ..AccountConfig::named("B") },
            AccountConfig { imports: asked, ..AccountConfig::named("C") },
        ];
        let users = ["a", "b", "c"].map(|name| user(name, &name.to_uppercase(), None));
        setup.auth = AuthConfig::new(Method::Users(Users::new(users)));
    })
}

fn client(net: &Net, name: &str, line: &str) -> Peer {
    let mut peer = net.peer_as(0, &login(name));
    peer.send(format!("{line}\r\n"));
    net.flush_all();
    peer.received();
    peer
}

#[test]
fn a_request_goes_on_by_where_it_came_from() {
    let net = net();
    let wires = Wires::new(&net, "B", "svc.x");
    let here = client(&net, "b", "SUB svc.x 1");
    let heard = || here.received().matches("\r\nhi\r\n").count();
    let mut hub = Wire::leaf(&net, "A", LeafRole::Spoke, "H");
    wires.got();
    // Other servers of the cluster have links of their own, and hubs of its cluster have it.
    hub.sends(&net, "LMSG svc.x");
    assert_eq!((heard(), wires.got()), (1, [0, 0, 0, 1, 1]));
    let mut unnamed = Wire::leaf(&net, "A", LeafRole::Spoke, "");
    wires.got();
    unnamed.sends(&net, "LMSG svc.x");
    assert_eq!((heard(), wires.got()), (1, [0, 0, 0, 0, 1]));
    let mut leaf = Wire::leaf(&net, "A", LeafRole::Hub, "L");
    wires.got();
    leaf.sends(&net, "LMSG svc.x");
    assert_eq!((heard(), wires.got()), (1, [1, 1, 1, 1, 1]));
    client(&net, "a", "PUB svc.x 2\r\nhi");
    assert_eq!((heard(), wires.got()), (1, [1, 1, 1, 1, 1]));
}

#[test]
fn a_message_of_a_stream_goes_on_by_where_it_came_from() {
    let net = net();
    let wires = Wires::new(&net, "A", "st.x");
    let here = client(&net, "a", "SUB st.x 1");
    let heard = || here.received().matches("\r\nhi\r\n").count();
    let mut route = Wire::route(&net);
    let mut hub = Wire::leaf(&net, "B", LeafRole::Spoke, "H");
    let mut leaf = Wire::leaf(&net, "B", LeafRole::Hub, "L");
    wires.got();
    hub.sends(&net, "LMSG st.x");
    assert_eq!((heard(), wires.got()), (1, [0, 0, 0, 1, 1]));
    // The server from which it has come has told its own hubs.
    route.sends(&net, "RMSG B st.x");
    assert_eq!((heard(), wires.got()), (1, [0, 0, 0, 0, 1]));
    leaf.sends(&net, "LMSG st.x");
    assert_eq!((heard(), wires.got()), (1, [0, 1, 1, 1, 1]));
    client(&net, "b", "PUB st.x 2\r\nhi");
    assert_eq!((heard(), wires.got()), (1, [0, 1, 1, 1, 1]));
}

#[test]
fn a_request_leaves_by_a_stream_for_leaf_nodes_and_hubs_only() {
    let net = net();
    let wires = Wires::new(&net, "C", "svc.x");
    let here = client(&net, "c", "SUB svc.x 1");
    let heard = || here.received().matches("\r\nhi\r\n").count();
    let mut hub = Wire::leaf(&net, "A", LeafRole::Spoke, "H");
    let mut leaf = Wire::leaf(&net, "A", LeafRole::Hub, "L");
    wires.got();
    client(&net, "a", "PUB svc.x 2\r\nhi");
    assert_eq!((heard(), wires.got()), (0, [0, 1, 1, 1, 1]));
    leaf.sends(&net, "LMSG svc.x");
    assert_eq!((heard(), wires.got()), (0, [0, 1, 1, 1, 1]));
    hub.sends(&net, "LMSG svc.x");
    assert_eq!((heard(), wires.got()), (0, [0, 0, 0, 1, 1]));
}

#[test]
fn a_request_does_not_come_back_over_its_own_link() {
    let net = net();
    let [mut asks, mut other] = ["L", "M"].map(|cluster| Wire::leaf(&net, "A", LeafRole::Hub, cluster));
    asks.wants("A", "asked.x");
    other.wants("A", "asked.x");
    net.flush_all();
    asks.got();
    other.got();
    asks.sends(&net, "LMSG svc.x");
    assert_eq!((asks.got(), other.got()), (0, 1));
}

//! Links with other clusters: answers that find their way, and what a peer can have kept.

use super::leafs::{interest, linked};
use super::links::routed;
use super::net::{Net, Peer, login, user};
use super::sink::FakeSink;
use crate::account::Account;
use crate::conn_details::Endpoint;
use crate::gateway_replies::MOST_RECEIVERS;
use crate::imports::AccountConfig;
use crate::link::Link;
use crate::link::gateway_end::{GatewaySide, GatewayTerms};
use crate::link::gateway_links::GatewayLinks;
use crate::link::leaf_end::{LeafDialler, LeafRole};
use crate::service::{Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use myelin_auth::{AuthConfig, Method, Users};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::gateway::{reply_prefix, short_name};
use myelin_wire::peer::parser::{self, Parsed, PeerInterest, PeerLimits, PeerOp};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A link, and what is written to it.
struct Wire {
    link: Link,
    sink: FakeSink,
}

/// A server of the cluster B.
fn net() -> Net {
    with_gateway(Net::new())
}

fn with_gateway(net: Net) -> Net {
    net.broker.form_gateway("B");
    net
}

/// A reply as the server of the cluster A in these tests maps it.
fn of_a(reply: &str) -> String {
    let prefix = reply_prefix(short_name("A"), short_name("A-SERVER"));
    String::from_utf8(prefix).unwrap() + reply
}

impl Wire {
    fn gateway(net: &Net, name: &str, side: GatewaySide, tells_all: bool) -> Self {
        let sink = FakeSink::default();
        let endpoint = Endpoint { peer: ([127, 0, 0, 1], 5).into(), start: SystemTime::UNIX_EPOCH };
        let conn = net.broker.connect_gateway(endpoint, Box::new(sink.clone()));
        let mut link = Link::new(&net.broker, &conn);
        let terms = GatewayTerms { name: name.to_owned(), side, tells_all };
        if let Some(announcing) = link.begin_gateway(terms, true) {
            announcing.run();
        }
        Self { link, sink }
    }

    /// The links with the cluster A: in and out.
    fn both(net: &Net) -> [Self; 2] {
        [GatewaySide::Inbound, GatewaySide::Outbound].map(|side| Self::gateway(net, "A", side, true))
    }

    /// A link with a leaf node or a hub of the cluster `EDGE`.
    fn leaf(net: &Net, role: LeafRole) -> Self {
        let dialler = if role == LeafRole::Hub { LeafDialler::There } else { LeafDialler::Here };
        let (link, sink) = linked(net, "$G", (role, dialler), "EDGE");
        Self { link, sink }
    }

    /// The other side says this.
    fn says(&mut self, net: &Net, said: &str) {
        let is_leaf = self.link.conn().leaf().is_some();
        let limits = PeerLimits {
            max_line: 4096,
            max_payload: 4096,
            is_dedicated: is_leaf,
            names_origin: false,
            is_leaf,
        };
        let is_gateway = self.link.conn().gateway().is_some();
        let mut rest = said.as_bytes();
        while !rest.is_empty() {
            let Ok(Parsed::Op(op, len)) = parser::next(rest, &limits) else { panic!("{said}") };
            let (link, shard) = (&mut self.link, &net.shards[0]);
            match op {
                PeerOp::Interest(wish) if is_leaf => link.subscribe_leaf(&wish).expect("it may"),
                PeerOp::Interest(wish) if is_gateway => link.subscribe_gateway(&wish).expect("it may"),
                PeerOp::Interest(wish) => link.subscribe(&wish).expect("it may"),
                PeerOp::NoInterest(wish) if is_gateway => link.unsubscribe_gateway(&wish),
                PeerOp::NoInterest(wish) if is_leaf => link.unsubscribe_leaf(&wish),
                PeerOp::Message(message) if is_leaf => {
                    link.publish_leaf(&mut shard.borrow_mut(), &message, None, net.now()).expect("it may");
                }
                PeerOp::Message(message) if is_gateway => {
                    link.publish_from_gateway(&mut shard.borrow_mut(), &message, None, net.now());
                }
                PeerOp::Message(message) => {
                    link.publish(&mut shard.borrow_mut(), &message, None, net.now());
                }
                other => panic!("{other:?}"),
            }
            rest = &rest[len..];
        }
        net.flush_all();
    }

    /// Lines that were written to it and have this in them.
    fn got(&self, net: &Net, part: &str) -> Vec<String> {
        net.shards[0].borrow_mut().flush_link(self.link.conn());
        net.flush_all();
        let all = String::from_utf8(self.sink.take()).unwrap();
        all.split("\r\n").filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

/// A client that no PONG or INFO is waiting for.
fn client(net: &Net, subscribes: &str) -> Peer {
    let mut peer = net.peer(0);
    peer.send(subscribes);
    net.flush_all();
    peer.received();
    peer
}

fn told(account: &str, subject: &str) -> String {
    format!("RS+ {account} {subject}\r\n")
}

/// The server that answers it is behind this one, perhaps, and looks where the client is.
#[test]
fn a_request_to_jetstream_says_from_which_cluster_it_has_come() {
    let net = net();
    let [mut inbound, _] = Wire::both(&net);
    let mut peer = net.peer_as(0, r#""headers":true"#);
    peer.send("SUB $JS.> 1\r\nSUB other 2\r\n");
    net.flush_all();
    peer.received();
    let mut hears = |said: &str| {
        inbound.says(&net, said);
        peer.received()
    };
    let header = "NATS/1.0\r\nMyelin-Cluster: A\r\n\r\n";
    let wanted = format!("HMSG $JS.API.INFO 1 r {} {}\r\n{header}?\r\n", header.len(), header.len() + 1);
    assert_eq!(hears("RMSG $G $JS.API.INFO r 1\r\n?\r\n"), wanted);
    let forged = "NATS/1.0\r\nmyelin-cluster: C\r\n\r\n";
    let sizes = format!("{} {}", forged.len(), forged.len() + 1);
    assert_eq!(hears(&format!("HMSG $G $JS.API.INFO r {sizes}\r\n{forged}?\r\n")), wanted);
    assert_eq!(hears("RMSG $G other r 1\r\n?\r\n"), "MSG other 2 r 1\r\n?\r\n");
    assert_eq!(hears("RMSG $G $JS.ACK.S.C r 1\r\n?\r\n"), "MSG $JS.ACK.S.C 1 r 1\r\n?\r\n");
}

#[test]
fn a_leaf_node_answers_a_request_of_another_cluster() {
    let net = net();
    let [mut inbound, outbound] = Wire::both(&net);
    let mut leaf = Wire::leaf(&net, LeafRole::Hub);
    assert_eq!(leaf.got(&net, "_GR_"), ["LS+ _GR_.>"], "answers may come back");
    leaf.says(&net, "LS+ svc\r\n");
    let reply = of_a("_INBOX.x");
    inbound.says(&net, &format!("RMSG $G svc {reply} 1\r\n?\r\n"));
    assert_eq!(leaf.got(&net, "LMSG"), [format!("LMSG svc {reply} 1")]);
    leaf.says(&net, &format!("LMSG {reply} 1\r\n!\r\n"));
    assert_eq!(outbound.got(&net, "RMSG"), [format!("RMSG $G {reply} 1")], "nobody has told of interest");
    leaf.says(&net, &format!("LMSG {} 1\r\n!\r\n", reply.replacen("_GR_.", "_GR_.x", 1)));
    assert!(outbound.got(&net, "RMSG").is_empty(), "no such cluster");
}

#[test]
fn a_leaf_node_of_a_cluster_with_gateways_hides_and_uses_the_mapped_reply() {
    let net = Net::new();
    let mut hub = Wire::leaf(&net, LeafRole::Spoke);
    let mut serves = client(&net, "SUB svc 1\r\n");
    let reply = of_a("_INBOX.x");
    let account = net.broker.accounts().remove(0);
    assert!(!account.has_interest(b"_INBOX.x"));
    hub.says(&net, &format!("LMSG svc {reply} 1\r\n?\r\n"));
    assert_eq!(serves.received(), "MSG svc 1 _INBOX.x 1\r\n?\r\n");
    assert!(account.has_interest(b"_INBOX.x") && !account.has_interest(b"_INBOX.y"), "a stream may deliver");
    serves.send("PUB _INBOX.x 1\r\n!\r\nPUB other 1\r\n!\r\n");
    net.flush_all();
    assert_eq!(hub.got(&net, "LMSG"), [format!("LMSG {reply} 1")]);
    net.advance(Duration::from_secs(3));
    serves.publish("_INBOX.x", "late");
    net.flush_all();
    assert!(hub.got(&net, "LMSG").is_empty() && !account.has_interest(b"_INBOX.x"));
}

/// Servers of another cluster would not understand from which cluster the leaf node is.
#[test]
fn messages_of_a_leaf_node_cross_without_its_cluster() {
    let net = net();
    let [_inbound, mut outbound] = Wire::both(&net);
    outbound.says(&net, "RS+ $G a\r\nRS+ $G b q 1\r\n");
    let mut leaf = Wire::leaf(&net, LeafRole::Hub);
    leaf.says(&net, "LMSG a 1\r\n?\r\nHMSG a 12 13\r\nNATS/1.0\r\n\r\n?\r\nLMSG b + r q 1\r\n?\r\n");
    let got = outbound.got(&net, "MSG");
    assert_eq!(got, ["RMSG $G a 1", "HMSG $G a 12 13", "RMSG $G b + r q 1"]);
}

/// Rules are asked about the subject within a mapped one. What stands within that would come past
/// them, here or at the next server.
#[test]
fn a_mapped_subject_within_another_goes_nowhere() {
    let net = net();
    let [mut inbound, outbound] = Wire::both(&net);
    let mut leaf = Wire::leaf(&net, LeafRole::Hub);
    let other = Wire::leaf(&net, LeafRole::Hub);
    let listens = client(&net, "SUB > 1\r\n");
    other.got(&net, "");
    let own = String::from_utf8(reply_prefix(short_name("B"), short_name("elsewhere"))).unwrap();
    for subject in [format!("{own}{own}secret"), format!("{own}{}", of_a("secret")), of_a(&of_a("secret"))] {
        leaf.says(&net, &format!("LMSG {subject} 1\r\n!\r\n"));
        inbound.says(&net, &format!("RMSG $G {subject} 1\r\n!\r\n"));
        assert_eq!((listens.received(), outbound.got(&net, "MSG")), (String::new(), Vec::new()), "{subject}");
        assert_eq!(other.got(&net, "MSG"), Vec::<String>::new(), "{subject}");
    }
}

/// An answer of a leaf node goes on to the server of this cluster that awaits it.
#[test]
fn a_leaf_node_with_an_answer_for_the_own_cluster_reaches_who_awaits_it() {
    let net = net();
    let mut leaf = Wire::leaf(&net, LeafRole::Hub);
    let mut awaits = client(&net, "SUB _INBOX.x 1\r\n");
    let own = String::from_utf8(reply_prefix(short_name("B"), short_name("elsewhere"))).unwrap();
    leaf.says(&net, &format!("LMSG {own}_INBOX.x 1\r\n!\r\n"));
    assert_eq!(awaits.received(), "MSG _INBOX.x 1 1\r\n!\r\n");
    awaits.leave();
}

/// A delivery of a stream in another cluster to a mapped reply is shown under its own subject, and
/// its acknowledgement goes where it is awaited.
#[test]
fn what_a_stream_of_another_cluster_delivers_can_be_acknowledged() {
    let net = net();
    let [mut inbound, outbound] = Wire::both(&net);
    let mut pulls = client(&net, "SUB _INBOX.x 1\r\n");
    let own = GatewayLinks::of(&net.broker.cluster).unwrap().own();
    let own = String::from_utf8(reply_prefix(own.cluster, own.server)).unwrap();
    let (ack, whole) =
        ("$JS.ACK.S.c.1.1.1.1795915373861747008.5", of_a("$JS.ACK.S.c.1.1.1.1795915373861747008.5"));
    inbound.says(&net, &format!("RMSG $G {own}_INBOX.x {whole}@s.x 1\r\n!\r\n"));
    assert_eq!(pulls.received(), format!("MSG s.x 1 {ack} 1\r\n!\r\n"));
    pulls.publish(ack, "+ACK");
    net.flush_all();
    assert_eq!(outbound.got(&net, "RMSG"), [format!("RMSG $G {whole} 4")]);
    inbound.says(&net, &format!("RMSG $G {own}_INBOX.x {ack}@s.x 1\r\n!\r\n"));
    assert_eq!(pulls.received(), format!("MSG s.x 1 {ack} 1\r\n!\r\n"), "one that is not mapped");
}

/// Only who was asked gives an answer: what others publish on the same subject goes where it is
/// wanted.
#[test]
fn what_others_publish_on_the_reply_of_a_request_is_no_answer() {
    let net = net();
    let [mut inbound, outbound] = Wire::both(&net);
    let mut serves = client(&net, "SUB work group 1\r\n");
    let listens = client(&net, "SUB results 2\r\n");
    let mut publishes = client(&net, "");
    let reply = of_a("results");
    inbound.says(&net, &format!("RMSG $G work | group 1\r\n-\r\nRMSG $G work + {reply} group 1\r\n?\r\n"));
    assert!(serves.received().ends_with("MSG work 1 results 1\r\n?\r\n"));
    publishes.publish("results", "news");
    net.flush_all();
    assert_eq!(listens.received(), "MSG results 2 4\r\nnews\r\n");
    assert!(outbound.got(&net, "RMSG").is_empty());
    serves.publish("results", "done");
    net.flush_all();
    assert_eq!(outbound.got(&net, "RMSG"), [format!("RMSG $G {reply} 4")]);
    assert_eq!(listens.received(), "");
}

/// Two clients whose subscriptions take turns are two, and of very many it is not looked who they
/// are.
#[test]
fn who_was_asked_is_told_by_clients_and_not_by_subscriptions() {
    for (many, crossed) in [(2 * MOST_RECEIVERS, 0), (8 * MOST_RECEIVERS, 1)] {
        let net = net();
        let [mut inbound, outbound] = Wire::both(&net);
        let mut asked = [client(&net, ""), client(&net, "")];
        for sid in 0..many {
            asked[sid % 2].send(format!("SUB work {sid}\r\n"));
        }
        let mut other = client(&net, "");
        inbound.says(&net, &format!("RMSG $G work {} 1\r\n?\r\n", of_a("r")));
        other.publish("r", "x");
        net.flush_all();
        assert_eq!(outbound.got(&net, "RMSG").len(), crossed, "{many} subscriptions");
    }
}

/// A mapped reply is forgotten also where no other request or answer comes.
#[test]
fn mapped_replies_are_forgotten_where_nothing_happens() {
    let net = net();
    let [mut inbound, _outbound] = Wire::both(&net);
    let _serves = client(&net, "SUB work 1\r\n");
    let account = net.broker.accounts().remove(0);
    for _ in 0..2 {
        inbound.says(&net, &format!("RMSG $G work {} 1\r\n?\r\n", of_a("r")));
        net.quiet_second(0);
        assert!(account.gateway_replies.is_any());
        net.advance(Duration::from_secs(3));
        net.quiet_second(0);
        assert!(!account.gateway_replies.is_any());
    }
}

/// While something is mapped, what a client publishes elsewhere is no answer: nothing is looked up,
/// which would forget what is over.
#[test]
fn what_cannot_be_an_answer_is_not_looked_up() {
    let net = net();
    let [mut inbound, _outbound] = Wire::both(&net);
    let _serves = client(&net, "SUB work 1\r\n");
    let mut publishes = client(&net, "");
    let account = net.broker.accounts().remove(0);
    inbound.says(&net, &format!("RMSG $G work {} 1\r\n?\r\n", of_a("r")));
    net.advance(Duration::from_secs(3));
    publishes.publish("orders.new", "x");
    assert!(account.gateway_replies.is_any());
    publishes.publish("r", "x");
    assert!(!account.gateway_replies.is_any());
}

/// A route that is kept tells who was asked: plain subscriptions, such that share their bytes, and
/// members of a group that has others at another server.
#[test]
fn who_was_asked_is_known_by_a_route_that_is_kept() {
    let net = net();
    let [mut inbound, outbound] = Wire::both(&net);
    let (link, sink) = routed(&net);
    let mut route = Wire { link, sink };
    route.says(&net, "RS+ $G work group 1\r\n");
    let mut asked: Vec<Peer> = (0..10).map(|_| client(&net, "SUB work 1\r\n")).collect();
    asked.push(client(&net, "SUB work group 2\r\n"));
    let mut other = client(&net, "");
    for turn in 0..4 {
        let (reply, own) = (of_a(&format!("r.{turn}")), format!("r.{turn}"));
        inbound.says(&net, &format!("RMSG $G work + {reply} group 1\r\n?\r\n"));
        other.publish(&own, "x");
        net.flush_all();
        assert!(outbound.got(&net, "RMSG").is_empty());
        asked.iter_mut().for_each(|one| one.publish(&own, "!"));
        net.flush_all();
        assert_eq!(outbound.got(&net, "RMSG").len(), asked.len());
    }
}

/// An answer that another cluster sends on, because somebody here listens to everything, is no
/// answer of anybody here: it would go back, and come again.
#[test]
fn what_comes_on_the_reply_of_a_request_does_not_go_back() {
    let net = net();
    let [mut inbound, outbound] = Wire::both(&net);
    let mut leaf = Wire::leaf(&net, LeafRole::Hub);
    let _serves = client(&net, "SUB work 1\r\n");
    let monitor = client(&net, "SUB _INBOX.> 2\r\n");
    let reply = of_a("_INBOX.x");
    inbound.says(&net, &format!("RMSG $G work {reply} 1\r\n?\r\n"));
    inbound.says(&net, "RMSG $G _INBOX.x 1\r\n!\r\n");
    leaf.says(&net, "LMSG _INBOX.x 1\r\n!\r\n");
    net.flush_all();
    assert_eq!(monitor.received(), "MSG _INBOX.x 2 1\r\n!\r\n".repeat(2));
    assert!(outbound.got(&net, "RMSG").is_empty());
}

/// An answer that has come back goes on to who else wants its subject: to clients of a third
/// cluster, and of the one that has answered, who have not got it there.
#[test]
fn an_answer_that_has_come_back_goes_on_to_other_clusters_that_want_it() {
    let net = net();
    let [mut inbound, mut outbound] = Wire::both(&net);
    let mut third = Wire::gateway(&net, "C", GatewaySide::Outbound, true);
    let asks = client(&net, "SUB _INBOX.x 1\r\nSUB _INBOX.x group 2\r\n");
    outbound.says(&net, "RS+ $G _INBOX.x\r\n");
    third.says(&net, "RS+ $G _INBOX.*\r\nRS+ $G _INBOX.x group 1\r\nRS+ $G _INBOX.x other 1\r\n");
    let own = String::from_utf8(reply_prefix(short_name("B"), short_name("elsewhere"))).unwrap();
    inbound.says(&net, &format!("RMSG $G {own}_INBOX.x 1\r\n!\r\n"));
    assert_eq!(asks.received().matches("MSG _INBOX.x").count(), 2, "the client and its group");
    assert_eq!(outbound.got(&net, "RMSG"), ["RMSG $G _INBOX.x 1"]);
    assert_eq!(third.got(&net, "RMSG"), ["RMSG $G _INBOX.x | other 1"], "the group has its member here");
}

/// A client that has left the service meanwhile was asked nevertheless.
#[test]
fn who_was_asked_once_answers() {
    let net = net();
    let [mut inbound, outbound] = Wire::both(&net);
    let mut serves = client(&net, "SUB work 1\r\nUNSUB 1 1\r\n");
    let reply = of_a("_INBOX.x");
    inbound.says(&net, &format!("RMSG $G work {reply} 1\r\n?\r\n"));
    serves.publish("_INBOX.x", "!");
    net.flush_all();
    assert_eq!(outbound.got(&net, "RMSG"), [format!("RMSG $G {reply} 1")]);
}

/// Requests of a leaf node, and such whose answers another server of the cluster awaits, are mapped
/// as those of clients: an answer may come before its interest is known elsewhere.
#[test]
fn replies_of_leaf_nodes_and_other_servers_are_mapped() {
    let net = net();
    let [_inbound, mut outbound] = Wire::both(&net);
    outbound.says(&net, &told("$G", "svc"));
    let mut leaf = Wire::leaf(&net, LeafRole::Hub);
    leaf.says(&net, "LS+ _INBOX.a\r\nLMSG svc _INBOX.a 1\r\n?\r\nLMSG svc unheard 1\r\n?\r\n");
    let got = outbound.got(&net, "RMSG");
    assert!(got[0].starts_with("RMSG $G svc _GR_.") && got[0].ends_with("._INBOX.a 1"), "{got:?}");
    assert_eq!(got[1], "RMSG $G svc unheard 1");
    net.advance(Duration::from_secs(3));
    leaf.says(&net, "LMSG svc _INBOX.a 1\r\n?\r\n");
    assert_eq!(outbound.got(&net, "RMSG"), ["RMSG $G svc _INBOX.a 1"], "elsewhere it is known");

    let (link, sink) = routed(&net);
    let mut route = Wire { link, sink };
    let mut asks = client(&net, "");
    route.says(&net, "RS+ $G answers\r\n");
    route.link.heard(net.now(), net.now());
    asks.send("PUB svc answers 1\r\n?\r\n");
    net.flush_all();
    let got = outbound.got(&net, "RMSG");
    assert!(got[0].starts_with("RMSG $G svc _GR_.") && got[0].ends_with(".answers 1"), "{got:?}");
}

fn accounts(net: &Net, names: &[&str]) {
    let users = names.iter().map(|name| user(name, name, None)).collect::<Vec<_>>();
    let auth = AuthConfig::new(Method::Users(Users::new(users)));
    let accounts: Vec<_> = names.iter().map(|name| AccountConfig::named(name)).collect();
    net.broker.set_auth_and_accounts(net.broker.stage_auth_and_accounts(auth, &accounts).unwrap());
}

#[test]
fn interest_in_an_account_that_appears_can_be_withdrawn() {
    let net = with_gateway(Net::with(|setup| setup.users([user("a", "A", None)])));
    let [_inbound, mut outbound] = Wire::both(&net);
    outbound.says(&net, &[told("C", "goes"), told("C", "stays"), told("C", "early")].concat());
    outbound.says(&net, "RS- C early\r\n");
    accounts(&net, &["A", "C"]);
    // The link has not taken over yet what the reload has changed.
    outbound.says(&net, &(told("C", "goes") + "RS- C goes\r\n" + &told("C", "new") + "RS- C new\r\n"));
    outbound.link.take_known_accounts();
    assert_eq!(outbound.link.subscriptions(), 1);
    let mut client = net.peer_as(0, &login("C"));
    client.send("PUB goes 1\r\nx\r\nPUB new 1\r\nx\r\nPUB early 1\r\nx\r\nPUB stays 1\r\nx\r\n");
    net.flush_all();
    assert_eq!(outbound.got(&net, "RMSG"), ["RMSG C stays 1"]);
}

/// Subjects of an account that is not here come and go without an end.
#[test]
fn interest_in_an_account_that_is_not_here_is_given_back() {
    let net = net();
    let [_inbound, mut outbound] = Wire::both(&net);
    let subject = vec![b'x'; 100_000];
    let wish = PeerInterest { account: b"NOWHERE", ..interest(&subject) };
    for _ in 0..30_000 {
        outbound.link.subscribe_gateway(&wish).expect("it is not more than one at once");
        outbound.link.unsubscribe_gateway(&wish);
    }
}

/// An account that is gone and comes again is told of as a new one.
#[test]
fn accounts_that_are_gone_are_forgotten() {
    let net = with_gateway(Net::with(|setup| setup.users([user("a", "A", None)])));
    let [inbound, _outbound] = Wire::both(&net);
    let has = |name: &str| inbound.link.conn().gateway_accounts().iter().any(|known| known.name == name);
    assert!(has("A"));
    for _ in 0..2 {
        accounts(&net, &["A", "C"]);
        assert!(has("A") && has("C"));
        accounts(&net, &["A"]);
        assert!(has("A") && !has("C"));
    }
    let commands = inbound.got(&net, "gateway_cmd");
    let of_c = |number: u8| {
        let part = format!("\"gateway_cmd\":{number},\"gateway_cmd_payload\":\"Qw==\"");
        commands.iter().filter(|line| line.contains(&part)).count()
    };
    assert_eq!((of_c(2), of_c(3)), (2, 2), "{commands:?}");
}

/// A group that another server has chosen here is served by a leaf node of this one, if any has a
/// member. A hub has got the message from the other server already: what is wanted there beside the
/// group would come twice.
#[test]
fn a_group_that_another_server_has_chosen_is_not_served_by_the_hub() {
    let net = Net::new();
    let (mut leaf, mut hub) = (Wire::leaf(&net, LeafRole::Hub), Wire::leaf(&net, LeafRole::Spoke));
    let (link, sink) = routed(&net);
    let mut route = Wire { link, sink };
    leaf.says(&net, "LS+ work group 1\r\n");
    hub.says(&net, "LS+ work group 1\r\nLS+ work\r\n");
    for _ in 0..40 {
        route.says(&net, "RMSG $G work | group 1\r\n?\r\n");
    }
    assert_eq!([leaf.got(&net, "LMSG").len(), hub.got(&net, "LMSG").len()], [40, 0]);
    leaf.link.end(CloseReason::ReadError).run();
    // A member behind another server, which wants the message beside the group as the hub does not.
    hub.says(&net, "LS- work\r\n");
    let (link, sink) = routed(&net);
    let mut other = Wire { link, sink };
    other.says(&net, "LS+ FAR $G work group 1\r\nRS+ $G work\r\n");
    route.says(&net, "RMSG $G work | group 1\r\n?\r\n");
    assert_eq!([other.got(&net, "RMSG").len(), hub.got(&net, "LMSG").len()], [1, 0]);
    other.link.end(CloseReason::ReadError).run();
    route.says(&net, "RMSG $G work | group 1\r\n?\r\n");
    assert_eq!(hub.got(&net, "LMSG"), ["LMSG work | group 1"], "nobody else is left");
}

/// Interest in an account that is gone is withdrawn as its clients go.
#[test]
fn interest_in_an_account_that_is_gone_is_withdrawn() {
    let net = with_gateway(Net::with(|setup| setup.users([user("a", "A", None), user("c", "C", None)])));
    let [inbound, _outbound] = Wire::both(&net);
    let mut client = net.peer_as(0, &login("c"));
    client.send("SUB svc 1\r\nSUB svc group 2\r\n");
    net.flush_all();
    let mut wanted = inbound.got(&net, "RS+ C ");
    wanted.sort();
    assert_eq!(wanted, ["RS+ C svc", "RS+ C svc group 1"]);
    accounts(&net, &["A"]);
    client.leave();
    let mut gone = inbound.got(&net, " C ");
    gone.sort();
    assert_eq!(gone, ["RS- C svc", "RS- C svc group"]);
}

/// An account that is taken away and comes back before its clients have noticed is told with what
/// they want, also over a link that has come meanwhile. What a client of before gives up stays
/// wanted by one that has come since.
#[test]
fn an_account_that_comes_back_at_once_is_told_as_it_is() {
    let net = with_gateway(Net::with(|setup| setup.users([user("a", "A", None), user("c", "C", None)])));
    let [inbound, _outbound] = Wire::both(&net);
    let mut before = net.peer_as(0, &login("c"));
    before.send("SUB svc 1\r\nSUB old 2\r\n");
    net.flush_all();
    let wanted = |wire: &Wire| {
        let mut lines = wire.got(&net, " C ");
        lines.sort();
        lines.join(", ")
    };
    assert_eq!(wanted(&inbound), "RS+ C old, RS+ C svc");
    accounts(&net, &["A"]);
    let late = Wire::gateway(&net, "A", GatewaySide::Inbound, true);
    assert_eq!(wanted(&late), "");
    accounts(&net, &["A", "C"]);
    assert_eq!(wanted(&late), "RS+ C old, RS+ C svc");
    let has = |wire: &Wire| wire.link.conn().gateway_accounts().iter().any(|known| known.name == "C");
    assert!(has(&inbound) && has(&late));
    let mut since = net.peer_as(0, &login("C"));
    since.send("SUB svc 1\r\n");
    net.flush_all();
    wanted(&inbound);
    before.leave();
    assert_eq!([wanted(&inbound), wanted(&late)], ["RS- C old", "RS- C old"]);
}

/// Of several clusters with members of a queue group the nearest gets a message, by what round
/// trips were measured last.
#[test]
fn the_nearest_cluster_serves_a_queue_group() {
    let net = net();
    let mut far: Vec<Wire> = ["A", "C", "D"]
        .map(|name| Wire::gateway(&net, name, GatewaySide::Outbound, true))
        .into_iter()
        .collect();
    far.iter_mut().for_each(|wire| wire.says(&net, "RS+ $G work group 1\r\n"));
    let mut client = client(&net, "");
    let mut served = |far: &[Wire], times: [u64; 3]| {
        for (wire, time) in far.iter().zip(times) {
            wire.link.note_round_trip(Duration::from_millis(time));
        }
        client.publish("work", "x");
        net.flush_all();
        far.iter().map(|wire| wire.got(&net, "RMSG").len()).collect::<Vec<_>>()
    };
    assert_eq!(served(&far, [30, 10, 20]), [0, 1, 0]);
    assert_eq!(served(&far, [5, 10, 20]), [1, 0, 0]);
    // Without the nearest the next one has its turn.
    far[0].link.end(CloseReason::ReadError).run();
    assert_eq!(served(&far[1..], [30, 20, 0]), [0, 1]);
}

#[test]
fn replies_to_an_inbox_go_where_others_of_its_replies_are_not_wanted() {
    let net = net();
    let mut outbound = Wire::gateway(&net, "A", GatewaySide::Outbound, false);
    outbound.says(&net, "RS- $G _INBOX.abc.1\r\n");
    let mut client = net.peer(0);
    for _ in 0..3 {
        client.send("PUB _INBOX.abc.1 1\r\nx\r\n");
    }
    client.send("PUB _INBOX.abc.2 1\r\nx\r\n");
    assert_eq!(outbound.got(&net, "RMSG"), ["RMSG $G _INBOX.abc.2 1"]);
}

/// Takes nothing of what it is handed.
struct Nobody {
    account: Arc<Account>,
    now: Instant,
}

impl Service for Nobody {
    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        for (at, msg) in msgs.iter().enumerate() {
            let origin = msgs.origin(at).expect("it is asked for");
            shard.send_no_responders(&self.account, origin, &msg, self.now);
        }
    }

    fn wants_origin(&self) -> bool {
        true
    }
}

/// As one of this server does. Its own server found interest, and says nothing.
#[test]
fn a_client_behind_a_link_hears_that_a_service_does_not_take_its_message() {
    let net = net();
    let account = net.broker.account("$G").expect("it is there");
    let nobody = Arc::new(Nobody { account: Arc::clone(&account), now: net.now() });
    let _binding = account.bind(b"gone", nobody as Arc<dyn Service>);
    let mut peer = net.peer_as(0, r#""headers":true,"no_responders":true"#);
    peer.send("SUB _INBOX.c 1\r\nPUB gone _INBOX.c 1\r\n?\r\n");
    net.flush_all();
    let header = "NATS/1.0 503\r\nNats-Subject: gone\r\n\r\n";
    assert_eq!(peer.received(), format!("HMSG _INBOX.c 1 36 36\r\n{header}\r\n"));
    let (link, sink) = routed(&net);
    let mut route = Wire { link, sink };
    route.says(&net, "RS+ $G _INBOX.r\r\nRMSG $G gone _INBOX.r 1\r\n?\r\nRMSG $G gone 1\r\n?\r\n");
    assert_eq!(route.got(&net, "MSG"), ["HMSG $G _INBOX.r 36 36"]);
    let mut leaf = Wire::leaf(&net, LeafRole::Hub);
    leaf.says(&net, "LS+ _INBOX.l\r\nLMSG gone _INBOX.l 1\r\n?\r\n");
    assert_eq!(leaf.got(&net, "MSG"), ["HMSG _INBOX.l 36 36"]);
    let [mut inbound, outbound] = Wire::both(&net);
    let reply = of_a("_INBOX.g");
    inbound.says(&net, &format!("RMSG $G gone {reply} 1\r\n?\r\n"));
    assert_eq!(outbound.got(&net, "MSG"), [format!("HMSG $G {reply} 36 36")]);
}

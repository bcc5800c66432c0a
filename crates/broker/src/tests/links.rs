//! Links to other servers: what their other side wants and sends.

use super::net::{Net, login, user};
use super::protocol_log::traced;
use crate::cluster::LinkTerms;
use crate::conn_details::Endpoint;
use crate::imports::AccountConfig;
use crate::jwt_accounts::{JwtAccounts, Resolver};
use crate::link::{Link, LinkScope};
use crate::service::{Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use crate::tests::sink::FakeSink;
use myelin_auth::operator::Trust;
use myelin_auth::{AuthConfig, Method, Users};
use myelin_stdx::nkey::{self, Role};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::parser::{self, Parsed, PeerLimits, PeerOp};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// A link with another server of the cluster whose handshake is over, and what is written to it.
pub(super) fn routed(net: &Net) -> (Link, FakeSink) {
    net.broker.form_cluster(LinkTerms { pool_size: 1, dedicated: Vec::new() });
    let sink = FakeSink::default();
    let endpoint = Endpoint { peer: ([127, 0, 0, 1], 5).into(), start: SystemTime::UNIX_EPOCH };
    let conn = net.broker.connect_link(endpoint, Box::new(sink.clone()));
    let mut link = Link::new(&net.broker, &conn);
    link.begin(LinkScope::All, true).expect("no account is needed").run();
    (link, sink)
}

/// A link whose handshake is over, and what is written to it.
struct Wire {
    link: Link,
    sink: FakeSink,
}

impl Wire {
    fn new(net: &Net) -> Self {
        let (link, sink) = routed(net);
        Self { link, sink }
    }

    /// The other side says this.
    fn hears(&mut self, net: &Net, said: &str) {
        self.hears_of(net, said, false);
    }

    /// The other side, which names the origin of leaf nodes, says this.
    fn hears_leaf(&mut self, net: &Net, said: &str) {
        self.hears_of(net, said, true);
    }

    fn hears_of(&mut self, net: &Net, said: &str, names_origin: bool) {
        let limits = PeerLimits {
            max_line: 4096,
            max_payload: 4096,
            is_dedicated: false,
            names_origin,
            is_leaf: false,
        };
        let mut rest = said.as_bytes();
        while !rest.is_empty() {
            let Ok(Parsed::Op(op, len)) = parser::next(rest, &limits) else { panic!("{said}") };
            match op {
                PeerOp::Interest(interest) => self.link.subscribe(&interest).expect("it may"),
                PeerOp::NoInterest(interest) => self.link.unsubscribe(&interest),
                PeerOp::Message(message) => {
                    self.link.publish(&mut net.shards[0].borrow_mut(), &message, None, net.now());
                }
                other => panic!("{other:?}"),
            }
            rest = &rest[len..];
        }
        net.flush_all();
    }

    /// Interest that was announced on it.
    fn announced(&self, net: &Net) -> String {
        net.shards[0].borrow_mut().flush_link(self.link.conn());
        net.flush_all();
        let all = String::from_utf8(self.sink.take()).unwrap();
        all.split_inclusive("\r\n").filter(|line| line.starts_with("RS")).collect()
    }

    /// Messages that were written to it.
    fn got(&self) -> String {
        let all = String::from_utf8(self.sink.take()).unwrap();
        all.split_inclusive("\r\n").filter(|line| !line.starts_with("RS")).collect()
    }
}

#[test]
fn interest_in_an_account_that_is_gone_can_be_withdrawn() {
    let auth = || AuthConfig::new(Method::Users(Users::new(vec![user("a", "A", None)])));
    let net = Net::with(|setup| setup.users([user("a", "A", None)]));
    let mut wire = Wire::new(&net);
    // Somebody holds the account while it is gone: it comes back as it was.
    let held = net.broker.account("A").expect("it is configured");
    wire.hears(&net, "RS+ A stays\r\nRS+ A goes\r\n");
    let none = AuthConfig::new(Method::Users(Users::new(Vec::new())));
    net.broker.set_auth_and_accounts(net.broker.stage_auth_and_accounts(none, &[]).unwrap());
    assert!(net.broker.account("A").is_none());
    wire.hears(&net, "RS- A goes\r\nRS- A never\r\nRS- B goes\r\n");
    let accounts = [AccountConfig::named("A")];
    net.broker.set_auth_and_accounts(net.broker.stage_auth_and_accounts(auth(), &accounts).unwrap());
    assert!(Arc::ptr_eq(&held, &net.broker.account("A").expect("it is back")));
    assert_eq!(wire.link.subscriptions(), 1);
    let mut client = net.peer_as(0, &login("a"));
    client.send("PUB goes 1\r\nx\r\nPUB stays 1\r\ny\r\n");
    net.flush_all();
    assert_eq!(wire.got(), "RMSG A stays 1\r\ny\r\n");
}

#[test]
fn a_group_that_has_no_member_here_any_more_gets_its_message_elsewhere() {
    let net = Net::new();
    let [mut from, mut to, mut plain] = [Wire::new(&net), Wire::new(&net), Wire::new(&net)];
    plain.hears(&net, "RS+ $G work\r\nRS+ $G work q 1\r\nRS+ $G work r 1\r\n");
    from.hears(&net, "RS+ $G work q 1\r\nRS+ $G work here 1\r\nRS+ $G work alone 1\r\n");
    to.hears(&net, "RS+ $G work q 1\r\nRS+ $G work here 1\r\n");
    let got = |wires: [&Wire; 3]| wires.map(Wire::got);
    // Nobody is here.
    from.hears(&net, "RMSG $G work | q 2\r\nhi\r\n");
    let expected = ["", "RMSG $G work | q _myelin.passed_on_ 2\r\nhi\r\n", ""];
    assert_eq!(got([&from, &to, &plain]), expected, "not back, and not where it was already");
    from.hears(&net, "HMSG $G work + reply q q 12 14\r\nNATS/1.0\r\n\r\nhi\r\n");
    let expected = ["", "HMSG $G work + reply q _myelin.passed_on_ 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", ""];
    assert_eq!(got([&from, &to, &plain]), expected);
    // One of the groups is here.
    let mut client = net.peer(0);
    client.send("SUB work here 1\r\nSUB work 2\r\n");
    net.flush_all();
    got([&from, &to, &plain]);
    from.hears(&net, "RMSG $G work | here q r 2\r\nhi\r\n");
    assert_eq!(client.received(), "MSG work 2 2\r\nhi\r\nMSG work 1 2\r\nhi\r\n");
    let expected = ["q", "r"].map(|group| format!("RMSG $G work | {group} _myelin.passed_on_ 2\r\nhi\r\n"));
    assert_eq!(got([&from, &to, &plain])[1..], expected);
    // What another server has passed on is for the group alone, and goes nowhere again.
    from.hears(&net, "RMSG $G work | here q _myelin.passed_on_ 2\r\nhi\r\n");
    assert_eq!(client.received(), "MSG work 1 2\r\nhi\r\n");
    assert_eq!(got([&from, &to, &plain]), [""; 3]);
    // Nobody is anywhere, or nobody was chosen.
    from.hears(&net, "RMSG $G work | none 2\r\nhi\r\nRMSG $G work 2\r\nhi\r\n");
    assert_eq!(got([&from, &to, &plain]), [""; 3]);
    // All are where it comes from.
    from.hears(&net, "RMSG $G work | alone none 2\r\nhi\r\n");
    let expected = ["RMSG $G work | alone _myelin.passed_on_ 2\r\nhi\r\n", "", ""];
    assert_eq!(got([&from, &to, &plain]), expected, "back, rather than nowhere");
}

#[test]
fn what_a_client_leaves_behind_is_told_once_for_each_group() {
    let net = Net::new();
    let wire = Wire::new(&net);
    let mut stays = net.peer(0);
    stays.send("SUB both q 1\r\n");
    let mut goes = net.peer(0);
    for sid in 0..100 {
        goes.send(format!("SUB both q {sid}\r\nSUB own q 1{sid:02}\r\n"));
    }
    goes.send("SUB plain 300\r\n");
    net.flush_all();
    wire.announced(&net);
    goes.leave();
    net.flush_all();
    let mut told: Vec<_> = wire.announced(&net).lines().map(str::to_owned).collect();
    told.sort_unstable();
    assert_eq!(told, ["RS+ $G both q 1", "RS- $G own q", "RS- $G plain"]);
}

/// Routes that are known have a shorter way for most messages.
#[test]
fn a_message_is_delivered_alike_whether_its_route_is_known_or_not() {
    let net = Net::new();
    let mut wire = Wire::new(&net);
    let [mut wild, mut exact, mut limited, mut member] = [0, 1, 0, 1].map(|shard| net.peer(shard));
    wild.send("SUB a.* 1\r\n");
    exact.send("SUB a.b 2\r\n");
    limited.send("SUB a.c 3\r\nUNSUB 3 3\r\n");
    member.send("SUB a.b group 4\r\n");
    net.flush_all();
    let message = |head: &str| format!("{head} 2\r\nhi\r\n");
    for round in 0..6 {
        let heads = ["a.b", "a.b _INBOX.x", "a.b _R_.x", "a.b reply", "a.b | group", "a.c", "no.one"];
        let said: String = heads.iter().map(|head| message(&format!("RMSG $G {head}"))).collect();
        let shown = "a.b $JS.ACK.S.C.1.2.3.4.5@shown";
        let headers = "HMSG $G a.b 12 14\r\nNATS/1.0\r\n\r\nhi\r\n";
        wire.hears(&net, &format!("{said}{}{headers}", message(&format!("RMSG $G {shown}"))));
        let of = |sid: u32| {
            let plain = [String::new(), " _INBOX.x".into(), " _R_.x".into(), " reply".into(), String::new()];
            let plain = plain.map(|reply| message(&format!("MSG a.b {sid}{reply}"))).concat();
            let others = if sid == 1 { message("MSG a.c 1") } else { String::new() };
            let shown = message(&format!("MSG shown {sid} $JS.ACK.S.C.1.2.3.4.5"));
            format!("{plain}{others}{shown}HMSG a.b {sid} 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
        };
        assert_eq!(wild.received(), of(1), "round {round}");
        assert_eq!(exact.received(), of(2), "round {round}");
        assert_eq!(limited.received(), if round < 3 { message("MSG a.c 3") } else { String::new() });
        assert_eq!(member.received(), message("MSG a.b 4"), "round {round}");
    }
}

/// Interest in one subject, of several links, groups and clusters of leaf nodes: so many that they
/// are not looked through.
#[test]
fn interest_is_told_apart_by_link_group_and_origin() {
    let net = Net::new();
    let [mut one, mut other] = [Wire::new(&net), Wire::new(&net)];
    let lines = |verb: &str, weight: &str| -> String {
        let groups = (0..40).map(|n| format!("{verb} $G work q{n}{weight}\r\n"));
        let leaf = verb.replace('R', "L");
        let origins = (0..40).map(|n| format!("{leaf} O{n} $G work q{weight}\r\n"));
        groups.chain(origins).collect()
    };
    for wire in [&mut one, &mut other] {
        // What is said twice counts once.
        wire.hears(&net, &lines("RS+", " 1").repeat(2));
        wire.hears(&net, "RS+ $G work\r\nRS+ $G work\r\nRS+ $G w.*\r\nRS+ $G w.*\r\n");
    }
    let account = net.broker.account("$G").expect("it is always there");
    assert_eq!([&one, &other].map(|wire| wire.link.subscriptions()), [82; 2]);
    assert_eq!(account.remote_subscriptions().0, 164);
    // Withdrawn in another order than it came.
    one.hears(&net, "RS- $G w.*\r\nRS- $G work\r\nRS- $G work\r\nRS- $G never\r\nRS- $G work q77\r\n");
    one.hears_leaf(&net, &lines("RS-", ""));
    assert_eq!([&one, &other].map(|wire| wire.link.subscriptions()), [0, 82]);
    assert_eq!(account.remote_subscriptions().0, 82);
    let mut client = net.peer(0);
    client.send("PUB work 1\r\nx\r\nPUB w.x 1\r\ny\r\n");
    net.flush_all();
    assert_eq!(one.got(), "");
    let got = other.got();
    assert!(got.starts_with("RMSG $G work | q q0 q1 ") && got.ends_with("RMSG $G w.x 1\r\ny\r\n"), "{got}");
}

#[test]
fn a_message_names_its_groups_in_one_order() {
    for groups in [["bar", "baz", "foo"], ["foo", "baz", "bar"]] {
        let net = Net::new();
        let mut wire = Wire::new(&net);
        groups.iter().for_each(|group| wire.hears(&net, &format!("RS+ $G work {group} 1\r\n")));
        let mut client = net.peer(0);
        client.send("PUB work 2\r\nhi\r\n");
        net.flush_all();
        assert_eq!(wire.got(), "RMSG $G work | bar baz foo 2\r\nhi\r\n");
    }
}

#[test]
fn what_other_servers_want_is_counted_apart() {
    let net = Net::new();
    let mut wire = Wire::new(&net);
    wire.hears(&net, "RS+ $G a\r\nRS+ $G b q 7\r\nRS- $G a\r\n");
    let account = net.broker.account("$G").expect("it is always there");
    assert_eq!((account.subscriptions(), account.remote_subscriptions()), (0, (1, 2)));
}

#[test]
fn members_behind_leaf_nodes_have_their_turn_where_no_client_is_one() {
    let net = Net::new();
    let [mut near, mut far] = [Wire::new(&net), Wire::new(&net)];
    let mut publisher = net.peer(0);
    let mut published = |near: &Wire, far: &Wire| {
        publisher.send("PUB work 1\r\nx\r\n".repeat(50));
        net.flush_all();
        [near, far].map(|wire| wire.got().matches("RMSG $G work | q 1\r\nx\r\n").count())
    };
    far.hears(&net, "LS+ HUB $G work q 1000\r\n");
    assert_eq!(published(&near, &far), [0, 50], "they are all that there are");
    near.hears(&net, "RS+ $G work q 1\r\n");
    assert_eq!(published(&near, &far), [50, 0], "a client of a server is preferred");
    far.hears(&net, "RS+ $G work q 1\r\n");
    let [one, other] = published(&near, &far);
    assert!(one + other == 50 && one > 5 && other > 5, "{one} and {other}: clients have the same chance");
    near.hears(&net, "RS- $G work q\r\n");
    far.hears(&net, "RS- $G work q\r\n");
    let mut client = net.peer(0);
    client.send("SUB work q 1\r\n");
    net.flush_all();
    assert_eq!(published(&near, &far), [0, 0], "a client here is preferred");
    assert_eq!(client.received().matches("MSG work 1 1").count(), 50);
}

struct NoTokens;

impl Resolver for NoTokens {
    fn fetch(&self, _: &str) -> Result<String, String> {
        Err("none".to_owned())
    }
}

#[test]
fn only_an_account_with_a_key_is_expected() {
    let net = Net::new();
    net.broker.trust(JwtAccounts::new(Arc::new(Trust::default()), Arc::new(NoTokens)));
    let mut wire = Wire::new(&net);
    let [account, user] = [Role::Account, Role::User].map(|role| nkey::encode(role, &[7; 32]));
    for name in ["A", "x", &user, &account[1..]] {
        wire.hears(&net, &format!("RS+ {name} subject\r\n"));
    }
    assert_eq!(wire.link.subscriptions(), 0);
    wire.hears(&net, &format!("RS+ {account} subject\r\n"));
    assert_eq!(wire.link.subscriptions(), 1);
    wire.hears(&net, &format!("RS- {account} subject\r\n"));
    assert_eq!(wire.link.subscriptions(), 0);
}

#[test]
fn a_link_wakes_its_shard_once_until_that_looks() {
    let net = Net::new();
    let wire = Wire::new(&net);
    let conn = wire.link.conn();
    conn.has_woken();
    let before = wire.sink.wakes();
    wire.link.say(b"PING\r\n");
    assert_eq!(wire.sink.wakes(), before + 1);
    // Another shard flushes it meanwhile.
    net.shards[1].borrow_mut().flush_link(conn);
    net.flush(1);
    assert_eq!(wire.got(), "PING\r\n");
    wire.link.say(b"PONG\r\n");
    assert_eq!(wire.sink.wakes(), before + 1, "the mail waits");
    conn.has_woken();
    net.shards[0].borrow_mut().flush_link(conn);
    net.flush(0);
    assert_eq!(wire.got(), "PONG\r\n");
    wire.link.say(b"PING\r\n");
    assert_eq!(wire.sink.wakes(), before + 2);
}

/// Faults of the other side are said once, and counted then, each kind for itself.
#[test]
fn a_million_faults_of_a_peer_are_a_few_lines() {
    let (net, log) = traced(|_| {});
    let mut wire = Wire::new(&net);
    let faults = |wire: &mut Wire, count: usize| {
        for at in 0..count {
            let verbs = [format!("RS+ no{at} a"), format!("RS- no{at} a"), format!("RMSG no{at} a 1\r\nx")];
            verbs.iter().for_each(|verb| wire.hears(&net, &format!("{verb}\r\n")));
        }
        wire.hears(&net, &"RS+ $G a..b\r\n".repeat(count));
        wire.link.heard(net.now(), net.now());
        let lines = log.take();
        lines.iter().map(|line| line.split_once(" - ").expect("a link").1.to_owned()).collect::<Vec<_>>()
    };
    let [unknown, end] = ["Unknown account", "Could not insert subscription"];
    let first = [
        "rid:1 - Unknown account \"no0\" for remote subject \"a\"",
        "rid:1 - Unknown account \"no0\" for subject \"a\"",
        "rid:1 - Unknown account \"no0\" for routed message on subject: \"a\"",
        "rid:1 - Could not insert subscription: nats: invalid subject",
    ];
    assert_eq!(faults(&mut wire, 1000), first);
    net.advance(Duration::from_secs(9));
    assert_eq!(faults(&mut wire, 1000), [""; 0]);
    net.advance(Duration::from_secs(1));
    let counts = |count: usize| {
        let of = |what: &str| format!("rid:1 - {what}: {count} more");
        [
            of(&format!("{unknown} for remote subject")),
            of(&format!("{unknown} for subject")),
            of(&format!("{unknown} for routed message")),
            of(end),
        ]
    };
    assert_eq!(faults(&mut wire, 1), counts(2000));
    // What is wrong later is named again, and one of a kind is not counted.
    assert_eq!(faults(&mut wire, 1), first);
    net.advance(Duration::from_secs(10));
    assert_eq!(faults(&mut wire, 0), [""; 0]);
    assert_eq!(faults(&mut wire, 5), first);
    wire.link.end(CloseReason::ParseError).run();
    let last: Vec<_> =
        log.take().into_iter().map(|line| line.split_once(" - ").unwrap().1.to_owned()).collect();
    assert_eq!(last, counts(4));
}

#[test]
fn the_protocol_log_has_no_secrets_of_other_servers() {
    let (net, log) = traced(|_| {});
    let wire = Wire::new(&net);
    log.take();
    let json = r#"{"user":"u","pass":"p4ss","auth_token":"t0ken","nkey":"UKEY","sig":"s1g","name":"n"}"#;
    let line = format!("CONNECT {json}\r\n");
    wire.link.log_in(&PeerOp::Connect(json.as_bytes()), line.as_bytes());
    let lines = log.take();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains(r#"<<- [CONNECT {"user":"u","pass":"[REDACTED]""#), "{line}");
    for secret in ["p4ss", "t0ken", "UKEY", "s1g"] {
        assert!(!line.contains(secret), "{line}");
    }
}

/// Notes the subjects of what it gets.
#[derive(Default)]
struct Taker(Mutex<Vec<String>>);

impl Service for Taker {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let subjects = msgs.iter().map(|msg| String::from_utf8_lossy(msg.subject).into_owned());
        self.0.lock().unwrap().extend(subjects);
    }
}

impl Taker {
    fn took(&self) -> usize {
        std::mem::take(&mut *self.0.lock().unwrap()).len()
    }
}

/// One member of the group gets each message: the service here, or one on another server.
#[test]
fn a_service_can_be_a_member_of_a_queue_group() {
    let net = Net::new();
    let [mut wire, mut other] = [Wire::new(&net), Wire::new(&net)];
    let (account, taker) = (net.broker.account("$G").expect("it is there"), Arc::<Taker>::default());
    let binding = account.bind_member(b"get.*", b"g", Arc::clone(&taker) as Arc<dyn Service>);
    assert_eq!(wire.announced(&net), "RS+ $G get.* g 1\r\n");
    other.got();
    wire.hears(&net, "RS+ $G get.* g 1\r\nRS+ $G get.* h 1\r\n");
    let mut client = net.peer(0);
    client.send("PUB get.a 1\r\nx\r\n");
    net.flush_all();
    let got = (taker.took(), wire.got(), other.got());
    assert_eq!(got, (1, "RMSG $G get.a | h 1\r\nx\r\n".into(), String::new()), "here, and the other group");
    // What other servers have chosen it for, and nothing else.
    other.hears(&net, "RMSG $G get.b | g 1\r\nx\r\nRMSG $G get.b 1\r\nx\r\nRMSG $G get.b | i 1\r\nx\r\n");
    assert_eq!((taker.took(), wire.got()), (1, String::new()));
    account.unbind(&binding);
    assert_eq!(wire.announced(&net), "RS- $G get.* g\r\n");
    other.got();
    client.send("PUB get.a 1\r\nx\r\n");
    other.hears(&net, "RMSG $G get.b | g 1\r\nx\r\n");
    let passed = "RMSG $G get.a | g h 1\r\nx\r\nRMSG $G get.b | g _myelin.passed_on_ 1\r\nx\r\n";
    assert_eq!((taker.took(), wire.got()), (0, passed.to_owned()));
}

/// Where no other group is over there, nothing goes there.
#[test]
fn a_member_here_keeps_the_message_from_links_that_want_it_for_its_group() {
    let net = Net::new();
    let mut wire = Wire::new(&net);
    let (account, taker) = (net.broker.account("$G").expect("it is there"), Arc::<Taker>::default());
    account.bind_member(b"get", b"g", Arc::clone(&taker) as Arc<dyn Service>);
    wire.hears(&net, "RS+ $G get g 1\r\n");
    wire.got();
    let mut client = net.peer(0);
    client.send("PUB get 1\r\nx\r\n");
    net.flush_all();
    assert_eq!((taker.took(), wire.got()), (1, String::new()));
    wire.hears(&net, "RS+ $G get\r\n");
    client.send("PUB get 1\r\nx\r\n");
    net.flush_all();
    assert_eq!((taker.took(), wire.got()), (1, "RMSG $G get 1\r\nx\r\n".to_owned()));
}

/// Keeps the headers of what it takes.
#[derive(Default)]
struct HeaderTaker(Mutex<Vec<String>>);

impl Service for HeaderTaker {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let headers = msgs.iter().map(|msg| String::from_utf8_lossy(msg.headers).into_owned());
        self.0.lock().unwrap().extend(headers);
    }
}

/// The server that answers audits who has asked.
#[test]
fn a_request_to_jetstream_says_to_servers_of_ours_who_has_sent_it() {
    let net = Net::new();
    let [mut kin, mut other] = [Wire::new(&net), Wire::new(&net)];
    kin.link.meet_kin();
    for wire in [&mut kin, &mut other] {
        wire.hears(&net, "RS+ $G $JS.API.>\r\nRS+ $G x\r\n");
    }
    let mut peer = net.peer_as(0, r#""headers":true,"name":"me""#);
    let id = peer.conn().cid();
    peer.send("PUB $JS.API.INFO r 1\r\n?\r\nPUB x 1\r\n!\r\n");
    net.flush_all();
    assert_eq!(other.got(), "RMSG $G $JS.API.INFO r 1\r\n?\r\nRMSG $G x 1\r\n!\r\n");
    let got = kin.got();
    assert!(got.starts_with("HMSG $G $JS.API.INFO r "), "{got}");
    let said = format!(r#""id":{id},"acc":"$G","name":"me""#);
    assert!(got.contains("\r\nNATS/1.0\r\nMyelin-Client: {") && got.contains(&said), "{got}");
    assert!(got.ends_with("RMSG $G x 1\r\n!\r\n"), "nothing else says it: {got}");
    let forged = "NATS/1.0\r\nA: b\r\nmyelin-client: {\"id\":4711}\r\n\r\n";
    peer.send(format!("HPUB $JS.API.INFO {0} {0}\r\n{forged}\r\n", forged.len()));
    net.flush_all();
    let got = kin.got();
    assert!(got.contains("A: b\r\nMyelin-Client: {") && !got.contains("4711"), "{got}");
}

#[test]
fn who_has_sent_a_request_to_jetstream_is_told_to_services_alone() {
    let net = Net::new();
    let [mut kin, mut other] = [Wire::new(&net), Wire::new(&net)];
    kin.link.meet_kin();
    let taker = Arc::new(HeaderTaker::default());
    let account = net.broker.account("$G").expect("it is there");
    let _binding = account.bind(b"$JS.API.>", Arc::clone(&taker) as Arc<dyn Service>);
    let mut peer = net.peer_as(0, r#""headers":true"#);
    peer.send("SUB $JS.> 1\r\n");
    net.flush_all();
    peer.received();
    let hears = |wire: &mut Wire, header: &str| {
        let (header_len, all) = (header.len(), header.len() + 1);
        wire.hears(&net, &format!("HMSG $G $JS.API.INFO r {header_len} {all}\r\n{header}?\r\n"));
        (peer.received(), std::mem::take(&mut *taker.0.lock().unwrap()).concat())
    };
    let asker = "Myelin-Client: {\"id\":7}\r\n";
    let alone = format!("NATS/1.0\r\n{asker}\r\n");
    assert_eq!(hears(&mut kin, &alone), ("MSG $JS.API.INFO 1 r 1\r\n?\r\n".to_owned(), alone.clone()));
    let with_own = format!("NATS/1.0\r\nA: b\r\n{asker}\r\n");
    let own = "NATS/1.0\r\nA: b\r\n\r\n";
    let shown = format!("HMSG $JS.API.INFO 1 r {} {}\r\n{own}?\r\n", own.len(), own.len() + 1);
    assert_eq!(hears(&mut kin, &with_own), (shown, with_own));
    let (shown, _) = hears(&mut other, &alone);
    assert!(shown.contains(asker), "of others it is a header like any: {shown}");
}

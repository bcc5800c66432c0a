//! Servers that take part in groups: which links they have beside the others, and with whom.

use super::{CONNECT, KeptBytes, LinkPair, Node, dial, told};
use crate::config::RouteUrl;
use crate::peers::{Dial, DialCause, LinkFacts, LinkState};
use crate::session::LinkSide;
use myelin_auth::{Permissions, SubjectRules};
use myelin_broker::{Endpoint, Service};
use myelin_wire::error::CloseReason;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use myelin_wire::peer::groups::{BULK_ACCOUNT, GroupServer, INTERNAL_ACCOUNTS, RAFT_ACCOUNT};
use myelin_wire::peer::info::{GossipMode, PeerInfo};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

/// A server that takes part in groups: its store is called `S` and its name.
fn member(name: &str, pool_size: u32) -> Node {
    let node = Node::with((name, "C"), false, pool_size, |config| {
        config.info.myelin =
            Some(GroupServer { store: format!("S{name}"), incarnation: 3, servers: Vec::new() });
        // Permissions of routes are about clients.
        let none = SubjectRules { allow: Vec::new(), deny: vec![">".into()] };
        config.permissions = Some(Arc::new(Permissions::new(Some(none.clone()), Some(none), None).unwrap()));
    });
    node.broker.make_internal_accounts(&INTERNAL_ACCOUNTS);
    node
}

impl Node {
    /// Stores that were linked or unlinked since the last time.
    fn heard(&self) -> Vec<String> {
        let heard = std::mem::take(&mut *self.notes.peers.lock().unwrap());
        let sign = |is_linked: bool| if is_linked { '+' } else { '-' };
        let told = heard.iter().map(|(is_linked, peer)| {
            let said = peer.said();
            format!("{}{} {}:{}", sign(*is_linked), said.account, said.store, said.incarnation)
        });
        told.collect()
    }

    /// Stores that are linked now.
    fn linked(&self, account: &str) -> Vec<String> {
        let linked = self.mesh.linked_peers(account);
        linked.iter().map(|peer| format!("{} {}", peer.said().name, peer.said().store)).collect()
    }
}

/// Accounts of the links that are to be dialled.
fn accounts(dials: &[Dial]) -> Vec<Option<&str>> {
    dials.iter().map(|dial| dial.account.as_deref()).collect()
}

/// Follows each dial until there are none.
fn follow(a: &mut Node, b: &mut Node, first: Dial) -> Vec<LinkPair> {
    let mut dials = std::collections::VecDeque::from([first]);
    let mut pairs = Vec::new();
    while let Some(dial) = dials.pop_front() {
        assert!(a.mesh.is_wanted(&dial), "{dial:?}");
        pairs.push(LinkPair::new(a, b, dial));
        dials.extend(a.notes.take());
    }
    pairs
}

/// The pair of an internal account.
fn of<'p>(pairs: &'p mut [LinkPair], account: &str) -> &'p mut LinkPair {
    let is = |pair: &&mut LinkPair| pair.dialler.0.known().facts().account.as_deref() == Some(account);
    pairs.iter_mut().find(is).expect("there is one")
}

#[test]
fn two_members_have_a_link_for_each_internal_account_beside_the_pool() {
    for sizes in [[3, 3], [0, 3], [3, 0], [0, 0], [1, 1]] {
        let [mut a, mut b] = [member("A", sizes[0]), member("B", sizes[1])];
        let mut pairs = follow(&mut a, &mut b, dial(None));
        assert!(pairs.iter().all(|pair| pair.ends == [None, None]), "{sizes:?}");
        assert!(b.notes.take().is_empty(), "who has dialled goes on to");
        let pool = if sizes.contains(&0) { 1 } else { sizes[0] as usize };
        assert_eq!(pairs.len(), pool + 2, "{sizes:?}");
        for node in [&a, &b] {
            assert_eq!(node.mesh.links().len(), pool + 2);
            let other = if node.mesh.config().info.id == "NA" { "B" } else { "A" };
            assert_eq!(node.linked(RAFT_ACCOUNT), [format!("{other} S{other}")]);
            assert_eq!(node.linked(BULK_ACCOUNT), [format!("{other} S{other}")]);
            let said = INTERNAL_ACCOUNTS.map(|account| format!("+{account} S{other}:3"));
            assert_eq!(node.heard(), said);
        }
        // The account goes over its own link only, whatever permissions routes have.
        let frames = Arc::<Frames>::default();
        let raft = |node: &Node| node.broker.internal_account(RAFT_ACCOUNT).unwrap();
        raft(&b).bind(b"SB.*", Arc::clone(&frames) as Arc<dyn Service>);
        pairs.iter_mut().for_each(|pair| pair.pump(&mut a, &mut b));
        let mut out = MessageBuf::default();
        out.push(MessageRef { subject: b"SB.SA", payload: b"vote", ..MessageRef::default() });
        a.shard.send(&raft(&a), &mut out, Instant::now());
        pairs.iter_mut().for_each(|pair| pair.pump(&mut a, &mut b));
        b.shard.flush();
        assert_eq!(*frames.0.lock().unwrap(), [b"vote"], "{sizes:?}");
        let received = |pair: &LinkPair| pair.acceptor.0.conn().received().0;
        assert_eq!(pairs.iter().map(received).sum::<u64>(), received(of(&mut pairs, RAFT_ACCOUNT)));
    }
}

/// Keeps the frames that it gets.
#[derive(Default)]
struct Frames(Mutex<Vec<Vec<u8>>>);

impl Service for Frames {
    fn serve(&self, batch: &mut myelin_broker::ServiceBatch, _: &mut myelin_broker::ServiceShard) {
        self.0.lock().unwrap().extend(batch.iter().map(|msg| msg.payload.to_vec()));
    }
}

#[test]
fn a_server_that_takes_no_part_sees_nothing_of_it() {
    for (mut a, mut b) in [
        (member("A", 3), Node::new("B", "C", false, 3)),
        (Node::new("A", "C", false, 3), member("B", 3)),
        (member("A", 0), Node::new("B", "C", false, 0)),
    ] {
        let pairs = follow(&mut a, &mut b, dial(None));
        assert!(pairs.iter().all(|pair| pair.dialler.0.known().facts().account.is_none()));
        // A member that dials one all the same is refused, and does not try again.
        let (from, to) =
            if a.mesh.config().info.myelin.is_some() { (&mut a, &mut b) } else { (&mut b, &mut a) };
        for account in INTERNAL_ACCOUNTS {
            let pair = LinkPair::new(
                from,
                to,
                Dial { server: Some(to.mesh.config().info.id.clone()), ..dial(Some(account)) },
            );
            assert!(pair.ends.contains(&Some(CloseReason::ProtocolViolation)), "{:?}", pair.ends);
            drop(pair);
        }
        let count = pairs.len();
        for node in [&a, &b] {
            assert!(node.heard().is_empty() && node.linked(RAFT_ACCOUNT).is_empty());
            assert_eq!(node.mesh.links().len(), count);
        }
        assert!(a.notes.take().is_empty() && b.notes.take().is_empty());
    }
}

#[test]
fn a_link_that_ends_is_told_and_dialled_again_while_the_server_is_there() {
    let [mut a, mut b] = ["A", "B"].map(|name| member(name, 1));
    let mut pairs = follow(&mut a, &mut b, dial(None));
    let _ = (a.heard(), b.heard());
    let end = |pair: &mut LinkPair| {
        pair.dialler.0.end(CloseReason::ReadError).expect("it was open").run();
        pair.acceptor.0.end(CloseReason::ClientClosed).expect("it was open").run();
    };
    end(of(&mut pairs, RAFT_ACCOUNT));
    assert_eq!((a.heard(), b.heard()), (vec!["-$RAFT SB:3".to_owned()], vec!["-$RAFT SA:3".to_owned()]));
    assert!(a.linked(RAFT_ACCOUNT).is_empty() && !a.linked(BULK_ACCOUNT).is_empty());
    let again = a.notes.take();
    assert_eq!(accounts(&again), [Some(RAFT_ACCOUNT)]);
    assert!(again[0].cause == DialCause::Ended && a.mesh.is_wanted(&again[0]) && b.notes.take().is_empty());
    let mut raft = LinkPair::new(&mut a, &mut b, again[0].clone());
    assert_eq!((a.heard(), b.heard()), (vec!["+$RAFT SB:3".to_owned()], vec!["+$RAFT SA:3".to_owned()]));
    assert!(!a.mesh.is_wanted(&again[0]), "there is one");
    drop(again);
    // Without a link of the pool there is nobody to dial: the next one brings the others.
    end(&mut pairs[0]);
    assert_eq!(accounts(&a.notes.take()), [None]);
    end(&mut raft);
    assert!(a.notes.take().is_empty(), "that server may be gone");
    assert_eq!(a.heard(), ["-$RAFT SB:3"]);
    let back = follow(&mut a, &mut b, dial(None));
    let of_accounts = back.iter().map(|pair| pair.dialler.0.known().facts().account).collect::<Vec<_>>();
    assert_eq!(of_accounts, [None, Some(RAFT_ACCOUNT.to_owned())], "the other account has kept its link");
    assert_eq!(a.linked(RAFT_ACCOUNT), ["B SB"]);
    // A server that stops dials nobody.
    a.mesh.stop();
    end(of(&mut pairs, BULK_ACCOUNT));
    assert!(a.notes.take().is_empty());
}

#[test]
fn a_dial_under_way_is_not_repeated() {
    let [mut a, mut b] = ["A", "B"].map(|name| member(name, 1));
    let pair = LinkPair::new(&mut a, &mut b, dial(None));
    let dials = a.notes.take();
    assert_eq!(accounts(&dials), [Some(RAFT_ACCOUNT), Some(BULK_ACCOUNT)]);
    let news =
        String::from_utf8(PeerInfo { id: "NB".into(), ..b.mesh.info(0, None, GossipMode::Default) }.line());
    let mut session = pair.dialler.0;
    assert_eq!(told(&mut a, &mut session, &news.clone().unwrap()), None);
    assert!(a.notes.take().is_empty());
    drop(dials);
    assert_eq!(told(&mut a, &mut session, &news.unwrap()), None);
    assert_eq!(a.notes.take().len(), 2, "they have come to nothing");
}

#[test]
fn members_that_dial_each_other_at_once_keep_one_link() {
    let [mut a, mut b] = ["A", "B"].map(|name| member(name, 2));
    let _pool = [LinkPair::new(&mut a, &mut b, dial(None)), LinkPair::new(&mut b, &mut a, dial(None))];
    let raft = |node: &Node| {
        let mut dials = node.notes.take();
        dials.retain(|dial| dial.account.as_deref() == Some(RAFT_ACCOUNT));
        dials.pop().expect("both have dialled")
    };
    let (of_a, of_b) = (raft(&a), raft(&b));
    let second = LinkPair::new(&mut b, &mut a, of_b.clone());
    assert_eq!(second.ends, [None, None]);
    let first = LinkPair::new(&mut a, &mut b, of_a);
    assert_eq!(first.ends, [None, None], "that of the lesser id takes the place");
    for session in [&second.dialler.0, &second.acceptor.0] {
        assert_eq!(session.conn().close_requested(), Some(CloseReason::DuplicateRoute));
    }
    for (mut session, _) in [second.dialler, second.acceptor] {
        session.end(CloseReason::DuplicateRoute).expect("it was open").run();
    }
    assert_eq!(
        (a.heard(), b.heard()),
        (vec!["+$RAFT SB:3".to_owned(); 2], vec!["+$RAFT SA:3".to_owned(); 2])
    );
    assert!(a.notes.take().is_empty() && b.notes.take().is_empty(), "what is too much is not dialled again");
    let late = LinkPair::new(&mut b, &mut a, of_b);
    assert!(late.ends.contains(&Some(CloseReason::DuplicateRoute)), "{:?}", late.ends);
    assert_eq!([&a, &b].map(|node| node.linked(RAFT_ACCOUNT).len()), [1, 1]);
    assert!(a.heard().is_empty() && b.heard().is_empty());
}

/// A reset that only one side sees.
#[test]
fn a_new_link_takes_the_place_of_one_that_its_dialler_has_lost() {
    for names in [["A", "B"], ["B", "A"]] {
        let [mut a, mut b] = names.map(|name| member(name, 1));
        let [of_a, of_b] = names.map(|name| format!("$RAFT S{name}:3"));
        let mut pairs = follow(&mut a, &mut b, dial(None));
        let _ = (a.heard(), b.heard());
        let lost = of(&mut pairs, RAFT_ACCOUNT);
        lost.dialler.0.end(CloseReason::ReadError).expect("it was open").run();
        let again = a.notes.take().pop().expect("it is dialled again");
        let pair = LinkPair::new(&mut a, &mut b, again);
        assert_eq!(pair.ends, [None, None]);
        let stale = &mut lost.acceptor.0;
        assert_eq!(stale.conn().close_requested(), Some(CloseReason::DuplicateRoute));
        stale.end(CloseReason::DuplicateRoute).expect("it was open").run();
        assert_eq!(b.heard(), [format!("+{of_a}")], "it is never without one");
        assert_eq!(a.heard(), [format!("-{of_b}"), format!("+{of_b}")]);
        assert!(b.mesh.linked_peers(RAFT_ACCOUNT)[0].is_open());
    }
}

/// One that has no JetStream sends requests of its clients to those that have.
#[test]
fn a_server_of_ours_that_takes_no_part_says_who_asks() {
    let node = |(name, go): (&str, &str)| {
        Node::with((name, "C"), false, 1, |config| go.clone_into(&mut config.info.go))
    };
    let [mut a, mut b] = [("A", "myelin 0.1.0"), ("B", "go1.25.4")].map(node);
    let pair = LinkPair::new(&mut a, &mut b, dial(None));
    let says = [pair.acceptor.0.conn().says_askers(), pair.dialler.0.conn().says_askers()];
    assert_eq!(says, [true, false]);
}

#[test]
fn a_server_that_says_otherwise_loses_its_links() {
    let [mut a, mut b] = ["A", "B"].map(|name| member(name, 1));
    let mut pairs = follow(&mut a, &mut b, dial(None));
    let info = b.mesh.info(0, None, GossipMode::Default);
    let says = |info: &PeerInfo| String::from_utf8(info.line()).unwrap();
    let session = &mut pairs[0].dialler.0;
    assert_eq!(told(&mut a, session, &says(&PeerInfo { myelin: None, ..info.clone() })), None);
    for pair in &pairs[1..] {
        assert_eq!(pair.dialler.0.conn().close_requested(), Some(CloseReason::RouteRemoved));
    }
    assert_eq!(pairs[0].dialler.0.conn().close_requested(), None, "all others stay");
    for pair in &mut pairs[1..] {
        pair.dialler.0.end(CloseReason::RouteRemoved).expect("it was open").run();
    }
    assert!(a.notes.take().is_empty() && a.linked(RAFT_ACCOUNT).is_empty());
    assert_eq!(told(&mut a, &mut pairs[0].dialler.0, &says(&info)), None);
    assert_eq!(accounts(&a.notes.take()), [Some(RAFT_ACCOUNT), Some(BULK_ACCOUNT)]);
}

#[test]
fn nobody_gets_in_by_the_name_of_the_account() {
    let mut a = member("A", 3);
    // A server that takes no part, or whose field makes no sense.
    for field in ["", r#","myelin":{"v":2,"store":"SX","incarnation":1,"raft":true}"#, r#","myelin":7"#] {
        let (mut session, kept) = a.open(LinkSide::Accepted, Instant::now());
        let info = format!(
            r#"INFO {{"server_id":"NX","route_account":"$RAFT","route_pool_size":3{field}}}{}"#,
            "\r\n"
        );
        let end = told(&mut a, &mut session, &format!("{CONNECT}{info}"));
        assert_eq!(end, Some(CloseReason::ProtocolViolation), "{field}");
        assert!(String::from_utf8_lossy(&kept.0.lock().unwrap()).contains("takes no part in groups"));
    }
    assert!(a.heard().is_empty() && a.mesh.links().is_empty());
    // Nor is one made by what is said on a link of the pool, or by gossip.
    let mut b = Node::new("B", "C", false, 3);
    let mut pair = LinkPair::new(&mut b, &mut a, dial(None));
    let request = PeerInfo {
        route_account: RAFT_ACCOUNT.into(),
        route_acc_add_reqid: "x".into(),
        route_pool_size: 3,
        ..PeerInfo::default()
    };
    let gossip = PeerInfo {
        id: "ND".into(),
        ip: "nats-route://10.0.0.7:1/".into(),
        route_account: RAFT_ACCOUNT.into(),
        ..PeerInfo::default()
    };
    for info in [request, gossip] {
        let said = String::from_utf8(info.line()).unwrap();
        assert_eq!(told(&mut a, &mut pair.acceptor.0, &said), None);
    }
    assert!(a.notes.take().is_empty());
    assert_eq!(a.mesh.links().len(), 1);
}

#[test]
fn gossip_tells_nothing_of_groups() {
    let [mut a, mut b, mut d] = ["A", "B", "D"].map(|name| member(name, 1));
    let mut with_b = follow(&mut b, &mut a, dial(None));
    let _with_d = follow(&mut d, &mut a, dial(None));
    b.notes.take();
    a.shard.flush_link(with_b[0].acceptor.0.conn());
    a.shard.flush();
    let said = String::from_utf8_lossy(&with_b[0].acceptor.1.0.lock().unwrap()).into_owned();
    assert!(said.contains("ND") && !said.contains("myelin"), "{said}");
    with_b.iter_mut().for_each(|pair| pair.pump(&mut b, &mut a));
    let told = b.notes.take();
    assert_eq!(accounts(&told), [None], "of the server, and not of its links for internal accounts");
    assert_eq!(told[0].url, RouteUrl { host: "10.0.0.9".into(), port: 1, login: None });
}

/// Members are told apart by their stores, which are called after servers: two of one name in
/// different clusters would be one.
#[test]
fn nobody_is_linked_who_is_called_as_a_server_of_another_cluster() {
    let node = member("A", 3);
    let enters = |cluster: &str, (name, id): (&str, &str)| {
        let endpoint = Endpoint { peer: "127.0.0.1:5".parse().unwrap(), start: SystemTime::now() };
        let conn = node.broker.connect_gateway(endpoint, Box::new(KeptBytes::default()));
        let link = LinkState::new(&conn, None, LinkFacts::default());
        link.set_foreign(cluster);
        let server = GroupServer { store: format!("S{name}"), incarnation: 1, servers: Vec::new() };
        let (id, name) = (id.to_owned(), name.to_owned());
        let info = PeerInfo { id, name, myelin: Some(server), ..PeerInfo::default() };
        node.mesh.enter_internal(&link, &info, RAFT_ACCOUNT).is_ok()
    };
    assert!(enters("B", ("X", "N1")) && enters("C", ("Y", "N2")));
    assert!(enters("B", ("X", "N3")), "it has begun anew, and its end was not seen yet");
    assert!(!enters("C", ("X", "N4")));
    assert!(!enters("B", ("A", "N5")), "so is this server called");
    assert_eq!(node.linked(RAFT_ACCOUNT), ["X SX", "Y SY", "X SX"]);
}

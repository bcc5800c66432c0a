//! Internal accounts: what servers say to each other for themselves, and who hears of it.

use super::net::{Net, Peer};
use super::sink::FakeSink;
use crate::account::Account;
use crate::cluster::LinkTerms;
use crate::conn_details::Endpoint;
use crate::link::linked_peer::{LinkedPeer, SaidPeer};
use crate::link::{Link, LinkScope};
use crate::service::{Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use myelin_wire::peer::groups::{INTERNAL_ACCOUNTS, RAFT_ACCOUNT};
use myelin_wire::peer::parser::{self, Parsed, PeerLimits, PeerOp};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// A member of groups: keeps the frames that it gets.
#[derive(Default)]
struct Frames(Mutex<Vec<String>>);

impl Service for Frames {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let frames = batch.iter().map(|msg| format!("{} {}", text(msg.subject), text(msg.payload)));
        self.0.lock().unwrap().extend(frames);
    }
}

impl Frames {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// One end of a link, and what is written to it.
struct End {
    link: Link,
    sink: FakeSink,
    is_dedicated: bool,
}

impl End {
    fn new(net: &Net, scope: LinkScope) -> Self {
        let sink = FakeSink::default();
        let endpoint = Endpoint { peer: ([127, 0, 0, 1], 5).into(), start: SystemTime::UNIX_EPOCH };
        let conn = net.broker.connect_link(endpoint, Box::new(sink.clone()));
        let mut link = Link::new(&net.broker, &conn);
        let is_dedicated = scope != LinkScope::All;
        link.begin(scope, true).expect("its account is known").run();
        Self { link, sink, is_dedicated }
    }

    /// Bytes for the other server, as they are on the wire.
    fn said(&self, net: &Net) -> String {
        net.shards[0].borrow_mut().flush_link(self.link.conn());
        net.flush_all();
        String::from_utf8(self.sink.take()).unwrap()
    }

    fn hears(&mut self, net: &Net, said: &str) {
        let limits = PeerLimits {
            max_line: 4096,
            max_payload: 4096,
            is_dedicated: self.is_dedicated,
            names_origin: false,
            is_leaf: false,
        };
        let (mut rest, mut msgs) = (said.as_bytes(), 0);
        while !rest.is_empty() {
            let Ok(Parsed::Op(op, len)) = parser::next(rest, &limits) else { panic!("{said}") };
            match op {
                PeerOp::Interest(interest) => self.link.subscribe(&interest).expect("it may"),
                PeerOp::Message(message) => {
                    msgs += 1;
                    self.link.publish(&mut net.shards[0].borrow_mut(), &message, None, net.now());
                }
                other => panic!("{other:?}"),
            }
            rest = &rest[len..];
        }
        self.link.count_in(&mut net.shards[0].borrow_mut(), msgs, 0);
        net.flush_all();
    }
}

/// A server that takes part in groups, with a link for them and one for everything else, and a
/// client that listens to all that it may.
struct Server {
    net: Net,
    raft: Arc<Account>,
    frames: Arc<Frames>,
    internal: End,
    all: End,
    client: Peer,
}

impl Server {
    fn new(name: &str) -> Self {
        let net = Net::with(|setup| setup.system_account = Some("$SYS".into()));
        net.broker.make_internal_accounts(&INTERNAL_ACCOUNTS);
        net.broker.form_cluster(LinkTerms { pool_size: 1, dedicated: Vec::new() });
        let raft = net.broker.internal_account(RAFT_ACCOUNT).expect("it was made");
        let frames = Arc::<Frames>::default();
        raft.bind(format!("{name}.*").as_bytes(), Arc::clone(&frames) as Arc<dyn Service>);
        let internal = End::new(&net, LinkScope::Internal(RAFT_ACCOUNT.to_owned()));
        let all = End::new(&net, LinkScope::All);
        let mut client = net.peer(0);
        client.send("SUB > 1\r\n");
        net.flush_all();
        Self { net, raft, frames, internal, all, client }
    }

    /// Sends a frame, as a service or a thread of the server does.
    fn send(&self, to: &str, frame: &str) {
        let mut out = MessageBuf::default();
        let (subject, payload) = (to.as_bytes(), frame.as_bytes());
        out.push(MessageRef { subject, payload, ..MessageRef::default() });
        self.net.shards[0].borrow_mut().send(&self.raft, &mut out, self.net.now());
        self.net.flush_all();
    }
}

#[test]
fn a_frame_reaches_the_member_on_the_other_server_and_nobody_else() {
    let [mut a, mut b] = ["A", "B"].map(Server::new);
    // What either is told at the beginning.
    let told = [&a, &b].map(|server| server.internal.said(&server.net));
    assert_eq!(told, ["RS+ A.*\r\n", "RS+ B.*\r\n"]);
    for server in [&a, &b] {
        assert_eq!(server.all.said(&server.net), "RS+ $G >\r\n");
    }
    a.internal.hears(&a.net, &told[1]);
    b.internal.hears(&b.net, &told[0]);
    b.all.hears(&b.net, "RS+ $G >\r\n");
    b.send("A.B", "vote");
    let said = b.internal.said(&b.net);
    assert_eq!(said, "RMSG A.B 4\r\nvote\r\n");
    assert_eq!(b.all.said(&b.net), "", "another link does not carry it, whatever is wanted there");
    a.internal.hears(&a.net, &said);
    assert_eq!(a.frames.take(), ["A.B vote"]);
    assert_eq!((a.client.received(), b.client.received()), (String::new(), String::new()));
    assert!(a.internal.said(&a.net).is_empty() && a.all.said(&a.net).is_empty(), "one hop");
    assert!(b.frames.take().is_empty());
    // A frame for nobody here is for nobody.
    a.internal.hears(&a.net, "RMSG C.B 4\r\nlost\r\n");
    assert!(a.frames.take().is_empty());
    for server in [&a, &b] {
        assert_eq!(server.net.broker.traffic(), [0; 4], "messages between servers are nobody's");
        assert_eq!(server.net.broker.link_traffic(), [0; 4]);
    }
    assert_eq!((b.internal.link.conn().sent().0, a.internal.link.conn().received().0), (1, 2));
}

#[test]
fn nobody_finds_an_internal_account() {
    let mut a = Server::new("A");
    let broker = &a.net.broker;
    assert!(INTERNAL_ACCOUNTS.iter().all(|name| broker.account(name).is_none()));
    assert!(broker.accounts().iter().all(|account| !INTERNAL_ACCOUNTS.contains(&account.name())));
    assert!(broker.internal_account("$G").is_none());
    // Not by what another server says on a link that is not for it, either.
    let said = "RS+ $RAFT >\r\nRMSG $RAFT A.X 6\r\nforged\r\nRS+ $RAFT A.* q 1\r\n";
    a.all.hears(&a.net, said);
    a.send("X.A", "none");
    assert_eq!(a.all.said(&a.net), "RS+ $G >\r\n");
    assert!(a.frames.take().is_empty());
    let conn = a.net.broker.connect_link(
        Endpoint { peer: ([127, 0, 0, 1], 6).into(), start: SystemTime::UNIX_EPOCH },
        Box::new(FakeSink::default()),
    );
    let mut link = Link::new(&a.net.broker, &conn);
    let refused = link.begin(LinkScope::Dedicated(RAFT_ACCOUNT.to_owned()), true);
    assert!(refused.is_err(), "a configured account of that name would be another");
}

#[test]
fn an_account_of_that_name_is_another_one() {
    let net = Net::with(|setup| setup.accounts.push(crate::imports::AccountConfig::named(RAFT_ACCOUNT)));
    net.broker.make_internal_accounts(&INTERNAL_ACCOUNTS);
    net.broker.form_cluster(LinkTerms { pool_size: 1, dedicated: vec![RAFT_ACCOUNT.to_owned()] });
    let configured = net.broker.account(RAFT_ACCOUNT).expect("it is configured");
    let internal = net.broker.internal_account(RAFT_ACCOUNT).expect("it was made");
    assert!(!Arc::ptr_eq(&configured, &internal));
    let frames = Arc::<Frames>::default();
    let ends = [LinkScope::Internal(RAFT_ACCOUNT.to_owned()), LinkScope::Dedicated(RAFT_ACCOUNT.to_owned())]
        .map(|scope| End::new(&net, scope));
    internal.bind(b"A.*", Arc::clone(&frames) as Arc<dyn Service>);
    configured.bind(b"other", frames);
    let said = ends.each_ref().map(|end| end.said(&net));
    assert_eq!(said, ["RS+ A.*\r\n", "RS+ other\r\n"]);
}

#[test]
fn what_waits_for_a_peer_can_be_asked() {
    let mut a = Server::new("A");
    a.internal.hears(&a.net, "RS+ B.*\r\n");
    let said = SaidPeer {
        account: RAFT_ACCOUNT.to_owned(),
        name: "b".to_owned(),
        cluster: "C".to_owned(),
        is_foreign: false,
        id: "NB".to_owned(),
        store: "B".to_owned(),
        incarnation: 1,
    };
    let peer = LinkedPeer::new(a.internal.link.conn(), said);
    a.internal.said(&a.net);
    assert_eq!(peer.waiting(), 0);
    a.internal.sink.block_after(0);
    let frame = "x".repeat(1024 * 1024);
    (0..100).for_each(|_| a.send("B.A", &frame));
    assert!(peer.waiting() > 100 * 1024 * 1024, "{}", peer.waiting());
    assert!(peer.is_open(), "a link is not ended for what waits");
    a.internal.link.end(myelin_wire::error::CloseReason::ReadError).run();
    assert!(!peer.is_open());
}

/// The commit index of a leader is at the other server before the client there hears of its
/// message, and reads it.
#[test]
fn what_servers_say_to_each_other_is_written_before_all_else() {
    let mut a = Server::new("A");
    a.internal.hears(&a.net, "RS+ B.*\r\n");
    a.all.hears(&a.net, "RS+ $G _INBOX.x\r\n");
    a.client.received();
    let written = Arc::<Mutex<Vec<&str>>>::default();
    for (name, sink) in [("frame", &a.internal.sink), ("all", &a.all.sink), ("client", &a.client.sink)] {
        let written = Arc::clone(&written);
        sink.on_write(move |_| written.lock().unwrap().push(name));
    }
    let clients = a.net.broker.account("$G").expect("it is there");
    for is_frame_first in [true, false] {
        let mut order = [(&a.raft, &b"B.A"[..]), (&clients, b"_INBOX.x")];
        if !is_frame_first {
            order.reverse();
        }
        for (account, subject) in order {
            let mut out = MessageBuf::default();
            out.push(MessageRef { subject, payload: b"5", ..MessageRef::default() });
            a.net.shards[0].borrow_mut().send(account, &mut out, a.net.now());
        }
        a.net.flush_all();
        let written = std::mem::take(&mut *written.lock().unwrap());
        assert_eq!((written.len(), written.first()), (3, Some(&"frame")), "{is_frame_first}");
    }
}

//! Two servers in memory: their links exchange bytes, and their clients are told apart from nobody.

mod gateways;
mod members;

use crate::config::{MeshConfig, RouteUrl};
use crate::gossip::MOST_DIALS;
use crate::peer_session::Next;
use crate::peers::{Dial, DialCause, Mesh, MeshHost};
use crate::session::{LinkSession, LinkSide};
use myelin_auth::AuthConfig;
use myelin_broker::{Broker, Conn, Endpoint, Level, LinkTerms, LinkedPeer, Log, Settings, Shard, Transport};
use myelin_stdx::entropy::OsEntropy;
use myelin_wire::error::CloseReason;
use myelin_wire::info::Info;
use myelin_wire::peer::info::{GossipMode, PeerInfo};
use std::fmt::Arguments;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Keeps what is written, or takes nothing.
#[derive(Clone, Default)]
struct KeptBytes(Arc<Mutex<Vec<u8>>>, Arc<AtomicBool>);

impl Transport for KeptBytes {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.1.load(Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut kept = self.0.lock().unwrap();
        bufs.iter().for_each(|buf| kept.extend_from_slice(buf));
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn wait_writable(&self, _: &Arc<Conn>) {}

    fn kick(&self, _: &Arc<Conn>) {}
}

struct NoLog;

impl Log for NoLog {
    fn enabled(&self, _: Level) -> bool {
        false
    }

    fn write(&self, _: Level, _: Arguments<'_>) {}
}

/// HostNotes what is asked of it.
#[derive(Default)]
struct HostNotes {
    dials: Mutex<Vec<Dial>>,
    urls: Mutex<Vec<String>>,
    leaf_urls: Mutex<Vec<String>>,
    /// Servers that are linked for an internal account from now on, or no more.
    peers: Mutex<Vec<(bool, LinkedPeer)>>,
    gate: Mutex<Option<Gate>>,
}

/// Holds the next advertisement up.
struct Gate {
    begun: Sender<()>,
    goes_on: Receiver<()>,
}

impl MeshHost for HostNotes {
    fn dial(&self, dial: Dial) {
        self.dials.lock().unwrap().push(dial);
    }

    fn advertise(&self, urls: Vec<String>, _: Vec<String>) -> bool {
        let gate = self.gate.lock().unwrap().take();
        if let Some(gate) = gate {
            gate.begun.send(()).unwrap();
            // Nobody says so where the next one waits for this.
            let _ = gate.goes_on.recv_timeout(Duration::from_millis(100));
        }
        *self.urls.lock().unwrap() = urls;
        true
    }

    fn advertise_leaf_nodes(&self, [urls, _]: [Vec<String>; 2]) {
        *self.leaf_urls.lock().unwrap() = urls;
    }

    fn spread(&self, _: u32, _: Vec<String>) {}

    fn renamed(&self, _: &str) {}

    fn complain(&self, _: Arguments<'_>) {}

    fn peer_linked(&self, peer: &LinkedPeer) {
        self.peers.lock().unwrap().push((true, peer.clone()));
    }

    fn peer_unlinked(&self, peer: &LinkedPeer) {
        self.peers.lock().unwrap().push((false, peer.clone()));
    }
}

impl HostNotes {
    fn take(&self) -> Vec<Dial> {
        std::mem::take(&mut self.dials.lock().unwrap())
    }
}

struct Node {
    broker: Arc<Broker>,
    shard: Shard,
    mesh: Arc<Mesh>,
    notes: Arc<HostNotes>,
}

/// A broker that lets everybody in.
pub(crate) fn broker(name: &str) -> Arc<Broker> {
    let info = Info { server_id: format!("N{name}"), server_name: name.into(), ..Info::default() };
    let (entropy, log) = (Arc::new(OsEntropy), Arc::new(NoLog));
    Broker::new(Settings::default(), AuthConfig::open(), &[], Some("$SYS"), info, entropy, log).unwrap()
}

impl Node {
    fn new(name: &str, cluster: &str, is_dynamic: bool, pool_size: u32) -> Self {
        Self::with((name, cluster), is_dynamic, pool_size, |_| {})
    }

    fn with(
        (name, cluster): (&str, &str),
        is_dynamic: bool,
        pool_size: u32,
        configure: impl FnOnce(&mut MeshConfig),
    ) -> Self {
        let broker = broker(name);
        let dedicated = if pool_size > 0 { vec!["$SYS".to_owned()] } else { Vec::new() };
        broker.form_cluster(LinkTerms { pool_size, dedicated: dedicated.clone() });
        let info = PeerInfo {
            id: format!("N{name}"),
            name: name.into(),
            cluster: cluster.into(),
            headers: true,
            route_pool_size: i64::from(pool_size),
            port: 1,
            ln: true,
            ..PeerInfo::default()
        };
        let mut config = MeshConfig { is_dynamic, pool_size, dedicated, ..MeshConfig::plain(info) };
        configure(&mut config);
        let notes = Arc::<HostNotes>::default();
        let mesh = Mesh::new(config, [vec![format!("{name}:4222")], Vec::new()], Arc::clone(&notes) as _);
        Self { shard: Shard::new(&broker, 7), broker, mesh, notes }
    }

    fn open(&mut self, side: LinkSide, now: Instant) -> (LinkSession, KeptBytes) {
        let kept = KeptBytes::default();
        let peer: SocketAddr = "10.0.0.9:5".parse().unwrap();
        let endpoint = Endpoint { peer, start: SystemTime::UNIX_EPOCH };
        let conn = self.broker.connect_link(endpoint, Box::new(kept.clone()));
        let mut session = LinkSession::open(&self.mesh, &self.broker, &conn, side, now);
        session.greet(&mut self.shard, now);
        (session, kept)
    }
}

/// One link between two nodes, seen from the one that has dialled, and how each side ended.
struct LinkPair {
    dialler: (LinkSession, KeptBytes),
    acceptor: (LinkSession, KeptBytes),
    ends: [Option<CloseReason>; 2],
}

fn dial(account: Option<&str>) -> Dial {
    let url = RouteUrl { host: "10.0.0.9".into(), port: 1, login: None };
    let account = account.map(str::to_owned);
    let mode = GossipMode::Default;
    Dial {
        url,
        is_explicit: true,
        cause: DialCause::New,
        mode,
        account,
        place: None,
        server: None,
        cluster: None,
    }
}

impl LinkPair {
    fn new(a: &mut Node, b: &mut Node, dial: Dial) -> Self {
        let now = Instant::now();
        let dialler = a.open(LinkSide::Dialled(dial), now);
        let acceptor = b.open(LinkSide::Accepted, now);
        let mut pair = Self { dialler, acceptor, ends: [None, None] };
        pair.pump(a, b);
        pair
    }

    /// Carries bytes to and fro until there are none.
    fn pump(&mut self, a: &mut Node, b: &mut Node) {
        loop {
            let moved = [
                carry(a, &mut self.dialler, b, &mut self.acceptor, &mut self.ends[1]),
                carry(b, &mut self.acceptor, a, &mut self.dialler, &mut self.ends[0]),
            ];
            if moved == [false, false] {
                return;
            }
        }
    }
}

/// Carries what `from` has to say; whether there was anything.
fn carry(
    sender: &mut Node,
    from: &mut (LinkSession, KeptBytes),
    receiver: &mut Node,
    to: &mut (LinkSession, KeptBytes),
    end: &mut Option<CloseReason>,
) -> bool {
    if let Some(announcing) = from.0.take_announcing() {
        announcing.run();
    }
    sender.shard.flush_link(from.0.conn());
    sender.shard.flush();
    let bytes = std::mem::take(&mut *from.1.0.lock().unwrap());
    let mut rest = &bytes[..];
    while !rest.is_empty() && end.is_none() {
        let ingested = to.0.ingest(&mut receiver.shard, rest, None, Instant::now());
        rest = &rest[ingested.bytes..];
        match ingested.next {
            Next::More(_) => break,
            Next::Flush | Next::Check(_) => receiver.shard.flush(),
            Next::Close(reason) => {
                *end = Some(reason);
                to.0.end(reason).into_iter().for_each(|removal| removal.run());
            }
        }
    }
    !bytes.is_empty()
}

const CONNECT: &str = "CONNECT {\"name\":\"NX\",\"cluster\":\"C\",\"headers\":true}\r\n";

/// How a link ends that is told this, if it does. What it answers is flushed.
fn told(node: &mut Node, session: &mut LinkSession, said: &str) -> Option<CloseReason> {
    let mut rest = said.as_bytes();
    let end = loop {
        let ingested = session.ingest(&mut node.shard, rest, None, Instant::now());
        rest = &rest[ingested.bytes..];
        match ingested.next {
            Next::More(_) => break None,
            Next::Flush | Next::Check(_) => node.shard.flush(),
            Next::Close(reason) => break Some(reason),
        }
    };
    node.shard.flush_link(session.conn());
    node.shard.flush();
    end
}

#[test]
fn two_servers_agree_on_the_places_of_a_pool() {
    let (mut a, mut b) = (Node::new("A", "C", false, 3), Node::new("B", "C", false, 3));
    let mut pairs = vec![LinkPair::new(&mut a, &mut b, dial(None))];
    // Each link is followed by the next, once its PONG has come.
    while let [next] = &a.notes.take()[..] {
        pairs.push(LinkPair::new(&mut a, &mut b, next.clone()));
    }
    assert_eq!(pairs.len(), 3);
    pairs.push(LinkPair::new(&mut a, &mut b, dial(Some("$SYS"))));
    assert!(pairs.iter().all(|pair| pair.ends == [None, None]));
    for node in [&a, &b] {
        let mut places: Vec<_> = node.mesh.links().iter().map(|link| link.facts().place).collect();
        places.sort();
        assert_eq!(places, [None, Some(0), Some(1), Some(2)]);
    }
    assert_eq!(*a.notes.urls.lock().unwrap(), ["A:4222", "B:4222"]);
    // One more has no place, and is not dialled again.
    let more = LinkPair::new(&mut a, &mut b, dial(None));
    assert_eq!(more.ends[0], Some(CloseReason::DuplicateRoute));
    assert!(a.notes.take().is_empty());
    // One that ends is.
    let ended = pairs[1].dialler.0.end(CloseReason::ReadError).expect("it was open");
    ended.run();
    assert_eq!(a.notes.take(), [Dial { cause: DialCause::Ended, ..dial(None) }]);
    assert_eq!(a.mesh.links().len(), 3);
}

#[test]
fn a_server_says_who_it_is_before_it_says_anything_else() {
    let mut a = Node::new("A", "C", false, 3);
    let (mut session, kept) = a.open(LinkSide::Dialled(dial(None)), Instant::now());
    let (begun, has_begun) = channel();
    let (go_on, goes_on) = channel();
    *a.notes.gate.lock().unwrap() = Some(Gate { begun, goes_on });
    let info = PeerInfo { route_pool_size: 3, headers: true, ..a.mesh.config().info.clone() };
    let info = PeerInfo { id: "NB".into(), name: "B".into(), ..info }.line();
    let mesh = Arc::clone(&a.mesh);
    std::thread::scope(|scope| {
        // The link has its place when clients are told of the other server.
        scope.spawn(move || {
            has_begun.recv().unwrap();
            mesh.enter_lame_duck();
            go_on.send(()).unwrap();
        });
        assert_eq!(told(&mut a, &mut session, str::from_utf8(&info).unwrap()), None);
    });
    let said = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    let infos: Vec<_> = said.lines().filter(|line| line.starts_with("INFO ")).collect();
    assert_eq!(infos.iter().map(|line| line.contains("\"ldm\":true")).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_server_without_a_pool_has_one_link_for_all() {
    for sizes in [[0, 3], [3, 0], [0, 0]] {
        let [mut a, mut b] = [Node::new("A", "C", false, sizes[0]), Node::new("B", "C", false, sizes[1])];
        let pair = LinkPair::new(&mut a, &mut b, dial(None));
        assert_eq!(pair.ends, [None, None], "{sizes:?}");
        assert!(a.notes.take().is_empty(), "no other link is dialled");
        assert!(a.mesh.links()[0].facts().has_no_pool && b.mesh.links()[0].facts().has_no_pool);
        let again = LinkPair::new(&mut a, &mut b, dial(None));
        assert!(again.ends.contains(&Some(CloseReason::DuplicateRoute)));
        let dedicated = LinkPair::new(&mut a, &mut b, dial(Some("$SYS")));
        assert!(dedicated.ends.iter().any(Option::is_some), "{sizes:?}");
    }
}

#[test]
fn names_of_clusters_have_to_agree() {
    let links = |a: (&str, bool), b: (&str, bool)| {
        let [mut a, mut b] =
            [("A", a), ("B", b)].map(|(name, (cluster, is_dynamic))| Node::new(name, cluster, is_dynamic, 3));
        LinkPair::new(&mut a, &mut b, dial(None));
        (a.mesh.cluster().0, b.mesh.cluster().0, a.mesh.links().len())
    };
    let name = |name: &str| name.to_owned();
    assert_eq!(links(("X", false), ("Y", false)), (name("X"), name("Y"), 0));
    // What was said before the names agreed ends the link: it is dialled again.
    assert_eq!(links(("X", false), ("Y", true)), (name("X"), name("X"), 0));
    assert_eq!(links(("X", true), ("Y", false)), (name("Y"), name("Y"), 0));
    assert_eq!(links(("Y", true), ("X", true)), (name("Y"), name("Y"), 0));
    assert_eq!(links(("X", true), ("X", false)), (name("X"), name("X"), 1));
}

#[test]
fn servers_that_are_one_or_are_called_alike_are_refused() {
    let mut a = Node::new("A", "C", false, 3);
    let mut same = Node::new("A", "C", false, 3);
    let pair = LinkPair::new(&mut a, &mut same, dial(None));
    assert!(pair.ends.contains(&Some(CloseReason::DuplicateRoute)), "{:?}", pair.ends);
    assert!(a.notes.take().is_empty(), "it is not dialled again");
}

#[test]
fn a_third_server_is_told_of() {
    let (mut a, mut b, mut c) =
        (Node::new("A", "C", false, 1), Node::new("B", "C", false, 1), Node::new("D", "C", false, 1));
    // B and C know A only. C is accepted by A, which tells B.
    let mut with_b = LinkPair::new(&mut b, &mut a, dial(None));
    b.notes.take();
    let _with_c = LinkPair::new(&mut c, &mut a, dial(None));
    c.notes.take();
    with_b.pump(&mut b, &mut a);
    let told = b.notes.take();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].url.address().as_str(), told[0].is_explicit), ("10.0.0.9:1", false));
    assert_eq!(told[0].mode, GossipMode::Disabled, "those who dial it need not tell others");
}

/// INFO of a third server that was met at this place.
fn gossip(id: &str, place: usize) -> String {
    let ip = format!("nats-route://10.1.{}.{}:1/", place / 250, place % 250);
    let info = PeerInfo { id: id.into(), cluster: "C".into(), ip, ..PeerInfo::default() };
    String::from_utf8_lossy(&info.line()).into_owned()
}

#[test]
fn gossip_is_followed_once_and_not_without_end() {
    let (mut a, mut b) = (Node::new("A", "C", false, 1), Node::new("B", "C", false, 1));
    let mut pair = LinkPair::new(&mut b, &mut a, dial(None));
    b.notes.take();
    let mut hears = |b: &mut Node, id: &str, place| {
        assert_eq!(told(b, &mut pair.dialler.0, &gossip(id, place)), None);
        b.notes.take()
    };
    let first = hears(&mut b, "N0", 0);
    assert_eq!(first.len(), 1);
    assert!(hears(&mut b, "N0", 0).is_empty(), "it is under way");
    let all: Vec<_> =
        (1..MOST_DIALS + 100).flat_map(|place| hears(&mut b, &format!("N{place}"), place)).collect();
    assert_eq!(all.len(), MOST_DIALS - 1);
    drop(first);
    assert_eq!(hears(&mut b, "N0", 0).len(), 1, "it has come to nothing, and so there is room");
}

#[test]
fn a_dial_of_gossip_is_over_when_its_link_has_a_place_or_is_refused() {
    let [mut a, mut b] = ["A", "B"].map(|name| Node::new(name, "C", false, 1));
    let mut pair = LinkPair::new(&mut b, &mut a, dial(None));
    b.notes.take();
    let mut hears = |b: &mut Node, id: &str| {
        assert_eq!(told(b, &mut pair.dialler.0, &gossip(id, 0)), None);
        b.notes.take()
    };
    let mut other = Node::new("D", "C", false, 1);
    let dial = hears(&mut b, "ND").pop().expect("it is news");
    let _linked = LinkPair::new(&mut b, &mut other, dial);
    b.notes.take();
    // The server there has another id now: it was started again.
    let dial = hears(&mut b, "NE").pop().expect("the dial before has led to a link");
    let mut stranger = Node::new("E", "another", false, 1);
    let refused = LinkPair::new(&mut b, &mut stranger, dial);
    assert!(refused.ends.iter().any(Option::is_some), "{:?}", refused.ends);
    drop(refused);
    b.notes.take();
    assert_eq!(hears(&mut b, "NE").len(), 1);
}

#[test]
fn older_addresses_do_not_come_to_clients_later() {
    let [mut a, mut b] = ["A", "B"].map(|name| Node::new(name, "C", false, 1));
    let (begun, has_begun) = channel();
    let (go_on, goes_on) = channel();
    *a.notes.gate.lock().unwrap() = Some(Gate { begun, goes_on });
    let mesh = Arc::clone(&a.mesh);
    let slow = std::thread::spawn(move || mesh.advertise());
    has_begun.recv_timeout(Duration::from_secs(10)).expect("it tells of itself");
    let _pair = LinkPair::new(&mut a, &mut b, dial(None));
    let _ = go_on.send(());
    slow.join().unwrap();
    assert_eq!(*a.notes.urls.lock().unwrap(), ["A:4222", "B:4222"]);
}

#[test]
fn much_interest_is_taken_in_slices() {
    let [mut a, mut b] = ["A", "B"].map(|name| Node::new(name, "C", false, 1));
    let (mut session, _) = LinkPair::new(&mut a, &mut b, dial(None)).dialler;
    let before = session.known().facts().subscriptions;
    let said: String = (0..2000).map(|n| format!("RS+ $G subject.{n}\r\n")).collect();
    let (mut rest, mut slices) = (said.as_bytes(), 0);
    while !rest.is_empty() {
        let ingested = session.ingest(&mut a.shard, rest, None, Instant::now());
        rest = &rest[ingested.bytes..];
        slices += 1;
        assert!(rest.is_empty() || matches!(ingested.next, Next::Flush), "{:?}", ingested.next);
    }
    assert_eq!(session.known().facts().subscriptions - before, 2000);
    assert!(slices >= 4, "{slices}");
}

#[test]
fn what_is_said_of_an_account_before_its_own_link_is_known_does_not_count_twice() {
    let mut a = Node::new("A", "C", false, 1);
    let (mut session, _) = LinkPair::new(&mut a, &mut Node::new("B", "C", false, 1), dial(None)).dialler;
    let known = |session: &LinkSession| session.known().facts().subscriptions;
    let before = known(&session);
    let mut config = (*a.mesh.config()).clone();
    config.dedicated.push("$G".to_owned());
    a.mesh.reload(config, None);
    session.reload(&mut a.shard).unwrap();
    // The other side has not read yet that the account is to have a link of its own.
    assert_eq!(told(&mut a, &mut session, "RS+ $G late\r\n"), None);
    assert_eq!(known(&session), before + 1);
    let answer = PeerInfo { route_acc_add_reqid: "NA.$G".to_owned(), ..PeerInfo::default() };
    let answer = String::from_utf8(answer.line()).unwrap();
    assert_eq!(told(&mut a, &mut session, &answer), None);
    assert_eq!(known(&session), before);
}

#[test]
fn an_account_that_is_put_back_into_the_pool_is_dialled_no_more() {
    let [mut a, mut b] = ["A", "B"].map(|name| Node::new(name, "C", false, 1));
    LinkPair::new(&mut a, &mut b, dial(None));
    let before = (*a.mesh.config()).clone();
    a.mesh.reload(MeshConfig { dedicated: Vec::new(), ..before }, None);
    assert!(!a.mesh.is_wanted(&dial(Some("$SYS"))) && a.mesh.is_wanted(&dial(None)));
    a.notes.take();
    // One that was on its way is refused, and not dialled again.
    let mut late = LinkPair::new(&mut a, &mut b, dial(Some("$SYS")));
    assert!(late.ends.iter().any(Option::is_some), "{:?}", late.ends);
    late.dialler.0.end(CloseReason::ReadError).into_iter().for_each(|removal| removal.run());
    assert!(a.notes.take().is_empty());
}

/// Messages between the servers are lost as long as there is no link.
#[test]
fn a_pool_of_another_size_is_dialled_soon_by_who_was_reloaded() {
    let [mut a, mut b] = ["A", "B"].map(|name| Node::new(name, "C", false, 1));
    for (is_reloaded, cause) in [(true, DialCause::Reloaded), (false, DialCause::Ended)] {
        let mut pair = LinkPair::new(&mut a, &mut b, dial(None));
        a.notes.take();
        let reloaded = if is_reloaded { &a } else { &b };
        let before = (*reloaded.mesh.config()).clone();
        reloaded.mesh.reload(MeshConfig { pool_size: before.pool_size + 1, ..before }, None);
        for session in [&mut pair.dialler.0, &mut pair.acceptor.0] {
            let reason = session.conn().close_requested().unwrap_or(CloseReason::ReadError);
            session.end(reason).expect("it was open").run();
        }
        assert_eq!(a.notes.take(), [Dial { cause, ..dial(None) }]);
    }
}

#[test]
fn who_is_about_to_end_names_itself_to_nobody() {
    let a = Node::new("A", "C", false, 1);
    a.mesh.enter_lame_duck();
    let info = a.mesh.info(0, None, GossipMode::Default);
    assert!(info.connect_urls.is_empty() && info.ws_connect_urls.is_empty(), "{info:?}");
}

#[test]
fn a_silent_peer_is_given_up() {
    let mut a = Node::new("A", "C", false, 3);
    let now = Instant::now();
    let (mut session, _) = a.open(LinkSide::Accepted, now);
    assert_eq!(session.on_deadline(now + Duration::from_secs(1)), None);
    let late = now + Duration::from_secs(31);
    assert_eq!(session.on_deadline(late), Some(CloseReason::AuthenticationTimeout));
}

#[test]
fn a_peer_that_does_not_answer_is_stale() {
    let (mut a, mut b) = (Node::new("A", "C", false, 1), Node::new("B", "C", false, 1));
    let mut pair = LinkPair::new(&mut a, &mut b, dial(None));
    let mut now = Instant::now();
    let session = &mut pair.acceptor.0;
    // As many PINGs as may stay without an answer.
    for _ in 0..2 {
        now = session.deadline().max(now);
        assert_eq!(session.on_deadline(now), None);
    }
    now = session.deadline();
    assert_eq!(session.on_deadline(now), Some(CloseReason::StaleConnection));
    let counters = b.broker.counters();
    assert_eq!([&counters.stale_links, &counters.stale_connections].map(|n| n.load(Relaxed)), [1, 0]);
}

#[test]
fn a_pool_that_is_too_large_is_refused() {
    for size in [1025, 100_000_000_000, i64::MAX] {
        for side in [LinkSide::Accepted, LinkSide::Dialled(dial(None))] {
            let mut a = Node::new("A", "C", false, 3);
            let (mut session, kept) = a.open(side, Instant::now());
            let said = format!("{CONNECT}INFO {{\"server_id\":\"NX\",\"route_pool_size\":{size}}}\r\n");
            assert_eq!(told(&mut a, &mut session, &said), Some(CloseReason::ProtocolViolation));
            assert!(String::from_utf8_lossy(&kept.0.lock().unwrap()).contains("Invalid route pool size"));
            assert!(a.mesh.links().is_empty() && a.notes.take().is_empty());
        }
    }
}

#[test]
fn a_message_before_the_handshake_is_not_waited_for() {
    for said in ["RMSG $G a 60000000\r\nhalf", &format!("{CONNECT}HMSG $G a 12 60000000\r\nhalf")] {
        let mut a = Node::new("A", "C", false, 3);
        let (mut session, kept) = a.open(LinkSide::Accepted, Instant::now());
        assert_eq!(told(&mut a, &mut session, said), Some(CloseReason::ProtocolViolation), "{said}");
        assert!(String::from_utf8_lossy(&kept.0.lock().unwrap()).contains("Authorization Violation"));
    }
}

#[test]
fn interest_and_messages_count_behind_connect() {
    let mut a = Node::new("A", "C", false, 3);
    let (mut session, kept) = a.open(LinkSide::Accepted, Instant::now());
    let connect = CONNECT.replace("{", "{\"ln\":true,");
    let said = "RS+ $G foo\r\nLS+ leaf $G bar\r\nLS- leaf $G bar\r\nRMSG $G none 2\r\nhi\r\nPING\r\n";
    assert_eq!(told(&mut a, &mut session, &format!("{connect}{said}")), None);
    assert_eq!(session.known().facts().subscriptions, 1);
    let kept = kept.0.lock().unwrap();
    let kept = String::from_utf8_lossy(&kept);
    assert!(kept.ends_with("PONG\r\n") && kept.contains("\"nonce\":\""), "{kept}");
    assert!(a.mesh.links().is_empty());
}

#[test]
fn a_peer_that_asks_and_does_not_read_is_given_up() {
    let mut a = Node::new("A", "C", false, 3);
    let (mut session, kept) = a.open(LinkSide::Accepted, Instant::now());
    kept.1.store(true, Relaxed);
    assert_eq!(told(&mut a, &mut session, CONNECT), None);
    let pings = "PING\r\n".repeat(1000);
    let ends: Vec<_> = (0..200).filter_map(|_| told(&mut a, &mut session, &pings)).take(1).collect();
    assert_eq!(ends, [CloseReason::SlowConsumerPendingBytes]);
    assert!(session.conn().pending() < 2 * 1024 * 1024);
}

#[test]
fn nothing_is_answered_before_connect() {
    let mut a = Node::new("A", "C", false, 3);
    let (mut session, kept) = a.open(LinkSide::Accepted, Instant::now());
    assert_eq!(told(&mut a, &mut session, "PING\r\n"), Some(CloseReason::ProtocolViolation));
    assert!(!String::from_utf8_lossy(&kept.0.lock().unwrap()).contains("PONG"));
}

#[test]
fn a_link_is_let_go_once_however_it_ends() {
    for is_ended in [false, true] {
        let (mut a, mut b) = (Node::new("A", "C", false, 1), Node::new("B", "C", false, 1));
        let mut pair = LinkPair::new(&mut a, &mut b, dial(None));
        a.notes.take();
        assert_eq!((a.mesh.links().len(), a.broker.links().len()), (1, 1));
        let session = &mut pair.dialler.0;
        if is_ended {
            session.end(CloseReason::ReadError).expect("it was open").run();
        }
        session.abandon(CloseReason::InternalError).run();
        session.abandon(CloseReason::InternalError).run();
        assert!(session.end(CloseReason::ReadError).is_none());
        assert_eq!((a.mesh.links().len(), a.broker.links().len()), (0, 0));
        assert_eq!(
            a.notes.take(),
            [Dial { cause: DialCause::Ended, ..dial(None) }],
            "it is dialled again once"
        );
    }
}

#[test]
fn a_server_whose_names_are_no_words_is_refused() {
    let line = r"C\tB\tz\r\nRS+ $G a";
    let connect = CONNECT.replace("\"C\"", &format!("\"{line}\""));
    let info = |key: &str| format!("{CONNECT}INFO {{\"server_id\":\"NX\",\"{key}\":\"{line}\"}}\r\n");
    let cases = [
        (connect, CloseReason::ClusterNameConflict),
        (info("cluster"), CloseReason::ClusterNameConflict),
        (info("server_name"), CloseReason::ProtocolViolation),
        (info("server_id"), CloseReason::ProtocolViolation),
    ];
    for (said, reason) in cases {
        // The name of this one's cluster is made up: it would take another.
        let mut a = Node::new("A", "A", true, 3);
        let (mut session, kept) = a.open(LinkSide::Accepted, Instant::now());
        let said = if said.contains("INFO") { said.replace("\"C\"", "\"A\"") } else { said };
        assert_eq!(told(&mut a, &mut session, &said), Some(reason), "{said}");
        assert_eq!(a.mesh.cluster().0, "A");
        let kept = String::from_utf8_lossy(&kept.0.lock().unwrap()).into_owned();
        assert!(!kept.contains("\nRS+"), "{kept}");
    }
}

#[test]
fn a_peer_that_pings_and_does_not_read_is_answered_less() {
    let (mut a, mut b) = (Node::new("A", "C", false, 1), Node::new("B", "C", false, 1));
    let mut pair = LinkPair::new(&mut a, &mut b, dial(None));
    let (session, kept) = &mut pair.dialler;
    kept.1.store(true, Relaxed);
    let pings = "PING\r\n".repeat(1000);
    for _ in 0..1000 {
        assert_eq!(told(&mut a, session, &pings), None);
    }
    let pending = session.conn().pending();
    assert!((1024 * 1024..1024 * 1024 + 10_000).contains(&pending), "{pending} bytes wait");
}

//! A server of a cluster with one shard, a client that behaves, and links that come and go.

use myelin_auth::{AuthConfig, Secret, StoredSecret};
use myelin_broker::{
    Broker, Conn, Endpoint, Level, LinkTerms, Log, Session, Settings, Shard, StopReason, Transport,
};
use myelin_mesh::{Dial, LinkSession, LinkSide, Login, Mesh, MeshConfig, MeshHost, Next, RouteUrl};
use myelin_stdx::entropy::SeededEntropy;
use myelin_wire::error::CloseReason;
use myelin_wire::info::Info;
use myelin_wire::peer::info::{GossipMode, PeerInfo};
use myelin_wire::s2::mode::CompressionMode;
use myelin_wire::s2::{S2Level, S2Reader};
use std::fmt::Arguments;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How queue members are chosen.
const SEED: u64 = 7;
/// Connections after which a house is left.
const WORN: u64 = 4096;
/// Dials that may be under way at once.
const MOST_DIALS: usize = 4096;
/// Bytes of a block that the other side may send.
const BLOCK: usize = 1 << 16;

const GREETING: &[u8] = b"CONNECT {\"verbose\":false,\"headers\":true}\r\n\
    SUB > 1\r\nSUB *.* group 2\r\nSUB a group 3\r\nPING\r\n";
const CONNECT: &[u8] = b"CONNECT {\"name\":\"NX\",\"cluster\":\"C\",\"user\":\"u\",\"pass\":\"p\",\
    \"headers\":true}\r\n";

/// Outcome of an input: how the link ended, what the other side heard but for INFO, which holds
/// something new each time, and how many bytes of the same kind the client heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkOutcome {
    end: Option<CloseReason>,
    lines: Vec<Vec<u8>>,
    heard: Vec<u8>,
}

/// One server.
pub(super) struct LinkHouse {
    broker: Arc<Broker>,
    shard: Shard,
    mesh: Arc<Mesh>,
    dials: Arc<Dials>,
    /// The client that behaves.
    witness: Session,
    heard: Written,
    has_dialled: bool,
    is_compressed: bool,
    shakes_hands: bool,
    now: Instant,
}

/// One link as its task sees it.
struct Peer {
    session: LinkSession,
    written: Written,
    held: Vec<u8>,
    need: usize,
    unpacking: Option<S2Reader>,
    end: Option<CloseReason>,
}

impl LinkHouse {
    /// The bits of `choice`: this server has dialled, it has a pool, it wants a password, it
    /// compresses, the handshake is done for the input.
    pub(super) fn new(choice: u8) -> Self {
        let has = |bit: u8| choice & bit != 0;
        let pool_size = if has(2) { 3 } else { 0 };
        let info = Info { server_id: "NA".into(), server_name: "A".into(), ..Info::default() };
        let settings = Settings { max_closed_clients: 0, ..Settings::default() };
        let entropy = Arc::new(SeededEntropy::new(1));
        let broker =
            Broker::new(settings, AuthConfig::open(), &[], Some("$SYS"), info, entropy, Arc::new(Unread))
                .expect("no account is named twice");
        let dedicated = if pool_size > 0 { vec!["$SYS".to_owned()] } else { Vec::new() };
        broker.form_cluster(LinkTerms { pool_size, dedicated: dedicated.clone() });
        let dials = Arc::<Dials>::default();
        let config = config((pool_size, dedicated), has(4), has(8));
        let mesh = Mesh::new(config, [vec!["A:4222".to_owned()], Vec::new()], Arc::clone(&dials) as _);
        let mut shard = Shard::new(&broker, SEED);
        let (heard, now) = (Written::default(), Instant::now());
        let conn = broker.connect(endpoint(), Box::new(heard.clone()));
        let (witness, _) = Session::open(&mut shard, conn, now);
        let mut house = Self {
            broker,
            shard,
            mesh,
            dials,
            witness,
            heard,
            has_dialled: has(1),
            is_compressed: has(8),
            shakes_hands: has(16),
            now,
        };
        house.witness_says(GREETING);
        house
    }

    /// Whether so many links have been here that the next should have a new house.
    pub(super) fn is_worn(&self) -> bool {
        self.dials.links.load(Relaxed) as u64 >= WORN
    }

    fn witness_says(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.witness.ingest(&mut self.shard, rest, None, self.now);
            rest = &rest[taken.bytes..];
            assert!(!matches!(taken.why, StopReason::Close(_)), "the client behaves");
            self.shard.flush();
        }
        self.shard.flush();
    }

    /// One link from its beginning to its end.
    pub(super) fn converse<'a>(&mut self, sent: impl Iterator<Item = &'a [u8]>) -> LinkOutcome {
        self.shard.reseed(SEED);
        self.heard.take();
        self.dials.links.fetch_add(1, Relaxed);
        let mut peer = self.open();
        if self.shakes_hands {
            self.shake_hands(&mut peer);
        }
        sent.for_each(|piece| self.receive(&mut peer, piece));
        self.time_passes(&mut peer);
        let lines = said(&peer.written.take());
        let end = peer.end;
        self.finish(peer);
        self.witness_says(b"PING\r\n");
        let heard = self.heard.take();
        assert!(heard.ends_with(b"PONG\r\n"), "the client is still served");
        self.check_empty();
        LinkOutcome { end, lines, heard: sorted(&heard) }
    }

    fn open(&mut self) -> Peer {
        let written = Written::default();
        let conn = self.broker.connect_link(endpoint(), Box::new(written.clone()));
        let side = if self.has_dialled { LinkSide::Dialled(dial()) } else { LinkSide::Accepted };
        let mut session = LinkSession::open(&self.mesh, &self.broker, &conn, side, self.now);
        session.greet(&mut self.shard, self.now);
        Peer { session, written, held: Vec::new(), need: 1, unpacking: None, end: None }
    }

    /// Lines of a server that is let in.
    fn shake_hands(&mut self, peer: &mut Peer) {
        if !self.has_dialled {
            self.receive_plain(peer, CONNECT);
        }
        let info = |more: &str| {
            let ip = "\"ip\":\"nats-route://127.0.0.1:1/\"";
            format!(
                "INFO {{\"server_id\":\"NX\",\"server_name\":\"X\",\"cluster\":\"C\",\"headers\":true,\
                 \"port\":1,\"lnoc\":true,\"lnocu\":true,{ip}{more}}}\r\n"
            )
        };
        if self.is_compressed {
            self.receive_plain(peer, info(",\"compression\":\"s2_fast\"").as_bytes());
        }
        self.receive_plain(peer, info("").as_bytes());
    }

    fn receive(&mut self, peer: &mut Peer, mut bytes: &[u8]) {
        while !bytes.is_empty() && peer.end.is_none() {
            let Some(reader) = &mut peer.unpacking else {
                return self.receive_plain(peer, bytes);
            };
            match reader.read(bytes) {
                Ok((used, data)) => {
                    bytes = &bytes[used..];
                    let data = data.to_vec();
                    self.receive_plain(peer, &data);
                }
                Err(_) => self.close(peer, CloseReason::ReadError),
            }
        }
    }

    fn receive_plain(&mut self, peer: &mut Peer, bytes: &[u8]) {
        peer.held.extend_from_slice(bytes);
        while peer.end.is_none() && !peer.held.is_empty() && peer.held.len() >= peer.need {
            let ingested = peer.session.ingest(&mut self.shard, &peer.held, None, self.now);
            assert!(ingested.bytes <= peer.held.len(), "took more than there is");
            peer.held.drain(..ingested.bytes);
            if let Some(announcing) = peer.session.take_announcing() {
                announcing.run();
            }
            let switched = peer.session.take_switch();
            match ingested.next {
                Next::Close(reason) => self.close(peer, reason),
                Next::More(need) => {
                    assert!(need > peer.held.len(), "asks for {need} bytes of {}", peer.held.len());
                    peer.need = need;
                }
                Next::Flush => peer.need = 1,
                Next::Check(login) => unreachable!("a route has nothing to check: {login:?}"),
            }
            self.flush(peer);
            if switched.is_some() {
                peer.need = 1;
                peer.unpacking = Some(S2Reader::new(BLOCK));
                let packed = std::mem::take(&mut peer.held);
                peer.session.has_switched();
                return self.receive(peer, &packed);
            }
        }
    }

    fn flush(&mut self, peer: &Peer) {
        self.shard.flush_link(peer.session.conn());
        self.shard.flush();
    }

    /// The link's next deadline comes.
    fn time_passes(&mut self, peer: &mut Peer) {
        if peer.end.is_none() {
            self.now = peer.session.deadline().max(self.now) + Duration::from_millis(1);
            if let Some(reason) = peer.session.on_deadline(self.now) {
                self.close(peer, reason);
            }
            self.flush(peer);
        }
    }

    fn close(&mut self, peer: &mut Peer, reason: CloseReason) {
        if peer.end.replace(reason).is_none() {
            peer.session.end(reason).into_iter().for_each(|removal| removal.run());
        }
    }

    fn finish(&mut self, mut peer: Peer) {
        self.close(&mut peer, CloseReason::ClientClosed);
        self.flush(&peer);
        peer.session.conn().discard();
    }

    /// Nothing of the link is left.
    fn check_empty(&self) {
        assert!(self.mesh.links().is_empty(), "a link that has ended is still listed");
        assert_eq!(self.broker.memory().total(), 0, "memory that nobody gave back");
        assert!(!self.shard.is_dirty(), "something is staged for nobody");
        let accounts = self.broker.accounts();
        assert_eq!(accounts.len(), 2, "an account that the other side has made");
        for account in accounts {
            assert_eq!(account.remote_subscriptions().0, 0, "interest of {}", account.name());
        }
        assert!(self.dials.now.swap(0, Relaxed) <= MOST_DIALS);
    }
}

fn endpoint() -> Endpoint {
    Endpoint { peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 9)), start: SystemTime::UNIX_EPOCH }
}

fn dial() -> Dial {
    let url = RouteUrl { host: "127.0.0.1".into(), port: 1, login: None };
    Dial { url, is_explicit: true, is_first: true, mode: GossipMode::Default, account: None, place: None }
}

fn config((pool_size, dedicated): (u32, Vec<String>), has_login: bool, compresses: bool) -> MeshConfig {
    let login =
        || Login { user: "u".into(), password: StoredSecret::Plain(Secret::new("p")), own: "p".into() };
    let info = PeerInfo {
        id: "NA".into(),
        name: "A".into(),
        cluster: "C".into(),
        headers: true,
        route_pool_size: i64::from(pool_size),
        port: 1,
        ln: true,
        ..PeerInfo::default()
    };
    MeshConfig {
        pool_size,
        dedicated,
        login: has_login.then(login),
        compression: if compresses { CompressionMode::S2(S2Level::Fast) } else { CompressionMode::Off },
        ..MeshConfig::plain(info)
    }
}

/// Lines in an order of their own, without INFO.
fn said(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let mut lines: Vec<_> = lines.filter(|line| !line.starts_with(b"INFO ")).map(<[u8]>::to_vec).collect();
    lines.sort_unstable();
    lines
}

/// All bytes in order: which of the client's subscriptions gets a message first is left open.
fn sorted(bytes: &[u8]) -> Vec<u8> {
    let mut sorted = bytes.to_vec();
    sorted.sort_unstable();
    sorted
}

/// Counts what is to be dialled, and dials nobody.
#[derive(Default)]
struct Dials {
    now: AtomicUsize,
    links: AtomicUsize,
}

impl MeshHost for Dials {
    fn dial(&self, dial: Dial) {
        self.now.fetch_add(1, Relaxed);
        drop(dial);
    }

    fn advertise(&self, _: Vec<String>, _: Vec<String>) {}

    fn advertise_leaf_nodes(&self, _: Vec<String>) {}

    fn spread(&self, _: u32, _: Vec<String>) {}

    fn renamed(&self, _: &str) {}

    fn complain(&self, _: Arguments<'_>) {}
}

/// A log that reads every line and keeps none.
struct Unread;

impl Log for Unread {
    fn enabled(&self, _: Level) -> bool {
        true
    }

    fn write(&self, _: Level, line: Arguments<'_>) {
        let line = line.to_string();
        assert!(!line.contains(['\r', '\n']), "a log line of several lines: {line:?}");
    }
}

/// Keeps what is written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Transport for Written {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bufs.iter().for_each(|buf| kept.extend_from_slice(buf));
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn wait_writable(&self, _: &Arc<Conn>) {}

    fn kick(&self, _: &Arc<Conn>) {}
}

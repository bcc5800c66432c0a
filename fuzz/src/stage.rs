//! A server with one shard and a client that behaves, beside which others do what they like.

use crate::peer::{LinkOutcome, Peer, counted};
use myelin_auth::AuthConfig;
use myelin_broker::{Broker, Conn, Endpoint, Level, Log, Session, Settings, Shard, StopReason, Transport};
use myelin_stdx::entropy::SeededEntropy;
use myelin_stdx::sync::lock;
use myelin_wire::info::Info;
use std::fmt::{self, Arguments, Write as _};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

/// How queue members are chosen.
const SEED: u64 = 7;
/// Links after which a stage is left.
const WORN: u64 = 4096;

const GREETING: &[u8] = b"CONNECT {\"verbose\":false,\"headers\":true}\r\n\
    SUB > 1\r\nSUB *.* group 2\r\nSUB a group 3\r\nPING\r\n";

/// One server.
pub(crate) struct Stage {
    pub(crate) broker: Arc<Broker>,
    pub(crate) shard: Shard,
    /// The client that behaves.
    witness: Session,
    heard: Written,
    links: u64,
    pub(crate) now: Instant,
}

/// A broker that is alone, and lets every client in. `has_trace`: its log wants the lines of the
/// protocol, too.
pub(crate) fn broker(has_trace: bool) -> Arc<Broker> {
    let info = Info { server_id: "NA".into(), server_name: "A".into(), ..Info::default() };
    let settings = Settings { max_closed_clients: 0, ..Settings::default() };
    let entropy = Arc::new(SeededEntropy::new(1));
    Broker::new(
        settings,
        AuthConfig::open(),
        &[],
        Some("$SYS"),
        info,
        entropy,
        Arc::new(Unread { has_trace }),
    )
    .expect("no account is named twice")
}

impl Stage {
    /// A server with this broker, and its client.
    pub(crate) fn new(broker: Arc<Broker>) -> Self {
        let mut shard = Shard::new(&broker, SEED);
        let (heard, now) = (Written::default(), Instant::now());
        let conn = broker.connect(endpoint(), Box::new(heard.clone()));
        let (witness, _) = Session::open(&mut shard, conn, now);
        let mut stage = Self { broker, shard, witness, heard, links: 0, now };
        stage.witness_says(GREETING);
        stage
    }

    /// Whether so many links have been here that the next should have a new server.
    pub(crate) fn is_worn(&self) -> bool {
        self.links >= WORN
    }

    /// The client that behaves sends something.
    pub(crate) fn witness_says(&mut self, bytes: &[u8]) {
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
    pub(crate) fn converse(&mut self, talk: impl FnOnce(&mut Self) -> Peer) -> LinkOutcome {
        self.shard.reseed(SEED);
        self.heard.take();
        self.links += 1;
        let peer = talk(self);
        let (end, lines) = peer.finish(self);
        self.witness_says(b"PING\r\n");
        let heard = self.heard.take();
        assert!(heard.ends_with(b"PONG\r\n"), "the client is still served");
        self.check_empty();
        LinkOutcome { end, lines, heard: counted(&heard) }
    }

    /// Nothing of a link is left.
    fn check_empty(&self) {
        assert_eq!(self.broker.memory().total(), 0, "memory that nobody gave back");
        assert!(!self.shard.is_dirty(), "something is staged for nobody");
        let accounts = self.broker.accounts();
        assert_eq!(accounts.len(), 2, "an account that the other side has made");
        for account in accounts {
            let name = account.name();
            assert_eq!(account.remote_subscriptions().0, 0, "interest of {name}");
            assert_eq!(account.leaf_nodes(), 0, "a leaf node of {name}");
            assert!(account.leaf_links().is_empty(), "a link of {name}");
        }
    }
}

/// Address of the other side.
pub(crate) fn endpoint() -> Endpoint {
    Endpoint { peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 9)), start: SystemTime::UNIX_EPOCH }
}

/// A log that reads every line and keeps none.
pub(crate) struct Unread {
    /// Whether it wants the lines of the protocol, too.
    pub(crate) has_trace: bool,
}

impl Log for Unread {
    fn enabled(&self, level: Level) -> bool {
        self.has_trace || level != Level::Trace
    }

    fn write(&self, _: Level, line: Arguments<'_>) {
        let is_one = OneLine.write_fmt(line).is_ok();
        assert!(is_one, "a log line of several lines: {:?}", line.to_string());
    }
}

/// Takes text without a line end.
struct OneLine;

impl fmt::Write for OneLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.bytes().any(|byte| matches!(byte, b'\r' | b'\n')) { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Keeps what is written.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.0))
    }
}

impl Transport for Written {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut kept = lock(&self.0);
        bufs.iter().for_each(|buf| kept.extend_from_slice(buf));
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn wait_writable(&self, _: &Arc<Conn>) {}

    fn kick(&self, _: &Arc<Conn>) {}
}

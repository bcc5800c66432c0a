//! A link to another server, whose bytes are handed over like a client's.

use super::{Counted, Embedded};
use bytes::Bytes;
use myelin_broker::{Endpoint, LinkTerms};
use myelin_mesh::{Dial, LinkSession, LinkSide, Mesh, MeshConfig, MeshHost, Next};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::PeerInfo;
use std::fmt::Arguments;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// A link, and what was sent over it.
pub(crate) struct CountedLink {
    session: LinkSession,
    received: Arc<AtomicU64>,
}

impl CountedLink {
    /// Bytes that were sent to the other server.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Subscriptions that the other server has told of.
    pub(crate) fn told(&self) -> usize {
        self.session.known().facts().subscriptions
    }
}

/// Nobody dials anybody.
struct Alone;

impl MeshHost for Alone {
    fn dial(&self, _: Dial) {}

    fn advertise(&self, _: Vec<String>, _: Vec<String>) -> bool {
        false
    }

    fn advertise_leaf_nodes(&self, _: [Vec<String>; 2]) {}

    fn spread(&self, _: u32, _: Vec<String>) {}

    fn renamed(&self, _: &str) {}

    fn complain(&self, line: Arguments<'_>) {
        eprintln!("{line}");
    }
}

/// INFO of the server with this name.
fn info(name: &str) -> PeerInfo {
    PeerInfo {
        id: format!("N{name}"),
        name: name.into(),
        cluster: "count".into(),
        headers: true,
        port: 1,
        ln: true,
        ..PeerInfo::default()
    }
}

fn mesh_config() -> MeshConfig {
    // No PING comes between what is counted.
    MeshConfig { ping_interval: Duration::from_secs(3600), ..MeshConfig::plain(info("here")) }
}

impl Embedded {
    /// Makes the server one of a cluster, as it was before its first client if it is configured so.
    pub(crate) fn form_cluster(&mut self) {
        self.broker.form_cluster(LinkTerms { pool_size: 1, dedicated: Vec::new() });
    }

    /// A link to another server, which has dialled and is told what is wanted here.
    pub(crate) fn link(&mut self) -> CountedLink {
        let mesh = Mesh::new(mesh_config(), Default::default(), Arc::new(Alone));
        let received = Arc::<AtomicU64>::default();
        let endpoint = Endpoint { peer: ([127, 0, 0, 1], 5).into(), start: SystemTime::UNIX_EPOCH };
        let conn = self.broker.connect_link(endpoint, Box::new(Counted(Arc::clone(&received))));
        let now = self.instant();
        let mut session = LinkSession::open(&mesh, &self.broker, &conn, LinkSide::Accepted, now);
        session.greet(&mut self.shard, now);
        let mut link = CountedLink { session, received };
        let connect = "CONNECT {\"name\":\"Nthere\",\"cluster\":\"count\",\"headers\":true}\r\n";
        let hello = Bytes::from([connect.as_bytes(), &info("there").line()].concat());
        self.send_from_link(&mut link, &hello);
        link
    }

    /// Takes what another server has sent, and does everything that follows from it.
    pub(crate) fn send_from_link(&mut self, link: &mut CountedLink, bytes: &Bytes) {
        let now = self.instant();
        let mut at = 0;
        while at < bytes.len() {
            let ingested = link.session.ingest(&mut self.shard, &bytes[at..], None, now);
            assert!(!matches!(ingested.next, Next::Close(_)), "the link stays");
            assert!(ingested.bytes > 0, "the server goes on reading");
            at += ingested.bytes;
            if let Some(announcing) = link.session.take_announcing() {
                announcing.run();
            }
            self.shard.flush_link(link.session.conn());
            self.work();
        }
    }

    /// Ends a link.
    pub(crate) fn end_link(&mut self, mut link: CountedLink) {
        link.session.end(CloseReason::ClientClosed).into_iter().for_each(|removal| removal.run());
        self.work();
    }
}

//! A server of a cluster with one shard, a client that behaves, and links that come and go.

use crate::peer::{LinkOutcome, Peer};
use crate::stage::{Stage, Written, broker, endpoint};
use myelin_auth::{Secret, StoredSecret};
use myelin_broker::LinkTerms;
use myelin_mesh::{Dial, DialCause, LinkSession, LinkSide, Login, Mesh, MeshConfig, MeshHost, RouteUrl};
use myelin_wire::peer::groups::{GroupServer, INTERNAL_ACCOUNTS};
use myelin_wire::peer::info::{GossipMode, PeerInfo};
use myelin_wire::s2::S2Level;
use myelin_wire::s2::mode::CompressionMode;
use std::fmt::Arguments;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Dials that may be under way at once.
const MOST_DIALS: usize = 4096;

const CONNECT: &str = "CONNECT {\"name\":\"NX\",\"cluster\":\"C\",\"user\":\"u\",\"pass\":\"p\",\
    \"headers\":true}\r\n";

/// One server.
pub(super) struct LinkHouse {
    stage: Stage,
    mesh: Arc<Mesh>,
    dials: Arc<Dials>,
    has_dialled: bool,
    is_compressed: bool,
    shakes_hands: bool,
}

impl LinkHouse {
    /// The bits of `choice`: this server has dialled, it has a pool, it wants a password, it
    /// compresses, the handshake is done for the input; it logs the protocol; it takes part in
    /// groups.
    pub(super) fn new(choice: u8) -> Self {
        let has = |bit: u8| choice & bit != 0;
        let pool_size = if has(2) { 3 } else { 0 };
        let broker = broker(has(32));
        let dedicated = if pool_size > 0 { vec!["$SYS".to_owned()] } else { Vec::new() };
        broker.form_cluster(LinkTerms { pool_size, dedicated: dedicated.clone() });
        let dials = Arc::<Dials>::default();
        let mut config = config((pool_size, dedicated), has(4), has(8));
        if has(64) {
            broker.make_internal_accounts(&INTERNAL_ACCOUNTS);
            config.info.myelin =
                Some(GroupServer { store: "SA".into(), incarnation: 1, servers: Vec::new() });
        }
        let mesh = Mesh::new(config, [vec!["A:4222".to_owned()], Vec::new()], Arc::clone(&dials) as _);
        let (has_dialled, is_compressed, shakes_hands) = (has(1), has(8), has(16));
        Self { stage: Stage::new(broker), mesh, dials, has_dialled, is_compressed, shakes_hands }
    }

    /// Whether so many links have been here that the next should have a new house.
    pub(super) fn is_worn(&self) -> bool {
        self.stage.is_worn()
    }

    /// One link from its beginning to its end.
    pub(super) fn converse<'a>(&mut self, sent: impl Iterator<Item = &'a [u8]>) -> LinkOutcome {
        let side = if self.has_dialled { LinkSide::Dialled(dial()) } else { LinkSide::Accepted };
        let (mesh, handshake) = (&self.mesh, self.handshake());
        let outcome = self.stage.converse(|stage| {
            let written = Written::default();
            let conn = stage.broker.connect_link(endpoint(), Box::new(written.clone()));
            let session = LinkSession::open(mesh, &stage.broker, &conn, side, stage.now);
            let mut peer = Peer::open(Box::new(session), written, stage);
            handshake.iter().for_each(|line| peer.receive_plain(stage, line.as_bytes()));
            sent.for_each(|piece| peer.receive(stage, piece));
            peer
        });
        assert!(self.mesh.links().is_empty(), "a link that has ended is still listed");
        let is_linked = |account: &&str| !self.mesh.linked_peers(account).is_empty();
        assert!(!INTERNAL_ACCOUNTS.iter().any(is_linked), "a server that has gone is still linked");
        assert!(self.dials.now.swap(0, Relaxed) <= MOST_DIALS);
        outcome
    }

    /// Lines of a server that is let in.
    fn handshake(&self) -> Vec<String> {
        let info = |more: &str| {
            let ip = "\"ip\":\"nats-route://127.0.0.1:1/\"";
            format!(
                "INFO {{\"server_id\":\"NX\",\"server_name\":\"X\",\"cluster\":\"C\",\"headers\":true,\
                 \"port\":1,\"lnoc\":true,\"lnocu\":true,{ip}{more}}}\r\n"
            )
        };
        let mut lines = Vec::new();
        if self.shakes_hands {
            lines.extend((!self.has_dialled).then(|| CONNECT.to_owned()));
            lines.extend(self.is_compressed.then(|| info(",\"compression\":\"s2_fast\"")));
            lines.push(info(""));
        }
        lines
    }
}

fn dial() -> Dial {
    let url = RouteUrl { host: "127.0.0.1".into(), port: 1, login: None };
    let (mode, account) = (GossipMode::Default, None);
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

/// Counts what is to be dialled, and dials nobody.
#[derive(Default)]
struct Dials {
    now: AtomicUsize,
}

impl MeshHost for Dials {
    fn dial(&self, dial: Dial) {
        self.now.fetch_add(1, Relaxed);
        drop(dial);
    }

    fn advertise(&self, _: Vec<String>, _: Vec<String>) -> bool {
        false
    }

    fn advertise_leaf_nodes(&self, _: [Vec<String>; 2]) {}

    fn spread(&self, _: u32, _: Vec<String>) {}

    fn renamed(&self, _: &str) {}

    fn complain(&self, _: Arguments<'_>) {}
}

//! A server with gateways, and links that come and go.

use crate::peer::{LinkOutcome, Peer};
use crate::stage::{Stage, Written, broker, endpoint};
use myelin_auth::{Secret, StoredSecret};
use myelin_mesh::gateway::config::{ConfiguredGateway, GatewayConfig};
use myelin_mesh::gateway::remote::GatewayRemote;
use myelin_mesh::gateway::session::{GatewayDial, GatewaySession};
use myelin_mesh::gateway::{GatewayHost, Gateways};
use myelin_mesh::{CertificateRules, Login, RouteUrl};
use myelin_wire::peer::info::PeerInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Dials that one link may ask for: clusters that it has told of, and its own once more.
const MOST_DIALS: usize = 4096;
const SECOND: Duration = Duration::from_secs(1);

/// One server.
pub(super) struct GatewayHouse {
    stage: Stage,
    has_dialled: bool,
    has_login: bool,
    rejects_unknown: bool,
    shakes_hands: bool,
    is_old: bool,
}

impl GatewayHouse {
    /// The bits of `choice`: this server has dialled, it wants a password, it refuses clusters that
    /// are not configured, the handshake is done for the input; the other side is older than 2.9
    /// there; this one logs the protocol.
    pub(super) fn new(choice: u8) -> Self {
        let has = |bit: u8| choice & bit != 0;
        let broker = broker(has(32));
        broker.form_gateway("A");
        Self {
            stage: Stage::new(broker),
            has_dialled: has(1),
            has_login: has(2),
            rejects_unknown: has(4),
            shakes_hands: has(8),
            is_old: has(16),
        }
    }

    /// Whether so many links have been here that the next should have a new house.
    pub(super) fn is_worn(&self) -> bool {
        self.stage.is_worn()
    }

    /// One link from its beginning to its end.
    pub(super) fn converse<'a>(&mut self, sent: impl Iterator<Item = &'a [u8]>) -> LinkOutcome {
        // Of each link's own: it tells of other clusters.
        let dials = Arc::<Dials>::default();
        let gateways = Gateways::new(self.config(), Arc::clone(&dials) as _);
        let remote = gateways.remote("B").filter(|_| self.has_dialled);
        let dial = remote.map_or(GatewayDial::Accepted, |remote| GatewayDial::Dialled(remote, url()));
        let (handshake, mut was_let_in) = (self.handshake(), false);
        let outcome = self.stage.converse(|stage| {
            let written = Written::default();
            let conn = stage.broker.connect_gateway(endpoint(), Box::new(written.clone()));
            let session = GatewaySession::open(&gateways, &stage.broker, &conn, dial, stage.now);
            let mut peer = Peer::open(Box::new(session), written.clone(), stage);
            handshake.iter().for_each(|line| peer.receive_plain(stage, line.as_bytes()));
            for piece in sent {
                peer.receive(stage, piece);
                was_let_in |= !gateways.inbound().is_empty();
                if gateways.outbound().is_empty() {
                    let account = stage.broker.account("$G").expect("it is always there");
                    assert_eq!(account.remote_subscriptions().0, 0, "interest of nobody");
                }
            }
            stage.witness_says(b"PUB a 1\r\nx\r\nHPUB a.b 12 13\r\nNATS/1.0\r\n\r\ny\r\n");
            peer
        });
        let is_told = outcome.lines.iter().any(|line| line.starts_with(b"RS+"));
        // Who is let in may have ended before the end of a piece.
        let was_let_in = was_let_in || self.shakes_hands || outcome.end.is_some();
        assert!(was_let_in || !is_told, "a stranger is told of interest");
        assert!(gateways.inbound().is_empty() && gateways.outbound().is_empty(), "it is still listed");
        assert!(dials.now.load(Relaxed) <= MOST_DIALS);
        outcome
    }

    /// Lines of a server that is let in.
    fn handshake(&self) -> Vec<String> {
        let told = if self.is_old { "" } else { ",\"gateway_iom\":true" };
        let info = format!(
            "INFO {{\"server_id\":\"NX\",\"server_name\":\"X\",\"headers\":true,\"gateway\":\"B\",\
             \"gateway_urls\":[\"127.0.0.1:1\"],\"gateway_nrp\":true{told}}}\r\n"
        );
        let connect =
            "CONNECT {\"name\":\"NX\",\"user\":\"u\",\"pass\":\"p\",\"gateway\":\"B\"}\r\n".to_owned();
        match (self.shakes_hands, self.has_dialled) {
            (false, _) => Vec::new(),
            (true, true) => vec![info],
            (true, false) => vec![connect, info],
        }
    }

    fn config(&self) -> GatewayConfig {
        let login =
            || Login { user: "u".into(), password: StoredSecret::Plain(Secret::new("p")), own: "p".into() };
        let info = PeerInfo {
            id: "NA".into(),
            name: "A".into(),
            headers: true,
            gateway: "A".into(),
            gateway_url: "127.0.0.1:2".into(),
            ..PeerInfo::default()
        };
        GatewayConfig {
            info,
            url: "127.0.0.1:2".into(),
            login: self.has_login.then(login),
            certificates: CertificateRules::default(),
            tls_required: false,
            remotes: vec![ConfiguredGateway { name: "B".into(), urls: vec![url()] }],
            rejects_unknown: self.rejects_unknown,
            connect_retries: 0,
            connect_backoff: false,
            connect_error_reports: 1,
            reconnect_error_reports: 1,
            ping_interval: SECOND,
            ping_max: 2,
            auth_timeout: SECOND,
        }
    }
}

fn url() -> RouteUrl {
    RouteUrl { host: "127.0.0.1".into(), port: 1, login: None }
}

/// Counts what is to be dialled, and dials nobody.
#[derive(Default)]
struct Dials {
    now: AtomicUsize,
}

impl GatewayHost for Dials {
    fn dial(&self, remote: Arc<GatewayRemote>, _: bool) {
        self.now.fetch_add(1, Relaxed);
        drop(remote);
    }
}

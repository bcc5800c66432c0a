//! A server with leaf nodes and a hub, and links that come and go.

use crate::peer::{LinkOutcome, Peer};
use crate::stage::{Stage, Written, broker, endpoint};
use myelin_auth::{
    AccountName, AuthConfig, ConnectionTypes, Method, Permissions, Secret, StoredSecret, SubjectRules, User,
    Users,
};
use myelin_mesh::leaf::config::{LeafCompression, LeafConfig, LeafJetStream};
use myelin_mesh::leaf::remote::{LeafKey, LeafRemote, LeafRemoteConfig, LeafUrl};
use myelin_mesh::leaf::session::{LeafDial, LeafSession, LeafSide};
use myelin_mesh::leaf::{LeafHost, LeafNodes};
use myelin_wire::peer::info::PeerInfo;
use myelin_wire::s2::S2Level;
use myelin_wire::s2::mode::CompressionMode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Dials that one link may ask for: the hub once more, when it has ended.
const MOST_DIALS: usize = 1;
const SECOND: Duration = Duration::from_secs(1);

/// One server.
pub(super) struct LeafHouse {
    stage: Stage,
    nodes: Arc<LeafNodes>,
    remote: LeafRemoteConfig,
    dials: Arc<Dials>,
    has_dialled: bool,
    is_hub: bool,
    is_compressed: bool,
    shakes_hands: bool,
    /// Whether the input is taken as what has been unpacked already.
    is_unpacked: bool,
}

impl LeafHouse {
    /// The bits of `choice`: this server has dialled; who has dialled is the hub; leaf nodes log in
    /// and have permissions; links are compressed; the handshake is done for the input; what comes
    /// is not compressed nevertheless; links are isolated, old servers are refused, and this one
    /// has JetStream with a domain, and logs the protocol.
    pub(super) fn new(choice: u8) -> Self {
        let has = |bit: u8| choice & bit != 0;
        let broker = broker(has(64));
        broker.form_leaf_nodes();
        let mode = if has(8) { CompressionMode::S2(S2Level::Fast) } else { CompressionMode::Off };
        let dials = Arc::<Dials>::default();
        let nodes = LeafNodes::new(config(mode, has(4), has(64)), Arc::clone(&dials) as _);
        Self {
            stage: Stage::new(broker),
            nodes,
            remote: remote(mode, has(2), has(4), has(64)),
            dials,
            has_dialled: has(1),
            is_hub: has(2),
            is_compressed: has(8),
            shakes_hands: has(16),
            is_unpacked: has(32),
        }
    }

    /// Whether so many links have been here that the next should have a new house.
    pub(super) fn is_worn(&self) -> bool {
        self.stage.is_worn()
    }

    /// One link from its beginning to its end.
    pub(super) fn converse<'a>(&mut self, sent: impl Iterator<Item = &'a [u8]>) -> LinkOutcome {
        // A hub of its own for each link: it tells of addresses.
        let remote = Arc::new(LeafRemote::new(self.remote.clone(), 1));
        let side = match remote.next_url().filter(|_| self.has_dialled) {
            Some(url) => LeafSide::Dialled(LeafDial { remote, url, signer: None }),
            None => LeafSide::Accepted,
        };
        let (nodes, handshake, is_unpacked) = (&self.nodes, self.handshake(), self.is_unpacked);
        let outcome = self.stage.converse(|stage| {
            let written = Written::default();
            let conn = stage.broker.connect_leaf(endpoint(), Box::new(written.clone()), false);
            let session = LeafSession::open(nodes, &stage.broker, &conn, side, stage.now);
            let mut peer = Peer::open(Box::new(session), written.clone(), stage);
            if is_unpacked {
                peer.take_unpacked();
            }
            handshake.iter().for_each(|line| peer.receive_plain(stage, line.as_bytes()));
            for piece in sent {
                peer.receive(stage, piece);
                if nodes.links().is_empty() {
                    let account = stage.broker.account("$G").expect("it is always there");
                    assert_eq!(account.remote_subscriptions().0, 0, "interest of nobody");
                }
            }
            peer
        });
        let is_told = outcome.lines.iter().any(|line| line.starts_with(b"LS+"));
        let is_counted = self.dials.counted.swap(0, Relaxed) > 0;
        assert!(is_counted || !is_told, "a stranger is told of interest");
        assert!(self.nodes.links().is_empty(), "a link that has ended is still listed");
        assert!(self.dials.now.swap(0, Relaxed) <= MOST_DIALS);
        outcome
    }

    /// Lines of a leaf node, or of a hub, that is let in.
    fn handshake(&self) -> Vec<String> {
        let info = |more: &str| {
            format!(
                "INFO {{\"server_id\":\"NX\",\"server_name\":\"X\",\"cluster\":\"C\",\"proto\":3,\
                 \"headers\":true,\"client_id\":7,\"info_on_connect\":true,\
                 \"leafnode_urls\":[\"127.0.0.1:1\"]{more}}}\r\n"
            )
        };
        let compression = if self.is_compressed { ",\"compression\":\"s2_fast\"" } else { "" };
        match (self.shakes_hands, self.has_dialled) {
            (false, _) => Vec::new(),
            (true, true) => {
                let again = self.is_compressed.then(|| info(compression));
                let answer = info(",\"connect_info\":true,\"remote_account\":\"$G\"");
                [info(compression)].into_iter().chain(again).chain([answer]).collect()
            }
            (true, false) => {
                let connect = format!(
                    "CONNECT {{\"version\":\"2.15.2\",\"name\":\"X\",\"cluster\":\"C\",\"user\":\"u\",\
                     \"pass\":\"p\",\"is_hub\":{},\"headers\":true,\"remote_account\":\"$G\",\
                     \"protocol\":3}}\r\n",
                    self.is_hub
                );
                self.is_compressed.then(|| info(compression)).into_iter().chain([connect]).collect()
            }
        }
    }
}

fn users() -> AuthConfig {
    let rules =
        |allow: &str, deny: &str| SubjectRules { allow: vec![allow.to_owned()], deny: vec![deny.to_owned()] };
    let permissions = Permissions::new(Some(rules(">", "no.>")), Some(rules("*.>", "*.no")), None);
    let user = User {
        name: "u".into(),
        password: StoredSecret::Plain(Secret::new("p")),
        account: AccountName::global(),
        permissions: Some(Arc::new(permissions.expect("they are well formed"))),
        connection_types: ConnectionTypes::default(),
        proxy_required: false,
    };
    AuthConfig::new(Method::Users(Users::new(vec![user])))
}

fn config(mode: CompressionMode, has_users: bool, is_strict: bool) -> LeafConfig {
    let info = PeerInfo {
        id: "NA".into(),
        name: "A".into(),
        headers: true,
        port: 1,
        info_on_connect: true,
        leafnode_urls: vec!["127.0.0.1:1".into()],
        ..PeerInfo::default()
    };
    LeafConfig {
        info,
        name: "A".into(),
        id: "NA".into(),
        cluster: "A".into(),
        auth: has_users.then(|| Arc::new(users())),
        default_account: None,
        compression: LeafCompression { mode, thresholds: Vec::new() },
        min_version: is_strict.then_some([2, 9, 0]),
        is_isolated: is_strict,
        auth_timeout: SECOND,
        ping_interval: SECOND,
        ping_max: 2,
        max_payload: 1024,
        headers: true,
        reconnect: SECOND,
        jetstream: LeafJetStream {
            is_enabled: is_strict,
            domain: if is_strict { "D".into() } else { String::new() },
            ..LeafJetStream::default()
        },
    }
}

fn remote(mode: CompressionMode, is_hub: bool, has_rules: bool, asks_isolation: bool) -> LeafRemoteConfig {
    let rules = |subject: &str| if has_rules { vec![subject.to_owned()] } else { Vec::new() };
    LeafRemoteConfig {
        is_proxied: false,
        urls: vec![LeafUrl { host: "127.0.0.1".into(), port: 1, login: None, web_socket: None }],
        no_randomize: true,
        account: "$G".into(),
        key: LeafKey::None,
        is_hub,
        deny_imports: rules("no.>"),
        deny_exports: rules("*.no"),
        is_isolated: false,
        asks_isolation,
        compression: LeafCompression { mode, thresholds: Vec::new() },
        first_info_timeout: SECOND,
        dial_timeout: SECOND,
        ignores_told: false,
        wants_tls: false,
        means: Arc::new(()),
    }
}

/// Counts what is to be dialled, and dials nobody.
#[derive(Default)]
struct Dials {
    now: AtomicUsize,
    /// Links that were let in, or have gone.
    counted: AtomicUsize,
}

impl LeafHost for Dials {
    fn dial_again(&self, remote: Arc<LeafRemote>) {
        self.now.fetch_add(1, Relaxed);
        drop(remote);
    }

    fn count_changed(&self, _: &str) {
        self.counted.fetch_add(1, Relaxed);
    }
}

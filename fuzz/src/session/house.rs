//! A broker with one shard, one client that behaves, and others that come and go: what the server
//! does around the core, without sockets, threads or time.

use super::frames::Heard;
use super::pipe::Pipe;
use crate::stage::Unread;
use myelin_auth::{
    AccountName, AuthConfig, ConnectionTypes, Method, Permissions, ResponseRule, Secret, StoredSecret,
    SubjectRules, User, Users,
};
use myelin_broker::{
    Broker, Checked, Drained, Endpoint, Session, SessionStatus, Settings, Shard, StopReason,
};
use myelin_stdx::entropy::SeededEntropy;
use myelin_wire::info::Info;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Bcrypt of `pa` at the lowest cost.
const BCRYPT_PA: &str = "$2a$04$HC3pb82UrzraClGLwypBgOiyUbVMgoaS1XYV5Dr5RzehWUR8aIg6K";

/// How the client that behaves greets. Its name and password fit every house.
const GREETING: &[u8] =
    b"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\
    \"protocol\":1,\"auth_token\":\"secret\",\"user\":\"plain\",\"pass\":\"secret\"}\r\n\
    SUB > 1\r\nSUB *.* group 2\r\nSUB a group 3\r\nPING\r\n";

/// Subscriptions of the client that behaves.
const WITNESSED: usize = 3;

/// The client that behaves, by number. All others have higher ones.
const WITNESS: usize = 0;

/// How queue members are chosen.
const SEED: u64 = 7;

/// Last frame that the client that behaves receives for an input.
pub(super) const PONG: &[u8] = b"PONG\r\n";

/// Connections after which a house is left, so that what brokers remember of them is bounded, and
/// is freed.
const WORN: u64 = 4096;

/// Broker with one shard and its clients, without sockets, threads or time.
pub(super) struct House {
    broker: Arc<Broker>,
    shard: Shard,
    peers: Vec<Peer>,
    has_narrow_pipes: bool,
    now: Instant,
}

/// One client as its connection's task sees it.
struct Peer {
    session: Session,
    pipe: Pipe,
    /// Received bytes that the session has not taken yet.
    held: Vec<u8>,
    /// Bytes that it asked for.
    need: usize,
    is_open: bool,
}

impl House {
    /// The lowest two bits of `choice` are how clients authenticate (not at all, by token, as
    /// users, as users with one for everybody else), then come: small limits, tracing, narrow
    /// pipes.
    pub(super) fn new(choice: u8) -> Self {
        let has = |bit: u8| choice & bit != 0;
        let log = Arc::new(Unread { has_trace: has(8) });
        let info = Info { server_id: "FUZZ".into(), max_payload: 1 << 20, ..Info::default() };
        let settings = Settings { max_closed_clients: 0, ..settings(has(4)) };
        let broker = Broker::new(
            settings,
            auth(choice),
            &[],
            Some("$SYS"),
            info,
            Arc::new(SeededEntropy::new(1)),
            log,
        )
        .expect("no account is named twice");
        let mut house = Self {
            shard: Shard::new(&broker, SEED),
            broker,
            peers: Vec::new(),
            has_narrow_pipes: has(16),
            now: Instant::now(),
        };
        house.enter();
        house.send(WITNESS, GREETING);
        house.check_empty();
        house
    }

    /// Begins an input: queue members are chosen as for the first one, whatever was drawn for the
    /// guests before.
    pub(super) fn begin(&mut self) {
        self.shard.reseed(SEED);
        self.peers[WITNESS].pipe.rewind();
    }

    /// Nothing of the guests stays, so that as much memory is freed after an input as it took.
    pub(super) fn clear(&mut self) {
        self.peers.truncate(WITNESS + 1);
    }

    /// Whether so many have been here that the next should have a new house.
    pub(super) fn is_worn(&self) -> bool {
        self.broker.connection_counts().1 >= WORN
    }

    /// The client that behaves leaves, too, and nothing at all is left.
    pub(super) fn close(mut self) {
        self.leave(WITNESS);
        assert_eq!(self.broker.connection_counts().0, 0);
        assert!(self.broker.accounts().iter().all(|account| account.subscriptions() == 0));
    }

    /// The client that behaves is still served.
    pub(super) fn check_service(&mut self) {
        let before = self.peers[WITNESS].pipe.len();
        self.send(WITNESS, b"PING\r\n");
        assert_eq!(self.peers[WITNESS].pipe.len(), before + PONG.len(), "the other client is not served");
    }

    /// A client connects; returns its number.
    pub(super) fn enter(&mut self) -> usize {
        let pipe = Pipe::new(self.has_narrow_pipes);
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let endpoint = Endpoint { peer, start: SystemTime::UNIX_EPOCH };
        let conn = self.broker.connect(endpoint, Box::new(pipe.clone()));
        let (session, verdict) = Session::open(&mut self.shard, conn, self.now);
        assert_eq!(verdict, SessionStatus::Continue, "there is room for everybody");
        self.peers.push(Peer { session, pipe, held: Vec::new(), need: 1, is_open: true });
        self.flush();
        self.peers.len() - 1
    }

    /// A client sends, unless its connection has ended.
    pub(super) fn send(&mut self, number: usize, bytes: &[u8]) {
        let peer = &mut self.peers[number];
        if !peer.is_open {
            return;
        }
        peer.held.extend_from_slice(bytes);
        while self.peers[number].wants_more_work() {
            self.work(number);
        }
        self.flush();
    }

    /// Offers what is held once, and does what the session asks for.
    fn work(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        let consumed = peer.session.ingest(&mut self.shard, &peer.held, None, self.now);
        assert!(consumed.bytes <= peer.held.len(), "took more than there is");
        peer.held.drain(..consumed.bytes);
        peer.need = 1;
        match consumed.why {
            StopReason::More(need) => {
                assert!(need > peer.held.len(), "asks for {need} bytes of {}", peer.held.len());
                peer.need = need;
            }
            StopReason::Flush | StopReason::Stall => self.flush(),
            StopReason::Authenticate(task) => {
                let Checked::Final(outcome) = task.run() else { panic!("nobody is asked here") };
                let verdict = peer.session.authenticated(&mut self.shard, outcome, self.now);
                self.heed(number, verdict);
            }
            StopReason::AwaitStorage => unreachable!("nobody here speaks MQTT"),
            StopReason::Close(reason) => self.heed(number, SessionStatus::Close(reason)),
        }
    }

    fn heed(&mut self, number: usize, verdict: SessionStatus) {
        if let SessionStatus::Close(reason) = verdict {
            let peer = &mut self.peers[number];
            peer.is_open = false;
            if let Some(removal) = peer.session.end(&mut self.shard, reason, self.now) {
                removal.run();
            }
            self.flush();
        }
    }

    /// The client's next deadline comes.
    pub(super) fn time_passes(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        if peer.is_open {
            self.now = peer.session.deadline().max(self.now) + Duration::from_millis(1);
            let verdict = peer.session.on_deadline(&mut self.shard, self.now);
            self.heed(number, verdict);
            self.flush();
        }
    }

    /// The client hangs up.
    pub(super) fn leave(&mut self, number: usize) {
        if self.peers[number].is_open {
            self.heed(number, SessionStatus::Close(myelin_wire::error::CloseReason::ClientClosed));
        }
        self.peers[number].session.conn().discard();
    }

    /// Everything that a guest and the client that behaves have received of an input; taken.
    pub(super) fn heard(&self, guest: usize) -> Heard {
        Heard { hostile: self.peers[guest].pipe.take(), witness: self.peers[WITNESS].pipe.take() }
    }

    /// Sends what is staged, and plays the owner of every pipe that blocked.
    fn flush(&mut self) {
        self.shard.flush();
        for peer in &self.peers {
            while peer.pipe.take_waiting() {
                let conn = peer.session.conn();
                while let Drained::Blocked { .. } = self.shard.drain(conn) {}
            }
        }
    }

    /// Nothing of those who have left is left, and everything of the one who stays.
    pub(super) fn check_empty(&self) {
        let broker = &self.broker;
        assert_eq!(broker.connection_counts().0, 1, "who has left is still listed");
        assert_eq!(broker.memory().total(), 0, "memory that nobody gave back");
        assert!(!self.shard.is_dirty(), "something is staged for nobody");
        let (mut connections, mut subscriptions) = (0, 0);
        for account in broker.accounts() {
            assert_eq!(account.awaited(), 0, "{} owes an answer to somebody who has left", account.name());
            connections += account.connections();
            subscriptions += account.subscriptions();
        }
        assert_eq!((connections, subscriptions), (1, WITNESSED), "in the accounts");
        for (number, peer) in self.peers.iter().enumerate() {
            let conn = peer.session.conn();
            let subscriptions = if number == WITNESS { WITNESSED } else { 0 };
            assert_eq!((conn.subscription_count(), conn.pending()), (subscriptions, 0));
        }
    }
}

impl Peer {
    fn wants_more_work(&self) -> bool {
        self.is_open && !self.held.is_empty() && self.held.len() >= self.need
    }
}

fn settings(is_small: bool) -> Settings {
    if !is_small {
        return Settings::default();
    }
    Settings {
        max_control_line: 200,
        max_payload: 20,
        max_subscriptions: Some(4),
        max_sub_tokens: Some(3),
        ..Settings::default()
    }
}

fn auth(choice: u8) -> AuthConfig {
    let secret = || StoredSecret::Plain(Secret::new("secret"));
    match choice & 3 {
        0 => AuthConfig::open(),
        1 => AuthConfig::new(Method::Token(secret())),
        _ => {
            let mut users = vec![user("plain", secret(), None), user("bound", secret(), Some(permissions()))];
            // A look at its password costs as much as three inputs: in every eighth house.
            if choice < 4 {
                users.push(user("hashed", StoredSecret::parse(BCRYPT_PA), None));
            }
            let no_auth_user = (choice & 3 == 3).then(|| "bound".to_owned());
            AuthConfig { no_auth_user, ..AuthConfig::new(Method::Users(Users::new(users))) }
        }
    }
}

fn user(name: &str, password: StoredSecret, permissions: Option<Arc<Permissions>>) -> User {
    User {
        name: name.into(),
        password,
        account: AccountName::global(),
        permissions,
        connection_types: ConnectionTypes::default(),
        proxy_required: false,
    }
}

fn permissions() -> Arc<Permissions> {
    let list = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let publish = SubjectRules { allow: list(&["a.>", "b", "_INBOX.>"]), deny: list(&["a.secret.*"]) };
    let subscribe =
        SubjectRules { allow: list(&["a.*", "b", "_INBOX.>", "c q"]), deny: list(&["a.x", "* bad"]) };
    let made = Permissions::new(Some(publish), Some(subscribe), Some(ResponseRule::default()));
    Arc::new(made.expect("these are valid rules"))
}

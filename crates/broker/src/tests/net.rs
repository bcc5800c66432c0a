//! A broker with two shards and the clients of a test, all in one thread.

use super::sink::FakeSink;
use crate::broker::Broker;
use crate::conn::Conn;
use crate::conn_details::Endpoint;
use crate::imports::AccountConfig;
use crate::log::{Level, Log};
use crate::outbox::Drained;
use crate::session::{Checked, Refreshed, Removal, Session, SessionStatus, StopReason};
use crate::settings::Settings;
use crate::shard::Shard;
use bytes::Bytes;
use myelin_auth::{
    AccountName, AuthConfig, ConnectionTypes, Method, Permissions, ResponseRule, StoredSecret, SubjectRules,
    User, Users,
};
use myelin_stdx::entropy::{Entropy, OsEntropy};
use myelin_wire::error::CloseReason;
use myelin_wire::info::Info;
use std::cell::{Cell, RefCell};
use std::fmt::Arguments;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Configuration of a test's broker.
pub(super) struct Setup {
    pub(super) settings: Settings,
    pub(super) auth: AuthConfig,
    pub(super) accounts: Vec<AccountConfig>,
    pub(super) system_account: Option<String>,
    pub(super) log: Arc<dyn Log>,
    pub(super) entropy: Arc<dyn Entropy>,
}

impl Setup {
    /// Lets in only these users. Their accounts come into being without limits.
    pub(super) fn users(&mut self, users: impl IntoIterator<Item = User>) {
        let users: Vec<User> = users.into_iter().collect();
        for user in &users {
            let name = user.account.as_str();
            if name != "$G" && self.accounts.iter().all(|known| known.name != name) {
                self.accounts.push(AccountConfig::named(name));
            }
        }
        self.auth = AuthConfig::new(Method::Users(Users::new(users)));
    }
}

/// A user whose password is its name.
pub(super) fn user(name: &str, account: &str, permissions: Option<Permissions>) -> User {
    User {
        name: name.to_owned(),
        password: StoredSecret::parse(name),
        account: AccountName::new(account),
        permissions: permissions.map(Arc::new),
        connection_types: ConnectionTypes::default(),
        proxy_required: false,
    }
}

/// Fields of CONNECT that log in as the user `name`.
pub(super) fn login(name: &str) -> String {
    format!(r#""user":"{name}","pass":"{name}""#)
}

/// Publish rules, then subscribe rules, each as allow and deny.
pub(super) fn permissions(
    publish: [&[&str]; 2],
    subscribe: [&[&str]; 2],
    responses: Option<ResponseRule>,
) -> Option<Permissions> {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let rules = |[allow, deny]: [&[&str]; 2]| Some(SubjectRules { allow: owned(allow), deny: owned(deny) });
    Some(Permissions::new(rules(publish), rules(subscribe), responses).unwrap())
}

struct NoLog;

impl Log for NoLog {
    fn enabled(&self, _: Level) -> bool {
        false
    }
    fn write(&self, _: Level, _: Arguments<'_>) {}
}

/// Broker with two shards and the clients of a test, all in one thread.
pub(super) struct Net {
    pub(super) broker: Arc<Broker>,
    pub(super) shards: [Rc<RefCell<Shard>>; 2],
    clock: Rc<Cell<Instant>>,
}

impl Net {
    /// Defaults, everybody let in.
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    /// As `configure` says.
    pub(super) fn with(configure: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup {
            settings: Settings::default(),
            auth: AuthConfig::open(),
            accounts: Vec::new(),
            system_account: None,
            log: Arc::new(NoLog),
            entropy: Arc::new(OsEntropy),
        };
        configure(&mut setup);
        let system = setup.system_account.as_deref();
        let info = Info::default();
        let broker =
            Broker::new(setup.settings, setup.auth, &setup.accounts, system, info, setup.entropy, setup.log)
                .unwrap();
        let shard = |seed| Rc::new(RefCell::new(Shard::new(&broker, seed)));
        Self { shards: [shard(1), shard(2)], clock: Rc::new(Cell::new(Instant::now())), broker }
    }

    /// A client that has connected: not verbose, not pedantic, with headers.
    pub(super) fn peer(&self, shard: usize) -> Peer {
        self.peer_as(shard, r#""lang":"test""#)
    }

    /// Connects a client with more fields in its CONNECT: the last of a name counts.
    pub(super) fn peer_as(&self, shard: usize, fields: &str) -> Peer {
        let mut peer = self.stranger(shard);
        peer.connect(fields);
        peer.received();
        peer
    }

    /// A client that has seen INFO and said nothing.
    pub(super) fn stranger(&self, shard: usize) -> Peer {
        let peer = self.newcomer(shard);
        assert!(peer.received().starts_with("INFO {"));
        peer
    }

    /// A client whose INFO is not read yet.
    pub(super) fn newcomer(&self, shard: usize) -> Peer {
        let sink = FakeSink::default();
        let endpoint = Endpoint { peer: ([127, 0, 0, 1], 4).into(), start: SystemTime::UNIX_EPOCH };
        let conn = self.broker.connect(endpoint, Box::new(sink.clone()));
        let shard = Rc::clone(&self.shards[shard]);
        let (session, verdict) = Session::open(&mut shard.borrow_mut(), conn, self.clock.get());
        let mut peer = Peer {
            session,
            shard,
            sink,
            clock: Rc::clone(&self.clock),
            unread: Vec::new(),
            closed: None,
            stalls: 0,
            pauses: 0,
            consumed: 0,
        };
        peer.obey(verdict);
        peer.shard.borrow_mut().flush();
        peer
    }

    /// Ends the tick of one shard.
    pub(super) fn flush(&self, shard: usize) {
        self.shards[shard].borrow_mut().flush();
    }

    /// Ends the tick of both.
    pub(super) fn flush_all(&self) {
        self.flush(0);
        self.flush(1);
    }

    /// A quiet time that is long enough for one shard to forget what has ended.
    pub(super) fn rest(&self, shard: usize) {
        (0..64).for_each(|_| self.quiet_second(shard));
    }

    /// A second in which nothing happens on one shard.
    pub(super) fn quiet_second(&self, shard: usize) {
        self.shards[shard].borrow_mut().maintain(self.now());
    }

    /// The time of all sessions.
    pub(super) fn now(&self) -> Instant {
        self.clock.get()
    }

    /// Lets time pass.
    pub(super) fn advance(&self, by: Duration) {
        self.clock.set(self.clock.get() + by);
    }
}

/// One client: its session, its transport, and what it sent that is not whole yet.
pub(super) struct Peer {
    session: Session,
    shard: Rc<RefCell<Shard>>,
    pub(super) sink: FakeSink,
    clock: Rc<Cell<Instant>>,
    unread: Vec<u8>,
    /// Why the session ended.
    pub(super) closed: Option<CloseReason>,
    /// How often it was to pause for a receiver that is far behind.
    pub(super) stalls: usize,
    /// How often it was to wait for a flush.
    pub(super) pauses: usize,
    /// Bytes dealt with.
    pub(super) consumed: usize,
}

impl Peer {
    /// Sends bytes and does what the session asks for, as a shell would.
    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.unread.extend_from_slice(bytes.as_ref());
        while self.closed.is_none() {
            let memory = Bytes::from(std::mem::take(&mut self.unread));
            let now = self.clock.get();
            let consumed = self.session.ingest(&mut self.shard.borrow_mut(), &memory, Some(&memory), now);
            self.consumed += consumed.bytes;
            self.unread = memory[consumed.bytes..].to_vec();
            match consumed.why {
                StopReason::More(_) => return,
                StopReason::Flush => self.pauses += 1,
                StopReason::Stall => self.stalls += 1,
                StopReason::Authenticate(task) => {
                    let Checked::Final(outcome) = task.run() else { panic!("nobody is asked here") };
                    let verdict = self.session.authenticated(&mut self.shard.borrow_mut(), outcome, now);
                    self.obey(verdict);
                    continue;
                }
                StopReason::AwaitStorage => unreachable!("no client of this net speaks MQTT"),
                StopReason::Close(reason) => return self.end(reason),
            }
            self.shard.borrow_mut().flush();
        }
    }

    /// Sends a CONNECT with these fields beside the tests' defaults.
    pub(super) fn connect(&mut self, fields: &str) {
        self.send(format!("CONNECT {{\"verbose\":false,\"pedantic\":false,\"headers\":true,{fields}}}\r\n"));
        self.shard.borrow_mut().flush();
    }

    /// Publishes `payload`.
    pub(super) fn publish(&mut self, subject: &str, payload: &str) {
        self.send(format!("PUB {subject} {}\r\n{payload}\r\n", payload.len()));
    }

    /// Publishes one payload twice and throws away what everybody in `audience` gets: the route of
    /// `subject` is in the cache of this shard afterwards.
    pub(super) fn warm_up(&mut self, subject: &str, audience: &[&Self]) {
        self.publish(subject, "warm");
        self.publish(subject, "warm");
        self.shard.borrow_mut().flush();
        for peer in audience {
            assert!(!peer.received().is_empty(), "the audience listens to {subject}");
        }
    }

    /// Bytes that were written to this client since the last call.
    pub(super) fn received(&self) -> String {
        String::from_utf8(self.sink.take()).unwrap()
    }

    pub(super) fn conn(&self) -> &Arc<Conn> {
        self.session.conn()
    }

    /// When the session wants to be asked again.
    pub(super) fn deadline(&self) -> Instant {
        self.session.deadline()
    }

    /// Lets the session do what is due, and flushes.
    pub(super) fn tick(&mut self) {
        let verdict = self.session.on_deadline(&mut self.shard.borrow_mut(), self.clock.get());
        self.obey(verdict);
        self.shard.borrow_mut().flush();
    }

    /// Has the session apply what was replaced in the broker, as a shell does after a reload.
    pub(super) fn refresh(&mut self) {
        let refreshed = self.session.refresh(&mut self.shard.borrow_mut(), self.clock.get());
        assert!(matches!(refreshed, Refreshed::Continue), "it stays");
    }

    /// Goes on with a blocked outbox, as the owner shard does when the transport takes bytes again.
    pub(super) fn drain(&self) -> Drained {
        self.shard.borrow_mut().drain(self.session.conn())
    }

    /// Ends the session, leaving to the caller what takes long.
    pub(super) fn end_slowly(&mut self) -> Option<Removal> {
        self.session.end(&mut self.shard.borrow_mut(), CloseReason::ClientClosed, self.clock.get())
    }

    /// Ends the connection from the outside.
    pub(super) fn leave(&mut self) {
        self.end(CloseReason::ClientClosed);
        self.conn().discard();
    }

    fn obey(&mut self, verdict: SessionStatus) {
        if let SessionStatus::Close(reason) = verdict {
            self.end(reason);
        }
    }

    fn end(&mut self, reason: CloseReason) {
        self.closed = Some(reason);
        let mut shard = self.shard.borrow_mut();
        self.session.end(&mut shard, reason, self.clock.get());
        shard.flush();
    }
}

/// Asserts that nothing waits anywhere and that all memory is given back.
pub(super) fn assert_idle(net: &Net, peers: &[&Peer]) {
    for peer in peers {
        assert_eq!(peer.conn().pending(), 0, "bytes of cid {} still wait", peer.conn().cid());
    }
    assert_eq!(net.broker.memory().total(), 0, "memory is still charged");
}

//! A shard's thread: a single-threaded runtime that owns a share of the connections.
//!
//! Connections stay where they were placed. Other threads reach a shard through its mailbox only.
//! One flusher task runs once per scheduler tick, after the connections that were ready in that
//! tick, so that what they staged goes out together.
//!
//! A connection with TLS differs at both ends only. `preamble` decides what comes before the
//! session (the header of a proxy, INFO, the handshake) from what was offered when the connection
//! was accepted; `proxy_protocol` reads the header; `handshake` shakes hands on the control runtime
//! with bounded memory; `secure` encrypts and decrypts on the owner shard, and other shards leave
//! their bytes in the outbox and wake it. Whether certificates were revoked is asked in `ocsp/`,
//! between the last step of the handshake and its last words (`tls/alert.rs` says no). WebSocket is
//! frames around the same bytes (`websocket`).
//!
//! Monitoring over HTTPS shakes hands the same way (`http/secure.rs`).
//!
//! A shard whose last pauses were short stays awake for the next message (`busy_poll`).

mod busy_poll;
mod close;
mod conn_handle;
mod drain;
mod handshake;
mod link;
mod link_buffer;
mod link_codec;
mod link_security;
mod link_tls;
mod link_upgrade;
mod link_websocket;
mod login;
mod preamble;
mod proxy_protocol;
mod reader;
mod secure;
mod socket;
#[cfg(test)]
mod tests;
mod timers;
mod websocket;

use crate::logging::Logger;
use crate::supervise::{self, SupervisedPart};
use crate::tls::ClientTls;
use crate::websocket::Upgraded;
use busy_poll::BusyPoll;
use conn_handle::{ConnHandle, Links};
use link_buffer::SharedBuffer;
use myelin_auth::{Identity, Reject};
use myelin_broker::{Account, Broker, Conn, Drained, Level, MqttTerms, Service, Shard};
use myelin_wire::error::CloseReason;
use myelin_wire::message_buf::MessageBuf;
use std::cell::{Cell, RefCell};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, LocalOptions, LocalRuntime};
use tokio::sync::{Notify, Semaphore, mpsc};

pub(crate) use handshake::{HANDSHAKE, handshake};
pub(crate) use link::{LinkWith, NewLink};
pub(crate) use link_security::LinkSecurity;
pub(crate) use link_upgrade::{AcceptedLeaf, LinkUpgrade};
pub(crate) use secure::Socket;

/// Mail to a shard from other threads.
pub(crate) enum Mail {
    /// Serve this client.
    Accept(TcpStream, SocketAddr),
    /// Serve this client, which speaks MQTT.
    AcceptMqtt(TcpStream, SocketAddr, MqttTerms, Arc<ClientTls>),
    /// Serve this client, whose connection has become a WebSocket.
    Upgraded(Box<Upgraded>),
    /// Serve this connection to another server.
    Link(Box<NewLink>),
    /// Flush what this link has to say.
    FlushLink(Arc<Conn>),
    /// Write this connection's outbox when its socket takes bytes again: the claim comes with it.
    Drain(Arc<Conn>),
    /// Call this service, whether or not it was sent anything.
    Serve(Arc<dyn Service>),
    /// Publish what a service has to say.
    Publish(Arc<Account>, MessageBuf),
    /// Put a question about a login to a service of the account.
    AskCallout(Arc<Account>, MessageBuf),
    /// Flush, and say so.
    Flushed(std::sync::mpsc::Sender<()>),
    /// Tell this client what all are told in lame duck mode.
    AnnounceLameDuck(u64),
    /// Someone has asked for the end of this connection.
    Kick(u64),
    /// Something has come for this client, which speaks MQTT.
    MqttInbox(u64),
    /// The answer to an authentication that ran elsewhere.
    Authenticated(u64, Result<Identity, Reject>),
    /// INFO has changed for everybody.
    Announce,
    /// The broker's configuration was replaced.
    Refresh,
    /// End all connections and stop.
    Stop,
}

/// How others reach a shard.
///
/// The mailbox has no bound of its own: who posts is mostly a shard, or holds what is needed
/// elsewhere, and must not wait for this one. What may wait in it is bounded by what the mail is
/// about:
///
/// - `Accept`, `AcceptMqtt`, `Upgraded`, `Link`: a socket each, so by the files that the process
///   may open;
/// - `FlushLink`: one for each link, which is woken once until the shard takes the mail;
/// - `Drain`: one for each connection, since the claim of its outbox comes with it; `Kick`: one for
///   each, which is closed once; `Authenticated`, `AskCallout`: one for each, which sends nothing
///   more before it has the answer; `MqttInbox`: one for each until its client has taken what has
///   come; `AnnounceLameDuck`: one for each, for an order of the operator;
/// - `Serve`: a stream is woken once until it is served (`is_woken`); a consumer or feed has one
///   alarm and one read under way, and each brings one; a direct read one for each slice, and these
///   are counted while they are read (`request_queue_limit`);
/// - `Publish`: what one answer to a request to the API is made of, whose number is limited before
///   (`request_queue_limit`), a few pieces of a backup, which wait for acknowledgements, and what
///   the system account's one thread tells;
/// - `Flushed`: its sender waits; `Announce`, `Refresh`: one for each change of the configuration
///   or of an account's token.
///
/// What waits is [counted](Self::waiting) and shown by `/ipqueuesz`: the soak sees if one of these
/// does not hold.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: mpsc::UnboundedSender<Mail>,
    waiting: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Mailbox {
    /// Posts; a shard that has stopped loses its mail, and needs none.
    pub(crate) fn post(&self, mail: Mail) {
        self.waiting.fetch_add(1, Relaxed);
        if self.sender.send(mail).is_err() {
            self.taken();
        }
    }

    /// Mail that the shard has not taken yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// One less waits.
    fn taken(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Publishes questions to callout services on this shard.
    fn publisher(&self) -> impl FnOnce(Arc<Account>, MessageBuf) + Send + use<> {
        let mailbox = self.clone();
        move |account, msgs| mailbox.post(Mail::AskCallout(account, msgs))
    }

    /// Counts a connection that is on its way.
    pub(crate) fn expect_one(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    /// Counts a connection that is over.
    fn forget_one(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    /// Connections placed there now.
    pub(crate) fn load(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

/// How many things that take computing go on at once outside of the shards, for all shards
/// together.
#[derive(Clone)]
pub(crate) struct Permits {
    logins: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
    /// Handshakes on their way, at work or waiting for their client.
    open_handshakes: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
}

impl Permits {
    /// Gives so many permits of each kind, and more of what mostly waits for other machines.
    pub(crate) fn new(each: usize) -> Self {
        let permits = |n| Arc::new(Semaphore::new(n));
        Self {
            logins: permits(each),
            lookups: permits(LOOKUPS),
            handshakes: permits(each),
            open_handshakes: permits(handshake::MAX_OPEN_HANDSHAKES),
        }
    }
}

/// Logins at once that may ask another machine for an account, because theirs is not known here.
/// Users of known accounts do not stand behind them.
pub(crate) const LOOKUPS: usize = 16;

/// A running shard.
pub(crate) struct ShardThread {
    pub(crate) mailbox: Mailbox,
    thread: JoinHandle<()>,
}

impl ShardThread {
    /// Starts the thread. `control` runs what may take long.
    ///
    /// # Errors
    /// When the thread or its runtime cannot be made.
    pub(crate) fn start(
        index: usize,
        broker: &Arc<Broker>,
        control: &Handle,
        permits: &Permits,
        tls: &Arc<ClientTls>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mailbox = Mailbox { sender, waiting: Arc::default(), connections: Arc::default() };
        let (broker, control, own) = (Arc::clone(broker), control.clone(), mailbox.clone());
        let permits = permits.clone();
        let tls = Arc::clone(tls);
        let runtime = move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .event_interval(EVENTS_EVERY)
                .build_local(LocalOptions::default())
        };
        let (begun, is_begun) = std::sync::mpsc::sync_channel(1);
        let thread = supervise::numbered(SupervisedPart::Shard, index, move || {
            let runtime = match runtime() {
                Ok(runtime) => runtime,
                // Who starts it waits for that.
                Err(error) => return drop(begun.send(Err(error))),
            };
            let _ = begun.send(Ok(()));
            run(&runtime, broker, (control, permits, tls), own, receiver);
        })?;
        is_begun.recv().unwrap_or_else(|_| Err(std::io::Error::other("it ended at once")))?;
        Ok(Self { mailbox, thread })
    }

    /// Waits for the end of a shard that was told to stop.
    pub(crate) fn join(self, log: &Logger) {
        // A panic would have ended the process.
        if self.thread.join().is_err() {
            log.error("a shard has ended in a panic");
        }
    }
}

/// State that the tasks of one shard share.
struct ShardLocal {
    shard: RefCell<Shard>,
    buffer: RefCell<Box<[u8]>>,
    link_buffer: SharedBuffer,
    links: RefCell<Links>,
    timers: timers::Timers,
    dirty: Notify,
    flush_pending: Cell<bool>,
    mailbox: Mailbox,
    control: Handle,
    /// Places for password checks and handshakes, shared by all shards.
    permits: Permits,
    /// TLS that is offered to clients.
    tls: Arc<ClientTls>,
    broker: Arc<Broker>,
}

fn run(
    runtime: &LocalRuntime,
    broker: Arc<Broker>,
    (control, permits, tls): (Handle, Permits, Arc<ClientTls>),
    mailbox: Mailbox,
    mut receiver: mpsc::UnboundedReceiver<Mail>,
) {
    let seed = std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0);
    let local = Rc::new(ShardLocal {
        shard: RefCell::new(Shard::new(&broker, seed)),
        buffer: RefCell::new(vec![0; reader::BUFFER].into_boxed_slice()),
        link_buffer: SharedBuffer::default(),
        links: RefCell::default(),
        timers: timers::Timers::default(),
        dirty: Notify::new(),
        flush_pending: Cell::new(false),
        mailbox,
        control,
        permits,
        tls,
        broker,
    });
    runtime.block_on(async move {
        spawn_tasks(&local);
        while let Some(mail) = receiver.recv().await {
            local.mailbox.taken();
            supervise::point(SupervisedPart::Shard);
            if let Mail::Stop = mail {
                break;
            }
            local.deliver(mail);
        }
        local.stop(&mut receiver).await;
    });
}

/// Starts the tasks that a shard cannot do without beside its mail.
fn spawn_tasks(local: &Rc<ShardLocal>) {
    let [flushing, timing, keeping] = [local, local, local].map(Rc::clone);
    supervise::spawn_guarding_local(async move {
        let begin = || {
            // The one before may have taken the notification with it.
            flushing.flush_pending.set(false);
            flushing.flush_soon();
            flusher(Rc::clone(&flushing))
        };
        supervise::persist(SupervisedPart::Flusher, begin).await;
    });
    supervise::spawn_guarding_local(async move {
        supervise::persist(SupervisedPart::Timers, || timers::run(Rc::clone(&timing))).await;
    });
    supervise::spawn_guarding_local(async move {
        supervise::persist(SupervisedPart::Housekeeper, || housekeeper(Rc::clone(&keeping))).await;
    });
}

/// Sends what the tick has staged.
async fn flusher(local: Rc<ShardLocal>) {
    let mut linger = BusyPoll::default();
    loop {
        local.dirty.notified().await;
        linger.worked(Instant::now());
        local.flush();
        if local.flush_pending.get() {
            // Services went on publishing, or consumers that replay have more. A notification that
            // is there already would be taken without a return to the scheduler, and clients would
            // wait until all of that is done.
            tokio::task::yield_now().await;
            continue;
        }
        let mut now = Instant::now();
        linger.done(now);
        while linger.stays(now) && !local.flush_pending.get() {
            tokio::task::yield_now().await;
            now = Instant::now();
        }
    }
}

/// Tasks that run before sockets are looked at, if there is always one that can: each may take a
/// good part of a millisecond here, and tokio's usual 61 of them would keep clients waiting while
/// consumers replay.
const EVENTS_EVERY: u32 = 8;

/// Time between two looks at what ended connections still hold.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

async fn housekeeper(local: Rc<ShardLocal>) {
    loop {
        tokio::time::sleep(HOUSEKEEPING).await;
        local.shard.borrow_mut().maintain(Instant::now());
        let refused = local.tls.take_refused();
        if refused > 0 {
            let what = format_args!("Rejected {refused} connections due to TLS rate limiting");
            local.broker.log().write(Level::Warn, what);
        }
    }
}

impl ShardLocal {
    /// Makes sure that the flusher runs at the end of this tick.
    fn flush_soon(&self) {
        if !self.flush_pending.replace(true) {
            self.dirty.notify_one();
        }
    }

    fn flush(&self) {
        self.flush_pending.set(false);
        supervise::guard(SupervisedPart::Flush, || self.shard.borrow_mut().flush());
        if self.shard.borrow().is_dirty() {
            // Services that went on publishing to each other.
            self.flush_soon();
        }
    }

    /// Does what other threads ask. A panic costs what this mail was about.
    fn deliver(self: &Rc<Self>, mail: Mail) {
        if let Mail::FlushLink(conn) = &mail {
            conn.has_woken();
        }
        let is_new =
            matches!(mail, Mail::Accept(..) | Mail::AcceptMqtt(..) | Mail::Upgraded(_) | Mail::Link(_));
        if supervise::guard(SupervisedPart::Mail, || self.take_mail(mail)).is_none() && is_new {
            // It was counted when it was placed here.
            self.mailbox.forget_one();
        }
    }

    fn take_mail(self: &Rc<Self>, mail: Mail) {
        match mail {
            Mail::Accept(stream, peer) => self.accept(stream, peer),
            Mail::AcceptMqtt(stream, peer, terms, tls) => match tokio::net::TcpStream::from_std(stream) {
                Ok(stream) => self.begin(|| reader::open_mqtt(self, (stream, peer), (terms, &tls))),
                Err(error) => self.cannot_use(peer, &error),
            },
            Mail::Upgraded(upgraded) => self.accept_upgraded(*upgraded),
            Mail::Link(new) => self.accept_link(*new),
            Mail::FlushLink(conn) => {
                self.shard.borrow_mut().flush_link(&conn);
                self.flush_soon();
            }
            Mail::Drain(conn) => match self.link(conn.cid()) {
                // Mostly the socket would take it, and it was only another shard that had something
                // to say.
                Some(link) if link.is_written_by_owner() && self.drains(&conn) => {}
                Some(link) => supervise::spawn_guarding_local(drain::run(Rc::clone(self), conn, link)),
                None => conn.discard(),
            },
            Mail::Serve(service) => {
                self.shard.borrow_mut().wake(&service);
                self.flush_soon();
            }
            Mail::Publish(account, mut msgs) => {
                self.shard.borrow_mut().send(&account, &mut msgs, Instant::now());
                self.flush_soon();
            }
            Mail::AskCallout(account, mut msgs) => {
                self.shard.borrow_mut().send_auth_request(&account, &mut msgs, Instant::now());
                self.flush_soon();
            }
            Mail::Flushed(told) => {
                self.flush();
                // Who does not wait any more need not know.
                let _ = told.send(());
            }
            Mail::AnnounceLameDuck(cid) => self.with_link(cid, |link| link.announce_lame_duck()),
            Mail::Kick(cid) => self.with_link(cid, |link| link.kick()),
            Mail::MqttInbox(cid) => self.with_link(cid, |link| link.mqtt_inbox()),
            Mail::Authenticated(cid, outcome) => self.with_link(cid, |link| link.authenticated(outcome)),
            Mail::Announce => self.links.borrow().values().for_each(|link| link.announce()),
            Mail::Refresh => {
                self.shard.borrow_mut().refresh();
                self.links.borrow().values().for_each(|link| link.refresh());
            }
            Mail::Stop => {}
        }
    }

    /// Whether the outbox, whose claim is ours, is done with at once.
    fn drains(&self, conn: &Arc<Conn>) -> bool {
        !matches!(self.drain(conn), Drained::Blocked { .. })
    }

    /// Goes on with an outbox whose claim is ours. A panic leaves it claimed for ever: the
    /// connection ends.
    fn drain(&self, conn: &Arc<Conn>) -> Drained {
        let drained = supervise::guard(SupervisedPart::Drain, || self.shard.borrow_mut().drain(conn));
        let drained = drained.unwrap_or_else(|| {
            conn.close(CloseReason::InternalError);
            Drained::Failed(std::io::ErrorKind::Other)
        });
        if self.shard.borrow().is_dirty() {
            // Services have waited for that.
            self.flush_soon();
        }
        drained
    }

    fn accept(self: &Rc<Self>, stream: TcpStream, peer: SocketAddr) {
        match tokio::net::TcpStream::from_std(stream) {
            Ok(stream) => self.begin(|| reader::open(self, stream, peer)),
            Err(error) => self.cannot_use(peer, &error),
        }
    }

    /// Begins a connection that was counted when it was placed here.
    fn begin<F: Future<Output = ()> + 'static>(&self, open: impl FnOnce() -> F) {
        match supervise::guard(SupervisedPart::Connection, open) {
            Some(connection) => supervise::spawn_guarding_local(connection),
            None => self.mailbox.forget_one(),
        }
    }

    fn accept_upgraded(self: &Rc<Self>, mut upgraded: Upgraded) {
        let peer = upgraded.peer;
        match upgraded.stream.take().map(tokio::net::TcpStream::from_std) {
            Some(Ok(stream)) => self.begin(|| reader::open_upgraded(self, stream, upgraded)),
            Some(Err(error)) => self.cannot_use(peer, &error),
            None => self.mailbox.forget_one(),
        }
    }

    fn accept_link(self: &Rc<Self>, new: NewLink) {
        let NewLink { stream, peer, with, security, upgrade } = new;
        match tokio::net::TcpStream::from_std(stream) {
            Ok(stream) => self.begin(|| link::open(self, stream, (peer, with), (security, upgrade))),
            Err(error) => self.cannot_use(peer, &error),
        }
    }

    fn cannot_use(&self, peer: SocketAddr, error: &std::io::Error) {
        let log = self.broker.log();
        log.write(Level::Error, format_args!("client socket of {peer} cannot be used: {error}"));
        self.mailbox.forget_one();
    }

    fn link(&self, cid: u64) -> Option<Rc<ConnHandle>> {
        self.links.borrow().get(&cid).cloned()
    }

    fn with_link(&self, cid: u64, act: impl FnOnce(&ConnHandle)) {
        if let Some(link) = self.link(cid) {
            act(&link);
        }
    }

    /// The time has come for the will of a connection that has ended, if it has left one.
    fn will_due(&self, cid: u64) {
        let was_due = self.shard.borrow_mut().mqtt_will_due(cid, Instant::now());
        if was_due {
            self.flush_soon();
        }
    }

    /// Ends all connections, giving each a moment to take what waits for it.
    async fn stop(self: &Rc<Self>, receiver: &mut mpsc::UnboundedReceiver<Mail>) {
        let links: Vec<_> = self.links.borrow().values().cloned().collect();
        for link in &links {
            link.conn.close(CloseReason::ServerShutdown);
            link.kick();
        }
        let deadline = tokio::time::Instant::now() + close::LINGER_AT_SHUTDOWN * 2 + close::LINGER;
        while !self.links.borrow().is_empty() && tokio::time::Instant::now() < deadline {
            while let Ok(mail) = receiver.try_recv() {
                self.mailbox.taken();
                self.deliver(mail);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

//! One link to another server, a leaf node or a hub: its task on the shard that owns it.
//!
//! A link is read like a connection of a client, but into a buffer of its own: there are few, and
//! they are busy. Whoever has something for the other side stages it, as for a client.
//!
//! Where there is TLS its handshake comes before everything else, and runs where clients'
//! handshakes do. Compat: unlike theirs, one that fails is always an error: nobody has to probe
//! this port.

use super::close::LINGER;
use super::conn_handle::{ConnHandle, ConnNotice};
use super::handshake::{Ends, greet_server, handshake};
use super::link_codec::{LinkPacker, LinkRead, PackedSocket};
use super::secure::ConnTls;
use super::socket::{SecureSocket, Socket};
use super::{Mail, Mailbox, Permits, ShardLocal};
use crate::budget::StrangerBudget;
use crate::supervise::{self, SupervisedPart};
use crate::tls::{LinkOffer, agreed, is_about_names, peer_certificate};
use bytes::{Buf, BufMut, BytesMut};
use myelin_broker::{Endpoint, LeafLogin, Level, Transport};
use myelin_mesh::leaf::LeafNodes;
use myelin_mesh::leaf::session::{LeafSession, LeafSide};
use myelin_mesh::{Announcement, LinkSession, LinkSide, Mesh, Next, PeerCertificate, PeerSession};
use myelin_wire::error::CloseReason;
use myelin_wire::s2::S2Level;
use rustls::Connection;
use rustls::pki_types::ServerName;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpStream};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

/// A socket to another server, and who has dialled.
pub(crate) struct NewLink {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) with: LinkWith,
    /// Where servers speak TLS.
    pub(crate) security: Option<LinkSecurity>,
}

/// The other end of a link, and who has dialled.
pub(crate) enum LinkWith {
    /// Another server of the cluster.
    Route(Arc<Mesh>, LinkSide),
    /// A leaf node or a hub.
    LeafNode(Arc<LeafNodes>, LeafSide),
}

/// Bytes per read, and before it is known who the other side is.
const READ: usize = 256 * 1024;
const READ_UNKNOWN: usize = 8 * 1024;

/// Full reads in a row before the shard's other connections have their turn.
const FULL_READS: u32 = 4;

/// Event that wakes the task.
enum LinkEvent {
    Read(usize),
    End,
    Failed,
    Notice(ConnNotice),
}

/// A link's task.
struct LinkTask {
    local: Rc<ShardLocal>,
    handle: Rc<ConnHandle>,
    session: Box<dyn PeerSession>,
    read: LinkRead,
    packer: Arc<LinkPacker>,
    /// Bytes that have come and are not dealt with.
    held: BytesMut,
    /// Bytes that the operation at its front takes at least.
    need: usize,
    is_known: bool,
    full_reads: u32,
    alarm: Instant,
}

/// Begins a link. The future serves it to its end.
pub(super) fn open(
    local: &Rc<ShardLocal>,
    stream: tokio::net::TcpStream,
    (peer, with): (SocketAddr, LinkWith),
    security: Option<LinkSecurity>,
) -> impl Future<Output = ()> + use<> {
    if let Err(error) = stream.set_nodelay(true) {
        local.broker.log().write(Level::Debug, format_args!("{peer} - cannot set TCP_NODELAY: {error}"));
    }
    let (read, write) = stream.into_split();
    let write = Arc::new(write);
    let plain = Socket { write: Arc::downgrade(&write), owner: local.mailbox.clone() };
    let tls = security.as_ref().map(|_| ConnTls::new());
    let inner: Box<dyn Transport> = match &tls {
        Some(tls) => Box::new(SecureSocket { plain, tls: Arc::downgrade(tls) }),
        None => Box::new(plain),
    };
    let packer = Arc::<LinkPacker>::default();
    let socket = PackedSocket { inner, packer: Arc::downgrade(&packer) };
    let endpoint = Endpoint { peer, start: SystemTime::now() };
    let socket = Box::new(socket);
    let conn = match &with {
        LinkWith::Route(..) => local.broker.connect_link(endpoint, socket),
        LinkWith::LeafNode(..) => local.broker.connect_leaf(endpoint, socket),
    };
    let handle = ConnHandle::new(Arc::clone(&conn), write, tls, None);
    let now = Instant::now();
    let session: Box<dyn PeerSession> = match with {
        LinkWith::Route(mesh, side) => Box::new(LinkSession::open(&mesh, &local.broker, &conn, side, now)),
        LinkWith::LeafNode(nodes, side) => {
            Box::new(LeafSession::open(&nodes, &local.broker, &conn, side, now))
        }
    };
    local.links.borrow_mut().insert(conn.cid(), Rc::clone(&handle));
    let alarm = session.deadline();
    local.timers.enter(alarm, conn.cid());
    let task = LinkTask {
        local: Rc::clone(local),
        read: LinkRead::new(read, &handle),
        handle,
        session,
        packer,
        held: BytesMut::new(),
        need: 1,
        is_known: false,
        full_reads: 0,
        alarm,
    };
    serve(task, security)
}

/// Serves a link to its end, which is an orderly one also after a panic.
async fn serve(mut task: LinkTask, security: Option<LinkSecurity>) {
    let life = supervise::guarded(SupervisedPart::Link, pin!(task.live(security))).await;
    let reason = life.unwrap_or(CloseReason::InternalError);
    let ended = supervise::guarded(SupervisedPart::Link, pin!(task.finish(reason))).await;
    if ended.is_none() {
        task.abandon(reason);
    }
}

impl LinkTask {
    async fn live(&mut self, security: Option<LinkSecurity>) -> CloseReason {
        let shown = match security {
            // Boxed: the handshake is larger than all that follows, and soon over.
            Some(security) => Box::pin(self.secure(security)).await,
            None => Ok(None),
        };
        match shown {
            Ok(shown) => {
                self.session.greet(&mut self.local.shard.borrow_mut(), shown, Instant::now());
            }
            Err(reason) => return reason,
        }
        self.local.flush_soon();
        self.check_alarm();
        self.run().await
    }

    async fn run(&mut self) -> CloseReason {
        loop {
            let event = poll_fn(|cx| self.poll(cx)).await;
            let outcome = match event {
                LinkEvent::Read(n) => self.take(n).await,
                LinkEvent::Notice(notice) => self.notice(notice),
                LinkEvent::End => Err(CloseReason::ClientClosed),
                LinkEvent::Failed => Err(CloseReason::ReadError),
            };
            if let Err(reason) = outcome {
                return reason;
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<LinkEvent> {
        if let Some(notice) = self.handle.poll(cx) {
            return Poll::Ready(LinkEvent::Notice(notice));
        }
        let most = if self.is_known { READ } else { READ_UNKNOWN };
        self.held.reserve(most.max(self.need.saturating_sub(self.held.len())));
        let mut into = (&mut self.held).limit(most);
        let reading = pin!(self.read.read_buf(&mut into));
        match reading.poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(_)) => Poll::Ready(LinkEvent::Failed),
            Poll::Ready(Ok(0)) => Poll::Ready(LinkEvent::End),
            Poll::Ready(Ok(n)) => Poll::Ready(LinkEvent::Read(n)),
        }
    }

    /// Works off what has come, `n` bytes of it just now.
    async fn take(&mut self, n: usize) -> Result<(), CloseReason> {
        while self.held.len() >= self.need {
            let ingested = {
                let mut shard = self.local.shard.borrow_mut();
                self.session.ingest(&mut shard, &self.held, None, Instant::now())
            };
            self.local.flush_soon();
            self.held.advance(ingested.bytes);
            if let Some(announcing) = self.session.take_announcing() {
                self.is_known = true;
                self.announce(announcing);
            }
            self.check_alarm();
            if let Some(level) = self.session.take_switch() {
                self.begin_compression(level).await?;
            }
            if let Some(level) = self.session.take_level() {
                self.packer.set_level(level);
            }
            match ingested.next {
                Next::More(need) => self.need = need,
                Next::Flush => {
                    self.need = 1;
                    self.local.flush();
                    if self.held.is_empty() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                Next::Check(login) => {
                    self.need = 1;
                    self.check(*login).await?;
                }
                Next::Close(reason) => return Err(reason),
            }
        }
        if n >= READ {
            self.full_reads = (self.full_reads + 1) % FULL_READS;
            if self.full_reads == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Has credentials checked away from the shard.
    async fn check(&mut self, login: LeafLogin) -> Result<(), CloseReason> {
        let checking = supervise::blocking_on(&self.local.control, SupervisedPart::Login, || login.run());
        let outcome = tokio::select! {
            outcome = checking => outcome.ok().flatten(),
            () = self.handle.kicked() => {
                return Err(self.handle.conn.close_requested().unwrap_or(CloseReason::ClientClosed));
            }
        };
        let outcome = outcome.ok_or(CloseReason::InternalError)?;
        let checked = self.session.checked(&mut self.local.shard.borrow_mut(), outcome, Instant::now());
        if let Some(announcing) = self.session.take_announcing() {
            self.is_known = true;
            self.announce(announcing);
        }
        self.local.flush_soon();
        self.check_alarm();
        checked
    }

    /// Compresses from here on, in both directions; what was said before goes out as it is.
    async fn begin_compression(&mut self, level: S2Level) -> Result<(), CloseReason> {
        let conn = Arc::clone(&self.handle.conn);
        self.local.shard.borrow_mut().flush_link(&conn);
        self.local.flush();
        let written = async {
            while conn.pending() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LINGER, written).await.map_err(|_| CloseReason::SlowConsumerWriteDeadline)?;
        self.packer.begin(level);
        self.read.unpack(&self.held.split());
        self.session.has_switched();
        self.local.shard.borrow_mut().flush_link(&conn);
        self.local.flush_soon();
        Ok(())
    }

    /// Tells the other side what is wanted here: where that is much, away from the shard.
    fn announce(&self, announcing: Announcement) {
        if announcing.is_long() {
            supervise::blocking_on(&self.local.control, SupervisedPart::Removal, || announcing.run());
        } else {
            announcing.run();
        }
        let line = format_args!("Sent local subscriptions to {}", self.session.kind());
        self.local.broker.log_for(Level::Debug, &self.handle.conn, line);
    }

    fn notice(&mut self, notice: ConnNotice) -> Result<(), CloseReason> {
        match notice {
            ConnNotice::Kicked => match self.handle.conn.close_requested() {
                Some(reason) => Err(reason),
                None => Ok(()),
            },
            ConnNotice::Due => self.due(),
            ConnNotice::Refresh => {
                let reloaded = self.session.reload(&mut self.local.shard.borrow_mut());
                if let Some(level) = self.session.take_level() {
                    self.packer.set_level(level);
                }
                self.local.flush_soon();
                reloaded
            }
            // For clients.
            ConnNotice::Announce | ConnNotice::AnnounceLameDuck | ConnNotice::Authenticated(_) => Ok(()),
        }
    }

    fn due(&mut self) -> Result<(), CloseReason> {
        let now = Instant::now();
        if now < self.alarm {
            return Ok(());
        }
        let verdict = self.session.on_deadline(now);
        self.alarm = self.session.deadline().max(now + Duration::from_millis(1));
        self.local.timers.enter(self.alarm, self.handle.conn.cid());
        verdict.map_or(Ok(()), Err)
    }

    fn check_alarm(&mut self) {
        if self.session.deadline() < self.alarm {
            self.alarm = self.session.deadline();
            self.local.timers.enter(self.alarm, self.handle.conn.cid());
        }
    }

    /// The orderly end: nothing more is routed here, then the other side gets a moment to take what
    /// waits for it.
    async fn finish(&mut self, reason: CloseReason) {
        let conn = Arc::clone(&self.handle.conn);
        let removal = self.session.end(reason);
        if let Some(removal) = removal {
            supervise::blocking_on(&self.local.control, SupervisedPart::Removal, || removal.run());
        }
        self.local.shard.borrow_mut().flush_link(&conn);
        self.local.flush();
        use CloseReason as R;
        if !matches!(reason, R::ReadError | R::WriteError | R::SlowConsumerWriteDeadline) {
            let linger = async {
                while conn.pending() > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(LINGER, linger).await;
        }
        if let Some(tls) = self.handle.secure() {
            tls.farewell(&self.handle.write);
        }
        self.let_go();
    }

    /// The end after one that was not orderly: others must not take the link for one that is there.
    fn abandon(&mut self, reason: CloseReason) {
        let removal = supervise::guard(SupervisedPart::Link, || self.session.abandon(reason));
        if let Some(removal) = removal {
            supervise::guard(SupervisedPart::Link, || removal.run());
        }
        self.let_go();
    }

    fn let_go(&self) {
        let conn = &self.handle.conn;
        self.local.links.borrow_mut().remove(&conn.cid());
        conn.discard();
        self.handle.end();
        self.local.mailbox.forget_one();
    }
}

impl Mailbox {
    /// Has a link flushed that has something to say.
    pub(super) fn flush_link(&self, conn: &Arc<myelin_broker::Conn>) {
        self.post(Mail::FlushLink(Arc::clone(conn)));
    }
}

/// Bytes that a stranger may send in a handshake.
const HANDSHAKE_BUDGET: usize = 256 * 1024;

/// TLS for one link.
pub(crate) struct LinkSecurity {
    pub(crate) offer: Arc<LinkOffer>,
    /// The name that the other server's certificate has to bear, where this one has dialled.
    pub(crate) name: Option<String>,
}

impl LinkSecurity {
    fn side(&self) -> &'static str {
        if self.name.is_some() { "client" } else { "server" }
    }
}

impl LinkTask {
    /// Does the handshake; what the other side has shown is returned.
    ///
    /// # Errors
    /// When it fails, takes too long, or the link is to end.
    async fn secure(&mut self, security: LinkSecurity) -> Result<Option<PeerCertificate>, CloseReason> {
        let log = |level, line: &str| {
            self.local.broker.log_for(level, &self.handle.conn, format_args!("{line}"));
        };
        log(Level::Debug, &format!("Starting TLS route {} handshake", security.side()));
        let (write, peer) = (Arc::clone(&self.handle.write), self.handle.conn.peer());
        let (offer, permits) = (Arc::clone(&security.offer), self.local.permits.clone());
        let (name, limit) = (security.name.clone(), security.offer.timeout);
        let shaking = async move { timeout(limit, shake(&write, peer, (&offer, name), permits)).await };
        let mut shaking = supervise::spawn_on(&self.local.control, SupervisedPart::Handshake, shaking);
        let outcome = tokio::select! {
            outcome = &mut shaking => outcome,
            () = self.handle.kicked() => {
                shaking.abort();
                return Err(self.handle.conn.close_requested().unwrap_or(CloseReason::ClientClosed));
            }
        };
        let connection = match outcome {
            Ok(Some(Ok(Ok(connection)))) => connection,
            Ok(Some(Ok(Err(error)))) => {
                if let Some(name) = security.name.filter(|_| is_about_names(&error)) {
                    security.offer.is_not_called(&name);
                }
                log(Level::Error, &format!("TLS route handshake error: {error}"));
                return Err(CloseReason::TlsHandshake);
            }
            Ok(Some(Err(_))) => {
                let ends = Ends { ours: (*self.handle.write).as_ref().local_addr().ok(), peer };
                log(Level::Error, &format!("TLS route handshake error: {}", ends.elapsed("read")));
                return Err(CloseReason::TlsHandshake);
            }
            Ok(None) | Err(_) => return Err(CloseReason::InternalError),
        };
        self.has_shaken(connection, &security.offer)
    }

    /// Goes on over TLS, unless the other side's key is not one of those that are pinned.
    fn has_shaken(
        &mut self,
        connection: Connection,
        offer: &LinkOffer,
    ) -> Result<Option<PeerCertificate>, CloseReason> {
        let log = |level, line: &str| {
            self.local.broker.log_for(level, &self.handle.conn, format_args!("{line}"));
        };
        let shown = peer_certificate(connection.peer_certificates());
        if !offer.accepts(shown.as_ref()) {
            log(Level::Error, "TLS route handshake error: certificate not pinned");
            return Err(CloseReason::TlsHandshake);
        }
        log(Level::Debug, "TLS handshake complete");
        log(Level::Debug, &agreed(&connection));
        if let Some(tls) = &self.handle.tls {
            tls.begin(connection);
        }
        Ok(shown)
    }
}

/// The handshake, from either side.
async fn shake(
    write: &OwnedWriteHalf,
    peer: SocketAddr,
    (offer, name): (&LinkOffer, Option<String>),
    permits: Permits,
) -> Result<Connection, String> {
    let stream = write.as_ref();
    let mut budget = StrangerBudget::of(HANDSHAKE_BUDGET);
    let Some(name) = name else {
        let terms = (offer.terms.clone(), permits);
        return handshake(stream, peer, terms, Vec::new(), &mut budget).await.map(Connection::Server);
    };
    let ends = Ends { ours: stream.local_addr().ok(), peer };
    let name =
        ServerName::try_from(name.clone()).map_err(|_| format!("tls: invalid server name {name:?}"))?;
    let shaken = greet_server(stream, &ends, (&offer.dialling, name), &permits, &mut budget).await;
    shaken.map(Connection::Client)
}

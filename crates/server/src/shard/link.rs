//! One link to another server, a leaf node or a hub: its task on the shard that owns it.
//!
//! A link is read like a connection of a client, but what is left of a read stays where it is
//! (`link_buffer`). Whoever has something for the other side stages it, as for a client.
//!
//! What TLS needs is in `link_tls`, what WebSocket needs in `link_websocket`.

use super::close::{LINGER, LINGER_AT_SHUTDOWN, wait_until_taken};
use super::conn_handle::{ConnHandle, ConnLayers, ConnNotice};
use super::link_buffer::LinkBuffer;
use super::link_codec::{LayeredSocket, LinkLayers, LinkRead};
use super::link_security::LinkSecurity;
use super::link_upgrade::LinkUpgrade;
use super::login::check;
use super::secure::ConnTls;
use super::socket::{SecureSocket, Socket};
use super::{Mail, Mailbox, ShardLocal};
use crate::supervise::{self, SupervisedPart};
use bytes::{Buf, BufMut};
use myelin_broker::{Endpoint, LeafLogin, Level, Transport};
use myelin_conf::options::HandshakeFirst;
use myelin_mesh::gateway::Gateways;
use myelin_mesh::gateway::session::{GatewayDial, GatewaySession};
use myelin_mesh::leaf::LeafNodes;
use myelin_mesh::leaf::session::{LeafSession, LeafSide};
use myelin_mesh::{Announcement, LinkSession, LinkSide, Mesh, Next, PeerSession};
use myelin_wire::error::CloseReason;
use myelin_wire::s2::S2Level;
use myelin_wire::websocket::close::farewell;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpStream};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::AsyncReadExt;

/// A socket to another server, and who has dialled.
pub(crate) struct NewLink {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) with: LinkWith,
    /// Where servers speak TLS.
    pub(crate) security: Option<LinkSecurity>,
    /// Where it is a WebSocket, or is to become one.
    pub(crate) upgrade: Option<LinkUpgrade>,
}

/// The other end of a link, and who has dialled.
pub(crate) enum LinkWith {
    /// Another server of the cluster.
    Route(Arc<Mesh>, LinkSide),
    /// A leaf node or a hub.
    LeafNode(Arc<LeafNodes>, LeafSide),
    /// A server of another cluster.
    Gateway(Arc<Gateways>, GatewayDial),
}

impl LinkWith {
    fn is_between_clusters(&self) -> bool {
        match self {
            Self::Route(_, LinkSide::Dialled(dial)) => dial.cluster.is_some(),
            Self::Route(_, LinkSide::Accepted) | Self::LeafNode(..) => false,
            Self::Gateway(..) => true,
        }
    }
}

/// Bytes per read, and before it is known who the other side is.
const READ: usize = 256 * 1024;
const READ_UNKNOWN: usize = 8 * 1024;

/// Time in which another server may take nothing of what waits for it when this one ends.
const REST_AT_SHUTDOWN: Duration = Duration::from_secs(3);

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
pub(super) struct LinkTask {
    pub(super) local: Rc<ShardLocal>,
    pub(super) handle: Rc<ConnHandle>,
    pub(super) session: Box<dyn PeerSession>,
    pub(super) read: LinkRead,
    /// TLS that there is, or may have to be, as long as it has not begun.
    security: Option<LinkSecurity>,
    /// WebSocket that there has to be, as long as it has not begun.
    pub(super) upgrade: Option<LinkUpgrade>,
    pub(super) layers: Arc<LinkLayers>,
    /// Bytes that have come and are not dealt with.
    pub(super) held: LinkBuffer,
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
    (security, upgrade): (Option<LinkSecurity>, Option<LinkUpgrade>),
) -> impl Future<Output = ()> + use<> {
    if let Err(error) = stream.set_nodelay(true) {
        local.broker.log().write(Level::Debug, format_args!("{peer} - cannot set TCP_NODELAY: {error}"));
    }
    let (read, write) = stream.into_split();
    let write = Arc::new(write);
    let plain = Socket { write: Arc::downgrade(&write), owner: local.mailbox.clone() };
    let is_web_socket = upgrade.is_some();
    let may_encrypt = security.is_some() || upgrade.as_ref().is_some_and(LinkUpgrade::is_secure);
    let tls = may_encrypt.then(ConnTls::new);
    let inner: Box<dyn Transport> = match &tls {
        Some(tls) => Box::new(SecureSocket { plain, tls: Arc::downgrade(tls) }),
        None => Box::new(plain),
    };
    let layers = Arc::<LinkLayers>::default();
    let socket = LayeredSocket { inner, layers: Arc::downgrade(&layers) };
    let endpoint = Endpoint { peer, start: SystemTime::now() };
    let socket = Box::new(socket);
    let conn = match &with {
        with if with.is_between_clusters() => local.broker.connect_gateway(endpoint, socket),
        LinkWith::LeafNode(..) => local.broker.connect_leaf(endpoint, socket, is_web_socket),
        _ => local.broker.connect_link(endpoint, socket),
    };
    let handle = ConnHandle::new(Arc::clone(&conn), write, tls, ConnLayers::OfLink(Arc::clone(&layers)));
    let now = Instant::now();
    let session: Box<dyn PeerSession> = match with {
        LinkWith::Route(mesh, side) => Box::new(LinkSession::open(&mesh, &local.broker, &conn, side, now)),
        LinkWith::LeafNode(nodes, side) => {
            Box::new(LeafSession::open(&nodes, &local.broker, &conn, side, now))
        }
        LinkWith::Gateway(gateways, dial) => {
            Box::new(GatewaySession::open(&gateways, &local.broker, &conn, dial, now))
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
        security,
        upgrade,
        layers,
        held: LinkBuffer::new(),
        need: 1,
        is_known: false,
        full_reads: 0,
        alarm,
    };
    serve(task)
}

/// Serves a link to its end, which is an orderly one also after a panic.
///
/// What a link does once, at its beginning and its end, is boxed: it should not enlarge it while it
/// lives.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn has room for its argument twice: as it came, and moved"
)]
fn serve(mut task: LinkTask) -> impl Future<Output = ()> {
    async move {
        let life = supervise::guarded(SupervisedPart::Link, pin!(task.live())).await;
        let reason = life.unwrap_or(CloseReason::InternalError);
        let mut end = Box::pin(task.finish(reason));
        let ended = supervise::guarded(SupervisedPart::Link, end.as_mut()).await;
        drop(end);
        if ended.is_none() {
            task.abandon(reason);
        }
    }
}

impl LinkTask {
    async fn live(&mut self) -> CloseReason {
        if let Err(reason) = Box::pin(self.begin()).await {
            return reason;
        }
        self.run().await
    }

    /// Brings the link to where its session begins.
    async fn begin(&mut self) -> Result<(), CloseReason> {
        let is_first = match self.security.as_ref().map(LinkSecurity::first) {
            Some(HandshakeFirst::Yes) => true,
            Some(HandshakeFirst::Within(delay)) => self.begins_within(delay).await,
            Some(HandshakeFirst::No) | None => false,
        };
        if is_first {
            self.begin_tls().await?;
        }
        if let Some(upgrade) = self.upgrade.take() {
            self.begin_web_socket(upgrade).await?;
        }
        self.session.greet(&mut self.local.shard.borrow_mut(), Instant::now());
        self.local.flush_soon();
        self.check_alarm();
        if self.security.as_ref().is_some_and(|security| !security.waits_for_session()) {
            self.flush_all().await?;
            self.begin_tls().await?;
        }
        Ok(())
    }

    /// Encrypts from here on. What was said before has to be out, and nothing may have come that is
    /// not encrypted.
    async fn begin_tls(&mut self) -> Result<(), CloseReason> {
        let Some(security) = self.security.take() else { return Err(CloseReason::TlsHandshake) };
        if !self.held.is_empty() {
            let line = format_args!("TLS handshake error: something has come in the clear behind INFO");
            self.local.broker.log_for(Level::Error, &self.handle.conn, line);
            return Err(CloseReason::TlsHandshake);
        }
        // Boxed: the handshake is larger than all that follows, and soon over.
        let shown = Box::pin(self.secure(security)).await?;
        self.session.secured(shown, Instant::now())?;
        let conn = Arc::clone(&self.handle.conn);
        self.local.shard.borrow_mut().flush_link(&conn);
        self.local.flush_soon();
        self.check_alarm();
        Ok(())
    }

    async fn run(&mut self) -> CloseReason {
        loop {
            let event = poll_fn(|cx| self.poll(cx)).await;
            let outcome = match event {
                LinkEvent::Read(n) => self.take(n).await,
                LinkEvent::Notice(notice) => self.notice(notice),
                LinkEvent::End => Err(CloseReason::ClientClosed),
                LinkEvent::Failed => Err(self.failed()),
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
        let room = most.max(self.need.saturating_sub(self.held.len()));
        self.held.make_room(&self.local.link_buffer, room);
        let mut into = (&mut *self.held).limit(most);
        let reading = pin!(self.read.read_buf(&mut into));
        match reading.poll(cx) {
            Poll::Pending => {
                self.held.give_back(&self.local.link_buffer);
                Poll::Pending
            }
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
            if let Some(successor) = self.session.take_successor() {
                self.session = successor;
            }
            self.tell_interest();
            self.check_alarm();
            if self.session.take_wish_for_tls() {
                self.begin_tls().await?;
            }
            if let Some(level) = self.session.take_switch() {
                self.begin_compression(level).await?;
            }
            if let Some(level) = self.session.take_level() {
                self.layers.set_level(level);
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
        let (publish, permits) = (self.local.mailbox.publisher(), &self.local.permits);
        let permits = Arc::clone(if login.may_wait() { &permits.lookups } else { &permits.logins });
        let checking = check(move || login.run(), publish, Arc::clone(&self.handle.conn), permits);
        let mut checking = supervise::spawn_on(&self.local.control, SupervisedPart::Login, checking);
        let outcome = tokio::select! {
            outcome = &mut checking => outcome.ok().flatten().flatten(),
            () = self.handle.kicked() => {
                checking.abort();
                return Err(self.handle.conn.close_requested().unwrap_or(CloseReason::ClientClosed));
            }
        };
        let outcome = outcome.ok_or(CloseReason::InternalError)?;
        let checked = self.session.checked(&mut self.local.shard.borrow_mut(), outcome, Instant::now());
        self.tell_interest();
        self.local.flush_soon();
        self.check_alarm();
        checked
    }

    /// Compresses from here on, in both directions; what was said before goes out as it is.
    async fn begin_compression(&mut self, level: S2Level) -> Result<(), CloseReason> {
        self.flush_all().await?;
        if self.read.is_framed() && !self.held.is_empty() {
            // Out of a frame that should have been compressed.
            return Err(CloseReason::ProtocolViolation);
        }
        self.layers.begin_compression(level);
        self.read.unpack(&self.held.split());
        self.session.has_switched();
        let conn = Arc::clone(&self.handle.conn);
        self.local.shard.borrow_mut().flush_link(&conn);
        self.local.flush_soon();
        Ok(())
    }

    /// Waits until everything that was said is written.
    pub(super) async fn flush_all(&self) -> Result<(), CloseReason> {
        let conn = Arc::clone(&self.handle.conn);
        self.local.shard.borrow_mut().flush_link(&conn);
        self.local.flush();
        let written = async {
            while conn.pending() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LINGER, written).await.map_err(|_| CloseReason::SlowConsumerWriteDeadline)
    }

    /// Tells the other side what is wanted here, once the handshake is over.
    fn tell_interest(&mut self) {
        if let Some(announcing) = self.session.take_announcing() {
            self.is_known = true;
            self.read.trust();
            self.announce(announcing);
        }
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
                    self.layers.set_level(level);
                }
                self.local.flush_soon();
                reloaded
            }
            // For clients.
            ConnNotice::Announce
            | ConnNotice::AnnounceLameDuck
            | ConnNotice::Authenticated(_)
            | ConnNotice::MqttInbox => Ok(()),
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

    /// The orderly end: nothing more is routed here, then the other side gets time to take what
    /// waits for it.
    async fn finish(&mut self, reason: CloseReason) {
        let conn = Arc::clone(&self.handle.conn);
        let was_behind = conn.pending() > 0;
        let removal = self.session.end(reason);
        if conn.is_leaf_link() {
            self.local.broker.remember_leaf_node(&conn, SystemTime::now(), reason);
        }
        if let Some(removal) = removal {
            supervise::blocking_on(&self.local.control, SupervisedPart::Removal, || removal.run());
        }
        self.local.shard.borrow_mut().flush_link(&conn);
        self.local.flush();
        use CloseReason as R;
        let is_lost = matches!(
            reason,
            R::ReadError | R::WriteError | R::SlowConsumerWriteDeadline | R::SlowConsumerPendingBytes
        );
        if !is_lost {
            let is_shutdown = reason == R::ServerShutdown;
            let terms = if is_shutdown { (LINGER_AT_SHUTDOWN, REST_AT_SHUTDOWN) } else { (LINGER, LINGER) };
            wait_until_taken(&conn, terms).await;
        }
        if let Some(frames) = self.handle.frames() {
            let answer = self.read.farewell();
            frames.farewell(&answer.unwrap_or_else(|| farewell(reason)), &self.handle);
        }
        if let Some(tls) = self.handle.secure() {
            tls.farewell(&self.handle.write);
        }
        if self.is_known && !is_lost {
            match conn.pending() {
                0 if reason == R::ClientClosed || self.hear_out(was_behind).await => {}
                0 => self.report_slow(format_args!("closed before it has read to the end")),
                _ => self.report_untaken(),
            }
        }
        self.let_go();
    }

    /// Says how much the other side has not taken in time, and counts it as a slow consumer.
    fn report_untaken(&self) {
        let conn = &self.handle.conn;
        let (chunks, bytes) = (conn.pending_chunks(), conn.pending());
        self.report_slow(format_args!("closed with {chunks} chunks of {bytes} total bytes."));
    }

    fn report_slow(&self, what: std::fmt::Arguments<'_>) {
        let conn = &self.handle.conn;
        self.local.broker.counters().slow(conn.kind()).fetch_add(1, Relaxed);
        self.local.broker.log_for(Level::Info, conn, format_args!("Slow Consumer Detected: {what}"));
    }

    /// Ends this side's direction, and reads what the other side still sends until it ends its own:
    /// closing a socket with unread bytes resets it, and what is on its way to a slow reader is
    /// lost. `is_slow`: it may have to read much before it comes to this end. False where it has
    /// not ended in time: what is on its way to it may be lost.
    async fn hear_out(&mut self, is_slow: bool) -> bool {
        let _ = rustix::net::shutdown(self.handle.write.as_ref().as_ref(), rustix::net::Shutdown::Write);
        let rest = if is_slow { LINGER_AT_SHUTDOWN } else { LINGER };
        let end = tokio::time::Instant::now() + LINGER_AT_SHUTDOWN;
        let mut room = vec![0; READ];
        while tokio::time::Instant::now() < end {
            match tokio::time::timeout(rest, self.read.skip(&mut room)).await {
                Ok(Ok(1..)) => {}
                Ok(ended) => return ended.is_ok(),
                Err(_) => return false,
            }
        }
        false
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

//! One connection's task: reads, hands the bytes to the session, does what the session asks for.
//!
//! Bytes are read into the shard's one buffer, so an idle connection holds no buffer at all. What
//! is left of an incomplete operation is kept by the connection and put in front of the next read;
//! an operation too large for that gets a buffer of its own size, which its receivers then share.

use super::conn_handle::{ConnHandle, ConnLayers, ConnNotice};
use super::login::check;
use super::preamble::{Preamble, to_tell};
use super::secure::ConnTls;
use super::socket::{SecureSocket, Socket};
use super::websocket::{FrameSource, Framed, Incoming, Outgoing, ReadLimit};
use super::{Mail, ShardLocal};
use crate::budget::StrangerBudget;
use crate::supervise::{self, SupervisedPart};
use crate::tls::{ClientTls, details};
use crate::websocket::Upgraded;
use bytes::{BufMut, Bytes, BytesMut};
use myelin_broker::{
    AuthTask, Endpoint, Greeting, Level, MqttOrigin, MqttTerms, Refreshed, Session, SessionStatus,
    StopReason, Transport, WebSocketOrigin,
};
use myelin_wire::error::CloseReason;
use myelin_wire::websocket::{FrameReader, FrameWriter, InflateLimits};
use std::cell::RefMut;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

/// Room in front of a read for what was left of the last one.
const HEADROOM: usize = 64 * 1024;
/// Bytes per read.
///
/// Perf: 256 KiB instead of 64 saves a third on 16 KiB payloads and on wide fan-out.
const READ: usize = 256 * 1024;
/// Bytes per read of a client that has not authenticated: what is behind its CONNECT must be kept
/// while the credentials are checked.
const READ_UNKNOWN: usize = 8 * 1024;
/// The shard's buffer.
pub(super) const BUFFER: usize = HEADROOM + READ;

/// Size that a compressed message of a WebSocket may reach: so many times the largest payload, or
/// this; before the client has authenticated, less. Compat: the reference allows for one payload,
/// and for no more although a client puts what it sends at once into one message.
const PAYLOADS_PER_MESSAGE: u64 = 8;
const MOST_PER_MESSAGE: u64 = 64 * 1024 * 1024;
const UNKNOWN_PER_MESSAGE: u64 = 64 * 1024;

/// Pause of a publisher whose receiver is far behind, per batch that it publishes.
const STALL: Duration = Duration::from_millis(10);
/// Event that woke a connection's task.
enum TaskEvent {
    /// Bytes that stand in the shard's buffer behind the headroom.
    Read(usize),
    /// Bytes were added to the connection's own buffer.
    Filled,
    End,
    Failed,
    ConnNotice(ConnNotice),
}

/// A connection's task.
pub(super) struct ConnTask {
    pub(super) local: Rc<ShardLocal>,
    pub(super) link: Rc<ConnHandle>,
    pub(super) session: Session,
    pub(super) read: OwnedReadHalf,
    /// Where it is a WebSocket.
    pub(super) frames: Option<Box<Incoming>>,
    /// Budget of the connection before it is authenticated.
    pub(super) budget: StrangerBudget,
    /// The incomplete operation at the end of what was read so far.
    held: BytesMut,
    /// Bytes that the incomplete operation takes at least.
    need: usize,
    /// Nothing is read while credentials are checked, nor while an MQTT session, which has been let
    /// in, waits for JetStream.
    paused: bool,
    quota: ReadQuota,
    /// When the batch at hand was begun.
    turn_began: Instant,
    /// When the shard's timers will wake this connection next.
    alarm: Instant,
}

/// A batch that fans out widely is broken off after this time, at its next flush, so that others
/// have their turn.
const LONGEST_TURN: Duration = Duration::from_millis(2);

/// Full reads since the task last let others run.
#[derive(Default)]
struct ReadQuota(u32);

impl ReadQuota {
    /// Counts a full read.
    fn is_over(&mut self) -> bool {
        self.0 = (self.0 + 1) % FULL_READS;
        self.0 == 0
    }
}

/// Full reads in a row before others have their turn.
const FULL_READS: u32 = 4;

/// Begins a connection. The future serves it to its end.
///
/// Everything is set up outside of the future: what an idle connection costs is mostly this
/// future's size.
pub(super) fn open(
    local: &Rc<ShardLocal>,
    stream: TcpStream,
    peer: SocketAddr,
) -> impl Future<Output = ()> + use<> {
    let preamble = Preamble::of(&local.tls);
    let greeting = preamble.first_greeting();
    open_with(local, (stream, peer), None, (preamble, greeting))
}

/// Begins a connection that speaks MQTT, where clients are offered this TLS.
pub(super) fn open_mqtt(
    local: &Rc<ShardLocal>,
    (stream, peer): (TcpStream, SocketAddr),
    (terms, tls): (MqttTerms, &ClientTls),
) -> impl Future<Output = ()> + use<> {
    open_with(local, (stream, peer), Some(terms), (Preamble::of(tls), None))
}

fn open_with(
    local: &Rc<ShardLocal>,
    (stream, peer): (TcpStream, SocketAddr),
    mqtt: Option<MqttTerms>,
    (preamble, greeting): (Preamble, Option<Greeting>),
) -> impl Future<Output = ()> + use<> {
    if let Err(error) = stream.set_nodelay(true) {
        local.broker.log().write(Level::Debug, format_args!("{peer} - cannot set TCP_NODELAY: {error}"));
    }
    let (read, write) = stream.into_split();
    let write = Arc::new(write);
    let plain = Socket { write: Arc::downgrade(&write), owner: local.mailbox.clone() };
    let tls = preamble.tls.as_ref().map(|_| ConnTls::new());
    let sink: Box<dyn Transport> = match &tls {
        Some(tls) => Box::new(SecureSocket { plain, tls: Arc::downgrade(tls) }),
        None => Box::new(plain),
    };
    let endpoint = Endpoint { peer, start: SystemTime::now() };
    let conn = match mqtt {
        None => local.broker.connect(endpoint, sink),
        Some(terms) => local.broker.connect_mqtt(MqttOrigin::new(terms, None), endpoint, sink),
    };
    let link = ConnHandle::new(conn, write, tls, ConnLayers::None);
    let budget = StrangerBudget::new(local.shard.borrow().settings().max_control_line);
    begin(local, link, (read, budget), None, greeting, preamble.steps())
}

/// Opens a connection that has become a WebSocket; returns its task.
pub(super) fn open_upgraded(
    local: &Rc<ShardLocal>,
    stream: TcpStream,
    upgraded: Upgraded,
) -> impl Future<Output = ()> + use<> {
    let Upgraded { peer, security, trusted, budget, listener_info, mqtt, upgrade, .. } = upgraded;
    // Compat: of certificates INFO says what holds for ordinary clients.
    let greeting = Greeting { tls_verify: local.broker.info().tls_verify, ..Greeting::default() };
    let (read, write) = stream.into_split();
    let write = Arc::new(write);
    let websocket_origin = WebSocketOrigin {
        listener_info,
        cookies: upgrade.cookies,
        client_ip: upgrade.client_ip,
        tls: security.as_ref().map(|connection| details(connection, false, to_tell(local, &trusted))),
    };
    let tls = security.map(|connection| {
        let tls = ConnTls::new();
        tls.begin(connection);
        tls
    });
    let plain = Socket { write: Arc::downgrade(&write), owner: local.mailbox.clone() };
    let inner: Box<dyn Transport> = match &tls {
        Some(tls) => Box::new(SecureSocket { plain, tls: Arc::downgrade(tls) }),
        None => Box::new(plain),
    };
    let frames = Outgoing::new(FrameWriter::new(upgrade.extensions), tls.is_some());
    let sink = Framed { inner, frames: Arc::downgrade(&frames) };
    let endpoint = Endpoint { peer, start: SystemTime::now() };
    let conn = match mqtt {
        None => local.broker.connect_by(Some(Box::new(websocket_origin)), endpoint, Box::new(sink)),
        Some(terms) => {
            let origin = MqttOrigin::new(terms, Some(websocket_origin));
            local.broker.connect_mqtt(origin, endpoint, Box::new(sink))
        }
    };
    let link = ConnHandle::new(conn, write, tls, ConnLayers::Frames(frames));
    let receiver = FrameReader::new(upgrade.is_masked, upgrade.extensions.compresses);
    begin(local, link, (read, budget), Some(Incoming::new(receiver)), Some(greeting), None)
}

fn begin(
    local: &Rc<ShardLocal>,
    link: Rc<ConnHandle>,
    (read, budget): (OwnedReadHalf, StrangerBudget),
    frames: Option<Box<Incoming>>,
    greeting: Option<Greeting>,
    preamble: Option<Box<Preamble>>,
) -> impl Future<Output = ()> + use<> {
    let conn = Arc::clone(&link.conn);
    let now = Instant::now();
    let (session, verdict) = Session::open_with(&mut local.shard.borrow_mut(), conn, now, greeting);
    local.links.borrow_mut().insert(link.conn.cid(), Rc::clone(&link));
    let alarm = session.deadline();
    local.timers.enter(alarm, session.conn().cid());
    local.flush_soon();
    let reader = ConnTask {
        local: Rc::clone(local),
        link,
        session,
        read,
        frames,
        budget,
        held: BytesMut::new(),
        need: 1,
        paused: false,
        quota: ReadQuota::default(),
        turn_began: now,
        alarm,
    };
    serve(reader, verdict, preamble)
}

/// Serves a connection to its end, which is an orderly one also after a panic: that costs this
/// connection and no other.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn has room for its argument twice: as it came, and moved"
)]
fn serve(
    mut reader: ConnTask,
    verdict: SessionStatus,
    preamble: Option<Box<Preamble>>,
) -> impl Future<Output = ()> {
    async move {
        let life = supervise::guarded(SupervisedPart::Connection, pin!(reader.live(verdict, preamble))).await;
        let reason = life.unwrap_or_else(|| {
            let what = format_args!("is closed: its task has panicked");
            reader.local.broker.log_for(Level::Error, &reader.link.conn, what);
            CloseReason::InternalError
        });
        // Boxed: the end of a connection should not enlarge it while it lives.
        let mut end = Box::pin(reader.finish(reason));
        let ended = supervise::guarded(SupervisedPart::Connection, end.as_mut()).await;
        drop(end);
        if ended.is_none() {
            reader.let_go();
        }
    }
}

impl ConnTask {
    async fn live(&mut self, verdict: SessionStatus, preamble: Option<Box<Preamble>>) -> CloseReason {
        if let SessionStatus::Close(reason) = verdict {
            return reason;
        }
        if let Some(preamble) = preamble
            && let Err(reason) = Box::pin(self.enter(*preamble)).await
        {
            return reason;
        }
        self.run().await
    }

    /// Works until the connection ends, and says why it did.
    async fn run(&mut self) -> CloseReason {
        // Something may have come with what was read to find out who the client is.
        let mut step = if self.held.is_empty() { Ok(TaskStep::Read) } else { self.resume() };
        loop {
            loop {
                match step {
                    Ok(TaskStep::Read) => break,
                    Ok(TaskStep::Yield) => {
                        tokio::task::yield_now().await;
                        break;
                    }
                    Ok(TaskStep::Resume) => {
                        tokio::task::yield_now().await;
                        step = self.resume();
                    }
                    Ok(TaskStep::Stall) => {
                        // Boxed: a timer is larger than everything else that an idle connection
                        // keeps.
                        Box::pin(tokio::time::sleep(STALL)).await;
                        self.session.was_stalled(STALL, Instant::now());
                        step = self.resume();
                    }
                    Err(reason) => return reason,
                }
            }
            let event = poll_fn(|cx| self.poll(cx)).await;
            step = self.handle(event);
        }
    }

    /// Keeps what was read before its time, for whoever reads next.
    pub(super) fn hold_back(&mut self, bytes: &[u8]) {
        self.held = BytesMut::from(bytes);
    }

    /// Bytes that were held back.
    pub(super) fn held_back(&self) -> &[u8] {
        &self.held
    }

    fn handle(&mut self, event: TaskEvent) -> Result<TaskStep, CloseReason> {
        self.turn_began = Instant::now();
        match event {
            TaskEvent::Read(n) => self.take(n),
            TaskEvent::Filled => self.take_own(),
            TaskEvent::End => Err(CloseReason::ClientClosed),
            TaskEvent::Failed => Err(CloseReason::ReadError),
            TaskEvent::ConnNotice(notice) => self.notice(notice),
        }
    }

    /// Goes on with what is held, in a turn of its own.
    fn resume(&mut self) -> Result<TaskStep, CloseReason> {
        self.turn_began = Instant::now();
        self.take_own()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TaskEvent> {
        if let Some(notice) = self.link.poll(cx) {
            return Poll::Ready(TaskEvent::ConnNotice(notice));
        }
        if self.paused {
            return self.poll_end(cx);
        }
        if self.need > HEADROOM { self.poll_own(cx) } else { self.poll_shared(cx) }
    }

    /// Reads nothing, but notices when the peer goes away.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<TaskEvent> {
        let mut byte = [0];
        match self.read.poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0)) => Poll::Ready(TaskEvent::End),
            Poll::Ready(Err(_)) => Poll::Ready(TaskEvent::Failed),
            _ => Poll::Pending,
        }
    }

    /// Reads into the shard's buffer.
    fn poll_shared(&mut self, cx: &mut Context<'_>) -> Poll<TaskEvent> {
        let local = Rc::clone(&self.local);
        let mut buffer = local.buffer.borrow_mut();
        let most = if self.session.is_ready() { READ } else { READ_UNKNOWN };
        match ready!(self.poll_content(cx, &mut buffer[HEADROOM..], most)) {
            Err(_) => Poll::Ready(self.failed()),
            Ok(0) => Poll::Ready(TaskEvent::End),
            Ok(n) => Poll::Ready(self.charge(n).unwrap_or(TaskEvent::Read(n))),
        }
    }

    /// Counts what has come from a stranger: an end, if it is too much.
    #[inline]
    fn charge(&mut self, n: usize) -> Option<TaskEvent> {
        if self.session.is_ready() {
            return None;
        }
        let spent = self.budget.charge(n).err()?;
        self.local.broker.log_for(Level::Error, &self.link.conn, format_args!("read error: {spent}"));
        Some(TaskEvent::Failed)
    }

    /// Reads what the peer has sent, without encryption and frames, to the front of `buf`: at most
    /// so many bytes.
    fn poll_content(&mut self, cx: &mut Context<'_>, buf: &mut [u8], most: usize) -> Poll<io::Result<usize>> {
        if self.frames.is_some() {
            return self.poll_frames(cx, buf, most);
        }
        let mut into = ReadBuf::new(&mut buf[..most]);
        ready!(self.link.poll_read(cx, &mut self.read, &mut into))?;
        Poll::Ready(Ok(into.filled().len()))
    }

    fn poll_frames(&mut self, cx: &mut Context<'_>, buf: &mut [u8], most: usize) -> Poll<io::Result<usize>> {
        let allowed = if self.session.is_ready() {
            let payload = u64::from(self.local.shard.borrow().settings().max_payload);
            let content = (payload * PAYLOADS_PER_MESSAGE).min(MOST_PER_MESSAGE);
            InflateLimits { content: content.max(payload + UNKNOWN_PER_MESSAGE), gathered: None }
        } else {
            allowed_to_strangers(self.budget)
        };
        let Some(frames) = &mut self.frames else { return Poll::Pending };
        let (read, link) = (&mut self.read, &self.link);
        let source: &mut FrameSource<'_> = &mut |cx, into| link.poll_read(cx, read, into);
        frames.poll_read(cx, source, link, buf, ReadLimit { most, allowed })
    }

    /// Nothing more can be read.
    fn failed(&self) -> TaskEvent {
        if let Some(fault) = self.frames.as_ref().and_then(|frames| frames.fault()) {
            let broker = &self.local.broker;
            broker.log_for(Level::Error, &self.link.conn, format_args!("read error: {fault}"));
        }
        TaskEvent::Failed
    }

    /// Reads the rest of a large operation into the connection's own buffer, and not a byte more
    /// where its length is known.
    fn poll_own(&mut self, cx: &mut Context<'_>) -> Poll<TaskEvent> {
        let missing = match self.need - self.held.len() {
            // A control line whose end is not known: whatever is there.
            1 => READ,
            known => known,
        };
        if self.link.secure().is_some() || self.frames.is_some() {
            return self.poll_own_content(cx, missing);
        }
        self.held.reserve(missing);
        let mut into = (&mut self.held).limit(missing);
        let read = std::pin::pin!(self.read.read_buf(&mut into));
        match read.poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(_)) => Poll::Ready(TaskEvent::Failed),
            Poll::Ready(Ok(0)) => Poll::Ready(TaskEvent::End),
            Poll::Ready(Ok(n)) => Poll::Ready(self.charge(n).unwrap_or(TaskEvent::Filled)),
        }
    }

    /// Reads `missing` bytes by way of the shard's buffer, where they have to be decrypted or taken
    /// out of frames.
    fn poll_own_content(&mut self, cx: &mut Context<'_>, missing: usize) -> Poll<TaskEvent> {
        let local = Rc::clone(&self.local);
        let mut buffer = local.buffer.borrow_mut();
        let most = missing.min(buffer.len());
        match ready!(self.poll_content(cx, &mut buffer, most)) {
            Err(_) => Poll::Ready(self.failed()),
            Ok(0) => Poll::Ready(TaskEvent::End),
            Ok(n) => {
                self.held.reserve(missing);
                self.held.extend_from_slice(&buffer[..n]);
                Poll::Ready(self.charge(n).unwrap_or(TaskEvent::Filled))
            }
        }
    }

    /// Works off `n` fresh bytes in the shard's buffer.
    fn take(&mut self, n: usize) -> Result<TaskStep, CloseReason> {
        let mut from = HEADROOM;
        let end = HEADROOM + n;
        if !self.held.is_empty() {
            if self.held.len() + n < self.need {
                self.held.extend_from_slice(&self.local.buffer.borrow()[from..end]);
                return Ok(TaskStep::Read);
            }
            from -= self.held.len();
            self.local.buffer.borrow_mut()[from..HEADROOM].copy_from_slice(&self.held);
            self.held = BytesMut::new();
        }
        loop {
            let local = Rc::clone(&self.local);
            let consumed = self.ingest(&local.buffer.borrow()[from..end], None);
            from += consumed.bytes;
            match self.after_batch(consumed.why, (from, end))? {
                AfterBatch::Continue => {}
                AfterBatch::Hold(need) => {
                    self.hold(from, end, need);
                    break;
                }
                AfterBatch::Pause(step) => {
                    self.hold(from, end, 1);
                    return Ok(step);
                }
            }
        }
        // After full reads there is probably more: let the others have their turn first.
        let is_full = n == READ || (self.frames.is_some() && n >= READ / 4);
        Ok(if is_full && self.quota.is_over() { TaskStep::Yield } else { TaskStep::Read })
    }

    /// Keeps the rest of the shard's buffer, because another connection uses it next.
    pub(super) fn hold(&mut self, from: usize, end: usize, need: usize) {
        self.need = need;
        if from < end {
            let capacity = if need > HEADROOM { need } else { end - from };
            let mut held = BytesMut::with_capacity(capacity);
            held.extend_from_slice(&self.local.buffer.borrow()[from..end]);
            self.held = held;
        }
    }

    /// Works off the connection's own buffer once it is complete.
    fn take_own(&mut self) -> Result<TaskStep, CloseReason> {
        while self.held.len() >= self.need {
            let bytes = self.link.conn.share(std::mem::take(&mut self.held).freeze());
            let consumed = self.ingest(&bytes, Some(&bytes));
            let next = self.after_ingest(consumed.why);
            self.held = BytesMut::from(&bytes[consumed.bytes..]);
            match next? {
                AfterBatch::Continue => self.need = 1,
                AfterBatch::Hold(need) => self.need = need,
                AfterBatch::Pause(step) => {
                    self.need = 1;
                    return Ok(step);
                }
            }
        }
        Ok(TaskStep::Read)
    }

    /// Gives bytes to the session.
    fn ingest(&mut self, bytes: &[u8], backing: Option<&Bytes>) -> myelin_broker::Consumed {
        let mut shard = self.local.shard.borrow_mut();
        let consumed = self.session.ingest(&mut shard, bytes, backing, Instant::now());
        if shard.is_dirty() {
            self.local.flush_soon();
        }
        drop(shard);
        self.check_alarm();
        consumed
    }

    pub(super) fn after_ingest(&mut self, why: StopReason) -> Result<AfterBatch, CloseReason> {
        match why {
            StopReason::More(need) => Ok(AfterBatch::Hold(need)),
            StopReason::Flush => {
                self.local.flush();
                if let Some(reason) = self.link.conn.close_requested() {
                    return Err(reason);
                }
                let is_long = self.turn_began.elapsed() > LONGEST_TURN;
                Ok(if is_long { AfterBatch::Pause(TaskStep::Resume) } else { AfterBatch::Continue })
            }
            StopReason::Stall => {
                self.local.flush();
                Ok(AfterBatch::Pause(TaskStep::Stall))
            }
            StopReason::Authenticate(task) => {
                self.paused = true;
                self.authenticate(task);
                Ok(AfterBatch::Pause(TaskStep::Read))
            }
            StopReason::AwaitStorage => {
                self.paused = true;
                Ok(AfterBatch::Pause(TaskStep::Read))
            }
            StopReason::Close(reason) => Err(reason),
        }
    }

    /// Checks credentials where it may take long, a few at a time; not those of a client that has
    /// left. After a panic nothing more would be read from it: it is closed.
    fn authenticate(&self, task: Box<AuthTask>) {
        let (mailbox, conn) = (self.local.mailbox.clone(), Arc::clone(&self.link.conn));
        let permits = &self.local.permits;
        let permits = Arc::clone(if task.may_wait() { &permits.lookups } else { &permits.logins });
        let publish = self.local.mailbox.publisher();
        supervise::spawn_guarding_on(&self.local.control, async move {
            let checking = pin!(check(move || task.run(), publish, Arc::clone(&conn), permits));
            match supervise::guarded(SupervisedPart::Login, checking).await.flatten() {
                Some(outcome) => mailbox.post(Mail::Authenticated(conn.cid(), outcome)),
                None => conn.close(CloseReason::InternalError),
            }
        });
    }

    fn notice(&mut self, notice: ConnNotice) -> Result<TaskStep, CloseReason> {
        let local = Rc::clone(&self.local);
        let verdict = {
            let mut shard = local.shard.borrow_mut();
            match notice {
                ConnNotice::Kicked => self.session.kicked(&mut shard),
                ConnNotice::Authenticated(outcome) => {
                    self.paused = false;
                    match self.session.authenticated(&mut shard, *outcome, Instant::now()) {
                        // By rules that may have been replaced meanwhile.
                        SessionStatus::Continue => self.refresh(&mut shard),
                        close @ SessionStatus::Close(_) => close,
                    }
                }
                ConnNotice::Refresh => self.refresh(&mut shard),
                ConnNotice::Announce => {
                    self.session.announce(&mut shard);
                    SessionStatus::Continue
                }
                ConnNotice::AnnounceLameDuck => {
                    self.session.announce_lame_duck(&mut shard);
                    SessionStatus::Continue
                }
                ConnNotice::Due => self.due(&mut shard),
                ConnNotice::MqttInbox => {
                    let verdict = self.session.take_mqtt_inbox(&mut shard, Instant::now());
                    self.paused = self.session.awaits_storage();
                    verdict
                }
            }
        };
        self.local.flush_soon();
        // Other rules may have brought the end nearer.
        self.check_alarm();
        match verdict {
            SessionStatus::Close(reason) => Err(reason),
            SessionStatus::Continue if self.paused => Ok(TaskStep::Read),
            // What was held back while credentials were checked.
            SessionStatus::Continue => self.take_own(),
        }
    }

    fn refresh(&mut self, shard: &mut RefMut<'_, myelin_broker::Shard>) -> SessionStatus {
        match self.session.refresh(shard, Instant::now()) {
            Refreshed::Continue => SessionStatus::Continue,
            Refreshed::Authenticate(task) => {
                self.paused = true;
                self.authenticate(task);
                SessionStatus::Continue
            }
            Refreshed::Close(reason) => SessionStatus::Close(reason),
        }
    }

    fn due(&mut self, shard: &mut RefMut<'_, myelin_broker::Shard>) -> SessionStatus {
        let now = Instant::now();
        if now < self.alarm {
            // Left over from a deadline that has moved nearer.
            return SessionStatus::Continue;
        }
        let verdict = if self.session.deadline() <= now {
            self.session.on_deadline(shard, now)
        } else {
            SessionStatus::Continue
        };
        self.alarm = self.session.deadline();
        self.local.timers.enter(self.alarm, self.link.conn.cid());
        verdict
    }

    /// The next deadline may be another than the timers know, and they may have struck unheard.
    pub(super) fn wake_at_deadline(&mut self) {
        self.alarm = self.session.deadline();
        self.local.timers.enter(self.alarm, self.link.conn.cid());
    }

    /// CONNECT may bring the next deadline nearer.
    fn check_alarm(&mut self) {
        if self.session.deadline() < self.alarm {
            self.alarm = self.session.deadline();
            self.local.timers.enter(self.alarm, self.link.conn.cid());
        }
    }
}

/// Limits of what frames may be inflated to before it is known who sends them: what is inflated
/// counts like what is sent.
fn allowed_to_strangers(budget: StrangerBudget) -> InflateLimits {
    let left = budget.left();
    InflateLimits { content: UNKNOWN_PER_MESSAGE.min(left as u64), gathered: Some(READ_UNKNOWN.min(left)) }
}

/// How a reader goes on after a batch.
pub(super) enum AfterBatch {
    Continue,
    /// Keep the rest; it needs so many bytes.
    Hold(usize),
    /// Keep the rest and do this first.
    Pause(TaskStep),
}

/// Next step of a connection's task.
pub(super) enum TaskStep {
    /// Wait for bytes or a notice.
    Read,
    /// Let the other connections have their turn, then read.
    Yield,
    /// Let the other connections have their turn, then go on with what is held.
    Resume,
    /// Pause, because a receiver is far behind, and then go on with what is held.
    Stall,
}

#[cfg(test)]
mod tests;

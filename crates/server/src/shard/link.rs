//! One link to another server: its task on the shard that owns it.
//!
//! A link is read like a connection of a client, but into a buffer of its own: there are few, and
//! they are busy. Whoever has something for the other side stages it, as for a client.

use super::close::LINGER;
use super::conn_handle::{ConnHandle, ConnNotice};
use super::socket::Socket;
use super::{Mail, Mailbox, ShardLocal};
use crate::supervise::{self, SupervisedPart};
use bytes::{Buf, BufMut, BytesMut};
use myelin_broker::{Announcing, Endpoint, Level};
use myelin_mesh::{LinkSession, LinkSide, Mesh, Next};
use myelin_wire::error::CloseReason;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpStream};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;

/// A socket to another server, and who has dialled.
pub(crate) struct NewLink {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) mesh: Arc<Mesh>,
    pub(crate) side: LinkSide,
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
    session: LinkSession,
    read: OwnedReadHalf,
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
    (peer, mesh, side): (SocketAddr, &Arc<Mesh>, LinkSide),
) -> impl Future<Output = ()> + use<> {
    if let Err(error) = stream.set_nodelay(true) {
        local.broker.log().write(Level::Debug, format_args!("{peer} - cannot set TCP_NODELAY: {error}"));
    }
    let (read, write) = stream.into_split();
    let write = Arc::new(write);
    let socket = Socket { write: Arc::downgrade(&write), owner: local.mailbox.clone() };
    let conn = local.broker.connect_link(Endpoint { peer, start: SystemTime::now() }, Box::new(socket));
    let handle = ConnHandle::new(Arc::clone(&conn), write, None, None);
    let now = Instant::now();
    let session = LinkSession::open(mesh, &mut local.shard.borrow_mut(), &conn, side, now);
    local.links.borrow_mut().insert(conn.cid(), Rc::clone(&handle));
    let alarm = session.deadline();
    local.timers.enter(alarm, conn.cid());
    local.flush_soon();
    let task = LinkTask {
        local: Rc::clone(local),
        handle,
        session,
        read,
        held: BytesMut::new(),
        need: 1,
        is_known: false,
        full_reads: 0,
        alarm,
    };
    serve(task)
}

/// Serves a link to its end, which is an orderly one also after a panic.
async fn serve(mut task: LinkTask) {
    let life = supervise::guarded(SupervisedPart::Link, pin!(task.run())).await;
    let reason = life.unwrap_or(CloseReason::InternalError);
    let ended = supervise::guarded(SupervisedPart::Link, pin!(task.finish(reason))).await;
    if ended.is_none() {
        task.abandon(reason);
    }
}

impl LinkTask {
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

    /// Tells the other side what is wanted here: where that is much, away from the shard.
    fn announce(&self, announcing: Announcing) {
        if announcing.is_long() {
            supervise::blocking_on(&self.local.control, SupervisedPart::Removal, || announcing.run());
        } else {
            announcing.run();
        }
    }

    fn notice(&mut self, notice: ConnNotice) -> Result<(), CloseReason> {
        match notice {
            ConnNotice::Kicked => match self.handle.conn.close_requested() {
                Some(reason) => Err(reason),
                None => Ok(()),
            },
            ConnNotice::Due => self.due(),
            // For clients.
            ConnNotice::Announce
            | ConnNotice::AnnounceLameDuck
            | ConnNotice::Refresh
            | ConnNotice::Authenticated(_) => Ok(()),
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

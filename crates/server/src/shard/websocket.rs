//! A WebSocket under a connection: frames around what is written, and off what is read.
//!
//! Frames go under the outbox as TLS does, and around TLS where there is both. One frame holds all
//! that is written together; whoever holds the outbox's claim makes it. Only what is encrypted or
//! compressed is left to the owner shard. What is read is unmasked in the shard's buffer.

use super::conn_handle::ConnHandle;
use crate::supervise::{self, SupervisedPart};
use myelin_broker::{Conn, Transport};
use myelin_stdx::sync::lock;
use myelin_wire::error::CloseReason;
use myelin_wire::websocket::deflate::{Deflater, Inflaters};
use myelin_wire::websocket::{BufferSpan, Ending, FrameFault, FrameReader, FrameWriter, InflateLimits};
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, ready};
use std::thread::ThreadId;
use std::time::Duration;
use tokio::io::ReadBuf;

/// Time between attempts to answer a ping.
const AGAIN: Duration = Duration::from_millis(5);

thread_local! {
    /// One for all connections of a shard, since messages do not depend on each other.
    static DEFLATER: RefCell<Deflater> = RefCell::default();
    static INFLATERS: RefCell<Inflaters> = RefCell::default();
}

/// The writing half. Its lock is contended only when a ping is answered while another shard writes.
pub(super) struct Outgoing {
    /// The only thread that may write, if not all may.
    owner: Option<ThreadId>,
    sender: Mutex<FrameWriter>,
}

impl Outgoing {
    /// To be called on the owner shard's thread.
    pub(super) fn new(sender: FrameWriter, is_secure: bool) -> Arc<Self> {
        let owner = (is_secure || sender.compresses()).then(|| std::thread::current().id());
        Arc::new(Self { owner, sender: Mutex::new(sender) })
    }

    pub(super) fn belong_to_owner(&self) -> bool {
        self.owner.is_some()
    }

    fn sender(&self) -> MutexGuard<'_, FrameWriter> {
        lock(&self.sender)
    }

    pub(super) fn try_write(
        &self,
        bufs: &[IoSlice<'_>],
        mut out: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.owner.is_some_and(|owner| owner != std::thread::current().id()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut sender = self.sender();
        if !sender.compresses() {
            return sender.write(bufs, None, &mut out);
        }
        DEFLATER.with_borrow_mut(|deflater| sender.write(bufs, Some(deflater), &mut out))
    }

    /// Sends the close frame, unless one is out or a frame is in the way.
    pub(super) fn farewell(&self, payload: &[u8], link: &ConnHandle) {
        let mut sender = self.sender();
        sender.close(payload);
        // Whoever does not take it now has missed it.
        let _ = sender.flush(&mut |bufs| link.try_write(bufs));
    }
}

/// Any socket with frames around what is written to it.
pub(super) struct Framed {
    pub(super) inner: Box<dyn Transport>,
    pub(super) frames: Weak<Outgoing>,
}

impl Transport for Framed {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let frames = self.frames.upgrade().ok_or(io::ErrorKind::BrokenPipe)?;
        frames.try_write(bufs, |bufs| self.inner.try_write(bufs))
    }

    fn wait_writable(&self, conn: &Arc<Conn>) {
        self.inner.wait_writable(conn);
    }

    fn kick(&self, conn: &Arc<Conn>) {
        self.inner.kick(conn);
    }

    fn has_mqtt_mail(&self, conn: &Arc<Conn>) {
        self.inner.has_mqtt_mail(conn);
    }
}

/// Where content goes, and how much of it is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadLimit {
    /// Bytes of content at most, and bytes that are read for it.
    pub(super) most: usize,
    pub(super) allowed: InflateLimits,
}

/// Source of frames: reads what has come, as far as there is room for it.
pub(super) type FrameSource<'s> = dyn FnMut(&mut Context<'_>, &mut ReadBuf<'_>) -> Poll<io::Result<()>> + 's;

/// The reading half.
pub(super) struct Incoming {
    receiver: FrameReader,
    /// A task waits for the socket, to answer a ping.
    is_answering: Rc<Cell<bool>>,
}

impl Incoming {
    pub(super) fn new(receiver: FrameReader) -> Box<Self> {
        Box::new(Self { receiver, is_answering: Rc::default() })
    }

    /// Reads until there is content, which is at the front of `buf` then. Nothing is the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut FrameSource<'_>,
        link: &Rc<ConnHandle>,
        buf: &mut [u8],
        limit: ReadLimit,
    ) -> Poll<io::Result<usize>> {
        loop {
            let n = match self.receiver.ending() {
                Some(Ending::Closed(_)) => return Poll::Ready(Ok(0)),
                Some(Ending::FrameFault(fault)) => {
                    return Poll::Ready(Err(io::Error::other(fault.to_string())));
                }
                None if self.receiver.has_rest() => self.resume(buf, limit),
                None => match ready!(self.poll_frames(cx, source, buf, limit))? {
                    0 => return Poll::Ready(Ok(0)),
                    len => self.decode(buf, len, limit),
                },
            };
            self.answer(link);
            if n > 0 {
                return Poll::Ready(Ok(n));
            }
        }
    }

    /// Where in a buffer frames are read to. What is compressed needs room for what it becomes.
    fn place(&self, buf: &[u8]) -> usize {
        if self.receiver.may_compress() { buf.len() / 2 } else { 0 }
    }

    fn poll_frames(
        &self,
        cx: &mut Context<'_>,
        source: &mut FrameSource<'_>,
        buf: &mut [u8],
        limit: ReadLimit,
    ) -> Poll<io::Result<usize>> {
        let from = self.place(buf);
        let room = limit.most.min(buf.len() - from);
        let mut into = ReadBuf::new(&mut buf[from..from + room]);
        ready!(source(cx, &mut into))?;
        Poll::Ready(Ok(into.filled().len()))
    }

    fn decode(&mut self, buf: &mut [u8], len: usize, limit: ReadLimit) -> usize {
        let place = BufferSpan { from: self.place(buf), len, most: limit.most };
        INFLATERS.with_borrow_mut(|pool| self.receiver.decode(buf, place, limit.allowed, pool))
    }

    fn resume(&mut self, buf: &mut [u8], limit: ReadLimit) -> usize {
        let at = self.place(buf);
        INFLATERS.with_borrow_mut(|pool| self.receiver.resume(buf, at, limit.most, limit.allowed, pool))
    }

    /// Sends answers to pings; where the socket is full, somebody waits for it.
    fn answer(&mut self, link: &Rc<ConnHandle>) {
        let (Some(answers), Some(frames)) = (self.receiver.take_answers(), link.frames()) else { return };
        if self.is_answering.get() {
            // It reads nothing, and wants more answers: they may be left out.
            return;
        }
        let mut sender = frames.sender();
        sender.urge(&answers);
        if has_urgent(&sender.flush(&mut |bufs| link.try_write(bufs))) {
            self.is_answering.set(true);
            supervise::spawn_guarding_local(answer_on(Rc::clone(link), Rc::clone(&self.is_answering)));
        }
    }

    /// Fault of the peer, if it has made one.
    pub(super) fn fault(&self) -> Option<FrameFault> {
        match self.receiver.ending() {
            Some(Ending::FrameFault(fault)) => Some(*fault),
            _ => None,
        }
    }

    /// Payload of the close frame that answers the peer's, or that says what the peer did wrong.
    pub(super) fn farewell(&self) -> Option<Vec<u8>> {
        self.receiver.ending().map(|ending| match ending {
            Ending::Closed(answer) => answer.clone(),
            Ending::FrameFault(fault) => fault.farewell(),
        })
    }
}

/// Waits for the socket and writes what is urgent. After a panic nobody would: then the connection
/// ends.
async fn answer_on(link: Rc<ConnHandle>, is_answering: Rc<Cell<bool>>) {
    let conn = Arc::clone(&link.conn);
    let answering = pin!(write_urgent(link, is_answering));
    if supervise::guarded(SupervisedPart::Pongs, answering).await.is_none() {
        conn.close(CloseReason::InternalError);
    }
}

/// Waits for the socket and writes what is urgent.
async fn write_urgent(link: Rc<ConnHandle>, is_answering: Rc<Cell<bool>>) {
    loop {
        tokio::select! {
            ready = link.write.writable() => if ready.is_err() { break },
            () = link.over() => break,
        }
        let Some(frames) = link.frames() else { break };
        let sent = frames.sender().flush(&mut |bufs| link.try_write(bufs));
        if !has_urgent(&sent) {
            break;
        }
        // A frame may be in the way, which somebody else writes.
        tokio::time::sleep(AGAIN).await;
    }
    is_answering.set(false);
}

/// Whether something urgent is left that can still be sent.
fn has_urgent(sent: &io::Result<bool>) -> bool {
    match sent {
        Ok(is_all) => !is_all,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

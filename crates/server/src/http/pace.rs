//! How long a connection may keep us waiting.
//!
//! A connection is in one [`Phase`]: its peer owes us a head, we owe it an answer, or nobody owes
//! anything. [`Patient`] wraps the stream and ends it when the peer lets a deadline pass. Knows
//! nothing of HTTP but that requests and answers alternate.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use myelin_stdx::sync::lock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Bytes of an answer that a peer must take within [`Deadlines::unread`], so that reading a byte
/// now and then is not enough to keep a connection.
const PROGRESS: usize = 64 * 1024;

/// How long a peer may take for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    /// To send a request's head, counted from its first byte, for the first request from the
    /// connection's begin. Compat: the reference's 5 s.
    pub(super) head: Duration,
    /// To send another request. Compat: the reference waits without end.
    pub(super) idle: Duration,
    /// To take 64 KiB of an answer, or the rest of it. Compat: the reference waits without end.
    pub(super) unread: Duration,
}

/// Phase of a connection: whether the client or the server is to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The peer owes a request's head since then.
    Head(Instant),
    /// We owe an answer.
    Answering,
    /// Nothing was asked since then.
    Idle(Instant),
}

/// The phase of a connection, for those who look from outside.
#[derive(Debug)]
pub(super) struct SharedPhase {
    phase: Mutex<Phase>,
    /// Whether the end of the answer is still to come: what has been flushed is not all.
    is_incomplete: AtomicBool,
}

impl SharedPhase {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            phase: Mutex::new(Phase::Head(Instant::now())),
            is_incomplete: AtomicBool::new(false),
        })
    }

    pub(super) fn phase(&self) -> Phase {
        *lock(&self.phase)
    }

    fn enter(&self, phase: Phase) {
        *lock(&self.phase) = phase;
    }
}

/// An answer on its way, from when the whole request has arrived until the end of the answer has
/// been handed on to be written.
#[derive(Debug)]
pub(super) struct Answering(Arc<SharedPhase>);

impl Answering {
    pub(super) fn begin(pace: &Arc<SharedPhase>) -> Self {
        pace.is_incomplete.store(true, Relaxed);
        pace.enter(Phase::Answering);
        Self(Arc::clone(pace))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.is_incomplete.store(false, Relaxed);
    }
}

/// A stream that gives up on its peer.
pub(super) struct Patient<S> {
    stream: S,
    pace: Arc<SharedPhase>,
    deadlines: Deadlines,
    timer: Pin<Box<Sleep>>,
    /// Bytes written since the timer was set; `None` between answers.
    written: Option<usize>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, pace: Arc<SharedPhase>, deadlines: Deadlines) -> Self {
        let timer = Box::pin(tokio::time::sleep(deadlines.head));
        Self { stream, pace, deadlines, timer, written: None }
    }

    /// The stream, which is waited for no longer.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    fn wait(&mut self, limit: Duration) {
        self.timer.as_mut().reset(Instant::now() + limit);
    }

    /// Writes, and sees to it that the peer takes enough in time.
    fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>>
    where
        S: Unpin,
    {
        if self.written.is_none_or(|written| written >= PROGRESS) {
            let limit = self.deadlines.unread;
            self.wait(limit);
            self.written = Some(0);
        }
        match write(Pin::new(&mut self.stream), cx) {
            Poll::Ready(Ok(count)) => {
                self.written = self.written.map(|written| written + count);
                Poll::Ready(Ok(count))
            }
            Poll::Pending => self.patience(cx),
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }

    /// Fails when the peer has taken too long; else `Pending`.
    fn patience<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        match (read.is_ready(), self.pace.phase()) {
            (true, Phase::Idle(_)) => {
                self.pace.enter(Phase::Head(Instant::now()));
                let limit = self.deadlines.head;
                self.wait(limit);
                read
            }
            (true, _) => read,
            // The deadline of an answer is that of writing.
            (false, Phase::Answering) => Poll::Pending,
            (false, _) => self.patience(cx),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |stream, cx| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |stream, cx| stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Ok(())) if self.pace.is_incomplete.load(Relaxed) => Poll::Ready(Ok(())),
            Poll::Ready(Ok(())) if self.written.take().is_some() => {
                self.pace.enter(Phase::Idle(Instant::now()));
                let limit = self.deadlines.idle;
                self.wait(limit);
                Poll::Ready(Ok(()))
            }
            Poll::Pending if self.written.is_some() => self.patience(cx),
            flushed => flushed,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_shutdown(cx) {
            Poll::Pending => self.patience(cx),
            done => done,
        }
    }
}

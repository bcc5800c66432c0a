//! Takes request lines as people type them.
//!
//! `curl localhost:8222/connz?filter_subject=foo.>` sends the `>` as it is. Go's server reads that;
//! hyper refuses it. Here such bytes of a request line are percent-encoded before hyper sees them.
//! Knows nothing of HTTP but that a request begins with a line.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pace::{Phase, SharedPhase};

/// Bytes that are looked at at once; a request line is rarely longer.
const PIECE: usize = 1024;

/// A stream whose request lines hyper can read.
///
/// Requests that are sent before the last one is answered (pipelining, which nobody does) are left
/// alone.
pub(super) struct Readable<S> {
    stream: S,
    pace: Arc<SharedPhase>,
    /// The end of this request's line has passed.
    is_past_line: bool,
    /// Bytes that were read and are not handed on yet.
    held: Vec<u8>,
}

impl<S> Readable<S> {
    pub(super) fn new(stream: S, pace: Arc<SharedPhase>) -> Self {
        Self { stream, pace, is_past_line: false, held: Vec::new() }
    }

    /// The stream; nothing if bytes were read that nobody has taken.
    pub(super) fn into_inner(self) -> Option<S> {
        self.held.is_empty().then_some(self.stream)
    }

    fn hand_on(&mut self, buffer: &mut ReadBuf<'_>) {
        let count = self.held.len().min(buffer.remaining());
        buffer.put_slice(&self.held[..count]);
        self.held.drain(..count);
    }

    /// Takes bytes of the line, and perhaps what follows it.
    fn hold(&mut self, bytes: &[u8]) {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        self.is_past_line = end.is_some();
        let line = end.unwrap_or(bytes.len());
        for &byte in &bytes[..line] {
            match byte {
                b'"' | b'#' | b'<' | b'>' => self.held.extend_from_slice(format!("%{byte:02X}").as_bytes()),
                _ => self.held.push(byte),
            }
        }
        self.held.extend_from_slice(&bytes[line..]);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Readable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.held.is_empty() {
            if matches!(this.pace.phase(), Phase::Idle(_)) {
                this.is_past_line = false;
            }
            if this.is_past_line {
                return Pin::new(&mut this.stream).poll_read(cx, buffer);
            }
            let mut piece = [0; PIECE];
            let mut read = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut read))?;
            this.hold(read.filled());
        }
        this.hand_on(buffer);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Readable<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

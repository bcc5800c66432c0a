//! The body of an answer.
//!
//! Bytes leave in pieces, of which hyper holds one at a time: where it copies what it holds, as in
//! front of TLS, a peer that does not read costs a piece and not another copy of the answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use super::pace::Answering;

/// Compat: the reference announces the length of a body up to this size, and sends a longer one in
/// chunks, or to a client of HTTP/1.0 until the connection ends.
const ANNOUNCED: usize = 2048;

/// Bytes that are handed on at once.
const PIECE: usize = 128 * 1024;

/// Bytes that are all there.
#[derive(Debug)]
pub(super) struct Body {
    bytes: Bytes,
    is_announced: bool,
    /// Ends when the last piece has been handed on.
    _answering: Option<Answering>,
}

impl Body {
    pub(super) fn empty() -> Self {
        Self::from(Bytes::new())
    }

    /// Body of an answer that a connection owes until all of it has been handed on.
    pub(super) fn owed(self, answering: Answering) -> Self {
        Self { _answering: Some(answering), ..self }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self { is_announced: bytes.len() <= ANNOUNCED, bytes, _answering: None }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.bytes.len().min(PIECE);
        let piece = self.bytes.split_to(length);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_announced { SizeHint::with_exact(self.bytes.len() as u64) } else { SizeHint::default() }
    }
}

//! The body of an answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// Compat: the reference announces the length of a body up to this size, and sends a longer one in
/// chunks, or to a client of HTTP/1.0 until the connection ends.
const ANNOUNCED: usize = 2048;

/// Bytes that are all there.
#[derive(Debug)]
pub(super) struct Body {
    bytes: Bytes,
    is_announced: bool,
}

impl Body {
    pub(super) fn empty() -> Self {
        Self::from(Bytes::new())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self { is_announced: bytes.len() <= ANNOUNCED, bytes }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_announced { SizeHint::with_exact(self.bytes.len() as u64) } else { SizeHint::default() }
    }
}

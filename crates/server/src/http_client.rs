//! Requests to other servers by HTTP/1.1: each on a connection of its own, with an answer of
//! bounded length.

use crate::supervise::{self, SupervisedPart};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Answer of a server, good or not.
pub(crate) struct HttpAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Sends a request on this connection, and reads the answer, of at most `longest` bytes of body.
/// How long that may take is for the caller to say.
///
/// # Errors
/// The connection fails, or the answer is longer.
pub(crate) async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    longest: usize,
) -> Result<HttpAnswer, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let words = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(words)?;
    // It ends when the sender and the answer are gone, also where a caller waits no longer.
    supervise::spawn(SupervisedPart::HttpClient, connection);
    let answer = sender.send_request(request).await.map_err(words)?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, longest).collect().await;
    let body = body.map_err(|error| format!("no whole answer: {error}"))?.to_bytes().to_vec();
    Ok(HttpAnswer { status: head.status, headers: head.headers, body })
}

//! TLS in front of the pages: the handshake, as with clients, and then a stream for hyper.
//!
//! What comes before the first answer is on one account (`budget`): monitoring knows nobody, so
//! everybody is a stranger to it.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::MAX_HEAD;
use crate::budget::StrangerBudget;
use crate::shard::{self, Permits, Socket};
use crate::tls::Current;

/// Conditions for those who connect.
#[derive(Clone)]
pub(crate) struct Security {
    pub(crate) terms: Arc<Current>,
    /// Places for what takes computing, shared with the clients' handshakes.
    pub(crate) permits: Permits,
}

impl Security {
    /// Does the handshake. Compat: a client that speaks plain HTTP is told so in plain HTTP.
    ///
    /// # Errors
    /// In words for the log.
    pub(super) async fn secure(&self, mut stream: TcpStream, peer: SocketAddr) -> Result<Encrypted, String> {
        if is_plain_request(&stream).await {
            let answer = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
            if stream.write_all(answer.as_bytes()).await.is_ok() {
                let _ = stream.shutdown().await;
            }
            // What is left unread would turn the end of the connection into a reset, and the answer
            // would be lost.
            let _ = stream.try_read(&mut vec![0; MAX_HEAD]);
            return Err("client sent an HTTP request to an HTTPS server".to_owned());
        }
        let mut budget = StrangerBudget::new(MAX_HEAD);
        let terms = (self.terms.get(), self.permits.clone());
        let connection = shard::handshake(&stream, peer, terms, Vec::new(), &mut budget).await?;
        Ok(Encrypted { stream, connection, budget: Some(budget), is_ending: false })
    }
}

/// Whether the first bytes are the beginning of a request without TLS; they stay unread.
async fn is_plain_request(stream: &TcpStream) -> bool {
    const METHODS: [&[u8]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];
    let mut first = [0; 5];
    let count = stream.peek(&mut first).await.unwrap_or(0);
    METHODS.contains(&&first[..count])
}

/// A connection behind its handshake.
pub(super) struct Encrypted {
    stream: TcpStream,
    connection: ServerConnection,
    /// Budget for what comes before the first answer; `None` after it.
    budget: Option<StrangerBudget>,
    is_ending: bool,
}

impl Encrypted {
    /// The socket, and the TLS on it.
    pub(super) fn into_inner(self) -> (TcpStream, ServerConnection) {
        (self.stream, self.connection)
    }

    /// Writes what is encrypted.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(&self.stream)) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.stream.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.connection.reader().read(into.initialize_unfilled()) {
                Ok(n) => {
                    let charged = self.budget.as_mut().map_or(Ok(()), |budget| budget.charge(n));
                    charged.map_err(|spent| io::Error::other(spent.to_string()))?;
                    into.advance(n);
                    return Poll::Ready(Ok(()));
                }
                // The peer has closed without a word, as many do.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                Err(_) => {}
            }
            let this = &mut *self;
            match this.connection.read_tls(&mut Socket(&this.stream)) {
                Ok(_) => {
                    let processed = this.connection.process_new_packets().map(drop);
                    // An answer of TLS's own, or what is wrong; if the socket does not take it, the
                    // next write does.
                    let _ = this.poll_send(cx)?;
                    processed.map_err(io::Error::other)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(this.stream.poll_read_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(cx))?;
        self.budget = None;
        let n = self.connection.writer().write(bytes)?;
        let _ = self.poll_send(cx)?;
        Poll::Ready(Ok(n))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.is_ending, true) {
            self.connection.send_close_notify();
        }
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

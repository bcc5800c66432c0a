//! A connected socket, plain or encrypted, that gives and takes bytes.
//!
//! Owns the TLS session and the order in which its records come and go. Whether it blocks is the
//! socket's setting: the handshake and the steps around a benchmark block, with a time-out; the
//! driver does not. Knows nothing of NATS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use rustls::ClientConnection;

use crate::connection::websocket::Web;

/// Largest write to a TLS session, in bytes: a session buffers all that it encrypts.
const PIECE: usize = 64 * 1024;

/// Connected socket, plain, with TLS, or with WebSocket frames.
#[derive(Debug)]
pub enum Transport {
    /// Bytes as they are.
    Plain(TcpStream),
    /// TLS records.
    Tls(Box<Secured>),
    /// WebSocket frames, over TLS or not.
    Web(Box<Web>),
}

/// A socket with its TLS session.
#[derive(Debug)]
pub struct Secured {
    socket: TcpStream,
    session: ClientConnection,
}

impl Transport {
    /// Encrypts what has been plain; blocks until the handshake is through.
    pub(crate) fn secure(socket: TcpStream, mut session: ClientConnection) -> io::Result<Self> {
        while session.is_handshaking() {
            session.complete_io(&mut &socket)?;
        }
        Ok(Self::Tls(Box::new(Secured { socket, session })))
    }

    /// The socket below TLS and WebSocket, for polls and options.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(secured) => &secured.socket,
            Self::Web(web) => web.socket(),
        }
    }

    /// Whether encrypted bytes wait for room in the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Web(_) => false,
            Self::Tls(secured) => secured.session.wants_write(),
        }
    }

    /// Whether bytes may be here that were read from the socket and not given, of which no poll
    /// knows.
    pub(crate) fn may_hold_more(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Reads what is there; 0 when the server has closed the connection.
    pub fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(secured) => secured.recv(buffer),
            Self::Web(web) => web.recv(buffer),
        }
    }

    /// Sends some of these bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => {
                rustix::net::send(&*socket, bytes, rustix::net::SendFlags::NOSIGNAL).map_err(io::Error::from)
            }
            Self::Tls(secured) => secured.send(bytes),
            Self::Web(web) => web.send(bytes),
        }
    }

    /// Sends all of them; the socket must block.
    pub(crate) fn send_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = match self.send(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                sent => sent?,
            };
            bytes = &bytes[sent..];
        }
        self.flush()
    }

    /// Hands waiting records to the socket.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) | Self::Web(_) => Ok(()),
            Self::Tls(secured) => secured.flush(),
        }
    }
}

impl Secured {
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The server hung up without saying goodbye: it is closed all the same.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            self.session
                .process_new_packets()
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let taken = self.session.writer().write(&bytes[..bytes.len().min(PIECE)])?;
        match self.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(taken),
            flushed => flushed.map(|()| taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

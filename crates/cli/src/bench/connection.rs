//! One plain client connection: the handshake, and the barrier that every run begins and ends with.
//!
//! Owns the socket and bytes read beyond the last answer. The fast paths (publishing, receiving)
//! take the socket out of it. Never retries: a benchmark that had to reconnect has failed.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::RecvFlags;
use serde_json::json;

use crate::bench::address::{Address, Credentials};
use crate::bench::error::BenchError;
use crate::bench::frame::{Frame, Frames, Operation};

/// A server that is silent, or reads nothing, for this long has failed the run.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

const READ_SIZE: usize = 64 * 1024;

/// A connection that has been accepted by the server.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Read from the socket but not consumed.
    pending: Vec<u8>,
    max_payload: usize,
    requests: u64,
}

impl Connection {
    /// Connects, presents the credentials and waits until the server has accepted them.
    pub(crate) fn open(address: &Address) -> Result<Self, BenchError> {
        let stream = TcpStream::connect((address.host.as_str(), address.port))
            .map_err(BenchError::io("connecting to the server"))?;
        stream.set_nodelay(true).map_err(BenchError::io("setting TCP_NODELAY"))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(BenchError::io("setting a time-out"))?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(BenchError::io("setting a time-out"))?;
        let mut connection = Self { stream, pending: Vec::new(), max_payload: 1024 * 1024, requests: 0 };
        connection.wait_for(|frame| matches!(frame.operation, Operation::Info(_)))?;
        connection.send(&connect_line(&address.credentials))?;
        connection.barrier()?;
        Ok(connection)
    }

    /// The largest payload that the server's INFO allows, in bytes.
    pub(crate) fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// Writes all bytes, blocking.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.stream.write_all(bytes).map_err(broken("sending to the server"))
    }

    /// Returns when the server has handled everything that was sent on this connection before.
    /// Messages that arrive meanwhile are dropped: the fast paths do their own final barrier.
    pub(crate) fn barrier(&mut self) -> Result<(), BenchError> {
        self.send(b"PING\r\n")?;
        self.wait_for(|frame| matches!(frame.operation, Operation::Pong))
    }

    /// Sends a request and waits for the payload of its answer, which is empty when nobody is there to answer.
    pub(crate) fn request(&mut self, subject: &str, body: &[u8]) -> Result<Vec<u8>, BenchError> {
        let inbox = format!("_INBOX.request.{}", self.requests);
        self.requests += 1;
        // One subscription that ends with its first message, so that the number can be used again.
        let lines = format!("SUB {inbox} 1\r\nUNSUB 1 1\r\nPUB {subject} {inbox} {}\r\n", body.len());
        self.send(&[lines.as_bytes(), body, b"\r\n"].concat())?;
        let mut answer = Vec::new();
        self.wait_for(|frame| match frame.operation {
            Operation::Message(head) if head.subject == inbox => {
                answer = frame.payload[head.header_size..].to_vec();
                true
            }
            _ => false,
        })?;
        Ok(answer)
    }

    /// Answers PINGs that have arrived and notices `-ERR`, without waiting for anything.
    pub(crate) fn tend(&mut self) -> Result<(), BenchError> {
        let mut piece = [0; 4096];
        match rustix::net::recv(&self.stream, &mut piece[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(BenchError::Closed),
            Ok((count, _)) => self.pending.extend_from_slice(&piece[..count]),
            Err(rustix::io::Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(BenchError::io("reading from the server")(error)),
        }
        self.consume(|_| false).map(drop)
    }

    /// The socket, for who reads it in a way of their own, and what was read beyond the last barrier:
    /// nothing, or bytes that begin with a message.
    pub(crate) fn into_parts(self) -> Result<(TcpStream, Vec<u8>), BenchError> {
        let mut frames = Frames::new(&self.pending);
        let mut unread = frames.rest();
        while let Some(frame) = frames.next()? {
            if matches!(frame.operation, Operation::Message(_)) {
                break;
            }
            unread = frames.rest();
        }
        Ok((self.stream, unread.to_vec()))
    }

    fn wait_for(&mut self, mut wanted: impl FnMut(&Frame<'_>) -> bool) -> Result<(), BenchError> {
        let mut piece = vec![0; READ_SIZE];
        while !self.consume(&mut wanted)? {
            match self.stream.read(&mut piece).map_err(broken("reading from the server"))? {
                0 => return Err(BenchError::Closed),
                count => self.pending.extend_from_slice(&piece[..count]),
            }
        }
        Ok(())
    }

    /// Handles pending frames up to the first wanted one; says whether it was there.
    fn consume(&mut self, mut wanted: impl FnMut(&Frame<'_>) -> bool) -> Result<bool, BenchError> {
        let pending = std::mem::take(&mut self.pending);
        let mut frames = Frames::new(&pending);
        let mut found = false;
        while !found && let Some(frame) = frames.next()? {
            match &frame.operation {
                Operation::Error(text) => return Err(BenchError::Refused((*text).to_owned())),
                Operation::Ping => self.send(b"PONG\r\n")?,
                Operation::Info(json) => self.learn(json),
                _ => {}
            }
            found = wanted(&frame);
        }
        self.pending = frames.rest().to_vec();
        Ok(found)
    }

    fn learn(&mut self, info: &[u8]) {
        let info: serde_json::Value = serde_json::from_slice(info).unwrap_or_default();
        if let Some(limit) = info["max_payload"].as_u64() {
            self.max_payload = usize::try_from(limit).unwrap_or(usize::MAX);
        }
    }
}

fn connect_line(credentials: &Credentials) -> Vec<u8> {
    let mut options = json!({
        "verbose": false, "pedantic": false, "echo": true, "protocol": 1, "headers": true,
        "no_responders": true, "name": "myelin bench", "lang": "rust", "version": env!("CARGO_PKG_VERSION"),
    });
    match credentials {
        Credentials::Anonymous => {}
        Credentials::Token(token) => options["auth_token"] = token.as_str().into(),
        Credentials::Password { user, password } => {
            options["user"] = user.as_str().into();
            options["pass"] = password.as_str().into();
        }
    }
    format!("CONNECT {options}\r\n").into_bytes()
}

/// A reset connection is a closed one, and a time-out is a lost answer.
fn broken(doing: &'static str) -> impl FnOnce(std::io::Error) -> BenchError {
    move |error| match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => BenchError::Closed,
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            BenchError::Lost(format!("{doing}: nothing moved for {PATIENCE:?}"))
        }
        _ => BenchError::Io(doing, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_carries_the_credentials() {
        let json = |credentials| {
            let line = connect_line(&credentials);
            let json = line.strip_prefix(b"CONNECT ").unwrap();
            serde_json::from_slice::<serde_json::Value>(json).unwrap()
        };
        let password = Credentials::Password { user: "joe".into(), password: "a\"b".into() };
        assert_eq!(json(password.clone())["user"], "joe");
        assert_eq!(json(password)["pass"], "a\"b");
        assert_eq!(json(Credentials::Token("t".into()))["auth_token"], "t");
        assert!(json(Credentials::Anonymous).get("user").is_none());
    }
}

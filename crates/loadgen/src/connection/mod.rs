//! One client connection: the handshake, requests, and the barrier that every run begins and ends
//! with.
//!
//! Owns the bytes read beyond the last answer. `address` says where to, `dial` and `socks` get
//! there, `transport` and `websocket` move bytes, `frame` and `header` read the protocol, `tls` and
//! `nkey` know how we prove who we are and find out who the server is. The fast paths (publishing,
//! receiving) take the socket or the transport out of it. Never retries: a benchmark that had to
//! reconnect has failed.

pub mod address;
pub(crate) mod dial;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod nkey;
pub(crate) mod socks;
pub mod tls;
pub mod transport;
pub(crate) mod websocket;

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use serde_json::{Value, json};

use crate::connection::address::{Address, Credentials};
use crate::connection::frame::{Frame, Operation, WholeFrames};
use crate::connection::transport::Transport;
use crate::connection::websocket::Web;
use crate::error::BenchError;
use crate::token::unique;

/// A server that is silent, or reads nothing, for this long has failed the run.
pub const PATIENCE: Duration = Duration::from_secs(15);

const READ_SIZE: usize = 64 * 1024;

/// A connection that has been accepted by the server.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    /// Read from the socket but not consumed.
    pending: Vec<u8>,
    info: Value,
    inbox: String,
}

/// Copy of a whole message, for callers whose speed is not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Subject of the message.
    pub subject: String,
    /// Reply subject, if there is one.
    pub reply: Option<String>,
    /// Header block with its version line and the empty line at its end; empty without headers.
    pub header: Vec<u8>,
    /// Bytes behind the header.
    pub payload: Vec<u8>,
}

impl ReceivedMessage {
    /// Whether the server says that nobody answers.
    pub fn is_from_nobody(&self) -> bool {
        self.status() == Some(503)
    }

    /// The status in the first line of the header, where there is one: 404, 408, 100 …
    pub fn status(&self) -> Option<u16> {
        header::status(&self.header)
    }

    /// Text of the first line of the header behind the version.
    pub fn status_line(&self) -> String {
        header::status_line(&self.header)
    }

    /// The value of a header line.
    pub fn header_value(&self, name: &str) -> Option<&str> {
        header::value(&self.header, name)
    }
}

impl Connection {
    /// Connects, presents the credentials and waits until the server has accepted them.
    pub fn open(address: &Address) -> Result<Self, BenchError> {
        let socket = dial::dial(address)?;
        socket.set_nodelay(true).map_err(BenchError::io("setting TCP_NODELAY"))?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(BenchError::io("setting a time-out"))?;
        socket.set_write_timeout(Some(PATIENCE)).map_err(BenchError::io("setting a time-out"))?;
        let transport = match address.web {
            None => Transport::Plain(socket),
            Some(compress) => Transport::Web(Box::new(
                Web::open(socket, compress).map_err(BenchError::io("asking for a WebSocket"))?,
            )),
        };
        let mut connection =
            Self { transport, pending: Vec::new(), info: Value::Null, inbox: "_INBOX".into() };
        if address.tls.is_first() {
            connection = connection.secured(address)?;
        }
        connection.wait_for(|frame| matches!(frame.operation, Operation::Info(_)))?;
        let is_secured = matches!(connection.transport, Transport::Tls(_));
        if !is_secured && (address.tls.is_required() || connection.info["tls_required"] == true) {
            if connection.info["tls_required"] != true && connection.info["tls_available"] != true {
                return Err(BenchError::Tls("the server offers no encryption".into()));
            }
            connection = connection.secured(address)?;
        }
        let line = connect_line(address, connection.info["nonce"].as_str())?;
        connection.send(&line)?;
        connection.barrier()?;
        Ok(connection)
    }

    fn secured(self, address: &Address) -> Result<Self, BenchError> {
        let Transport::Plain(socket) = self.transport else { return Ok(self) };
        let session = address.tls.session(&address.host)?;
        let transport =
            Transport::secure(socket, session).map_err(|error| BenchError::Tls(error.to_string()))?;
        Ok(Self { transport, ..self })
    }

    /// The largest payload that the server's INFO allows, in bytes.
    pub fn max_payload(&self) -> usize {
        self.info["max_payload"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(1024 * 1024)
    }

    /// INFO of the server.
    pub fn info(&self) -> &Value {
        &self.info
    }

    /// A new subject for answers, without the end that tells them apart.
    pub fn new_inbox(&self) -> String {
        format!("{}.{}", self.inbox, unique(22))
    }

    /// Answers to requests come to subjects that begin like this, instead of `_INBOX`.
    pub(crate) fn set_inbox_prefix(&mut self, prefix: &str) {
        prefix.clone_into(&mut self.inbox);
    }

    /// Writes all bytes, blocking.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.transport.send_all(bytes).map_err(broken("sending to the server"))
    }

    /// Returns when the server has handled everything that was sent on this connection before.
    /// Messages that arrive meanwhile are dropped: the fast paths do their own final barrier.
    pub fn barrier(&mut self) -> Result<(), BenchError> {
        self.send(b"PING\r\n")?;
        self.wait_for(|frame| matches!(frame.operation, Operation::Pong))
    }

    /// Sends these lines and returns when the server has handled them. Messages that arrive
    /// meanwhile are kept for the next owner of the transport.
    pub fn begin(&mut self, lines: &[u8]) -> Result<(), BenchError> {
        self.send(&[lines, b"PING\r\n"].concat())?;
        let mut piece = vec![0; READ_SIZE];
        loop {
            let mut frames = WholeFrames::new(&self.pending);
            let mut place = 0;
            while let Some(frame) = frames.next()? {
                let end = self.pending.len() - frames.rest().len();
                match frame.operation {
                    Operation::Error(text) => return Err(BenchError::Refused(text.to_owned())),
                    Operation::Pong => {
                        self.pending.drain(place..end);
                        return Ok(());
                    }
                    _ => place = end,
                }
            }
            match self.transport.recv(&mut piece).map_err(broken("reading from the server"))? {
                0 => return Err(BenchError::Closed),
                count => self.pending.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// Sends a request with these header lines and waits so long for its answer.
    pub fn ask_within(
        &mut self,
        subject: &str,
        headers: impl AsRef<[u8]>,
        body: &[u8],
        patience: Duration,
    ) -> Result<ReceivedMessage, BenchError> {
        // Another connection of the process, or of one with its id elsewhere, may ask meanwhile.
        let inbox = format!("{}.{}", self.inbox, unique(22));
        // One subscription that ends with its first message, so that the number can be used again.
        let mut bytes = format!("SUB {inbox} 1\r\nUNSUB 1 1\r\n").into_bytes();
        write_message(&mut bytes, subject, Some(&inbox), headers, body);
        self.send(&bytes)?;
        let answer = self.answer_to(&inbox, subject, patience);
        if answer.is_err() {
            // The number would not be taken for another subscription.
            let _ = self.send(b"UNSUB 1\r\n");
        }
        answer
    }

    fn answer_to(
        &mut self,
        inbox: &str,
        subject: &str,
        patience: Duration,
    ) -> Result<ReceivedMessage, BenchError> {
        let deadline = Instant::now() + patience;
        loop {
            match self.receive_until(Some(deadline))? {
                None => {
                    return Err(BenchError::Lost(format!("{subject:?} is not answered within {patience:?}")));
                }
                Some(message) if message.subject == inbox => return Ok(message),
                Some(_) => {}
            }
        }
    }

    /// Waits for the next message, whatever it is about.
    pub fn receive(&mut self) -> Result<ReceivedMessage, BenchError> {
        let mut message = ReceivedMessage::default();
        self.wait_for(|frame| match frame.operation {
            Operation::Message(head) => {
                let (header, payload) = frame.payload.split_at(head.header_size);
                message = ReceivedMessage {
                    subject: head.subject.to_owned(),
                    reply: head.reply.map(str::to_owned),
                    header: header.to_vec(),
                    payload: payload.to_vec(),
                };
                true
            }
            _ => false,
        })?;
        Ok(message)
    }

    /// The next message if one comes before `deadline`, however long that is.
    pub fn receive_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<ReceivedMessage>, BenchError> {
        loop {
            let left =
                deadline.map_or(PATIENCE, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            self.set_patience(left.min(PATIENCE))?;
            let received = self.receive();
            self.set_patience(PATIENCE)?;
            match received {
                Err(BenchError::Lost(_)) => {}
                received => return received.map(Some),
            }
        }
    }

    fn set_patience(&self, patience: Duration) -> Result<(), BenchError> {
        let socket = self.transport.socket();
        socket.set_read_timeout(Some(patience)).map_err(BenchError::io("setting a time-out"))
    }

    /// Answers PINGs that have arrived and notices `-ERR`, without waiting for anything.
    pub(crate) fn tend(&mut self) -> Result<(), BenchError> {
        let Transport::Plain(socket) = &self.transport else { return Ok(()) };
        let mut piece = [0; 4096];
        match rustix::net::recv(socket, &mut piece[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(BenchError::Closed),
            Ok((count, _)) => self.pending.extend_from_slice(&piece[..count]),
            Err(rustix::io::Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(BenchError::io("reading from the server")(error)),
        }
        self.consume(|_| false).map(drop)
    }

    /// The transport, and the bytes that were read beyond the last answer: for callers that do not
    /// block, whatever carries the bytes.
    pub fn into_transport(self) -> (Transport, Vec<u8>) {
        (self.transport, self.pending)
    }

    /// The socket, for callers that read it in a way of their own, and the bytes that were read
    /// beyond the last barrier: none, or bytes that begin with a message. An error unless the
    /// connection is plain.
    pub(crate) fn into_parts(self) -> Result<(TcpStream, Vec<u8>), BenchError> {
        let unread = unread_messages(&self.pending)?.to_vec();
        match self.transport {
            Transport::Plain(socket) => Ok((socket, unread)),
            Transport::Tls(_) | Transport::Web(_) => {
                Err(BenchError::Tls("this benchmark reads plain sockets only".into()))
            }
        }
    }

    fn wait_for(&mut self, mut wanted: impl FnMut(&Frame<'_>) -> bool) -> Result<(), BenchError> {
        let mut piece = vec![0; READ_SIZE];
        while !self.consume(&mut wanted)? {
            match self.transport.recv(&mut piece).map_err(broken("reading from the server"))? {
                0 => return Err(BenchError::Closed),
                count => self.pending.extend_from_slice(&piece[..count]),
            }
        }
        Ok(())
    }

    /// Handles pending frames up to the first wanted one; says whether it was there.
    fn consume(&mut self, mut wanted: impl FnMut(&Frame<'_>) -> bool) -> Result<bool, BenchError> {
        let pending = std::mem::take(&mut self.pending);
        let mut frames = WholeFrames::new(&pending);
        let mut found = false;
        while !found && let Some(frame) = frames.next()? {
            match &frame.operation {
                Operation::Error(text) => return Err(BenchError::Refused((*text).to_owned())),
                Operation::Ping => self.send(b"PONG\r\n")?,
                Operation::Info(json) => self.info = serde_json::from_slice(json).unwrap_or_default(),
                _ => {}
            }
            found = wanted(&frame);
        }
        self.pending = frames.rest().to_vec();
        Ok(found)
    }
}

/// The part of what was read that begins with a message.
fn unread_messages(pending: &[u8]) -> Result<&[u8], BenchError> {
    let mut frames = WholeFrames::new(pending);
    let mut unread = frames.rest();
    while let Some(frame) = frames.next()? {
        if matches!(frame.operation, Operation::Message(_)) {
            break;
        }
        unread = frames.rest();
    }
    Ok(unread)
}

/// Encodes a message; `headers` are lines with their ends, without the version.
pub fn write_message(
    out: &mut Vec<u8>,
    subject: &str,
    reply: Option<&str>,
    headers: impl AsRef<[u8]>,
    payload: &[u8],
) {
    let reply = reply.map_or_else(String::new, |reply| format!("{reply} "));
    match headers.as_ref() {
        b"" => out.extend_from_slice(format!("PUB {subject} {reply}{}\r\n", payload.len()).as_bytes()),
        lines => {
            let header = [&b"NATS/1.0\r\n"[..], lines, b"\r\n"].concat();
            let whole = header.len() + payload.len();
            let head = format!("HPUB {subject} {reply}{} {whole}\r\n", header.len());
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(&header);
        }
    }
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

fn connect_line(address: &Address, nonce: Option<&str>) -> Result<Vec<u8>, BenchError> {
    let mut options = json!({
        "verbose": false, "pedantic": false, "echo": true, "protocol": 1, "headers": true,
        "no_responders": true, "name": &*address.name, "lang": "rust", "version": env!("CARGO_PKG_VERSION"),
    });
    let mut signed = |seed: &nkey::Seed| {
        let nonce = nonce.ok_or_else(|| BenchError::Address("the server asks for no signature".into()))?;
        let (public, signature) = seed.sign(nonce)?;
        options["sig"] = signature.into();
        Ok(public)
    };
    match &address.credentials {
        Credentials::Anonymous => {}
        Credentials::Token(token) => options["auth_token"] = token.as_str().into(),
        Credentials::Password { user, password } => {
            options["user"] = user.as_str().into();
            options["pass"] = password.as_str().into();
        }
        Credentials::Nkey(seed) => options["nkey"] = signed(seed)?.into(),
        Credentials::Jwt { token, seed } => {
            // A token has its key in it, so the server does not want to hear of it again.
            seed.as_ref().map(&mut signed).transpose()?;
            options["jwt"] = token.as_str().into();
        }
    }
    Ok(format!("CONNECT {options}\r\n").into_bytes())
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
            let address = Address { credentials, ..Address::loopback(1) };
            let line = connect_line(&address, Some("nonce")).unwrap();
            let json = line.strip_prefix(b"CONNECT ").unwrap();
            serde_json::from_slice::<serde_json::Value>(json).unwrap()
        };
        let password = Credentials::Password { user: "joe".into(), password: "a\"b".into() };
        assert_eq!(json(password.clone())["user"], "joe");
        assert_eq!(json(password)["pass"], "a\"b");
        assert_eq!(json(Credentials::Token("t".into()))["auth_token"], "t");
        assert!(json(Credentials::Anonymous).get("user").is_none());
        let seed = nkey::Seed::parse("SUAM5BJY3FTHSY2D7EYHQKC7IHYYF4IJQIB4G44PJS2ZAPVY4BGDLM34BY").unwrap();
        let signed = json(Credentials::Nkey(seed.clone()));
        assert!(signed["nkey"].is_string() && signed["sig"].is_string(), "{signed}");
        let signed = json(Credentials::Jwt { token: "a.b.c".into(), seed: Some(seed) });
        assert!(signed.get("nkey").is_none() && signed["sig"].is_string() && signed["jwt"] == "a.b.c");
        assert!(json(Credentials::Jwt { token: "a.b.c".into(), seed: None }).get("sig").is_none());
    }

    #[test]
    fn messages_are_encoded_with_and_without_headers() {
        let mut out = Vec::new();
        write_message(&mut out, "a", None, "", b"hi");
        write_message(&mut out, "a", Some("r"), "K: v\r\n", b"");
        assert_eq!(out, b"PUB a 2\r\nhi\r\nHPUB a r 18 18\r\nNATS/1.0\r\nK: v\r\n\r\n\r\n");
    }
}

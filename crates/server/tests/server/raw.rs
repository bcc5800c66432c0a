//! A client that says exactly what a test wants, byte by byte, over a blocking socket.

use crate::PATIENCE;
use crate::process::Server;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// CONNECT without `+OK`s and with everything switched on.
pub(crate) const CONNECT: &str =
    r#"CONNECT {"verbose":false,"pedantic":false,"protocol":1,"headers":true,"no_responders":true}"#;

/// A message as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) subject: String,
    pub(crate) sid: String,
    pub(crate) reply: Option<String>,
    /// Headers included.
    pub(crate) body: Vec<u8>,
}

impl Message {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("tests send text")
    }
}

/// Client that says exactly what a test wants, over a blocking socket.
#[derive(Debug)]
pub(crate) struct Raw {
    stream: BufReader<TcpStream>,
}

impl Raw {
    /// Connects and takes INFO; says nothing yet.
    pub(crate) fn open(address: SocketAddr) -> Self {
        let mut raw = Self::over(TcpStream::connect(address).expect("the server listens"));
        let info = raw.line();
        assert!(info.starts_with("INFO {"), "{info}");
        raw
    }

    /// Over a connected socket, before INFO has come.
    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a positive time");
        stream.set_write_timeout(Some(PATIENCE)).expect("a positive time");
        stream.set_nodelay(true).expect("a TCP socket");
        Self { stream: BufReader::with_capacity(256 * 1024, stream) }
    }

    /// Connects with [`CONNECT`] and waits until the server has taken it and said so with a second
    /// INFO.
    pub(crate) fn connect(server: &Server) -> Self {
        let mut raw = Self::open(server.address());
        raw.send(&format!("{CONNECT}\r\n"));
        raw.barrier();
        let info = raw.line();
        assert!(info.contains("\"connect_info\":true"), "{info}");
        raw
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("the server reads");
    }

    /// Sends as far as the server lets us: it may close in the middle.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    pub(crate) fn subscribe(&mut self, subject: &str, sid: u32) {
        self.send(&format!("SUB {subject} {sid}\r\n"));
    }

    pub(crate) fn publish(&mut self, subject: &str, body: &str) {
        self.send(&format!("PUB {subject} {}\r\n{body}\r\n", body.len()));
    }

    /// The next line without its end.
    pub(crate) fn line(&mut self) -> String {
        self.try_line().expect("the server answers").expect("the connection is open")
    }

    /// The next line; none at the end of the connection.
    fn try_line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
        Ok(Some(text))
    }

    /// PING, and what comes before its PONG; an INFO out of turn is no message.
    pub(crate) fn barrier(&mut self) -> Vec<Message> {
        self.send("PING\r\n");
        self.until_pong()
    }

    /// All messages before the next PONG.
    pub(crate) fn until_pong(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            match self.line() {
                line if line == "PONG" => return messages,
                line => messages.extend(self.understand(&line)),
            }
        }
    }

    /// The next message.
    pub(crate) fn message(&mut self) -> Message {
        loop {
            let line = self.line();
            if let Some(message) = self.understand(&line) {
                return message;
            }
        }
    }

    /// The message that `line` begins, if it does; PING is answered.
    fn understand(&mut self, line: &str) -> Option<Message> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["MSG", subject, sid, size] => Some(self.body(subject, sid, None, size)),
            ["MSG", subject, sid, reply, size] => Some(self.body(subject, sid, Some(reply), size)),
            ["HMSG", subject, sid, _, size] => Some(self.body(subject, sid, None, size)),
            ["HMSG", subject, sid, reply, _, size] => Some(self.body(subject, sid, Some(reply), size)),
            ["PING"] => {
                self.send("PONG\r\n");
                None
            }
            ["INFO", ..] => None,
            _ => panic!("unexpected line {line:?}"),
        }
    }

    fn body(&mut self, subject: &str, sid: &str, reply: Option<&str>, size: &str) -> Message {
        let size: usize = size.parse().expect("sizes are digits");
        let mut body = vec![0; size + 2];
        self.stream.read_exact(&mut body).expect("the body follows");
        assert!(body.ends_with(b"\r\n"), "the body's end");
        body.truncate(size);
        let reply = reply.map(str::to_owned);
        Message { subject: subject.to_owned(), sid: sid.to_owned(), reply, body }
    }

    /// Everything up to the end of the connection, which the server must bring.
    pub(crate) fn rest(mut self) -> String {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {}
            Err(e) => panic!("the server did not close: {e}"),
        }
        String::from_utf8_lossy(&rest).into_owned()
    }
}

/// Bytes that were read, without the lines `PING`. They stand between messages, never in one.
pub(crate) fn without_pings(read: &[u8]) -> Vec<u8> {
    let (mut kept, mut rest) = (Vec::with_capacity(read.len()), read);
    while let Some(end) = rest.windows(2).position(|bytes| bytes == b"\r\n") {
        let line = &rest[..end + 2];
        let size = || std::str::from_utf8(line).ok()?.split_whitespace().last()?.parse::<usize>().ok();
        let payload = if line.starts_with(b"MSG ") { size().map_or(0, |size| size + 2) } else { 0 };
        let (operation, behind) = rest.split_at((line.len() + payload).min(rest.len()));
        if operation != b"PING\r\n" {
            kept.extend_from_slice(operation);
        }
        rest = behind;
    }
    kept.extend_from_slice(rest);
    kept
}

#[test]
fn only_a_line_of_its_own_is_a_ping() {
    let read = b"MSG a 1 2\r\nhi\r\nPING\r\nMSG a 1 6\r\nPING\r\n\r\nPONG\r\nMSG a 1 9\r\nPING";
    let kept = b"MSG a 1 2\r\nhi\r\nMSG a 1 6\r\nPING\r\n\r\nPONG\r\nMSG a 1 9\r\nPING";
    assert_eq!(without_pings(read), kept);
}

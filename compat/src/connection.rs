//! One client connection: sends bytes as they are, and judges what comes back against a deadline.
//!
//! Owns the socket and what was read but not yet demanded. Interprets nothing, with one exception:
//! the server's own PINGs, whose moment is nobody's business, are passed over unless they are asked
//! for.

use crate::expect::{self, Remembered};
use crate::server::PATIENCE;
use crate::text::show;
use crate::transcript::Expectation;
use crate::websocket::{self, Incoming};
use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    /// Over WebSocket: what is no whole frame yet.
    frames: Option<Incoming>,
    /// Read, and not yet taken by an expectation.
    pending: Vec<u8>,
    ended: bool,
    /// The end was a reset.
    was_reset: bool,
    /// The next PING is what is demanded, and not passed over.
    pings_wanted: bool,
    /// Nonce that the INFO wants to be signed.
    nonce: String,
}

/// Result of waiting for more bytes.
#[derive(Debug, PartialEq, Eq)]
enum More {
    Came,
    Ended,
    TimedOut,
}

/// Verdict of an expectation on the bytes read so far.
enum Verdict {
    /// The expectation holds, and takes so many bytes.
    Holds(usize),
    /// The verdict cannot be said yet.
    Undecided,
    /// The expectation does not hold.
    Fails(String),
}

const PING: &[u8] = b"PING\r\n";

/// Between two writes that must not arrive as one. Not a wait for anything: TCP has no boundaries,
/// so leaving the server time to read is the only way to show it a split.
const BETWEEN_PIECES: Duration = Duration::from_micros(300);

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When the server refuses, or the socket cannot be set up.
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&address, PATIENCE)?)
    }

    /// Takes the next connection of a server that dials.
    ///
    /// # Errors
    /// When none comes in time.
    pub(crate) fn accept(listener: &TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let deadline = Instant::now() + PATIENCE;
        let socket = loop {
            match listener.accept() {
                Ok((socket, _)) => break socket,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(2));
                }
                Err(e) => return Err(e),
            }
        };
        socket.set_nonblocking(false)?;
        Self::over(socket)
    }

    fn over(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let (pending, nonce) = (Vec::new(), String::new());
        Ok(Self { socket, frames: None, pending, ended: false, was_reset: false, pings_wanted: false, nonce })
    }

    /// Connects, and asks for a WebSocket.
    ///
    /// # Errors
    /// When the server refuses.
    pub(crate) fn open_websocket(address: SocketAddr, path: &str) -> io::Result<Self> {
        let mut connection = Self::open(address)?;
        connection.socket.set_read_timeout(Some(PATIENCE))?;
        websocket::upgrade(&mut connection.socket, path)?;
        Ok(Self { frames: Some(Incoming::default()), ..connection })
    }

    /// Sends `bytes`, a write for each part between `offsets`, which must be rising. A server that
    /// has closed already is no error: what it said before closing is judged by the expectations.
    pub(crate) fn send(&mut self, bytes: &[u8], offsets: &[usize]) {
        let mut from = 0;
        for &to in offsets.iter().chain([&bytes.len()]) {
            let piece = &bytes[from.min(to)..to.min(bytes.len())];
            let written = match &self.frames {
                None => self.socket.write_all(piece),
                Some(_) => self.socket.write_all(&websocket::frame(piece)),
            };
            if written.is_err() {
                return;
            }
            from = to;
            if to < bytes.len() {
                thread::sleep(BETWEEN_PIECES);
            }
        }
    }

    /// Closes the sending half.
    pub(crate) fn shut(&self) {
        // An error means that it is closed, which is what is wanted.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads the INFO line that a server begins with.
    ///
    /// # Errors
    /// When something else comes.
    pub(crate) fn read_info(&mut self) -> Result<(), String> {
        let mut nonce = String::new();
        self.await_verdict("an INFO line", |bytes| match expect::line(bytes) {
            Some(length) if bytes.starts_with(b"INFO {") => {
                nonce = nonce_of(&bytes[b"INFO ".len()..length]);
                Verdict::Holds(length)
            }
            Some(_) => Verdict::Fails("not INFO".into()),
            None => Verdict::Undecided,
        })?;
        self.nonce = nonce;
        Ok(())
    }

    /// Nonce that the INFO wants to be signed; empty if none.
    pub(crate) fn nonce(&self) -> &str {
        &self.nonce
    }

    /// Demands what must come next, and remembers what it is told to.
    ///
    /// # Errors
    /// What came instead.
    pub(crate) fn expect(&mut self, what: &Expectation, remembered: &mut Remembered) -> Result<(), String> {
        match what {
            Expectation::Bytes(wanted) => self.expect_bytes(wanted),
            Expectation::AnyOrder(group) => self.expect_any_order(group, remembered),
            Expectation::Frame(pattern) => self
                .await_verdict(&format!("a frame like {}", show(pattern)), |bytes| {
                    judge_frame(pattern, bytes, remembered)
                }),
            Expectation::Json { verb, fields } => {
                self.expect_line(verb, |value| expect::lacking(fields, value))
            }
            Expectation::Message { subject, sid, body } => {
                self.expect_message(subject, sid, body, remembered)
            }
            Expectation::Question { sid, claims } => self.expect_question(sid, claims, remembered),
            Expectation::Names { verb, names } => self.expect_line(verb, |value| {
                let found: Vec<&String> = value.as_object().map(|o| o.keys().collect()).unwrap_or_default();
                (found != names.iter().collect::<Vec<_>>()).then(|| format!("its names are {found:?}"))
            }),
            Expectation::Closed => self.expect_closed(),
            Expectation::Gone => self.drain_to_end(),
            Expectation::Reset => self.expect_reset(),
            Expectation::Silence(time) => self.expect_silence(*time),
        }
    }

    /// Whether something has come that nobody asked for.
    ///
    /// # Errors
    /// What it is.
    pub(crate) fn expect_nothing_left(&mut self) -> Result<(), String> {
        self.fill(Instant::now() + Duration::from_millis(1));
        self.pass_over_pings();
        if self.pending.is_empty() {
            Ok(())
        } else {
            Err(format!("nobody asked for {}", show(&self.pending)))
        }
    }

    /// Says good-bye and waits until the server has closed too; nothing may have been left unread.
    ///
    /// # Errors
    /// What was left, or that the server does not let go.
    pub(crate) fn retire(mut self) -> Result<(), String> {
        self.expect_nothing_left()?;
        self.shut();
        self.drain_to_end()
    }

    fn expect_bytes(&mut self, wanted: &[u8]) -> Result<(), String> {
        let mut rest = wanted;
        while !rest.is_empty() {
            // Frame by frame: a PING may come between any two.
            let (frame, after) = rest.split_at(expect::frame(rest).unwrap_or(rest.len()));
            self.pings_wanted = frame.starts_with(PING);
            let outcome = self.await_verdict(&show(rest), |bytes| judge_bytes(frame, bytes));
            self.pings_wanted = false;
            outcome?;
            rest = after;
        }
        Ok(())
    }

    fn expect_any_order(&mut self, group: &[Vec<u8>], remembered: &mut Remembered) -> Result<(), String> {
        let mut missing: Vec<&Vec<u8>> = group.iter().collect();
        while !missing.is_empty() {
            let all = missing.iter().map(|wanted| show(wanted)).collect::<Vec<_>>().join(" or ");
            let mut found = 0;
            self.await_verdict(&all, |bytes| {
                let (index, verdict) = judge_any(&missing, bytes, remembered);
                found = index;
                verdict
            })?;
            missing.remove(found);
        }
        Ok(())
    }

    fn expect_line(
        &mut self,
        verb: &str,
        shortfall: impl Fn(&serde_json::Value) -> Option<String>,
    ) -> Result<(), String> {
        self.await_verdict(&format!("{verb} with JSON as written"), |bytes| {
            let Some(length) = expect::line(bytes) else { return Verdict::Undecided };
            match expect::json_line(&bytes[..length]) {
                Ok((found, _)) if found != verb => Verdict::Fails(format!("the verb is {found}")),
                Ok((_, value)) => shortfall(&value).map_or(Verdict::Holds(length), Verdict::Fails),
                Err(reason) => Verdict::Fails(reason),
            }
        })
    }

    fn expect_message(
        &mut self,
        subject: &str,
        sid: &str,
        body: &Value,
        remembered: &mut Remembered,
    ) -> Result<(), String> {
        self.await_verdict(&format!("a message {subject} {sid} {body}"), |bytes| {
            let Some(length) = expect::frame(bytes) else { return Verdict::Undecided };
            let Some(found) = expect::message(&bytes[..length]) else {
                return Verdict::Fails("no message without headers".into());
            };
            if !expect::glob(subject.as_bytes(), found.0.as_bytes()) || found.1 != sid {
                return Verdict::Fails("another subject or sid".into());
            }
            match serde_json::from_slice(found.2) {
                Ok(actual) => expect::differing(body, &actual, remembered)
                    .map_or(Verdict::Holds(length), Verdict::Fails),
                Err(e) => Verdict::Fails(format!("not JSON: {e}")),
            }
        })
    }

    fn expect_question(
        &mut self,
        sid: &str,
        claims: &Value,
        remembered: &mut Remembered,
    ) -> Result<(), String> {
        self.await_verdict(&format!("a question {claims}"), |bytes| {
            let Some(length) = expect::frame(bytes) else { return Verdict::Undecided };
            match expect::question(&bytes[..length], sid) {
                Ok((reply, actual)) => match expect::differing(claims, &actual, remembered) {
                    Some(why) => Verdict::Fails(format!("{why} in {actual}")),
                    None => {
                        remembered.insert("reply".to_owned(), reply);
                        Verdict::Holds(length)
                    }
                },
                Err(reason) => Verdict::Fails(reason),
            }
        })
    }

    fn expect_closed(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.pass_over_pings();
            let partial_ping = PING.starts_with(&self.pending);
            if !partial_ping {
                self.fill(Instant::now() + Duration::from_millis(20));
                return Err(format!("expected the end\n     got {}", self.shown()));
            }
            match self.fill(deadline) {
                More::Came => {}
                More::Ended => return Ok(()),
                More::TimedOut => return Err("expected the end\n     but the connection is open".into()),
            }
        }
    }

    fn expect_reset(&mut self) -> Result<(), String> {
        self.expect_closed()?;
        if self.was_reset { Ok(()) } else { Err("expected a reset\n     but it was an orderly end".into()) }
    }

    fn drain_to_end(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.pending.clear();
            match self.fill(deadline) {
                More::Came => {}
                More::Ended => return Ok(()),
                More::TimedOut => return Err("the server keeps the connection".into()),
            }
        }
    }

    fn expect_silence(&mut self, time: Duration) -> Result<(), String> {
        let deadline = Instant::now() + time;
        loop {
            self.pass_over_pings();
            if !self.pending.is_empty() {
                return Err(format!("expected silence\n     got {}", self.shown()));
            }
            match self.fill(deadline) {
                More::Came => {}
                More::TimedOut => return Ok(()),
                More::Ended => return Err("expected silence\n     but the connection ended".into()),
            }
        }
    }

    /// Reads until `judge` has decided, and takes what it says.
    fn await_verdict(&mut self, wanted: &str, mut judge: impl FnMut(&[u8]) -> Verdict) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.pass_over_pings();
            match judge(&self.pending) {
                Verdict::Holds(length) => {
                    self.pending.drain(..length);
                    return Ok(());
                }
                Verdict::Fails(why) if !PING.starts_with(&self.pending) => {
                    self.fill(Instant::now() + Duration::from_millis(20));
                    let why = if why.is_empty() { why } else { format!(" ({why})") };
                    return Err(format!("expected {wanted}\n     got {}{why}", self.shown()));
                }
                Verdict::Fails(_) | Verdict::Undecided => {}
            }
            if self.fill(deadline) != More::Came {
                return Err(format!("expected {wanted}\n     got {}", self.shown()));
            }
        }
    }

    fn pass_over_pings(&mut self) {
        while !self.pings_wanted && self.pending.starts_with(PING) {
            self.pending.drain(..PING.len());
        }
    }

    /// Reads once, waiting until `deadline` at most.
    fn fill(&mut self, deadline: Instant) -> More {
        if self.ended {
            return More::Ended;
        }
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let mut buffer = [0; 64 << 10];
        let read = self.socket.set_read_timeout(Some(left)).and_then(|()| self.socket.read(&mut buffer));
        match read {
            Ok(0) => self.ended = true,
            Ok(n) => {
                match &mut self.frames {
                    None => self.pending.extend_from_slice(&buffer[..n]),
                    Some(frames) => self.ended = frames.take(&buffer[..n], &mut self.pending),
                }
                return More::Came;
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return More::TimedOut;
            }
            // A reset is the end too: it comes when the server closes without reading all that was
            // sent.
            Err(e) => {
                self.ended = true;
                self.was_reset = e.kind() == io::ErrorKind::ConnectionReset;
            }
        }
        More::Ended
    }

    fn shown(&self) -> String {
        let end = if self.ended { " and the end" } else { "" };
        if self.pending.is_empty() {
            format!("nothing{end}")
        } else {
            format!("{}{end}", show(&self.pending))
        }
    }
}

fn judge_bytes(wanted: &[u8], bytes: &[u8]) -> Verdict {
    if bytes.starts_with(wanted) {
        Verdict::Holds(wanted.len())
    } else if wanted.starts_with(bytes) {
        Verdict::Undecided
    } else {
        Verdict::Fails(String::new())
    }
}

fn judge_frame(pattern: &[u8], bytes: &[u8], remembered: &mut Remembered) -> Verdict {
    match expect::frame(bytes) {
        Some(length) if expect::glob_remembering(pattern, &bytes[..length], remembered) => {
            Verdict::Holds(length)
        }
        Some(_) => Verdict::Fails(String::new()),
        None => Verdict::Undecided,
    }
}

/// Which of the pieces comes first, and the verdict on it. One with a `%name%` is a line like it.
fn judge_any(wanted: &[&Vec<u8>], bytes: &[u8], remembered: &mut Remembered) -> (usize, Verdict) {
    if let Some(index) = wanted.iter().position(|wanted| bytes.starts_with(wanted)) {
        return (index, Verdict::Holds(wanted[index].len()));
    }
    if let Some(line) = expect::line(bytes).map(|length| &bytes[..length]) {
        let is_like = |wanted: &&Vec<u8>| {
            expect::has_name(wanted) && expect::glob_remembering(wanted, line, remembered)
        };
        if let Some(index) = wanted.iter().position(is_like) {
            return (index, Verdict::Holds(line.len()));
        }
    }
    let may_come = |wanted: &&Vec<u8>| {
        wanted.starts_with(bytes) || (expect::has_name(wanted) && expect::line(bytes).is_none())
    };
    let is_open = wanted.iter().any(may_come);
    (0, if is_open { Verdict::Undecided } else { Verdict::Fails(String::new()) })
}

/// Nonce in the JSON of an INFO.
fn nonce_of(json: &[u8]) -> String {
    let info: Value = serde_json::from_slice(json.trim_ascii()).unwrap_or_default();
    info["nonce"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A connection to somebody who says `pieces`, each in a write of its own, and closes.
    fn told(pieces: &'static [&'static [u8]]) -> Connection {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let connection = Connection::open(listener.local_addr().unwrap()).unwrap();
        thread::spawn(move || {
            let mut socket = listener.accept().unwrap().0;
            for piece in pieces {
                socket.write_all(piece).unwrap();
                thread::sleep(BETWEEN_PIECES);
            }
        });
        connection
    }

    impl Connection {
        fn demand(&mut self, what: &Expectation) -> Result<(), String> {
            self.expect(what, &mut Remembered::new())
        }
    }

    fn bytes(what: &[u8]) -> Expectation {
        Expectation::Bytes(what.to_vec())
    }

    #[test]
    fn what_comes_in_pieces_is_one_stream() {
        let mut connection = told(&[b"IN", b"FO {}\r\nPO", b"NG\r\n+OK\r", b"\n"]);
        connection.read_info().unwrap();
        connection.demand(&bytes(b"PONG\r\n")).unwrap();
        connection.demand(&bytes(b"+OK\r\n")).unwrap();
        connection.demand(&Expectation::Closed).unwrap();
    }

    #[test]
    fn what_differs_is_shown() {
        let reason = told(&[b"PONG\r\n"]).demand(&bytes(b"+OK\r\n")).unwrap_err();
        assert!(reason.contains(r"expected +OK\r\n") && reason.contains(r"got PONG\r\n"), "{reason}");
        let reason = told(&[b"+O"]).demand(&bytes(b"+OK\r\n")).unwrap_err();
        assert!(reason.contains("got +O and the end"), "{reason}");
        let reason = told(&[b"+OK\r\n"]).demand(&Expectation::Closed).unwrap_err();
        assert!(reason.contains(r"got +OK\r\n"), "{reason}");
    }

    #[test]
    fn pings_are_passed_over_unless_they_are_wanted() {
        let mut between = told(&[b"MSG a 1 6\r\nPING\r\n\r\nPING\r\nPONG\r\nPI", b"NG\r\n+OK\r\n"]);
        between.demand(&bytes(b"MSG a 1 6\r\nPING\r\n\r\nPONG\r\n+OK\r\n")).unwrap();
        let mut connection = told(&[b"PING\r\n+OK\r\nPIN", b"G\r\nPING\r\n", b"PING\r\n"]);
        connection.demand(&bytes(b"+OK\r\n")).unwrap();
        connection.demand(&bytes(b"PING\r\n")).unwrap();
        connection.demand(&Expectation::Closed).unwrap();
    }

    #[test]
    fn any_order_takes_each_piece_once() {
        let group = || Expectation::AnyOrder(vec![b"a".to_vec(), b"ab".to_vec(), b"c".to_vec()]);
        let mut connection = told(&[b"c", b"a", b"ab!"]);
        connection.demand(&group()).unwrap();
        assert_eq!(connection.expect_nothing_left().unwrap_err(), "nobody asked for !");
        assert!(told(&[b"caa"]).demand(&group()).is_err());
    }

    #[test]
    fn one_of_any_order_may_have_a_name() {
        let group = Expectation::AnyOrder(vec![b"LS+ a\r\n".to_vec(), b"LS+ $LDS.%lds%\r\n".to_vec()]);
        let mut remembered = Remembered::new();
        let mut connection = told(&[b"LS+ $LD", b"S.x\r\nLS+ a\r\n"]);
        connection.expect(&group, &mut remembered).unwrap();
        assert_eq!(remembered["lds"], "x");
        assert!(told(&[b"LS+ a\r\nLS+ b\r\n"]).demand(&group).is_err());
    }

    #[test]
    fn silence_is_neither_bytes_nor_the_end() {
        let silence = Expectation::Silence(Duration::from_millis(200));
        assert!(told(&[b"x"]).demand(&silence).unwrap_err().contains("got x"));
        assert!(told(&[]).demand(&silence).unwrap_err().contains("ended"));
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        Connection::open(listener.local_addr().unwrap())
            .unwrap()
            .demand(&Expectation::Silence(Duration::from_millis(5)))
            .unwrap();
    }

    #[test]
    fn names_are_compared_in_their_order() {
        let names = |names: &[&str]| Expectation::Names {
            verb: "INFO".into(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
        };
        told(&[b"INFO {\"b\":1,\"a\":2} \r\n"]).demand(&names(&["b", "a"])).unwrap();
        assert!(told(&[b"INFO {\"b\":1,\"a\":2} \r\n"]).demand(&names(&["a", "b"])).is_err());
    }

    #[test]
    fn a_message_is_compared_by_its_json() {
        let message = |sid: &str, body: &str| Expectation::Message {
            subject: "r.*".into(),
            sid: sid.into(),
            body: serde_json::from_str(body).unwrap(),
        };
        let come: &[&[u8]] = &[b"MSG r.x 1  12\r\n{\"a\":", b"\"soon\"}\r\n"];
        let mut remembered = Remembered::new();
        told(come).expect(&message("1", r#"{"a":"*when"}"#), &mut remembered).unwrap();
        assert_eq!(remembered["when"], "soon");
        assert!(told(come).demand(&message("1", "{}")).unwrap_err().contains("expected the names"));
        assert!(told(come).demand(&message("2", r#"{"a":"*"}"#)).unwrap_err().contains("another"));
        assert!(told(&[b"PONG\r\n"]).demand(&message("1", "{}")).unwrap_err().contains("got PONG"));
    }
}

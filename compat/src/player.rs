//! Plays a transcript against a server: starts it, walks the steps, and says at which line it went
//! wrong.
//!
//! Owns the connections by name. What a step means is decided here and nowhere else.

use crate::connection::Connection;
use crate::expect::{Remembered, recalled};
use crate::identity::{self, Identities};
use crate::implementation::Implementation;
use crate::server::Server;
use crate::transcript::{Answer, Cut, Expectation, Line, Message, Port, Setup, Step, Transcript};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};

/// Where a conversation departed from its transcript.
#[derive(Debug)]
pub struct Failure {
    /// The line of the transcript, counted from 1; `None` when the server did not even start.
    pub line: Option<usize>,
    /// Reason: what was expected and what came.
    pub reason: String,
    /// The end of the server's log.
    pub log: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.reason)?,
            None => f.write_str(&self.reason)?,
        }
        if self.log.is_empty() { Ok(()) } else { write!(f, "\n  the server's log:\n{}", self.log) }
    }
}

/// Plays the whole transcript, and once more in pieces and over WebSocket if it asks for that.
///
/// # Errors
/// The first departure.
pub fn play(transcript: &Transcript, implementation: &Implementation) -> Result<(), Failure> {
    let is_websocket = transcript.setup.websocket_only;
    Player::start(transcript, implementation, Manner { is_websocket, ..Manner::default() })?
        .play(transcript)?;
    let again = |how: String, manner: Manner| {
        let told = |mut failure: Failure| {
            failure.reason = format!("{how}: {}", failure.reason);
            failure
        };
        Player::start(transcript, implementation, manner)
            .and_then(|player| player.play(transcript))
            .map_err(told)
    };
    if let Some(pieces) = transcript.setup.pieces {
        let manner = Manner { pieces: Some(pieces), ..Manner::default() };
        again(format!("sent in pieces of {pieces}"), manner)?;
    }
    if transcript.setup.websocket {
        again("over WebSocket".to_owned(), Manner { is_websocket: true, ..Manner::default() })?;
    }
    Ok(())
}

/// How a conversation is held.
#[derive(Debug, Clone, Copy, Default)]
struct Manner {
    /// Size of the pieces in which bytes are sent.
    pieces: Option<usize>,
    is_websocket: bool,
}

/// The port is the server's choice; its log says which.
const WEBSOCKET: &str = "\nwebsocket { host: \"127.0.0.1\", port: -1, no_tls: true }\n";

/// Stands for the address at which the transcript takes connections that the server dials.
const DIALLED: &str = "@dialled@";

struct Player<'a> {
    implementation: &'a Implementation,
    setup: Setup,
    identities: Identities,
    server: Server,
    connections: BTreeMap<String, Connection>,
    manner: Manner,
    /// Where the server dials, if it is told to.
    dialled: TcpListener,
    /// Values that `%name%` stands for in a message.
    remembered: Remembered,
}

impl<'a> Player<'a> {
    fn start(
        transcript: &'a Transcript,
        implementation: &'a Implementation,
        manner: Manner,
    ) -> Result<Self, Failure> {
        let failed = |reason| Failure { line: None, reason, log: String::new() };
        let identities = Identities::issue(&transcript.setup.tokens).map_err(failed)?;
        let failed_to_listen = |error| failed(format!("nowhere to be dialled: {error}"));
        let dialled = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed_to_listen)?;
        let port = dialled.local_addr().map_err(failed_to_listen)?.port();
        let config = transcript.setup.config.as_ref();
        let config = config.map(|config| config.replace(DIALLED, &format!("127.0.0.1:{port}")));
        let mut setup = filled(&Setup { config, ..transcript.setup.clone() }, &identities).map_err(failed)?;
        if manner.is_websocket {
            setup.config.get_or_insert_default().push_str(WEBSOCKET);
        }
        let server = Server::start(implementation, &setup).map_err(failed)?;
        Ok(Self {
            implementation,
            setup,
            identities,
            server,
            connections: BTreeMap::new(),
            manner,
            dialled,
            remembered: Remembered::new(),
        })
    }

    fn play(mut self, transcript: &Transcript) -> Result<(), Failure> {
        for line in &transcript.lines_for(self.implementation.side) {
            self.step(&line.step).map_err(|reason| self.failure(Some(line), reason))?;
        }
        // None is closed before all are looked at: a leaf node hears of what goes with a client.
        let mut connections = std::mem::take(&mut self.connections);
        for (name, connection) in &mut connections {
            let nothing_left = connection.expect_nothing_left();
            nothing_left
                .map_err(|e| self.failure(transcript.lines.last(), format!("at the end, {name}: {e}")))?;
        }
        Ok(())
    }

    fn failure(&self, line: Option<&Line>, reason: String) -> Failure {
        Failure { line: line.map(|line| line.number), reason, log: self.server.log_tail() }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        if !step.continues_nameless() {
            self.retire_nameless()?;
        }
        match step {
            Step::Open { conn, raw, port } => self.open(conn, *raw, *port),
            Step::Refused => match Connection::open(self.server.address()) {
                Ok(_) => Err("the server takes a connection".into()),
                Err(_) => Ok(()),
            },
            Step::Fresh(bytes) => {
                let bytes = self.identities.fill(bytes)?;
                self.fresh(&bytes)
            }
            Step::Sign { conn, key, bytes } => self.sign(conn, key, bytes),
            Step::Send { conn, bytes, cut } => {
                let bytes = recalled(&self.identities.fill(&self.placed(bytes))?, &self.remembered);
                let offsets = self.offsets(&bytes, cut);
                self.connection(conn)?.send(&bytes, &offsets);
                Ok(())
            }
            Step::Answer { conn, answer } => self.answer(conn, answer),
            Step::Publish { conn, message } => {
                let bytes = published(&addressed(message, &self.identities)?, &self.remembered);
                let offsets = self.offsets(&bytes, &Cut::Whole);
                self.connection(conn)?.send(&bytes, &offsets);
                Ok(())
            }
            Step::Expect { conn, what } => {
                let connection = self.connections.get_mut(conn).ok_or_else(|| no_such(conn))?;
                match expected(what, &self.identities)? {
                    Some(what) => connection.expect(&what, &mut self.remembered),
                    None => connection.expect(what, &mut self.remembered),
                }
            }
            Step::Close { conn } => self.close(conn),
            Step::Shut { conn } => self.connection(conn).map(|connection| connection.shut()),
            Step::Signal(name) => self.server.signal(name),
            Step::Restart(signal) => self.restart(signal),
            Step::Reload(config) => self.reload(config),
            Step::Exit(code) => self.exit(*code),
            Step::Log(pattern) => self.server.wait_for_log(pattern),
        }
    }

    fn open(&mut self, name: &str, raw: bool, port: Port) -> Result<(), String> {
        let opened = match port {
            Port::Client if self.manner.is_websocket => {
                Connection::open_websocket(self.server.websocket_address()?, "/")
            }
            Port::Leaf if self.manner.is_websocket => {
                Connection::open_websocket(self.server.websocket_address()?, "/leafnode")
            }
            Port::Client => Connection::open(self.server.address()),
            Port::Peer => Connection::open(self.server.route_address()?),
            Port::Leaf => Connection::open(self.server.leaf_address()?),
            Port::Gateway => Connection::open(self.server.gateway_address()?),
            Port::Dialled => Connection::accept(&self.dialled),
        };
        let mut connection = opened.map_err(|e| format!("cannot connect: {e}"))?;
        if !raw {
            connection.read_info()?;
        }
        match self.connections.insert(name.to_owned(), connection) {
            Some(mut former) => former.expect_nothing_left(),
            None => Ok(()),
        }
    }

    /// Sends what is signed with a key: on a connection that is there, or on the nameless one,
    /// opened anew.
    fn sign(&mut self, name: &str, key: &str, bytes: &[u8]) -> Result<(), String> {
        if name.is_empty() {
            self.open("", false, Port::Client)?;
        }
        let nonce = self.connection(name)?.nonce().to_owned();
        let bytes = self.identities.fill_signed(bytes, Some((key, &nonce)))?;
        let offsets = self.offsets(&bytes, &Cut::Whole);
        self.connection(name)?.send(&bytes, &offsets);
        Ok(())
    }

    /// Answers as a callout service would.
    fn answer(&mut self, name: &str, answer: &Answer) -> Result<(), String> {
        let told =
            |name: &str| self.remembered.get(name).cloned().ok_or_else(|| format!("no {name} is known"));
        let (user, server, reply) = (told("user")?, told("server")?, told("reply")?);
        let filled = |claims: &str| {
            let claims = recalled(claims.as_bytes(), &self.remembered);
            String::from_utf8(self.identities.fill(&claims)?).map_err(|e| e.to_string())
        };
        let token = match answer {
            Answer::Admit { by, user_by, claims } => {
                identity::admission(by, user_by, &filled(claims)?, &user, &server)?
            }
            Answer::Claims { by, claims } => identity::answer(by, &filled(claims)?, &user, &server)?,
        };
        let bytes = format!("PUB {reply} {}\r\n{token}\r\n", token.len()).into_bytes();
        let offsets = self.offsets(&bytes, &Cut::Whole);
        self.connection(name)?.send(&bytes, &offsets);
        Ok(())
    }

    fn fresh(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.open("", false, Port::Client)?;
        let all = [&self.setup.greeting, bytes].concat();
        let offsets = self.offsets(&all, &Cut::Whole);
        self.connection("")?.send(&all, &offsets);
        Ok(())
    }

    /// Ends the nameless connection in good order, so that its subscriptions are no longer in the
    /// way of what follows.
    fn retire_nameless(&mut self) -> Result<(), String> {
        self.connections.remove("").map_or(Ok(()), Connection::retire)
    }

    fn close(&mut self, name: &str) -> Result<(), String> {
        let mut connection = self.connections.remove(name).ok_or_else(|| no_such(name))?;
        connection.expect_nothing_left()
    }

    /// Every connection ends with the server; nothing may have been left unread on one.
    fn restart(&mut self, signal: &str) -> Result<(), String> {
        for (name, mut connection) in std::mem::take(&mut self.connections) {
            connection.expect_nothing_left().map_err(|e| format!("{name}: {e}"))?;
        }
        self.server.restart(signal, self.implementation, &self.setup)
    }

    fn reload(&self, config: &str) -> Result<(), String> {
        let config = self.identities.fill(config.as_bytes())?;
        self.server.reload(&String::from_utf8(config).map_err(|error| error.to_string())?)
    }

    fn exit(&mut self, code: i32) -> Result<(), String> {
        let status = self.server.wait_for_end()?;
        if status.code() == Some(code) { Ok(()) } else { Err(format!("the server ended with {status}")) }
    }

    /// Bytes with the place where the server can dial in them, where they name it.
    fn placed<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.contains(DIALLED));
        let address = self.dialled.local_addr();
        match (text, address) {
            (Some(text), Ok(address)) => Cow::Owned(text.replace(DIALLED, &address.to_string()).into_bytes()),
            _ => Cow::Borrowed(bytes),
        }
    }

    fn connection(&mut self, name: &str) -> Result<&mut Connection, String> {
        self.connections.get_mut(name).ok_or_else(|| no_such(name))
    }

    fn offsets(&self, bytes: &[u8], cut: &Cut) -> Vec<usize> {
        let every = |step: usize| (step..bytes.len()).step_by(step).collect();
        match cut {
            Cut::At(offsets) => offsets.clone(),
            Cut::Every(step) => every(*step),
            Cut::Whole => self.manner.pieces.map(every).unwrap_or_default(),
        }
    }
}

/// Expectation with keys or tokens in place of what stands for them.
fn expected(what: &Expectation, identities: &Identities) -> Result<Option<Expectation>, String> {
    Ok(match what {
        Expectation::Bytes(bytes) => Some(Expectation::Bytes(identities.fill(bytes)?)),
        Expectation::Json { verb, fields } => {
            let fields = identities.fill(fields.to_string().as_bytes())?;
            let fields = serde_json::from_slice(&fields).map_err(|error| error.to_string())?;
            Some(Expectation::Json { verb: verb.clone(), fields })
        }
        Expectation::Question { sid, claims } => {
            let claims = identities.fill(claims.to_string().as_bytes())?;
            let claims = serde_json::from_slice(&claims).map_err(|error| error.to_string())?;
            Some(Expectation::Question { sid: sid.clone(), claims })
        }
        Expectation::Message { subject, sid, body } => {
            let body = identities.fill(body.to_string().as_bytes())?;
            let subject = identities.fill(subject.as_bytes())?;
            Some(Expectation::Message {
                subject: String::from_utf8(subject).map_err(|error| error.to_string())?,
                sid: sid.clone(),
                body: serde_json::from_slice(&body).map_err(|error| error.to_string())?,
            })
        }
        _ => None,
    })
}

/// How the server is started, with what `@…@` stands for.
fn filled(setup: &Setup, identities: &Identities) -> Result<Setup, String> {
    let config = setup.config.as_ref().map(|config| identities.fill(config.as_bytes())).transpose()?;
    let config = config.map(String::from_utf8).transpose().map_err(|error| error.to_string())?;
    Ok(Setup { config, greeting: identities.fill(&setup.greeting)?, ..setup.clone() })
}

/// Replaces what `@…@` stands for in the subject and the body of a message.
fn addressed(message: &Message, identities: &Identities) -> Result<Message, String> {
    Ok(Message {
        subject: identities.fill(&message.subject)?,
        body: identities.fill(&message.body)?,
        ..message.clone()
    })
}

/// The bytes that publish `message`, with what it takes from `remembered`.
fn published(message: &Message, remembered: &Remembered) -> Vec<u8> {
    let mut line = recalled(&message.subject, remembered);
    if let Some(reply) = &message.reply {
        line.push(b' ');
        line.extend_from_slice(reply);
    }
    let body = recalled(&message.body, remembered);
    let Some(headers) = &message.headers else {
        let size = format!(" {}\r\n", body.len());
        return [b"PUB ", line.as_slice(), size.as_bytes(), &body, b"\r\n"].concat();
    };
    let end: &[u8] = if headers.is_empty() { b"\r\n" } else { b"\r\n\r\n" };
    let block = [b"NATS/1.0\r\n", recalled(headers, remembered).as_slice(), end].concat();
    let sizes = format!(" {} {}\r\n", block.len(), block.len() + body.len());
    [b"HPUB ", line.as_slice(), sizes.as_bytes(), &block, &body, b"\r\n"].concat()
}

fn no_such(name: &str) -> String {
    format!("there is no connection {name:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_with_what_was_remembered() {
        let remembered = Remembered::from([("t1".to_owned(), "now".to_owned())]);
        let mut message = Message {
            subject: b"s".to_vec(),
            reply: Some(b"r".to_vec()),
            headers: None,
            body: b"<%t1%, %t2%>".to_vec(),
        };
        assert_eq!(published(&message, &remembered), b"PUB s r 11\r\n<now, %t2%>\r\n".as_slice());
        message.headers = Some(b"A: %t1%".to_vec());
        message.body.clear();
        assert_eq!(
            published(&message, &remembered),
            b"HPUB s r 20 20\r\nNATS/1.0\r\nA: now\r\n\r\n\r\n".as_slice()
        );
        message.headers = Some(Vec::new());
        assert_eq!(published(&message, &remembered), b"HPUB s r 12 12\r\nNATS/1.0\r\n\r\n\r\n".as_slice());
    }
}

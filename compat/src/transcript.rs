//! A transcript as data, and how it is read from its text (the format is described in `README.md`).
//!
//! Owns the grammar. Never opens a socket or starts anything: see `player` for that.

use crate::identity::Order;
use crate::text;
use serde_json::Value;
use std::time::Duration;

/// One conversation with a server of its own.
#[derive(Debug)]
pub struct Transcript {
    /// How the server is started and how nameless connections greet it.
    pub(crate) setup: Setup,
    /// The conversation, in order.
    pub(crate) lines: Vec<Line>,
}

/// Setup before the conversation.
#[derive(Debug, Default, Clone)]
pub(crate) struct Setup {
    /// Start with JetStream, its store in a folder that lives as long as the conversation.
    pub(crate) jetstream: bool,
    /// Flags beside the address and the port, which the runner chooses.
    pub(crate) flags: Vec<String>,
    /// The text of the configuration file, if there is one.
    pub(crate) config: Option<String>,
    /// Bytes that a nameless connection sends before its first ones.
    pub(crate) greeting: Vec<u8>,
    /// Feature that Myelin does not have yet, so that it cannot hold this conversation.
    pub(crate) lacks: Option<String>,
    /// Tokens that are issued before it.
    pub(crate) tokens: Vec<Order>,
    /// Play the conversation a second time with everything sent in pieces of so many bytes.
    pub(crate) pieces: Option<usize>,
    /// Hold the conversation once more over WebSocket.
    pub(crate) websocket: bool,
    /// Hold it over WebSocket and in no other way.
    pub(crate) websocket_only: bool,
}

/// One step, with where it stands in the file and to whom it applies.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Counted from 1.
    pub(crate) number: usize,
    /// `None`: everybody.
    pub(crate) only: Option<Side>,
    /// Step that is done.
    pub(crate) step: Step,
}

/// The two servers that a transcript is played against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The real nats-server.
    Reference,
    /// Ours.
    Myelin,
}

/// Way by which a connection comes to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// To the port of clients.
    Client,
    /// To the port of other servers.
    Peer,
    /// To the port of leaf nodes.
    Leaf,
    /// To the port of other clusters.
    Gateway,
    /// The server dials: it is told to by `@dialled@` in its configuration.
    Dialled,
}

/// One thing that is done or demanded. Connections go by name; the empty name is the fresh
/// connection of the latest nameless `>`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Opens a connection; reads the first INFO unless `raw`.
    Open { conn: String, raw: bool, port: Port },
    /// Demands that the server no longer takes connections.
    Refused,
    /// Opens the nameless connection anew, greets and sends.
    Fresh(Vec<u8>),
    /// Sends bytes.
    Send { conn: String, bytes: Vec<u8>, cut: Cut },
    /// Sends bytes in which this key's signature of the nonce stands; on a new connection where it
    /// has no name.
    Sign { conn: String, key: String, bytes: Vec<u8> },
    /// Answers the question of auth callout that was demanded last.
    Answer { conn: String, answer: Answer },
    /// Publishes one message, its sizes counted.
    Publish { conn: String, message: Message },
    /// Demands what must come next.
    Expect { conn: String, what: Expectation },
    /// Closes a connection at once.
    Close { conn: String },
    /// Closes the sending half of a connection.
    Shut { conn: String },
    /// Sends a signal (its name without `SIG`) to the server.
    Signal(String),
    /// Ends the server with this signal and starts it again over what it stored.
    Restart(String),
    /// Has the server read this configuration in place of its own.
    Reload(String),
    /// Demands that the server's process ends with this code.
    Exit(i32),
    /// Demands that a line of the server's log fits the pattern, now or soon.
    Log(Vec<u8>),
}

impl Step {
    /// Whether this step goes on with the nameless connection that there is.
    pub(crate) fn continues_nameless(&self) -> bool {
        matches!(self, Step::Expect { conn, .. } if conn.is_empty())
    }
}

/// One message to publish, as it is written: `%name%` stands for what was remembered under this
/// name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) subject: Vec<u8>,
    pub(crate) reply: Option<Vec<u8>>,
    /// The lines between `NATS/1.0` and the empty line.
    pub(crate) headers: Option<Vec<u8>>,
    pub(crate) body: Vec<u8>,
}

/// Response of a callout service. Keys are `ROLE:NAME`; in claims `%name%` stands for what was
/// remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An answer of one key with a user of another key in it, whose claims these are.
    Admit { by: String, user_by: String, claims: String },
    /// An answer with these claims.
    Claims { by: String, claims: String },
}

/// How a send is divided into writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// One write, or the pieces of the replay.
    Whole,
    /// Pieces of so many bytes.
    Every(usize),
    /// Pieces that end at these offsets.
    At(Vec<usize>),
}

impl Step {
    /// Takes what the next one awaits in any order into what this one does, if it is of the same
    /// connection. Answers whether it has.
    fn takes_in(&mut self, next: &Self) -> bool {
        match (self, next) {
            (
                Self::Expect { conn, what: Expectation::AnyOrder(group) },
                Self::Expect { conn: same, what: Expectation::AnyOrder(more) },
            ) if conn == same => {
                group.extend(more.iter().cloned());
                true
            }
            _ => false,
        }
    }
}

/// Expectation of what must come next on a connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expectation {
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// Exactly these pieces, in whatever order.
    AnyOrder(Vec<Vec<u8>>),
    /// One protocol frame that fits the pattern.
    Frame(Vec<u8>),
    /// A line with this verb whose JSON has at least these fields.
    Json { verb: String, fields: Value },
    /// A message without headers whose body is this JSON and nothing else, names in the same order.
    Message { subject: String, sid: String, body: Value },
    /// A question of auth callout on this subscription: a token with exactly these claims, in this
    /// order.
    Question { sid: String, claims: Value },
    /// A line with this verb whose JSON object has exactly these names in this order.
    Names { verb: String, names: Vec<String> },
    /// The end of the connection and nothing before it.
    Closed,
    /// The end of the connection, whatever comes before it.
    Gone,
    /// The end of the connection by a reset, and nothing before it.
    Reset,
    /// Nothing for so long.
    Silence(Duration),
}

/// Where and why a text is not a transcript.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// Fault of the line.
    pub reason: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl Transcript {
    /// Feature that `side` lacks to hold this conversation.
    pub fn lacks(&self, side: Side) -> Option<&str> {
        self.setup.lacks.as_deref().filter(|_| side == Side::Myelin)
    }

    /// Reads a transcript.
    ///
    /// # Errors
    /// The first line that is not understood, and why.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        Reader::default().read(source)
    }

    /// The steps for one side. Members of a group that may come in any order become one
    /// expectation, also if some of them are for this side alone.
    pub(crate) fn lines_for(&self, side: Side) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for line in self.lines.iter().filter(|line| line.only.is_none_or(|only| only == side)) {
            if !lines.last_mut().is_some_and(|last| last.step.takes_in(&line.step)) {
                lines.push(line.clone());
            }
        }
        lines
    }
}

/// The state of reading: what has been understood so far.
#[derive(Default)]
struct Reader {
    setup: Setup,
    lines: Vec<Line>,
    /// A configuration that is being read, and the line of its `reload` if it is not the first one.
    config: Option<(String, Option<usize>)>,
    only: Option<Side>,
    reason_due: bool,
}

impl Reader {
    fn read(mut self, source: &str) -> Result<Transcript, ParseError> {
        let mut last = 0;
        for (index, line) in source.lines().enumerate() {
            last = index + 1;
            self.line(last, line.trim_end()).map_err(|reason| ParseError { line: last, reason })?;
        }
        let unfinished = if self.config.is_some() {
            Some("the configuration lacks its closing >>>")
        } else {
            self.only.map(|_| "the `only` section lacks its `end`")
        };
        match unfinished {
            Some(reason) => Err(ParseError { line: last, reason: reason.to_owned() }),
            None => Ok(Transcript { setup: self.setup, lines: self.lines }),
        }
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if let Some((mut config, reload)) = self.config.take() {
            if line == ">>>" {
                self.configured(config, reload);
                return Ok(());
            }
            config.push_str(line);
            config.push('\n');
            self.config = Some((config, reload));
            return Ok(());
        }
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(reason) = line.strip_prefix("Compat:") {
            return self.reason(reason);
        }
        if self.reason_due {
            return Err("an `only` section begins with `Compat:` and the reason of the difference".into());
        }
        if let Some((key, value)) = line.split_once(':').filter(|(key, _)| SETTINGS.contains(key)) {
            return self.setting(key, value.trim());
        }
        match line {
            "reload <<<" => self.config = Some((String::new(), Some(number))),
            "only reference" => self.section(Side::Reference)?,
            "only myelin" => self.section(Side::Myelin)?,
            "end" => self.only.take().map(|_| ()).ok_or("`end` without `only`")?,
            _ => self.push(number, step(line)?),
        }
        Ok(())
    }

    fn configured(&mut self, config: String, reload: Option<usize>) {
        match reload {
            Some(number) => self.push(number, Step::Reload(config)),
            None => self.setup.config = Some(config),
        }
    }

    fn reason(&mut self, reason: &str) -> Result<(), String> {
        if self.only.is_none() || reason.trim().is_empty() {
            return Err("`Compat:` gives the reason of an `only` section".into());
        }
        self.reason_due = false;
        Ok(())
    }

    fn section(&mut self, side: Side) -> Result<(), String> {
        if self.only.is_some() {
            return Err("an `only` section inside another".into());
        }
        self.only = Some(side);
        self.reason_due = true;
        Ok(())
    }

    fn setting(&mut self, key: &str, value: &str) -> Result<(), String> {
        if !self.lines.is_empty() {
            return Err(format!("`{key}:` must come before the conversation"));
        }
        match key {
            "server" => self.setup.flags = value.split_whitespace().map(str::to_owned).collect(),
            "jetstream" if value == "true" => self.setup.jetstream = true,
            "jetstream" => return Err("`jetstream:` is followed by true".into()),
            "lacks" => self.setup.lacks = Some(value.to_owned()),
            "greet" => self.setup.greeting = bytes(value)?,
            "token" => self.setup.tokens.push(Order::parse(value)?),
            "pieces" => self.setup.pieces = Some(count(value)?),
            "websocket" if value == "true" => self.setup.websocket = true,
            "websocket" if value == "only" => self.setup.websocket_only = true,
            "websocket" => return Err("`websocket:` is followed by true or only".into()),
            _ if value == "<<<" => self.config = Some((String::new(), None)),
            _ => return Err("`config:` is followed by <<<".into()),
        }
        Ok(())
    }

    fn push(&mut self, number: usize, step: Step) {
        self.lines.push(Line { number, only: self.only, step });
    }
}

const SETTINGS: [&str; 8] =
    ["server", "jetstream", "lacks", "token", "config", "greet", "pieces", "websocket"];

fn step(line: &str) -> Result<Step, String> {
    let name = line.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(line.len());
    let (conn, rest) = line.split_at(name);
    if let Some(rest) = rest.strip_prefix('>') {
        return send(conn, rest);
    }
    if let Some(rest) = rest.strip_prefix('<') {
        return Ok(Step::Expect { conn: conn.to_owned(), what: expectation(rest)? });
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["conn", name, ref how @ ..] => open(name, how),
        ["refused"] => Ok(Step::Refused),
        ["signal", signal] => Ok(Step::Signal(signal.to_owned())),
        ["restart", signal] => Ok(Step::Restart(signal.to_owned())),
        ["exit", code] => code.parse().map(Step::Exit).map_err(|_| format!("bad exit code {code:?}")),
        ["log", ..] => Ok(Step::Log(bytes(line["log".len()..].trim_start())?)),
        [name, "close"] => Ok(Step::Close { conn: name.to_owned() }),
        [name, "shut"] => Ok(Step::Shut { conn: name.to_owned() }),
        _ => Err(format!("not a step: {line:?}")),
    }
}

fn open(name: &str, how: &[&str]) -> Result<Step, String> {
    let (port, raw) = match how {
        [] => (Port::Client, false),
        ["raw"] => (Port::Client, true),
        ["peer"] => (Port::Peer, false),
        ["peer", "raw"] => (Port::Peer, true),
        ["leaf"] => (Port::Leaf, false),
        ["leaf", "raw"] => (Port::Leaf, true),
        ["gateway"] => (Port::Gateway, false),
        ["gateway", "raw"] => (Port::Gateway, true),
        ["dialled"] => (Port::Dialled, true),
        _ => return Err(format!("no way to connect: {how:?}")),
    };
    Ok(Step::Open { conn: name.to_owned(), raw, port })
}

fn send(conn: &str, rest: &str) -> Result<Step, String> {
    let (how, text) = rest.split_once(' ').ok_or("nothing to send")?;
    if how == "pub" || how == "hpub" {
        let message = message(text, how == "hpub")?;
        return Ok(Step::Publish { conn: conn.to_owned(), message });
    }
    if how == "admit" || how == "answer" {
        let (by, claims) = text.split_once(' ').ok_or("expected a key and claims")?;
        let (by, user_by) = by.split_once('/').unwrap_or((by, by));
        let (by, user_by, claims) = (by.to_owned(), user_by.to_owned(), claims.to_owned());
        let answer = match how {
            "admit" => Answer::Admit { by, user_by, claims },
            _ => Answer::Claims { by, claims },
        };
        return Ok(Step::Answer { conn: conn.to_owned(), answer });
    }
    if how == "sign" {
        let (key, text) = text.split_once(' ').ok_or("expected a key and what it signs")?;
        return Ok(Step::Sign { conn: conn.to_owned(), key: key.to_owned(), bytes: bytes(text)? });
    }
    let cut = match how.split_at_checked(1) {
        None => Cut::Whole,
        Some(("/", every)) => Cut::Every(count(every)?),
        Some(("|", offsets)) => Cut::At(offsets.split(',').map(count).collect::<Result<_, _>>()?),
        Some(_) => return Err(format!("unknown way to send {how:?}")),
    };
    let bytes = bytes(text)?;
    match (conn, cut) {
        ("", Cut::Whole) => Ok(Step::Fresh(bytes)),
        ("", _) => Err("a nameless connection sends whole: name it to cut".into()),
        (conn, cut) => Ok(Step::Send { conn: conn.to_owned(), bytes, cut }),
    }
}

/// Reads `SUBJECT REPLY [BODY]`, or with headers `SUBJECT REPLY [LINES] [BODY]`; a dash is no
/// reply.
fn message(text: &str, with_headers: bool) -> Result<Message, String> {
    let (subject, rest) = text.split_once(' ').ok_or("expected a subject and a reply")?;
    let (reply, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (headers, body) = if with_headers {
        let block = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (lines, body) = block.ok_or("expected headers in brackets")?;
        (Some(bytes(lines)?), body.strip_prefix(' ').unwrap_or(body))
    } else {
        (None, rest)
    };
    let reply = if reply == "-" { None } else { Some(bytes(reply)?) };
    Ok(Message { subject: bytes(subject)?, reply, headers, body: bytes(body)? })
}

fn expectation(rest: &str) -> Result<Expectation, String> {
    let (how, text) = rest.split_once(' ').unwrap_or((rest, ""));
    match how {
        "" => Ok(Expectation::Bytes(bytes(text)?)),
        "?" => Ok(Expectation::AnyOrder(vec![bytes(text)?])),
        "~" => Ok(Expectation::Frame(bytes(text)?)),
        "json" => {
            let (verb, fields) = text.split_once(' ').ok_or("expected a verb and JSON")?;
            let fields = serde_json::from_str(fields).map_err(|e| format!("bad JSON: {e}"))?;
            Ok(Expectation::Json { verb: verb.to_owned(), fields })
        }
        "msg" => {
            let mut words = text.splitn(3, ' ');
            let mut word = || words.next().ok_or("expected a subject, a sid and JSON");
            let (subject, sid, body) = (word()?.to_owned(), word()?.to_owned(), word()?);
            let body = serde_json::from_str(body).map_err(|e| format!("bad JSON: {e}"))?;
            Ok(Expectation::Message { subject, sid, body })
        }
        "question" => {
            let (sid, claims) = text.split_once(' ').ok_or("expected a sid and claims")?;
            let claims = serde_json::from_str(claims).map_err(|e| format!("bad JSON: {e}"))?;
            Ok(Expectation::Question { sid: sid.to_owned(), claims })
        }
        "names" => {
            let mut words = text.split_whitespace().map(str::to_owned);
            let verb = words.next().ok_or("expected a verb and names")?;
            Ok(Expectation::Names { verb, names: words.collect() })
        }
        "eof" => Ok(Expectation::Closed),
        "gone" => Ok(Expectation::Gone),
        "reset" => Ok(Expectation::Reset),
        "silence" => {
            let millis = text.strip_suffix("ms").ok_or("expected a time such as 200ms")?;
            Ok(Expectation::Silence(Duration::from_millis(count(millis)? as u64)))
        }
        _ => Err(format!("unknown expectation {how:?}")),
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    text::decode(text).map_err(|e| e.to_string())
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| format!("expected a count, got {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(source: &str) -> Vec<Step> {
        steps_for(Side::Myelin, source)
    }

    fn steps_for(side: Side, source: &str) -> Vec<Step> {
        Transcript::parse(source).unwrap().lines_for(side).into_iter().map(|line| line.step).collect()
    }

    fn reason(source: &str) -> (usize, String) {
        let error = Transcript::parse(source).unwrap_err();
        (error.line, error.reason)
    }

    #[test]
    fn a_conversation_is_read_step_by_step() {
        let conn = || "a".to_owned();
        assert_eq!(
            steps(
                "# hello\nconn a raw\na> PING\\r\\n\na>/2 PING\na>|1,3 PING\na< PONG\na<eof\na shut\nexit 1"
            ),
            [
                Step::Open { conn: conn(), raw: true, port: Port::Client },
                Step::Send { conn: conn(), bytes: b"PING\r\n".to_vec(), cut: Cut::Whole },
                Step::Send { conn: conn(), bytes: b"PING".to_vec(), cut: Cut::Every(2) },
                Step::Send { conn: conn(), bytes: b"PING".to_vec(), cut: Cut::At(vec![1, 3]) },
                Step::Expect { conn: conn(), what: Expectation::Bytes(b"PONG".to_vec()) },
                Step::Expect { conn: conn(), what: Expectation::Closed },
                Step::Shut { conn: conn() },
                Step::Exit(1),
            ]
        );
    }

    #[test]
    fn a_message_is_read_with_its_reply_headers_and_body() {
        let publish = |reply: Option<&str>, headers: Option<&[u8]>, body: &[u8]| Step::Publish {
            conn: "a".into(),
            message: Message {
                subject: b"s".to_vec(),
                reply: reply.map(|reply| reply.as_bytes().to_vec()),
                headers: headers.map(<[u8]>::to_vec),
                body: body.to_vec(),
            },
        };
        assert_eq!(
            steps("a>pub s - two words\na>pub s r\na>hpub s r [A: b\\r\\nC: d] x\na>hpub s - [] x"),
            [
                publish(None, None, b"two words"),
                publish(Some("r"), None, b""),
                publish(Some("r"), Some(b"A: b\r\nC: d"), b"x"),
                publish(None, Some(b""), b"x"),
            ]
        );
        assert_eq!(reason("a>pub s").1, "expected a subject and a reply");
        assert_eq!(reason("a>hpub s r x").1, "expected headers in brackets");
    }

    #[test]
    fn what_may_come_in_any_order_is_one_expectation() {
        let group = |what: &[&str]| Step::Expect {
            conn: "a".into(),
            what: Expectation::AnyOrder(what.iter().map(|s| s.as_bytes().to_vec()).collect()),
        };
        let other = Step::Expect { conn: "b".into(), what: Expectation::AnyOrder(vec![b"z".to_vec()]) };
        assert_eq!(steps("a<? x\na<? y\nb<? z"), [group(&["x", "y"]), other]);
        let some = "a<? x\nonly myelin\nCompat: ours\na<? y\nend\na<? z";
        assert_eq!(steps_for(Side::Myelin, some), [group(&["x", "y", "z"])]);
        assert_eq!(steps_for(Side::Reference, some), [group(&["x", "z"])]);
    }

    #[test]
    fn the_setup_comes_first() {
        let setup = Transcript::parse("server: -D -V\nconfig: <<<\na: 1\n\n>>>\ngreet: HI\\r\npieces: 1")
            .unwrap()
            .setup;
        assert_eq!(setup.flags, ["-D", "-V"]);
        assert_eq!(setup.config.as_deref(), Some("a: 1\n\n"));
        assert_eq!((setup.greeting.as_slice(), setup.pieces), (&b"HI\r"[..], Some(1)));
        assert_eq!(reason("conn a\nserver: -D"), (2, "`server:` must come before the conversation".into()));
    }

    #[test]
    fn a_reload_has_a_configuration_of_its_own() {
        let transcript =
            Transcript::parse("config: <<<\na: 1\n>>>\nconn x\nreload <<<\na: 2\n>>>\nx> y").unwrap();
        assert_eq!(transcript.setup.config.as_deref(), Some("a: 1\n"));
        assert_eq!(transcript.lines[1].number, 5);
        assert_eq!(transcript.lines[1].step, Step::Reload("a: 2\n".into()));
        assert_eq!(reason("reload <<<\na: 2").1, "the configuration lacks its closing >>>");
    }

    #[test]
    fn a_difference_needs_its_reason() {
        let transcript = Transcript::parse("only myelin\nCompat: safer\na<eof\nend\na< x").unwrap();
        let only: Vec<_> = transcript.lines.iter().map(|line| line.only).collect();
        assert_eq!(only, [Some(Side::Myelin), None]);
        assert_eq!(reason("only reference\na<eof\nend").0, 2);
        assert_eq!(reason("only reference\nCompat:\na<eof\nend").0, 2);
        assert_eq!(reason("only reference\nCompat: x\na<eof").1, "the `only` section lacks its `end`");
    }

    #[test]
    fn every_transcript_can_be_read() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path();
            let transcript = Transcript::parse(&std::fs::read_to_string(&file).unwrap());
            assert!(transcript.is_ok_and(|t| !t.lines.is_empty()), "{}", file.display());
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        assert_eq!(reason("conn a\nnonsense"), (2, "not a step: \"nonsense\"".into()));
        assert_eq!(reason("a<soon").1, "unknown expectation \"soon\"");
        assert_eq!(reason("a>/0 x").1, "expected a count, got \"0\"");
        assert_eq!(reason("a<silence 2s").1, "expected a time such as 200ms");
    }
}

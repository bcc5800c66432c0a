//! A dead letter as its stream has it: headers that say where it comes from, and its own.

use myelin_loadgen::admin::{Admin, answered};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::Target;
use myelin_stdx::base64;
use serde_json::{Value, json};

/// Beginning of the keys of headers that say where a letter comes from.
const ABOUT: &str = "Myelin-DLQ-";
/// Beginning of the keys under which its own are kept that would do something.
const KEPT: &str = "Myelin-DLQ-Kept-";
/// Beginnings of keys that a replay does not give back: they are about another time, and a rollup
/// would remove what came since.
const PAST: [&str; 4] = ["nats-msg-id", "nats-expected-", "nats-batch-", "nats-rollup"];

/// So often a message is sought anew that was gone when it was read.
const MISSES: u32 = 3;

/// Header as it is stored: its line, and those that continue it, without the end of the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header(Vec<u8>);

impl Header {
    fn new(key: &str, value: &str) -> Self {
        Self(format!("{key}: {value}").into_bytes())
    }

    /// Headers of a block, which begins with the line of its version.
    fn read_all(block: &[u8]) -> Vec<Self> {
        let mut headers: Vec<Self> = Vec::new();
        for line in lines(block).skip(1) {
            match (line.first(), headers.last_mut()) {
                (None, _) => {}
                (Some(b' ' | b'\t'), Some(Self(last))) => {
                    last.extend_from_slice(b"\r\n");
                    last.extend_from_slice(line);
                }
                _ if line.contains(&b':') => headers.push(Self(line.to_vec())),
                _ => {}
            }
        }
        headers
    }

    fn colon(&self) -> usize {
        self.0.iter().position(|byte| *byte == b':').unwrap_or(self.0.len())
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.0[..self.colon()]
    }

    pub(super) fn value(&self) -> &[u8] {
        self.0.get(self.colon() + 1..).unwrap_or_default().trim_ascii()
    }

    fn write(line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }
}

/// Lines of a block. They end at CRLF, as the server has it: what stands behind a lone LF has not
/// acted as a header, and must not when it is given back.
fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(block);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let end = text.windows(2).position(|two| two == b"\r\n");
        rest = end.map(|end| &text[end + 2..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// One dead letter.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    /// Sequence in the stream that has it.
    pub(super) seq: u64,
    pub(super) subject: String,
    pub(super) headers: Vec<Header>,
    pub(super) payload: Vec<u8>,
}

impl Letter {
    pub(super) fn new(seq: u64, subject: &str, headers: &[u8], payload: Vec<u8>) -> Self {
        Self { seq, subject: subject.to_owned(), headers: Header::read_all(headers), payload }
    }

    /// Value of one of the headers that begin with `Myelin-DLQ-`; empty where it is missing.
    pub(super) fn fact(&self, key: &str) -> &str {
        let is = |header: &&Header| header.key().strip_prefix(ABOUT.as_bytes()) == Some(key.as_bytes());
        let value = self.headers.iter().rfind(is).map_or(&b""[..], Header::value);
        std::str::from_utf8(value).unwrap_or_default()
    }

    /// Whether it says where a replay publishes it: what does not is no dead letter.
    pub(super) fn is_one(&self) -> bool {
        !self.fact("Subject").is_empty()
    }

    /// Subject on which a replay publishes it. Who may write to the stream of letters must not have
    /// whoever replays them ask the server for something: such subjects are refused.
    pub(super) fn origin(&self) -> Result<&str, BenchError> {
        let subject = self.fact("Subject");
        names::word("subject", subject)?;
        if asks_server(subject) {
            let why = "is no subject of a message: it asks the server for something";
            return Err(BenchError::Usage(format!("{subject} {why}")));
        }
        Ok(subject)
    }

    /// Refuses a message that is no dead letter: a replay would publish it anywhere, and remove
    /// it.
    fn checked(self, stream: &str) -> Result<Self, BenchError> {
        if self.is_one() {
            return Ok(self);
        }
        let why = "it has no header Myelin-DLQ-Subject that says where it is from";
        Err(BenchError::Usage(format!("message {} of {stream} is no dead letter: {why}", self.seq)))
    }

    /// Puts one header in the place of all with this key.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        let at = self.headers.iter().position(|header| header.key() == key.as_bytes());
        let at = at.unwrap_or_else(|| self.headers.iter().take_while(|one| !is_about(one.key())).count());
        self.remove(key);
        self.headers.insert(at.min(self.headers.len()), Header::new(key, value));
    }

    /// Leaves out the headers with this key.
    pub(super) fn remove(&mut self, key: &str) {
        self.headers.retain(|header| header.key() != key.as_bytes());
    }

    /// Lines of headers with which it is published again, as the message that it was. Behind them
    /// stands an id, where there is room for it: a replay that is begun anew because its answer was
    /// lost is none.
    pub(super) fn original_headers(&self, has_id: bool) -> Vec<u8> {
        let own = self.headers.iter().filter_map(|Header(line)| match line.strip_prefix(KEPT.as_bytes()) {
            Some(kept) if is_about(kept) => None,
            Some(kept) => Some(kept),
            None if is_about(line) => None,
            None => Some(&line[..]),
        });
        let mut lines = Vec::new();
        let is_past = |line: &[u8]| PAST.iter().any(|beginning| begins(line, beginning));
        own.filter(|line| !is_past(line)).for_each(|line| Header::write(line, &mut lines));
        if has_id {
            Header::write(format!("Nats-Msg-Id: replay:{}", self.subject).as_bytes(), &mut lines);
        }
        lines
    }

    /// Lines of headers with which it is stored again as a letter.
    pub(super) fn stored_headers(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        let stored = self.headers.iter().filter(|Header(line)| !begins(line, "nats-"));
        stored.for_each(|Header(line)| Header::write(line, &mut lines));
        lines
    }
}

/// Whether a subject is one of the server's API, of acknowledgements, of answers about dead letters
/// or of the system account's requests.
fn asks_server(subject: &str) -> bool {
    let mut tokens = subject.split('.');
    matches!(
        (tokens.next(), tokens.next(), tokens.next()),
        (Some("$SYS"), Some("REQ"), _)
            | (Some("$JS"), Some("ACK" | "API" | "DLQ" | "FC" | "SNAPSHOT"), _)
            | (Some("$JS"), _, Some("API"))
    )
}

fn is_about(line: &[u8]) -> bool {
    line.starts_with(ABOUT.as_bytes())
}

fn begins(line: &[u8], beginning: &str) -> bool {
    line.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning.as_bytes()))
}

/// Visits dead letters in the order of their stream, `last` at most, with `read`, which answers
/// with the first message from a sequence on.
fn walk(
    (mut next, last): (u64, u64),
    read: &mut dyn FnMut(u64) -> Result<Option<Letter>, BenchError>,
    visit: &mut dyn FnMut(Letter) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut misses = 0;
    while next <= last {
        let Some(letter) = read(next)? else {
            // One that was found and was gone before it was read: the one behind it is found now.
            misses += 1;
            if misses > MISSES {
                break;
            }
            continue;
        };
        if letter.seq > last {
            break;
        }
        (misses, next) = (0, letter.seq + 1);
        // What is no dead letter is none of ours.
        if letter.is_one() {
            visit(letter)?;
        }
    }
    Ok(())
}

/// Letters of one stream.
pub(super) struct Letters {
    admin: Admin,
    stream: String,
}

impl Letters {
    pub(super) fn open(target: &Target, stream: &str) -> Result<Self, BenchError> {
        Ok(Self { admin: Admin::open(target)?, stream: stream.to_owned() })
    }

    pub(super) fn stream(&self) -> &str {
        &self.stream
    }

    /// Reads the letter with this sequence. Refuses a message that is none.
    pub(super) fn get(&mut self, seq: u64) -> Result<Letter, BenchError> {
        let answer = self.admin.ask(&format!("STREAM.MSG.GET.{}", self.stream), &json!({ "seq": seq }))?;
        read_letter(&answer)?.checked(&self.stream)
    }

    /// Visits all letters in the order of their stream. Answers how many messages that had when
    /// this began.
    pub(super) fn each(
        &mut self,
        visit: &mut dyn FnMut(Letter) -> Result<(), BenchError>,
    ) -> Result<u64, BenchError> {
        let state = self.admin.stream(&self.stream)?["state"].clone();
        let number = |key: &str| state[key].as_u64();
        let messages = number("messages").unwrap_or(0);
        if messages == 0 {
            return Ok(0);
        }
        let span = (number("first_seq").unwrap_or(1), number("last_seq").unwrap_or(0));
        let mut read = |next| {
            let stored = self.admin.stored(&self.stream, &json!({ "seq": next, "next_by_subj": ">" }))?;
            stored.map(|answer| read_letter(&answer)).transpose()
        };
        walk(span, &mut read, visit)?;
        Ok(messages)
    }

    /// Bytes that a message may have, its headers counted.
    pub(super) fn max_payload(&mut self) -> usize {
        self.admin.connection().max_payload()
    }

    /// Publishes a message. Answers the sequence that a stream gives it.
    pub(super) fn publish(
        &mut self,
        subject: &str,
        headers: &[u8],
        payload: &[u8],
    ) -> Result<u64, BenchError> {
        let patience = self.admin.timeout();
        let answer = self.admin.connection().ask_within(subject, headers, payload, patience)?;
        if answer.is_from_nobody() {
            return Err(BenchError::Usage(format!("no stream takes {subject}")));
        }
        let stored = answered(subject, &answer.payload)?;
        stored["seq"]
            .as_u64()
            .ok_or_else(|| BenchError::Usage(format!("who answers on {subject} is no stream")))
    }

    /// Removes a letter.
    pub(super) fn remove(&mut self, seq: u64) -> Result<(), BenchError> {
        let body = json!({ "seq": seq, "no_erase": true });
        self.admin.ask(&format!("STREAM.MSG.DELETE.{}", self.stream), &body).map(drop)
    }

    /// Removes all messages up to this one, it too. Answers how many there were.
    pub(super) fn remove_up_to(&mut self, seq: u64) -> Result<u64, BenchError> {
        self.admin.purge(&self.stream, &json!({ "seq": seq.saturating_add(1) }))
    }
}

/// Reads a letter in an answer of the API.
fn read_letter(answer: &Value) -> Result<Letter, BenchError> {
    let message = &answer["message"];
    let bytes = |key: &str| {
        base64::decode(message[key].as_str().unwrap_or_default())
            .ok_or_else(|| BenchError::Protocol(format!("{key} of message {}", message["seq"])))
    };
    let seq = message["seq"].as_u64().unwrap_or(0);
    let subject = message["subject"].as_str().unwrap_or_default();
    Ok(Letter::new(seq, subject, &bytes("hdrs")?, bytes("data")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_says_no_subject_is_no_dead_letter() {
        for header in ["", "A: 1\r\n", "Myelin-DLQ-Subject: \r\n", "Myelin-DLQ-Subject:\r\n \t\r\n"] {
            let headers = format!("NATS/1.0\r\n{header}\r\n");
            let refused = Letter::new(7, "a", headers.as_bytes(), Vec::new()).checked("S");
            let words = refused.expect_err("it is none").to_string();
            assert!(words.starts_with("message 7 of S is no dead letter: "), "{words}");
        }
        let headers = b"NATS/1.0\r\nMyelin-DLQ-Subject: o.a\r\n\r\n";
        assert!(Letter::new(7, "a", headers, Vec::new()).checked("S").is_ok());
    }

    #[test]
    fn a_letter_that_asks_the_server_is_not_replayed() {
        let origin = |subject: &str| {
            let headers = format!("NATS/1.0\r\nMyelin-DLQ-Subject: {subject}\r\n\r\n");
            Letter::new(7, "a", headers.as_bytes(), Vec::new()).origin().map(str::to_owned)
        };
        for subject in [
            "$JS.API.STREAM.DELETE.S",
            "$JS.hub.API.INFO",
            "$JS.ACK.S.c.1",
            "$JS.DLQ.S.c.1.7",
            "$JS.FC.S",
            "$SYS.REQ.SERVER.PING",
        ] {
            assert!(origin(subject).is_err(), "{subject}");
        }
        for subject in ["o.a", "$KV.B.k", "$JS.EVENT.ADVISORY.x", "$SYSTEM.REQ", "$O.B.M.x"] {
            assert_eq!(origin(subject).ok().as_deref(), Some(subject));
        }
    }

    #[test]
    fn a_walk_goes_on_behind_letters_that_are_removed_meanwhile() {
        let headers = b"NATS/1.0\r\nMyelin-DLQ-Subject: a\r\n\r\n";
        let mut there: Vec<u64> = (1..=9).collect();
        let mut calls = 0;
        let mut read = |next| {
            calls += 1;
            let found = there.iter().position(|seq| *seq >= next);
            if calls % 3 == 0 {
                // It was found, and was gone before it was read.
                found.map(|at| there.remove(at));
                return Ok(None);
            }
            Ok(found.map(|at| Letter::new(there[at], "d", headers, Vec::new())))
        };
        let mut seen = Vec::new();
        walk((1, 9), &mut read, &mut |letter| {
            seen.push(letter.seq);
            Ok(())
        })
        .expect("it can be read");
        assert_eq!(seen, [1, 2, 4, 5, 7, 8]);
    }
}

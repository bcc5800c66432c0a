//! A client's side of the protocol, as far as the clients of a run speak it.

use std::borrow::Cow;
use std::io::Write;
use std::str;

/// A message that a client has received, in its buffer.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    pub(crate) subject: &'a str,
    pub(crate) reply: &'a str,
    /// The whole header block, or nothing.
    pub(crate) headers: Cow<'a, str>,
    pub(crate) payload: &'a [u8],
}

/// One word more than a line of a message may have.
const MOST_WORDS: usize = 7;

/// Beginning of a block of headers.
const HEAD: &str = "NATS/1.0\r\n";

/// The first words of a client, whose inbox everything below `inbox` is.
pub(crate) fn hello(inbox: &str) -> Vec<u8> {
    let options = r#"{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}"#;
    format!("CONNECT {options}\r\nSUB {inbox}.> 1\r\n").into_bytes()
}

/// Listens to what a push consumer delivers. Compat: nobody listens to it with wildcards.
pub(crate) fn listen(subject: &str, number: u64) -> Vec<u8> {
    format!("SUB {subject} {number}\r\n").into_bytes()
}

/// Adds a publish to what a client sends. Without headers it is a `PUB`.
pub(crate) fn publish(
    out: &mut Vec<u8>,
    subject: &str,
    reply: &str,
    headers: &[(&str, String)],
    payload: &[u8],
) {
    // Perf: each message of a run comes through here, so that nothing is built on the way.
    let lines: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let block = if headers.is_empty() { 0 } else { HEAD.len() + lines + 2 };
    let whole = block + payload.len();
    let _ = if headers.is_empty() {
        write!(out, "PUB {subject} {reply} {whole}\r\n")
    } else {
        write!(out, "HPUB {subject} {reply} {block} {whole}\r\n{HEAD}")
    };
    for (name, value) in headers {
        [name, ": ", value, "\r\n"].iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
    }
    if !headers.is_empty() {
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

/// The first whole message of what was received, and where it ends: the end of all that is not of
/// interest, where there is none. What is no message and not expected is an error.
pub(crate) fn first(buffer: &[u8]) -> Result<(usize, Option<Received<'_>>), String> {
    let mut at = 0;
    while let Some(length) = buffer[at..].windows(2).position(|pair| pair == b"\r\n") {
        let line = &buffer[at..at + length];
        let wrong = || format!("the server says {}", String::from_utf8_lossy(line));
        let text = str::from_utf8(line).map_err(|_| wrong())?;
        let body = at + length + 2;
        let (mut words, mut count) = ([""; MOST_WORDS], 0);
        for (place, word) in words.iter_mut().zip(text.split(' ')) {
            (*place, count) = (word, count + 1);
        }
        let (with_headers, reply) = match (words[0], count) {
            ("MSG", 4) => (false, ""),
            ("MSG", 5) => (false, words[3]),
            ("HMSG", 5) => (true, ""),
            ("HMSG", 6) => (true, words[3]),
            ("INFO" | "PING" | "PONG", _) => {
                at = body;
                continue;
            }
            _ => return Err(wrong()),
        };
        let number = |word: &str| word.parse::<usize>().map_err(|_| wrong());
        let whole = number(words[count - 1])?;
        let head = if with_headers { number(words[count - 2])? } else { 0 };
        let end = body + whole;
        if buffer.len() < end + 2 {
            break;
        }
        let headers = String::from_utf8_lossy(&buffer[body..body + head]);
        let payload = &buffer[body + head..end];
        return Ok((end + 2, Some(Received { subject: words[1], reply, headers, payload })));
    }
    Ok((at, None))
}

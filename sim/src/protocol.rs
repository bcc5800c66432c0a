//! A client's side of the protocol, as far as the clients of a run speak it.

use std::fmt::Write;

/// A message that a client has received.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) subject: String,
    pub(crate) reply: String,
    /// The whole header block, or nothing.
    pub(crate) headers: String,
    pub(crate) payload: Vec<u8>,
}

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
    let mut block = String::new();
    if !headers.is_empty() {
        block.push_str("NATS/1.0\r\n");
        for (name, value) in headers {
            let _ = write!(block, "{name}: {value}\r\n");
        }
        block.push_str("\r\n");
    }
    let whole = block.len() + payload.len();
    let line = if block.is_empty() {
        format!("PUB {subject} {reply} {whole}\r\n")
    } else {
        format!("HPUB {subject} {reply} {} {whole}\r\n", block.len())
    };
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(block.as_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

/// Takes the whole messages from the front of what was received. What is no message and not
/// expected is an error.
pub(crate) fn take(buffer: &mut Vec<u8>) -> Result<Vec<Received>, String> {
    let mut taken = Vec::new();
    let mut at = 0;
    while let Some(length) = buffer[at..].windows(2).position(|pair| pair == b"\r\n") {
        let line = String::from_utf8_lossy(&buffer[at..at + length]).into_owned();
        let body = at + length + 2;
        let words: Vec<&str> = line.split(' ').collect();
        let (with_headers, reply) = match (words[0], words.len()) {
            ("MSG", 4) => (false, ""),
            ("MSG", 5) => (false, words[3]),
            ("HMSG", 5) => (true, ""),
            ("HMSG", 6) => (true, words[3]),
            ("INFO" | "PING" | "PONG", _) => {
                at = body;
                continue;
            }
            _ => return Err(format!("the server says {line}")),
        };
        let number = |word: &str| word.parse::<usize>().map_err(|_| format!("the server says {line}"));
        let whole = number(words[words.len() - 1])?;
        let head = if with_headers { number(words[words.len() - 2])? } else { 0 };
        if buffer.len() < body + whole + 2 {
            break;
        }
        taken.push(Received {
            subject: words[1].to_owned(),
            reply: reply.to_owned(),
            headers: String::from_utf8_lossy(&buffer[body..body + head]).into_owned(),
            payload: buffer[body + head..body + whole].to_vec(),
        });
        at = body + whole + 2;
    }
    buffer.drain(..at);
    Ok(taken)
}

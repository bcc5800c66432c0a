//! Headers of a dead letter: where the message comes from, and its own.
//!
//! A header that would do something to the stream that takes the dead letter, as all of NATS's may,
//! is kept under another name, so that a replay gives it back.

use crate::stream::header_edit::{content, lines};
use myelin_jsapi::json::rfc3339;
use myelin_store::consumer::Death;
use myelin_store::{Message, Timestamp};

/// Beginning of the names under which headers are kept.
const KEPT: &[u8] = b"Myelin-DLQ-Kept-";
/// Beginnings of such names, in lower case.
const RENAMED: [&[u8]; 2] = [b"nats-", b"myelin-dlq-"];

/// Facts about a dead letter.
pub(super) struct Letter<'a> {
    pub(super) stream: &'a str,
    pub(super) consumer: &'a str,
    /// The stream that is to take it.
    pub(super) target: &'a str,
    /// Names it among all.
    pub(super) id: &'a [u8],
    /// Count of redeliveries, with the death in it.
    pub(super) redelivered: u64,
    pub(super) last_delivered: Timestamp,
    /// Words of the client that has terminated it.
    pub(super) said: &'a str,
    pub(super) now: Timestamp,
}

/// Writes the headers of the dead letter of a message.
pub(super) fn write_headers(message: &Message<'_>, letter: &Letter<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"NATS/1.0\r\n");
    let mut is_folded_after = false;
    // They end at CRLF: what stands behind a lone LF is part of a value, and stays one.
    for line in lines(message.headers).skip(1).map(content) {
        let is_folded = matches!(line.first(), Some(b' ' | b'\t'));
        // One of blanks is the end of them to some readers.
        if line.trim_ascii().is_empty() || (is_folded && !is_folded_after) {
            continue;
        }
        if !is_folded && is_renamed(line) {
            out.extend_from_slice(KEPT);
        }
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
        is_folded_after = true;
    }
    let mut add = |name: &str, value: &[u8]| {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend(value.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte }));
        out.extend_from_slice(b"\r\n");
    };
    let reason =
        if Death::read(letter.redelivered) == Some(Death::Terminated) { "terminated" } else { "exhausted" };
    let deliveries = Death::redeliveries(letter.redelivered) + 1;
    add("Myelin-DLQ-Stream", letter.stream.as_bytes());
    add("Myelin-DLQ-Consumer", letter.consumer.as_bytes());
    add("Myelin-DLQ-Subject", message.subject);
    add("Myelin-DLQ-Sequence", message.seq.to_string().as_bytes());
    add("Myelin-DLQ-Deliveries", deliveries.to_string().as_bytes());
    add("Myelin-DLQ-Reason", reason.as_bytes());
    if !letter.said.is_empty() {
        add("Myelin-DLQ-Reason-Text", letter.said.as_bytes());
    }
    add("Myelin-DLQ-Stored", rfc3339(message.timestamp).as_bytes());
    add("Myelin-DLQ-Last-Delivered", rfc3339(letter.last_delivered).as_bytes());
    add("Myelin-DLQ-Time", rfc3339(letter.now).as_bytes());
    add("Nats-Msg-Id", letter.id);
    add("Nats-Expected-Stream", letter.target.as_bytes());
    add("Nats-Expected-Last-Subject-Sequence", b"0");
    out.extend_from_slice(b"\r\n");
}

fn is_renamed(line: &[u8]) -> bool {
    let name = line.trim_ascii_start();
    RENAMED.iter().any(|prefix| {
        name.get(..prefix.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_wire::header;

    #[test]
    fn headers_that_would_do_something_are_kept_under_another_name() {
        let headers = b"NATS/1.0\r\nA: 1\r\nNats-Msg-Id: x\r\nnats-ttl: 5s\r\n more\r\n\
             \t \r\nMyelin-DLQ-Stream: T\r\n \r\nB: 2\nNats-Rollup: all \r\n\r\n";
        let message =
            Message { seq: 7, timestamp: 1, expires: None, subject: b"o.a", headers, payload: b"x" };
        let letter = Letter {
            stream: "S",
            consumer: "C",
            target: "D",
            id: b"dlq.S.C.1.7",
            redelivered: Death::Terminated.count(3) - 1,
            last_delivered: 1,
            said: "bad\r\nNats-Rollup: all",
            now: 1,
        };
        let mut out = Vec::new();
        write_headers(&message, &letter, &mut out);
        let kept = "NATS/1.0\r\nA: 1\r\nMyelin-DLQ-Kept-Nats-Msg-Id: x\r\nMyelin-DLQ-Kept-nats-ttl: 5s\r\n more\r\n\
            Myelin-DLQ-Kept-Myelin-DLQ-Stream: T\r\nB: 2\nNats-Rollup: all \r\nMyelin-DLQ-Stream: S\r\n";
        assert!(out.starts_with(kept.as_bytes()), "{}", String::from_utf8_lossy(&out));
        let value = |key: &str| {
            String::from_utf8_lossy(header::get(&out, key.as_bytes()).unwrap_or(b"")).into_owned()
        };
        assert_eq!(value("Myelin-DLQ-Sequence"), "7");
        assert_eq!(value("Myelin-DLQ-Deliveries"), "3");
        assert_eq!(value("Myelin-DLQ-Reason"), "terminated");
        assert_eq!(value("Myelin-DLQ-Reason-Text"), "bad  Nats-Rollup: all");
        assert_eq!(value("Myelin-DLQ-Subject"), "o.a");
        assert_eq!(value("Nats-Msg-Id"), "dlq.S.C.1.7");
        assert_eq!(value("Nats-Expected-Last-Subject-Sequence"), "0");
        assert!(out.ends_with(b"\r\n\r\n"));
    }
}

//! Encoding of what a server writes: the few fixed lines and the frames of messages.
//!
//! Everything appends to a byte vector that the caller owns; nothing here allocates of its own.

use crate::error::ErrorText;
use std::io::Write;

/// `+OK`, the answer of verbose mode.
pub const OK: &[u8] = b"+OK\r\n";
/// The keep-alive.
pub const PING: &[u8] = b"PING\r\n";
/// The answer to PING.
pub const PONG: &[u8] = b"PONG\r\n";

/// Appends `-ERR '<text>'`.
pub fn error(out: &mut Vec<u8>, text: &ErrorText) {
    // Writing into a vector cannot fail.
    let _ = write!(out, "-ERR '{text}'\r\n");
}

/// Appends decimal digits.
pub fn number(out: &mut Vec<u8>, n: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// Writes decimal digits over as many others. False: there are not as many, and nothing has
/// changed.
pub fn overwrite(digits: &mut [u8], n: impl itoa::Integer) -> bool {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(n).as_bytes();
    let fits = text.len() == digits.len();
    if fits {
        digits.copy_from_slice(text);
    }
    fits
}

/// Appends `HMSG <subject> <sid> `: what stands in front of a message's tail. Without its first
/// byte it is the head of a MSG, so one rendering serves both.
pub fn head(out: &mut Vec<u8>, subject: &[u8], sid: &[u8]) {
    out.extend_from_slice(b"HMSG ");
    out.extend_from_slice(subject);
    out.push(b' ');
    out.extend_from_slice(sid);
    out.push(b' ');
}

/// Appends `[reply ][header_len ]size CRLF body CRLF`, the part of a message frame behind the sid,
/// with the sizes as digits that the caller has; `header_len` is empty for a message without
/// headers.
pub fn tail(out: &mut Vec<u8>, reply: &[u8], header_len: &[u8], size: &[u8], body: &[u8]) {
    for word in [reply, header_len] {
        if !word.is_empty() {
            out.extend_from_slice(word);
            out.push(b' ');
        }
    }
    out.extend_from_slice(size);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

/// Appends the 503 that a requester gets when nobody listens on `subject`.
pub fn no_responders(out: &mut Vec<u8>, reply: &[u8], sid: &[u8], subject: &[u8]) {
    let len = b"NATS/1.0 503\r\nNats-Subject: \r\n\r\n".len() + subject.len();
    head(out, reply, sid);
    number(out, len);
    out.push(b' ');
    number(out, len);
    out.extend_from_slice(b"\r\n");
    no_responders_headers(out, subject);
    out.extend_from_slice(b"\r\n");
}

/// Appends the header block of that 503.
pub fn no_responders_headers(out: &mut Vec<u8>, subject: &[u8]) {
    out.extend_from_slice(b"NATS/1.0 503\r\nNats-Subject: ");
    out.extend_from_slice(subject);
    out.extend_from_slice(b"\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_503_is_the_references() {
        let mut out = Vec::new();
        no_responders(&mut out, b"rep", b"1", b"none");
        assert_eq!(out, b"HMSG rep 1 36 36\r\nNATS/1.0 503\r\nNats-Subject: none\r\n\r\n\r\n");
    }

    #[test]
    fn head_and_tail_make_a_frame() {
        let mut out = Vec::new();
        head(&mut out, b"a.b", b"7");
        tail(&mut out, b"r", b"", b"2", b"hi");
        assert_eq!(&out[1..], b"MSG a.b 7 r 2\r\nhi\r\n");
        let mut out = Vec::new();
        head(&mut out, b"a", b"7");
        tail(&mut out, b"", b"12", b"13", b"NATS/1.0\r\n\r\nx");
        assert_eq!(out, b"HMSG a 7 12 13\r\nNATS/1.0\r\n\r\nx\r\n");
    }
}

//! WebSocket under a connection: the request for it, and frames around what is said.
//!
//! As little of it as a conversation needs. What a client may do wrong there is tested beside the
//! server.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

/// The request behind its path. Its key, which need not be secret, is the example of RFC 6455.
const REQUEST: &str = " HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
/// The longest answer that is waited for.
const LONGEST_ANSWER: usize = 4096;

const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const MASK: [u8; 4] = [0x5a, 0xc3, 0x0f, 0x96];

/// Asks for a WebSocket at this path, and takes the answer.
///
/// # Errors
/// When it is not granted.
pub(crate) fn upgrade(socket: &mut TcpStream, path: &str) -> io::Result<()> {
    socket.write_all(format!("GET {path}{REQUEST}").as_bytes())?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        answer.push(byte[0]);
        if answer.len() > LONGEST_ANSWER {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    if answer.starts_with(b"HTTP/1.1 101 ") { Ok(()) } else { Err(ErrorKind::ConnectionRefused.into()) }
}

/// One whole message of these bytes.
pub(crate) fn frame(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![FINAL | BINARY];
    match bytes.len() {
        len @ 0..126 => frame.push(MASKED | len as u8),
        len @ 126..=0xffff => {
            frame.push(MASKED | 126);
            frame.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            frame.push(MASKED | 127);
            frame.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&MASK);
    frame.extend(bytes.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Bytes that have come and are no whole frame yet.
#[derive(Debug, Default)]
pub(crate) struct Incoming(Vec<u8>);

impl Incoming {
    /// Takes bytes as they came; what they say goes to `out`. Whether the peer has said that it
    /// ends.
    pub(crate) fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.0.extend_from_slice(bytes);
        while let Some((opcode, content, len)) = whole(&self.0) {
            let content = self.0[content..len].to_vec();
            self.0.drain(..len);
            match opcode {
                CLOSE => return true,
                0..=BINARY => out.extend_from_slice(&content),
                // Nobody is answered here.
                _ => {}
            }
        }
        false
    }
}

/// The first frame: what it is, where its content begins and where it ends. Servers do not mask.
fn whole(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (start, len) = match bytes.get(1)? & 0x7f {
        126 => (4, u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
        len => (2, u64::from(len)),
    };
    let end = start + usize::try_from(len).ok()?;
    (bytes.len() >= end).then_some((bytes[0] & 0x0f, start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_pieces() {
        for len in [0, 1, 125, 126, 70_000] {
            let content = vec![b'x'; len];
            let mut sent = frame(&content);
            // As a server says it: without the mask.
            sent[1] &= 0x7f;
            let header = sent.len() - len - 4;
            sent.drain(header..header + 4);
            sent[header..].copy_from_slice(&content);
            sent.extend_from_slice(&[FINAL | CLOSE, 0]);
            let (mut incoming, mut out) = (Incoming::default(), Vec::new());
            let (last, first) = sent.split_last().unwrap();
            first.chunks(7).for_each(|chunk| assert!(!incoming.take(chunk, &mut out)));
            assert_eq!(out, content);
            assert!(incoming.take(&[*last], &mut out));
        }
    }
}

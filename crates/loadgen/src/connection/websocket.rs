//! A connection inside a WebSocket (RFC 6455), as a client that measures a server: binary frames,
//! one for each write.
//!
//! Owns the opening handshake, the frames and, where both sides agreed on it, permessage-deflate
//! (RFC 7692) without context from message to message. Frames are masked with zeros, which every
//! server must take off like any other mask: what the client pays for masking is no business of the
//! measurement. Only for blocking sockets; the answer's key is not checked, for the server is
//! known.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Largest content of one frame, in bytes.
const PIECE: usize = 64 * 1024;

const HEAD_LIMIT: usize = 16 * 1024;

/// End of every compressed message, which is left out of it on the wire.
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// A socket whose opening handshake is through.
#[derive(Debug)]
pub struct Web {
    socket: TcpStream,
    deflate: Option<Deflate>,
    /// Bytes read from the socket and not taken out of their frames yet.
    raw: Vec<u8>,
    /// Bytes taken out of frames, of which those from `given` on are not given to the reader yet.
    ready: Vec<u8>,
    given: usize,
    /// Whether the message that is being received is compressed.
    is_compressed: bool,
    frame: Vec<u8>,
}

#[derive(Debug)]
struct Deflate {
    pack: Compress,
    unpack: Decompress,
}

fn bad(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text.to_owned())
}

impl Web {
    /// Asks the server for a WebSocket, with compression if `compress` says so; a server that
    /// refuses it is an error.
    pub(crate) fn open(socket: TcpStream, compress: bool) -> io::Result<Self> {
        let extension = if compress {
            "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; \
             client_no_context_takeover\r\n"
        } else {
            ""
        };
        let ask = format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: bXllbGluIGJlbmNobWFyaw==\r\nSec-WebSocket-Version: 13\r\n{extension}\r\n"
        );
        (&socket).write_all(ask.as_bytes())?;
        let mut raw = Vec::new();
        let end = loop {
            if let Some(end) = raw.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            let mut piece = [0; 1024];
            match (&socket).read(&mut piece)? {
                0 => return Err(bad("the server ended the handshake")),
                _ if raw.len() > HEAD_LIMIT => return Err(bad("the server's answer does not end")),
                count => raw.extend_from_slice(&piece[..count]),
            }
        };
        let head: Vec<u8> = raw.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        if !head.starts_with("http/1.1 101") {
            return Err(bad(&format!("no WebSocket: {}", head.lines().next().unwrap_or_default())));
        }
        if compress != head.contains("permessage-deflate") {
            return Err(bad("the server does not want to compress"));
        }
        let deflate = compress.then(|| Deflate {
            pack: Compress::new(Compression::fast(), false),
            unpack: Decompress::new(false),
        });
        let (ready, frame) = (Vec::new(), Vec::new());
        let mut web = Self { socket, deflate, raw, ready, given: 0, is_compressed: false, frame };
        // INFO may have come with the answer.
        web.unframe()?;
        Ok(web)
    }

    /// The socket below the frames.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends some of these bytes as one message.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = &bytes[..bytes.len().min(PIECE)];
        let packed = match &mut self.deflate {
            Some(deflate) => Some(deflate.pack(taken)?),
            None => None,
        };
        let payload = packed.as_deref().unwrap_or(taken);
        self.frame.clear();
        self.frame.push(if packed.is_some() { 0xc2 } else { 0x82 });
        match payload.len() {
            short @ ..126 => self.frame.push(0x80 | short as u8),
            middle @ ..0x1_0000 => {
                self.frame.push(0x80 | 126);
                self.frame.extend_from_slice(&(middle as u16).to_be_bytes());
            }
            long => {
                self.frame.push(0x80 | 127);
                self.frame.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        self.frame.extend_from_slice(&[0; 4]);
        self.frame.extend_from_slice(payload);
        (&self.socket).write_all(&self.frame)?;
        Ok(taken.len())
    }

    /// Reads what is there; 0 when the server has closed the connection.
    pub(crate) fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() {
            self.ready.clear();
            self.given = 0;
            let start = self.raw.len();
            self.raw.resize(start + PIECE, 0);
            let read = (&self.socket).read(&mut self.raw[start..]);
            self.raw.truncate(start + read.as_ref().map_or(0, |count| *count));
            if read? == 0 {
                return Ok(0);
            }
            self.unframe()?;
        }
        let count = buffer.len().min(self.ready.len() - self.given);
        buffer[..count].copy_from_slice(&self.ready[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }

    /// Takes the payloads out of all complete frames.
    fn unframe(&mut self) -> io::Result<()> {
        let mut at = 0;
        while let Some((kind, payload)) = frame(&self.raw[at..]) {
            let (start, end) = (at + payload.start, at + payload.end);
            match kind & 0x0f {
                0..=2 => {
                    if kind & 0x0f != 0 {
                        self.is_compressed = kind & 0x40 != 0;
                    }
                    let payload = &self.raw[start..end];
                    match &mut self.deflate {
                        Some(deflate) if self.is_compressed => {
                            deflate.unpack(payload, kind & 0x80 != 0, &mut self.ready)?;
                        }
                        _ => self.ready.extend_from_slice(payload),
                    }
                }
                8 => return Err(bad("the server closed the WebSocket")),
                _ => {}
            }
            at = end;
        }
        self.raw.drain(..at);
        Ok(())
    }
}

/// The first byte of a frame, and where its payload is, if all of it is there.
fn frame(bytes: &[u8]) -> Option<(u8, std::ops::Range<usize>)> {
    let (&kind, &length) = (bytes.first()?, bytes.get(1)?);
    let (start, size): (usize, usize) = match length & 0x7f {
        126 => (4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?),
        short => (2, usize::from(short)),
    };
    let end = start.checked_add(size)?;
    (bytes.len() >= end).then_some((kind, start..end))
}

impl Deflate {
    fn pack(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.pack.reset();
        let mut packed = Vec::with_capacity(bytes.len() + 64);
        let before = self.pack.total_in();
        while self.pack.total_in() - before < bytes.len() as u64 || !packed.ends_with(&TAIL) {
            let rest = &bytes[(self.pack.total_in() - before) as usize..];
            self.pack.compress_vec(rest, &mut packed, FlushCompress::Sync).map_err(io::Error::other)?;
            packed.reserve(1024);
        }
        packed.truncate(packed.len() - TAIL.len());
        Ok(packed)
    }

    /// One frame of a message; after the last the next begins anew.
    fn unpack(&mut self, bytes: &[u8], is_last: bool, out: &mut Vec<u8>) -> io::Result<()> {
        for piece in [bytes, if is_last { &TAIL[..] } else { &[] }] {
            let mut rest = piece;
            loop {
                out.reserve(PIECE);
                let (taken, made) = (self.unpack.total_in(), self.unpack.total_out());
                let status = self.unpack.decompress_vec(rest, out, FlushDecompress::Sync);
                let status = status.map_err(io::Error::other)?;
                rest = &rest[(self.unpack.total_in() - taken) as usize..];
                let is_stuck = self.unpack.total_out() == made && out.len() < out.capacity();
                if status == Status::StreamEnd || (rest.is_empty() && out.len() < out.capacity()) || is_stuck
                {
                    break;
                }
            }
        }
        if is_last {
            self.unpack.reset(false);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_complete_or_not_there() {
        assert_eq!(frame(&[0x82, 2, 1, 2, 9]), Some((0x82, 2..4)));
        let mut middle = vec![0x82, 126, 1, 0];
        assert_eq!(frame(&middle), None);
        middle.resize(4 + 256, 7);
        assert_eq!(frame(&middle), Some((0x82, 4..260)));
        assert_eq!(frame(&[0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), None);
    }

    #[test]
    fn what_was_packed_is_unpacked_in_any_pieces() {
        let mut deflate =
            Deflate { pack: Compress::new(Compression::fast(), false), unpack: Decompress::new(false) };
        let text: Vec<u8> = (0..200_000_u32).flat_map(|n| (n % 977).to_le_bytes()).collect();
        for split in [0, 1, 1000] {
            let packed = deflate.pack(&text).unwrap();
            let mut out = Vec::new();
            deflate.unpack(&packed[..split], false, &mut out).unwrap();
            deflate.unpack(&packed[split..], true, &mut out).unwrap();
            assert!(out == text, "{split}: {} of {}", out.len(), text.len());
        }
    }
}

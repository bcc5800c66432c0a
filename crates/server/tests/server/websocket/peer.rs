//! A WebSocket client that says exactly what a test wants.

use crate::PATIENCE;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

pub(crate) const TEXT: u8 = 0x81;
pub(crate) const BINARY: u8 = 0x82;
pub(crate) const CLOSE: u8 = 0x88;
pub(crate) const PING: u8 = 0x89;
pub(crate) const PONG: u8 = 0x8a;
pub(crate) const FIN: u8 = 0x80;
pub(crate) const COMPRESSED: u8 = 0x40;

/// The headers of an upgrade, with a line for each.
pub(crate) const UPGRADE: &str = "Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                                  Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
pub(crate) const DEFLATE: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";

pub(crate) fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a positive time");
    stream.set_write_timeout(Some(PATIENCE)).expect("a positive time");
    stream.set_nodelay(true).expect("a TCP socket");
    stream
}

/// Bytes up to the empty line behind a head.
pub(crate) fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            break;
        }
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// A frame as clients send it.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let key = [0x37, 0xfa, 0x21, 0x3d];
    let mut frame = header(first, payload.len() as u64, 0x80);
    frame.extend(key);
    frame.extend(payload.iter().enumerate().map(|(i, byte)| byte ^ key[i % 4]));
    frame
}

/// The header of a frame without its mask.
pub(crate) fn header(first: u8, len: u64, mask: u8) -> Vec<u8> {
    let mut header = vec![first];
    match len {
        0..126 => header.push(mask | len as u8),
        126..65536 => {
            header.push(mask | 126);
            header.extend((len as u16).to_be_bytes());
        }
        _ => {
            header.push(mask | 127);
            header.extend(len.to_be_bytes());
        }
    }
    header
}

/// A compressed message in one frame.
pub(crate) fn packed(content: &[u8]) -> Vec<u8> {
    frame(BINARY | COMPRESSED, &deflate(content))
}

pub(crate) fn deflate(content: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(content.len() + 1024);
    let mut compress = Compress::new(Compression::best(), false);
    compress.compress_vec(content, &mut packed, FlushCompress::Sync).expect("a buffer that is large enough");
    packed.truncate(packed.len() - 4);
    packed
}

fn inflate(packed: &[u8]) -> Vec<u8> {
    let packed = [packed, &[0, 0, 0xff, 0xff]].concat();
    let mut content = vec![0; 8 << 20];
    let mut decompress = Decompress::new(false);
    decompress.decompress(&packed, &mut content, FlushDecompress::Sync).expect("compressed data");
    content.truncate(decompress.total_out() as usize);
    content
}

/// WebSocket client that says exactly what a test wants.
pub(crate) struct Peer<S = TcpStream> {
    stream: S,
    /// Content that was read and not asked for yet.
    unread: Vec<u8>,
    /// The message that is not over yet, if it is compressed.
    pressed: Option<Vec<u8>>,
    /// First bytes and lengths of all frames that have come.
    pub(crate) seen: Vec<(u8, usize)>,
}

impl Peer {
    /// Upgrades with these headers in addition, and takes INFO.
    pub(crate) fn open(address: SocketAddr, headers: &str) -> Self {
        Self::over(dial(address), headers)
    }

    pub(crate) fn connect(address: SocketAddr, fields: &str) -> Self {
        let mut peer = Self::open(address, "");
        peer.greet(fields);
        peer
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }
}

impl<S: Read + Write> Peer<S> {
    pub(crate) fn over(stream: S, headers: &str) -> Self {
        Self::over_path(stream, "/", headers)
    }

    /// Upgrades at this path.
    pub(crate) fn over_path(mut stream: S, path: &str, headers: &str) -> Self {
        write!(stream, "GET {path} HTTP/1.1\r\n{UPGRADE}{headers}\r\n").expect("the server reads");
        let answer = read_head(&mut stream).expect("the server answers");
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        let (unread, pressed, seen) = Default::default();
        Self { stream, unread, pressed, seen }
    }

    pub(crate) fn info(&mut self) -> serde_json::Value {
        let line = self.line();
        serde_json::from_str(line.strip_prefix("INFO ").expect("INFO comes first")).expect("JSON")
    }

    /// Says CONNECT with these fields, and waits for the answer to a PING.
    pub(crate) fn greet(&mut self, fields: &str) {
        self.info();
        self.say(&format!("CONNECT {{\"verbose\":false,\"pedantic\":false{fields}}}\r\nPING\r\n"));
        assert_eq!(self.line(), "PONG");
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
        self.stream.flush().expect("the server reads");
    }

    /// As far as the server lets us.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush())
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.send(&frame(BINARY, text.as_bytes()));
    }

    /// The next frame; none at the end of the connection.
    pub(crate) fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut start = [0; 2];
        if let Err(error) = self.stream.read_exact(&mut start) {
            let ends = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
            assert!(ends.contains(&error.kind()), "{error}");
            return None;
        }
        let mut more = |n: usize| {
            let mut bytes = vec![0; n];
            self.stream.read_exact(&mut bytes).expect("a whole frame");
            bytes
        };
        let len = match start[1] {
            126 => more(2).iter().fold(0, |len, byte| len << 8 | usize::from(*byte)),
            127 => more(8).iter().fold(0, |len, byte| len << 8 | usize::from(*byte)),
            len => usize::from(len),
        };
        assert!(start[1] & 0x80 == 0, "servers do not mask");
        let payload = more(len);
        self.seen.push((start[0], len));
        Some((start[0], payload))
    }

    /// The content of a frame, once it is known.
    pub(crate) fn content(&mut self, first: u8, payload: Vec<u8>) -> Option<Vec<u8>> {
        if first & COMPRESSED == 0 && self.pressed.is_none() {
            return Some(payload);
        }
        self.pressed.get_or_insert_default().extend(payload);
        if first & FIN == 0 { None } else { self.pressed.take().map(|pressed| inflate(&pressed)) }
    }

    /// Reads on until so many bytes of content are there, or it ends.
    fn fill(&mut self, wanted: usize) -> bool {
        while self.unread.len() < wanted {
            let Some((first, payload)) = self.frame() else { return false };
            assert!(first & 0x0f < 3, "{first:x}: {}", String::from_utf8_lossy(&payload));
            let content = self.content(first, payload);
            self.unread.extend(content.into_iter().flatten());
        }
        true
    }

    /// The next line of content.
    pub(crate) fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.unread.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).expect("lines are text");
            }
            assert!(self.fill(self.unread.len() + 1), "the end, after {:?}", self.seen);
        }
    }

    /// Takes so many bytes of content.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        assert!(self.fill(len), "the end, after {:?}", self.seen);
        self.unread.drain(..len).collect()
    }

    /// All content up to the end, without INFO, and what else came: pongs, and how it closed.
    pub(crate) fn rest(mut self) -> Rest {
        let mut rest = Rest { content: std::mem::take(&mut self.unread), ..Rest::default() };
        while let Some((first, payload)) = self.frame() {
            match first {
                PONG => rest.pongs.push(payload),
                CLOSE => rest.close = Some(payload),
                _ => rest.content.extend(self.content(first, payload).into_iter().flatten()),
            }
        }
        rest
    }
}

/// How a connection ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    content: Vec<u8>,
    pub(crate) pongs: Vec<Vec<u8>>,
    pub(crate) close: Option<Vec<u8>>,
}

impl Rest {
    /// Lines that are not INFO.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.content);
        let lines = text.split_terminator("\r\n").filter(|line| !line.starts_with("INFO "));
        lines.map(str::to_owned).collect()
    }

    /// The status and the text of the close frame.
    pub(crate) fn closed_with(&self) -> Option<(u16, String)> {
        let close = self.close.as_ref()?;
        let [high, low, text @ ..] = close.as_slice() else { return Some((0, String::new())) };
        Some((u16::from_be_bytes([*high, *low]), String::from_utf8_lossy(text).into_owned()))
    }
}

//! Layers between a link and its socket: TLS, S2 where both servers want it, and the frames of a
//! WebSocket around what is said.
//!
//! Compat: frames are compressed by S2, not what is in them. Compression goes under the outbox, as
//! TLS does, and around TLS where there is both. Whoever holds the outbox's claim compresses what
//! is written at once into a stream of its own, at most a block; until all of it is in the socket,
//! what it was made of stays at the front of the outbox.

use super::conn_handle::ConnHandle;
use super::websocket::{Incoming, Outgoing, ReadLimit};
use myelin_broker::{Conn, Transport};
use myelin_stdx::sync::lock;
use myelin_wire::s2::{S2Level, S2Reader, S2Writer, WRITTEN_BLOCK};
use myelin_wire::websocket::{FrameFault, FrameReader, FrameWriter, InflateLimits};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;

/// Compressed bytes that are read at once.
const PACKED_READ: usize = 128 * 1024;

/// Room for frames that are read at once, and for what their content becomes.
const FRAMED_READ: usize = 128 * 1024;

/// Content of a message from a server that has not said who it is, and its compressed size.
const STRANGERS_MESSAGE: InflateLimits = InflateLimits { content: 256 * 1024, gathered: Some(64 * 1024) };

/// Content of a message from a known server, which compresses all that waits at once.
const KNOWN_MESSAGE: InflateLimits = InflateLimits { content: u64::MAX, gathered: None };

/// Layers that a link gets in its course.
#[derive(Default)]
pub(super) struct LinkLayers {
    packer: LinkPacker,
    frames: OnceLock<Arc<Outgoing>>,
}

impl LinkLayers {
    /// The WebSocket, once there is one.
    pub(super) fn frames(&self) -> Option<&Arc<Outgoing>> {
        self.frames.get()
    }

    /// Puts frames around everything that is written from here on. To be called on the owner
    /// shard's thread.
    pub(super) fn begin_frames(&self, writer: FrameWriter, is_secure: bool) {
        let _ = self.frames.set(Outgoing::new(writer, is_secure));
    }

    /// Compresses everything that is written from here on. Nothing may be on its way.
    pub(super) fn begin_compression(&self, level: S2Level) {
        self.packer.begin(level);
    }

    /// Changes the level of what is compressed from here on.
    pub(super) fn set_level(&self, level: S2Level) {
        self.packer.set_level(level);
    }

    /// Writes frames, or what has none, compressed if it has to be.
    pub(super) fn pack(
        &self,
        bufs: &[IoSlice<'_>],
        out: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.packer.try_write(bufs, out)
    }

    fn try_write(
        &self,
        bufs: &[IoSlice<'_>],
        mut out: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match self.frames.get() {
            None => self.pack(bufs, out),
            Some(frames) => frames.try_write(bufs, |bufs| self.pack(bufs, &mut out)),
        }
    }
}

/// The writing side of a link's compression. Its lock is never contended: whoever holds the claim
/// of the outbox writes.
#[derive(Default)]
struct LinkPacker {
    /// Perf: links that are not compressed take no lock.
    is_on: AtomicBool,
    packing: Mutex<Option<Packing>>,
}

struct Packing {
    writer: S2Writer,
    /// A stream on its way, and how much of it is in the socket.
    packed: Vec<u8>,
    sent: usize,
    /// Bytes that became the stream, and were not reported as written yet.
    ahead: usize,
}

impl LinkPacker {
    fn state(&self) -> MutexGuard<'_, Option<Packing>> {
        lock(&self.packing)
    }

    /// Everything that is written from here on is compressed. Nothing may be on its way.
    fn begin(&self, level: S2Level) {
        let writer = S2Writer::new(level);
        *self.state() = Some(Packing { writer, packed: Vec::new(), sent: 0, ahead: 0 });
        self.is_on.store(true, Release);
    }

    /// Changes the level of what is compressed from here on.
    fn set_level(&self, level: S2Level) {
        if let Some(packing) = &mut *self.state() {
            packing.writer.set_level(level);
        }
    }

    fn try_write(
        &self,
        bufs: &[IoSlice<'_>],
        out: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut out = out;
        if !self.is_on.load(Acquire) {
            return out(bufs);
        }
        match &mut *self.state() {
            None => out(bufs),
            Some(packing) => packing.try_write(bufs, out),
        }
    }
}

impl Packing {
    fn try_write(
        &mut self,
        bufs: &[IoSlice<'_>],
        mut out: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.ahead == 0 {
            self.pack(bufs);
        }
        let begun = self.sent;
        while self.sent < self.packed.len() {
            match out(&[IoSlice::new(&self.packed[self.sent..])]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // Some of it is out. That counts as progress, but never as all.
                    let report = (self.sent - begun).min(self.ahead.saturating_sub(1));
                    self.ahead -= report;
                    return if report > 0 { Ok(report) } else { Err(error) };
                }
                Err(error) => return Err(error),
            }
        }
        Ok(std::mem::take(&mut self.ahead))
    }

    /// Compresses what is at the front, a block at most.
    fn pack(&mut self, bufs: &[IoSlice<'_>]) {
        let mut room = WRITTEN_BLOCK;
        let pieces = bufs.iter().map_while(|buf| {
            let piece = &buf[..buf.len().min(room)];
            room -= piece.len();
            (!piece.is_empty()).then_some(piece)
        });
        self.packed.clear();
        self.sent = 0;
        self.writer.write(pieces, &mut self.packed);
        self.ahead = WRITTEN_BLOCK - room;
    }
}

/// A link's socket, with or without TLS, and layers as they come.
pub(super) struct LayeredSocket {
    pub(super) inner: Box<dyn Transport>,
    pub(super) layers: Weak<LinkLayers>,
}

impl Transport for LayeredSocket {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let layers = self.layers.upgrade().ok_or(ErrorKind::BrokenPipe)?;
        layers.try_write(bufs, |bufs| self.inner.try_write(bufs))
    }

    fn wait_writable(&self, conn: &Arc<Conn>) {
        self.inner.wait_writable(conn);
    }

    fn kick(&self, conn: &Arc<Conn>) {
        self.inner.kick(conn);
    }

    fn wake(&self, conn: &Arc<Conn>) {
        self.inner.wake(conn);
    }
}

/// The reading side of a link: what the other side has said, decrypted, decompressed and without
/// frames.
pub(super) struct LinkRead {
    packed: PackedRead,
    framing: Option<Box<Framing>>,
}

/// Frames as they come in, and room for them.
struct Framing {
    incoming: Box<Incoming>,
    buf: Vec<u8>,
    allowed: InflateLimits,
}

/// The reading side of a link below its frames.
struct PackedRead {
    read: OwnedReadHalf,
    handle: Rc<ConnHandle>,
    /// Bytes of the other side that came behind the end of an exchange of another kind.
    ahead: Vec<u8>,
    unpacking: Option<Box<Unpacking>>,
}

struct Unpacking {
    reader: S2Reader,
    /// Compressed bytes, and how many of them are dealt with.
    packed: Vec<u8>,
    used: usize,
    /// A decompressed block, and how much of it was handed out.
    block: Vec<u8>,
    given: usize,
}

impl LinkRead {
    pub(super) fn new(read: OwnedReadHalf, handle: &Rc<ConnHandle>) -> Self {
        let handle = Rc::clone(handle);
        Self { packed: PackedRead { read, handle, ahead: Vec::new(), unpacking: None }, framing: None }
    }

    /// Everything from here on is in frames, beginning with `ahead`, which was read already.
    pub(super) fn begin_frames(&mut self, reader: FrameReader, ahead: Vec<u8>) {
        self.packed.ahead = ahead;
        let incoming = Incoming::new(reader);
        let buf = vec![0; FRAMED_READ];
        self.framing = Some(Box::new(Framing { incoming, buf, allowed: STRANGERS_MESSAGE }));
    }

    /// Whether what is said is in frames.
    pub(super) fn is_framed(&self) -> bool {
        self.framing.is_some()
    }

    /// Lets messages be as long as they are: it is known who sends them.
    pub(super) fn trust(&mut self) {
        self.framing.iter_mut().for_each(|framing| framing.allowed = KNOWN_MESSAGE);
    }

    /// Fault of the other side's frames, if there was one.
    pub(super) fn fault(&self) -> Option<FrameFault> {
        self.framing.as_ref().and_then(|framing| framing.incoming.fault())
    }

    /// Payload of the close frame that answers the other side's, or its fault.
    pub(super) fn farewell(&self) -> Option<Vec<u8>> {
        self.framing.as_ref().and_then(|framing| framing.incoming.farewell())
    }

    /// Looks at what comes next and leaves it unread.
    pub(super) async fn peek(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.packed.read.peek(into).await
    }

    /// Takes what comes next as it is, to throw it away. Nothing is the end.
    pub(super) async fn skip(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.packed.read.read(into).await
    }

    /// Everything from here on is compressed, beginning with `ahead`, which was read already.
    pub(super) fn unpack(&mut self, ahead: &[u8]) {
        self.packed.unpacking = Some(Box::new(Unpacking {
            reader: S2Reader::new(WRITTEN_BLOCK),
            packed: ahead.to_vec(),
            used: 0,
            block: Vec::new(),
            given: 0,
        }));
    }
}

impl AsyncRead for LinkRead {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { packed, framing } = self.get_mut();
        let Some(framing) = framing else { return packed.poll_read(cx, into) };
        let Framing { incoming, buf, allowed } = &mut **framing;
        let limit = ReadLimit { most: into.remaining().min(buf.len() / 2), allowed: *allowed };
        let handle = Rc::clone(&packed.handle);
        let n =
            ready!(incoming.poll_read(cx, &mut |cx, into| packed.poll_read(cx, into), &handle, buf, limit))?;
        into.put_slice(&buf[..n]);
        Poll::Ready(Ok(()))
    }
}

impl PackedRead {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { read, handle, ahead, unpacking } = self;
        if !ahead.is_empty() && unpacking.is_none() {
            let count = ahead.len().min(into.remaining());
            into.put_slice(&ahead[..count]);
            ahead.drain(..count);
            return Poll::Ready(Ok(()));
        }
        let Some(unpacking) = unpacking else { return handle.poll_read(cx, read, into) };
        loop {
            if unpacking.give(into)? {
                return Poll::Ready(Ok(()));
            }
            unpacking.packed.resize(PACKED_READ, 0);
            let mut packed = ReadBuf::new(&mut unpacking.packed);
            let polled = handle.poll_read(cx, read, &mut packed);
            let filled = packed.filled().len();
            unpacking.packed.truncate(filled);
            unpacking.used = 0;
            ready!(polled)?;
            if filled == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl Unpacking {
    /// Hands out what is there, as much as there is room for; false if there is nothing.
    fn give(&mut self, into: &mut ReadBuf<'_>) -> io::Result<bool> {
        let before = into.filled().len();
        while into.remaining() > 0 {
            if self.given < self.block.len() {
                let count = into.remaining().min(self.block.len() - self.given);
                into.put_slice(&self.block[self.given..self.given + count]);
                self.given += count;
                continue;
            }
            if self.used >= self.packed.len() {
                break;
            }
            let read = self.reader.read_into(&self.packed[self.used..], &mut self.block);
            self.used += read.map_err(io::Error::other)?;
            self.given = 0;
        }
        Ok(into.filled().len() > before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that takes `most` bytes at a time and then nothing, again and again.
    fn written(pieces: &[&[u8]], most: usize) -> Vec<u8> {
        let packer = LinkPacker::default();
        packer.begin(S2Level::Fast);
        let (mut left, mut socket): (Vec<u8>, Vec<u8>) = (pieces.concat(), Vec::new());
        while !left.is_empty() {
            let mut took = false;
            let half = left.len() / 2;
            let bufs = [IoSlice::new(&left[..half]), IoSlice::new(&left[half..])];
            let outcome = packer.try_write(&bufs, |bufs| {
                if std::mem::replace(&mut took, true) {
                    return Err(ErrorKind::WouldBlock.into());
                }
                let count = bufs[0].len().min(most);
                socket.extend_from_slice(&bufs[0][..count]);
                Ok(count)
            });
            match outcome {
                Ok(count) => drop(left.drain(..count)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        socket
    }

    #[test]
    fn a_socket_that_takes_little_gets_everything_once() {
        let text: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251 + at / 9973) as u8).collect();
        for most in [7_001, 100_000, usize::MAX] {
            let packed = written(&[&text[..5], &text[5..]], most);
            assert!(packed.len() < text.len());
            let (mut reader, mut at, mut whole) = (S2Reader::new(WRITTEN_BLOCK), 0, Vec::new());
            while at < packed.len() {
                let (used, block) = reader.read(&packed[at..]).expect("what was written");
                whole.extend_from_slice(block);
                at += used;
            }
            assert!(whole == text, "{most}");
        }
    }
}

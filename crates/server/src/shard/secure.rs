//! TLS under a connection: the handshake, and then the bytes.
//!
//! Only the owner shard encrypts and decrypts, and only it writes the socket; another shard that
//! holds the outbox's claim is told that the socket is blocked, and the claim comes here
//! (contracts.md C6). How it comes to that is in `handshake`.

use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll};
use std::thread::ThreadId;

use myelin_stdx::sync::lock;
use rustls::Connection;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The longest record, with room to spare.
const RECORD: usize = 18 * 1024;

/// Room from which on a socket is read with more than rustls would.
const WIDE: usize = 4 * RECORD;

/// The TLS of one connection, if it comes to that.
pub(super) struct ConnTls {
    owner: ThreadId,
    state: OnceLock<Mutex<TlsState>>,
}

/// State that changes with every read and write. The lock is never contended: one thread uses it.
struct TlsState {
    connection: Connection,
    /// Bytes that were encrypted and not yet reported as written, because not all of what they
    /// became is in the socket. They stay at the front of the outbox until then.
    ahead: usize,
    /// Error behind bytes that had to be handed out first.
    fault: Option<io::Error>,
}

impl ConnTls {
    /// To be called on the owner shard's thread.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { owner: std::thread::current().id(), state: OnceLock::new() })
    }

    /// From here on everything is encrypted.
    pub(super) fn begin(&self, connection: impl Into<Connection>) {
        let connection = connection.into();
        let _ = self.state.set(Mutex::new(TlsState { connection, ahead: 0, fault: None }));
    }

    pub(super) fn is_on(&self) -> bool {
        self.state.get().is_some()
    }

    fn state(&self) -> Option<MutexGuard<'_, TlsState>> {
        self.state.get().map(lock)
    }

    /// Encrypts and writes what the socket takes now.
    ///
    /// # Errors
    /// `WouldBlock` when the socket takes nothing, and on all threads but the owner's.
    pub(super) fn try_write(&self, socket: &OwnedWriteHalf, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if std::thread::current().id() != self.owner {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match self.state() {
            Some(mut state) => state.write(socket, bufs),
            None => socket.try_write_vectored(bufs),
        }
    }

    /// Reads and decrypts until `into` is full or nothing more has come. Nothing read is the end.
    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        read: &mut OwnedReadHalf,
        write: &OwnedWriteHalf,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.state() {
            Some(mut state) => state.poll_read(cx, read, write, into),
            None => Pin::new(read).poll_read(cx, into),
        }
    }

    /// Tells the peer that nothing more will come.
    pub(super) fn farewell(&self, socket: &OwnedWriteHalf) {
        if let Some(mut state) = self.state() {
            state.connection.send_close_notify();
            let _ = state.send(socket);
        }
    }
}

impl TlsState {
    fn write(&mut self, socket: &OwnedWriteHalf, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.ahead == 0 {
            self.ahead = self.connection.writer().write_vectored(bufs)?;
        }
        let before = self.ahead;
        match self.send(socket) {
            (_, Ok(())) => Ok(std::mem::take(&mut self.ahead)),
            (sent, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                // Some of it is out. That counts as progress, but never as all.
                let report = sent.min(before.saturating_sub(1));
                self.ahead -= report;
                if report > 0 { Ok(report) } else { Err(error) }
            }
            (_, Err(error)) => Err(error),
        }
    }

    /// Writes what is encrypted; says how much of it went out.
    fn send(&mut self, socket: &OwnedWriteHalf) -> (usize, io::Result<()>) {
        let mut sent = 0;
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(socket.as_ref())) {
                Ok(0) => return (sent, Err(io::ErrorKind::WriteZero.into())),
                Ok(n) => sent += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (sent, Err(error)),
            }
        }
        (sent, Ok(()))
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        read: &mut OwnedReadHalf,
        write: &OwnedWriteHalf,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // What came with the end of the handshake, or found no room the last time.
        match self.plaintext(into) {
            Plain::More if into.filled().is_empty() => {}
            Plain::More | Plain::End => return Poll::Ready(Ok(())),
            Plain::Failed(error) => return Poll::Ready(Err(error)),
        }
        if let Some(fault) = self.fault.take() {
            return Poll::Ready(Err(fault));
        }
        if into.remaining() >= WIDE {
            return self.read_wide(cx, read, write, into);
        }
        loop {
            match self.connection.read_tls(&mut Polled { read, cx }) {
                Ok(_) => self.process(write)?,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                Err(_) if into.filled().is_empty() => return Poll::Pending,
                Err(_) => return Poll::Ready(Ok(())),
            }
            match self.plaintext(into) {
                Plain::More if into.remaining() > 0 => {}
                Plain::More | Plain::End => return Poll::Ready(Ok(())),
                Plain::Failed(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Reads with one system call into the back half of `into` and decrypts into the front.
    ///
    /// Perf: left to itself, rustls asks the socket for 4 KiB at a time. One such read is also one
    /// turn: thousands of tiny records cost more than the bytes in them tell.
    fn read_wide(
        &mut self,
        cx: &mut Context<'_>,
        read: &mut OwnedReadHalf,
        write: &OwnedWriteHalf,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let free = into.initialize_unfilled();
            // What is decrypted is no longer than what was read and one record that was begun
            // before.
            let (front, back) = free.split_at_mut(free.len() / 2 + RECORD);
            let n = match (Polled { read, cx }).read(back) {
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let mut front = ReadBuf::new(front);
            let outcome = self.decrypt(&back[..n], write, &mut front);
            let filled = front.filled().len();
            into.advance(filled);
            match outcome {
                // Nothing but the beginning of a record, or a message of TLS itself.
                Plain::More if filled == 0 => {}
                Plain::More | Plain::End => return Poll::Ready(Ok(())),
                Plain::Failed(error) if filled > 0 => {
                    self.fault = Some(error);
                    return Poll::Ready(Ok(()));
                }
                Plain::Failed(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Decrypts what was read; nothing read is the end.
    fn decrypt(&mut self, mut records: &[u8], write: &OwnedWriteHalf, into: &mut ReadBuf<'_>) -> Plain {
        loop {
            if let Err(error) = self.connection.read_tls(&mut records) {
                return Plain::Failed(error);
            }
            let processed = self.process(write);
            match self.plaintext(into) {
                Plain::More if processed.is_ok() => {}
                Plain::More => return processed.map_or_else(Plain::Failed, |()| Plain::More),
                end => return end,
            }
            if records.is_empty() {
                return Plain::More;
            }
        }
    }

    /// Looks at what rustls has read, and lets it answer.
    fn process(&mut self, write: &OwnedWriteHalf) -> io::Result<()> {
        let processed = self.connection.process_new_packets();
        let _ = self.send(write);
        processed.map(drop).map_err(io::Error::other)
    }

    /// Moves what is decrypted into `into`.
    fn plaintext(&mut self, into: &mut ReadBuf<'_>) -> Plain {
        while into.remaining() > 0 {
            match self.connection.reader().read(into.initialize_unfilled()) {
                Ok(0) => return Plain::End,
                Ok(n) => into.advance(n),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Plain::More,
                    // The peer has closed without a word, as many do.
                    io::ErrorKind::UnexpectedEof => return Plain::End,
                    _ => return Plain::Failed(error),
                },
            }
        }
        Plain::More
    }
}

/// How much more plaintext there is.
enum Plain {
    More,
    End,
    Failed(io::Error),
}

/// A socket for rustls, which does not wait.
pub(crate) struct Socket<'a>(pub(crate) &'a TcpStream);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

/// Socket whose task is woken when more has come, as a blocking reader sees it.
struct Polled<'a, 'c, 'w> {
    read: &'a mut OwnedReadHalf,
    cx: &'c mut Context<'w>,
}

impl Read for Polled<'_, '_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut into = ReadBuf::new(into);
        match Pin::new(&mut *self.read).poll_read(self.cx, &mut into) {
            Poll::Ready(Ok(())) => Ok(into.filled().len()),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

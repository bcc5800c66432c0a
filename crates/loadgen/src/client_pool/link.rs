//! One connection of a run: never blocks, reads while it writes.
//!
//! Budget: one `recv` per readiness, one `send` per staged piece; what was encoded before is not
//! copied. Owns the socket, the received bytes that nobody has looked at yet, and what is on its
//! way. A server that waits for us to read and we for it to read would wait forever; that is why
//! nothing here blocks.

use std::io::{self, ErrorKind};

use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::client_pool::inbox::{Arrival, Inbox};
use crate::client_pool::outbox::Outbox;
use crate::connection::Connection;
use crate::connection::transport::Transport;
use crate::error::BenchError;
use crate::jetstream::encoded_frames::EncodedFrames;

/// A connection that may have subscribed, and does not block any more.
#[derive(Debug)]
pub(crate) struct PoolLink {
    transport: Transport,
    inbox: Inbox,
    /// Bytes to be sent.
    pub(crate) out: Outbox,
    sent: u64,
    is_blocked: bool,
}

impl PoolLink {
    /// Takes a connection over, with the bytes that came with the last answer.
    pub(crate) fn new(connection: Connection) -> Result<Self, BenchError> {
        let (transport, unread) = connection.into_transport();
        transport.socket().set_nonblocking(true).map_err(BenchError::io("preparing a socket"))?;
        Ok(Self { transport, inbox: Inbox::new(&unread), out: Outbox::default(), sent: 0, is_blocked: false })
    }

    /// Reads once; says whether more may be here of which no poll knows.
    pub(crate) fn receive(&mut self) -> Result<bool, BenchError> {
        match self.transport.recv(self.inbox.room()) {
            Ok(0) => Err(BenchError::Closed),
            Ok(count) => {
                self.inbox.filled(count);
                Ok(self.transport.may_hold_more())
            }
            Err(error) if is_transient(&error) => Ok(false),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(BenchError::Closed),
            Err(error) => Err(BenchError::Io("receiving from the server", error)),
        }
    }

    /// The next thing that has arrived completely, with where to put what is to be sent.
    pub(crate) fn next(&mut self) -> Result<Option<(Arrival<'_>, &mut Outbox)>, BenchError> {
        match self.inbox.next()? {
            Some(arrival) => Ok(Some((arrival, &mut self.out))),
            None => Ok(None),
        }
    }

    /// Sends what there is; says whether all has gone.
    pub(crate) fn flush(&mut self) -> Result<bool, BenchError> {
        self.is_blocked = false;
        while !self.out.is_empty() || self.transport.has_unsent() {
            let sent = match self.out.is_empty() {
                true => self.transport.flush().map(|()| 0),
                false => self.transport.send(self.out.unsent()),
            };
            let Some(count) = self.taken(sent)? else { return Ok(false) };
            self.out.advance(count);
        }
        Ok(true)
    }

    /// Sends as much of what is encoded as the socket takes now, then what else there is; says
    /// whether all has gone.
    pub(crate) fn send_frames(&mut self, frames: &mut EncodedFrames) -> Result<bool, BenchError> {
        self.is_blocked = false;
        while !frames.unsent().is_empty() {
            let sent = self.transport.send(frames.unsent());
            let Some(count) = self.taken(sent)? else { return Ok(false) };
            frames.advance(count);
        }
        self.flush()
    }

    /// Bytes that the socket has taken so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Counts the bytes that a send has handed to the socket, and gives their number; `None` if the
    /// socket is full. A connection that the server has closed is an error.
    fn taken(&mut self, sent: io::Result<usize>) -> Result<Option<usize>, BenchError> {
        match sent {
            Ok(count) => {
                self.sent += count as u64;
                Ok(Some(count))
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    Ok(None)
                }
                ErrorKind::Interrupted => Ok(Some(0)),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Err(BenchError::Closed),
                _ => Err(BenchError::Io("sending to the server", error)),
            },
        }
    }

    /// Whether the last flush has left something.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Readiness that the poll has to report: for reading, and for writing while the link is
    /// blocked.
    pub(crate) fn interest(&self) -> epoll::EventFlags {
        match self.is_blocked {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        }
    }

    /// Adds it to a poll, under this number.
    pub(crate) fn add_to(&self, poll: &OwnedFd, number: usize) -> Result<(), BenchError> {
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(poll, self.transport.socket(), data, self.interest())
            .map_err(BenchError::io("watching a socket"))
    }

    /// Tells the poll what it has to wait for now.
    pub(crate) fn change_in(&self, poll: &OwnedFd, number: usize) -> Result<(), BenchError> {
        let data = epoll::EventData::new_u64(number as u64);
        epoll::modify(poll, self.transport.socket(), data, self.interest())
            .map_err(BenchError::io("watching a socket"))
    }

    /// Leaves the server, which would otherwise ask a client that reads no more whether it is still
    /// there, and throw it out.
    pub(crate) fn hang_up(&self, poll: &OwnedFd) -> Result<(), BenchError> {
        let socket = self.transport.socket();
        epoll::delete(poll, socket).map_err(BenchError::io("leaving a socket"))?;
        // The server may have been faster.
        let _ = socket.shutdown(std::net::Shutdown::Both);
        Ok(())
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

//! Connections that receive, each with what is done about its messages, all on one thread.
//!
//! Budget: one `epoll_wait` per round, one `recv` per ready connection, one `send` for all that a round wants to say on
//! it. Owns the sockets and the patience: a run in which no message arrives for `PATIENCE` has failed, whatever else the
//! server may send. What messages mean is the actor's.

use std::io::ErrorKind;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::bench::address::Address;
use crate::bench::connection::transport::Transport;
use crate::bench::connection::{Connection, PATIENCE};
use crate::bench::error::BenchError;
use crate::bench::frame::{Frames, Operation};
use crate::bench::jetstream::consumers::message::Message;

const READ_SIZE: usize = 256 * 1024;

/// How often a quiet run looks whether it has ended meanwhile.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// What is done on one connection. Everything that is appended to `out` is sent.
pub(crate) trait Actor {
    /// What is sent first.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Takes a message.
    fn take(&mut self, message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), BenchError>;

    /// Messages of the stream that have arrived.
    fn count(&self) -> u64;

    /// Whether everything has arrived.
    fn is_done(&self) -> bool;
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Seat<A> {
    pub(crate) actor: A,
    transport: Transport,
    buffer: Vec<u8>,
    /// Where in the buffer the bytes begin and end that were received and not looked at.
    start: usize,
    end: usize,
    out: Vec<u8>,
    /// How much of `out` has gone.
    sent: usize,
    /// Whether the poll waits until the socket takes more.
    is_blocked: bool,
}

impl<A: Actor> Seat<A> {
    pub(crate) fn open(address: &Address, actor: A) -> Result<Self, BenchError> {
        Self::on(Connection::open(address)?, actor)
    }

    /// The same for a connection that may have subscribed, and has passed a barrier since.
    pub(crate) fn on(connection: Connection, actor: A) -> Result<Self, BenchError> {
        let (transport, unread) = connection.into_transport();
        transport.socket().set_nonblocking(true).map_err(BenchError::io("preparing a socket"))?;
        let mut buffer = vec![0; READ_SIZE.max(unread.len())];
        buffer[..unread.len()].copy_from_slice(&unread);
        Ok(Self {
            actor,
            transport,
            buffer,
            start: 0,
            end: unread.len(),
            out: Vec::new(),
            sent: 0,
            is_blocked: false,
        })
    }

    /// Lets the actor say what it begins with.
    pub(crate) fn begin(&mut self) {
        self.actor.begin(&mut self.out);
    }

    /// Where to put what is sent with the next `watch`.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether there is something that the socket has not taken yet.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Reads what is there, once where that is known to be all, and lets the actor take what has come completely.
    pub(crate) fn receive(&mut self) -> Result<(), BenchError> {
        loop {
            self.make_room();
            match self.transport.recv(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(BenchError::Closed),
                Ok(count) => self.end += count,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => return Ok(()),
                    ErrorKind::ConnectionReset => return Err(BenchError::Closed),
                    _ => return Err(BenchError::Io("receiving messages", error)),
                },
            }
            while self.take_one()? {}
            if !self.transport.may_hold_more() {
                return Ok(());
            }
        }
    }

    /// Moves the rest to the front, and grows only for a message that is larger than the buffer.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end * 2, 0);
        }
    }

    /// Handles one operation; says whether there was a whole one.
    fn take_one(&mut self) -> Result<bool, BenchError> {
        let bytes = &self.buffer[self.start..self.end];
        if let Some(message) = Message::read(bytes) {
            self.start += message.length;
            self.actor.take(&message, &mut self.out)?;
            return Ok(true);
        }
        let mut frames = Frames::new(bytes);
        let Some(frame) = frames.next()? else { return Ok(false) };
        match frame.operation {
            Operation::Error(text) => return Err(BenchError::Refused(text.to_owned())),
            Operation::Message(head) => return Err(BenchError::Protocol(format!("{head:?}"))),
            Operation::Ping => self.out.extend_from_slice(b"PONG\r\n"),
            Operation::Pong | Operation::Info(_) | Operation::Okay => {}
        }
        self.start += bytes.len() - frames.rest().len();
        Ok(true)
    }

    /// Sends as much as the socket takes now; says whether all of it has gone.
    fn flush(&mut self) -> Result<bool, BenchError> {
        while self.sent < self.out.len() || self.transport.has_unsent() {
            let sent = match &self.out[self.sent..] {
                [] => self.transport.flush().map(|()| 0),
                unsent => self.transport.send(unsent),
            };
            match sent {
                Ok(count) => self.sent += count,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(false),
                    ErrorKind::Interrupted => {}
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => return Err(BenchError::Closed),
                    _ => return Err(BenchError::Io("sending to the server", error)),
                },
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Sends what there is and tells the poll what this connection waits for.
    pub(crate) fn watch(&mut self, poll: &OwnedFd, number: usize, is_new: bool) -> Result<(), BenchError> {
        let was_blocked = self.is_blocked;
        self.is_blocked = !self.flush()?;
        if !is_new && was_blocked == self.is_blocked {
            return Ok(());
        }
        let flags = match self.is_blocked {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        let data = epoll::EventData::new_u64(number as u64);
        let change = if is_new { epoll::add } else { epoll::modify };
        change(poll, self.transport.socket(), data, flags).map_err(BenchError::io("watching a socket"))
    }
}

/// Begins on every connection and runs until all are done. Gives when the last message was there.
pub(crate) fn run<A: Actor>(seats: &mut [Seat<A>]) -> Result<Instant, BenchError> {
    run_watched(seats, |_| {})
}

/// The same, showing them to `watch` after every round.
pub(crate) fn run_watched<A: Actor>(
    seats: &mut [Seat<A>],
    watch: impl FnMut(&[Seat<A>]),
) -> Result<Instant, BenchError> {
    for seat in &mut *seats {
        seat.begin();
    }
    rounds(seats, watch)
}

/// The same as `run` for connections that have begun before.
pub(crate) fn go_on<A: Actor>(seats: &mut [Seat<A>]) -> Result<Instant, BenchError> {
    rounds(seats, |_| {})
}

fn rounds<A: Actor>(seats: &mut [Seat<A>], mut watch: impl FnMut(&[Seat<A>])) -> Result<Instant, BenchError> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(BenchError::io("creating an epoll"))?;
    for (number, seat) in seats.iter_mut().enumerate() {
        seat.watch(&poll, number, true)?;
    }
    let mut progress = Progress { count: count(seats), last: Instant::now() };
    let mut events = Vec::with_capacity(128);
    while seats.iter().any(|seat| !seat.actor.is_done()) {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), Some(&GLANCE))
            .map_err(BenchError::io("waiting for messages"))?;
        for event in &events {
            let number = event.data.u64() as usize;
            seats[number].receive()?;
            seats[number].watch(&poll, number, false)?;
        }
        progress.note(count(seats))?;
        watch(seats);
    }
    Ok(progress.last)
}

fn count<A: Actor>(seats: &[Seat<A>]) -> u64 {
    seats.iter().map(|seat| seat.actor.count()).sum()
}

struct Progress {
    count: u64,
    last: Instant,
}

impl Progress {
    fn note(&mut self, count: u64) -> Result<(), BenchError> {
        if count != self.count {
            (self.count, self.last) = (count, Instant::now());
        } else if self.last.elapsed() > PATIENCE {
            return Err(BenchError::Lost(format!("nothing more arrives after {count} messages")));
        }
        Ok(())
    }
}

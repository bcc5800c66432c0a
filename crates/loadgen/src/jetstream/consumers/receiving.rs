//! Connections that receive, each with what is done about its messages, all on one thread.
//!
//! Budget: one `epoll_wait` per round, one `recv` per ready connection, one `send` for all that a
//! round wants to say on it. Owns the sockets and the patience: a run in which no message arrives
//! for `PATIENCE` has failed, whatever else the server may send. What messages mean is the actor's.

use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::client_pool::inbox::{Arrival, Message};
use crate::client_pool::link::PoolLink;
use crate::client_pool::outbox::OutboxFrames;
use crate::connection::address::Address;
use crate::connection::{Connection, PATIENCE};
use crate::error::BenchError;

/// How often a quiet run looks whether it has ended meanwhile.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Behaviour of a receiving client on its connection. All bytes that are appended to `out` are
/// sent.
pub(crate) trait Actor {
    /// Appends the first bytes to send.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Takes a message.
    fn take(&mut self, message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), BenchError>;

    /// Messages of the stream that have arrived.
    fn count(&self) -> u64;

    /// Whether everything has arrived.
    fn is_done(&self) -> bool;
}

/// Connection that receives, and the actor that takes its messages.
#[derive(Debug)]
pub(crate) struct ReceivingClient<A> {
    pub(crate) actor: A,
    link: PoolLink,
}

impl<A: Actor> ReceivingClient<A> {
    /// Connects, and leaves the rest to the actor.
    pub(crate) fn open(address: &Address, actor: A) -> Result<Self, BenchError> {
        Self::on(Connection::open(address)?, actor)
    }

    /// Takes over a connection that may have subscribed, and has passed a barrier since.
    pub(crate) fn on(connection: Connection, actor: A) -> Result<Self, BenchError> {
        Ok(Self { actor, link: PoolLink::new(connection)? })
    }

    /// Lets the actor say what it begins with.
    pub(crate) fn begin(&mut self) {
        self.actor.begin(&mut self.link.out.frames());
    }

    /// Where to put what is sent with the next `watch`.
    pub(crate) fn out(&mut self) -> OutboxFrames<'_> {
        self.link.out.frames()
    }

    /// Whether there is something that the socket has not taken yet.
    pub(crate) fn is_blocked(&self) -> bool {
        self.link.is_blocked()
    }

    /// Reads what is there, once where that is known to be all, and lets the actor take what has
    /// come completely.
    pub(crate) fn receive(&mut self) -> Result<(), BenchError> {
        loop {
            let is_more = self.link.receive()?;
            while let Some((arrival, out)) = self.link.next()? {
                match arrival {
                    Arrival::Message(message) => self.actor.take(&message, &mut out.frames())?,
                    Arrival::Ping => out.control(b"PONG\r\n"),
                    Arrival::Pong | Arrival::Other => {}
                }
            }
            if !is_more {
                return Ok(());
            }
        }
    }

    /// Sends what there is and tells the poll what this connection waits for.
    pub(crate) fn watch(&mut self, poll: &OwnedFd, number: usize, is_new: bool) -> Result<(), BenchError> {
        let was_blocked = self.link.is_blocked();
        self.link.flush()?;
        match is_new {
            true => self.link.add_to(poll, number),
            false if was_blocked != self.link.is_blocked() => self.link.change_in(poll, number),
            false => Ok(()),
        }
    }
}

/// Begins on every connection and runs until all are done. Gives when the last message was there.
pub(crate) fn run<A: Actor>(clients: &mut [ReceivingClient<A>]) -> Result<Instant, BenchError> {
    run_watched(clients, |_| {})
}

/// Begins on every connection and runs until all are done; `watch` sees the clients after every
/// round. Gives the time at which the last message was there.
pub(crate) fn run_watched<A: Actor>(
    clients: &mut [ReceivingClient<A>],
    watch: impl FnMut(&[ReceivingClient<A>]),
) -> Result<Instant, BenchError> {
    for client in &mut *clients {
        client.begin();
    }
    rounds(clients, watch)
}

/// Runs connections that have begun before until all are done. Gives the time at which the last
/// message was there.
pub(crate) fn go_on<A: Actor>(clients: &mut [ReceivingClient<A>]) -> Result<Instant, BenchError> {
    rounds(clients, |_| {})
}

fn rounds<A: Actor>(
    clients: &mut [ReceivingClient<A>],
    mut watch: impl FnMut(&[ReceivingClient<A>]),
) -> Result<Instant, BenchError> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(BenchError::io("creating an epoll"))?;
    for (number, client) in clients.iter_mut().enumerate() {
        client.watch(&poll, number, true)?;
    }
    let mut progress = ReceivingProgress { count: count(clients), last: Instant::now() };
    let mut events = Vec::with_capacity(128);
    while clients.iter().any(|client| !client.actor.is_done()) {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), Some(&GLANCE))
            .map_err(BenchError::io("waiting for messages"))?;
        for event in &events {
            let number = event.data.u64() as usize;
            clients[number].receive()?;
            clients[number].watch(&poll, number, false)?;
        }
        progress.note(count(clients))?;
        watch(clients);
    }
    Ok(progress.last)
}

fn count<A: Actor>(clients: &[ReceivingClient<A>]) -> u64 {
    clients.iter().map(|client| client.actor.count()).sum()
}

struct ReceivingProgress {
    count: u64,
    last: Instant,
}

impl ReceivingProgress {
    fn note(&mut self, count: u64) -> Result<(), BenchError> {
        if count != self.count {
            (self.count, self.last) = (count, Instant::now());
        } else if self.last.elapsed() > PATIENCE {
            return Err(BenchError::Lost(format!("nothing more arrives after {count} messages")));
        }
        Ok(())
    }
}

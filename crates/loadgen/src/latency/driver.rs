//! The thread that sends every message at its planned time and sees every arrival.
//!
//! Budget per message: one `send`, one `recv`, one `ppoll` and `epoll_wait` for each, a few looks
//! at the clock. Between messages the thread sleeps in the poll, and spins for the last few
//! microseconds before a planned time, because a kernel wakes nobody to the microsecond. Sending
//! and receiving share the thread, so that an arrival is seen when it is there. Owns the sockets
//! and the order of sending on each connection; what a message is, is its role's.

use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::{self, PollFd, PollFlags, Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::connection::PATIENCE;
use crate::error::BenchError;
use crate::jetstream::consumers::receiving::ReceivingClient;
use crate::latency::pending::Pending;
use crate::latency::role::{Frame, Noise, Role};
use crate::latency::schedule::Schedule;

/// Nanoseconds before a planned time from which on the thread does not sleep.
const SPIN: u64 = 60_000;

/// Nanoseconds after which a thread that has nothing to send looks whether it has waited too long.
const GLANCE: u64 = 100_000_000;

/// Senders and receivers of one run, on the thread that drives them. Message `n` is sent on
/// connection `n` modulo the number of senders.
pub(super) struct Driver<'a> {
    schedule: Schedule,
    pending: Pending,
    senders: Vec<Sender>,
    /// The senders' clients first, in their order.
    clients: Vec<ReceivingClient<Role<'a>>>,
    poll: OwnedFd,
    noise: Noise,
    epoch: Instant,
    /// The first message that is not due.
    due: u64,
    /// When something was last sent or has last arrived.
    moved: u64,
    /// Messages whose storing is confirmed on the side.
    stored: u64,
}

/// A connection that messages are sent on.
pub(super) struct Sender {
    frame: Frame,
    /// How many of its messages may be under way.
    window: u64,
    under_way: u64,
    /// The number of its first message that is not sent.
    next: u64,
}

impl Sender {
    pub(super) fn new(frame: Frame, window: Option<u64>) -> Self {
        Self { frame, window: window.unwrap_or(u64::MAX), under_way: 0, next: 0 }
    }
}

impl<'a> Driver<'a> {
    /// `clients` are those of the senders and then those of everybody else.
    pub(super) fn new(
        schedule: Schedule,
        mut senders: Vec<Sender>,
        mut clients: Vec<ReceivingClient<Role<'a>>>,
        size: usize,
    ) -> Result<Self, BenchError> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(BenchError::io("creating an epoll"))?;
        for (number, client) in clients.iter_mut().enumerate() {
            client.begin();
            client.watch(&poll, number, true)?;
        }
        for (number, sender) in senders.iter_mut().enumerate() {
            sender.next = number as u64;
        }
        let (pending, noise) = (Pending::new(schedule), Noise::new(size));
        let epoch = Instant::now();
        Ok(Self { schedule, pending, senders, clients, poll, noise, epoch, due: 0, moved: 0, stored: 0 })
    }

    /// Sends everything and returns when all of it has arrived; where messages are also `stored`,
    /// when all of them are.
    pub(super) fn run(mut self, is_stored: bool) -> Result<Pending, BenchError> {
        let count = self.schedule.count();
        let to_be_stored = if is_stored { count } else { 0 };
        let mut events = Vec::with_capacity(256);
        while !self.pending.is_complete() || self.stored < to_be_stored {
            self.send_due()?;
            self.wait(&mut events)?;
            for event in &events {
                self.attend(event.data.u64() as usize)?;
            }
            if self.now().saturating_sub(self.moved) > PATIENCE.as_nanos() as u64 {
                let arrived = self.pending.arrived();
                return Err(BenchError::Lost(format!(
                    "{arrived} of {count} messages arrived, then nothing more"
                )));
            }
        }
        Ok(self.pending)
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Sends what the clock says, except on connections that have to wait for earlier messages.
    fn send_due(&mut self) -> Result<(), BenchError> {
        while self.due < self.schedule.count() {
            let now = self.now();
            if self.schedule.planned(self.due) > now {
                break;
            }
            let (number, place) = (self.due, (self.due % self.senders.len() as u64) as usize);
            self.due += 1;
            if self.senders[place].next == number && self.is_free(place) {
                self.send(place, now, false)?;
            }
        }
        Ok(())
    }

    fn is_free(&self, place: usize) -> bool {
        let sender = &self.senders[place];
        sender.under_way < sender.window && !self.clients[place].is_blocked()
    }

    /// Sends the next message of a sender.
    fn send(&mut self, place: usize, now: u64, was_held_up: bool) -> Result<(), BenchError> {
        let count = self.senders.len() as u64;
        let sender = &mut self.senders[place];
        let number = sender.next;
        sender.next += count;
        sender.under_way += 1;
        sender.frame.write(number, &self.noise, &mut self.clients[place].out());
        self.pending.send(number, now, was_held_up);
        self.moved = now;
        self.clients[place].watch(&self.poll, place, false)
    }

    /// Sleeps until something comes, or until shortly before the next message is due.
    fn wait(&self, events: &mut Vec<epoll::Event>) -> Result<(), BenchError> {
        let pause = match self.due < self.schedule.count() {
            true => self.schedule.planned(self.due).saturating_sub(self.now()).saturating_sub(SPIN),
            false => GLANCE,
        };
        if pause > 0 {
            self.sleep(pause)?;
        }
        events.clear();
        match epoll::wait(&self.poll, spare_capacity(events), Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(BenchError::io("waiting for messages")(error)),
        }
    }

    /// Sleeps this many nanoseconds, or until something comes. An epoll alone would count in
    /// milliseconds.
    fn sleep(&self, pause: u64) -> Result<(), BenchError> {
        let pause = Timespec {
            tv_sec: (pause / 1_000_000_000).cast_signed(),
            tv_nsec: (pause % 1_000_000_000).cast_signed(),
        };
        match event::poll(&mut [PollFd::new(&self.poll, PollFlags::IN)], Some(&pause)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(BenchError::io("waiting for messages")(error)),
        }
    }

    /// Reads what has come on a connection, and sends what waited for it.
    fn attend(&mut self, number: usize) -> Result<(), BenchError> {
        self.clients[number].receive()?;
        let now = self.now();
        let role = &mut self.clients[number].actor;
        self.stored += std::mem::take(&mut role.stored);
        let mut arrived = std::mem::take(&mut role.arrived);
        for &message in &arrived {
            self.pending.arrive(message, now)?;
            let place = (message % self.senders.len() as u64) as usize;
            self.senders[place].under_way -= 1;
            self.moved = now;
        }
        self.clients[number].watch(&self.poll, number, false)?;
        if number < self.senders.len() {
            self.send_held_up(number)?;
        }
        for message in arrived.drain(..) {
            self.send_held_up((message % self.senders.len() as u64) as usize)?;
        }
        self.clients[number].actor.arrived = arrived;
        Ok(())
    }

    fn send_held_up(&mut self, place: usize) -> Result<(), BenchError> {
        while self.senders[place].next < self.due && self.is_free(place) {
            let now = self.now();
            self.send(place, now, true)?;
        }
        Ok(())
    }
}

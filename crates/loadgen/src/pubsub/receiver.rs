//! The receiving side of a run: many connections on one thread that counts bytes.
//!
//! Budget: one `epoll_wait` per round and one `recv` per ready connection. The bytes are discarded
//! in the kernel (MSG_TRUNC) because their number is known in advance; only `Intake::Verify` copies
//! and parses them. Owns the proof that nothing was lost. Never publishes.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::connection::frame::{FrameCounter, Tally};
use crate::connection::{Connection, PATIENCE};
use crate::error::BenchError;
use crate::pubsub::flow::{Delivery, Flow};
use crate::pubsub::verify::Verifier;

const READ_SIZE: usize = 1024 * 1024;

/// How often a quiet receiver looks whether the run has ended meanwhile.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// All receiving connections of a run.
#[derive(Debug)]
pub(crate) struct Receivers {
    epoll: OwnedFd,
    receivers: Vec<Receiver>,
    delivery: Delivery,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Receiver {
    stream: TcpStream,
    bytes: u64,
    intake: Intake,
}

/// Treatment of received bytes.
#[derive(Debug)]
pub(crate) enum Intake {
    /// Bytes are counted.
    Discard,
    /// Every message is parsed and compared with what was published.
    Verify(Box<Verifier>),
}

impl Receivers {
    /// Takes over connections that have subscribed and passed a barrier since.
    pub(crate) fn new(
        connections: Vec<(Connection, Intake)>,
        delivery: Delivery,
    ) -> Result<Self, BenchError> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(BenchError::io("creating an epoll"))?;
        let mut receivers = Vec::with_capacity(connections.len());
        for (number, (connection, intake)) in connections.into_iter().enumerate() {
            let (stream, unread) = connection.into_parts()?;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)
                .map_err(BenchError::io("watching a socket"))?;
            let mut receiver = Receiver { stream, bytes: unread.len() as u64, intake };
            receiver.verify(&unread)?;
            receivers.push(receiver);
        }
        Ok(Self { epoll, receivers, delivery, buffer: vec![0; READ_SIZE] })
    }

    /// Whether there is no receiver.
    pub(crate) fn is_empty(&self) -> bool {
        self.receivers.is_empty()
    }

    /// Receives until the flow is complete; returns when the last delivery was there.
    pub(crate) fn receive(&mut self, flow: &Flow) -> Result<Instant, BenchError> {
        receive_all(&self.epoll, flow, |number| self.receivers[number].take(&mut self.buffer))
    }

    /// Proves that exactly `bytes` (of `messages` messages) arrived: a barrier on every connection,
    /// behind which only the server's own PINGs may have come in addition.
    pub(crate) fn settle(&mut self, bytes: u64, messages: u64) -> Result<(), BenchError> {
        let mut surplus = Vec::with_capacity(self.receivers.len());
        let mut sum = 0;
        for receiver in &mut self.receivers {
            let total = receiver.settle(&mut self.buffer)?;
            sum += total;
            surplus.push(total.wrapping_sub(bytes));
        }
        if self.delivery == Delivery::OneOf {
            surplus = vec![sum.wrapping_sub(bytes)];
        }
        match surplus.iter().find(|&&extra| !is_pings(extra, self.receivers.len())) {
            Some(&extra) => {
                let difference = extra.cast_signed();
                Err(BenchError::Lost(format!("{difference:+} bytes at a receiver (--verify says more)")))
            }
            None => self.check_counts(messages),
        }
    }

    fn check_counts(&self, messages: u64) -> Result<(), BenchError> {
        let counts = self.receivers.iter().filter_map(|receiver| match &receiver.intake {
            Intake::Verify(verifier) => Some(verifier.messages()),
            Intake::Discard => None,
        });
        let counts: Vec<u64> = counts.collect();
        let complete = match self.delivery {
            Delivery::Each => counts.iter().all(|&count| count == messages),
            Delivery::OneOf => counts.is_empty() || counts.iter().sum::<u64>() == messages,
        };
        match complete {
            true => Ok(()),
            false => Err(BenchError::Lost(format!("verified {counts:?} of {messages} messages"))),
        }
    }
}

/// Reads what is ready until the flow is complete; returns when the last delivery was there.
/// `take` does one read of a connection, by its number, and gives the bytes that it has by then.
pub(crate) fn receive_all(
    epoll: &OwnedFd,
    flow: &Flow,
    mut take: impl FnMut(usize) -> Result<u64, BenchError>,
) -> Result<Instant, BenchError> {
    let mut events = Vec::with_capacity(256);
    let mut last_delivery = Instant::now();
    while !flow.is_complete() {
        if flow.has_failed() {
            return Err(BenchError::Aborted);
        }
        events.clear();
        epoll::wait(epoll, spare_capacity(&mut events), Some(&GLANCE))
            .map_err(BenchError::io("waiting for messages"))?;
        for event in &events {
            let number = event.data.u64() as usize;
            flow.record(number, take(number)?);
        }
        match events.is_empty() {
            false => last_delivery = Instant::now(),
            true if last_delivery.elapsed() > PATIENCE => {
                let text = format!("nothing more arrives after {} bytes of messages", flow.arrived());
                return Err(BenchError::Lost(text));
            }
            true => {}
        }
        flow.wake_publishers();
    }
    Ok(last_delivery)
}

/// Whether a surplus of bytes can be a few PINGs ("PING\r\n" is 6 bytes) of `receivers`
/// connections.
fn is_pings(surplus: u64, receivers: usize) -> bool {
    surplus.is_multiple_of(6) && surplus <= 6 * 10 * receivers as u64
}

impl Receiver {
    /// One read; returns the total so far.
    fn take(&mut self, buffer: &mut [u8]) -> Result<u64, BenchError> {
        let flags = match self.intake {
            Intake::Discard => RecvFlags::TRUNC | RecvFlags::DONTWAIT,
            Intake::Verify(_) => RecvFlags::DONTWAIT,
        };
        match rustix::net::recv(&self.stream, &mut *buffer, flags) {
            Ok((0, _)) => Err(BenchError::Closed),
            Ok((count, _)) => {
                self.bytes += count as u64;
                self.verify(&buffer[..count])?;
                Ok(self.bytes)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(self.bytes),
            Err(error) => Err(BenchError::io("receiving messages")(error)),
        }
    }

    fn verify(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        match &mut self.intake {
            Intake::Verify(verifier) => verifier.feed(bytes),
            Intake::Discard => Ok(()),
        }
    }

    /// A barrier that counts: returns all bytes received before the PONG.
    fn settle(&mut self, buffer: &mut [u8]) -> Result<u64, BenchError> {
        rustix::net::send(&self.stream, b"PING\r\n", rustix::net::SendFlags::NOSIGNAL)
            .map_err(BenchError::io("sending a PING"))?;
        let mut tail = Vec::new();
        let before_pong = loop {
            match rustix::net::recv(&self.stream, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(BenchError::Closed),
                Ok((count, _)) => tail.extend_from_slice(&buffer[..count]),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Err(BenchError::Lost("no PONG at the end".into())),
                Err(error) => return Err(BenchError::io("waiting for the last PONG")(error)),
            }
            if let Some(before_pong) = before_last_pong(&tail) {
                break before_pong;
            }
        };
        self.verify(&tail)?;
        Ok(self.bytes + before_pong as u64)
    }
}

/// How many bytes stand before the PONG at the end, which the server's own PINGs may follow.
fn before_last_pong(mut bytes: &[u8]) -> Option<usize> {
    while let Some(shorter) = bytes.strip_suffix(b"PING\r\n") {
        bytes = shorter;
    }
    bytes.strip_suffix(b"PONG\r\n").map(<[u8]>::len)
}

/// Receives on one connection whose number of bytes is not known in advance, counting messages and
/// answering PINGs. `done` is asked after every read, and every 100 ms when there is nothing to
/// read.
pub fn count_messages(
    connection: Connection,
    mut verifier: Option<Verifier>,
    mut done: impl FnMut(Tally) -> bool,
) -> Result<Tally, BenchError> {
    let (stream, unread) = connection.into_parts()?;
    let mut counter = FrameCounter::default();
    counter.feed(&unread)?;
    if let Some(verifier) = &mut verifier {
        verifier.feed(&unread)?;
    }
    let mut buffer = vec![0; READ_SIZE];
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .map_err(BenchError::io("setting a time-out"))?;
    while !done(counter.tally()) {
        let bytes = match rustix::net::recv(&stream, &mut buffer[..], RecvFlags::empty()) {
            Ok((0, _)) => return Err(BenchError::Closed),
            Ok((count, _)) => &buffer[..count],
            Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(error) => return Err(BenchError::io("receiving messages")(error)),
        };
        if let Some(verifier) = &mut verifier {
            verifier.feed(bytes)?;
        }
        count_and_answer(&stream, &mut counter, bytes)?;
    }
    Ok(counter.tally())
}

/// Counts what arrived, and answers the PINGs in it.
pub(crate) fn count_and_answer(
    stream: &TcpStream,
    counter: &mut FrameCounter,
    bytes: &[u8],
) -> Result<(), BenchError> {
    let pings = counter.tally().pings;
    counter.feed(bytes)?;
    for _ in pings..counter.tally().pings {
        rustix::net::send(stream, b"PONG\r\n", rustix::net::SendFlags::NOSIGNAL)
            .map_err(BenchError::io("sending a PONG"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pong_is_found_before_and_behind_pings() {
        assert_eq!(before_last_pong(b"PONG\r\n"), Some(0));
        assert_eq!(before_last_pong(b"x\r\nPING\r\nPONG\r\nPING\r\n"), Some(9));
        for incomplete in [&b""[..], b"PING\r\n", b"PONG\r", b"PONG\r\nPI"] {
            assert_eq!(before_last_pong(incomplete), None);
        }
    }

    #[test]
    fn only_a_few_pings_pass_as_surplus() {
        assert!(is_pings(0, 1) && is_pings(12, 1));
        assert!(!is_pings(150, 1), "a duplicate message");
        assert!(!is_pings(0_u64.wrapping_sub(150), 1), "a lost message");
        assert!(!is_pings(600, 1) && is_pings(600, 10));
    }
}

//! Runs the clients of a workload, all on one thread, until everything that was sent is answered.
//!
//! Budget: one `epoll_wait` per round, one `recv` per ready client, one `send` per staged piece;
//! the clock is read once per round. Owns when sending stops. What is sent and what the answers
//! mean is the work's.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::connection::PATIENCE;
use crate::error::BenchError;
use crate::jetstream::encoded_frames::EncodedFrames;
use crate::jetstream::envelope::Envelope;
use crate::jetstream::link::RequestLink;
use crate::pubsub::publisher::Until;
use crate::pubsub::request::new_latencies;

/// Work of one client: frames to send, and the check of their answers.
pub(crate) trait Work {
    /// The frames it sends.
    fn frames(&mut self) -> &mut EncodedFrames;

    /// Stages what may be sent now, if anything. Called when nothing is staged.
    fn fill(&mut self, budget: &mut SendBudget);

    /// Takes an answer.
    fn take(&mut self, envelope: &Envelope<'_>) -> Result<(), BenchError>;

    /// Whether everything that was sent is answered.
    fn is_settled(&self) -> bool;

    /// Figures of the client, once all is settled.
    fn done(&self) -> Done;
}

/// Figures of one client, or of several together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    /// Messages stored or read.
    pub(crate) messages: u64,
    pub(crate) payload_bytes: u64,
    /// Sum of the sequences of all acknowledged messages, where each is acknowledged by itself.
    pub(crate) sequences: Option<u128>,
    /// Nanoseconds from sending to the answer, where one is outstanding at a time.
    pub(crate) latencies: Option<Histogram<u64>>,
}

impl Done {
    /// Figures of two clients together.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.messages += other.messages;
        self.payload_bytes += other.payload_bytes;
        self.sequences = self.sequences.into_iter().chain(other.sequences).reduce(|one, two| one + two);
        self.latencies = match (self.latencies, other.latencies) {
            (Some(mut one), Some(two)) => {
                one.add(two).expect("all histograms have the same bounds");
                Some(one)
            }
            (one, two) => one.or(two),
        };
        self
    }
}

/// How much may still be sent by all clients together.
#[derive(Debug)]
pub(crate) struct SendBudget {
    until: Until,
    start: Instant,
    taken: u64,
    is_over: bool,
}

impl SendBudget {
    /// A budget of which nothing is used; its clock starts now.
    pub(crate) fn new(until: Until) -> Self {
        Self { until, start: Instant::now(), taken: 0, is_over: false }
    }

    fn look_at_the_clock(&mut self) {
        self.is_over = match self.until {
            Until::Messages(count) => self.taken >= count,
            Until::Elapsed(duration) => self.start.elapsed() >= duration,
        };
    }

    /// How many of these messages may be sent.
    pub(crate) fn take(&mut self, wanted: usize) -> usize {
        let granted = match self.until {
            Until::Messages(count) => {
                usize::try_from(count.saturating_sub(self.taken)).map_or(wanted, |left| left.min(wanted))
            }
            Until::Elapsed(_) if self.is_over => 0,
            Until::Elapsed(_) => wanted,
        };
        self.taken += granted as u64;
        granted
    }

    /// Whether a batch of this size may be begun; the last one may go beyond a number of messages.
    pub(crate) fn take_whole(&mut self, size: usize) -> bool {
        let granted = self.take(size);
        self.taken += if granted > 0 { (size - granted) as u64 } else { 0 };
        granted > 0
    }
}

/// A client with what it does.
pub(crate) struct RequestingClient<W> {
    link: RequestLink,
    /// Work of the client, with its figures so far.
    pub(crate) work: W,
}

impl<W: Work> RequestingClient<W> {
    /// A client that has sent nothing yet.
    pub(crate) fn new(link: RequestLink, work: W) -> Self {
        Self { link, work }
    }

    /// Sends until nothing more may be sent or the socket is full; says whether the latter has
    /// changed.
    fn pump(&mut self, budget: &mut SendBudget) -> Result<bool, BenchError> {
        let was_blocked = self.link.link.is_blocked();
        loop {
            let has_gone = self.link.send(self.work.frames())?;
            if has_gone {
                self.work.fill(budget);
            }
            if !has_gone || self.work.frames().unsent().is_empty() {
                return Ok(was_blocked == has_gone);
            }
        }
    }

    fn receive(&mut self) -> Result<(), BenchError> {
        let work = &mut self.work;
        self.link.receive(|envelope| work.take(envelope))
    }
}

/// Runs the clients and gives the time until the last answer was there.
pub(crate) fn drive<W: Work>(
    clients: &mut [RequestingClient<W>],
    until: Until,
) -> Result<Duration, BenchError> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(BenchError::io("creating an epoll"))?;
    let mut budget = SendBudget::new(until);
    for (number, client) in clients.iter_mut().enumerate() {
        client.pump(&mut budget)?;
        client.link.link.add_to(&poll, number)?;
    }
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let mut events = Vec::with_capacity(64);
    while clients.iter().any(|client| !client.work.is_settled()) {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), Some(&patience))
            .map_err(BenchError::io("waiting for answers"))?;
        if events.is_empty() {
            return Err(BenchError::Lost(format!("answers are missing after {PATIENCE:?}")));
        }
        budget.look_at_the_clock();
        for event in &events {
            let number = event.data.u64() as usize;
            let client = &mut clients[number];
            client.receive()?;
            if client.pump(&mut budget)? {
                client.link.link.change_in(&poll, number)?;
            }
        }
    }
    Ok(budget.start.elapsed())
}

/// Latencies of a client that has one message outstanding at a time.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    sent_at: Instant,
    latencies: Histogram<u64>,
}

impl Stopwatch {
    /// A stopwatch without laps.
    pub(crate) fn new() -> Self {
        Self { sent_at: Instant::now(), latencies: new_latencies() }
    }

    /// Begins a lap.
    pub(crate) fn start(&mut self) {
        self.sent_at = Instant::now();
    }

    /// Ends the lap.
    pub(crate) fn stop(&mut self) {
        self.latencies.saturating_record(self.sent_at.elapsed().as_nanos() as u64);
    }

    /// All laps, in nanoseconds.
    pub(crate) fn latencies(&self) -> Histogram<u64> {
        self.latencies.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_messages_is_kept_to_the_message() {
        let mut budget = SendBudget::new(Until::Messages(10));
        assert_eq!([6, 6, 6].map(|wanted| budget.take(wanted)), [6, 4, 0]);
    }

    #[test]
    fn batches_are_never_cut() {
        let mut budget = SendBudget::new(Until::Messages(10));
        assert_eq!([6, 6, 6].map(|size| budget.take_whole(size)), [true, true, false]);
        assert_eq!(budget.taken, 12);
    }

    #[test]
    fn time_ends_everything() {
        let mut budget = SendBudget::new(Until::Elapsed(Duration::ZERO));
        assert_eq!(budget.take(5), 5);
        budget.look_at_the_clock();
        assert_eq!((budget.take(5), budget.take_whole(5)), (0, false));
    }
}

//! The publishing side of a run: a thread that writes prepared bursts and waits for the PONG.
//!
//! Budget: one `send` and one non-blocking `recv` per burst; no allocation; no lock unless the
//! window is full. Owns when publishing stops. Never encodes anything.

use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::error::BenchError;
use crate::pubsub::flow::Flow;
use crate::pubsub::script::{Burst, Script};

/// When a publisher stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Number of messages, exactly.
    Messages(u64),
    /// Time, up to the end of the first burst after it.
    Elapsed(Duration),
}

impl Until {
    /// Share of one of several publishers: a part of the messages, or the whole time.
    pub fn part(self, publishers: usize, number: usize) -> Self {
        let (publishers, number) = (publishers as u64, number as u64);
        match self {
            Self::Messages(all) => Self::Messages(all / publishers + u64::from(number < all % publishers)),
            Self::Elapsed(_) => self,
        }
    }
}

/// Figures of a publisher.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Messages that were sent.
    pub messages: u64,
    pub(crate) payload_bytes: u64,
    /// Bytes of MSG frames that one receiver of everything gets for it.
    pub delivered_bytes: u64,
    /// When the PONG behind the last message was there.
    pub finished: Instant,
}

/// Publishes the script over and over and returns when the server has handled all of it.
pub fn publish(
    connection: &mut Connection,
    script: &Script,
    until: Until,
    flow: &Flow,
) -> Result<Published, BenchError> {
    let start = Instant::now();
    let mut done = Published { messages: 0, payload_bytes: 0, delivered_bytes: 0, finished: start };
    for burst in script.bursts.iter().cycle() {
        let count = match until {
            Until::Messages(wanted) => wanted.saturating_sub(done.messages).min(burst.len() as u64),
            Until::Elapsed(duration) if start.elapsed() >= duration => 0,
            Until::Elapsed(_) => burst.len() as u64,
        };
        if count == 0 {
            break;
        }
        done.send(connection, burst, count as usize, flow)?;
    }
    connection.barrier()?;
    done.finished = Instant::now();
    Ok(done)
}

impl Published {
    /// Sends the first `count` messages of a burst; `count` is at least 1.
    fn send(
        &mut self,
        connection: &mut Connection,
        burst: &Burst,
        count: usize,
        flow: &Flow,
    ) -> Result<(), BenchError> {
        let last = count - 1;
        flow.reserve(burst.delivered[last])?;
        connection.send(&burst.bytes[..burst.ends[last]])?;
        connection.tend()?;
        self.messages += count as u64;
        self.payload_bytes += burst.payload[last];
        self.delivered_bytes += burst.delivered[last];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_share_all_messages() {
        for (messages, publishers) in [(10, 3), (2, 4), (1000, 1)] {
            let part = |number| match Until::Messages(messages).part(publishers, number) {
                Until::Messages(count) => count,
                Until::Elapsed(_) => panic!("messages are no time"),
            };
            let parts: Vec<u64> = (0..publishers).map(part).collect();
            assert_eq!(parts.iter().sum::<u64>(), messages);
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1);
        }
    }
}

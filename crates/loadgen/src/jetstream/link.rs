//! A connection whose requests are answered on one inbox.
//!
//! Owns the inbox. Moving bytes is the business of `client_pool::link`.

use crate::client_pool::inbox::Arrival;
use crate::client_pool::link::PoolLink;
use crate::client_pool::outbox::OutboxFrames;
use crate::connection::Connection;
use crate::connection::address::Address;
use crate::error::BenchError;
use crate::jetstream::encoded_frames::EncodedFrames;
use crate::jetstream::envelope::Envelope;

/// A connection that has subscribed to everything below its inbox.
#[derive(Debug)]
pub(crate) struct RequestLink {
    pub(crate) link: PoolLink,
    inbox: String,
}

impl RequestLink {
    /// Connects and subscribes to everything below the inbox.
    pub(crate) fn open(address: &Address, inbox: String) -> Result<Self, BenchError> {
        let mut connection = Connection::open(address)?;
        connection.send(format!("SUB {inbox}.> 1\r\n").as_bytes())?;
        connection.barrier()?;
        Ok(Self { link: PoolLink::new(connection)?, inbox })
    }

    /// Start of the reply subjects, without the dot.
    pub(crate) fn inbox(&self) -> &str {
        &self.inbox
    }

    /// Where messages are put that are sent with the next flush.
    pub(crate) fn out(&mut self) -> OutboxFrames<'_> {
        self.link.out.frames()
    }

    /// Reads what has arrived and hands over every answer that is complete. PINGs are answered with
    /// the next flush.
    pub(crate) fn receive(
        &mut self,
        mut take: impl FnMut(&Envelope<'_>) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        loop {
            let is_more = self.link.receive()?;
            while let Some((arrival, out)) = self.link.next()? {
                match arrival {
                    Arrival::Message(message) => take(&Envelope::of(&message, &self.inbox)?)?,
                    Arrival::Ping => out.control(b"PONG\r\n"),
                    Arrival::Pong | Arrival::Other => {}
                }
            }
            if !is_more {
                return Ok(());
            }
        }
    }

    /// Sends as much of the frames as the socket takes now, and PONGs; says whether all of it has
    /// gone.
    pub(crate) fn send(&mut self, frames: &mut EncodedFrames) -> Result<bool, BenchError> {
        self.link.send_frames(frames)
    }
}

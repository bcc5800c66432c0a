//! One client's socket during a run: never blocks, reads while it writes.
//!
//! Budget: one `recv` per readiness and one `send` per staged piece of tape. Owns the received bytes that nobody has
//! looked at yet, and answers PINGs between two pieces. A server that waits for us to read and we for it to read would
//! wait forever; that is why nothing here blocks.

use std::net::TcpStream;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::bench::address::Address;
use crate::bench::connection::Connection;
use crate::bench::error::BenchError;
use crate::bench::frame::{Frames, Operation};
use crate::bench::jetstream::envelope::{Envelope, Reader};
use crate::bench::jetstream::tape::Tape;

const READ_SIZE: usize = 256 * 1024;

/// A subscribed connection.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    inbox: String,
    reader: Reader,
    buffer: Vec<u8>,
    /// Where in the buffer the bytes begin and end that were received and not looked at.
    start: usize,
    end: usize,
    pings: usize,
}

impl Link {
    /// Connects and subscribes to everything below the inbox.
    pub(crate) fn open(address: &Address, inbox: String) -> Result<Self, BenchError> {
        let mut connection = Connection::open(address)?;
        connection.send(format!("SUB {inbox}.> 1\r\n").as_bytes())?;
        connection.barrier()?;
        let (stream, unread) = connection.into_parts()?;
        let mut buffer = vec![0; READ_SIZE];
        buffer[..unread.len()].copy_from_slice(&unread);
        let reader = Reader::new(&inbox);
        Ok(Self { stream, inbox, reader, buffer, start: 0, end: unread.len(), pings: 0 })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// What replies begin with, without the dot.
    pub(crate) fn inbox(&self) -> &str {
        &self.inbox
    }

    /// Reads once what has arrived.
    pub(crate) fn receive(&mut self) -> Result<(), BenchError> {
        self.make_room();
        match rustix::net::recv(&self.stream, &mut self.buffer[self.end..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(BenchError::Closed),
            Ok((count, _)) => {
                self.end += count;
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(Errno::CONNRESET) => Err(BenchError::Closed),
            Err(error) => Err(BenchError::io("receiving answers")(error)),
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

    /// The next message to the inbox that has arrived completely.
    pub(crate) fn next(&mut self) -> Result<Option<Envelope<'_>>, BenchError> {
        while !self.reader.begins(&self.buffer[self.start..self.end]) {
            if !self.skip_operation()? {
                return Ok(None);
            }
        }
        let bytes = &self.buffer[self.start..self.end];
        match self.reader.read(bytes) {
            Some(envelope) => {
                self.start += envelope.length;
                Ok(Some(envelope))
            }
            // Incomplete, if the thorough parser says so too.
            None => match Frames::new(bytes).next()? {
                None => Ok(None),
                Some(frame) => Err(BenchError::Protocol(format!("{:?}", frame.operation))),
            },
        }
    }

    /// Handles an operation that is no message to the inbox; says whether there was a whole one.
    fn skip_operation(&mut self) -> Result<bool, BenchError> {
        let bytes = &self.buffer[self.start..self.end];
        let mut frames = Frames::new(bytes);
        let Some(frame) = frames.next()? else { return Ok(false) };
        match frame.operation {
            Operation::Error(text) => return Err(BenchError::Refused(text.to_owned())),
            Operation::Message(head) => {
                let text = format!("a message on {:?} instead of an answer", head.subject);
                return Err(BenchError::Protocol(text));
            }
            Operation::Ping => self.pings += 1,
            Operation::Pong | Operation::Info(_) | Operation::Okay => {}
        }
        self.start += bytes.len() - frames.rest().len();
        Ok(true)
    }

    /// Sends as much of the tape as the socket takes now; says whether all of it has gone.
    pub(crate) fn send(&mut self, tape: &mut Tape) -> Result<bool, BenchError> {
        while !tape.unsent().is_empty() {
            match rustix::net::send(&self.stream, tape.unsent(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => tape.advance(count),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(BenchError::Closed),
                Err(error) => return Err(BenchError::io("sending to the server")(error)),
            }
        }
        self.answer_pings()
    }

    /// PONGs are too short for a socket that has just taken a whole tape to be full.
    fn answer_pings(&mut self) -> Result<bool, BenchError> {
        for _ in 0..std::mem::take(&mut self.pings) {
            rustix::net::send(&self.stream, b"PONG\r\n", SendFlags::NOSIGNAL)
                .map_err(BenchError::io("sending a PONG"))?;
        }
        Ok(true)
    }
}

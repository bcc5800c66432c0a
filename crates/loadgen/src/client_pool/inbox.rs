//! Received bytes of one connection, taken apart into operations without a copy and without an
//! allocation.
//!
//! Budget per message: one pass over its control line, or one comparison where the line is the one
//! before, as it is for a subscriber of one subject. Owns the buffer. Whatever the pass does not
//! understand is left to `frame`, which says what is wrong with it.

use std::ops::Range;

use crate::connection::frame::{Operation, WholeFrames};
use crate::connection::header;
use crate::error::BenchError;

const SIZE: usize = 256 * 1024;

/// Received bytes of which the part before `start` was looked at.
#[derive(Debug)]
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The control line that came last, with its end, if it had no reply; and what it says.
    last: Vec<u8>,
    line: ControlLine,
}

/// Where in a control line its parts are, and what it announces.
#[derive(Clone, Debug, Default)]
struct ControlLine {
    length: usize,
    subject: Range<usize>,
    sid: u64,
    reply: Range<usize>,
    header: usize,
    size: usize,
}

/// Something that has arrived completely.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival<'a> {
    Message(Message<'a>),
    Ping,
    Pong,
    /// Nothing to be done about.
    Other,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub(crate) subject: &'a [u8],
    /// Number of the subscription that it came to.
    pub(crate) sid: u64,
    /// Empty if there is none.
    pub(crate) reply: &'a [u8],
    /// Empty if there is none.
    pub(crate) header: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl Message<'_> {
    /// The status in the first line of the header: 503 when nobody answers, 404, 408, 100 …
    pub(crate) fn status(&self) -> Option<u16> {
        header::status(self.header)
    }

    /// The value of a header line.
    pub(crate) fn header_value(&self, name: &str) -> Option<&str> {
        header::value(self.header, name)
    }

    /// The error for a message that should not be there.
    pub(crate) fn unexpected(&self) -> BenchError {
        if self.status() == Some(503) {
            return BenchError::NoResponder;
        }
        let [reply, header] = [self.reply, self.header].map(String::from_utf8_lossy);
        let size = self.payload.len();
        BenchError::Lost(format!("a message of {size} bytes with the reply {reply:?} and header {header:?}"))
    }

    /// The first line of the header, for people.
    pub(crate) fn status_line(&self) -> String {
        header::status_line(self.header)
    }
}

impl Inbox {
    /// Begins with what was received before.
    pub(crate) fn new(unread: &[u8]) -> Self {
        let mut buffer = vec![0; SIZE.max(unread.len() * 2)];
        buffer[..unread.len()].copy_from_slice(unread);
        Self { buffer, start: 0, end: unread.len(), last: Vec::new(), line: ControlLine::default() }
    }

    /// Where the next bytes go; grows only for a message that is larger than the buffer.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < self.buffer.len() / 4 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end * 2, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Counts bytes that were put into the room.
    pub(crate) fn filled(&mut self, count: usize) {
        self.end += count;
    }

    /// The next thing that has arrived completely.
    pub(crate) fn next(&mut self) -> Result<Option<Arrival<'_>>, BenchError> {
        if self.start == self.end {
            return Ok(None);
        }
        if self.last.is_empty() || !self.buffer[self.start..self.end].starts_with(&self.last) {
            let Some(line) = message_line(&self.buffer[self.start..self.end]) else {
                return self.other();
            };
            self.last.clear();
            if line.reply.is_empty() {
                self.last.extend_from_slice(&self.buffer[self.start..self.start + line.length]);
            }
            self.line = line;
        }
        let bytes = &self.buffer[self.start..self.end];
        let ControlLine { length, subject, sid, reply, header, size } = self.line.clone();
        let Some(rest) = bytes.get(length..length + size + 2) else {
            return Ok(None);
        };
        if !rest.ends_with(b"\r\n") {
            return Err(BenchError::Protocol("a payload without CRLF at its end".into()));
        }
        self.start += length + size + 2;
        let (header, payload) = rest[..size].split_at(header);
        Ok(Some(Arrival::Message(Message {
            subject: &bytes[subject],
            sid,
            reply: &bytes[reply],
            header,
            payload,
        })))
    }

    /// Takes an operation other than a message; `None` until its line has arrived completely. -ERR
    /// and a malformed operation are errors.
    fn other(&mut self) -> Result<Option<Arrival<'_>>, BenchError> {
        let mut frames = WholeFrames::new(&self.buffer[self.start..self.end]);
        let Some(frame) = frames.next()? else {
            return Ok(None);
        };
        let left = frames.rest().len();
        let arrival = match frame.operation {
            Operation::Error(text) => return Err(BenchError::Refused(text.to_owned())),
            Operation::Message(head) => return Err(BenchError::Protocol(format!("{head:?}"))),
            Operation::Ping => Arrival::Ping,
            Operation::Pong => Arrival::Pong,
            Operation::Info(_) | Operation::Okay => Arrival::Other,
        };
        self.start = self.end - left;
        Ok(Some(arrival))
    }
}

/// Takes the control line of a message apart; `None` if it is something else, or not all there.
fn message_line(bytes: &[u8]) -> Option<ControlLine> {
    let (start, has_header) = match bytes {
        [b'M', b'S', b'G', b' ', ..] => (4, false),
        [b'H', b'M', b'S', b'G', b' ', ..] => (5, true),
        _ => return None,
    };
    // Ends of the tokens: subject, sid, perhaps a reply, and one or two numbers.
    let mut ends = [0; 5];
    let mut count = 0;
    let mut place = start;
    loop {
        match *bytes.get(place)? {
            b' ' | b'\r' => {
                *ends.get_mut(count)? = place;
                count += 1;
                if bytes[place] == b'\r' {
                    break;
                }
            }
            _ => {}
        }
        place += 1;
    }
    if *bytes.get(place + 1)? != b'\n' {
        return None;
    }
    let numbers = 1 + usize::from(has_header);
    let reply = match count.checked_sub(2 + numbers)? {
        0 => start..start,
        1 => ends[1] + 1..ends[2],
        _ => return None,
    };
    let size = number(&bytes[ends[count - 2] + 1..place])?;
    let header = match has_header {
        true => number(&bytes[ends[count - 3] + 1..ends[count - 2]])?,
        false => 0,
    };
    let sid = number(&bytes[ends[0] + 1..ends[1]])? as u64;
    (header <= size).then(|| ControlLine {
        length: place + 2,
        subject: start..ends[0],
        sid,
        reply,
        header,
        size,
    })
}

/// A decimal number and nothing else.
pub(crate) fn number(digits: &[u8]) -> Option<usize> {
    let plausible = (1..=18).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    plausible.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"INFO {}\r\nMSG a.b 1 2\r\nhi\r\nMSG a.b 1 2\r\nho\r\nMSG a.b 1 re.ply 0\r\n\r\nPING\r\n\
        HMSG a 7 r 12 15\r\nNATS/1.0\r\n\r\nabc\r\nHMSG a 7 16 16\r\nNATS/1.0 503\r\n\r\n\r\n+OK\r\nPONG\r\n";

    /// Arrivals in `STREAM`, as text, when it comes in pieces of this size.
    fn arrivals(piece: usize) -> Vec<String> {
        let mut inbox = Inbox::new(&[]);
        let mut seen = Vec::new();
        for piece in STREAM.chunks(piece) {
            inbox.room()[..piece.len()].copy_from_slice(piece);
            inbox.filled(piece.len());
            while let Some(arrival) = inbox.next().unwrap() {
                seen.push(match arrival {
                    Arrival::Message(m) => {
                        let texts = [m.subject, m.reply, m.header, m.payload].map(String::from_utf8_lossy);
                        format!("{} {:?}", texts.join("|").replace("\r\n", "~"), m.status())
                    }
                    other => format!("{other:?}"),
                });
            }
        }
        seen
    }

    #[test]
    fn arrivals_do_not_depend_on_how_the_bytes_came() {
        let expected = [
            "Other",
            "a.b|||hi None",
            "a.b|||ho None",
            "a.b|re.ply|| None",
            "Ping",
            "a|r|NATS/1.0~~|abc None",
            "a||NATS/1.0 503~~| Some(503)",
            "Other",
            "Pong",
        ];
        for piece in 1..=STREAM.len() {
            assert_eq!(arrivals(piece), expected, "{piece}");
        }
    }

    #[test]
    fn a_message_larger_than_the_buffer_makes_it_grow() {
        let mut inbox = Inbox::new(b"MSG a 1 1000000\r\n");
        let payload = vec![b'x'; 1_000_000];
        let mut rest = [&payload[..], b"\r\nPING\r\n"].concat();
        while !rest.is_empty() {
            assert!(inbox.next().unwrap().is_none());
            let room = inbox.room();
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            rest.drain(..count);
            inbox.filled(count);
        }
        let Some(Arrival::Message(message)) = inbox.next().unwrap() else { panic!("no message") };
        assert_eq!(message.payload, payload);
        assert_eq!(inbox.next().unwrap(), Some(Arrival::Ping));
    }

    #[test]
    fn errors_and_nonsense_are_told() {
        for (bytes, text) in [
            (&b"-ERR 'Slow Consumer'\r\n"[..], "Slow Consumer"),
            (b"MSG a 1 x\r\n\r\n", "unexpected"),
            (b"MSG a 1 2\r\nabcd\r\n", "CRLF"),
            (b"HELLO\r\n", "unexpected"),
        ] {
            let error = Inbox::new(bytes).next().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn header_lines_are_found() {
        let header = b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 7\r\n\r\n";
        let message = Message { subject: b"", sid: 1, reply: b"", header, payload: b"" };
        assert_eq!(message.header_value("Nats-Pending-Messages"), Some("7"));
        assert_eq!(message.header_value("Nats-Pending"), None);
        assert_eq!(message.status_line(), "408 Request Timeout");
    }
}

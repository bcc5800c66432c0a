//! Operations that a server sends to a client, parsed as little as a benchmark can get away with.
//!
//! `Operation` reads one control line. `FrameCounter` counts messages in a stream of chunks and
//! throws the payloads away. `WholeFrames` walks whole messages in a contiguous buffer, for callers
//! that must look at them. Never answers anything: the owner of the socket does.

use crate::error::BenchError;

/// Longer control lines than this are not NATS (INFO lines of big clusters are a few KiB).
const MAX_LINE: usize = 64 * 1024;

/// One control line from the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    /// MSG or HMSG: what follows is `size` bytes and CRLF.
    Message(Head<'a>),
    Ping,
    Pong,
    Info(&'a [u8]),
    Okay,
    Error(&'a str),
}

/// The control line of a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    /// Subject of the message.
    pub(crate) subject: &'a str,
    pub(crate) sid: &'a str,
    /// Reply subject, if there is one.
    pub(crate) reply: Option<&'a str>,
    /// Header and payload together, without the closing CRLF.
    pub(crate) size: usize,
    /// Length of the header part; 0 for MSG.
    pub(crate) header_size: usize,
}

impl<'a> Operation<'a> {
    /// Parses a line without its CRLF.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, BenchError> {
        Self::recognised(line).ok_or_else(|| {
            let shown = String::from_utf8_lossy(&line[..line.len().min(80)]);
            BenchError::Protocol(format!("{shown:?}"))
        })
    }

    fn recognised(line: &'a [u8]) -> Option<Self> {
        match line {
            b"PING" => Some(Self::Ping),
            b"PONG" => Some(Self::Pong),
            b"+OK" => Some(Self::Okay),
            _ if line.starts_with(b"INFO ") => Some(Self::Info(&line[5..])),
            _ if line.starts_with(b"-ERR") => {
                std::str::from_utf8(&line[4..]).ok().map(|e| Self::Error(e.trim()))
            }
            _ if line.starts_with(b"MSG ") => Head::parse(&line[4..], false).map(Self::Message),
            _ if line.starts_with(b"HMSG ") => Head::parse(&line[5..], true).map(Self::Message),
            _ => None,
        }
    }
}

impl<'a> Head<'a> {
    fn parse(line: &'a [u8], with_header: bool) -> Option<Self> {
        let mut rest = std::str::from_utf8(line).ok()?;
        let size = last_token(&mut rest)?.parse().ok()?;
        let header_size = if with_header { last_token(&mut rest)?.parse().ok()? } else { 0 };
        let (subject, rest) = rest.split_once(' ')?;
        let (sid, reply) = match rest.split_once(' ') {
            Some((sid, reply)) => (sid, Some(reply)),
            None => (rest, None),
        };
        Some(Self { subject, sid, reply, size, header_size })
    }
}

/// Takes the last token off `rest`.
fn last_token<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (before, token) = rest.rsplit_once(' ')?;
    *rest = before;
    Some(token)
}

/// Counts messages in a byte stream that arrives in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct FrameCounter {
    /// The start of a control line whose end has not arrived.
    line: Vec<u8>,
    /// Bytes of the current payload (with CRLF) still to skip.
    skip: usize,
    tally: Tally,
}

/// Counts of a `FrameCounter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages whose last byte has arrived.
    pub messages: u64,
    /// Header and payload bytes of those messages.
    pub(crate) payload_bytes: u64,
    /// PINGs of the server; each wants a PONG.
    pub(crate) pings: u64,
    pub(crate) pongs: u64,
    /// Messages without payload whose header is all there is: a "503 no responders", mostly.
    pub(crate) bare_headers: u64,
}

impl FrameCounter {
    /// Counts up to now.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Takes the next piece of the stream.
    pub(crate) fn feed(&mut self, mut chunk: &[u8]) -> Result<(), BenchError> {
        loop {
            let skipped = self.skip.min(chunk.len());
            chunk = &chunk[skipped..];
            if self.skip > 0 {
                self.skip -= skipped;
                self.tally.messages += u64::from(self.skip == 0);
            }
            let Some(end) = chunk.iter().position(|&b| b == b'\n') else {
                return self.keep_partial_line(chunk);
            };
            let (line, rest) = chunk.split_at(end + 1);
            chunk = rest;
            self.line(line)?;
        }
    }

    fn keep_partial_line(&mut self, piece: &[u8]) -> Result<(), BenchError> {
        self.line.extend_from_slice(piece);
        if self.line.len() > MAX_LINE {
            return Err(BenchError::Protocol("an endless control line".into()));
        }
        Ok(())
    }

    /// Takes a line, or the end of one that began in an earlier chunk.
    fn line(&mut self, piece: &[u8]) -> Result<(), BenchError> {
        if self.line.is_empty() {
            return self.operation(without_line_end(piece));
        }
        let mut whole = std::mem::take(&mut self.line);
        whole.extend_from_slice(piece);
        let result = self.operation(without_line_end(&whole));
        whole.clear();
        self.line = whole;
        result
    }

    fn operation(&mut self, line: &[u8]) -> Result<(), BenchError> {
        match Operation::parse(line)? {
            Operation::Message(head) => {
                self.skip = head.size + 2;
                self.tally.payload_bytes += head.size as u64;
                self.tally.bare_headers += u64::from(head.header_size > 0 && head.header_size == head.size);
            }
            Operation::Ping => self.tally.pings += 1,
            Operation::Pong => self.tally.pongs += 1,
            Operation::Error(text) => return Err(BenchError::Refused(text.to_owned())),
            Operation::Info(_) | Operation::Okay => {}
        }
        Ok(())
    }
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Walks the whole frames at the start of a buffer; what is incomplete stays for the next read.
#[derive(Debug)]
pub(crate) struct WholeFrames<'a> {
    rest: &'a [u8],
}

/// A whole frame: its control line and, for a message, its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) operation: Operation<'a>,
    pub(crate) payload: &'a [u8],
}

impl<'a> WholeFrames<'a> {
    /// Reads frames from the start of this buffer.
    pub(crate) fn new(buffer: &'a [u8]) -> Self {
        Self { rest: buffer }
    }

    /// Bytes that no whole frame has covered yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next whole frame, or `None` when more bytes are needed.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'a>>, BenchError> {
        let Some(end) = self.rest.iter().position(|&b| b == b'\n') else {
            return Ok(None);
        };
        let (line, after) = self.rest.split_at(end + 1);
        let operation = Operation::parse(without_line_end(line))?;
        let Operation::Message(Head { size, .. }) = operation else {
            self.rest = after;
            return Ok(Some(Frame { operation, payload: &[] }));
        };
        let Some((payload, after)) = after.split_at_checked(size + 2) else {
            return Ok(None);
        };
        let Some(payload) = payload.strip_suffix(b"\r\n") else {
            return Err(BenchError::Protocol("a payload without CRLF at its end".into()));
        };
        self.rest = after;
        Ok(Some(Frame { operation, payload }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: &[u8] = b"INFO {\"a\":1} \r\nMSG a.b 1 5\r\nhello\r\nPING\r\nMSG a 12 in.box 0\r\n\r\n\
        +OK\r\nHMSG r 9 16 16\r\nNATS/1.0 503\r\n\r\n\r\nHMSG x 2 r 12 14\r\nNATS/1.0\r\n\r\nab\r\nPONG\r\n\
        MSG z 3 8\r\nMSG a 1\n\r\n";

    fn tally_of(chunks: &[&[u8]]) -> Tally {
        let mut counter = FrameCounter::default();
        for chunk in chunks {
            counter.feed(chunk).unwrap();
        }
        counter.tally()
    }

    #[test]
    fn a_counter_counts_everything_in_one_piece() {
        let expected =
            Tally { messages: 5, payload_bytes: 5 + 16 + 14 + 8, pings: 1, pongs: 1, bare_headers: 1 };
        assert_eq!(tally_of(&[STREAM]), expected);
    }

    proptest! {
        #[test]
        fn a_counter_does_not_care_where_the_stream_is_split(
            mut cuts in proptest::collection::vec(0..=STREAM.len(), 0..12)
        ) {
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([STREAM.len()]) {
                pieces.push(&STREAM[from..cut]);
                from = cut;
            }
            prop_assert_eq!(tally_of(&pieces), tally_of(&[STREAM]));
        }

        #[test]
        fn frames_stop_at_what_is_incomplete(cut in 0..STREAM.len()) {
            let mut whole = WholeFrames::new(STREAM);
            let mut part = WholeFrames::new(&STREAM[..cut]);
            while let Some(frame) = part.next().unwrap() {
                prop_assert_eq!(Some(frame), whole.next().unwrap());
            }
        }
    }

    #[test]
    fn frames_show_the_parts_of_a_message() {
        let mut frames = WholeFrames::new(b"HMSG a.b 7 re.ply 12 14\r\nNATS/1.0\r\n\r\nab\r\nPI");
        let frame = frames.next().unwrap().unwrap();
        let head = Head { subject: "a.b", sid: "7", reply: Some("re.ply"), size: 14, header_size: 12 };
        assert_eq!(frame.operation, Operation::Message(head));
        assert_eq!(frame.payload, b"NATS/1.0\r\n\r\nab");
        assert!(frames.next().unwrap().is_none());
        assert_eq!(frames.rest(), b"PI");
    }

    #[test]
    fn errors_and_nonsense_end_the_count() {
        let refused = FrameCounter::default().feed(b"-ERR 'Authorization Violation'\r\n");
        assert!(matches!(refused, Err(BenchError::Refused(text)) if text == "'Authorization Violation'"));
        for nonsense in [&b"HELLO\r\n"[..], b"MSG a 1 x\r\n", b"MSG a\r\n", b"HMSG a 1 5\r\n"] {
            assert!(matches!(FrameCounter::default().feed(nonsense), Err(BenchError::Protocol(_))));
        }
        assert!(WholeFrames::new(b"MSG a 1 2\r\nabXX").next().is_err());
    }
}

//! Roles of the connections of a latency run: the form of the messages that go out, and the numbers
//! of those that have come back.
//!
//! Budget per message: one copy of the payload out; one pass over the control line in; no
//! allocation. A message is known by its number: in a token of the reply subject where an answer
//! comes back to it, in the first eight bytes of the payload where the message itself arrives.
//! Reads no clock.

use crate::client_pool::inbox::Message;
use crate::error::BenchError;
use crate::jetstream::answer::Acknowledgement;
use crate::jetstream::consumers::pull::Pull;
use crate::jetstream::consumers::receiving::Actor;
use crate::jetstream::envelope::Envelope;
use crate::token;

/// Bytes of a payload that say its number.
pub(crate) const STAMP: usize = 8;

/// Random bytes beyond one payload, so that neighbours begin at different places.
const SPARE: usize = 64 * 1024;

/// One connection: what it does, and what has arrived on it since somebody looked.
#[derive(Debug)]
pub(super) struct Role<'a> {
    part: RolePart<'a>,
    pub(super) arrived: Vec<u64>,
    /// Messages that are known to be stored, where somebody else says when they arrive.
    pub(super) stored: u64,
}

#[derive(Debug)]
pub(super) enum RolePart<'a> {
    /// Sends and gets no answer.
    Publisher,
    /// Sends, and waits for answers of this size.
    Requester { size: usize },
    /// Sends, and waits until a stream has stored it.
    Storing { answer: Acknowledgement, is_arrival: bool },
    /// Receives what others send, of this size.
    Subscriber { size: usize },
    /// Pulls from a stream what others send.
    Consumer(Box<Pull<'a>>),
}

impl<'a> Role<'a> {
    pub(super) fn new(part: RolePart<'a>) -> Self {
        Self { part, arrived: Vec::new(), stored: 0 }
    }
}

impl Actor for Role<'_> {
    fn begin(&mut self, out: &mut Vec<u8>) {
        if let RolePart::Consumer(pull) = &mut self.part {
            pull.begin(out);
        }
    }

    fn take(&mut self, message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), BenchError> {
        match &mut self.part {
            RolePart::Publisher => return Err(message.unexpected()),
            RolePart::Requester { size } => {
                let number = answered(message)?;
                check_size(message, *size)?;
                self.arrived.push(number);
            }
            RolePart::Storing { answer, is_arrival } => {
                let number = answered(message)?;
                let (header, payload) = (message.header, message.payload);
                answer.sequence(&Envelope { tail: b"", header, payload })?;
                match is_arrival {
                    true => self.arrived.push(number),
                    false => self.stored += 1,
                }
            }
            RolePart::Subscriber { size } => {
                check_size(message, *size)?;
                self.arrived.push(stamped(message)?);
            }
            RolePart::Consumer(pull) => {
                let before = pull.count();
                pull.take(message, out)?;
                if pull.count() > before {
                    self.arrived.push(stamped(message)?);
                }
            }
        }
        Ok(())
    }

    fn count(&self) -> u64 {
        self.arrived.len() as u64
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// The number in the subject that an answer came to. A server's word that nobody is there is an
/// error.
fn answered(message: &Message<'_>) -> Result<u64, BenchError> {
    if message.status() == Some(503) {
        return Err(BenchError::NoResponder);
    }
    let token = message.subject.rsplit(|&byte| byte == b'.').next();
    token.and_then(token::read).ok_or_else(|| message.unexpected())
}

fn stamped(message: &Message<'_>) -> Result<u64, BenchError> {
    let stamp = message.payload.first_chunk::<STAMP>();
    stamp.map(|stamp| u64::from_le_bytes(*stamp)).ok_or_else(|| message.unexpected())
}

fn check_size(message: &Message<'_>, size: usize) -> Result<(), BenchError> {
    match message.payload.len() == size {
        true => Ok(()),
        false => Err(message.unexpected()),
    }
}

/// How the messages of one connection look.
#[derive(Debug)]
pub(super) struct Frame {
    /// The line up to the payload, with a blank token where there is a reply subject.
    head: Vec<u8>,
    token: Option<usize>,
    size: usize,
    is_stamped: bool,
}

impl Frame {
    /// `inbox` is where answers are wanted; without one the payload says the number.
    pub(super) fn new(subject: &str, inbox: Option<&str>, size: usize, is_stamped: bool) -> Self {
        let head = match inbox {
            Some(inbox) => format!("PUB {subject} {inbox}.{} {size}\r\n", token::BLANK),
            None => format!("PUB {subject} {size}\r\n"),
        };
        let token = head.find(token::BLANK);
        Self { head: head.into_bytes(), token, size, is_stamped }
    }

    /// Appends the message with this number.
    pub(super) fn write(&self, number: u64, noise: &Noise, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.head);
        if let Some(token) = self.token {
            token::write(&mut out[start + token..], number % token::TOKENS);
        }
        let payload = out.len();
        out.extend_from_slice(noise.payload(number, self.size));
        if self.is_stamped {
            out[payload..payload + STAMP].copy_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Random bytes, which neither a compressing store nor a network can make smaller.
#[derive(Debug)]
pub(super) struct Noise(Vec<u8>);

impl Noise {
    /// Enough for payloads of this size.
    pub(super) fn new(size: usize) -> Self {
        // SplitMix64; always the same bytes, so that two systems are sent the same.
        let mut state = 0x6D79_656C_696E_u64;
        let mut word = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (mixed ^ (mixed >> 31)).to_le_bytes()
        };
        let words = (size + SPARE).div_ceil(8);
        Self((0..words).flat_map(|_| word()).collect())
    }

    fn payload(&self, number: u64, size: usize) -> &[u8] {
        let starts = (self.0.len() - size) as u64;
        let start = (number.wrapping_mul(0x9E37_79B9) % starts) as usize;
        &self.0[start..start + size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_pool::inbox::{Arrival, Inbox};

    /// Takes what `role` is told from these bytes.
    fn told(role: &mut Role<'_>, bytes: &[u8]) -> Result<(), BenchError> {
        let mut inbox = Inbox::new(bytes);
        let Some(Arrival::Message(message)) = inbox.next().unwrap() else { panic!("no message") };
        role.take(&message, &mut Vec::new())
    }

    fn arrived(part: RolePart<'_>, bytes: &[u8]) -> Result<Vec<u64>, BenchError> {
        let mut role = Role::new(part);
        told(&mut role, bytes)?;
        Ok(role.arrived)
    }

    #[test]
    fn a_request_is_known_by_its_reply_subject() {
        let (frame, noise) = (Frame::new("s.0", Some("_INBOX.x"), 5, false), Noise::new(5));
        let mut out = Vec::new();
        frame.write(33, &noise, &mut out);
        assert!(out.starts_with(b"PUB s.0 _INBOX.x.000011 5\r\n") && out.ends_with(b"\r\n"), "{out:?}");
        assert_eq!(out.len(), b"PUB s.0 _INBOX.x.000011 5\r\n".len() + 5 + 2);
        let requester = || RolePart::Requester { size: 5 };
        assert_eq!(arrived(requester(), b"MSG _INBOX.x.000011 1 5\r\nhello\r\n").unwrap(), [33]);
        for wrong in [&b"MSG _INBOX.x.000011 1 4\r\nhell\r\n"[..], b"MSG _INBOX.x.11 1 5\r\nhello\r\n"] {
            assert!(arrived(requester(), wrong).is_err());
        }
        let nobody = b"HMSG _INBOX.x.000011 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n";
        assert!(matches!(arrived(requester(), nobody), Err(BenchError::NoResponder)));
    }

    #[test]
    fn a_message_that_arrives_itself_is_known_by_its_payload() {
        let (frame, noise) = (Frame::new("s.0", None, 20, true), Noise::new(20));
        let mut out = Vec::new();
        frame.write(70_000, &noise, &mut out);
        let sent = out.strip_prefix(b"PUB s.0 20\r\n").unwrap();
        let delivered = [b"MSG s.0 1 20\r\n", sent].concat();
        assert_eq!(arrived(RolePart::Subscriber { size: 20 }, &delivered).unwrap(), [70_000]);
        assert!(arrived(RolePart::Subscriber { size: 21 }, &delivered).is_err());
        assert!(arrived(RolePart::Publisher, &delivered).is_err());
    }

    #[test]
    fn a_stored_message_is_an_arrival_where_nobody_consumes_it() {
        let ack = b"MSG _INBOX.x.00000A 1 22\r\n{\"stream\":\"S\",\"seq\":3}\r\n";
        let storing = |is_arrival| RolePart::Storing { answer: Acknowledgement::of("S"), is_arrival };
        assert_eq!(arrived(storing(true), ack).unwrap(), [10]);
        let mut role = Role::new(storing(false));
        told(&mut role, ack).unwrap();
        assert_eq!((role.arrived.len(), role.stored), (0, 1));
    }

    #[test]
    fn payloads_are_noise_and_differ() {
        let noise = Noise::new(256);
        let payloads: std::collections::BTreeSet<_> =
            (0..1000).map(|number| noise.payload(number, 256)).collect();
        assert_eq!(payloads.len(), 1000);
        // A byte of noise is any of 256 values, about equally often.
        let mut counts = [0_u32; 256];
        noise.0.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        assert!(counts.iter().all(|count| (150..400).contains(count)), "{counts:?}");
        assert_eq!(noise.payload(5, 0), b"");
    }
}

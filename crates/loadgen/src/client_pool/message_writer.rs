//! How the messages of a benchmark are written: subjects in rotation, headers, payload.
//!
//! Budget per message: a few copies into the outbox, no allocation. Owns the rule which subject the
//! n-th message has, which is that of `nats bench`, and which payload belongs to it, which `verify`
//! checks at the other end.

use std::sync::Arc;

use crate::error::BenchError;
use crate::pubsub::script;

/// Subjects of the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subjects {
    /// All messages on this one.
    One(String),
    /// `base.NUMBER`, where the number is that of the message.
    Unlimited {
        /// Start of the subjects, without the dot.
        base: String,
    },
    /// `base.NUMBER` with leading zeros, below `count`, in rotation or at random.
    Numbered {
        /// Start of the subjects, without the dot.
        base: String,
        /// Number of different subjects.
        count: u64,
        /// Whether subjects are drawn at random, or taken in turn.
        is_random: bool,
    },
    /// `base.NUMBER` without leading zeros, below `count`, at random.
    Keys {
        /// Start of the subjects, without the dot.
        base: String,
        /// Number of different subjects.
        count: u64,
    },
}

impl Subjects {
    /// Subject to subscribe to for all of these subjects.
    pub fn pattern(&self) -> String {
        match self {
            Self::One(subject) => subject.clone(),
            Self::Unlimited { base } | Self::Numbered { base, .. } | Self::Keys { base, .. } => {
                format!("{base}.*")
            }
        }
    }
}

/// Payloads of a benchmark's messages.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A part of a text, from a place in it that depends on the subject.
    Text {
        /// Text that payloads are cut from.
        text: Arc<[u8]>,
        /// Bytes of each payload.
        size: usize,
    },
    /// The content of a file.
    File(Arc<[u8]>),
}

impl Payload {
    /// A payload of this many bytes, made up.
    pub fn of_size(size: usize) -> Self {
        Self::Text { text: script::text(size).into(), size }
    }

    fn of(&self, number: u64) -> &[u8] {
        match self {
            Self::Text { text, size } => script::payload(text, number as usize, *size),
            Self::File(bytes) => bytes,
        }
    }
}

/// Header lines from `KEY:VALUE` arguments, with their line ends.
pub fn header_lines(arguments: &[String]) -> Result<String, BenchError> {
    let line = |argument: &String| match argument.split_once(':') {
        Some((key, value)) if !key.trim().is_empty() && !argument.contains(['\r', '\n']) => {
            Ok(format!("{}: {}\r\n", key.trim(), value.trim()))
        }
        _ => Err(BenchError::Usage(format!("invalid header {argument:?}"))),
    };
    arguments.iter().map(line).collect()
}

/// Writes messages.
#[derive(Clone, Debug)]
pub struct Writer {
    subjects: Subjects,
    headers: Vec<u8>,
    payload: Payload,
    /// Digits of a subject's number.
    width: usize,
    random: u64,
    subject: Vec<u8>,
}

impl Writer {
    /// `seed` makes the random subjects of clients differ.
    pub fn new(subjects: Subjects, headers: &str, payload: Payload, seed: u64) -> Self {
        let width = match &subjects {
            Subjects::Numbered { count, .. } => count.to_string().len(),
            Subjects::One(_) | Subjects::Unlimited { .. } | Subjects::Keys { .. } => 1,
        };
        let random = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { subjects, headers: headers.as_bytes().to_vec(), payload, width, random, subject: Vec::new() }
    }

    /// Whether all messages are the same bytes.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.subjects, Subjects::One(_))
    }

    /// Writes the message with this number; `headers` are lines that only this one has.
    pub fn write(&mut self, out: &mut Vec<u8>, number: u64, reply: &[u8], headers: &[u8]) {
        let number = self.choose_subject(number);
        self.write_frame(out, reply, headers, Some(number));
    }

    /// Writes the message with this number without headers and payload: for a PING of a fast batch,
    /// or the end of it.
    pub(crate) fn write_empty(&mut self, out: &mut Vec<u8>, number: u64, reply: &[u8]) {
        self.choose_subject(number);
        self.write_frame(out, reply, b"", None);
    }

    fn write_frame(&self, out: &mut Vec<u8>, reply: &[u8], headers: &[u8], number: Option<u64>) {
        let payload = number.map_or(&b""[..], |number| self.payload.of(number));
        let own = if number.is_some() { &self.headers[..] } else { b"" };
        let header_size = match own.len() + headers.len() {
            0 => 0,
            lines => VERSION.len() + lines + 2,
        };
        out.extend_from_slice(if header_size > 0 { b"HPUB " } else { b"PUB " });
        out.extend_from_slice(&self.subject);
        out.push(b' ');
        if !reply.is_empty() {
            out.extend_from_slice(reply);
            out.push(b' ');
        }
        if header_size > 0 {
            push_number(out, header_size as u64, 1);
            out.push(b' ');
        }
        push_number(out, (header_size + payload.len()) as u64, 1);
        out.extend_from_slice(b"\r\n");
        if header_size > 0 {
            for part in [VERSION, own, headers, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(payload);
        out.extend_from_slice(b"\r\n");
    }

    /// Makes the subject of a message; gives the number in it.
    fn choose_subject(&mut self, number: u64) -> u64 {
        let (base, number) = match &self.subjects {
            Subjects::One(subject) => {
                if self.subject.is_empty() {
                    self.subject.extend_from_slice(subject.as_bytes());
                }
                return 0;
            }
            Subjects::Unlimited { base } => (base, number),
            Subjects::Numbered { base, count, is_random: false } => (base, number % count),
            Subjects::Numbered { base, count, is_random: true } | Subjects::Keys { base, count } => {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                (base, self.random % count)
            }
        };
        self.subject.clear();
        self.subject.extend_from_slice(base.as_bytes());
        self.subject.push(b'.');
        push_number(&mut self.subject, number, self.width);
        number
    }
}

const VERSION: &[u8] = b"NATS/1.0\r\n";

/// Appends a number with at least `width` digits.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut digits = [b'0'; 24];
    let mut place = digits.len();
    while number > 0 || digits.len() - place < width.clamp(1, 20) {
        place -= 1;
        digits[place] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[place..]);
}

/// The header by which a stream knows a message again, where messages have one.
#[derive(Clone, Debug, Default)]
pub struct Ids(Option<String>);

impl Ids {
    /// Ids that begin like this and end with the message's number.
    pub fn new(prefix: Option<String>) -> Self {
        Self(prefix)
    }

    /// Appends the header line of the message with this number, if messages have one.
    pub fn write(&self, headers: &mut Vec<u8>, number: u64) {
        if let Some(prefix) = &self.0 {
            headers.extend_from_slice(b"Nats-Msg-Id: ");
            headers.extend_from_slice(prefix.as_bytes());
            push_number(headers, number, 1);
            headers.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(subjects: Subjects, headers: &str, calls: &[(u64, &str, &str)]) -> String {
        let mut writer = Writer::new(subjects, headers, Payload::File(b"hi".as_slice().into()), 1);
        let mut out = Vec::new();
        for (number, reply, own) in calls {
            writer.write(&mut out, *number, reply.as_bytes(), own.as_bytes());
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn messages_are_those_of_the_protocol() {
        let one = || Subjects::One("a.b".into());
        assert_eq!(
            written(one(), "", &[(7, "", ""), (8, "r", "")]),
            "PUB a.b 2\r\nhi\r\nPUB a.b r 2\r\nhi\r\n"
        );
        let headed = written(one(), "K: v\r\n", &[(0, "r", "I: 1\r\n")]);
        assert_eq!(headed, "HPUB a.b r 24 26\r\nNATS/1.0\r\nK: v\r\nI: 1\r\n\r\nhi\r\n");
    }

    #[test]
    fn subjects_have_the_digits_of_the_original() {
        let numbered = |is_random| Subjects::Numbered { base: "b".into(), count: 100, is_random };
        let text = written(numbered(false), "", &[(5, "", ""), (199, "", "")]);
        assert_eq!(text, "PUB b.005 2\r\nhi\r\nPUB b.099 2\r\nhi\r\n");
        let unlimited = written(Subjects::Unlimited { base: "b".into() }, "", &[(123_456, "", "")]);
        assert!(unlimited.starts_with("PUB b.123456 2"), "{unlimited}");
        let random = written(numbered(true), "", &[(0, "", ""); 50]);
        let different: std::collections::BTreeSet<_> = random.split("PUB b.").collect();
        assert!(different.len() > 20, "{random}");
        assert_eq!(numbered(true).pattern(), "b.*");
    }

    #[test]
    fn headers_are_read_from_arguments() {
        let lines = header_lines(&["A:b".into(), " C : d:e ".into()]).unwrap();
        assert_eq!(lines, "A: b\r\nC: d:e\r\n");
        for wrong in ["x", ":v", "a:b\r\nc:d"] {
            assert!(header_lines(&[wrong.into()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_have_a_least_width() {
        let shown = |number, width| {
            let mut out = Vec::new();
            push_number(&mut out, number, width);
            String::from_utf8(out).unwrap()
        };
        assert_eq!([shown(0, 1), shown(42, 1), shown(42, 6)], ["0", "42", "000042"]);
        assert_eq!(shown(u64::MAX, 3), u64::MAX.to_string());
    }
}

//! Buffers: messages on their way between connections, services and streams, many in two
//! allocations.
//!
//! What a service delivers may lie here as the frame that its receiver gets, but for the sid:
//! nothing of it is rendered again when it is sent. Where messages go is remembered once for all
//! that go to the same place.
//!
//! Perf: a message is one copy into a buffer that is kept; no allocation of its own, no reference
//! count.

use crate::encode;
use std::ops::Range;

/// Buffers beyond this are given back when a buffer is emptied.
const SPARE_BYTES: usize = 1024 * 1024;

/// Messages in order. What they mean depends on who holds the buffer: what a service gets, or what
/// it sends.
#[derive(Default)]
pub struct MessageBuf {
    bytes: Vec<u8>,
    places: Vec<MessageSlot>,
    /// Where messages go that show another subject; each stands in `bytes`, in front of the first
    /// message that goes there.
    addresses: Vec<Range<usize>>,
}

/// One message: its parts stand in this order, the subject at `start`.
#[derive(Clone, Copy)]
struct MessageSlot {
    start: usize,
    /// The number of its address, from 1; 0: none.
    to: u32,
    subject: u32,
    reply: u32,
    /// Length of what a frame has between reply and headers; 0: it is no frame.
    sizes: u32,
    headers: u32,
    payload: u32,
}

/// Bytes of a frame beside the parts of its message, at most: the verb, spaces, two sizes and line
/// ends.
const LONGEST_FRAMING: usize = 5 + 3 + 2 * 10 + 4;
/// Verb in front of a frame's subject.
const VERB: &[u8] = b"HMSG ";
const LINE_END: &[u8] = b"\r\n";
/// Bytes of a message at most, all parts together: sizes on the wire have nine digits.
const LARGEST: usize = u32::MAX as usize - LONGEST_FRAMING;
/// Addresses that a new message's is compared with: those who pull from one consumer get its
/// messages in turn.
const RECENT: usize = 8;

/// A message as its receiver gets it, but for the sid, which belongs between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    /// The number of where it goes, from 0; `None`: where its subject says.
    pub address: Option<usize>,
    /// `HMSG <subject> `, or without headers `MSG <subject> `.
    pub head: &'a [u8],
    /// From the reply to the end.
    pub tail: &'a [u8],
    /// Bytes of the header block, 0 if there is none.
    pub header_len: usize,
    /// Headers and payload.
    pub body: &'a [u8],
}

/// A message in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MessageRef<'a> {
    /// The subject by which it is routed, where that is not the one that receivers see: a delivery
    /// goes to an inbox and shows where the message was stored. Empty: `subject` is both. Messages
    /// of connections have it empty.
    pub to: &'a [u8],
    /// Where it was published.
    pub subject: &'a [u8],
    /// Where an answer is expected; empty for none.
    pub reply: &'a [u8],
    /// The whole header block, or nothing.
    pub headers: &'a [u8],
    /// The rest.
    pub payload: &'a [u8],
}

/// A length within a message, or the number of an address, as a slot states it.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "messages are below `LARGEST`, addresses fewer than bytes"
)]
fn stated(length: usize) -> u32 {
    debug_assert!(u32::try_from(length).is_ok(), "a part is no longer than its message");
    length as u32
}

impl MessageBuf {
    /// Adds a message.
    #[inline]
    pub fn push(&mut self, msg: MessageRef<'_>) {
        let MessageRef { to, subject, reply, headers, payload } = msg;
        let parts = to.len() + subject.len() + reply.len() + headers.len() + payload.len();
        assert!(parts <= LARGEST, "a message has a size of nine digits");
        self.bytes.reserve(parts);
        let to = if to.is_empty() { 0 } else { self.number(to) };
        let start = self.bytes.len();
        for part in [subject, reply, headers, payload] {
            self.bytes.extend_from_slice(part);
        }
        self.places.push(MessageSlot {
            start,
            to,
            subject: stated(subject.len()),
            reply: stated(reply.len()),
            sizes: 0,
            headers: stated(headers.len()),
            payload: stated(payload.len()),
        });
    }

    /// Adds a message that goes to a client, as that gets it.
    #[inline]
    pub fn push_framed(&mut self, msg: MessageRef<'_>) {
        let MessageRef { to, subject, reply, headers, payload } = msg;
        let parts = to.len() + subject.len() + reply.len() + headers.len() + payload.len();
        assert!(parts <= LARGEST, "a message has a size of nine digits");
        self.bytes.reserve(parts + LONGEST_FRAMING);
        let to = if to.is_empty() { 0 } else { self.number(to) };
        self.bytes.extend_from_slice(VERB);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(subject);
        self.bytes.push(b' ');
        self.bytes.extend_from_slice(reply);
        let sizes_at = self.bytes.len();
        if !reply.is_empty() {
            self.bytes.push(b' ');
        }
        if !headers.is_empty() {
            encode::number(&mut self.bytes, headers.len());
            self.bytes.push(b' ');
        }
        encode::number(&mut self.bytes, headers.len() + payload.len());
        self.bytes.extend_from_slice(LINE_END);
        let sizes = self.bytes.len() - sizes_at;
        self.bytes.extend_from_slice(headers);
        self.bytes.extend_from_slice(payload);
        self.bytes.extend_from_slice(LINE_END);
        self.places.push(MessageSlot {
            start,
            to,
            subject: stated(subject.len()),
            reply: stated(reply.len()),
            sizes: stated(sizes),
            headers: stated(headers.len()),
            payload: stated(payload.len()),
        });
    }

    /// Adds a message without reply and headers as its receivers get it, whose payload of `size`
    /// bytes `write` appends.
    ///
    /// Perf: what is large is written where it is sent from, and copied nowhere on the way.
    pub fn push_framed_with(&mut self, subject: &[u8], size: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let parts = subject.len() + size;
        assert!(parts <= LARGEST, "a message has a size of nine digits");
        self.bytes.reserve(parts + LONGEST_FRAMING);
        self.bytes.extend_from_slice(VERB);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(subject);
        self.bytes.push(b' ');
        let sizes_at = self.bytes.len();
        encode::number(&mut self.bytes, size);
        self.bytes.extend_from_slice(LINE_END);
        let payload_at = self.bytes.len();
        write(&mut self.bytes);
        assert_eq!(self.bytes.len() - payload_at, size, "a payload has the size that its frame says");
        self.bytes.extend_from_slice(LINE_END);
        self.places.push(MessageSlot {
            start,
            to: 0,
            subject: stated(subject.len()),
            reply: 0,
            sizes: stated(payload_at - sizes_at),
            headers: 0,
            payload: stated(size),
        });
    }

    /// Its memory, and where in it the payloads of its messages are, in order.
    #[must_use]
    pub fn into_payloads(self) -> (Vec<u8>, Vec<Range<usize>>) {
        let payload = |place: &MessageSlot| {
            let head = place.subject + place.reply + u32::from(place.sizes > 0) + place.sizes + place.headers;
            let start = place.start + head as usize;
            start..start + place.payload as usize
        };
        let payloads = self.places.iter().map(payload).collect();
        (self.bytes, payloads)
    }

    /// The number of an address, from 1 and perhaps a new one.
    #[inline(never)]
    fn number(&mut self, to: &[u8]) -> u32 {
        // Those who pull from one consumer mostly get its messages in turn: the next one after the
        // last is the first guess.
        let last = self.places.last().map_or(0, |place| place.to as usize);
        let next = if last < self.addresses.len() { last } else { 0 };
        let recent = self.addresses.iter().enumerate().rev().take(RECENT);
        for (at, known) in self.addresses.get(next).map(|known| (next, known)).into_iter().chain(recent) {
            if &self.bytes[known.clone()] == to {
                return stated(at) + 1;
            }
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(to);
        self.addresses.push(start..self.bytes.len());
        stated(self.addresses.len())
    }

    /// Message number `at`.
    #[inline]
    pub fn get(&self, at: usize) -> Option<MessageRef<'_>> {
        let place = self.places.get(at)?;
        let to = if place.to == 0 { b"" } else { self.address(place.to as usize - 1) };
        let (subject, rest) = self.bytes[place.start..].split_at(place.subject as usize);
        // Of a frame: behind a space.
        let (reply, rest) = rest[usize::from(place.sizes > 0)..].split_at(place.reply as usize);
        let (headers, rest) = rest[place.sizes as usize..].split_at(place.headers as usize);
        Some(MessageRef { to, subject, reply, headers, payload: &rest[..place.payload as usize] })
    }

    /// Message number `at`, if it lies here as a frame.
    #[inline]
    pub fn framed(&self, at: usize) -> Option<Framed<'_>> {
        let place = self.places.get(at).filter(|place| place.sizes > 0)?;
        let address = (place.to as usize).checked_sub(1);
        let (head, rest) =
            self.bytes[place.start - VERB.len()..].split_at(VERB.len() + place.subject as usize + 1);
        let head = if place.headers > 0 { head } else { &head[1..] };
        let body_at = place.reply as usize + place.sizes as usize;
        let body_end = body_at + place.headers as usize + place.payload as usize;
        let tail = &rest[..body_end + LINE_END.len()];
        Some(Framed {
            address,
            head,
            tail,
            header_len: place.headers as usize,
            body: &tail[body_at..body_end],
        })
    }

    /// An address by its number, from 0.
    pub fn address(&self, at: usize) -> &[u8] {
        &self.bytes[self.addresses[at].clone()]
    }

    /// How many places its messages go to, beside those that go where they say.
    pub fn addresses(&self) -> usize {
        self.addresses.len()
    }

    /// All messages, in order.
    pub fn iter(&self) -> impl Iterator<Item = MessageRef<'_>> {
        (0..self.len()).map_while(|at| self.get(at))
    }

    /// How many messages.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has memory for messages.
    pub fn has_memory(&self) -> bool {
        self.bytes.capacity() > 0
    }

    /// Moves all messages of `other` behind those here.
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        let shift = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        let known = stated(self.addresses.len());
        let numbered = |to: u32| if to > 0 { to + known } else { 0 };
        let moved =
            |place: MessageSlot| MessageSlot { start: place.start + shift, to: numbered(place.to), ..place };
        self.places.extend(other.places.drain(..).map(moved));
        let moved = |to: Range<usize>| to.start + shift..to.end + shift;
        self.addresses.extend(other.addresses.drain(..).map(moved));
    }

    /// Empties it and keeps its memory, unless that is large.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(SPARE_BYTES);
        self.places.clear();
        self.places.shrink_to(SPARE_BYTES / size_of::<MessageSlot>());
        self.addresses.clear();
        self.addresses.shrink_to(SPARE_BYTES / size_of::<Range<usize>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn msg(n: &'static [u8]) -> MessageRef<'static> {
        MessageRef { subject: n, reply: b"r", payload: n, ..MessageRef::default() }
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        let mut msgs = MessageBuf::default();
        let whole = MessageRef {
            to: b"_INBOX.x",
            subject: b"a.b",
            reply: b"in.box",
            headers: b"NATS/1.0\r\n\r\n",
            payload: b"hello",
        };
        msgs.push(whole);
        msgs.push(msg(b"x"));
        assert_eq!(msgs.get(0), Some(whole));
        assert_eq!(msgs.iter().collect::<Vec<_>>(), [whole, msg(b"x")]);
        assert_eq!((msgs.len(), msgs.bytes(), msgs.get(2)), (2, 37, None));
    }

    #[test]
    fn frames_are_messages_too() {
        let mut msgs = MessageBuf::default();
        let plain =
            MessageRef { to: b"_INBOX.x", subject: b"a.b", reply: b"r.1", headers: b"", payload: b"hello" };
        let others = [
            MessageRef { to: b"_INBOX.y", headers: b"NATS/1.0\r\n\r\n", ..plain },
            MessageRef { reply: b"", ..plain },
            MessageRef { to: b"", ..plain },
        ];
        msgs.push_framed(plain);
        others.iter().for_each(|msg| msgs.push_framed(*msg));
        msgs.push(plain);
        let all = [plain, others[0], others[1], others[2], plain];
        assert_eq!(msgs.iter().collect::<Vec<_>>(), all);
        let frames: Vec<_> = (0..5).map(|at| msgs.framed(at)).collect();
        let shown = |at: usize| {
            let frame = frames[at].as_ref()?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Some((frame.address, text(frame.head), text(frame.tail), frame.header_len, text(frame.body)))
        };
        let expected = |address, head: &str, tail: &str, header_len, body: &str| {
            Some((address, head.to_owned(), tail.to_owned(), header_len, body.to_owned()))
        };
        let dressed = "NATS/1.0\r\n\r\nhello";
        assert_eq!(shown(0), expected(Some(0), "MSG a.b ", "r.1 5\r\nhello\r\n", 0, "hello"));
        let tail = format!("r.1 12 17\r\n{dressed}\r\n");
        assert_eq!(shown(1), expected(Some(1), "HMSG a.b ", &tail, 12, dressed));
        assert_eq!(shown(2), expected(Some(0), "MSG a.b ", "5\r\nhello\r\n", 0, "hello"));
        assert_eq!(shown(3), expected(None, "MSG a.b ", "r.1 5\r\nhello\r\n", 0, "hello"));
        assert_eq!((frames[4], msgs.addresses()), (None, 2));
        let mut whole = MessageBuf::default();
        whole.push_framed(plain);
        whole.append(&mut msgs);
        assert_eq!(whole.iter().skip(1).collect::<Vec<_>>(), all);
        assert_eq!(whole.framed(2).and_then(|frame| frame.address), Some(2));
        assert_eq!((msgs.addresses(), msgs.len()), (0, 0));
    }

    #[test]
    fn what_is_written_in_place_is_a_message_and_payloads_are_found() {
        let plain = MessageRef { to: b"_INBOX.x", headers: b"NATS/1.0\r\n\r\n", ..msg(b"x") };
        let mut msgs = MessageBuf::default();
        msgs.push(plain);
        msgs.push_framed_with(b"a.b", 12, |bytes| bytes.extend_from_slice(b"written here"));
        msgs.push_framed(plain);
        let written = MessageRef { subject: b"a.b", payload: b"written here", ..MessageRef::default() };
        assert_eq!(msgs.get(1), Some(written));
        let framed = msgs.framed(1).unwrap();
        assert_eq!(
            (framed.address, framed.head, framed.tail),
            (None, &b"MSG a.b "[..], &b"12\r\nwritten here\r\n"[..])
        );
        let expected: Vec<_> = msgs.iter().map(|msg| msg.payload.to_vec()).collect();
        let (memory, payloads) = msgs.into_payloads();
        assert_eq!(payloads.into_iter().map(|at| memory[at].to_vec()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_parcel_joins_another_in_order() {
        let (mut first, mut second) = (MessageBuf::default(), MessageBuf::default());
        first.push(msg(b"1"));
        second.push(msg(b"2"));
        first.append(&mut second);
        first.append(&mut second);
        assert_eq!(first.iter().collect::<Vec<_>>(), [msg(b"1"), msg(b"2")]);
        first.clear();
        assert!(first.is_empty() && first.bytes() == 0);
    }
}

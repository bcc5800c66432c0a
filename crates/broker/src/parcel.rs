//! Parcels: messages on their way between connections and services, many in two allocations.
//!
//! Perf: a message is one copy into a buffer that is kept; no allocation of its own, no reference count.

use crate::conn::Conn;
use crate::message_trace::Traced;
use std::sync::Arc;

/// Buffers beyond this are given back when a parcel is emptied.
const SPARE_BYTES: usize = 1024 * 1024;

/// Messages in order. What they mean depends on who holds the parcel: what a service gets, or what it sends.
#[derive(Default)]
pub struct Parcel {
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// Who sent each message, where the service wants to know.
    origins: Vec<Arc<Conn>>,
    /// Messages that are traced, by their number: few, if any.
    traces: Vec<(usize, Traced)>,
}

/// One message: its parts stand in this order at `start`.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    to: u32,
    subject: u32,
    reply: u32,
    headers: u32,
    payload: u32,
}

/// A message in a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Letter<'a> {
    /// The subject by which it is routed, where that is not the one that receivers see: a delivery goes to an inbox and
    /// shows where the message was stored. Empty: `subject` is both. Messages of connections have it empty.
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

impl Parcel {
    /// Adds a message.
    #[inline]
    pub fn push(&mut self, letter: Letter<'_>) {
        let Letter { to, subject, reply, headers, payload } = letter;
        let start = self.bytes.len();
        self.bytes.reserve(to.len() + subject.len() + reply.len() + headers.len() + payload.len());
        for part in [to, subject, reply, headers, payload] {
            self.bytes.extend_from_slice(part);
        }
        self.places.push(Place {
            start,
            to: to.len() as u32,
            subject: subject.len() as u32,
            reply: reply.len() as u32,
            headers: headers.len() as u32,
            payload: payload.len() as u32,
        });
    }

    /// Adds a message with who sent it. Either all messages of a parcel have an origin or none.
    pub(crate) fn push_from(&mut self, letter: Letter<'_>, origin: &Arc<Conn>) {
        self.push(letter);
        self.origins.push(Arc::clone(origin));
    }

    /// Adds a message that is traced, if it is.
    pub fn push_traced(&mut self, letter: Letter<'_>, trace: Option<&Traced>) {
        self.traces.extend(trace.map(|trace| (self.len(), trace.clone())));
        self.push(letter);
    }

    /// The trace of message number `at`, if it is traced.
    pub fn trace(&self, at: usize) -> Option<&Traced> {
        self.traces.iter().find(|(number, _)| *number == at).map(|(_, trace)| trace)
    }

    /// Traces of its messages.
    pub fn traces(&self) -> impl Iterator<Item = &Traced> {
        self.traces.iter().map(|(_, trace)| trace)
    }

    /// Whether any message is traced.
    #[inline]
    pub fn is_traced(&self) -> bool {
        !self.traces.is_empty()
    }

    /// Message number `at`.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Letter<'_>> {
        let place = self.places.get(at)?;
        let rest = &self.bytes[place.start..];
        let (to, rest) = rest.split_at(place.to as usize);
        let (subject, rest) = rest.split_at(place.subject as usize);
        let (reply, rest) = rest.split_at(place.reply as usize);
        let (headers, rest) = rest.split_at(place.headers as usize);
        Some(Letter { to, subject, reply, headers, payload: &rest[..place.payload as usize] })
    }

    /// Who sent message number `at`, where that was noted.
    pub fn origin(&self, at: usize) -> Option<&Arc<Conn>> {
        self.origins.get(at)
    }

    /// All messages, in order.
    pub fn iter(&self) -> impl Iterator<Item = Letter<'_>> {
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

    /// Bytes of all parts of all messages.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Moves all messages of `other` behind those here.
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        let (shift, before) = (self.bytes.len(), self.len());
        self.traces.extend(other.traces.drain(..).map(|(at, trace)| (at + before, trace)));
        self.bytes.append(&mut other.bytes);
        self.places.extend(other.places.drain(..).map(|place| Place { start: place.start + shift, ..place }));
        self.origins.append(&mut other.origins);
    }

    /// Empties it and keeps its memory, unless that is large.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(SPARE_BYTES);
        self.places.clear();
        self.places.shrink_to(SPARE_BYTES / size_of::<Place>());
        self.origins.clear();
        self.traces.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(n: &'static [u8]) -> Letter<'static> {
        Letter { subject: n, reply: b"r", payload: n, ..Letter::default() }
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        let mut parcel = Parcel::default();
        let whole = Letter {
            to: b"_INBOX.x",
            subject: b"a.b",
            reply: b"in.box",
            headers: b"NATS/1.0\r\n\r\n",
            payload: b"hello",
        };
        parcel.push(whole);
        parcel.push(letter(b"x"));
        assert_eq!(parcel.get(0), Some(whole));
        assert_eq!(parcel.iter().collect::<Vec<_>>(), [whole, letter(b"x")]);
        assert_eq!((parcel.len(), parcel.bytes(), parcel.get(2)), (2, 37, None));
    }

    #[test]
    fn a_parcel_joins_another_in_order() {
        let (mut first, mut second) = (Parcel::default(), Parcel::default());
        first.push(letter(b"1"));
        second.push(letter(b"2"));
        first.append(&mut second);
        first.append(&mut second);
        assert_eq!(first.iter().collect::<Vec<_>>(), [letter(b"1"), letter(b"2")]);
        first.clear();
        assert!(first.is_empty() && first.bytes() == 0);
    }
}

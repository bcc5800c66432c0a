//! The bytes of answers to a direct get.
//!
//! Perf: a head is built in a buffer that is kept, and nothing is allocated for a message.

use myelin_stdx::rfc3339;
use myelin_store::{Message, Seq};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use myelin_wire::encode;

pub(super) const MESSAGE_NOT_FOUND: &[u8] = b"NATS/1.0 404 Message Not Found\r\n\r\n";
/// Others of the stream's replicas have it. Clients take it as if nobody had listened.
pub(super) const NOT_NOW: &[u8] = b"NATS/1.0 503 Temporarily Unavailable\r\n\r\n";
pub(super) const NO_RESULTS: &[u8] = b"NATS/1.0 404 No Results\r\n\r\n";
pub(super) const BAD_REQUEST: &[u8] = b"NATS/1.0 408 Bad Request\r\n\r\n";
pub(super) const EMPTY_REQUEST: &[u8] = b"NATS/1.0 408 Empty Request\r\n\r\n";
pub(super) const MALFORMED_REQUEST: &[u8] = b"NATS/1.0 408 Malformed Request\r\n\r\n";
pub(super) const REQUIRED_API_LEVEL: &[u8] = b"NATS/1.0 412 Required Api Level\r\n\r\n";
pub(super) const TOO_MANY_RESULTS: &[u8] = b"NATS/1.0 413 Too Many Results\r\n\r\n";

const TOO_MANY_REQUESTS: &[u8] = b"NATS/1.0 429 Too Many Requests\r\n\r\n";

const LINE: &[u8] = b"NATS/1.0\r\n";
const END_OF_BATCH: &[u8] = b"NATS/1.0 204 EOB\r\n";
const BLANK: &[u8] = b"\r\n";

/// Where a message stands in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchPosition {
    /// Messages behind it.
    pub(super) pending: u64,
    /// The message before it in the answer; 0: none.
    pub(super) last: Seq,
}

/// An answer without payload.
pub(super) fn push_status(out: &mut MessageBuf, to: &[u8], status: &[u8]) {
    out.push(MessageRef { subject: to, headers: status, ..MessageRef::default() });
}

/// The answer to a request that found too many others waiting. Compat: the reference has no such
/// limit; the words are those of its other answers with this number.
pub fn refuse(out: &mut MessageBuf, to: &[u8]) {
    push_status(out, to, TOO_MANY_REQUESTS);
}

/// Builds heads, one at a time.
#[derive(Debug, Default)]
pub(super) struct HeaderBuf(Vec<u8>);

impl HeaderBuf {
    /// The stored headers, and behind them where the message comes from.
    pub(super) fn message(
        &mut self,
        stream: &str,
        message: &Message<'_>,
        place: Option<BatchPosition>,
    ) -> &[u8] {
        self.0.clear();
        match message.headers.strip_suffix(BLANK) {
            Some(stored) if !stored.is_empty() => self.0.extend_from_slice(stored),
            _ => self.0.extend_from_slice(LINE),
        }
        self.text(b"Nats-Stream: ", stream.as_bytes());
        self.text(b"Nats-Subject: ", message.subject);
        self.number(b"Nats-Sequence: ", message.seq);
        self.0.extend_from_slice(b"Nats-Time-Stamp: ");
        rfc3339::write(&mut self.0, message.timestamp);
        self.0.extend_from_slice(BLANK);
        if let Some(place) = place {
            self.place(place);
        }
        self.0.extend_from_slice(BLANK);
        &self.0
    }

    /// The end of a batch; of the last messages of many subjects with the sequence up to which
    /// these are the last.
    pub(super) fn end(&mut self, place: BatchPosition, up_to: Option<Seq>) -> &[u8] {
        self.0.clear();
        self.0.extend_from_slice(END_OF_BATCH);
        self.place(place);
        if let Some(up_to) = up_to {
            self.number(b"Nats-UpTo-Sequence: ", up_to);
        }
        self.0.extend_from_slice(BLANK);
        &self.0
    }

    fn place(&mut self, BatchPosition { pending, last }: BatchPosition) {
        self.number(b"Nats-Num-Pending: ", pending);
        self.number(b"Nats-Last-Sequence: ", last);
    }

    fn text(&mut self, key: &[u8], value: &[u8]) {
        for part in [key, value, BLANK] {
            self.0.extend_from_slice(part);
        }
    }

    fn number(&mut self, key: &[u8], value: u64) {
        self.0.extend_from_slice(key);
        encode::number(&mut self.0, value);
        self.0.extend_from_slice(BLANK);
    }
}

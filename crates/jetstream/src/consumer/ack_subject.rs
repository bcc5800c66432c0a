//! The subject of an acknowledgement: which delivery it is about.
//!
//! `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>`, or with the domain and a hash of
//! the account in front of the stream, and perhaps more behind.

use myelin_store::consumer::DeliverySeq;
use myelin_store::{Seq, Timestamp};
use myelin_wire::encode;
use sha2::{Digest as _, Sha256};

const PREFIX: &[u8] = b"$JS.ACK.";

/// What such a subject says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSubject<'a> {
    /// Whose delivery.
    pub consumer: &'a [u8],
    /// Which delivery of the message, from 1.
    pub deliveries: u64,
    /// Which message; 0: the subject names none.
    pub seq: Seq,
    /// Which delivery of the consumer.
    pub delivery: DeliverySeq,
}

impl<'a> AckSubject<'a> {
    /// Reads a subject of either form. `None`: it has neither.
    #[must_use]
    pub fn read(subject: &'a [u8]) -> Option<Self> {
        let rest = subject.strip_prefix(PREFIX)?;
        let mut tokens: [&[u8]; 10] = [b""; 10];
        let mut count = 0;
        for token in rest.split(|byte| *byte == b'.') {
            if let Some(place) = tokens.get_mut(count) {
                *place = token;
            }
            count += 1;
        }
        let at = match count {
            7 => 0,
            9.. => 2,
            _ => return None,
        };
        Some(Self {
            consumer: tokens[at + 1],
            deliveries: number(tokens[at + 2]),
            seq: number(tokens[at + 3]),
            delivery: DeliverySeq(number(tokens[at + 4])),
        })
    }
}

/// Compat: what is no number is 0.
fn number(token: &[u8]) -> u64 {
    std::str::from_utf8(token).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Writes the subjects of one consumer's deliveries.
pub(super) struct AckSubjects {
    prefix: Vec<u8>,
    buffer: Vec<u8>,
}

/// What the longer form says of the account: eight letters and digits of a hash of its name.
pub(crate) fn account_hash(name: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let hash = Sha256::digest(name.as_bytes());
    hash.iter().take(8).map(|byte| char::from(DIGITS[usize::from(*byte) % DIGITS.len()])).collect()
}

/// One delivery, as its subject names it.
pub(super) struct Named {
    pub(super) deliveries: u64,
    pub(super) seq: Seq,
    pub(super) delivery: u64,
    pub(super) timestamp: Timestamp,
    pub(super) pending: u64,
}

impl AckSubjects {
    pub(super) fn new(stream: &str, consumer: &str) -> Self {
        Self { prefix: format!("$JS.ACK.{stream}.{consumer}.").into_bytes(), buffer: Vec::new() }
    }

    /// The subject of a delivery.
    ///
    /// Perf: once per delivered message; five numbers behind a prefix, in a buffer that is kept.
    pub(super) fn write(&mut self, named: &Named) -> &[u8] {
        let Self { prefix, buffer } = self;
        buffer.clear();
        buffer.extend_from_slice(prefix);
        encode::number(buffer, named.deliveries);
        buffer.push(b'.');
        encode::number(buffer, named.seq);
        buffer.push(b'.');
        encode::number(buffer, named.delivery);
        buffer.push(b'.');
        encode::number(buffer, named.timestamp.unsigned_abs());
        buffer.push(b'.');
        encode::number(buffer, named.pending);
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut subjects = AckSubjects::new("S", "C");
        let named = Named { deliveries: 2, seq: 30, delivery: 4, timestamp: 1_700_000_000_000, pending: 0 };
        let subject = subjects.write(&named);
        assert_eq!(subject, b"$JS.ACK.S.C.2.30.4.1700000000000.0");
        let read = AckSubject { consumer: b"C", deliveries: 2, seq: 30, delivery: DeliverySeq(4) };
        assert_eq!(AckSubject::read(subject), Some(read));
    }

    #[test]
    fn the_longer_form_may_have_more_behind() {
        let read = AckSubject { consumer: b"C", deliveries: 1, seq: 2, delivery: DeliverySeq(3) };
        for subject in [&b"$JS.ACK._.hash.S.C.1.2.3.4.5"[..], b"$JS.ACK.hub.hash.S.C.1.2.3.4.5.random"] {
            assert_eq!(AckSubject::read(subject), Some(read));
        }
        for subject in
            [&b"$JS.ACK.S.C.1.2.3.4"[..], b"$JS.ACK.S.C.1.2.3.4.5.6", b"$JS.API.S.C.1.2.3.4.5", b""]
        {
            assert_eq!(AckSubject::read(subject), None, "{}", String::from_utf8_lossy(subject));
        }
        let read = AckSubject::read(b"$JS.ACK.S.C.x.-1..4.5").unwrap();
        assert_eq!((read.deliveries, read.seq, read.delivery), (0, 0, DeliverySeq(0)));
    }

    #[test]
    fn accounts_are_named_by_the_hash_that_the_reference_uses() {
        assert_eq!(account_hash("$G"), "szMpdrwD");
    }
}

//! The subject of an acknowledgement: which delivery it is about.
//!
//! `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>`, or with
//! the domain and a hash of the account in front of the stream, and perhaps more behind.

use myelin_stdx::id;
use myelin_store::consumer::DeliverySeq;
use myelin_store::{Seq, Timestamp};
use myelin_wire::encode;
use sha2::{Digest as _, Sha256};
use std::ops::Range;

const PREFIX: &[u8] = b"$JS.ACK.";

/// Fields of the reply subject of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSubject<'a> {
    /// Consumer that made the delivery.
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
        let [consumer, deliveries, seq, delivery] = tokens(subject)?;
        let [deliveries, seq, delivery] = [deliveries, seq, delivery].map(number);
        Some(Self { consumer, deliveries, seq, delivery: DeliverySeq(delivery) })
    }

    /// Consumer that made the delivery which such a subject is about.
    #[must_use]
    pub fn consumer(subject: &'a [u8]) -> Option<&'a [u8]> {
        tokens(subject).map(|[consumer, ..]| consumer)
    }
}

/// Numbers in the reply subject of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryTokens {
    /// Which message of the stream.
    pub seq: Seq,
    /// Which delivery of the consumer, from 1.
    pub delivery: u64,
    /// When the message was stored.
    pub timestamp: Timestamp,
    /// Messages that the consumer has still to deliver behind it.
    pub pending: u64,
}

impl DeliveryTokens {
    /// Reads a subject of either form. `None`: it has neither, or some number is none.
    #[must_use]
    pub fn read(subject: &[u8]) -> Option<Self> {
        let rest = std::str::from_utf8(subject.strip_prefix(PREFIX)?).ok()?;
        // Stream, consumer and the number of deliveries.
        let skipped = match rest.split('.').count() {
            7 => 3,
            9.. => 5,
            _ => return None,
        };
        let mut numbers = rest.split('.').skip(skipped).map(|token| token.parse::<u64>().ok());
        let mut number = || numbers.next().flatten();
        let (seq, delivery, timestamp, pending) = (number()?, number()?, number()?, number()?);
        Some(Self { seq, delivery, timestamp: timestamp.try_into().ok()?, pending })
    }
}

/// The tokens of the consumer and of three numbers behind it.
fn tokens(subject: &[u8]) -> Option<[&[u8]; 4]> {
    let rest = subject.strip_prefix(PREFIX)?;
    let mut tokens: [&[u8]; 7] = [b""; 7];
    let mut count = 0;
    for token in rest.split(|byte| *byte == b'.') {
        if let Some(place) = tokens.get_mut(count) {
            *place = token;
        }
        count += 1;
    }
    match (count, tokens) {
        (7, [_, consumer, deliveries, seq, delivery, ..])
        | (9.., [_, _, _, consumer, deliveries, seq, delivery]) => {
            Some([consumer, deliveries, seq, delivery])
        }
        _ => None,
    }
}

/// Compat: what is no number is 0.
fn number(token: &[u8]) -> u64 {
    std::str::from_utf8(token).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Writes the subjects of one consumer's deliveries.
///
/// Perf: once per delivered message. Most numbers differ by one from those before: only their last
/// digits are changed, where they stand.
pub(super) struct AckSubjects {
    /// Bytes in front of the numbers.
    prefix: usize,
    /// The subject of the last delivery; nothing but the prefix at first.
    subject: Vec<u8>,
    numbers: [Number; 5],
}

/// A number in a subject.
#[derive(Clone, Default)]
struct Number {
    value: u64,
    at: Range<usize>,
}

impl Number {
    /// Makes the number in `subject` another one. False: it does not fit there, and what stands
    /// there means nothing.
    #[inline]
    fn change(&mut self, subject: &mut [u8], value: u64) -> bool {
        let before = std::mem::replace(&mut self.value, value);
        if value == before {
            return true;
        }
        let digits = &mut subject[self.at.clone()];
        if before.checked_add(1) == Some(value) {
            return count_up(digits);
        }
        if before.checked_sub(1) == Some(value) {
            return count_down(digits);
        }
        encode::overwrite(digits, value)
    }
}

/// Adds one. False: that takes a digit more.
#[inline]
fn count_up(digits: &mut [u8]) -> bool {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return true;
        }
        *digit = b'0';
    }
    false
}

/// Takes one away from what is not 0. False: that takes a digit less.
#[inline]
fn count_down(digits: &mut [u8]) -> bool {
    for digit in digits.iter_mut().rev() {
        if *digit > b'0' {
            *digit -= 1;
            break;
        }
        *digit = b'9';
    }
    digits.len() == 1 || digits.first() != Some(&b'0')
}

/// Hash of the account's name in the longer form: eight characters and digits.
#[must_use]
pub fn account_hash(name: &str) -> String {
    id::short(&Sha256::digest(name.as_bytes())[..8])
}

/// One delivery, as its subject names it.
pub(super) struct AckTokens {
    pub(super) deliveries: u64,
    pub(super) seq: Seq,
    pub(super) delivery: u64,
    pub(super) timestamp: Timestamp,
    pub(super) pending: u64,
}

impl AckSubjects {
    pub(super) fn new(stream: &str, consumer: &str) -> Self {
        let subject = format!("$JS.ACK.{stream}.{consumer}.").into_bytes();
        Self { prefix: subject.len(), subject, numbers: Default::default() }
    }

    /// The subject of a delivery.
    pub(super) fn write(&mut self, tokens: &AckTokens) -> &[u8] {
        let AckTokens { deliveries, seq, delivery, timestamp, pending } = *tokens;
        let values = [deliveries, seq, delivery, timestamp.unsigned_abs(), pending];
        let Self { prefix, subject, numbers } = self;
        let fits = subject.len() > *prefix
            && numbers.iter_mut().zip(values).all(|(number, value)| number.change(subject, value));
        if !fits {
            subject.truncate(*prefix);
            for (number, value) in numbers.iter_mut().zip(values) {
                let start = subject.len();
                encode::number(subject, value);
                *number = Number { value, at: start..subject.len() };
                subject.push(b'.');
            }
            subject.pop();
        }
        subject
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut subjects = AckSubjects::new("S", "C");
        let tokens =
            AckTokens { deliveries: 2, seq: 30, delivery: 4, timestamp: 1_700_000_000_000, pending: 0 };
        let subject = subjects.write(&tokens);
        assert_eq!(subject, b"$JS.ACK.S.C.2.30.4.1700000000000.0");
        let read = AckSubject { consumer: b"C", deliveries: 2, seq: 30, delivery: DeliverySeq(4) };
        assert_eq!(AckSubject::read(subject), Some(read));
    }

    #[test]
    fn only_what_changes_is_written_anew() {
        let mut subjects = AckSubjects::new("S", "C");
        let values =
            [0, 1, 2, 9, 10, 11, 10, 9, 8, 99, 100, 99, 1000, 999, 5, 0, 1, u64::MAX, u64::MAX - 1, 0];
        for (at, value) in values.iter().enumerate() {
            for other in &values[..=at] {
                let tokens = AckTokens {
                    deliveries: 1,
                    seq: *value,
                    delivery: *other,
                    timestamp: (*value >> 1) as i64,
                    pending: *other,
                };
                let expected = format!("$JS.ACK.S.C.1.{value}.{other}.{}.{other}", value >> 1);
                assert_eq!(String::from_utf8_lossy(subjects.write(&tokens)), expected);
            }
        }
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
    fn a_delivery_says_when_its_message_was_stored_and_what_is_behind_it() {
        let read = DeliveryTokens { seq: 2, delivery: 3, timestamp: 4, pending: 5 };
        for subject in [&b"$JS.ACK.S.C.1.2.3.4.5"[..], b"$JS.ACK._.hash.S.C.1.2.3.4.5.random"] {
            assert_eq!(DeliveryTokens::read(subject), Some(read));
        }
        for subject in [&b"$JS.ACK.S.C.1.2.3.4"[..], b"$JS.ACK.S.C.1.2.x.4.5", b"$JS.FC.S.C.1.2.3.4.5", b""] {
            assert_eq!(DeliveryTokens::read(subject), None, "{}", String::from_utf8_lossy(subject));
        }
    }

    #[test]
    fn accounts_are_named_by_the_hash_that_the_reference_uses() {
        assert_eq!(account_hash("$G"), "szMpdrwD");
    }
}

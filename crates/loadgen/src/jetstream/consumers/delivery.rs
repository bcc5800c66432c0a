//! Reply subjects of delivered messages: the numbers in them, and the acknowledgement that is
//! published to them.
//!
//! Budget per message: one pass over the reply's numbers; no allocation.

use crate::jetstream::envelope::number;

/// Numbers in the reply subject of a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// How often this message has been delivered by now.
    pub times: u64,
    /// Sequence of the message in its stream.
    pub stream_sequence: u64,
    /// Number of this delivery in its consumer.
    pub consumer_sequence: u64,
    /// When the message was stored, in nanoseconds since 1970.
    pub stored: u64,
    /// Messages that the consumer has still to deliver.
    pub pending: u64,
}

/// Start of the reply subjects of all deliveries, whether they name the domain and the account or
/// not.
pub(crate) const ACK: &[u8] = b"$JS.ACK.";

impl Delivery {
    /// Reads the reply subject of a delivery; `None` for any other subject. `start` is the
    /// beginning of this consumer's reply subjects, for speed only.
    pub(crate) fn of(reply: &[u8], start: &[u8]) -> Option<Self> {
        match reply.strip_prefix(start) {
            Some(rest) => Self::numbers(rest),
            None => Self::read(reply),
        }
    }

    /// The numbers of any consumer's delivery.
    pub fn read(reply: &[u8]) -> Option<Self> {
        Self::numbers(Self::behind_names(reply.strip_prefix(ACK)?)?)
    }

    fn numbers(mut rest: &[u8]) -> Option<Self> {
        let times = token(&mut rest)?;
        let stream_sequence = token(&mut rest)?;
        let consumer_sequence = token(&mut rest)?;
        let stored = token(&mut rest)?;
        let pending = number(&mut rest)?;
        Some(Self { times, stream_sequence, consumer_sequence, stored, pending })
    }

    /// Tokens behind the names of stream and consumer: behind two tokens, or four in the longer
    /// form.
    fn behind_names(rest: &[u8]) -> Option<&[u8]> {
        let names = if rest.iter().filter(|&&byte| byte == b'.').count() > 7 { 4 } else { 2 };
        let mut rest = rest;
        for _ in 0..names {
            let dot = rest.iter().position(|&byte| byte == b'.')?;
            rest = &rest[dot + 1..];
        }
        Some(rest)
    }
}

/// An acknowledgement as official clients send it.
pub(crate) fn acknowledge(reply: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"PUB ");
    out.extend_from_slice(reply);
    out.extend_from_slice(b" 4\r\n+ACK\r\n");
}

/// Takes a number and the dot behind it off the start.
fn token(bytes: &mut &[u8]) -> Option<u64> {
    let number = number(bytes)?;
    *bytes = bytes.strip_prefix(b".")?;
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_replies_are_read() {
        let expected = Some(Delivery {
            times: 1,
            stream_sequence: 22,
            consumer_sequence: 333,
            stored: 1_795_181_408_000_000_000,
            pending: 4,
        });
        let tail = "1.22.333.1795181408000000000.4";
        for reply in [format!("$JS.ACK.S.C.{tail}"), format!("$JS.ACK._.HASH.S.C.{tail}.rand")] {
            for start in [&b"$JS.ACK.S.C."[..], b"$JS.ACK.S.D."] {
                assert_eq!(Delivery::of(reply.as_bytes(), start), expected, "{reply}");
            }
        }
        for other in ["$JS.FC.S.C.x", "", "$JS.ACK.S.C.1.2", "$JS.ACK.S.C.a.b.c.d.e"] {
            assert_eq!(Delivery::of(other.as_bytes(), b"$JS.ACK.S.C."), None, "{other}");
        }
    }
}

//! Sparkplug B: births and deaths of devices among the topics.
//!
//! A server that is aware of Sparkplug keeps births as certificates under another topic, and sets
//! the time in deaths, which are wills that were written long before.

use myelin_stdx::varint;

/// Beginning of the topic of a certificate, in front of the topic of the birth.
pub const CERTIFICATES: &str = "$sparkplug/certificates/";

/// Beginnings of subjects of messages, and of their certificates: the namespace `spBv1.0`.
const MESSAGES: &[u8] = b"spBv1//0.";
const CERTIFIED: &[u8] = b"$sparkplug.certificates.spBv1//0.";

/// Whether a topic is that of a birth: false for nearly all at their first bytes.
#[inline]
pub fn is_birth(topic: &str) -> bool {
    topic.strip_prefix("spBv1.0/").is_some_and(|rest| {
        let mut levels = rest.split('/').skip(1);
        matches!(levels.next(), Some("NBIRTH" | "DBIRTH")) && (1..=2).contains(&levels.count())
    })
}

/// Whether a message that is to be retained (`is_asked`) is. Compat: a birth is not, as its
/// certificate is what is retained of it.
#[inline]
pub fn is_retained(topic: &str, is_asked: bool) -> bool {
    is_asked && !is_birth(topic)
}

/// Message about the life of an edge node or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// A birth: kept as a certificate.
    Birth,
    /// The kept copy of a birth: delivered with the retain flag.
    Certificate,
    /// A death: its time is set when it is delivered.
    Death,
}

impl Lifecycle {
    /// Of a message on `subject`; `None` for nearly all.
    #[inline]
    pub fn of_subject(subject: &[u8]) -> Option<Self> {
        match subject.first() {
            Some(b's' | b'$') => Self::of(subject),
            _ => None,
        }
    }

    fn of(subject: &[u8]) -> Option<Self> {
        let certified = subject.strip_prefix(CERTIFIED);
        let rest = certified.or_else(|| subject.strip_prefix(MESSAGES))?;
        // The group, the kind of message, the edge node, perhaps the device.
        let mut levels = rest.split(|byte| *byte == b'.').skip(1);
        let kind = levels.next()?;
        if !(1..=2).contains(&levels.count()) {
            return None;
        }
        match kind {
            b"NBIRTH" | b"DBIRTH" if certified.is_some() => Some(Self::Certificate),
            b"NBIRTH" | b"DBIRTH" => Some(Self::Birth),
            b"NDEATH" | b"DDEATH" if certified.is_none() => Some(Self::Death),
            _ => None,
        }
    }
}

/// Appends the payload of a death with the time of its delivery, in milliseconds: the field 1 of
/// the protobuf message, the first of them, or one more at the end. A payload that is no protobuf
/// message is appended as it is.
pub fn dated_death(payload: &[u8], unix_ms: u64, out: &mut Vec<u8>) {
    /// Field 1, a varint.
    const TIMESTAMP: u64 = 1 << 3;
    let mut rest = payload;
    let (before, behind) = loop {
        if rest.is_empty() {
            break (payload, rest);
        }
        let at = payload.len() - rest.len();
        match field(&mut rest) {
            Some(TIMESTAMP) => break (&payload[..at], rest),
            Some(_) => {}
            None => return out.extend_from_slice(payload),
        }
    };
    out.extend_from_slice(before);
    varint::put(TIMESTAMP, out);
    varint::put(unix_ms, out);
    out.extend_from_slice(behind);
}

/// Takes a field off a protobuf message: number and kind of it.
fn field(rest: &mut &[u8]) -> Option<u64> {
    let tag = varint::take(rest)?;
    let number = tag >> 3;
    if number == 0 || number > i32::MAX as u64 {
        return None;
    }
    let len = match tag & 7 {
        0 => {
            varint::take(rest)?;
            0
        }
        1 => 8,
        2 => usize::try_from(varint::take(rest)?).ok()?,
        5 => 4,
        _ => return None,
    };
    (_, *rest) = rest.split_at_checked(len)?;
    Some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic;
    use proptest::prelude::*;

    fn of_topic(name: &str) -> Option<Lifecycle> {
        let mut subject = Vec::new();
        topic::name_to_subject(name, &mut subject).unwrap();
        Lifecycle::of_subject(&subject)
    }

    #[test]
    fn births_and_deaths_are_found() {
        for (name, wanted) in [
            ("spBv1.0/g/NBIRTH/n", Some(Lifecycle::Birth)),
            ("spBv1.0/g/DBIRTH/n/d", Some(Lifecycle::Birth)),
            ("spBv1.0/g/NDEATH/n", Some(Lifecycle::Death)),
            ("spBv1.0/g/DDEATH/n/d", Some(Lifecycle::Death)),
            ("spBv1.0//NBIRTH/", Some(Lifecycle::Birth)),
            ("spBv1.0/g.h/NBIRTH/n", Some(Lifecycle::Birth)),
            ("spBv1.0/g/NDATA/n", None),
            ("spBv1.0/g/NBIRTH", None),
            ("spBv1.0/g/NBIRTH/n/d/x", None),
            ("spBv1.0/NBIRTH/n", None),
            ("spBv1.1/g/NBIRTH/n", None),
            ("x/spBv1.0/g/NBIRTH/n", None),
            ("$sparkplug/certificates/spBv1.0/g/NBIRTH/n", Some(Lifecycle::Certificate)),
            ("$sparkplug/certificates/spBv1.0/g/NDEATH/n", None),
            ("$sparkplug/certificates/g/NBIRTH/n", None),
        ] {
            assert_eq!(of_topic(name), wanted, "{name}");
            assert_eq!(is_birth(name), wanted == Some(Lifecycle::Birth), "{name}");
        }
    }

    #[test]
    fn a_certificate_is_the_topic_behind_its_beginning() {
        let name = format!("{CERTIFICATES}spBv1.0/g/DBIRTH/n/d");
        assert_eq!(of_topic(&name), Some(Lifecycle::Certificate));
    }

    fn dated(payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        dated_death(payload, 300, &mut out);
        out
    }

    #[test]
    fn deaths_get_the_time_of_their_delivery() {
        // The first timestamp is replaced, between other fields.
        assert_eq!(dated(b"\x18\x00\x08\x01\x12\x01x"), b"\x18\x00\x08\xac\x02\x12\x01x");
        assert_eq!(dated(b"\x08\xff\xff\x01\x08\x05"), b"\x08\xac\x02\x08\x05");
        // Fields of every kind in front of one that is added.
        let fields = b"\x12\x02\x08\x01\x19AAAAAAAA\x25BBBB";
        assert_eq!(dated(fields), [&fields[..], b"\x08\xac\x02"].concat());
        assert_eq!(dated(b""), b"\x08\xac\x02");
    }

    #[test]
    fn deaths_that_are_no_protobuf_stay() {
        for payload in [&b"\x08"[..], b"offline", b"\x0b\x01", b"\x00\x01", b"\x12\x7f\x01", b"\x19AAAA"] {
            assert_eq!(dated(payload), payload);
        }
    }

    proptest! {
        #[test]
        fn any_payload_is_dated_or_stays(payload in prop::collection::vec(any::<u8>(), 0..40)) {
            let once = dated(&payload);
            prop_assert!(once == payload || dated(&once) == once);
        }
    }
}

//! Sparkplug B: births and deaths of devices among the topics.
//!
//! A server that is aware of Sparkplug keeps births as certificates under another topic, and sets
//! the time in deaths, which are wills that were written long before.

use myelin_stdx::varint;

/// Beginning of the topic of a certificate, in front of the topic of the birth.
pub const CERTIFICATES: &str = "$sparkplug/certificates/";

/// Beginnings of subjects of messages, and of their certificates: of `spBv1.0/` and of
/// `$sparkplug/certificates/spBv1.0/`.
const MESSAGES: &[u8] = b"spBv1//0.";
const CERTIFIED: &[u8] = b"$sparkplug.certificates.spBv1//0.";

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

//! `traceparent` of the W3C: the span by which another system traces a message.
//!
//! Read strictly, as the specification has it: what is made of it goes to a collector, which
//! believes it. Who asks for a trace in NATS's own way is read in `message_trace.rs`, as the
//! reference does.

use crate::message_trace::{PARENT, pairs};

/// Trace and span of whoever has sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Id of the trace; not all zeros.
    pub trace_id: [u8; 16],
    /// Id of the sender's span; not all zeros.
    pub span_id: [u8; 8],
}

impl TraceParent {
    /// Reads the first header of that name in a block. `None`: there is none, it is malformed, or
    /// the trace is not recorded (its flag `sampled` is not set).
    pub fn sampled(block: &[u8]) -> Option<Self> {
        let (_, value) = pairs(block).find(|(name, _)| name.eq_ignore_ascii_case(PARENT))?;
        Self::read(value)
    }

    fn read(value: &[u8]) -> Option<Self> {
        let (fields, rest) = value.split_at_checked(55)?;
        let [version] = hex(&fields[..2])?;
        // Later versions may have more fields behind these.
        let is_known = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let are_apart = [2, 35, 52].iter().all(|at| fields[*at] == b'-');
        let (trace_id, span_id) = (hex(&fields[3..35])?, hex(&fields[36..52])?);
        let [flags] = hex(&fields[53..])?;
        let is_valid = is_known && are_apart && trace_id != [0; 16] && span_id != [0; 8];
        (is_valid && flags & 1 == 1).then_some(Self { trace_id, span_id })
    }
}

/// Bytes of exactly so many digits in lower case.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";

    fn of(lines: &str) -> Option<TraceParent> {
        TraceParent::sampled(format!("NATS/1.0\r\n{lines}\r\n").as_bytes())
    }

    #[test]
    fn a_sampled_parent_is_read() {
        for lines in [
            format!("traceparent: 00-{ID}-01\r\n"),
            format!("A: 1\r\nTraceParent:00-{ID}-03 \r\n"),
            format!("traceparent: 01-{ID}-01-more\r\n"),
            format!("traceparent: cc-{ID}-ff\r\n"),
        ] {
            let parent = of(&lines).unwrap_or_else(|| panic!("{lines:?}"));
            assert_eq!(parent.trace_id[..3], [0x0a, 0xf7, 0x65], "{lines:?}");
            assert_eq!(parent.span_id, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31], "{lines:?}");
        }
    }

    #[test]
    fn anything_else_is_none() {
        let zeros = "0".repeat(32);
        for value in [
            format!("00-{ID}-00"),
            format!("00-{ID}-02"),
            format!("00-{ID}-1"),
            format!("00-{ID}-01-"),
            format!("00-{ID}-01-more"),
            format!("01-{ID}-01more"),
            format!("ff-{ID}-01"),
            format!("0-{ID}-01"),
            format!("00-{}-01", ID.to_uppercase()),
            format!("00-{ID}-0g"),
            format!("00_{ID}-01"),
            format!("00-{zeros}-b7ad6b7169203331-01"),
            format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", &zeros[..16]),
            "00-a-b-01".to_owned(),
            String::new(),
        ] {
            assert_eq!(of(&format!("traceparent: {value}\r\n")), None, "{value:?}");
        }
        assert_eq!(of(&format!("traceparent: x\r\ntraceparent: 00-{ID}-01\r\n")), None);
        assert_eq!(of(""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let block = [b"NATS/1.0\r\ntraceparent: ", &bytes[..], b"\r\n\r\n"].concat();
            let _ = TraceParent::sampled(&block);
            let _ = TraceParent::read(&bytes);
        }
    }
}

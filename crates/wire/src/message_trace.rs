//! Headers by which a publisher asks what becomes of its message.
//!
//! Reading follows the reference: names of headers are what stands between the end of one and a
//! colon, blanks around values do not count, headers without a name or a value are none. Nothing
//! here believes that the block is well formed.

use memchr::{memchr, memmem};
use std::collections::BTreeMap;

/// Where the trace goes.
pub const DESTINATION: &[u8] = b"Nats-Trace-Dest";
/// Destination of a message that is not to be traced any more: no subject.
pub const DISABLED: &[u8] = b"trace disabled";

/// The way over other servers by which a message has come.
pub const HOP: &str = "Nats-Trace-Hop";

const ONLY: &str = "Nats-Trace-Only";
const ORIGIN_ACCOUNT: &str = "Nats-Trace-Origin-Account";
/// The header of the W3C, in upper or lower case.
pub(crate) const PARENT: &[u8] = b"traceparent";
const FIRST_LINE: &[u8] = b"NATS/1.0\r\n";

/// Whether a block might ask for a trace: what says no is right, and most say no.
///
/// Perf: every message with headers comes by here. One jump per line.
#[inline]
pub fn may_ask(block: &[u8]) -> bool {
    let mut rest = block;
    while let Some(end) = memchr(b'\n', rest) {
        rest = &rest[end + 1..];
        match rest.first() {
            Some(b'N') if rest.starts_with(DESTINATION) => return true,
            Some(b't' | b'T')
                if rest.get(..PARENT.len()).is_some_and(|name| name.eq_ignore_ascii_case(PARENT)) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Whether some line of a block names a destination itself.
pub fn names_destination(block: &[u8]) -> bool {
    block.split(|byte| *byte == b'\n').any(|line| line.starts_with(DESTINATION))
}

/// Headers of a message that ask for a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeaders {
    /// All headers, in upper or lower case as they were written.
    pub headers: BTreeMap<String, Vec<String>>,
    /// Where the trace is to go. `None`: another system traces the message, and the account says
    /// where.
    pub destination: Option<Vec<u8>>,
    /// Nobody is to get the message.
    pub is_only: bool,
}

impl TraceHeaders {
    /// Nothing that anybody asks for: another system's span is all that the message has.
    pub fn of_none() -> Self {
        Self { headers: BTreeMap::new(), destination: None, is_only: false }
    }

    /// Reads a header block, or the beginning of one. `None` if it asks for nothing.
    pub fn read(block: &[u8]) -> Option<Self> {
        let (mut headers, mut destination, mut has_parent) = (BTreeMap::<_, Vec<_>>::new(), None, false);
        for (name, value) in pairs(block) {
            if !has_parent && name.eq_ignore_ascii_case(PARENT) {
                has_parent = is_sampled(value);
            } else if destination.is_none() && name == DESTINATION {
                if value == DISABLED {
                    return None;
                }
                destination = Some(value.to_vec());
            }
            headers.entry(text(name)).or_default().push(text(value));
        }
        if destination.is_none() && !has_parent {
            return None;
        }
        let mut asked = Self { headers, destination, is_only: false };
        let only = asked.value(ONLY).unwrap_or_default().to_lowercase();
        asked.is_only = asked.destination.is_some() && matches!(&only[..], "1" | "true" | "on");
        Some(asked)
    }

    /// The first value of a header.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.first().map(String::as_str)
    }

    /// A header of servers before 2.11, whose messages are not traced.
    pub fn origin_account(&self) -> Option<&str> {
        self.value(ORIGIN_ACCOUNT)
    }
}

/// The headers that have a name and a value.
pub(crate) fn pairs(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = block.strip_prefix(FIRST_LINE).unwrap_or_default();
    std::iter::from_fn(move || {
        let colon = memchr(b':', rest)?;
        let (name, behind) = rest.split_at(colon);
        let value = trim_start(&behind[1..]);
        let end = memmem::find(value, b"\r\n")?;
        rest = &value[end + 2..];
        Some((name, trim_end(&value[..end])))
    })
    .filter(|(name, value)| !name.is_empty() && !value.is_empty())
}

fn trim_start(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[blanks..]
}

fn trim_end(text: &[u8]) -> &[u8] {
    let blanks = text.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[..text.len() - blanks]
}

/// Whether the last of a `traceparent`'s four fields, two hexadecimal digits, has its lowest bit.
///
/// Compat: beyond `7f` they are no number to the reference, and a sign is one.
fn is_sampled(value: &[u8]) -> bool {
    let mut fields = value.split(|byte| *byte == b'-');
    let flags = fields.nth(3);
    let Some(flags) = flags.filter(|flags| flags.len() == 2 && fields.next().is_none()) else { return false };
    std::str::from_utf8(flags)
        .is_ok_and(|flags| i8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Appends `block` to `out` with the destination set, in the first line that has one or at the end.
pub fn set_destination(out: &mut Vec<u8>, block: &[u8], destination: &[u8]) {
    let starts = memmem::find_iter(block, b"\r\n").map(|at| at + 2);
    let mut values = starts.filter_map(|at| {
        let value = block[at..].strip_prefix(DESTINATION)?.strip_prefix(b":")?;
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let end = memchr(b'\r', value)?;
        Some((block.len() - value.len(), &value[end..]))
    });
    if let Some((start, behind)) = values.next() {
        [&block[..start], destination, behind].iter().for_each(|part| out.extend_from_slice(part));
        return;
    }
    let head = if block.is_empty() { FIRST_LINE } else { block.strip_suffix(b"\r\n").unwrap_or(block) };
    [head, DESTINATION, b": ", destination, b"\r\n\r\n"].iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(lines: &str) -> Vec<u8> {
        format!("NATS/1.0\r\n{lines}\r\n").into_bytes()
    }

    #[test]
    fn a_destination_asks_for_a_trace() {
        let asked =
            TraceHeaders::read(&block("A:  1\t \r\nNats-Trace-Dest: t\r\nA: 2\r\n")).expect("it asks");
        assert_eq!(asked.destination.as_deref(), Some(&b"t"[..]));
        assert_eq!(asked.headers["A"], ["1", "2"]);
        assert!(!asked.is_only);
        for (value, is_only) in [("1", true), ("True", true), ("on", true), ("0", false), ("yes", false)] {
            let asked =
                TraceHeaders::read(&block(&format!("Nats-Trace-Only: {value}\r\nNats-Trace-Dest: t\r\n")));
            assert_eq!(asked.expect("it asks").is_only, is_only, "{value}");
        }
    }

    #[test]
    fn what_asks_for_nothing() {
        for lines in [
            "",
            "A: 1\r\n",
            "nats-trace-dest: t\r\n",
            "Nats-Trace-Dest : t\r\n",
            "Nats-Trace-Dest:  \r\n",
            "Nats-Trace-Only: 1\r\n",
            "Nats-Trace-Dest: trace disabled\r\n",
            "Nats-Trace-Dest: trace disabled\r\ntraceparent: 00-a-b-01\r\n",
            "no colon\r\nNats-Trace-Dest: t\r\n",
            "traceparent: 00-a-b-00\r\n",
            "traceparent: 00-a-b-1\r\n",
            "traceparent: 00-a-b-01-c\r\n",
            "traceparent: 00-a-b-ff\r\n",
        ] {
            assert_eq!(TraceHeaders::read(&block(lines)), None, "{lines:?}");
        }
        assert_eq!(TraceHeaders::read(b"NATS/1.0 100\r\nNats-Trace-Dest: t\r\n\r\n"), None);
        assert_eq!(TraceHeaders::read(b"NATS/1.0\r\nNats-Trace-Dest: t"), None);
    }

    #[test]
    fn another_system_asks_in_any_letters() {
        let asked = TraceHeaders::read(&block("TraceParent: 00-0af7-b7ad-03\r\nNats-Trace-Only: 1\r\n"))
            .expect("it asks");
        assert_eq!((asked.destination.as_deref(), asked.is_only), (None, false));
        assert_eq!(asked.value("TraceParent"), Some("00-0af7-b7ad-03"));
    }

    #[test]
    fn the_destination_is_set_where_it_was() {
        let cases = [
            ("", "NATS/1.0\r\nNats-Trace-Dest: d\r\n\r\n"),
            ("NATS/1.0\r\n\r\n", "NATS/1.0\r\nNats-Trace-Dest: d\r\n\r\n"),
            ("NATS/1.0\r\nA: 1\r\n\r\n", "NATS/1.0\r\nA: 1\r\nNats-Trace-Dest: d\r\n\r\n"),
            (
                "NATS/1.0\r\nNats-Trace-Dest: long\r\nA: 1\r\n\r\n",
                "NATS/1.0\r\nNats-Trace-Dest: d\r\nA: 1\r\n\r\n",
            ),
            ("NATS/1.0\r\nNats-Trace-Dest:x\r\n\r\n", "NATS/1.0\r\nNats-Trace-Dest:d\r\n\r\n"),
            (
                "NATS/1.0\r\nNats-Trace-Dests: x\r\n\r\n",
                "NATS/1.0\r\nNats-Trace-Dests: x\r\nNats-Trace-Dest: d\r\n\r\n",
            ),
        ];
        for (block, expected) in cases {
            let mut out = Vec::new();
            set_destination(&mut out, block.as_bytes(), b"d");
            assert_eq!(String::from_utf8_lossy(&out), expected, "{block:?}");
        }
    }

    proptest! {
        #[test]
        fn what_asks_may_ask(lines in prop::collection::vec("[Nta:\r\n -]{0,4}(Nats-Trace-Dest|[tT]raceparent)?:? ?[a-z0-9-]{0,12}(01)?(\r\n)?", 0..6)) {
            let block = block(&lines.concat());
            prop_assert!(TraceHeaders::read(&block).is_none() || may_ask(&block));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let block = [FIRST_LINE, &bytes].concat();
            let _ = TraceHeaders::read(&block);
            let mut out = Vec::new();
            set_destination(&mut out, &block, DISABLED);
        }
    }
}

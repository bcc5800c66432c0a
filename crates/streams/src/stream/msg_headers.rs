//! Headers that ask something of a stream, found in one pass over the block.
//!
//! Reading follows the reference: a key stands at the beginning of a line and right before a colon,
//! case matters, the first of several counts, blanks before the value do not. An empty value is
//! none.

/// Keys that a stream knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    MsgId,
    ExpectedStream,
    ExpectedLastSequence,
    ExpectedLastSubjectSequence,
    ExpectedLastSubjectSequenceSubject,
    ExpectedLastMsgId,
    Rollup,
    Ttl,
    Increment,
    Schedule,
    ScheduleNext,
    Scheduler,
    ScheduleTimeZone,
    StreamSource,
    BatchId,
    BatchSequence,
    BatchCommit,
    RequiredApiLevel,
    RequestInfo,
}

const KEYS: usize = Key::RequestInfo as usize + 1;
const PREFIX: &[u8] = b"Nats-";

/// The values of known keys.
///
/// Perf: places instead of slices, half as large; a message without headers borrows
/// [`MsgHeaders::NONE`].
#[derive(Clone, Copy, Debug)]
pub(super) struct MsgHeaders<'a> {
    headers: &'a [u8],
    values: [HeaderSpan; KEYS],
    /// A bit for each key that is there.
    seen: u32,
    /// A bit for each key that has a value.
    present: u32,
}

/// Where a value stands.
#[derive(Clone, Copy, Debug, Default)]
struct HeaderSpan {
    start: u32,
    len: u32,
}

impl<'a> MsgHeaders<'a> {
    /// Headers of a message without any.
    pub(super) const NONE: MsgHeaders<'static> =
        MsgHeaders { headers: b"", values: [HeaderSpan { start: 0, len: 0 }; KEYS], seen: 0, present: 0 };

    /// Finds all known keys of a header block.
    pub(super) fn scan(headers: &'a [u8]) -> Self {
        let mut msg_headers = Self { headers, ..MsgHeaders::NONE };
        let mut line = crlf(headers, 0).map(|at| at + 2);
        while let Some(start) = line {
            let end = crlf(headers, start);
            msg_headers.note(start, end.unwrap_or(headers.len()));
            line = end.map(|at| at + 2);
        }
        msg_headers
    }

    /// Looks at one line.
    fn note(&mut self, start: usize, end: usize) {
        let Some(line) = self.headers[start..end].strip_prefix(PREFIX) else { return };
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return };
        let Some(key) = key(&line[..colon]) else { return };
        let bit = 1 << key as u32;
        if self.seen & bit == 0 {
            self.seen |= bit;
            // Tabs are no blanks here.
            let blanks = line[colon + 1..].iter().take_while(|&&byte| byte == b' ').count();
            let start = start + PREFIX.len() + colon + 1 + blanks;
            self.values[key as usize] = HeaderSpan { start: start as u32, len: (end - start) as u32 };
            // Compat: a time zone without a name is a wrong one.
            let counts = start < end || key == Key::ScheduleTimeZone;
            self.present |= if counts { bit } else { 0 };
        }
    }

    /// The value of a key; empty if there is none.
    pub(super) fn get(&self, key: Key) -> &'a [u8] {
        let HeaderSpan { start, len } = self.values[key as usize];
        &self.headers[start as usize..][..len as usize]
    }

    /// The value of a key where it matters whether an empty one is there.
    pub(super) fn find(&self, key: Key) -> Option<&'a [u8]> {
        (self.seen & (1 << key as u32) != 0).then(|| self.get(key))
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.present & (1 << key as u32) != 0
    }

    /// Whether any of `keys` has a value.
    pub(super) fn has_any(&self, keys: &[Key]) -> bool {
        keys.iter().any(|&key| self.has(key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.present == 0
    }
}

/// Where the next line ends.
fn crlf(bytes: &[u8], from: usize) -> Option<usize> {
    let mut from = from;
    loop {
        let at = from + bytes.get(from..)?.iter().position(|&byte| byte == b'\r')?;
        if bytes.get(at + 1) == Some(&b'\n') {
            return Some(at);
        }
        from = at + 1;
    }
}

fn key(name: &[u8]) -> Option<Key> {
    Some(match name {
        b"Msg-Id" => Key::MsgId,
        b"Expected-Stream" => Key::ExpectedStream,
        b"Expected-Last-Sequence" => Key::ExpectedLastSequence,
        b"Expected-Last-Subject-Sequence" => Key::ExpectedLastSubjectSequence,
        b"Expected-Last-Subject-Sequence-Subject" => Key::ExpectedLastSubjectSequenceSubject,
        b"Expected-Last-Msg-Id" => Key::ExpectedLastMsgId,
        b"Rollup" => Key::Rollup,
        b"TTL" => Key::Ttl,
        b"Incr" => Key::Increment,
        b"Schedule" => Key::Schedule,
        b"Schedule-Next" => Key::ScheduleNext,
        b"Scheduler" => Key::Scheduler,
        b"Schedule-Time-Zone" => Key::ScheduleTimeZone,
        b"Stream-Source" => Key::StreamSource,
        b"Batch-Id" => Key::BatchId,
        b"Batch-Sequence" => Key::BatchSequence,
        b"Batch-Commit" => Key::BatchCommit,
        b"Required-Api-Level" => Key::RequiredApiLevel,
        b"Request-Info" => Key::RequestInfo,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pass_finds_all_keys() {
        let msg_headers = MsgHeaders::scan(b"NATS/1.0\r\nA: b\r\nNats-Msg-Id:  x 1\r\nNats-TTL:5\r\n\r\n");
        assert_eq!((msg_headers.get(Key::MsgId), msg_headers.get(Key::Ttl)), (&b"x 1"[..], &b"5"[..]));
        assert!(msg_headers.has_any(&[Key::Rollup, Key::Ttl]) && !msg_headers.has(Key::Rollup));
    }

    #[test]
    fn the_first_counts_even_if_it_is_empty() {
        let msg_headers = MsgHeaders::scan(
            b"NATS/1.0\r\nNats-Msg-Id: \r\nNats-Msg-Id: x\r\nNats-TTL: 1\r\nNats-TTL: 2\r\n\r\n",
        );
        assert!(!msg_headers.has(Key::MsgId));
        assert_eq!(msg_headers.get(Key::Ttl), b"1");
    }

    #[test]
    fn other_lines_and_garbage_are_passed_over() {
        let blocks: [&[u8]; 6] = [
            b"NATS/1.0\r\nnats-msg-id: x\r\nXNats-Msg-Id: y\r\nNats-Msg-Id : z\r\n\r\n",
            b"NATS/1.0\r\nNats-Msg-Id",
            b"Nats-Msg-Id: x\r\n\r\n",
            b"\r\r\r\n\r",
            b"NATS/1.0\r\nA: b\nNats-Msg-Id: x\r\n\r\n",
            b"",
        ];
        for block in blocks {
            assert!(MsgHeaders::scan(block).is_empty(), "{}", String::from_utf8_lossy(block));
        }
    }

    proptest::proptest! {
        /// The plain twin: one search for each key.
        #[test]
        fn values_are_those_that_a_search_for_each_finds(block in "(NATS/1.0)?(\r\n|\r|\n|Nats-|Msg-Id|TTL|Rollup|:| |x){0,40}") {
            let msg_headers = MsgHeaders::scan(block.as_bytes());
            for (key, name) in [(Key::MsgId, "Nats-Msg-Id"), (Key::Ttl, "Nats-TTL"), (Key::Rollup, "Nats-Rollup")] {
                let plain = myelin_wire::header::get(block.as_bytes(), name.as_bytes());
                proptest::prop_assert_eq!(msg_headers.get(key), plain.unwrap_or_default());
            }
        }
    }
}

//! Headers of an atomic batch's message.

use super::number;
use std::borrow::Cow;

const ID: &[u8] = b"Nats-Batch-Id";
const SEQUENCE: &[u8] = b"Nats-Batch-Sequence";
const COMMIT: &[u8] = b"Nats-Batch-Commit";
const API_LEVEL: &[u8] = b"Nats-Required-Api-Level";
/// The length of a block with nothing in it.
const NO_HEADERS: usize = b"NATS/1.0\r\n\r\n".len();
/// Highest level of the API that messages may ask for.
const OUR_API_LEVEL: i64 = 5;

/// The values of the four headers that matter to a batch, unchecked. Whoever scans a message's
/// headers anyway fills it in; [`BatchHeaders::read`] is for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchHeaders<'a> {
    /// `Nats-Batch-Id`; not empty.
    pub id: &'a [u8],
    /// `Nats-Batch-Sequence`.
    pub sequence: Option<&'a [u8]>,
    /// `Nats-Batch-Commit`.
    pub commit: Option<&'a [u8]>,
    /// `Nats-Required-Api-Level`.
    pub api_level: Option<&'a [u8]>,
}

/// How a message ends its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    Not,
    /// This is the last message.
    Here,
    /// The one before was the last; this one is not part of the batch.
    Before,
    Invalid,
}

impl<'a> BatchHeaders<'a> {
    /// `None` if the message is not part of a batch. Of headers that stand there twice the first
    /// counts.
    pub fn read(headers: &'a [u8]) -> Option<Self> {
        let mut batch_headers = Self::default();
        let mut id = None;
        for (key, value) in lines(headers) {
            match key {
                ID => id.get_or_insert(value),
                SEQUENCE => batch_headers.sequence.get_or_insert(value),
                COMMIT => batch_headers.commit.get_or_insert(value),
                API_LEVEL => batch_headers.api_level.get_or_insert(value),
                _ => continue,
            };
        }
        batch_headers.id = id.filter(|id| !id.is_empty())?;
        Some(batch_headers)
    }

    pub(super) fn sequence(&self) -> Option<u64> {
        number::checked(self.sequence?)
    }

    pub(super) fn commit(&self) -> Commit {
        match self.commit {
            None => Commit::Not,
            Some(b"1") => Commit::Here,
            Some(b"eob") => Commit::Before,
            Some(_) => Commit::Invalid,
        }
    }
}

/// Whether a message asks for more than we know. No or an empty header asks for nothing.
pub(super) fn asks_too_much(api_level: Option<&[u8]>) -> bool {
    let level = api_level.filter(|level| !level.is_empty());
    level.is_some_and(|level| number::signed(level).is_none_or(|level| level > OUR_API_LEVEL))
}

/// The headers as they are stored: without the API level that was asked for. Nothing, if no other
/// is left.
pub(super) fn stored_headers<'a>(headers: &'a [u8], api_level: Option<&[u8]>) -> Cow<'a, [u8]> {
    if api_level.is_none_or(<[u8]>::is_empty) {
        return Cow::Borrowed(headers);
    }
    let mut rest = headers;
    let mut kept = next_line(&mut rest).to_vec();
    kept.extend_from_slice(b"\r\n");
    while !rest.is_empty() {
        let before = rest;
        let line = next_line(&mut rest);
        if line.strip_prefix(API_LEVEL).is_none_or(|value| !value.starts_with(b":")) {
            kept.extend_from_slice(&before[..before.len() - rest.len()]);
        }
    }
    if kept.len() <= NO_HEADERS {
        kept.clear();
    }
    Cow::Owned(kept)
}

/// Keys and values, in the manner of `myelin_wire::header::get`.
fn lines(headers: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = headers;
    let lines = std::iter::from_fn(move || (!rest.is_empty()).then(|| next_line(&mut rest)));
    lines.skip(1).filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let value = &line[colon + 1..];
        let blanks = value.iter().take_while(|byte| **byte == b' ').count();
        Some((&line[..colon], &value[blanks..]))
    })
}

/// Cuts off a line and its end.
fn next_line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let all = *rest;
    let mut from = 0;
    while let Some(end) = all[from..].iter().position(|byte| *byte == b'\n').map(|at| from + at) {
        from = end + 1;
        if let Some(line) = all[..end].strip_suffix(b"\r") {
            *rest = &all[from..];
            return line;
        }
    }
    *rest = &[];
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_wire::header;
    use proptest::prelude::*;

    #[test]
    fn the_first_of_each_header_counts() {
        let headers = b"NATS/1.0\r\nNats-Batch-Id:  b\r\nX: y\r\nNats-Batch-Sequence: 12\r\nNats-Batch-Id: c\r\nNats-Batch-Commit: eob\r\n\r\n";
        let batch_headers = BatchHeaders::read(headers).unwrap();
        assert_eq!(
            (batch_headers.id, batch_headers.sequence(), batch_headers.commit()),
            (&b"b"[..], Some(12), Commit::Before)
        );
        assert_eq!(batch_headers.api_level, None);
    }

    #[test]
    fn without_an_id_there_is_no_batch() {
        for headers in
            ["", "NATS/1.0\r\n\r\n", "NATS/1.0\r\nNats-Batch-Id: \r\n\r\n", "Nats-Batch-Id: b\r\n\r\n"]
        {
            assert_eq!(BatchHeaders::read(headers.as_bytes()), None, "{headers:?}");
        }
    }

    #[test]
    fn commits_are_one_or_eob() {
        let commit = |commit| BatchHeaders { commit, ..BatchHeaders::default() }.commit();
        assert_eq!(commit(None), Commit::Not);
        assert_eq!([commit(Some(b"1")), commit(Some(b"eob"))], [Commit::Here, Commit::Before]);
        assert_eq!([commit(Some(b"")), commit(Some(b"true"))], [Commit::Invalid; 2]);
    }

    #[test]
    fn levels_beyond_ours_and_nonsense_ask_too_much() {
        let asks = |level: &str| asks_too_much(Some(level.as_bytes()));
        assert_eq!(["", "0", "-1", "5", "6", "x"].map(asks), [false, false, false, false, true, true]);
        assert!(!asks_too_much(None));
    }

    #[test]
    fn the_level_is_not_stored() {
        let headers =
            b"NATS/1.0\r\nA: 1\r\nNats-Required-Api-Level: 1\r\nB: 2\r\nNats-Required-Api-Level: 1\r\n\r\n";
        assert_eq!(&*stored_headers(headers, Some(b"1")), b"NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n");
        assert_eq!(&*stored_headers(b"NATS/1.0\r\nNats-Required-Api-Level: 1\r\n\r\n", Some(b"1")), b"");
        assert!(matches!(stored_headers(headers, None), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn one_scan_finds_what_four_find(
            headers in "(NATS/1.0)?(\r\n|\n|Nats-Batch-Id|Nats-Batch-Sequence|Nats-Required-Api-Level|Nats-Batch-Commit|:| |1|\r){0,40}"
        ) {
            let headers = headers.as_bytes();
            let found = BatchHeaders::read(headers).unwrap_or_default();
            let id = header::get(headers, ID).unwrap_or_default();
            prop_assert_eq!(found.id, id);
            if !id.is_empty() {
                prop_assert_eq!(found.sequence, header::get(headers, SEQUENCE));
                prop_assert_eq!(found.commit, header::get(headers, COMMIT));
                prop_assert_eq!(found.api_level, header::get(headers, API_LEVEL));
            }
            let stored = stored_headers(headers, Some(b"1"));
            prop_assert_eq!(header::get(&stored, API_LEVEL), None);
        }
    }
}

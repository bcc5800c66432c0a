//! Finding out from a stream's messages how far its sources are, for all of them at once.
//!
//! In slices: a stream may have millions of messages, and others want the thread, too. Only for
//! threads that may wait.

use super::positions::{SOURCE, SourcePosition};
use super::render::SourceHeader;
use myelin_store::{Cursor, Filter, ReadError, Seq, StreamReader, Wait};
use myelin_wire::header;
use std::collections::BTreeMap;

/// Messages of a slice.
const SLICE: usize = 16 * 1024;

/// Search in a stream's messages for how far its sources are, in slices.
pub(super) struct PositionSearch {
    wanted: Vec<SourceSearch>,
    cursor: Cursor,
}

/// Knowledge about a source.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Position that a message of the stream names.
    Read(SourcePosition),
    /// Position that was written down, and no message says more.
    Written(SourcePosition),
    /// Nothing.
    Nothing,
}

/// One source.
struct SourceSearch {
    index: String,
    written: Option<SourcePosition>,
    found: Option<SourcePosition>,
}

impl PositionSearch {
    /// Looks for these sources in the log of `reader`. What was written of them is `known`, and how
    /// far that tells of the stream.
    pub(super) fn new<'a>(
        indexes: impl Iterator<Item = &'a str>,
        (mut known, looked_through): (BTreeMap<String, SourcePosition>, Seq),
        reader: &StreamReader,
    ) -> Self {
        let mut first = Seq::MAX;
        let wanted = indexes.map(|index| {
            let written = known.remove(index);
            first = first.min(if written.is_some() { looked_through + 1 } else { 0 });
            SourceSearch { index: index.to_owned(), written, found: None }
        });
        let wanted: Vec<SourceSearch> = wanted.collect();
        let end = reader.state().totals.last_seq + 1;
        Self { wanted, cursor: reader.cursor(Filter::All, first.min(end)) }
    }

    /// Looks at some more messages. Answers whether that was all.
    ///
    /// # Errors
    /// The stream cannot be read now; this may be tried again.
    pub(super) fn scan_slice(&mut self) -> Result<bool, ReadError> {
        if self.wanted.is_empty() {
            return Ok(true);
        }
        let Self { wanted, cursor } = self;
        for _ in 0..SLICE {
            let at = cursor.position();
            match cursor.next(Wait::Allowed) {
                Ok(Some(message)) if message.headers.is_empty() => {}
                Ok(Some(message)) => {
                    let origin = header::get(message.headers, SOURCE).and_then(SourceHeader::read);
                    if let Some(origin) = origin
                        && let Some(wanted) = wanted.iter_mut().find(|wanted| origin.is_of(&wanted.index))
                    {
                        wanted.saw(&origin, message.seq);
                    }
                }
                Ok(None) => return Ok(true),
                Err(ReadError::WouldWait | ReadError::More) => {}
                Err(error @ ReadError::Io(_)) => return Err(error),
                // A message that is damaged says nothing.
                Err(ReadError::Damaged(_)) => cursor.skip(at.max(cursor.position())),
            }
        }
        Ok(false)
    }

    /// Findings, in the order in which they were asked for.
    pub(super) fn end(self) -> impl Iterator<Item = Finding> {
        self.wanted.into_iter().map(|wanted| match (wanted.found, wanted.written) {
            (Some(found), _) => Finding::Read(found),
            (None, Some(written)) => Finding::Written(written),
            (None, None) => Finding::Nothing,
        })
    }
}

impl SourceSearch {
    fn saw(&mut self, origin: &SourceHeader<'_>, local: Seq) {
        let is_known = self.written.as_ref().is_some_and(|written| written.local >= local);
        if is_known || myelin_stdx::planted::bug(16) {
            return;
        }
        let SourcePosition { seq, identity, local: at, .. } = self.found.get_or_insert_default();
        (*seq, *at) = (origin.seq, local);
        if identity != origin.identity {
            origin.identity.clone_into(identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_store::{Admission, Durability, NewMessage, Storage, Stream, StreamConfig};

    /// A stream with as many messages, of which the first came from `A`.
    fn stream(messages: usize) -> Stream {
        let config = StreamConfig {
            storage: Storage::Memory,
            durability: Durability::Written,
            ..StreamConfig::default()
        };
        let mut stream = Stream::in_memory(config, 1, 1);
        for at in 0..messages {
            let headers: &[u8] =
                if at == 0 { b"NATS/1.0\r\nNats-Stream-Source: A 7 > > a ident\r\n\r\n" } else { b"" };
            let message = NewMessage { timestamp: 1, subject: b"x", headers, ..NewMessage::default() };
            stream.append(&[message], Admission::Check, 1, &mut Vec::new()).expect("memory takes it");
        }
        stream
    }

    #[test]
    fn a_large_stream_is_read_in_slices() {
        let stream = stream(2 * SLICE + 5);
        let mut search =
            PositionSearch::new(["A > >", "B > >"].into_iter(), (BTreeMap::new(), 0), &stream.reader());
        let mut slices = 1;
        while !search.scan_slice().expect("memory can be read") {
            slices += 1;
        }
        assert_eq!(slices, 3);
        let found: Vec<Finding> = search.end().collect();
        let known =
            SourcePosition { seq: 7, identity: "ident".into(), local: 1, ..SourcePosition::default() };
        assert_eq!(found, [Finding::Read(known), Finding::Nothing]);
    }

    #[test]
    fn what_was_written_spares_the_reading_of_what_it_tells_of() {
        let stream = stream(10);
        let written =
            SourcePosition { seq: 9, identity: "ident".into(), local: 4, ..SourcePosition::default() };
        let known = BTreeMap::from([("A > >".to_owned(), written.clone())]);
        let mut search = PositionSearch::new(["A > >"].into_iter(), (known, 4), &stream.reader());
        assert_eq!(search.cursor.position(), 5);
        assert!(search.scan_slice().expect("memory can be read"));
        assert_eq!(search.end().collect::<Vec<_>>(), [Finding::Written(written)]);
    }
}

//! Reading only the messages that pass a filter.
//!
//! Owns messages that a search has found ahead of a cursor, and which bytes are read for them:
//! those that lie near each other in one piece, those that lie alone by themselves.
//!
//! Perf: without it a cursor reads and checks every message to throw most of them away
//! (`myelin bench store --rows 'sparse-*'`).

use std::sync::Arc;

use crate::record::{self, Entry, Invalid};
use crate::{Seq, Storage};

use super::bookmark::Bookmark;
use super::cursor::{Cursor, MessageSpans};
use super::errors::ReadError;
use super::lookup::Filter;
use super::reader::{ENTRY_SURPLUS, invalid, read_bytes, unpack};
use super::search::{FilterSearch, Match};
use super::segment_view::{Segment, SegmentFile};
use super::wait::Wait;

/// Messages that are found at once.
const AHEAD: usize = 256;
/// Bytes between two messages that are cheaper read than passed over: about what a system call
/// costs.
const GAP: u64 = 8 << 10;
/// The work of a search on a thread that must not wait, in rows: about 100 microseconds.
const BUDGET: usize = 64 << 10;

/// Messages that a search has found ahead of a cursor.
#[derive(Debug)]
pub(super) struct Ahead {
    search: FilterSearch,
    matches: Vec<Match>,
    /// Of the matches, those that are done.
    done: usize,
    segment: Option<Arc<Segment>>,
    /// Finds `segment` again after a pause in which nothing held it.
    bookmark: Bookmark,
    /// Where the search goes on behind them.
    through: Seq,
    removals: u64,
    truncations: u64,
}

impl Ahead {
    pub(super) fn new(filter: Filter) -> Self {
        let search = FilterSearch::new(filter);
        let (matches, done, segment, through) = (Vec::new(), 0, None, 0);
        let bookmark = Bookmark::default();
        Self { search, matches, done, segment, bookmark, through, removals: 0, truncations: 0 }
    }

    /// Forgets what was found.
    pub(super) fn forget(&mut self) {
        self.matches.clear();
        self.done = 0;
        self.segment = None;
        self.bookmark.clear();
        self.through = 0;
    }

    /// See [`Cursor::pause`].
    pub(super) fn pause(&mut self) {
        if let Some(segment) = self.segment.take() {
            self.bookmark.set(segment);
        }
    }

    /// Answers whether what was found is still of use.
    pub(super) fn resume(&mut self) -> bool {
        if self.segment.is_some() || self.matches.is_empty() {
            return false;
        }
        self.segment = self.bookmark.take();
        if self.segment.is_none() {
            self.forget();
        }
        self.segment.is_some()
    }

    /// Where the next message begins that was found.
    pub(super) fn next_offset(&self) -> Option<u64> {
        self.matches.get(self.done).map(|found| found.offset)
    }

    /// Gives back what it needs only while it looks.
    pub(super) fn shrink(&mut self) {
        self.search.rest();
    }

    pub(super) fn rest(&mut self) {
        self.search.rest();
        self.forget();
        self.matches = Vec::new();
    }

    /// The next message for `cursor`.
    pub(super) fn advance(
        &mut self,
        cursor: &mut Cursor,
        wait: Wait,
    ) -> Result<Option<MessageSpans>, ReadError> {
        let mut budget = BUDGET;
        loop {
            if cursor.reader.shared.truncations() != self.truncations {
                self.forget();
            }
            let Some(&found) = self.matches.get(self.done) else {
                cursor.next = cursor.next.max(self.through);
                if cursor.next > cursor.released {
                    return Ok(None);
                }
                if budget == 0 && wait == Wait::Forbidden {
                    return Err(ReadError::More);
                }
                budget = budget.saturating_sub(self.find(cursor, wait)?);
                continue;
            };
            cursor.next = found.seq;
            if !cursor.is_gone(found.seq, self.removals)
                && let Some(parts) = self.read(cursor, found, wait)?
            {
                self.step(cursor, found);
                return Ok(Some(parts));
            }
            self.step(cursor, found);
        }
    }

    fn step(&mut self, cursor: &mut Cursor, found: Match) {
        self.done += 1;
        cursor.next = found.seq + 1;
    }

    /// Looks for more messages. Answers the work.
    fn find(&mut self, cursor: &mut Cursor, wait: Wait) -> Result<usize, ReadError> {
        self.forget();
        let shared = &cursor.reader.shared;
        let range = (cursor.next, cursor.released);
        let slice = self.search.slice(shared, range, AHEAD, wait, &mut self.matches)?;
        (self.removals, self.truncations) = (slice.removals, slice.truncations);
        self.segment = slice.segment;
        self.through = slice.next;
        Ok(slice.work)
    }

    /// The message from the bytes at hand, or from others. `None` if it was erased.
    fn read(
        &mut self,
        cursor: &mut Cursor,
        found: Match,
        wait: Wait,
    ) -> Result<Option<MessageSpans>, ReadError> {
        let Some(segment) = self.segment.clone() else { return Ok(None) };
        let is_at_hand = cursor.segment.as_ref().is_some_and(|at_hand| Arc::ptr_eq(at_hand, &segment))
            && self.is_whole(cursor, &segment, found);
        if !is_at_hand {
            if let Err(error) = self.read_piece(cursor, &segment, found, wait) {
                // Also what was found may have changed its place meanwhile.
                self.forget();
                return Err(error);
            }
            cursor.segment = Some(Arc::clone(&segment));
        }
        let decoded = decode(cursor, &segment, found);
        if decoded.is_err() {
            self.forget();
        }
        decoded
    }

    /// Whether the bytes at hand, which are of `segment`, have all of a message.
    fn is_whole(&self, cursor: &Cursor, segment: &Segment, found: Match) -> bool {
        let Some(at) = found.offset.checked_sub(cursor.offset) else { return false };
        let bytes = usize::try_from(at).ok().and_then(|at| cursor.piece.get(at..)).unwrap_or_default();
        match segment.source {
            // Where its frame ends is not where the bytes end.
            SegmentFile::Packed(..) => record::peek(bytes).is_some_and(|head| head.size() <= bytes.len()),
            _ => self.end_of(found) - found.offset <= bytes.len() as u64,
        }
    }

    /// Where a message ends at the latest, as far as the segment goes.
    fn end_of(&self, found: Match) -> u64 {
        let end = found.offset + found.size + ENTRY_SURPLUS;
        self.segment.as_ref().map_or(end, |segment| end.min(segment.records_end()))
    }

    fn read_piece(
        &self,
        cursor: &mut Cursor,
        segment: &Segment,
        found: Match,
        wait: Wait,
    ) -> Result<(), ReadError> {
        cursor.segment = None;
        if let SegmentFile::Packed(file, frames) = &segment.source {
            cursor.offset = unpack(segment, &*file.open()?, frames, found.offset, wait, &mut cursor.piece)?;
            return Ok(());
        }
        let mut end = self.end_of(found);
        for &more in &self.matches[self.done + 1..] {
            let end_of_more = self.end_of(more);
            if more.offset > end + GAP || end_of_more - found.offset > cursor.reach as u64 {
                break;
            }
            end = end_of_more;
        }
        cursor.offset = found.offset;
        cursor.piece.resize(usize::try_from(end.saturating_sub(found.offset)).unwrap_or(usize::MAX), 0);
        let read = read_bytes(segment, &mut cursor.piece, found.offset, wait);
        cursor.piece.truncate(*read.as_ref().unwrap_or(&0));
        read?;
        cursor.reach_on();
        Ok(())
    }
}

fn decode(cursor: &mut Cursor, segment: &Segment, found: Match) -> Result<Option<MessageSpans>, ReadError> {
    let is_trusted =
        cursor.reader.shared.storage == Storage::Memory || matches!(segment.source, SegmentFile::Packed(..));
    let at = (found.offset - cursor.offset) as usize;
    let bytes = cursor.piece.get_mut(at..).unwrap_or_default();
    let decoded = match record::peek(bytes) {
        Some(head) if head.size() > bytes.len() => Err(Invalid::Cut),
        None => Err(Invalid::Cut),
        Some(head) if is_trusted => record::decode_trusted_peeked(bytes, head),
        Some(head) => record::decode_peeked(bytes, head, found.offset, &segment.context),
    };
    match decoded.map_err(|why| invalid(segment, found.offset, why))?.entry {
        Entry::Message(message) if message.seq == found.seq => Ok(Some(MessageSpans::of(&message, at))),
        Entry::Erased { .. } => Ok(None),
        _ => Err(ReadError::Damaged(format!(
            "segment {} at {}: not the message {} that the table names",
            segment.no.0, found.offset, found.seq
        ))),
    }
}

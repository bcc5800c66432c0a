//! Walking through a stream's messages in order.
//!
//! Perf: bytes are read in large pieces and decoded where they lie; the catalog's lock is taken
//! once per piece, and again only when something was removed meanwhile. Measured by
//! `myelin bench store`.

use std::io::ErrorKind;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::record::{self, Entry, HEAD_BYTES, Invalid, Message};
use crate::{Seq, Storage, Timestamp};

use super::ahead::Ahead;
use super::bookmark::Bookmark;
use super::catalog::Catalog;
use super::errors::ReadError;
use super::lookup::Filter;
use super::reader::{StreamReader, invalid, read_bytes, unpack};
use super::segment_view::{Form, Segment, SegmentFile};
use super::wait::Wait;

/// Bytes read at once, unless its owner wants less.
pub(super) const PIECE: usize = 256 << 10;
/// Bytes that a cursor keeps at the end of its stream, and when nobody may go on with it.
const SPARE: usize = 8 << 10;
/// Bytes that a new cursor reads at first: of many that are made only a few messages are wanted.
const FIRST: usize = 32 << 10;
/// Removed ranges looked at ahead.
const GAPS: usize = 256;

/// Walk through the messages of a stream in order. It may be kept while the stream goes on: it sees
/// what is released later, and does not see what was removed before it came there.
///
/// Without a filter all bytes are read, and the messages are found in them. With one the messages
/// are found in the segments' tables, and only what is near them is read.
#[derive(Debug)]
pub struct Cursor {
    pub(super) reader: StreamReader,
    /// Messages that pass, with a filter.
    ahead: Option<Box<Ahead>>,
    /// Where to go on.
    pub(super) next: Seq,
    /// The release position at the beginning of this call.
    pub(super) released: Seq,
    pub(super) segment: Option<Arc<Segment>>,
    /// Finds `segment` again after a pause in which nothing held it.
    bookmark: Bookmark,
    /// Whether the file may have been removed while nobody read.
    is_resumed: bool,
    /// The last sequence that the segment shows, as of a count of truncations.
    last: Seq,
    truncations: u64,
    pub(super) piece_bytes: usize,
    /// Bytes to read the next time: the more, the longer its owner goes on without a rest.
    pub(super) reach: usize,
    /// Bytes of the segment, beginning with `offset`; `at` of them are used.
    pub(super) piece: Vec<u8>,
    pub(super) offset: u64,
    at: usize,
    gaps: Gaps,
}

/// Removed sequences near the cursor, as of a count of removals.
#[derive(Debug, Default)]
struct Gaps {
    ranges: Vec<RangeInclusive<Seq>>,
    at: usize,
    /// Nothing is known from here on.
    until: Seq,
    first: Seq,
    removals: u64,
}

/// Entry that the bytes at hand hold next.
enum NextEntry {
    /// A message, with its parts in the piece.
    Message(MessageSpans),
    /// Nothing that can be shown yet.
    Wait,
    /// More bytes are needed, at least so many.
    More(usize),
    /// The next entry is in another segment.
    Elsewhere,
}

/// A message by the places of its parts, so that nothing borrows the piece while it may still be
/// replaced.
pub(super) struct MessageSpans {
    seq: Seq,
    timestamp: Timestamp,
    expires: Option<Timestamp>,
    subject: Range<usize>,
    headers: Range<usize>,
    payload: Range<usize>,
}

impl Cursor {
    pub(super) fn new(reader: StreamReader, filter: Filter, from: Seq, piece_bytes: usize) -> Self {
        let (piece, gaps) = (Vec::new(), Gaps::default());
        let ahead = if filter.is_all() { None } else { Some(Box::new(Ahead::new(filter))) };
        Self {
            reader,
            ahead,
            next: from,
            released: 0,
            segment: None,
            bookmark: Bookmark::default(),
            is_resumed: false,
            last: 0,
            truncations: 0,
            piece_bytes,
            reach: FIRST.min(piece_bytes),
            piece,
            offset: 0,
            at: 0,
            gaps,
        }
    }

    /// The sequence from which the next message is looked for.
    #[must_use]
    pub fn position(&self) -> Seq {
        self.next
    }

    /// The next message that passes. `None` at the release position: ask again when it has moved.
    ///
    /// # Errors
    /// A message that is in the stream cannot be read: asking again tries it again,
    /// [`Cursor::skip`] passes over it. [`ReadError::WouldWait`] and, of a filter that few messages
    /// pass, [`ReadError::More`] if it must not wait.
    pub fn next(&mut self, wait: Wait) -> Result<Option<Message<'_>>, ReadError> {
        // What is released later is not looked at: of that the catalog may not know what was
        // removed.
        self.released = self.reader.shared.release.seq();
        self.reader.shared.follow(wait)?;
        self.resume();
        let mut found = self.next_parts(wait);
        if self.is_resumed
            && matches!(&found, Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotFound)
        {
            // The segment was about to be removed when it was taken up again: what comes next is
            // elsewhere.
            self.leave();
            found = self.next_parts(wait);
        }
        match found {
            Ok(Some(parts)) => Ok(Some(self.message(parts))),
            Ok(None) => {
                self.rest();
                Ok(None)
            }
            Err(error) => {
                // The next call finds the place anew: what is at hand may be half read.
                self.segment = None;
                if let ReadError::Damaged(_) = &error {
                    self.meet();
                }
                let shared = &self.reader.shared;
                shared.told(Err(shared.unless_mended(error)))
            }
        }
    }

    /// Reports damage in what comes next, and passes it over.
    fn meet(&mut self) {
        if self.ahead.is_none()
            && let Ok(Some((_, seq, _))) = self.next_row()
        {
            self.next = seq;
        }
        self.reader.shared.meet(self.next);
    }

    fn next_parts(&mut self, wait: Wait) -> Result<Option<MessageSpans>, ReadError> {
        let Some(mut ahead) = self.ahead.take() else { return self.advance(wait) };
        let found = ahead.advance(self, wait);
        self.ahead = Some(ahead);
        found
    }

    /// Nobody reads for now: lets go of the segment's file, which would stay open for it even when
    /// it is removed. To be called by whoever keeps a cursor between two turns. What was read ahead
    /// is of use again if the segment is still there then.
    pub fn pause(&mut self) {
        if let Some(segment) = self.segment.take() {
            self.bookmark.set(segment);
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.pause();
        }
    }

    /// Gives back most of what was read ahead, for an owner that may not go on for long: thousands
    /// of cursors may stand in the middle of their streams. The next bytes are read in small steps
    /// at first.
    pub fn shrink(&mut self) {
        if self.piece.capacity() <= SPARE {
            return;
        }
        let segment_of = |offset: u64| offset.saturating_sub(self.offset) as usize;
        let at = match &self.ahead {
            None => self.at,
            Some(ahead) => ahead.next_offset().map_or(usize::MAX, segment_of),
        };
        let begin = at.min(self.piece.len());
        let end = begin.saturating_add(SPARE).min(self.piece.len());
        self.piece = self.piece[begin..end].to_vec();
        self.offset += begin as u64;
        self.at = 0;
        // One who goes on reads about twice in each turn.
        self.reach = (self.reach / 4).max(SPARE).min(self.piece_bytes);
        if let Some(ahead) = &mut self.ahead {
            ahead.shrink();
        }
    }

    /// One who goes on reads more at once.
    pub(super) fn reach_on(&mut self) {
        self.reach = (2 * self.reach).min(self.piece_bytes);
    }

    /// Reads as much at once as it ever does.
    pub(super) fn reach_far(&mut self) {
        self.reach = self.piece_bytes;
    }

    fn resume(&mut self) {
        if self.segment.is_none()
            && let Some(segment) = self.bookmark.take()
        {
            self.segment = Some(segment);
            self.is_resumed = true;
        }
        if let Some(ahead) = &mut self.ahead {
            self.is_resumed |= ahead.resume();
        }
    }

    /// The next message is looked for in the catalog.
    fn leave(&mut self) {
        (self.segment, self.is_resumed) = (None, false);
        self.bookmark.clear();
        if let Some(ahead) = &mut self.ahead {
            ahead.forget();
        }
    }

    /// At the end of the stream there may be thousands of cursors: they need little memory there.
    fn rest(&mut self) {
        if self.piece.capacity() > SPARE {
            self.segment = None;
            self.piece = Vec::new();
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.rest();
        }
    }

    fn advance(&mut self, wait: Wait) -> Result<Option<MessageSpans>, ReadError> {
        loop {
            if self.next > self.released {
                return Ok(None);
            }
            if self.next > self.last || self.truncations != self.reader.shared.truncations() {
                self.segment = None;
            }
            if self.segment.is_none() && !self.enter_segment()? {
                // The log may end with sequences that no message has. Whoever waits, waits for what
                // is released next.
                self.next = self.next.max(self.released.saturating_add(1));
                return Ok(None);
            }
            match self.find()? {
                NextEntry::Message(parts) => return Ok(Some(parts)),
                NextEntry::Wait => return Ok(None),
                NextEntry::Elsewhere => self.segment = None,
                NextEntry::More(bytes) => {
                    if !self.read_on(bytes, wait)? {
                        self.end_segment()?;
                    }
                }
            }
        }
    }

    /// The bytes of the segment end in the middle of an entry, or before one.
    fn end_segment(&mut self) -> Result<(), ReadError> {
        let Some(segment) = self.segment.clone() else { return Ok(()) };
        let view = self.offset + self.at as u64;
        let next = self.next_here()?;
        // Asked last: a message that has just been appended has its bytes here.
        let is_all = segment.sealed().is_some() || view + self.piece.len() as u64 >= segment.records_end();
        match next {
            // Nobody would find another one for it.
            Some((_, offset)) if offset == view && is_all => Err(invalid(&segment, view, Invalid::Cut)),
            // The bytes here are of no message that counts, and their length means nothing; or
            // nothing more is named here. Whoever finds what comes next tells what is missing.
            next if next.is_none_or(|(_, offset)| offset > view) => {
                self.segment = None;
                Ok(())
            }
            _ => {
                self.leave_segment();
                Ok(())
            }
        }
    }

    /// A sealed segment has shown all it has, whatever else its table names.
    fn leave_segment(&mut self) {
        self.segment = None;
        if self.last != Seq::MAX {
            self.next = self.next.max(self.last + 1);
        }
    }

    /// Goes on behind `seq`, whatever is there.
    pub fn skip(&mut self, seq: Seq) {
        self.skip_to(seq.saturating_add(1));
    }

    /// Goes on at `seq`.
    pub fn skip_to(&mut self, seq: Seq) {
        if seq != self.next {
            self.next = seq;
            self.leave();
        }
    }

    fn message(&self, parts: MessageSpans) -> Message<'_> {
        let MessageSpans { seq, timestamp, expires, subject, headers, payload } = parts;
        let piece = &self.piece;
        Message {
            seq,
            timestamp,
            expires,
            subject: &piece[subject],
            headers: &piece[headers],
            payload: &piece[payload],
        }
    }

    /// Finds the segment that holds what comes next, and where in it. False if there is nothing.
    fn enter_segment(&mut self) -> Result<bool, ReadError> {
        let catalog = self.reader.shared.whole_catalog()?;
        self.truncations = self.reader.shared.truncations();
        self.next = self.next.max(catalog.totals().first_seq);
        let first = catalog.segment_from(self.next);
        let mut found = None;
        for at in first..catalog.segments().len() {
            let view = &catalog.segments()[at];
            if let Some((seq, offset)) = live_row(&catalog, at, self.next)? {
                self.offset = offset;
                self.segment = Some(Arc::clone(&view.segment));
                self.is_resumed = false;
                self.last = if matches!(view.form, Form::Active) { Seq::MAX } else { view.last_seq };
                self.piece.clear();
                self.at = 0;
                found = Some(seq);
                break;
            }
        }
        let end = found.map_or(self.released, |seq| self.released.min(seq - 1));
        // Almost always what comes next has a row.
        let is_named = catalog.deleted().next_live(self.next) > end;
        drop(catalog);
        if !is_named {
            self.reader.shared.meet_unnamed(self.next..=end)?;
        }
        Ok(found.is_some())
    }

    /// Looks for a message in the bytes at hand.
    fn find(&mut self) -> Result<NextEntry, ReadError> {
        let Some(segment) = &self.segment else { return Ok(NextEntry::Wait) };
        let is_trusted = self.reader.shared.storage == Storage::Memory
            || matches!(segment.source, SegmentFile::Packed(..));
        let released = self.released;
        // No append writes a message so far from where its segment begins: recovery has reported
        // and passed over it.
        let is_strange = |seq: Seq| seq.saturating_sub(segment.first_seq) > u64::from(u32::MAX);
        loop {
            let at = self.at;
            let offset = self.offset + at as u64;
            let bytes = &mut self.piece[at..];
            let head = match record::peek(bytes) {
                // No entry begins like this, however many bytes follow.
                None if bytes.len() >= HEAD_BYTES => return self.unreadable(offset, Invalid::EntryHead),
                None => return Ok(NextEntry::More(HEAD_BYTES)),
                Some(head) if head.size() > bytes.len() => return Ok(NextEntry::More(head.size())),
                Some(head) if is_strange(head.seq) && head.kind == record::EntryKind::Message => head,
                // Shown by a later segment, in another message; unless the sequence is a wrong one.
                Some(head) if head.seq > self.last && head.kind == record::EntryKind::Message => {
                    if self.named_here(offset)?.is_some_and(|seq| seq <= self.last) {
                        return Err(invalid(segment, offset, Invalid::Checksum));
                    }
                    self.next = self.last + 1;
                    return Ok(NextEntry::Elsewhere);
                }
                // Not released yet: it may not be looked at, and its bytes may still change.
                Some(head) if head.seq > released && head.kind == record::EntryKind::Message => {
                    match self.named_here(offset)? {
                        None => return Ok(NextEntry::Elsewhere),
                        Some(seq) if seq <= released => {
                            return Err(invalid(segment, offset, Invalid::Checksum));
                        }
                        Some(_) => {}
                    }
                    self.next = self.next.max(released.saturating_add(1));
                    return Ok(NextEntry::Wait);
                }
                Some(head) => head,
            };
            let decoded = if is_trusted {
                record::decode_trusted_peeked(bytes, head)
            } else {
                record::decode_peeked(bytes, head, offset, &segment.context)
            };
            let decoded = match decoded {
                Ok(decoded) => decoded,
                Err(Invalid::Cut) => return Ok(NextEntry::More(bytes_after(&self.piece, at))),
                Err(why) => return self.unreadable(offset, why),
            };
            self.at += decoded.size;
            let message = match decoded.entry {
                Entry::Message(message) if is_strange(message.seq) => continue,
                Entry::Message(message) => message,
                Entry::Erased { seq } if is_strange(seq) => continue,
                Entry::Erased { seq } => {
                    self.next = self.next.max(seq + 1);
                    continue;
                }
                Entry::Control(_) => continue,
            };
            if message.seq < self.next {
                continue;
            }
            self.next = message.seq + 1;
            if self.gaps.contains(message.seq, &self.reader) {
                continue;
            }
            return Ok(NextEntry::Message(MessageSpans::of(&message, at)));
        }
    }

    /// No entry can be read at `offset`.
    fn unreadable(&self, offset: u64, why: Invalid) -> Result<NextEntry, ReadError> {
        match (&self.segment, self.named_here(offset)?) {
            (Some(segment), Some(_)) => Err(invalid(segment, offset, why)),
            // What recovery has passed over, it has told.
            _ => Ok(NextEntry::Elsewhere),
        }
    }

    /// The sequence of what comes next, if that stands at `offset` of this segment. Otherwise the
    /// bytes there, if they are damaged, are those of no message that counts.
    fn named_here(&self, offset: u64) -> Result<Option<Seq>, ReadError> {
        Ok(self.next_here()?.filter(|(_, view)| *view == offset).map(|(seq, _)| seq))
    }

    /// Sequence and place of what comes next, if that is in this segment.
    fn next_here(&self) -> Result<Option<(Seq, u64)>, ReadError> {
        Ok(self.next_row()?.filter(|(is_here, ..)| *is_here).map(|(_, seq, offset)| (seq, offset)))
    }

    /// Whether what comes next is in this segment, its sequence, and where it stands in its
    /// segment.
    fn next_row(&self) -> Result<Option<(bool, Seq, u64)>, ReadError> {
        let catalog = self.reader.shared.whole_catalog()?;
        let next = self.next.max(catalog.totals().first_seq);
        for at in catalog.segment_from(next)..catalog.segments().len() {
            if let Some((seq, offset)) = live_row(&catalog, at, next)? {
                let segment = &catalog.segments()[at].segment;
                let is_here = self.segment.as_ref().is_some_and(|here| Arc::ptr_eq(here, segment));
                return Ok(Some((is_here, seq, offset)));
            }
        }
        Ok(None)
    }

    /// Whether a message that was there as of a count of removals was removed since.
    pub(super) fn is_gone(&mut self, seq: Seq, removals: u64) -> bool {
        self.reader.shared.removals() != removals && self.gaps.contains(seq, &self.reader)
    }

    /// Reads the next piece of the segment, at least `bytes` long. False at its end.
    fn read_on(&mut self, bytes: usize, wait: Wait) -> Result<bool, ReadError> {
        let Some(segment) = self.segment.clone() else { return Ok(false) };
        self.offset += self.at as u64;
        if let SegmentFile::Packed(file, frames) = &segment.source {
            if frames.find(self.offset).is_none() {
                self.piece.clear();
                self.at = 0;
                return Ok(false);
            }
            let file = file.open()?;
            let unpacked = unpack(&segment, &*file, frames, self.offset, wait, &mut self.piece);
            if let Err(ReadError::Damaged(_)) = &unpacked
                && self.named_here(self.offset)?.is_none()
            {
                // The next message is in another frame, and not damaged.
                self.piece.clear();
                self.at = 0;
                return Ok(false);
            }
            let from = unpacked?;
            self.at = (self.offset - from) as usize;
            self.offset = from;
            return Ok(self.piece.len() - self.at >= bytes);
        }
        // No more than there is: a cursor at the end of its stream needs little memory.
        let rest = segment.records_end().saturating_sub(self.offset);
        self.piece.resize(self.reach.max(bytes).min(usize::try_from(rest).unwrap_or(usize::MAX)), 0);
        self.at = 0;
        let read = read_bytes(&segment, &mut self.piece, self.offset, wait);
        self.piece.truncate(*read.as_ref().unwrap_or(&0));
        let read = read?;
        self.reach_on();
        Ok(read >= bytes)
    }
}

/// The first message at or behind `next` that the segment at `at` shows and that was not removed,
/// and where it stands: what was removed may be damaged as it likes.
fn live_row(catalog: &Catalog, at: usize, mut next: Seq) -> Result<Option<(Seq, u64)>, ReadError> {
    let view = &catalog.segments()[at];
    let table = catalog.table(at)?;
    let first = view.segment.first_seq;
    loop {
        let row = table.row_from(next.saturating_sub(first));
        if row == table.len() {
            return Ok(None);
        }
        let seq = first + u64::from(table.delta(row));
        // Of a segment whose end was truncated, later ones show what comes next.
        if seq > view.last_seq {
            return Ok(None);
        }
        next = catalog.deleted().next_live(seq);
        if next == seq {
            return Ok(Some((seq, table.offset(row))));
        }
    }
}

impl MessageSpans {
    /// The parts of a message whose entry begins at `at` and holds nothing between them.
    pub(super) fn of(message: &record::Message<'_>, at: usize) -> Self {
        let subject_at = at + HEAD_BYTES + if message.expires.is_some() { 8 } else { 0 };
        let headers_at = subject_at + message.subject.len();
        let payload_at = headers_at + message.headers.len();
        Self {
            seq: message.seq,
            timestamp: message.timestamp,
            expires: message.expires,
            subject: subject_at..headers_at,
            headers: headers_at..payload_at,
            payload: payload_at..payload_at + message.payload.len(),
        }
    }
}

/// A length that asks for more than what is at hand.
fn bytes_after(piece: &[u8], at: usize) -> usize {
    piece.len() - at + 1
}

impl Gaps {
    /// Whether the message was removed.
    fn contains(&mut self, seq: Seq, reader: &StreamReader) -> bool {
        let removals = reader.shared.removals();
        if removals != self.removals || seq >= self.until {
            self.renew(seq, reader);
        }
        while self.ranges.get(self.at).is_some_and(|range| *range.end() < seq) {
            self.at += 1;
        }
        seq < self.first || self.ranges.get(self.at).is_some_and(|range| range.contains(&seq))
    }

    fn renew(&mut self, seq: Seq, reader: &StreamReader) {
        let catalog = reader.shared.catalog();
        // Before the lock was there it may have grown: the next call then asks again.
        self.removals = reader.shared.removals();
        self.first = catalog.totals().first_seq;
        self.ranges.clear();
        self.ranges.extend(catalog.deleted().ranges_from(seq).take(GAPS));
        self.at = 0;
        self.until = if self.ranges.len() < GAPS {
            Seq::MAX
        } else {
            self.ranges.last().map_or(Seq::MAX, |range| range.end() + 1)
        };
    }
}

//! Reading a stream without its turn.
//!
//! A [`StreamReader`] sees what is released and not removed. It takes the catalog's lock to find a
//! message and reads the bytes without it; a segment file that is replaced meanwhile stays readable
//! for whoever has found it before. What single reads of sealed segments ask for again and again
//! comes out of [`Blocks`].

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use myelin_disk::File;

use crate::damage::Damage;
use crate::pack::{FrameTable, unpack_frame};
use crate::record::{self, Entry, FileContext, HEAD_BYTES, Invalid, Message};
use crate::recovery::Lost;
use crate::{Seq, Storage, Timestamp};

use super::blocks::{self, BLOCK_BYTES, Blocks, CacheLookup};
use super::catalog::{Catalog, Located};
use super::cursor::{Cursor, PIECE};
use super::errors::ReadError;
use super::lookup::{self, Filter};
use super::segment_view::{SealedFile, Segment, SegmentFile};
use super::wait::Wait;
use super::{Release, Stream, StreamShared, StreamState, search, state_of};

/// Bytes by which an entry is longer than its message's stored size, at most.
pub(super) const ENTRY_SURPLUS: u64 = 64;

/// Longer entries are not looked for in blocks: a system call is little of what reading them costs.
const LONGEST_IN_BLOCKS: usize = 4 * BLOCK_BYTES as usize;

/// Removals from a stream so far. While `interior` stays equal, all that went was before
/// `first_seq`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    /// Messages that were removed otherwise than from the front, since the stream was opened.
    pub interior: u64,
    /// The stream's first sequence.
    pub first_seq: Seq,
}

/// Access to a stream for reading, without its turn. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StreamReader {
    pub(super) shared: Arc<StreamShared>,
}

impl Stream {
    /// A reader of this stream.
    #[must_use]
    pub fn reader(&self) -> StreamReader {
        StreamReader::new(Arc::clone(&self.shared))
    }
}

impl StreamReader {
    pub(crate) fn new(shared: Arc<StreamShared>) -> Self {
        Self { shared }
    }

    /// Whether nobody else has the stream any more.
    pub(crate) fn is_last(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    /// The stream in numbers, as of what is released.
    #[must_use]
    pub fn state(&self) -> StreamState {
        let released = self.shared.release.seq();
        let catalog = self.shared.catalog();
        state_of(catalog.totals(), catalog.index().len() as u64, released)
    }

    /// Bytes of the stream's messages behind everything in its log, released or not, as
    /// [`Stream::totals`](crate::Stream::totals) has them.
    #[must_use]
    pub fn bytes_decided(&self) -> u64 {
        self.shared.catalog().decided().totals().bytes
    }

    /// The last sequence that was given out, released or not.
    #[must_use]
    pub fn last_logged(&self) -> Seq {
        self.shared.release.last_seq()
    }

    /// Where the stream keeps its messages.
    #[must_use]
    pub fn storage(&self) -> Storage {
        self.shared.storage
    }

    /// The release position.
    #[must_use]
    pub fn release(&self) -> &Release {
        &self.shared.release
    }

    /// Why the stream takes nothing any more, if it does not: nothing that waits is released then.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.shared.failure()
    }

    /// Others have what is damaged here, and are to give it, or nobody does, as at first. It counts
    /// for all readers of the stream until that is opened anew: where others have it damage is
    /// [`ReadError::Io`], not [`ReadError::Damaged`], so that nobody passes over it.
    pub fn set_mended(&self, is_mended: bool) {
        self.shared.met.set_mended(is_mended);
    }

    /// Whether others have what is damaged here ([`StreamReader::set_mended`]): whoever cannot read
    /// something does not say then that there is nothing.
    #[must_use]
    pub fn is_mended(&self) -> bool {
        self.shared.met.is_mended()
    }

    /// Damage that readers have met since the stream was opened.
    #[must_use]
    pub fn met_damage(&self) -> Vec<Lost> {
        self.shared.met.all()
    }

    /// Reads the message with this sequence into `buffer`. `None` if there is none, or it is not
    /// released.
    ///
    /// # Errors
    /// The message is in the stream and cannot be read.
    pub fn get<'b>(
        &self,
        seq: Seq,
        wait: Wait,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Message<'b>>, ReadError> {
        self.shared.told(self.get_from_disk(seq, wait, buffer))
    }

    fn get_from_disk<'b>(
        &self,
        seq: Seq,
        wait: Wait,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Message<'b>>, ReadError> {
        let catalog = self.shared.whole_catalog()?;
        let located = catalog.locate(seq)?;
        let is_removed = located.is_none() && !catalog.contains(seq);
        drop(catalog);
        let Some(located) = located else {
            // Neither stored nor removed.
            return if is_removed { Ok(None) } else { self.shared.watched(seq, Err(lost(seq))) };
        };
        let read = fetch(&self.shared, &located, seq, wait, buffer);
        self.shared.watched(seq, read).map(Some)
    }

    /// The first message at or behind `from` that passes.
    ///
    /// # Errors
    /// A table of the stream cannot be read.
    pub fn next_seq(&self, filter: &Filter, from: Seq) -> Result<Option<Seq>, ReadError> {
        self.next_seq_until(filter, from, Seq::MAX)
    }

    /// The first message from `from` to `to` that passes: whoever holds up nobody for long does not
    /// look at everything.
    ///
    /// # Errors
    /// As [`StreamReader::next_seq`].
    pub fn next_seq_until(&self, filter: &Filter, from: Seq, to: Seq) -> Result<Option<Seq>, ReadError> {
        lookup::next(&*self.shared.whole_catalog()?, filter, from, to.min(self.shared.release.seq()))
    }

    /// The last message at or before `from` that passes.
    ///
    /// # Errors
    /// As [`StreamReader::next_seq`].
    pub fn previous_seq(&self, filter: &Filter, from: Seq) -> Result<Option<Seq>, ReadError> {
        lookup::previous(&*self.shared.whole_catalog()?, filter, from.min(self.shared.release.seq()))
    }

    /// The newest message that passes.
    ///
    /// # Errors
    /// As [`StreamReader::next_seq`].
    pub fn last_seq(&self, filter: &Filter) -> Result<Option<Seq>, ReadError> {
        lookup::last(&*self.shared.whole_catalog()?, filter)
    }

    /// How many released messages from `from` on pass.
    ///
    /// # Errors
    /// As [`StreamReader::next_seq`].
    pub fn pending(&self, filter: &Filter, from: Seq) -> Result<u64, ReadError> {
        self.count(filter, from, Seq::MAX)
    }

    /// How many released messages from `from` to `to` pass. What the index does not know is counted
    /// in slices, between which others may change the stream: [`StreamReader::removals`] says
    /// whether they did.
    ///
    /// # Errors
    /// As [`StreamReader::next_seq`].
    pub fn count(&self, filter: &Filter, from: Seq, to: Seq) -> Result<u64, ReadError> {
        let shared = &*self.shared;
        let to = to.min(shared.release.seq());
        let catalog = shared.catalog();
        if let Some(met) = search::count_at_once(&catalog, filter, from, to) {
            return Ok(met);
        }
        let (totals, removals) = (catalog.totals(), shared.removals());
        let (first, last) = (from.max(totals.first_seq), to.min(totals.last_seq));
        // The shorter way round: count what is there, or take away what is before and behind.
        if last - first < (totals.last_seq - totals.first_seq) / 2 {
            drop(catalog);
            return search::count(shared, filter, first, last);
        }
        let all = lookup::count(&catalog, filter);
        drop(catalog);
        let before = search::count(shared, filter, totals.first_seq, first - 1)?;
        let others = before + search::count(shared, filter, last + 1, totals.last_seq)?;
        if shared.removals() == removals {
            return Ok(all.saturating_sub(others));
        }
        search::count(shared, filter, first, last)
    }

    /// Removals so far, for those who keep a count of messages.
    #[must_use]
    pub fn removals(&self) -> Removals {
        let catalog = self.shared.catalog();
        Removals { interior: catalog.interior(), first_seq: catalog.totals().first_seq }
    }

    /// The messages that were removed otherwise than from the front since [`Removals::interior`]
    /// was `seen`; `None` where that was so long ago that they are not known any more.
    #[must_use]
    pub fn removed_since(&self, seen: u64) -> Option<Vec<Seq>> {
        let catalog = self.shared.catalog();
        catalog.gaps_since(seen)
    }

    /// Shows the subjects of released messages from `from` to `to`, oldest first and equal
    /// neighbours once, until the visitor has enough. It is called under the catalog's lock: it
    /// must not call the stream.
    ///
    /// # Errors
    /// As [`StreamReader::next_seq`]. Of messages that are not in sealed segments, none.
    pub fn each_subject(
        &self,
        from: Seq,
        to: Seq,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let to = to.min(self.shared.release.seq());
        let catalog = self.shared.whole_catalog()?;
        lookup::each_subject(&catalog, from, to, visit)
    }

    /// Reads, waiting for the device, what a cursor that stands at `from` would read next: a cursor
    /// that must not wait finds it in memory then. Answers the sequence of its next message, or
    /// where it has nothing to look for any more before something is released: with
    /// [`Cursor::skip_to`] it has not to look again, in tables that may not all fit into memory.
    ///
    /// # Errors
    /// What the cursor would answer.
    pub fn warm(&self, filter: &Filter, from: Seq) -> Result<Seq, ReadError> {
        let mut cursor = self.cursor(filter.clone(), from);
        // What the other one reads next may be as much.
        cursor.reach_far();
        match cursor.next(Wait::Allowed) {
            Ok(Some(message)) => Ok(message.seq),
            // A cursor that stands at a damaged message is told so, and needs no other table: where
            // two of them do not fit into memory it would wait for ever for one after the other.
            Ok(None) | Err(ReadError::Damaged(_)) => Ok(cursor.position()),
            Err(error) => Err(error),
        }
    }

    /// Subjects that match `pattern` with their messages, in the order of their texts, `limit` of
    /// them behind `after`.
    #[must_use]
    pub fn subjects(&self, pattern: &[u8], after: Option<&[u8]>, limit: usize) -> Vec<(Box<[u8]>, u64)> {
        let catalog = self.shared.catalog();
        let mut found = Vec::new();
        if limit == 0 {
            return found;
        }
        catalog.index().for_each_matching(pattern, after, &mut |id, text| {
            found.push((Box::from(text), catalog.index().state(id).count));
            if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        found
    }

    /// Sequences that were removed, and are neither before the first nor behind the last message.
    #[must_use]
    pub fn deleted(&self) -> Vec<std::ops::RangeInclusive<Seq>> {
        self.shared.catalog().deleted().ranges().collect()
    }

    /// The first released message accepted at `time` or later; one behind the last if there is
    /// none.
    ///
    /// # Errors
    /// As [`StreamReader::get`].
    pub fn seq_at(&self, time: Timestamp) -> Result<Seq, ReadError> {
        let catalog = self.shared.whole_catalog()?;
        let behind = catalog.totals().last_seq.min(self.shared.release.seq()) + 1;
        let from = catalog.segments().partition_point(|place| place.reached < time);
        for at in from..catalog.segments().len() {
            if catalog.segments()[at].times.latest >= time
                && let Some(seq) = seq_in(&catalog, at, time)?
            {
                return Ok(catalog.deleted().next_live(seq.max(catalog.totals().first_seq)).min(behind));
            }
        }
        Ok(behind)
    }

    /// When the first message that there is was accepted; `None` if there is none.
    ///
    /// # Errors
    /// As [`StreamReader::get`].
    pub fn first_time(&self) -> Result<Option<Timestamp>, ReadError> {
        let (segment, offset) = {
            let catalog = self.shared.catalog();
            let first = catalog.totals().first_seq;
            if catalog.totals().messages == 0 {
                return Ok(None);
            }
            let Some(at) = catalog.segment_of(first) else { return Err(lost(first)) };
            let segment = Arc::clone(&catalog.segments()[at].segment);
            let table = catalog.table(at)?;
            let Some(row) = table.row_of(first - segment.first_seq) else { return Err(lost(first)) };
            (segment, table.offset(row))
        };
        timestamp_at(&segment, offset, &mut Vec::new()).map(Some)
    }

    /// When this message was accepted; `None` if there is none, or it is not released.
    ///
    /// # Errors
    /// As [`StreamReader::get`].
    pub fn time_of(&self, seq: Seq) -> Result<Option<Timestamp>, ReadError> {
        let located = self.shared.whole_catalog()?.locate(seq)?;
        let time = located.map(|at| timestamp_at(&at.segment, at.offset, &mut Vec::new()));
        time.transpose()
    }

    /// Walks messages from `from` on, in order.
    #[must_use]
    pub fn cursor(&self, filter: Filter, from: Seq) -> Cursor {
        Cursor::new(self.clone(), filter, from, PIECE)
    }

    /// Walks messages from `from` on, in order, and reads no more than about `bytes` at once.
    #[must_use]
    pub fn short_cursor(&self, filter: Filter, from: Seq, bytes: usize) -> Cursor {
        Cursor::new(self.clone(), filter, from, bytes.min(PIECE))
    }
}

/// The first message that the segment at `at` shows and that was accepted at `time` or later.
///
/// Compat: where the clock went back within the segment it may be a later one that is, as in the
/// reference. But only if there is none, there is none.
fn seq_in(catalog: &Catalog, at: usize, time: Timestamp) -> Result<Option<Seq>, ReadError> {
    let place = &catalog.segments()[at];
    let table = catalog.table(at)?;
    let base = place.segment.first_seq;
    // Of a segment whose end was truncated, later ones show what comes next.
    let shown = table.row_from((place.last_seq + 1).saturating_sub(base));
    let mut head = Vec::new();
    let mut is_before = |row| -> Result<bool, ReadError> {
        Ok(timestamp_at(&place.segment, table.offset(row), &mut head)? < time)
    };
    let (mut low, mut high) = (0, shown);
    while low < high {
        let middle = usize::midpoint(low, high);
        if is_before(middle)? { low = middle + 1 } else { high = middle }
    }
    let seq = |row| base + u64::from(table.delta(row));
    if low < shown {
        return Ok(Some(seq(low)));
    }
    // The latest one is not at the end: it was truncated, or the clock went back.
    for row in (0..shown).filter(|row| catalog.contains(seq(*row))) {
        if !is_before(row)? {
            return Ok(Some(seq(row)));
        }
    }
    Ok(None)
}

fn lost(seq: Seq) -> ReadError {
    ReadError::Damaged(format!("message {seq} was lost with a damaged part of the stream"))
}

/// When the message whose entry begins at `offset` was accepted.
pub(super) fn timestamp_at(
    segment: &Segment,
    offset: u64,
    buffer: &mut Vec<u8>,
) -> Result<Timestamp, ReadError> {
    if let SegmentFile::Packed(file, frames) = &segment.source {
        let file = file.open()?;
        let from = unpack(segment, &*file, frames, offset, Wait::Allowed, buffer)?;
        let head = buffer.get((offset - from) as usize..).and_then(record::peek);
        return head.map(|head| head.timestamp).ok_or_else(|| not_there(segment, offset));
    }
    buffer.resize(HEAD_BYTES, 0);
    let read = read_bytes(segment, buffer, offset, Wait::Allowed)?;
    record::peek(&buffer[..read]).map(|head| head.timestamp).ok_or_else(|| not_there(segment, offset))
}

/// Reads the message that was located.
pub(super) fn fetch<'b>(
    shared: &StreamShared,
    located: &Located,
    seq: Seq,
    wait: Wait,
    buffer: &'b mut Vec<u8>,
) -> Result<Message<'b>, ReadError> {
    let segment = &*located.segment;
    if let SegmentFile::Packed(file, frames) = &segment.source {
        let file = file.open()?;
        let from = unpack(segment, &*file, frames, located.offset, wait, buffer)?;
        let entry = buffer
            .get((located.offset - from) as usize..)
            .ok_or_else(|| not_there(segment, located.offset))?;
        let decoded = record::decode_trusted(entry).map_err(|why| invalid(segment, located.offset, why))?;
        return as_message(decoded.entry, segment, located.offset, seq);
    }
    let longest = located.size + ENTRY_SURPLUS;
    buffer.resize(usize::try_from(longest).unwrap_or(usize::MAX).min(record::MAX_ENTRY_BYTES), 0);
    let read = match &segment.source {
        SegmentFile::Plain(file) => read_single(&shared.blocks, segment, file, buffer, located.offset, wait)?,
        _ => read_bytes(segment, buffer, located.offset, wait)?,
    };
    let bytes = &mut buffer[..read];
    let decoded = match shared.storage {
        // Memory is not suspected of losing bits.
        Storage::Memory => record::decode_trusted(bytes),
        Storage::File => record::decode(bytes, located.offset, &segment.context),
    };
    let decoded = decoded.map_err(|why| {
        // The next one who asks sees what the device has now.
        shared.blocks.forget(segment);
        invalid(segment, located.offset, why)
    })?;
    as_message(decoded.entry, segment, located.offset, seq)
}

/// As [`read_bytes`], of one message of a sealed segment: from memory if it is at hand there. Then
/// no file is opened.
fn read_single(
    blocks: &Blocks,
    segment: &Segment,
    file: &SealedFile,
    buffer: &mut Vec<u8>,
    offset: u64,
    wait: Wait,
) -> Result<usize, ReadError> {
    let room = file.records_end.saturating_sub(offset).min(buffer.len() as u64) as usize;
    if !(1..=LONGEST_IN_BLOCKS).contains(&room) {
        return read_bytes(segment, buffer, offset, wait);
    }
    let range = offset..offset + room as u64;
    match blocks.read(segment, &mut buffer[..room], offset) {
        CacheLookup::Whole => return Ok(room),
        CacheLookup::Wanted if read_blocks(blocks, segment, file, buffer, range, wait) => return Ok(room),
        CacheLookup::Wanted | CacheLookup::Missing => {}
    }
    let read = read_bytes(segment, &mut buffer[..room], offset, wait)?;
    // Not before: one who may not wait is followed by one who may, and both are one read.
    blocks.note(segment, offset..offset + read as u64);
    Ok(read)
}

/// Reads the blocks of a message whole and keeps them; its bytes are then first in `buffer`. False
/// if a block cannot be read, which is no matter if the message's own bytes can.
fn read_blocks(
    blocks: &Blocks,
    segment: &Segment,
    file: &SealedFile,
    buffer: &mut Vec<u8>,
    range: Range<u64>,
    wait: Wait,
) -> bool {
    let numbers = blocks::numbers(range.clone());
    let begin = numbers.start * BLOCK_BYTES;
    let length = ((numbers.end * BLOCK_BYTES).min(file.records_end) - begin) as usize;
    buffer.resize(length, 0);
    if !read_bytes(segment, buffer, begin, wait).is_ok_and(|read| read == length) {
        return false;
    }
    for (number, bytes) in numbers.zip(buffer.chunks(BLOCK_BYTES as usize)) {
        blocks.keep(segment, number, bytes);
    }
    buffer.copy_within((range.start - begin) as usize..(range.end - begin) as usize, 0);
    true
}

/// Reads the bytes of one entry of a segment in memory, whose message has this stored size.
pub(super) fn read_entry(
    segment: &Segment,
    offset: u64,
    size: u64,
    buffer: &mut Vec<u8>,
) -> Result<(), ReadError> {
    buffer.resize((size + ENTRY_SURPLUS) as usize, 0);
    let read = read_bytes(segment, buffer, offset, Wait::Allowed)?;
    let head = record::peek(&buffer[..read]).filter(|head| head.size() <= read);
    buffer.truncate(head.ok_or_else(|| not_there(segment, offset))?.size());
    Ok(())
}

fn as_message<'b>(
    entry: Entry<'b>,
    segment: &Segment,
    offset: u64,
    seq: Seq,
) -> Result<Message<'b>, ReadError> {
    match entry {
        Entry::Message(message) if message.seq == seq => Ok(message),
        _ => Err(ReadError::Damaged(format!(
            "segment {} at {offset}: not the message {seq} that the table names",
            segment.no.0
        ))),
    }
}

/// Reads bytes of a segment that is not packed. Fewer than asked for at its end.
pub(super) fn read_bytes(
    segment: &Segment,
    buffer: &mut [u8],
    offset: u64,
    wait: Wait,
) -> Result<usize, ReadError> {
    match (&segment.source, wait) {
        (SegmentFile::Appended(file), Wait::Allowed) => Ok(file.read_at(buffer, offset)?),
        (SegmentFile::Appended(file), Wait::Forbidden) => {
            file.read_cached_at(buffer, offset)?.ok_or(ReadError::WouldWait)
        }
        (SegmentFile::Plain(sealed) | SegmentFile::Packed(sealed, _), wait) => {
            // What is behind the entries is none.
            let room = sealed.records_end.saturating_sub(offset).min(buffer.len() as u64) as usize;
            let file = sealed.open()?;
            match wait {
                Wait::Allowed => Ok(file.read_at(&mut buffer[..room], offset)?),
                Wait::Forbidden => {
                    file.read_cached_at(&mut buffer[..room], offset)?.ok_or(ReadError::WouldWait)
                }
            }
        }
    }
}

/// Reads the frame that holds the raw `offset`; answers the raw offset of what is now first in
/// `buffer`.
pub(super) fn unpack(
    segment: &Segment,
    file: &dyn File,
    frames: &FrameTable,
    offset: u64,
    wait: Wait,
    buffer: &mut Vec<u8>,
) -> Result<u64, ReadError> {
    let place = frames.find(offset).ok_or_else(|| not_there(segment, offset))?;
    buffer.resize(place.size as usize, 0);
    let read = match wait {
        Wait::Allowed => file.read_at(buffer, place.file_offset)?,
        Wait::Forbidden => file.read_cached_at(buffer, place.file_offset)?.ok_or(ReadError::WouldWait)?,
    };
    if read < buffer.len() {
        return Err(not_there(segment, offset));
    }
    let FileContext { seed, cipher } = &segment.context;
    unpack_frame(place, *seed, cipher.as_ref(), buffer)
        .map_err(|error| ReadError::Damaged(format!("segment {}: {error}", segment.no.0)))?;
    Ok(place.raw_offset)
}

pub(super) fn invalid(segment: &Segment, offset: u64, why: Invalid) -> ReadError {
    ReadError::Damaged(format!("segment {} at {offset}: {why}", segment.no.0))
}

fn not_there(segment: &Segment, offset: u64) -> ReadError {
    let damage = Damage::Io(std::io::ErrorKind::UnexpectedEof.into());
    ReadError::Damaged(format!("segment {} at {offset}: {damage}", segment.no.0))
}

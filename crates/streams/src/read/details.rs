//! Details of a stream's contents for STREAM.INFO.

use std::ops::RangeInclusive;

use myelin_store::{Seq, StreamReader, Timestamp};

/// Subjects in one answer, at most.
pub const SUBJECTS_PER_PAGE: usize = 100_000;
/// Subjects that are looked at under one lock.
const SLICE: usize = 4096;

/// The numbers of a stream. What the reference leaves out of its JSON is said at each field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamContents {
    /// Messages.
    pub messages: u64,
    /// Their stored bytes.
    pub bytes: u64,
    /// The first message; without messages the one to come.
    pub first_seq: Seq,
    /// `None` without messages: shown as the year 1.
    pub first_time: Option<Timestamp>,
    /// The last sequence given out.
    pub last_seq: Seq,
    /// `None` if there never was a message: shown as the year 1.
    pub last_time: Option<Timestamp>,
    /// Distinct subjects; 0 is left out.
    pub subjects: u64,
    /// Sequences between first and last without a message; 0 is left out.
    pub num_deleted: u64,
    /// Which ones these are, where asked for; empty is left out. Shown one by one.
    pub deleted: Vec<RangeInclusive<Seq>>,
}

/// The numbers of a stream as of its last append, with `deleted` if the request has
/// `deleted_details`.
#[must_use]
pub fn contents(reader: &StreamReader, with_deleted: bool) -> StreamContents {
    let state = reader.state();
    let totals = state.totals;
    let known = |time: &Timestamp| *time != 0;
    StreamContents {
        messages: totals.messages,
        bytes: totals.bytes,
        first_seq: totals.first_seq,
        // What is damaged is told by who reads it.
        first_time: reader.first_time().ok().flatten().filter(known),
        last_seq: totals.last_seq,
        last_time: Some(totals.last_timestamp).filter(known),
        subjects: state.subjects,
        num_deleted: state.deleted,
        deleted: if with_deleted { reader.deleted() } else { Vec::new() },
    }
}

/// Subjects with their messages, as `subjects_filter` and `offset` ask for them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SubjectPage {
    /// How many subjects match, here or not. With 0 the answer's `total`, `offset` and `limit` are
    /// all 0.
    pub total: usize,
    /// Subjects of this page, in the order of their texts.
    pub subjects: Vec<(Box<[u8]>, u64)>,
}

/// The subjects that `pattern` matches, from number `offset` on. Walks all of them, under short
/// locks: not for a shard where there may be many.
#[must_use]
pub fn subject_page(reader: &StreamReader, pattern: &[u8], offset: usize) -> SubjectPage {
    let mut page = SubjectPage::default();
    let mut after: Option<Box<[u8]>> = None;
    loop {
        let slice = reader.subjects(pattern, after.as_deref(), SLICE);
        let is_last = slice.len() < SLICE;
        after = slice.last().map(|(subject, _)| subject.clone());
        let skipped = offset.saturating_sub(page.total);
        page.total += slice.len();
        let room = SUBJECTS_PER_PAGE - page.subjects.len();
        page.subjects.extend(slice.into_iter().skip(skipped).take(room));
        if is_last {
            return page;
        }
    }
}

//! Removing many single messages at once: what consumers have acknowledged, for instance.
//!
//! Owns which of them go, which is decided first, and how rows of many messages are found at little
//! cost. Those at the front go as an eviction does; the others are visited in order, so that each
//! segment's table is asked for once.
//!
//! Perf: `myelin bench store --rows 'delete-*'`.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::Seq;
use crate::index::SubjectId;
use crate::ranges::Ranges;
use crate::segment::Slots;

use super::super::ReadError;
use super::super::segment_view::Form;
use super::super::table::{Rows, Table};
use super::{Catalog, Removed};

/// The table that was looked at last.
#[derive(Debug, Default)]
struct Hand {
    /// Its place in the list.
    at: usize,
    slots: Option<Arc<Slots>>,
    /// Stream-wide numbers of a sealed table's subjects.
    subjects: HashMap<u32, Option<SubjectId>, FixedState>,
}

/// Row of a table: stored size and subject.
type Row = (u64, Option<SubjectId>);

/// Messages that are to go.
#[derive(Debug, Default)]
pub(in crate::stream) struct RemovalDecision {
    /// Their sequences, ascending; each of them has a message.
    going: Vec<Seq>,
    /// How many of them are the oldest messages.
    front: usize,
    /// The first sequence behind these.
    first: Seq,
    /// Tables of sealed segments that name them, kept until they have gone.
    _tables: Vec<Arc<Slots>>,
}

impl RemovalDecision {
    pub(in crate::stream) fn is_nothing(&self) -> bool {
        self.going.is_empty()
    }

    /// The first sequence since, if messages go from the front.
    pub(in crate::stream) fn first(&self) -> Option<Seq> {
        (self.front > 0).then_some(self.first)
    }

    /// Sequences that go behind it.
    pub(in crate::stream) fn rest(&self) -> Ranges {
        let mut rest = Ranges::default();
        self.going[self.front..].iter().for_each(|&seq| rest.push(seq..=seq));
        rest
    }
}

impl Catalog {
    /// Decides which of `seqs` go: those that have a message.
    ///
    /// # Errors
    /// A table that names one of them cannot be read.
    pub(in crate::stream) fn decide_removal(&self, seqs: &[Seq]) -> Result<RemovalDecision, ReadError> {
        let mut going: Vec<Seq> = seqs.iter().copied().filter(|&seq| self.contains(seq)).collect();
        if !going.is_sorted() {
            going.sort_unstable();
        }
        going.dedup();
        let (mut front, mut first) = (0, self.totals.first_seq);
        while going.get(front) == Some(&first) {
            front += 1;
            let is_all = front as u64 == self.totals.messages;
            first = if is_all { self.next_seq() } else { self.removed.deleted.next_live(first + 1) };
        }
        let _tables = self.tables_of(&going)?;
        Ok(RemovalDecision { going, front, first, _tables })
    }

    /// The tables of sealed segments that name any of these sequences, which ascend: whoever keeps
    /// them finds the messages without a look at the disk.
    fn tables_of(&self, seqs: &[Seq]) -> Result<Vec<Arc<Slots>>, ReadError> {
        let mut tables = Vec::new();
        let mut from = 0;
        while let Some(&seq) = seqs.get(from) {
            let Some(at) = self.segments.find(seq) else {
                from += 1;
                continue;
            };
            let view = &self.segments.views[at];
            if matches!(view.form, Form::Sealed) && !self.has_head_table_of(view.segment.no) {
                tables.push(self.segments.slots.load(&view.segment)?);
            }
            from += seqs[from..].partition_point(|&seq| seq <= view.last_seq);
        }
        Ok(tables)
    }

    /// Removes messages that were decided on.
    ///
    /// # Errors
    /// A table cannot be read, though it could when that was decided: some of them are gone.
    pub(in crate::stream) fn remove_all(&mut self, decided: &RemovalDecision) -> Result<Removed, ReadError> {
        let RemovalDecision { going, front, first, .. } = decided;
        let mut removed = Removed::default();
        if *front > 0 {
            removed.add(self.remove_heads(*first)?);
            debug_assert!(self.totals.first_seq == *first, "the log says what happens");
        }
        let mut hand = Hand::default();
        for &seq in &going[*front..] {
            let (size, subject) = self.row_for(seq, &mut hand)?.unwrap_or((0, None));
            removed.add(self.take_out(seq, size, subject));
            debug_assert!(!self.contains(seq), "what was removed is gone");
        }
        self.check_all();
        Ok(removed)
    }

    fn row_for(&self, seq: Seq, hand: &mut Hand) -> Result<Option<Row>, ReadError> {
        let is_there =
            |at: usize| self.segments.views.get(at).is_some_and(|p| p.first_seq <= seq && seq <= p.last_seq);
        if hand.slots.is_none() || !is_there(hand.at) {
            let Some(at) = self.segments.find(seq) else { return Ok(None) };
            let view = &self.segments.views[at];
            let rows = match &view.form {
                Form::Active => &self.segments.rows,
                Form::Closed(rows) => rows,
                Form::Sealed => {
                    let slots = self.segments.slots.load(&view.segment)?;
                    *hand = Hand { at, slots: Some(slots), subjects: HashMap::default() };
                    return Ok(self.sealed_row(seq, hand));
                }
            };
            return Ok(growing_row(rows, seq - view.segment.first_seq));
        }
        Ok(self.sealed_row(seq, hand))
    }

    fn sealed_row(&self, seq: Seq, hand: &mut Hand) -> Option<Row> {
        let slots = hand.slots.as_ref()?;
        let delta = u32::try_from(seq - self.segments.views[hand.at].segment.first_seq).ok()?;
        let row = slots.find(delta)?;
        let number = slots.subject(row);
        let known = hand.subjects.entry(number);
        let subject = *known.or_insert_with(|| self.subjects.index.find(slots.dictionary().text(number)));
        Some((u64::from(slots.size(row)), subject))
    }
}

fn growing_row(rows: &Rows, delta: u64) -> Option<Row> {
    let table = Table::Growing(rows);
    let row = table.row_of(delta)?;
    Some((table.size(row), Some(table.subject(row))))
}

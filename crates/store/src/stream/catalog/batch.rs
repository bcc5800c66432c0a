//! Removing many single messages at once: what consumers have acknowledged, for instance.
//!
//! Owns how rows of many messages are found at little cost. Those at the front go as an eviction
//! does; the others are visited in order, so that each segment's table is asked for once.
//!
//! Perf: `myelin bench store --rows 'delete-*'`.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::Seq;
use crate::index::SubjectId;
use crate::segment::Slots;

use super::super::ReadError;
use super::super::segment_view::Form;
use super::super::table::{Rows, Table};
use super::{Catalog, RemovalRecord};

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

impl Catalog {
    /// Removes those of `seqs` that are there. After an error some of them may be gone: `taken`
    /// says which.
    pub(in crate::stream) fn remove_all(
        &mut self,
        seqs: &[Seq],
        taken: &mut RemovalRecord,
    ) -> Result<(), ReadError> {
        let mut sorted = Vec::new();
        let seqs = if seqs.is_sorted() {
            seqs
        } else {
            sorted.extend_from_slice(seqs);
            sorted.sort_unstable();
            &sorted
        };
        debug_assert!(seqs.is_sorted(), "tables are asked for once");
        let behind = self.remove_front(seqs, taken);
        if taken.first.is_some() {
            self.apply_head_removals();
        }
        let mut hand = Hand::default();
        for &seq in &seqs[behind?..] {
            if self.contains(seq) {
                let (size, subject) = self.row_for(seq, &mut hand)?.unwrap_or((0, None));
                taken.removed.add(self.take_out(seq, size, subject));
                debug_assert!(!self.contains(seq), "what was removed is gone");
                taken.rest.push(seq..=seq);
            }
        }
        self.check_all();
        Ok(())
    }

    /// Removes sorted sequences for as long as each is the first message. Answers how many of them
    /// are done.
    fn remove_front(&mut self, seqs: &[Seq], taken: &mut RemovalRecord) -> Result<usize, ReadError> {
        for (at, &seq) in seqs.iter().enumerate() {
            let first = self.totals.first_seq;
            if seq < first {
                continue;
            }
            if seq > first || self.totals.messages == 0 {
                return Ok(at);
            }
            taken.removed.add(self.remove_head()?);
            taken.first = Some(self.totals.first_seq);
        }
        Ok(seqs.len())
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

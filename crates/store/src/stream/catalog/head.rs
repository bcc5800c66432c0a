//! The table of the first segment, for a stream that removes its oldest message with every new one.

use std::sync::Arc;

use crate::index::SubjectId;
use crate::{SegmentNo, Seq};

use super::super::ReadError;
use super::super::segment_view::Form;
use super::super::table::Table;
use super::Catalog;

/// The table of the first segment, kept for a stream that trims its head with every message.
#[derive(Debug, Default)]
pub(super) struct HeadTable {
    /// The number of its segment, and the table.
    table: Option<(u64, Table<'static>)>,
    /// Whether it was of use since the last tidying.
    is_used: bool,
    /// Stream-wide numbers of a sealed table's subjects, as far as they were looked up.
    subjects: Vec<Option<SubjectId>>,
}

impl Catalog {
    /// The size and subject of the oldest message, which has this sequence.
    pub(super) fn head_row(&mut self, seq: Seq) -> Result<Option<(u64, SubjectId)>, ReadError> {
        if self.segments.views.first().is_some_and(|view| view.last_seq < seq) {
            self.segments.retire_below(seq);
        }
        // Segments that were closed without a message may stand before it.
        let Some(at) = self.segments.find(seq) else { return Ok(None) };
        let view = &self.segments.views[at];
        let first = view.segment.first_seq;
        if matches!(view.form, Form::Active) {
            let Some(row) = Table::Growing(&self.segments.rows).row_of(seq - first) else { return Ok(None) };
            return Ok(Some((u64::from(self.segments.rows.sizes[row]), self.segments.rows.subjects[row])));
        }
        self.load_head_table(at)?;
        self.head.is_used = true;
        let Some((no, table)) = &self.head.table else { return Ok(None) };
        debug_assert!(*no == self.segments.views[at].segment.no.0, "the table is that of the first segment");
        let Some(row) = table.row_of(seq - first) else { return Ok(None) };
        debug_assert!(first + u64::from(table.delta(row)) == seq, "a row is that of its sequence");
        let size = table.size(row);
        let number = table.subject(row);
        let subject = match table {
            Table::Sealed(slots) => {
                let known = &mut self.head.subjects[number as usize];
                match known {
                    Some(id) => Some(*id),
                    None => {
                        *known = self.subjects.index.find(slots.dictionary().text(number));
                        *known
                    }
                }
            }
            _ => Some(number),
        };
        Ok(subject.map(|id| (size, id)))
    }

    /// The size, and if `with_subject` the subject, of a message near the front; `None` of one
    /// that was lost to damage. Changes nothing, and uses the kept table if that is the one.
    pub(in crate::stream) fn head_of(
        &self,
        seq: Seq,
        with_subject: bool,
    ) -> Result<Option<(u64, Option<SubjectId>)>, ReadError> {
        let Some(at) = self.segments.find(seq) else { return Ok(None) };
        let view = &self.segments.views[at];
        let is_sealed = matches!(view.form, Form::Sealed);
        let loaded;
        let table = match &self.head.table {
            Some((no, kept)) if *no == view.segment.no.0 && is_sealed == matches!(kept, Table::Sealed(_)) => {
                kept
            }
            _ => {
                loaded = self.segments.table(at)?;
                &loaded
            }
        };
        let Some(row) = table.row_of(seq - view.segment.first_seq) else { return Ok(None) };
        let subject = if with_subject { table.subject_in(row, &self.subjects.index) } else { None };
        Ok(Some((table.size(row), subject)))
    }

    fn load_head_table(&mut self, at: usize) -> Result<(), ReadError> {
        let view = &self.segments.views[at];
        let no = view.segment.no.0;
        let sealed = matches!(view.form, Form::Sealed);
        if let Some((at, table)) = &self.head.table
            && *at == no
            && sealed == matches!(table, Table::Sealed(_))
        {
            return Ok(());
        }
        let table: Table<'static> = match &view.form {
            Form::Active => return Ok(()),
            Form::Closed(rows) => Table::Closed(Arc::clone(rows)),
            Form::Sealed => Table::Sealed(self.segments.slots.load(&view.segment)?),
        };
        self.head.subjects.clear();
        if let Table::Sealed(slots) = &table {
            self.head.subjects.resize(slots.dictionary().len(), None);
        }
        self.head.table = Some((no, table));
        Ok(())
    }

    /// Whether the kept table is the sealed one of this segment.
    pub(super) fn has_head_table_of(&self, no: SegmentNo) -> bool {
        matches!(&self.head.table, Some((kept, Table::Sealed(_))) if *kept == no.0)
    }

    /// Lets go of the table of the first segment if nobody trimmed since the last call.
    pub(crate) fn release_head_table(&mut self) {
        if !std::mem::take(&mut self.head.is_used) {
            self.forget_head_table();
        }
    }

    /// Whether the table of the first segment is kept.
    pub(in crate::stream) fn has_head_table(&self) -> bool {
        self.head.table.is_some()
    }

    /// Lets go of the table of the first segment, which was replaced.
    pub(crate) fn forget_head_table(&mut self) {
        self.head = HeadTable::default();
    }
}

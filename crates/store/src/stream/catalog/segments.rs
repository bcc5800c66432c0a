//! The segments of a stream, oldest first, and the table of the one that grows.
//!
//! Owns which segment shows a sequence: views ascend and do not overlap, and the last one alone may
//! grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::index::SubjectId;
use crate::{Seq, Timestamp};

use super::super::ReadError;
use super::super::segment_view::{Form, Segment, SegmentView, Times};
use super::super::table::{Rows, Table};
use super::super::table_cache::TableCache;
use super::NewRow;

/// The segments that a stream shows, and those that it has left.
#[derive(Debug)]
pub(super) struct Segments {
    /// Visible segments, oldest first. The last is the active one.
    pub(super) views: Vec<SegmentView>,
    /// The table of the active segment.
    pub(super) rows: Rows,
    /// Segments without visible messages, whose files maintenance may remove once a manifest says
    /// so.
    pub(super) retired: Vec<Arc<Segment>>,
    /// False in memory, where they are gone at once.
    pub(super) keeps_retired: bool,
    /// Closed segments that are not sealed yet.
    pub(super) unsealed: usize,
    /// Whether there may be segments in files whose table was made of their entries, and stays.
    pub(super) has_walked: bool,
    /// Whether there may be a segment in memory of which most was removed.
    pub(super) has_sparse: bool,
    /// Tables of sealed segments.
    pub(super) slots: Arc<TableCache>,
}

impl Segments {
    pub(super) fn new(slots: Arc<TableCache>) -> Self {
        Self {
            views: Vec::new(),
            rows: Rows::default(),
            retired: Vec::new(),
            keeps_retired: true,
            unsealed: 0,
            has_walked: false,
            has_sparse: false,
            slots,
        }
    }

    /// Checks what this file owns: views ascend and do not overlap, and the last one alone may
    /// grow.
    pub(super) fn check(&self) {
        let mut before: Option<&SegmentView> = None;
        // The rest was checked when it came: the last few are those that change.
        for view in self.views.iter().skip(self.views.len().saturating_sub(4)) {
            if let Some(before) = before {
                debug_assert!(before.last_seq < view.first_seq, "views ascend and do not overlap");
                debug_assert!(!matches!(before.form, Form::Active), "only the last segment grows");
                debug_assert!(before.reached <= view.reached, "a time that was reached stays reached");
                debug_assert!(before.segment.no < view.segment.no, "segments are numbered upwards");
            }
            debug_assert!(view.segment.first_seq <= view.first_seq, "a view shows a part of its segment");
            debug_assert!(
                !matches!(view.form, Form::Sealed) || view.segment.is_sealed(),
                "the table of a sealed segment is in its footer"
            );
            before = Some(view);
        }
        debug_assert!(
            self.views.last().is_some_and(|view| matches!(view.form, Form::Active)) || self.rows.len() == 0,
            "rows are those of a segment that grows"
        );
        debug_assert!(self.keeps_retired || self.retired.is_empty(), "in memory nothing is kept");
    }

    /// The segment that grows.
    pub(super) fn active(&mut self) -> &mut SegmentView {
        self.views.last_mut().expect("a stream has an active segment")
    }

    /// Adds an empty segment that grows from here on.
    pub(super) fn push_active(&mut self, segment: Arc<Segment>) {
        let first_seq = segment.first_seq;
        let reached = self.views.last().map_or(Timestamp::MIN, |before| before.reached);
        debug_assert!(self.rows.len() == 0, "a segment begins with an empty table");
        self.push(SegmentView {
            segment,
            first_seq,
            last_seq: first_seq - 1,
            times: Times::NONE,
            reached,
            form: Form::Active,
            removed: 0,
        });
    }

    /// Adds a segment whose table is in its footer.
    pub(super) fn push_sealed(&mut self, mut view: SegmentView) {
        let before = self.views.last().map_or(Timestamp::MIN, |before| before.reached);
        view.reached = view.times.latest.max(before);
        self.push(view);
    }

    fn push(&mut self, view: SegmentView) {
        debug_assert!(
            self.views.last().is_none_or(|before| before.last_seq < view.first_seq),
            "segments show sequences in ascending order"
        );
        debug_assert!(
            self.views.last().is_none_or(|before| !matches!(before.form, Form::Active)),
            "only the last segment grows"
        );
        self.views.push(view);
    }

    /// Enters a message as the last one of the active segment.
    pub(super) fn append_row(&mut self, row: &NewRow<'_>, size: u32, subject: SubjectId) {
        let active = self.views.last_mut().expect("a stream has an active segment");
        debug_assert!(matches!(active.form, Form::Active), "only the active segment grows");
        debug_assert!(row.seq > active.last_seq, "sequences of a segment ascend");
        if self.rows.len() == 0 {
            active.times = Times::NONE;
        }
        active.times.add(row.timestamp);
        active.reached = active.reached.max(row.timestamp);
        active.last_seq = row.seq;
        // A batch is checked against these bounds before anything of it is entered.
        let delta = u32::try_from(row.seq - active.segment.first_seq).expect("segments span few sequences");
        let offset = u32::try_from(row.offset).expect("segments are smaller than 4 GiB");
        debug_assert!(self.rows.offsets.last().is_none_or(|&last| last < offset), "offsets ascend");
        self.rows.push(delta, offset, size, subject);
    }

    /// Lets the active segment show sequences up to `last`, which have no messages.
    pub(super) fn skip(&mut self, last: Seq) {
        if let Some(active) = self.views.last_mut() {
            debug_assert!(active.last_seq <= last, "a segment shows no less than before");
            active.last_seq = last;
        }
    }

    /// Takes the table of the active segment, which grows no more.
    pub(super) fn close_active(&mut self) -> Option<Arc<Rows>> {
        let active = self.views.last_mut().filter(|view| matches!(view.form, Form::Active))?;
        let mut rows = std::mem::take(&mut self.rows);
        if !self.keeps_retired {
            // In memory it stays as it is; of a file it is sealed soon.
            rows.shrink();
        }
        let rows = Arc::new(rows);
        active.form = Form::Closed(Arc::clone(&rows));
        Some(rows)
    }

    /// After a truncation older segments may hold sequences that begin anew in the next one: those
    /// are not visible.
    pub(super) fn hide_from(&mut self, first_seq: Seq, truncations: &AtomicU64) {
        while let Some(view) = self.views.last_mut()
            && view.last_seq >= first_seq
        {
            truncations.fetch_add(1, Ordering::Release);
            view.last_seq = first_seq - 1;
            if !view.is_empty() {
                return;
            }
            let view = self.views.pop().expect("the list has a last place");
            if self.keeps_retired {
                self.retired.push(view.segment);
            }
        }
    }

    /// Ends what segments show at `last`; all of them stay, be they empty.
    pub(super) fn hide_above(&mut self, last: Seq, truncations: &AtomicU64) {
        let hidden = self.views.iter_mut().rev().take_while(|view| view.last_seq > last);
        for view in hidden.filter(|view| !view.is_empty()) {
            truncations.fetch_add(1, Ordering::Release);
            view.last_seq = last.max(view.first_seq - 1);
        }
    }

    /// Index in `views` of the segment that shows `seq`.
    pub(super) fn find(&self, seq: Seq) -> Option<usize> {
        let behind = self.views.partition_point(|view| view.first_seq <= seq);
        debug_assert!(
            self.views.get(behind).is_none_or(|view| seq < view.first_seq),
            "views ascend, so that they can be searched"
        );
        let at = behind.checked_sub(1)?;
        (seq <= self.views[at].last_seq).then_some(at)
    }

    /// Indexes of the segments that show something from `first` to `last`.
    pub(super) fn between(&self, first: Seq, last: Seq) -> std::ops::Range<usize> {
        let from = self.from(first);
        from..self.views.partition_point(|view| view.first_seq <= last).max(from)
    }

    /// The first segment that shows something at or behind `seq`.
    pub(super) fn from(&self, seq: Seq) -> usize {
        self.views.partition_point(|view| view.last_seq < seq)
    }

    /// The table of the segment at `view`, from memory or its footer.
    pub(super) fn table(&self, view: usize) -> Result<Table<'_>, ReadError> {
        let view = &self.views[view];
        match &view.form {
            Form::Active => Ok(Table::Growing(&self.rows)),
            Form::Closed(rows) => Ok(Table::Growing(rows)),
            Form::Sealed => self.slots.load(&view.segment).map(Table::Sealed),
        }
    }

    /// Drops segments whose messages all lie below `first` from the list. The active one stays.
    pub(super) fn retire_below(&mut self, first: Seq) {
        let gone =
            self.views.iter().take_while(|p| p.last_seq < first && !matches!(p.form, Form::Active)).count();
        if gone > 0 {
            let gone = self.views.drain(..gone).map(|view| view.segment);
            if self.keeps_retired { self.retired.extend(gone) } else { drop(gone) }
        }
        debug_assert!(
            self.views.first().is_none_or(|view| view.last_seq >= first || matches!(view.form, Form::Active)),
            "a segment without messages is retired"
        );
    }
}

//! Changes that recovery makes in a catalog otherwise than message by message, from states of a
//! manifest, a base or a footer.

use std::sync::Arc;

use crate::index::{Deleted, SubjectState};
use crate::manifest::Manifest;
use crate::segment::{Changes, SubjectChange};
use crate::{SegmentNo, Seq, Timestamp};

use super::super::ReadError;
use super::super::segment_view::{Form, SegmentView};
use super::super::table::Rows;
use super::{Catalog, SubjectId};

impl Catalog {
    /// Takes over counts and removed sequences at the end of what a manifest covers.
    pub(crate) fn restore_totals(&mut self, manifest: &Manifest) {
        self.totals = manifest.totals;
        self.removed.deleted = Deleted::load(manifest.deleted.iter());
    }

    /// Takes over the state of a subject, whatever was known of it.
    pub(crate) fn restore_subject(&mut self, change: &SubjectChange<'_>) {
        let id = self.subjects.index.enter(change.text);
        self.subjects.index.set(id, state_of(change));
    }

    /// Takes over the lifetime of a message, if that is there.
    pub(crate) fn restore_expiry(&mut self, seq: Seq, at: Timestamp) {
        if self.contains(seq) {
            self.lifetimes.restore(seq, at);
        }
    }

    /// Takes over what the footer of a segment that begins with `first_seq` says. What is gone
    /// before it stays so: it may count messages that were lost since it was written.
    pub(crate) fn apply_changes(&mut self, first_seq: Seq, changes: &Changes) {
        if changes.totals.messages == 0 || changes.totals.first_seq >= first_seq {
            // No message of before is left, so whatever has one is named among the changes.
            self.replace_index();
        }
        for change in changes.subjects.iter() {
            if change.count == 0 && self.subjects.index.find(change.text).is_none() {
                continue;
            }
            self.restore_subject(&change);
        }
        let before = self.totals.first_seq;
        self.totals = changes.totals;
        for range in changes.deleted.iter() {
            self.removed.deleted.insert_range(range);
        }
        self.begin_with_kept(before, first_seq, changes);
        self.removed.deleted.remove_below(self.totals.first_seq);
        self.removed.deleted.remove_above(changes.totals.last_seq);
        for &(seq, at) in &changes.expiries {
            self.restore_expiry(seq, at);
        }
    }

    /// Moves the first sequence to where it was before, if that was further on and not cut off: the
    /// segments before have lost what is in between, and this one was sealed before that.
    fn begin_with_kept(&mut self, before: Seq, first_seq: Seq, changes: &Changes) {
        let kept = changes.truncated_to.unwrap_or(Seq::MAX).min(first_seq - 1);
        let (first, last) = (changes.totals.first_seq, before.min(kept + 1).saturating_sub(1));
        if first > last {
            return;
        }
        let gone = last + 1 - first - changes.deleted.within(first..=last).count();
        self.totals.first_seq = last + 1;
        self.totals.messages = self.totals.messages.saturating_sub(gone);
    }

    /// The number of a subject, for a table that is made of entries.
    pub(crate) fn enter_subject(&mut self, text: &[u8]) -> SubjectId {
        self.subjects.index.enter(text)
    }

    /// Counts subjects anew from the tables of all segments.
    ///
    /// # Errors
    /// The table of this segment cannot be read; nothing has changed.
    pub(crate) fn rebuild_index(&mut self) -> Result<(), (SegmentNo, ReadError)> {
        // Rows that were read from entries name subjects by their numbers in the index that goes.
        let mut messages = Vec::new();
        let mut texts: Vec<Option<Vec<Box<[u8]>>>> = Vec::new();
        for (at, view) in self.segments.views.iter().enumerate() {
            messages.push(self.messages_of(at).map_err(|error| (view.segment.no, error))?);
            texts.push(match &view.form {
                Form::Closed(rows) => {
                    Some(rows.subjects.iter().map(|&id| Box::from(self.subjects.index.text(id))).collect())
                }
                Form::Active | Form::Sealed => None,
            });
        }
        self.replace_index();
        for (seq, text) in messages.into_iter().flatten() {
            let id = self.subjects.index.enter(&text);
            self.subjects.index.appended(id, seq, 0);
        }
        for (at, texts) in texts.into_iter().enumerate() {
            if let (Some(texts), Form::Closed(rows)) = (texts, self.segments.views[at].form.clone()) {
                let mut renumbered = Rows::default();
                for (row, text) in texts.iter().enumerate() {
                    let id = self.subjects.index.enter(text);
                    renumbered.push(rows.delta(row), rows.offsets[row], rows.sizes[row], id);
                }
                self.segments.views[at].form = Form::Closed(Arc::new(renumbered));
            }
        }
        self.forget_touched_subjects();
        Ok(())
    }

    /// Notes whether a segment has a table made of its entries that stays: one that is closed and
    /// not `to_be_sealed`.
    pub(crate) fn note_walked(&mut self, to_be_sealed: impl Fn(SegmentNo) -> bool) {
        let is_walked =
            |view: &SegmentView| matches!(view.form, Form::Closed(_)) && !to_be_sealed(view.segment.no);
        self.segments.has_walked = self.segments.views.iter().any(is_walked);
    }
}

fn state_of(change: &SubjectChange<'_>) -> SubjectState {
    SubjectState {
        count: change.count,
        first: change.first,
        last: change.last,
        first_exact: change.first_exact,
        last_exact: change.last_exact,
    }
}

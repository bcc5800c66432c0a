//! A base and the changes of the segments after it make the next base.
//!
//! Owns the rule by which states are laid over each other: the newest one counts, and nothing is
//! added up.

use super::{BaseReader, BaseWriter};
use crate::damage::Damage;
use crate::ranges::Ranges;
use crate::segment::{Changes, SubjectChange, SubjectChanges};
use crate::{Seq, Timestamp};

/// Writes what `old` says, changed by `newer`, which are the changes of the segments behind it,
/// oldest first. Subjects that are gone are left out, and so are expiries of messages that are.
///
/// # Errors
/// Those of `old` and of the file that is written.
pub fn merge(
    mut old: Option<&mut BaseReader>,
    newer: &[Changes],
    writer: &mut BaseWriter,
) -> Result<(), Damage> {
    merge_subjects(old.as_deref_mut(), newer, writer)?;
    let mut survivors = Survivors::new(newer);
    let mut kept = Vec::with_capacity(newer.len());
    for changes in newer.iter().rev() {
        let alive = |(seq, _): &&(Seq, Timestamp)| survivors.holds(*seq);
        kept.push(changes.expiries.iter().filter(alive).copied().collect::<Vec<_>>());
        survivors.go_before(changes);
    }
    if let Some(old) = old {
        while let Some(expiries) = old.next_expiries()? {
            let alive = expiries.into_iter().filter(|(seq, _)| survivors.holds(*seq));
            alive.into_iter().try_for_each(|(seq, expires)| writer.expiry(seq, expires))?;
        }
    }
    kept.into_iter().rev().flatten().try_for_each(|(seq, expires)| writer.expiry(seq, expires))
}

/// Which messages of a segment the segments behind it have left.
struct Survivors {
    first: Seq,
    last: Seq,
    deleted: Ranges,
}

impl Survivors {
    fn new(newer: &[Changes]) -> Self {
        let first = newer.last().map_or(0, |changes| changes.totals.first_seq);
        Self { first, last: Seq::MAX, deleted: Ranges::new() }
    }

    fn holds(&self, seq: Seq) -> bool {
        (self.first..=self.last).contains(&seq) && !self.deleted.contains(seq)
    }

    /// From the messages of this segment to those of the ones before it.
    fn go_before(&mut self, changes: &Changes) {
        self.last = self.last.min(changes.truncated_to.unwrap_or(Seq::MAX));
        self.deleted = self.deleted.union(&changes.deleted);
    }
}

fn merge_subjects(
    mut old: Option<&mut BaseReader>,
    newer: &[Changes],
    writer: &mut BaseWriter,
) -> Result<(), Damage> {
    let newest = newest(newer);
    let mut newest = newest.iter().copied().peekable();
    let mut block = next_block(&mut old)?;
    while let Some(subjects) = block {
        for subject in subjects.iter() {
            while let Some(before) = newest.next_if(|one| one.text < subject.text) {
                writer.subject(before)?;
            }
            let replaced = newest.next_if(|one| one.text == subject.text);
            writer.subject(replaced.unwrap_or(subject))?;
        }
        block = next_block(&mut old)?;
    }
    newest.try_for_each(|subject| writer.subject(subject))
}

fn next_block(old: &mut Option<&mut BaseReader>) -> Result<Option<SubjectChanges>, Damage> {
    old.as_deref_mut().map_or(Ok(None), BaseReader::next_subjects)
}

/// The newest state of each subject that was changed, sorted by text.
fn newest(newer: &[Changes]) -> Vec<SubjectChange<'_>> {
    let mut all: Vec<SubjectChange<'_>> = newer.iter().flat_map(|changes| changes.subjects.iter()).collect();
    // Stable, and quick where long parts are sorted already: of equal texts the newest is the last.
    all.sort_by(|a, b| a.text.cmp(b.text));
    all.dedup_by(|later, earlier| {
        let same = later.text == earlier.text;
        if same {
            *earlier = *later;
        }
        same
    });
    all
}

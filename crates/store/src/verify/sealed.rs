//! The footer of a sealed segment against its entries, and against the stream at its end.

use crate::Seq;
use crate::damage::Damage;
use crate::segment::{self, Changes, Slots, Trailer};

use super::Finding;
use super::apply::{Counting, SegmentRole, TableCheck};
use super::segment::OpenSegment;
use super::state::{CountedStream, Sum};
use super::stream::Checking;

/// Sections of a footer that could be read.
#[derive(Debug, Default)]
pub(super) struct Sections {
    pub(super) slots: Option<Slots>,
    changes: Option<Changes>,
}

impl Sections {
    /// The last sequence that was given out when the segment was closed.
    pub(super) fn last_seq(&self) -> Seq {
        self.changes.as_ref().map_or(0, |changes| changes.totals.last_seq)
    }
}

const ENTRIES_REMAIN: &str = "Its messages can still be read one by one, which makes starting slower.";
const DISAGREE: &str = "The server would show another state than that of the messages it has.";

/// Reads the sections of the footer.
pub(super) fn read(checking: &mut Checking<'_, '_>, open: &OpenSegment<'_>, trailer: &Trailer) -> Sections {
    let slots = segment::read_slots(&*open.file, trailer, &open.context);
    let changes = segment::read_changes(&*open.file, trailer, &open.context);
    // The dictionary belongs to both: told once.
    let same = match (&slots, &changes) {
        (Err(one), Err(other)) => one.to_string() == other.to_string(),
        _ => false,
    };
    let slots = slots.map_err(|damage| emit_section(checking, open, trailer, &damage)).ok();
    let changes = changes
        .map_err(|damage| {
            if !same {
                emit_section(checking, open, trailer, &damage)
            }
        })
        .ok();
    Sections { slots, changes }
}

fn emit_section(checking: &mut Checking<'_, '_>, open: &OpenSegment<'_>, trailer: &Trailer, damage: &Damage) {
    let bytes = trailer.records_end..open.length;
    checking.emit(Finding::damage(&*open.path, damage.to_string(), ENTRIES_REMAIN).at(bytes));
}

/// Whether the sections are what was written, without the key to read them.
pub(super) fn check_locked(checking: &mut Checking<'_, '_>, open: &OpenSegment<'_>, trailer: &Trailer) {
    if let Err(damage) = segment::check_sections(&*open.file, trailer, &open.context) {
        emit_section(checking, open, trailer, &damage);
    }
}

/// Holds the footer against what was read of the entries.
pub(super) fn check(
    checking: &mut Checking<'_, '_>,
    open: &OpenSegment<'_>,
    trailer: &Trailer,
    sections: &Sections,
    rows: &TableCheck<'_>,
    counting: &Counting,
) {
    let bytes = trailer.records_end..open.length;
    let mut wrong = |what: String| {
        checking.emit(Finding::damage(&*open.path, what, DISAGREE).at(bytes.clone()));
    };
    if let Some(slots) = &sections.slots {
        summary(open, trailer, slots, rows, &mut wrong);
    }
    if let Some(changes) = &sections.changes
        && counting.is_trusted
        && !counting.is_ahead
        && matches!(open.place.role, SegmentRole::Replayed)
    {
        totals(changes, &counting.state, &mut wrong);
        subjects(changes, &counting.state, &mut wrong);
        removals(changes, &counting.state, rows, &mut wrong);
    }
}

fn summary(
    open: &OpenSegment<'_>,
    trailer: &Trailer,
    slots: &Slots,
    rows: &TableCheck<'_>,
    wrong: &mut dyn FnMut(String),
) {
    let first_seq = open.header.first_seq;
    let last_seq = slots.len().checked_sub(1).map_or(first_seq.saturating_sub(1), |last| slots.seq(last));
    let bytes: u64 = (0..slots.len()).map(|at| u64::from(slots.size(at))).sum();
    let summary = &trailer.summary;
    if (summary.first_seq, summary.last_seq, summary.bytes) != (first_seq, last_seq, bytes) {
        wrong("the summary is not that of the table".to_owned());
    }
    let told = (summary.first_timestamp, summary.last_timestamp);
    if rows.lost().is_none() && told != rows.times.told() {
        wrong("the summary's times are not those of its messages".to_owned());
    }
}

fn totals(changes: &Changes, state: &CountedStream, wrong: &mut dyn FnMut(String)) {
    let told = &changes.totals;
    let told = (told.first_seq, told.last_seq, told.messages, told.bytes);
    let counted = (state.first_seq, state.last_seq, state.messages, state.bytes);
    if told != counted {
        wrong(format!("it says {}, counted were {}", Sum(told), Sum(counted)));
    }
}

fn subjects(changes: &Changes, state: &CountedStream, wrong: &mut dyn FnMut(String)) {
    for change in changes.subjects.iter() {
        let count = state.count(change.text);
        if change.count != count {
            let subject = String::from_utf8_lossy(change.text);
            return wrong(format!(
                "it says that {subject} has {} messages, counted were {count}",
                change.count
            ));
        }
    }
    let texts = changes.subjects.texts();
    let forgotten =
        state.touched.iter().map(|number| state.text(*number)).find(|text| texts.find(text).is_none());
    if let Some(text) = forgotten {
        wrong(format!("it does not say what became of subject {}", String::from_utf8_lossy(text)));
    }
}

fn removals(changes: &Changes, state: &CountedStream, rows: &TableCheck<'_>, wrong: &mut dyn FnMut(String)) {
    for range in changes.deleted.iter() {
        if let Some(seq) = state.any_in(*range.start(), *range.end()) {
            return wrong(format!("it says that message {seq} was deleted, but it is there"));
        }
    }
    let expected = rows.expiries.iter().filter(|(seq, _)| state.contains(*seq));
    let told = changes.expiries.iter().filter(|(seq, _)| !rows.erased.contains(seq));
    if !expected.eq(told) {
        wrong("the lifetimes of its messages are not those in the entries".to_owned());
    }
}

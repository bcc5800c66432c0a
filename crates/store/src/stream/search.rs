//! Looking for messages of some subjects, a slice at a time.
//!
//! Owns the walk through the segments' tables, which say of each message its subject: a few bytes
//! per message, and a segment whose dictionary has none of the subjects is passed over. No slice
//! holds the catalog's lock for long: tables of sealed segments never change, and are looked
//! through without it.
//!
//! Perf: numbers of subjects are compared many at once, and what a filter says of a number is
//! remembered. Measured by `myelin bench store --rows 'sparse-*'`.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::Seq;
use crate::index::SubjectIndex;
use crate::segment::{Dictionary, Slots};

use super::catalog::Catalog;
use super::errors::ReadError;
use super::lookup::Filter;
use super::segment_view::{Form, Segment};
use super::table::Table;
use super::wait::Wait;
use super::{StreamShared, lookup};

/// The work of one slice, in rows that are looked at one by one (one or two nanoseconds each).
const SLICE: usize = 16 << 10;
/// The work of beginning one.
const BEGIN: usize = 128;
/// The work of asking a filter about a subject.
const ASK: usize = 32;
/// Rows that are looked at together.
const CHUNK: usize = 64;
/// The work of passing over so many.
const PASS: usize = 8;
/// Numbers of subjects whose verdict is remembered.
const VERDICTS: usize = 512;
/// The first number for which there is no room beside a verdict. No table has so many subjects.
const NO_NUMBER: u32 = u32::MAX >> 1;
/// Patterns whose beginnings are looked for in a dictionary.
const FEW_PATTERNS: usize = 8;

/// Search for messages that pass a filter, a slice of the stream at a time.
#[derive(Debug)]
pub(super) struct FilterSearch {
    filter: Filter,
    verdicts: Verdicts,
    /// Rows of the table at hand that pass.
    rows: Vec<u32>,
}

/// A message that passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Match {
    pub(super) seq: Seq,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// Result of a slice.
#[derive(Debug)]
pub(super) struct Slice {
    /// Where the matches are, if there are any.
    pub(super) segment: Option<Arc<Segment>>,
    /// Everything before this was looked at.
    pub(super) next: Seq,
    /// In rows.
    pub(super) work: usize,
    /// The matches are there as of this count of removals.
    pub(super) removals: u64,
    pub(super) truncations: u64,
}

/// Verdicts of a filter on numbers of subjects, of one table: the latest of each slot.
#[derive(Debug, Default)]
struct Verdicts {
    /// The sealed table that the numbers are of.
    table: Option<(u64, u64)>,
    /// A number and, in the lowest bit, whether it passes.
    known: Vec<u32>,
}

/// Numbers of subjects that may pass, and whether all of them do.
#[derive(Clone, Debug)]
struct Aim {
    numbers: Range<u32>,
    is_sure: bool,
}

impl FilterSearch {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, verdicts: Verdicts::default(), rows: Vec::new() }
    }

    /// Gives back what it needs only while it looks.
    pub(super) fn rest(&mut self) {
        self.verdicts = Verdicts::default();
        self.rows = Vec::new();
    }

    /// Looks at some messages from `from` to `to`, and adds up to `limit` that pass to `matches`,
    /// which is empty. `to` is not behind the release position.
    ///
    /// # Errors
    /// A table cannot be read; [`ReadError::WouldWait`].
    pub(super) fn slice(
        &mut self,
        shared: &StreamShared,
        (from, to): (Seq, Seq),
        limit: usize,
        wait: Wait,
        matches: &mut Vec<Match>,
    ) -> Result<Slice, ReadError> {
        let catalog = shared.whole_catalog()?;
        let (removals, truncations) = (shared.removals(), shared.truncations());
        let done = Slice { segment: None, next: to.saturating_add(1), work: BEGIN, removals, truncations };
        let Some((first, last)) = self.bounds(&catalog, from, to) else { return Ok(done) };
        let at = catalog.segment_from(first);
        let Some(view) = catalog.segments().get(at).filter(|view| view.first_seq <= last) else {
            return Ok(done);
        };
        let segment = Arc::clone(&view.segment);
        let end = last.min(view.last_seq);
        // Behind the last one that the stream has of a subject there is nothing to look for.
        let behind = if end == last { done.next } else { end + 1 };
        if !matches!(view.form, Form::Sealed) {
            let table = catalog.table(at)?;
            self.verdicts.begin(None);
            let aim = self.growing_aim(catalog.index());
            // Rows of removed messages are asked about, too.
            let text = |number| catalog.index().text_or_other(number);
            let (stop, work) = self.pick(&table, &segment, (first, end), &aim, text, limit);
            add(&catalog, &table, &segment, &self.rows, matches);
            let next = stop.unwrap_or(behind);
            return Ok(Slice { segment: Some(segment), next, work: done.work + work, ..done });
        }
        let cache = Arc::clone(catalog.slots());
        drop(catalog);
        let slots = match (cache.at_hand(&segment), wait) {
            (Some(slots), _) => slots,
            (None, Wait::Allowed) => cache.load(&segment)?,
            (None, Wait::Forbidden) => return Err(ReadError::WouldWait),
        };
        let (stop, work) = self.pick_sealed(&segment, &slots, (first, end), limit);
        if slots.is_partial() {
            each_gap(&slots, (first, end), |gap| shared.meet_unnamed(gap))?;
        }
        let catalog = shared.catalog();
        if shared.truncations() != truncations {
            // The segment may show less than was looked at: once more.
            return Ok(Slice { next: first, work: done.work + work, ..done });
        }
        // What was removed meanwhile does not count.
        let removals = shared.removals();
        add(&catalog, &Table::Sealed(slots), &segment, &self.rows, matches);
        let (next, work) = (stop.unwrap_or(behind), done.work + work);
        Ok(Slice { segment: Some(segment), next, work, removals, truncations })
    }

    /// Narrows a range to what is to be looked at. `None`: nothing.
    fn bounds(&self, catalog: &Catalog, from: Seq, to: Seq) -> Option<(Seq, Seq)> {
        let (first, last) = (from.max(catalog.totals().first_seq), to.min(catalog.totals().last_seq));
        let (first, last) = match &self.filter {
            Filter::Subject(text) => {
                let state = catalog.index().state(catalog.index().find(text)?);
                (first.max(state.first), last.min(state.last))
            }
            _ => (first, last),
        };
        (first <= last).then_some((first, last))
    }

    fn pick_sealed(
        &mut self,
        segment: &Arc<Segment>,
        slots: &Arc<Slots>,
        range: (Seq, Seq),
        limit: usize,
    ) -> (Option<Seq>, usize) {
        self.verdicts.begin(Some((segment.no.0, segment.generation)));
        let aim = aim_at(&self.filter, slots.dictionary());
        let text = |number| slots.dictionary().text(number);
        self.pick(&Table::Sealed(Arc::clone(slots)), segment, range, &aim, text, limit)
    }

    fn growing_aim(&self, index: &SubjectIndex) -> Aim {
        match &self.filter {
            Filter::All => Aim { numbers: 0..u32::MAX, is_sure: true },
            Filter::Subject(text) => match index.find(text) {
                Some(number) => Aim { numbers: number..number + 1, is_sure: true },
                None => Aim { numbers: 0..0, is_sure: true },
            },
            Filter::Patterns(_) => Aim { numbers: 0..u32::MAX, is_sure: false },
        }
    }

    /// Notes the rows that pass, of a range of sequences. Answers where it stopped early, and the
    /// work.
    fn pick<'t>(
        &mut self,
        table: &Table<'_>,
        segment: &Segment,
        (first, end): (Seq, Seq),
        aim: &Aim,
        text: impl Fn(u32) -> &'t [u8],
        limit: usize,
    ) -> (Option<Seq>, usize) {
        self.rows.clear();
        let base = segment.first_seq;
        let from = table.row_from(first.saturating_sub(base));
        let behind = (end + 1).checked_sub(base).map_or(0, |delta| table.row_from(delta));
        if aim.numbers.is_empty() || from >= behind {
            return (None, 0);
        }
        let (low, width) = (aim.numbers.start, aim.numbers.end - aim.numbers.start);
        let may_pass = |number: u32| number.wrapping_sub(low) < width;
        let mut work = 0;
        let mut at = from;
        for chunk in table.subjects()[from..behind].chunks(CHUNK) {
            if work >= SLICE {
                return (Some(base + u64::from(table.delta(at))), work);
            }
            // All of them, without a branch: the compiler compares many at once.
            if !chunk.iter().fold(false, |any, &number| any | may_pass(number)) {
                work += PASS;
                at += chunk.len();
                continue;
            }
            work += chunk.len();
            for (row, &number) in (at..).zip(chunk) {
                let passes = may_pass(number)
                    && (aim.is_sure
                        || self.verdicts.of(number, &mut work, || self.filter.accepts(text(number))));
                if passes {
                    if self.rows.len() == limit {
                        return (Some(base + u64::from(table.delta(row))), work);
                    }
                    self.rows.push(row as u32);
                }
            }
            at += chunk.len();
        }
        (None, work)
    }
}

/// Adds the messages of `rows` that are there.
fn add(catalog: &Catalog, table: &Table<'_>, segment: &Segment, rows: &[u32], matches: &mut Vec<Match>) {
    let mut deleted = catalog.deleted().cursor();
    for &row in rows {
        let row = row as usize;
        let seq = segment.first_seq + u64::from(table.delta(row));
        if seq >= catalog.totals().first_seq && !deleted.contains(seq) {
            matches.push(Match { seq, offset: table.offset(row), size: table.size(row) });
        }
    }
}

/// Shows the sequences of a range that have no row, until one is refused.
fn each_gap<E>(
    slots: &Slots,
    (first, end): (Seq, Seq),
    mut see: impl FnMut(RangeInclusive<Seq>) -> Result<(), E>,
) -> Result<(), E> {
    let mut next = first;
    let rows = (0..slots.len()).map(|row| slots.first_seq() + u64::from(slots.delta(row)));
    for seq in rows.skip_while(|seq| *seq < first).take_while(|seq| *seq <= end) {
        if next < seq {
            see(next..=seq - 1)?;
        }
        next = seq + 1;
    }
    if next <= end { see(next..=end) } else { Ok(()) }
}

/// Which numbers of a dictionary may pass: those between the first and the last that begin as a
/// pattern does.
fn aim_at(filter: &Filter, dictionary: &Dictionary) -> Aim {
    let patterns = match filter {
        Filter::Subject(text) => {
            let number = dictionary.find(text);
            return Aim { numbers: number.map_or(0..0, |number| number..number + 1), is_sure: true };
        }
        Filter::Patterns(patterns) if patterns.len() <= FEW_PATTERNS => patterns,
        all => return Aim { numbers: 0..dictionary.len() as u32, is_sure: all.is_all() },
    };
    let ranges = patterns.iter().map(|pattern| dictionary.beginning_with(literal_beginning(pattern)));
    let hull = ranges.filter(|range| !range.is_empty()).reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    Aim { numbers: hull.unwrap_or(0..0), is_sure: false }
}

/// Beginning that every subject has which the pattern matches.
fn literal_beginning(pattern: &[u8]) -> &[u8] {
    let mut end = 0;
    for token in pattern.split(|&byte| byte == b'.') {
        if token == b"*" || token == b">" {
            // `a.>` has `a.` before it, which every match has, too.
            return &pattern[..end];
        }
        end = (end + token.len() + 1).min(pattern.len());
    }
    pattern
}

impl Verdicts {
    /// Forgets what is known of another table's numbers, or of numbers that may mean something else
    /// by now.
    fn begin(&mut self, table: Option<(u64, u64)>) {
        let is_another = self.table != table;
        let stays = myelin_stdx::planted::bug(32) && self.table.is_some();
        if table.is_none() || (is_another && !stays) {
            self.known.fill(u32::MAX);
            self.table = table;
        }
    }

    fn of(&mut self, number: u32, work: &mut usize, ask: impl FnOnce() -> bool) -> bool {
        if self.known.is_empty() {
            self.known.resize(VERDICTS, u32::MAX);
        }
        let slot = number as usize % VERDICTS;
        let known = self.known[slot];
        if known >> 1 == number && number < NO_NUMBER {
            return known & 1 == 1;
        }
        *work += ASK;
        let passes = ask();
        if number < NO_NUMBER {
            self.known[slot] = number << 1 | u32::from(passes);
        }
        passes
    }
}

/// How many messages from `from` to `to` pass, counted in slices.
pub(super) fn count(shared: &StreamShared, filter: &Filter, from: Seq, to: Seq) -> Result<u64, ReadError> {
    let mut search = FilterSearch::new(filter.clone());
    let mut matches = Vec::new();
    let (mut next, mut met) = (from, 0);
    while next <= to {
        next = search.slice(shared, (next, to), usize::MAX, Wait::Allowed, &mut matches)?.next;
        met += matches.len() as u64;
        matches.clear();
    }
    Ok(met)
}

/// Counts the messages from `from` to `to` that pass, if the index or the set of removed sequences
/// knows it without a walk.
pub(super) fn count_at_once(catalog: &Catalog, filter: &Filter, from: Seq, to: Seq) -> Option<u64> {
    let totals = &catalog.totals();
    let (first, last) = (from.max(totals.first_seq), to.min(totals.last_seq));
    if first > last {
        return Some(0);
    }
    if from <= totals.first_seq && to >= totals.last_seq {
        return Some(lookup::count(catalog, filter));
    }
    match filter {
        Filter::All => Some(last - first + 1 - catalog.deleted().count_in(first..=last)),
        Filter::Subject(text) => {
            let Some(id) = catalog.index().find(text) else { return Some(0) };
            let state = catalog.index().state(id);
            (first <= state.first && state.last <= last).then_some(state.count)
        }
        Filter::Patterns(_) => None,
    }
}

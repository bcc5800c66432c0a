//! Finding messages by subject.
//!
//! A stream's index knows of each subject how many messages it has and about where the first and
//! last are. Exactly where is found in the segments' tables, which say of each message its subject:
//! a few bytes to look at per message, and a segment that never had the subject is passed over by
//! its dictionary.

use std::ops::ControlFlow;

use myelin_subject::{has_wildcard, matches};

use crate::Seq;
use crate::index::SubjectId;

use super::ReadError;
use super::catalog::Catalog;
use super::table::Table;

/// Which subjects a reader or a purge is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every subject.
    All,
    /// Exactly this one.
    Subject(Vec<u8>),
    /// Subjects that any of these patterns matches.
    Patterns(Vec<Vec<u8>>),
}

impl Filter {
    /// The filter that a consumer or request means with one subject or pattern; an empty one means
    /// all.
    #[must_use]
    pub fn new(pattern: &[u8]) -> Self {
        match pattern {
            b"" | b">" => Self::All,
            literal if !has_wildcard(literal) => Self::Subject(literal.to_vec()),
            pattern => Self::Patterns(vec![pattern.to_vec()]),
        }
    }

    /// The filter of several patterns.
    #[must_use]
    pub fn any(patterns: Vec<Vec<u8>>) -> Self {
        match patterns.as_slice() {
            [] => Self::All,
            [one] => Self::new(one),
            many if many.iter().any(|pattern| pattern == b">") => Self::All,
            _ => Self::Patterns(patterns),
        }
    }

    /// Whether every subject passes.
    #[must_use]
    pub fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Whether this subject passes.
    #[must_use]
    pub fn accepts(&self, subject: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Subject(literal) => literal == subject,
            Self::Patterns(patterns) => patterns.iter().any(|pattern| matches(pattern, subject)),
        }
    }
}

/// The last message of a subject. `None` only if its record was lost to damage.
pub(crate) fn last_of(catalog: &Catalog, id: SubjectId) -> Result<Option<Seq>, ReadError> {
    let state = catalog.index().state(id);
    if state.count == 0 {
        return Ok(None);
    }
    if state.last_exact {
        return Ok(Some(state.last));
    }
    previous_of_subject(catalog, catalog.index().text(id), state.last, state.first)
}

/// The first message at or behind `from` that passes, no later than `to`.
pub(crate) fn next(catalog: &Catalog, filter: &Filter, from: Seq, to: Seq) -> Result<Option<Seq>, ReadError> {
    let from = from.max(catalog.totals().first_seq);
    let to = to.min(catalog.totals().last_seq);
    match filter {
        Filter::All => {
            let seq = catalog.deleted().next_live(from);
            Ok((seq <= to && catalog.totals().messages > 0).then_some(seq))
        }
        Filter::Subject(text) => {
            let Some(id) = catalog.index().find(text) else { return Ok(None) };
            let state = catalog.index().state(id);
            if state.first_exact && state.first >= from {
                return Ok((state.first <= to).then_some(state.first));
            }
            next_of_subject(catalog, text, from.max(state.first), to.min(state.last))
        }
        Filter::Patterns(_) => Ok(collect(catalog, filter, from, to, 1)?.pop()),
    }
}

/// The last message at or before `from` that passes.
pub(crate) fn previous(catalog: &Catalog, filter: &Filter, from: Seq) -> Result<Option<Seq>, ReadError> {
    let from = from.min(catalog.totals().last_seq);
    let first = catalog.totals().first_seq;
    if let Filter::Subject(text) = filter {
        let Some(id) = catalog.index().find(text) else { return Ok(None) };
        let state = catalog.index().state(id);
        if state.last_exact && state.last <= from {
            return Ok(Some(state.last));
        }
        return previous_of_subject(catalog, text, from.min(state.last), state.first.max(first));
    }
    walk_back(catalog, from, first, |table| {
        let mut memo = Memo::new(filter, table);
        Some(move |table: &Table<'_>, row: usize| memo.accepts(table, row, catalog))
    })
}

/// The last message that passes: of many subjects the newest.
pub(crate) fn last(catalog: &Catalog, filter: &Filter) -> Result<Option<Seq>, ReadError> {
    let Filter::Patterns(patterns) = filter else { return previous(catalog, filter, Seq::MAX) };
    let mut best: Option<Seq> = None;
    let mut failure = None;
    for pattern in patterns {
        catalog.index().for_each_matching(pattern, None, &mut |id, _| {
            if best.is_some_and(|best| catalog.index().state(id).last <= best) {
                return ControlFlow::Continue(());
            }
            match last_of(catalog, id) {
                Ok(found) => best = best.max(found),
                Err(error) => {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
    }
    failure.map_or(Ok(best), Err)
}

/// How many messages pass.
pub(crate) fn count(catalog: &Catalog, filter: &Filter) -> u64 {
    match filter {
        Filter::All => catalog.totals().messages,
        Filter::Subject(text) => catalog.index().find(text).map_or(0, |id| catalog.index().state(id).count),
        Filter::Patterns(patterns) => match patterns.as_slice() {
            [one] => catalog.index().summary(one).messages,
            many => {
                let mut messages = 0;
                catalog.index().for_each_matching(b">", None, &mut |id, text| {
                    if many.iter().any(|pattern| matches(pattern, text)) {
                        messages += catalog.index().state(id).count;
                    }
                    ControlFlow::Continue(())
                });
                messages
            }
        },
    }
}

/// Up to `limit` messages from `from` to `to` that pass, oldest first.
pub(crate) fn collect(
    catalog: &Catalog,
    filter: &Filter,
    from: Seq,
    to: Seq,
    limit: usize,
) -> Result<Vec<Seq>, ReadError> {
    let mut found = Vec::with_capacity(limit.min(1024));
    visit(catalog, filter, from, to, &mut |seq| {
        if found.len() < limit {
            found.push(seq);
        }
        if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(found)
}

/// How many messages from `from` on pass, as of one moment.
pub(crate) fn pending(catalog: &Catalog, filter: &Filter, from: Seq) -> Result<u64, ReadError> {
    let totals = &catalog.totals();
    if totals.messages == 0 || from > totals.last_seq {
        return Ok(0);
    }
    if from <= totals.first_seq {
        return Ok(count(catalog, filter));
    }
    if filter.is_all() {
        return Ok(totals.last_seq - from + 1 - catalog.deleted().count_in(from..=totals.last_seq));
    }
    // The shorter way round: count what is behind, or take away what is before.
    let mut met = 0;
    let mut meet = |_| {
        met += 1;
        ControlFlow::Continue(())
    };
    if totals.last_seq - from < from - totals.first_seq {
        visit(catalog, filter, from, Seq::MAX, &mut meet)?;
        return Ok(met);
    }
    visit(catalog, filter, totals.first_seq, from - 1, &mut meet)?;
    Ok(count(catalog, filter).saturating_sub(met))
}

/// Shows the messages from `from` to `to` that pass, oldest first, until the visitor has enough.
pub(crate) fn visit(
    catalog: &Catalog,
    filter: &Filter,
    from: Seq,
    to: Seq,
    visitor: &mut dyn FnMut(Seq) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let from = from.max(catalog.totals().first_seq);
    let to = to.min(catalog.totals().last_seq);
    match filter {
        Filter::Subject(text) => {
            let Some(id) = catalog.index().find(text) else { return Ok(()) };
            let state = catalog.index().state(id);
            visit_subject(catalog, text, from.max(state.first), to.min(state.last), visitor)
        }
        Filter::All => walk(catalog, from, to, |_| Some(|_: &Table<'_>, _| true), visitor),
        Filter::Patterns(_) => walk(
            catalog,
            from,
            to,
            |table| {
                let mut memo = Memo::new(filter, table);
                Some(move |table: &Table<'_>, row: usize| memo.accepts(table, row, catalog))
            },
            visitor,
        ),
    }
}

fn visit_subject(
    catalog: &Catalog,
    text: &[u8],
    from: Seq,
    to: Seq,
    visitor: &mut dyn FnMut(Seq) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let prepare = |table: &Table<'_>| {
        let number = table.number_of(text, catalog.index())?;
        Some(move |table: &Table<'_>, row: usize| table.subjects()[row] == number)
    };
    walk(catalog, from, to, prepare, visitor)
}

/// The first message of a subject from `from` to `to`, as the tables say.
pub(crate) fn next_of_subject(
    catalog: &Catalog,
    text: &[u8],
    from: Seq,
    to: Seq,
) -> Result<Option<Seq>, ReadError> {
    let mut found = None;
    visit_subject(catalog, text, from, to, &mut |seq| {
        found = Some(seq);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

fn previous_of_subject(catalog: &Catalog, text: &[u8], from: Seq, to: Seq) -> Result<Option<Seq>, ReadError> {
    walk_back(catalog, from, to, |table| {
        let number = table.number_of(text, catalog.index())?;
        Some(move |table: &Table<'_>, row: usize| table.subjects()[row] == number)
    })
}

/// Memo of what a filter said of the subjects of one sealed table.
struct Memo<'f> {
    filter: &'f Filter,
    known: Vec<Option<bool>>,
}

impl<'f> Memo<'f> {
    fn new(filter: &'f Filter, table: &Table<'_>) -> Self {
        let subjects = if let Table::Sealed(slots) = table { slots.dictionary().len() } else { 0 };
        Self { filter, known: vec![None; subjects] }
    }

    fn accepts(&mut self, table: &Table<'_>, row: usize, catalog: &Catalog) -> bool {
        let number = table.subject(row);
        if let Some(Some(known)) = self.known.get(number as usize) {
            return *known;
        }
        let accepted = self.filter.accepts(table.text(number, catalog.index()));
        if let Some(known) = self.known.get_mut(number as usize) {
            *known = Some(accepted);
        }
        accepted
    }
}

/// Shows messages from `from` to `to` that pass, in order. `prepare` makes the test for one table,
/// or says that nothing in it can pass.
fn walk<T>(
    catalog: &Catalog,
    from: Seq,
    to: Seq,
    mut prepare: impl FnMut(&Table<'_>) -> Option<T>,
    visitor: &mut dyn FnMut(Seq) -> ControlFlow<()>,
) -> Result<(), ReadError>
where
    T: FnMut(&Table<'_>, usize) -> bool,
{
    let from = from.max(catalog.totals().first_seq);
    for at in catalog.segment_from(from)..catalog.segments().len() {
        let view = &catalog.segments()[at];
        if view.first_seq > to {
            break;
        }
        let table = catalog.table(at)?;
        let Some(mut test) = prepare(&table) else { continue };
        let base = view.segment.first_seq;
        let end = to.min(view.last_seq);
        for row in table.row_from(from.saturating_sub(base))..table.len() {
            let seq = base + u64::from(table.delta(row));
            if seq > end {
                break;
            }
            if test(&table, row) && !catalog.deleted().contains(seq) && visitor(seq).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The first message that passes, backwards from `from` to `to`; see [`walk`].
fn walk_back<T>(
    catalog: &Catalog,
    from: Seq,
    to: Seq,
    mut prepare: impl FnMut(&Table<'_>) -> Option<T>,
) -> Result<Option<Seq>, ReadError>
where
    T: FnMut(&Table<'_>, usize) -> bool,
{
    let to = to.max(catalog.totals().first_seq);
    let behind = catalog.segments().partition_point(|view| view.first_seq <= from);
    for at in (0..behind).rev() {
        let view = &catalog.segments()[at];
        if view.last_seq < to {
            break;
        }
        let table = catalog.table(at)?;
        let Some(mut test) = prepare(&table) else { continue };
        let base = view.segment.first_seq;
        let end = from.min(view.last_seq);
        let behind = end.checked_sub(base).map_or(0, |delta| table.row_from(delta + 1));
        for row in (0..behind).rev() {
            let seq = base + u64::from(table.delta(row));
            if seq < to {
                break;
            }
            if test(&table, row) && !catalog.deleted().contains(seq) {
                return Ok(Some(seq));
            }
        }
    }
    Ok(None)
}

/// Shows the subjects of messages from `from` to `to`, equal neighbours once, until the visitor has
/// enough.
///
/// Perf: a stream that wakes its consumers asks for each batch; equal neighbours cost a comparison.
pub(crate) fn each_subject(
    catalog: &Catalog,
    from: Seq,
    to: Seq,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    let from = from.max(catalog.totals().first_seq);
    for at in catalog.segment_from(from)..catalog.segments().len() {
        let view = &catalog.segments()[at];
        if view.first_seq > to {
            break;
        }
        let table = catalog.table(at)?;
        let base = view.segment.first_seq;
        let begin = table.row_from(from.saturating_sub(base));
        let end = (to.min(view.last_seq) + 1).checked_sub(base).map_or(0, |delta| table.row_from(delta));
        let mut shown = None;
        for (row, &number) in (begin..).zip(table.subjects().get(begin..end).unwrap_or_default()) {
            if shown == Some(number) || catalog.deleted().contains(base + u64::from(table.delta(row))) {
                continue;
            }
            shown = Some(number);
            if visit(table.text(number, catalog.index())).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

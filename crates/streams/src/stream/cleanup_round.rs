//! A look at messages that may be needed no more: which subjects it is about, and how far it is.
//!
//! It goes by subjects, which the index knows in order: no message is read. A slice of it looks at
//! so many subjects, messages and consumers; where it goes on is kept until what it found is
//! removed.

use std::borrow::Cow;
use std::collections::BTreeSet;

use myelin_store::{Filter, ReadError, Seq, StreamReader, Timestamp};
use myelin_subject::matches;

use super::interest::Interest;

/// Subjects that one slice looks at, and messages.
const SUBJECTS: usize = 1000;
const MESSAGES: usize = 1000;
/// Consumers that one slice asks whether they need a message: some milliseconds.
pub(super) const LOOKS: usize = 20_000;
/// Patterns that a scope has at most; for more, all subjects are looked at.
const PATTERNS: usize = 1000;

/// Subjects that are to be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CleanupScope {
    /// In the order in which they are looked at, the same on each run.
    patterns: BTreeSet<Box<[u8]>>,
}

impl CleanupScope {
    /// The subjects that pass a filter.
    pub(super) fn of(filter: &Filter) -> Self {
        let mut scope = Self::default();
        match filter {
            Filter::All => scope.add(b">"),
            Filter::Subject(subject) => scope.add(subject),
            Filter::Patterns(patterns) => patterns.iter().for_each(|pattern| scope.add(pattern)),
        }
        scope
    }

    fn add(&mut self, pattern: &[u8]) {
        let is_all = |pattern: &[u8]| pattern == b">";
        if self.patterns.first().is_some_and(|first| is_all(first)) {
            return;
        }
        self.patterns.insert(pattern.into());
        if is_all(pattern) || self.patterns.len() > PATTERNS {
            self.patterns = BTreeSet::from([Box::from(&b">"[..])]);
        }
    }

    /// Is about these subjects, too.
    pub(super) fn add_all(&mut self, other: &Self) {
        other.patterns.iter().for_each(|pattern| self.add(pattern));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

/// A look at all messages of some subjects.
#[derive(Default)]
pub(super) struct CleanupRound {
    /// The last message there was when it began. Later ones came when it was known who wants them.
    pub(super) through: Seq,
    /// Subjects that are left to be looked at.
    pub(super) scope: CleanupScope,
    /// Subjects of which messages could not be found that may be found later.
    pub(super) unfound: CleanupScope,
    /// When it began.
    pub(super) since: Timestamp,
    /// Whether a slice of it was begun. Until then it may get more to look at.
    pub(super) has_begun: bool,
    place: CleanupPlace,
}

/// Place in the subjects of the first pattern.
#[derive(Clone, Default)]
struct CleanupPlace {
    /// Subjects up to this one were looked at.
    done: Option<Box<[u8]>>,
    /// The next one, if a part of it was looked at, and where to go on in it.
    begun: Option<(Box<[u8]>, Seq)>,
}

/// Result of a slice of a round.
#[derive(Default)]
pub(super) struct CleanupSlice {
    /// Messages that nobody needs.
    pub(super) unneeded: Vec<Seq>,
    /// Patterns that are done with.
    done_with: usize,
    /// Place in the next one.
    place: CleanupPlace,
    unfound: CleanupScope,
}

/// Rest of what a slice may look at.
struct SliceBudget {
    subjects: usize,
    messages: usize,
    looks: usize,
}

impl SliceBudget {
    fn is_spent(&self) -> bool {
        self.messages == 0 || self.looks == 0
    }
}

/// Messages of a stream, and who may need them.
pub(super) struct CleanupView<'a> {
    pub(super) reader: &'a StreamReader,
    pub(super) interest: &'a dyn Interest,
    /// Whether what nobody wants goes, too. It stays in a work queue: a consumer may come for it.
    pub(super) takes_unwanted: bool,
}

impl CleanupRound {
    /// A round about messages up to `through`, which begins now.
    pub(super) fn new(scope: CleanupScope, through: Seq, now: Timestamp) -> Self {
        Self { through, scope, since: now, ..Self::default() }
    }

    /// Checks that a round is about messages there were when it began.
    pub(super) fn check(&self, last_seq: Seq) {
        debug_assert!(self.through <= last_seq, "a round ends where the stream ended when it began");
        debug_assert!(
            self.place.begun.as_ref().is_none_or(|(_, next)| *next <= self.through + 1),
            "a round goes on with messages that it is about"
        );
    }

    /// Looks at the next messages, subject by subject.
    pub(super) fn look(&self, view: &CleanupView<'_>) -> CleanupSlice {
        let mut budget = SliceBudget { subjects: SUBJECTS, messages: MESSAGES, looks: LOOKS };
        let mut slice = CleanupSlice { place: self.place.clone(), ..CleanupSlice::default() };
        for pattern in &self.scope.patterns {
            if !self.look_at(pattern, view, &mut budget, &mut slice) {
                break;
            }
            slice.done_with += 1;
            slice.place = CleanupPlace::default();
        }
        debug_assert!(
            slice.done_with > 0 || slice.place.done >= self.place.done,
            "a round goes on behind the subjects that it has looked at"
        );
        debug_assert!(
            slice.unneeded.iter().all(|seq| *seq <= self.through),
            "later messages are not for this round"
        );
        slice
    }

    /// Looks at the subjects of one pattern. Answers whether at all of them.
    fn look_at(
        &self,
        pattern: &[u8],
        view: &CleanupView<'_>,
        budget: &mut SliceBudget,
        slice: &mut CleanupSlice,
    ) -> bool {
        if budget.subjects == 0 || budget.is_spent() {
            return false;
        }
        let limit = budget.subjects;
        let subjects = view.reader.subjects(&walked(pattern), slice.place.done.as_deref(), limit);
        let is_last = subjects.len() < limit;
        budget.subjects -= subjects.len().max(1);
        for (subject, _) in subjects {
            let begun = slice.place.begun.take().filter(|begun| begun.0 == subject);
            let is_wanted = || view.takes_unwanted || view.interest.wants(&subject);
            if matches(pattern, &subject) && is_wanted() {
                let from = begun.map_or(0, |begun| begun.1);
                if let Err(next) = self.look_at_subject((&subject, from), pattern, view, (budget, slice)) {
                    slice.place.begun = Some((subject, next));
                    return false;
                }
            }
            slice.place.done = Some(subject);
        }
        is_last
    }

    /// Looks at the messages of a subject from this one on. Where the budget is spent: at which one
    /// to go on.
    fn look_at_subject(
        &self,
        (subject, mut from): (&[u8], Seq),
        pattern: &[u8],
        view: &CleanupView<'_>,
        (budget, slice): (&mut SliceBudget, &mut CleanupSlice),
    ) -> Result<(), Seq> {
        let filter = Filter::Subject(subject.to_vec());
        loop {
            let seq = match view.reader.next_seq(&filter, from) {
                Ok(Some(seq)) if seq <= self.through => seq,
                found => {
                    if matches!(found, Err(ReadError::Io(_))) {
                        slice.unfound.add(pattern);
                    }
                    return Ok(());
                }
            };
            if budget.is_spent() {
                return Err(seq);
            }
            let mut looks = 0;
            if !view.interest.needs(subject, seq, &mut looks) {
                slice.unneeded.push(seq);
            }
            budget.messages -= 1;
            budget.looks = budget.looks.saturating_sub(looks);
            from = seq + 1;
        }
    }

    /// Goes on behind a slice whose messages were removed. Answers whether there is more.
    pub(super) fn advance(&mut self, slice: CleanupSlice) -> bool {
        for _ in 0..slice.done_with {
            self.scope.patterns.pop_first();
        }
        self.place = slice.place;
        self.unfound.add_all(&slice.unfound);
        !self.scope.is_empty()
    }
}

/// Pattern by which the index is walked, for it to find each next subject at once: the literal
/// tokens that a pattern begins with, and all behind them.
fn walked(pattern: &[u8]) -> Cow<'_, [u8]> {
    let is_literal = |token: &&[u8]| *token != b"*" && *token != b">";
    let literal: Vec<&[u8]> = pattern.split(|byte| *byte == b'.').take_while(is_literal).collect();
    let begins = literal.join(&b'.');
    match begins.len() {
        0 => Cow::Borrowed(b">"),
        len if len == pattern.len() => Cow::Borrowed(pattern),
        _ => Cow::Owned([&begins, &b".>"[..]].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(patterns: &[&str]) -> CleanupScope {
        let mut scope = CleanupScope::default();
        patterns.iter().for_each(|pattern| scope.add(pattern.as_bytes()));
        scope
    }

    #[test]
    fn a_scope_of_everything_has_no_other_patterns() {
        assert_eq!(scope(&["a", ">", "b"]), CleanupScope::of(&Filter::All));
        assert_eq!(scope(&["b", "a", "b"]).patterns.len(), 2);
        let mut many = scope(&[]);
        (0..PATTERNS).for_each(|at| many.add(format!("s.{at}").as_bytes()));
        assert_eq!(many.patterns.len(), PATTERNS);
        many.add(b"one.more");
        assert_eq!(many, CleanupScope::of(&Filter::All));
    }

    #[test]
    fn the_index_is_walked_by_the_literal_tokens_that_come_first() {
        let of = |pattern: &str| String::from_utf8(walked(pattern.as_bytes()).into_owned()).expect("text");
        let found = ["a.b", "a.*", "a.b.*.c", "a.>", "*.a", ">", "a*.b>"].map(of);
        assert_eq!(found, ["a.b", "a.>", "a.b.>", "a.>", ">", ">", "a*.b>"]);
    }
}

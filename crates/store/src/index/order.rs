//! The sorted order of a stream's subjects, and questions with wildcards.
//!
//! New ids are collected, sorted a few hundred at a time into runs, and runs are merged when there
//! are many of one size: the writer never looks for a new subject's place. A question looks at all
//! runs side by side and jumps over what cannot match (`seek`). It changes nothing, so that readers
//! need no lock against each other.

use std::ops::ControlFlow;

use myelin_subject::matches;

use super::merge::{Heads, Merge, sort};
use super::records::Records;
use super::runs::{RunCursor, SortedRun};
use super::seek::{SeekVerdict, Seeker};
use super::subjects::SubjectId;
use crate::Seq;

/// New ids that make a run. Small in tests, so that a few subjects go through everything.
const RECENT: usize = if cfg!(test) { 4 } else { 512 };
/// Runs of about one size that are merged into one.
const FAN_IN: usize = if cfg!(test) { 3 } else { 64 };
/// Ids that each merge under way moves when a run is made: twice what comes in.
const STEP: usize = 2 * RECENT;

/// How a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectScan {
    /// Nothing behind what was visited matches.
    Done,
    /// The visitor did not want more.
    Stopped,
    /// The limit was reached: go on with this as `after`. It need not be a subject that matches.
    Paused(Vec<u8>),
}

/// Sums over the subjects that match a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubjectSummary {
    /// How many match.
    pub subjects: u64,
    /// Their messages.
    pub messages: u64,
    /// The first of their messages is not before this; 0 without messages.
    pub first: Seq,
    /// The last of their messages is not behind this; 0 without messages.
    pub last: Seq,
}

/// Ids by the order of their texts.
#[derive(Debug, Default)]
pub(super) struct SubjectOrder {
    /// Not sorted; fewer than [`RECENT`].
    recent: Vec<SubjectId>,
    runs: Vec<SortedRun>,
    /// Merges of runs of one size, at most one for each size.
    merges: Vec<(u32, Merge)>,
    /// A merge of everything there was when it began.
    full: Option<Merge>,
    /// Ids in all of these.
    len: usize,
}

impl SubjectOrder {
    /// Takes in a new id.
    pub(super) fn push(&mut self, id: SubjectId, records: &Records) {
        self.recent.push(id);
        self.len += 1;
        if self.recent.len() >= RECENT {
            self.seal(records);
            self.merge_some(records);
        }
    }

    /// Takes in a new id whose text sorts behind all others.
    pub(super) fn push_last(&mut self, id: SubjectId) {
        self.len += 1;
        match self.runs.last_mut() {
            Some(run) => run.push(id),
            None => self.runs.push(SortedRun::from_sorted(&[id])),
        }
    }

    /// Whether a merge of everything is under way.
    pub(super) fn is_merging_all(&self) -> bool {
        self.full.is_some()
    }

    /// Whether there are so many runs that a merge of everything would pay.
    pub(super) fn is_scattered(&self) -> bool {
        let (total, largest) =
            self.all_runs().fold((0, 0), |(total, largest), run| (total + run.len(), largest.max(run.len())));
        self.all_runs().count() > 2 * FAN_IN || (total - largest) * 4 > largest
    }

    /// Begins to merge everything, but for ids with any of the flags `drops`. No id may get one of
    /// those flags until it is done.
    pub(super) fn begin_merge_all(&mut self, drops: u8, records: &Records) {
        debug_assert!(self.full.is_none(), "one at a time");
        self.seal(records);
        let mut runs = std::mem::take(&mut self.runs);
        runs.extend(self.merges.drain(..).flat_map(|(_, merge)| merge.into_runs()));
        self.full = Some(Merge::new(runs, drops, records));
    }

    /// Goes on with the merge of everything; true when it is done. Lowers `ids` by what was moved.
    pub(super) fn step_merge_all(&mut self, ids: &mut usize, records: &Records) -> bool {
        let Some(mut full) = self.full.take() else { return true };
        let is_done = full.step(ids, records);
        self.len -= full.take_dropped();
        if is_done {
            self.runs.push(full.into_output());
            true
        } else {
            self.full = Some(full);
            false
        }
    }

    /// Visits ids of matching subjects that have messages, in order, from behind `after`. Looks at
    /// no more than `limit` subjects (at least one).
    pub(super) fn scan(
        &self,
        records: &Records,
        (pattern, after): (&[u8], Option<&[u8]>),
        mut limit: usize,
        visit: &mut dyn FnMut(SubjectId, &[u8]) -> ControlFlow<()>,
    ) -> SubjectScan {
        let seeker = Seeker::new(pattern);
        let start = start_of(seeker.prefix(), after);
        let recent = self.matching_recent(records, pattern, &start);
        let mut cursors: Vec<_> = self.all_runs().chain([&recent]).map(SortedRun::cursor).collect();
        let mut heads = Heads::new(seeker.prefix().len());
        for (run, cursor) in cursors.iter_mut().enumerate() {
            cursor.seek(&start, records);
            if let Some(id) = id_within(cursor, seeker.prefix(), records) {
                heads.push(id, run, records);
            }
        }
        let mut target = Vec::new();
        let mut last = None;
        while let Some(head) = heads.top() {
            let text = records.text(head.id);
            // A dead subject and one that came back under its name stand together: no pause between
            // the two.
            if let Some(last) = last.filter(|&last| limit == 0 && records.text(last) != text) {
                return SubjectScan::Paused(records.text(last).to_vec());
            }
            limit = limit.saturating_sub(1);
            let cursor = &mut cursors[head.run];
            match seeker.judge(text, &mut target) {
                SeekVerdict::Match if records.count(head.id) > 0 => {
                    if visit(head.id, text).is_break() {
                        return SubjectScan::Stopped;
                    }
                    cursor.advance(records);
                }
                SeekVerdict::Match | SeekVerdict::Next => cursor.advance(records),
                SeekVerdict::Seek => cursor.seek(&target, records),
                SeekVerdict::Done => {
                    heads.replace_top(None, records);
                    continue;
                }
            }
            last = Some(head.id);
            heads.replace_top(id_within(cursor, seeker.prefix(), records), records);
        }
        SubjectScan::Done
    }

    /// Sums up the matching subjects, in no order.
    pub(super) fn summary(&self, records: &Records, pattern: &[u8]) -> SubjectSummary {
        let seeker = Seeker::new(pattern);
        let mut summary = SubjectSummary::default();
        let mut target = Vec::new();
        for run in self.all_runs() {
            let mut cursor = run.cursor();
            cursor.seek(seeker.prefix(), records);
            while let Some(id) = cursor.id() {
                match seeker.judge(records.text(id), &mut target) {
                    SeekVerdict::Match => {
                        summary.add(records, id);
                        cursor.advance(records);
                    }
                    SeekVerdict::Next => cursor.advance(records),
                    SeekVerdict::Seek => cursor.seek(&target, records),
                    SeekVerdict::Done => break,
                }
            }
        }
        for &id in self.recent.iter().filter(|&&id| matches(pattern, records.text(id))) {
            summary.add(records, id);
        }
        summary
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.recent.capacity() * size_of::<SubjectId>()
            + self.runs.capacity() * size_of::<SortedRun>()
            + self.all_runs().map(SortedRun::memory_bytes).sum::<usize>()
    }

    /// How many ids are named, dead ones included.
    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.len, self.recent.len() + self.all_runs().map(SortedRun::len).sum::<usize>());
        self.len
    }

    /// Every run, parts of merges included: together they name each id once, but for recent ones.
    fn all_runs(&self) -> impl Iterator<Item = &SortedRun> {
        let merging = self.merges.iter().map(|(_, merge)| merge).chain(&self.full);
        self.runs.iter().chain(merging.flat_map(Merge::runs))
    }

    /// Makes a run of the recent ids.
    fn seal(&mut self, records: &Records) {
        sort(&mut self.recent, records);
        let Some(&first) = self.recent.first() else { return };
        match self.runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| records.text(last) < records.text(first)) => {
                self.recent.iter().for_each(|&id| run.push(id));
            }
            _ => self.runs.push(SortedRun::from_sorted(&self.recent)),
        }
        self.recent.clear();
    }

    /// A small step of every merge, and new ones where there are enough runs of one size.
    fn merge_some(&mut self, records: &Records) {
        self.begin_merge(records);
        self.step_merge_all(&mut STEP.clone(), records);
        for (size, mut merge) in std::mem::take(&mut self.merges) {
            if merge.step(&mut STEP.clone(), records) {
                self.runs.push(merge.into_output());
            } else {
                self.merges.push((size, merge));
            }
        }
    }

    fn begin_merge(&mut self, records: &Records) {
        let size = self.runs.last().map_or(0, size_class);
        let alike = |run: &SortedRun| size_class(run) == size;
        let is_merging = self.merges.iter().any(|&(other, _)| other == size);
        if !is_merging && self.runs.iter().filter(|run| alike(run)).count() >= FAN_IN {
            let inputs = self.runs.extract_if(.., |run| alike(run)).collect();
            self.merges.push((size, Merge::new(inputs, 0, records)));
        }
    }

    /// Recent ids that match, from `start` on, sorted.
    fn matching_recent(&self, records: &Records, pattern: &[u8], start: &[u8]) -> SortedRun {
        let wanted = |id: SubjectId| {
            let text = records.text(id);
            text >= start && matches(pattern, text)
        };
        let mut ids: Vec<_> = self.recent.iter().copied().filter(|&id| wanted(id)).collect();
        sort(&mut ids, records);
        SortedRun::from_sorted(&ids)
    }
}

impl SubjectSummary {
    pub(super) fn add(&mut self, records: &Records, id: SubjectId) {
        let (count, first, last, _) = records.read(id);
        if count == 0 {
            return;
        }
        self.first = if self.subjects == 0 { first } else { self.first.min(first) };
        self.last = self.last.max(last);
        self.subjects += 1;
        self.messages += count;
    }
}

/// The smallest text that is wanted.
fn start_of(prefix: &[u8], after: Option<&[u8]>) -> Vec<u8> {
    match after {
        Some(after) if after >= prefix => [after, b"\0"].concat(),
        _ => prefix.to_vec(),
    }
}

/// The cursor's id, unless the run has left what begins with the prefix.
fn id_within(cursor: &RunCursor<'_>, prefix: &[u8], records: &Records) -> Option<SubjectId> {
    cursor.id().filter(|&id| records.text(id).starts_with(prefix))
}

/// Runs of one class differ in length by less than the factor [`FAN_IN`].
fn size_class(run: &SortedRun) -> u32 {
    (run.len() / RECENT).checked_ilog(FAN_IN).unwrap_or(0)
}

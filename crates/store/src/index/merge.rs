//! Merges sorted runs into one, a few ids at a time, and meanwhile drops ids that were collected.

use super::records::Records;
use super::runs::SortedRun;
use super::subjects::SubjectId;

/// The next ids of several runs, the least first.
///
/// Perf: the first 8 bytes behind a common prefix are kept with each id, so that most comparisons
/// need no text (`benches/index.rs`).
#[derive(Debug)]
pub(super) struct Heads {
    heap: Vec<RunHead>,
    /// Bytes that all texts have in common at their beginning.
    prefix: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RunHead {
    key: u64,
    pub(super) id: SubjectId,
    pub(super) run: usize,
}

impl Heads {
    pub(super) fn new(prefix: usize) -> Self {
        Self { heap: Vec::new(), prefix }
    }

    pub(super) fn top(&self) -> Option<RunHead> {
        self.heap.first().copied()
    }

    pub(super) fn push(&mut self, id: SubjectId, run: usize, records: &Records) {
        self.heap.push(RunHead { key: key_at(records.text(id), self.prefix), id, run });
        let mut at = self.heap.len() - 1;
        while at > 0 && self.is_less(at, (at - 1) / 2, records) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// Puts the next id of the least one's run in its place; `None` when the run has ended.
    pub(super) fn replace_top(&mut self, next: Option<SubjectId>, records: &Records) {
        match next {
            Some(id) => {
                self.heap[0].key = key_at(records.text(id), self.prefix);
                self.heap[0].id = id;
            }
            None => drop(self.heap.swap_remove(0)),
        }
        self.sink(records);
    }

    fn sink(&mut self, records: &Records) {
        let mut at = 0;
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.is_less(child, least, records) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    fn is_less(&self, a: usize, b: usize, records: &Records) -> bool {
        let (a, b) = (&self.heap[a], &self.heap[b]);
        a.key < b.key || (a.key == b.key && records.text(a.id) < records.text(b.id))
    }
}

/// Sorts ids by text.
pub(super) fn sort(ids: &mut Vec<SubjectId>, records: &Records) {
    let Some((&first, rest)) = ids.split_first() else { return };
    let text = records.text(first);
    let prefix = rest.iter().fold(text.len(), |common, &id| common_prefix(&text[..common], records.text(id)));
    let mut keyed: Vec<_> = ids.iter().map(|&id| (key_at(records.text(id), prefix), id)).collect();
    keyed.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| records.text(a.1).cmp(records.text(b.1))));
    ids.clear();
    ids.extend(keyed.into_iter().map(|(_, id)| id));
}

/// A merge under way.
#[derive(Debug)]
pub(super) struct Merge {
    inputs: Vec<SortedRun>,
    heads: Heads,
    output: SortedRun,
    /// Flags of ids to be left out.
    drops: u8,
    /// How many were left out since that was last asked.
    dropped: usize,
}

impl Merge {
    /// A merge that leaves out ids with any of the flags `drops`.
    pub(super) fn new(inputs: Vec<SortedRun>, drops: u8, records: &Records) -> Self {
        let mut heads = Heads::new(shared_prefix(&inputs, records));
        for (run, input) in inputs.iter().enumerate() {
            if let Some(id) = input.first() {
                heads.push(id, run, records);
            }
        }
        Self { inputs, heads, output: SortedRun::default(), drops, dropped: 0 }
    }

    /// Moves up to `ids` ids to the output and lowers `ids` by what it moved. True when nothing is
    /// left.
    pub(super) fn step(&mut self, ids: &mut usize, records: &Records) -> bool {
        while let Some(head) = self.heads.top() {
            if *ids == 0 {
                return false;
            }
            *ids -= 1;
            if records.flags(head.id) & self.drops == 0 {
                self.output.push(head.id);
            } else {
                self.dropped += 1;
            }
            let input = &mut self.inputs[head.run];
            input.take_first();
            input.warm(records);
            self.heads.replace_top(input.first(), records);
        }
        true
    }

    /// How many ids were left out since the last call.
    pub(super) fn take_dropped(&mut self) -> usize {
        std::mem::take(&mut self.dropped)
    }

    pub(super) fn into_output(self) -> SortedRun {
        self.output
    }

    /// Gives up: what was merged and what was not.
    pub(super) fn into_runs(self) -> impl Iterator<Item = SortedRun> {
        self.inputs.into_iter().chain([self.output]).filter(|run| run.len() > 0)
    }

    /// Runs that were merged and that are still to be: together every id once.
    pub(super) fn runs(&self) -> impl Iterator<Item = &SortedRun> {
        self.inputs.iter().chain(std::iter::once(&self.output))
    }
}

/// Bytes that all texts of all runs begin with: those that the least and the greatest of each have
/// in common.
fn shared_prefix(runs: &[SortedRun], records: &Records) -> usize {
    let mut ends = runs.iter().flat_map(|run| run.first().into_iter().chain(run.last()));
    let Some(first) = ends.next() else { return 0 };
    let text = records.text(first);
    ends.fold(text.len(), |common, id| common_prefix(&text[..common], records.text(id)))
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The 8 bytes at `from`, so that numbers compare as texts do; what is missing counts as zeros.
fn key_at(text: &[u8], from: usize) -> u64 {
    let rest = text.get(from..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => rest.iter().enumerate().fold(0, |key, (at, &b)| key | u64::from(b) << (56 - 8 * at)),
    }
}

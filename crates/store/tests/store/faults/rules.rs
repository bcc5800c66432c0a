//! Rules that hold whatever is damaged.

use std::collections::BTreeSet;

use myelin_store::Seq;
use myelin_store::consumer::ConsumerState;

use super::Case;
use super::image::{Images, Truth};
use super::look::{Check, Seen, Start};

/// Cost of a case, and the rules that it breaks.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// Messages that cannot be read any more, per stream.
    pub(super) lost: Vec<(String, BTreeSet<Seq>)>,
    /// Messages that were deleted and are there again.
    pub(super) back: Vec<(String, BTreeSet<Seq>)>,
    /// Consumers that are not what they were: of which stream, and how.
    pub(super) consumers: Vec<(String, &'static str)>,
    /// Whether readers are told of what is lost, instead of the start.
    pub(super) tells_readers: bool,
    /// Rules that are broken, in words.
    pub(super) broken: Vec<String>,
}

/// Holds what was found against what was acknowledged.
pub(super) fn judge(
    case: &Case,
    images: &Images,
    touched: &BTreeSet<Seq>,
    start: &Start,
    check: &Check,
) -> Verdict {
    let mut verdict = Verdict::default();
    if let Some(why) = &start.refused {
        verdict.broken.push(format!("the start is refused: {why}"));
        return verdict;
    }
    for (name, truth) in &images.truth {
        let is_own = case.file.stream == Some(*name);
        let Some(seen) = start.streams.get(*name) else {
            verdict.broken.push(format!("{name} is not opened"));
            continue;
        };
        let mut judging = Judging { name, truth, seen, start, verdict: &mut verdict };
        judging.messages(if is_own { touched } else { const { &BTreeSet::new() } });
        judging.consumers(is_own && case.file.kind.contains("consumers"));
        judging.next();
    }
    let costs = !verdict.lost.is_empty() || !verdict.back.is_empty() || !verdict.consumers.is_empty();
    if costs && check.code == 0 {
        verdict.broken.push("a check finds nothing".to_owned());
    }
    verdict
}

/// One stream.
struct Judging<'a> {
    name: &'a str,
    truth: &'a Truth,
    seen: &'a Seen,
    start: &'a Start,
    verdict: &'a mut Verdict,
}

impl Judging<'_> {
    fn breaks(&mut self, rule: String) {
        self.verdict.broken.push(format!("{}: {rule}", self.name));
    }

    /// Whether the start has said something of the stream.
    fn is_spoken_of(&self) -> bool {
        self.start.words.iter().any(|words| words.starts_with(self.name))
    }

    fn messages(&mut self, touched: &BTreeSet<Seq>) {
        let (truth, seen) = (self.truth, self.seen);
        let lost: BTreeSet<Seq> =
            truth.messages.keys().copied().filter(|seq| !seen.messages.contains_key(seq)).collect();
        let more: BTreeSet<Seq> = lost.difference(touched).copied().collect();
        if !more.is_empty() {
            self.breaks(format!("loses {}, which nothing touched", ranges(&more)));
        }
        let is_told = |seq: &Seq| seen.told.iter().any(|range| range.contains(seq));
        let silent: BTreeSet<Seq> =
            lost.iter().copied().filter(|seq| !is_told(seq) && !seen.errors.contains_key(seq)).collect();
        if !silent.is_empty() {
            self.breaks(format!("nobody says that {} are lost", ranges(&silent)));
        }
        let there: BTreeSet<Seq> = seen.messages.keys().copied().filter(is_told).collect();
        if !there.is_empty() {
            self.breaks(format!("says that {} are lost, which are there", ranges(&there)));
        }
        self.verdict.tells_readers |= lost.iter().any(|seq| !is_told(seq) && seen.errors.contains_key(seq));
        let back: BTreeSet<Seq> =
            seen.messages.keys().copied().filter(|seq| truth.deleted.contains(seq)).collect();
        if !back.is_empty() && !self.is_spoken_of() {
            self.breaks(format!("{} are back, and nobody says so", ranges(&back)));
        }
        let other: BTreeSet<Seq> = seen
            .messages
            .iter()
            .filter(|(seq, payload)| truth.messages.get(seq).is_some_and(|known| known != *payload))
            .map(|(seq, _)| *seq)
            .collect();
        if !other.is_empty() {
            self.breaks(format!("{} are other messages", ranges(&other)));
        }
        if !lost.is_empty() {
            self.verdict.lost.push((self.name.to_owned(), lost));
        }
        if !back.is_empty() {
            self.verdict.back.push((self.name.to_owned(), back));
        }
    }

    fn consumers(&mut self, may_differ: bool) {
        for (consumer, truth) in &self.truth.consumers {
            let how = match self.seen.consumers.get(consumer) {
                Some(state) if state == truth => continue,
                Some(_) => "set back",
                None => "gone",
            };
            if !may_differ {
                self.breaks(format!("consumer {consumer} is {how}, and nothing touched it"));
            }
            if !self.is_spoken_of() {
                self.breaks(format!("nobody says that consumer {consumer} is {how}"));
            }
            if let Some(state) = self.seen.consumers.get(consumer)
                && let Some(seq) =
                    (1..=self.truth.last_seq).find(|seq| is_done(state, *seq) && !is_done(truth, *seq))
            {
                self.breaks(format!("consumer {consumer} takes {seq} for acknowledged"));
            }
            let this = (self.name.to_owned(), how);
            if !self.verdict.consumers.contains(&this) {
                self.verdict.consumers.push(this);
            }
        }
    }

    fn next(&mut self) {
        let (next, last) = (self.seen.next, self.truth.last_seq);
        if next <= last {
            self.breaks(format!("gives {next} out again, where {last} was acknowledged"));
        }
    }
}

/// Whether a consumer will not deliver a message again.
fn is_done(state: &ConsumerState, seq: Seq) -> bool {
    seq <= state.ack_floor().stream || (seq <= state.delivered().stream && state.pending().get(seq).is_none())
}

/// Judges a second start: it must have all that the first one had, and what was published in
/// between, and tell what that has told, unless a repair that has said it `acknowledges` it.
pub(super) fn judge_again(first: &Start, second: &Start, acknowledges: bool, verdict: &mut Verdict) {
    if first.refused.is_some() {
        return;
    }
    if let Some(why) = &second.refused {
        verdict.broken.push(format!("the second start is refused: {why}"));
        return;
    }
    for (name, before) in &first.streams {
        let Some(after) = second.streams.get(name) else {
            verdict.broken.push(format!("{name} is not opened by the second start"));
            continue;
        };
        let is_missing = |seq: &&Seq| !after.messages.contains_key(*seq);
        let missing: BTreeSet<Seq> =
            before.messages.keys().chain([&before.next]).filter(is_missing).copied().collect();
        if !missing.is_empty() {
            verdict.broken.push(format!("{name}: the second start loses {}", ranges(&missing)));
        }
        let is_told = |seq: &Seq| after.told.iter().any(|range| range.contains(seq));
        let told = before.told.iter().cloned().flatten();
        let silent: BTreeSet<Seq> =
            told.filter(|seq| !is_told(seq) && !after.messages.contains_key(seq)).collect();
        if !silent.is_empty() && !acknowledges {
            let words = ranges(&silent);
            verdict.broken.push(format!("{name}: the second start does not say that {words} are lost"));
        }
        if after.next <= before.next {
            verdict.broken.push(format!("{name}: the second start gives {} out again", after.next));
        }
        if before.consumers != after.consumers {
            verdict.broken.push(format!("{name}: the second start has other consumers"));
        }
    }
}

/// Sequences as people write them.
pub(super) fn ranges(seqs: &BTreeSet<Seq>) -> String {
    let mut ranges: Vec<(Seq, Seq)> = Vec::new();
    for &seq in seqs {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == seq => *last = seq,
            _ => ranges.push((seq, seq)),
        }
    }
    let words = |(first, last): &(Seq, Seq)| {
        if first == last { first.to_string() } else { format!("{first} to {last}") }
    };
    ranges.iter().map(words).collect::<Vec<_>>().join(", ")
}

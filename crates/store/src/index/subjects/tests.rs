//! The index of subjects beside its twin.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Change {
    Append(u16),
    /// The nth of its messages.
    Remove(u16, u8),
    RemoveAll(u16),
    Enter(u16),
    /// Makes both ends bounds.
    Loosen(u16),
    TakeTouched,
    RecycleSome(u8),
    Recycle,
    Settle(u8),
}

fn change() -> impl Strategy<Value = Change> {
    let subject = || prop_oneof![0..12_u16, 0..600_u16];
    prop_oneof![
        12 => subject().prop_map(Change::Append),
        5 => (subject(), any::<u8>()).prop_map(|(subject, nth)| Change::Remove(subject, nth)),
        4 => subject().prop_map(Change::RemoveAll),
        1 => subject().prop_map(Change::Enter),
        1 => subject().prop_map(Change::Loosen),
        2 => Just(Change::TakeTouched),
        2 => any::<u8>().prop_map(Change::RecycleSome),
        1 => Just(Change::Recycle),
        1 => any::<u8>().prop_map(Change::Settle),
    ]
}

/// Subjects of one to three tokens that share beginnings, with bytes on both sides of the
/// separator.
fn text(number: u16) -> Vec<u8> {
    let tokens = ["a", "b", "a!", "order", "ab", "x-y", "/"];
    let token = |n: u16| tokens[usize::from(n) % tokens.len()];
    let n = number;
    match n % 3 {
        0 => format!("{}{}", token(n / 3), n / 21),
        1 => format!("{}.{}{}", token(n / 3), token(n / 21), n / 147),
        _ => format!("{}.{}.{}{}", token(n / 3), token(n / 21), token(n / 147), n / 300),
    }
    .into_bytes()
}

const PATTERNS: [&str; 12] =
    [">", "*", "*.*", "a.*", "a.>", "*.a.*", "order.>", "*.*.b1", "ab.*.>", "a!.*.order0", "a0", "zz.>"];

#[derive(Debug, Default)]
struct Twin {
    subjects: BTreeMap<Vec<u8>, (BTreeSet<Seq>, SubjectState)>,
    touched: BTreeSet<Vec<u8>>,
}

impl Twin {
    fn append(&mut self, text: Vec<u8>, seq: Seq) {
        self.touched.insert(text.clone());
        let (seqs, state) = self.subjects.entry(text).or_default();
        seqs.insert(seq);
        if seqs.len() == 1 {
            (state.first, state.first_exact) = (seq, true);
        }
        (state.last, state.last_exact, state.count) = (seq, true, seqs.len() as u64);
    }

    fn remove(&mut self, text: &[u8], seq: Seq) {
        self.touched.insert(text.to_vec());
        let (seqs, state) = self.subjects.get_mut(text).unwrap();
        assert!(seqs.remove(&seq));
        state.count -= 1;
        if seq == state.first {
            (state.first, state.first_exact) = (seq + 1, false);
        }
        if seq == state.last {
            (state.last, state.last_exact) = (seq - 1, false);
        }
        if seqs.is_empty() {
            self.subjects.remove(text);
        } else if seqs.len() == 1 {
            let only = *seqs.first().unwrap();
            if state.first_exact || state.last_exact || state.first == state.last {
                *state =
                    SubjectState { count: 1, first: only, last: only, first_exact: true, last_exact: true };
            }
        }
    }
}

#[derive(Debug)]
struct Pair {
    index: SubjectIndex,
    twin: Twin,
    seq: Seq,
    /// Texts of ids that may be asked for until something is recycled.
    ids: BTreeMap<SubjectId, Vec<u8>>,
}

impl Pair {
    fn new() -> Self {
        Self { index: SubjectIndex::new(7), twin: Twin::default(), seq: 0, ids: BTreeMap::new() }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Append(subject) => {
                self.seq += 1;
                let id = self.index.enter(&text(subject));
                self.ids.insert(id, text(subject));
                self.index.appended(id, self.seq, 1);
                self.twin.append(text(subject), self.seq);
            }
            Change::Remove(subject, nth) => {
                let seqs =
                    self.twin.subjects.get(&text(subject)).map(|(seqs, _)| seqs.clone()).unwrap_or_default();
                if let Some(&seq) = seqs.iter().nth(usize::from(nth) % seqs.len().max(1)) {
                    self.remove(&text(subject), seq);
                }
            }
            Change::RemoveAll(subject) => {
                let seqs =
                    self.twin.subjects.get(&text(subject)).map(|(seqs, _)| seqs.clone()).unwrap_or_default();
                seqs.into_iter().for_each(|seq| self.remove(&text(subject), seq));
            }
            Change::Enter(subject) => {
                self.index.enter(&text(subject));
            }
            Change::Loosen(subject) => {
                if let Some((_, state)) = self.twin.subjects.get_mut(&text(subject)) {
                    let id = self.index.find(&text(subject)).unwrap();
                    (state.first, state.last) = (state.first.saturating_sub(3).max(1), state.last);
                    (state.first_exact, state.last_exact) = (false, false);
                    self.index.set(id, *state);
                    self.twin.touched.insert(text(subject));
                }
            }
            Change::TakeTouched => self.take_touched(),
            Change::RecycleSome(limit) => {
                self.ids.clear();
                self.index.recycle_some(usize::from(limit));
            }
            Change::Recycle => {
                self.ids.clear();
                self.index.recycle();
            }
            Change::Settle(limit) => drop(self.index.defragment(usize::from(limit))),
        }
    }

    fn remove(&mut self, text: &[u8], seq: Seq) {
        self.index.removed(self.index.find(text).unwrap(), seq);
        self.twin.remove(text, seq);
    }

    fn take_touched(&mut self) {
        let taken = self.index.take_touched();
        let texts: BTreeSet<_> = taken.iter().map(|&(id, _)| self.index.text(id).to_vec()).collect();
        assert_eq!(texts.len(), taken.len(), "each once");
        assert_eq!(texts, std::mem::take(&mut self.twin.touched));
        for (id, state) in taken {
            let twin =
                self.twin.subjects.get(self.index.text(id)).map(|&(_, state)| state).unwrap_or_default();
            assert_eq!(state, twin);
        }
    }

    fn check(&self) {
        assert_eq!(self.index.len(), self.twin.subjects.len());
        for number in 0..600 {
            let found = self.index.find(&text(number));
            let twin = self.twin.subjects.get(&text(number)).map(|&(_, state)| state);
            assert_eq!(found.map(|id| self.index.state(id)), twin);
            assert!(found.is_none_or(|id| self.index.text(id) == text(number)));
        }
        for (&id, text) in &self.ids {
            assert_eq!(self.index.text(id), text);
        }
    }

    /// All questions with one pattern, whole and in slices.
    fn check_pattern(&self, pattern: &[u8], after: &[u8], limit: usize) {
        let matching = || self.twin.subjects.iter().filter(|(text, _)| matches(pattern, text));
        let states = || matching().map(|(_, (_, state))| state);
        let summary = SubjectSummary {
            subjects: states().count() as u64,
            messages: states().map(|state| state.count).sum(),
            first: states().map(|state| state.first).min().unwrap_or(0),
            last: states().map(|state| state.last).max().unwrap_or(0),
        };
        assert_eq!(self.index.summary(pattern), summary);
        assert_eq!(self.index.count_matching(pattern), (summary.subjects, summary.messages));
        let all: Vec<_> = matching().map(|(text, _)| text.clone()).collect();
        assert_eq!(self.visit(pattern, None, usize::MAX), (all.clone(), SubjectScan::Done));
        let behind: Vec<_> = all.iter().filter(|text| text.as_slice() > after).cloned().collect();
        assert_eq!(self.visit(pattern, Some(after), usize::MAX), (behind, SubjectScan::Done));
        let (mut sliced, mut place) = (Vec::new(), None);
        loop {
            let (visited, scan) = self.visit(pattern, place.as_deref(), limit);
            assert!(visited.len() <= limit.max(1) + 1);
            sliced.extend(visited);
            let SubjectScan::Paused(after) = scan else { break };
            place = Some(after);
        }
        assert_eq!(sliced, all);
    }

    fn visit(&self, pattern: &[u8], after: Option<&[u8]>, limit: usize) -> (Vec<Vec<u8>>, SubjectScan) {
        let mut visited = Vec::new();
        let scan = self.index.scan_matching(pattern, after, limit, &mut |id, text| {
            assert_eq!(self.index.text(id), text);
            visited.push(text.to_vec());
            ControlFlow::Continue(())
        });
        (visited, scan)
    }
}

use myelin_subject::matches;

proptest! {
    #[test]
    fn agrees_with_a_plain_map(
        changes in prop::collection::vec(change(), 0..400),
        after in 0..600_u16,
        limit in 0..40_usize,
    ) {
        let mut pair = Pair::new();
        for (number, change) in changes.into_iter().enumerate() {
            pair.apply(change);
            if number % 50 == 0 {
                pair.check();
                pair.check_pattern(PATTERNS[number % PATTERNS.len()].as_bytes(), &text(after), limit);
            }
        }
        pair.check();
        for pattern in PATTERNS {
            pair.check_pattern(pattern.as_bytes(), &text(after), limit);
        }
        pair.take_touched();
        pair.index.recycle();
        pair.check();
    }

    #[test]
    fn loads_what_was_sorted(numbers in prop::collection::btree_set(0..600_u16, 0..300), more in prop::collection::vec(change(), 0..60)) {
        let mut pair = Pair::new();
        for (seq, &number) in numbers.iter().enumerate() {
            pair.twin.append(text(number), seq as Seq + 1);
        }
        pair.twin.touched.clear();
        pair.seq = numbers.len() as Seq;
        let sorted = pair.twin.subjects.iter().map(|(text, (_, state))| (text.as_slice(), *state));
        prop_assert_eq!(pair.index.load_sorted(sorted), 0);
        pair.check();
        prop_assert!(pair.index.take_touched().is_empty());
        more.into_iter().for_each(|change| pair.apply(change));
        pair.check();
        for pattern in PATTERNS {
            pair.check_pattern(pattern.as_bytes(), b"b", 5);
        }
    }
}

#[test]
fn what_is_out_of_order_is_left_out() {
    let mut index = SubjectIndex::new(1);
    let state = SubjectState { count: 1, first: 1, last: 1, first_exact: true, last_exact: true };
    let long = vec![b'z'; 70_000];
    let subjects: [(&[u8], _); 6] = [
        (b"b", state),
        (b"a", state),
        (b"b", state),
        (b"c", SubjectState::default()),
        (b"d", state),
        (&long, state),
    ];
    assert_eq!(index.load_sorted(subjects), 4);
    assert_eq!((index.len(), index.find(b"a"), index.find(b"d").is_some()), (2, None, true));
}

#[test]
fn a_message_that_its_subject_does_not_count_leaves_it_as_it_is() {
    let mut index = SubjectIndex::new(1);
    let id = index.enter(b"a");
    index.appended(id, 2, 1);
    index.removed(id, 1);
    index.removed(id, 2);
    assert_eq!((index.state(id), index.len()), (SubjectState::default(), 0));
    assert_eq!(index.take_touched(), [(id, SubjectState::default())]);
    index.removed(id, 2);
    assert_eq!((index.touched(), index.len()), (0, 0));
    index.recycle();
    let id = index.enter(b"a");
    index.appended(id, 3, 1);
    assert_eq!((index.state(id).count, index.len()), (1, 1));
}

#[test]
fn a_subject_that_comes_back_keeps_its_id_until_recycled() {
    let mut index = SubjectIndex::new(1);
    let id = index.enter(b"a");
    index.appended(id, 1, 1);
    index.removed(id, 1);
    assert_eq!((index.find(b"a"), index.len(), index.text(id)), (None, 0, &b"a"[..]));
    assert_eq!(index.enter(b"a"), id);
    index.recycle();
    assert_eq!(index.enter(b"a"), id, "it is touched");
    assert_eq!(index.take_touched(), [(id, SubjectState::default())]);
    index.recycle();
    assert_ne!(index.enter(b"a"), id);
}

#[test]
fn the_size_of_a_last_message_is_forgotten_with_the_state_it_was_told_for() {
    let mut index = SubjectIndex::new(1);
    let id = index.enter(b"a");
    index.appended(id, 7, 100);
    assert_eq!(index.last_known(id), Some((7, 100)));
    index.appended(id, 8, 200);
    // After a truncation, another message has the sequence 8.
    let state = index.state(id);
    index.set(id, state);
    assert_eq!(index.last_known(id), None);
    index.appended(id, 9, 300);
    assert_eq!(index.last_known(id), Some((9, 300)));
}

#[test]
fn a_break_stops_at_once() {
    let mut index = SubjectIndex::new(1);
    for (seq, text) in [(1, b"a.1"), (2, b"a.2")] {
        let id = index.enter(text);
        index.appended(id, seq, 1);
    }
    for pattern in [&b"a.*"[..], b"a.1"] {
        let mut visits = 0;
        let scan = index.scan_matching(pattern, None, 10, &mut |_, _| {
            visits += 1;
            ControlFlow::Break(())
        });
        assert_eq!((visits, scan), (1, SubjectScan::Stopped));
    }
}

/// Memory stays bounded while subjects come and go for ever.
#[test]
fn short_lived_subjects_do_not_pile_up() {
    let mut index = SubjectIndex::new(1);
    let mut most = 0;
    for seq in 1..=60_000_u64 {
        let id = index.enter(format!("job.{seq}").as_bytes());
        index.appended(id, seq, 1);
        if seq > 100 {
            let old = index.find(format!("job.{}", seq - 100).as_bytes()).unwrap();
            index.removed(old, seq - 100);
        }
        if seq % 64 == 0 {
            index.take_touched();
            index.recycle_some(512);
        }
        most = most.max(index.memory_bytes());
    }
    assert_eq!(index.len(), 100);
    assert!(most < 300_000, "{most} bytes");
}

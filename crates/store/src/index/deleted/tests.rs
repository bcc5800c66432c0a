//! The set of removed sequences beside its twin.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Sequences around the places where representations meet: containers, halves and the end.
fn seq() -> impl Strategy<Value = Seq> {
    prop_oneof![
        1..200_u64,
        65_500..65_600_u64,
        (u64::from(u32::MAX) - 50)..(u64::from(u32::MAX) + 50),
        (u64::MAX - 50)..=u64::MAX,
    ]
}

#[derive(Clone, Debug)]
enum Change {
    Insert(Seq),
    InsertRange(Seq, u64),
    RemoveBelow(Seq),
    RemoveAbove(Seq),
    Optimize,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => seq().prop_map(Change::Insert),
        4 => (seq(), 0..60_u64).prop_map(|(first, more)| Change::InsertRange(first, more)),
        1 => (1..200_u64).prop_map(Change::RemoveBelow),
        1 => seq().prop_map(Change::RemoveBelow),
        1 => seq().prop_map(Change::RemoveAbove),
        1 => Just(Change::Optimize),
    ]
}

fn runs(plain: &BTreeSet<Seq>) -> Vec<RangeInclusive<Seq>> {
    let mut runs: Vec<RangeInclusive<Seq>> = Vec::new();
    for &seq in plain {
        match runs.last_mut() {
            Some(run) if *run.end() + 1 == seq => *run = *run.start()..=seq,
            _ => runs.push(seq..=seq),
        }
    }
    runs
}

proptest! {
    #[test]
    fn agrees_with_a_plain_set(changes in prop::collection::vec(change(), 0..60), asked in prop::collection::vec(seq(), 40)) {
        let (mut deleted, mut plain) = (Deleted::new(), BTreeSet::new());
        let mut begin = 0;
        for change in changes {
            match change {
                Change::Insert(seq) => prop_assert_eq!(deleted.insert(seq), seq >= begin && plain.insert(seq)),
                Change::InsertRange(first, more) => {
                    let range = first..=first.saturating_add(more);
                    let added = range.clone().filter(|&seq| seq >= begin && plain.insert(seq)).count() as u64;
                    prop_assert_eq!(deleted.insert_range(range), added);
                }
                Change::RemoveBelow(first) => {
                    deleted.remove_below(first);
                    begin = begin.max(first);
                    plain.retain(|&seq| seq >= first);
                }
                Change::RemoveAbove(last) => {
                    deleted.remove_above(last);
                    begin = begin.min(last.saturating_add(1));
                    plain.retain(|&seq| seq <= last);
                }
                Change::Optimize => deleted.optimize(),
            }
        }
        prop_assert_eq!(deleted.is_empty(), plain.is_empty());
        prop_assert_eq!(deleted.ranges().collect::<Vec<_>>(), runs(&plain));
        let mut cursor = deleted.cursor();
        for &seq in &asked {
            prop_assert_eq!(deleted.contains(seq), plain.contains(&seq));
            prop_assert_eq!(cursor.contains(seq), plain.contains(&seq));
            let live = (seq..=u64::MAX).find(|seq| !plain.contains(seq)).unwrap_or(u64::MAX);
            prop_assert_eq!(deleted.next_live(seq), live);
            prop_assert_eq!(cursor.next_live(seq), live);
            let counted = plain.range(asked[0].min(seq)..=seq).count() as u64;
            prop_assert_eq!(deleted.count_in(asked[0].min(seq)..=seq), counted);
        }
        let mut cursor = deleted.cursor();
        prop_assert!((0..300).all(|seq| cursor.contains(seq) == plain.contains(&seq)));
    }

    /// Long ranges, with sequences far apart, against a list of ranges.
    #[test]
    fn long_ranges_agree_with_a_list(
        ranges in prop::collection::vec((0..40_u64, 0..12_u64, 0..4_u64), 1..12),
        below in 0..40_u64,
        above in 0..60_u64,
    ) {
        const STRIDE: u64 = LONG / 2;
        let (mut deleted, mut list) = (Deleted::new(), Vec::new());
        for (first, more, offset) in ranges {
            let range = first * STRIDE + offset + 1..=(first + more) * STRIDE + offset;
            let before: u64 = covered(&list);
            list.push(range.clone());
            prop_assert_eq!(deleted.insert_range(range), covered(&list) - before);
        }
        for seq in (0..60 * STRIDE).step_by(STRIDE as usize / 2 + 1).chain((0..60).map(|n| n * STRIDE)) {
            prop_assert_eq!(deleted.contains(seq), list.iter().any(|range| range.contains(&seq)), "{}", seq);
        }
        prop_assert_eq!(deleted.ranges().map(|range| range.end() - range.start() + 1).sum::<u64>(), covered(&list));
        prop_assert_eq!(deleted.count_in(0..=u64::MAX), covered(&list));
        let (below, above) = (below * STRIDE + 2, above * STRIDE + 1);
        deleted.remove_below(below);
        deleted.remove_above(above);
        for seq in (0..60).flat_map(|n| [n * STRIDE, n * STRIDE + 1, n * STRIDE + 2]) {
            let is_in = seq >= below && seq <= above && list.iter().any(|range| range.contains(&seq));
            prop_assert_eq!(deleted.contains(seq), is_in, "{}", seq);
        }
        let mut ends = deleted.ranges().map(RangeInclusive::into_inner).collect::<Vec<_>>();
        prop_assert!(ends.is_sorted() && ends.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        ends.retain(|&(first, last)| first < below || last > above);
        prop_assert!(ends.is_empty());
    }
}

/// Sequences in any of the ranges.
fn covered(ranges: &[RangeInclusive<Seq>]) -> u64 {
    let mut sorted: Vec<_> = ranges.iter().map(|range| range.clone().into_inner()).collect();
    sorted.sort_unstable();
    let (mut sum, mut behind) = (0, 0);
    for (first, last) in sorted {
        let first = first.max(behind);
        if last >= first {
            sum += last - first + 1;
            behind = last + 1;
        }
    }
    sum
}

#[test]
fn a_range_of_everything_costs_nothing() {
    let mut deleted = Deleted::load([1..=u64::MAX, 5..=5, 3..=u64::MAX / 2]);
    assert!(deleted.memory_bytes() < 1000);
    assert_eq!(deleted.ranges().collect::<Vec<_>>(), [1..=u64::MAX]);
    assert_eq!((deleted.next_live(0), deleted.next_live(7)), (0, u64::MAX));
    assert!(!deleted.insert(9));
    assert_eq!((deleted.insert_range(0..=u64::MAX), deleted.insert(0)), (0, false));
    deleted.remove_above(10);
    assert_eq!(deleted.ranges().collect::<Vec<_>>(), [1..=10]);
}

#[test]
fn an_empty_range_is_nothing() {
    let mut deleted = Deleted::new();
    let (first, last) = (5, 4);
    assert_eq!((deleted.insert_range(first..=last), deleted.count_in(first..=last)), (0, 0));
    assert!(deleted.is_empty());
}

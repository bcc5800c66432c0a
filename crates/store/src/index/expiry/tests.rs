//! The list of lifetimes beside its twin.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Change {
    Insert(Seq, Timestamp),
    /// Many with growing deadlines, as a stream of equal lifetimes has them.
    InsertMany(Seq, Timestamp, usize),
    Remove(Seq, Timestamp),
    /// One that is in, by its place.
    RemoveAt(usize),
    TakeDue(Timestamp, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = || prop_oneof![8 => -50..2000_i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
    prop_oneof![
        6 => (0..500_u64, at()).prop_map(|(seq, at)| Change::Insert(seq, at)),
        3 => (0..500_u64, -50..1000_i64, 0..600_usize).prop_map(|(seq, at, n)| Change::InsertMany(seq, at, n)),
        2 => (0..500_u64, at()).prop_map(|(seq, at)| Change::Remove(seq, at)),
        6 => any::<usize>().prop_map(Change::RemoveAt),
        2 => (at(), 0..700_usize).prop_map(|(now, limit)| Change::TakeDue(now, limit)),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_plain_set(changes in prop::collection::vec(change(), 0..60)) {
        let (mut expiry, mut plain) = (ExpiryIndex::new(), BTreeSet::new());
        for change in changes {
            match change {
                Change::Insert(seq, at) => prop_assert_eq!(expiry.insert(seq, at), plain.insert((at, seq))),
                Change::InsertMany(seq, at, n) => {
                    for n in 0..n {
                        let (seq, at) = (seq + n as u64, at + n as i64 / 3);
                        prop_assert_eq!(expiry.insert(seq, at), plain.insert((at, seq)));
                    }
                }
                Change::Remove(seq, at) => prop_assert_eq!(expiry.remove(seq, at), plain.remove(&(at, seq))),
                Change::RemoveAt(place) => {
                    if let Some(&(at, seq)) = plain.iter().nth(place % plain.len().max(1)) {
                        prop_assert!(expiry.remove(seq, at) && plain.remove(&(at, seq)));
                    }
                }
                Change::TakeDue(now, limit) => {
                    let mut due = Vec::new();
                    let more = expiry.take_due(now, limit, &mut due);
                    let mut ended: Vec<_> = plain.iter().copied().filter(|&(at, _)| at <= now).collect();
                    prop_assert_eq!(more, ended.len() > limit);
                    ended.truncate(limit);
                    plain.retain(|pair| !ended.contains(pair));
                    prop_assert_eq!(due, ended);
                }
            }
            prop_assert_eq!(expiry.next_deadline(), plain.first().map(|&(at, _)| at));
            prop_assert_eq!((expiry.len(), expiry.is_empty()), (plain.len(), plain.is_empty()));
        }
        let mut rest = Vec::new();
        prop_assert!(!expiry.take_due(Timestamp::MAX, usize::MAX, &mut rest));
        prop_assert_eq!(rest, plain.into_iter().collect::<Vec<_>>());
        prop_assert!(expiry.is_empty());
    }
}

#[test]
fn many_lifetimes_take_little_memory() {
    let mut expiry = ExpiryIndex::new();
    let mut at = 1_u64;
    for seq in 0..200_000 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        expiry.insert(seq, (at >> 2) as i64);
    }
    let each = expiry.memory_bytes() / expiry.len();
    assert!(each <= 32, "{each} bytes for each message");
}

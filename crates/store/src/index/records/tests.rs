//! Tests of the records of subjects.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Change {
    Allocate(usize),
    AllocateMany(usize, usize),
    Free(usize),
    /// Every so many-th.
    FreeMany(usize),
    FreeAll,
}

fn change() -> impl Strategy<Value = Change> {
    let length = || prop_oneof![6 => 0..60_usize, 1 => 60..5000_usize, 1 => 50_000..65_536_usize];
    prop_oneof![
        6 => length().prop_map(Change::Allocate),
        4 => (0..80_usize, 1..3000_usize).prop_map(|(length, n)| Change::AllocateMany(length, n)),
        6 => any::<usize>().prop_map(Change::Free),
        3 => (1..5_usize).prop_map(Change::FreeMany),
        1 => Just(Change::FreeAll),
    ]
}

fn text(length: usize, number: usize) -> Vec<u8> {
    (0..length).map(|at| (at + number) as u8).collect()
}

fn free(records: &mut Records, live: &mut BTreeMap<SubjectId, (Vec<u8>, u64)>, id: SubjectId) {
    assert_eq!(records.text(id), live.remove(&id).unwrap().0);
    records.free(id);
}

/// Checks that chunks are made of records without gaps, and lists name the free ones.
fn check_chunks(records: &Records) {
    let mut free = BTreeMap::<u32, usize>::new();
    for (at, chunk) in records.chunks.iter().enumerate() {
        let (mut place, mut free_here) = (0, 0);
        while place * UNIT < chunk.bytes.len() {
            let id = id_at(at, place);
            let units = records.units(id);
            if records.flags(id) & flag::FREE != 0 {
                *free.entry(units).or_default() += 1;
                free_here += units;
            }
            place += units as usize;
        }
        assert_eq!((place * UNIT, free_here), (chunk.bytes.len(), chunk.free));
    }
    for (&units, &first) in &records.free {
        let (mut id, mut listed, mut before) = (first, 0, NONE);
        while id != NONE {
            let record = records.bytes(id);
            assert_eq!((half(record, FREE_UNITS), half(record, FREE_BEFORE)), (units, before));
            (before, id) = (id, half(record, FREE_NEXT));
            listed += 1;
        }
        assert_eq!(free.remove(&units), Some(listed));
    }
    assert!(free.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn records_keep_what_they_hold(changes in prop::collection::vec(change(), 0..40)) {
        let (mut records, mut live) = (Records::new(), BTreeMap::new());
        let mut number = 0;
        for change in changes {
            let (length, n) = match change {
                Change::Allocate(length) => (length, 1),
                Change::AllocateMany(length, n) => (length, n),
                _ => (0, 0),
            };
            for _ in 0..n {
                number += 1;
                let id = records.allocate(&text(length, number));
                prop_assert_eq!(records.read(id), (0, 0, 0, 0));
                records.write(id, (number as u64, 2, u64::MAX, 3));
                prop_assert!(live.insert(id, (text(length, number), number as u64)).is_none());
            }
            let freed: Vec<_> = match change {
                Change::Free(nth) if !live.is_empty() => live.keys().copied().skip(nth % live.len()).take(1).collect(),
                Change::FreeMany(step) => live.keys().copied().step_by(step).collect(),
                Change::FreeAll => live.keys().copied().collect(),
                _ => Vec::new(),
            };
            freed.into_iter().for_each(|id| free(&mut records, &mut live, id));
            check_chunks(&records);
        }
        for (&id, (text, number)) in &live {
            prop_assert_eq!(records.text(id), text.as_slice());
            prop_assert_eq!(records.read(id), (*number, 2, u64::MAX, 3));
        }
        let ids: Vec<_> = live.keys().copied().collect();
        ids.into_iter().for_each(|id| free(&mut records, &mut live, id));
        check_chunks(&records);
        let kept: usize = records.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
        prop_assert!(kept <= CHUNK_UNITS as usize * UNIT, "{} bytes for nothing", kept);
    }
}

/// New subjects of ever new lengths take the place of old ones.
#[test]
fn space_of_short_lived_subjects_is_used_again() {
    let mut records = Records::new();
    let mut live = std::collections::VecDeque::new();
    let mut most = 0;
    for number in 0..200_000_usize {
        // One in a hundred stays for long, so that few chunks become empty.
        let id = records.allocate(&text(10 + number / 1000 % 50, number));
        if number % 100 != 0 || number > 100_000 {
            live.push_back(id);
        }
        if live.len() > 1000 {
            records.free(live.pop_front().unwrap());
        }
        most = most.max(records.memory_bytes());
    }
    assert!(most < 1_500_000, "{most} bytes");
}

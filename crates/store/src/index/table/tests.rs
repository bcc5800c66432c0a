//! Tests of the table of subjects.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    /// Hashes from few values at both ends, so that many share a home and searches go around the
    /// end.
    #[test]
    fn agrees_with_a_plain_set(
        changes in prop::collection::vec((any::<bool>(), prop_oneof![0..4_u32, u32::MAX - 3..=u32::MAX, any::<u32>()], 0..40_u32), 0..400),
        beforehand in prop_oneof![Just(0), Just(SMALL as u32 - 20)],
        reserved in prop_oneof![Just(0), 0..6000_usize],
    ) {
        let (mut table, mut plain) = (IdTable::new(), BTreeSet::new());
        table.reserve(reserved);
        for n in 0..beforehand {
            table.insert(n.wrapping_mul(0x9e37_79b9), 1000 + n);
        }
        for (is_insert, hash, id) in changes {
            let is_in = table.find(hash, |found| found == id);
            prop_assert_eq!(is_in.is_some(), plain.contains(&(hash, id)));
            if is_insert && plain.insert((hash, id)) {
                table.insert(hash, id);
            } else if !is_insert {
                table.remove(hash, id);
                plain.remove(&(hash, id));
            }
        }
        for &(hash, id) in &plain {
            prop_assert_eq!(table.find(hash, |found| found == id), Some(id));
        }
        for n in 0..beforehand {
            let hash = n.wrapping_mul(0x9e37_79b9);
            prop_assert_eq!(table.find(hash, |found| found == 1000 + n), Some(1000 + n));
        }
        prop_assert_eq!(table.len, plain.len() + beforehand as usize);
    }
}

#[test]
fn an_emptied_table_is_small_again() {
    let mut table = IdTable::new();
    let hash = |id: u32| id.wrapping_mul(0x9e37_79b9);
    (0..100_000).for_each(|id| table.insert(hash(id), id));
    let full = table.memory_bytes();
    assert!(full < 100_000 * 17, "{full} bytes");
    (10..100_000).for_each(|id| table.remove(hash(id), id));
    assert!(table.memory_bytes() < 40_000, "{} bytes", table.memory_bytes());
    assert!((0..100).all(|id| table.find(hash(id), |found| found == id).is_some() == (id < 10)));
}

//! Equality of short texts: subjects, names of accounts.

/// Whether two texts are the same.
///
/// Perf: eight bytes at a time and without a call. `==` is a call, which costs more than the
/// comparison of a subject or a name.
#[inline(always)]
#[must_use]
pub fn equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let (Some(begin), Some(other_begin)) = (one.first_chunk::<8>(), other.first_chunk::<8>()) else {
        return equal_short(one, other);
    };
    // The last eight and those in front of them may have some in common.
    if begin != other_begin || one.last_chunk::<8>() != other.last_chunk::<8>() {
        return false;
    }
    let mut at = 8;
    while let (Some(eight), Some(other)) = (one[at..].first_chunk::<8>(), other[at..].first_chunk::<8>()) {
        if eight != other {
            return false;
        }
        at += 8;
    }
    true
}

/// Whether two texts of one length below eight are the same.
#[inline(always)]
fn equal_short(one: &[u8], other: &[u8]) -> bool {
    let (Some(begin), Some(other_begin)) = (one.first_chunk::<4>(), other.first_chunk::<4>()) else {
        return one.iter().eq(other);
    };
    begin == other_begin && one.last_chunk::<4>() == other.last_chunk::<4>()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts of each length up to four eights, and each place where two of them may differ.
    #[test]
    fn each_byte_is_looked_at() {
        for len in 0..=33 {
            let one: Vec<u8> = (0..len).collect();
            assert!(equal(&one, &one.clone()), "{len}");
            for at in 0..usize::from(len) {
                let mut other = one.clone();
                other[at] ^= 0x80;
                assert!(!equal(&one, &other), "{at} of {len}");
                assert!(!equal(&one[..at], &one), "{at} of {len}");
            }
        }
    }

    proptest! {
        #[test]
        fn texts_are_equal_as_slices_are(one in "[ab]{0,20}", other in "[ab]{0,20}") {
            prop_assert_eq!(equal(one.as_bytes(), other.as_bytes()), one == other);
        }
    }
}

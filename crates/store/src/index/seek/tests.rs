//! Tests of where the next match can be.

use proptest::prelude::*;

use super::*;

/// Subjects with tokens that sort on both sides of the separator, prefixes of each other, and empty
/// tokens.
fn subject() -> impl Strategy<Value = String> {
    "[ab!/]{0,2}(\\.[ab!/]{0,2}){0,3}"
}

fn pattern() -> impl Strategy<Value = String> {
    "([ab!/]{1,2}|\\*)(\\.([ab!/]{1,2}|\\*)){0,3}(\\.>)?|>"
}

proptest! {
    #[test]
    fn nothing_that_matches_is_skipped(
        pattern in pattern(),
        subject in subject(),
        others in prop::collection::vec(subject(), 30),
    ) {
        let (pattern, subject) = (pattern.as_bytes(), subject.as_bytes());
        let seeker = Seeker::new(pattern);
        let mut target = Vec::new();
        let verdict = seeker.judge(subject, &mut target);
        prop_assert_eq!(verdict == SeekVerdict::Match, matches(pattern, subject));
        if verdict == SeekVerdict::Seek {
            prop_assert!(target.as_slice() > subject, "{:?}", String::from_utf8_lossy(&target));
        }
        for other in others.iter().map(String::as_bytes).filter(|other| matches(pattern, other)) {
            prop_assert!(other.starts_with(seeker.prefix()));
            let is_skipped = other > subject
                && (verdict == SeekVerdict::Done || (verdict == SeekVerdict::Seek && other < target.as_slice()));
            prop_assert!(!is_skipped, "{:?}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn patterns_that_are_not_well_formed_do_no_harm(pattern in "[a*>.]{0,6}", subject in "[a*>.]{0,6}") {
        let (pattern, subject) = (pattern.as_bytes(), subject.as_bytes());
        let mut target = Vec::new();
        match Seeker::new(pattern).judge(subject, &mut target) {
            SeekVerdict::Match => prop_assert!(matches(pattern, subject)),
            SeekVerdict::Seek => prop_assert!(target.as_slice() > subject),
            SeekVerdict::Next | SeekVerdict::Done => {}
        }
    }
}

#[test]
fn targets() {
    let target_of = |pattern: &str, subject: &str| {
        let mut target = Vec::new();
        let verdict = Seeker::new(pattern.as_bytes()).judge(subject.as_bytes(), &mut target);
        (verdict, String::from_utf8(target).unwrap())
    };
    let seek = |target: &str| (SeekVerdict::Seek, target.to_owned());
    assert_eq!(target_of("orders.*.new", "orders.17.canceled"), seek("orders.17.new"));
    assert_eq!(target_of("orders.*.new", "orders.17.old"), seek("orders.17/"));
    assert_eq!(target_of("orders.*.new", "orders.17.new.x"), seek("orders.17/"));
    assert_eq!(target_of("a.*.c", "a"), seek("a."));
    assert_eq!(target_of("a.*.c", "b.x.c").0, SeekVerdict::Done);
    assert_eq!(target_of("a.*", "a.b.c"), seek("a.b/"));
    assert_eq!(target_of("*.b.c.*.d", "x.a"), seek("x.b.c."));
    // `a!.b` sorts between the two.
    assert_eq!(target_of("*.b", "a").0, SeekVerdict::Next);
}

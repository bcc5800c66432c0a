//! A cover: patterns of which no two overlap, that match all that given ones match.
//!
//! A consumer refuses filters that overlap. What a cover matches beyond the given patterns is left
//! to whoever reads.

use std::collections::BTreeSet;

/// Patterns after which the cover is everything: a consumer compares each message with each.
const MOST: usize = 64;

/// The cover of `patterns`.
pub fn cover<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Vec<String> {
    let mut cover = Vec::<String>::new();
    for pattern in patterns.into_iter().collect::<BTreeSet<_>>() {
        let mut pattern = pattern.to_owned();
        // What takes the place of two may overlap with others.
        while let Some(at) = cover.iter().position(|other| overlap(other, &pattern)) {
            pattern = both(&cover.swap_remove(at), &pattern);
        }
        cover.push(pattern);
        if cover.len() > MOST {
            return vec![">".to_owned()];
        }
    }
    cover.sort_unstable();
    cover
}

/// Whether some subject is matched by both.
fn overlap(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        match (a.next(), b.next()) {
            (None, None) | (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            _ => return false,
        }
    }
}

/// The narrowest pattern that matches all that two overlapping ones match.
fn both(a: &str, b: &str) -> String {
    let mut tokens = Vec::new();
    for (a, b) in a.split('.').zip(b.split('.')) {
        tokens.push(match (a, b) {
            (">", _) | (_, ">") => ">",
            (a, b) if a == b => a,
            _ => "*",
        });
        if tokens.last() == Some(&">") {
            break;
        }
    }
    tokens.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_subject::{is_subset, overlaps};
    use proptest::prelude::*;

    #[test]
    fn covers_of_a_few() {
        let cases: [(&[&str], &[&str]); 7] = [
            (&[], &[]),
            (&["a", "a", "b"], &["a", "b"]),
            (&["a.>", "a.b"], &["a.>"]),
            (&["a.*", "*.b"], &["*.*"]),
            (&["a.*", "*.b", "c.d"], &["*.*"]),
            (&["a.*.c", "a.b.>"], &["a.*.>"]),
            (&["x.y", "a.>", ">"], &[">"]),
        ];
        for (patterns, wanted) in cases {
            assert_eq!(cover(patterns.iter().copied()), wanted, "{patterns:?}");
        }
        let many = (0..=MOST).map(|number| format!("t{number}")).collect::<Vec<_>>();
        assert_eq!(cover(many.iter().map(String::as_str)), [">"]);
    }

    proptest! {
        #[test]
        fn a_cover_has_all_and_does_not_overlap(
            patterns in prop::collection::vec("[ab*](\\.[ab*]){0,2}(\\.>)?", 0..8),
        ) {
            let cover = cover(patterns.iter().map(String::as_str));
            for pattern in &patterns {
                let is_in = |of: &String| is_subset(pattern.as_bytes(), of.as_bytes());
                prop_assert!(cover.iter().any(is_in), "{} in {:?}", pattern, cover);
            }
            for (at, one) in cover.iter().enumerate() {
                let others = &cover[at + 1..];
                prop_assert!(!others.iter().any(|other| overlaps(one.as_bytes(), other.as_bytes())));
            }
        }
    }
}

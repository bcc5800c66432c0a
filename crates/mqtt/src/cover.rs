//! A cover: patterns of which no two overlap, that match all that given ones match.
//!
//! A consumer refuses filters that overlap, and compares each message with each. What a cover
//! matches beyond the given patterns is left to whoever reads.

use std::collections::BTreeSet;

/// Patterns of a cover at most.
const MOST: usize = 64;

/// The cover of `patterns`: the patterns themselves if they are few, or what they begin with, as
/// many tokens of it as make few.
pub fn cover<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Vec<String> {
    let patterns: BTreeSet<_> = patterns.into_iter().collect();
    let deepest = patterns.iter().map(|pattern| pattern.split('.').count()).max().unwrap_or_default();
    let covers = (1..=deepest).rev().find_map(|depth| cover_of_beginnings(&patterns, depth));
    covers.unwrap_or_else(|| if patterns.is_empty() { Vec::new() } else { vec![">".to_owned()] })
}

/// The cover of patterns of which those that are longer are cut behind `depth` tokens. `None`: it
/// has too many.
fn cover_of_beginnings(patterns: &BTreeSet<&str>, depth: usize) -> Option<Vec<String>> {
    let mut cover = Vec::<String>::new();
    let mut last = None;
    for pattern in patterns {
        let beginning = beginning(pattern, depth);
        // Those with one beginning are mostly next to each other.
        if last == Some(beginning) {
            continue;
        }
        last = Some(beginning);
        let (tokens, is_cut) = beginning;
        let mut pattern = if is_cut { format!("{tokens}.>") } else { tokens.to_owned() };
        // What takes the place of two may overlap with others.
        while let Some(at) = cover.iter().position(|other| overlap(other, &pattern)) {
            pattern = both(&cover.swap_remove(at), &pattern);
        }
        cover.push(pattern);
        if cover.len() > MOST {
            return None;
        }
    }
    cover.sort_unstable();
    Some(cover)
}

/// The first tokens of a pattern, and whether that is not all of it.
fn beginning(pattern: &str, depth: usize) -> (&str, bool) {
    match pattern.match_indices('.').nth(depth - 1) {
        Some((end, _)) => (&pattern[..end], true),
        None => (pattern, false),
    }
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
    }

    fn cover_of(patterns: &[String]) -> Vec<String> {
        cover(patterns.iter().map(String::as_str))
    }

    #[test]
    fn a_cover_of_many_is_what_they_begin_with() {
        let many = |count: usize, before: &str, behind: &str| -> Vec<String> {
            (0..count).map(|number| format!("{before}t{number:04}{behind}")).collect()
        };
        for count in [MOST - 1, MOST] {
            let patterns = many(count, "a.b.", "");
            assert_eq!(cover_of(&patterns), patterns);
        }
        assert_eq!(cover_of(&many(MOST + 1, "a.b.", "")), ["a.b.>"]);
        assert_eq!(cover_of(&many(1000, "a.b.", ".c.d")), ["a.b.>"]);
        assert_eq!(cover_of(&many(1000, "", "")), [">"]);
        assert_eq!(cover_of(&many(1000, "", ".>")), [">"]);
        assert_eq!(cover_of(&many(1000, "*.b.", "")), ["*.b.>"]);
        // Short ones stay, unless what is left of the others matches them.
        let mixed = [many(100, "a.", ""), vec!["a".to_owned(), "b".to_owned(), "a.*.c".to_owned()]].concat();
        assert_eq!(cover_of(&mixed), ["a", "a.>", "b"]);
        // As deep as few beginnings are: ten sites with a hundred devices each.
        let sites: Vec<_> = (0..10).flat_map(|site| many(100, &format!("site.{site}."), ".state")).collect();
        assert_eq!(cover_of(&sites), (0..10).map(|site| format!("site.{site}.>")).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn a_cover_has_all_and_does_not_overlap(
            patterns in prop::collection::vec("[ab*](\\.[ab*]){0,2}(\\.>)?", 0..8),
            others in prop::collection::vec("[a-c](\\.[0-9*]{1,2}){0,2}(\\.>)?", 0..200),
        ) {
            let patterns = [patterns, others].concat();
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

//! Rules for subjects and patterns: what is valid, what matches what.
//!
//! A subject is a list of tokens joined by `.`; a pattern may use `*` for one token and a final `>`
//! for one or more. Everything here is a pure function over byte slices and allocates nothing. It
//! does not know who subscribed to what: that is `interest`.
//!
//! Functions about matching expect well-formed patterns. On others they answer something harmless
//! and never panic.

/// Separates the tokens of a subject.
const SEPARATOR: u8 = b'.';

/// Whether `s` has no empty token, and a `>` that stands alone only as the last token. A wildcard
/// character inside a longer token (`foo*`, `a>`) is an ordinary byte.
///
/// Compat: this is all that the reference asks of a SUB from a client, so a form feed passes there,
/// which no other place takes. Tokens are not checked to be UTF-8, and nothing is limited here.
#[must_use]
pub fn is_well_formed(s: &[u8]) -> bool {
    let mut ended = false;
    tokens(s).all(|token| {
        let follows_rest = std::mem::replace(&mut ended, token == b">");
        !token.is_empty() && !follows_rest
    })
}

/// Whether `s` is well formed and has no blank (space, tab, CR, LF, FF): the rule for configured
/// subjects, permissions, mappings, streams and requests.
#[must_use]
pub fn is_valid_pattern(s: &[u8]) -> bool {
    is_well_formed(s) && !s.iter().any(|&b| is_blank(b))
}

/// Whether `s` is a valid pattern without wildcards, so that it names exactly one subject.
#[must_use]
pub fn is_literal(s: &[u8]) -> bool {
    is_valid_pattern(s) && !has_wildcard(s)
}

/// Whether any token of `s` is exactly `*` or `>`. Does not check that `s` is valid.
#[must_use]
pub fn has_wildcard(s: &[u8]) -> bool {
    s.iter().enumerate().any(|(at, &b)| {
        (b == b'*' || b == b'>')
            && (at == 0 || s[at - 1] == SEPARATOR)
            && s.get(at + 1).is_none_or(|&next| next == SEPARATOR)
    })
}

/// How many tokens `s` has: 0 when it is empty, else one more than its dots.
#[must_use]
pub fn token_count(s: &[u8]) -> usize {
    if s.is_empty() { 0 } else { tokens(s).count() }
}

/// Whether a message on `subject` reaches a subscription to `pattern`.
///
/// The subject is taken literally: a `*` or `>` in it is an ordinary token, which only wildcards of
/// the pattern match (clients that are not pedantic may publish such subjects). A subject with an
/// empty token is matched by nothing.
#[must_use]
pub fn matches(pattern: &[u8], subject: &[u8]) -> bool {
    // Perf: permissions compare a few patterns with every subject, and most differ at once.
    let begins_otherwise = match (pattern.first(), subject.first()) {
        (Some(b'*' | b'>'), _) => false,
        (of_pattern, of_subject) => of_pattern != of_subject,
    };
    !begins_otherwise && !has_empty_token(subject) && matches_tokens(pattern, subject)
}

/// [`matches`] for a subject that is known to have no empty token.
pub(crate) fn matches_tokens(pattern: &[u8], subject: &[u8]) -> bool {
    walk(pattern, subject, |p, s| match (p, s) {
        (Some(b">"), Some(_)) => TokenVerdict::Decided(true),
        (Some(b"*"), Some(_)) => TokenVerdict::Next,
        (Some(p), Some(s)) if p == s => TokenVerdict::Next,
        _ => TokenVerdict::Decided(false),
    })
}

/// Whether every subject that `pattern` matches is also matched by `of`.
#[must_use]
pub fn is_subset(pattern: &[u8], of: &[u8]) -> bool {
    walk(pattern, of, |p, o| match (p, o) {
        (Some(_), Some(b">")) => TokenVerdict::Decided(true),
        (Some(b">"), Some(_)) => TokenVerdict::Decided(false),
        (Some(_), Some(b"*")) => TokenVerdict::Next,
        (Some(p), Some(o)) if p == o => TokenVerdict::Next,
        _ => TokenVerdict::Decided(false),
    })
}

/// Whether some subject is matched by both patterns.
#[must_use]
pub fn overlaps(a: &[u8], b: &[u8]) -> bool {
    walk(a, b, |a, b| match (a, b) {
        (Some(b">"), Some(_)) | (Some(_), Some(b">")) => TokenVerdict::Decided(true),
        (Some(b"*"), Some(_)) | (Some(_), Some(b"*")) => TokenVerdict::Next,
        (Some(a), Some(b)) if a == b => TokenVerdict::Next,
        _ => TokenVerdict::Decided(false),
    })
}

/// The pattern that matches what both match, if there is any such subject.
#[must_use]
pub fn intersection(a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    let (mut left, mut right) = (tokens(a), tokens(b));
    let mut both: Vec<&[u8]> = Vec::new();
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Some(both.join(&SEPARATOR)),
            (Some(b">"), Some(token)) => {
                both.push(token);
                both.extend(right.by_ref());
            }
            (Some(token), Some(b">")) => {
                both.push(token);
                both.extend(left.by_ref());
            }
            (Some(b"*"), Some(token)) | (Some(token), Some(b"*")) => both.push(token),
            (Some(token), Some(other)) if token == other => both.push(token),
            _ => return None,
        }
    }
}

/// The tokens of `s`; one empty token when `s` is empty.
pub(crate) fn tokens(s: &[u8]) -> impl Iterator<Item = &[u8]> {
    s.split(|&b| b == SEPARATOR)
}

/// Whether `s` is empty or has an empty token.
#[must_use]
pub fn has_empty_token(s: &[u8]) -> bool {
    let ends = s.first().is_none_or(|&b| b == SEPARATOR) || s.last() == Some(&SEPARATOR);
    // Perf: no early exit, so that it runs on vectors; subjects are short (`examples/interest.rs`).
    let adjacent = s.iter().zip(s.iter().skip(1)).map(|(&a, &b)| a == SEPARATOR && b == SEPARATOR);
    ends | adjacent.fold(false, |any, pair| any | pair)
}

/// Verdict of one pair of tokens on two patterns.
enum TokenVerdict {
    /// Nothing is decided: look at the next pair.
    Next,
    /// The answer, whatever follows.
    Decided(bool),
}

/// Goes through two token lists in step until `judge` decides. Two lists that end together agree.
fn walk(a: &[u8], b: &[u8], judge: impl Fn(Option<&[u8]>, Option<&[u8]>) -> TokenVerdict) -> bool {
    let (mut a, mut b) = (tokens(a), tokens(b));
    loop {
        let pair = (a.next(), b.next());
        if pair == (None, None) {
            return true;
        }
        if let TokenVerdict::Decided(answer) = judge(pair.0, pair.1) {
            return answer;
        }
    }
}

fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn validity() {
        for good in
            ["a", "a.b", "*", ">", "a.*", "*.a", "a.>", "*.>", "foo*", "a.b>", ">>", "**", "a.*x.b", "\0"]
        {
            assert!(is_valid_pattern(good.as_bytes()), "{good:?}");
        }
        for bad in
            ["", ".", "a.", ".a", "a..b", ">.a", "a.>.b", ">.>", "a b", "a.\t", "\r", "a\n", "a.\x0c.b", " "]
        {
            assert!(!is_valid_pattern(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn blanks_are_well_formed_but_not_valid() {
        for blank in ["a b", "a.\t", "\r", "a\x0cb.*", "a.b\n.>"] {
            assert!(is_well_formed(blank.as_bytes()) && !is_valid_pattern(blank.as_bytes()), "{blank:?}");
        }
        for bad in ["", "a.", ".a", "a..b", ">.a", ">.>"] {
            assert!(!is_well_formed(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn literals_and_wildcards() {
        for literal in ["a", "foo*", "a.>b", "a.b*.c", "**"] {
            assert!(is_literal(literal.as_bytes()) && !has_wildcard(literal.as_bytes()), "{literal}");
        }
        for wild in ["*", ">", "a.*", "a.*.b", "a.>", "*.b"] {
            assert!(!is_literal(wild.as_bytes()) && has_wildcard(wild.as_bytes()), "{wild}");
        }
        assert!(!is_literal(b"a..b") && !has_wildcard(b"a..b"));
        assert!(has_wildcard(b"a.>.b"), "also where it is not valid");
    }

    #[test]
    fn counts() {
        assert_eq!(["", "a", "a.b", "a.b.>"].map(|s| token_count(s.as_bytes())), [0, 1, 2, 3]);
    }

    #[test]
    fn matching_takes_the_subject_literally() {
        for (pattern, subject) in
            [("a.*", "a.*"), ("a.*", "a.>"), ("a.>", "a.>.b"), (">", "*"), ("a.>", "a.b.c")]
        {
            assert!(matches(pattern.as_bytes(), subject.as_bytes()), "{pattern} {subject}");
        }
        for (pattern, subject) in [
            ("a.b", "a.*"),
            ("a.b", ">"),
            ("a.>", "a"),
            ("a.*", "a"),
            ("a.*", "a.b.c"),
            (">", ""),
            (">", "a..b"),
            (">", ".a"),
            (">", "a."),
        ] {
            assert!(!matches(pattern.as_bytes(), subject.as_bytes()), "{pattern} {subject}");
        }
    }

    /// Every subject of up to four tokens over `a` and `b`.
    fn universe() -> Vec<String> {
        let mut all: Vec<String> = vec!["a".into(), "b".into()];
        let mut longest = all.clone();
        for _ in 1..4 {
            longest = longest.iter().flat_map(|s| [format!("{s}.a"), format!("{s}.b")]).collect();
            all.extend(longest.iter().cloned());
        }
        // A token that no pattern names tells `*` from the list of all names.
        let unnamed: Vec<String> = all.iter().map(|s| s.replace('b', "z")).collect();
        all.extend(unnamed);
        all
    }

    /// Matching by recursion over token vectors, the plain way.
    fn matches_plainly(pattern: &[&str], subject: &[&str]) -> bool {
        match (pattern, subject) {
            ([], []) => true,
            ([">"], [_, ..]) => true,
            ([p, pattern @ ..], [s, subject @ ..]) => {
                (*p == "*" || p == s) && matches_plainly(pattern, subject)
            }
            _ => false,
        }
    }

    fn reaches(pattern: &str, subject: &str) -> bool {
        let (pattern, subject): (Vec<_>, Vec<_>) =
            (pattern.split('.').collect(), subject.split('.').collect());
        matches_plainly(&pattern, &subject)
    }

    /// Patterns of up to three tokens, so that the universe has subjects longer than any of them.
    fn pattern() -> impl Strategy<Value = String> {
        "([ab*]\\.){0,2}[ab*>]"
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_plain_way(p in pattern()) {
            for subject in universe() {
                prop_assert_eq!(matches(p.as_bytes(), subject.as_bytes()), reaches(&p, &subject), "{}", subject);
            }
        }

        #[test]
        fn subset_and_overlap_mean_what_they_say(a in pattern(), b in pattern()) {
            let universe = universe();
            let subset = universe.iter().all(|s| !reaches(&a, s) || reaches(&b, s));
            let overlap = universe.iter().any(|s| reaches(&a, s) && reaches(&b, s));
            prop_assert_eq!(is_subset(a.as_bytes(), b.as_bytes()), subset);
            prop_assert_eq!(overlaps(a.as_bytes(), b.as_bytes()), overlap);
            prop_assert_eq!(overlaps(b.as_bytes(), a.as_bytes()), overlap);
        }

        #[test]
        fn an_intersection_is_what_both_match(a in pattern(), b in pattern()) {
            let both = intersection(a.as_bytes(), b.as_bytes());
            for subject in universe() {
                let is_in_both = reaches(&a, &subject) && reaches(&b, &subject);
                let found = both.as_ref().is_some_and(|both| matches(both, subject.as_bytes()));
                prop_assert_eq!(found, is_in_both, "{}", subject);
            }
            prop_assert_eq!(both.is_some(), overlaps(a.as_bytes(), b.as_bytes()));
        }

        #[test]
        fn nothing_panics(a in "[ab*>. \t]{0,8}", b in "[ab*>. \t]{0,8}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let _ = (matches(a, b), is_subset(a, b), overlaps(a, b), token_count(a));
            prop_assert_eq!(is_literal(a), is_valid_pattern(a) && !has_wildcard(a));
            prop_assert_eq!(has_empty_token(a), tokens(a).any(<[u8]>::is_empty));
        }
    }
}

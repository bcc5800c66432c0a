//! Subjects in claims, by the rules of the library that writes them, which are looser than the
//! server's.

use super::issues::Issues;
use myelin_wire::error::Quoted;

fn quoted(text: &str) -> Quoted<'_> {
    Quoted(text.as_bytes())
}

pub(super) fn check(subject: &str, issues: &mut Issues) {
    if subject.is_empty() {
        // Nothing else is worth saying of it.
        return issues.error("subject cannot be empty");
    }
    let shown = quoted(subject);
    if subject.contains(' ') {
        issues.error(format!("subject {shown} cannot have spaces"));
    }
    if subject.starts_with('.') || subject.ends_with('.') {
        issues.error(format!("subject {shown} cannot start or end with a `.`"));
    }
    if subject.contains("..") {
        issues.error(format!("subject {shown} cannot contain consecutive `.`"));
    }
}

/// A subject that takes the place of `from`: `$1` stands for its first `*`.
pub(super) fn check_renaming(subject: &str, from: &str, issues: &mut Issues) {
    check(subject, issues);
    if from.is_empty() {
        issues.error("subject cannot be empty");
    }
    let is_open = |subject: &str| subject == ">" || subject.ends_with(".>");
    if is_open(subject) != is_open(from) {
        issues.error("both, renaming subject and subject, need to end or not end in >");
    }
    let stars = from.split('.').filter(|token| *token == "*").count();
    let mut used = 0;
    for token in subject.split('.') {
        if token == "*" {
            used += 1;
        }
        let reference = token.strip_prefix('$').and_then(|number| number.parse::<i64>().ok());
        match reference {
            Some(number) if number > stars as i64 => issues.error(format!(
                "Reference ${number} in {} reference * in {} that do not exist",
                quoted(subject),
                quoted(from)
            )),
            Some(_) => used += 1,
            None => {}
        }
    }
    if used != stars {
        issues.error("subject does not contain enough * or reference wildcards $[0-9]");
    }
}

/// The subject that a renaming one stands for: references are wildcards.
pub(super) fn of_renaming(subject: &str) -> String {
    let is_reference = |token: &str| token.strip_prefix('$').is_some_and(|n| n.parse::<i64>().is_ok());
    let tokens: Vec<_> =
        subject.split('.').map(|token| if is_reference(token) { "*" } else { token }).collect();
    tokens.join(".")
}

pub(super) fn has_wildcards(subject: &str) -> bool {
    subject == ">" || subject.ends_with(".>") || subject.split('.').any(|token| token == "*")
}

/// Whether every subject that `inner` matches is matched by `outer`, token by token.
pub(super) fn is_contained(inner: &str, outer: &str) -> bool {
    let (inner, outer): (Vec<_>, Vec<_>) = (inner.split('.').collect(), outer.split('.').collect());
    if (inner.len() > outer.len() && outer.last() != Some(&">")) || inner.len() < outer.len() {
        return false;
    }
    for (at, token) in outer.iter().enumerate() {
        if at == outer.len() - 1 && *token == ">" {
            return true;
        }
        if *token != inner[at] && *token != "*" {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(check: impl Fn(&mut Issues)) -> Option<String> {
        let mut issues = Issues::default();
        check(&mut issues);
        issues.first().map(str::to_owned)
    }

    #[test]
    fn subjects_are_checked_in_the_libraries_words() {
        for (subject, expected) in [
            ("a.b.*.>", None),
            ("", Some("subject cannot be empty")),
            ("a b", Some("subject \"a b\" cannot have spaces")),
            (".a", Some("subject \".a\" cannot start or end with a `.`")),
            ("a..b", Some("subject \"a..b\" cannot contain consecutive `.`")),
        ] {
            assert_eq!(complaint(|issues| check(subject, issues)).as_deref(), expected, "{subject}");
        }
    }

    #[test]
    fn references_stand_for_wildcards() {
        assert_eq!(complaint(|issues| check_renaming("x.$2.$1", "a.*.*", issues)), None);
        assert_eq!(complaint(|issues| check_renaming("x.*.$1", "a.*.*", issues)), None);
        assert!(complaint(|issues| check_renaming("x.$2", "a.*", issues)).is_some());
        assert!(complaint(|issues| check_renaming("x", "a.*", issues)).is_some());
        assert!(complaint(|issues| check_renaming("x.>", "a.*", issues)).is_some());
        assert_eq!(of_renaming("x.$1.$y.*"), "x.*.$y.*");
    }

    #[test]
    fn containment_is_by_token() {
        for (inner, outer, contained) in [
            ("a.b", "a.*", true),
            ("a.*", "a.b", false),
            ("a.b.c", "a.>", true),
            ("a", "a.>", false),
            ("a.b", "a.b", true),
            ("a.b", "a", false),
        ] {
            assert_eq!(is_contained(inner, outer), contained, "{inner} in {outer}");
        }
    }
}

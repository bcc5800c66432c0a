//! The permission rules written the plain way, and the comparison of [`Permissions`] with them over all
//! short subjects of a small alphabet.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{Permissions, SubjectRules};

/// Whether `pattern` matches `subject`, by recursion over tokens taken literally.
fn reaches(pattern: &[&str], subject: &[&str]) -> bool {
    match (pattern, subject) {
        ([], []) => true,
        ([">"], [_, ..]) => true,
        ([p, pattern @ ..], [s, subject @ ..]) => (*p == "*" || p == s) && reaches(pattern, subject),
        _ => false,
    }
}

fn covers(pattern: &str, subject: &str) -> bool {
    reaches(&pattern.split('.').collect::<Vec<_>>(), &subject.split('.').collect::<Vec<_>>())
}

/// A rule without a queue.
fn plain(rules: &[String], subject: &str) -> bool {
    rules.iter().any(|rule| !rule.contains(' ') && covers(rule, subject))
}

/// The queues of the rules that speak of `subject` and have one.
fn queues<'a>(rules: &'a [String], subject: &str) -> Vec<&'a str> {
    let with_queue = rules.iter().filter_map(|rule| rule.split_once(' '));
    with_queue.filter(|(pattern, _)| covers(pattern, subject)).map(|(_, queue)| queue).collect()
}

/// Queues of the alphabet below have no wildcards themselves, so matching a rule means being covered.
fn one_is_for(queues: &[&str], queue: &str) -> bool {
    queues.iter().any(|rule| covers(rule, queue))
}

fn denied(rules: &SubjectRules, subject: &str, queue: Option<&str>) -> bool {
    plain(&rules.deny, subject) || queue.is_some_and(|queue| one_is_for(&queues(&rules.deny, subject), queue))
}

fn can_subscribe(rules: &SubjectRules, subject: &str, queue: Option<&str>) -> bool {
    let of_queues = queues(&rules.allow, subject);
    let allowed = match queue {
        _ if rules.allow.is_empty() => true,
        Some(queue) if !of_queues.is_empty() => one_is_for(&of_queues, queue),
        _ => plain(&rules.allow, subject),
    };
    allowed && !denied(rules, subject, queue)
}

/// All subjects of one to three tokens over a name, a second name and both wildcards.
fn universe() -> Vec<String> {
    let tokens = ["a", "b", "*", ">"];
    let mut all: Vec<String> = tokens.map(str::to_owned).into();
    let mut longest = all.clone();
    for _ in 1..3 {
        longest = longest.iter().flat_map(|s| tokens.map(|token| format!("{s}.{token}"))).collect();
        all.extend(longest.iter().cloned());
    }
    all
}

const QUEUES: [Option<&str>; 5] = [None, Some("q"), Some("r"), Some("q.a"), Some("r.a")];

fn bytes(queue: Option<&str>) -> Option<&[u8]> {
    queue.map(str::as_bytes)
}

fn pattern() -> impl Strategy<Value = String> {
    "([ab*]\\.){0,2}[ab*>]"
}

fn rule() -> impl Strategy<Value = String> {
    prop_oneof![
        pattern(),
        (pattern(), "q|r|q\\.a|q\\.\\*|\\*\\.a|\\*|>").prop_map(|(p, q)| format!("{p} {q}"))
    ]
}

fn rules(rule: impl Strategy<Value = String> + Clone) -> impl Strategy<Value = SubjectRules> {
    (vec(rule.clone(), 0..4), vec(rule, 0..4)).prop_map(|(allow, deny)| SubjectRules { allow, deny })
}

proptest! {
    #[test]
    fn publishing_agrees_with_the_twin(rules in rules(pattern().boxed())) {
        let permissions = Permissions::new(Some(rules.clone()), None, None).unwrap();
        for subject in universe() {
            let expected = can_subscribe(&rules, &subject, None);
            prop_assert_eq!(permissions.can_publish(subject.as_bytes()), expected, "{}", subject);
        }
    }

    #[test]
    fn subscribing_agrees_with_the_twin(rules in rules(rule().boxed())) {
        let permissions = Permissions::new(None, Some(rules.clone()), None).unwrap();
        for subject in universe() {
            for queue in QUEUES {
                let answer = permissions.can_subscribe(subject.as_bytes(), bytes(queue));
                prop_assert_eq!(answer, can_subscribe(&rules, &subject, queue), "{} {:?}", subject, queue);
                let delivered = permissions.can_deliver(subject.as_bytes(), bytes(queue));
                prop_assert_eq!(delivered, !denied(&rules, &subject, queue), "{} {:?}", subject, queue);
            }
        }
    }

    /// Whoever asks only where `needs_delivery_filter` says so never delivers what is denied.
    #[test]
    fn deliveries_that_need_no_filter_pass_it(rules in rules(rule().boxed())) {
        let permissions = Permissions::new(None, Some(rules), None).unwrap();
        let universe = universe();
        let valid = |subject: &&String| myelin_subject::is_valid_pattern(subject.as_bytes());
        for pattern in universe.iter().filter(valid) {
            for queue in QUEUES {
                let (pattern, queue) = (pattern.as_bytes(), bytes(queue));
                if !permissions.can_subscribe(pattern, queue) || permissions.needs_delivery_filter(pattern) {
                    continue;
                }
                for subject in universe.iter().filter(|s| myelin_subject::matches(pattern, s.as_bytes())) {
                    prop_assert!(permissions.can_deliver(subject.as_bytes(), queue), "{} {:?}", subject, queue);
                }
            }
        }
    }
}

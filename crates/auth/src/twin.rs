//! The permission rules written the plain way, and the comparison of [`Permissions`] with them over
//! all short subjects of a small alphabet.

use proptest::collection::vec;
use proptest::prelude::*;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use crate::{Permissions, ReplyGrants, ResponseRule, SubjectRules};

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

/// Queues of the alphabet below have no wildcards themselves, so matching a rule means being
/// covered.
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

    /// With `allow_responses` nothing is allowed that is not listed, and deny wins there as well.
    #[test]
    fn responses_leave_only_what_is_listed(rules in rules(pattern().boxed()), ways in 0..3_u8) {
        let responses = Some(ResponseRule::default());
        let given = (ways > 0).then(|| rules.clone());
        let permissions = Permissions::new(given.clone(), None, responses).unwrap();
        let rules = given.unwrap_or_default();
        for subject in universe() {
            let listed = plain(&rules.allow, &subject) && !plain(&rules.deny, &subject);
            prop_assert_eq!(permissions.can_publish(subject.as_bytes()), listed, "{}", subject);
            prop_assert!(permissions.can_subscribe(subject.as_bytes(), None), "{}", subject);
        }
    }

    /// A subject more that is denied takes that subject away and nothing else.
    #[test]
    fn what_is_left_without_a_subject(rules in rules(pattern().boxed()), away in "[ab]\\.[ab]", open in any::<bool>()) {
        let own = (!open).then(|| Permissions::new(Some(rules.clone()), Some(rules), None).unwrap());
        let left = Permissions::without(own.as_ref(), &away);
        for subject in universe() {
            let bytes = subject.as_bytes();
            let before = own.as_ref().is_none_or(|own| own.can_publish(bytes));
            prop_assert_eq!(left.can_publish(bytes), before && subject != away, "{}", subject);
            let before = own.as_ref().is_none_or(|own| own.can_subscribe(bytes, None));
            prop_assert_eq!(left.can_subscribe(bytes, None), before, "{}", subject);
        }
    }

    /// Grants beside a list that is never pruned.
    #[test]
    fn grants_agree_with_the_twin(
        max in proptest::option::of(1..4_u32),
        ttl in proptest::option::of(1..5_u64),
        steps in vec((0..3_u8, 0..3_u8), 0..60),
    ) {
        let rule = ResponseRule { max: max.and_then(NonZeroU32::new), ttl: ttl.map(Duration::from_secs) };
        let mut now = Instant::now();
        let mut grants = ReplyGrants::new(rule, now);
        let mut twin = Granted { rule, list: Vec::new() };
        for (step, reply) in steps {
            let reply = [b'r', reply];
            match step {
                0 => now += Duration::from_secs(1),
                1 => {
                    grants.grant(&reply, now);
                    if !twin.may_publish(&reply, now) {
                        twin.list.push((reply.to_vec(), now, 0));
                    }
                }
                _ => prop_assert_eq!(grants.may_publish(&reply, now), twin.may_publish(&reply, now)),
            }
        }
    }
}

/// Replies with when they were granted and how often they were used.
struct Granted {
    rule: ResponseRule,
    list: Vec<(Vec<u8>, Instant, u32)>,
}

impl Granted {
    fn may_publish(&mut self, reply: &[u8], now: Instant) -> bool {
        let Some(at) = self.list.iter().position(|(known, ..)| known == reply) else { return false };
        let (_, given, used) = &mut self.list[at];
        *used += 1;
        let is_spent = self.rule.max.is_some_and(|max| *used > max.get());
        if is_spent || self.rule.ttl.is_some_and(|ttl| now.duration_since(*given) > ttl) {
            self.list.remove(at);
            return false;
        }
        true
    }
}

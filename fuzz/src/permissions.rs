//! Rules of permissions. The first byte chooses which lists there are; the lines of the rest are
//! rules, and every line is a subject (and a queue) to be asked for.
//!
//! Promised for any text: what is no rule is refused with a reason on one line; deny wins; a queue
//! gets nothing that is denied to everybody; who may subscribe without a filter is delivered
//! nothing that is denied; claims that are taken decide as the same rules of a configuration do, or
//! allow less.

use myelin_auth::{Permissions, ResponseRule, SubjectRules};
use myelin_subject::{is_valid_pattern, matches};

/// Any bytes as rules, asked about themselves.
pub fn permissions(data: &[u8]) {
    let (&kind, rest) = data.split_first().unwrap_or((&0, &[]));
    let text = String::from_utf8_lossy(rest);
    let lines: Vec<String> = text.split('\n').take(24).map(str::to_owned).collect();
    let (allow, deny) = lines.split_at(lines.len() * usize::from(kind & 3) / 3);
    let rules = || Some(SubjectRules { allow: allow.to_vec(), deny: deny.to_vec() });
    let responses = (kind & 4 != 0).then(ResponseRule::default);
    let permissions = match Permissions::new(rules(), rules(), responses) {
        Ok(permissions) => permissions,
        Err(error) => {
            let reason = error.to_string();
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
            return only_subscribing(rules(), &lines);
        }
    };
    for line in &lines {
        let subject = line.split(' ').next().unwrap_or_default().as_bytes();
        let is_denied = deny.iter().any(|rule| rule.as_bytes() == subject);
        assert!(!(is_denied && permissions.can_publish(subject)), "deny wins for {line:?}");
    }
    check(&permissions, deny, &lines);
}

/// Rules with queues are for subscriptions only.
fn only_subscribing(rules: Option<SubjectRules>, lines: &[String]) {
    let deny = rules.as_ref().map(|rules| rules.deny.clone()).unwrap_or_default();
    if let Ok(permissions) = Permissions::new(None, rules, None) {
        check(&permissions, &deny, lines);
    }
}

fn check(permissions: &Permissions, deny: &[String], lines: &[String]) {
    for line in lines {
        let (subject, queue) = line.split_once(' ').unwrap_or((line, "q"));
        let (subject, queue) = (subject.as_bytes(), queue.as_bytes());
        // What has a blank of any kind in it is a subject and a queue.
        let is_plain = !line.split(' ').next().unwrap_or_default().contains(char::is_whitespace);
        if is_plain && deny.iter().any(|rule| rule.as_bytes() == subject) {
            assert!(!permissions.can_subscribe(subject, None), "deny wins for {line:?}");
            assert!(!permissions.can_subscribe(subject, Some(queue)), "a queue is no way around {line:?}");
        }
        if !permissions.can_deliver(subject, None) {
            assert!(!permissions.can_deliver(subject, Some(queue)), "a queue is no way around {line:?}");
        }
        let is_unfiltered = is_valid_pattern(subject)
            && permissions.can_subscribe(subject, None)
            && !permissions.needs_delivery_filter(subject);
        for other in lines.iter().filter(|_| is_unfiltered) {
            let reached = other.as_bytes();
            let is_literal = is_valid_pattern(reached) && !reached.iter().any(|byte| b"*> ".contains(byte));
            if is_literal && matches(subject, reached) {
                assert!(
                    permissions.can_deliver(reached, None),
                    "{line:?} needs no filter and gets {other:?}"
                );
            }
        }
    }
}

//! Permissions of an identity to publish, subscribe and be delivered to: the choke point for every
//! subject.

use std::num::NonZeroU32;
use std::time::Duration;

use myelin_subject::has_wildcard;

use crate::jwt::{Permission, ResponsePermission};
use crate::rules::{InvalidRule, RuleSet};

/// The rules for one direction, as the configuration has them.
///
/// Without allow rules everything is allowed; deny rules win over allow rules. For subscriptions a
/// rule may be `"pattern queue"`.
#[derive(Clone, Debug, Default)]
pub struct SubjectRules {
    /// Subjects that are allowed.
    pub allow: Vec<String>,
    /// Subjects of these that are denied.
    pub deny: Vec<String>,
}

/// How `allow_responses` limits the answers to one delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseRule {
    /// How many messages may be published to the reply subject; `None` is any number.
    pub max: Option<NonZeroU32>,
    /// How long after the delivery; `None` is forever.
    pub ttl: Option<Duration>,
}

impl ResponseRule {
    /// Compat: 0 is the default, less is no limit.
    fn of_claims(from: ResponsePermission) -> Self {
        let default = Self::default();
        Self {
            max: match from.max {
                0 => default.max,
                max => u32::try_from(max).ok().and_then(NonZeroU32::new),
            },
            ttl: match from.ttl {
                0 => default.ttl,
                ttl => u64::try_from(ttl).ok().map(Duration::from_nanos),
            },
        }
    }
}

impl Default for ResponseRule {
    /// One message within two minutes.
    fn default() -> Self {
        Self { max: Some(NonZeroU32::MIN), ttl: Some(Duration::from_secs(120)) }
    }
}

/// Permissions of an identity; by default everything. Immutable; shared by all connections of a
/// user.
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    publish: Direction,
    subscribe: Direction,
    responses: Option<ResponseRule>,
}

/// The rules for one direction, ready to be asked.
#[derive(Clone, Debug, Default)]
struct Direction {
    /// `None` allows everything.
    allow: Option<RuleSet>,
    deny: RuleSet,
}

impl Permissions {
    /// Compiles the rules of the configuration. `None` for a direction allows everything in it.
    ///
    /// Compat: with `responses` and no allow rules for publishing, nothing but responses may be
    /// published.
    ///
    /// # Errors
    /// If a rule is not a valid pattern (and queue).
    pub fn new(
        publish: Option<SubjectRules>,
        subscribe: Option<SubjectRules>,
        responses: Option<ResponseRule>,
    ) -> Result<Self, InvalidRule> {
        let mut publish = Direction::compile(publish, RuleSet::of_patterns)?;
        if responses.is_some() {
            publish.allow.get_or_insert_default();
        }
        Ok(Self { publish, subscribe: Direction::compile(subscribe, RuleSet::with_queues)?, responses })
    }

    /// Permissions by the claims of a token, or `None` where they say nothing.
    ///
    /// Compat: what is no subject is passed over; an allow list of nothing else allows nothing.
    #[must_use]
    pub fn of_claims(
        publish: &Permission,
        subscribe: &Permission,
        responses: Option<ResponsePermission>,
    ) -> Option<Self> {
        let is_said = |permission: &Permission| !permission.allow.is_empty() || !permission.deny.is_empty();
        if !is_said(publish) && !is_said(subscribe) && responses.is_none() {
            return None;
        }
        let mut publish = Direction::of_claims(publish, RuleSet::of_patterns);
        if responses.is_some() {
            publish.allow.get_or_insert_default();
        }
        let subscribe = Direction::of_claims(subscribe, RuleSet::with_queues);
        Some(Self { publish, subscribe, responses: responses.map(ResponseRule::of_claims) })
    }

    /// Permissions that are left of `own` (`None` is everything) when nothing may be published to
    /// `subject`.
    pub(crate) fn without(own: Option<&Self>, subject: &str) -> Self {
        let all = || Self { publish: Direction::all(), subscribe: Direction::all(), responses: None };
        let mut left = own.cloned().unwrap_or_else(all);
        left.publish.deny.deny_also(subject);
        left
    }

    /// Whether a message may be published to `subject` without being a response.
    ///
    /// Where this says no and there are [`responses`](Self::responses), the connection's
    /// [`ReplyGrants`](crate::ReplyGrants) have the last word.
    #[must_use]
    pub fn can_publish(&self, subject: &[u8]) -> bool {
        self.publish.allow.as_ref().is_none_or(|allow| allow.covers(subject))
            && !self.publish.deny.covers(subject)
    }

    /// Whether `pattern` may be subscribed to, as a member of `queue` if there is one.
    #[must_use]
    pub fn can_subscribe(&self, pattern: &[u8], queue: Option<&[u8]>) -> bool {
        self.subscribe.allows(pattern, queue) && !self.subscribe.denies(pattern, queue)
    }

    /// Whether deliveries to a subscription to `pattern` must be asked for with
    /// [`can_deliver`](Self::can_deliver): it has wildcards, and a deny rule speaks of a part of
    /// it.
    #[must_use]
    pub fn needs_delivery_filter(&self, pattern: &[u8]) -> bool {
        has_wildcard(pattern) && self.subscribe.deny.overlap(pattern)
    }

    /// Whether a message on `subject` may be delivered to a subscription that exists, in `queue` or
    /// in none.
    #[must_use]
    pub fn can_deliver(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        !self.subscribe.denies(subject, queue)
    }

    /// Whether `pattern` may be subscribed to, or has wildcards and a part of it may.
    #[must_use]
    pub fn can_subscribe_some(&self, pattern: &[u8]) -> bool {
        self.subscribe.allows_some(pattern) && !self.subscribe.denies(pattern, None)
    }

    /// Whether `pattern` may be published to, or has wildcards and a part of it may.
    #[must_use]
    pub fn can_publish_some(&self, pattern: &[u8]) -> bool {
        self.publish.allows_some(pattern) && !self.publish.denies(pattern, None)
    }

    /// The deny rule that refuses a publish to `subject`, as it was written. `None` where no deny
    /// rule covers it: then no allow rule does.
    #[must_use]
    pub fn publish_denied_by(&self, subject: &[u8]) -> Option<String> {
        self.publish.deny.first_about(subject, None)
    }

    /// The deny rule that refuses a subscription to `pattern`, as a member of `queue` if there is
    /// one, as it was written. `None` where no deny rule covers it: then no allow rule does.
    #[must_use]
    pub fn subscribe_denied_by(&self, pattern: &[u8], queue: Option<&[u8]>) -> Option<String> {
        self.subscribe.deny.first_about(pattern, queue)
    }

    /// The rules for publishing, as they were written.
    #[must_use]
    pub fn publish_rules(&self) -> SubjectRules {
        self.publish.texts()
    }

    /// The rules for subscribing, as they were written.
    #[must_use]
    pub fn subscribe_rules(&self) -> SubjectRules {
        self.subscribe.texts()
    }

    /// Whether delivered messages may be answered, and how often.
    #[must_use]
    pub fn responses(&self) -> Option<ResponseRule> {
        self.responses
    }
}

impl Direction {
    fn all() -> Self {
        Self { allow: None, deny: RuleSet::default() }
    }

    fn compile(
        rules: Option<SubjectRules>,
        compile: impl Fn(&[String]) -> Result<RuleSet, InvalidRule>,
    ) -> Result<Self, InvalidRule> {
        let rules = rules.unwrap_or_default();
        let allow = compile(&rules.allow)?;
        Ok(Self { allow: (!allow.is_empty()).then_some(allow), deny: compile(&rules.deny)? })
    }

    fn of_claims(from: &Permission, compile: fn(&[String]) -> Result<RuleSet, InvalidRule>) -> Self {
        let valid = |texts: &[String]| {
            let is_valid = |text: &&String| compile(std::slice::from_ref(text)).is_ok();
            let texts: Vec<String> = texts.iter().filter(is_valid).cloned().collect();
            compile(&texts).unwrap_or_default()
        };
        Self { allow: (!from.allow.is_empty()).then(|| valid(&from.allow)), deny: valid(&from.deny) }
    }

    fn texts(&self) -> SubjectRules {
        let allow = self.allow.as_ref().map(RuleSet::texts).unwrap_or_default();
        SubjectRules { allow, deny: self.deny.texts() }
    }

    /// A rule for queues decides for queues: it overrules plain rules for the same subject.
    fn allows(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        let Some(allow) = &self.allow else { return true };
        queue.and_then(|queue| allow.covers_queue(subject, queue)).unwrap_or_else(|| allow.covers(subject))
    }

    fn allows_some(&self, pattern: &[u8]) -> bool {
        let Some(allow) = &self.allow else { return true };
        allow.covers(pattern) || has_wildcard(pattern) && allow.overlap(pattern)
    }

    /// A plain deny rule denies queues as well; one for queues denies these only.
    fn denies(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        let queue_denied = || queue.is_some_and(|queue| self.deny.covers_queue(subject, queue) == Some(true));
        self.deny.covers(subject) || queue_denied()
    }
}

/// Each table was first tried on nats-server 2.15.2 by raw sockets; the rows are what it did.
#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> Option<SubjectRules> {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Some(SubjectRules { allow: owned(allow), deny: owned(deny) })
    }

    fn publishing(allow: &[&str], deny: &[&str]) -> Permissions {
        Permissions::new(rules(allow, deny), None, None).unwrap()
    }

    fn subscribing(allow: &[&str], deny: &[&str]) -> Permissions {
        Permissions::new(None, rules(allow, deny), None).unwrap()
    }

    /// Rows of subject, queue (empty for none) and the answer.
    #[track_caller]
    fn check_subscribe(permissions: &Permissions, rows: &[(&str, &str, bool)]) {
        for &(subject, queue, allowed) in rows {
            let queue = (!queue.is_empty()).then_some(queue.as_bytes());
            let answer = permissions.can_subscribe(subject.as_bytes(), queue);
            assert_eq!(answer, allowed, "{subject:?} {queue:?}");
        }
    }

    #[track_caller]
    fn check_publish(permissions: &Permissions, rows: &[(&str, bool)]) {
        for &(subject, allowed) in rows {
            assert_eq!(permissions.can_publish(subject.as_bytes()), allowed, "{subject:?}");
        }
    }

    #[test]
    fn no_rules_allow_everything() {
        // The reference took `permissions: {publish: [], subscribe: {allow: []}}` for no rules at
        // all.
        for none in [None, rules(&[], &[])] {
            let open = Permissions::new(none.clone(), none, None).unwrap();
            check_publish(&open, &[("a", true), ("a..b", true), (">", true)]);
            check_subscribe(&open, &[("a", "", true), (">", "q", true)]);
            assert!(!open.needs_delivery_filter(b">") && open.can_deliver(b"a", None));
        }
    }

    #[test]
    fn an_allow_rule_takes_the_pattern_of_a_subscription_literally() {
        // The reference let `foo.>` pass by the rule `foo.*`: `>` is just one more token to it.
        check_subscribe(
            &subscribing(&["foo.*"], &[]),
            &[
                ("foo.*", "", true),
                ("foo.>", "", true),
                ("foo.bar", "", true),
                (">", "", false),
                ("*.*", "", false),
                ("foo.*.x", "", false),
                ("*.bar", "", false),
                ("foo", "", false),
            ],
        );
        let narrow = subscribing(&["foo.bar"], &[]);
        check_subscribe(&narrow, &[("foo.*", "", false), ("foo.>", "", false), ("foo.bar", "", true)]);
    }

    #[test]
    fn a_deny_rule_denies_what_it_covers_and_filters_what_is_broader() {
        let permissions = subscribing(&[], &["foo.*", "x.y", "t.>"]);
        let denied = ["foo.*", "foo.>", "foo.bar", "x.y", "t.>", "t.*"];
        // The reference accepted all of these and held back the denied part at delivery.
        let broader = [">", "*.*", "*.bar", "x.*", "x.>", "*.>"];
        for subject in denied {
            check_subscribe(&permissions, &[(subject, "", false), (subject, "q", false)]);
        }
        for subject in broader {
            check_subscribe(&permissions, &[(subject, "", true), (subject, "q", true)]);
            assert!(permissions.needs_delivery_filter(subject.as_bytes()), "{subject}");
        }
        check_subscribe(&permissions, &[("t", "", true)]);
        for elsewhere in ["t", "a.b.*", "*", "y.*"] {
            assert!(!permissions.needs_delivery_filter(elsewhere.as_bytes()), "{elsewhere}");
        }
    }

    #[test]
    fn publishing_takes_the_subject_literally() {
        let denying = publishing(&[], &["foo.*"]);
        check_publish(&denying, &[("foo.*", false), ("foo.>", false), ("foo.bar", false), (">", true)]);
        // A subject with an empty token is covered by no rule: not denied here, not allowed below.
        check_publish(&denying, &[("foo..bar", true), ("foo.", true)]);
        let allowing = publishing(&[">"], &[]);
        check_publish(&allowing, &[("foo.*", true), (">", true), ("foo..bar", false), ("foo.", false)]);
        check_publish(&allowing, &[(".x", false)]);
    }

    #[test]
    fn the_rule_that_denies_is_named_as_it_was_written() {
        let by = |text: &str| Some(text.to_owned());
        let denying = publishing(&["a.>"], &["a.b", "a.*.c"]);
        assert_eq!(denying.publish_denied_by(b"a.x.c"), by("a.*.c"));
        assert_eq!(denying.publish_denied_by(b"b"), None, "no allow rule covers it");
        let denying = subscribing(&[], &["foo q", "bar.>"]);
        assert_eq!(denying.subscribe_denied_by(b"foo", Some(b"q")), by("foo q"));
        assert_eq!(denying.subscribe_denied_by(b"foo", Some(b"r")), None);
        assert_eq!(denying.subscribe_denied_by(b"bar.*", None), by("bar.>"));
    }

    #[test]
    fn deny_wins_over_allow() {
        let permissions = publishing(&["a.*", "b"], &["a.b", "b"]);
        check_publish(&permissions, &[("a.c", true), ("a.b", false), ("b", false), ("c", false)]);
        let same = subscribing(&["foo q"], &["foo q"]);
        check_subscribe(&same, &[("foo", "q", false), ("foo", "", false)]);
    }

    #[test]
    fn allow_rules_for_queues() {
        let permissions =
            subscribing(&["foo", "bar q1", "foo q2", "baz v1.*", "baz *.dev", "w.> q1", "w.a"], &[]);
        check_subscribe(
            &permissions,
            &[
                ("foo", "", true),
                // The plain rule `foo` allows every queue, but not beside a rule for queues of
                // `foo`.
                ("foo", "q1", false),
                ("foo", "q2", true),
                ("bar", "", false),
                ("bar", "q1", true),
                ("bar", "q2", false),
                ("baz", "v1.x", true),
                ("baz", "v1.*", true),
                ("baz", "v1.>", false),
                ("baz", "v1.", false),
                ("baz", "x.dev", true),
                ("baz", "x", false),
                ("w.a", "q1", true),
                ("w.a", "q2", false),
                ("w.a", "", true),
                ("w.b", "q1", true),
                ("w.*", "q1", true),
                ("w.>", "q1", true),
            ],
        );
        let overlapping = subscribing(&["*.x", "a.> q"], &[]);
        check_subscribe(
            &overlapping,
            &[
                ("a.x", "", true),
                ("a.x", "q", true),
                ("a.x", "r", false),
                ("b.x", "r", true),
                ("a.y", "q", true),
                ("a.y", "", false),
            ],
        );
    }

    #[test]
    fn deny_rules_for_queues() {
        check_subscribe(
            &subscribing(&[], &["foo", "bar q1", "baz v1.*", "w.> q1"]),
            &[
                ("foo", "", false),
                ("foo", "q1", false),
                ("bar", "", true),
                ("bar", "q1", false),
                ("bar", "q2", true),
                ("baz", "v1.x", false),
                ("baz", "v1.*", false),
                ("baz", "v1.>", true),
                ("baz", "v1.", true),
                ("baz", "x", true),
                ("w.a", "q1", false),
                ("w.a", "q2", true),
                ("w.a", "", true),
                ("w.*", "q1", false),
                ("w.>", "q1", false),
                (">", "q1", true),
                ("*", "q1", true),
            ],
        );
        check_subscribe(
            &subscribing(&["foo.* q"], &["foo.bar *"]),
            &[("foo.bar", "q", false), ("foo.x", "q", true), ("foo.*", "q", true), ("foo.*", "", false)],
        );
    }

    #[test]
    fn deliveries_to_broader_subscriptions_are_filtered_by_queue() {
        let permissions = subscribing(&[], &["foo.bar", "x q"]);
        for (subject, queue, delivered) in [
            ("foo.bar", "", false),
            ("foo.bar", "q", false),
            ("foo.baz", "", true),
            ("x", "", true),
            ("x", "r", true),
            ("x", "q", false),
            // Subjects that look like patterns were delivered.
            ("foo.*", "", true),
            ("foo.>", "q", true),
        ] {
            let queue = (!queue.is_empty()).then_some(queue.as_bytes());
            assert_eq!(permissions.can_deliver(subject.as_bytes(), queue), delivered, "{subject} {queue:?}");
        }
    }

    #[test]
    fn allow_responses_turns_off_all_other_publishing_unless_allowed() {
        let responses = Some(ResponseRule::default());
        for publish in [None, rules(&[], &[]), rules(&[], &["x"])] {
            let permissions = Permissions::new(publish, None, responses).unwrap();
            check_publish(&permissions, &[("foo", false), ("x", false)]);
            check_subscribe(&permissions, &[("foo", "", true)]);
            assert_eq!(permissions.responses(), responses);
        }
        let permissions = Permissions::new(rules(&["x"], &[]), None, responses).unwrap();
        check_publish(&permissions, &[("x", true), ("foo", false)]);
    }

    #[test]
    fn invalid_rules_are_named() {
        let publish = |rule| Permissions::new(rules(&["ok", rule], &[]), None, None).unwrap_err().to_string();
        let subscribe = |rule| Permissions::new(None, rules(&[], &[rule]), None).unwrap_err().to_string();
        // The texts are the reference's.
        assert_eq!(publish("foo bar"), "subject \"foo bar\" is not a valid subject");
        assert_eq!(publish(""), "subject \"\" is not a valid subject");
        assert_eq!(subscribe(" foo"), "subject \" foo\" is not a valid subject");
        assert_eq!(subscribe("foo bar baz"), "subject \"foo bar baz\" is not a valid subject");
        assert_eq!(subscribe("foo a..b"), "queue \"a..b\" is not a valid queue");
        assert_eq!(subscribe("fo..o q"), "subject \"fo..o\" is not a valid subject");
        // It took any blanks around and between.
        check_subscribe(&subscribing(&[" foo   q "], &[]), &[("foo", "q", true), ("foo", "", false)]);
    }
}

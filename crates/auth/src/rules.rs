//! Lists of permission rules, and what they say about one subject.
//!
//! A rule is a pattern, or for subscriptions a pattern and a queue group (`"orders.* workers"`).
//! Rules without queue go where looking them up is cheap; the few with one are a plain list.

use std::collections::HashSet;
use std::fmt;

use myelin_subject::{has_wildcard, is_subset, is_valid_pattern, matches, overlaps};

/// A rule that cannot be. The texts are those of the configuration errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidRule {
    /// Not a pattern, or not a pattern and a queue.
    Subject(String),
    /// The queue of the rule is not a pattern.
    Queue(String),
}

impl fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subject(subject) => write!(f, "subject {subject:?} is not a valid subject"),
            Self::Queue(queue) => write!(f, "queue {queue:?} is not a valid queue"),
        }
    }
}

impl std::error::Error for InvalidRule {}

/// The rules of one list. An empty list is not special here.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleSet {
    literals: HashSet<Box<[u8]>>,
    wildcards: Vec<Box<[u8]>>,
    queues: Vec<QueueRule>,
}

#[derive(Clone, Debug)]
struct QueueRule {
    pattern: Box<[u8]>,
    queue: Box<[u8]>,
}

impl QueueRule {
    fn text(&self) -> String {
        format!("{} {}", text(&self.pattern), text(&self.queue))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl RuleSet {
    /// One subject more, which is one.
    pub(crate) fn deny_also(&mut self, subject: &str) {
        self.add_pattern(subject.as_bytes().into());
    }

    /// Rules that are patterns only.
    pub(crate) fn of_patterns(texts: &[String]) -> Result<Self, InvalidRule> {
        let mut rules = Self::default();
        for text in texts {
            rules.add_pattern(valid_pattern(text, text)?);
        }
        Ok(rules)
    }

    /// Rules that are patterns, or patterns followed by a queue.
    pub(crate) fn with_queues(texts: &[String]) -> Result<Self, InvalidRule> {
        let mut rules = Self::default();
        for text in texts {
            let parts: Vec<&str> = text.split_whitespace().collect();
            match parts[..] {
                [pattern] if pattern == text => rules.add_pattern(valid_pattern(pattern, text)?),
                [pattern, queue] => {
                    let pattern = valid_pattern(pattern, pattern)?;
                    let queue = valid_queue(queue)?;
                    rules.queues.push(QueueRule { pattern, queue });
                }
                _ => return Err(InvalidRule::Subject(text.clone())),
            }
        }
        Ok(rules)
    }

    /// The rules as they were written, in the order of the alphabet.
    pub(crate) fn texts(&self) -> Vec<String> {
        let plain = self.literals.iter().chain(&self.wildcards).map(|pattern| text(pattern));
        let mut texts: Vec<_> = plain.chain(self.queues.iter().map(QueueRule::text)).collect();
        texts.sort_unstable();
        texts
    }

    /// The first rule in the order of the alphabet, as it was written, that speaks of `subject`:
    /// one without queue, or one for `queue`.
    pub(crate) fn first_about(&self, subject: &[u8], queue: Option<&[u8]>) -> Option<String> {
        let wildcards = self.wildcards.iter().filter(|pattern| matches(pattern, subject));
        let plain = self.literals.get(subject).into_iter().chain(wildcards).map(|pattern| text(pattern));
        let queues = self.queues.iter().filter(|rule| {
            matches(&rule.pattern, subject) && queue.is_some_and(|queue| queue_matches(&rule.queue, queue))
        });
        plain.chain(queues.map(QueueRule::text)).min()
    }

    fn add_pattern(&mut self, pattern: Box<[u8]>) {
        if has_wildcard(&pattern) {
            self.wildcards.push(pattern);
        } else {
            self.literals.insert(pattern);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.literals.is_empty() && self.wildcards.is_empty() && self.queues.is_empty()
    }

    /// Whether a rule without queue speaks of `subject`.
    ///
    /// Compat: also when `subject` is the pattern of a subscription it is taken literally, token by
    /// token: the rule `a.*` speaks of `a.*` and even of `a.>`, the rule `a.b` of neither.
    pub(crate) fn covers(&self, subject: &[u8]) -> bool {
        self.literals.contains(subject) || self.wildcards.iter().any(|pattern| matches(pattern, subject))
    }

    /// Whether the rules with queue speak of `subject`, and if they do, whether one is for `queue`.
    pub(crate) fn covers_queue(&self, subject: &[u8], queue: &[u8]) -> Option<bool> {
        let mut of_subject = self.queues.iter().filter(|rule| matches(&rule.pattern, subject)).peekable();
        of_subject.peek()?;
        Some(of_subject.any(|rule| queue_matches(&rule.queue, queue)))
    }

    /// Whether any rule, with or without queue, speaks of some subject that `pattern` matches.
    pub(crate) fn overlap(&self, pattern: &[u8]) -> bool {
        let plain = self.literals.iter().chain(&self.wildcards);
        plain.chain(self.queues.iter().map(|rule| &rule.pattern)).any(|rule| overlaps(rule, pattern))
    }
}

/// Whether a rule for the queue `rule`, which may have wildcards, is one for `queue`, whose name
/// may look like a pattern. Names are free: where one has an empty token, `*` does not match that.
fn queue_matches(rule: &[u8], queue: &[u8]) -> bool {
    let tokens = |name| <[u8]>::split(name, |&b| b == b'.');
    let stands = |(rule, token): (&[u8], &[u8])| rule == b">" || !token.is_empty();
    rule == queue
        || (has_wildcard(rule) && is_subset(queue, rule) && tokens(rule).zip(tokens(queue)).all(stands))
}

fn valid_pattern(pattern: &str, blamed: &str) -> Result<Box<[u8]>, InvalidRule> {
    if is_valid_pattern(pattern.as_bytes()) {
        Ok(pattern.as_bytes().into())
    } else {
        Err(InvalidRule::Subject(blamed.to_owned()))
    }
}

fn valid_queue(queue: &str) -> Result<Box<[u8]>, InvalidRule> {
    valid_pattern(queue, queue).map_err(|_| InvalidRule::Queue(queue.to_owned()))
}

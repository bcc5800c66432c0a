//! The publish permissions that a connection earns by being sent messages (`allow_responses`).
//!
//! One [`ReplyGrants`] per connection whose permissions have a [`ResponseRule`]. Time is passed in.
//! Spent and expired grants are pruned, and beyond a limit the oldest go.
//!
//! Compat: the reference has no such limit; its memory grows with every request that is not
//! answered.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::permissions::ResponseRule;

/// Grants are pruned when this many were given since the last time.
const PRUNE_EVERY: u32 = 4096;
/// Grants are pruned when one is given and this much time has passed since the last time.
const PRUNE_AFTER: Duration = Duration::from_secs(1);
/// When pruning finds more bytes than this still granted, the older half goes.
const MAX_BYTES: usize = 8 << 20;
/// Bytes that a grant takes besides its reply, roughly.
const GRANT_BYTES: usize = 64;

/// The replies that a connection may publish to at this moment.
#[derive(Debug)]
pub struct ReplyGrants {
    rule: ResponseRule,
    grants: HashMap<Box<[u8]>, Grant>,
    given_since_prune: u32,
    last_prune: Instant,
}

#[derive(Debug)]
struct Grant {
    given: Instant,
    used: u32,
}

impl ReplyGrants {
    /// No grants yet, from `now` on.
    #[must_use]
    pub fn new(rule: ResponseRule, now: Instant) -> Self {
        Self { rule, grants: HashMap::new(), given_since_prune: 0, last_prune: now }
    }

    /// A message with this `reply` was delivered, and
    /// [`Permissions::can_publish`](crate::Permissions::can_publish) does not allow it anyway.
    ///
    /// Compat: a delivery with a reply that is already granted does not renew the grant but uses it
    /// once.
    pub fn grant(&mut self, reply: &[u8], now: Instant) {
        if self.may_publish(reply, now) {
            return;
        }
        self.grants.insert(reply.into(), Grant { given: now, used: 0 });
        self.given_since_prune += 1;
        if self.given_since_prune > PRUNE_EVERY || now.duration_since(self.last_prune) > PRUNE_AFTER {
            self.prune(now);
        }
    }

    /// Whether a message may be published to `reply` as a response, and if so counts it.
    pub fn may_publish(&mut self, reply: &[u8], now: Instant) -> bool {
        let Some(grant) = self.grants.get_mut(reply) else { return false };
        grant.used = grant.used.saturating_add(1);
        let spent = self.rule.max.is_some_and(|max| grant.used > max.get());
        if spent || is_expired(grant, self.rule, now) {
            self.grants.remove(reply);
            return false;
        }
        true
    }

    /// How many grants are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.grants.len()
    }

    /// Whether no grant is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    fn prune(&mut self, now: Instant) {
        let rule = self.rule;
        let is_spent = |grant: &Grant| rule.max.is_some_and(|max| grant.used >= max.get());
        self.grants.retain(|_, grant| !is_spent(grant) && !is_expired(grant, rule, now));
        while self.held_bytes() > MAX_BYTES {
            self.drop_older_half();
        }
        self.given_since_prune = 0;
        self.last_prune = now;
    }

    fn held_bytes(&self) -> usize {
        self.grants.keys().map(|reply| reply.len() + GRANT_BYTES).sum()
    }

    fn drop_older_half(&mut self) {
        let mut times: Vec<Instant> = self.grants.values().map(|grant| grant.given).collect();
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable(middle);
        self.grants.retain(|_, grant| grant.given > median);
    }
}

fn is_expired(grant: &Grant, rule: ResponseRule, now: Instant) -> bool {
    rule.ttl.is_some_and(|ttl| now.duration_since(grant.given) > ttl)
}

/// The scenes were first played on nats-server 2.15.2; the answers are what it did.
#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    fn rule(max: u32, ttl_millis: u64) -> ResponseRule {
        ResponseRule { max: NonZeroU32::new(max), ttl: Some(Duration::from_millis(ttl_millis)) }
    }

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_reply_may_be_published_to_once_by_default() {
        let now = Instant::now();
        let mut grants = ReplyGrants::new(ResponseRule::default(), now);
        assert!(!grants.may_publish(b"R", now));
        grants.grant(b"R", now);
        assert!(!grants.may_publish(b"S", now));
        assert!(grants.may_publish(b"R", now));
        assert!(!grants.may_publish(b"R", now) && grants.is_empty());
        grants.grant(b"R", now);
        assert!(grants.may_publish(b"R", now));
    }

    #[test]
    fn a_second_delivery_of_a_reply_uses_up_the_first() {
        let now = Instant::now();
        let mut grants = ReplyGrants::new(ResponseRule::default(), now);
        grants.grant(b"R", now);
        grants.grant(b"R", now);
        assert!(!grants.may_publish(b"R", now));
        // The third finds the grant spent and gives a new one.
        (0..3).for_each(|_| grants.grant(b"R", now));
        assert!(grants.may_publish(b"R", now) && !grants.may_publish(b"R", now));

        let mut twice = ReplyGrants::new(rule(2, 1000), now);
        twice.grant(b"R", now);
        twice.grant(b"R", now);
        assert!(twice.may_publish(b"R", now) && !twice.may_publish(b"R", now));
    }

    #[test]
    fn a_grant_expires_and_a_second_delivery_does_not_renew_it() {
        let start = Instant::now();
        let mut grants = ReplyGrants::new(rule(3, 300), start);
        grants.grant(b"R", start);
        assert!(grants.may_publish(b"R", start));
        grants.grant(b"R", start + millis(200));
        assert!(!grants.may_publish(b"R", start + millis(400)) && grants.is_empty());
        grants.grant(b"R", start);
        assert!(grants.may_publish(b"R", start + millis(300)), "the last instant counts");
    }

    #[test]
    fn without_limits_a_grant_stays() {
        let start = Instant::now();
        let mut grants = ReplyGrants::new(ResponseRule { max: None, ttl: None }, start);
        grants.grant(b"R", start);
        let later = start + Duration::from_secs(1_000_000);
        assert!((0..100).all(|_| grants.may_publish(b"R", later)));
    }

    #[test]
    fn spent_and_expired_grants_are_pruned_once_a_second() {
        let start = Instant::now();
        let mut grants = ReplyGrants::new(rule(1, 500), start);
        grants.grant(b"spent", start);
        assert!(grants.may_publish(b"spent", start));
        grants.grant(b"late", start + millis(100));
        assert_eq!(grants.len(), 2);
        grants.grant(b"fresh", start + millis(1001));
        assert_eq!(grants.len(), 1);
        assert!(grants.may_publish(b"fresh", start + millis(1001)));
    }

    #[test]
    fn memory_is_bounded_and_the_newest_grants_survive() {
        let start = Instant::now();
        let mut grants = ReplyGrants::new(ResponseRule { max: None, ttl: None }, start);
        let reply = |n: u32| format!("_INBOX.{n:0>100}").into_bytes();
        let (many, mut most) = (200_000, 0);
        for n in 0..many {
            let now = start + Duration::from_micros(u64::from(n));
            grants.grant(&reply(n), now);
            most = most.max(grants.len());
        }
        let enough = MAX_BYTES / (GRANT_BYTES + reply(0).len());
        assert!(most > enough && most <= enough + PRUNE_EVERY as usize + 2, "{most} of {enough}");
        let now = start + Duration::from_secs(1);
        assert!(grants.may_publish(&reply(many - 1), now) && !grants.may_publish(&reply(0), now));
    }
}

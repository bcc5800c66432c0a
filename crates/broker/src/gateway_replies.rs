//! Mapped replies of an account: requests that have come from other clusters, whose answers go
//! straight back to the server that has asked.
//!
//! A requester sees its own reply and a responder, too; between clusters both travel as one
//! subject. The mapping is remembered for two seconds.
//!
//! Budget: an account that never had such a request pays one load per publish.

use hashbrown::HashMap;
use myelin_stdx::sync::lock;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a mapping is remembered, and how long a subscription is young. Compat: both alike.
const KEPT: Duration = Duration::from_secs(2);
/// Mappings that are remembered at most; the oldest goes.
const MOST: usize = 64 * 1024;

/// Mapped replies of an account.
#[derive(Default)]
pub(crate) struct GatewayReplies {
    /// Mappings that are there.
    count: AtomicUsize,
    /// End of the time in which a subscription is young, in milliseconds since the epoch of the
    /// gateways; 0 for never.
    young_until: AtomicU64,
    table: Mutex<MappingTable>,
}

#[derive(Default)]
struct MappingTable {
    mapped: HashMap<Box<[u8]>, Mapping>,
    /// In the order of their ends; some have been renewed.
    ends: VecDeque<(Instant, Box<[u8]>)>,
}

struct Mapping {
    whole: Box<[u8]>,
    until: Instant,
}

impl GatewayReplies {
    /// Whether anything is mapped.
    #[inline(always)]
    pub(crate) fn is_any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// A subscription was made, `since` the epoch.
    pub(crate) fn subscribed(&self, since: Duration) {
        self.young_until.fetch_max((since + KEPT).as_millis() as u64, Relaxed);
    }

    /// Whether a subscription of the account may be young, `since` the epoch.
    pub(crate) fn may_be_young(&self, since: Duration) -> bool {
        (since.as_millis() as u64) < self.young_until.load(Relaxed)
    }

    /// Remembers that answers to `reply` are to go to `whole`.
    pub(crate) fn remember(&self, reply: &[u8], whole: &[u8], now: Instant) {
        let mut table = lock(&self.table);
        table.forget(now);
        let until = now + KEPT;
        table.mapped.insert(reply.into(), Mapping { whole: whole.into(), until });
        table.ends.push_back((until, reply.into()));
        self.count.store(table.mapped.len(), Relaxed);
    }

    /// Where an answer to `reply` is to go.
    pub(crate) fn find(&self, reply: &[u8], now: Instant) -> Option<Box<[u8]>> {
        let mut table = lock(&self.table);
        let found = table.mapped.get(reply).filter(|mapping| now < mapping.until);
        let found = found.map(|mapping| mapping.whole.clone());
        if found.is_none() {
            table.forget(now);
            self.count.store(table.mapped.len(), Relaxed);
        }
        found
    }
}

impl MappingTable {
    /// Forgets what is over, and the oldest where there is too much.
    fn forget(&mut self, now: Instant) {
        while let Some((until, _)) = self.ends.front()
            && (*until <= now || self.ends.len() >= MOST)
        {
            let Some((until, reply)) = self.ends.pop_front() else { return };
            if self.mapped.get(&reply).is_some_and(|mapping| mapping.until <= until) {
                self.mapped.remove(&reply);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_holds_for_two_seconds() {
        let (replies, now) = (GatewayReplies::default(), Instant::now());
        assert!(!replies.is_any());
        replies.remember(b"r", b"_GR_.a.r", now);
        replies.remember(b"r", b"_GR_.b.r", now + Duration::from_secs(1));
        assert_eq!(replies.find(b"r", now + Duration::from_millis(2900)).as_deref(), Some(&b"_GR_.b.r"[..]));
        assert_eq!(replies.find(b"x", now), None);
        assert_eq!(replies.find(b"r", now + Duration::from_secs(3)), None);
        assert!(!replies.is_any(), "what is over is forgotten");
    }

    #[test]
    fn a_peer_cannot_have_everything_remembered() {
        let (replies, now) = (GatewayReplies::default(), Instant::now());
        for at in 0..MOST + 10 {
            replies.remember(at.to_string().as_bytes(), b"x", now);
        }
        assert!(lock(&replies.table).mapped.len() <= MOST);
        assert_eq!(replies.find(b"1", now), None);
    }
}

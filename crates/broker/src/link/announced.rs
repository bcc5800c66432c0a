//! Interest of one account that other servers hear of, counted.
//!
//! Counts are kept in parts with a lock each; what is announced of a subject is written to the
//! links under that lock, so that the last word on a link is the last state.
//!
//! Budget: an account of a server without a cluster pays one load per change.

use super::interest_part::{InterestKey, InterestPart};
use crate::closed::PastTraffic;
use crate::cluster::{AccountPlace, Cluster, InterestChange};
use crate::conn::Conn;
use arc_swap::ArcSwap;
use myelin_stdx::sync::lock;
use myelin_wire::peer::account_hash;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, OnceLock};

/// Locks over which the subjects of an account are spread: a part of a million is written to a new
/// link in a few milliseconds.
const PARTS: usize = 64;

/// Counted interest of one account.
pub(crate) struct Announced {
    pub(super) cluster: Arc<Cluster>,
    /// Made for the first subscription.
    parts: OnceLock<Box<[Mutex<InterestPart>]>>,
    /// Hash of the account's name, which gives its place in a pool.
    hash: u32,
    /// Of an internal account.
    is_internal: bool,
    /// Links with leaf nodes and hubs.
    pub(crate) leafs: ArcSwap<Vec<Arc<Conn>>>,
    /// The subject that finds circles of leaf nodes, made for the first of them.
    pub(super) loop_subject: OnceLock<Box<[u8]>>,
    /// Traffic of links with leaf nodes and hubs that have ended. Held while `leafs` loses one.
    pub(super) past_leafs: Mutex<PastTraffic>,
    /// Subjects that leaf nodes and hubs are told of for services that are not announced.
    pub(super) offers: Mutex<Vec<Box<[u8]>>>,
}

impl Announced {
    pub(crate) fn new(account: &str, cluster: Arc<Cluster>) -> Self {
        Self {
            cluster,
            parts: OnceLock::new(),
            hash: account_hash(account),
            is_internal: false,
            leafs: ArcSwap::default(),
            loop_subject: OnceLock::new(),
            past_leafs: Mutex::default(),
            offers: Mutex::default(),
        }
    }

    /// Counts of an internal account.
    pub(crate) fn internal(account: &str, cluster: Arc<Cluster>) -> Self {
        Self { is_internal: true, ..Self::new(account, cluster) }
    }

    pub(super) fn is_internal(&self) -> bool {
        self.is_internal
    }

    /// Place of the account among the links to each server.
    pub(crate) fn place(&self, account: &str) -> AccountPlace {
        if self.is_internal {
            return AccountPlace::Internal;
        }
        let terms = self.cluster.terms();
        match terms.as_ref() {
            Some(terms) if !terms.dedicated.iter().any(|name| name == account) => {
                AccountPlace::Pooled(if terms.pool_size <= 1 { 0 } else { self.hash % terms.pool_size })
            }
            _ => AccountPlace::Alone,
        }
    }

    /// Whether anything of this server's own interest is counted.
    #[inline]
    pub(crate) fn keeps_account(&self) -> bool {
        self.cluster.keeps_account()
    }

    /// One more wants this, or one less.
    #[inline]
    pub(crate) fn changed(&self, account: &str, subject: &[u8], queue: Option<&[u8]>, is_new: bool) {
        if self.cluster.keeps_account() {
            let count = |before: u32| if is_new { before + 1 } else { before.saturating_sub(1) };
            self.count(account, subject, queue, count);
        }
    }

    /// Takes note that several members of a queue group have left at once.
    pub(crate) fn members_left(&self, account: &str, subject: &[u8], queue: &[u8], members: u32) {
        if self.cluster.keeps_account() {
            self.count(account, subject, Some(queue), |before| before.saturating_sub(members));
        }
    }

    fn count(&self, account: &str, subject: &[u8], queue: Option<&[u8]>, count: impl FnOnce(u32) -> u32) {
        let key = InterestKey { subject, queue }.key();
        let mut part = lock(self.part(&key));
        let before = part.local.get(&key[..]).copied().unwrap_or(0);
        let now = count(before);
        if now == 0 {
            part.local.remove(&key[..]);
        } else if let Some(count) = part.local.get_mut(&key[..]) {
            *count = now;
        } else {
            part.local.insert(key[..].into(), now);
        }
        self.tell_leafs_of_own(&part, &key, (before, now));
        self.tell_gateways_of_own(account, &part, &key, (before, now));
        // Of a plain subject only the first and the last are of interest elsewhere.
        if before != now && (queue.is_some() || before == 0 || now == 0) {
            let (place, count) = (self.place(account), now);
            self.cluster.announce(&InterestChange { account, place, subject, queue, count, origin: None });
        }
    }

    /// The part of a key.
    pub(super) fn part(&self, key: &[u8]) -> &Mutex<InterestPart> {
        self.part_of_hash(self.cluster.hashing().hash_one(key))
    }

    /// The part of the key with this hash.
    pub(super) fn part_of_hash(&self, hash: u64) -> &Mutex<InterestPart> {
        let part = |_| Mutex::new(InterestPart::new(self.cluster.hashing()));
        let parts = self.parts.get_or_init(|| (0..PARTS).map(part).collect());
        // Perf: the tables of a part place their entries by the lowest bits of the same hash and
        // tag them by the highest: were those of one part all alike, searches would be long.
        &parts[(hash >> 40) as usize % PARTS]
    }

    /// All parts that there are.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Mutex<InterestPart>> {
        self.parts.get().into_iter().flatten()
    }

    /// Subjects and queue groups, for which a new link takes so many lines.
    pub(super) fn len(&self) -> usize {
        self.parts().map(|part| lock(part).local.len()).sum()
    }

    /// Shows each part, under its lock: what is announced meanwhile comes before or after it.
    pub(super) fn for_each_part(&self, mut look: impl FnMut(&InterestPart)) {
        self.parts().for_each(|part| look(&lock(part)));
    }
}

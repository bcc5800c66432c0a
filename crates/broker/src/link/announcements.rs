//! Announcements: what an account's clients and services want, counted, and told to other servers.
//!
//! Other servers hear of a subject once, however many want it, and of a queue group how many
//! members it has. Counts are kept in parts with a lock each; what is announced of a subject is
//! written to the links under that lock, so that the last word on a link is the last state. A link
//! that begins is in the list of links first and gets all parts one by one after: it may hear
//! something twice, which does no harm, and misses nothing.
//!
//! Budget: an account of a server without a cluster pays one load per change.

use super::LinkEnd;
use super::leaf_announcements::{InterestKey, LeafPart};
use crate::account::Account;
use crate::broker::Broker;
use crate::cluster::Cluster;
use crate::conn::{Conn, lock};
use arc_swap::ArcSwap;
use hashbrown::HashMap;
use myelin_wire::peer::{account_hash, encode};
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
    hasher: foldhash::fast::RandomState,
    /// By which the account finds its place in a pool.
    hash: u32,
    /// Links with leaf nodes and hubs.
    pub(super) leafs: ArcSwap<Vec<Arc<Conn>>>,
    /// The subject that finds circles of leaf nodes, made for the first of them.
    pub(super) loop_subject: OnceLock<Box<[u8]>>,
}

/// By `subject`, or `subject queue`: subjects have no blanks.
pub(super) type Counts = HashMap<Box<[u8]>, u32>;

/// Interest in the subjects of one lock.
#[derive(Default)]
pub(super) struct InterestPart {
    /// Clients and services of this server.
    pub(super) local: Counts,
    /// Where there are leaf nodes or hubs.
    pub(super) leaf: Option<Box<LeafPart>>,
}

impl Announced {
    pub(crate) fn new(account: &str, cluster: Arc<Cluster>) -> Self {
        Self {
            cluster,
            parts: OnceLock::new(),
            hasher: Default::default(),
            hash: account_hash(account),
            leafs: ArcSwap::default(),
            loop_subject: OnceLock::new(),
        }
    }

    /// Place of the account among the links to each server, unless it has links of its own.
    pub(crate) fn place(&self, account: &str) -> Option<u32> {
        let terms = self.cluster.terms();
        let terms = terms.as_ref()?;
        let is_dedicated = terms.dedicated.iter().any(|name| name == account);
        (!is_dedicated).then(|| if terms.pool_size <= 1 { 0 } else { self.hash % terms.pool_size })
    }

    /// One more wants this, or one less.
    #[inline]
    pub(crate) fn changed(&self, account: &Account, subject: &[u8], queue: Option<&[u8]>, is_new: bool) {
        if self.cluster.keeps_account() {
            let count = |before: u32| if is_new { before + 1 } else { before.saturating_sub(1) };
            self.count(account, subject, queue, count);
        }
    }

    /// So many members of a queue group have left at once.
    pub(crate) fn members_left(&self, account: &Account, subject: &[u8], queue: &[u8], members: u32) {
        if self.cluster.keeps_account() {
            self.count(account, subject, Some(queue), |before| before.saturating_sub(members));
        }
    }

    fn count(&self, account: &Account, subject: &[u8], queue: Option<&[u8]>, count: impl FnOnce(u32) -> u32) {
        let key = InterestKey { subject, queue }.key();
        let mut part = lock(self.part(&key));
        let before = part.local.get(&key[..]).copied().unwrap_or(0);
        let now = count(before);
        if now == 0 {
            part.local.remove(&key[..]);
        } else {
            part.local.insert(key.clone().into_boxed_slice(), now);
        }
        self.tell_leafs_of_own(&part, &key, (before, now));
        // Of a plain subject only the first and the last are of interest elsewhere.
        if before != now && (queue.is_some() || before == 0 || now == 0) {
            for conn in self.cluster.links().iter() {
                Self::tell(account, conn, |link, out| {
                    if !link.may_announce(subject) {
                        return;
                    }
                    let named = link.named(account);
                    match now {
                        0 => encode::no_interest(out, named, subject, queue),
                        _ => encode::interest(out, named, subject, queue.map(|queue| (queue, now))),
                    }
                });
            }
        }
    }

    /// The part of a key.
    pub(super) fn part(&self, key: &[u8]) -> &Mutex<InterestPart> {
        let parts = self.parts.get_or_init(|| (0..PARTS).map(|_| Mutex::default()).collect());
        &parts[self.hasher.hash_one(key) as usize % PARTS]
    }

    /// All parts that there are.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Mutex<InterestPart>> {
        self.parts.get().into_iter().flatten()
    }

    pub(super) fn tell(account: &Account, conn: &Arc<Conn>, write: impl FnOnce(&LinkEnd, &mut Vec<u8>)) {
        if let Some(link) = conn.link()
            && link.carries(account)
        {
            let mut line = Vec::with_capacity(64);
            write(link, &mut line);
            if !line.is_empty() {
                conn.say(&line);
            }
        }
    }

    /// Subjects and queue groups, for which a new link takes so many lines.
    fn len(&self) -> usize {
        self.parts().map(|part| lock(part).local.len()).sum()
    }

    /// Tells a link what `choose` says of each subject: that it is wanted, or not, or nothing.
    fn tell_all(&self, account: &Account, conn: &Arc<Conn>, choose: &dyn Fn(&[u8]) -> Option<bool>) {
        for part in self.parts() {
            let part = lock(part);
            Self::tell(account, conn, |link, out| {
                let named = link.named(account);
                for (key, count) in &part.local {
                    let at = key.iter().position(|byte| *byte == b' ');
                    let (subject, queue) = match at {
                        Some(at) => (&key[..at], Some((&key[at + 1..], *count))),
                        None => (&key[..], None),
                    };
                    match choose(subject) {
                        Some(true) => encode::interest(out, named, subject, queue),
                        Some(false) => {
                            encode::no_interest(out, named, subject, queue.map(|(queue, _)| queue));
                        }
                        None => {}
                    }
                }
                for key in Self::leaf_keys(&part) {
                    if let Some(is_wanted) = choose(InterestKey::of_key(key).subject) {
                        Self::write_for_route(&part, key, named, is_wanted, out);
                    }
                }
            });
        }
    }
}

/// The interest of this server that a new link has to be told.
pub struct Announcing {
    accounts: Vec<Arc<Account>>,
    conn: Arc<Conn>,
}

impl Announcing {
    /// Count of subjects that can be announced on a shard without its clients noticing.
    const SMALL: usize = 10_000;

    pub(super) fn new(broker: &Broker, conn: &Arc<Conn>) -> Self {
        let mut accounts = broker.accounts();
        accounts.retain(|account| conn.link().is_some_and(|link| link.carries(account)));
        Self { accounts, conn: Arc::clone(conn) }
    }

    /// Restricts it to one account.
    pub(super) fn of_account(mut self, name: &str) -> Self {
        self.accounts.retain(|account| account.name() == name);
        self
    }

    /// Whether it takes long to tell it.
    pub fn is_long(&self) -> bool {
        self.accounts.iter().map(|account| account.announced.len()).sum::<usize>() > Self::SMALL
    }

    /// Tells it.
    pub fn run(self) {
        let Self { accounts, conn } = self;
        let choose = |subject: &[u8]| conn.link()?.may_announce(subject).then_some(true);
        accounts.iter().for_each(|account| account.announced.tell_all(account, &conn, &choose));
    }

    /// Tells of what `choose` chooses: that it is wanted, or is not any more.
    pub(super) fn run_for(self, choose: &dyn Fn(&[u8]) -> Option<bool>) {
        let Self { accounts, conn } = self;
        accounts.iter().for_each(|account| account.announced.tell_all(account, &conn, choose));
    }
}

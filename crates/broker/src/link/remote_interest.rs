//! Remote interest: what the other side of a link wants, in the indexes of the accounts.
//!
//! It has an index of its own in each account, so that limits and lists of subscriptions are of
//! this server alone; only the sums of `/varz` and `/subsz` are of both. Routes are outdated by the
//! epochs of the account's first index: what publishers without other servers check stays the same.

use super::remote_sub::{EACH, InterestSource, RemoteSub, SoughtInterest};
use crate::account::{Account, RemoteEntry};
use crate::conn::Conn;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use myelin_subject::Subscribed;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::parser::PeerInterest;
use std::sync::{Arc, Weak};

/// Bytes of interest that one link may bring: about ten million subscriptions.
const MOST: usize = 2 << 30;

/// Capacity below which the list of a link is not worth shrinking.
const SMALL: usize = 1024;

/// Sources of the accounts with these names.
type Sources = HashMap<Box<str>, Arc<InterestSource>>;

/// All interest of one link.
///
/// Perf: it is found by the accounts' indexes, and here is only a list of it: a hash table of the
/// link's own was a third of the time that a server which joins takes (docs/results/links.md).
pub(super) struct RemoteInterests {
    conn: Arc<Conn>,
    hasher: RandomState,
    subs: Vec<Arc<RemoteSub>>,
    /// Sources that something in `subs` has: clients, and leaf nodes.
    sources: [Sources; 2],
    /// Source of the interest before: the next one is mostly of the same.
    last: Option<Arc<InterestSource>>,
    /// Cost of all of it.
    held: usize,
}

impl RemoteInterests {
    pub(super) fn new(conn: &Arc<Conn>) -> Self {
        Self {
            conn: Arc::clone(conn),
            hasher: RandomState::default(),
            subs: Vec::new(),
            sources: Default::default(),
            last: None,
            held: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.subs.len()
    }

    /// Takes memory from what the link may bring; false if that is too much.
    pub(super) fn reserve(&mut self, bytes: usize) -> bool {
        let fits = self.held + bytes <= MOST;
        self.held += if fits { bytes } else { 0 };
        fits
    }

    /// Gives memory back that was [reserved](Self::reserve).
    pub(super) fn release(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.held, "what is given back was taken");
        self.held = self.held.saturating_sub(bytes);
    }

    fn find(&self, account: &Account, interest: &PeerInterest<'_>) -> Option<Arc<RemoteSub>> {
        account.find_remote(&SoughtInterest { conn: &self.conn, hasher: &self.hasher, interest })
    }

    /// Adds interest, or changes its weight.
    pub(super) fn add(
        &mut self,
        account: &Arc<Account>,
        interest: &PeerInterest<'_>,
    ) -> Result<(), CloseReason> {
        if self.held + RemoteSub::cost_of(interest) > MOST && self.find(account, interest).is_none() {
            return Err(CloseReason::MaximumSubscriptions);
        }
        let source = self.source(account, interest.leaf.is_some());
        let sought = SoughtInterest { conn: &self.conn, hasher: &self.hasher, interest };
        let place = self.subs.len() as u32;
        let make = || Arc::new(RemoteSub::new(source, interest, place));
        match account.find_or_insert_remote(&sought, make) {
            RemoteEntry::Known(known) if known.weight() != interest.weight => {
                account.reweigh_remote(&known, interest.weight);
            }
            RemoteEntry::Known(_) => {}
            RemoteEntry::New(sub) => {
                self.held += sub.cost();
                self.subs.push(sub);
            }
        }
        Ok(())
    }

    /// The source of interest in `account`.
    fn source(&mut self, account: &Arc<Account>, is_leaf: bool) -> Arc<InterestSource> {
        let is_it = |source: &&Arc<InterestSource>| source.is_of(account) && source.is_leaf == is_leaf;
        if let Some(last) = self.last.as_ref().filter(is_it) {
            return Arc::clone(last);
        }
        let known = self.sources[usize::from(is_leaf)].get(account.name());
        let source = match known {
            Some(known) if is_it(&known) => Arc::clone(known),
            known => {
                if known.is_some() {
                    // Another account had the name, and is gone.
                    self.forget(account.name());
                }
                let (conn, hasher) = (Arc::clone(&self.conn), self.hasher.clone());
                let held: Weak<Account> = Arc::downgrade(account);
                let source = Arc::new(InterestSource { conn, account: held, is_leaf, hasher });
                self.held += EACH + account.name().len();
                self.sources[usize::from(is_leaf)].insert(account.name().into(), Arc::clone(&source));
                source
            }
        };
        self.last = Some(Arc::clone(&source));
        source
    }

    pub(super) fn remove(&mut self, account: &Arc<Account>, interest: &PeerInterest<'_>) {
        if let Some(sub) = self.find(account, interest) {
            account.remove_remote(&sub);
            self.take_out(sub, account.name());
        }
    }

    /// Takes a subscription out of the list, and its source if it was the last of it.
    fn take_out(&mut self, sub: Arc<RemoteSub>, account: &str) {
        let at = sub.place() as usize;
        debug_assert!(Arc::ptr_eq(&self.subs[at], &sub), "a subscription knows its place");
        self.subs.swap_remove(at);
        if let Some(moved) = self.subs.get(at) {
            moved.move_to(at as u32);
        }
        if self.subs.capacity() > SMALL && self.subs.len() < self.subs.capacity() / 8 {
            self.subs.shrink_to(self.subs.len() * 2);
        }
        self.held -= sub.cost();
        self.last = None;
        let sources = &mut self.sources[usize::from(sub.is_leaf())];
        // Indexes may still be read: what they hold is as good as gone.
        let is_last = sources.get(account).is_some_and(|source| Arc::strong_count(source) <= 2);
        if is_last && sources.remove(account).is_some() {
            self.held -= EACH + account.len();
        }
    }

    /// Removes interest in an account of this name that cannot be found any more: it may come back
    /// as it was. False if there is none.
    pub(super) fn remove_of_gone(&mut self, name: &str, interest: &PeerInterest<'_>) -> bool {
        let source = self.sources[usize::from(interest.leaf.is_some())].get(name);
        let Some(source) = source else { return false };
        match source.account::<Account>() {
            Some(account) => self.remove(&account, interest),
            // Its index is gone with it.
            None => self.forget(name),
        }
        true
    }

    /// Forgets what is not to be kept.
    fn retain(&mut self, keeps: impl Fn(&RemoteSub, Option<&Account>) -> bool) {
        let (mut freed, mut place) = (0, 0);
        self.subs.retain(|sub| {
            let account = sub.account::<Account>();
            let is_kept = keeps(sub, account.as_deref());
            if is_kept {
                sub.move_to(place);
                place += 1;
            } else {
                freed += sub.cost();
                account.iter().for_each(|account| account.remove_remote(sub));
            }
            is_kept
        });
        self.last = None;
        for sources in &mut self.sources {
            #[expect(clippy::disallowed_methods, reason = "each is looked at by itself")]
            sources.retain(|name, source| {
                let is_used = Arc::strong_count(source) > 1;
                freed += if is_used { 0 } else { EACH + name.len() };
                is_used
            });
        }
        debug_assert!(freed <= self.held, "what is given back was taken");
        debug_assert!(
            self.subs.iter().enumerate().all(|(at, sub)| sub.place() as usize == at),
            "a subscription knows its place"
        );
        self.held -= freed;
    }

    /// Forgets interest in subjects that are not allowed any more. Of the rest, what was found
    /// before is out of date: a part of it may be denied.
    pub(super) fn restrict(&mut self, is_allowed: impl Fn(&[u8]) -> bool) {
        self.retain(|sub, account| {
            let keeps = is_allowed(Subscribed::subject(sub));
            if keeps {
                account.iter().for_each(|account| account.touch_remote(Subscribed::subject(sub)));
            }
            keeps
        });
    }

    /// Forgets all interest in one account.
    pub(super) fn forget(&mut self, name: &str) {
        let sources = self.sources.each_ref().map(|sources| sources.get(name).map(Arc::as_ptr));
        if sources == [None, None] {
            return;
        }
        self.retain(|sub, _| !sources.contains(&Some(Arc::as_ptr(sub.source()))));
    }

    /// Outdates what was found of it before.
    pub(super) fn outdate(&self) {
        for sub in &self.subs {
            let account = sub.account::<Account>();
            account.iter().for_each(|account| account.touch_remote(Subscribed::subject(&**sub)));
        }
    }

    pub(super) fn take(&mut self) -> RemoteRemoval {
        self.held = 0;
        self.last = None;
        self.sources = Default::default();
        RemoteRemoval(std::mem::take(&mut self.subs))
    }
}

/// Interest of a link that has ended, still in the indexes.
pub(super) struct RemoteRemoval(Vec<Arc<RemoteSub>>);

impl RemoteRemoval {
    pub(super) fn run(self) {
        for sub in self.0 {
            if let Some(account) = sub.account::<Account>() {
                account.remove_remote(&sub);
            }
        }
    }
}

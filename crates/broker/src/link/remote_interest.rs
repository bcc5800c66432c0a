//! Remote interest: what the other side of a link wants, in the indexes of the accounts.
//!
//! It has an index of its own in each account, so that limits and lists of subscriptions are of
//! this server alone; only the sums of `/varz` and `/subsz` are of both. Routes are outdated by the
//! epochs of the account's first index: what publishers without other servers check stays the same.

use crate::account::Account;
use crate::conn::Conn;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use myelin_subject::{Sought, Subscribed};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::parser::PeerInterest;
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Bytes of interest that one link may bring: about ten million subscriptions.
const MOST: usize = 2 << 30;

/// Memory of one remote subscription, or of an account that has one, beside its texts, about.
const EACH: usize = 160;

/// Capacity below which the list of a link is not worth shrinking.
const SMALL: usize = 1024;

/// Source of wishes: clients, or leaf nodes, of one account on the other side of a link.
struct InterestSource {
    conn: Arc<Conn>,
    account: Weak<Account>,
    is_leaf: bool,
    hasher: RandomState,
}

impl InterestSource {
    fn is_of(&self, account: &Account) -> bool {
        std::ptr::eq(self.account.as_ptr(), account)
    }
}

/// Texts of a subscription, one behind the other; most are so short that they need no memory of
/// their own.
enum Texts {
    Short(u8, [u8; 22]),
    Long(Box<[u8]>),
}

impl Texts {
    fn of(parts: [&[u8]; 3]) -> Self {
        let len = parts.iter().map(|part| part.len()).sum();
        let mut short = [0; 22];
        let Some(room) = short.get_mut(..len) else { return Self::Long(parts.concat().into_boxed_slice()) };
        let (subject, rest) = room.split_at_mut(parts[0].len());
        subject.copy_from_slice(parts[0]);
        let (queue, origin) = rest.split_at_mut(parts[1].len());
        queue.copy_from_slice(parts[1]);
        origin.copy_from_slice(parts[2]);
        Self::Short(len as u8, short)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(len, bytes) => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

/// A wish of another server's clients: one for all of them that want the same.
pub(crate) struct RemoteSub {
    source: Arc<InterestSource>,
    /// Subject, queue, origin of leaf nodes.
    texts: Texts,
    subject_len: u32,
    /// One more than the length of the queue group's name.
    queue_len: Option<NonZeroU32>,
    weight: AtomicU32,
    /// Where it stands in the list of its link, which alone looks at it.
    place: AtomicU32,
}

impl RemoteSub {
    fn new(source: Arc<InterestSource>, interest: &PeerInterest<'_>, place: u32) -> Self {
        let parts = [interest.subject, interest.queue.unwrap_or_default(), interest.leaf.unwrap_or_default()];
        Self {
            source,
            texts: Texts::of(parts),
            subject_len: interest.subject.len() as u32,
            queue_len: interest.queue.and_then(|queue| NonZeroU32::new(queue.len() as u32 + 1)),
            weight: AtomicU32::new(interest.weight),
            place: AtomicU32::new(place),
        }
    }

    /// The link over which it came.
    pub(crate) fn conn(&self) -> &Arc<Conn> {
        &self.source.conn
    }

    /// Members of the queue group over there.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Whether it is of leaf nodes.
    pub(crate) fn is_leaf(&self) -> bool {
        self.source.is_leaf
    }

    fn account(&self) -> Option<Arc<Account>> {
        self.source.account.upgrade()
    }

    fn queue_at(&self) -> std::ops::Range<usize> {
        let begin = self.subject_len as usize;
        begin..begin + self.queue_len.map_or(0, |len| len.get() as usize - 1)
    }

    fn origin(&self) -> &[u8] {
        &self.texts.bytes()[self.queue_at().end..]
    }

    fn cost(&self) -> usize {
        self.texts.bytes().len() + EACH
    }
}

impl Subscribed for RemoteSub {
    fn subject(&self) -> &[u8] {
        &self.texts.bytes()[..self.subject_len as usize]
    }

    fn queue(&self) -> Option<&[u8]> {
        self.queue_len.map(|_| &self.texts.bytes()[self.queue_at()])
    }

    fn id(&self) -> u64 {
        id(&self.source.hasher, &self.source.conn, self.is_leaf().then(|| self.origin()))
    }
}

/// Number by which one of many that want the same is found: the same link says it of several
/// origins.
fn id(hasher: &RandomState, conn: &Arc<Conn>, leaf: Option<&[u8]>) -> u64 {
    hasher.hash_one((conn.cid(), leaf))
}

/// Interest of one link that may be known already.
struct SoughtInterest<'a> {
    conn: &'a Arc<Conn>,
    hasher: &'a RandomState,
    interest: &'a PeerInterest<'a>,
}

impl Sought<Arc<RemoteSub>> for SoughtInterest<'_> {
    fn subject(&self) -> &[u8] {
        self.interest.subject
    }

    fn queue(&self) -> Option<&[u8]> {
        self.interest.queue
    }

    fn id(&self) -> u64 {
        id(self.hasher, self.conn, self.interest.leaf)
    }

    fn is(&self, sub: &Arc<RemoteSub>) -> bool {
        Arc::ptr_eq(sub.conn(), self.conn)
            && Subscribed::subject(&**sub) == self.interest.subject
            && Subscribed::queue(&**sub) == self.interest.queue
            && sub.is_leaf() == self.interest.leaf.is_some()
            && sub.origin() == self.interest.leaf.unwrap_or_default()
    }
}

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

    fn find(&self, account: &Account, interest: &PeerInterest<'_>) -> Option<Arc<RemoteSub>> {
        account.find_remote(&SoughtInterest { conn: &self.conn, hasher: &self.hasher, interest })
    }

    /// Adds interest, or changes its weight.
    pub(super) fn add(
        &mut self,
        account: &Arc<Account>,
        interest: &PeerInterest<'_>,
    ) -> Result<(), CloseReason> {
        if let Some(known) = self.find(account, interest) {
            if known.weight.swap(interest.weight, Relaxed) != interest.weight {
                account.touch_remote(interest.subject);
            }
            return Ok(());
        }
        let source = self.source(account, interest.leaf.is_some());
        let sub = Arc::new(RemoteSub::new(source, interest, self.subs.len() as u32));
        self.held += sub.cost();
        if self.held > MOST {
            return Err(CloseReason::MaximumSubscriptions);
        }
        account.insert_remote(&sub);
        self.subs.push(sub);
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
                let source =
                    Arc::new(InterestSource { conn, account: Arc::downgrade(account), is_leaf, hasher });
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
        let at = sub.place.load(Relaxed) as usize;
        debug_assert!(Arc::ptr_eq(&self.subs[at], &sub), "a subscription knows its place");
        self.subs.swap_remove(at);
        if let Some(moved) = self.subs.get(at) {
            moved.place.store(at as u32, Relaxed);
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
        match source.account.upgrade() {
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
            let account = sub.account();
            let is_kept = keeps(sub, account.as_deref());
            if is_kept {
                sub.place.store(place, Relaxed);
                place += 1;
            } else {
                freed += sub.cost();
                account.iter().for_each(|account| account.remove_remote(sub));
            }
            is_kept
        });
        self.last = None;
        for sources in &mut self.sources {
            sources.retain(|name, source| {
                let is_used = Arc::strong_count(source) > 1;
                freed += if is_used { 0 } else { EACH + name.len() };
                is_used
            });
        }
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
        self.retain(|sub, _| !sources.contains(&Some(Arc::as_ptr(&sub.source))));
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
            if let Some(account) = sub.account() {
                account.remove_remote(&sub);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_what_they_were_in_place_or_not() {
        for lens in [[0, 0, 0], [22, 0, 0], [10, 5, 7], [23, 0, 0], [10, 5, 8], [300, 20, 10]] {
            let [subject, queue, origin] =
                [(b'a', lens[0]), (b'b', lens[1]), (b'c', lens[2])].map(|(byte, len)| vec![byte; len]);
            let texts = Texts::of([&subject, &queue, &origin]);
            assert_eq!(texts.bytes(), [subject, queue, origin].concat());
            assert_eq!(matches!(texts, Texts::Short(..)), lens.iter().sum::<usize>() <= 22);
        }
    }

    /// Memory of a million is what a server which joins takes first.
    #[test]
    fn a_subscription_is_small() {
        assert!(size_of::<RemoteSub>() <= 48, "{}", size_of::<RemoteSub>());
    }
}

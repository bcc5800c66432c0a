//! Remote interest: what the other side of a link wants, in the indexes of the accounts.
//!
//! It has an index of its own in each account, so that limits and lists of subscriptions are of
//! this server alone; only the sums of `/varz` and `/subsz` are of both. Routes are outdated by the
//! epochs of the account's first index: what publishers without other servers check stays the same.

use crate::account::Account;
use crate::conn::Conn;
use hashbrown::HashTable;
use myelin_subject::Subscribed;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::parser::PeerInterest;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Bytes of interest that one link may bring: about ten million subscriptions.
const MOST: usize = 2 << 30;

/// Memory of one remote subscription beside its texts, about.
const EACH: usize = 160;

/// A wish of another server's clients: one for all of them that want the same.
pub(crate) struct RemoteSub {
    conn: Arc<Conn>,
    account: Weak<Account>,
    /// Subject, queue, origin of leaf nodes.
    text: Box<[u8]>,
    subject_len: u32,
    queue_len: Option<u32>,
    is_leaf: bool,
    pub(super) weight: AtomicU32,
    /// Where it stands in the link's table: the account may be gone when that grows.
    hash: u64,
}

impl RemoteSub {
    fn new(conn: &Arc<Conn>, account: &Arc<Account>, interest: &PeerInterest<'_>, hash: u64) -> Self {
        let parts = [interest.subject, interest.queue.unwrap_or_default(), interest.leaf.unwrap_or_default()];
        Self {
            conn: Arc::clone(conn),
            account: Arc::downgrade(account),
            text: parts.concat().into_boxed_slice(),
            subject_len: interest.subject.len() as u32,
            queue_len: interest.queue.map(|queue| queue.len() as u32),
            is_leaf: interest.leaf.is_some(),
            weight: AtomicU32::new(interest.weight),
            hash,
        }
    }

    /// The link over which it came.
    pub(crate) fn conn(&self) -> &Arc<Conn> {
        &self.conn
    }

    /// Members of the queue group over there.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Whether it is of leaf nodes.
    pub(crate) fn is_leaf(&self) -> bool {
        self.is_leaf
    }

    /// Cluster of the leaf nodes; empty where there is none, or that was not said.
    pub(super) fn origin(&self) -> &[u8] {
        &self.text[self.subject_len as usize + self.queue_len.unwrap_or(0) as usize..]
    }

    fn is(&self, account: &Account, interest: &PeerInterest<'_>) -> bool {
        std::ptr::eq(self.account.as_ptr(), account) && self.says(interest)
    }

    fn says(&self, interest: &PeerInterest<'_>) -> bool {
        Subscribed::subject(self) == interest.subject
            && Subscribed::queue(self) == interest.queue
            && self.is_leaf == interest.leaf.is_some()
            && self.origin() == interest.leaf.unwrap_or_default()
    }

    fn cost(&self) -> usize {
        self.text.len() + EACH
    }
}

impl Subscribed for RemoteSub {
    fn subject(&self) -> &[u8] {
        &self.text[..self.subject_len as usize]
    }

    fn queue(&self) -> Option<&[u8]> {
        self.queue_len.map(|len| &self.text[self.subject_len as usize..][..len as usize])
    }
}

/// All interest of one link.
#[derive(Default)]
pub(super) struct RemoteInterests {
    table: HashTable<Arc<RemoteSub>>,
    hasher: foldhash::fast::RandomState,
    /// Cost of all of it.
    held: usize,
}

impl RemoteInterests {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    fn hash(&self, account: &str, interest: &PeerInterest<'_>) -> u64 {
        // Each part with its length: what stands together elsewhere is not alike.
        let key = (account, interest.subject, interest.queue, interest.leaf);
        self.hasher.hash_one(key)
    }

    /// Takes memory from what the link may bring; false if that is too much.
    pub(super) fn reserve(&mut self, bytes: usize) -> bool {
        let fits = self.held + bytes <= MOST;
        self.held += if fits { bytes } else { 0 };
        fits
    }

    /// Adds interest, or changes its weight.
    pub(super) fn add(
        &mut self,
        conn: &Arc<Conn>,
        account: &Arc<Account>,
        interest: &PeerInterest<'_>,
    ) -> Result<(), CloseReason> {
        let hash = self.hash(account.name(), interest);
        if let Some(known) = self.table.find(hash, |sub| sub.is(account, interest)) {
            if known.weight() != interest.weight {
                account.reweigh_remote(known, interest.weight);
            }
            return Ok(());
        }
        let sub = Arc::new(RemoteSub::new(conn, account, interest, hash));
        self.held += sub.cost();
        if self.held > MOST {
            return Err(CloseReason::MaximumSubscriptions);
        }
        account.insert_remote(&sub);
        self.table.insert_unique(hash, sub, |sub| sub.hash);
        Ok(())
    }

    pub(super) fn remove(&mut self, account: &Arc<Account>, interest: &PeerInterest<'_>) {
        let hash = self.hash(account.name(), interest);
        if let Ok(entry) = self.table.find_entry(hash, |sub| sub.is(account, interest)) {
            let (sub, _) = entry.remove();
            self.held -= sub.cost();
            account.remove_remote(&sub);
        }
    }

    /// Removes interest in an account of this name that cannot be found any more: it may come back
    /// as it was. False if there is none.
    pub(super) fn remove_of_gone(&mut self, account: &str, interest: &PeerInterest<'_>) -> bool {
        let hash = self.hash(account, interest);
        let is_of = |sub: &Arc<RemoteSub>| {
            sub.account.upgrade().is_none_or(|known| known.name() == account) && sub.says(interest)
        };
        let Ok(entry) = self.table.find_entry(hash, is_of) else { return false };
        let (sub, _) = entry.remove();
        self.held -= sub.cost();
        if let Some(account) = sub.account.upgrade() {
            account.remove_remote(&sub);
        }
        true
    }

    /// Forgets interest in subjects that are not allowed any more. Of the rest, what was found
    /// before is out of date: a part of it may be denied.
    pub(super) fn restrict(&mut self, is_allowed: impl Fn(&[u8]) -> bool) {
        let mut freed = 0;
        self.table.retain(|sub| {
            let keeps = is_allowed(Subscribed::subject(&**sub));
            let account = sub.account.upgrade();
            if keeps {
                account.iter().for_each(|account| account.touch_remote(Subscribed::subject(&**sub)));
            } else {
                freed += sub.cost();
                account.iter().for_each(|account| account.remove_remote(sub));
            }
            keeps
        });
        self.held -= freed;
    }

    /// Forgets all interest in one account.
    pub(super) fn forget(&mut self, name: &str) {
        let mut freed = 0;
        self.table.retain(|sub| {
            let account = sub.account.upgrade().filter(|account| account.name() == name);
            if let Some(account) = &account {
                freed += sub.cost();
                account.remove_remote(sub);
            }
            account.is_none()
        });
        self.held -= freed;
    }

    /// Outdates what was found of it before.
    pub(super) fn outdate(&self) {
        for sub in &self.table {
            let account = sub.account.upgrade();
            account.iter().for_each(|account| account.touch_remote(Subscribed::subject(&**sub)));
        }
    }

    pub(super) fn take(&mut self) -> RemoteRemoval {
        self.held = 0;
        RemoteRemoval(std::mem::take(&mut self.table).into_iter().collect())
    }
}

/// Interest of a link that has ended, still in the indexes.
pub(super) struct RemoteRemoval(Vec<Arc<RemoteSub>>);

impl RemoteRemoval {
    pub(super) fn run(self) {
        for sub in self.0 {
            if let Some(account) = sub.account.upgrade() {
                account.remove_remote(&sub);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interest of many accounts or groups in one subject: in one place of the table it would be
    /// looked for one by one.
    #[test]
    fn interest_of_another_account_or_group_stands_elsewhere() {
        let interests = RemoteInterests::default();
        let interest = |subject, queue| PeerInterest { account: b"", subject, queue, weight: 1, leaf: None };
        let mut hashes: Vec<_> = (0..1000)
            .map(|at| interests.hash(&format!("A{at}"), &interest(b"one", None)))
            .chain(
                [(&b"ab"[..], Some(&b"c"[..])), (b"a", Some(b"bc")), (b"abc", None)]
                    .map(|(subject, queue)| interests.hash("A", &interest(subject, queue))),
            )
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 1003);
    }
}

//! Subscriptions to patterns: tries in shards, each under its own lock.
//!
//! A pattern is placed by the literal tokens that it begins with, at most two of them, and a
//! subject looks in the three places where patterns for it may be. Two tokens and not one, because
//! everybody's replies are under `_INBOX`: by the first token alone one lock would guard, and one
//! node would hold, all of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use super::hashing::{FirstToken, Hashing, shard_of};
use super::matched::Matched;
use super::member::{Member, Sought};
use super::trie::{self, Branch};

/// Shards for patterns such as `a.*`, whose second token is a wildcard.
const BY_FIRST: usize = 16;

/// Shards for patterns such as `a.b.*`.
const BY_SECOND: usize = 64;

pub(super) struct Patterns<M> {
    /// Patterns that begin with a wildcard.
    wild: TrieShard<M>,
    /// Made for the first pattern that does not begin with a wildcard.
    tokens: OnceLock<Box<ByTokens<M>>>,
    /// Members in all shards.
    len: AtomicUsize,
}

/// Patterns by the tokens that they begin with.
struct ByTokens<M> {
    first: [TrieShard<M>; BY_FIRST],
    second: [TrieShard<M>; BY_SECOND],
}

impl<M: Member> ByTokens<M> {
    fn new() -> Box<Self> {
        Box::new(Self {
            first: std::array::from_fn(|_| TrieShard::new()),
            second: std::array::from_fn(|_| TrieShard::new()),
        })
    }

    fn by_first(&self, lead: &FirstToken<'_>) -> &TrieShard<M> {
        &self.first[shard_of(lead.hash, BY_FIRST)]
    }

    fn by_second(&self, lead: &FirstToken<'_>) -> &TrieShard<M> {
        &self.second[shard_of(lead.hash, BY_SECOND)]
    }
}

impl<M: Member> Patterns<M> {
    pub(super) fn new() -> Self {
        Self { wild: TrieShard::new(), tokens: OnceLock::new(), len: AtomicUsize::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub(super) fn insert(&self, m: M, hashing: &Hashing) {
        self.len.fetch_add(1, Ordering::Relaxed);
        self.home(m.subject(), hashing).insert(m, hashing);
    }

    /// The member that is sought, or `None`: then one that `make` makes is there.
    pub(super) fn find_or_insert(
        &self,
        sought: &impl Sought<M>,
        make: impl FnOnce() -> M,
        hashing: &Hashing,
    ) -> Option<M> {
        // Before it is there: who finds none looks no further.
        self.len.fetch_add(1, Ordering::Relaxed);
        let found = self.home(sought.subject(), hashing).find_or_insert(sought, make, hashing);
        if found.is_some() {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        found
    }

    pub(super) fn remove(&self, m: &M, hashing: &Hashing) -> bool {
        if self.len() == 0 {
            return false;
        }
        let removed = self.home(m.subject(), hashing).remove(m, hashing);
        if removed {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }

    /// The member that is sought.
    pub(super) fn find(&self, sought: &impl Sought<M>, hashing: &Hashing) -> Option<M> {
        if self.len() == 0 {
            return None;
        }
        let root = self.home(sought.subject(), hashing).root.read().unwrap_or_else(PoisonError::into_inner);
        root.as_ref()?.find(sought, trie::ROOT, hashing).cloned()
    }

    /// `subject` must not have an empty token, and begins with `first`.
    pub(super) fn collect(
        &self,
        subject: &[u8],
        first: &FirstToken<'_>,
        hashing: &Hashing,
        out: &mut Matched<M>,
    ) {
        self.wild.collect(subject, hashing, out);
        let Some(tokens) = self.tokens.get() else { return };
        tokens.by_first(first).collect(subject, hashing, out);
        if let Some(second) = first.longer(subject, hashing) {
            tokens.by_second(&second).collect(subject, hashing, out);
        }
    }

    /// Copies one shard after the other into `members` and calls `visit`, which empties it.
    pub(super) fn for_each_shard(&self, members: &mut Vec<M>, visit: &mut impl FnMut(&mut Vec<M>)) {
        let tokens = self.tokens.get().into_iter();
        let others = tokens.flat_map(|tokens| tokens.first.iter().chain(&tokens.second));
        for shard in std::iter::once(&self.wild).chain(others) {
            shard.copy_to(members);
            visit(members);
        }
    }

    /// Where `pattern` is kept.
    fn home(&self, pattern: &[u8], hashing: &Hashing) -> &TrieShard<M> {
        let is_wild = |token: &[u8]| matches!(token, b"*" | b">");
        let mut tokens = crate::pattern::tokens(pattern);
        let is_wild = (tokens.next().is_some_and(is_wild), tokens.next().is_some_and(is_wild));
        if is_wild.0 {
            return &self.wild;
        }
        let places = self.tokens.get_or_init(ByTokens::new);
        let first = FirstToken::first(pattern, hashing);
        match is_wild.1 {
            true => places.by_first(&first),
            false => places.by_second(&first.longer(pattern, hashing).unwrap_or(first)),
        }
    }
}

/// One trie. All of them spell their patterns from the first token on. Its lock is taken also when
/// it is poisoned: a trie is whole after each step of a change.
struct TrieShard<M> {
    /// Members in the trie, to pass by empty ones without a lock.
    len: AtomicUsize,
    root: RwLock<Option<Branch<M>>>,
}

impl<M: Member> TrieShard<M> {
    fn new() -> Self {
        Self { len: AtomicUsize::new(0), root: RwLock::new(None) }
    }

    fn insert(&self, m: M, hashing: &Hashing) {
        let mut root = self.root.write().unwrap_or_else(PoisonError::into_inner);
        self.len.fetch_add(1, Ordering::Relaxed);
        trie::insert(&mut root, m, hashing);
    }

    fn find_or_insert(
        &self,
        sought: &impl Sought<M>,
        make: impl FnOnce() -> M,
        hashing: &Hashing,
    ) -> Option<M> {
        let mut root = self.root.write().unwrap_or_else(PoisonError::into_inner);
        let known = root.as_ref().and_then(|root| root.find(sought, trie::ROOT, hashing));
        if known.is_none() {
            let m = make();
            self.len.fetch_add(1, Ordering::Relaxed);
            trie::insert(&mut root, m, hashing);
            return None;
        }
        known.cloned()
    }

    fn remove(&self, m: &M, hashing: &Hashing) -> bool {
        let mut root = self.root.write().unwrap_or_else(PoisonError::into_inner);
        let removed = trie::remove(&mut root, m, hashing);
        if removed {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }

    fn collect(&self, subject: &[u8], hashing: &Hashing, out: &mut Matched<M>) {
        if self.len.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Some(branch) = &*self.root.read().unwrap_or_else(PoisonError::into_inner) {
            branch.collect(subject, hashing, out);
        }
    }

    fn copy_to(&self, members: &mut Vec<M>) {
        if let Some(branch) = &*self.root.read().unwrap_or_else(PoisonError::into_inner) {
            branch.copy_to(members);
        }
    }
}

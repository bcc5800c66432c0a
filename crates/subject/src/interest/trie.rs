//! A trie of patterns, one level per token.
//!
//! A branch with one member is that member: levels below exist only where two patterns part, and a
//! token is copied only where patterns share it. A million patterns `_INBOX.<id>.*` are a million
//! places of 24 bytes in the tables of `_INBOX`.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::bucket::{Bucket, MemberRemoval};
use super::hashing::{Hashing, shrink, spread};
use super::matched::Matched;
use super::member::{Member, Sought};
use super::members::Members;
use crate::pattern;

/// Below this level patterns are kept as a plain list: clients choose how many tokens a pattern
/// has, and must not choose how deep we recurse.
const DEEPEST: usize = 128;

/// The patterns that agree in all tokens up to here; never none.
pub(super) enum Branch<M> {
    One(M),
    TrieNode(Box<TrieNode<M>>),
    /// Two or more, too deep to be told apart.
    List(Box<Members<M>>),
}

pub(super) struct TrieNode<M> {
    /// The literal token that leads here; empty for a wildcard and for the root.
    token: Box<[u8]>,
    /// Patterns that end here.
    here: Option<Bucket<M>>,
    /// Patterns that end with `>` in the next place.
    rest: Option<Bucket<M>>,
    /// Patterns with `*` in the next place.
    star: Option<Branch<M>>,
    /// Patterns with a literal token in the next place.
    literal: HashTable<Child<M>>,
}

struct Child<M> {
    /// Kept, because growing a table of a million children must not visit each of them.
    hash: u32,
    branch: Branch<M>,
}

/// How far a walk along a pattern has come.
#[derive(Clone, Copy)]
pub(super) struct WalkPosition {
    level: usize,
    /// Where in the pattern's text the next token begins; beyond its end when there is none.
    at: usize,
}

pub(super) const ROOT: WalkPosition = WalkPosition { level: 0, at: 0 };

/// Adds `m` to the trie that `root` holds.
pub(super) fn insert<M: Member>(root: &mut Option<Branch<M>>, m: M, hashing: &Hashing) {
    add(root, b"", m, ROOT, hashing);
}

/// Takes `m` out; false when it was not in.
pub(super) fn remove<M: Member>(root: &mut Option<Branch<M>>, m: &M, hashing: &Hashing) -> bool {
    let removal = root.as_mut().map_or(MemberRemoval::Absent, |branch| branch.remove(m, ROOT, hashing));
    if removal == MemberRemoval::Last {
        *root = None;
    }
    removal != MemberRemoval::Absent
}

/// Adds `m` to a branch that may not exist yet; `token` leads to it.
fn add<M: Member>(slot: &mut Option<Branch<M>>, token: &[u8], m: M, place: WalkPosition, hashing: &Hashing) {
    match slot {
        None => *slot = Some(Branch::One(m)),
        Some(branch) => branch.insert(token, m, place, hashing),
    }
}

impl<M: Member> Branch<M> {
    fn insert(&mut self, token: &[u8], m: M, place: WalkPosition, hashing: &Hashing) {
        match self {
            Self::One(first) if place.level >= DEEPEST => {
                let mut list = Box::new(Members::new());
                list.push(first.clone(), hashing);
                list.push(m, hashing);
                *self = Self::List(list);
            }
            Self::One(first) => {
                let mut node = Box::new(TrieNode::new(token));
                node.insert(first.clone(), place, hashing);
                node.insert(m, place, hashing);
                *self = Self::TrieNode(node);
            }
            Self::TrieNode(node) => node.insert(m, place, hashing),
            Self::List(list) => list.push(m, hashing),
        }
    }

    fn remove(&mut self, m: &M, place: WalkPosition, hashing: &Hashing) -> MemberRemoval {
        match self {
            Self::One(only) if only.same(m) => MemberRemoval::Last,
            Self::One(_) => MemberRemoval::Absent,
            Self::TrieNode(node) => node.remove(m, place, hashing),
            Self::List(list) => {
                let removal =
                    if list.remove(m, hashing) { MemberRemoval::Done } else { MemberRemoval::Absent };
                if let [only] = list.as_slice() {
                    *self = Self::One(only.clone());
                }
                removal
            }
        }
    }

    /// Adds to `out` who receives `subject`, when this branch is a root.
    pub(super) fn collect(&self, subject: &[u8], hashing: &Hashing, out: &mut Matched<M>) {
        self.collect_rest(ROOT, Some(subject), hashing, out);
    }

    /// `rest` is what the subject has left after the tokens that led here; none when they were all.
    fn collect_rest(
        &self,
        place: WalkPosition,
        rest: Option<&[u8]>,
        hashing: &Hashing,
        out: &mut Matched<M>,
    ) {
        let receives = |m: &M| match (m.subject().get(place.at..), rest) {
            (Some(pattern), Some(rest)) => pattern::matches_tokens(pattern, rest),
            (pattern, rest) => pattern.is_none() && rest.is_none(),
        };
        match self {
            Self::One(m) if receives(m) => out.push(m),
            Self::One(_) => {}
            Self::TrieNode(node) => node.collect(place, rest, hashing, out),
            Self::List(list) => list.as_slice().iter().filter(|m| receives(m)).for_each(|m| out.push(m)),
        }
    }

    /// The member that is sought, if it is behind this branch; its pattern goes on at `place`.
    pub(super) fn find(&self, sought: &impl Sought<M>, place: WalkPosition, hashing: &Hashing) -> Option<&M> {
        match self {
            Self::One(m) => sought.is(m).then_some(m),
            Self::TrieNode(node) => node.find(sought, place, hashing),
            Self::List(list) => list.find(sought, hashing),
        }
    }

    pub(super) fn copy_to(&self, out: &mut Vec<M>) {
        match self {
            Self::One(m) => out.push(m.clone()),
            Self::TrieNode(node) => node.copy_to(out),
            Self::List(list) => out.extend_from_slice(list.as_slice()),
        }
    }

    /// Whether `token`, which begins at `place`, leads here.
    fn is_at(&self, token: &[u8], place: WalkPosition) -> bool {
        match self {
            Self::One(m) => place.token(m.subject()) == Some(token),
            Self::TrieNode(node) => *node.token == *token,
            Self::List(list) => {
                list.as_slice().first().is_some_and(|m| place.token(m.subject()) == Some(token))
            }
        }
    }
}

impl<M: Member> TrieNode<M> {
    fn new(token: &[u8]) -> Self {
        Self { token: token.into(), here: None, rest: None, star: None, literal: HashTable::new() }
    }

    fn insert(&mut self, m: M, place: WalkPosition, hashing: &Hashing) {
        match place.token(m.subject()) {
            None => join(&mut self.here, m, hashing),
            Some(b">") => join(&mut self.rest, m, hashing),
            Some(b"*") => add(&mut self.star, b"", m, place.after(b"*"), hashing),
            Some(_) => self.insert_literal(m, place, hashing),
        }
    }

    fn insert_literal(&mut self, m: M, place: WalkPosition, hashing: &Hashing) {
        let subject = m.clone();
        let token = place.token(subject.subject()).unwrap_or_default();
        let hash = token_hash(token, hashing);
        let is_it = |child: &Child<M>| child.hash == hash && child.branch.is_at(token, place);
        match self.literal.entry(spread(hash), is_it, |child| spread(child.hash)) {
            Entry::Occupied(child) => {
                child.into_mut().branch.insert(token, m, place.after(token), hashing);
            }
            Entry::Vacant(free) => {
                free.insert(Child { hash, branch: Branch::One(m) });
            }
        }
    }

    fn remove(&mut self, m: &M, place: WalkPosition, hashing: &Hashing) -> MemberRemoval {
        let removal = match place.token(m.subject()) {
            None => leave(&mut self.here, |bucket| bucket.remove(m, hashing)),
            Some(b">") => leave(&mut self.rest, |bucket| bucket.remove(m, hashing)),
            Some(b"*") => leave(&mut self.star, |branch| branch.remove(m, place.after(b"*"), hashing)),
            Some(token) => self.remove_literal(token, m, place, hashing),
        };
        if removal == MemberRemoval::Done && self.is_empty() { MemberRemoval::Last } else { removal }
    }

    fn remove_literal(
        &mut self,
        token: &[u8],
        m: &M,
        place: WalkPosition,
        hashing: &Hashing,
    ) -> MemberRemoval {
        let hash = token_hash(token, hashing);
        let is_it = |child: &Child<M>| child.hash == hash && child.branch.is_at(token, place);
        let Ok(mut entry) = self.literal.find_entry(spread(hash), is_it) else {
            return MemberRemoval::Absent;
        };
        let removal = entry.get_mut().branch.remove(m, place.after(token), hashing);
        if removal != MemberRemoval::Last {
            return removal;
        }
        entry.remove();
        shrink(&mut self.literal, |child| spread(child.hash));
        MemberRemoval::Done
    }

    fn find(&self, sought: &impl Sought<M>, place: WalkPosition, hashing: &Hashing) -> Option<&M> {
        match place.token(sought.subject()) {
            None => self.here.as_ref()?.find(sought, hashing),
            Some(b">") => self.rest.as_ref()?.find(sought, hashing),
            Some(b"*") => self.star.as_ref()?.find(sought, place.after(b"*"), hashing),
            Some(token) => {
                let hash = token_hash(token, hashing);
                let is_it = |child: &Child<M>| child.hash == hash && child.branch.is_at(token, place);
                let child = self.literal.find(spread(hash), is_it)?;
                child.branch.find(sought, place.after(token), hashing)
            }
        }
    }

    fn collect(&self, place: WalkPosition, rest: Option<&[u8]>, hashing: &Hashing, out: &mut Matched<M>) {
        let Some(rest) = rest else {
            return self.here.iter().for_each(|bucket| bucket.collect(out));
        };
        let (token, rest) = split_first(rest);
        self.rest.iter().for_each(|bucket| bucket.collect(out));
        if let Some(branch) = &self.star {
            branch.collect_rest(place.after(b"*"), rest, hashing, out);
        }
        if self.literal.is_empty() {
            return;
        }
        let hash = token_hash(token, hashing);
        let is_it = |child: &Child<M>| child.hash == hash && child.branch.is_at(token, place);
        if let Some(child) = self.literal.find(spread(hash), is_it) {
            child.branch.collect_rest(place.after(token), rest, hashing, out);
        }
    }

    fn copy_to(&self, out: &mut Vec<M>) {
        self.here.iter().chain(&self.rest).for_each(|bucket| bucket.copy_to(out));
        let children = self.literal.iter().map(|child| &child.branch);
        self.star.iter().chain(children).for_each(|branch| branch.copy_to(out));
    }

    fn is_empty(&self) -> bool {
        self.here.is_none() && self.rest.is_none() && self.star.is_none() && self.literal.is_empty()
    }
}

impl WalkPosition {
    /// The token of `pattern` that begins here.
    fn token(self, pattern: &[u8]) -> Option<&[u8]> {
        pattern.get(self.at..).map(|rest| split_first(rest).0)
    }

    /// The place after `token`, which begins here.
    fn after(self, token: &[u8]) -> Self {
        Self { level: self.level + 1, at: self.at + token.len() + 1 }
    }
}

/// Adds `m` to a bucket that may not exist yet.
fn join<M: Member>(slot: &mut Option<Bucket<M>>, m: M, hashing: &Hashing) {
    match slot {
        None => *slot = Some(Bucket::One(0, m)),
        Some(bucket) => bucket.insert(m, hashing),
    }
}

/// Removes something from a container that may not exist, and the container if that was the last.
fn leave<C>(slot: &mut Option<C>, remove: impl FnOnce(&mut C) -> MemberRemoval) -> MemberRemoval {
    let removal = slot.as_mut().map_or(MemberRemoval::Absent, remove);
    if removal == MemberRemoval::Last {
        *slot = None;
        return MemberRemoval::Done;
    }
    removal
}

/// The first token, and the others if there are any.
fn split_first(subject: &[u8]) -> (&[u8], Option<&[u8]>) {
    match subject.iter().position(|&b| b == b'.') {
        Some(dot) => (&subject[..dot], Some(&subject[dot + 1..])),
        None => (subject, None),
    }
}

/// Half of a hash is enough for one node's table.
fn token_hash(token: &[u8], hashing: &Hashing) -> u32 {
    hashing.bytes(token) as u32
}

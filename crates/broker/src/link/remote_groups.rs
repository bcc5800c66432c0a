//! Remote subscriptions of one part of an account's interest, by subject and queue group.
//!
//! Budget: one alone on its subject costs 17 bytes of table; the key is its own text.
//!
//! Perf: half of the hash stands beside each group, so that a table that grows looks at no
//! subscription.

use super::interest_part::InterestKey;
use super::remote_sub::RemoteSub;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::borrow::Cow;
use std::sync::Arc;

/// Remote subscriptions, found by subject and queue group.
#[derive(Default)]
pub(super) struct RemoteGroups(HashTable<RemoteGroup>);

/// Subscriptions to one subject in one queue group, never none, and half of the hash of the key.
enum RemoteGroup {
    One(u32, Arc<RemoteSub>),
    Many(u32, Box<RemoteMembers>),
}

/// Two subscriptions or more.
struct RemoteMembers(Vec<Arc<RemoteSub>>);

impl RemoteGroup {
    fn mark(&self) -> u32 {
        match self {
            Self::One(mark, _) | Self::Many(mark, _) => *mark,
        }
    }

    fn subs(&self) -> &[Arc<RemoteSub>] {
        match self {
            Self::One(_, sub) => std::slice::from_ref(sub),
            Self::Many(_, members) => &members.0,
        }
    }

    fn is_of(&self, mark: u32, wish: InterestKey<'_>) -> bool {
        self.mark() == mark && self.key() == wish
    }

    fn key(&self) -> InterestKey<'_> {
        InterestKey::of_sub(&self.subs()[0])
    }

    fn push(&mut self, sub: &Arc<RemoteSub>) {
        match self {
            Self::One(mark, first) => {
                let members = RemoteMembers(vec![Arc::clone(first), Arc::clone(sub)]);
                *self = Self::Many(*mark, Box::new(members));
            }
            Self::Many(_, members) => members.0.push(Arc::clone(sub)),
        }
    }

    /// Takes one out of several. Answers whether the only one is to go, which stays.
    fn take_out(&mut self, sub: &Arc<RemoteSub>) -> bool {
        match self {
            Self::One(_, only) => Arc::ptr_eq(only, sub),
            Self::Many(mark, members) => {
                members.0.retain(|other| !Arc::ptr_eq(other, sub));
                if let [only] = &members.0[..] {
                    *self = Self::One(*mark, Arc::clone(only));
                }
                false
            }
        }
    }
}

impl RemoteGroups {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys of the groups, in no order.
    #[expect(clippy::disallowed_methods, reason = "the seed of the hash comes from outside")]
    pub(super) fn keys(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.0.iter().map(|group| group.key().key())
    }

    /// Subscriptions of one key. `hash`: that of the [key](InterestKey::key), here and below.
    pub(super) fn get(&self, hash: u64, wish: InterestKey<'_>) -> &[Arc<RemoteSub>] {
        let mark = hash as u32;
        self.0.find(spread(mark), |group| group.is_of(mark, wish)).map_or(&[], RemoteGroup::subs)
    }

    /// Adds one, unless it is there.
    pub(super) fn add(&mut self, hash: u64, sub: &Arc<RemoteSub>) {
        let (mark, wish) = (hash as u32, InterestKey::of_sub(sub));
        match self.0.entry(spread(mark), |group| group.is_of(mark, wish), |group| spread(group.mark())) {
            Entry::Vacant(place) => drop(place.insert(RemoteGroup::One(mark, Arc::clone(sub)))),
            Entry::Occupied(mut group) => {
                if !group.get().subs().iter().any(|other| Arc::ptr_eq(other, sub)) {
                    group.get_mut().push(sub);
                }
            }
        }
    }

    /// Takes one out, if it is there.
    pub(super) fn remove(&mut self, hash: u64, sub: &Arc<RemoteSub>) {
        let (mark, wish) = (hash as u32, InterestKey::of_sub(sub));
        if let Ok(mut group) = self.0.find_entry(spread(mark), |group| group.is_of(mark, wish))
            && group.get_mut().take_out(sub)
        {
            group.remove();
        }
    }
}

/// Hash by which a table places a group: tables take the place from the lowest bits, and a tag from
/// the highest.
fn spread(mark: u32) -> u64 {
    u64::from(mark) << 32 | u64::from(mark)
}

//! Subscriptions to literal subjects: a hash table in shards, each under its own lock.
//!
//! Budget: one subscription alone on its subject costs 17 bytes of table, 19 to 39 with what a
//! table keeps free; the key is the member's own text. Held by `examples/interest.rs`.
//!
//! Perf: half of the hash is the bucket's mark, where there is room for it: a table that grows
//! looks at no member, which would be two misses of the cache for each.

use std::sync::{OnceLock, PoisonError, RwLock};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::bucket::{Bucket, MemberRemoval};
use super::hashing::{Hashing, shard_of, shrink, spread};
use super::matched::Matched;
use super::member::{Member, Sought};

type Table<M> = HashTable<Bucket<M>>;

pub(super) struct Literals<M> {
    /// How many shards there will be.
    breadth: usize,
    /// Made for the first member: of ten thousand accounts most have none.
    shards: OnceLock<Box<[RwLock<Table<M>>]>>,
}

// A panic under one of these locks leaves a table that is whole (hashbrown keeps it so), hence
// locks are taken also when they are poisoned.
impl<M: Member> Literals<M> {
    /// `breadth` is the number of shards, a power of two.
    pub(super) fn new(breadth: usize) -> Self {
        Self { breadth, shards: OnceLock::new() }
    }

    pub(super) fn insert(&self, m: M, hashing: &Hashing) {
        let subject = m.subject();
        let hash = hashing.bytes(subject);
        let mut table = shard(self.shards(), hash).write().unwrap_or_else(PoisonError::into_inner);
        let mark = hash as u32;
        match table.entry(spread(mark), |bucket| is_of(bucket, mark, subject), place_of) {
            Entry::Occupied(bucket) => bucket.into_mut().insert(m, hashing),
            Entry::Vacant(place) => {
                place.insert(Bucket::One(mark, m));
            }
        }
    }

    /// The member that is sought, or `None`: then one that `make` makes is there.
    pub(super) fn find_or_insert(
        &self,
        sought: &impl Sought<M>,
        make: impl FnOnce() -> M,
        hashing: &Hashing,
    ) -> Option<M> {
        let subject = sought.subject();
        let hash = hashing.bytes(subject);
        let mut table = shard(self.shards(), hash).write().unwrap_or_else(PoisonError::into_inner);
        let mark = hash as u32;
        match table.entry(spread(mark), |bucket| is_of(bucket, mark, subject), place_of) {
            Entry::Occupied(mut bucket) => {
                let found = bucket.get().find(sought, hashing).cloned();
                if found.is_none() {
                    bucket.get_mut().insert(make(), hashing);
                }
                found
            }
            Entry::Vacant(place) => {
                place.insert(Bucket::One(mark, make()));
                None
            }
        }
    }

    fn shards(&self) -> &[RwLock<Table<M>>] {
        self.shards.get_or_init(|| (0..self.breadth).map(|_| RwLock::new(Table::new())).collect())
    }

    pub(super) fn remove(&self, m: &M, hashing: &Hashing) -> bool {
        let Some(shards) = self.shards.get() else { return false };
        let hash = hashing.bytes(m.subject());
        let mut table = shard(shards, hash).write().unwrap_or_else(PoisonError::into_inner);
        let mark = hash as u32;
        let Ok(mut entry) = table.find_entry(spread(mark), |bucket| is_of(bucket, mark, m.subject())) else {
            return false;
        };
        let removal = entry.get_mut().remove(m, hashing);
        if removal == MemberRemoval::Last {
            entry.remove();
            shrink(&mut table, place_of);
        }
        removal != MemberRemoval::Absent
    }

    pub(super) fn collect(&self, subject: &[u8], hashing: &Hashing, out: &mut Matched<M>) {
        let Some(shards) = self.shards.get() else { return };
        let hash = hashing.bytes(subject);
        let table = shard(shards, hash).read().unwrap_or_else(PoisonError::into_inner);
        let mark = hash as u32;
        if let Some(bucket) = table.find(spread(mark), |bucket| is_of(bucket, mark, subject)) {
            bucket.collect(out);
        }
    }

    /// The member that is sought.
    pub(super) fn find(&self, sought: &impl Sought<M>, hashing: &Hashing) -> Option<M> {
        let (shards, subject) = (self.shards.get()?, sought.subject());
        let hash = hashing.bytes(subject);
        let table = shard(shards, hash).read().unwrap_or_else(PoisonError::into_inner);
        let mark = hash as u32;
        let bucket = table.find(spread(mark), |bucket| is_of(bucket, mark, subject))?;
        bucket.find(sought, hashing).cloned()
    }

    /// Copies one shard after the other into `members` and calls `visit`, which empties it.
    pub(super) fn for_each_shard(&self, members: &mut Vec<M>, visit: &mut impl FnMut(&mut Vec<M>)) {
        for shard in self.shards.get().into_iter().flatten() {
            let table = shard.read().unwrap_or_else(PoisonError::into_inner);
            table.iter().for_each(|bucket| bucket.copy_to(members));
            drop(table);
            visit(members);
        }
    }
}

fn is_of<M: Member>(bucket: &Bucket<M>, mark: u32, subject: &[u8]) -> bool {
    bucket.mark() == mark && bucket.subject() == subject
}

/// Hash by which a table places a bucket.
fn place_of<M: Member>(bucket: &Bucket<M>) -> u64 {
    spread(bucket.mark())
}

fn shard<M>(shards: &[RwLock<Table<M>>], hash: u64) -> &RwLock<Table<M>> {
    &shards[shard_of(hash, shards.len())]
}

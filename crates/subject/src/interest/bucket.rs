//! All members of one subject or pattern.

use hashbrown::HashTable;

use super::hashing::{Hashing, shrink};
use super::matched::Matched;
use super::member::{Member, Sought};
use super::members::Members;

/// The members of one pattern, never none. One member alone takes no memory of its own.
///
/// Beside the members stands a mark, which is the owner's: there is room for four bytes.
pub(super) enum Bucket<M> {
    One(u32, M),
    Many(u32, Box<Many<M>>),
}

/// Result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberRemoval {
    /// There was no such member.
    Absent,
    /// The member is gone, others stay.
    Done,
    /// The member was the only one. It is left in place: the owner drops the container instead.
    Last,
}

impl<M: Member> Bucket<M> {
    /// The owner's mark.
    pub(super) fn mark(&self) -> u32 {
        match self {
            Self::One(mark, _) | Self::Many(mark, _) => *mark,
        }
    }

    /// The subject that all members have.
    pub(super) fn subject(&self) -> &[u8] {
        match self {
            Self::One(_, m) => m.subject(),
            Self::Many(_, many) => many.any().subject(),
        }
    }

    pub(super) fn insert(&mut self, m: M, hashing: &Hashing) {
        match self {
            Self::One(mark, first) => {
                let mut many = Box::new(Many { plain: Members::new(), queues: HashTable::new() });
                many.insert(first.clone(), hashing);
                many.insert(m, hashing);
                *self = Self::Many(*mark, many);
            }
            Self::Many(_, many) => many.insert(m, hashing),
        }
    }

    pub(super) fn remove(&mut self, m: &M, hashing: &Hashing) -> MemberRemoval {
        match self {
            Self::One(_, only) if only.same(m) => MemberRemoval::Last,
            Self::One(..) => MemberRemoval::Absent,
            Self::Many(mark, many) => {
                if !many.remove(m, hashing) {
                    return MemberRemoval::Absent;
                }
                if let Some(only) = many.sole() {
                    *self = Self::One(*mark, only.clone());
                }
                MemberRemoval::Done
            }
        }
    }

    /// The member that is sought, of this pattern.
    pub(super) fn find(&self, sought: &impl Sought<M>, hashing: &Hashing) -> Option<&M> {
        match self {
            Self::One(_, m) => sought.is(m).then_some(m),
            Self::Many(_, many) => many.find(sought, hashing),
        }
    }

    pub(super) fn collect(&self, out: &mut Matched<M>) {
        match self {
            Self::One(_, m) => out.push(m),
            Self::Many(_, many) => many.collect(out),
        }
    }

    pub(super) fn copy_to(&self, out: &mut Vec<M>) {
        match self {
            Self::One(_, m) => out.push(m.clone()),
            Self::Many(_, many) => many.sets().for_each(|set| out.extend_from_slice(set.as_slice())),
        }
    }
}

/// Two members or more.
pub(super) struct Many<M> {
    plain: Members<M>,
    /// One set per queue name, none of them empty, found by that name.
    queues: HashTable<Members<M>>,
}

impl<M: Member> Many<M> {
    fn sets(&self) -> impl Iterator<Item = &Members<M>> {
        std::iter::once(&self.plain).chain(&self.queues)
    }

    fn any(&self) -> &M {
        self.sets().find_map(|set| set.as_slice().first()).expect("a bucket always has members")
    }

    /// The only member, if there is but one.
    fn sole(&self) -> Option<&M> {
        let mut sets = self.sets().map(Members::as_slice).filter(|set| !set.is_empty());
        match (sets.next(), sets.next()) {
            (Some([only]), None) => Some(only),
            _ => None,
        }
    }

    fn find(&self, sought: &impl Sought<M>, hashing: &Hashing) -> Option<&M> {
        let Some(name) = sought.queue() else { return self.plain.find(sought, hashing) };
        self.queues.find(hashing.bytes(name), |set| queue_of(set) == name)?.find(sought, hashing)
    }

    fn insert(&mut self, m: M, hashing: &Hashing) {
        let Some(name) = m.queue() else { return self.plain.push(m, hashing) };
        let hash = hashing.bytes(name);
        let entry = self.queues.entry(hash, |set| queue_of(set) == name, |set| hashing.bytes(queue_of(set)));
        entry.or_insert_with(Members::new).into_mut().push(m, hashing);
    }

    fn remove(&mut self, m: &M, hashing: &Hashing) -> bool {
        let Some(name) = m.queue() else { return self.plain.remove(m, hashing) };
        let hash = hashing.bytes(name);
        let Ok(mut entry) = self.queues.find_entry(hash, |set| queue_of(set) == name) else { return false };
        let removed = entry.get_mut().remove(m, hashing);
        if entry.get().as_slice().is_empty() {
            entry.remove();
            shrink(&mut self.queues, |set| hashing.bytes(queue_of(set)));
        }
        removed
    }

    fn collect(&self, out: &mut Matched<M>) {
        out.plain.extend_from_slice(self.plain.as_slice());
        // Groups differ within one pattern: only those of patterns before can be the same.
        let known = out.queues.len();
        for set in &self.queues {
            out.group(queue_of(set), known).extend_from_slice(set.as_slice());
        }
    }
}

/// The queue name that all members of a set have.
fn queue_of<M: Member>(set: &Members<M>) -> &[u8] {
    set.as_slice().first().and_then(Member::queue).unwrap_or_default()
}

//! The answer of the index: who receives a subject.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::member::Member;

/// Receivers of a subject. Made to be reused: a cleared one keeps its memory.
#[derive(Debug)]
pub struct Matched<M> {
    /// Members without a queue: each receives the message.
    pub plain: Vec<M>,
    /// Queue groups: one member of each receives the message.
    pub queues: Vec<QueueGroup<M>>,
    /// Emptied groups, kept for their memory.
    spare: Vec<QueueGroup<M>>,
    names: GroupNames,
}

/// Finds one of many groups by name: the positions of the first `indexed` groups. Few groups are
/// searched one by one instead.
#[derive(Debug, Default)]
struct GroupNames {
    positions: HashTable<u32>,
    indexed: usize,
    hasher: RandomState,
}

/// Groups up to this count are searched one by one.
const FEW: usize = 16;

/// The members of one queue group that match a subject, never none when it comes from the index.
///
/// Compat: a group is known by its queue name alone. Members of queue `q` on `a.*` and on `a.b`
/// form one group for `a.b`.
#[derive(Debug)]
pub struct QueueGroup<M> {
    /// The candidates. Order means nothing.
    pub members: Vec<M>,
}

impl<M: Member> QueueGroup<M> {
    /// The queue name; empty when the members were taken out.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.members.first().and_then(Member::queue).unwrap_or_default()
    }
}

impl<M: Member> Matched<M> {
    /// An empty result without memory.
    #[must_use]
    pub fn new() -> Self {
        Self { plain: Vec::new(), queues: Vec::new(), spare: Vec::new(), names: GroupNames::default() }
    }

    /// Whether nobody receives the subject.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.queues.is_empty()
    }

    /// Forgets the members and keeps the memory.
    pub fn clear(&mut self) {
        self.plain.clear();
        self.names.positions.clear();
        self.names.indexed = 0;
        for mut group in self.queues.drain(..) {
            group.members.clear();
            self.spare.push(group);
        }
    }

    /// Adds one member, wherever it belongs.
    pub(super) fn push(&mut self, m: &M) {
        match m.queue() {
            None => self.plain.push(m.clone()),
            Some(name) => self.group(name, self.queues.len()).push(m.clone()),
        }
    }

    /// The members of group `name`, looked for among the first `known` groups and else begun anew.
    pub(super) fn group(&mut self, name: &[u8], known: usize) -> &mut Vec<M> {
        let at = self.find(name, known).unwrap_or_else(|| {
            self.queues.push(self.spare.pop().unwrap_or(QueueGroup { members: Vec::new() }));
            self.queues.len() - 1
        });
        &mut self.queues[at].members
    }

    fn find(&mut self, name: &[u8], known: usize) -> Option<usize> {
        let queues = &self.queues;
        if known <= FEW {
            return queues[..known].iter().position(|group| group.name() == name);
        }
        let GroupNames { positions, indexed, hasher } = &mut self.names;
        let hash_at = |at: &u32| hasher.hash_one(queues[*at as usize].name());
        for (at, group) in queues.iter().enumerate().take(known).skip(*indexed) {
            positions.insert_unique(hasher.hash_one(group.name()), at as u32, hash_at);
        }
        *indexed = known.max(*indexed);
        let found = positions.find(hasher.hash_one(name), |at| queues[*at as usize].name() == name);
        found.map(|at| *at as usize)
    }
}

impl<M: Member> Default for Matched<M> {
    fn default() -> Self {
        Self::new()
    }
}

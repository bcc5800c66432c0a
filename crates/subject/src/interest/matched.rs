//! The answer of the index: who receives a subject.

use super::member::Member;

/// Who receives a subject. Made to be reused: a cleared one keeps its memory.
#[derive(Debug)]
pub struct Matched<M> {
    /// Members without a queue: each receives the message.
    pub plain: Vec<M>,
    /// Queue groups: one member of each receives the message.
    pub queues: Vec<QueueGroup<M>>,
    /// Emptied groups, kept for their memory.
    spare: Vec<QueueGroup<M>>,
}

/// The members of one queue group that match a subject, never none when it comes from the index.
///
/// Compat: a group is known by its queue name alone. Members of queue `q` on `a.*` and on `a.b` form one
/// group for `a.b`.
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
        Self { plain: Vec::new(), queues: Vec::new(), spare: Vec::new() }
    }

    /// Whether nobody receives the subject.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.queues.is_empty()
    }

    /// Forgets the members and keeps the memory.
    pub fn clear(&mut self) {
        self.plain.clear();
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
        let at = self.queues[..known].iter().position(|group| group.name() == name).unwrap_or_else(|| {
            self.queues.push(self.spare.pop().unwrap_or(QueueGroup { members: Vec::new() }));
            self.queues.len() - 1
        });
        &mut self.queues[at].members
    }
}

impl<M: Member> Default for Matched<M> {
    fn default() -> Self {
        Self::new()
    }
}

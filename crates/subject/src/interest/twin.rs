//! The twin of the index: one list, looked through from end to end.

use super::matched::Matched;
use super::member::Member;
use crate::pattern::matches;

pub(super) struct Twin<M> {
    members: Vec<M>,
}

impl<M: Member> Twin<M> {
    pub(super) fn new() -> Self {
        Self { members: Vec::new() }
    }

    pub(super) fn insert(&mut self, m: M) {
        self.members.push(m);
    }

    pub(super) fn remove(&mut self, m: &M) -> bool {
        let found = self.members.iter().position(|other| other.same(m));
        found.map(|at| self.members.swap_remove(at)).is_some()
    }

    pub(super) fn members(&self) -> &[M] {
        &self.members
    }

    pub(super) fn collect(&self, subject: &[u8], out: &mut Matched<M>) {
        out.clear();
        self.members.iter().filter(|m| matches(m.subject(), subject)).for_each(|m| out.push(m));
    }
}

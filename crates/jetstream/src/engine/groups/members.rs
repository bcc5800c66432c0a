//! Streams of this server that are members of groups, by their group, and which of them do not
//! rest: of ten thousand members nearly all do, and time passes for the others only.

use super::replica::GroupReplica;
use myelin_replica::GroupId;
use myelin_stdx::sync::{lock, read_lock, write_lock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, RwLock, Weak};

/// Table of the streams that are members, by group.
#[derive(Default)]
pub(super) struct MemberTable {
    all: RwLock<BTreeMap<GroupId, Weak<dyn GroupReplica>>>,
    /// Members that do not rest.
    awake: Mutex<BTreeSet<GroupId>>,
    /// Groups in which this server takes no lead, as clients of this account cannot reach it:
    /// whatever becomes of their streams here meanwhile.
    aside: Mutex<BTreeMap<GroupId, Box<str>>>,
}

impl MemberTable {
    /// Adds a member, which does not rest.
    pub(super) fn add(&self, group: GroupId, live: &Arc<dyn GroupReplica>) {
        write_lock(&self.all).insert(group, Arc::downgrade(live));
        lock(&self.awake).insert(group);
    }

    pub(super) fn remove(&self, group: GroupId) {
        write_lock(&self.all).remove(&group);
        lock(&self.awake).remove(&group);
    }

    /// This server takes no lead in a group of an account from now on.
    pub(super) fn set_aside(&self, group: GroupId, account: &str) {
        lock(&self.aside).insert(group, account.into());
    }

    /// Whether this server takes no lead in a group.
    pub(super) fn is_aside(&self, group: GroupId) -> bool {
        lock(&self.aside).contains_key(&group)
    }

    /// This server may lead groups of an account again.
    pub(super) fn come_back(&self, account: &str) {
        lock(&self.aside).retain(|_, of| **of != *account);
    }

    /// A member rests from now on, or does not any more. Changes of one member come in order.
    pub(super) fn rests(&self, group: GroupId, is_resting: bool) {
        let mut awake = lock(&self.awake);
        if is_resting {
            awake.remove(&group);
        } else {
            awake.insert(group);
        }
    }

    pub(super) fn get(&self, group: GroupId) -> Option<Arc<dyn GroupReplica>> {
        read_lock(&self.all).get(&group)?.upgrade()
    }

    pub(super) fn all(&self) -> Vec<Arc<dyn GroupReplica>> {
        read_lock(&self.all).values().filter_map(Weak::upgrade).collect()
    }

    /// Members that do not rest.
    pub(super) fn awake(&self) -> Vec<Arc<dyn GroupReplica>> {
        let awake: Vec<GroupId> = lock(&self.awake).iter().copied().collect();
        let all = read_lock(&self.all);
        awake.iter().filter_map(|group| all.get(group)?.upgrade()).collect()
    }
}

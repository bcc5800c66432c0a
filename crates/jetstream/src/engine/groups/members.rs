//! Streams of this server that are members of groups, by their group, and which of them do not
//! rest: of ten thousand members nearly all do, and time passes for the others only.

use super::replica::GroupReplica;
use crate::engine::scrub::{Scrubbed, Scrubber};
use myelin_replica::GroupId;
use myelin_stdx::histogram::Latencies;
use myelin_stdx::sync::{lock, read_lock, write_lock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Instant;

/// Table of the streams that are members, by group.
pub(super) struct MemberTable {
    all: RwLock<BTreeMap<GroupId, Weak<dyn GroupReplica>>>,
    /// Members that do not rest.
    awake: Mutex<BTreeSet<GroupId>>,
    /// Groups in which this server takes no lead, as clients of this account cannot reach it:
    /// whatever becomes of their streams here meanwhile.
    aside: Mutex<BTreeMap<GroupId, Box<str>>>,
    /// Groups of which this server's replica lacks messages to damage.
    damaged: Mutex<BTreeSet<GroupId>>,
    /// Groups of which replicas are to be compared, and when.
    uncompared: Mutex<BTreeMap<GroupId, Instant>>,
    /// Reads what a new member has stored.
    scrubber: Arc<Scrubber>,
    /// How long entries of members that lead wait until they are committed.
    pub(super) commit_waits: Arc<Latencies>,
}

impl MemberTable {
    pub(super) fn new(scrubber: &Arc<Scrubber>) -> Self {
        let (all, awake, aside) = (RwLock::default(), Mutex::default(), Mutex::default());
        let (damaged, uncompared, scrubber) = (Mutex::default(), Mutex::default(), Arc::clone(scrubber));
        Self { all, awake, aside, damaged, uncompared, scrubber, commit_waits: Arc::default() }
    }

    /// Adds a member, which does not rest.
    pub(super) fn add(&self, group: GroupId, live: &Arc<dyn GroupReplica>) {
        write_lock(&self.all).insert(group, Arc::downgrade(live));
        lock(&self.awake).insert(group);
        self.scrubber.read(&(Arc::clone(live) as Arc<dyn Scrubbed>));
    }

    pub(super) fn remove(&self, group: GroupId) {
        write_lock(&self.all).remove(&group);
        lock(&self.awake).remove(&group);
        lock(&self.uncompared).remove(&group);
    }

    /// Forgets what is noted of a group whose stream is removed for good.
    pub(super) fn forget(&self, group: GroupId) {
        lock(&self.aside).remove(&group);
        lock(&self.damaged).remove(&group);
    }

    /// Replicas of a group that is led here are to be compared at a time.
    pub(super) fn compare_at(&self, group: GroupId, at: Instant) {
        lock(&self.uncompared).insert(group, at);
    }

    /// Members of groups of which replicas are to be compared now.
    pub(super) fn take_uncompared(&self, now: Instant) -> Vec<Arc<dyn GroupReplica>> {
        let mut uncompared = lock(&self.uncompared);
        let due: Vec<GroupId> =
            uncompared.extract_if(.., |_, at| *at <= now).map(|(group, _)| group).collect();
        drop(uncompared);
        due.into_iter().filter_map(|group| self.get(group)).collect()
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

    /// The replica here of a group lacks messages to damage, or does not any more. Answers whether
    /// that is new.
    pub(super) fn set_damaged(&self, group: GroupId, is_damaged: bool) -> bool {
        let mut damaged = lock(&self.damaged);
        if is_damaged { damaged.insert(group) } else { damaged.remove(&group) }
    }

    /// Groups of which the replica here lacks messages.
    pub(super) fn damaged(&self) -> Vec<GroupId> {
        lock(&self.damaged).iter().copied().collect()
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

//! Streams of this server that are members of groups, by their group.

use super::replica::GroupReplica;
use myelin_replica::GroupId;
use myelin_stdx::sync::{read_lock, write_lock};
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, Weak};

/// Table of the streams that are members, by group.
#[derive(Default)]
pub(super) struct MemberTable(RwLock<BTreeMap<GroupId, Weak<dyn GroupReplica>>>);

impl MemberTable {
    pub(super) fn add(&self, group: GroupId, live: &Arc<dyn GroupReplica>) {
        write_lock(&self.0).insert(group, Arc::downgrade(live));
    }

    pub(super) fn remove(&self, group: GroupId) {
        write_lock(&self.0).remove(&group);
    }

    pub(super) fn get(&self, group: GroupId) -> Option<Arc<dyn GroupReplica>> {
        read_lock(&self.0).get(&group)?.upgrade()
    }

    pub(super) fn all(&self) -> Vec<Arc<dyn GroupReplica>> {
        read_lock(&self.0).values().filter_map(Weak::upgrade).collect()
    }
}

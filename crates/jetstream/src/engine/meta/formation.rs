//! Formation of the meta group on this server: when it begins to take part.

use super::{META, Meta};
use crate::engine::JetStream;
use crate::engine::cluster::ClusterMember;
use myelin_stdx::sync::lock;
use std::any::Any;
use std::sync::Arc;

impl JetStream {
    /// The meta group, if this server is in a cluster.
    pub(in crate::engine) fn meta(&self) -> Option<Arc<Meta>> {
        let member: Arc<dyn Any + Send + Sync> = Arc::clone(self.cluster.meta.get()?) as _;
        member.downcast().ok()
    }

    /// Takes part in the cluster's meta group, and so in the cluster's JetStream: to be called
    /// once, behind [`JetStream::begin_groups`].
    ///
    /// # Errors
    /// Words for why not.
    pub fn begin_meta(self: &Arc<Self>, servers: &[String]) -> Result<(), String> {
        self.begin_meta_with((servers, servers), false)
    }

    /// As [`JetStream::begin_meta`], where others than those that are members now have founded it,
    /// or this server is new to it.
    pub(super) fn begin_meta_with(
        self: &Arc<Self>,
        (founders, servers): (&[String], &[String]),
        is_new: bool,
    ) -> Result<(), String> {
        let groups = self.cluster.groups.get().ok_or("groups have not begun")?;
        let meta = Meta::begin(self, groups, (founders, servers), is_new)?;
        let is_first = self.cluster.meta.set(Arc::clone(&meta) as Arc<dyn ClusterMember>).is_ok();
        // Some may have come meanwhile.
        self.accounts().iter().for_each(|account| meta.account_is_there(account.account().name()));
        is_first.then_some(()).ok_or_else(|| "the meta group has begun already".to_owned())
    }

    /// Whether this store was in a cluster before: names of the servers of its meta group.
    pub fn has_meta(&self, account: &str) -> bool {
        lock(&self.found.by_account)
            .get(account)
            .is_some_and(|found| found.iter().any(|one| one.meta.name == META))
    }
}

//! Routes that all replies with one [prefix](crate::reply_prefix) share: each of them is another
//! subject, and the way that they go is the same.
//!
//! It is the same where nobody looks behind the prefix: no pattern of the account does (that is
//! counted by its [`SuffixInspectors`](crate::reply_prefix::SuffixInspectors)), no other server
//! wants them, no mapping applies, and each receiver may receive, and sees as it is, all that its
//! pattern matches. A change of any of these outdates the route, as it outdates the route of one
//! subject. The heads of frames name the subject: they are made to show that of the message.
//!
//! Where it is not the same each subject has a route of its own, which is looked for second.
//!
//! Perf: for a publisher with one acknowledgement for each message, or a client that asks, a route
//! was built and forgotten for each answer: 3,300 instructions (docs/performance.md).

use super::{CachePlace, Matching, Route, RouteName, RouteScope, Routes, fill, is_current, seek};
use crate::shard::cohort::Cohorts;
use crate::shard::remote::is_for_nobody;
use crate::shard::rules::{access, may_receive_all};
use crate::shard::targets::{ClientTarget, RouteTarget, render_head};
use crate::subscription::Subscription;
use std::sync::Arc;

/// Bytes in front of the subject in a head, and around the sid.
const HMSG: usize = b"HMSG ".len();
const BLANKS: usize = 2;

/// Bytes that heads may have room for beyond what they need.
pub(super) const SPARE: usize = 1024;

/// Receivers that a route may have: for each of them a head is made for each message.
pub(super) const MOST_RECEIVERS: usize = 8;

impl Route {
    /// Makes the route of a prefix that of `subject`, which begins with it.
    #[inline(never)]
    pub(super) fn serve(&mut self, scope: RouteScope<'_>, subject: &[u8]) {
        if scope.permissions.is_some() {
            // Permissions may look behind the prefix.
            self.access = access(scope, subject);
        }
        let (prefix, heads) = (self.name.len(), &mut self.heads);
        let mut is_shown = true;
        let mut show = |one: &ClientTarget| {
            let head = &mut heads[one.head.start as usize..one.head.end as usize];
            if head.len() == HMSG + subject.len() + one.sub.sid().len() + BLANKS {
                head[HMSG + prefix..HMSG + subject.len()].copy_from_slice(&subject[prefix..]);
            } else {
                is_shown = false;
            }
        };
        for target in &self.targets {
            if let RouteTarget::Client(one) = target {
                show(one);
            }
        }
        self.groups.iter().flatten().for_each(show);
        if !is_shown {
            self.render_heads(subject);
        }
    }

    /// Makes all heads anew.
    #[inline(never)]
    fn render_heads(&mut self, subject: &[u8]) {
        let heads = &mut self.heads;
        heads.clear();
        let mut render = |one: &mut ClientTarget| one.head = render_head(heads, subject, one.sub.sid());
        for target in &mut self.targets {
            if let RouteTarget::Client(one) = target {
                render(one);
            }
        }
        self.groups.iter_mut().flatten().for_each(render);
    }
}

impl Routes {
    /// The route of a reply for whose prefix there is none, or an outdated one.
    #[inline(never)]
    pub(super) fn build_shared(
        &mut self,
        scope: RouteScope<'_>,
        subject: &[u8],
        prefix: &CachePlace<'_>,
        cohorts: &mut Cohorts,
    ) -> &mut Route {
        let own = self.place(scope, RouteName { text: subject, is_prefix: false });
        if let Some(way) = own.way {
            if !self.has_current(scope, &own) {
                return self.build(scope, &own, cohorts);
            }
            return self.buckets[own.bucket].ways[way].as_deref_mut().expect("it is current");
        }
        self.counts.misses += 1;
        let is_kept = self.admits(prefix);
        self.fleeting.forget(cohorts);
        seek(&mut self.fleeting, &mut self.matched, scope, subject);
        // Asked after the stamps were read: who came before them is counted, and who comes after
        // them outdates the route.
        let is_alike = is_kept && self.goes_alike(scope, subject) && scope.name(subject).is_prefix;
        if is_kept && !is_alike && self.admits(&own) {
            return self.build_kept(scope, &own, cohorts);
        }
        fill(&mut self.fleeting, &mut self.matched.clients, scope, None);
        if !is_alike {
            return &mut self.fleeting;
        }
        let (way, mut route) = self.make_room(prefix, cohorts);
        std::mem::swap(&mut *route, &mut self.fleeting);
        self.fleeting.is_fleeting = true;
        route.key = prefix.key;
        route.name.truncate(prefix.name.text.len());
        self.keep(route, prefix, way)
    }

    /// The route of a reply, if one is in the cache and current.
    #[inline(never)]
    pub(super) fn cached_shared(
        &mut self,
        scope: RouteScope<'_>,
        subject: &[u8],
        prefix: &CachePlace<'_>,
    ) -> Option<&mut Route> {
        if self.has_current(scope, prefix) {
            let route = self.buckets[prefix.bucket].ways[prefix.way?].as_deref_mut()?;
            route.serve(scope, subject);
            return Some(route);
        }
        let own = self.place(scope, RouteName { text: subject, is_prefix: false });
        if !self.has_current(scope, &own) {
            return None;
        }
        self.buckets[own.bucket].ways[own.way?].as_deref_mut()
    }

    /// Whether all subjects that have a prefix with `subject`, whose receivers were sought, in
    /// common go where it goes, if no pattern looks behind that.
    fn goes_alike(&mut self, scope: RouteScope<'_>, subject: &[u8]) -> bool {
        let Matching { clients, remote, .. } = &mut self.matched;
        let members = || clients.queues.iter().flat_map(|group| &group.members);
        let takes_all = |sub: &Arc<Subscription>| sub.conn().mqtt().is_none() && may_receive_all(sub);
        self.fleeting.remote.is_none()
            && clients.plain.len() + members().count() <= MOST_RECEIVERS
            && clients.plain.iter().chain(members()).all(takes_all)
            && is_for_nobody(scope.account, subject, remote, scope.via)
    }

    /// Whether a current route is there.
    fn has_current(&self, scope: RouteScope<'_>, place: &CachePlace<'_>) -> bool {
        let route = place.way.and_then(|way| self.buckets[place.bucket].ways[way].as_deref());
        let stamps = route.and_then(|route| route.stamp.as_ref());
        stamps.is_some_and(|stamps| is_current(scope.account, stamps))
    }
}

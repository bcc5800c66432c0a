//! Routes: what a subject resolves to, and the shard's cache of them.
//!
//! A route is built from the account's interest index, the permissions of the publisher and the
//! delivery rules of the receivers: all decisions about a subject are taken here, once, and hold
//! until the index says that the subject's interest may have changed. A subject that is mapped to
//! another has a route that says so and nothing else; subscribers of other accounts are in the
//! index by their shadows, and see the subject that their import makes of it.
//!
//! Perf: the cache has two places for each hash and admits a subject on its second touch, so that a
//! flood of subjects that never return costs a lookup each and evicts nothing (rows "100,000
//! subjects"). Replies, which never return either, share routes ([`shared`]).

mod key;
mod room;
mod shared;

use super::cohort::Cohorts;
use super::mqtt_targets::MqttTargets;
use super::remote::{RemoteTargets, leave_to_shadows};
use super::rules::{Access, access, mapped, may_receive};
use super::service_members::take_members;
use super::source::Via;
pub(super) use super::targets::{ClientTarget, CohortTarget, RouteTarget, is_careful};
use super::targets::{deliver_to, share};
use crate::account::Account;
use crate::conn::Conn;
use crate::link::remote_sub::RemoteSub;
use crate::reply_prefix;
use crate::service::{Binding, ServiceTarget};
use crate::subscription::Subscription;
use crate::traffic::RouteCounts;
use foldhash::fast::FixedState;
use key::{RouteKey, RouteName};
use myelin_auth::Permissions;
use myelin_stdx::equal::equal;
use myelin_subject::{EpochStamp, Matched};
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

/// Buckets of a shard's cache; a power of two.
const BUCKETS: usize = 4 * 1024;
/// Routes per bucket: two, so that two busy subjects that meet do not keep each other out.
const WAYS: usize = 2;

/// Look-ups of a shard before it has a cache: a server that is hardly used, or a shard without
/// publishers, does without its 160 KiB. None in tests.
const BEFORE_CACHE: u64 = if cfg!(test) { 0 } else { 32 };

/// Longer subjects are never cached: they cost memory and nobody repeats them by the thousand.
const LONGEST_CACHED: usize = 512;

/// Bytes that the routes of a shard may take, and one of them at most.
const BUDGET: usize = 64 * 1024 * 1024;
const DEAREST: usize = BUDGET / 8;

/// Bytes of a head beside the subject, about.
const EACH_HEAD: usize = 16;

/// Publisher as far as routes depend on it.
#[derive(Clone, Copy)]
pub(super) struct RouteScope<'a> {
    pub(super) account: &'a Arc<Account>,
    pub(super) permissions: Option<&'a Arc<Permissions>>,
    /// Whether the account's mappings apply; false where it has none.
    pub(super) is_mapped: bool,
    /// The message comes from another account by an import: it is not exported again.
    pub(super) is_imported: bool,
    /// Way by which the message has come: it decides where else it goes.
    pub(super) via: Via,
}

impl RouteScope<'_> {
    /// Publishers with equal keys share routes: same account, same permissions.
    #[inline(always)]
    fn key(&self, name: &RouteName<'_>) -> RouteKey {
        let permissions = self.permissions.map_or(0, |p| Arc::as_ptr(p).addr());
        let [mapped, imported] = [self.is_mapped, self.is_imported].map(u32::from);
        let prefix = u32::from(name.is_prefix) * RouteKey::PREFIX;
        let kind = (self.via as u32) << 3 | prefix | mapped << 1 | imported;
        RouteKey { account: self.account.id, kind, permissions }
    }

    /// The name of the route for `subject`.
    #[inline(always)]
    fn name<'n>(&self, subject: &'n [u8]) -> RouteName<'n> {
        match reply_prefix::shared_prefix(subject) {
            // Mappings may look behind it.
            Some((text, reply_kind))
                if subject.len() <= LONGEST_CACHED
                    && !self.is_mapped
                    && self.account.routes_by_prefix(text, reply_kind) =>
            {
                RouteName { text, is_prefix: true }
            }
            _ => RouteName { text: subject, is_prefix: false },
        }
    }
}

/// Place of a route in the cache, whether it is there or not.
struct CachePlace<'a> {
    name: RouteName<'a>,
    key: RouteKey,
    hash: u64,
    bucket: usize,
    /// The way that has it, current or not.
    way: Option<usize>,
}

/// Route: what a subject leads to, for one account and one set of permissions.
pub(super) struct Route {
    hash: u64,
    key: RouteKey,
    /// The subject, or what all its subjects begin with.
    name: Vec<u8>,
    account: Option<Arc<Account>>,
    /// Keeps the address in `key` from being used again.
    permissions: Option<Arc<Permissions>>,
    /// Of the interest of clients, and of that of services.
    stamp: Option<[EpochStamp; 2]>,
    /// Whether publishing to the subject is permitted.
    pub(super) access: Access,
    pub(super) targets: Vec<RouteTarget>,
    /// Queue groups: one member of each gets the message.
    pub(super) groups: Vec<SmallVec<[ClientTarget; 2]>>,
    /// Services and other accounts that get the message, after everybody else.
    pub(super) services: SmallVec<[ServiceTarget; 1]>,
    /// Other servers that get the message.
    pub(super) remote: Option<Box<RemoteTargets>>,
    /// The subject under which the message goes, with [`Access::Mapped`].
    pub(super) mapped: Vec<u8>,
    /// Renderings of `HMSG <subject> <sid> `.
    heads: Vec<u8>,
    /// Messages that went to all plain targets and are not yet in their counts.
    uncounted: u64,
    /// A route of one message only: not in the cache.
    pub(super) is_fleeting: bool,
    /// Bucket and way in the cache.
    place: (u32, u32),
}

impl Route {
    fn empty() -> Self {
        Self {
            hash: 0,
            key: RouteKey { account: 0, kind: 0, permissions: 0 },
            name: Vec::new(),
            account: None,
            permissions: None,
            stamp: None,
            access: Access::Allowed,
            targets: Vec::new(),
            groups: Vec::new(),
            services: SmallVec::new(),
            remote: None,
            mapped: Vec::new(),
            heads: Vec::new(),
            uncounted: 0,
            is_fleeting: true,
            place: (0, 0),
        }
    }

    /// The subject, where the route is for one.
    pub(super) fn subject(&self) -> &[u8] {
        debug_assert!(!self.key.is_prefix(), "a route of many subjects has none");
        &self.name
    }

    /// Whether nobody gets anything.
    pub(super) fn is_empty(&self) -> bool {
        self.targets.is_empty() && self.groups.is_empty() && self.services.is_empty() && self.remote.is_none()
    }

    /// The head for a HMSG; without its first byte it is that of a MSG.
    #[inline(always)]
    pub(super) fn head(&self, delivery: &ClientTarget) -> &[u8] {
        &self.heads[delivery.head.start as usize..delivery.head.end as usize]
    }

    pub(super) fn shared_head(&self, shared: &CohortTarget) -> &[u8] {
        &self.heads[shared.head.start as usize..shared.head.end as usize]
    }

    /// Adds what was delivered since the last time to the subscriptions' counts.
    fn apply_counts(&mut self) {
        let messages = std::mem::take(&mut self.uncounted);
        if messages == 0 {
            return;
        }
        for target in &self.targets {
            match target {
                RouteTarget::Client(delivery) if delivery.careful => {}
                RouteTarget::Client(delivery) => delivery.sub.count(messages),
                RouteTarget::Cohort(shared) => shared.subs.iter().for_each(|sub| sub.count(messages)),
                RouteTarget::Mqtt(mqtt) => mqtt.subs.iter().for_each(|sub| sub.count(messages)),
            }
        }
    }

    /// Whether interest has not changed since it was built.
    fn is_current(&self) -> bool {
        match (&self.account, &self.stamp) {
            (Some(account), Some(stamps)) => is_current(account, stamps),
            _ => false,
        }
    }

    /// Bytes that it takes, about.
    fn cost(&self) -> usize {
        let subs = |target: &RouteTarget| match target {
            RouteTarget::Client(_) => 0,
            RouteTarget::Cohort(shared) => shared.subs.len() * size_of::<Arc<Subscription>>(),
            RouteTarget::Mqtt(mqtt) => mqtt.cost(),
        };
        let sid = |target: &RouteTarget| match target {
            RouteTarget::Client(one) => one.sub.sid().len(),
            RouteTarget::Cohort(shared) => shared.subs.first().map_or(0, |sub| sub.sid().len()),
            RouteTarget::Mqtt(_) => 0,
        };
        let members = self.groups.iter().map(SmallVec::len).sum::<usize>();
        let receivers = self.targets.len() + members;
        let sids = self.targets.iter().map(sid).sum::<usize>()
            + self.groups.iter().flatten().map(|one| one.sub.sid().len()).sum::<usize>();
        // The heads of a prefix are those of its longest subject, perhaps.
        let shown = if self.key.is_prefix() { LONGEST_CACHED } else { self.name.len() };
        size_of::<Self>()
            + self.name.len()
            + self.mapped.len()
            + receivers * (shown + EACH_HEAD)
            + sids
            + self.remote.as_ref().map_or(0, |remote| remote.cost())
            + self.targets.len() * size_of::<RouteTarget>()
            + self.targets.iter().map(subs).sum::<usize>()
            + members * size_of::<ClientTarget>()
    }

    /// Subscriptions that it leads to.
    fn fanout(&self) -> u64 {
        let subs = |target: &RouteTarget| match target {
            RouteTarget::Client(_) => 1,
            RouteTarget::Cohort(shared) => shared.subs.len(),
            RouteTarget::Mqtt(mqtt) => mqtt.subs.len(),
        };
        let grouped: usize = self.groups.iter().map(SmallVec::len).sum();
        (self.targets.iter().map(subs).sum::<usize>() + grouped) as u64
    }

    fn forget(&mut self, cohorts: &mut Cohorts) {
        self.apply_counts();
        for target in self.targets.drain(..) {
            match target {
                RouteTarget::Client(_) => {}
                RouteTarget::Cohort(shared) => cohorts.release(shared.cohort),
                RouteTarget::Mqtt(mqtt) => mqtt.cohort.into_iter().for_each(|cohort| cohorts.release(cohort)),
            }
        }
        self.groups.clear();
        self.services.clear();
        self.remote = None;
        self.mapped.clear();
        self.heads.clear();
        self.stamp = None;
        if self.heads.capacity() > DEAREST {
            (self.heads, self.targets, self.groups) = Default::default();
        }
    }
}

/// A few routes whose subjects share a place.
struct Bucket {
    /// Hashes of the last subjects that missed here: one for each way, or busy subjects that take
    /// turns would keep each other out for ever.
    seen: [u64; WAYS],
    /// The way that the next admission takes.
    next: usize,
    ways: [Option<Box<Route>>; WAYS],
}

impl Bucket {
    const EMPTY: Self = Self { seen: [0; WAYS], next: 0, ways: [const { None }; WAYS] };

    /// Whether a route that is not there, or outdated at `found`, is to be kept.
    fn admits(&mut self, found: Option<usize>, hash: u64) -> bool {
        if found.is_some() || self.seen.contains(&hash) {
            return true;
        }
        self.seen.rotate_right(1);
        self.seen[0] = hash;
        false
    }

    /// The way that holds the route of this name, current or not.
    /// Perf: a loop, for with a closure it is a call (row `pub` of docs/count.md).
    #[inline(always)]
    fn find(&self, hash: u64, key: RouteKey, name: &[u8]) -> Option<usize> {
        for (way, route) in self.ways.iter().enumerate() {
            let Some(route) = route else { continue };
            if route.hash == hash && route.key == key && equal(&route.name, name) {
                return Some(way);
            }
        }
        None
    }
}

/// All routes of a shard.
pub(super) struct Routes {
    /// Cost of all cached routes.
    held: usize,
    /// The bucket that the sweep looks at next.
    hand: usize,
    /// [`BUCKETS`] of them, or none at first.
    buckets: Box<[Bucket]>,
    /// Publishers choose the names, so its seed is nobody's to know.
    hasher: FixedState,
    fleeting: Route,
    matched: Matching,
    counts: RouteCounts,
}

/// Places of routes that have uncounted deliveries.
#[derive(Default)]
pub(super) struct Touched(Vec<(u32, u32)>);

impl Touched {
    /// Notes that `route` delivered one message to all its plain targets.
    #[inline]
    pub(super) fn delivered(&mut self, route: &mut Route) {
        if route.is_fleeting {
            route.uncounted = 1;
            route.apply_counts();
            return;
        }
        if route.uncounted == 0 {
            self.0.push(route.place);
        }
        route.uncounted += 1;
    }
}

impl Routes {
    /// Routes whose places `seed` decides: it is drawn anew for each shard.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            held: 0,
            hand: 0,
            buckets: Box::default(),
            hasher: FixedState::with_seed(seed),
            fleeting: Route::empty(),
            matched: Matching::default(),
            counts: RouteCounts::default(),
        }
    }

    /// For monitoring.
    pub(super) fn counts(&self) -> RouteCounts {
        self.counts
    }

    /// The route of `subject` for publishers of this scope.
    ///
    /// Perf: what is in the cache is found without a call.
    #[inline(always)]
    pub(super) fn find(
        &mut self,
        scope: RouteScope<'_>,
        subject: &[u8],
        cohorts: &mut Cohorts,
    ) -> &mut Route {
        let place = self.place(scope, scope.name(subject));
        if let Some(way) = place.way
            && let Some(route) = &self.buckets[place.bucket].ways[way]
            && route.stamp.as_ref().is_some_and(|stamps| is_current(scope.account, stamps))
        {
            // Looked up again because the borrow checker does not see that this returns.
            let route = self.buckets[place.bucket].ways[way].as_deref_mut();
            let route = route.expect("it was there a line ago");
            if place.name.is_prefix {
                route.serve(scope, subject);
            }
            return route;
        }
        match place.name.is_prefix {
            true => self.build_shared(scope, subject, &place, cohorts),
            false => self.build(scope, &place, cohorts),
        }
    }

    /// The route of `subject`, if it is in the cache and current.
    #[inline(always)]
    pub(super) fn cached(&mut self, scope: RouteScope<'_>, subject: &[u8]) -> Option<&mut Route> {
        let place = self.place(scope, scope.name(subject));
        if place.name.is_prefix {
            return self.cached_shared(scope, subject, &place);
        }
        let route = self.buckets.get_mut(place.bucket)?.ways[place.way?].as_deref_mut()?;
        let stamps = route.stamp.as_ref()?;
        if is_current(scope.account, stamps) { Some(route) } else { None }
    }

    /// The place of the route with a name.
    #[inline(always)]
    fn place<'n>(&self, scope: RouteScope<'_>, name: RouteName<'n>) -> CachePlace<'n> {
        let key = scope.key(&name);
        let mut hasher = self.hasher.build_hasher();
        hasher.write(name.text);
        let hash = (hasher.finish() ^ key.salt()) | 1;
        let at = (hash >> 8) as usize & (BUCKETS - 1);
        let way = match self.buckets.get(at) {
            Some(bucket) => bucket.find(hash, key, name.text),
            None => None,
        };
        CachePlace { name, key, hash, bucket: at, way }
    }

    /// A route that is not there or no longer true: into the cache on its second touch.
    #[inline(never)]
    fn build(&mut self, scope: RouteScope<'_>, place: &CachePlace<'_>, cohorts: &mut Cohorts) -> &mut Route {
        self.counts.misses += 1;
        let subject = place.name.text;
        if self.admits(place) {
            return self.build_kept(scope, place, cohorts);
        }
        debug_assert!(
            self.fleeting.is_fleeting,
            "deliveries of a route that is not kept are counted at once"
        );
        self.fleeting.forget(cohorts);
        build(&mut self.fleeting, &mut self.matched, scope, subject, None);
        &mut self.fleeting
    }

    /// A route that is to be kept, unless it is too dear.
    fn build_kept(
        &mut self,
        scope: RouteScope<'_>,
        place: &CachePlace<'_>,
        cohorts: &mut Cohorts,
    ) -> &mut Route {
        let (way, mut route) = self.make_room(place, cohorts);
        build(&mut route, &mut self.matched, scope, place.name.text, Some(cohorts));
        if route.cost() <= DEAREST {
            return self.keep(route, place, way);
        }
        // Too dear to keep: used once, like any route of a subject that does not return.
        self.fleeting.forget(cohorts);
        self.fleeting = *route;
        self.fleeting.is_fleeting = true;
        &mut self.fleeting
    }

    /// Bytes that the cache counts, and those that its routes have reserved.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> (usize, usize) {
        let ways = self.buckets.iter().flat_map(|bucket| bucket.ways.iter().flatten());
        (self.held, ways.map(|route| route.reserved()).sum())
    }

    /// Whether a route that is not there, or outdated, is to be kept.
    fn admits(&mut self, place: &CachePlace<'_>) -> bool {
        let is_short = place.name.text.len() <= LONGEST_CACHED;
        is_short && self.has_cache() && self.buckets[place.bucket].admits(place.way, place.hash)
    }

    /// Whether there is a cache, which is made once it pays.
    fn has_cache(&mut self) -> bool {
        if self.buckets.is_empty() && self.counts.misses > BEFORE_CACHE {
            self.buckets = (0..BUCKETS).map(|_| Bucket::EMPTY).collect();
        }
        !self.buckets.is_empty()
    }

    /// Empties a way of a bucket for another route. Answers which one, and with a forgotten route
    /// to be filled: that which was there, or a new one.
    fn make_room(&mut self, place: &CachePlace<'_>, cohorts: &mut Cohorts) -> (usize, Box<Route>) {
        let bucket = &mut self.buckets[place.bucket];
        let way = place.way.unwrap_or_else(|| {
            let way = bucket.next;
            bucket.next = (way + 1) % WAYS;
            way
        });
        let route = self.drop_route(place.bucket, way, cohorts);
        while self.held > BUDGET {
            self.sweep_bucket(cohorts, |_| true);
        }
        (way, route.unwrap_or_else(|| Box::new(Route::empty())))
    }

    /// Puts a route into an empty way.
    fn keep(&mut self, mut route: Box<Route>, place: &CachePlace<'_>, way: usize) -> &mut Route {
        let at = place.bucket;
        route.give_back();
        route.is_fleeting = false;
        route.place = (at as u32, way as u32);
        route.hash = place.hash;
        debug_assert!(self.buckets[at].ways[way].is_none(), "a route takes an empty way");
        debug_assert!(route.uncounted == 0, "a route begins without deliveries");
        self.held += route.cost();
        let fanout = route.fanout();
        self.counts.cached += 1;
        self.counts.fanout += fanout;
        self.counts.widest = self.counts.widest.max(fanout);
        self.buckets[at].ways[way].insert(route)
    }

    /// Takes a route out of a way. Answers with it, forgotten.
    fn drop_route(&mut self, at: usize, way: usize, cohorts: &mut Cohorts) -> Option<Box<Route>> {
        let mut route = self.buckets[at].ways[way].take()?;
        debug_assert!(route.place == (at as u32, way as u32), "a route knows its place");
        debug_assert!(self.held >= route.cost(), "a route costs the same when it goes");
        debug_assert!(self.counts.cached > 0, "what goes was counted when it came");
        self.held -= route.cost();
        self.counts.cached -= 1;
        self.counts.fanout -= route.fanout();
        route.forget(cohorts);
        Some(route)
    }

    /// Looks at a few buckets and drops routes that are no longer true, so that connections which
    /// have ended are not remembered for long.
    pub(super) fn sweep(&mut self, buckets: usize, cohorts: &mut Cohorts) {
        for _ in 0..buckets {
            self.sweep_bucket(cohorts, |route| !route.is_current());
        }
        if !self.fleeting.is_empty() {
            self.fleeting.forget(cohorts);
        }
    }

    fn sweep_bucket(&mut self, cohorts: &mut Cohorts, goes: impl Fn(&Route) -> bool) {
        if self.buckets.is_empty() {
            return;
        }
        let at = self.hand;
        self.hand = (at + 1) % BUCKETS;
        for way in 0..WAYS {
            if self.buckets[at].ways[way].as_deref().is_some_and(&goes) {
                self.drop_route(at, way, cohorts);
            }
        }
    }

    /// Brings all subscription counts up to date.
    pub(super) fn apply_counts(&mut self, touched: &mut Touched) {
        for (at, way) in touched.0.drain(..) {
            if let Some(route) = &mut self.buckets[at as usize].ways[way as usize] {
                route.apply_counts();
            }
        }
    }

    /// The publisher's own plain subscription that takes `reply`, for a 503.
    pub(super) fn own_subscription(
        &mut self,
        account: &Account,
        reply: &[u8],
        conn: &Arc<Conn>,
    ) -> Option<Arc<Subscription>> {
        account.interest.collect(reply, &mut self.matched.clients);
        self.matched.clients.plain.drain(..).find(|sub| Arc::ptr_eq(sub.conn(), conn))
    }
}

/// Whether neither clients nor services have changed what they are interested in.
#[inline(always)]
fn is_current(account: &Account, [clients, services]: &[EpochStamp; 2]) -> bool {
    account.interest.is_current(clients) && account.services.is_current(services)
}

/// Results of look-ups, kept for their memory.
#[derive(Default)]
struct Matching {
    clients: Matched<Arc<Subscription>>,
    services: Matched<Arc<Binding>>,
    remote: Matched<Arc<RemoteSub>>,
}

/// Fills a forgotten route.
fn build(
    route: &mut Route,
    matching: &mut Matching,
    scope: RouteScope<'_>,
    subject: &[u8],
    cohorts: Option<&mut Cohorts>,
) {
    seek(route, matching, scope, subject);
    fill(route, &mut matching.clients, scope, cohorts);
}

/// Fills a forgotten route with all but clients, which are sought only.
fn seek(
    route: &mut Route,
    Matching { clients: matched, services, remote }: &mut Matching,
    scope: RouteScope<'_>,
    subject: &[u8],
) {
    route.key = scope.key(&RouteName { text: subject, is_prefix: false });
    route.account = Some(Arc::clone(scope.account));
    route.permissions = scope.permissions.cloned();
    subject.clone_into(&mut route.name);
    let stamp = scope.account.interest.collect(subject, matched);
    route.stamp = Some([stamp, scope.account.services.collect(subject, services)]);
    route.access = match mapped(scope, subject, &mut route.mapped) {
        Some(access) => {
            // Who listens to the subject itself does not matter.
            matched.clear();
            services.clear();
            access
        }
        // Where it was published that was decided.
        None if matches!(scope.via, Via::Route | Via::Import | Via::Gateway) => Access::Allowed,
        None => access(scope, subject),
    };
    let is_mapped = matches!(route.access, Access::Mapped | Access::Drawn);
    route.remote =
        if is_mapped { None } else { RemoteTargets::of(scope.account, subject, remote, scope.via) };
    if scope.via == Via::Import {
        leave_to_shadows(route.remote.as_deref_mut(), matched, services);
    }
    take_services(route, services);
}

/// Moves the clients that were found into the route.
fn fill(
    route: &mut Route,
    matched: &mut Matched<Arc<Subscription>>,
    scope: RouteScope<'_>,
    mut cohorts: Option<&mut Cohorts>,
) {
    let Route { name, targets, heads, .. } = &mut *route;
    let subject = name.as_slice();
    let takes = |sub: &Arc<Subscription>| may_receive(sub, subject, scope.is_imported);
    let mut mqtt = Vec::new();
    let plain = matched.plain.drain(..).filter(takes).filter_map(|sub| {
        if sub.conn().mqtt().is_none() {
            return Some(sub);
        }
        mqtt.push(sub);
        None
    });
    match cohorts.as_deref_mut() {
        Some(cohorts) => share((targets, heads), subject, plain, cohorts),
        None => targets.extend(plain.map(|sub| RouteTarget::Client(deliver_to(heads, subject, sub)))),
    }
    if !mqtt.is_empty() {
        let found = MqttTargets::of(mqtt, subject, cohorts).into_iter();
        targets.extend(found.map(|mqtt| RouteTarget::Mqtt(Box::new(mqtt))));
    }
    take_groups(route, matched, scope.is_imported);
    matched.clear();
}

/// Moves the members of queue groups that may receive the subject into the route.
#[inline]
fn take_groups(route: &mut Route, matched: &mut Matched<Arc<Subscription>>, is_imported: bool) {
    for group in &mut matched.queues {
        let Route { name: subject, heads, .. } = &mut *route;
        let members = group.members.drain(..).filter(|sub| may_receive(sub, subject, is_imported));
        let members: SmallVec<_> = members.map(|sub| deliver_to(heads, subject, sub)).collect();
        let Some(queue) = members.first().and_then(|first: &ClientTarget| first.sub.queue()) else {
            continue;
        };
        let queue: SmallVec<[u8; 32]> = queue.into();
        let members = match &mut route.remote {
            Some(remote) => remote.join(&queue, members),
            None => Some(members),
        };
        route.groups.extend(members);
    }
}

/// Moves the services that receive the subject into the route.
#[inline]
fn take_services(route: &mut Route, found: &mut Matched<Arc<Binding>>) {
    for binding in found.plain.drain(..) {
        if matches!(binding.receiver(), ServiceTarget::Import(link) if !link.carries(&route.name)) {
            continue;
        }
        // A service that receives the subject twice gets the message once.
        if !route.services.iter().any(|known| known.is(binding.receiver())) {
            route.services.push(binding.receiver().clone());
        }
    }
    take_members(&mut route.services, found, |group| {
        route.remote.iter_mut().for_each(|remote| remote.forget_group(group));
    });
}

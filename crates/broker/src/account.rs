//! An account: the space inside which subjects are routed.

use crate::closed::PastTraffic;
use crate::cluster::{AccountPlace, Cluster};
use crate::conn::Conn;
use crate::elsewhere::ConnectionsElsewhere;
use crate::gateway_replies::GatewayReplies;
use crate::imports::{AccountConfig, AccountLimits, ImportsAndExports};
use crate::link::announced::Announced;
use crate::link::interest_part::RemoteChange;
use crate::link::remote_sub::{RemoteSub, SoughtSub};
use crate::reply_prefix::{ReplyKind, SuffixInspectors};
use crate::service::{Binding, Reach, Service, ServiceMember, ServiceShard, ServiceTarget, Watcher};
use crate::subscription::Subscription;
use crate::watch::{Watch, Watches};
use myelin_stdx::sync::lock;
use myelin_subject::{Interest, Matched, Member, Sought};
use myelin_wire::error::CloseReason;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;

/// Messages published in an account reach subscriptions of that account, and of others only by what
/// it exports and they import.
pub struct Account {
    /// Dense number, part of the route cache's key.
    pub(crate) id: u32,
    name: Arc<str>,
    is_system: bool,
    limits: Mutex<AccountLimits>,
    pub(crate) interest: Interest<Arc<Subscription>>,
    /// Services of this account, by the subjects that they receive.
    pub(crate) services: Interest<Arc<Binding>>,
    /// Interest of other servers. Made when the first of them has any.
    remote: OnceLock<Box<Interest<Arc<RemoteSub>>>>,
    /// Interest that other servers are told of.
    pub(crate) announced: Announced,
    watches: Arc<Watches<dyn Watcher>>,
    pub(crate) suffix_inspectors: SuffixInspectors,
    connections: AtomicUsize,
    leaf_nodes: AtomicUsize,
    pub(crate) elsewhere: ConnectionsElsewhere,
    pub(crate) imports: ImportsAndExports,
    /// Requests from other clusters.
    pub(crate) gateway_replies: GatewayReplies,
    /// Interest of other clusters: now, and ever.
    of_clusters: [AtomicUsize; 2],
}

/// Interest of another server that was sought.
pub(crate) enum RemoteEntry {
    Known(Arc<RemoteSub>),
    New(Arc<RemoteSub>),
}

impl Account {
    /// `cluster`: the name that decides which of its mappings' destinations are this server's.
    pub(crate) fn new(id: u32, is_system: bool, config: AccountConfig, cluster: &Arc<Cluster>) -> Self {
        let account = Self {
            id,
            name: config.name.as_str().into(),
            is_system,
            limits: Mutex::new(config.limits),
            interest: Interest::new(),
            services: Interest::narrow(),
            remote: OnceLock::new(),
            announced: Announced::new(&config.name, Arc::clone(cluster)),
            watches: Arc::default(),
            suffix_inspectors: Default::default(),
            connections: AtomicUsize::new(0),
            leaf_nodes: AtomicUsize::new(0),
            elsewhere: ConnectionsElsewhere::default(),
            imports: ImportsAndExports::new(config, Arc::clone(cluster)),
            gateway_replies: GatewayReplies::default(),
            of_clusters: Default::default(),
        };
        account.count_mappings();
        account.announced.open_for_gateways(&account.name);
        account
    }

    /// An account of the server itself.
    pub(crate) fn internal(id: u32, name: &str, cluster: &Arc<Cluster>) -> Self {
        let account = Self::new(id, false, AccountConfig::named(name), cluster);
        Self { announced: Announced::internal(name, Arc::clone(cluster)), ..account }
    }

    /// The configured name, `$G` for the global account.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name, for those that keep it: they share it.
    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether this is the system account.
    pub fn is_system(&self) -> bool {
        self.is_system
    }

    /// The configured limits.
    pub fn limits(&self) -> AccountLimits {
        *lock(&self.limits)
    }

    /// Replaces the limits. Connections that are there already stay: to end those that are too many
    /// is the broker's.
    pub(crate) fn set_limits(&self, limits: AccountLimits) {
        *lock(&self.limits) = limits;
    }

    /// Client connections bound to it now, on this server.
    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// Other servers that have clients or leaf nodes of the account.
    pub fn servers_elsewhere(&self) -> usize {
        self.elsewhere.servers()
    }

    /// Subscriptions in it now.
    pub fn subscriptions(&self) -> usize {
        self.interest.len()
    }

    /// Subscriptions of the server itself: now, and ever.
    pub fn own_subscriptions(&self) -> (usize, u64) {
        (self.services.len(), self.services.inserted())
    }

    /// Visits the subjects of those, for monitoring.
    pub fn for_each_own(&self, mut f: impl FnMut(&[u8])) {
        self.services.for_each(|binding| f(binding.subject()));
    }

    /// Subscriptions that were ever made in it.
    pub fn subscribed(&self) -> u64 {
        self.interest.inserted()
    }

    /// Subscriptions of other servers: now, and ever. There is one for all of a server's clients
    /// that want the same. Compat: without those of other clusters.
    pub fn remote_subscriptions(&self) -> (usize, u64) {
        let Some(remote) = self.remote.get() else { return (0, 0) };
        let [now, ever] = self.of_clusters.each_ref().map(|count| count.load(Relaxed));
        (remote.len().saturating_sub(now), remote.inserted().saturating_sub(ever as u64))
    }

    /// Calls `f` for every subscription, for monitoring.
    pub fn for_each_subscription(&self, mut f: impl FnMut(&Subscription)) {
        self.interest.for_each(|sub| f(sub));
    }

    /// Visits what other servers want: the link that says so, subject, queue group and its members.
    pub fn for_each_remote(&self, mut f: impl FnMut(&Arc<Conn>, &[u8], Option<(&[u8], u32)>)) {
        if let Some(remote) = self.remote.get() {
            remote.for_each(|sub| {
                let queue = sub.queue().map(|queue| (queue, sub.weight()));
                f(sub.conn(), sub.subject(), queue);
            });
        }
    }

    /// Has `service` receive what matches `subject`, which must be well formed, until
    /// [`Account::unbind`].
    pub fn bind(&self, subject: &[u8], service: Arc<dyn Service>) -> Arc<Binding> {
        self.bind_receiver(subject, ServiceTarget::Service(service))
    }

    /// Has `service` receive what matches `subject` as a member of a queue group, in which other
    /// servers may have members: one of them gets each message, the one here before those
    /// elsewhere. Until [`Account::unbind`].
    pub fn bind_member(&self, subject: &[u8], queue: &[u8], service: Arc<dyn Service>) -> Arc<Binding> {
        let member = Arc::new(ServiceMember::new(queue, service));
        self.bind_receiver(subject, ServiceTarget::Member(member))
    }

    /// Has `service` receive what matches `subject`, as [`Account::bind`] does, and also what the
    /// account imports.
    pub fn listen(&self, subject: &[u8], service: Arc<dyn Service>) -> Arc<Binding> {
        let binding = self.bind(subject, service);
        self.imports.listen(&binding);
        binding
    }

    pub(crate) fn bind_receiver(&self, subject: &[u8], receiver: ServiceTarget) -> Arc<Binding> {
        let binding = self.place(subject, receiver);
        self.notify_watches(subject, None);
        binding
    }

    /// Puts a receiver into the index; whoever watches is to be [told](Self::notify_watches).
    pub(crate) fn place(&self, subject: &[u8], receiver: ServiceTarget) -> Arc<Binding> {
        let binding = Arc::new(Binding::new(subject, receiver));
        self.suffix_inspectors.comes(subject);
        self.services.insert(Arc::clone(&binding));
        self.count_service(&binding);
        binding
    }

    /// Takes it out again.
    pub(crate) fn displace(&self, binding: &Arc<Binding>) {
        let removed = self.services.remove(binding);
        self.has_gone(binding.subject(), removed);
        let is_counted = removed && binding.counted().goes();
        if is_counted && binding.receiver().is_announced() {
            self.announced.changed(&self.name, binding.subject(), binding.queue(), false);
        } else if is_counted {
            self.announced.only_leafs_changed(binding.subject(), false);
        }
    }

    /// Whether anybody receives `subject`, client or service. Of what stands for somebody in
    /// another account: whether that one does. An answer that another cluster awaits is received:
    /// the interest in it may come later than the request.
    pub fn has_interest(&self, subject: &[u8]) -> bool {
        if self.imports.replies.owns(subject) {
            let waiting = self.imports.replies.waiting(subject);
            return waiting.is_some_and(|(account, reply)| account.has_interest(&reply));
        }
        let (mut clients, mut services) = (Matched::new(), Matched::new());
        self.interest.collect(subject, &mut clients);
        self.services.collect(subject, &mut services);
        !clients.is_empty()
            || !services.is_empty()
            || self.has_remote_interest(subject)
            || self.gateway_replies.has(subject)
    }

    /// Whether anybody hears what this server publishes as `subject`: as
    /// [`has_interest`](Self::has_interest), without services that are for other servers only.
    pub fn is_heard(&self, subject: &[u8]) -> bool {
        let (mut clients, mut services) = (Matched::new(), Matched::<Arc<Binding>>::new());
        self.interest.collect(subject, &mut clients);
        self.services.collect(subject, &mut services);
        !clients.is_empty()
            || services.plain.iter().any(|binding| binding.receiver().reach() != Reach::Elsewhere)
            || !services.queues.is_empty()
            || self.has_remote_interest(subject)
    }

    /// Whether another server is known to want `subject`.
    #[must_use]
    pub fn is_wanted_elsewhere(&self, subject: &[u8]) -> bool {
        self.has_remote_interest(subject)
    }

    fn has_remote_interest(&self, subject: &[u8]) -> bool {
        let mut remote = Matched::new();
        self.collect_remote(subject, &mut remote);
        !remote.is_empty()
    }

    /// Fills `out` with what other servers want of `subject`.
    pub(crate) fn collect_remote(&self, subject: &[u8], out: &mut Matched<Arc<RemoteSub>>) {
        match self.remote.get() {
            Some(remote) => drop(remote.collect(subject, out)),
            None => out.clear(),
        }
    }

    /// Finds interest of another server that is known already.
    pub(crate) fn find_remote(&self, sought: &impl Sought<Arc<RemoteSub>>) -> Option<Arc<RemoteSub>> {
        self.remote.get()?.find(sought)
    }

    /// Another server wants what is sought: answers with whom that is known already. If it is not,
    /// `make` makes it. Routes are outdated by the epochs of clients' interest.
    pub(crate) fn find_or_insert_remote(
        &self,
        sought: &impl Sought<Arc<RemoteSub>>,
        make: impl FnOnce() -> Arc<RemoteSub>,
    ) -> RemoteEntry {
        let (subject, mut made) = (sought.subject(), None);
        let remote = self.remote.get_or_init(|| Box::new(Interest::without_stamps()));
        let known = remote.find_or_insert(sought, || {
            self.suffix_inspectors.comes(subject);
            Arc::clone(made.insert(make()))
        });
        if let Some(known) = known {
            return RemoteEntry::Known(known);
        }
        let sub = made.expect("what is not known is made");
        self.touch_remote(subject);
        self.announced.remote_changed(&self.name, &sub, RemoteChange::Added);
        self.notify_watches(subject, None);
        if sub.conn().gateway().is_some() {
            for count in &self.of_clusters {
                count.fetch_add(1, Relaxed);
            }
        }
        if sub.conn().leaf().is_some() {
            self.add_leaf_shadows(&sub);
        }
        RemoteEntry::New(sub)
    }

    /// Another server wants something no more.
    pub(crate) fn remove_remote(&self, sub: &Arc<RemoteSub>) {
        let removed = self.remote.get().is_some_and(|remote| remote.remove(sub));
        self.has_gone(sub.subject(), removed);
        self.touch_remote(sub.subject());
        if removed {
            self.announced.remote_changed(&self.name, sub, RemoteChange::Removed);
            if sub.conn().gateway().is_some() {
                self.of_clusters[0].fetch_sub(1, Relaxed);
            }
        }
        self.notify_watches(sub.subject(), None);
        if sub.conn().leaf().is_some() {
            self.remove_leaf_shadows(sub);
        }
    }

    /// Visits what leaf nodes and hubs of this server want.
    pub(crate) fn for_each_of_leafs(&self, mut f: impl FnMut(&Arc<RemoteSub>)) {
        if let Some(remote) = self.remote.get() {
            remote.for_each(|sub| {
                if sub.conn().leaf().is_some() {
                    f(sub);
                }
            });
        }
    }

    /// A queue group has another number of members there.
    pub(crate) fn reweigh_remote(&self, sub: &Arc<RemoteSub>, weight: u32) {
        self.announced.remote_changed(&self.name, sub, RemoteChange::Weight(weight));
        self.touch_remote(sub.subject());
    }

    /// Outdates the routes that what other servers want of `pattern` has a part in.
    pub(crate) fn touch_remote(&self, pattern: &[u8]) {
        self.interest.touch_pattern(pattern);
    }

    /// Links of it with leaf nodes and hubs.
    pub fn leaf_links(&self) -> Vec<Arc<Conn>> {
        Vec::clone(&self.announced.leafs())
    }

    /// Counts what there was before there was anything about leaf nodes.
    pub(crate) fn count_for_leafs(&self) {
        self.interest.for_each(|sub| self.count(sub));
        self.services.for_each(|binding| self.count_service(binding));
        if let Some(remote) = self.remote.get() {
            remote.for_each(|sub| {
                self.announced.count_remote(sub, || remote.find(&SoughtSub(sub)).is_some());
            });
        }
        self.announced.count_offers();
        self.count_mappings();
    }

    /// Counts a subscription that is in the index, if other servers hear of such.
    fn count(&self, sub: &Arc<Subscription>) {
        if self.announced.keeps_account() && sub.counted().is_due() {
            self.announced.changed(&self.name, sub.subject(), sub.queue(), true);
        }
    }

    fn count_service(&self, binding: &Arc<Binding>) {
        let is_announced = binding.receiver().is_announced();
        if !is_announced && !binding.receiver().is_only_for_leafs() {
            return;
        }
        let is_kept =
            if is_announced { self.announced.keeps_account() } else { self.announced.has_leaf_nodes() };
        match is_kept && binding.counted().is_due() {
            false => {}
            true if is_announced => {
                self.announced.changed(&self.name, binding.subject(), binding.queue(), true);
            }
            true => self.announced.only_leafs_changed(binding.subject(), true),
        }
    }

    fn count_mappings(&self) {
        self.imports.config().mappings.destinations().for_each(|(source, _)| {
            self.announced.only_leafs_changed(source.as_bytes(), true);
        });
    }

    /// Place of the account among the links to each server.
    pub(crate) fn place_on_links(&self) -> AccountPlace {
        self.announced.place(&self.name)
    }

    /// Subscriptions of this server's clients that match `subject`.
    pub(crate) fn receivers(&self, subject: &[u8]) -> Matched<Arc<Subscription>> {
        let mut clients = Matched::new();
        self.interest.collect(subject, &mut clients);
        clients
    }

    /// Whether anybody listens to `subject`, which has no wildcards, without wildcards: in this
    /// queue group, or in none. Here, or on another server.
    pub fn has_listener(&self, subject: &[u8], queue: Option<&[u8]>) -> bool {
        let (mut clients, mut services, mut remote) = (Matched::new(), Matched::new(), Matched::new());
        self.interest.collect(subject, &mut clients);
        self.collect_remote(subject, &mut remote);
        let Some(queue) = queue else {
            self.services.collect(subject, &mut services);
            return clients.plain.iter().any(|sub| sub.subject() == subject)
                || services.plain.iter().any(|binding: &Arc<Binding>| binding.subject() == subject)
                || remote.plain.iter().any(|sub| sub.subject() == subject);
        };
        let mut members = clients.queues.iter().flat_map(|group| &group.members);
        let mut others = remote.queues.iter().flat_map(|group| &group.members);
        members.any(|sub: &Arc<Subscription>| sub.subject() == subject && sub.queue() == Some(queue))
            || others.any(|sub| sub.subject() == subject && sub.queue() == Some(queue))
    }

    /// Ends what [`Account::bind`] began. What is on its way may still arrive.
    pub fn unbind(&self, binding: &Arc<Binding>) {
        self.displace(binding);
        self.notify_watches(binding.subject(), None);
        self.imports.unlisten(binding);
    }

    /// Takes out all services, and tells nobody: the broker is gone. A service may have its
    /// account.
    pub(crate) fn forget_services(&self) {
        let mut bindings = Vec::new();
        self.services.for_each(|binding| bindings.push(Arc::clone(binding)));
        for binding in &bindings {
            self.services.remove(binding);
            self.imports.unlisten(binding);
        }
    }

    /// Tells `watcher` whenever what [`has_interest`](Self::has_interest) says of `subject`, which
    /// has no wildcards, may have become another, until the watch is dropped. Whoever asks after
    /// this returns misses nothing: a change was made before, and is in the answer, or is told.
    pub fn watch(&self, subject: &[u8], watcher: Weak<dyn Watcher>) -> Watch {
        let watch = self.watches.add(subject, watcher);
        self.interest.synchronize(subject);
        self.services.synchronize(subject);
        watch
    }

    /// Lets a subscription in, on `shard`.
    pub(crate) fn subscribe(self: &Arc<Self>, sub: &Arc<Subscription>, shard: &mut ServiceShard) {
        self.insert(sub);
        self.notify_watches(sub.subject(), Some(&mut *shard));
        self.add_shadows(sub, Some(shard));
    }

    /// Puts a subscription into the index; whoever watches is to be [told](Self::notify_watches).
    pub(crate) fn insert(&self, sub: &Arc<Subscription>) {
        self.suffix_inspectors.comes(sub.subject());
        sub.counted().comes();
        self.interest.insert(Arc::clone(sub));
        self.count(sub);
    }

    /// A client of this server has subscribed at this moment.
    #[inline]
    pub(crate) fn subscribed_at(&self, now: Instant) {
        if let Some(gateways) = self.announced.gateways() {
            self.gateway_replies.subscribed(gateways.time(now));
        }
    }

    /// Takes it out again; false when it was not in.
    pub(crate) fn take_out(&self, sub: &Arc<Subscription>) -> bool {
        let removed = self.interest.remove(sub);
        self.has_gone(sub.subject(), removed);
        if removed && sub.counted().goes() {
            self.announced.changed(&self.name, sub.subject(), sub.queue(), false);
        }
        removed
    }

    /// Tells those who watch that interest in what `pattern` matches may have changed.
    #[inline]
    pub(crate) fn notify_watches(&self, pattern: &[u8], mut shard: Option<&mut ServiceShard>) {
        self.watches.notify(pattern, |watcher| watcher.interest_changed(shard.as_deref_mut()));
    }

    /// Something about a subscription has changed: routes that lead to it are outdated.
    pub(crate) fn touch(&self, sub: &Arc<Subscription>) {
        self.interest.touch(sub);
        self.touch_shadows(sub);
    }

    /// Outdates all routes.
    pub(crate) fn invalidate_all(&self) {
        self.interest.invalidate_all();
    }

    /// Takes a subscription out; false when it was not in. `shard`: where that happens, if on one.
    pub(crate) fn unsubscribe(&self, sub: &Arc<Subscription>, mut shard: Option<&mut ServiceShard>) -> bool {
        let removed = self.take_out(sub);
        self.notify_watches(sub.subject(), shard.as_deref_mut());
        self.remove_shadows(sub, shard);
        removed
    }

    /// Ends one subscription of a client, on `shard` if on one; `false` when it had ended already.
    pub(crate) fn end(&self, sub: &Arc<Subscription>, shard: Option<&mut ServiceShard>) -> bool {
        sub.conn().forget(sub) && self.unsubscribe(sub, shard)
    }

    /// A deny rule cuts into a subscription of `conn` from now on: routes that lead to any of its
    /// subscriptions are outdated.
    pub(crate) fn filter(&self, conn: &Conn) {
        if conn.rights.begin_filtering() {
            conn.subscriptions().iter().for_each(|sub| self.touch(sub));
        }
    }

    /// Takes many out, which have ended together: other servers hear once how many members a queue
    /// group has left.
    pub(crate) fn unsubscribe_all(&self, subs: &[Arc<Subscription>], mut shard: Option<&mut ServiceShard>) {
        let mut members: BTreeMap<(&[u8], &[u8]), u32> = BTreeMap::new();
        for sub in subs {
            let removed = self.interest.remove(sub);
            self.has_gone(sub.subject(), removed);
            match sub.queue() {
                _ if !removed || !sub.counted().goes() => {}
                Some(queue) => *members.entry((sub.subject(), queue)).or_default() += 1,
                None => self.announced.changed(&self.name, sub.subject(), None, false),
            }
            self.notify_watches(sub.subject(), shard.as_deref_mut());
            self.remove_shadows(sub, shard.as_deref_mut());
        }
        for ((subject, queue), count) in members {
            self.announced.members_left(&self.name, subject, queue, count);
        }
    }

    /// Whether one route serves all replies with this
    /// [prefix](crate::reply_prefix::shared_prefix). An index in which that changes has other
    /// stamps before it does, and a route was built with stamps that were read before this is
    /// asked.
    #[inline]
    pub(crate) fn routes_by_prefix(&self, prefix: &[u8], reply_kind: ReplyKind) -> bool {
        self.suffix_inspectors.leave_alone(prefix, reply_kind)
    }

    fn has_gone(&self, pattern: &[u8], removed: bool) {
        if removed {
            self.suffix_inspectors.has_gone(pattern);
        }
    }

    /// Takes a place for a connection; `false` when the limit is reached.
    pub(crate) fn enter(&self) -> bool {
        let most = self.limits().max_connections;
        let limit = most.map_or(usize::MAX, |most| most.saturating_sub(self.elsewhere.clients()));
        self.connections.fetch_update(Relaxed, Relaxed, |n| (n < limit).then_some(n + 1)).is_ok()
    }

    /// Links with leaf nodes and hubs that are bound to it now.
    pub fn leaf_nodes(&self) -> usize {
        self.leaf_nodes.load(Relaxed)
    }

    /// Traffic of its links with leaf nodes and hubs, those that have ended included.
    pub fn leaf_traffic(&self) -> PastTraffic {
        self.announced.leaf_traffic()
    }

    /// Takes a place for a link with a leaf node or a hub; `false` when the limit is reached.
    pub fn enter_as_leaf_node(&self) -> bool {
        let most = self.limits().max_leaf_nodes;
        let limit = most.map_or(usize::MAX, |most| most.saturating_sub(self.elsewhere.leaf_nodes()));
        self.leaf_nodes.fetch_update(Relaxed, Relaxed, |n| (n < limit).then_some(n + 1)).is_ok()
    }

    /// Ends so many links with leaf nodes and hubs, those that came last.
    pub(crate) fn close_newest_leaf_nodes(&self, count: usize) {
        for conn in self.announced.leafs().iter().rev().take(count) {
            conn.say(b"-ERR 'maximum account active connections exceeded'\r\n");
            conn.close(CloseReason::MaximumAccountConnections);
        }
    }

    /// Gives that place back.
    pub fn leave_as_leaf_node(&self) {
        let before = self.leaf_nodes.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a leaf node leaves an account once");
    }

    pub(crate) fn leave(&self) {
        let before = self.connections.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a connection leaves an account once");
    }
}

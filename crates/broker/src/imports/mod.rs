//! Exports, imports and subject mappings: what accounts let each other have.
//!
//! An account holds its configuration and what became of it: bindings for the services that it
//! imports, which stand in its own index of services; shadows of its subscriptions in the indexes
//! of accounts whose streams it imports; the answers that its own services owe. Nothing here is
//! looked at when a message is published: routes are built from the indexes, and every change
//! outdates them.
//!
//! Locks: `streams` is held while shadows are put into the indexes of other accounts, so that a
//! subscription that comes or goes during a change has its shadows exactly once. Who watches
//! interest is told after it.
//!
//! # From account to account
//!
//! - A *mapping* (`shard/rules.rs`): the route of the subject says only where its messages go, or
//!   that this is drawn for each message. The other subject has a route of its own, and that one
//!   decides.
//! - A *stream import*: a subscription that reaches an imported stream has a *shadow* in the
//!   exporter's index, with the same connection and sid and the exporter's pattern. Routes show it
//!   the name that the import gives, and judge that name; counts are the original's.
//! - A *service that listens to imports* (a stream of JetStream) listens with `Account::listen` and
//!   has *shadow bindings* in the exporters' indexes (`shadow_bindings`).
//! - A *service import* (`shard/service_import.rs`) is a binding in the importer's index of
//!   services. The message is published again in the exporter's account, by the same publisher,
//!   with `Nats-Request-Info` and a reply subject of that account.
//! - Its *answer* (`replies`): `_R_.<account>.<request>` is looked up, and the answer is published
//!   where the requester waits. The entry goes with the one answer, with an empty one, after its
//!   time, or when nobody listens there any more.
//! - A *change* (`link`, `auth_and_accounts.rs`): which imports hold is decided from the
//!   configurations of both accounts whenever one of them changes; what stays as it was is not
//!   touched.
//!
//! A publish without any of that pays one relaxed load: whether the account has mappings.

mod claims;
mod config;
mod info;
mod latency;
mod latency_parts;
mod link;
mod measuring;
mod naming;
mod replies;
mod shadow_bindings;
mod system;

pub(crate) use claims::{is_activated, next_turn};
pub use config::{
    Access, AccountConfig, AccountLimits, DEFAULT_RESPONSE_THRESHOLD, Export, Import, LatencyConfig,
    ResponseType, ServiceExport, ServiceImport, StreamExport, StreamImport, TraceDestination,
};
pub(crate) use info::{HEADER as INFO_HEADER, RequestInfo};
pub(crate) use latency::{Measured, Responder, report, told};
pub(crate) use latency_parts::{LatencyParts, RemoteRequests, SecondPart, is_measured, suffix, told_at};
pub(crate) use link::{AnsweredRequest, Awaited, ServiceLink, StreamLink, Tracked};
pub(crate) use measuring::{Cause, Outcome};
pub(crate) use naming::ImportedStream;
pub(crate) use replies::{AwaitedReplies, Ticket, UnansweredRequest};
pub(crate) use shadow_bindings::ShadowService;
pub(crate) use system::furnish;

use self::shadow_bindings::ShadowBindings;
use crate::account::Account;
use crate::cluster::Cluster;
use crate::link::remote_sub::RemoteSub;
use crate::service::{Binding, ServiceShard, ServiceTarget};
use crate::subscription::Subscription;
use arc_swap::ArcSwap;
use hashbrown::HashMap;
use myelin_stdx::sync::lock;
use myelin_subject::{Subscribed, is_subset};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Exports, imports and subject mappings of one account, and what became of them.
#[derive(Default)]
pub(crate) struct ImportsAndExports {
    config: ArcSwap<AccountConfig>,
    /// Of the server.
    cluster: Arc<Cluster>,
    has_mappings: AtomicBool,
    is_asked: AtomicBool,
    /// Whether there are stream imports, or shadows of former ones.
    has_streams: AtomicBool,
    streams: Mutex<Streams>,
    /// The account's own services that listen to them.
    bindings: ShadowBindings,
    /// The services that are imported.
    services: Mutex<Vec<Arc<Binding>>>,
    /// Responses that this account's services owe to others.
    pub(crate) replies: AwaitedReplies<Awaited>,
    /// Requests from other servers, which measure them.
    pub(crate) remote_requests: RemoteRequests,
}

/// Imported streams and who listens to them.
#[derive(Default)]
struct Streams {
    links: Vec<Arc<StreamLink>>,
    /// By the address of the subscription that they are shadows of.
    shadows: HashMap<usize, Vec<Shadow>>,
}

/// A shadow of a subscription, in the index of the account from which `link` imports.
#[derive(Clone)]
struct Shadow {
    link: Arc<StreamLink>,
    stands: Standing,
}

/// Entry in that index for a listener here.
#[derive(Clone)]
enum Standing {
    /// For a client.
    Client(Arc<Subscription>),
    /// For a leaf node or a hub.
    Leaf(Arc<Binding>),
}

impl Standing {
    fn subject(&self) -> &[u8] {
        match self {
            Self::Client(sub) => sub.subject(),
            Self::Leaf(binding) => binding.subject(),
        }
    }
}

/// Listener on this server.
#[derive(Clone, Copy)]
enum Listener<'a> {
    Client(&'a Arc<Subscription>),
    Leaf(&'a Arc<RemoteSub>),
}

impl Listener<'_> {
    /// The place by which its shadows are found.
    fn place(self) -> usize {
        match self {
            Self::Client(sub) => Arc::as_ptr(sub).addr(),
            Self::Leaf(sub) => Arc::as_ptr(sub).addr(),
        }
    }

    fn subject(&self) -> &[u8] {
        match self {
            Self::Client(sub) => sub.subject(),
            Self::Leaf(sub) => Subscribed::subject(&***sub),
        }
    }

    /// Puts a shadow into the exporter's index.
    fn stand(self, exporter: &Account, link: &Arc<StreamLink>, subject: &[u8]) -> Standing {
        match self {
            Self::Client(sub) => {
                let shadow = Arc::new(Subscription::shadow(sub, &link.stream, subject));
                exporter.insert(&shadow);
                Standing::Client(shadow)
            }
            Self::Leaf(_) => Standing::Leaf(exporter.place(subject, ServiceTarget::Leafs(Arc::clone(link)))),
        }
    }
}

/// A shadow that came or went, and the account where.
type Moved = (Arc<Account>, Standing);

impl Streams {
    /// Gives a subscription its shadows for those of `links` for which it has none.
    fn cast(&mut self, by: Listener<'_>, links: &[Arc<StreamLink>], moved: &mut Vec<Moved>) {
        let place = by.place();
        for link in links {
            let has_one = |shadow: &Shadow| Arc::ptr_eq(&shadow.link, link);
            if self.shadows.get(&place).is_some_and(|shadows| shadows.iter().any(has_one)) {
                continue;
            }
            let (Some(exporter), Some(subject)) = (link.exporter.upgrade(), link.stream.reach(by.subject()))
            else {
                continue;
            };
            let stands = by.stand(&exporter, link, &subject);
            moved.push((exporter, stands.clone()));
            self.shadows.entry(place).or_default().push(Shadow { link: Arc::clone(link), stands });
        }
    }

    fn take(&mut self, by: Listener<'_>, moved: &mut Vec<Moved>) {
        let Some(shadows) = self.shadows.remove(&by.place()) else { return };
        moved.extend(shadows.into_iter().filter_map(remove));
    }

    /// Replaces the links, keeping those that are as they were, and answers those that are new.
    fn relink(&mut self, wanted: Vec<StreamLink>, moved: &mut Vec<Moved>) -> Vec<Arc<StreamLink>> {
        let (mut links, mut new) = (Vec::new(), Vec::new());
        for link in wanted {
            match self.links.iter().position(|old| old.is_like(&link)) {
                Some(at) => links.push(self.links.swap_remove(at)),
                None => new.push(Arc::new(link)),
            }
        }
        let mut all_gone = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "what is gone is sorted")]
        self.shadows.retain(|_, shadows| {
            let stays = |shadow: &Shadow| links.iter().any(|link| Arc::ptr_eq(link, &shadow.link));
            let (kept, gone): (Vec<_>, Vec<_>) = shadows.drain(..).partition(stays);
            all_gone.extend(gone);
            *shadows = kept;
            !shadows.is_empty()
        });
        all_gone.sort_by(|one, other| one.stands.subject().cmp(other.stands.subject()));
        moved.extend(all_gone.into_iter().filter_map(remove));
        links.extend(new.iter().cloned());
        self.links = links;
        new
    }
}

fn remove(shadow: Shadow) -> Option<Moved> {
    let exporter = shadow.link.exporter.upgrade()?;
    match &shadow.stands {
        Standing::Client(sub) => drop(exporter.take_out(sub)),
        Standing::Leaf(binding) => exporter.displace(binding),
    }
    Some((exporter, shadow.stands))
}

fn notify_watches(moved: &[Moved], mut shard: Option<&mut ServiceShard>) {
    for (account, shadow) in moved {
        account.notify_watches(shadow.subject(), shard.as_deref_mut());
    }
}

impl ImportsAndExports {
    /// A service hears imported streams, too.
    pub(crate) fn listen(&self, binding: &Arc<Binding>) {
        let streams = lock(&self.streams);
        let moved = self.bindings.listen(binding, &streams.links);
        drop(streams);
        shadow_bindings::notify_watches(&moved);
    }

    /// Takes away a binding that listened to imports.
    pub(crate) fn unlisten(&self, binding: &Arc<Binding>) {
        self.bindings.unlisten(binding);
    }

    pub(crate) fn new(config: AccountConfig, cluster: Arc<Cluster>) -> Self {
        let imports = Self { cluster, ..Self::default() };
        imports.set_config(config);
        imports
    }

    pub(crate) fn config(&self) -> Arc<AccountConfig> {
        self.config.load_full()
    }

    fn set_config(&self, config: AccountConfig) {
        self.has_mappings.store(!config.mappings.is_empty(), Relaxed);
        self.is_asked.store(config.is_asked, Relaxed);
        self.config.store(Arc::new(config));
    }

    /// Whether what clients publish may go under another subject.
    #[inline]
    pub(crate) fn has_mappings(&self) -> bool {
        self.has_mappings.load(Relaxed)
    }

    /// Whether services of the account are asked about logins.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Relaxed)
    }

    /// Maps `subject` into `out`; false when no mapping fits it.
    pub(crate) fn map(&self, subject: &[u8], random: &mut impl FnMut() -> u32, out: &mut Vec<u8>) -> bool {
        self.config.load().mappings.map(subject, &self.cluster.look(), random, out)
    }
}

/// A request from another account that waits for its answer, for monitoring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedAnswer {
    /// Where its answer is expected.
    pub subject: String,
    /// The account of whoever asks, and where it waits.
    pub account: String,
    /// See `account`.
    pub reply: String,
    /// Whether this account learns who asks.
    pub share: bool,
}

/// Awaited answers that monitoring lists.
const LISTED: usize = 10_000;

/// Calls of other rooms, on the account that the imports and exports belong to.
impl Account {
    /// Configuration of the account: exports, imports, mappings.
    pub fn config(&self) -> Arc<AccountConfig> {
        self.imports.config()
    }

    /// Requests from other accounts that its services have not answered yet.
    pub fn awaited(&self) -> usize {
        self.imports.replies.len()
    }

    /// Lists the requests from other accounts that its services have not answered yet; of very many
    /// not all.
    pub fn awaiting(&self) -> Vec<AwaitedAnswer> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let list = self.imports.replies.list(LISTED).into_iter();
        let answers = list.map(|(subject, awaited)| AwaitedAnswer {
            subject: text(&subject),
            account: awaited.requester.name().to_owned(),
            reply: text(&awaited.reply),
            share: awaited.link.shares(),
        });
        answers.collect()
    }

    /// Whether it imports a service whose name here covers `subject`.
    pub fn imports_service(&self, subject: &[u8]) -> bool {
        let services = lock(&self.imports.services);
        services.iter().any(|binding| is_subset(subject, Subscribed::subject(&**binding)))
    }

    /// Where a request of this account on `subject` goes by an import: the account that answers,
    /// and what it is called there.
    pub fn asks_elsewhere(&self, subject: &[u8]) -> Option<(Arc<Self>, Vec<u8>)> {
        let services = lock(&self.imports.services);
        services.iter().find_map(|binding| match binding.receiver() {
            ServiceTarget::Import(link) if is_subset(subject, link.here()) => {
                Some((Arc::clone(&link.exporter), link.naming().name(subject).into_owned()))
            }
            _ => None,
        })
    }

    /// Whether what `exporter` publishes reaches a listener here that asks for `subject`.
    pub fn hears_of(&self, exporter: &Arc<Self>, subject: &[u8]) -> bool {
        let streams = lock(&self.imports.streams);
        let is_from = |link: &Arc<StreamLink>| std::ptr::eq(link.exporter.as_ptr(), Arc::as_ptr(exporter));
        streams.links.iter().any(|link| is_from(link) && link.stream.reach(subject).is_some())
    }

    /// Whether an import of its configuration is in force: its exporter is there and allows it.
    pub fn holds(&self, import: &Import) -> bool {
        match import {
            Import::Stream(import) => lock(&self.imports.streams).links.iter().any(|link| link.is_of(import)),
            Import::Service(import) => lock(&self.imports.services).iter().any(
                |binding| matches!(binding.receiver(), ServiceTarget::Import(link) if link.is_of(import)),
            ),
        }
    }

    /// Replaces what is said about the account. Imports follow when [`link`](Self::link) is called,
    /// on this account and all that import from it.
    pub(crate) fn configure(&self, config: AccountConfig) {
        let (had_mappings, was_asked) = (self.imports.has_mappings(), self.imports.is_asked());
        self.set_limits(config.limits);
        let before = self.imports.config();
        self.imports.set_config(config);
        for (config, is_new) in [(before, false), (self.imports.config(), true)] {
            config.mappings.destinations().for_each(|(source, _)| {
                self.announced.only_leafs_changed(source.as_bytes(), is_new);
            });
        }
        if had_mappings || self.imports.has_mappings() || was_asked != self.imports.is_asked() {
            self.invalidate_all();
        }
    }

    /// The server's cluster has another name.
    pub(crate) fn cluster_changed(&self) {
        if self.imports.has_mappings() {
            self.invalidate_all();
        }
    }

    /// Makes its imports what its configuration and those of the others say; `find` knows the
    /// others. What stays as it is is not interrupted.
    pub(crate) fn link(self: &Arc<Self>, find: &dyn Fn(&str) -> Option<Arc<Self>>) {
        let config = self.imports.config();
        let (mut streams, mut services) = (Vec::new(), Vec::new());
        for import in &config.imports {
            match import {
                Import::Stream(import) => {
                    let exporter = find(&import.account);
                    streams.extend(exporter.and_then(|e| StreamLink::new(import, self.name(), &e)));
                }
                Import::Service(import) => {
                    let exporter = find(&import.account);
                    let link = exporter.and_then(|e| ServiceLink::new(import, self.name(), &e));
                    services.extend(link.map(Arc::new));
                }
            }
        }
        self.link_services(services);
        self.link_streams(streams);
    }

    /// Ends all imports of an account that is gone, or whose broker is.
    pub(crate) fn unlink(self: &Arc<Self>) {
        self.link_services(Vec::new());
        self.link_streams(Vec::new());
    }

    fn link_services(&self, wanted: Vec<Arc<ServiceLink>>) {
        let mut bound = lock(&self.imports.services);
        let mut wanted: Vec<_> = wanted.into_iter().map(Some).collect();
        let mut kept = Vec::with_capacity(wanted.len());
        for binding in bound.drain(..) {
            let ServiceTarget::Import(link) = binding.receiver() else { continue };
            let same = wanted.iter_mut().find(|new| new.as_ref().is_some_and(|new| new.is_like(link)));
            match same {
                Some(new) => {
                    *new = None;
                    kept.push(binding);
                }
                None => self.unbind(&binding),
            }
        }
        for link in wanted.into_iter().flatten() {
            let subject = link.here().to_vec();
            kept.push(self.bind_receiver(&subject, ServiceTarget::Import(link)));
        }
        *bound = kept;
    }

    fn link_streams(self: &Arc<Self>, wanted: Vec<StreamLink>) {
        if wanted.is_empty() && !self.imports.has_streams.load(Relaxed) {
            return;
        }
        let mut moved = Vec::new();
        let bindings = {
            let mut streams = lock(&self.imports.streams);
            // Before the look at the subscriptions: who goes from now on looks for its shadows, and
            // who has gone is not among them.
            self.imports.has_streams.store(true, Relaxed);
            let new = streams.relink(wanted, &mut moved);
            if !new.is_empty() {
                self.interest.for_each(|sub| {
                    // Compat: what is imported is not exported any further.
                    if sub.import().is_none() {
                        streams.cast(Listener::Client(sub), &new, &mut moved);
                    }
                });
                self.for_each_of_leafs(|sub| streams.cast(Listener::Leaf(sub), &new, &mut moved));
            }
            self.imports.has_streams.store(!streams.links.is_empty(), Relaxed);
            self.imports.bindings.relink(&streams.links)
        };
        notify_watches(&moved, None);
        shadow_bindings::notify_watches(&bindings);
    }

    /// A subscription has come: it may reach streams of other accounts.
    #[inline]
    pub(crate) fn add_shadows(self: &Arc<Self>, sub: &Arc<Subscription>, shard: Option<&mut ServiceShard>) {
        self.cast_shadows(Listener::Client(sub), shard);
    }

    /// A subscription has gone.
    #[inline]
    pub(crate) fn remove_shadows(&self, sub: &Arc<Subscription>, shard: Option<&mut ServiceShard>) {
        self.take_shadows(Listener::Client(sub), shard);
    }

    /// A leaf node or a hub wants something, perhaps of a stream of another account.
    pub(crate) fn add_leaf_shadows(&self, sub: &Arc<RemoteSub>) {
        self.cast_shadows(Listener::Leaf(sub), None);
    }

    /// Removes the shadows of a leaf node or a hub that wants no more of that.
    pub(crate) fn remove_leaf_shadows(&self, sub: &Arc<RemoteSub>) {
        self.take_shadows(Listener::Leaf(sub), None);
    }

    #[inline]
    fn cast_shadows(&self, of: Listener<'_>, shard: Option<&mut ServiceShard>) {
        if self.imports.has_streams.load(Relaxed) {
            let mut moved = Vec::new();
            let mut streams = lock(&self.imports.streams);
            let links = streams.links.clone();
            streams.cast(of, &links, &mut moved);
            drop(streams);
            notify_watches(&moved, shard);
        }
    }

    #[inline]
    fn take_shadows(&self, of: Listener<'_>, shard: Option<&mut ServiceShard>) {
        if self.imports.has_streams.load(Relaxed) {
            let mut moved = Vec::new();
            lock(&self.imports.streams).take(of, &mut moved);
            notify_watches(&moved, shard);
        }
    }

    /// Something about a subscription has changed: routes that lead to its shadows are outdated.
    pub(crate) fn touch_shadows(&self, sub: &Arc<Subscription>) {
        if !self.imports.has_streams.load(Relaxed) {
            return;
        }
        let shadows = lock(&self.imports.streams).shadows.get(&Arc::as_ptr(sub).addr()).cloned();
        for shadow in shadows.iter().flatten() {
            let exporter = shadow.link.exporter.upgrade();
            if let (Some(exporter), Standing::Client(sub)) = (exporter, &shadow.stands) {
                exporter.interest.touch(sub);
            }
        }
    }
}

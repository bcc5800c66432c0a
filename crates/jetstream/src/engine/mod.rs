//! JetStream as a whole: the store, the accounts that may use it, and the streams that are open.

mod account;
mod api_counters;
mod api_future;
mod api_request;
mod api_service;
mod backup;
mod calls;
mod cluster;
mod consumers;
mod direct;
mod domain_buckets;
mod group_clock;
mod group_view;
mod groups;
mod host;
mod leaving;
mod live;
mod meta;
mod ordered_outbox;
mod own_bindings;
mod reasons;
mod removals;
mod reservations;
mod resources;
mod scrub;
mod settings;
mod sourcing;
#[cfg(test)]
mod tests;
mod waits;
mod wakeup;
mod weekly_scrub;

use arc_swap::ArcSwap;
use myelin_broker::{Account, Level, LinkedPeer};
use myelin_disk::Disk;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{AccountLimits, Storage, StreamConfig};
use myelin_replica::Peer;
use myelin_store::consumer::{Consumers, GroupConsumers, LogReport};
use myelin_store::entropy::Entropy;
use myelin_store::journal::{Journal, JournalFailed};
use myelin_store::{FoundStream, OnDurable, OpenError, Reserve, Store, StoreOptions, StoreReport, Stream};
use myelin_streams::stream::batch::InFlight;
use myelin_streams::stream::{StorageBudget, StreamCore};
use removals::Removals;
use reservations::{HeldBytes, reserved_here};
use scrub::Scrubber;
use settings::REPAIR;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

pub use account::AccountStreams;
use api_counters::ApiCounters;
pub use api_request::ApiRequest;
pub use calls::{ApiCalls, CallGuard, CallScope};
use cluster::ClusterPart;
use consumers::{CreateContext, LogListener, OpenedConsumers, ServerParts};
pub use consumers::{LiveConsumer, StreamConsumers};
pub use direct::DirectGets;
pub use group_clock::GroupClock;
pub use group_view::{ClusterHealth, GroupView, MetaView, StreamAilment};
use groups::Groups;
pub use groups::{GroupConfig, GroupSettings};
pub use host::{Host, PlacementFacts, Task, Timer};
pub use live::{CoreGuard, LiveStream, WaitingSince};
use live::{JoinTerms, ServerIdentity};
pub use meta::{FoundingTerms, ReplicaRepairs, peer_of as peer_id};
use myelin_stdx::sync::{lock, read_lock, write_lock};
pub use myelin_streams::group::KeptLogBounds;
pub use settings::{Backlog, JetStreamSettings, ServerLimits};

/// How long the end of the server waits until clients are told of it.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(50);

/// How long what has changed may wait before the watermarks state it, and how long they are not
/// looked at where nothing has.
const WATERMARK_PAUSE: Duration = Duration::from_millis(40);
const LONGEST_WATERMARK_SLEEP: Duration = Duration::from_millis(250);

/// JetStream as a whole: the store, the accounts that may use it, and their streams.
pub struct JetStream {
    pub(crate) settings: JetStreamSettings,
    /// Limits in force; those in the settings were at the start.
    limits: ArcSwap<ServerLimits>,
    pub(crate) store: Arc<Store>,
    pub(crate) host: Arc<dyn Host>,
    entropy: Arc<dyn Entropy>,
    accounts: RwLock<BTreeMap<String, Arc<AccountStreams>>>,
    found: FoundStreams,
    /// Budgets of all streams in memory and in files, against the limits of the server.
    pub(crate) memory: Arc<StorageBudget>,
    pub(crate) files: Arc<StorageBudget>,
    /// Counts of batches that all streams share.
    pub(crate) in_flight: Arc<InFlight>,
    /// Requests to the API, and those that were answered by an error.
    pub(crate) calls: ApiCounters,
    unlinked: sourcing::Unlinked,
    /// Each restore that has begun holds one.
    pub(crate) restores: Arc<backup::Restores>,
    promises: resources::Promises,
    background: BackgroundWork,
    cluster: ClusterPart,
}

/// Work on the disk that nobody waits for.
struct BackgroundWork {
    /// Files of deleted streams.
    removals: Arc<Removals>,
    /// Looks for damage.
    scrubber: Arc<Scrubber>,
    /// Has it look at all streams now and then.
    weekly: OnceLock<Arc<dyn Timer>>,
}

/// Streams that the store had at the start.
struct FoundStreams {
    /// Of accounts that were not enabled yet.
    by_account: Mutex<BTreeMap<String, Vec<FoundStream>>>,
    /// Whether there are some of which not even the names can be read.
    has_unreadable: bool,
}

fn saturated(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl JetStream {
    /// Opens the store. Its streams are there once their accounts are [enabled](Self::enable).
    ///
    /// # Errors
    /// The directory cannot be used, or another process uses it.
    pub fn open(
        settings: JetStreamSettings,
        disk: Arc<dyn Disk>,
        store: StoreOptions,
        entropy: Arc<dyn Entropy>,
        host: Arc<dyn Host>,
    ) -> Result<Arc<Self>, OpenError> {
        // Where each message is synced, no stream has to go on behind what may have been lost.
        let reserve = if settings.sync_always { Reserve::Ahead(0) } else { store.reserve };
        let store = StoreOptions { reserve, ..store };
        let boot = disk.boot();
        let (store, report) = Store::open(disk, store, Arc::clone(&entropy))?;
        log_report(&*host, &report);
        let mut found: BTreeMap<String, Vec<FoundStream>> = BTreeMap::new();
        for stream in report.streams {
            found.entry(stream.meta.account.clone()).or_default().push(stream);
        }
        found.values_mut().for_each(|found| account::mark_replaced(found));
        let budget = |bytes: u64| Arc::new(StorageBudget::new(saturated(bytes)));
        let limits = settings.limits.clone();
        Ok(Arc::new(Self {
            memory: budget(limits.max_memory),
            files: budget(limits.max_store),
            in_flight: Arc::new(InFlight::new(limits.batches.clone())),
            limits: ArcSwap::from_pointee(limits),
            settings,
            store: Arc::new(store),
            background: BackgroundWork {
                removals: Arc::default(),
                scrubber: Scrubber::new(&host),
                weekly: OnceLock::new(),
            },
            host,
            entropy,
            accounts: RwLock::default(),
            found: FoundStreams {
                by_account: Mutex::new(found),
                has_unreadable: !report.unreadable.is_empty(),
            },
            calls: ApiCounters::default(),
            unlinked: sourcing::Unlinked::default(),
            restores: Arc::default(),
            promises: resources::Promises::default(),
            cluster: ClusterPart { boot, ..ClusterPart::default() },
        }))
    }

    /// The limits in force.
    pub fn limits(&self) -> Arc<ServerLimits> {
        self.limits.load_full()
    }

    /// Other limits, from now on. What exceeds them stays.
    pub fn set_limits(&self, limits: ServerLimits) {
        self.memory.set_limit(saturated(limits.max_memory));
        self.files.set_limit(saturated(limits.max_store));
        self.in_flight.set_limits(limits.batches.clone());
        self.limits.store(Arc::new(limits));
    }

    /// Where the disk says how much may be stored: more, if there is more room on it than when the
    /// server began. `most`: the part of what is free, or held by streams, that may be used.
    pub fn follow_disk(&self, most: impl Fn(u64) -> u64) {
        let is_due = |now: &ServerLimits, most| now.is_store_of_disk && most > now.max_store / 16 * 17;
        let Ok(free) = self.store.headroom().free_bytes() else { return };
        let most = most(free.saturating_add(self.used_files()));
        if !is_due(&self.limits(), most) {
            return;
        }
        self.limits.rcu(|now| {
            let max_store = if is_due(now, most) { most } else { now.max_store };
            ServerLimits { max_store, ..ServerLimits::clone(now) }
        });
        self.files.set_limit(saturated(self.limits().max_store));
    }

    /// Takes part in groups from now on, as this server: answers the number of the store's life
    /// that begins with that. To be called once.
    ///
    /// # Errors
    /// Words for why its votes cannot be read or written: a member that forgets a vote could vote
    /// twice.
    pub fn begin_groups(&self, settings: GroupSettings) -> Result<u64, String> {
        let groups =
            Groups::begin(&self.store, &self.host, &self.background.scrubber, (settings, self.cluster.boot))?;
        let incarnation = groups.incarnation();
        let is_first = self.cluster.groups.set(groups).is_ok();
        is_first.then_some(incarnation).ok_or_else(|| "groups have begun already".to_owned())
    }

    /// There is a link for frames to another server.
    pub fn peer_linked(&self, peer: Peer, link: &LinkedPeer) {
        self.cluster.groups.get().into_iter().for_each(|groups| groups.is_linked(peer, link));
    }

    /// A link for frames to another server has ended, and its process perhaps, too.
    pub fn peer_unlinked(&self, peer: Peer, link: &LinkedPeer) {
        let groups = self.cluster.groups.get().filter(|groups| groups.is_unlinked(peer, link)).cloned();
        if let Some(groups) = groups {
            self.host.spawn_sync(Box::new(move || groups.is_lost(peer)));
        }
    }

    /// Makes a stream of this server a member of a group. One that is of none yet has to be as all
    /// others are: without messages, or with the same ones. Only for threads that may wait.
    ///
    /// # Errors
    /// The stream is not there, cannot be made a member, or this server takes part in no groups.
    pub fn join_group(&self, account: &str, stream: &str, config: &GroupConfig) -> Result<(), ApiError> {
        let groups = self.cluster.groups.get().ok_or(ApiError::CLUSTER_NOT_AVAIL)?;
        let live = self.account(account).and_then(|account| account.stream(stream));
        let live = live.ok_or(ApiError::STREAM_NOT_FOUND)?;
        let is_synced = self.settings.sync_always && live.is_stored();
        live.join(groups, config, JoinTerms::of(self.seed(), is_synced, true))
    }

    /// Lets an account use JetStream within limits, and opens the streams that it has in the store.
    /// Without limits, all that it learns from the API is that it may not. May be repeated with
    /// other limits.
    ///
    /// # Errors
    /// The server has less than the limits promise, and the account keeps what it has: without
    /// limits before it has none now. That is in the log, and
    /// [`enable_refused`](Self::enable_refused) tries again.
    pub fn enable(
        self: &Arc<Self>,
        account: &Arc<Account>,
        limits: Option<AccountLimits>,
    ) -> Result<(), ApiError> {
        let mut refused = lock(&self.promises.refused);
        let granted = self.grant(account, limits.as_ref());
        if let (Err(error), Some(limits)) = (&granted, limits.clone()) {
            let name = account.name();
            self.host
                .log(Level::Error, format_args!("Error configuring jetstream for account [{name}]: {error}"));
            refused.insert(name.to_owned(), (Arc::clone(account), limits));
        } else {
            refused.remove(account.name());
        }
        match (&granted, self.account(account.name())) {
            (Err(_), Some(_)) => {}
            (Err(_), None) => self.apply(account, None),
            (Ok(()), _) => self.apply(account, limits),
        }
        granted
    }

    /// Opens the streams of an account, as far as it has limits, and lets it use the API.
    fn apply(self: &Arc<Self>, account: &Arc<Account>, limits: Option<AccountLimits>) {
        let present = self.account(account.name());
        let streams = present.clone().unwrap_or_else(|| AccountStreams::new(self, account, limits.clone()));
        streams.come_back();
        if limits.is_some() {
            let found = lock(&self.found.by_account).remove(account.name());
            let mut found = found.unwrap_or_default();
            found.sort_by_key(|stream| (stream.meta.created, stream.id));
            found.into_iter().for_each(|stream| streams.restore(stream));
        }
        streams.set_limits(limits);
        streams.suspend_or_resume();
        streams.update_api_bindings();
        if present.is_none() {
            let mut accounts = write_lock(&self.accounts);
            accounts.insert(account.name().to_owned(), streams);
        }
        // Streams that were opened have looked for what they copy when the account was not there.
        self.seek_origins();
        self.sweep_linked();
        self.cluster.meta.get().into_iter().for_each(|meta| meta.account_is_there(account.name()));
    }

    /// An account is gone: nothing of its streams hears or tells anything, until it is
    /// [enabled](Self::enable) again. One that has none is let go of.
    pub fn disable(&self, account: &str) {
        let mut refused = lock(&self.promises.refused);
        refused.remove(account);
        if let Some(streams) = self.account(account) {
            streams.set_limits(None);
            streams.suspend_or_resume();
            streams.unbind_api();
        }
        // Whoever is at work for one still keeps it until another one is gone: nothing can be made
        // in what nobody else has.
        let mut accounts = write_lock(&self.accounts);
        accounts.retain(|_, streams| Arc::strong_count(streams) > 1 || !streams.is_unused());
    }

    /// Names of accounts that have streams in the store and were not [enabled](Self::enable) yet.
    pub fn unopened(&self) -> Vec<String> {
        let found = lock(&self.found.by_account);
        found.keys().cloned().collect()
    }

    /// Removes the streams in the store whose account was not enabled yet, or without limits.
    pub(crate) fn delete_unopened(&self, account: &str) -> Result<(), ApiError> {
        let mut all = lock(&self.found.by_account);
        let Some(found) = all.get_mut(account) else { return Ok(()) };
        while let Some(stream) = found.last() {
            self.store.delete_unopened(stream.id).map_err(ApiError::stream_delete)?;
            found.pop();
        }
        all.remove(account);
        Ok(())
    }

    /// The streams of an account that may use JetStream.
    pub fn account(&self, name: &str) -> Option<Arc<AccountStreams>> {
        read_lock(&self.accounts).get(name).cloned()
    }

    /// All accounts that may use JetStream, by name.
    pub fn accounts(&self) -> Vec<Arc<AccountStreams>> {
        let accounts = read_lock(&self.accounts);
        accounts.values().cloned().collect()
    }

    /// The journal, for the thread that runs its rounds.
    pub fn journal(&self) -> &Arc<Journal> {
        self.store.journal()
    }

    /// Tells clients that wait for messages that the server ends, while shards still run, and gives
    /// that a moment to get on its way.
    pub fn announce_shutdown(&self) {
        let streams = self.accounts().into_iter().flat_map(|account| account.streams());
        let told: Vec<_> = streams.flat_map(|stream| stream.consumers().announce_shutdown()).collect();
        let deadline = self.host.instant() + SHUTDOWN_GRACE;
        while !told.iter().all(|consumer| consumer.is_flushed()) && self.host.instant() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Makes everything durable. Nothing may come in any more.
    ///
    /// # Errors
    /// Something may be missing in the streams' files; the next start finds it in the journal, if
    /// it was promised.
    pub fn close(&self) -> Result<(), JournalFailed> {
        for account in self.accounts() {
            for stream in account.streams() {
                stream.unbind();
                stream.sourcing().close();
                if let Some(mut guard) = stream.lock_core()
                    && let Err(error) = guard.parts().0.store_mut().flush()
                {
                    let (account, name) = (stream.account_name(), stream.name());
                    let what = format_args!("Stream '{account} > {name}' could not be written: {error}");
                    self.host.log(Level::Error, what);
                }
            }
        }
        self.store.close(&|| self.host.now().unsigned_abs())?;
        if let Some(Err(error)) = self.cluster.groups.get().map(|groups| groups.end_life()) {
            self.host.log(Level::Error, format_args!("JetStream: the end of groups is not durable: {error}"));
        }
        Ok(())
    }

    /// Makes durable what answers say was made, changed or removed: one sync of each kind for all
    /// that were given since the last call.
    ///
    /// # Errors
    /// Nobody knows what the disk has of it: the answers must not be given.
    pub fn settle(&self) -> io::Result<()> {
        self.store.settle(&|| self.host.now().unsigned_abs())?;
        if self.calls.note_failed(self.journal().failed_files()) {
            // One of them may be a log of consumers, and lack what is answered for.
            let accounts = self.accounts();
            let mut streams = accounts.iter().flat_map(|account| account.streams());
            streams.try_for_each(|stream| stream.consumers().write_failed())?;
        }
        Ok(())
    }

    /// Sleeps until streams have changed and a little longer, so that what comes meanwhile is
    /// stated together. For a thread of its own. [`JetStream::wake_watermarks`] ends the sleep.
    pub fn wait_for_changes(&self) {
        self.store.wait_for_changes(LONGEST_WATERMARK_SLEEP);
        std::thread::sleep(WATERMARK_PAUSE);
    }

    /// States how far the streams have come, without a sync, and has the space that is kept for a
    /// full disk keep pace and files of deleted streams closed. Must not wait behind a sync: what a
    /// kill leaves unstated is what came since the last call.
    ///
    /// # Errors
    /// The disk: the next call states all of it.
    pub fn write_watermarks(&self) -> io::Result<()> {
        self.store.headroom().fit(self.used_files());
        let gone = self.store.take_gone();
        if !gone.is_empty() {
            self.host.spawn_upkeep(Box::new(move || drop(gone)));
        }
        self.store.write_watermarks()
    }

    /// Ends the sleep of the thread that keeps the watermarks.
    pub fn wake_watermarks(&self) {
        self.store.wake_watermarks();
    }

    /// Waits until everything that was done to a stream counts as stored (contracts.md C1). Only
    /// for threads that may.
    pub(crate) fn make_durable(&self, core: &StreamCore) -> Result<(), ApiError> {
        let store = core.store();
        loop {
            if let Some(why) = store.failure() {
                return Err(ApiError::stream_general(why));
            }
            if store.release().is_released(store.ticket()) {
                return Ok(());
            }
            // A round tells of a file that could not be synced by failing the stream, and may be
            // another thread's.
            let round = self.journal().round_now(&|| self.host.now().unsigned_abs());
            round.map_err(ApiError::stream_general)?;
        }
    }

    /// Whether what a stream was given before now counts as stored. Waits for a round, and not for
    /// more: another thread's round may not have told of it yet. Only for threads that may.
    fn make_released(&self, stream: &LiveStream) -> Result<bool, ApiError> {
        let reader = stream.reader();
        let ticket = reader.release().last_ticket();
        if !reader.release().is_released(ticket) {
            let round = self.journal().round_now(&|| self.host.now().unsigned_abs());
            round.map_err(ApiError::stream_general)?;
        }
        match stream.failure() {
            Some(why) => Err(ApiError::stream_general(why)),
            None => Ok(reader.release().is_released(ticket)),
        }
    }

    /// The consumers of a stream as its log has them, or the image of its group's. `listener` hears
    /// when that log has become durable.
    fn open_consumers(
        &self,
        store: &Stream,
        (account, config): (&str, &StreamConfig),
        listener: &Arc<LogListener>,
    ) -> Result<OpenedConsumers, OpenError> {
        if config.storage == Storage::Memory {
            let applied = store.group().map(|_| GroupConsumers::in_memory(0));
            let states = applied.as_ref().map_or_else(Consumers::in_memory, GroupConsumers::lead);
            return Ok(OpenedConsumers { states, applied });
        }
        let durability = myelin_streams::stream::storage_config(config, self.settings.sync_always).durability;
        let warn = |report: &LogReport| {
            for notice in report.notices() {
                let what = format_args!("  Consumers of stream '{account} > {}': {notice}", config.name);
                self.host.log(Level::Warn, what);
            }
        };
        if store.group().is_some() {
            let (applied, report) = self.store.open_group_consumers(store.id(), durability)?;
            warn(&report);
            return Ok(OpenedConsumers { states: applied.lead(), applied: Some(applied) });
        }
        // Who has not to wait for the log need not hear of it.
        let listener = self.settings.sync_always.then(|| Arc::clone(listener) as Arc<dyn OnDurable>);
        let (consumers, report) = self.store.open_consumers(store.id(), durability, listener)?;
        warn(&report);
        Ok(OpenedConsumers::alone(consumers))
    }

    /// Streams are there that were not: others may wait to copy them.
    pub(crate) fn seek_origins(&self) {
        if !self.unlinked.is_seeking.swap(false, AcqRel) {
            return;
        }
        for account in self.accounts() {
            account.streams().iter().for_each(|stream| stream.sourcing().seek());
        }
    }

    /// A stream is about to look for one that it copies.
    fn note_seeking(&self) {
        self.unlinked.is_seeking.store(true, Release);
    }

    /// Opens a stream anew that has failed, once. One that was deleted needs no repair, nor does
    /// another one of its name that has not failed.
    pub fn repair(&self, account: &str, stream: &str) {
        let found = self.account(account).and_then(|account| account.stream(stream));
        let of_meta = || {
            self.cluster
                .meta
                .get()
                .map(|meta| meta.meta_stream())
                .filter(|live| live.account_name() == account)
        };
        if let Some(stream) = found.or_else(of_meta) {
            stream.repair(&self.store);
        }
    }

    /// Bytes that streams of accounts take, in memory and in files: without the meta group's log,
    /// which has no limit.
    pub fn used(&self) -> [u64; 2] {
        [&self.memory, &self.files].map(|budget| u64::try_from(budget.used()).unwrap_or(0))
    }

    /// Bytes that all streams take in files.
    fn used_files(&self) -> u64 {
        let own = u64::try_from(self.cluster.own_files.used()).unwrap_or(0);
        self.used()[1].saturating_add(own)
    }

    /// Requests to the API of all accounts, and those that were answered by an error.
    pub fn calls(&self) -> (u64, u64) {
        self.calls.get()
    }

    /// Bytes that streams of all accounts have reserved, in memory and in files.
    pub fn reserved(&self) -> [i64; 2] {
        self.promises.reservations.get()
    }

    /// Holds what a stream reserves, beyond what it reserves with the configuration that it has.
    fn hold(&self, config: &StreamConfig, before: Option<&StreamConfig>) -> Result<HeldBytes, ApiError> {
        let limits = self.limits();
        let most = [limits.max_memory, limits.max_store].map(saturated);
        let had = before.map_or([0; 2], reserved_here);
        let held = self.promises.reservations.hold(had, reserved_here(config), most);
        held.ok_or(match config.storage {
            Storage::Memory => ApiError::MEMORY_RESOURCES_EXCEEDED,
            Storage::File => ApiError::STORAGE_RESOURCES_EXCEEDED,
        })
    }

    /// Context in which consumers of a stream with this configuration are made.
    fn create_context<'a>(&self, stream: &'a StreamConfig) -> CreateContext<'a> {
        let largest = i64::from(stream.max_msg_size);
        let largest = if largest > 0 { largest } else { self.settings.max_payload };
        CreateContext { stream, largest, seed: self.seed() }
    }

    /// Identity of the server, for its streams.
    fn identity(&self) -> ServerIdentity<'_> {
        ServerIdentity {
            name: &self.settings.server_name,
            id: &self.settings.server_id,
            domain: &self.settings.domain,
            backlog: self.settings.backlog,
            max_pending: self.settings.max_pending,
        }
    }

    /// Parts that all consumers work with.
    fn consumer_parts(&self) -> ServerParts<'_> {
        ServerParts {
            domain: &self.settings.domain,
            host: &self.host,
            store: &self.store,
            entropy: &self.entropy,
        }
    }

    /// A number that nobody can guess.
    pub(crate) fn seed(&self) -> u64 {
        let mut seed = [0; 8];
        self.entropy.fill(&mut seed);
        u64::from_le_bytes(seed)
    }
}

/// Logs what an operator should know of a store that was opened.
fn log_report(host: &dyn Host, report: &StoreReport) {
    for (id, why) in &report.unreadable {
        host.log(
            Level::Error,
            format_args!(
                "JetStream: the stream in streams/{:016x} is not served: what it is cannot be read: {why}. {REPAIR}",
                id.0
            ),
        );
    }
    for notice in &report.notices {
        host.log(Level::Warn, format_args!("JetStream: {notice}"));
    }
    for problem in &report.replay.problems {
        host.log(Level::Error, format_args!("JetStream: journal: {problem}"));
    }
    for kept in &report.replay.kept {
        let kept = kept.display();
        host.log(
            Level::Warn,
            format_args!("JetStream: journal: what could not be applied is kept in {kept}"),
        );
    }
}

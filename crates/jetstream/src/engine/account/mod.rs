//! One account's streams.
//!
//! An account that is gone leaves its streams at rest: unbound, with everything they have, until
//! `JetStream::enable`.

use super::JetStream;
use super::api_counters::ApiCounters;
mod adopt;
pub(in crate::engine) mod budgets;
mod install;
mod lifecycle;
mod replaced;
mod stored_record;
mod table;

use super::api_service::ApiService;
use super::domain_buckets::{BUCKETS, DomainBuckets};
use super::host::Host;
use super::live::LiveStream;
use budgets::AccountBudgets;
use myelin_broker::{Account, Binding};
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::{self, AdvisoryHeader};
use myelin_jsapi::api::info::{AccountInfo, ApiStats, TierUsage};
use myelin_jsapi::config::{self, AccountLimits, Limits, OtherStreams, Storage, StreamConfig, tier_name};
use myelin_stdx::sync::{lock, read_lock, write_lock};
use myelin_store::meta::Meta;
use myelin_store::{FoundStream, StreamId, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
pub(super) use replaced::mark_replaced;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
pub(super) use stored_record::write_of_group;
use table::StreamTable;

/// Subjects of the API that are served here. Compat: `DIRECT` and `CONSUMER.MSG` are not: direct
/// gets and pull requests have subjects of their own, stream by stream and consumer by consumer,
/// and nobody answers where there is no such thing.
const API_SUBJECTS: [&str; 19] = [
    "*",
    "STREAM.>",
    "CONSUMER.CREATE.>",
    "CONSUMER.DURABLE.>",
    "CONSUMER.NAMES.>",
    "CONSUMER.LIST.>",
    "CONSUMER.INFO.>",
    "CONSUMER.DELETE.>",
    "CONSUMER.PAUSE.>",
    "CONSUMER.UNPIN.>",
    "CONSUMER.RESET.>",
    "CONSUMER.LEADER.>",
    "CONSUMER.PEER.>",
    "META.>",
    "SERVER.>",
    "ACCOUNT.>",
    "MYELIN.WHY.>",
    "MYELIN.RECOVER.>",
    "MYELIN.SCRUB.>",
];

/// Subjects behind the prefix of a domain's API that leaf nodes and hubs are told of, whatever is
/// served there. Compat: they are mappings of the account there.
const DOMAIN_SUBJECTS: [&str; 10] = [
    "INFO",
    "STREAM.>",
    "CONSUMER.>",
    "DIRECT.>",
    "META.>",
    "SERVER.>",
    "ACCOUNT.>",
    "MYELIN.>",
    BUCKETS[0],
    BUCKETS[1],
];

/// Streams of one account, with what it may use of JetStream.
pub struct AccountStreams {
    jetstream: Weak<JetStream>,
    host: Arc<dyn Host>,
    account: Arc<Account>,
    /// `None`: it may not use JetStream.
    limits: RwLock<Option<AccountLimits>>,
    calls: ApiCounters,
    budgets: AccountBudgets,
    streams: RwLock<StreamTable>,
    api_bindings: Mutex<Vec<Arc<Binding>>>,
    /// Streams that are in the store and could not be opened.
    unrestored: Mutex<Vec<Unrestored>>,
    /// Its streams and consumers hear nothing: it may not use JetStream any more.
    is_suspended: Mutex<bool>,
    /// The server has no such account any more.
    is_gone: AtomicBool,
}

/// Stream that is in the store and could not be opened.
pub(super) struct Unrestored {
    pub(super) name: String,
    pub(super) created: Timestamp,
    id: StreamId,
}

impl Unrestored {
    fn of(found: &FoundStream) -> Self {
        let Meta { name, created, .. } = &found.meta;
        Self { name: name.clone(), created: *created, id: found.id }
    }
}

impl AccountStreams {
    pub(super) fn new(
        jetstream: &Arc<JetStream>,
        account: &Arc<Account>,
        limits: Option<AccountLimits>,
    ) -> Arc<Self> {
        Arc::new(Self {
            jetstream: Arc::downgrade(jetstream),
            host: Arc::clone(&jetstream.host),
            account: Arc::clone(account),
            budgets: AccountBudgets::new(limits.clone()),
            limits: RwLock::new(limits),
            calls: ApiCounters::default(),
            streams: RwLock::new(StreamTable::new(&jetstream.promises.reservations)),
            api_bindings: Mutex::default(),
            unrestored: Mutex::default(),
            is_suspended: Mutex::default(),
            is_gone: AtomicBool::new(false),
        })
    }

    /// The account as the broker knows it.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Limits of the account; `None`: it may use nothing.
    pub fn limits(&self) -> Option<AccountLimits> {
        read_lock(&self.limits).clone()
    }

    /// Other limits, from now on. What exceeds them stays.
    pub(super) fn set_limits(&self, limits: Option<AccountLimits>) {
        let had_tiers = self.has_tiers();
        self.budgets.set_limits(limits.clone());
        *write_lock(&self.limits) = limits;
        if self.has_tiers() != had_tiers {
            self.streams().iter().for_each(|live| self.charge(live));
        }
    }

    fn has_tiers(&self) -> bool {
        read_lock(&self.limits).as_ref().is_some_and(|limits| !limits.tiers.is_empty())
    }

    /// Has a stream count in the budget in which it belongs. Only for threads that may wait.
    fn charge(&self, live: &LiveStream) {
        if let Some(mut guard) = live.lock_core() {
            let budget = self.budgets.of(guard.parts().0.config());
            guard.parts().0.charge_to(&budget);
        }
    }

    /// Its own limits and those of the server, for a look at a configuration.
    pub(super) fn all_limits(&self, jetstream: &JetStream) -> Limits {
        let limits = jetstream.limits();
        let [memory_reserved, storage_reserved] = jetstream.reserved();
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let window = limits.duplicate_window.map_or(0, |window| window.as_nanos());
        Limits {
            account: self.limits().unwrap_or_default(),
            server: config::ServerLimits {
                max_memory: signed(limits.max_memory),
                max_storage: signed(limits.max_store),
                memory_reserved,
                storage_reserved,
                duplicate_window: i64::try_from(window).unwrap_or(i64::MAX),
            },
            has_replicas: false,
        }
    }

    /// Bytes that its streams have reserved, in memory and in files.
    pub(super) fn reserved(&self) -> [i64; 2] {
        let table = self.read();
        [Storage::Memory, Storage::File].map(|storage| table.reserved(storage))
    }

    /// Requests to the API that came here, and those that were answered by an error.
    pub(in crate::engine) fn api_calls(&self) -> (u64, u64) {
        self.calls.get()
    }

    /// Response to `INFO`.
    pub fn info(&self, domain: &str) -> AccountInfo {
        let [memory, storage] = self.budgets.used().map(|bytes| u64::try_from(bytes).unwrap_or(0));
        let [reserved_memory, reserved_storage] = self.reserved().map(|bytes| bytes.unsigned_abs());
        let (total, errors) = self.api_calls();
        let limits = self.limits().unwrap_or_default();
        let whole = TierUsage {
            memory,
            storage,
            reserved_memory,
            reserved_storage,
            streams: self.read().len() as u64,
            consumers: self.streams().iter().map(|stream| stream.consumer_count() as u64).sum(),
            limits: limits.shown(),
        };
        let tier = |(name, limits): (String, AccountLimits)| {
            // One server has streams without replicas; what a cluster has is told by all of it.
            let used = if name == tier_name(1) { whole.clone() } else { TierUsage::default() };
            (name, TierUsage { limits, ..used })
        };
        AccountInfo {
            tiers: limits.tiers.into_iter().map(tier).collect(),
            whole,
            domain: domain.to_owned(),
            api: ApiStats { total, errors, ..ApiStats::default() },
        }
    }

    /// Counts a request to the API.
    pub(super) fn count_call(&self, is_error: bool) {
        self.calls.count(is_error);
        if let Some(jetstream) = self.jetstream.upgrade() {
            jetstream.calls.count(is_error);
        }
    }

    /// Tells the system account that requests to the API were dropped.
    pub(super) fn publish_drop_advisory(&self, dropped: u64) {
        let (Some(jetstream), Some(system)) = (self.jetstream.upgrade(), self.host.system_account()) else {
            return;
        };
        let (id, settings) = (self.host.unique_id(), &jetstream.settings);
        let header = AdvisoryHeader { id: &id, time: self.host.now(), domain: &settings.domain };
        let advisory = advisory::api_limit_reached(header, &settings.server_name, dropped);
        let subject = advisory.subject.as_bytes();
        if system.has_interest(subject) {
            let mut out = MessageBuf::default();
            out.push(MessageRef { subject, payload: &advisory.body, ..MessageRef::default() });
            self.host.publish(&system, out);
        }
    }

    /// Budgets of its streams in memory and in files.
    pub(in crate::engine) fn budgets(&self) -> &AccountBudgets {
        &self.budgets
    }

    pub(super) fn host(&self) -> &dyn Host {
        &*self.host
    }

    /// Names of streams that are in the store and could not be opened.
    pub fn unrestored(&self) -> Vec<String> {
        lock(&self.unrestored).iter().map(|one| one.name.clone()).collect()
    }

    /// Removes the streams that could not be opened, with what there is of them.
    pub(super) fn delete_unrestored(&self, jetstream: &JetStream) -> Result<(), ApiError> {
        self.delete_unrestored_if(jetstream, |_| true)
    }

    /// Removes those of the streams that could not be opened that are meant.
    pub(super) fn delete_unrestored_if(
        &self,
        jetstream: &JetStream,
        is_meant: impl Fn(&Unrestored) -> bool,
    ) -> Result<(), ApiError> {
        let mut unrestored = lock(&self.unrestored);
        while let Some(at) = unrestored.iter().position(&is_meant) {
            jetstream.store.delete_unopened(unrestored[at].id).map_err(ApiError::stream_delete)?;
            unrestored.remove(at);
        }
        Ok(())
    }

    /// A stream by name.
    pub fn stream(&self, name: &str) -> Option<Arc<LiveStream>> {
        self.read().get(name)
    }

    /// All streams, by name.
    pub fn streams(&self) -> Vec<Arc<LiveStream>> {
        self.read().all()
    }

    fn read(&self) -> RwLockReadGuard<'_, StreamTable> {
        read_lock(&self.streams)
    }

    fn write(&self) -> RwLockWriteGuard<'_, StreamTable> {
        write_lock(&self.streams)
    }

    /// Receives requests, or no longer. Compat: an account that has no JetStream of its own and
    /// imports the API of another is not told that it has none.
    pub(super) fn update_api_bindings(self: &Arc<Self>) {
        let asks_another = self.limits().is_none() && self.account.imports_service(b"$JS.API.INFO");
        let mut api_bindings = lock(&self.api_bindings);
        if asks_another {
            self.unbind_all(&mut api_bindings);
        } else if api_bindings.is_empty() {
            *api_bindings = self.bind_api();
        }
    }

    /// Whether its streams take messages, its consumers acknowledgements, and its mirrors and
    /// sources copy: what there is stays, and goes on where it was when the account may use
    /// JetStream again.
    pub(super) fn suspend_or_resume(self: &Arc<Self>) {
        let suspends = self.limits().is_none();
        let mut is_suspended = lock(&self.is_suspended);
        if std::mem::replace(&mut *is_suspended, suspends) == suspends {
            return;
        }
        let act = if suspends { |stream: &Arc<LiveStream>| suspend_stream(stream) } else { resume_replica };
        self.streams().iter().for_each(act);
    }

    /// Has a stream of this server served that was not yet, if the account may use JetStream.
    pub(super) fn serve(&self, stream: &Arc<LiveStream>) {
        let is_suspended = lock(&self.is_suspended);
        if !*is_suspended {
            resume_replica(stream);
        }
    }

    /// Takes no requests any more, not even to say that it does not: the account is gone.
    pub(super) fn unbind_api(&self) {
        self.unbind_all(&mut lock(&self.api_bindings));
        self.is_gone.store(true, Release);
    }

    /// The account is there, perhaps again.
    pub(super) fn come_back(&self) {
        self.is_gone.store(false, Release);
    }

    /// Whether nothing is lost with it: the account is gone, and has no streams here.
    pub(super) fn is_unused(&self) -> bool {
        self.is_gone.load(Acquire) && self.has_no_streams()
    }

    /// Whether it has no streams here, opened or not.
    pub fn has_no_streams(&self) -> bool {
        self.read().len() == 0 && lock(&self.unrestored).is_empty()
    }

    fn unbind_all(&self, api_bindings: &mut Vec<Arc<Binding>>) {
        if !api_bindings.is_empty() {
            self.offers().iter().for_each(|subject| self.account.withdraw(subject.as_bytes()));
        }
        api_bindings.drain(..).for_each(|api| self.account.unbind(&api));
    }

    /// Subjects of which leaf nodes and hubs are told. Compat: they hear nothing of single streams
    /// and consumers, and in the system account only of the domain: who is of the same one would
    /// send its own requests.
    fn offers(&self) -> Vec<String> {
        let Some(jetstream) = self.jetstream.upgrade() else { return Vec::new() };
        let domain = &jetstream.settings.domain;
        let of_system: &[&str] = &[">"];
        let subjects = if self.account.is_system() { of_system } else { &DOMAIN_SUBJECTS };
        let of_domain = subjects.iter().map(|subject| format!("$JS.{domain}.API.{subject}"));
        let of_domain = of_domain.filter(|_| !domain.is_empty());
        let plain = (!self.account.is_system()).then(|| "$JS.API.>".to_owned());
        of_domain.chain(plain).collect()
    }

    fn bind_api(self: &Arc<Self>) -> Vec<Arc<Binding>> {
        let Some(jetstream) = self.jetstream.upgrade() else { return Vec::new() };
        let domain = &jetstream.settings.domain;
        let mut prefixes = vec!["$JS.API".to_owned()];
        if !domain.is_empty() {
            prefixes.push(format!("$JS.{domain}.API"));
        }
        self.offers().iter().for_each(|subject| self.account.offer(subject.as_bytes()));
        let api = ApiService::to(self);
        let subjects = prefixes.iter().flat_map(|prefix| API_SUBJECTS.map(|api| format!("{prefix}.{api}")));
        let bind = |subject: String| self.account.bind(subject.as_bytes(), Arc::clone(&api));
        let mut bindings: Vec<_> = subjects.map(bind).collect();
        for prefix in &prefixes[1..] {
            let buckets = DomainBuckets::to(&self.account, &self.host, prefix.len() + 1);
            for bucket in BUCKETS {
                let subject = format!("{prefix}.{bucket}");
                bindings.push(self.account.bind(subject.as_bytes(), Arc::clone(&buckets)));
            }
        }
        bindings
    }
}

impl OtherStreams for AccountStreams {
    fn find(&self, name: &str) -> Option<Arc<StreamConfig>> {
        self.stream(name).map(|stream| stream.config())
    }

    fn count(&self) -> usize {
        self.read().len()
    }

    fn list(&self) -> Vec<Arc<StreamConfig>> {
        self.streams().iter().map(|stream| stream.config()).collect()
    }

    fn reserved(&self, storage: Storage) -> i64 {
        self.read().reserved(storage)
    }

    fn is_taken_by_other(&self, stream: &str, subjects: &[String]) -> bool {
        self.read().taken().is_taken_by_other(stream, subjects)
    }
}

/// A stream of an account that may use JetStream again. One that follows is served by another
/// server.
pub(super) fn resume_replica(stream: &Arc<LiveStream>) {
    if stream.role().leads() {
        stream.serve_as_leader();
    } else {
        stream.await_direct_gets();
    }
}

/// A stream of an account that may not use JetStream now.
pub(super) fn suspend_stream(stream: &LiveStream) {
    stream.unbind();
    stream.consumers().suspend();
    stream.sourcing().suspend();
}

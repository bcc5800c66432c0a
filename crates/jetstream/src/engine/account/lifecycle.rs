//! Lifecycle of an account's streams: opened from the store, made, filled from a backup, given
//! another configuration, and removed. On the thread that answers the API.

use super::install::StreamPlace;
use super::stored_record::{stored_facts, write_config};
use super::{AccountStreams, Unrestored, suspend_stream};
use crate::engine::JetStream;
use crate::engine::consumers::{LogListener, OpenedConsumers, OwnStream, StreamConsumers};
use crate::engine::host::{Host, Timer};
use crate::engine::live::{FoundEnd, LiveStream, ReleaseListener};
use crate::engine::settings::REPAIR;
use crate::engine::sourcing::{SeenPositions, SourceReaders, copies, orphans};
use crate::engine::waits::{Promised, once_more, promise};
use myelin_broker::Level;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::stored::Stored;
use myelin_jsapi::config::{Retention, Storage, StreamConfig};
use myelin_stdx::sync::lock;
use myelin_store::consumer::GroupConsumers;
use myelin_store::{FoundStream, GroupPosition, Notice, OpenError, Seq, Stream, Timestamp};
use myelin_streams::ReplicaRole;
use myelin_streams::stream::{self, StreamCore};
use myelin_wire::message_buf::MessageBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Slices of what is due that a change does before others have their turn. Compat: what little
/// there is to do is done before sources that were added begin to copy.
const SLICES_AT_ONCE: u32 = 8;

impl AccountStreams {
    /// Opens a stream that the store has. One that cannot be opened stays as it is.
    pub(in crate::engine) fn restore(self: &Arc<Self>, found: FoundStream) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let (name, account) = (&found.meta.name, self.account.name());
        let leave = |why: &dyn std::fmt::Display| self.leave_unrestored(&found, why);
        let stored = match Stored::decode(&found.meta.config) {
            Ok(stored) if stored.unfinished => {
                return self.remove_unfinished(&jetstream, &found, &stored.config);
            }
            _ if self.stream(name).is_some() => {
                return leave(&"is in the store twice: the newer one is not served");
            }
            Ok(stored) => stored,
            Err(why) => {
                return leave(&format_args!("is not served: its configuration: {why}. {REPAIR}"));
            }
        };
        let (of_group, config) = (stored.is_of_group(), stored.config);
        let (lifetimes_until, in_place_of) = (stored.lifetimes_until, stored.in_place_of);
        self.host.log(Level::Info, format_args!("  Starting restore for stream '{account} > {name}'"));
        let began = self.host.instant();
        let settings = stream::storage_config(&config, jetstream.settings.sync_always);
        let mut seen = SeenPositions::default();
        let has_sources = !config.sources.is_empty();
        let mut visit = |seq, headers: &[u8]| {
            if has_sources {
                seen.see(seq, headers);
            }
        };
        match jetstream.store.open_stream_before(found.id, settings, self.host.now(), &mut visit) {
            Ok((store, report)) => {
                self.log_notices(name, &report.notices);
                let (messages, listener) = (store.state().totals.messages, Arc::default());
                let (states, are_lost) = match self.find_consumers(&jetstream, &store, &config, &listener) {
                    Ok(found) => found,
                    Err(error) => {
                        return leave(&format_args!("is not served: its consumers: {error}. {REPAIR}"));
                    }
                };
                let found_end = Some(report.found_end(store.state().totals.last_seq));
                let has_lost_log = of_group && store.group().is_none();
                let origin = StreamOrigin::found(found.meta.created, (of_group, has_lost_log));
                let origin = StreamOrigin { lifetimes_until, seen, found_end, ..origin };
                let live = self.begin(&jetstream, config, store, (states, &*listener), origin);
                live.set_in_place_of(in_place_of);
                live.note_lost(found.id, &report);
                if are_lost {
                    live.note_damage();
                }
                if has_lost_log {
                    self.log_lost_log(name);
                }
                let took = milliseconds(self.host.instant().duration_since(began));
                self.host.log(
                    Level::Info,
                    format_args!("  Restored {messages} messages for stream '{account} > {name}' in {took}"),
                );
            }
            Err(error) => leave(&format_args!("is not served: {error}. {REPAIR}")),
        }
    }

    /// Leaves a stream that cannot be opened as it is.
    fn leave_unrestored(&self, found: &FoundStream, why: &dyn std::fmt::Display) {
        lock(&self.unrestored).push(Unrestored::of(found));
        let (name, account) = (&found.meta.name, self.account.name());
        self.host.log(Level::Error, format_args!("  Stream '{account} > {name}' {why}"));
    }

    /// Makes a stream whose configuration was checked. It is there for good with
    /// [`JetStream::settle`].
    pub(crate) fn create(
        self: &Arc<Self>,
        jetstream: &Arc<JetStream>,
        config: StreamConfig,
        now: Timestamp,
    ) -> Result<Arc<LiveStream>, ApiError> {
        self.create_as(jetstream, config, now, ReplicaRole::Leader)
    }

    /// Makes a stream whose log is that of a group from the first message on. It follows.
    pub(in crate::engine) fn create_replica(
        self: &Arc<Self>,
        jetstream: &Arc<JetStream>,
        config: StreamConfig,
        created: Timestamp,
    ) -> Result<Arc<LiveStream>, ApiError> {
        self.create_as(jetstream, config, created, ReplicaRole::Follower)
    }

    fn create_as(
        self: &Arc<Self>,
        jetstream: &Arc<JetStream>,
        config: StreamConfig,
        now: Timestamp,
        role: ReplicaRole,
    ) -> Result<Arc<LiveStream>, ApiError> {
        if lock(&self.unrestored).iter().any(|one| one.name == config.name) {
            return Err(ApiError::stream_create(
                "a stream of this name is in the store and could not be restored",
            ));
        }
        let _held = jetstream.hold(&config, None)?;
        let settings = stream::storage_config(&config, jetstream.settings.sync_always);
        let name = &config.name;
        let mut store = match config.storage {
            Storage::Memory => Stream::in_memory(settings, jetstream.seed(), now),
            Storage::File => {
                let (config, of_group) = (config.clone(), !role.leads());
                let blob = Stored { created: now, config, of_group, ..Stored::default() }.encode();
                let made = jetstream.store.note_stream(self.account.name(), name, &blob, settings, now);
                made.map_err(ApiError::stream_create)?
            }
        };
        let listener = Arc::default();
        let whose = (self.account.name(), &config);
        let position = GroupPosition { epoch: 1, term: 0, index: 0, chain: 0, commit: 0 };
        let joined = if role.leads() { Ok(()) } else { store.join_group(position, now) };
        let opened = joined.map_err(ApiError::stream_create).and_then(|()| {
            jetstream.open_consumers(&store, whose, &listener).map_err(ApiError::stream_create)
        });
        let states = opened.inspect_err(|_| {
            // The next start must not find what was refused.
            if config.storage == Storage::File
                && let Err(left) = jetstream.store.delete_stream(&mut store)
            {
                let (account, name) = (self.account.name(), &config.name);
                let what =
                    format_args!("JetStream stream '{account} > {name}' was not made, and is left: {left}");
                self.host.log(Level::Error, what);
            }
        })?;
        let origin = StreamOrigin { of_group: !role.leads(), ..StreamOrigin::new(now) };
        let live = self.begin(jetstream, config, store, (states, &listener), origin);
        jetstream.seek_origins();
        Ok(live)
    }

    /// The consumers of a stream, and whether they are lost: where it is in a group others have
    /// them.
    fn find_consumers(
        &self,
        jetstream: &JetStream,
        store: &Stream,
        config: &StreamConfig,
        listener: &Arc<LogListener>,
    ) -> Result<(OpenedConsumers, bool), OpenError> {
        match jetstream.open_consumers(store, (self.account.name(), config), listener) {
            Err(error) if store.group().is_some() => {
                self.log_consumers(&config.name, &error);
                let applied = GroupConsumers::in_memory(0);
                Ok((OpenedConsumers { states: applied.lead(), applied: Some(applied) }, true))
            }
            opened => opened.map(|states| (states, false)),
        }
    }

    fn log_consumers(&self, name: &str, error: &dyn std::fmt::Display) {
        let account = self.account.name();
        self.host.log(Level::Error, format_args!("  Consumers of stream '{account} > {name}': {error}"));
    }

    fn log_lost_log(&self, name: &str) {
        let account = self.account.name();
        let what = "has lost the log of its group: it is not served before the cluster says whose it is";
        self.host.log(Level::Error, format_args!("  Stream '{account} > {name}' {what}"));
    }

    fn log_notices(&self, name: &str, notices: &[Notice]) {
        let account = self.account.name();
        for notice in notices {
            self.host.log(Level::Warn, format_args!("  Stream '{account} > {name}': {notice}"));
        }
    }

    /// Removes a stream that was being filled when the server ended.
    fn remove_unfinished(&self, jetstream: &JetStream, found: &FoundStream, config: &StreamConfig) {
        let (account, name) = (self.account.name(), &found.meta.name);
        let settings = stream::storage_config(config, jetstream.settings.sync_always);
        let opened = jetstream.store.open_stream(found.id, settings, self.host.now());
        let removed = opened.and_then(|(mut store, _)| jetstream.store.delete_stream(&mut store));
        let line = match removed {
            Ok(()) => "was not restored to its end, and was removed".to_owned(),
            Err(error) => format!("was not restored to its end, and cannot be removed: {error}"),
        };
        self.host.log(Level::Warn, format_args!("  Stream '{account} > {name}' {line}"));
    }

    /// Takes an open stream into service. That others may find it now is for the caller to tell
    /// ([`JetStream::seek_origins`]): of an account that is opened nothing is found before its end.
    pub(super) fn begin(
        self: &Arc<Self>,
        jetstream: &Arc<JetStream>,
        config: StreamConfig,
        store: Stream,
        (OpenedConsumers { states, applied }, log): (OpenedConsumers, &LogListener),
        origin: StreamOrigin,
    ) -> Arc<LiveStream> {
        let StreamOrigin { created, lifetimes_until, found_end, is_served, .. } = origin;
        let listener = Arc::new(ReleaseListener(Mutex::default()));
        store.on_release(Arc::clone(&listener) as Arc<dyn myelin_store::OnRelease>);
        let name = config.name.clone();
        let consumers = StreamConsumers::new(&name, jetstream.consumer_parts(), &self.account, states);
        let (server, sourcing) = (jetstream.identity(), SourceReaders::of_stream(&self.jetstream));
        let end = FoundEnd::new(found_end, store.state().totals.last_seq);
        let role = origin.role(applied.is_some());
        let known = (lifetimes_until, found_end);
        let core = self.create_core(jetstream, config, store, (&consumers, applied, role), known);
        let is_due = core.next_due().is_some();
        let live =
            LiveStream::new(&name, created, core, &self.account, &self.host, (&consumers, sourcing), server);
        *lock(&listener.0) = Arc::downgrade(&live);
        origin.of_group.then(|| live.note_of_group(origin.has_lost_log));
        live.set_place(Box::new(StreamPlace { home: Arc::downgrade(self), live: Arc::downgrade(&live) }));
        consumers.attach(&(Arc::clone(&live) as Arc<dyn OwnStream>));
        log.attach(&consumers);
        let (config, role) = (live.config(), live.role());
        if role.leads() {
            consumers.restore(&jetstream.create_context(&config));
            consumers.write_restored();
        } else {
            // Whoever begins to lead begins them.
            consumers.set_role(role, None);
        }
        live.sourcing().opened(&consumers, &config, end, origin.seen);
        if is_served {
            live.bind();
        }
        if is_due {
            live.fire();
        }
        if role.leads() && config.retention != Retention::Limits && consumers.count() > 0 {
            // What a crash kept from being removed is needed by nobody. Where there is no consumer
            // at all, their log may be what is lost, and all messages would go with it.
            live.reconcile();
        }
        self.write().insert(&live);
        if orphans::has_source_consumers(&live) {
            jetstream.note_linked(&live);
        }
        if role.leads() && is_served {
            live.sourcing().begin(&live, &config);
        }
        // The account may have lost JetStream while this was made.
        if *lock(&self.is_suspended) || !is_served {
            suspend_stream(&live);
        }
        live
    }

    /// The core of a stream: one of a group follows.
    fn create_core(
        &self,
        jetstream: &JetStream,
        config: StreamConfig,
        store: Stream,
        (consumers, applied, role): (&Arc<StreamConsumers>, Option<GroupConsumers>, ReplicaRole),
        (lifetimes_until, found_end): (Seq, Option<Seq>),
    ) -> StreamCore {
        let groups = jetstream.cluster.groups.get();
        let is_servers_own = groups.is_some_and(|groups| Arc::ptr_eq(&groups.account, &self.account));
        let server = match config.storage {
            _ if is_servers_own => &jetstream.cluster.own_files,
            Storage::Memory => &jetstream.memory,
            Storage::File => &jetstream.files,
        };
        let settings = stream::StreamSettings {
            domain: jetstream.settings.domain.clone(),
            account: self.budgets.of(&config),
            server: Arc::clone(server),
            in_flight: Arc::clone(&jetstream.in_flight),
            always_syncs: jetstream.settings.sync_always,
            max_payload: usize::try_from(jetstream.settings.max_payload).unwrap_or(usize::MAX),
            interest: Arc::clone(consumers.interest()) as Arc<dyn stream::Interest>,
            schedule_index: consumers.schedule_index(config.storage),
            found_end,
            seed: jetstream.seed(),
            role,
            ..stream::StreamSettings::default()
        };
        let mut core = StreamCore::new(Arc::new(config), store, settings, self.host.now());
        if let Some(applied) = applied
            && let Err(error) = core.group_consumers(consumers.join_group(), applied)
        {
            self.log_consumers(&core.config().name, &error);
        }
        core.watch_consumers(consumers.activity());
        core.catch_up(lifetimes_until, self.host.now());
        core
    }

    /// Gives a stream another configuration, which was checked.
    pub(crate) async fn update(
        &self,
        jetstream: &Arc<JetStream>,
        live: &Arc<LiveStream>,
        config: StreamConfig,
    ) -> Result<(), ApiError> {
        // Other accounts change theirs while this is written down.
        let _held = jetstream.hold(&config, Some(&live.config()))?;
        if config.mirror.is_none() && live.config().mirror.is_some() {
            // From here on its sequences are its own.
            live.sourcing().end();
        }
        let begins_to_lose =
            config.retention != Retention::Limits && live.config().retention == Retention::Limits;
        // From here on messages go unless somebody is known to want them. The leader sees to that.
        let is_held = begins_to_lose && live.role().leads();
        let held = if is_held { copies::hold(jetstream, live).await } else { Ok(Vec::new()) };
        let updated = match &held {
            Ok(_) => self.update_core(jetstream, live, config).await,
            Err(error) => Err(error.clone()),
        };
        live.sourcing().change(live, &live.config());
        if updated.is_err() && begins_to_lose {
            orphans::sweep(jetstream, live);
        }
        let old = updated?;
        self.write().insert(live);
        if live.config().num_replicas != old.num_replicas {
            self.charge(live);
        }
        orphans::sweep_origins(jetstream, &self.account, &old);
        live.bind();
        if *lock(&self.is_suspended) {
            // The account has lost JetStream while this was written down.
            suspend_stream(live);
        }
        let retention = live.config().retention;
        if retention != old.retention {
            live.consumers().set_retention(retention);
            live.downstreams().relink_all();
            copies::end_followed(live, &held.unwrap_or_default()).await;
            orphans::sweep(jetstream, live);
            live.reconcile();
        }
        self.run_due_now(live).await?;
        if live.config().allow_msg_ttl && !old.allow_msg_ttl {
            Self::keep_lifetimes(jetstream, live).await;
        }
        Ok(())
    }

    /// Answers the configuration that it had. The stream goes on while the disk takes the new one
    /// down.
    async fn update_core(
        &self,
        jetstream: &Arc<JetStream>,
        live: &Arc<LiveStream>,
        config: StreamConfig,
    ) -> Result<Arc<StreamConfig>, ApiError> {
        let (id, old, known) = stored_facts(live)?;
        // What comes while this is written down may have a lifetime, too, which nobody looks at
        // yet: up to where that is so is said afterwards.
        let has_ttl_anew = config.allow_msg_ttl && !old.allow_msg_ttl;
        let lifetimes_until = if has_ttl_anew { Seq::MAX } else { known };
        write_config(jetstream, (live, id), &config, lifetimes_until).await?;
        if self.read().taken().is_taken_by_other(&config.name, &config.subjects) {
            // A stream was restored meanwhile, which waits for no other call.
            write_config(jetstream, (live, id), &old, known).await?;
            return Err(ApiError::STREAM_SUBJECT_OVERLAP);
        }
        let updated = {
            let mut guard = live.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
            let (core, effects) = guard.parts();
            core.update(Arc::new(config), self.host.now(), effects)
        };
        if let Err(error) = updated {
            // The next start must not find what was refused.
            write_config(jetstream, (live, id), &old, known).await?;
            return Err(ApiError::stream_update(error));
        }
        Ok(old)
    }

    /// Writes down up to which message lifetimes are to be looked for after a start, now that they
    /// were. What cannot be written costs the next start time, and nothing else.
    async fn keep_lifetimes(jetstream: &Arc<JetStream>, live: &Arc<LiveStream>) {
        let Ok((id, config, lifetimes_until)) = stored_facts(live) else { return };
        let _ = write_config(jetstream, (live, id), &config, lifetimes_until).await;
    }

    /// Does all that is due in a stream now, slice by slice: publishers need not wait for all of
    /// it. What a new configuration leaves no room for goes, and what nobody needs after
    /// [`LiveStream::reconcile`].
    ///
    /// Compat: it is gone before the answer.
    pub(in crate::engine) async fn run_due_now(&self, live: &LiveStream) -> Result<(), ApiError> {
        for slices in 1.. {
            let mut guard = live.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
            let now = self.host.now();
            let (core, effects) = guard.parts();
            if core.next_due().is_none_or(|at| at > now) {
                return Ok(());
            }
            core.due(now, effects);
            drop(guard);
            if slices % SLICES_AT_ONCE == 0 {
                once_more().await;
            }
        }
        Ok(())
    }

    /// Removes a stream with its messages and its consumers; `out`: that they are gone is told.
    pub(crate) async fn delete(
        &self,
        jetstream: &Arc<JetStream>,
        live: &Arc<LiveStream>,
        out: &mut MessageBuf,
    ) -> Result<(), ApiError> {
        let leaving = LeavingStream { streams: self, live };
        let (server, doomed) = (Arc::clone(jetstream), Arc::clone(live));
        let deleted = on_sync_thread(&*self.host, move || end_stream(&server, &doomed));
        deleted.await.unwrap_or_else(|| Err(ApiError::stream_delete("a panic while it was deleted")))?;
        // Only now: a stream that could not be deleted keeps them.
        live.consumers().end_all("Consumer Deleted", out).await;
        drop(leaving);
        orphans::sweep_origins(jetstream, &self.account, &live.config());
        Ok(())
    }

    /// As [`delete`](Self::delete), for a thread that may wait: what is assigned is carried out one
    /// after the other, and a shard may have ended that would have to come for that.
    pub(in crate::engine) fn delete_and_wait(
        &self,
        jetstream: &Arc<JetStream>,
        live: &Arc<LiveStream>,
        out: &mut MessageBuf,
    ) -> Result<(), ApiError> {
        self.end_and_wait(jetstream, live, out)?;
        orphans::sweep_origins(jetstream, &self.account, &live.config());
        Ok(())
    }

    /// Removes a stream that was made just now and is not durable, unless something was stored in
    /// it meanwhile. Answers whether it is gone. For threads that may wait.
    pub(in crate::engine) fn delete_unused(&self, jetstream: &JetStream, live: &Arc<LiveStream>) -> bool {
        let _leaving = LeavingStream { streams: self, live };
        let Some(mut guard) = live.lock_core() else { return true };
        if guard.parts().0.state().totals.last_seq > 0 {
            return false;
        }
        live.unbind();
        // From here on nothing is stored in it.
        let core = guard.into_core().filter(|_| live.is_stored());
        if let Some(mut core) = core {
            live.consumers().end_log();
            match jetstream.store.state_removed(core.store().id()) {
                Ok(()) => {
                    let files = jetstream.store.retire_stream(core.store_mut());
                    jetstream.background.removals.add(&jetstream.host, files);
                }
                // The next start removes it, if it finds it.
                Err(_) => jetstream.store.abandon_stream(core.store_mut()),
            }
        }
        live.consumers().end_all_and_wait("Consumer Deleted", &mut MessageBuf::default());
        true
    }

    /// Removes a stream with its messages and its consumers. What it has at its origins stays: a
    /// replica that takes its place goes on with that. For threads that may wait.
    pub(super) fn end_and_wait(
        &self,
        jetstream: &Arc<JetStream>,
        live: &Arc<LiveStream>,
        out: &mut MessageBuf,
    ) -> Result<(), ApiError> {
        let leaving = LeavingStream { streams: self, live };
        end_stream(jetstream, live)?;
        live.consumers().end_all_and_wait("Consumer Deleted", out);
        drop(leaving);
        Ok(())
    }
}

/// Time in the reference's form: `1ms`, and nothing is `0s`.
fn milliseconds(time: Duration) -> String {
    match time.as_millis() as u64 {
        0 => "0s".to_owned(),
        millis => format!("{:?}", Duration::from_millis(millis)),
    }
}

/// A stream that is being deleted, however that ends, also by a panic. If its core is gone, it
/// leaves the account's table with this, and whoever copies it looks for another one.
struct LeavingStream<'a> {
    streams: &'a AccountStreams,
    live: &'a Arc<LiveStream>,
}

impl Drop for LeavingStream<'_> {
    fn drop(&mut self) {
        if !self.live.is_gone() {
            return self.live.bind();
        }
        self.streams.write().remove(self.live);
        if self.goes_on_elsewhere() {
            self.live.sourcing().suspend();
        } else {
            self.live.sourcing().end();
        }
        self.live.downstreams().reconnect_all();
    }
}

impl LeavingStream<'_> {
    /// Whether the cluster has the stream, or has it again: what there is at its origins is that
    /// one's.
    fn goes_on_elsewhere(&self) -> bool {
        let jetstream = self.streams.jetstream.upgrade();
        let meta = jetstream.as_ref().and_then(|jetstream| jetstream.meta());
        meta.is_some_and(|meta| meta.view().get(self.live.account_name(), self.live.name()).is_some())
    }
}

/// A removal that is being stated. While nobody knows whether it is, the stream must not take
/// anything that it would have to keep.
struct UnsureRemoval<'a> {
    jetstream: &'a JetStream,
    doomed: &'a LiveStream,
    is_sure: bool,
}

impl Drop for UnsureRemoval<'_> {
    fn drop(&mut self) {
        if !self.is_sure
            && let Some(mut guard) = self.doomed.lock_core()
        {
            self.jetstream.store.abandon_stream(guard.parts().0.store_mut());
        }
    }
}

/// Log of the consumers of a stream that is being removed: nothing is written to it, unless the
/// stream stays.
struct SuspendedLog<'a>(&'a LiveStream);

impl<'a> SuspendedLog<'a> {
    fn of(doomed: &'a LiveStream) -> Self {
        doomed.consumers().suspend_log();
        Self(doomed)
    }
}

impl Drop for SuspendedLog<'_> {
    fn drop(&mut self) {
        if !self.0.is_gone() {
            self.0.consumers().resume_log();
        }
    }
}

/// Removes all that a stream has. Its core is nobody's while the disk takes that down, and does not
/// come back then.
fn end_stream(jetstream: &JetStream, doomed: &LiveStream) -> Result<(), ApiError> {
    let mut guard = doomed.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
    doomed.unbind();
    let _log = SuspendedLog::of(doomed);
    if doomed.is_stored() {
        let id = guard.parts().0.store().id();
        drop(guard);
        let mut removal = UnsureRemoval { jetstream, doomed, is_sure: false };
        let stated = jetstream.store.state_removed(id);
        removal.is_sure = stated.as_ref().err().is_none_or(|refused| refused.is_there);
        drop(removal);
        stated.map_err(|refused| ApiError::stream_delete(refused.error))?;
        doomed.consumers().end_log();
        guard = doomed.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
    }
    // Gone before its files are, also if that panics.
    let core = guard.into_core();
    let files =
        core.filter(|_| doomed.is_stored()).map(|mut core| jetstream.store.retire_stream(core.store_mut()));
    files.into_iter().for_each(|files| jetstream.background.removals.add(&jetstream.host, files));
    Ok(())
}

/// Does what waits for a disk where that keeps nobody waiting. Broken by a panic.
pub(super) fn on_sync_thread<R: Send + 'static>(
    host: &dyn Host,
    task: impl FnOnce() -> R + Send + 'static,
) -> Promised<R> {
    let (promise, promised) = promise();
    host.spawn_sync(Box::new(move || promise.keep(task())));
    promised
}

/// Facts about a stream that are neither in its configuration nor in its log.
pub(super) struct StreamOrigin {
    created: Timestamp,
    /// As [`Stored::lifetimes_until`] says.
    lifetimes_until: Seq,
    /// Positions of its sources.
    seen: SeenPositions,
    /// The last sequence that was found of it, if it was opened: what positions of its sources and
    /// its schedules say of later ones is lost. `None`: all that it has.
    found_end: Option<Seq>,
    /// Whether it is written down that its log is of a group, and whether that is lost.
    of_group: bool,
    has_lost_log: bool,
    /// Whether it is served at once; else whoever waits for that [says](AccountStreams::serve) so.
    is_served: bool,
}

impl StreamOrigin {
    /// As [`Stored::lifetimes_until`] says.
    pub(super) fn with_lifetimes(self, lifetimes_until: Seq) -> Self {
        Self { lifetimes_until, ..self }
    }

    /// Facts about a stream that is made now, or was filled from a backup.
    pub(super) fn new(created: Timestamp) -> Self {
        let seen = SeenPositions::default();
        let (of_group, has_lost_log, is_served) = (false, false, true);
        Self { created, lifetimes_until: 0, seen, found_end: None, of_group, has_lost_log, is_served }
    }

    /// Facts about a stream that was found: whether it is of a group, and has lost its log. It is
    /// not served at first then.
    fn found(created: Timestamp, (of_group, has_lost_log): (bool, bool)) -> Self {
        Self { of_group, has_lost_log, ..Self::new(created).unserved(has_lost_log) }
    }

    /// Role in which it begins: whether it has consumers of a group says whether its log does.
    fn role(&self, has_group: bool) -> ReplicaRole {
        if has_group || self.has_lost_log { ReplicaRole::Follower } else { ReplicaRole::Leader }
    }

    /// Has the stream not be served at first, if so.
    pub(super) fn unserved(self, is_unserved: bool) -> Self {
        Self { is_served: !is_unserved, ..self }
    }
}

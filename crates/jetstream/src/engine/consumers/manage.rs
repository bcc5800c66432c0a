//! Making, changing and ending consumers: on the thread that answers the API, one at a time.

use super::StreamConsumers;
use super::holding::DELETED;
use super::live::LiveConsumer;
use super::log_upkeep::Leadership;
use super::reserved_names::is_position;
use super::schedule_index::is_schedule_index;
use super::wakeups::FilterEntry;
use crate::engine::waits::{Promised, block_on};
use myelin_broker::Level;
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::Action;
use myelin_jsapi::api::consumer::ConsumerInfo;
use myelin_jsapi::api::why::{ConsumerCause, Holds};
use myelin_jsapi::config::{ConsumerLimits, Retention, StreamConfig};
use myelin_jsapi::consumer::config::stored::Stored;
use myelin_jsapi::consumer::config::{ConsumerConfig, DeliverPolicy, OtherConsumers};
use myelin_stdx::sync::{lock, read_lock, write_lock};
use myelin_store::consumer::{ConsumerId, Consumers};
use myelin_store::{Filter, ReadError, Seq, Timestamp};
use myelin_streams::ReplicaRole;
use myelin_streams::consumer::{ConsumerCore, ConsumerInit, StateHandle, filter_of, rules};
use myelin_subject::is_subset;
use myelin_wire::message_buf::MessageBuf;
use std::sync::{Arc, Mutex, Weak};

/// Context that the stream's consumers share with those who make them.
pub(in crate::engine) struct CreateContext<'a> {
    pub(in crate::engine) stream: &'a StreamConfig,
    /// Bytes of the largest message that may come.
    pub(in crate::engine) largest: i64,
    pub(in crate::engine) seed: u64,
}

impl StreamConsumers {
    /// The configurations of all consumers.
    pub(in crate::engine) fn configs(&self) -> Vec<Arc<ConsumerConfig>> {
        read_lock(&self.configs).values().cloned().collect()
    }

    /// The configuration of a consumer.
    pub fn config(&self, name: &str) -> Option<Arc<ConsumerConfig>> {
        read_lock(&self.configs).get(name).cloned()
    }

    /// Opens the consumers that the log holds.
    pub(in crate::engine) fn restore(self: &Arc<Self>, context: &CreateContext<'_>) {
        for (id, name, blob) in self.stored_consumers() {
            self.begin_stored(id, &name, &blob, context);
        }
    }

    /// Consumers that the log holds: ids, names, and what is stored of their configurations.
    pub(super) fn stored_consumers(&self) -> Vec<(ConsumerId, String, Vec<u8>)> {
        let states = lock(&self.stored);
        let consumers = states
            .iter()
            .filter(|(_, consumer)| !is_position(consumer.name()) && !is_schedule_index(consumer.name()));
        consumers.map(|(id, consumer)| (id, consumer.name().to_owned(), consumer.config().to_vec())).collect()
    }

    /// Opens a consumer that the log holds.
    pub(super) fn begin_stored(
        self: &Arc<Self>,
        id: ConsumerId,
        name: &str,
        blob: &[u8],
        context: &CreateContext<'_>,
    ) {
        let stored = match Stored::decode(blob) {
            Ok(stored) => stored,
            Err(why) => {
                let what =
                    format_args!("  Consumer '{} > {name}' cannot be read and rests: {why}", self.stream);
                return self.host.log(Level::Error, what);
            }
        };
        let config = Arc::new(stored.config);
        let state_handle = StateHandle::new(&self.stored, id);
        if let Some(init) = self.init(&config, stored.created, state_handle, context) {
            let mut core = ConsumerCore::resume(init, self.host.now());
            if self.log.is_of_group() {
                core.was_active(self.log.active_times(&self.host).of(id));
            }
            self.begin(&config, core, true).wake();
        }
    }

    fn init(
        &self,
        config: &Arc<ConsumerConfig>,
        created: Timestamp,
        state_handle: StateHandle,
        context: &CreateContext<'_>,
    ) -> Option<ConsumerInit> {
        Some(ConsumerInit {
            stream: self.stream.to_string(),
            config: Arc::clone(config),
            created,
            reader: self.stream().ok()?.reader(),
            state_handle,
            retention: context.stream.retention,
            largest: context.largest,
            seed: context.seed,
        })
    }

    /// Makes a consumer whose configuration was checked. It delivers when somebody has
    /// [woken](LiveConsumer::wake_behind) it.
    pub(in crate::engine) fn create(
        self: &Arc<Self>,
        mut config: ConsumerConfig,
        context: &CreateContext<'_>,
        out: &mut MessageBuf,
    ) -> Result<Arc<LiveConsumer>, ApiError> {
        let now = self.host.now();
        let keeps_one = context.stream.max_msgs_per_subject == 1;
        config.places.lasts_through = match config.deliver_policy {
            DeliverPolicy::LastPerSubject if !keeps_one => self.stream()?.reader().state().totals.last_seq,
            _ => 0,
        };
        let config = Arc::new(config);
        // In a group those in memory go on with the next leader, as they do in the reference.
        let is_stored = !config.direct && (!config.mem_storage || self.log.is_of_group());
        let states = self.interest.states(is_stored);
        let id = add(states, &config, now)?;
        let state_handle = StateHandle::new(states, id);
        let undo = |error: ApiError| {
            // It was just added.
            let _ = lock(states).remove(id);
            error
        };
        let init = self
            .init(&config, now, state_handle.clone(), context)
            .ok_or_else(|| undo(ApiError::STREAM_NOT_FOUND))?;
        let core = ConsumerCore::create(init, keeps_one, now)
            .map_err(|error: ReadError| undo(ApiError::consumer_create(error)))?;
        self.flush_new(&state_handle, now).map_err(|error| undo(ApiError::consumer_create(error)))?;
        let live = self.begin(&config, core, is_stored);
        if !config.direct {
            self.add_action_advisory(&config.name, Action::Create, out);
        }
        Ok(live)
    }

    /// Takes a core into service.
    fn begin(
        self: &Arc<Self>,
        config: &Arc<ConsumerConfig>,
        core: ConsumerCore,
        is_stored: bool,
    ) -> Arc<LiveConsumer> {
        let name = &config.name;
        self.interest.set(core.state_handle().id(), is_stored, config);
        let live = LiveConsumer::new(name, core, self);
        live.set_filter_entries(self.filter_entries(config, &live));
        write_lock(&self.configs).insert(name.clone(), Arc::clone(config));
        write_lock(&self.live).insert(name.clone(), Arc::clone(&live));
        self.bind();
        live.bind(&self.subjects(config));
        live.listen_at(config);
        live
    }

    /// Nobody asks or acknowledges, and nothing is delivered, until [`resume`](Self::resume).
    pub(in crate::engine) fn suspend(&self) {
        self.unbind();
        self.all().iter().for_each(|live| live.suspend());
    }

    /// Goes on after [`suspend`](Self::suspend).
    pub(in crate::engine) fn resume(&self) {
        for live in self.all() {
            self.bind();
            if let Some(config) = self.config(live.name()) {
                live.resume(&self.subjects(&config));
            }
        }
    }

    /// Where a consumer is asked for messages.
    pub(super) fn subjects(&self, config: &ConsumerConfig) -> Vec<String> {
        // Compat: one that pushes answers too, that it does.
        if config.direct {
            return Vec::new();
        }
        let (stream, name) = (&self.stream, &config.name);
        let subject = |prefix: &str| format!("{prefix}.CONSUMER.MSG.NEXT.{stream}.{name}");
        let mut subjects = vec![subject("$JS.API")];
        if !self.domain.is_empty() {
            subjects.push(subject(&format!("$JS.{}.API", self.domain)));
        }
        subjects
    }

    fn filter_entries(&self, config: &ConsumerConfig, live: &Arc<LiveConsumer>) -> Vec<Arc<FilterEntry>> {
        if filter_of(config).is_all() {
            return Vec::new();
        }
        config.filters().map(|filter| self.wakeups.add(filter, live)).collect()
    }

    /// As [`update`](Self::update), for threads that may wait.
    pub(in crate::engine) fn update_and_wait(
        &self,
        live: &Arc<LiveConsumer>,
        config: ConsumerConfig,
    ) -> Result<Arc<ConsumerConfig>, ApiError> {
        block_on(self.update(live, config))
    }

    /// Gives a consumer another configuration, which was checked. Returns it.
    pub(in crate::engine) async fn update(
        &self,
        live: &Arc<LiveConsumer>,
        config: ConsumerConfig,
    ) -> Result<Arc<ConsumerConfig>, ApiError> {
        self.update_checked(live, move || Ok(config)).await
    }

    /// As [`update`](Self::update), with a configuration that is checked as late as may be: other
    /// consumers of the stream are made and changed while this one's turn is waited for.
    pub(in crate::engine) async fn update_checked(
        &self,
        live: &Arc<LiveConsumer>,
        check: impl FnOnce() -> Result<ConsumerConfig, ApiError>,
    ) -> Result<Arc<ConsumerConfig>, ApiError> {
        let (state_handle, created) = live
            .query_soon(|core, _| (core.state_handle().clone(), core.created()))
            .await
            .ok_or_else(gone)?;
        let config = Arc::new(check()?);
        let (id, is_stored) = (state_handle.id(), state_handle.is_of(&self.stored));
        let note = |config: &ConsumerConfig| {
            let blob = Stored::new(created, config).encode();
            state_handle.lock().update(id, rules(config), &blob).map_err(ApiError::consumer_create)
        };
        note(&config)?;
        if let Err(error) = self.flush_changed(&state_handle) {
            // The log would have it with its next write.
            self.config(&config.name).map_or(Ok(()), |before| note(&before))?;
            return Err(ApiError::consumer_create(error));
        }
        self.interest.set(id, is_stored, &config);
        let before = {
            let mut configs = write_lock(&self.configs);
            configs.insert(config.name.clone(), Arc::clone(&config))
        };
        let wanted_before = before.as_ref().map_or(Filter::All, |before| filter_of(before));
        let wants_other = wanted_before != filter_of(&config);
        let old = live.set_filter_entries(self.filter_entries(&config, live));
        old.iter().for_each(|entry| self.wakeups.remove(entry));
        live.listen_at(&config);
        if before.as_ref().is_some_and(|before| before.metadata != config.metadata) {
            live.bind(&self.subjects(&config));
        }
        let (me, waits) = (Weak::clone(&self.me), Arc::clone(live));
        let (stream, seed) = (self.stream.to_string(), self.seed());
        let was_all = before.is_none_or(|before| filter_of(&before).is_all());
        let wanted = Arc::clone(&config);
        let updated = live.act_soon(move |core, turn| {
            core.update(wanted, &stream, seed, turn);
            // It waits for what its filter was, in the list of those.
            me.upgrade().into_iter().for_each(|me| me.forget_waiting(&waits, was_all));
        });
        let is_updated = updated.await.ok_or_else(gone);
        if let (Ok(()), Ok(stream)) = (&is_updated, self.stream()) {
            stream.consumer_changed(live);
        }
        if wants_other {
            self.drop_unwanted(wanted_before, true);
        }
        is_updated.map(|()| config)
    }

    /// As [`delete`](Self::delete), for threads that may wait.
    ///
    /// # Errors
    /// As there.
    pub(in crate::engine) fn delete_and_wait(
        &self,
        live: &Arc<LiveConsumer>,
        out: &mut MessageBuf,
    ) -> Result<bool, ApiError> {
        block_on(self.delete(live, out))
    }

    /// Ends a consumer. Answers whether it was still there.
    ///
    /// # Errors
    /// The consumer is gone, and the disk does not have that: it may be back after a start. In a
    /// group: another replica leads, and whether the group has it is not known. In a work queue it
    /// stays while what it has settled cannot be removed.
    pub(in crate::engine) async fn delete(
        &self,
        live: &Arc<LiveConsumer>,
        out: &mut MessageBuf,
    ) -> Result<bool, ApiError> {
        self.end(live, true, out).await
    }

    /// Ends a consumer as [`delete`](Self::delete) does. `is_awaited`: somebody looks next what is
    /// left of the stream.
    pub(super) async fn end(
        &self,
        live: &Arc<LiveConsumer>,
        is_awaited: bool,
        out: &mut MessageBuf,
    ) -> Result<bool, ApiError> {
        self.leadership()?;
        self.remove_settled()?;
        let wanted = self.config(live.name()).map_or(Filter::All, |config| filter_of(&config));
        let Some(written) = self.remove(live, DELETED, false).await else { return Ok(false) };
        if self.log.is_of_group() {
            // It may be there, as far as anybody knows.
            written.clone()?;
        }
        self.add_action_advisory(live.name(), Action::Delete, out);
        if let Ok(stream) = self.stream() {
            stream.consumer_removed(live);
        }
        self.drop_unwanted(wanted, is_awaited);
        written.map(|()| true)
    }

    /// Removes from a work queue what consumers have settled and what a disk, say, has kept from
    /// going, before one of them goes: after a start nothing else says so, and the next consumer
    /// would get it.
    fn remove_settled(&self) -> Result<(), ApiError> {
        match self.stream() {
            Ok(stream) if stream.config().retention == Retention::WorkQueue => {
                stream.remove_all_settled().map_err(ApiError::stream_general)
            }
            _ => Ok(()),
        }
    }

    /// Removes what no consumer wants any more of what passes this filter, after one wants less.
    /// Compat: not from a work queue, where what was passed over is there for whoever goes back.
    fn drop_unwanted(&self, wanted: Filter, is_awaited: bool) {
        if let Ok(stream) = self.stream()
            && stream.config().retention == Retention::Interest
        {
            stream.consumer_left(wanted, is_awaited);
        }
    }

    /// Removes a consumer, and says whether that was written; `None`: it is not there.
    /// `goes_with_stream`: its group is gone, and agrees to nothing any more.
    async fn remove(
        &self,
        live: &Arc<LiveConsumer>,
        why: &'static str,
        goes_with_stream: bool,
    ) -> Option<Result<(), ApiError>> {
        let leadership = self.leadership();
        let removed = {
            let mut all = write_lock(&self.live);
            let is_it = all.get(live.name()).is_some_and(|known| Arc::ptr_eq(known, live));
            if is_it { all.remove(live.name()) } else { None }
        };
        removed?;
        // A group may not agree: until then its configuration is that of the consumer.
        let config = (!self.log.is_of_group()).then(|| self.unlist(live));
        let is_told = self.log.is_of_group() && !goes_with_stream && leadership.is_ok();
        let agreed = match leadership {
            _ if goes_with_stream => Ok(()),
            Ok(leadership) => self.agree_to_end(live, why, leadership).await,
            Err(error) => Err(error),
        };
        let state_handle = live.act_soon(move |core, turn| {
            if goes_with_stream {
                core.end_at_once(why, turn);
            } else if !is_told {
                core.end(why, turn);
            }
            core.state_handle().clone()
        });
        let state_handle = state_handle.await;
        self.forget(live, state_handle.as_ref(), config);
        // Who came meanwhile hears that it is gone.
        drop(live.act_soon(|_, _| ()));
        if let Err(error) = agreed {
            return Some(Err(error));
        }
        if let Some(state_handle) = state_handle {
            // One that is removed twice is removed.
            let _ = state_handle.lock().remove(state_handle.id());
            let flush = || if goes_with_stream { Ok(()) } else { self.flush_changed(&state_handle) };
            // A log that could not be appended to is written anew by the next flush.
            let written = flush().or_else(|_| flush());
            if let Err(error) = &written {
                let what =
                    format_args!("JetStream: the end of consumer '{}' was not written: {error}", live.name());
                self.host.log(Level::Warn, what);
            }
            return Some(written.map_err(ApiError::consumer_store_failed));
        }
        Some(Err(ApiError::consumer_store_failed("a panic while the consumer ended")))
    }

    /// Has the group agree to the end of a consumer, if it is one's; who waits for messages is told
    /// then.
    async fn agree_to_end(
        &self,
        live: &Arc<LiveConsumer>,
        why: &'static str,
        leadership: Leadership,
    ) -> Result<(), ApiError> {
        if !self.log.is_of_group() {
            return Ok(());
        }
        live.stop_delivering();
        let stored = Arc::clone(&self.stored);
        let ended = live.act_soon(move |core, turn| {
            core.end(why, turn);
            let state_handle = core.state_handle();
            // One of this server alone ends as ever.
            if state_handle.is_of(&stored) {
                let _ = state_handle.lock().remove(state_handle.id());
            }
        });
        ended.await.ok_or_else(gone)?;
        let agreed = self.agreed(leadership).await;
        if agreed.is_err() {
            let (stream, seed) = (self.stream.to_string(), self.seed());
            let role = ReplicaRole::Follower;
            live.act_soon(move |core, turn| core.set_role(role, &stream, seed, turn)).await;
        }
        agreed
    }

    /// Has nobody be answered for a consumer that is not among the others any more. Its
    /// configuration, or that of another one of its name.
    fn unlist(&self, live: &Arc<LiveConsumer>) -> Option<Arc<ConsumerConfig>> {
        // One that the group did not let go of may be served anew already.
        let is_another = self.find(live.name()).is_some_and(|other| !Arc::ptr_eq(&other, live));
        let config =
            if is_another { self.config(live.name()) } else { write_lock(&self.configs).remove(live.name()) };
        if self.read().is_empty() {
            self.unbind();
        }
        config
    }

    /// Takes a consumer out of service that is not among the others any more. `config`: as
    /// [`unlist`](Self::unlist) has answered, if that is done.
    pub(super) fn forget(
        &self,
        live: &Arc<LiveConsumer>,
        state_handle: Option<&StateHandle>,
        config: Option<Option<Arc<ConsumerConfig>>>,
    ) {
        let is_another = self.find(live.name()).is_some_and(|other| !Arc::ptr_eq(&other, live));
        let config = config.unwrap_or_else(|| self.unlist(live));
        live.retire();
        if let Some(config) = config {
            self.forget_waiting(live, filter_of(&config).is_all());
        }
        live.set_filter_entries(Vec::new()).iter().for_each(|entry| self.wakeups.remove(entry));
        if let Some(state_handle) = state_handle.filter(|_| !is_another) {
            self.interest.remove(state_handle.id(), self.is_stored(state_handle));
        }
    }

    /// Ends all consumers with their stream.
    pub(in crate::engine) async fn end_all(&self, why: &'static str, out: &mut MessageBuf) {
        self.unbind();
        for live in self.all() {
            if self.remove(&live, why, true).await.is_some() {
                self.add_action_advisory(live.name(), Action::Delete, out);
            }
        }
        self.forget_waiting_for_release();
    }

    /// As [`end_all`](Self::end_all), for a thread that may wait, and that may be the one that
    /// would have to go on for a shard to come.
    pub(in crate::engine) fn end_all_and_wait(&self, why: &'static str, out: &mut MessageBuf) {
        self.unbind();
        for live in self.all() {
            write_lock(&self.live).remove(live.name());
            let state_handle = live.act(move |core, turn| {
                core.end_at_once(why, turn);
                core.state_handle().clone()
            });
            self.forget(&live, state_handle.as_ref(), None);
            self.add_action_advisory(live.name(), Action::Delete, out);
        }
        self.forget_waiting_for_release();
    }

    /// Lets go of consumers that have something to say when the log is released: with the stream
    /// nothing is, and they keep its files open.
    fn forget_waiting_for_release(&self) {
        drop(self.log.take_waiting());
    }

    /// The server ends: who waits is told so. Answers the consumers that had something to say.
    pub(in crate::engine) fn announce_shutdown(&self) -> Vec<Arc<LiveConsumer>> {
        let mut all = self.all();
        all.retain(|live| live.act(|core, turn| core.announce_shutdown(turn)) == Some(true));
        all
    }

    /// The stream keeps messages for another reason.
    pub(in crate::engine) fn set_retention(&self, retention: Retention) {
        for live in self.all() {
            drop(live.act_soon(move |core, _| core.set_retention(retention)));
        }
    }

    /// Whether the stream may have other limits for its consumers.
    pub(in crate::engine) fn check_limits(
        &self,
        old: &ConsumerLimits,
        new: &ConsumerLimits,
    ) -> Result<(), ApiError> {
        if new.are_new(old) { refuse_limits(&self.exceeding(new)) } else { Ok(()) }
    }

    /// Names of the consumers that have more than these limits allow.
    pub(in crate::engine) fn exceeding(&self, limits: &ConsumerLimits) -> Vec<String> {
        let exceeds = |config: &&Arc<ConsumerConfig>| {
            limits.are_exceeded_by(config.inactive_threshold, config.max_ack_pending)
        };
        let configs = read_lock(&self.configs);
        configs.values().filter(exceeds).map(|config| config.name.clone()).collect()
    }

    /// Messages were purged or deleted by somebody. `are_told`: those who listen hear of what
    /// nobody had acknowledged.
    pub(in crate::engine) fn forget_removed(&self, are_told: bool) {
        for live in self.all() {
            drop(live.act_soon(move |core, turn| core.forget_removed(are_told, turn)));
        }
    }

    /// All messages of `pattern` up to `through` were purged: those that want no others are through
    /// with them.
    pub(in crate::engine) fn skip_purged(&self, pattern: &[u8], through: Seq) {
        for live in self.all() {
            let Some(config) = self.config(live.name()) else { continue };
            let mut filters = config.filters().peekable();
            if filters.peek().is_some() && filters.all(|filter| is_subset(filter.as_bytes(), pattern)) {
                drop(live.act_soon(move |core, turn| core.skip_through(through, turn)));
            }
        }
    }

    /// Asks what holds its deliveries back: told as soon as whoever has its turn says so.
    pub(in crate::engine) fn ask_why(&self, live: &LiveConsumer) -> Promised<Vec<(Holds, ConsumerCause)>> {
        live.query_soon(|core, turn| core.why(turn))
    }

    /// Begins a consumer anew. Answers the message that it goes on with, and how it stands before
    /// it does.
    pub(in crate::engine) async fn reset(
        &self,
        live: &LiveConsumer,
        seq: Seq,
    ) -> Result<(Seq, ConsumerInfo), ApiError> {
        let stream = self.stream.to_string();
        let config = self.config(live.name()).ok_or_else(gone)?;
        let (keeps, wanted) = (self.stream()?.config().retention == Retention::WorkQueue, filter_of(&config));
        let (interest, stored) = (Arc::clone(&self.interest), Arc::clone(&self.stored));
        let reset = live.act_soon(move |core, turn| {
            let seq = core.reset_place(seq).map_err(ApiError::consumer_invalid_reset)?;
            let noted = if keeps { Some(note_passed(core, &config, seq)?) } else { None };
            // Before the new beginning, as in the log: else what is passed over looks settled.
            if let Some((state_handle, config)) = &noted {
                interest.set(state_handle.id(), state_handle.is_of(&stored), config);
            }
            core.reset(seq);
            Ok::<_, ApiError>((seq, core.info(&stream, turn), noted))
        });
        let (seq, info, noted) = reset.await.ok_or_else(gone)??;
        if let Some((_, config)) = noted {
            let mut configs = write_lock(&self.configs);
            configs.insert(config.name.clone(), config);
        }
        self.drop_unwanted(wanted, true);
        Ok((seq, info))
    }
}

/// Refuses other limits of a stream where consumers have more.
pub(in crate::engine) fn refuse_limits(exceeding: &[String]) -> Result<(), ApiError> {
    if exceeding.is_empty() {
        return Ok(());
    }
    let names = exceeding.join(", ");
    Err(ApiError::stream_update(format_args!("change to limits violates consumers: {names}")))
}

/// Writes down that what lies before `seq` stays. It goes to the log before the new beginning does:
/// in between, too much is kept, and the other way round messages would go that nobody has had.
fn note_passed(
    core: &ConsumerCore,
    config: &ConsumerConfig,
    seq: Seq,
) -> Result<(StateHandle, Arc<ConsumerConfig>), ApiError> {
    let mut config = config.clone();
    config.places.passed = seq.saturating_sub(1);
    let config = Arc::new(config);
    let state_handle = core.state_handle().clone();
    let blob = Stored::new(core.created(), &config).encode();
    state_handle
        .lock()
        .update(state_handle.id(), rules(&config), &blob)
        .map_err(ApiError::consumer_create)?;
    Ok((state_handle, config))
}

fn gone() -> ApiError {
    ApiError::CONSUMER_NOT_FOUND
}

fn add(states: &Mutex<Consumers>, config: &ConsumerConfig, now: Timestamp) -> Result<ConsumerId, ApiError> {
    let blob = Stored::new(now, config).encode();
    let mut states = lock(states);
    states.create(&config.name, rules(config), &blob).map_err(ApiError::consumer_create)
}

impl OtherConsumers for StreamConsumers {
    fn find(&self, name: &str) -> Option<Arc<ConsumerConfig>> {
        self.config(name)
    }

    fn each(&self, visit: &mut dyn FnMut(&ConsumerConfig) -> bool) {
        let configs = read_lock(&self.configs);
        let _ = configs.values().all(|config| visit(config));
    }
}

//! A replica that gets the whole stream from another server: filled where nobody sees it, it takes
//! the place of the one that is behind.
//!
//! Owns the step from one to the other. In the store both are streams with numbers of their own.
//! Until one write says that the new one is whole, and in whose place it stands, a start removes
//! the new one; from then on it removes the old one. So a crash leaves one of the two. Where the
//! disk refuses to remove the old one it is a member of nothing any more, and that is tried again:
//! what it confirmed would be gone with it at the next start.

use super::AccountStreams;
use super::lifecycle::StreamOrigin;
use crate::engine::JetStream;
use crate::engine::calls::CallScope;
use crate::engine::consumers::OpenedConsumers;
use crate::engine::groups::IncomingReplica;
use crate::engine::live::{LeftGroup, LiveStream, ReplacedBy, ReplicaPlace};
use crate::engine::reasons;
use myelin_broker::Level;
use myelin_jsapi::config::stored::Stored;
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_stdx::sync::lock;
use myelin_store::consumer::GroupConsumers;
use myelin_store::meta::Meta;
use myelin_store::{
    Durability, FoundStream, InstallPoint, InstallTarget, Limits, StoreError, Stream, StreamId,
};
use myelin_streams::stream::storage_config;
use myelin_wire::message_buf::MessageBuf;
use std::sync::{Arc, Weak};

/// Stream that is being filled to take the place of one that is behind. It is removed when it is
/// dropped before.
struct StagedReplica {
    home: Arc<AccountStreams>,
    jetstream: Arc<JetStream>,
    /// The one that is behind.
    live: Arc<LiveStream>,
    point: InstallPoint,
    lifetimes_until: u64,
    state: StagedState,
}

enum StagedState {
    Filling(Box<InstallTarget>),
    Whole(Box<(Stream, GroupConsumers)>),
    Gone,
}

impl StagedReplica {
    /// Begins one. Only for threads that may wait.
    ///
    /// # Errors
    /// Words for why the disk refuses it.
    fn begin(
        home: &Arc<AccountStreams>,
        live: &Arc<LiveStream>,
        (point, lifetimes_until): (InstallPoint, u64),
    ) -> Result<Self, String> {
        let jetstream = home.jetstream.upgrade().ok_or("the server ends")?;
        let config = live.config();
        let settings = storage_config(&config, false);
        // What it gets was within the limits where it is from, and is taken as it is.
        let settings = myelin_store::StreamConfig {
            limits: Limits::default(),
            durability: Durability::Written,
            ..settings
        };
        let (stream, consumers) = match config.storage {
            Storage::Memory => {
                let stream = Stream::in_memory(settings, jetstream.seed(), live.created());
                (stream, GroupConsumers::in_memory(0))
            }
            Storage::File => {
                let blob = stored(&config, live, lifetimes_until);
                let blob = Stored { unfinished: true, ..blob }.encode();
                let (store, account) = (&jetstream.store, home.account.name());
                let made = store.create_stream(account, &config.name, &blob, settings, live.created());
                let mut stream = made.map_err(|error| error.to_string())?;
                match store.open_group_consumers(stream.id(), settings.durability) {
                    Ok((consumers, _)) => (stream, consumers),
                    Err(error) => {
                        // The next start removes it otherwise.
                        let _ = store.delete_stream(&mut stream);
                        return Err(error.to_string());
                    }
                }
            }
        };
        let state = StagedState::Filling(Box::new(InstallTarget::new(stream, consumers, point)));
        let (home, live) = (Arc::clone(home), Arc::clone(live));
        Ok(Self { home, jetstream, live, point, lifetimes_until, state })
    }

    /// From here on the new stream is the one that a start keeps, as the member that it is then.
    fn declare_whole(&self, stream: &Stream, config: &StreamConfig, left: &LeftGroup) -> Result<(), String> {
        let old = self.id_of_old().ok_or("its stream is gone")?;
        if left.terms.is_amnesiac {
            left.groups.mark_amnesiac(left.config.place).map_err(|error| error.to_string())?;
        }
        let (new, lifetimes_until) = (stream.id(), self.lifetimes_until);
        let blob = Stored { in_place_of: old.0, ..stored(config, &self.live, lifetimes_until) };
        self.jetstream.store.write_blob(new, &blob.encode()).map_err(|error| error.to_string())?;
        self.live.set_replaced_by(ReplacedBy { new, old, is_sure: true, lifetimes_until });
        Ok(())
    }

    fn id_of_old(&self) -> Option<StreamId> {
        let mut guard = self.live.lock_core()?;
        Some(guard.parts().0.store().id())
    }

    /// Nobody knows whether the new stream is the one that a start keeps: only without it the old
    /// one may go on.
    fn back_out(&self, mut stream: Stream, left: LeftGroup, why: &str) -> String {
        if let Err(error) = self.jetstream.store.delete_stream(&mut stream) {
            if let Some(old) = self.id_of_old() {
                let (new, lifetimes_until) = (stream.id(), self.lifetimes_until);
                self.live.set_replaced_by(ReplacedBy { new, old, is_sure: false, lifetimes_until });
            }
            return format!("{why}; {error}: there is none until the next start");
        }
        match enter(&self.live, &left) {
            Ok(()) => why.to_owned(),
            Err(error) => format!("{why}; the old one is no member: {error}"),
        }
    }

    fn remove(&self, stream: &mut Stream) {
        if stream.config().storage == myelin_store::Storage::File
            && let Err(error) = self.jetstream.store.delete_stream(stream)
        {
            let (account, name) = (self.home.account.name(), self.live.name());
            let what = format_args!(
                "JetStream stream '{account} > {name}': a copy that is not needed is left: {error}"
            );
            self.home.host.log(Level::Warn, what);
        }
    }
}

impl AccountStreams {
    /// Ends a replica in whose place another one stands, with all that it has, and opens that one
    /// as a start does. Where the disk refuses it is to be called again; until then nobody is
    /// served, for the next start keeps the other one.
    ///
    /// # Errors
    /// Words for why not.
    pub(in crate::engine) fn finish_install(
        self: &Arc<Self>,
        jetstream: &Arc<JetStream>,
        live: &Arc<LiveStream>,
    ) -> Result<Arc<LiveStream>, String> {
        let by = live.replaced_by().ok_or("nothing stands in its place")?;
        let ReplacedBy { new, old, is_sure, lifetimes_until } = by;
        if !is_sure {
            return Err("it is not known which one the next start keeps".to_owned());
        }
        let ended = self.end_and_wait(jetstream, live, &mut MessageBuf::default());
        ended.map_err(|error| format!("the old one cannot be removed: {error}"))?;
        let config = live.config();
        let stored = Stored { in_place_of: old.0, ..stored(&config, live, lifetimes_until) };
        let meta = Meta {
            stream: new,
            created: live.created(),
            account: self.account.name().to_owned(),
            name: config.name.clone(),
            config: stored.encode(),
            sealed_keys: Vec::new(),
            generation: 1,
        };
        self.restore(FoundStream { id: new, meta });
        let anew = self.stream(&config.name);
        anew.ok_or_else(|| "the new one cannot be opened: there is none until the next start".to_owned())
    }
}

impl IncomingReplica for StagedReplica {
    fn scope(&self) -> CallScope {
        CallScope::Streams(self.home.account.name().into(), self.live.name().into())
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), String> {
        match &mut self.state {
            StagedState::Filling(target) => target.take(piece).map_err(|error| error.to_string()),
            StagedState::Whole(_) | StagedState::Gone => Err("it is whole".to_owned()),
        }
    }

    fn percent(&mut self) -> u64 {
        let StagedState::Filling(target) = &mut self.state else { return 100 };
        let has = target.stream_mut().reader().state().totals.last_seq;
        let InstallPoint { first_seq, last_seq, .. } = self.point;
        let up_to = |seq: u64| seq.saturating_add(1).saturating_sub(first_seq);
        reasons::percent(up_to(has), up_to(last_seq))
    }

    fn finish(&mut self) -> Result<(), String> {
        let (jetstream, now) = (&self.jetstream, || self.jetstream.host.now().unsigned_abs());
        let settle = || {
            let round = jetstream.journal().round_now(&now);
            round.map(drop).map_err(|error| StoreError::Failed(error.to_string()))
        };
        let StagedState::Filling(target) = std::mem::replace(&mut self.state, StagedState::Gone) else {
            return Err("it is whole".to_owned());
        };
        match target.finish(&settle) {
            Ok(whole) => {
                self.state = StagedState::Whole(Box::new(whole));
                Ok(())
            }
            Err((target, error)) => {
                self.state = StagedState::Filling(target);
                Err(error.to_string())
            }
        }
    }

    fn replace(mut self: Box<Self>) -> Result<(), String> {
        let (home, live) = (Arc::clone(&self.home), Arc::clone(&self.live));
        if live.is_gone() {
            return Err("its stream is gone".to_owned());
        }
        let StagedState::Whole(whole) = std::mem::replace(&mut self.state, StagedState::Gone) else {
            return Err("it is not whole".to_owned());
        };
        let (mut stream, consumers) = *whole;
        let Some(left) = live.leave_behind(self.point.position) else {
            self.remove(&mut stream);
            return Err("it is not needed any more".to_owned());
        };
        let config = live.config();
        let anew = match config.storage {
            Storage::Memory => {
                let ended = home.end_and_wait(&self.jetstream, &live, &mut MessageBuf::default());
                ended.map_err(|error| error.to_string())?;
                // It was filled without its limits. One in a file is opened anew with them.
                let settings = storage_config(&config, self.jetstream.settings.sync_always);
                let set = stream.set_config(settings, self.jetstream.host.now());
                set.map_err(|error| error.to_string())?;
                let (states, created) = (consumers.lead(), live.created());
                let opened = OpenedConsumers { states, applied: Some(consumers) };
                let origin = StreamOrigin::new(created).with_lifetimes(self.lifetimes_until);
                let config = (*config).clone();
                home.begin(&self.jetstream, config, stream, (opened, &Arc::default()), origin)
            }
            Storage::File => {
                if let Err(why) = self.declare_whole(&stream, &config, &left) {
                    return Err(self.back_out(stream, left, &why));
                }
                drop((stream, consumers));
                home.finish_install(&self.jetstream, &live)?
            }
        };
        enter(&anew, &left).map_err(|error| format!("the new one is no member: {error}"))?;
        let (account, name) = (home.account.name(), live.name());
        let what = format_args!("JetStream stream '{account} > {name}' has all of its group's stream");
        home.host.log(Level::Info, what);
        if live.is_damaged() {
            self.jetstream.is_repaired(&live);
        }
        Ok(())
    }
}

impl Drop for StagedReplica {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, StagedState::Gone) {
            StagedState::Filling(mut target) => self.remove(target.stream_mut()),
            StagedState::Whole(mut whole) => self.remove(&mut whole.0),
            StagedState::Gone => {}
        }
    }
}

/// Place of a stream in its account.
pub(super) struct StreamPlace {
    pub(super) home: Weak<AccountStreams>,
    pub(super) live: Weak<LiveStream>,
}

impl ReplicaPlace for StreamPlace {
    fn stage(&self, offered: (InstallPoint, u64)) -> Result<Box<dyn IncomingReplica>, String> {
        let home = self.home.upgrade().ok_or("its account is gone")?;
        let live = self.live.upgrade().ok_or("its stream is gone")?;
        Ok(Box::new(StagedReplica::begin(&home, &live, offered)?))
    }

    fn begin_anew(&self) {
        let (Some(home), Some(live)) = (self.home.upgrade(), self.live.upgrade()) else { return };
        let scope = CallScope::Streams(home.account.name().into(), live.name().into());
        let host = Arc::clone(&home.host);
        let begin = move || {
            let (account, name) = (home.account.name(), live.name());
            let (level, what) = match begin_anew(&home, &live) {
                Ok(()) => (Level::Warn, "begins anew: the others of its group have what it had".to_owned()),
                Err(why) => (Level::Error, format!("cannot begin anew: {why}")),
            };
            home.host.log(level, format_args!("JetStream stream '{account} > {name}' {what}"));
        };
        host.spawn_api(scope, Box::new(begin));
    }

    fn unless_suspended(&self, serve: &dyn Fn()) {
        let Some(home) = self.home.upgrade() else { return };
        let is_suspended = lock(&home.is_suspended);
        if !*is_suspended {
            serve();
        }
    }
}

/// Puts an empty replica in the place of one in memory that has failed. On the thread of the API.
fn begin_anew(home: &Arc<AccountStreams>, live: &Arc<LiveStream>) -> Result<(), String> {
    let jetstream = home.jetstream.upgrade().ok_or("the server ends")?;
    let left = live.leave_failed().ok_or("nobody else has it")?;
    let (config, created) = ((*live.config()).clone(), live.created());
    let ended = home.end_and_wait(&jetstream, live, &mut MessageBuf::default());
    let made = ended.and_then(|()| home.create_replica(&jetstream, config, created));
    let entered = made.and_then(|anew| {
        anew.note_begun_anew();
        enter(&anew, &left)
    });
    entered.map_err(|error| error.to_string())
}

/// Makes a stream a member as another one was.
fn enter(live: &Arc<LiveStream>, left: &LeftGroup) -> Result<(), myelin_jsapi::ApiError> {
    let watcher = left.watcher.clone();
    watcher.iter().for_each(|watcher| live.watch_member(watcher.clone()));
    live.join(&left.groups, &left.config, left.terms)?;
    if let Some(watcher) = watcher.and_then(|watcher| watcher.upgrade()) {
        watcher.is_replaced(live.account_name(), live.name());
    }
    live.serve_member();
    Ok(())
}

fn stored(config: &StreamConfig, live: &LiveStream, lifetimes_until: u64) -> Stored {
    let (created, config) = (live.created(), config.clone());
    Stored { created, config, lifetimes_until, of_group: true, ..Stored::default() }
}

//! Host: what JetStream needs from whoever embeds it: time, threads, and a way to the shards.

use super::api_request::ApiRequest;
use super::calls::CallScope;
use myelin_broker::{Account, Level, Reach, Service};
use myelin_store::Timestamp;
use myelin_wire::message_buf::MessageBuf;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Facts about a server that decide which streams it gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementFacts {
    /// `server_tags`.
    pub tags: Vec<String>,
    /// Beginning of the tag that replicas of a stream must not share; empty for none.
    pub unique_prefix: String,
    /// Bytes that may still be reserved in memory.
    pub free_memory: i64,
    /// Bytes that may still be reserved in files.
    pub free_storage: i64,
    /// Replicated streams that it may have; 0: no limit.
    pub max_ha_assets: i64,
}

impl PlacementFacts {
    /// The tag that replicas of a stream must not share, if the server has one.
    #[must_use]
    pub fn unique_tag(&self) -> Option<String> {
        let prefix = self.unique_prefix.to_ascii_lowercase();
        let mut tags = self.tags.iter().map(|tag| tag.to_ascii_lowercase());
        if prefix.is_empty() { None } else { tags.find(|tag| tag.starts_with(&prefix)) }
    }
}

/// Something to be done elsewhere.
pub type Task = Box<dyn FnOnce() + Send>;

/// Owner of an alarm, which is called when it is due.
pub trait Timer: Send + Sync {
    /// The alarm has gone off.
    fn fire(&self);

    /// Whether `fire` may wait for a disk or for somebody else: then it is called where no other
    /// alarm is late because of it.
    fn may_wait(&self) -> bool {
        true
    }
}

/// The embedder. None of these calls may wait, but for [`Host::spawn_sync`] where
/// there are no threads.
pub trait Host: Send + Sync {
    /// The time that counts, in nanoseconds since 1970: that of day, or what somebody
    /// [keeps](Host::keep_time).
    fn now(&self) -> Timestamp;

    /// Time of the server's clock, in nanoseconds since 1970.
    fn time_of_day(&self) -> Timestamp {
        self.now()
    }

    /// At this instant it is `time`, and [`Host::now`] goes on from there, whatever the server's
    /// clock says: a [`GroupClock`](super::GroupClock) does that. Nothing to do for who has no
    /// clock that could be wrong.
    fn keep_time(&self, _at: Instant, _time: Timestamp) {}

    /// The present instant, on the clock that only goes forward.
    fn instant(&self) -> Instant;

    /// Has `service` served on some shard soon.
    fn wake(&self, service: Arc<dyn Service>);

    /// Has `service` served soon, and not before what was given to [`publish`](Host::publish) until
    /// now is on its way.
    fn wake_behind(&self, service: Arc<dyn Service>) {
        self.wake(service);
    }

    /// Publishes messages from some shard soon; those of one caller keep their order.
    fn publish(&self, account: &Arc<Account>, msgs: MessageBuf);

    /// Has [`JetStream::answer`](super::JetStream::answer) called with it on a thread that may
    /// wait, in the order of calls. `false` when too many wait already.
    fn request(&self, request: ApiRequest) -> bool;

    /// Has `task`, which reads from a disk, run on a thread that may wait.
    fn spawn_read(&self, task: Task);

    /// Has `task`, which reads from a disk, run on a thread that may wait, where clients may ask
    /// for it as often as they like. `false`, and the task is gone, when too many wait already.
    #[must_use = "who asked has to be told"]
    fn try_spawn_read(&self, task: Task) -> bool;

    /// Has `task`, a slice of a backup, run on a thread that may wait and has nothing else to do,
    /// in the order of calls.
    fn spawn_backup(&self, task: Task);

    /// Has `task` run on the thread that answers requests, when no call has a part of its scope:
    /// by [`ApiCalls::enter_task`](super::ApiCalls::enter_task). Who answers one call after the
    /// other runs it between two.
    fn spawn_api(&self, scope: CallScope, task: Task);

    /// Has `task`, which waits for a disk, run on a thread that may wait and has nothing else to
    /// do, in the order of calls. Here, and before this returns: for who has one thread only.
    fn spawn_sync(&self, task: Task) {
        task();
    }

    /// Has [`ApiCalls::resume`](super::ApiCalls::resume) called on the thread that answers
    /// requests. Nothing to do for who has no [`ApiCalls`](super::ApiCalls).
    fn resume_calls(&self) {}

    /// Has [`JetStream::repair`](super::JetStream::repair) called with the names of an account and
    /// of its stream on a thread that may wait.
    fn repair(&self, account: &str, stream: &str);

    /// Has [`Timer::fire`] called at `at`, or a little later, on a thread that may wait.
    fn schedule(&self, at: Timestamp, timer: Weak<dyn Timer>);

    /// Has `task`, a job of a stream's store, run on a thread that may wait and has nothing else to
    /// do, in the order of calls.
    fn spawn_upkeep(&self, task: Task);

    /// Servers that are told of the subjects of the API, of consumers and of direct gets: leaf
    /// nodes and hubs by what accounts offer, and in a cluster that shares JetStream all of it.
    fn reach(&self) -> Reach {
        Reach::Offered
    }

    /// The account of the server itself, if there is one.
    fn system_account(&self) -> Option<Arc<Account>>;

    /// The name of the server's cluster, which a reload may change; empty for none.
    fn cluster(&self) -> String;

    /// Names of other clusters to which there are gateways, the nearest first.
    fn other_clusters(&self) -> Vec<String> {
        Vec::new()
    }

    /// An account has streams in the cluster and is not known here: has it
    /// [enabled](super::JetStream::enable) when it can be found.
    fn seek_account(&self, _name: &str) {}

    /// Facts by which streams are placed; what is free is for JetStream to say.
    fn placement_facts(&self) -> PlacementFacts {
        PlacementFacts::default()
    }

    /// A name that nobody has guessed or used: 22 characters.
    fn unique_id(&self) -> String;

    /// A panic was caught, in a stream or a consumer (`at`): counts it and tells the operator what
    /// it costs.
    fn panicked(
        &self,
        at: fmt::Arguments<'_>,
        payload: &(dyn Any + Send + 'static),
        cost: fmt::Arguments<'_>,
    );

    /// A line for the operator.
    fn log(&self, level: Level, line: fmt::Arguments<'_>);
}

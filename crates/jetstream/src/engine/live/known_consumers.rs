//! Consumers that a replica of a stream knows: where it leads those that run here, elsewhere what
//! its group has agreed to.

use super::LiveStream;
use super::turn::StreamWork;
use crate::engine::consumers::ReplicatedConsumer;
use myelin_jsapi::api::consumer::ConsumerInfo;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_streams::stream::StreamCore;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

impl LiveStream {
    /// All consumers of the stream by name, with their configurations, as this replica knows them.
    /// Waits for the turn; only for threads that may.
    pub fn known_consumers(&self) -> Vec<ConsumerInfo> {
        if !self.follows() {
            let consumers = &self.consumers;
            return consumers.all().iter().filter_map(|live| consumers.info(live)).collect();
        }
        let (reader, now) = (self.reader(), self.scope.host.now());
        let mut all = self.replicated_consumers();
        all.sort_by(|one, other| one.name().cmp(other.name()));
        all.into_iter().filter_map(|one| one.info(self.name(), &reader, now)).collect()
    }

    /// How all consumers of the stream stand, by name, with their configurations: as
    /// [`known_consumers`](Self::known_consumers) knows them, and for less. Waits for the turn;
    /// only for threads that may.
    pub fn known_standings(&self) -> Vec<(Arc<ConsumerConfig>, ConsumerInfo)> {
        if !self.follows() {
            let consumers = &self.consumers;
            return consumers.all().iter().filter_map(|live| consumers.standing(live)).collect();
        }
        let all = self.known_consumers().into_iter();
        all.filter_map(|mut info| Some((Arc::new(info.config.take()?), info))).collect()
    }

    /// Whether the stream has a consumer of this name, as this replica knows. Waits for the turn;
    /// only for threads that may.
    pub fn has_consumer(&self, name: &str) -> bool {
        if !self.follows() {
            return self.consumers.find(name).is_some();
        }
        self.replicated_consumers().iter().any(|one| one.name() == name)
    }

    /// How many consumers there are that clients have made, as this replica knows: where somebody
    /// is at work with the stream and it follows, as it did when this was asked before. Only for
    /// threads that may wait.
    pub fn consumer_count(&self) -> usize {
        if !self.follows() {
            return self.consumers.count();
        }
        let me = self.me.clone();
        self.look(move |core| {
            if let (Some(me), Some(applied)) = (me.upgrade(), core.applied_consumers()) {
                me.view.note_consumers(ReplicatedConsumer::count(applied));
            }
        });
        self.view.consumers()
    }

    /// Whether another replica decides on its consumers.
    fn follows(&self) -> bool {
        self.is_of_group() && !self.role().leads()
    }

    fn replicated_consumers(&self) -> Vec<ReplicatedConsumer> {
        let (sender, receiver) = sync_channel(1);
        self.look(move |core| {
            // Whoever has asked waits.
            let _ = sender.send(core.applied_consumers().map(ReplicatedConsumer::all));
        });
        // An error says that the stream is gone.
        receiver.recv().ok().flatten().unwrap_or_default()
    }

    /// Has the holder of the turn look at the core: at once, if nobody else has it.
    fn look(&self, look: impl FnOnce(&StreamCore) + Send + 'static) {
        self.submit_and_wait(StreamWork::Look(Box::new(look)));
    }
}

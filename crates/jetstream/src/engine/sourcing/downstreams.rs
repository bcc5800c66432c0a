//! Who copies a stream and waits at its end.
//!
//! Whoever waits looks once more afterwards, and whoever brings news looks who waits after it was released: one of the two
//! sees the other. A stream that nobody copies pays one load.

use super::SourceReader;
use crate::engine::consumers::LiveConsumer;
use crate::engine::live::lock;
use crate::engine::{JetStream, LiveStream};
use crate::error::ApiError;
use myelin_broker::{Service, Shard};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, Weak};

/// See the head of this file.
#[derive(Default)]
pub(in crate::engine) struct Followers {
    waiting: Mutex<Vec<Weak<SourceReader>>>,
    has_waiting: AtomicBool,
    /// All that read it, whether they wait or not.
    all: Mutex<Vec<Weak<SourceReader>>>,
}

impl Followers {
    /// A feed reads the stream from now on.
    pub(super) fn add(&self, feed: &Arc<SourceReader>) {
        let mut all = lock(&self.all);
        all.retain(|known| known.upgrade().is_some_and(|known| !Arc::ptr_eq(&known, feed)));
        all.push(Arc::downgrade(feed));
    }

    /// A feed waits for news. It has to look once more afterwards.
    pub(super) fn park(&self, feed: &Arc<SourceReader>) {
        lock(&self.waiting).push(Arc::downgrade(feed));
        self.has_waiting.store(true, SeqCst);
        fence(SeqCst);
    }

    /// Something was released: wakes who waits for it. To be called behind a fence.
    pub(in crate::engine) fn tell(&self, shard: Option<&mut Shard>) {
        if !self.has_waiting.load(Relaxed) {
            return;
        }
        let woken: Vec<Weak<SourceReader>> = {
            let mut waiting = lock(&self.waiting);
            self.has_waiting.store(false, SeqCst);
            std::mem::take(&mut *waiting)
        };
        let woken = woken.iter().filter_map(Weak::upgrade);
        match shard {
            Some(shard) => woken.for_each(|feed| shard.wake(&(feed as Arc<dyn Service>))),
            None => woken.for_each(|feed| feed.wake()),
        }
    }

    /// The stream will keep only what consumers want: those that stand for who copies it are made. Only on the thread that answers
    /// the API.
    ///
    /// # Errors
    /// One cannot be made.
    pub(in crate::engine) fn hold(
        &self,
        jetstream: &JetStream,
        origin: &Arc<LiveStream>,
    ) -> Result<(), ApiError> {
        self.feeds().iter().try_for_each(|feed| feed.hold(jetstream, origin))
    }

    /// The stream keeps messages for another reason: who reads it finds its way anew, with a consumer or without. Only on the
    /// thread that answers the API.
    pub(in crate::engine) fn follow_anew(&self) {
        self.feeds().iter().for_each(|feed| feed.link_anew());
    }

    /// A consumer was removed: who read by it has it made anew. Only on the thread that answers the API.
    pub(in crate::engine) fn lose_consumer(&self, consumer: &Arc<LiveConsumer>) {
        self.feeds().iter().filter(|feed| feed.reads_by(consumer)).for_each(|feed| feed.link_anew());
    }

    /// A consumer has another configuration: who reads by it looks whether it is paused.
    pub(in crate::engine) fn follow_consumer(&self, consumer: &Arc<LiveConsumer>) {
        self.feeds().iter().filter(|feed| feed.reads_by(consumer)).for_each(|feed| feed.wake());
    }

    fn feeds(&self) -> Vec<Arc<SourceReader>> {
        lock(&self.all).iter().filter_map(Weak::upgrade).collect()
    }

    /// The stream is gone, or its log was opened anew: who reads it looks where it is.
    pub(in crate::engine) fn scatter(&self) {
        let all = std::mem::take(&mut *lock(&self.all));
        all.iter().filter_map(Weak::upgrade).for_each(|feed| feed.lose_origin());
        self.tell(None);
    }
}

//! Downstreams of a stream: those that copy it and wait at its end.
//!
//! Whoever waits looks once more afterwards, and whoever releases more looks who waits after it was
//! released: one of the two sees the other. A stream that nobody copies pays one load.

use super::LiveStream;
use super::sourcing::Downstream;
use crate::engine::consumers::LiveConsumer;
use myelin_broker::{Service, ServiceShard};
use myelin_jsapi::ApiError;
use myelin_stdx::sync::lock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, Weak};

/// Source readers that copy one stream, and those of them that wait at its end.
#[derive(Default)]
pub(in crate::engine) struct Downstreams {
    waiting: Mutex<Vec<Weak<dyn Downstream>>>,
    has_waiting: AtomicBool,
    /// All that read it, whether they wait or not.
    all: Mutex<Vec<Weak<dyn Downstream>>>,
}

fn is(known: &Weak<dyn Downstream>, source_reader: &Arc<dyn Downstream>) -> bool {
    std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(source_reader))
}

impl Downstreams {
    /// A source reader reads the stream from now on.
    pub(in crate::engine) fn add(&self, source_reader: &Arc<dyn Downstream>) {
        let mut all = lock(&self.all);
        all.retain(|known| known.strong_count() > 0 && !is(known, source_reader));
        all.push(Arc::downgrade(source_reader));
    }

    /// Whether a source reader reads the stream, as far as it has not been told to look where that
    /// is.
    pub(in crate::engine) fn has(&self, source_reader: &Arc<dyn Downstream>) -> bool {
        lock(&self.all).iter().any(|known| is(known, source_reader))
    }

    /// A source reader waits for more. It has to look once more afterwards.
    pub(in crate::engine) fn park(&self, source_reader: &Arc<dyn Downstream>) {
        let mut waiting = lock(&self.waiting);
        if !waiting.iter().any(|known| is(known, source_reader)) {
            // An origin may be quiet for long, and who copies it come and go.
            waiting.retain(|known| known.strong_count() > 0);
            waiting.push(Arc::downgrade(source_reader));
        }
        drop(waiting);
        self.has_waiting.store(true, SeqCst);
        fence(SeqCst);
    }

    /// How many wait, those that are gone included.
    #[cfg(test)]
    pub(in crate::engine) fn waiting(&self) -> usize {
        lock(&self.waiting).len()
    }

    /// Something was released: wakes who waits for it. To be called behind a fence.
    pub(in crate::engine) fn notify(&self, shard: Option<&mut ServiceShard>) {
        if !self.has_waiting.load(Relaxed) {
            return;
        }
        let woken: Vec<Weak<dyn Downstream>> = {
            let mut waiting = lock(&self.waiting);
            self.has_waiting.store(false, SeqCst);
            std::mem::take(&mut *waiting)
        };
        let woken = woken.iter().filter_map(Weak::upgrade);
        match shard {
            Some(shard) => woken.for_each(|source_reader| shard.wake(&(source_reader as Arc<dyn Service>))),
            None => woken.for_each(|source_reader| source_reader.wake()),
        }
    }

    /// The stream will keep only what consumers want: those that stand for who copies it are made.
    /// Only on the thread that answers the API.
    ///
    /// # Errors
    /// One cannot be made.
    pub(in crate::engine) fn make_source_consumer(&self, origin: &Arc<LiveStream>) -> Result<(), ApiError> {
        self.source_readers().iter().try_for_each(|source_reader| source_reader.make_source_consumer(origin))
    }

    /// The stream keeps messages for another reason: who reads it finds its way anew, with a
    /// consumer or without. Only on the thread that answers the API.
    pub(in crate::engine) fn relink_all(&self) {
        self.source_readers().iter().for_each(|source_reader| source_reader.relink());
    }

    /// A consumer was removed: who read by it has it made anew. Only on the thread that answers the
    /// API.
    pub(in crate::engine) fn consumer_removed(&self, consumer: &Arc<LiveConsumer>) {
        self.source_readers()
            .iter()
            .filter(|source_reader| source_reader.reads_by(consumer))
            .for_each(|source_reader| source_reader.relink());
    }

    /// A consumer has another configuration: who reads by it looks whether it is paused.
    pub(in crate::engine) fn consumer_changed(&self, consumer: &Arc<LiveConsumer>) {
        self.source_readers()
            .iter()
            .filter(|source_reader| source_reader.reads_by(consumer))
            .for_each(|source_reader| source_reader.wake());
    }

    fn source_readers(&self) -> Vec<Arc<dyn Downstream>> {
        lock(&self.all).iter().filter_map(Weak::upgrade).collect()
    }

    /// The stream is gone, or its log was opened anew: who reads it looks where it is.
    pub(in crate::engine) fn reconnect_all(&self) {
        let all = std::mem::take(&mut *lock(&self.all));
        all.iter().filter_map(Weak::upgrade).for_each(|source_reader| source_reader.lose_origin());
        self.notify(None);
    }
}

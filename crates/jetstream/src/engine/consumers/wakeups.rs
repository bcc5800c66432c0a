//! Wakeups: how consumers at the end of their stream hear that there is more.
//!
//! Those without a filter stand in a list; those with one are found by the subjects of what is new.
//! Whoever parks looks once more afterwards, and whoever releases more looks who has parked after
//! it was released: one of the two sees the other.

use super::{LiveConsumer, StreamConsumers};
use myelin_broker::{Service, ServiceShard};
use myelin_stdx::sync::lock;
use myelin_store::{Seq, StreamReader};
use myelin_subject::{Interest, Matched, Subscribed};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize, fence};
use std::sync::{Arc, Mutex, Weak};

/// Consumers of one stream that wait at its end, by what wakes them.
#[derive(Default)]
pub(super) struct Wakeups {
    /// Consumers without a filter that wait.
    waiting: Mutex<Vec<Weak<LiveConsumer>>>,
    has_waiting: AtomicUsize,
    /// Consumers with a filter, and how many of them may wait.
    filters: Interest<Arc<FilterEntry>>,
    filtered: AtomicUsize,
    /// Last sequence of which consumers were told.
    notified: AtomicU64,
}

/// A filter of a consumer.
pub(super) struct FilterEntry {
    subject: Box<[u8]>,
    consumer: Weak<LiveConsumer>,
}

impl Subscribed for FilterEntry {
    fn subject(&self) -> &[u8] {
        &self.subject
    }

    fn queue(&self) -> Option<&[u8]> {
        None
    }
}

impl Wakeups {
    /// A consumer wants to hear of these subjects.
    pub(super) fn add(&self, filter: &str, consumer: &Arc<LiveConsumer>) -> Arc<FilterEntry> {
        let entry =
            Arc::new(FilterEntry { subject: filter.as_bytes().into(), consumer: Arc::downgrade(consumer) });
        self.filters.insert(Arc::clone(&entry));
        entry
    }

    pub(super) fn remove(&self, entry: &Arc<FilterEntry>) {
        self.filters.remove(entry);
    }
}

impl StreamConsumers {
    /// Has a consumer wait for more than it has read, which is up to `position`. False: there is
    /// some already.
    pub(super) fn park(&self, consumer: &LiveConsumer, position: Seq, is_unfiltered: bool) -> bool {
        let Ok(stream) = self.stream() else { return true };
        if consumer.set_parked() {
            if is_unfiltered {
                lock(&self.wakeups.waiting).push(consumer.weak());
                self.wakeups.has_waiting.store(1, SeqCst);
            } else {
                self.wakeups.filtered.fetch_add(1, SeqCst);
            }
        }
        fence(SeqCst);
        // A filtered one has passed over what is not for it, and is told of what is behind.
        if stream.released() < position {
            return true;
        }
        !self.unpark(consumer, is_unfiltered)
    }

    /// A consumer is no more. One that waited for messages that never come would keep its memory.
    pub(super) fn forget_waiting(&self, consumer: &LiveConsumer, is_unfiltered: bool) {
        if self.unpark(consumer, is_unfiltered) && is_unfiltered {
            let me = consumer.weak();
            lock(&self.wakeups.waiting).retain(|other| !other.ptr_eq(&me));
        }
    }

    /// Consumers that wait for more: without a filter, and with one.
    #[cfg(test)]
    pub(in crate::engine) fn waiting(&self) -> (usize, usize) {
        (lock(&self.wakeups.waiting).len(), self.wakeups.filtered.load(SeqCst))
    }

    fn unpark(&self, consumer: &LiveConsumer, is_unfiltered: bool) -> bool {
        let was_parked = consumer.unpark();
        if was_parked && !is_unfiltered {
            self.wakeups.filtered.fetch_sub(1, SeqCst);
        }
        was_parked
    }

    /// Messages up to `released` can be read: wakes who waits for them. Costs little where nobody
    /// does.
    pub(in crate::engine) fn notify(
        &self,
        released: Seq,
        reader: &StreamReader,
        shard: Option<&mut ServiceShard>,
    ) {
        fence(SeqCst);
        let before = self.wakeups.notified.fetch_max(released, SeqCst);
        if before >= released {
            return;
        }
        let mut found = Vec::new();
        if self.wakeups.has_waiting.load(Relaxed) > 0 {
            let mut waiting = lock(&self.wakeups.waiting);
            self.wakeups.has_waiting.store(0, SeqCst);
            found.extend(
                waiting.drain(..).filter_map(|consumer| consumer.upgrade()).filter(|one| one.unpark()),
            );
        }
        if self.wakeups.filtered.load(SeqCst) > 0 {
            self.match_filters(before + 1, released, reader, &mut found);
        }
        wake(found, shard);
    }

    fn match_filters(&self, from: Seq, to: Seq, reader: &StreamReader, found: &mut Vec<Arc<LiveConsumer>>) {
        let mut matched = Matched::new();
        // What cannot be read is told when a consumer reads it.
        let _ = reader.each_subject(from, to, &mut |subject| {
            matched.clear();
            self.wakeups.filters.collect(subject, &mut matched);
            for entry in &matched.plain {
                if let Some(consumer) = entry.consumer.upgrade()
                    && self.unpark(&consumer, false)
                {
                    found.push(consumer);
                }
            }
            if self.wakeups.filtered.load(Relaxed) > 0 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
    }
}

fn wake(consumers: Vec<Arc<LiveConsumer>>, shard: Option<&mut ServiceShard>) {
    match shard {
        // On this thread, in this tick: what was just published is at hand.
        Some(shard) => consumers.into_iter().for_each(|one| shard.wake(&(one as Arc<dyn Service>))),
        None => consumers.iter().for_each(|one| one.wake()),
    }
}

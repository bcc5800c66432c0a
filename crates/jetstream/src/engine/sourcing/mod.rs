//! The streams that a stream copies: its mirror, or its sources.
//!
//! Each has a [`SourceReader`], which reads the origin's log (no consumer, no message on a wire) inside this stream's turn and hands
//! it runs of messages. `followers` is the other side: who of an origin waits for news. `find` knows where an origin is,
//! `positions` how far sources are, also after a crash, `render` what a message looks like here, `durable` the consumer
//! that keeps messages of a work queue until they are stored here, `leftovers` sees to those that nobody needs any more.

mod connect;
mod downstreams;
mod find;
pub(super) mod orphans;
mod positions;
#[cfg(test)]
mod power;
mod read_state;
mod render;
mod search;
mod source_consumer;
mod source_reader;
mod status;

use super::consumers::StreamConsumers;
use super::live::lock;
use super::{JetStream, LiveStream};
use crate::api::info::SourceInfo;
use crate::config::StreamConfig;
pub(super) use downstreams::Followers;
use myelin_store::Seq;
use positions::Positions;
pub(super) use positions::{Witnessed, is_position, upkeep};
pub(super) use source_reader::{Next, SourceReader, identity};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};

/// No message was refused.
const NEVER: u64 = u64::MAX;

/// See the head of this file.
pub(super) struct Sourcing {
    feeds: Mutex<Vec<Arc<SourceReader>>>,
    /// The last message of the stream that positions of sources had looked at when its log was opened.
    looked_through: Arc<AtomicU64>,
    /// Whether messages were stored that their origin keeps until that is released.
    has_unsettled: AtomicBool,
    /// The bytes that the stream had when it refused a message; `u64::MAX`: it has refused none since it had less.
    stalled_at: AtomicU64,
}

impl Default for Sourcing {
    fn default() -> Self {
        Self {
            feeds: Mutex::default(),
            looked_through: Arc::default(),
            has_unsettled: AtomicBool::new(false),
            stalled_at: AtomicU64::new(NEVER),
        }
    }
}

impl Sourcing {
    /// The stream's log was opened, with what was seen then, and nothing was added to it yet: it ends at `last`. What is known of
    /// sources beyond that is forgotten now: when clients have published more it looks as if the log had it.
    pub(super) fn opened(
        &self,
        consumers: &StreamConsumers,
        config: &StreamConfig,
        last: Seq,
        seen: Witnessed,
    ) {
        self.looked_through.store(positions::settle(consumers, config, last, seen), Release);
    }

    /// Begins to copy what the configuration says.
    pub(super) fn begin(&self, stream: &Arc<LiveStream>, config: &StreamConfig, jetstream: &Weak<JetStream>) {
        SourceReader::connect_together(self.set(stream, config, jetstream));
    }

    /// Copies what another configuration says from now on. What the old one said goes on undisturbed. Reads a little of the
    /// stream for what it has of sources that are new: only on the thread that answers the API.
    pub(super) fn change(
        &self,
        stream: &Arc<LiveStream>,
        config: &StreamConfig,
        jetstream: &Weak<JetStream>,
    ) {
        // Compat: how far it was is in the answer, unless that is long ago.
        SourceReader::connect_at_once(self.set(stream, config, jetstream));
        let feeds = lock(&self.feeds).clone();
        for feed in feeds {
            feed.settle_name(config);
            // The stream may have more room now.
            feed.try_again();
        }
    }

    /// Answers the feeds that are new.
    fn set(
        &self,
        stream: &Arc<LiveStream>,
        config: &StreamConfig,
        jetstream: &Weak<JetStream>,
    ) -> Vec<Arc<SourceReader>> {
        let wanted = config.mirror.iter().map(|mirror| (mirror, true));
        let wanted = wanted.chain(config.sources.iter().map(|source| (source, false)));
        let mut feeds = lock(&self.feeds);
        let mut old = std::mem::take(&mut *feeds);
        let mut new = Vec::new();
        let positions = Positions::of(stream, &self.looked_through);
        for (source, is_mirror) in wanted {
            let index = render::index_name(source);
            let known = old.iter().position(|feed| feed.is_mirror() == is_mirror && feed.index() == index);
            feeds.push(match known {
                Some(at) => old.swap_remove(at),
                None => {
                    let feed = SourceReader::new(stream, source, is_mirror, jetstream, &positions);
                    new.push(Arc::clone(&feed));
                    feed
                }
            });
        }
        let kept = feeds.clone();
        drop(feeds);
        kept.iter().for_each(|feed| feed.settle_gets());
        old.iter().for_each(|feed| feed.forget());
        new
    }

    /// Copies nothing any more: the stream is gone.
    pub(super) fn end(&self) {
        std::mem::take(&mut *lock(&self.feeds)).iter().for_each(|feed| feed.end());
    }

    /// Copies nothing until it [begins](Self::begin) again.
    pub(super) fn rest(&self) {
        std::mem::take(&mut *lock(&self.feeds)).iter().for_each(|feed| feed.rest());
    }

    /// Looks for origins that were not there.
    pub(super) fn seek(&self) {
        lock(&self.feeds).iter().filter(|feed| feed.is_seeking()).for_each(|feed| feed.connect_soon());
    }

    /// The stream's log is another one: what was stored last may not be there. With the core in hand: nothing is copied until
    /// [`Sourcing::connect`].
    pub(super) fn begin_anew(&self) {
        let feeds = lock(&self.feeds).clone();
        feeds.iter().for_each(|feed| feed.begin_anew());
    }

    /// Goes on after [`Sourcing::begin_anew`].
    pub(super) fn connect(&self) {
        let feeds = lock(&self.feeds).clone();
        SourceReader::connect_together(feeds);
    }

    /// Notes that messages wait for their release.
    pub(super) fn note_unsettled(&self) {
        self.has_unsettled.store(true, Relaxed);
    }

    /// Feeds that may have something to tell their origins now that more is released.
    pub(super) fn unsettled(&self) -> Vec<Arc<SourceReader>> {
        if self.has_unsettled.load(Relaxed) && self.has_unsettled.swap(false, Relaxed) {
            return lock(&self.feeds).clone();
        }
        Vec::new()
    }

    /// Notes that a message was refused by a stream of so many bytes.
    fn note_stalled(&self, bytes: u64) {
        self.stalled_at.store(bytes, Release);
    }

    /// Tries again what was refused, if something has gone from the stream since. `bytes`: what it has now.
    pub(super) fn try_again(&self, bytes: impl FnOnce() -> u64) {
        let at = self.stalled_at.load(Acquire);
        if at != NEVER && bytes() < at && self.stalled_at.compare_exchange(at, NEVER, AcqRel, Relaxed).is_ok()
        {
            let feeds = lock(&self.feeds).clone();
            feeds.iter().for_each(|feed| feed.try_again());
        }
    }

    /// Writes down how far sources are, for the next start. The stream takes nothing any more.
    pub(super) fn close(&self) {
        lock(&self.feeds).iter().for_each(|feed| feed.close());
    }

    /// How far the mirror is, and the sources.
    pub(super) fn info(&self, config: &StreamConfig) -> (Option<SourceInfo>, Vec<SourceInfo>) {
        let feeds = lock(&self.feeds).clone();
        let mut all = feeds.iter().map(|feed| feed.info());
        if config.mirror.is_some() { (all.next(), Vec::new()) } else { (None, all.collect()) }
    }
}

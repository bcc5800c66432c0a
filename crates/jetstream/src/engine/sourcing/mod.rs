//! The streams that a stream copies: its mirror, or its sources.
//!
//! Each has a [`SourceReader`], which reads the origin's log (no consumer, no message on a wire)
//! inside this stream's turn and hands it runs of messages. `downstreams` is the other side: the
//! streams that wait for news of an origin. `find` knows where an origin is, `positions` how far
//! sources are, also after a crash, `render` what a message looks like here. `source_consumer` is
//! the consumer that keeps messages of a work queue until they are stored here, `orphans` removes
//! those that nobody needs any more.
//!
//! # One copied message
//!
//! 1. `engine/live/mod.rs`, `downstreams`: the origin has released messages; source readers that
//!    wait at its end are woken on this shard.
//! 2. `source_reader`, `engine/live/turn.rs`: the source reader goes into the turn of the stream
//!    that copies. It reads the origin through a `StreamReader` and never takes the origin's turn.
//! 3. `read_state`, `render`: in the turn, a run is read from the origin's log, with subjects and
//!    headers as they are to be stored.
//! 4. `streams/src/stream/copy.rs`, `streams/src/stream/flush.rs`: the checks of a copy and one
//!    append. A mirror's messages keep their sequences and times (`AppendRun::push_stamp`); gaps
//!    are entries of the batch.
//! 5. `positions`: how far a source is goes to the log of the stream's consumers, with what it was
//!    before, and is synced before a segment is sealed. A start brings both logs into line;
//!    `search` looks for the position in slices, on the thread that reads.
//! 6. `SourceReader::apply_effects`, after the turn: more, wait, read what is cold, come again
//!    later, or look for the origin, which is for the thread of the API.
//! 7. `source_consumer`: where the origin keeps messages for this stream, what this stream has
//!    released is settled there.
//!
//! The internal consumer behind a mirror or source (`ConsumerConfig::is_own`) is owned by the
//! *configuration* of the stream that its metadata names, not by a source reader: a reader that is
//! started again goes on with it, and `orphans` compares the two after updates and deletions and
//! after a start.

mod connect;
mod downstreams;
mod origin;
mod origin_search;
pub(super) mod orphans;
mod position_search;
mod positions;
#[cfg(test)]
mod power_loss;
mod read_state;
mod render;
mod source_consumer;
mod source_reader;
mod status;

use super::consumers::StreamConsumers;
use super::{JetStream, LiveStream};
pub(super) use downstreams::Downstreams;
use myelin_jsapi::api::info::SourceInfo;
use myelin_jsapi::config::StreamConfig;
use myelin_stdx::sync::lock;
use myelin_store::Seq;
use positions::Positions;
pub(super) use positions::{SeenPositions, upkeep};
pub(super) use source_reader::{NextAction, SourceReader, identity};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};

/// No message was refused.
const NEVER: u64 = u64::MAX;

/// Mirror or sources of one stream.
pub(super) struct Sourcing {
    source_readers: Mutex<Vec<Arc<SourceReader>>>,
    /// The last message of the stream that positions of sources had looked at when its log was
    /// opened.
    looked_through: Arc<AtomicU64>,
    /// Whether messages were stored that their origin keeps until that is released.
    has_unacked: AtomicBool,
    /// The bytes that the stream had when it refused a message; `u64::MAX`: it has refused none
    /// since it had less.
    stalled_at: AtomicU64,
}

impl Default for Sourcing {
    fn default() -> Self {
        Self {
            source_readers: Mutex::default(),
            looked_through: Arc::default(),
            has_unacked: AtomicBool::new(false),
            stalled_at: AtomicU64::new(NEVER),
        }
    }
}

impl Sourcing {
    /// The stream's log was opened, with what was seen then, and nothing was added to it yet: it
    /// ends at `last`. What is known of sources beyond that is forgotten now: when clients have
    /// published more it looks as if the log had it.
    pub(super) fn opened(
        &self,
        consumers: &StreamConsumers,
        config: &StreamConfig,
        last: Seq,
        seen: SeenPositions,
    ) {
        self.looked_through.store(positions::reconcile(consumers, config, last, seen), Release);
    }

    /// Begins to copy what the configuration says.
    pub(super) fn begin(&self, stream: &Arc<LiveStream>, config: &StreamConfig, jetstream: &Weak<JetStream>) {
        SourceReader::connect_together(self.set(stream, config, jetstream));
    }

    /// Copies what another configuration says from now on. What the old one said goes on
    /// undisturbed. Reads a little of the stream for what it has of sources that are new: only on
    /// the thread that answers the API.
    pub(super) fn change(
        &self,
        stream: &Arc<LiveStream>,
        config: &StreamConfig,
        jetstream: &Weak<JetStream>,
    ) {
        // Compat: how far it was is in the answer, unless that is long ago.
        SourceReader::connect_at_once(self.set(stream, config, jetstream));
        let source_readers = lock(&self.source_readers).clone();
        for source_reader in source_readers {
            source_reader.relink_if_renamed(config);
            // The stream may have more room now.
            source_reader.retry_refused();
        }
    }

    /// Answers the source readers that are new.
    fn set(
        &self,
        stream: &Arc<LiveStream>,
        config: &StreamConfig,
        jetstream: &Weak<JetStream>,
    ) -> Vec<Arc<SourceReader>> {
        let wanted = config.mirror.iter().map(|mirror| (mirror, true));
        let wanted = wanted.chain(config.sources.iter().map(|source| (source, false)));
        let mut source_readers = lock(&self.source_readers);
        let mut old = std::mem::take(&mut *source_readers);
        let mut new = Vec::new();
        let positions = Positions::of(stream, &self.looked_through);
        for (source, is_mirror) in wanted {
            let index = render::index_name(source);
            let known = old.iter().position(|source_reader| {
                source_reader.is_mirror() == is_mirror && source_reader.index() == index
            });
            source_readers.push(match known {
                Some(at) => old.swap_remove(at),
                None => {
                    let source_reader = SourceReader::new(stream, source, is_mirror, jetstream, &positions);
                    new.push(Arc::clone(&source_reader));
                    source_reader
                }
            });
        }
        let kept = source_readers.clone();
        drop(source_readers);
        kept.iter().for_each(|source_reader| source_reader.update_direct_gets());
        old.iter().for_each(|source_reader| source_reader.forget());
        new
    }

    /// Copies nothing any more: the stream is gone.
    pub(super) fn end(&self) {
        std::mem::take(&mut *lock(&self.source_readers)).iter().for_each(|source_reader| source_reader.end());
    }

    /// Copies nothing until it [begins](Self::begin) again.
    pub(super) fn suspend(&self) {
        std::mem::take(&mut *lock(&self.source_readers))
            .iter()
            .for_each(|source_reader| source_reader.suspend());
    }

    /// Looks for origins that were not there.
    pub(super) fn seek(&self) {
        lock(&self.source_readers)
            .iter()
            .filter(|source_reader| source_reader.is_seeking())
            .for_each(|source_reader| source_reader.connect_soon());
    }

    /// The stream's log is another one: what was stored last may not be there. With the core in
    /// hand: nothing is copied until [`Sourcing::connect`].
    pub(super) fn reset(&self) {
        let source_readers = lock(&self.source_readers).clone();
        source_readers.iter().for_each(|source_reader| source_reader.reset());
    }

    /// Goes on after [`Sourcing::reset`].
    pub(super) fn connect(&self) {
        let source_readers = lock(&self.source_readers).clone();
        SourceReader::connect_together(source_readers);
    }

    /// Notes that messages wait for their release.
    pub(super) fn note_unacked(&self) {
        self.has_unacked.store(true, Relaxed);
    }

    /// Source readers that may have something to tell their origins now that more is released.
    pub(super) fn unacked(&self) -> Vec<Arc<SourceReader>> {
        if self.has_unacked.load(Relaxed) && self.has_unacked.swap(false, Relaxed) {
            return lock(&self.source_readers).clone();
        }
        Vec::new()
    }

    /// Notes that a message was refused by a stream of so many bytes.
    fn note_stalled(&self, bytes: u64) {
        self.stalled_at.store(bytes, Release);
    }

    /// Tries again what was refused, if something has gone from the stream since. `bytes`: what it
    /// has now.
    pub(super) fn retry_refused(&self, bytes: impl FnOnce() -> u64) {
        let at = self.stalled_at.load(Acquire);
        if at != NEVER && bytes() < at && self.stalled_at.compare_exchange(at, NEVER, AcqRel, Relaxed).is_ok()
        {
            let source_readers = lock(&self.source_readers).clone();
            source_readers.iter().for_each(|source_reader| source_reader.retry_refused());
        }
    }

    /// Writes down how far sources are, for the next start. The stream takes nothing any more.
    pub(super) fn close(&self) {
        lock(&self.source_readers).iter().for_each(|source_reader| source_reader.close());
    }

    /// How far the mirror is, and the sources.
    pub(super) fn info(&self, config: &StreamConfig) -> (Option<SourceInfo>, Vec<SourceInfo>) {
        let source_readers = lock(&self.source_readers).clone();
        let mut all = source_readers.iter().map(|source_reader| source_reader.info());
        if config.mirror.is_some() { (all.next(), Vec::new()) } else { (None, all.collect()) }
    }
}

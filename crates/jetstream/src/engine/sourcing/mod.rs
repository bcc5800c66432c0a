//! The streams that a stream copies: its mirror, or its sources.
//!
//! Each has a [`SourceReader`], which reads the origin's log (no consumer, no message on a wire)
//! inside this stream's turn and hands it runs of messages. `live/sourcing.rs` is what a stream
//! knows of it, `live/downstreams.rs` the other side: the streams that wait for news of an origin.
//! `find` knows where an origin is, `positions` how far sources are, also after a crash, `render`
//! what a message looks like here. `source_consumer` is the consumer that keeps messages of a work
//! queue until they are stored here, `orphans` removes those that nobody needs any more.
//!
//! An origin on another server, behind a leaf node or a hub, is followed by a consumer there
//! (`follow`): `remote_request` asks for it, `remote_origin` listens to it, `remote_feed` counts
//! what comes and keeps it until the stream's turn takes it, in step 3, in place of the log.
//!
//! # One copied message
//!
//! 1. `live/mod.rs`, `live/downstreams.rs`: the origin has released messages; source readers that
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
//! A stream that begins to keep only what consumers want has those made first that stand for its
//! copies, wherever these are led: `copies`.
//!
//! The internal consumer behind a mirror or source (`ConsumerConfig::is_own`) is owned by the
//! *configuration* of the stream that its metadata names, not by a source reader: a reader that is
//! started again goes on with it, and `orphans` compares the two after updates and deletions and
//! after a start.

mod connect;
pub(super) mod copies;
mod follow;
mod origin;
mod origin_search;
pub(super) mod orphans;
mod position_search;
mod positions;
#[cfg(test)]
mod power_loss;
mod read_state;
mod remote_feed;
mod remote_origin;
mod remote_request;
mod render;
mod source_consumer;
mod source_reader;
mod status;

use super::consumers::StreamConsumers;
use super::live::{FoundEnd, Sourcing};
use super::{JetStream, LiveStream};
use myelin_broker::ServiceShard;
use myelin_jsapi::api::info::SourceInfo;
use myelin_jsapi::config::StreamConfig;
use myelin_stdx::sync::lock;
pub(super) use orphans::Unlinked;
use positions::Positions;
pub(super) use positions::{SeenPositions, upkeep};
use source_reader::SourceReader;
use std::sync::atomic::{AtomicU64, Ordering::Release};
use std::sync::{Arc, Mutex, Weak};

/// Readers of the mirror or the sources of one stream.
pub(super) struct SourceReaders {
    jetstream: Weak<JetStream>,
    readers: Mutex<Vec<Arc<SourceReader>>>,
    /// The last message of the stream that positions of sources had looked at when its log was
    /// opened.
    looked_through: Arc<AtomicU64>,
    /// The last sequence that was passed over when its log was opened and had never held anything,
    /// or has lost it; else 0.
    passed: Arc<AtomicU64>,
}

impl SourceReaders {
    /// Readers of a stream of this server, which copies nothing yet.
    pub(super) fn of_stream(jetstream: &Weak<JetStream>) -> Box<dyn Sourcing> {
        let (readers, looked_through, passed) = (Mutex::default(), Arc::default(), Arc::default());
        Box::new(Self { jetstream: Weak::clone(jetstream), readers, looked_through, passed })
    }

    /// Answers the source readers that are new: none where the stream follows.
    fn set(&self, stream: &Arc<LiveStream>, config: &StreamConfig) -> Vec<Arc<SourceReader>> {
        let wanted = config.mirror.iter().map(|mirror| (mirror, true));
        let wanted = wanted.chain(config.sources.iter().map(|source| (source, false)));
        let mut readers = lock(&self.readers);
        // With the lock in hand: who has it follow suspends what is there afterwards.
        if !stream.role().leads() {
            return Vec::new();
        }
        let mut old = std::mem::take(&mut *readers);
        let mut new = Vec::new();
        let positions = Positions::of(stream.consumers(), &self.looked_through, &self.passed);
        for (source, is_mirror) in wanted {
            let index = render::index_name(source);
            let known = old.iter().position(|source_reader| {
                source_reader.is_mirror() == is_mirror && source_reader.index() == index
            });
            readers.push(match known {
                Some(at) => old.swap_remove(at),
                None => {
                    let source_reader =
                        SourceReader::new(stream, source, is_mirror, &self.jetstream, &positions);
                    new.push(Arc::clone(&source_reader));
                    source_reader
                }
            });
        }
        let kept = readers.clone();
        drop(readers);
        kept.iter().for_each(|source_reader| source_reader.update_direct_gets());
        old.iter().for_each(|source_reader| source_reader.forget());
        new
    }
}

impl Sourcing for SourceReaders {
    fn opened(&self, consumers: &StreamConsumers, config: &StreamConfig, end: FoundEnd, seen: SeenPositions) {
        let FoundEnd { found, last } = end;
        let has_nothing = found < last && found < config.first_seq.max(1);
        self.passed.store(if has_nothing { last } else { 0 }, Release);
        self.looked_through.store(positions::reconcile(consumers, config, found, seen), Release);
    }

    fn begin(&self, stream: &Arc<LiveStream>, config: &StreamConfig) {
        // Where one has read since the stream led last is not where that ends now.
        self.suspend();
        SourceReader::connect_together(self.set(stream, config));
    }

    fn change(&self, stream: &Arc<LiveStream>, config: &StreamConfig) {
        // Compat: how far it was is in the answer, unless that is long ago.
        SourceReader::connect_at_once(self.set(stream, config));
        let source_readers = lock(&self.readers).clone();
        for source_reader in source_readers {
            source_reader.relink_if_renamed(config);
            // The stream may have more room now.
            source_reader.retry_refused();
        }
    }

    fn end(&self) {
        std::mem::take(&mut *lock(&self.readers)).iter().for_each(|source_reader| source_reader.end());
    }

    fn suspend(&self) {
        std::mem::take(&mut *lock(&self.readers)).iter().for_each(|source_reader| source_reader.suspend());
    }

    fn seek(&self) {
        lock(&self.readers)
            .iter()
            .filter(|source_reader| source_reader.is_seeking())
            .for_each(|source_reader| source_reader.connect_soon());
    }

    fn reset(&self) {
        let source_readers = lock(&self.readers).clone();
        source_readers.iter().for_each(|source_reader| source_reader.reset());
    }

    fn connect(&self) {
        let source_readers = lock(&self.readers).clone();
        SourceReader::connect_together(source_readers);
    }

    fn retry_refused(&self) {
        let source_readers = lock(&self.readers).clone();
        source_readers.iter().for_each(|source_reader| source_reader.retry_refused());
    }

    fn acknowledge(&self, mut shard: Option<&mut ServiceShard>) {
        let source_readers = lock(&self.readers).clone();
        source_readers.iter().for_each(|source_reader| source_reader.acknowledge(shard.as_deref_mut()));
    }

    fn close(&self) {
        lock(&self.readers).iter().for_each(|source_reader| source_reader.close());
    }

    fn info(&self, config: &StreamConfig) -> (Option<SourceInfo>, Vec<SourceInfo>) {
        let source_readers = lock(&self.readers).clone();
        let mut all = source_readers.iter().map(|source_reader| source_reader.info());
        if config.mirror.is_some() { (all.next(), Vec::new()) } else { (None, all.collect()) }
    }
}

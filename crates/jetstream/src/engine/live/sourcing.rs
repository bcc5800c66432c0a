//! Mirrors and sources as a stream knows them: those by which it copies others, and those of
//! others that copy it.
//!
//! What they are made of is in [`sourcing`](crate::engine::sourcing), which knows streams and
//! accounts.

use super::LiveStream;
use crate::engine::consumers::{LiveConsumer, StreamConsumers};
use crate::engine::sourcing::SeenPositions;
use myelin_broker::{Service, ServiceShard};
use myelin_jsapi::ApiError;
use myelin_jsapi::api::info::SourceInfo;
use myelin_jsapi::config::StreamConfig;
use myelin_store::{Seq, Timestamp};
use myelin_streams::stream::{Cold, Effects, StreamCore};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// No message was refused.
const NEVER: u64 = u64::MAX;

/// End of a log that was opened.
#[derive(Clone, Copy)]
pub(in crate::engine) struct FoundEnd {
    /// The last sequence that was found.
    pub(in crate::engine) found: Seq,
    /// The last one after those that may have been given out, and are lost, were passed over.
    pub(in crate::engine) last: Seq,
}

impl FoundEnd {
    /// The end of a log that is now at `last`; where nothing was passed over, so was it found.
    pub(in crate::engine) fn new(found: Option<Seq>, last: Seq) -> Self {
        Self { found: found.unwrap_or(last), last }
    }
}

/// Mirror or sources by which one stream copies others.
pub(in crate::engine) trait Sourcing: Send + Sync {
    /// The stream's log was opened, with what was seen then, and nothing was added to it yet: it
    /// ends at `end`. What is known of sources beyond that is forgotten now: when clients have
    /// published more it looks as if the log had it.
    fn opened(&self, consumers: &StreamConsumers, config: &StreamConfig, end: FoundEnd, seen: SeenPositions);

    /// Begins to copy what the configuration says, from where the stream's log ends now.
    fn begin(&self, stream: &Arc<LiveStream>, config: &StreamConfig);

    /// Copies what another configuration says from now on, if the stream leads. What the old one
    /// said goes on undisturbed. Reads a little of the stream for what it has of sources that are
    /// new: only on the thread that answers the API.
    fn change(&self, stream: &Arc<LiveStream>, config: &StreamConfig);

    /// Copies nothing any more: the stream is gone.
    fn end(&self);

    /// Copies nothing until it [begins](Self::begin) again.
    fn suspend(&self);

    /// Looks for origins that were not there.
    fn seek(&self);

    /// The stream's log is another one: what was stored last may not be there. With the core in
    /// hand: nothing is copied until [`connect`](Self::connect).
    fn reset(&self);

    /// Goes on after [`reset`](Self::reset).
    fn connect(&self);

    /// Tries again what was refused.
    fn retry_refused(&self);

    /// Tells origins what this stream has released. Not inside a turn.
    fn acknowledge(&self, shard: Option<&mut ServiceShard>);

    /// Writes down how far sources are, for the next start. The stream takes nothing any more.
    fn close(&self);

    /// How far the mirror is, and the sources.
    fn info(&self, config: &StreamConfig) -> (Option<SourceInfo>, Vec<SourceInfo>);
}

/// Mirror or source of a stream that copies a run in that stream's turn.
pub(in crate::engine) trait SourceRun: Send + Sync {
    /// Copies a run, in the turn of the stream.
    fn copy(&self, core: &mut StreamCore, now: Timestamp, effects: &mut Effects) -> NextAction;

    /// Does what it wants, after the turn.
    fn apply_effects(&self, next: NextAction);
}

/// Mirror or source of another stream, which copies this one.
pub(in crate::engine) trait Downstream: Service {
    /// Has a shard come for it.
    fn wake(&self);

    /// `origin` is about to keep only what consumers want: has the one made that stands for this
    /// mirror or source. Only on the thread that answers the API.
    ///
    /// # Errors
    /// There is none, so the origin must not.
    fn make_source_consumer(&self, origin: &Arc<LiveStream>) -> Result<(), ApiError>;

    /// The origin keeps messages for another reason, or the consumer there is gone: goes on where
    /// it was.
    fn relink(&self);

    /// Whether this is the consumer that stands for it.
    fn reads_by(&self, consumer: &Arc<LiveConsumer>) -> bool;

    /// The origin is gone, or its log was opened anew.
    fn lose_origin(&self);
}

/// Action of a source reader after the turn.
pub(in crate::engine) enum NextAction {
    /// Nothing: somebody else sees to it.
    Nothing,
    /// Another turn.
    More,
    /// To hear when the origin has more than this.
    Park(Seq),
    /// To hear of messages that another server sends, and to come again at `patience` if it does
    /// not. `is_current`: all that it had is here.
    Await { patience: Timestamp, is_current: bool },
    /// The next message is to be brought into memory.
    Cold(Seq),
    /// The counters of the run are to be brought into memory.
    Count(Cold),
    /// To come again after so many nanoseconds.
    Later(Timestamp),
    /// To look where the origin is.
    Seek,
}

/// Marks of a stream that copies others: what its mirror or sources wait for. A stream that copies
/// nothing pays two loads a turn.
pub(in crate::engine) struct SourcingMarks {
    /// Whether messages were stored that their origin keeps until that is released.
    has_unacked: AtomicBool,
    /// The bytes that the stream had when it refused a message, with what is not released, which
    /// counted; `u64::MAX`: it has refused none since it had less.
    stalled_at: AtomicU64,
}

impl Default for SourcingMarks {
    fn default() -> Self {
        Self { has_unacked: AtomicBool::new(false), stalled_at: AtomicU64::new(NEVER) }
    }
}

impl SourcingMarks {
    /// Notes that messages wait for their release.
    pub(in crate::engine) fn note_unacked(&self) {
        self.has_unacked.store(true, Relaxed);
    }

    /// Whether some may have something to tell their origins now that more is released. Once.
    pub(super) fn take_unacked(&self) -> bool {
        self.has_unacked.load(Relaxed) && self.has_unacked.swap(false, Relaxed)
    }

    /// Notes that a message was refused by a stream of so many bytes.
    pub(in crate::engine) fn note_stalled(&self, bytes: u64) {
        self.stalled_at.store(bytes, Release);
    }

    /// Whether a message was refused and something has gone from the stream since. `bytes`: what it
    /// has now, with what is not released. Once.
    pub(super) fn take_stalled(&self, bytes: impl FnOnce() -> u64) -> bool {
        let at = self.stalled_at.load(Acquire);
        at != NEVER && bytes() < at && self.stalled_at.compare_exchange(at, NEVER, AcqRel, Relaxed).is_ok()
    }
}

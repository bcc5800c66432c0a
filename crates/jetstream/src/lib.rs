//! JetStream in accounts and on shards: how messages and requests reach the cores of streams and
//! consumers, and how what comes of them gets out.
//!
//! `streams` knows what a stream does, `jsapi` what is asked and answered; this room alone knows
//! broker, shards and accounts. No socket, thread, clock or random source lives here: whoever
//! embeds it passes `now`, runs the store's rounds and jobs, and wakes streams. Nothing is
//! acknowledged, republished or read before the store has released it (contracts.md C1).
//!
//! # One message into a stream
//!
//! A stream is a *service* of its account (`broker/src/service.rs`), a target among others; the
//! first steps are those of every publish (`broker`).
//!
//! 1. `broker/src/shard/service_queue.rs`: the message is copied into the shard's buffer for the
//!    stream. All of a tick go together, and before the flush the stream gets them, on the
//!    publisher's own thread.
//! 2. `engine/live/turn.rs`: the buffer goes into the stream's turn; a shard that finds the turn
//!    held leaves the buffer to the holder.
//! 3. `streams/src/stream/admit.rs`, `streams/src/stream/append_run.rs`,
//!    `streams/src/stream/batch/`: each message is checked in the reference's order; a counter gets
//!    its total (`streams/src/stream/counters.rs`), a schedule its time
//!    (`streams/src/stream/schedules/admit.rs`); messages that belong together become a run.
//! 4. `streams/src/stream/flush.rs`: one append of the store for a run; the way goes on in `store`.
//! 5. `streams/src/stream/release_queue.rs`, `streams/src/stream/reply.rs`: acknowledgements and
//!    republished messages, now or when the release position says so. A round of the journal that
//!    has released something wakes the stream on a shard.
//! 6. `engine/ordered_outbox.rs`, `broker/src/shard/send.rs`: after the turn they are published
//!    like any message, in the order of the turns.
//!
//! # A request to the API
//!
//! `engine/api_service.rs`, the thread for the API, `engine/calls/` (a file per family), and a
//! shard that publishes the answer. The thread waits for no disk: a call that has to is gone on
//! with when what it waits for is released, written or synced (`engine/calls/pending.rs`,
//! `engine/waits.rs`). A request may take the stream's core into its own hands
//! (`LiveStream::lock_core`), while publishes gather in the inbox of the turn: never across a wait
//! for the disk, and a purge gives it back between slices. A direct get is answered on its shard
//! from the store's `Reader` (`engine/direct.rs`, `streams/src/read/`), slice by slice if there is
//! much; only what is not in the page cache goes to a thread. A stream that fails is opened anew
//! (`engine/live/repair.rs`).
//!
//! # Where to look
//!
//! - How deliveries and acknowledgements travel: `engine/consumers/`.
//! - Mirrors and sources: `engine/sourcing/`, `streams/src/stream/copy.rs`.
//! - Requests: `engine/calls/`. Backups and restores on the wire: `engine/backup/`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::iter_over_hash_type))]

mod engine;

pub use engine::{
    AccountStreams, ApiCalls, ApiRequest, Backlog, CallGuard, CallScope, ClusterHealth, CoreGuard,
    DirectGets, FoundingTerms, GroupClock, GroupConfig, GroupSettings, GroupView, Host, JetStream,
    JetStreamSettings, KeptLogBounds, LiveConsumer, LiveStream, MetaView, PlacementFacts, ReplicaRepairs,
    ServerLimits, StreamAilment, StreamConsumers, Task, Timer, WaitingSince, peer_id,
};

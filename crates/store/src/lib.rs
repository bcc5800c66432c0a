//! Message logs: streams in memory and in files, their journal, and the state of their consumers.
//!
//! Owns every byte under a store directory, and the order in which bytes become safe (`journal`).
//! It knows files through [`myelin_disk::Disk`] only, and has no thread, clock or random source of
//! its own: whoever embeds it passes `now`, runs rounds and jobs on its own threads, and gives the
//! entropy for keys. It must never delete or skip what it does not understand: such files are moved
//! aside, damaged ranges are reported, and both stay until an operator decides.
//!
//! The formats are written down in `docs/formats/`.
//!
//! # One stored message
//!
//! JetStream calls [`Stream`] under a turn; the server's threads call `Journal::round` and
//! `Job::run`.
//!
//! 1. `stream/mod.rs`: the segment rolls if it is full. Space for the batch is reserved, so that a
//!    full disk refuses before anything has changed.
//! 2. `stream/decide.rs`: which messages are taken, and what limits evict for them, is decided on
//!    the appended state; `stream/append.rs` makes entries of it, in one batch.
//! 3. `append_file/`: one write (the default), or the bytes stay in the tail until a round
//!    (`sync_interval: always`) or a flush (`persist_mode: async`). Then the catalog follows
//!    (`stream/catalog/follow.rs`), as it does when the entries are replayed.
//! 4. `stream/release.rs`: the release position moves, at once or when a round has synced the
//!    batch, but not behind the stream's mark.
//! 5. `journal/round.rs`: everything dirty on the device becomes durable, one file by its own sync,
//!    several by one block in the journal and one sync.
//! 6. `watermarks/`: some 50 ms later, without a sync, how far the stream has come stands in a file
//!    of its own: a start misses what is gone. Where messages are released before they are synced,
//!    a round states ahead up to which sequence that may be (`watermarks/marks.rs`), and after a
//!    loss of power the stream goes on behind that mark.
//! 7. `stream/reader.rs`, `stream/cursor.rs`: readers see up to the release position, take no turn,
//!    and hold the catalog's lock for a look-up.
//! 8. `stream/roll.rs`, `jobs/`: a full segment is closed at once and sealed on a worker; its
//!    footer says what the stream was like at its end.
//! 9. `jobs/merge.rs`: from footers alone, a new base of the index and a manifest. Only then dead
//!    files go, and whoever holds them lets go: the journal, caches, cursors that rest.
//! 10. `stream/tidy.rs`: what takes messages away gives back a share of the memory of subjects that
//!     died; the rest goes while the stream rests.
//!
//! After a start (`store/`, `recovery/`) the journal is replayed into the files; then each stream
//! is the manifest's base, the footers behind it, and the entries of what was not sealed, walked
//! through the same catalog as live appends. What the watermarks say was there and is not is
//! reported as lost, and its sequences are passed over (`recovery/loss.rs`).
//!
//! # Where to look
//!
//! - What a byte on disk means: `docs/formats/` first, then `record/`, `segment/`, `base/`,
//!   `manifest/`, `journal/`, `consumer/`.
//! - Which streams were made and removed, before they have files: `register/`.
//! - What survives which crash: `store/tests/store/crash.rs` first.
//! - What a damaged store can be made of again: `repair/`; one wrong bit: `flipped.rs`.
//!   What `myelin store repair` says of it: `cli/src/store/repair.rs`,
//!   `streams/src/backup/stream_description.rs`.
//! - What is taken out of a store of nats-server: `natsfiles/`, `streams/src/backup/import.rs`,
//!   `cli/src/store/import.rs`.

// What is on disk has numbers of other widths than memory: `lengths.rs`.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::iter_over_hash_type))]

pub mod base;
pub mod cipher;
pub mod consumer;
pub mod damage;
#[allow(clippy::cast_possible_truncation, reason = "places in tables and buffers that are in memory")]
pub mod index;
pub mod journal;
pub mod keys;
pub mod manifest;
pub mod meta;
pub mod pack;
pub mod ranges;
pub mod record;
pub mod segment;
#[allow(clippy::cast_possible_truncation, reason = "places in tables and buffers that are in memory")]
pub mod verify;

#[allow(clippy::cast_possible_truncation, reason = "places in tables and buffers that are in memory")]
mod append_file;
mod config;
mod document;
mod flipped;
mod hard_file;
mod id;
#[allow(clippy::cast_possible_truncation, reason = "places in tables and buffers that are in memory")]
mod jobs;
mod lengths;
mod notes;
mod recovery;
mod register;
pub mod repair;
mod store;
#[allow(clippy::cast_possible_truncation, reason = "places in tables and buffers that are in memory")]
mod stream;
mod watermarks;

pub use append_file::{AppendFile, AppendFileOptions, OnDurable, TAIL_BYTES, WriteFailed};
pub use config::{Compression, Discard, Durability, Limits, Storage, StreamConfig, Unsealed};
pub use hard_file::HardFile;
pub use id::{FileId, FileKind, SegmentNo, Seq, StreamId, Timestamp};
pub use jobs::{Done, Job};
/// Where salts of files, keys of streams and nonces of sealed keys come from: the embedder gives a
/// source.
pub use myelin_stdx::entropy;
pub use record::Message;
pub use recovery::{Lost, Notice, OpenError, ReplayVisitor, StreamReport};
pub use store::{FoundStream, RemovalRefused, RemovedFiles, Reserve, Store, StoreOptions, StoreReport};
pub use stream::{
    Admission, AppendRefusal, AppendResult, ComingEntries, Cursor, DecidedEntry, Expired, Filter,
    FoundMessage, GAP_MAX, GroupPosition, InstallPoint, InstallSource, InstallTarget, LogEnd, LogOutline,
    MAX_SEQ, Marker, Markers, NewMessage, OnRelease, Purge, ReadError, Release, RemovalProgress, Removals,
    Removed, StateDigest, StoreError, Stream, StreamReader, StreamState, StreamUsage, TakenBack, Ticket,
    Wait,
};

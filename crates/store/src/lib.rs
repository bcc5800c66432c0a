//! Message logs: streams in memory and in files, their journal, and the state of their consumers.
//!
//! Owns every byte under a store directory, and the order in which bytes become safe (`journal`). It knows files
//! through [`disk::Disk`] only, and has no thread, clock or random source of its own: whoever embeds it passes `now`,
//! runs rounds and jobs on its own threads, and gives the entropy for keys. It must never delete or skip what it does
//! not understand: such files are moved aside, damaged ranges are reported, and both stay until an operator decides.
//!
//! The formats are written down in `docs/formats/`.

pub mod base;
pub mod cipher;
pub mod consumer;
pub mod damage;
pub mod disk;
pub mod entropy;
pub mod index;
pub mod journal;
pub mod keys;
pub mod manifest;
pub mod meta;
pub mod nats;
pub mod pack;
pub mod ranges;
pub mod record;
pub mod segment;
pub mod verify;

mod append_file;
mod claim;
mod config;
mod document;
mod flipped;
mod id;
mod jobs;
mod recovery;
pub mod repair;
mod store;
mod stream;
mod varint;
mod watermarks;

pub use append_file::{AppendFile, AppendFileOptions, OnDurable, TAIL_BYTES, WriteFailed};
pub use config::{Compression, Discard, Durability, Limits, Storage, StreamConfig};
pub use disk::{Disk, File};
pub use id::{FileId, FileKind, SegmentNo, Seq, StreamId, Timestamp};
pub use jobs::{Done, Job};
pub use record::Message;
pub use recovery::{Lost, Notice, OpenError, ReplayVisitor, StreamReport};
pub use store::{FoundStream, Reserve, Store, StoreOptions, StoreReport};
pub use stream::{
    Admission, Cursor, Expired, Filter, Found, GAP_MAX, LogEnd, MAX_SEQ, Marker, Markers, NewMessage,
    OnRelease, Outcome, Progress, Purge, ReadError, Reader, Refusal, Release, Removals, Removed, StoreError,
    Stream, StreamState, Ticket, Usage, Wait,
};

//! Formats of nats-server: backups of streams, and the files of its own store.
//!
//! Owns the reading of those formats, and the writing of the one that both servers exchange
//! (`archive` inside `frames`). All of it comes from strangers: sizes are held against a limit
//! before anything is allocated for them, and checksums before anything is believed. Nothing here
//! writes to a directory of nats-server, nor opens a file of it for writing.

pub mod archive;
pub mod block;
pub mod consumer;
pub mod directory;
pub mod frames;
pub mod hash;
pub mod index;
pub mod keys;
pub mod sequences;
pub mod tar;

mod bytes;

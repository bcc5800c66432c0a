//! Streams on their way out of a server and into one: backups, and what another server's store
//! holds.
//!
//! `archive_writer` makes an archive of a stream as it was at one moment; `backup_reader` reads
//! one, in either of the reference's two formats, `import` reads the reference's own store, and
//! `stream_builder` makes the stream of it, which nobody sees before it is whole. `state` and
//! `meta_inf` are the JSON inside, `records` the blocks of messages. Nothing here knows messages on
//! the wire, threads or accounts: those are the engine's.
//!
//! A stream that is being filled belongs to whoever restores or imports it. The store knows it as
//! unfinished until it is whole, and a start that finds it so removes it.

pub mod archive_writer;
pub mod backup_reader;
pub mod import;
mod meta_inf;
mod records;
pub mod state;
pub mod stream_builder;
pub mod stream_description;
mod tar;

#[cfg(test)]
mod tests;

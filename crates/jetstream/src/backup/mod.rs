//! Streams on their way out of a server and into one: backups, and what another server's store holds.
//!
//! `source` makes an archive of a stream as it was at one moment; `intake` reads one, in either of the reference's two
//! formats, `import` reads the reference's own store, and `filling` is the stream that comes of it, which nobody sees
//! before it is whole. `state` and `describe` are the JSON inside, `records` the blocks of messages.
//! Nothing here knows messages on the wire, threads or accounts: those are the engine's.

mod describe;
pub mod filling;
pub mod import;
pub mod intake;
pub mod named;
mod records;
pub mod source;
pub mod state;
mod tar;

#[cfg(test)]
mod tests;

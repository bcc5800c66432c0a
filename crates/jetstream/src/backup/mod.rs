//! Streams on their way out of a server and into one: backups, and what another server's store holds.
//!
//! `source` makes an archive of a stream as it was at one moment; `intake` reads one, in either of the reference's two
//! formats, and `filling` is the stream that comes of it, which nobody sees before it is whole. `state` is the JSON inside.
//! Nothing here knows messages on the wire, threads or accounts: those are the engine's.

pub mod filling;
pub mod intake;
pub mod source;
pub mod state;

mod tar;

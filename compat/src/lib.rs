//! Wire transcripts played against Myelin and against the reference server.
//!
//! A transcript (`transcripts/*.txt`, format in `README.md`) is a conversation: bytes that a client
//! sends and bytes that it must see. This room reads such files, starts a server process for each,
//! plays the conversation over blocking sockets with deadlines and says where it went wrong. It
//! knows nothing of how either server works inside, and never imports one: what cannot be seen from
//! outside is not tested here. Of Myelin's rooms it uses keys and the text forms of keys, to sign
//! as clients and operators do.

mod connection;
mod expect;
pub mod identity;
pub mod implementation;
pub mod player;
mod server;
mod text;
pub mod transcript;
mod websocket;

//! WebSocket (RFC 6455) with compression of messages (RFC 7692), without sockets.
//!
//! [`upgrade`] judges the request that asks for it and writes the answer. [`Receiver`] turns what a peer sends into
//! the bytes that it carries, in place; [`Sender`] puts frames around what waits for a peer, without copying it.
//! Nothing here knows what is carried: the client protocol runs through as a stream of bytes, whatever the frames
//! are that hold it. [`close`] has the words of the end.

pub mod close;
pub mod deflate;
mod frame;
mod mask;
mod receiver;
mod sender;
pub mod upgrade;

pub use frame::{Fault, MAX_CONTROL};
pub use receiver::{Allowance, Ending, Place, Receiver};
pub use sender::{Sender, Taste, Transport};

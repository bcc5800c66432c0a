//! WebSocket (RFC 6455) with compression of messages (RFC 7692), without sockets.
//!
//! [`upgrade`] judges the request that asks for it and writes the answer. [`FrameReader`] turns
//! what a peer sends into the bytes that it carries, in place; [`FrameWriter`] puts frames around
//! what waits for a peer, without copying it. Nothing here knows what is carried: the client
//! protocol runs through as a stream of bytes, whatever the frames are that hold it. [`close`] has
//! the words of the end.

pub mod close;
pub mod deflate;
mod frame;
mod frame_reader;
mod frame_writer;
mod mask;
pub mod upgrade;

pub use frame::{FrameFault, MAX_CONTROL};
pub use frame_reader::{BufferSpan, Ending, FrameReader, InflateLimits};
pub use frame_writer::{Extensions, FrameWriter, Transport};

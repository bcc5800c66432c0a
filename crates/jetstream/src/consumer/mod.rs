//! Consumers: who reads a stream, what was delivered and what was acknowledged.
//!
//! [`ConsumerCore`] is one consumer inside its turn, without I/O; what it must not lose is in its [`Record`]. `config` is what
//! clients ask for. Who embeds it brings requests and acknowledgements, wakes it when the stream has more, and sends what
//! comes of that.

mod ack_subject;
mod acks;
pub mod config;
mod core;
mod deliver;
mod effects;
mod info;
mod next_request;
mod pacing;
mod pin;
mod pull;
mod push;
mod record;
mod redelivery;
mod status;
mod stream_scan;
#[cfg(test)]
mod tests;
mod waiting;

pub use ack_subject::AckSubject;
pub(crate) use ack_subject::account_hash;
pub use core::{ConsumerCore, ConsumerInit, Turn, rules};
pub use deliver::Pace;
pub use effects::{Answered, Effects, Event, World};
pub use next_request::{NextRequest, Refusal};
pub use record::Record;
pub(crate) use stream_scan::filter_of;

//! Consumers: who reads a stream, what was delivered and what was acknowledged.
//!
//! [`ConsumerCore`] is one consumer inside its turn, without I/O; what it must not lose is in its
//! [`StateHandle`]. What clients ask for is in `jsapi/src/consumer/`. Who embeds it brings requests
//! and acknowledgements, wakes it when the stream has more, and sends what comes of that.
//!
//! - `delivery`: the loop that delivers, and `MaxAckPending` (`is_full`: nothing new goes while so
//!   many are outstanding). Its default and limits are in `jsapi/src/consumer/config/`.
//! - `stream_scan`, `redelivery`: what nobody has seen, and what is to come again.
//! - `pull`, `waiting`, `pin`, `push`: who gets a message. `pacing`: when. `acks`, `ack_subject`:
//!   what an answer means.
//! - `deaths`, `dead_letters`, `letter`, `letter_answer`: what is moved elsewhere because nobody
//!   acknowledges it; `retry`: pauses until then.
//! - `due`: what comes with time.
//! - `held_effects`: what waits until it counts as stored.
//! - `state_handle`: the state that must survive, in the log of the stream's consumers;
//!   `unacknowledged`: what of it awaits an answer. `info`, `status`, `effects`: what others see;
//!   `why`: what holds deliveries back.

mod ack_subject;
mod acks;
mod core;
mod dead_letters;
mod deaths;
mod delivery;
mod due;
mod effects;
mod held_effects;
mod info;
mod letter;
mod letter_answer;
mod pacing;
mod pin;
mod pull;
mod push;
mod redelivery;
mod retry;
mod send_delays;
mod state_handle;
mod status;
mod stream_scan;
#[cfg(test)]
mod tests;
mod unacknowledged;
mod waiting;
mod why;

pub use ack_subject::account_hash;
pub use ack_subject::{AckSubject, DeliveryTokens};
pub use core::{ConsumerCore, ConsumerInit, TurnCtx, rules};
pub use dead_letters::replies as dead_letter_replies;
pub use delivery::DeliverOutcome;
pub use effects::{AckedDelivery, ConsumerEvent, DeadLetterNews, Effects, Env, SlowReceiver};
pub use state_handle::StateHandle;
pub use stream_scan::filter_of;

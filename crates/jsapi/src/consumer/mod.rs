//! Requests to consumers: their configurations, requests for messages, negative acknowledgements,
//! dead letters.

pub mod config;
mod dead_letters;
mod nak;
mod next_request;

pub use dead_letters::{DeadLetterPolicy, DeadOn, RetryBackoff};
pub use nak::nak_delay;
pub use next_request::{NextRequest, RequestRefusal};

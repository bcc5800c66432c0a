//! Requests to consumers: their configurations, requests for messages, negative acknowledgements.

pub mod config;
mod nak;
mod next_request;

pub use nak::nak_delay;
pub use next_request::{NextRequest, RequestRefusal};

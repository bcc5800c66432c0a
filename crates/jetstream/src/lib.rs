//! JetStream: streams, how they are managed, published to and read, on top of the broker and the store.
//!
//! Owns what a stream means: its configuration, the admission of messages, duplicates, batches, and the API. No socket,
//! thread, clock or random source lives here: whoever embeds it passes `now`, runs the store's rounds and jobs, and wakes
//! streams. Nothing is acknowledged, republished or read before the store has released it (house.md 3.1).

pub mod advisory;
pub mod api;
pub mod backup;
pub mod config;
pub mod consumer;
pub mod counter;
mod engine;
pub mod error;
pub mod json;
pub mod read;
pub mod schedule;
pub mod stream;

pub use engine::{
    AccountStreams, Alarmed, Backlog, CoreGuard, DirectGets, Host, JetStream, LiveConsumer, LiveStream,
    Request, ServerLimits, Settings, StreamConsumers, Task,
};
pub use error::ApiError;

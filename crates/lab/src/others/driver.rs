//! Driver of a system that does not speak NATS: what its clients can do, what payloads are like.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use myelin_loadgen::error::BenchError;
use myelin_loadgen::pubsub::script;

/// The payload behind the last message. Others are longer.
pub(super) const END: &[u8] = b".";

/// Bytes of the number at the start of a payload.
pub(super) const NUMBER: usize = 8;

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) sort: Sort,
}

/// Kind of a place: how long it keeps messages, and which of its readers get them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Each subscriber gets every message that comes after it; nothing is acknowledged.
    Topic,
    /// One reader, who may come later; nothing is acknowledged.
    Queue,
    /// Messages are kept in the most lasting way that the system has as it is, and acknowledged.
    Log,
}

/// A running system that clients can be made of.
pub(super) trait Broker: Send + Sync {
    fn publisher(&self, place: &Place) -> Result<Box<dyn Publisher>, BenchError>;

    /// Subscribes. The subscriber gets all messages that are published after this returns.
    fn subscriber(&self, place: &Place) -> Result<Box<dyn Subscriber>, BenchError>;
}

pub(super) trait Publisher: Send {
    /// Takes a message, and may keep it back until `flush`.
    fn publish(&mut self, payload: &[u8]) -> Result<(), BenchError>;

    /// Sends what was kept back; in a log, waits until all is acknowledged.
    fn flush(&mut self) -> Result<(), BenchError>;
}

pub(super) trait Subscriber: Send {
    /// Waits for messages and gives them away one by one. Fails if none comes for long.
    fn next(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<(), BenchError>) -> Result<(), BenchError>;
}

/// A place that no other run has.
pub(super) fn new_place(sort: Sort) -> Place {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    Place { name: format!("bench-{}-{number}", std::process::id()), sort }
}

pub(super) fn joined<T>(handle: thread::ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Writes the payload of the message with this number.
pub(super) fn numbered(payload: &mut Vec<u8>, text: &[u8], number: u64, size: usize) {
    payload.clear();
    payload.extend_from_slice(&number.to_be_bytes());
    payload.extend_from_slice(&script::payload(text, number as usize, size)[NUMBER..]);
}

/// The number of a message of this size.
pub(super) fn number_of(payload: &[u8], size: usize) -> Result<u64, BenchError> {
    let number = payload.first_chunk().filter(|_| payload.len() == size);
    number
        .map(|number| u64::from_be_bytes(*number))
        .ok_or_else(|| BenchError::Protocol(format!("a payload of {} bytes", payload.len())))
}

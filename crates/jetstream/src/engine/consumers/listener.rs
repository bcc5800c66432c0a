//! Hears when the log of consumers has become durable: what waits to be said about acknowledgements
//! is said then.

use super::StreamConsumers;
use myelin_stdx::sync::lock;
use myelin_store::{FileId, OnDurable};
use std::io;
use std::sync::{Arc, Mutex, Weak};

/// Listener to the log of consumers. The log is opened before those who want to know are there.
#[derive(Default)]
pub(in crate::engine) struct LogListener(Mutex<Weak<StreamConsumers>>);

impl LogListener {
    /// From now on `consumers` are told.
    pub(in crate::engine) fn attach(&self, consumers: &Arc<StreamConsumers>) {
        *lock(&self.0) = Arc::downgrade(consumers);
    }

    fn released(&self) {
        let consumers = lock(&self.0).upgrade();
        if let Some(consumers) = consumers {
            consumers.log_released();
        }
    }
}

impl OnDurable for LogListener {
    fn durable(&self, _: FileId, _: u64) {
        self.released();
    }

    fn failed(&self, _: FileId, _: &io::Error) {
        self.released();
    }
}

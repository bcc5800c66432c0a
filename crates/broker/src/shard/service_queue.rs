//! The service queue: messages of this shard for services, until the next flush.

use crate::conn::Conn;
use crate::service::Service;
use crate::service_batch::{ServiceBatch, Traced};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes at which a batch should be broken off, so that they are worked on while they are near.
const SERVE_AT: usize = 256 * 1024;

/// Emptied buffers kept for their memory.
const SPARES: usize = 8;
/// How far back a buffer of the same service is looked for before a new one begins.
const LOOK_BACK: usize = 16;

/// Batches in the order in which they were begun.
#[derive(Default)]
pub(super) struct ServiceQueue {
    waiting: VecDeque<(Arc<dyn Service>, ServiceBatch)>,
    spares: Vec<MessageBuf>,
    /// Memory for who sent each message, for services that want to know.
    spare_origins: Vec<Vec<Arc<Conn>>>,
    bytes: usize,
    /// Whether a service in it is [behind](Service::is_behind).
    is_behind: bool,
    /// Services that wait for the end of this flush.
    unflushed: Vec<Arc<dyn Service>>,
    /// Services that are being told of the flush.
    flushing: Vec<Arc<dyn Service>>,
}

impl ServiceQueue {
    /// Whether nothing waits for a flush.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.unflushed.is_empty() && self.flushing.is_empty()
    }

    /// Batches that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no more should be added until the next flush.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= SERVE_AT || self.is_behind
    }

    /// Whether a service that was given something since this was asked last is behind.
    pub(super) fn take_behind(&mut self) -> bool {
        std::mem::take(&mut self.is_behind)
    }

    /// Adds a message for `service`.
    #[inline]
    pub(super) fn push(&mut self, service: &Arc<dyn Service>, msg: MessageRef<'_>, origin: &Arc<Conn>) {
        let wants_origin = service.wants_origin();
        let batch = self.batch(service);
        let before = batch.bytes();
        if wants_origin {
            batch.push_from(msg, origin)
        } else {
            batch.push(msg)
        }
        let added = batch.bytes() - before;
        self.bytes += added;
        self.is_behind |= before == 0 && service.is_behind();
    }

    /// Adds a traced message for `service`.
    pub(super) fn push_traced(&mut self, service: &Arc<dyn Service>, msg: MessageRef<'_>, trace: &Traced) {
        let batch = self.batch(service);
        let before = batch.bytes();
        batch.push_traced(msg, Some(trace));
        let added = batch.bytes() - before;
        self.bytes += added;
        self.is_behind |= before == 0 && service.is_behind();
    }

    /// Sees to it that the service is called, with messages or without.
    pub(super) fn wake(&mut self, service: &Arc<dyn Service>) {
        self.batch(service);
    }

    /// Has a service told when what is staged now is in the outboxes of its receivers.
    pub(super) fn after_flush(&mut self, service: Arc<dyn Service>) {
        self.unflushed.push(service);
    }

    /// Everything that was staged is in the outboxes: those who wait for that can be told.
    pub(super) fn has_flushed(&mut self) {
        self.flushing.append(&mut self.unflushed);
    }

    /// The next service to be told of the flush.
    pub(super) fn pop_flushed(&mut self) -> Option<Arc<dyn Service>> {
        self.flushing.pop()
    }

    /// The batch of a service. Services keep the order of their own messages only, so an older one
    /// will do.
    #[inline]
    fn batch(&mut self, service: &Arc<dyn Service>) -> &mut ServiceBatch {
        let first = self.waiting.len().saturating_sub(LOOK_BACK);
        let found = self.waiting.range(first..).rposition(|(known, _)| Arc::ptr_eq(known, service));
        let at = match found {
            Some(at) => first + at,
            None => {
                let wants_origin = service.wants_origin();
                let origins = if wants_origin { self.spare_origins.pop() } else { None };
                let batch = ServiceBatch::with_memory(self.spare(), origins.unwrap_or_default());
                self.waiting.push_back((Arc::clone(service), batch));
                self.waiting.len() - 1
            }
        };
        &mut self.waiting[at].1
    }

    /// The next batch to be handed over.
    pub(super) fn pop(&mut self) -> Option<(Arc<dyn Service>, ServiceBatch)> {
        self.check();
        let next = self.waiting.pop_front()?;
        self.bytes -= next.1.bytes();
        Some(next)
    }

    /// Puts a batch behind all others: the service is called in a later flush.
    pub(super) fn requeue(&mut self, service: Arc<dyn Service>, batch: ServiceBatch) {
        self.bytes += batch.bytes();
        self.waiting.push_back((service, batch));
    }

    fn check(&self) {
        debug_assert!(!self.waiting.is_empty() || self.bytes == 0, "nothing that waits has no bytes");
        debug_assert!(
            self.waiting.len() > LOOK_BACK
                || self.bytes == self.waiting.iter().map(|(_, batch)| batch.bytes()).sum::<usize>(),
            "the bytes of all batches are counted"
        );
        debug_assert!(
            self.spares.len() <= SPARES && self.spare_origins.len() <= SPARES,
            "little memory is kept"
        );
    }

    /// An empty buffer, perhaps with memory.
    pub(super) fn spare(&mut self) -> MessageBuf {
        self.spares.pop().unwrap_or_default()
    }

    /// Gives the memory of a batch back.
    pub(super) fn recycle(&mut self, batch: ServiceBatch) {
        let (msgs, origins) = batch.into_memory();
        self.recycle_buf(msgs);
        if self.spare_origins.len() < SPARES && origins.capacity() > 0 {
            self.spare_origins.push(origins);
        }
    }

    /// Gives the memory of a buffer back.
    pub(super) fn recycle_buf(&mut self, mut msgs: MessageBuf) {
        msgs.clear();
        if self.spares.len() < SPARES && msgs.has_memory() {
            self.spares.push(msgs);
        }
    }
}

//! The desk: what this shard has for services, until the next flush.

use crate::conn::Conn;
use crate::message_buf::{MessageBuf, MessageRef};
use crate::message_trace::Traced;
use crate::service::Service;
use std::collections::VecDeque;
use std::sync::Arc;

/// Emptied buffers kept for their memory.
const SPARES: usize = 8;
/// How far back a buffer of the same service is looked for before a new one begins.
const LOOK_BACK: usize = 16;

/// Buffers in the order in which they were begun.
#[derive(Default)]
pub(super) struct ServiceQueue {
    waiting: VecDeque<(Arc<dyn Service>, MessageBuf)>,
    spares: Vec<MessageBuf>,
    bytes: usize,
}

impl ServiceQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Buffers that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a message for `service`.
    #[inline]
    pub(super) fn put(&mut self, service: &Arc<dyn Service>, msg: MessageRef<'_>, origin: &Arc<Conn>) {
        let wants_origin = service.wants_origin();
        let msgs = self.msgs(service);
        let before = msgs.bytes();
        if wants_origin {
            msgs.push_from(msg, origin)
        } else {
            msgs.push(msg)
        }
        let added = msgs.bytes() - before;
        self.bytes += added;
    }

    /// The same for one that is traced.
    pub(super) fn put_traced(&mut self, service: &Arc<dyn Service>, msg: MessageRef<'_>, trace: &Traced) {
        let msgs = self.msgs(service);
        let before = msgs.bytes();
        msgs.push_traced(msg, Some(trace));
        let added = msgs.bytes() - before;
        self.bytes += added;
    }

    /// Sees to it that the service is called, with messages or without.
    pub(super) fn wake(&mut self, service: &Arc<dyn Service>) {
        self.msgs(service);
    }

    /// The buffer of a service. Services keep the order of their own messages only, so an older one will do.
    #[inline]
    fn msgs(&mut self, service: &Arc<dyn Service>) -> &mut MessageBuf {
        let first = self.waiting.len().saturating_sub(LOOK_BACK);
        let found = self.waiting.range(first..).rposition(|(known, _)| Arc::ptr_eq(known, service));
        let at = match found {
            Some(at) => first + at,
            None => {
                let msgs = self.spare();
                self.waiting.push_back((Arc::clone(service), msgs));
                self.waiting.len() - 1
            }
        };
        &mut self.waiting[at].1
    }

    /// The next buffer to be handed over.
    pub(super) fn take(&mut self) -> Option<(Arc<dyn Service>, MessageBuf)> {
        let next = self.waiting.pop_front()?;
        self.bytes -= next.1.bytes();
        Some(next)
    }

    /// The service is called in a later flush.
    pub(super) fn put_off(&mut self, service: Arc<dyn Service>, msgs: MessageBuf) {
        self.bytes += msgs.bytes();
        self.waiting.push_back((service, msgs));
    }

    /// An empty buffer, perhaps with memory.
    pub(super) fn spare(&mut self) -> MessageBuf {
        self.spares.pop().unwrap_or_default()
    }

    /// Gives the memory of a buffer back.
    pub(super) fn give_back(&mut self, mut msgs: MessageBuf) {
        msgs.clear();
        if self.spares.len() < SPARES && msgs.has_memory() {
            self.spares.push(msgs);
        }
    }
}

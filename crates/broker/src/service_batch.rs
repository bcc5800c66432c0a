//! Messages that a service is handed, with what the broker knows of them beside their bytes.

use crate::conn::Conn;
use crate::service::Service;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::ops::Deref;
use std::sync::Arc;

/// Messages that were published to one service since it was served last on a shard, in order.
#[derive(Default)]
pub struct ServiceBatch {
    /// The messages themselves. A service may take them; the shard reuses the memory of what is
    /// left.
    pub msgs: MessageBuf,
    /// Connections that sent each message, where the service wants to know.
    origins: Vec<Arc<Conn>>,
    /// Messages that are traced, by their number: few, if any.
    traces: Vec<(usize, Traced)>,
}

impl ServiceBatch {
    /// An empty batch with this memory.
    pub(crate) fn with_memory(msgs: MessageBuf, origins: Vec<Arc<Conn>>) -> Self {
        debug_assert!(msgs.is_empty() && origins.is_empty(), "a batch begins without messages");
        Self { msgs, origins, traces: Vec::new() }
    }

    /// Gives the memory back, emptied.
    pub(crate) fn into_memory(mut self) -> (MessageBuf, Vec<Arc<Conn>>) {
        self.clear();
        (self.msgs, self.origins)
    }

    /// Empties it and keeps its memory, unless that is large.
    pub fn clear(&mut self) {
        self.msgs.clear();
        self.origins.clear();
        self.traces.clear();
    }

    /// Adds a message that is not traced, and of which nobody wants to know who sent it.
    #[inline]
    pub fn push(&mut self, msg: MessageRef<'_>) {
        self.msgs.push(msg);
    }

    /// Adds a message with who sent it. Either all messages of a batch have an origin or none.
    pub(crate) fn push_from(&mut self, msg: MessageRef<'_>, origin: &Arc<Conn>) {
        debug_assert!(
            self.origins.len() == self.msgs.len(),
            "either all messages of a batch have an origin or none"
        );
        self.msgs.push(msg);
        self.origins.push(Arc::clone(origin));
    }

    /// Adds a message that is traced, if it is.
    pub fn push_traced(&mut self, msg: MessageRef<'_>, trace: Option<&Traced>) {
        self.traces.extend(trace.map(|trace| (self.msgs.len(), trace.clone())));
        self.msgs.push(msg);
    }

    /// Sender of message number `at`, if the service [wants to know](crate::Service::wants_origin).
    pub fn origin(&self, at: usize) -> Option<&Arc<Conn>> {
        self.origins.get(at)
    }

    /// Trace of message number `at`, if it is traced.
    pub fn trace(&self, at: usize) -> Option<&Traced> {
        self.traces.iter().find(|(number, _)| *number == at).map(|(_, trace)| trace)
    }

    /// Traces of its messages.
    pub fn traces(&self) -> impl Iterator<Item = &Traced> {
        self.traces.iter().map(|(_, trace)| trace)
    }

    /// Whether any message is traced.
    #[inline]
    pub fn is_traced(&self) -> bool {
        !self.traces.is_empty()
    }
}

/// The trace of a message, as those who are handed the message add to it.
pub trait TraceRecord: Service {
    /// Whether nobody is to get the message.
    fn is_only(&self) -> bool;

    /// Notes what became of the message: see [`Traced::settled`]. `event` is the number of the
    /// event that the trace has given to whoever is asked.
    fn settle(&self, event: usize, outcome: Result<StoredAs<'_>, String>) -> bool;
}

/// Outcome of a traced message that a stream has taken.
#[derive(Clone, Copy, Debug)]
pub struct StoredAs<'a> {
    /// Subject of the message in the stream.
    pub subject: &'a [u8],
    /// Sequence, if it is stored and the sequence is known.
    pub seq: Option<u64>,
    /// Whether nobody is interested, so that it is not kept.
    pub is_unwanted: bool,
}

/// A traced message in the hands of one stream, which is to say what it does with it. Streams of
/// one name in two accounts each have their own.
#[derive(Clone)]
pub struct Traced {
    trace: Arc<dyn TraceRecord>,
    /// The number of the event that is this stream's.
    pub(crate) event: usize,
}

impl Traced {
    pub(crate) fn new(trace: Arc<dyn TraceRecord>, event: usize) -> Self {
        Self { trace, event }
    }

    /// The trace that this is a part of.
    #[must_use]
    pub fn trace(&self) -> Arc<dyn Service> {
        Arc::clone(&self.trace) as Arc<dyn Service>
    }

    /// Whether nobody is to get the message.
    #[must_use]
    pub fn is_only(&self) -> bool {
        self.trace.is_only()
    }

    /// Notes what the stream did with the message: took it, or refused it. Returns whether the
    /// trace is complete: then it is to be [served](Service) on some shard.
    #[must_use]
    pub fn settled(&self, outcome: Result<StoredAs<'_>, String>) -> bool {
        self.trace.settle(self.event, outcome)
    }
}

impl From<MessageBuf> for ServiceBatch {
    /// Makes a batch of messages of which nothing else is known.
    fn from(msgs: MessageBuf) -> Self {
        Self { msgs, ..Self::default() }
    }
}

impl Deref for ServiceBatch {
    type Target = MessageBuf;

    fn deref(&self) -> &MessageBuf {
        &self.msgs
    }
}

//! Ingress of a stream: how publishes come in, what waits for its turn, and how much may.

use crate::engine::own_bindings::OwnBindings;
use crate::engine::settings::Backlog;
use myelin_broker::{Account, Binding, ServiceBatch};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageBuf;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard};

/// Publishes on their way into the turn.
pub(super) struct Ingress {
    limit: Backlog,
    /// Messages in the inbox of the turn and among the blocked ones, and their bytes.
    messages: AtomicUsize,
    bytes: AtomicUsize,
    /// Messages without a reply subject that found no room, and are not counted yet.
    dropped: AtomicU64,
    /// Whether publishers should pause: the log cannot seal as fast as they fill it.
    is_behind: AtomicBool,
    /// Publishes that wait for their counters, and those behind them.
    blocked: Mutex<VecDeque<ServiceBatch>>,
    bindings: OwnBindings,
}

impl Ingress {
    /// An empty one.
    pub(super) fn new(limit: Backlog) -> Self {
        Self {
            limit,
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            is_behind: AtomicBool::new(false),
            blocked: Mutex::default(),
            bindings: OwnBindings::default(),
        }
    }

    /// Counts messages that begin to wait.
    pub(super) fn add(&self, msgs: &MessageBuf) {
        self.bytes.fetch_add(msgs.bytes(), Relaxed);
        self.messages.fetch_add(msgs.len(), Relaxed);
    }

    /// Counts messages that wait no longer.
    pub(super) fn forget(&self, msgs: &MessageBuf) {
        let bytes = self.bytes.fetch_sub(msgs.bytes(), Relaxed);
        let messages = self.messages.fetch_sub(msgs.len(), Relaxed);
        debug_assert!(bytes >= msgs.bytes(), "no more bytes leave the inbox of a stream than came in");
        debug_assert!(messages >= msgs.len(), "no more messages leave the inbox of a stream than came in");
    }

    /// Messages that wait.
    pub(super) fn messages(&self) -> usize {
        self.messages.load(Relaxed)
    }

    /// Messages that wait and their bytes, where they are half of what may wait, or publishers
    /// should pause.
    pub(super) fn crowd(&self) -> Option<(u64, u64)> {
        let (messages, bytes) = (self.messages.load(Relaxed), self.bytes.load(Relaxed));
        let is_half = messages >= self.limit.messages.div_ceil(2) || bytes >= self.limit.bytes.div_ceil(2);
        (is_half || self.is_behind()).then_some((messages as u64, bytes as u64))
    }

    /// Whether a message of `bytes` may still wait, where the stream has `unsent` bytes to say that
    /// nobody has taken.
    pub(super) fn has_room(&self, bytes: usize, unsent: usize) -> bool {
        self.messages.load(Relaxed) < self.limit.messages
            && self.bytes.load(Relaxed) + unsent + bytes <= self.limit.bytes
    }

    /// Leaves word of messages that found no room to whoever has the turn next.
    pub(super) fn note_dropped(&self, messages: u64) {
        self.dropped.fetch_add(messages, Relaxed);
    }

    /// Takes the number of messages that found no room.
    pub(super) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Relaxed)
    }

    /// Whether publishers should pause.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.load(Relaxed)
    }

    /// Has publishers pause, or go on.
    pub(super) fn set_behind(&self, is_behind: bool) {
        self.is_behind.store(is_behind, Relaxed);
    }

    /// Publishes that wait for their counters, in order. They still count as waiting.
    pub(super) fn blocked(&self) -> MutexGuard<'_, VecDeque<ServiceBatch>> {
        lock(&self.blocked)
    }

    /// Receives through other bindings than before, as [`OwnBindings::replace`] does.
    pub(super) fn rebind(&self, account: &Account, bindings: &[Arc<Binding>]) {
        self.bindings.replace(account, bindings);
    }

    /// Receives nothing any more.
    pub(super) fn unbind(&self, account: &Account) {
        self.rebind(account, &[]);
    }
}

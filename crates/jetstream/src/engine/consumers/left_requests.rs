//! Requests for messages that a replica leaves to the next leader: those that waited when it handed
//! over, and those that come until another one receives.
//!
//! Each is told that the leader changes, so that its client asks again: not before it would be
//! heard. A client that is told earlier, and then hears that nobody is there, waits until it has
//! missed two heartbeats; that takes half a minute with the defaults of official clients.

use super::StreamConsumers;
use crate::engine::own_bindings::OwnBindings;
use myelin_broker::{Service, ServiceBatch, ServiceShard};
use myelin_stdx::sync::{lock, read_lock};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex};

/// Compat: in the reference's words. Its new leader says it, which knows of each request.
const LEADERSHIP_CHANGE: &[u8] = b"NATS/1.0 409 Leadership Change\r\n\r\n";

/// Tells those who wait for answers there that the leader changes.
pub(in crate::engine) fn leadership_change(replies: impl IntoIterator<Item: AsRef<[u8]>>) -> MessageBuf {
    let mut out = MessageBuf::default();
    for reply in replies {
        let subject = reply.as_ref();
        out.push(MessageRef { subject, headers: LEADERSHIP_CHANGE, ..MessageRef::default() });
    }
    out
}

/// Requests of one stream's consumers while it is handed over.
#[derive(Default)]
pub(in crate::engine) struct LeftRequests {
    replies: Mutex<Vec<Vec<u8>>>,
    /// Whether another server hears what comes from now on.
    is_heard_elsewhere: AtomicBool,
    bindings: OwnBindings,
}

impl Service for LeftRequests {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        if !self.is_heard_elsewhere.load(Acquire) {
            let asked = batch.msgs.iter().filter(|msg| !msg.reply.is_empty());
            self.add(asked.map(|msg| msg.reply.to_vec()));
        }
    }
}

impl LeftRequests {
    pub(super) fn add(&self, replies: impl Iterator<Item = Vec<u8>>) {
        lock(&self.replies).extend(replies);
    }

    /// Another server hears requests too, and serves them.
    pub(in crate::engine) fn close(&self) {
        self.is_heard_elsewhere.store(true, Release);
    }

    /// Ends with receiving. Answers what clients are to be told, each once.
    pub(in crate::engine) fn end(&self, consumers: &StreamConsumers) -> MessageBuf {
        self.bindings.replace(&consumers.account, &[]);
        let mut replies = std::mem::take(&mut *lock(&self.replies));
        replies.sort_unstable();
        replies.dedup();
        leadership_change(replies)
    }
}

impl StreamConsumers {
    /// A consumer was asked for messages: others of its group, if it has one, hear of that.
    pub(super) fn note_asked(&self, consumer: &str) {
        if self.log.is_of_group()
            && let Ok(stream) = self.stream()
        {
            stream.note_asked(consumer);
        }
    }

    /// Receives requests of all its consumers, and serves none: another replica is about to lead.
    pub(in crate::engine) fn leave_requests(&self) -> Arc<LeftRequests> {
        let left = Arc::new(LeftRequests::default());
        let configs: Vec<_> = read_lock(&self.configs).values().cloned().collect();
        let subjects = configs.iter().flat_map(|config| self.subjects(config));
        let service = || Arc::clone(&left) as Arc<dyn Service>;
        let bindings: Vec<_> =
            subjects.map(|subject| self.account.bind(subject.as_bytes(), service())).collect();
        left.bindings.replace(&self.account, &bindings);
        left
    }
}

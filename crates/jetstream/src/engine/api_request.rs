//! A request to the API, on its way from a shard to a thread that may wait.

use myelin_broker::{Account, Conn};
use myelin_wire::message_buf::MessageRef;
use std::sync::Arc;

/// Request to the API, with the client that made it.
#[derive(Clone)]
pub struct ApiRequest {
    /// The account in which it asked.
    pub account: Arc<Account>,
    /// Where it asked: the subject of the API, as published.
    pub subject: Box<[u8]>,
    /// Where it wants the answer; may be empty.
    pub reply: Box<[u8]>,
    /// The header block, or nothing.
    pub headers: Box<[u8]>,
    /// The body.
    pub payload: Box<[u8]>,
    /// Client that asks. `None`: a service.
    pub origin: Option<Arc<Conn>>,
}

impl ApiRequest {
    /// Whether it changes streams or consumers: such requests share a sync.
    pub fn shares_sync(&self) -> bool {
        const VERBS: [&[u8]; 8] = [
            b".STREAM.CREATE.",
            b".STREAM.UPDATE.",
            b".STREAM.DELETE.",
            b".CONSUMER.CREATE.",
            b".CONSUMER.DURABLE.CREATE.",
            b".CONSUMER.DELETE.",
            b".CONSUMER.PAUSE.",
            b".CONSUMER.RESET.",
        ];
        VERBS.iter().any(|verb| self.subject.windows(verb.len()).any(|part| part == *verb))
    }

    /// Keeps a message that must not be answered on a shard.
    pub(super) fn new(account: &Arc<Account>, msg: MessageRef<'_>, origin: Option<&Arc<Conn>>) -> Self {
        Self {
            account: Arc::clone(account),
            subject: msg.subject.into(),
            reply: msg.reply.into(),
            headers: msg.headers.into(),
            payload: msg.payload.into(),
            origin: origin.cloned(),
        }
    }
}

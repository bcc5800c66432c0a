//! A request to the API, on its way from a shard to a thread that may wait.

use myelin_broker::{Account, Conn, Letter};
use std::sync::Arc;

/// What a client asked, and who it is.
pub struct Request {
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
    /// Who asks. `None`: a service.
    pub origin: Option<Arc<Conn>>,
}

impl Request {
    /// Keeps a message that must not be answered on a shard.
    pub(super) fn new(account: &Arc<Account>, letter: Letter<'_>, origin: Option<&Arc<Conn>>) -> Self {
        Self {
            account: Arc::clone(account),
            subject: letter.subject.into(),
            reply: letter.reply.into(),
            headers: letter.headers.into(),
            payload: letter.payload.into(),
            origin: origin.cloned(),
        }
    }
}

//! The shard as services see it.

use super::Shard;
use crate::account::Account;
use crate::conn::Conn;
use crate::service::{Service, Serving};
use myelin_wire::encode;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;
use std::time::Instant;

impl Serving for Shard {
    fn send(&mut self, account: &Arc<Account>, msgs: &mut MessageBuf, now: Instant) {
        self.send(account, msgs, now);
    }

    fn send_no_responders(
        &mut self,
        account: &Arc<Account>,
        origin: &Arc<Conn>,
        msg: &MessageRef<'_>,
        now: Instant,
    ) {
        self.send_no_responders(account, origin, msg, now);
    }

    fn spare_buf(&mut self) -> MessageBuf {
        self.spare_buf()
    }

    fn keep_buf(&mut self, msgs: MessageBuf) {
        self.keep_buf(msgs);
    }

    fn wake(&mut self, service: &Arc<dyn Service>) {
        self.wake(service);
    }

    fn after_flush(&mut self, service: Arc<dyn Service>) {
        self.after_flush(service);
    }

    fn is_congested(&mut self, account: &Arc<Account>, subject: &[u8], waiter: &Arc<dyn Service>) -> bool {
        self.is_congested(account, subject, waiter)
    }
}

impl Shard {
    /// Tells the sender of a message that a service was handed that nobody takes it.
    fn send_no_responders(
        &mut self,
        account: &Arc<Account>,
        origin: &Arc<Conn>,
        msg: &MessageRef<'_>,
        now: Instant,
    ) {
        if let Some((requester, reply)) = account.imports.replies.waiting(msg.reply) {
            account.imports.replies.close_at(msg.reply);
            let msg = MessageRef { reply: &reply, ..*msg };
            return self.send_no_responders(&requester, origin, &msg, now);
        }
        if msg.reply.is_empty() {
            return;
        }
        if origin.is_link() {
            return self.publish_no_responders(account, msg, now);
        }
        if origin.wants_no_responders() {
            self.stage_no_responders_at(account, origin, (msg.subject, msg.reply));
        }
    }

    /// Publishes what the client of another server hears from that one where nobody listens. What
    /// its connection wants is not known here: one without headers gets an empty message.
    fn publish_no_responders(&mut self, account: &Arc<Account>, msg: &MessageRef<'_>, now: Instant) {
        let mut headers = Vec::with_capacity(32 + msg.subject.len());
        encode::no_responders_headers(&mut headers, msg.subject);
        let mut out = self.spare_buf();
        out.push(MessageRef { subject: msg.reply, headers: &headers, ..MessageRef::default() });
        self.send(account, &mut out, now);
        self.keep_buf(out);
    }
}

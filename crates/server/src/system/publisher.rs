//! The way to those who listen: messages are posted to one shard, so that they keep their order.

use super::System;
use crate::shard::{Mail, Mailbox};
use myelin_broker::Account;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

impl System {
    /// Publishes an event.
    pub(super) fn publish_event(&self, account: &Arc<Account>, subject: &str, body: &[u8]) {
        self.publish(
            account,
            MessageRef { subject: subject.as_bytes(), payload: body, ..MessageRef::default() },
        );
    }

    /// Publishes an answer in the system account; whoever asked from elsewhere gets it from there.
    pub(super) fn reply(&self, to: &[u8], headers: &[u8], body: &[u8]) {
        self.publish(
            &self.account,
            MessageRef { subject: to, headers, payload: body, ..MessageRef::default() },
        );
    }

    /// Asks other servers something.
    pub(super) fn request(&self, subject: &str, reply: &str, body: &[u8]) {
        let (subject, reply) = (subject.as_bytes(), reply.as_bytes());
        self.publish(&self.account, MessageRef { subject, reply, payload: body, ..MessageRef::default() });
    }

    fn publish(&self, account: &Arc<Account>, msg: MessageRef<'_>) {
        if let Some(mailbox) = self.mailboxes.first() {
            send(mailbox, account, msg);
        }
    }

    /// Waits until what was told is on its way to the sockets, or for so long.
    pub(super) fn wait_until_published(&self, longest: Duration) {
        let (sender, told) = channel();
        if let Some(mailbox) = self.mailboxes.first() {
            mailbox.post(Mail::Flushed(sender));
            // Who is gone needs not to be waited for.
            let _ = told.recv_timeout(longest);
        }
    }
}

/// Has a shard publish one message.
pub(super) fn send(to: &Mailbox, account: &Arc<Account>, msg: MessageRef<'_>) {
    let mut msgs = MessageBuf::default();
    msgs.push(msg);
    to.post(Mail::Publish(Arc::clone(account), msgs));
}

//! The shard as services see it.

use super::Shard;
use crate::account::Account;
use crate::conn::Conn;
use crate::service::{Service, Serving};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;
use std::time::Instant;

impl Serving for Shard {
    fn send(&mut self, account: &Arc<Account>, msgs: &mut MessageBuf, now: Instant) {
        self.send(account, msgs, now);
    }

    fn send_no_responders(&mut self, account: &Arc<Account>, origin: &Arc<Conn>, msg: &MessageRef<'_>) {
        self.send_no_responders(account, origin, msg);
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

//! Outbox of a member: its frames leave in the order of its stream's turns.

use crate::engine::host::Host;
use crate::engine::ordered_outbox::OrderedOutbox;
use myelin_broker::{Account, Service, ServiceBatch, ServiceShard};
use myelin_wire::message_buf::MessageBuf;
use std::sync::{Arc, Weak};

/// Frames of one member that are to be published.
pub(in crate::engine) struct FrameOutbox {
    queue: OrderedOutbox,
    account: Arc<Account>,
    host: Arc<dyn Host>,
    me: Weak<Self>,
}

impl FrameOutbox {
    pub(super) fn new(account: &Arc<Account>, host: &Arc<dyn Host>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            queue: OrderedOutbox::default(),
            account: Arc::clone(account),
            host: Arc::clone(host),
            me: Weak::clone(me),
        })
    }

    /// Takes over the frames of a turn, during it. Answers whether the caller has to see to it that
    /// they are sent.
    #[must_use = "nobody else sends them"]
    pub(in crate::engine) fn add(&self, msgs: &mut MessageBuf) -> bool {
        self.queue.add(msgs)
    }

    /// Publishes what waits, for who has been told to.
    pub(in crate::engine) fn send(&self, shard: &mut ServiceShard) {
        self.queue.send(&self.account, shard, self.host.instant());
        if let Some(me) = self.me.upgrade() {
            shard.after_flush(me);
        }
    }

    /// Has a shard publish what waits, for who has been told to and has none.
    pub(in crate::engine) fn send_elsewhere(&self) {
        self.queue.release();
        if let Some(me) = self.me.upgrade() {
            self.host.wake(me);
        }
    }
}

impl Service for FrameOutbox {
    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        msgs.clear();
        if self.queue.claim() {
            self.send(shard);
        }
    }

    fn flushed(&self, shard: &mut ServiceShard) {
        if self.queue.flushed() {
            self.send(shard);
        }
    }
}

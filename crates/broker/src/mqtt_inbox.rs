//! Inbox of the session of an MQTT client, for what services of its account send: answers of
//! JetStream and stored messages. A session takes it on its own shard, wherever it came.

use crate::conn::Conn;
use crate::mqtt_will::DelayedWill;
use crate::service::{Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Inbox of one session. Bounded by what the session asks for, and by what its consumers deliver
/// without an acknowledgement.
pub(crate) struct MqttInbox {
    conn: Arc<Conn>,
    msgs: Mutex<MessageBuf>,
    /// Will of the session, whose connection has ended.
    will: Mutex<Option<Box<DelayedWill>>>,
    /// Another connection of this server that begins anew has taken the session's place.
    followed_anew: AtomicBool,
}

impl MqttInbox {
    /// The inbox of the session of `conn`.
    pub(crate) fn new(conn: &Arc<Conn>) -> Arc<Self> {
        let (msgs, will, followed_anew) = Default::default();
        Arc::new(Self { conn: Arc::clone(conn), msgs, will, followed_anew })
    }

    /// The session's connection.
    pub(crate) fn conn(&self) -> &Arc<Conn> {
        &self.conn
    }

    /// Adds messages, and has the session take them.
    pub(crate) fn put<'m>(&self, added: impl Iterator<Item = MessageRef<'m>>) {
        let was_empty = {
            let mut msgs = lock(&self.msgs);
            let was_empty = msgs.is_empty();
            added.for_each(|msg| msgs.push(msg));
            was_empty && !msgs.is_empty()
        };
        if was_empty {
            self.conn.sink().has_mqtt_mail(&self.conn);
        }
    }

    /// Leaves a will to whoever takes it first: the time when it is due, or another connection.
    pub(crate) fn leave_will(&self, will: DelayedWill) {
        *lock(&self.will) = Some(Box::new(will));
    }

    /// Whether there is a will that is not due yet.
    pub(crate) fn waits_for_will(&self, now: Instant) -> bool {
        lock(&self.will).as_ref().is_some_and(|will| now < will.due)
    }

    pub(crate) fn take_will(&self) -> Option<Box<DelayedWill>> {
        lock(&self.will).take()
    }

    /// Another connection of this server has taken the session's place.
    pub(crate) fn follow(&self, begins_anew: bool) {
        self.followed_anew.store(begins_anew, Release);
    }

    pub(crate) fn is_followed_anew(&self) -> bool {
        self.followed_anew.load(Acquire)
    }

    /// Whether nothing has come.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.msgs).is_empty()
    }

    /// Everything that has come.
    pub(crate) fn take(&self) -> MessageBuf {
        std::mem::take(&mut lock(&self.msgs))
    }
}

impl Service for MqttInbox {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        if batch.msgs.is_empty() {
            // The client is not behind any more.
            return self.conn.sink().has_mqtt_mail(&self.conn);
        }
        self.put(batch.iter());
    }
}

//! Inbox of the session of an MQTT client, for what services of its account send: answers of
//! JetStream and stored messages. A session takes it on its own shard, wherever it came.

use crate::conn::Conn;
use crate::service::{Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::{Arc, Mutex};

/// Inbox of one session. Bounded by what the session asks for, and by what its consumers deliver
/// without an acknowledgement.
pub(crate) struct MqttInbox {
    conn: Arc<Conn>,
    msgs: Mutex<MessageBuf>,
}

impl MqttInbox {
    /// The inbox of the session of `conn`.
    pub(crate) fn new(conn: &Arc<Conn>) -> Arc<Self> {
        Arc::new(Self { conn: Arc::clone(conn), msgs: Mutex::default() })
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

    /// Everything that has come.
    pub(crate) fn take(&self) -> MessageBuf {
        std::mem::take(&mut lock(&self.msgs))
    }
}

impl Service for MqttInbox {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        self.put(batch.iter());
    }
}

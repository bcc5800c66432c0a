//! Releases ([`super::releases`]) whose connection has ended before they were over: what is stored
//! is not held any more, or the client's next PUBREL would release it again. The client is told
//! then, on its next connection.

use super::api;
use super::state::{Matter, StoredSession};
use crate::account::Account;
use crate::mqtt_inbox::MqttInbox;
use crate::mqtt_storage::MqttStorage;
use crate::service::{Binding, Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use crate::session::Session;
use crate::shard::Shard;
use myelin_mqtt::streams;
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Time for which answers are awaited.
const PATIENCE: Duration = Duration::from_secs(30);

/// Releases of a session that has ended, until it is known whether their messages are stored.
pub(super) struct EndedReleases {
    account: Arc<Account>,
    storage: Arc<MqttStorage>,
    /// Beginning of the subjects on which answers come; the numbers of requests follow.
    answers: String,
    /// Where messages are held, by the numbers of the requests that store them.
    held: Mutex<BTreeMap<u64, u64>>,
    binding: OnceLock<Arc<Binding>>,
    since: Instant,
    /// Inbox of the session, which takes answers until it has left the store.
    inbox: Arc<MqttInbox>,
}

impl StoredSession {
    /// Where messages are held that are being stored for receivers, by the numbers of requests.
    fn held_while_stored(&self) -> BTreeMap<u64, u64> {
        let held = |matter: &Matter| match matter {
            Matter::Released(id) => self.held.as_ref()?.sequence_of_release(*id),
            _ => None,
        };
        let awaited = self.awaited.iter();
        awaited.filter_map(|(number, (_, matter))| Some((*number, held(matter)?))).collect()
    }
}

impl Session {
    /// Has messages removed whose releases would be over but for the end of the connection.
    pub(super) fn end_releases(&self, shard: &mut Shard, now: Instant) -> Option<Arc<EndedReleases>> {
        // With a session that ends goes all that is held.
        let stored = self.stored().filter(|stored| !stored.record.clean)?;
        let request = format!("STREAM.MSG.DELETE.{}", streams::HELD.name);
        for sequence in stored.held.as_ref()?.stored_releases() {
            self.tell_api(shard, &request, api::remove(sequence).as_bytes(), now);
        }
        let held = stored.held_while_stored();
        if held.is_empty() {
            return None;
        }
        let answers = stored.store.answer_subject(self.conn.cid(), 0);
        let account = Arc::clone(stored.store.account());
        let ended = Arc::new(EndedReleases {
            account: Arc::clone(&account),
            storage: Arc::clone(&stored.storage),
            answers: answers.trim_end_matches('0').to_owned(),
            held: Mutex::new(held),
            binding: OnceLock::new(),
            since: now,
            inbox: Arc::clone(&stored.inbox),
        });
        let service: Arc<dyn Service> = Arc::<EndedReleases>::clone(&ended);
        let binding = account.bind(format!("{}*", ended.answers).as_bytes(), service);
        let binding = ended.binding.get_or_init(|| binding);
        self.broker.registry.mqtt_stores.await_upkeep(&account, binding, (now, now + PATIENCE));
        Some(ended)
    }
}

impl EndedReleases {
    /// Takes answers that have come to the session before they came here.
    pub(super) fn take(&self, shard: &mut Shard, before: &MessageBuf) {
        let mut msgs = shard.spare_buf();
        let last = self.inbox.take();
        before.iter().chain(last.iter()).for_each(|msg| self.answered(&msg, &mut msgs));
        shard.send(&self.account, &mut msgs, self.since);
        shard.keep_buf(msgs);
    }

    /// Removes a message that is stored for its receivers.
    fn answered(&self, msg: &MessageRef<'_>, msgs: &mut MessageBuf) {
        let number = msg.subject.strip_prefix(self.answers.as_bytes());
        let number = number.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        let Some(number) = number else { return };
        let mut held = lock(&self.held);
        let sequence = held.remove(&number);
        let was_last = held.is_empty();
        drop(held);
        if let Some(sequence) = sequence.filter(|_| api::outcome(msg.payload).is_ok()) {
            let to = self.storage.api(&format!("STREAM.MSG.DELETE.{}", streams::HELD.name));
            let (subject, body) = (to.as_bytes(), api::remove(sequence));
            msgs.push(MessageRef { subject, payload: body.as_bytes(), ..MessageRef::default() });
        }
        if let Some(binding) = self.binding.get().filter(|_| was_last) {
            self.account.unbind(binding);
        }
    }
}

impl Service for EndedReleases {
    fn serve(&self, batch: &mut ServiceBatch, shard: &mut ServiceShard) {
        let mut msgs = shard.spare_buf();
        batch.iter().for_each(|msg| self.answered(&msg, &mut msgs));
        shard.send(&self.account, &mut msgs, self.since);
        shard.keep_buf(msgs);
    }
}

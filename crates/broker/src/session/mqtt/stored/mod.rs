//! The stored half of a session that speaks MQTT: everything for which JetStream is asked.
//!
//! A session asks by messages to the API and to streams of its account, and goes on when the answer
//! is in its inbox; its shard waits for nothing. What changes the session itself (`change.rs`:
//! CONNECT, SUBSCRIBE, UNSUBSCRIBE) holds up what the client sends behind it. A PUBLISH does not
//! (`incoming.rs`): its acknowledgement is sent in turn when the message is stored. Messages that
//! are stored for the session come from one consumer (`outgoing.rs`), retained ones are read when
//! somebody subscribes (`retained.rs`). Requests and what is read of answers: `api.rs`.

mod api;
mod change;
mod incoming;
mod opening;
mod outgoing;
mod retained;

use super::{MqttStage, Session};
use crate::log::Level as LogLevel;
use crate::mqtt_inbox::MqttInbox;
use crate::mqtt_storage::{MqttStorage, MqttStore};
use crate::service::Binding;
use crate::session::SessionStatus;
use crate::shard::Shard;
use api::ApiFault;
use change::{Change, ChangeStep};
use incoming::{Acks, Release};
use myelin_mqtt::packet::{PacketId, Qos};
use myelin_mqtt::records::{ConsumerRecord, SessionRecord};
use myelin_mqtt::streams::MqttStream;
use myelin_wire::error::CloseReason;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use outgoing::{InFlight, PubRels};
use retained::{RetainedCame, RetainedRead};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time after which JetStream is asked again for streams.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The stored half of a session.
pub(super) struct StoredSession {
    store: Arc<MqttStore>,
    storage: Arc<MqttStorage>,
    inbox: Arc<MqttInbox>,
    /// Name of the session in subjects.
    hash: String,
    /// What is stored of the session, and the sequence of what is: 0 for nothing.
    record: SessionRecord,
    record_sequence: u64,
    /// The number of the last request, and what is done with the answers that are awaited.
    last_request: u64,
    awaited: BTreeMap<u64, (Instant, Awaited)>,
    change: Option<Box<Change>>,
    /// Reads of retained messages that are under way: these come before what the client asks next.
    reading: usize,
    acks: Acks,
    releases: Vec<Release>,
    in_flight: InFlight,
    pubrels: PubRels,
    /// Where PUBRELs are delivered to, and stored messages.
    bindings: [Option<Arc<Binding>>; 2],
}

/// Matter that an answer is about.
enum Awaited {
    /// A step of the change that is under way.
    Change(ChangeStep),
    /// A stream of the account was made, or was there; with how many replicas that was tried.
    Stream(MqttStream, u32),
    /// The message of an acknowledgement is stored; with its number.
    Stored(u64),
    /// A record is stored that removes a retained message.
    Removal(u64),
    /// The first of the releases that wait.
    Release,
    /// A PUBREL is stored.
    PubRel(PacketId),
    /// A retained message, or the end of them.
    Retained(Box<RetainedRead>),
    /// Nothing follows from it.
    Nothing,
}

/// Whether the session goes on.
type Step = Result<(), CloseReason>;

fn status(step: Step) -> SessionStatus {
    step.map_or_else(SessionStatus::Close, |()| SessionStatus::Continue)
}

impl Session {
    /// Begins the stored half, for a client whose id this connection owns.
    pub(super) fn open_stored(&mut self, shard: &mut Shard, is_clean: bool, now: Instant) -> SessionStatus {
        let Some(account) = self.own_account() else { return SessionStatus::Continue };
        let stores = &self.broker.registry.mqtt_stores;
        let inbox = MqttInbox::new(&self.conn);
        let names = (self.broker.identity.name(), &*self.broker.unique_id());
        let store = stores.enter(&account, names, self.conn.cid(), &inbox);
        let storage = stores.storage();
        let Some(mqtt) = &mut self.mqtt else { return SessionStatus::Continue };
        let stored = StoredSession::new(store, storage, inbox, &mqtt.client_id, is_clean);
        mqtt.stored = Some(Box::new(stored));
        status(self.begin_change(shard, Change::opening(), now))
    }

    fn own_account(&self) -> Option<Arc<crate::account::Account>> {
        match &self.state {
            crate::session::SessionState::Ready(ready) => Some(Arc::clone(&ready.account)),
            _ => None,
        }
    }

    /// Takes what has come for a client that speaks MQTT.
    pub fn take_mqtt_inbox(&mut self, shard: &mut Shard, now: Instant) -> SessionStatus {
        let Some(stored) = self.stored() else { return SessionStatus::Continue };
        let msgs = stored.inbox.take();
        self.logs_protocol = self.broker.log().enabled(LogLevel::Trace);
        status(self.take_msgs(shard, &msgs, now))
    }

    fn take_msgs(&mut self, shard: &mut Shard, msgs: &MessageBuf, now: Instant) -> Step {
        for msg in msgs.iter() {
            let asked = self.stored().and_then(|stored| stored.store.asked(msg.subject));
            match asked {
                Some((_, number)) => self.answered(shard, number, &msg, now)?,
                None => self.stored_delivery(shard, &msg, now)?,
            }
        }
        Ok(())
    }

    /// The highest QoS that a subscription is granted.
    pub(super) fn most_qos(&self) -> Qos {
        let downgrades = self.stored().is_some_and(|stored| stored.storage.downgrades_qos_2);
        if downgrades { Qos::AtLeastOnce } else { Qos::ExactlyOnce }
    }

    /// Whether what the client sends is left until JetStream has answered.
    pub fn awaits_storage(&self) -> bool {
        self.stored().is_some_and(|stored| stored.change.is_some() || stored.reading > 0)
            || self.has_asked_much()
    }

    /// When JetStream has to have answered, or is asked again.
    pub(super) fn storage_deadline(&self) -> Option<Instant> {
        let stored = self.stored()?;
        let (_, (asked, awaited)) = stored.awaited.first_key_value()?;
        let patience = match awaited {
            Awaited::Stream(..) => ASK_AGAIN.min(stored.storage.api_timeout),
            _ => stored.storage.api_timeout,
        };
        Some(*asked + patience)
    }

    /// JetStream has not answered in time. A cluster that begins does not hear requests before it
    /// has a leader: for streams it is asked again. Streams may also be gone: whoever comes next
    /// makes them.
    pub(super) fn storage_due(&mut self, shard: &mut Shard, now: Instant) -> SessionStatus {
        let Some(stored) = self.stored_mut() else { return SessionStatus::Continue };
        let patience = stored.storage.api_timeout;
        if stored.change.as_ref().is_some_and(|change| change.may_ask_again(now, patience)) {
            let unanswered = std::mem::take(&mut stored.awaited);
            for (_, awaited) in unanswered.into_values() {
                if let Awaited::Stream(stream, replicas) = awaited {
                    self.ask_for_stream(shard, stream, replicas, now);
                }
            }
            return SessionStatus::Continue;
        }
        stored.store.set_has_streams(false);
        let description = "JetStream has not answered in time".to_owned();
        let fault = ApiFault { err_code: 0, description };
        SessionStatus::Close(self.change_failed(shard, &fault))
    }

    fn storage_failed(&self, what: impl Display) -> CloseReason {
        self.log(LogLevel::Error, format_args!("MQTT storage: {what}"));
        CloseReason::ProtocolViolation
    }

    fn stored(&self) -> Option<&StoredSession> {
        self.mqtt.as_deref()?.stored.as_deref()
    }

    fn stored_mut(&mut self) -> Option<&mut StoredSession> {
        self.mqtt.as_deref_mut()?.stored.as_deref_mut()
    }

    /// Sends a message to a stream or the API of the account; what it is about comes back with the
    /// answer.
    fn ask(&mut self, shard: &mut Shard, msg: MessageRef<'_>, awaited: Awaited, now: Instant) {
        let cid = self.conn.cid();
        let Some(stored) = self.stored_mut() else { return };
        stored.last_request += 1;
        let number = stored.last_request;
        stored.awaited.insert(number, (now, awaited));
        let reply = stored.store.answer_subject(cid, number);
        self.tell(shard, MessageRef { reply: reply.as_bytes(), ..msg }, now);
    }

    /// Sends a message to which no answer is awaited.
    fn tell(&self, shard: &mut Shard, msg: MessageRef<'_>, now: Instant) {
        let Some(stored) = self.stored() else { return };
        let account = Arc::clone(stored.store.account());
        let mut msgs = shard.spare_buf();
        msgs.push(msg);
        shard.send(&account, &mut msgs, now);
        shard.keep_buf(msgs);
    }

    /// Sends a request to the API.
    fn ask_api(&mut self, shard: &mut Shard, request: &str, body: &[u8], awaited: Awaited, now: Instant) {
        let Some(stored) = self.stored() else { return };
        let subject = stored.storage.api(request);
        let msg = MessageRef { subject: subject.as_bytes(), payload: body, ..MessageRef::default() };
        self.ask(shard, msg, awaited, now);
    }

    /// Sends a request to the API of which nobody waits for the answer.
    fn tell_api(&self, shard: &mut Shard, request: &str, body: &[u8], now: Instant) {
        let Some(stored) = self.stored() else { return };
        let subject = stored.storage.api(request);
        let msg = MessageRef { subject: subject.as_bytes(), payload: body, ..MessageRef::default() };
        self.tell(shard, msg, now);
    }

    fn answered(&mut self, shard: &mut Shard, number: u64, msg: &MessageRef<'_>, now: Instant) -> Step {
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        // One that comes twice, or to what has been given up.
        let Some((_, awaited)) = stored.awaited.remove(&number) else { return Ok(()) };
        match awaited {
            Awaited::Change(step) => self.change_answered(shard, step, msg.payload, now),
            Awaited::Stream(stream, replicas) => {
                self.stream_answered(shard, (stream, replicas), msg.payload, now)
            }
            Awaited::Stored(ack) => self.message_stored(shard, ack, msg.payload),
            Awaited::Removal(ack) => {
                self.removal_stored(shard, msg.payload, now);
                self.message_stored(shard, ack, msg.payload)
            }
            Awaited::Release => self.release_answered(shard, msg.payload, now),
            Awaited::PubRel(id) => self.pubrel_stored(shard, id, msg.payload, now),
            Awaited::Retained(read) => {
                let more = self.retained_came(shard, read, msg, now)?;
                let Some(stored) = self.stored_mut() else { return Ok(()) };
                match more {
                    RetainedCame::Message(read) => {
                        stored.awaited.insert(number, (now, Awaited::Retained(read)));
                    }
                    RetainedCame::Slice => {}
                    RetainedCame::End => stored.reading = stored.reading.saturating_sub(1),
                }
                Ok(())
            }
            Awaited::Nothing => Ok(()),
        }
    }

    /// Ends the stored half: what is in flight is delivered to whoever comes next, and of a clean
    /// session nothing stays. What another connection has taken over is that one's.
    pub(super) fn end_stored(&mut self, shard: &mut Shard, reason: CloseReason, now: Instant) {
        self.unbind_stored();
        self.give_back_in_flight(shard, now);
        let Some(stored) = self.stored() else { return };
        if stored.record.clean && reason != CloseReason::DuplicateClientId {
            self.forget_record(shard, now);
        }
        let cid = self.conn.cid();
        let Some(stored) = self.mqtt.as_mut().and_then(|mqtt| mqtt.stored.take()) else { return };
        self.broker.registry.mqtt_stores.leave(&stored.store, cid);
    }

    fn unbind_stored(&mut self) {
        let Some(stored) = self.stored_mut() else { return };
        for binding in stored.bindings.iter_mut().filter_map(Option::take) {
            stored.store.account().unbind(&binding);
        }
    }
}

impl StoredSession {
    fn new(
        store: Arc<MqttStore>,
        storage: Arc<MqttStorage>,
        inbox: Arc<MqttInbox>,
        client_id: &str,
        is_clean: bool,
    ) -> Self {
        let record = SessionRecord {
            origin: store.node.clone(),
            id: client_id.to_owned(),
            clean: is_clean,
            ..SessionRecord::default()
        };
        Self {
            store,
            storage,
            inbox,
            hash: myelin_mqtt::records::session_hash(client_id),
            record,
            record_sequence: 0,
            last_request: 0,
            awaited: BTreeMap::new(),
            change: None,
            reading: 0,
            acks: Acks::default(),
            releases: Vec::new(),
            in_flight: InFlight::default(),
            pubrels: PubRels::default(),
            bindings: [None, None],
        }
    }

    /// The consumer that reads for all subscriptions.
    fn reader(&self) -> Option<&ConsumerRecord> {
        self.record.cons.get(myelin_mqtt::records::READER)?.as_ref()
    }

    /// The highest QoS of subscriptions that match a subject and began before the message of this
    /// sequence was stored.
    fn wanted_qos(&self, subject: &[u8], sequence: u64) -> Option<Qos> {
        let wanted = self.record.subs.iter().filter(|(pattern, _)| {
            let is_later = || self.record.since.get(*pattern).is_none_or(|since| sequence > *since);
            let reserved = subject.first() == Some(&b'$');
            let is_for = |pattern: &[u8]| {
                myelin_subject::matches(pattern, subject)
                    && !(reserved && myelin_mqtt::topic::leaves_out_dollar(pattern))
            };
            let pattern = pattern.as_bytes();
            (is_for(pattern) || myelin_mqtt::topic::level_above(pattern).is_some_and(is_for)) && is_later()
        });
        wanted.filter_map(|(_, qos)| Qos::new(*qos)).max().filter(|qos| *qos > Qos::AtMostOnce)
    }
}

//! The stored half of a session that speaks MQTT: everything for which JetStream is asked.
//!
//! A session asks by messages to the API and to streams of its account, and goes on when the answer
//! is in its inbox; its shard waits for nothing. What changes the session itself (`change.rs`:
//! CONNECT, SUBSCRIBE, UNSUBSCRIBE) holds up what the client sends behind it. A PUBLISH does not
//! (`incoming.rs`): its acknowledgement is sent in turn when the message is stored. Messages of
//! QoS 2 are held (`held.rs`) until they are released (`releases.rs`, `ended.rs`). Messages that
//! are stored for the session come from one consumer (`outgoing.rs`, `numbers.rs`, `pubrels.rs`,
//! `settled.rs`), and wait where the client takes no more (`waiting.rs`, `postponed.rs`); retained
//! ones are read when somebody subscribes (`retained.rs`). Shared subscriptions have consumers of
//! their own (`shares.rs`).
//! Requests and what is read of answers: `api.rs`; those that nobody takes: `again.rs`.

mod account_streams;
mod again;
mod api;
mod change;
mod delivery;
mod ended;
mod held;
mod incoming;
mod kept_requests;
mod numbers;
mod opening;
mod outgoing;
mod postponed;
mod pubrels;
mod pulls;
mod releases;
mod retained;
mod settled;
mod share_state;
mod shares;
pub(super) mod state;
mod upkeep;
mod waiting;

use crate::account::Account;
use crate::log::Level as LogLevel;
use crate::mqtt_inbox::MqttInbox;
use crate::session::{Session, SessionState, SessionStatus};
use crate::shard::Shard;
use again::first_due;
use api::ApiFault;
use myelin_mqtt::packet::Qos;
use myelin_mqtt::records::session_hash;
use myelin_wire::error::CloseReason;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use state::{Change, Matter, RetainedCame, SessionTerms, Step, StoredSession};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

fn status(step: Step) -> SessionStatus {
    step.map_or_else(SessionStatus::Close, |()| SessionStatus::Continue)
}

impl Session {
    /// Begins the stored half, for a client whose id this connection owns.
    pub(super) fn open_stored(&mut self, shard: &mut Shard, is_clean: bool, now: Instant) -> SessionStatus {
        let five = self.five();
        let expiry = five.map(|five| five.expiry);
        let receive_max = five.map_or(u16::MAX, |five| five.receive_max);
        let terms = SessionTerms { is_clean, expiry, receive_max };
        let Some(account) = self.own_account() else { return SessionStatus::Continue };
        let stores = &self.broker.registry.mqtt_stores;
        let inbox = MqttInbox::new(&self.conn);
        let names = (self.broker.identity.name(), &*self.broker.unique_id());
        let storage = stores.storage();
        let Some(mqtt) = &mut self.mqtt else { return SessionStatus::Continue };
        let hash = session_hash(&mqtt.client_id);
        let anew = mqtt.is_clean;
        let (store, will) = stores.enter(&account, names, (self.conn.cid(), &hash, anew), &inbox);
        let stored = StoredSession::new(store, storage, inbox, &mqtt.client_id, terms);
        mqtt.stored = Some(Box::new(stored));
        if let Some(will) = will.filter(|_| anew) {
            // Its session ends here.
            shard.publish_delayed_will(&will, now);
        }
        status(self.begin_change(shard, Change::opening(), now))
    }

    fn own_account(&self) -> Option<Arc<Account>> {
        match &self.state {
            SessionState::Ready(ready) => Some(Arc::clone(&ready.account)),
            _ => None,
        }
    }

    /// Takes what has come for a client that speaks MQTT.
    pub fn take_mqtt_inbox(&mut self, shard: &mut Shard, now: Instant) -> SessionStatus {
        let Some(stored) = self.stored() else { return SessionStatus::Continue };
        let msgs = stored.inbox.take();
        if self.awaits_storage() {
            // It was not listened to: its time begins now.
            self.timers.heard(now);
        }
        self.logs_protocol = self.broker.log().enabled(LogLevel::Trace);
        let step = self.take_msgs(shard, &msgs, now);
        self.deliver_held(shard, now);
        status(step)
    }

    fn take_msgs(&mut self, shard: &mut Shard, msgs: &MessageBuf, now: Instant) -> Step {
        let mut rest = msgs.iter();
        while let Some(msg) = rest.next() {
            let asked = self.stored().and_then(|stored| stored.store.asked(msg.subject));
            let step = match asked {
                Some((_, number)) => self.answered(shard, number, &msg, now),
                None => self.stored_delivery(shard, &msg, now),
            };
            if step.is_err() {
                // The session ends: it gives back what it has not looked at.
                self.stored().into_iter().for_each(|stored| stored.inbox.put(rest.by_ref()));
                return step;
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
        let others = [stored.pull_deadline(), stored.again_due()];
        self.answer_deadline().into_iter().chain(others.into_iter().flatten()).min()
    }

    fn answer_deadline(&self) -> Option<Instant> {
        let stored = self.stored()?;
        first_due(&stored.awaited, stored.reading > 0, stored.storage.api_timeout)
    }

    /// Something is due: requests are sent again, or JetStream has not answered in time. What has
    /// come and was not looked at yet counts as an answer.
    pub(super) fn storage_due(&mut self, shard: &mut Shard, now: Instant) -> SessionStatus {
        if self.send_again(shard, now) {
            return SessionStatus::Continue;
        }
        if self.answer_deadline().is_none_or(|due| now < due) {
            self.pulls_due(shard, now);
            return SessionStatus::Continue;
        }
        if self.settle_again(shard, now) {
            return SessionStatus::Continue;
        }
        if self.stored().is_some_and(|stored| !stored.inbox.is_empty()) {
            return self.take_mqtt_inbox(shard, now);
        }
        let description = "JetStream has not answered in time".to_owned();
        let fault = ApiFault { err_code: 0, description };
        SessionStatus::Close(self.change_failed(shard, &fault))
    }

    /// Gives back memory that only a busy session needs.
    pub(in crate::session) fn rest(&mut self) {
        if let Some(stored) = self.stored_mut() {
            stored.rest();
        }
    }

    fn storage_failed(&self, what: impl Display) -> CloseReason {
        self.log(LogLevel::Error, format_args!("MQTT storage: {what}"));
        CloseReason::ProtocolViolation
    }

    /// Ends the connection for what JetStream has refused. A client of MQTT 5 is told that it was
    /// not its fault.
    fn refused_by_storage(&mut self, fault: &ApiFault) -> CloseReason {
        self.part_with(fault.reason());
        self.storage_failed(fault)
    }

    fn stored(&self) -> Option<&StoredSession> {
        self.mqtt.as_deref()?.stored.as_deref()
    }

    fn stored_mut(&mut self) -> Option<&mut StoredSession> {
        self.mqtt.as_deref_mut()?.stored.as_deref_mut()
    }

    /// Sends a message to a stream or the API of the account; what it is about comes back with the
    /// answer.
    fn ask(&mut self, shard: &mut Shard, msg: MessageRef<'_>, awaited: Matter, now: Instant) {
        let cid = self.conn.cid();
        let Some(stored) = self.stored_mut() else { return };
        stored.asked.last += 1;
        let number = stored.asked.last;
        let is_sent = stored.keep(number, &msg, &awaited, now);
        stored.awaited.insert(number, (now, awaited));
        if !is_sent {
            return;
        }
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
    fn ask_api(&mut self, shard: &mut Shard, request: &str, body: &[u8], awaited: Matter, now: Instant) {
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
        let Some((asked, awaited)) = stored.awaited.remove(&number) else { return Ok(()) };
        if stored.ask_again((number, asked), &awaited, msg, now) {
            stored.awaited.insert(number, (asked, awaited));
            return Ok(());
        }
        stored.is_over(number);
        self.answer_came(shard, (number, awaited), &api::readable(msg), now)
    }

    fn answer_came(
        &mut self,
        shard: &mut Shard,
        (number, awaited): (u64, Matter),
        msg: &MessageRef<'_>,
        now: Instant,
    ) -> Step {
        match awaited {
            Matter::Change(step) => self.change_answered(shard, step, msg.payload, now),
            Matter::Held => self.held_came(shard, msg.payload, now),
            Matter::Floor(key) => self.take_floor(shard, &key, msg.payload, now),
            Matter::Stream(stream, request) => {
                self.stream_answered(shard, (stream, request), msg.payload, now)
            }
            Matter::StreamsTurn => self.look_for_streams(shard, now),
            Matter::Stored(ack) => self.message_stored(shard, ack, msg.payload),
            Matter::Removal(ack) => {
                self.removal_stored(shard, msg.payload, now);
                self.message_stored(shard, ack, msg.payload)
            }
            Matter::HeldRead(id) => self.held_read(shard, id, msg.payload, now),
            Matter::Released(id) => self.released_stored(shard, id, msg.payload, now),
            Matter::HeldRemoved(ids) => self.held_removed(shard, &ids, msg.payload, now),
            Matter::Members(at) => self.members_came(shard, at, msg.payload, now),
            Matter::Assigned(reply) => self.assigned(shard, &reply, msg.payload, now),
            Matter::Postponed => self.postponed_read(shard, msg.payload, now),
            Matter::PubRel(id) => self.pubrel_stored(shard, id, msg.payload, now),
            Matter::Settled(settling) => {
                self.settled(shard, (number, settling), msg, now);
                Ok(())
            }
            Matter::Retained(read) => {
                let more = self.retained_came(shard, read, msg, now)?;
                self.read_goes_on(number, more, now);
                Ok(())
            }
            Matter::Nothing => Ok(()),
        }
    }

    fn read_goes_on(&mut self, number: u64, more: RetainedCame, now: Instant) {
        let Some(stored) = self.stored_mut() else { return };
        match more {
            RetainedCame::Message(read) => {
                stored.awaited.insert(number, (now, Matter::Retained(read)));
            }
            RetainedCame::Slice => {}
            RetainedCame::End => {
                stored.reading = stored.reading.saturating_sub(1);
                stored.rest();
            }
        }
    }

    /// Ends the stored half: what is in flight is delivered to whoever comes next, and of a clean
    /// session nothing stays. What another connection has taken over is that one's.
    pub(super) fn end_stored(&mut self, shard: &mut Shard, reason: CloseReason, now: Instant) {
        self.unbind_stored(now);
        let expiry = self.five().map(|five| five.expiry);
        let Some(stored) = self.stored_mut() else { return };
        let before = stored.record.expiry;
        if let Some(seconds) = expiry {
            (stored.record.expiry, stored.record.clean) = (expiry, seconds == 0);
        }
        let releases = self.end_releases(shard, now);
        let came = self.give_back_in_flight(shard, now);
        self.end_record(shard, (reason, before), now);
        self.leave_store();
        releases.into_iter().for_each(|releases| releases.take(shard, &came));
    }

    /// Removes what a session leaves that ends, or says when it does; `before` is the expiry that
    /// its consumers know.
    fn end_record(&mut self, shard: &mut Shard, (reason, before): (CloseReason, Option<u32>), now: Instant) {
        // Before a CONNECT has removed what the record names, the next one has to know that.
        let is_opened =
            |stored: &&StoredSession| !stored.change.as_ref().is_some_and(|change| change.is_early());
        let is_left = reason != CloseReason::DuplicateClientId;
        let Some(stored) = self.stored().filter(is_opened).filter(|_| is_left) else { return };
        if stored.record.clean {
            self.forget_record(shard, now);
            self.look_after_shares(shard, true, now);
        } else if self.speaks_5() {
            self.write_end(shard, before, now);
        }
    }

    /// A will that waits keeps the inbox: by it the server knows of whoever takes the session up.
    fn leave_store(&mut self) {
        let cid = self.conn.cid();
        let Some(stored) = self.mqtt.as_mut().and_then(|mqtt| mqtt.stored.take()) else { return };
        stored.store.leave_streams(cid);
        if self.will_due().is_none() {
            self.broker.registry.mqtt_stores.leave(&stored.store, (cid, &stored.hash));
        }
    }

    /// Time of day, in milliseconds since 1970.
    fn unix_ms(&self, now: Instant) -> u64 {
        self.broker.unix_ms(now)
    }

    fn unbind_stored(&mut self, now: Instant) {
        let Some(stored) = self.stored_mut() else { return };
        for binding in stored.sources.bindings.iter_mut().filter_map(Option::take) {
            stored.store.account().unbind(&binding);
        }
        for joined in stored.sources.shares.leave_all() {
            self.end_pull(joined, now);
        }
    }
}

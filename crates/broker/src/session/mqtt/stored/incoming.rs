//! PUBLISH of QoS 1 and 2, and retained messages: acknowledged when they are stored.

use super::api::{self, MessageAnswer};
use super::state::{Matter, Release, ReleaseStage, Step};
use crate::session::{Session, SessionState};
use crate::shard::Shard;
use myelin_mqtt::packet::{AckPacket, Exchange, PacketId, PublishPacket, Qos, ServerPacket};
use myelin_mqtt::records::{HeldMark, MessageMark, RetainedMessage, released_id};
use myelin_mqtt::{streams, topic};
use myelin_wire::message_buf::MessageRef;
use std::time::Instant;

/// Messages and requests that may wait for an answer.
const MOST_AWAITED: usize = 1024;

/// The number of an acknowledgement that nobody waits for.
const UNACKNOWLEDGED: u64 = 0;

impl Session {
    /// Whether so much waits for JetStream that the client has to.
    pub(super) fn has_asked_much(&self) -> bool {
        self.stored().is_some_and(|stored| stored.awaited.len() >= MOST_AWAITED)
    }

    /// Publishes a message that is stored.
    pub(in crate::session::mqtt) fn publish_stored(
        &mut self,
        shard: &mut Shard,
        packet: &PublishPacket<'_>,
        now: Instant,
    ) {
        let mut subject = Vec::new();
        // A topic that has no subject does not come so far.
        if topic::name_to_subject(packet.topic, &mut subject).is_err() {
            return;
        }
        let mapped = self.mapped(&subject);
        let Some(stored) = self.stored_mut() else { return };
        let qos = packet.exchange.qos();
        let flags = u8::from(packet.dup) << 3 | (qos as u8) << 1 | u8::from(packet.retain);
        if let Exchange::ExactlyOnce(id) = packet.exchange {
            let ack = stored.acks.push(packet.exchange, 1);
            let (to, from) = mapped.as_ref().map_or((&subject, &[][..]), |mapped| (mapped, &subject));
            let held = HeldMark { flags, subject: to, mapped: from };
            self.hold(shard, id, MessageMark { qos, held: Some(held) }, packet.payload, ack, now);
            return;
        }
        let subject = mapped.unwrap_or(subject);
        if !self.publish_topic(shard, packet.topic, qos, packet.payload, now) {
            if let (Some(stored), Exchange::AtLeastOnce(_)) = (self.stored_mut(), packet.exchange) {
                stored.acks.push(packet.exchange, 0);
            }
            return self.acknowledge_stored(shard);
        }
        let Some(stored) = self.stored_mut() else { return };
        let ack = match packet.exchange {
            Exchange::AtMostOnce => UNACKNOWLEDGED,
            exchange => stored.acks.push(exchange, 1 + u8::from(packet.retain)),
        };
        if packet.retain {
            self.retain(shard, &subject, flags, packet.payload, ack, now);
        }
        if qos > Qos::AtMostOnce {
            self.store(shard, &subject, qos, packet.payload, None, Matter::Stored(ack), now);
        }
    }

    /// Stores a will, and retains it, without waiting for it.
    pub(in crate::session::mqtt) fn store_will(
        &mut self,
        shard: &mut Shard,
        (topic, payload): (&str, &[u8]),
        (qos, is_retained): (Qos, bool),
        now: Instant,
    ) {
        let mut subject = Vec::new();
        if self.stored().is_none() || topic::name_to_subject(topic, &mut subject).is_err() {
            return;
        }
        let subject = self.mapped(&subject).unwrap_or(subject);
        if is_retained {
            self.retain(shard, &subject, (qos as u8) << 1 | 1, payload, UNACKNOWLEDGED, now);
        }
        if qos > Qos::AtMostOnce {
            self.store(shard, &subject, qos, payload, None, Matter::Nothing, now);
        }
    }

    /// The subject to which the account's mappings lead, if they do.
    fn mapped(&self, subject: &[u8]) -> Option<Vec<u8>> {
        let stored = self.stored()?;
        let imports = &stored.store.account().imports;
        let mut mapped = Vec::new();
        let is_mapped = imports.has_mappings() && imports.map(subject, &mut || 0, &mut mapped);
        is_mapped.then_some(mapped)
    }

    /// Stores a message for sessions that subscribe with QoS 1 or 2.
    #[expect(clippy::too_many_arguments, reason = "a message, and what follows from it")]
    fn store(
        &mut self,
        shard: &mut Shard,
        subject: &[u8],
        qos: Qos,
        payload: &[u8],
        id: Option<&str>,
        awaited: Matter,
        now: Instant,
    ) {
        let subject = [streams::MESSAGES.subject_prefix.as_bytes(), subject].concat();
        let mut headers = Vec::new();
        MessageMark { qos, held: None }.write(id, &mut headers);
        let msg = MessageRef { subject: &subject, headers: &headers, payload, ..MessageRef::default() };
        self.ask(shard, msg, awaited, now);
    }

    fn hold(
        &mut self,
        shard: &mut Shard,
        id: PacketId,
        mark: MessageMark<'_>,
        payload: &[u8],
        ack: u64,
        now: Instant,
    ) {
        let subject = self.held_subject(id);
        let mut headers = Vec::new();
        mark.write(None, &mut headers);
        let subject = subject.as_bytes();
        let msg = MessageRef { subject, headers: &headers, payload, ..MessageRef::default() };
        self.ask(shard, msg, Matter::Stored(ack), now);
    }

    /// Where a message is held. Compat: under the client id, if that is one part of a subject.
    fn held_subject(&self, id: PacketId) -> String {
        let client_id = self.mqtt.as_deref().map_or("", |mqtt| &mqtt.client_id);
        let is_plain =
            myelin_subject::is_well_formed(client_id.as_bytes()) && !client_id.contains(['.', '*', '>']);
        let hash = self.stored().map_or("", |stored| &stored.hash);
        streams::held_subject(if is_plain { client_id } else { hash }, id.get())
    }

    /// Stores a retained message, or the end of one.
    fn retain(
        &mut self,
        shard: &mut Shard,
        subject: &[u8],
        flags: u8,
        payload: &[u8],
        ack: u64,
        now: Instant,
    ) {
        let SessionState::Ready(ready) = &self.state else { return };
        let Some(stored) = self.stored() else { return };
        let message = RetainedMessage {
            flags,
            origin: stored.store.node.as_str().into(),
            source: ready.user.as_deref().unwrap_or_default().into(),
            payload: payload.into(),
        };
        let mut headers = Vec::new();
        message.write_header(subject, &mut headers);
        let removes = message.removes();
        let subject = [streams::RETAINED.subject_prefix.as_bytes(), subject].concat();
        let msg = MessageRef { subject: &subject, headers: &headers, payload, ..MessageRef::default() };
        let awaited = if removes { Matter::Removal(ack) } else { Matter::Stored(ack) };
        self.ask(shard, msg, awaited, now);
    }

    /// A record that removes a retained message is stored in its place, and goes too.
    pub(super) fn removal_stored(&self, shard: &mut Shard, answer: &[u8], now: Instant) {
        if let Ok(sequence) = api::outcome(answer) {
            let request = format!("STREAM.MSG.DELETE.{}", streams::RETAINED.name);
            self.tell_api(shard, &request, api::remove(sequence).as_bytes(), now);
        }
    }

    pub(super) fn message_stored(&mut self, shard: &mut Shard, ack: u64, answer: &[u8]) -> Step {
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        let pending = stored.acks.find(ack);
        // One that is held and comes again is refused by the stream, which has it.
        let is_held = pending.as_ref().is_some_and(|ack| ack.exchange.qos() == Qos::ExactlyOnce);
        let outcome = api::outcome(answer);
        if let Some(pending) = pending {
            pending.missing = pending.missing.saturating_sub(1);
        }
        match outcome {
            Err(fault) if !(is_held && fault.is_kept_first()) => {
                Err(self.storage_failed(format_args!("{} ({})", fault.description, fault.err_code)))
            }
            _ => {
                self.acknowledge_stored(shard);
                Ok(())
            }
        }
    }

    /// Sends the acknowledgements that are due.
    fn acknowledge_stored(&mut self, shard: &mut Shard) {
        while let Some(exchange) = self.stored_mut().and_then(|stored| stored.acks.pop()) {
            match exchange {
                Exchange::AtMostOnce => {}
                Exchange::AtLeastOnce(id) => {
                    let ack = ServerPacket::PubAck(AckPacket::success(id));
                    self.answer(shard, &ack, format_args!("PUBACK pi={id}"));
                }
                Exchange::ExactlyOnce(id) => {
                    let ack = ServerPacket::PubRec(AckPacket::success(id));
                    self.answer(shard, &ack, format_args!("PUBREC pi={id}"));
                }
            }
        }
    }

    /// A message of QoS 2 will not come again: it goes on to its receivers. One after the other, in
    /// the order of the releases.
    pub(in crate::session::mqtt) fn release(&mut self, shard: &mut Shard, id: PacketId, now: Instant) {
        self.log_step("PUBREL", id);
        let Some(stored) = self.stored_mut() else { return };
        stored.releases.push(Release { id, stage: ReleaseStage::Read, sequence: 0 });
        if stored.releases.len() == 1 {
            self.read_held(shard, now);
        }
    }

    /// Asks for the message of the first release.
    fn read_held(&mut self, shard: &mut Shard, now: Instant) {
        let Some(first) = self.stored().and_then(|stored| stored.releases.first()) else { return };
        let body = api::last_of(&self.held_subject(first.id));
        let request = format!("STREAM.MSG.GET.{}", streams::HELD.name);
        self.ask_api(shard, &request, &body, Matter::Release, now);
    }

    pub(super) fn release_answered(&mut self, shard: &mut Shard, answer: &[u8], now: Instant) -> Step {
        let first = self.stored().and_then(|stored| stored.releases.first());
        let Some(stage) = first.map(|first| first.stage) else { return Ok(()) };
        let fault = match stage {
            ReleaseStage::Read => match api::read(answer).and_then(MessageAnswer::message) {
                Ok(Some(held)) => return self.publish_held(shard, &held, now),
                // Released before.
                Ok(None) => return self.released(shard, now),
                Err(fault) => fault,
            },
            ReleaseStage::Stored => match api::outcome(answer) {
                Ok(_) => return self.remove_held(shard, now),
                Err(fault) => fault,
            },
            // It cannot be released again: it is gone, or was.
            ReleaseStage::Removed => return self.released(shard, now),
        };
        Err(self.storage_failed(format_args!("{} ({})", fault.description, fault.err_code)))
    }

    fn publish_held(&mut self, shard: &mut Shard, held: &api::StoredMessage, now: Instant) -> Step {
        let first = self.stored_mut().and_then(|stored| stored.releases.first_mut());
        first.into_iter().for_each(|first| {
            (first.sequence, first.stage) = (held.sequence, ReleaseStage::Stored);
        });
        let mark = MessageMark::of(&held.headers);
        let Some(MessageMark { qos, held: Some(mark) }) = mark else {
            return self.remove_held(shard, now);
        };
        let published = if mark.mapped.is_empty() { mark.subject } else { mark.mapped };
        let mut name = Vec::new();
        topic::subject_to_topic(published, &mut name);
        let name = String::from_utf8_lossy(&name);
        if !self.publish_topic(shard, &name, qos, &held.payload, now) {
            return self.remove_held(shard, now);
        }
        if mark.is_retained() {
            self.retain(shard, mark.subject, mark.flags, &held.payload, UNACKNOWLEDGED, now);
        }
        let id = released_id(held.sequence);
        self.store(shard, mark.subject, qos, &held.payload, Some(&id), Matter::Release, now);
        Ok(())
    }

    fn remove_held(&mut self, shard: &mut Shard, now: Instant) -> Step {
        let Some(first) = self.stored_mut().and_then(|stored| stored.releases.first_mut()) else {
            return Ok(());
        };
        first.stage = ReleaseStage::Removed;
        let body = api::remove(first.sequence);
        let request = format!("STREAM.MSG.DELETE.{}", streams::HELD.name);
        self.ask_api(shard, &request, body.as_bytes(), Matter::Release, now);
        Ok(())
    }

    /// The first release is done.
    fn released(&mut self, shard: &mut Shard, now: Instant) -> Step {
        let Some(stored) = self.stored_mut() else { return Ok(()) };
        let id = stored.releases.remove(0).id;
        self.answer(shard, &ServerPacket::PubComp(AckPacket::success(id)), format_args!("PUBCOMP pi={id}"));
        self.read_held(shard, now);
        Ok(())
    }
}

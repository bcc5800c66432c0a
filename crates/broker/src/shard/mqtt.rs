//! Deliveries to clients that speak MQTT: one PUBLISH of QoS 0 for each message. Those of MQTT 5
//! are in `mqtt5.rs`.
//!
//! Budget per message: the length is written into the shard's buffer and the bytes are copied into
//! the receiver's chunk, or once into the block of the cohort; no lock, no allocation.

use super::fanout::Fanout;
use super::mqtt_targets::{MqttForm, MqttTargets};
use super::staging::FrameParts;
use super::{PubMessage, Published, Publisher, Shard};
use crate::conn::Conn;
use crate::mqtt_message::{HEADER_LEN, is_marked_stored, write_tail, write_tail_with};
use crate::protocol_log::Direction;
use bytes::Bytes;
use myelin_mqtt::packet::{Exchange, Properties, ProtocolLevel, PublishHeader, Qos};
use myelin_mqtt::sparkplug::{self, Lifecycle};
use myelin_mqtt::topic::{self, TopicFault};
use std::sync::Arc;

/// Payloads of at least this size stay where all receivers share them.
const SHARED_PAYLOAD: usize = 4 * 1024;

/// A message that an MQTT client publishes.
#[derive(Clone, Copy)]
pub(crate) struct MqttPublish<'a> {
    pub(crate) topic: &'a str,
    pub(crate) qos: Qos,
    pub(crate) payload: &'a [u8],
    /// Reply subject.
    pub(crate) reply: &'a [u8],
    /// Lines of headers that properties have become.
    pub(crate) lines: &'a [u8],
}

impl Shard {
    /// Publishes what an MQTT client has sent.
    ///
    /// # Errors
    /// When the topic has no subject.
    pub(crate) fn publish_mqtt(
        &mut self,
        from: Publisher<'_>,
        publish: MqttPublish<'_>,
    ) -> Result<Published, TopicFault> {
        let MqttPublish { topic, qos, payload, reply, lines } = publish;
        let mut rendering = std::mem::take(&mut self.rendering);
        let (subject, tail) = (&mut rendering.body, &mut rendering.tail);
        subject.clear();
        if let Err(fault) = topic::name_to_subject(topic, subject) {
            self.rendering = rendering;
            return Err(fault);
        }
        let body = match reply.is_empty() && lines.is_empty() {
            true => write_tail(tail, qos, payload),
            false => write_tail_with(tail, qos, (reply, lines), payload),
        };
        let message = PubMessage {
            to: &[],
            subject,
            reply,
            header_len: HEADER_LEN + lines.len(),
            body: &tail[body],
            tail,
            shared_tail: None,
        };
        let published = self.publish_onward(from, message);
        self.rendering = rendering;
        Ok(published)
    }
}

/// Fate of a message for one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StagedPublish {
    /// On its way to the client.
    Staged,
    /// The client is too far behind, or its connection is ending: it does not get the message now.
    Dropped,
    /// The client takes no such packet, or there is none.
    NotTaken,
}

impl Shard {
    /// Stages a message for one client that speaks MQTT: the head of its PUBLISH, and its payload.
    pub(crate) fn stage_mqtt_publish(
        &mut self,
        conn: &Arc<Conn>,
        head: &[u8],
        payload: &[u8],
    ) -> StagedPublish {
        let parts = FrameParts { head, tail: payload, shared_tail: None, payload: payload.len() };
        let placed = self.staging.frame(conn, parts, &mut self.pool, &self.settings);
        if placed.stalled {
            // What is dropped here is sent later.
            self.count_stall(0);
        }
        if placed.dropped { StagedPublish::Dropped } else { StagedPublish::Staged }
    }
}

/// A message as MQTT clients get it.
#[derive(Clone, Copy)]
pub(super) struct MqttFrame<'a> {
    pub(super) head: &'a [u8],
    pub(super) payload: &'a [u8],
    pub(super) shared_payload: Option<&'a Bytes>,
    /// The subject that stands for the topic.
    pub(super) subject: &'a [u8],
    pub(super) is_retained: bool,
}

impl<'a> MqttFrame<'a> {
    pub(super) fn parts(&self) -> FrameParts<'a> {
        FrameParts {
            head: self.head,
            tail: self.payload,
            shared_tail: self.shared_payload,
            payload: self.payload.len(),
        }
    }
}

/// The payload of a frame's tail, where it is worth sharing.
#[inline]
pub(super) fn shared_payload(tail: Option<&Bytes>, payload: usize) -> Option<Bytes> {
    tail.filter(|_| payload >= SHARED_PAYLOAD).map(|tail| {
        let end = tail.len() - b"\r\n".len();
        tail.slice(end - payload..end)
    })
}

impl Fanout<'_> {
    #[inline(never)]
    pub(super) fn mqtt<const LOGGED: bool>(&mut self, targets: &MqttTargets) {
        if !matches!(targets.form, MqttForm::Three) {
            return self.mqtt5::<LOGGED>(targets);
        }
        let staged = self.with_mqtt_frame(targets, |fanout, frame| fanout.share::<LOGGED>(targets, frame));
        if staged.is_none() {
            targets.subs.iter().for_each(|sub| sub.uncount());
        }
    }

    /// Stages equal bytes for all `targets`, once where they are a cohort.
    #[inline]
    pub(super) fn share<const LOGGED: bool>(&mut self, targets: &MqttTargets, frame: MqttFrame<'_>) {
        if !LOGGED
            && let Some(cohort) = targets.cohort
            && let Some(stalled) = self.staging.cohort_frame(cohort, frame.parts(), self.settings)
        {
            self.outcome.delivered = true;
            self.outcome.stalled |= stalled;
            return;
        }
        for sub in &targets.subs {
            if self.is_withheld(sub) {
                sub.uncount();
            } else {
                self.stage_publish::<LOGGED>(sub.conn(), frame);
            }
        }
    }

    /// Renders the message once for all `targets`. `None`: it is not for them.
    pub(super) fn with_mqtt_frame<R>(
        &mut self,
        targets: &MqttTargets,
        stage: impl FnOnce(&mut Self, MqttFrame<'_>) -> R,
    ) -> Option<R> {
        if self.is_for_consumers() || (targets.leaves_stored && self.is_stored()) {
            return None;
        }
        let message = self.message;
        let (subject, lifecycle) = match message.to.is_empty() {
            true => (&*targets.subject, targets.lifecycle),
            false => (message.subject, Lifecycle::of_subject(message.subject)),
        };
        let (mut dated, mut shared_tail) = (Vec::new(), self.shared_tail);
        let mut payload = &message.body[message.header_len..];
        if lifecycle == Some(Lifecycle::Death) {
            sparkplug::dated_death(payload, self.unix_ms(), &mut dated);
            (payload, shared_tail) = (&dated, None);
        }
        let exchange = Exchange::AtMostOnce;
        let header =
            PublishHeader::new(ProtocolLevel::V3, exchange, subject, Properties::EMPTY, payload.len())?;
        // Compat: certificates are messages like others, and retained for those who get them.
        let is_retained = lifecycle == Some(Lifecycle::Certificate);
        let header = if is_retained { header.retain() } else { header };
        let mut head = std::mem::take(self.head);
        head.clear();
        header.write(&mut head);
        let shared = shared_payload(shared_tail, payload.len());
        let shared_payload = shared.as_ref();
        let staged = stage(self, MqttFrame { head: &head, payload, shared_payload, subject, is_retained });
        *self.head = head;
        Some(staged)
    }

    #[cold]
    pub(super) fn unix_ms(&self) -> u64 {
        self.broker.unix_ms(self.from.now)
    }

    /// Whether the message is on its way to the clients of a consumer. Compat: MQTT clients that
    /// listen where one delivers get nothing of it.
    pub(super) fn is_for_consumers(&self) -> bool {
        self.from.is_service && self.message.reply.starts_with(b"$JS.ACK.")
    }

    /// Whether it is stored for those who subscribe with QoS 1 or 2: an MQTT client has published
    /// it, here or on another server, with such a QoS.
    pub(super) fn is_stored(&self) -> bool {
        let conn = self.from.conn;
        (conn.mqtt().is_some() || conn.is_link()) && is_marked_stored(self.message.body)
    }

    /// Stages the message for one connection; `false` when it was dropped there.
    pub(super) fn stage_publish<const LOGGED: bool>(
        &mut self,
        conn: &Arc<Conn>,
        frame: MqttFrame<'_>,
    ) -> bool {
        let placed = self.staging.frame(conn, frame.parts(), self.pool, self.settings);
        if LOGGED && !placed.dropped {
            self.log_publish(conn, frame);
        }
        self.note(placed)
    }

    #[cold]
    fn log_publish(&self, conn: &Conn, frame: MqttFrame<'_>) {
        let mut topic = Vec::new();
        topic::subject_to_topic(frame.subject, &mut topic);
        let topic = String::from_utf8_lossy(&topic);
        let (retain, size) = (frame.is_retained, frame.payload.len());
        let line = format_args!("PUBLISH {topic} dup=false QoS=0 retain={retain} size={size}");
        self.broker.log_protocol_line(conn, Direction::Out, line);
    }
}

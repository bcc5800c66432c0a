//! Deliveries to clients that speak MQTT: one PUBLISH of QoS 0 for each message.
//!
//! A PUBLISH has no sid, so all clients that see a subject under one topic get the same bytes: most
//! of them form one cohort, whatever their filters. The topic is rendered when the route is built.
//!
//! Budget per message: the length is written into the shard's buffer and the bytes are copied into
//! the receiver's chunk, or once into the block of the cohort; no lock, no allocation.

use super::cohort::{CohortId, Cohorts, SMALLEST};
use super::fanout::Fanout;
use super::staging::FrameParts;
use super::targets::RouteTarget;
use super::{PubMessage, Published, Publisher, Shard};
use crate::conn::Conn;
use crate::protocol_log::Direction;
use crate::subscription::Subscription;
use bytes::Bytes;
use myelin_mqtt::packet::{Exchange, Level, Properties, PublishHeader, Qos};
use myelin_mqtt::sparkplug::{self, Lifecycle};
use myelin_mqtt::topic::{self, TopicFault};
use myelin_wire::encode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

/// Payloads of at least this size stay where all receivers share them.
const SHARED_PAYLOAD: usize = 4 * 1024;

/// Subscriptions of MQTT clients that see a subject under one name.
pub(super) struct MqttTargets {
    pub(super) subs: Vec<Arc<Subscription>>,
    /// Their connections, if these are distinct and nothing has to be asked for each message.
    pub(super) cohort: Option<CohortId>,
    /// The subject that they see.
    subject: Box<[u8]>,
    /// What it says of a device, with Sparkplug B.
    lifecycle: Option<Lifecycle>,
}

impl MqttTargets {
    /// Sorts subscriptions into targets: the first of each connection, where they can share what
    /// they get, and the others.
    pub(super) fn add(
        subs: Vec<Arc<Subscription>>,
        subject: &[u8],
        targets: &mut Vec<RouteTarget>,
        mut cohorts: Option<&mut Cohorts>,
    ) {
        if subs.is_empty() {
            return;
        }
        let mut named: BTreeMap<Vec<u8>, Vec<Arc<Subscription>>> = BTreeMap::new();
        for sub in subs {
            let seen = match sub.import() {
                None => subject.to_vec(),
                Some(import) => import.naming().name(subject).to_vec(),
            };
            if !is_reserved(sub.original(), &seen) {
                named.entry(seen).or_default().push(sub);
            }
        }
        for (subject, subs) in named {
            let mut seen = BTreeSet::new();
            let can_share =
                |sub: &Arc<Subscription>| !sub.conn().is_filtered() && seen.insert(sub.conn().slot());
            let (alike, apart): (Vec<_>, Vec<_>) = subs.into_iter().partition(can_share);
            let mut push = |subs: Vec<Arc<Subscription>>, cohort| {
                if !subs.is_empty() {
                    let (lifecycle, subject) = (Lifecycle::of_subject(&subject), subject.as_slice().into());
                    targets.push(RouteTarget::Mqtt(Box::new(Self { subs, cohort, subject, lifecycle })));
                }
            };
            let members = || alike.iter().map(|sub| Arc::clone(sub.conn())).collect();
            let cohorts = cohorts.as_deref_mut().filter(|_| alike.len() >= SMALLEST);
            let cohort = cohorts.map(|cohorts| cohorts.intern(members()));
            push(alike, cohort);
            push(apart, None);
        }
    }

    /// Bytes that they take, about.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>() + self.subject.len() + self.subs.len() * size_of::<Arc<Subscription>>()
    }
}

/// Whether a filter that begins with a wildcard leaves the subject out (MQTT-4.7.2-1).
fn is_reserved(sub: &Subscription, subject: &[u8]) -> bool {
    subject.first() == Some(&b'$') && topic::leaves_out_dollar(sub.subject())
}

/// Header of what MQTT clients publish, with QoS 0.
const HEADER: &[u8] = b"NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n";

/// Place of the QoS in it.
const QOS: usize = b"NATS/1.0\r\nNmqtt-Pub:".len();

/// Bytes of the message that a PUBLISH becomes.
pub(crate) fn mqtt_message_len(payload: &[u8]) -> usize {
    HEADER.len() + payload.len()
}

impl Shard {
    /// Publishes what an MQTT client has sent.
    ///
    /// # Errors
    /// When the topic has no subject.
    pub(crate) fn publish_mqtt(
        &mut self,
        from: Publisher<'_>,
        topic: &str,
        qos: Qos,
        payload: &[u8],
    ) -> Result<Published, TopicFault> {
        let mut rendering = std::mem::take(&mut self.rendering);
        let (subject, tail) = (&mut rendering.body, &mut rendering.tail);
        subject.clear();
        if let Err(fault) = topic::name_to_subject(topic, subject) {
            self.rendering = rendering;
            return Err(fault);
        }
        tail.clear();
        encode::number(tail, HEADER.len());
        tail.push(b' ');
        encode::number(tail, mqtt_message_len(payload));
        tail.extend_from_slice(b"\r\n");
        let begin = tail.len();
        tail.extend_from_slice(HEADER);
        tail[begin + QOS] = b'0' + qos as u8;
        tail.extend_from_slice(payload);
        let end = tail.len();
        tail.extend_from_slice(b"\r\n");
        let message = PubMessage {
            to: &[],
            subject,
            reply: &[],
            header_len: HEADER.len(),
            body: &tail[begin..end],
            tail,
            shared_tail: None,
        };
        let published = self.publish_onward(from, message);
        self.rendering = rendering;
        Ok(published)
    }
}

/// A message as MQTT clients get it.
#[derive(Clone, Copy)]
pub(super) struct MqttFrame<'a> {
    head: &'a [u8],
    payload: &'a [u8],
    shared_payload: Option<&'a Bytes>,
    /// The subject that stands for the topic.
    subject: &'a [u8],
    is_retained: bool,
}

impl<'a> MqttFrame<'a> {
    fn parts(&self) -> FrameParts<'a> {
        FrameParts {
            head: self.head,
            tail: self.payload,
            shared_tail: self.shared_payload,
            payload: self.payload.len(),
        }
    }
}

impl Fanout<'_> {
    #[inline(never)]
    pub(super) fn mqtt<const LOGGED: bool>(&mut self, targets: &MqttTargets) {
        let staged = self.with_mqtt_frame(targets, |fanout, frame| {
            if !LOGGED
                && let Some(cohort) = targets.cohort
                && let Some(stalled) = fanout.staging.cohort_frame(cohort, frame.parts(), fanout.settings)
            {
                fanout.outcome.delivered = true;
                fanout.outcome.stalled |= stalled;
                return;
            }
            for sub in &targets.subs {
                if fanout.is_withheld(sub) {
                    sub.uncount();
                } else {
                    fanout.stage_publish::<LOGGED>(sub.conn(), frame);
                }
            }
        });
        if staged.is_none() {
            targets.subs.iter().for_each(|sub| sub.uncount());
        }
    }

    /// Renders the message once for all `targets`. `None`: it is not for them.
    pub(super) fn with_mqtt_frame<R>(
        &mut self,
        targets: &MqttTargets,
        stage: impl FnOnce(&mut Self, MqttFrame<'_>) -> R,
    ) -> Option<R> {
        if self.is_for_consumers() {
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
        let header = PublishHeader::new(Level::V3, exchange, subject, Properties::EMPTY, payload.len())?;
        // Compat: certificates are messages like others, and retained for those who get them.
        let is_retained = lifecycle == Some(Lifecycle::Certificate);
        let header = if is_retained { header.retain() } else { header };
        let mut head = std::mem::take(self.head);
        head.clear();
        header.write(&mut head);
        let shared = shared_tail.filter(|_| payload.len() >= SHARED_PAYLOAD).map(|tail| {
            let end = tail.len() - b"\r\n".len();
            tail.slice(end - payload.len()..end)
        });
        let shared_payload = shared.as_ref();
        let staged = stage(self, MqttFrame { head: &head, payload, shared_payload, subject, is_retained });
        *self.head = head;
        Some(staged)
    }

    #[cold]
    fn unix_ms(&self) -> u64 {
        let wall = self.broker.wall(self.from.now).duration_since(SystemTime::UNIX_EPOCH);
        wall.map_or(0, |wall| wall.as_millis() as u64)
    }

    /// Whether the message is on its way to the clients of a consumer. Compat: MQTT clients that
    /// listen where one delivers get nothing of it.
    fn is_for_consumers(&self) -> bool {
        self.from.is_service && self.message.reply.starts_with(b"$JS.ACK.")
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

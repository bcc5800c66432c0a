//! Deliveries to clients that speak MQTT 5: headers are properties, and the reply subject is the
//! response topic.
//!
//! Budget per message: its properties are made once for all receivers, with an allocation if it has
//! headers or a reply subject; receivers that get equal bytes form a cohort, as those of version
//! 3.1.1 do. For each of the others its aliases are asked for (a lock) and a header is written.

use super::Shard;
use super::fanout::Fanout;
use super::mqtt::{MqttFrame, StagedPublish, shared_payload};
use super::mqtt_targets::{MqttForm, MqttTargets, Receiver5, is_reserved, seen_subject};
use crate::conn::Conn;
use crate::mqtt_message::HEADER_LEN;
use crate::mqtt5_client::{AliasUse, Mqtt5Client};
use crate::subscription::Subscription;
use bytes::Bytes;
use myelin_mqtt::headers;
use myelin_mqtt::packet::{Exchange, Properties, Property, PropertyBuf, ProtocolLevel, PublishHeader};
use myelin_mqtt::sparkplug::{self, Lifecycle};
use smallvec::smallvec;
use std::sync::Arc;

/// Bytes that a header has beside topic and properties: first byte, lengths.
const FRAMING: usize = 16;

/// Parts of a message that all its receivers of MQTT 5 get.
struct Message5<'a> {
    subject: &'a [u8],
    payload: &'a [u8],
    shared_payload: Option<&'a Bytes>,
    is_retained: bool,
    /// Whether it was published to be retained.
    was_retained: bool,
    properties: &'a PropertyBuf,
}

/// A PUBLISH for one client, or for some that get equal bytes.
#[derive(Clone, Copy)]
pub(crate) struct Mqtt5Packet<'a> {
    pub(crate) subject: &'a [u8],
    /// Bytes of the payload.
    pub(crate) payload: usize,
    pub(crate) exchange: Exchange,
    pub(crate) is_again: bool,
    pub(crate) is_retained: bool,
}

impl Mqtt5Packet<'_> {
    /// Writes the header, with another subject. `None`: no packet can hold the message.
    fn write(&self, subject: &[u8], properties: Properties<'_>, head: &mut Vec<u8>) -> Option<usize> {
        let Self { payload, exchange, .. } = *self;
        let header = PublishHeader::new(ProtocolLevel::V5, exchange, subject, properties, payload)?;
        let header = header.flagged(self.is_again, self.is_retained);
        head.clear();
        header.write(head);
        Some(header.packet_len())
    }

    /// Writes the header for a client, with an alias for the topic if it takes one from `shard`.
    /// `None`: no packet can hold the message, or the client takes none that is as long.
    fn write_for(
        &self,
        (client, shard): (&Mqtt5Client, usize),
        mut properties: PropertyBuf,
        head: &mut Vec<u8>,
    ) -> Option<AliasUse> {
        let longest = self.subject.len() + properties.properties().raw().len() + FRAMING;
        let is_near = !client.takes(longest + self.payload);
        // Whoever may get none of its messages is told no alias.
        let alias = if is_near { AliasUse::None } else { client.alias(self.subject, shard) };
        let subject = match alias {
            AliasUse::None => self.subject,
            AliasUse::Tell(number) => {
                let _ = properties.push(Property::TopicAlias(number));
                self.subject
            }
            AliasUse::Short(number) => {
                let _ = properties.push(Property::TopicAlias(number));
                &[]
            }
        };
        let packet_len = self.write(subject, properties.properties(), head)?;
        client.takes(packet_len).then_some(alias)
    }
}

impl Shard {
    /// Stages a message for one client.
    pub(crate) fn stage_mqtt5_publish(
        &mut self,
        (conn, client): (&Arc<Conn>, &Mqtt5Client),
        packet: Mqtt5Packet<'_>,
        payload: &[u8],
        properties: PropertyBuf,
    ) -> StagedPublish {
        let mut head = Vec::new();
        let written = packet.write_for((client, self.staging.shard()), properties, &mut head);
        let Some(alias) = written else { return StagedPublish::NotTaken };
        let staged = self.stage_mqtt_publish(conn, &head, payload);
        if staged == StagedPublish::Staged && matches!(alias, AliasUse::Tell(_)) {
            client.told(packet.subject);
        }
        staged
    }
}

impl Message5<'_> {
    fn packet(&self) -> Mqtt5Packet<'_> {
        Mqtt5Packet {
            subject: self.subject,
            payload: self.payload.len(),
            exchange: Exchange::AtMostOnce,
            is_again: false,
            is_retained: self.is_retained,
        }
    }

    fn frame<'f>(&'f self, head: &'f [u8]) -> MqttFrame<'f> {
        let (payload, shared_payload, subject) = (self.payload, self.shared_payload, self.subject);
        MqttFrame { head, payload, shared_payload, subject, is_retained: self.is_retained }
    }
}

impl Fanout<'_> {
    #[inline(never)]
    pub(super) fn mqtt5<const LOGGED: bool>(&mut self, targets: &MqttTargets) {
        if targets.leaves_stored && self.is_stored() {
            return targets.subs.iter().for_each(|sub| sub.uncount());
        }
        let name = (&*targets.subject, targets.lifecycle);
        let staged = self.with_message5(name, |fanout, message| match &targets.form {
            MqttForm::Each(receivers) => {
                for receiver in receivers {
                    if !fanout.receiver5::<LOGGED>(receiver, message) {
                        receiver.subs.iter().for_each(|sub| sub.uncount());
                    }
                }
            }
            MqttForm::Three | MqttForm::Five => fanout.alike5::<LOGGED>(targets, message),
        });
        if staged.is_none() {
            targets.subs.iter().for_each(|sub| sub.uncount());
        }
    }

    /// One member of a queue group; `false` when it does not get the message.
    pub(super) fn mqtt5_member<const LOGGED: bool>(
        &mut self,
        subject: &[u8],
        sub: &Arc<Subscription>,
    ) -> bool {
        let subject = seen_subject(sub, subject);
        if is_reserved(sub.original(), &subject) {
            return false;
        }
        // Members of a share get it from where it is stored; the others are a group of their own.
        if sub.leaves_stored() && self.is_stored() {
            sub.uncount();
            return false;
        }
        let receiver = Receiver5::of(smallvec![Arc::clone(sub)]);
        let name = (&*subject, Lifecycle::of_subject(&subject));
        self.with_message5(name, |fanout, message| fanout.receiver5::<LOGGED>(&receiver, message))
            == Some(true)
    }

    /// Stages the message for one subscription of `targets`, alone.
    pub(super) fn mqtt5_alone<const LOGGED: bool>(
        &mut self,
        targets: &MqttTargets,
        sub: &Arc<Subscription>,
    ) -> bool {
        if targets.leaves_stored && self.is_stored() {
            return false;
        }
        let receiver = Receiver5::of(smallvec![Arc::clone(sub)]);
        let name = (&*targets.subject, targets.lifecycle);
        self.with_message5(name, |fanout, message| fanout.receiver5::<LOGGED>(&receiver, message))
            == Some(true)
    }

    /// Makes what all receivers get. `None`: the message is not for them.
    fn with_message5<R>(
        &mut self,
        (subject, lifecycle): (&[u8], Option<Lifecycle>),
        stage: impl FnOnce(&mut Self, &Message5<'_>) -> R,
    ) -> Option<R> {
        if self.is_for_consumers() {
            return None;
        }
        let message = self.message;
        let (subject, lifecycle) = match message.to.is_empty() {
            true => (subject, lifecycle),
            false => (message.subject, Lifecycle::of_subject(message.subject)),
        };
        let (block, mut payload) = message.body.split_at(message.header_len);
        let (mut dated, mut shared_tail) = (Vec::new(), self.shared_tail);
        if lifecycle == Some(Lifecycle::Death) {
            sparkplug::dated_death(payload, self.unix_ms(), &mut dated);
            (payload, shared_tail) = (&dated, None);
        }
        let mut properties = PropertyBuf::default();
        headers::read(block, message.reply, &mut properties);
        let shared = shared_payload(shared_tail, payload.len());
        let (shared_payload, is_retained) = (shared.as_ref(), lifecycle == Some(Lifecycle::Certificate));
        // Perf: a block as short as that says the QoS and nothing else.
        let was_retained = block.len() > HEADER_LEN && headers::is_retained(block);
        let properties = &properties;
        let message = Message5 { subject, payload, shared_payload, is_retained, was_retained, properties };
        Some(stage(self, &message))
    }

    /// Receivers that get equal bytes.
    fn alike5<const LOGGED: bool>(&mut self, targets: &MqttTargets, message: &Message5<'_>) {
        let mut head = std::mem::take(self.head);
        if message.packet().write(message.subject, message.properties.properties(), &mut head).is_some() {
            let frame = message.frame(&head);
            self.share::<LOGGED>(targets, frame);
        } else {
            targets.subs.iter().for_each(|sub| sub.uncount());
        }
        *self.head = head;
    }

    /// One connection; `false` when it does not get the message.
    fn receiver5<const LOGGED: bool>(&mut self, receiver: &Receiver5, message: &Message5<'_>) -> bool {
        let conn = receiver.conn();
        let Some(client) = conn.mqtt5() else { return false };
        let is_own = receiver.no_local && Arc::ptr_eq(conn, self.from.conn);
        if is_own || self.is_withheld(&receiver.subs[0]) {
            return false;
        }
        if receiver.is_inbox {
            return self.answer5::<LOGGED>((conn, client), message);
        }
        let is_retained = message.is_retained || receiver.as_published && message.was_retained;
        let message = &Message5 { is_retained, ..*message };
        let mut properties = message.properties.clone();
        for id in &receiver.ids {
            // Every number of a subscription has a form.
            let _ = properties.push(Property::SubscriptionId(*id));
        }
        self.stage5::<LOGGED>((conn, client), properties, message)
    }

    /// An answer to a request of the connection: on the response topic, with the data of the
    /// request.
    fn answer5<const LOGGED: bool>(
        &mut self,
        (conn, client): (&Arc<Conn>, &Mqtt5Client),
        message: &Message5<'_>,
    ) -> bool {
        let Some(request) = client.requests.answered(message.subject) else { return false };
        let mut properties = PropertyBuf::default();
        // All of the message, but for data that a responder may have brought along.
        for property in message.properties.properties().iter() {
            let _ = !matches!(property, Property::CorrelationData(_)) && properties.push(property);
        }
        let _ = properties.push(Property::CorrelationData(&request.correlation));
        if let Some(id) = client.wishes(&request.subject).id {
            let _ = properties.push(Property::SubscriptionId(id));
        }
        let message = Message5 { subject: &request.subject, properties: message.properties, ..*message };
        self.stage5::<LOGGED>((conn, client), properties, &message)
    }

    /// Stages a packet with these properties, with an alias for its topic if the client takes one.
    fn stage5<const LOGGED: bool>(
        &mut self,
        (conn, client): (&Arc<Conn>, &Mqtt5Client),
        properties: PropertyBuf,
        message: &Message5<'_>,
    ) -> bool {
        let mut head = std::mem::take(self.head);
        let alias = message.packet().write_for((client, self.staging.shard()), properties, &mut head);
        let is_staged = alias.is_some() && self.stage_publish::<LOGGED>(conn, message.frame(&head));
        *self.head = head;
        if is_staged && matches!(alias, Some(AliasUse::Tell(_))) {
            client.told(message.subject);
        }
        is_staged
    }
}

//! Wills that are due after their connections have ended.

use super::{MqttPublish, Published, Publisher, Shard};
use crate::mqtt_copy::StoredCopy;
use crate::mqtt_will::{DelayedWill, StoredWill};
use myelin_mqtt::packet::Qos;
use myelin_mqtt::{sparkplug, topic};
use myelin_wire::message_buf::MessageRef;
use std::time::Instant;

impl Shard {
    /// Publishes the delayed will of connection `cid`, which has ended, if there is one and it is
    /// due. Answers whether there was one.
    pub fn mqtt_will_due(&mut self, cid: u64, now: Instant) -> bool {
        let will = self.broker().registry.mqtt_stores.due_will(cid, now);
        will.iter().for_each(|will| self.publish_delayed_will(will, now));
        will.is_some()
    }

    /// Publishes a will, and has it stored and retained as far as that is asked for.
    pub(crate) fn publish_delayed_will(&mut self, delayed: &DelayedWill, now: Instant) {
        let DelayedWill { will, conn, account, permissions, user, node, .. } = delayed;
        let StoredWill { topic, payload, qos, is_retained, nats, .. } = &**will;
        let from = Publisher::mqtt(conn, account, permissions.as_ref(), now);
        let (reply, lines) = (&nats.reply[..], &nats.lines[..]);
        let message = MqttPublish { topic, qos: *qos, payload, reply, lines };
        let is_certified = sparkplug::is_birth(topic) && !is_retained;
        let certificate = if is_certified { self.publish_certificate(from, message) } else { None };
        let mut subject = Vec::new();
        let is_published = matches!(self.publish_mqtt(from, message), Ok(Published::Done { .. }));
        if !is_published || topic::name_to_subject(topic, &mut subject).is_err() {
            return;
        }
        let subject = account.mqtt_mapped(&subject).unwrap_or(subject);
        let copy = StoredCopy { subject: &subject, qos: *qos, payload, is_retained: *is_retained, nats };
        let unix_ms = self.broker().unix_ms(now);
        let mut copies = Vec::new();
        if let Some(subject) = &certificate {
            let copy = StoredCopy { subject, is_retained: true, ..copy };
            copies.push(copy.retained((*qos as u8) << 1 | 1, (node, user), unix_ms));
        }
        if sparkplug::is_retained(topic, *is_retained) {
            copies.push(copy.retained((*qos as u8) << 1 | 1, (node, user), unix_ms));
        }
        if *qos > Qos::AtMostOnce {
            copies.push(copy.message(None, unix_ms));
        }
        let mut msgs = self.spare_buf();
        for (subject, headers) in &copies {
            msgs.push(MessageRef { subject, headers, payload, ..MessageRef::default() });
        }
        self.send(account, &mut msgs, now);
        self.keep_buf(msgs);
    }
}

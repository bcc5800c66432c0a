//! Certificates of Sparkplug B: copies of births under a topic of their own, which are retained.

use super::{MqttPublish, Publisher, Shard};
use myelin_mqtt::packet::Qos;
use myelin_mqtt::{sparkplug, topic};

impl Shard {
    /// Publishes the certificate of a birth to those who listen now, before the birth itself, and
    /// answers the subject under which it is to be retained. `None` where the client may not
    /// publish the birth.
    ///
    /// Compat: the server publishes it, so that the client needs no permission for its topic; with
    /// QoS 0; and not where the payload is empty, which removes the one that is retained.
    pub(crate) fn publish_certificate(
        &mut self,
        from: Publisher<'_>,
        birth: MqttPublish<'_>,
    ) -> Option<Vec<u8>> {
        let mut subject = Vec::new();
        topic::name_to_subject(birth.topic, &mut subject).ok()?;
        if !self.may_publish(from.account, from.permissions, &subject) {
            return None;
        }
        let name = [sparkplug::CERTIFICATES, birth.topic].concat();
        subject.clear();
        topic::name_to_subject(&name, &mut subject).ok()?;
        if !birth.payload.is_empty() {
            let certificate = MqttPublish { topic: &name, qos: Qos::AtMostOnce, reply: &[], ..birth };
            // Whom it reaches makes no difference to what is retained.
            let _ = self.publish_mqtt(Publisher { permissions: None, ..from }, certificate);
        }
        Some(from.account.mqtt_mapped(&subject).unwrap_or(subject))
    }
}

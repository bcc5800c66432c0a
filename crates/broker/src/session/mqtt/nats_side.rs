//! Properties of a message of MQTT 5 as NATS has them: header lines and a reply subject.

use myelin_mqtt::packet::{Properties, Property};
use myelin_mqtt::{headers, topic};

/// Properties of a message, as NATS has them.
#[derive(Default)]
pub(super) struct NatsSide {
    pub(super) reply: Vec<u8>,
    pub(super) lines: Vec<u8>,
}

impl NatsSide {
    /// Makes headers and a reply subject of the properties of a will. Nobody waits for answers to
    /// it, so its reply subject is the response topic, whatever data it comes with.
    pub(super) fn of_will(properties: Properties<'_>) -> Self {
        let mut side = Self::default();
        headers::write(properties, &mut side.lines);
        if let (Some(topic), _) = request_in(properties) {
            // One that has no subject cannot be answered to.
            let _ = topic::name_to_subject(topic, &mut side.reply);
        }
        side
    }
}

/// The response topic and the correlation data.
pub(super) fn request_in(properties: Properties<'_>) -> (Option<&str>, Option<&[u8]>) {
    let (mut response, mut correlation) = (None, None);
    for property in properties.iter() {
        match property {
            Property::ResponseTopic(topic) => response = Some(topic),
            Property::CorrelationData(data) => correlation = Some(data),
            _ => {}
        }
    }
    (response, correlation)
}

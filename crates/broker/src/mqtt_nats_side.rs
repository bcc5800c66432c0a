//! Properties of a message of MQTT 5 as NATS has them: header lines and a reply subject.

use myelin_mqtt::packet::{Properties, Property};
use myelin_mqtt::{headers, topic};

/// Properties of a message, as NATS has them.
#[derive(Default)]
pub(crate) struct NatsSide {
    pub(crate) reply: Vec<u8>,
    /// Lines for those who listen now.
    pub(crate) lines: Vec<u8>,
    /// Lines for those who get the message from where it is stored.
    stored: Vec<u8>,
    /// Seconds after which the message is nobody's.
    expiry: Option<u32>,
}

/// Copy of a message that a stream is to keep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptCopy {
    /// For sessions.
    Message { is_retained: bool },
    /// Until its publisher releases it.
    Held,
    /// For those who subscribe later.
    Retained,
}

impl NatsSide {
    /// Makes lines of the properties of a message that is not stored. Its reply subject is left to
    /// the caller.
    pub(crate) fn live(properties: Properties<'_>) -> Self {
        let mut side = Self::default();
        headers::write(properties, &mut side.lines);
        side
    }

    /// Makes lines of the properties of a message that is stored, too; `session` has published it.
    pub(crate) fn kept(properties: Properties<'_>, is_retained: bool, session: &str) -> Self {
        let mut side = Self::plain(is_retained);
        headers::write_publisher(session, &mut side.stored);
        headers::write(properties, &mut side.lines);
        headers::write_stored(properties, &mut side.stored);
        side.expiry = properties.iter().find_map(|property| match property {
            Property::MessageExpiry(seconds) => Some(seconds),
            _ => None,
        });
        side
    }

    /// A message without properties, of whoever it may be.
    pub(crate) fn plain(is_retained: bool) -> Self {
        let mut side = Self::default();
        if is_retained {
            headers::write_retain(&mut side.lines);
        }
        side
    }

    /// Makes headers and a reply subject of the properties of a will. Nobody waits for answers to
    /// it, so its reply subject is the response topic, whatever data it comes with.
    pub(crate) fn of_will(properties: Properties<'_>, is_retained: bool, session: &str) -> Self {
        let mut side = Self::kept(properties, is_retained, session);
        if let (Some(topic), _) = request_in(properties) {
            // One that has no subject cannot be answered to.
            let _ = topic::name_to_subject(topic, &mut side.reply);
        }
        side
    }

    /// Lines of a copy that is stored at `now`, in milliseconds since 1970.
    pub(crate) fn stored_lines(&self, copy: KeptCopy, now: u64) -> Vec<u8> {
        let mut lines = self.stored.clone();
        if copy == (KeptCopy::Message { is_retained: true }) {
            headers::write_retain(&mut lines);
        }
        if let Some(seconds) = self.expiry {
            headers::write_expiry(seconds, now, &mut lines);
            if copy != KeptCopy::Held {
                headers::write_lifetime(seconds, &mut lines);
            }
        }
        lines
    }
}

/// The response topic and the correlation data.
pub(crate) fn request_in(properties: Properties<'_>) -> (Option<&str>, Option<&[u8]>) {
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

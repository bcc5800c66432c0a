//! Copies of a message that streams keep: for sessions that subscribe with QoS 1 or 2, and for
//! those who subscribe later.

use crate::account::Account;
use crate::mqtt_nats_side::{KeptCopy, NatsSide};
use myelin_mqtt::packet::Qos;
use myelin_mqtt::records::{MessageMark, RetainedMessage};
use myelin_mqtt::streams;

/// A message, and its properties as NATS has them.
#[derive(Clone, Copy)]
pub(crate) struct StoredCopy<'a> {
    /// Its subject, mappings done.
    pub(crate) subject: &'a [u8],
    pub(crate) qos: Qos,
    pub(crate) payload: &'a [u8],
    pub(crate) is_retained: bool,
    pub(crate) nats: &'a NatsSide,
}

impl StoredCopy<'_> {
    /// Subject and header block of the copy for sessions, stored at `now` in milliseconds since
    /// 1970.
    pub(crate) fn message(&self, id: Option<&str>, now: u64) -> (Vec<u8>, Vec<u8>) {
        let subject = [streams::MESSAGES.subject_prefix.as_bytes(), self.subject].concat();
        let is_retained = self.is_retained;
        let lines = self.nats.stored_lines(KeptCopy::Message { is_retained }, now);
        let mut headers = Vec::new();
        MessageMark { qos: self.qos, held: None }.write(id, &lines, &mut headers);
        (subject, headers)
    }

    /// Subject and header block of the retained message, or of what removes one: the server `node`
    /// writes it for `user`.
    pub(crate) fn retained(&self, flags: u8, (node, user): (&str, &str), now: u64) -> (Vec<u8>, Vec<u8>) {
        debug_assert!(flags & 1 != 0, "it is to be retained");
        let (origin, source, payload) = (node.into(), user.into(), self.payload.into());
        let message = RetainedMessage { flags, origin, source, payload };
        let lines = self.nats.stored_lines(KeptCopy::Retained, now);
        let mut headers = Vec::new();
        message.write_header(self.subject, &lines, &mut headers);
        ([streams::RETAINED.subject_prefix.as_bytes(), self.subject].concat(), headers)
    }
}

impl Account {
    /// The subject to which the account's mappings lead what is published to `subject`, if they do.
    /// Of several the first one: a message is stored once.
    pub(crate) fn mqtt_mapped(&self, subject: &[u8]) -> Option<Vec<u8>> {
        let mut mapped = Vec::new();
        let is_mapped = self.imports.has_mappings() && self.imports.map(subject, &mut || 0, &mut mapped);
        is_mapped.then_some(mapped)
    }
}

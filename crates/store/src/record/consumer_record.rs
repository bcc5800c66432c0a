//! A change of a consumer as a record of the stream's log, where that is the log of a group.

use std::borrow::Cow;

/// Bytes before the payload of an entry: u64 consumer, u8 kind.
const HEAD_BYTES: usize = 9;

/// Change of a consumer. Kind and payload are those of an entry of `docs/formats/consumers.md`,
/// without its serial number: in the log of a group nothing is missing unseen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRecord<'a> {
    /// The consumer.
    pub consumer: u64,
    /// Kind of the entry, which need not be one that is known.
    pub kind: u8,
    /// Payload of the entry, for the room of consumers to understand.
    pub payload: Cow<'a, [u8]>,
}

impl ConsumerRecord<'_> {
    /// Record with bytes of its own.
    #[must_use]
    pub fn into_owned(self) -> ConsumerRecord<'static> {
        let payload = Cow::Owned(self.payload.into_owned());
        ConsumerRecord { consumer: self.consumer, kind: self.kind, payload }
    }

    /// Bytes of its control's payload.
    pub(super) fn body_bytes(&self) -> usize {
        HEAD_BYTES + self.payload.len()
    }

    pub(super) fn put_body(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.consumer.to_le_bytes());
        out.push(self.kind);
        out.extend_from_slice(&self.payload);
    }

    /// Reads what [`ConsumerRecord::put_body`] wrote.
    pub(super) fn from_body(body: &[u8]) -> Option<ConsumerRecord<'static>> {
        let (consumer, rest) = body.split_first_chunk()?;
        let (kind, payload) = rest.split_first()?;
        let consumer = u64::from_le_bytes(*consumer);
        Some(ConsumerRecord { consumer, kind: *kind, payload: Cow::Owned(payload.to_vec()) })
    }
}

//! A small note of a stream as a record of its log, where that is the log of a group.

use std::borrow::Cow;

/// Something that a stream's owner keeps under a key: of several the last one counts. An empty
/// value is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteRecord<'a> {
    /// The key, at most 65,535 bytes.
    pub key: Cow<'a, [u8]>,
    /// The value, for others to understand.
    pub value: Cow<'a, [u8]>,
}

impl NoteRecord<'_> {
    /// Bytes of its control's payload.
    pub(super) fn body_bytes(&self) -> usize {
        2 + self.key.len() + self.value.len()
    }

    pub(super) fn put_body(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.key.len()).expect("the caller refuses longer keys");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&self.key);
        out.extend_from_slice(&self.value);
    }

    /// Reads what [`NoteRecord::put_body`] wrote.
    pub(super) fn from_body(body: &[u8]) -> Option<NoteRecord<'static>> {
        let (length, rest) = body.split_first_chunk()?;
        let (key, value) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        Some(NoteRecord { key: Cow::Owned(key.to_vec()), value: Cow::Owned(value.to_vec()) })
    }
}

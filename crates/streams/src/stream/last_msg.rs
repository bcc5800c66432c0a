//! Last message of a stream, as far as the next one is compared with it.

use myelin_store::Timestamp;

/// Id and time of the last message.
#[derive(Default)]
pub(super) struct LastMsg {
    /// Its message id; empty for none.
    pub(super) id: Vec<u8>,
    /// When it was accepted.
    pub(super) time: Timestamp,
}

impl LastMsg {
    /// Notes the id of another last message.
    pub(super) fn set_id(&mut self, id: &[u8]) {
        self.id.clear();
        self.id.extend_from_slice(id);
    }
}

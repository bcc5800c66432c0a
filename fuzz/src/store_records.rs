//! Records of a log entry in canonical form, as another replica may have sent them.
//!
//! Promised: reading ends without a panic and takes no more memory than the bytes explain; what is
//! read and written again is the same bytes, so that no two forms say the same and a chain of
//! hashes is a chain of what was decided.

use myelin_store::record::{Entry, canonical};

/// Any bytes as records.
pub fn store_records(data: &[u8]) {
    let Some(records) = canonical::read(data) else { return };
    let mut again = Vec::with_capacity(data.len());
    for (record, timestamp) in &records {
        match record {
            Entry::Message(message) => {
                assert_eq!(message.timestamp, *timestamp, "a message has one time");
                canonical::write_message(message, &mut again);
            }
            Entry::Control(control) => canonical::write_control(control, *timestamp, &mut again),
            Entry::Erased { .. } => panic!("an erased message has no canonical form"),
        }
    }
    assert_eq!(again, data, "a record has one form");
}

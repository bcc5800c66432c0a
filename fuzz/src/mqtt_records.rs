//! Records of MQTT sessions and messages, from a store that somebody else has written. The input is
//! a header block up to its empty line, and a body.
//!
//! Promised: a record that is written again is read as itself, and no header of ours holds a line
//! that another header was made of.

use myelin_mqtt::records::{
    MessageMark, RetainedMessage, SessionRecord, pubrel_ack, pubrel_header, pubrel_id, session_hash,
};

/// Any bytes as a stored message.
pub fn mqtt_records(data: &[u8]) {
    let end = data.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
    let (header, body) = data.split_at(end);
    session(body);
    retained(header, body);
    if let Some(mark) = MessageMark::of(header) {
        let mut again = Vec::new();
        mark.write(Some("q2-1"), b"", &mut again);
        assert_eq!(MessageMark::of(&again), Some(mark));
        check_block(&again);
    }
    if let Some(id) = pubrel_id(header) {
        let (ack, mut again) = (pubrel_ack(header).unwrap_or_default(), Vec::new());
        pubrel_header(id, ack, &mut again);
        assert_eq!((pubrel_id(&again), pubrel_ack(&again).unwrap_or_default()), (Some(id), ack));
        check_block(&again);
    }
}

fn session(json: &[u8]) {
    let Ok(record) = SessionRecord::decode(json) else { return };
    let again = SessionRecord::decode(&record.encode()).expect("what was read can be written");
    assert_eq!(again, record);
    let hash = session_hash(&record.id);
    assert!(hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_alphanumeric()));
}

fn retained(header: &[u8], body: &[u8]) {
    let Ok(message) = RetainedMessage::decode(header, body) else { return };
    let mut again = Vec::new();
    message.write_header(b"a.b", b"", &mut again);
    check_block(&again);
    let other = RetainedMessage::decode(&again, &message.payload).expect("what was read can be written");
    assert_eq!(
        (other.flags, other.qos(), other.removes()),
        (message.flags, message.qos(), message.removes())
    );
    assert_eq!(other.payload, message.payload);
}

/// Checks that a block has one empty line, at its end.
fn check_block(block: &[u8]) {
    let empty = block.windows(4).position(|four| four == b"\r\n\r\n");
    assert_eq!(empty, Some(block.len() - 4));
}

//! Messages that MQTT clients publish, as NATS clients get them: with a header that says the QoS.

use myelin_mqtt::packet::Qos;
use myelin_wire::encode;
use std::ops::Range;

/// Header of what MQTT clients publish, with QoS 0.
const HEADER: &[u8] = b"NATS/1.0\r\nNmqtt-Pub:0\r\n\r\n";

/// Place of the QoS in it.
const QOS: usize = b"NATS/1.0\r\nNmqtt-Pub:".len();

/// Bytes of the header.
pub(crate) const HEADER_LEN: usize = HEADER.len();

/// Bytes of the message that a PUBLISH becomes.
pub(crate) fn message_len(payload: &[u8]) -> usize {
    HEADER_LEN + payload.len()
}

/// Writes everything of the message's frame behind the sid; answers where header and payload stand.
pub(crate) fn write_tail(tail: &mut Vec<u8>, qos: Qos, payload: &[u8]) -> Range<usize> {
    tail.clear();
    encode::number(tail, HEADER_LEN);
    tail.push(b' ');
    encode::number(tail, message_len(payload));
    tail.extend_from_slice(b"\r\n");
    let begin = tail.len();
    tail.extend_from_slice(HEADER);
    tail[begin + QOS] = b'0' + qos as u8;
    tail.extend_from_slice(payload);
    let end = tail.len();
    tail.extend_from_slice(b"\r\n");
    begin..end
}

/// Whether a message begins with the mark of one that was published with QoS 1 or 2.
pub(crate) fn is_marked_stored(body: &[u8]) -> bool {
    body.starts_with(&HEADER[..QOS]) && matches!(body.get(QOS), Some(b'1' | b'2'))
}

/// Writes the frame of a message that has a reply subject, or `lines` behind the first header.
pub(crate) fn write_tail_with(
    tail: &mut Vec<u8>,
    qos: Qos,
    (reply, lines): (&[u8], &[u8]),
    payload: &[u8],
) -> Range<usize> {
    tail.clear();
    if !reply.is_empty() {
        tail.extend_from_slice(reply);
        tail.push(b' ');
    }
    encode::number(tail, HEADER_LEN + lines.len());
    tail.push(b' ');
    encode::number(tail, message_len(payload) + lines.len());
    tail.extend_from_slice(b"\r\n");
    let begin = tail.len();
    // The empty line stands behind the other lines.
    tail.extend_from_slice(&HEADER[..HEADER_LEN - b"\r\n".len()]);
    tail[begin + QOS] = b'0' + qos as u8;
    for part in [lines, b"\r\n", payload] {
        tail.extend_from_slice(part);
    }
    let end = tail.len();
    tail.extend_from_slice(b"\r\n");
    begin..end
}

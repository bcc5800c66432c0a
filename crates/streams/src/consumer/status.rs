//! Messages without a body that tell a client how its request or subscription stands: a status line
//! and headers.

use super::effects::Effects;
use myelin_wire::message_buf::MessageRef;
use std::fmt;

/// Status for a client. Shown as the whole header block.
pub(super) enum StatusMessage<'a> {
    /// A code and a text.
    Plain(u16, &'a str),
    /// Nobody is there who would take what the client has sent.
    Nobody,
    /// A code, a text, and what the request had left: messages and bytes.
    Left(u16, &'a str, i64, i64),
    /// A sign of life: the last delivery and message, and the flow control that is waited for.
    Heartbeat { delivery: u64, seq: u64, stalled: Option<&'a [u8]> },
}

impl fmt::Display for StatusMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("NATS/1.0 503\r\n\r\n"),
            Self::Plain(code, text) => write!(f, "NATS/1.0 {code} {text}\r\n\r\n"),
            Self::Left(code, text, messages, bytes) => write!(
                f,
                "NATS/1.0 {code} {text}\r\nNats-Pending-Messages: {messages}\r\nNats-Pending-Bytes: {bytes}\r\n\r\n"
            ),
            Self::Heartbeat { delivery, seq, stalled } => {
                write!(f, "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {delivery}\r\n")?;
                write!(f, "Nats-Last-Stream: {seq}\r\n")?;
                if let Some(subject) = stalled {
                    write!(f, "Nats-Consumer-Stalled: {}\r\n", String::from_utf8_lossy(subject))?;
                }
                f.write_str("\r\n")
            }
        }
    }
}

impl Effects {
    /// Sends a status.
    pub(super) fn push_status(&mut self, to: &[u8], status: &StatusMessage<'_>) {
        let headers = status.to_string();
        self.out.push(MessageRef { subject: to, headers: headers.as_bytes(), ..MessageRef::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_header_blocks() {
        assert_eq!(StatusMessage::Plain(404, "No Messages").to_string(), "NATS/1.0 404 No Messages\r\n\r\n");
        let left = StatusMessage::Left(408, "Request Timeout", 3, 0).to_string();
        let expected =
            "NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 3\r\nNats-Pending-Bytes: 0\r\n\r\n";
        assert_eq!(left, expected);
        let beat =
            StatusMessage::Heartbeat { delivery: 1, seq: 2, stalled: Some(b"$JS.FC.S.C.x") }.to_string();
        assert_eq!(
            beat,
            "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 2\r\n\
             Nats-Consumer-Stalled: $JS.FC.S.C.x\r\n\r\n"
        );
    }
}

//! The protocol log (`-V`): lines and payloads of messages, on their way in and on their way out.
//!
//! Never on the hot path: callers know already that the protocol log is on.

use crate::broker::Broker;
use crate::conn::Conn;
use crate::log::Level;
use crate::settings::ProtocolLogSettings;
use crate::subscription::Subscription;
use myelin_wire::error::Quoted;
use std::fmt::Display;

/// The direction of a line in the protocol log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client.
    In,
    /// To the client.
    Out,
}

impl Direction {
    fn arrow(self) -> &'static str {
        match self {
            Self::In => "<<-",
            Self::Out => "->>",
        }
    }
}

impl Broker {
    /// One protocol line.
    #[cold]
    pub(crate) fn log_protocol_line(&self, conn: &Conn, way: Direction, line: impl Display) {
        self.log_for(Level::Trace, conn, format_args!("{} [{line}]", way.arrow()));
    }

    /// The end of a subscription.
    #[cold]
    pub(crate) fn log_delsub(&self, sub: &Subscription) {
        let sid = String::from_utf8_lossy(sub.sid());
        self.log_for(Level::Trace, sub.conn(), format_args!("<-> [DELSUB {sid}]"));
    }

    /// A message's body, of which the first `header_len` bytes are headers.
    #[cold]
    pub(crate) fn log_payload(&self, conn: &Conn, way: Direction, body: &[u8], header_len: usize) {
        let settings = self.settings();
        if let Some(shown) = shown(body, header_len, &settings.protocol_log) {
            self.log_for(Level::Trace, conn, format_args!("{} MSG_PAYLOAD: [{shown}]", way.arrow()));
        }
    }

    /// A message that was staged for a receiver: the head of its frame, the rest of its first line,
    /// its body.
    #[cold]
    pub(crate) fn log_delivery(&self, conn: &Conn, frame: (&[u8], &[u8]), body: &[u8], header_len: usize) {
        let (head, tail) = frame;
        let end = tail.iter().position(|b| *b == b'\r').unwrap_or(tail.len());
        let line = [head, &tail[..end]].concat();
        self.log_protocol_line(conn, Direction::Out, String::from_utf8_lossy(&line));
        self.log_payload(conn, Direction::Out, body, header_len);
    }
}

/// All of a body, or its headers without their last two line ends, quoted and cut; nothing where
/// there is nothing.
///
/// Safer than the reference: of a message whose headers were taken off for this receiver, it shows
/// as much payload as they were long.
fn shown(body: &[u8], header_len: usize, protocol_log: &ProtocolLogSettings) -> Option<String> {
    let len = if protocol_log.headers_only { header_len.saturating_sub(4) } else { body.len() };
    let body = &body[..len.min(body.len())];
    if body.is_empty() {
        return None;
    }
    match protocol_log.max_payload {
        Some(max) if body.len() > max => {
            let mut quoted = Quoted(&body[..max]).to_string();
            quoted.insert_str(quoted.len() - 1, "...");
            Some(quoted)
        }
        _ => Some(Quoted(body).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_quoted_cut_or_left_out() {
        let all = ProtocolLogSettings::default();
        let five = ProtocolLogSettings { max_payload: Some(5), headers_only: false };
        let headers = ProtocolLogSettings { max_payload: None, headers_only: true };
        for (body, header_len, protocol_log, expected) in [
            (&b"he\x01\xff\""[..], 0, &all, Some(r#""he\x01\xff\"""#)),
            (b"", 0, &all, None),
            (b"aaaaa", 0, &five, Some(r#""aaaaa""#)),
            (b"\"aaaaa", 0, &five, Some(r#""\"aaaa...""#)),
            (b"NATS/1.0\r\n\r\nhi", 12, &headers, Some(r#""NATS/1.0""#)),
            (b"NATS/1.0\r\n\r\nhi", 12, &all, Some(r#""NATS/1.0\r\n\r\nhi""#)),
            (b"hi", 0, &headers, None),
        ] {
            assert_eq!(shown(body, header_len, protocol_log).as_deref(), expected);
        }
    }
}

//! What of a message the trace shows (`-V`), on its way in and on its way out.
//!
//! Never on the hot path: callers know already that tracing is on.

use crate::broker::Broker;
use crate::conn::Conn;
use crate::log::Level;
use crate::settings::Tracing;
use crate::subscription::Subscription;
use myelin_wire::error::Quoted;
use std::fmt::Display;

/// The way of a traced line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the client.
    In,
    /// To the client.
    Out,
}

impl Way {
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
    pub(crate) fn trace_line(&self, conn: &Conn, way: Way, line: impl Display) {
        self.log_for(Level::Trace, conn, format_args!("{} [{line}]", way.arrow()));
    }

    /// The end of a subscription.
    #[cold]
    pub(crate) fn trace_end(&self, sub: &Subscription) {
        let sid = String::from_utf8_lossy(sub.sid());
        self.log_for(Level::Trace, sub.conn(), format_args!("<-> [DELSUB {sid}]"));
    }

    /// A message's body, of which the first `header_len` bytes are headers.
    #[cold]
    pub(crate) fn trace_payload(&self, conn: &Conn, way: Way, body: &[u8], header_len: usize) {
        let settings = self.settings();
        if let Some(shown) = shown(body, header_len, &settings.tracing) {
            self.log_for(Level::Trace, conn, format_args!("{} MSG_PAYLOAD: [{shown}]", way.arrow()));
        }
    }

    /// A message that was staged for a receiver: the head of its frame, the rest of its first line, its body.
    #[cold]
    pub(crate) fn trace_delivery(&self, conn: &Conn, frame: (&[u8], &[u8]), body: &[u8], header_len: usize) {
        let (head, tail) = frame;
        let end = tail.iter().position(|b| *b == b'\r').unwrap_or(tail.len());
        let line = [head, &tail[..end]].concat();
        self.trace_line(conn, Way::Out, String::from_utf8_lossy(&line));
        self.trace_payload(conn, Way::Out, body, header_len);
    }
}

/// All of a body, or its headers without their last two line ends, quoted and cut; nothing where there is
/// nothing.
///
/// Safer than the reference: of a message whose headers were taken off for this receiver, it shows as much
/// payload as they were long.
fn shown(body: &[u8], header_len: usize, tracing: &Tracing) -> Option<String> {
    let len = if tracing.headers_only { header_len.saturating_sub(4) } else { body.len() };
    let body = &body[..len.min(body.len())];
    if body.is_empty() {
        return None;
    }
    match tracing.max_payload {
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
        let all = Tracing::default();
        let five = Tracing { max_payload: Some(5), headers_only: false };
        let headers = Tracing { max_payload: None, headers_only: true };
        for (body, header_len, tracing, expected) in [
            (&b"he\x01\xff\""[..], 0, &all, Some(r#""he\x01\xff\"""#)),
            (b"", 0, &all, None),
            (b"aaaaa", 0, &five, Some(r#""aaaaa""#)),
            (b"\"aaaaa", 0, &five, Some(r#""\"aaaa...""#)),
            (b"NATS/1.0\r\n\r\nhi", 12, &headers, Some(r#""NATS/1.0""#)),
            (b"NATS/1.0\r\n\r\nhi", 12, &all, Some(r#""NATS/1.0\r\n\r\nhi""#)),
            (b"hi", 0, &headers, None),
        ] {
            assert_eq!(shown(body, header_len, tracing).as_deref(), expected);
        }
    }
}

//! Markers for subjects whose last message has ended: messages without payload that say so.

use std::cell::RefCell;

use myelin_store::{Marker, Markers, Message, Seq, Timestamp};

use super::ttl::SECOND;

/// Decides about markers in one slice of expiry, and notes those that are left.
pub(super) struct DeleteMarkers {
    headers: Vec<u8>,
    expires: Timestamp,
    left: RefCell<Vec<LeftMarker>>,
}

/// A marker's subject, and the message for which it stands.
pub(super) struct LeftMarker {
    pub(super) subject: Box<[u8]>,
    pub(super) last: Seq,
}

impl DeleteMarkers {
    /// `None` if the stream leaves no markers, which takes a time to live of a second at least.
    pub(super) fn new(ttl: i64, now: Timestamp) -> Option<Self> {
        let seconds = ttl / SECOND;
        if seconds <= 0 {
            return None;
        }
        let time = go_seconds(seconds);
        let headers =
            format!("NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: {time}\r\nNats-Rollup: sub\r\n\r\n");
        let expires = now.saturating_add(seconds * SECOND);
        Some(Self { headers: headers.into_bytes(), expires, left: RefCell::default() })
    }

    pub(super) fn headers(&self) -> &[u8] {
        &self.headers
    }

    /// The markers that were asked for, in order.
    pub(super) fn take(&self) -> Vec<LeftMarker> {
        self.left.take()
    }
}

impl Markers for DeleteMarkers {
    fn marker(&self, last: &Message<'_>) -> Option<Marker> {
        if is_marker(last.headers) {
            return None;
        }
        self.left.borrow_mut().push(LeftMarker { subject: last.subject.into(), last: last.seq });
        Some(Marker { headers: self.headers.clone(), expires: Some(self.expires) })
    }
}

/// Whether a message stands for one that is gone already. Also what key-value clients leave when
/// they purge.
fn is_marker(headers: &[u8]) -> bool {
    let value = |key: &[u8]| myelin_wire::header::get(headers, key).unwrap_or_default();
    !value(b"Nats-Marker-Reason").is_empty() || value(b"KV-Operation") == b"PURGE"
}

/// Seconds as Go writes a duration: `1h0m5s`.
fn go_seconds(seconds: i64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_does() {
        let written = [1, 60, 61, 3600, 90_061].map(go_seconds);
        assert_eq!(written, ["1s", "1m0s", "1m1s", "1h0m0s", "25h1m1s"]);
    }
}

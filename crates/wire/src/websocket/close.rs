//! How a WebSocket ends: the statuses of close frames and what stands behind them.

use super::frame::MAX_CONTROL;
use crate::error::CloseReason;

/// The peer has closed without saying why: never sent.
const NOTHING_SAID: u16 = 1005;
pub(super) const PROTOCOL_ERROR: u16 = 1002;
pub(super) const INVALID_DATA: u16 = 1007;
pub(super) const TOO_BIG: u16 = 1009;

/// The payload of a close frame. A text that is too long is cut, and says so.
pub fn payload(status: u16, text: &str) -> Vec<u8> {
    const LONGEST: usize = MAX_CONTROL - 2;
    let mut payload = status.to_be_bytes().to_vec();
    if text.len() > LONGEST {
        let end = (0..=LONGEST - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        payload.extend_from_slice(&text.as_bytes()[..end]);
        payload.extend_from_slice(b"...");
    } else {
        payload.extend_from_slice(text.as_bytes());
    }
    payload
}

/// The payload of the close frame for a connection that the server ends.
pub fn farewell(reason: CloseReason) -> Vec<u8> {
    payload(status(reason), reason.text())
}

/// Compat: which status stands for which reason is the reference's choice.
fn status(reason: CloseReason) -> u16 {
    use CloseReason as R;
    match reason {
        R::ClientClosed => 1000,
        R::WriteError | R::ReadError | R::StaleConnection | R::ServerShutdown => 1001,
        R::ParseError | R::ProtocolViolation | R::BadClientProtocolVersion => PROTOCOL_ERROR,
        R::AuthenticationTimeout
        | R::AuthenticationFailure
        | R::SlowConsumerPendingBytes
        | R::SlowConsumerWriteDeadline
        | R::MaximumAccountConnections
        | R::MaximumConnections
        | R::MaximumControlLine => 1008,
        R::MaximumPayload => TOO_BIG,
        R::TlsHandshake => 1015,
        _ => 1011,
    }
}

/// Whether a peer may send this status.
pub(super) fn is_valid(status: u16) -> bool {
    matches!(status, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// Answer to the payload of a peer's close frame.
///
/// # Errors
/// The status, when it is none; `None` when there is half a one.
pub(super) fn answer(payload: &[u8]) -> Result<Vec<u8>, Option<u16>> {
    let status = match payload {
        [] => NOTHING_SAID,
        [_] => return Err(None),
        [high, low, ..] => u16::from_be_bytes([*high, *low]),
    };
    if payload.is_empty() {
        return Ok(Vec::new());
    }
    if !is_valid(status) {
        return Err(Some(status));
    }
    match std::str::from_utf8(&payload[2..]) {
        Ok(_) => Ok(payload.to_vec()),
        Err(_) => Ok(self::payload(INVALID_DATA, "invalid utf8 body in close frame")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(payload(1000, "bye"), b"\x03\xe8bye");
        let text = "é".repeat(100);
        let cut = payload(1000, &text);
        assert!(cut.len() <= MAX_CONTROL && cut.ends_with(b"..."));
        assert!(std::str::from_utf8(&cut[2..]).is_ok());
        assert_eq!(payload(1000, &"x".repeat(123)).len(), 125);
    }

    #[test]
    fn a_close_frame_is_answered_in_its_own_words() {
        assert_eq!(answer(b""), Ok(Vec::new()));
        assert_eq!(answer(b"\x03\xe8bye"), Ok(b"\x03\xe8bye".to_vec()));
        assert_eq!(answer(b"x"), Err(None));
        assert_eq!(answer(b"\x03\xe8\xff"), Ok(b"\x03\xefinvalid utf8 body in close frame".to_vec()));
        for status in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000] {
            assert_eq!(answer(&u16::to_be_bytes(status)), Err(Some(status)));
        }
        for status in [1000, 1003, 1007, 1014, 3000, 4999] {
            assert!(answer(&u16::to_be_bytes(status)).is_ok(), "{status}");
        }
    }
}

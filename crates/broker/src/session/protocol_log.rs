//! Protocol lines in the log (`-V`): what a client sent, and what the server said besides messages.
//!
//! Never on the hot path: the session asks once per batch whether the protocol log is on. Secrets
//! are not shown.
//!
//! `Compat:` a line is logged as soon as it is whole, so that of a message its PUB line comes
//! before whatever is said of it, and its payload when that has come; arguments are shown as they
//! were written.

use super::{Session, redact, refusal};
use crate::log::Level;
use crate::protocol_log::Direction;
use myelin_wire::parser::{ParseError, Parsed, Pub};
use std::fmt::Display;

impl Session {
    /// The control line at the front of `rest`, once, if it is one that is logged.
    #[cold]
    pub(super) fn log_received(&mut self, rest: &[u8], parsed: &Result<Parsed<'_>, ParseError>) {
        let is_whole = match parsed {
            Err(ParseError::ControlLineTooLong) => false,
            // A publish whose payload is missing or does not end as it should.
            Ok(Parsed::Need(_)) | Err(ParseError::UnknownOperation) => is_publish(rest),
            Ok(Parsed::Op(..)) | Err(_) => true,
        };
        if is_whole && !self.line_is_logged {
            self.log_control_line(rest);
        }
        self.line_is_logged = is_whole && matches!(parsed, Ok(Parsed::Need(_)));
    }

    fn log_control_line(&self, rest: &[u8]) {
        let Some((verb, line)) = refusal::control_line(rest) else { return };
        let redacted;
        let line = match verb {
            b"INFO" | b"+OK" | b"-ERR" => return,
            b"PING" | b"PONG" => None,
            b"CONNECT" => {
                redacted = redact::secrets(line);
                Some(&redacted[..])
            }
            _ => Some(line),
        };
        let words = line.map_or_else(|| verb.to_vec(), |line| [verb, b" ", line].concat());
        self.broker.log_protocol_line(&self.conn, Direction::In, String::from_utf8_lossy(&words));
    }

    /// Logs what a received message holds.
    #[cold]
    pub(super) fn log_message(&self, message: &Pub<'_>) {
        self.broker.log_payload(&self.conn, Direction::In, message.body, message.header_len as usize);
    }

    /// One thing that the server said.
    pub(super) fn log_sent(&self, line: impl Display) {
        if self.broker.log().enabled(Level::Trace) {
            self.broker.log_protocol_line(&self.conn, Direction::Out, line);
        }
    }
}

/// Whether a whole PUB or HPUB line stands at the front.
fn is_publish(rest: &[u8]) -> bool {
    let line = refusal::control_line(rest);
    line.is_some_and(|(verb, line)| matches!(verb, b"PUB" | b"HPUB") && !line.contains(&b'\r'))
}

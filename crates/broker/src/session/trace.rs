//! Protocol lines in the log (`-V`): what a client sent, and what the server said besides messages.
//!
//! Never on the hot path: the session asks once per batch whether tracing is on. Secrets are not shown.
//!
//! `Compat:` a line is traced as soon as it is whole, so that of a message its PUB line comes before whatever
//! is said of it, and its payload when that has come; arguments are shown as they were written.

use super::{Session, redact, refusal};
use crate::log::Level;
use crate::trace::Way;
use myelin_wire::parser::{Next, ParseError, Pub};
use std::fmt::Display;

impl Session {
    /// The control line at the front of `rest`, once, if it is one that is traced.
    #[cold]
    pub(super) fn trace_in(&mut self, rest: &[u8], parsed: &Result<Next<'_>, ParseError>) {
        let is_whole = match parsed {
            Err(ParseError::ControlLineTooLong) => false,
            // A publish whose payload is missing or does not end as it should.
            Ok(Next::Need(_)) | Err(ParseError::UnknownOperation) => is_publish(rest),
            Ok(Next::Op(..)) | Err(_) => true,
        };
        if is_whole && !self.line_is_traced {
            self.trace_control_line(rest);
        }
        self.line_is_traced = is_whole && matches!(parsed, Ok(Next::Need(_)));
    }

    fn trace_control_line(&self, rest: &[u8]) {
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
        self.broker.trace_line(&self.conn, Way::In, String::from_utf8_lossy(&words));
    }

    /// What a received message holds.
    #[cold]
    pub(super) fn trace_message(&self, message: &Pub<'_>) {
        self.broker.trace_payload(&self.conn, Way::In, message.body, message.header_len as usize);
    }

    /// One thing that the server said.
    pub(super) fn trace_out(&self, line: impl Display) {
        if self.broker.log().enabled(Level::Trace) {
            self.broker.trace_line(&self.conn, Way::Out, line);
        }
    }
}

/// Whether a whole PUB or HPUB line stands at the front.
fn is_publish(rest: &[u8]) -> bool {
    let line = refusal::control_line(rest);
    line.is_some_and(|(verb, line)| matches!(verb, b"PUB" | b"HPUB") && !line.contains(&b'\r'))
}

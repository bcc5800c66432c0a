//! Protocol lines in the log (`-V`): what a client sent, and what the server said besides messages.
//!
//! Never on the hot path: the session asks once per batch whether tracing is on. Secrets are not shown.

use super::Session;
use crate::log::Level;
use crate::settings::Tracing;
use myelin_wire::error::Quoted;
use myelin_wire::parser::{Op, Pub};

impl Session {
    /// One received operation.
    #[cold]
    pub(super) fn trace_in(&self, op: &Op<'_>) {
        let line = match op {
            Op::Pub(message) => return self.trace_publish(message),
            Op::Sub { subject, queue, sid } => words("SUB", &[subject, queue.unwrap_or_default(), sid]),
            Op::Unsub { sid, max: None } => words("UNSUB", &[sid]),
            Op::Unsub { sid, max: Some(max) } => words("UNSUB", &[sid, max.to_string().as_bytes()]),
            Op::Connect(_) => "CONNECT [REDACTED]".to_owned(),
            Op::Ping => "PING".to_owned(),
            Op::Pong => "PONG".to_owned(),
            Op::Info(_) | Op::Ok | Op::PeerError(_) => return,
        };
        self.log(Level::Trace, format_args!("<<- [{line}]"));
    }

    fn trace_publish(&self, message: &Pub<'_>) {
        let verb = if message.digits.0.is_empty() { "PUB" } else { "HPUB" };
        let line = words(verb, &[message.subject, message.reply, message.digits.0, message.digits.1]);
        self.log(Level::Trace, format_args!("<<- [{line}]"));
        let tracing = &self.broker.settings().tracing;
        let Some(shown) = payload(message, tracing) else { return };
        let cut = tracing.max_payload.filter(|max| shown.len() > *max);
        let quoted = Quoted(&shown[..cut.unwrap_or(shown.len())]).to_string();
        match (cut, quoted.strip_suffix('"')) {
            (Some(_), Some(open)) => self.log(Level::Trace, format_args!("<<- MSG_PAYLOAD: [{open}...\"]")),
            _ => self.log(Level::Trace, format_args!("<<- MSG_PAYLOAD: [{quoted}]")),
        }
    }

    /// One thing that the server said.
    #[cold]
    pub(super) fn trace_out(&self, line: std::fmt::Arguments<'_>) {
        self.log(Level::Trace, format_args!("->> [{line}]"));
    }
}

/// What of a message is shown: all of it, or its headers only, or nothing where there is nothing.
fn payload<'a>(message: &Pub<'a>, tracing: &Tracing) -> Option<&'a [u8]> {
    let shown = match (tracing.headers_only, message.header_len as usize) {
        (false, _) => message.body,
        (true, len) => message.body[..len].strip_suffix(b"\r\n\r\n")?,
    };
    (!shown.is_empty()).then_some(shown)
}

fn words(verb: &str, parts: &[&[u8]]) -> String {
    let mut line = verb.to_owned();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        line.push(' ');
        line.push_str(&String::from_utf8_lossy(part));
    }
    line
}

//! Common parts of sessions of links of all kinds: bounds, PING and PONG, and words about what is
//! refused and about ends.

use super::timers::LinkTimers;
use myelin_broker::{Level, Link};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::parser::PeerError;
use std::time::Instant;

/// Longest line of a handshake: INFO lists the addresses of a whole cluster.
pub(crate) const HANDSHAKE_LINE: usize = 64 * 1024;
/// Longest line afterwards: a message may name many queue groups.
pub(crate) const LONGEST_LINE: usize = 1024 * 1024;
/// Largest message of another server, whatever this one lets its own clients send.
pub(crate) const LARGEST: u32 = 64 * 1024 * 1024;
/// Lines of interest after which the shard's other connections have their turn: a server that joins
/// is told of a million.
///
/// Perf: about half a millisecond.
pub(crate) const INTEREST_PER_TURN: u32 = 512;
/// Most that may wait for a peer during the handshake: one that asks and does not read is given up.
pub(crate) const LARGEST_BACKLOG: usize = 1024 * 1024;

/// Sends PING.
pub(crate) fn ping(link: &Link) {
    link.say(b"PING\r\n");
    link.log_out("PING");
}

/// Answers a PING, but not each of a peer that is behind.
pub(crate) fn answer_ping(link: &Link, timers: &mut LinkTimers, now: Instant) {
    if timers.answers(link.is_behind(), now) {
        link.say(b"PONG\r\n");
        link.log_out("PONG");
    }
}

/// Says that too many PINGs stayed without an answer.
pub(crate) fn give_up_stale(link: &Link) -> CloseReason {
    let line = format_args!("Stale Client Connection - Closing");
    link.broker().log_for(Level::Debug, link.conn(), line);
    link.say(b"-ERR 'Stale Connection'\r\n");
    CloseReason::StaleConnection
}

/// Refuses bytes that are no operation. `kind`: of the link, in the log.
pub(crate) fn refuse_bytes(link: &Link, kind: &str, error: PeerError, rest: &[u8]) -> CloseReason {
    let snippet = String::from_utf8_lossy(&rest[..rest.len().min(32)]);
    let (text, reason) = match error {
        PeerError::UnknownOperation => ("Unknown Protocol Operation", CloseReason::ProtocolViolation),
        PeerError::BadArguments => ("Parse Error", CloseReason::ProtocolViolation),
        PeerError::LineTooLong => ("maximum control line exceeded", CloseReason::MaximumControlLine),
        PeerError::PayloadTooLarge => ("Maximum Payload Violation", CloseReason::MaximumPayload),
    };
    // Compat: of arguments that make no sense the other side is not told.
    if error != PeerError::BadArguments {
        link.say(format!("-ERR '{text}'\r\n").as_bytes());
    }
    let line = format_args!("{kind} parser ERROR: {text}: proto='{snippet:?}...'");
    link.broker().log_for(Level::Error, link.conn(), line);
    reason
}

/// Logs the end of a link. `name`: what the other side is called, if that is known.
pub(crate) fn log_end(link: &Link, kind: &str, reason: CloseReason, name: &str) {
    let text = reason.text();
    let remote = if name.is_empty() { String::new() } else { format!(" - Remote: {}", one_line(name)) };
    let line = format_args!("{kind} connection closed: {text}{remote}");
    link.broker().log_for(Level::Info, link.conn(), line);
}

/// Text of the other side as it may stand in the log: on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

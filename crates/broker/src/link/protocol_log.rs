//! Lines of a link in the protocol log (`-V`): what the other side says, but for INFO, and what
//! this server says of itself.

use super::Link;
use crate::log::Level;
use crate::protocol_log::Direction;
use crate::session::redact;
use myelin_wire::peer::parser::{PeerOp, Routed};
use std::borrow::Cow;

impl Link {
    /// Whether the protocol log is on, for the batch that begins, too.
    pub fn is_logged(&mut self) -> bool {
        self.buffers.logs_protocol = self.broker.log().enabled(Level::Trace);
        self.buffers.logs_protocol
    }

    /// An operation of the other side, with the bytes that it came in. Compat: INFO is not in the
    /// protocol log, and secrets of CONNECT are not.
    #[cold]
    pub fn log_in(&self, operation: &PeerOp<'_>, bytes: &[u8]) {
        if matches!(operation, PeerOp::Info(_)) {
            return;
        }
        let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
        let mut line = Cow::Borrowed(&bytes[..end]);
        if matches!(operation, PeerOp::Connect(_)) {
            line = Cow::Owned(redact::secrets(&line));
        }
        let line = String::from_utf8_lossy(&line);
        self.broker.log_protocol_line(&self.conn, Direction::In, line.trim_end());
        if let PeerOp::Message(Routed { body, header_len, .. }) = operation {
            self.broker.log_payload(&self.conn, Direction::In, body, *header_len as usize);
        }
    }

    /// Something that this server says.
    pub fn log_out(&self, line: &str) {
        if self.broker.log().enabled(Level::Trace) {
            self.broker.log_protocol_line(&self.conn, Direction::Out, line);
        }
    }
}

//! Requests to JetStream say over links with other servers of ours which client has sent them, for
//! the audits of the server that answers. Where they come in it is taken off again: services are
//! told, and nobody else. Compat: the reference says it in requests of the system account, which
//! clients do not see either.

use super::asking_cluster::{ASKER, asks_jetstream};
use super::fanout::traced::Marked;
use super::fanout::{Fanout, PubMessage, Publisher};
use super::source::Source;
use crate::broker::Broker;
use crate::conn::Conn;
use crate::imports::{INFO_HEADER, RequestInfo};
use crate::link::end::LinkEnd;
use crate::link::leaf_end::LeafRole;
use myelin_wire::peer::parser::Routed;
use myelin_wire::{encode, header};
use std::sync::Arc;

/// A header block without lines.
const NO_LINES: &[u8] = b"NATS/1.0\r\n\r\n";

/// A request that has come over a link, as it was sent, and who has sent it.
pub(super) struct TakenAsker {
    body: Vec<u8>,
    header_len: u32,
    digits: [Vec<u8>; 2],
    asker: Vec<u8>,
}

impl TakenAsker {
    /// Takes off who has sent a request, if that has come over such a link.
    #[inline]
    pub(super) fn of(conn: &Conn, routed: &Routed<'_>) -> Option<Self> {
        let is_request = routed.header_len > 0 && asks_jetstream(routed.subject);
        if is_request && conn.link().is_some_and(LinkEnd::says_askers) {
            Self::take(routed.body.split_at(routed.header_len as usize))
        } else {
            None
        }
    }

    #[cold]
    fn take((block, payload): (&[u8], &[u8])) -> Option<Self> {
        let asker = header::get(block, ASKER)?.to_vec();
        // It is the last line, as the other server has put it there.
        let line = ASKER.len() + b": ".len() + asker.len() + b"\r\n".len();
        let end = block.len().checked_sub(line + b"\r\n".len())?;
        let mut body = block[..end].to_vec();
        body.extend_from_slice(b"\r\n");
        if body == NO_LINES {
            body.clear();
        }
        let header_len = body.len();
        body.extend_from_slice(payload);
        let mut digits = [Vec::new(), Vec::new()];
        if header_len > 0 {
            encode::number(&mut digits[0], header_len);
        }
        encode::number(&mut digits[1], body.len());
        Some(Self { body, header_len: u32::try_from(header_len).unwrap_or(u32::MAX), digits, asker })
    }

    /// The request as it was sent.
    pub(super) fn message<'m>(&'m self, routed: &Routed<'m>) -> Routed<'m> {
        let [of_header, of_all] = &self.digits;
        let (header_len, body, digits) = (self.header_len, &self.body[..], (&of_header[..], &of_all[..]));
        Routed { header_len, body, digits, tail: &[], ..*routed }
    }

    /// Name and the like of the client that has sent it.
    pub(super) fn asker(&self) -> &[u8] {
        &self.asker
    }
}

impl Publisher<'_> {
    /// Information about who has sent a request, as far as this server knows.
    fn asker_info(&self, broker: &Broker, message: &PubMessage<'_>) -> RequestInfo {
        let account = self.account.name();
        match (self.source, self.conn.leaf()) {
            (
                Source::Leaf { role: LeafRole::Hub, .. } | Source::Request { role: LeafRole::Hub, .. },
                Some(_),
            ) => RequestInfo::of_leaf_node(broker, account, self.conn),
            (Source::Here, None) if self.conn.link().is_none() && self.conn.cid() > 0 => {
                let own = self.conn.with_details(|details| details.account.clone());
                if own == account {
                    return RequestInfo::of(broker, &own, self.conn, true);
                }
                let shown = header::get(&message.body[..message.header_len], INFO_HEADER);
                let shown = serde_json::from_slice::<serde_json::Value>(shown.unwrap_or_default());
                let is_shared = shown.is_ok_and(|shown| shown.get("id").is_some());
                RequestInfo::of(broker, &own, self.conn, is_shared).through(account).with_server(broker)
            }
            _ => RequestInfo::default(),
        }
    }
}

impl Fanout<'_> {
    /// The request with who has sent it, for a server that takes that off again. `None`: the
    /// message goes as it is.
    #[inline]
    pub(super) fn with_asker(&self, conn: &Arc<Conn>, address: &[u8]) -> Option<Marked> {
        if !asks_jetstream(address) || !conn.headers() || !conn.link().is_some_and(LinkEnd::says_askers) {
            return None;
        }
        let info = || self.from.asker_info(self.broker, self.message).json();
        let asker = self.from.asker.map_or_else(info, <[u8]>::to_vec);
        Some(Marked::new(self.message, &asker, |out, headers, asker| {
            header::replace(out, headers, ASKER, asker);
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(block: &[u8]) -> Option<(Vec<u8>, u32, Vec<u8>)> {
        TakenAsker::take((block, b"x")).map(|taken| (taken.body, taken.header_len, taken.asker))
    }

    #[test]
    fn a_request_is_again_as_it_was_sent() {
        for sent in [&b""[..], b"NATS/1.0\r\nA: b\r\n\r\n"] {
            let mut block = Vec::new();
            header::replace(&mut block, sent, ASKER, b"{\"id\":7}");
            let expected = ([sent, b"x"].concat(), sent.len() as u32, b"{\"id\":7}".to_vec());
            assert_eq!(taken(&block), Some(expected));
        }
        assert_eq!(taken(b"NATS/1.0\r\nA: b\r\n\r\n"), None);
    }
}

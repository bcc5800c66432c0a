//! Requests to JetStream that come from another cluster: where they come in they are told from
//! which one, for the server of this cluster that is to answer.

use myelin_wire::message_buf::MessageRef;
use myelin_wire::peer::parser::Routed;
use myelin_wire::{encode, header};

/// Header that names the cluster from which a request to JetStream has come.
pub const ASKING_CLUSTER: &[u8] = b"Myelin-Cluster";

/// Header that names the client which has sent a request, in the words of `Nats-Request-Info`.
pub const ASKER: &[u8] = b"Myelin-Client";

/// A message as services get it: with the client that has sent it, if another server has said so.
pub(super) struct ServedMessage<'m> {
    msg: MessageRef<'m>,
    headers: Option<Vec<u8>>,
}

impl<'m> ServedMessage<'m> {
    #[inline(always)]
    pub(super) fn of(msg: MessageRef<'m>, asker: Option<&[u8]>) -> Self {
        Self { msg, headers: asker.map(|asker| headers_with(msg.headers, asker)) }
    }

    #[inline(always)]
    pub(super) fn msg(&self) -> MessageRef<'_> {
        MessageRef { headers: self.headers.as_deref().unwrap_or(self.msg.headers), ..self.msg }
    }
}

#[cold]
#[inline(never)]
fn headers_with(headers: &[u8], asker: &[u8]) -> Vec<u8> {
    let mut with = Vec::with_capacity(headers.len() + asker.len() + 32);
    header::replace(&mut with, headers, ASKER, asker);
    with
}

/// Whether a message is a request to JetStream, of whichever domain.
pub(super) fn asks_jetstream(subject: &[u8]) -> bool {
    let Some(rest) = subject.strip_prefix(b"$JS.") else { return false };
    let is_of_domain = || {
        let end = rest.iter().position(|&byte| byte == b'.').unwrap_or(rest.len());
        rest[end..].starts_with(b".API.")
    };
    rest.starts_with(b"API.") || is_of_domain()
}

/// Parts of a request that has the header.
pub(super) struct AskingRequest {
    body: Vec<u8>,
    header_len: u32,
    digits: [Vec<u8>; 2],
}

impl AskingRequest {
    /// A request that has come from this cluster.
    pub(super) fn of(routed: &Routed<'_>, cluster: &str) -> Self {
        let (block, payload) = routed.body.split_at(routed.header_len as usize);
        let mut body = Vec::with_capacity(routed.body.len() + ASKING_CLUSTER.len() + cluster.len() + 16);
        header::replace(&mut body, block, ASKING_CLUSTER, cluster.as_bytes());
        let header_len = body.len();
        body.extend_from_slice(payload);
        let mut digits = [Vec::new(), Vec::new()];
        encode::number(&mut digits[0], header_len);
        encode::number(&mut digits[1], body.len());
        Self { body, header_len: u32::try_from(header_len).unwrap_or(u32::MAX), digits }
    }

    pub(super) fn message<'m>(&'m self, routed: &Routed<'m>) -> Routed<'m> {
        let [of_header, of_all] = &self.digits;
        let (header_len, body, digits) = (self.header_len, &self.body[..], (&of_header[..], &of_all[..]));
        Routed { header_len, body, digits, tail: &[], ..*routed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_known_by_their_subjects() {
        for subject in ["$JS.API.INFO", "$JS.hub.API.STREAM.CREATE.S"] {
            assert!(asks_jetstream(subject.as_bytes()), "{subject}");
        }
        for subject in ["$JS.ACK.S.API.1.2", "$JS.APIS.INFO", "$JS.a.b.API.INFO", "JS.API.INFO", "$JS."] {
            assert!(!asks_jetstream(subject.as_bytes()), "{subject}");
        }
    }
}

//! Work of the clients of each benchmark.
//!
//! Owns what they have in common: which part of all messages a client has, and the tokens by which
//! answers are told apart. A file for each: `publish`, `subscribe`, `request`, `serve`; `store`,
//! `fast`, `get` and `consume` for streams and buckets; `null` runs some of them against a server
//! that does nothing.

pub mod consume;
pub mod fast;
pub mod get;
pub mod null;
pub mod publish;
pub mod request;
pub mod serve;
pub mod store;
pub mod subscribe;

use crate::client_pool::pace::Pace;
use crate::token;

/// Frames are written in pieces of about this many bytes.
pub const BURST: usize = 256 * 1024;

/// One client's part of a benchmark.
#[derive(Clone, Debug)]
pub struct Part {
    /// Messages of this client.
    pub messages: u64,
    /// Messages of the clients before it.
    pub offset: u64,
    /// How fast it may go.
    pub pace: Pace,
    /// Bytes that count for a message, which is what was asked for.
    pub size: u64,
}

/// Splits messages as evenly as they go: counts and offsets.
pub fn split(messages: u64, clients: usize) -> Vec<(u64, u64)> {
    let clients = clients as u64;
    let mut offset = 0;
    let count = |client| messages / clients + u64::from(client < messages % clients);
    (0..clients)
        .map(|client| {
            let begin = offset;
            offset += count(client);
            (count(client), begin)
        })
        .collect()
}

/// Reply subjects of one client: an inbox, a dot and a token.
#[derive(Clone, Debug)]
pub struct Replies {
    subject: Vec<u8>,
}

impl Replies {
    /// Reply subjects below this inbox.
    pub fn new(inbox: &str) -> Self {
        Self { subject: format!("{inbox}.{}", token::BLANK).into_bytes() }
    }

    /// The line that subscribes to all of them.
    pub fn subscription(inbox: &str) -> Vec<u8> {
        format!("SUB {inbox}.> 1\r\n").into_bytes()
    }

    /// The reply subject of this number.
    pub fn at(&mut self, number: u64) -> &[u8] {
        let place = self.subject.len() - token::TOKEN;
        token::write(&mut self.subject[place..], number);
        &self.subject
    }

    /// Token in the subject of an answer, behind the inbox; empty if the subject is too short.
    pub fn tail<'a>(&self, subject: &'a [u8]) -> &'a [u8] {
        subject.get(self.subject.len() - token::TOKEN..).unwrap_or_default()
    }

    /// The number of the reply subject that an answer came to.
    pub fn number(&self, subject: &[u8]) -> Option<u64> {
        token::read(self.tail(subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_share_all_messages() {
        assert_eq!(split(10, 3), [(4, 0), (3, 4), (3, 7)]);
        assert_eq!(split(2, 1), [(2, 0)]);
    }

    #[test]
    fn answers_find_their_number() {
        let mut replies = Replies::new("_INBOX.x");
        assert_eq!(replies.at(33), b"_INBOX.x.000011");
        assert_eq!(replies.number(b"_INBOX.x.000011"), Some(33));
        assert_eq!(replies.number(b"short"), None);
    }
}

//! The request of a server that has dialled a hub, and what it makes of the answer.

use super::accept;
use crate::http_status::{HttpStatus, NoHttp};
use httparse::{EMPTY_HEADER, Header, Status};
use myelin_stdx::base64;
use std::fmt;

/// Headers in one answer.
const MOST_HEADERS: usize = 100;

/// Name of compression without context, as a request offers it and an answer takes it.
const COMPRESSION: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// A request for a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solicitation {
    /// Host and port of the hub.
    pub host: String,
    /// Path in the hub's URL, without that of leaf nodes.
    pub path: String,
    /// Sixteen random bytes that the answer has to show.
    pub key: [u8; 16],
    /// Whether compressed messages are offered.
    pub compresses: bool,
    /// Whether masks are to be left out.
    pub no_masking: bool,
}

/// Terms on which a hub has become a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Messages are compressed.
    pub compresses: bool,
    /// Frames of this side have masks.
    pub is_masked: bool,
}

/// Why a hub has become no WebSocket. Compat: the texts are the reference's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotGranted {
    /// The first line is no answer.
    NoHttp(NoHttp),
    /// An answer, but not the one that is wanted.
    Invalid,
}

impl fmt::Display for NotGranted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHttp(line) => line.fmt(f),
            Self::Invalid => f.write_str("invalid websocket connection"),
        }
    }
}

impl Solicitation {
    /// The request, complete.
    pub fn text(&self) -> String {
        let path = self.path.trim_end_matches('/');
        let key = base64::encode(&self.key);
        let no_masking = if self.no_masking { "Nats-No-Masking: true\r\n" } else { "" };
        let extensions = if self.compresses {
            format!("Sec-Websocket-Extensions: {COMPRESSION}\r\n")
        } else {
            String::new()
        };
        format!(
            "GET {path}/leafnode HTTP/1.1\r\nHost: {}\r\nUser-Agent: Go-http-client/1.1\r\n\
             Connection: Upgrade\r\n{no_masking}Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\
             {extensions}Upgrade: websocket\r\n\r\n",
            self.host
        )
    }

    /// Looks at the head of the answer, which must be whole.
    ///
    /// # Errors
    /// When the other side has become no WebSocket, or one on other terms.
    pub fn judge(&self, head: &[u8]) -> Result<Granted, NotGranted> {
        HttpStatus::of(head).map_err(NotGranted::NoHttp)?;
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Response::new(&mut headers);
        if !matches!(parsed.parse(head), Ok(Status::Complete(_))) || parsed.code != Some(101) {
            return Err(NotGranted::Invalid);
        }
        let answer = Answer(parsed.headers);
        let key = base64::encode(&self.key);
        let is_web_socket = answer.has_token("Upgrade", "websocket")
            && answer.has_token("Connection", "Upgrade")
            && answer.values("Sec-WebSocket-Accept").any(|shown| shown == accept(&key));
        let compresses = answer.takes_compression();
        if !is_web_socket || compresses.is_some_and(|is_on| !is_on || !self.compresses) {
            return Err(NotGranted::Invalid);
        }
        let drops_masks = self.no_masking && answer.values("Nats-No-Masking").any(|value| value == "true");
        Ok(Granted { compresses: compresses.is_some(), is_masked: !drops_masks })
    }
}

/// Headers of an answer.
struct Answer<'a>(&'a [Header<'a>]);

impl<'a> Answer<'a> {
    fn values(&self, name: &'static str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.filter_map(|header| std::str::from_utf8(header.value).ok()).map(str::trim)
    }

    fn has_token(&self, name: &'static str, token: &str) -> bool {
        self.values(name).flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(token))
    }

    /// Whether the hub compresses, and if so on the terms that were offered.
    fn takes_compression(&self) -> Option<bool> {
        let all: Vec<_> =
            self.values("Sec-WebSocket-Extensions").flat_map(|value| value.split([',', ';'])).collect();
        let says = |what: &str| all.iter().any(|part| part.trim().eq_ignore_ascii_case(what));
        let (server, client) = ("server_no_context_takeover", "client_no_context_takeover");
        says("permessage-deflate").then(|| says(server) && says(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::upgrade::{UpgradeRules, UpgradeTarget, negotiate};

    fn solicitation(compresses: bool, no_masking: bool) -> Solicitation {
        let key = *b"0123456789abcdef";
        Solicitation { host: "h:1".into(), path: "/a/".into(), key, compresses, no_masking }
    }

    #[test]
    fn a_hub_of_this_server_grants_what_is_asked() {
        for (offers, wants) in [(false, false), (true, false), (true, true), (false, true)] {
            let asked = solicitation(wants, wants);
            assert!(asked.text().starts_with("GET /a/leafnode HTTP/1.1\r\nHost: h:1\r\n"));
            let rules = UpgradeRules { compression: offers, ..UpgradeRules::default() };
            let upgrade = negotiate(asked.text().as_bytes(), &rules).expect("it is granted");
            assert_eq!(upgrade.target, UpgradeTarget::LeafNode);
            let granted = asked.judge(&upgrade.answer).expect("it is understood");
            assert_eq!(granted, Granted { compresses: offers && wants, is_masked: !wants });
            assert_eq!(upgrade.is_masked, granted.is_masked);
        }
    }

    #[test]
    fn other_answers_are_refused_in_the_words_of_the_reference() {
        let asked = solicitation(false, false);
        let key = accept(&base64::encode(&asked.key));
        let with = |more: &str| {
            format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{more}\r\n"
            )
        };
        let accepted = format!("Sec-WebSocket-Accept: {key}\r\n");
        assert!(asked.judge(with(&accepted).as_bytes()).is_ok());
        let invalid = "invalid websocket connection";
        let cases = [
            (
                "INFO {\"server_id\":\"x\"} \r\n".to_owned(),
                "malformed HTTP status code \"{\\\"server_id\\\":\\\"x\\\"}\"",
            ),
            ("garbage\r\n\r\n".to_owned(), "malformed HTTP response \"garbage\""),
            ("SSH/2 200 x\r\n\r\n".to_owned(), "malformed HTTP version \"SSH/2\""),
            ("HTTP/1.1 404 Not Found\r\n\r\n".to_owned(), invalid),
            (with(""), invalid),
            (with("Sec-WebSocket-Accept: AAAA\r\n"), invalid),
            (with(&format!("{accepted}Sec-WebSocket-Extensions: permessage-deflate\r\n")), invalid),
            ("HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConn".to_owned(), invalid),
        ];
        for (answer, expected) in cases {
            let refused = asked.judge(answer.as_bytes()).expect_err("it is refused");
            assert_eq!(refused.to_string(), expected, "{answer}");
        }
    }
}

//! Names of servers and groups, as consensus needs them: numbers.

use std::fmt;
use std::num::NonZeroU64;

/// A server that can hold replicas, by the eight characters that nats-server calls its peer id:
/// the beginning of the base62 SHA-256 of the server's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(NonZeroU64);

/// A group of replicas: the stream's id, or that of an internal one. Zero is no group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

impl Peer {
    /// The peer whose id is written so. `None` unless these are eight printable characters.
    #[must_use]
    pub fn parse(id: &str) -> Option<Self> {
        let bytes: [u8; 8] = id.as_bytes().try_into().ok()?;
        let is_text = bytes.iter().all(u8::is_ascii_graphic);
        is_text.then(|| Self::from_number(u64::from_be_bytes(bytes))).flatten()
    }

    /// The number of this peer in frames and in files.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.get()
    }

    /// The peer with this number; `None` for zero, which is nobody.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().to_be_bytes().iter().try_for_each(|&byte| match byte {
            byte if byte.is_ascii_graphic() => write!(f, "{}", char::from(byte)),
            byte => write!(f, "\\x{byte:02x}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_eight_characters() {
        let peer = Peer::parse("S1Nunr6R").expect("eight characters");
        assert_eq!(peer.to_string(), "S1Nunr6R");
        assert_eq!(Peer::from_number(peer.number()), Some(peer));
        for other in ["", "S1Nunr6", "S1Nunr6RR", "S1Nun 6R", "S1Nunr\u{e9}"] {
            assert_eq!(Peer::parse(other), None, "{other:?}");
        }
        assert_eq!(Peer::from_number(0), None);
        assert_eq!(Peer::from_number(3).map(|peer| peer.to_string()), Some("\\x00".repeat(7) + "\\x03"));
    }

    #[test]
    fn peers_are_ordered_as_their_ids_are() {
        assert!(Peer::parse("AAAAAAAB") < Peer::parse("BAAAAAAA"));
    }
}

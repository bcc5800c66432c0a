//! The dialect of gateways: commands in INFO, names made short, and mapped replies.
//!
//! Whoever accepts says INFO first, and whoever has dialled answers with CONNECT and its own INFO.
//! Messages go from the one that has dialled to the other, interest goes the other way: `RS+` and
//! `RS-` with accounts, and members of queue groups are not counted. The interest of an account is
//! complete between the commands [`ALL_SUBS_START`] and [`ALL_SUBS_COMPLETE`].
//!
//! A reply is *mapped* where its subscription is so young that the other cluster may not know of it
//! yet: `_GR_.<cluster>.<server>.<reply>` says by short names where it is to come back to.

use crate::peer::info::PeerInfo;
use aws_lc_rs::digest::{SHA256, digest};
use myelin_stdx::{base64, id};

/// Command of INFO: there is such a gateway, too, at these addresses.
pub const GOSSIP: u8 = 1;
/// Command of INFO: the interest of an account follows.
pub const ALL_SUBS_START: u8 = 2;
/// Command of INFO: all interest of an account was said, and changes will be.
pub const ALL_SUBS_COMPLETE: u8 = 3;

/// Beginning of mapped replies.
const PREFIX: &[u8] = b"_GR_.";
/// Characters of a short name.
const SHORT: usize = 6;
/// Where the server's short name stands, and where the reply does.
const SERVER_AT: usize = PREFIX.len() + SHORT + 1;
const REPLY_AT: usize = SERVER_AT + SHORT + 1;

/// A name made short, as mapped replies have it.
pub type ShortName = [u8; SHORT];

/// Makes the name of a gateway, or the id of a server, short.
pub fn short_name(name: &str) -> ShortName {
    let digest = digest(&SHA256, name.as_bytes());
    let text = id::short(&digest.as_ref()[..SHORT]);
    let mut short = [0; SHORT];
    short.copy_from_slice(text.as_bytes());
    short
}

/// A mapped reply, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedReply<'a> {
    /// Short name of the cluster that it is to come back to.
    pub cluster: &'a [u8],
    /// Short name of the server.
    pub server: &'a [u8],
    /// The reply itself.
    pub reply: &'a [u8],
}

impl<'a> MappedReply<'a> {
    /// Takes a subject apart; `None` for one that is no mapped reply.
    #[inline]
    pub fn of(subject: &'a [u8]) -> Option<Self> {
        if !subject.starts_with(PREFIX) || subject.len() <= REPLY_AT {
            return None;
        }
        Some(Self {
            cluster: &subject[PREFIX.len()..PREFIX.len() + SHORT],
            server: &subject[SERVER_AT..SERVER_AT + SHORT],
            reply: &subject[REPLY_AT..],
        })
    }

    /// Whether the reply is a mapped one itself, as no server makes it: rules are asked about what
    /// stands within, and something else would stand within that.
    pub fn is_nested(&self) -> bool {
        Self::of(self.reply).is_some()
    }
}

/// Text in front of the replies that are to come back to a server.
pub fn reply_prefix(cluster: ShortName, server: ShortName) -> Vec<u8> {
    [PREFIX, &cluster[..], b".", &server[..], b"."].concat()
}

/// A line with a command about an account.
pub fn command(gateway: &str, command: u8, account: &str) -> Vec<u8> {
    PeerInfo {
        gateway: gateway.to_owned(),
        gateway_cmd: command,
        gateway_cmd_payload: Some(base64::encode(account.as_bytes())),
        ..PeerInfo::default()
    }
    .line()
}

impl PeerInfo {
    /// The account that a command is about; `None` where it names none.
    pub fn command_account(&self) -> Option<String> {
        let payload = self.gateway_cmd_payload.as_ref()?;
        String::from_utf8(base64::decode(payload)?).ok().filter(|account| !account.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_short_as_by_the_reference() {
        // Seen in mapped replies of nats-server 2.15.2.
        assert_eq!((short_name("A"), short_name("B")), (*b"NUmM6c", *b"b2oh2L"));
    }

    #[test]
    fn a_mapped_reply_is_taken_apart() {
        let mapped = [&reply_prefix(*b"cccccc", *b"ssssss")[..], b"_INBOX.x"].concat();
        let found = MappedReply::of(&mapped).unwrap();
        assert_eq!(
            (found.cluster, found.server, found.reply),
            (&b"cccccc"[..], &b"ssssss"[..], &b"_INBOX.x"[..])
        );
        for none in ["_GR_.", "_GR_.cccccc.ssssss.", "_GR_.cccccc", "_INBOX.cccccc.ssssss.x", ""] {
            assert_eq!(MappedReply::of(none.as_bytes()), None, "{none}");
        }
        let nested = [&reply_prefix(*b"cccccc", *b"ssssss")[..], &mapped].concat();
        assert!(!found.is_nested() && MappedReply::of(&nested).unwrap().is_nested());
    }

    #[test]
    fn a_command_names_its_account() {
        let line = String::from_utf8(command("B", ALL_SUBS_START, "$G")).unwrap();
        let expected = r#""gateway":"B","gateway_cmd":2,"gateway_cmd_payload":"JEc="} "#;
        assert!(line.ends_with(&format!("{expected}\r\n")), "{line}");
        let json = line.trim().strip_prefix("INFO ").unwrap();
        assert_eq!(PeerInfo::parse(json.as_bytes()).unwrap().command_account().as_deref(), Some("$G"));
    }
}

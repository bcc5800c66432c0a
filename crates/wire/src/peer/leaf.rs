//! The dialect of leaf nodes: CONNECT, and how interest and messages are written.
//!
//! A leaf node dials a *hub*. The hub says INFO first; CONNECT has credentials as a client's has,
//! and is answered by another INFO with the permissions of the link. Interest is `LS+` and `LS-`, a
//! message `LMSG`, or HMSG with headers, without an account: a link has one. Over a route, interest
//! and messages of leaf nodes name the cluster that they come from, their *origin*.

use super::encode::members;
use super::info::{is_default, is_empty, line, list};
use serde::{Deserialize, Serialize};

/// Beginning of the subjects by which circles of leaf nodes are found: each account of a server has
/// one, which must not come back to it.
pub const LOOP_DETECTION: &[u8] = b"$LDS.";

/// CONNECT of a leaf node, in the reference's order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // The names are the protocol's own.
pub struct LeafConnect {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nkey: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub jwt: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sig: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pass: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub auth_token: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Set where the one that dials is the hub.
    #[serde(skip_serializing_if = "is_default")]
    pub is_hub: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    #[serde(skip_serializing_if = "is_default")]
    pub headers: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub jetstream: bool,
    /// An account to choose by its name, which no server lets anybody do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// Subjects of messages that the leaf node does not take.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "list")]
    pub deny_pub: Vec<String>,
    /// The leaf node does not want to hear of the interest of others.
    #[serde(skip_serializing_if = "is_default")]
    pub isolate: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub compress_mode: String,
    /// Only gateways name one: it tells them from leaf nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remote_account: String,
    #[serde(skip_serializing_if = "is_default")]
    pub protocol: i32,
    /// Only clients name one: it tells them from servers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lang: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub proxy_sig: String,
}

impl LeafConnect {
    /// Reads the JSON of a CONNECT.
    ///
    /// # Errors
    /// When it is no JSON object, or a field has another type.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        // A list would be taken for the fields in their order.
        if json.first().is_some_and(|first| *first != b'{') {
            return Err(serde::de::Error::custom("CONNECT is no JSON object"));
        }
        serde_json::from_slice(json)
    }

    /// The whole line.
    pub fn line(&self) -> Vec<u8> {
        line(b"CONNECT ", self, b"\r\n")
    }
}

/// Appends `LS+ <subject>[ <queue> <weight>]`.
pub fn interest(out: &mut Vec<u8>, subject: &[u8], queue: Option<(&[u8], u32)>) {
    out.extend_from_slice(b"LS+ ");
    out.extend_from_slice(subject);
    if let Some((queue, weight)) = queue {
        members(out, queue, weight);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `LS- <subject>[ <queue>]`.
pub fn no_interest(out: &mut Vec<u8>, subject: &[u8], queue: Option<&[u8]>) {
    words(out, b"LS-", [Some(subject), queue]);
    out.extend_from_slice(b"\r\n");
}

/// Appends `LS+ <origin> [<account> ]<subject>[ <queue> <weight>]`, for a route.
pub fn routed_interest(
    out: &mut Vec<u8>,
    (origin, account): (&[u8], Option<&[u8]>),
    subject: &[u8],
    queue: Option<(&[u8], u32)>,
) {
    words(out, b"LS+", [Some(origin), account, Some(subject)]);
    if let Some((queue, weight)) = queue {
        members(out, queue, weight);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `LS- <origin> [<account> ]<subject>[ <queue>]`, for a route.
pub fn no_routed_interest(
    out: &mut Vec<u8>,
    (origin, account): (&[u8], Option<&[u8]>),
    subject: &[u8],
    queue: Option<&[u8]>,
) {
    words(out, b"LS-", [Some(origin), account, Some(subject), queue]);
    out.extend_from_slice(b"\r\n");
}

/// Appends `LMSG <subject> `: what stands in front of a message's tail. With H for L it is the head
/// of a message with headers.
pub fn message_head(out: &mut Vec<u8>, subject: &[u8]) {
    words(out, b"LMSG", [Some(subject)]);
    out.push(b' ');
}

/// Appends `LMSG <origin> [<account> ]<subject> `, for a route. A length of headers has to follow,
/// be it 0.
pub fn routed_message_head(out: &mut Vec<u8>, (origin, account): (&[u8], Option<&[u8]>), subject: &[u8]) {
    words(out, b"LMSG", [Some(origin), account, Some(subject)]);
    out.push(b' ');
}

fn words<const N: usize>(out: &mut Vec<u8>, verb: &[u8], words: [Option<&[u8]>; N]) {
    out.extend_from_slice(verb);
    for word in words.into_iter().flatten() {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}

//! INFO and CONNECT as servers exchange them.
//!
//! Fields that a peer leaves out, and fields that nobody here knows, are no error: servers of
//! several versions form one cluster.

use super::groups::{self, GroupServer};
use serde::{Deserialize, Serialize};

/// Subjects that may cross a link, or may not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubjectFilter {
    /// Patterns that may; `None` allows all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Patterns that may not, although allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
}

/// INFO on a link between servers, in the reference's order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // The names are the protocol's own.
pub struct PeerInfo {
    #[serde(rename = "server_id")]
    pub id: String,
    #[serde(rename = "server_name")]
    pub name: String,
    pub version: String,
    pub proto: i32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub git_commit: String,
    pub go: String,
    pub host: String,
    pub port: i32,
    pub headers: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub auth_required: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub tls_required: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub tls_verify: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub tls_available: bool,
    pub max_payload: i64,
    #[serde(skip_serializing_if = "is_default")]
    pub jetstream: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    #[serde(skip_serializing_if = "is_default")]
    pub client_id: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nonce: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    #[serde(skip_serializing_if = "is_default")]
    pub cluster_dynamic: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "list")]
    pub connect_urls: Vec<String>,
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "list")]
    pub ws_connect_urls: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub ldm: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub compression: String,
    #[serde(skip_serializing_if = "is_default")]
    pub connect_info: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remote_account: String,
    #[serde(skip_serializing_if = "is_default")]
    pub acc_is_sys: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub api_lvl: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<SubjectFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<SubjectFilter>,
    #[serde(skip_serializing_if = "is_default")]
    pub lnoc: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub lnocu: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub ln: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub info_on_connect: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub route_pool_size: i64,
    #[serde(skip_serializing_if = "is_default")]
    pub route_pool_idx: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub route_account: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub route_acc_add_reqid: String,
    #[serde(skip_serializing_if = "is_default")]
    pub gossip_mode: u8,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "list")]
    pub gateway_urls: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway_url: String,
    #[serde(skip_serializing_if = "is_default")]
    pub gateway_cmd: u8,
    /// Base64 of an account's name. `None` where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_cmd_payload: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub gateway_nrp: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub gateway_iom: bool,
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "list")]
    pub leafnode_urls: Vec<String>,
    /// Of Myelin only. Read by [`PeerInfo::parse`], for what is wrong in it is no error.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub myelin: Option<GroupServer>,
}

/// CONNECT of the server that dialled, in the reference's order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // The names are the protocol's own.
pub struct PeerConnect {
    pub echo: bool,
    pub verbose: bool,
    pub pedantic: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pass: String,
    pub tls_required: bool,
    pub headers: bool,
    pub name: String,
    pub cluster: String,
    #[serde(skip_serializing_if = "is_default")]
    pub cluster_dynamic: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub lnoc: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub lnocu: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub ln: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    /// Only clients name one: it tells them from servers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lang: String,
}

/// How a server wants what it says of a new peer to be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GossipMode {
    /// A server that hears of a peer dials it and tells nobody else.
    Default,
    /// The link that comes of it is not told of to others.
    Disabled,
    /// The link that comes of it is told of, although it came of gossip.
    Override,
}

impl GossipMode {
    /// The number in INFO.
    pub fn number(self) -> u8 {
        match self {
            Self::Default => 0,
            Self::Disabled => 1,
            Self::Override => 2,
        }
    }

    /// The mode of a number; one that is not known is taken for the default.
    pub fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Disabled,
            2 => Self::Override,
            _ => Self::Default,
        }
    }
}

impl PeerInfo {
    /// Whether both servers have JetStream in one domain and the other one's takes no part in our
    /// groups: both would answer what is asked of the API.
    pub fn shares_jetstream_in_vain(&self, other: &Self) -> bool {
        self.myelin.is_some() && other.myelin.is_none() && other.jetstream && other.domain == self.domain
    }

    /// Reads the JSON of an INFO. A server whose field `myelin` cannot be understood, or is of
    /// another version, takes no part in groups, and that is no error.
    ///
    /// # Errors
    /// When it is no JSON object, or another field has another type.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        let info: Self = serde_json::from_slice(json)?;
        Ok(Self { myelin: groups::read(json), ..info })
    }

    /// The whole line. `Compat:` a blank stands between the JSON and CRLF.
    pub fn line(&self) -> Vec<u8> {
        line(b"INFO ", self, b" \r\n")
    }
}

impl PeerConnect {
    /// Reads the JSON of a CONNECT.
    ///
    /// # Errors
    /// When it is no JSON object, or a field has another type.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// The whole line.
    pub fn line(&self) -> Vec<u8> {
        line(b"CONNECT ", self, b"\r\n")
    }
}

pub(super) fn line(verb: &[u8], document: &impl Serialize, end: &[u8]) -> Vec<u8> {
    let mut out = verb.to_vec();
    out.extend(serde_json::to_vec(document).expect("strings, numbers and booleans always serialise"));
    out.extend_from_slice(end);
    out
}

/// Go writes a list that was never made as `null`.
pub(super) fn list<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Option::<Vec<String>>::deserialize(from).map(Option::unwrap_or_default)
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) fn is_empty(list: &[String]) -> bool {
    list.is_empty()
}

//! INFO, the server's half of the handshake.

use serde::{Serialize, Serializer};

/// A `max_payload` that stands for none: more than the protocol's parsers can count. Shown as -1.
pub const UNLIMITED_PAYLOAD: u32 = i32::MAX.unsigned_abs();

/// The client-visible fields of INFO, in the reference's order.
#[derive(Debug, Clone, Default, Serialize)]
#[allow(missing_docs)] // The names are the protocol's own: docs.nats.io, client protocol, INFO.
pub struct Info {
    pub server_id: String,
    pub server_name: String,
    pub version: String,
    pub proto: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    pub go: String,
    pub host: String,
    pub port: u16,
    pub headers: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub auth_required: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub tls_required: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub tls_verify: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub tls_available: bool,
    #[serde(serialize_with = "payload_limit")]
    pub max_payload: u32,
    #[serde(skip_serializing_if = "is_false")]
    pub jetstream: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub client_id: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_ip: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nonce: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_urls: Vec<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub ldm: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub connect_info: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remote_account: String,
    #[serde(skip_serializing_if = "is_false")]
    pub acc_is_sys: bool,
    pub api_lvl: i32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub xkey: String,
}

fn payload_limit<S: Serializer>(limit: &u32, to: S) -> Result<S::Ok, S::Error> {
    if *limit >= UNLIMITED_PAYLOAD { to.serialize_i32(-1) } else { to.serialize_u32(*limit) }
}

fn is_false(b: &bool) -> bool {
    !*b
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Info {
    /// The whole line. `Compat:` a blank stands between the JSON and CRLF, as the reference sends
    /// it.
    pub fn line(&self) -> Vec<u8> {
        let mut out = b"INFO ".to_vec();
        out.extend(serde_json::to_vec(self).expect("strings, numbers and booleans always serialise"));
        out.extend_from_slice(b" \r\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_shown_as_minus_one() {
        let info = Info { max_payload: UNLIMITED_PAYLOAD, ..Info::default() };
        assert!(String::from_utf8(info.line()).unwrap().contains("\"max_payload\":-1,"));
    }

    #[test]
    fn empty_fields_are_left_out_and_the_blank_stands() {
        let info = Info { server_id: "N".into(), max_payload: 5, api_lvl: 5, ..Info::default() };
        let line = String::from_utf8(info.line()).unwrap();
        assert!(line.starts_with("INFO {\"server_id\":\"N\",\"server_name\":"));
        assert!(line.ends_with("\"api_lvl\":5} \r\n"));
        assert!(!line.contains("ldm") && !line.contains("client_id"));
    }
}

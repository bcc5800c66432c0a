//! NATS JWTs: three parts in base64, the last of which signs the others with the key that the second
//! names as its issuer.
//!
//! Owns what a token must be like to be taken for an operator's or an account's. It does not look at
//! times, and never decides whether an issuer is to be trusted.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::nkey::{self, Role};

/// Bytes of the longest token.
const MAX_SIZE: usize = 1024 * 1024;
/// How every token begins, for its header is a JSON object.
pub(crate) const PREFIX: &str = "eyJ";

/// What an operator's token says, as far as a configuration is concerned.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct OperatorClaims {
    #[serde(default, rename = "sub")]
    pub(crate) subject: Option<String>,
    #[serde(default)]
    pub(crate) nats: Operator,
}

/// The part of it that only operators have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Operator {
    pub(crate) signing_keys: Option<Vec<String>>,
    pub(crate) account_server_url: Option<String>,
    pub(crate) system_account: Option<String>,
    pub(crate) assert_server_version: Option<String>,
    pub(crate) strict_signing_key_usage: Option<bool>,
}

/// What a user's token says, as far as a configuration is concerned.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct UserClaims {
    #[serde(default)]
    pub(crate) nats: User,
}

/// The part of it that only users have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct User {
    pub(crate) issuer_account: Option<String>,
    pub(crate) bearer_token: Option<bool>,
    #[serde(flatten)]
    pub(crate) rest: serde_json::Map<String, Value>,
}

impl User {
    /// Whether the token leaves permissions and limits to its scope.
    pub(crate) fn leaves_permissions_open(&self) -> bool {
        const LIMITS: &[&str] = &[
            "pub",
            "sub",
            "resp",
            "src",
            "times",
            "times_location",
            "subs",
            "data",
            "payload",
            "proxy_required",
            "allowed_connection_types",
        ];
        LIMITS.iter().all(|name| self.rest.get(*name).is_none_or(is_nothing))
    }
}

/// Whether a value is what Go has where nothing is said.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        // Permissions of either direction are blocks that may be empty.
        Value::Object(fields) => fields.is_empty(),
    }
}

#[derive(Deserialize)]
struct Header {
    #[serde(default, rename = "typ")]
    kind: String,
    #[serde(default, rename = "alg")]
    algorithm: String,
}

/// What all tokens say.
#[derive(Deserialize)]
struct Claims {
    #[serde(default, rename = "iss")]
    issuer: Option<String>,
    /// Where version 1 says what it is.
    #[serde(default, rename = "type")]
    old_kind: Option<String>,
    #[serde(default)]
    nats: Option<Generic>,
    // Read for their types alone.
    #[serde(default, rename = "aud")]
    _audience: Option<String>,
    #[serde(default, rename = "exp")]
    _expires: Option<i64>,
    #[serde(default, rename = "iat")]
    _issued_at: Option<i64>,
    #[serde(default, rename = "nbf")]
    _not_before: Option<i64>,
    #[serde(default, rename = "name")]
    _name: Option<String>,
    #[serde(default, rename = "sub")]
    _subject: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Generic {
    #[serde(rename = "type")]
    kind: Option<String>,
    version: Option<i64>,
}

/// The token in the text of a file, which may frame it with lines of dashes.
pub(crate) fn undecorated(text: &str) -> &str {
    let is_frame = |line: &str| {
        let first = line.find("---");
        first.is_some_and(|first| line.trim_end_matches('\r').ends_with("---") && line.len() >= first + 6)
    };
    let is_token = |line: &str| {
        let mut chars = line.trim_end_matches('\r').chars().peekable();
        chars.peek().is_some() && chars.all(|c| c.is_ascii_alphanumeric() || "_-.=".contains(c))
    };
    let lines: Vec<&str> = text.split('\n').collect();
    let framed =
        lines.windows(3).find(|three| is_frame(three[0]) && is_token(three[1]) && is_frame(three[2]));
    framed.map_or(text, |three| three[1].trim_end_matches('\r'))
}

/// Reads the token of an operator.
pub(crate) fn operator(token: &str) -> Result<OperatorClaims, String> {
    decode(token, "operator", &[Role::Operator])
}

/// Checks that a text is the token of an account.
pub(crate) fn check_account(token: &str) -> Result<(), String> {
    decode::<IgnoredAny>(token, "account", &[Role::Account, Role::Operator]).map(drop)
}

/// Reads the token of a user.
pub(crate) fn user(token: &str) -> Result<UserClaims, String> {
    decode(token, "user", &[Role::Account])
}

fn decode<T: DeserializeOwned>(token: &str, kind: &str, issuers: &[Role]) -> Result<T, String> {
    if token.len() > MAX_SIZE {
        let size = token.len();
        return Err(format!("token size {size} exceeds maximum of {MAX_SIZE} bytes: token too large"));
    }
    let parts: Vec<&str> = token.split('.').collect();
    let &[header, body, signature] = &parts[..] else { return Err("expected 3 chunks".to_owned()) };
    check_header(&part(header)?)?;
    let text = part(body)?;
    let claims: Claims = json(&text)?;
    let (found, version) = kind_and_version(&claims)?;
    let signature = part(signature)?;
    // Compat: version 1 signed the body without the header.
    let (signed, version) = match version {
        2 => (&token[..header.len() + 1 + body.len()], 2),
        _ => (body, 1),
    };
    let issuer = claims.issuer.as_deref().unwrap_or_default();
    if !is_signed(issuer, signed, &signature) {
        return Err(format!("claim failed V{version} signature verification"));
    }
    if found != kind {
        return Err(format!("not {kind} claim"));
    }
    if !issuers.iter().any(|role| role.owns(issuer)) {
        let expected: Vec<_> = issuers.iter().map(|role| role.name()).collect();
        return Err(format!("unable to validate expected prefixes - [{}]", expected.join(" ")));
    }
    json(&text)
}

fn part(text: &str) -> Result<Vec<u8>, String> {
    nkey::base64_url(text).ok_or_else(|| "illegal base64 data".to_owned())
}

fn json<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

fn check_header(text: &[u8]) -> Result<(), String> {
    let header: Header = json(text)?;
    if !header.kind.eq_ignore_ascii_case("JWT") {
        return Err(format!("not supported type {:?}", header.kind));
    }
    let algorithm = header.algorithm.to_ascii_lowercase();
    if algorithm != "ed25519" && algorithm != "ed25519-nkey" {
        return Err(format!("unexpected {:?} algorithm", header.algorithm));
    }
    Ok(())
}

fn kind_and_version(claims: &Claims) -> Result<(&str, i64), String> {
    if let Some(kind) = claims.old_kind.as_deref().filter(|kind| !kind.is_empty()) {
        return Ok((kind, 1));
    }
    let (kind, version) = match &claims.nats {
        Some(nats) => (nats.kind.as_deref().unwrap_or_default(), nats.version.unwrap_or(0)),
        None => ("", 0),
    };
    match (kind, version) {
        (_, 3..) => Err("JWT was generated by a newer version ".to_owned()),
        ("operator" | "account" | "user", 1 | 2) => Ok((kind, version)),
        ("operator" | "account" | "user", _) => {
            Err(format!("library supports version 2 or less - received {version}"))
        }
        _ => Ok((kind, 1)),
    }
}

fn is_signed(issuer: &str, signed: &str, signature: &[u8]) -> bool {
    let Some(key) = nkey::public_key(issuer) else { return false };
    UnparsedPublicKey::new(&ED25519, key).verify(signed.as_bytes(), signature).is_ok()
}

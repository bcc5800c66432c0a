//! A token as text: its parts, its signature, and the claims that all kinds have.
//!
//! Compat: as in Go, a `null` is a field that is not there, and of two fields of one name the later
//! counts.

use myelin_stdx::base_n::{self, BASE64_URL};
use myelin_stdx::nkey::Role;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::issues::Issues;
use crate::signature::is_signed;

/// Bytes of the longest token.
const MAX_SIZE: usize = 1024 * 1024;
/// The algorithm of version 2.
const ALGORITHM: &str = "ed25519-nkey";
/// How every token begins, for its header is a JSON object.
pub const PREFIX: &str = "eyJ";
/// The newest version of claims that is understood.
const VERSION: i64 = 2;

/// The kinds of tokens that have versions.
const KINDS: [&str; 5] = ["operator", "account", "user", "activation", super::authorization::RESPONSE];

/// Claims of a token: those that all have, and `nats` of its kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claims<T> {
    /// For whom.
    #[serde(rename = "aud")]
    pub audience: String,
    /// Seconds of the epoch from which on it is worth nothing; 0 is never.
    #[serde(rename = "exp")]
    pub expires: i64,
    /// Name of this very token.
    #[serde(rename = "jti")]
    pub id: String,
    /// Seconds of the epoch.
    #[serde(rename = "iat")]
    pub issued_at: i64,
    /// Public key that signed it.
    #[serde(rename = "iss")]
    pub issuer: String,
    /// A name for people.
    pub name: String,
    /// Seconds of the epoch before which it is worth nothing.
    #[serde(rename = "nbf")]
    pub not_before: i64,
    /// Public key of whom it is about.
    #[serde(rename = "sub")]
    pub subject: String,
    /// Claims that only this kind of token has.
    pub nats: T,
    /// Where version 1 says what it is.
    #[serde(rename = "type")]
    old_kind: String,
    /// Where version 1 has the account whose signing key the issuer is.
    #[serde(rename = "issuer_account")]
    pub(super) old_issuer_account: String,
    /// Where version 1 has its tags.
    #[serde(rename = "tags")]
    old_tags: Vec<String>,
    #[serde(skip)]
    version: i64,
    /// All of it as it was written, for monitoring.
    #[serde(skip)]
    pub raw: Value,
}

impl<T> Claims<T> {
    /// 1 or 2.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The tags of the claims, of which version 2 keeps `new`.
    pub(super) fn tags<'a>(&'a self, new: &'a [String]) -> &'a [String] {
        if self.version == 1 { &self.old_tags } else { new }
    }

    /// Whether it is time for it. `now` is in seconds of the epoch.
    pub(super) fn check_times(&self, now: i64, issues: &mut Issues) {
        if self.expires > 0 && now > self.expires {
            issues.time("claim is expired");
        }
        if self.not_before > 0 && self.not_before > now {
            issues.time("claim is not yet valid");
        }
    }
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct TokenHeader {
    typ: String,
    alg: String,
}

/// Fields that tell kinds and versions apart.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Identifier {
    #[serde(rename = "type")]
    old_kind: String,
    iss: String,
    nats: Generic,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Generic {
    #[serde(rename = "type")]
    kind: String,
    version: i64,
}

/// The token in the text of a file, which may frame it with lines of dashes.
#[must_use]
pub fn undecorated(text: &str) -> &str {
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

/// Reads a token of one kind that is signed by a key of one of these roles.
pub(super) fn decode<T>(token: &str, kind: &str, issuers: &[Role]) -> Result<Claims<T>, String>
where
    T: DeserializeOwned + Default,
{
    let parts = RawToken::of(token)?;
    let (found, version) = kind_and_version(&parts.said)?;
    parts.verify(version)?;
    if found != kind {
        return Err(format!("not {kind} claim"));
    }
    let issuer = &parts.said.iss;
    if !issuers.iter().any(|role| role.owns(issuer)) {
        let expected: Vec<_> = issuers.iter().map(|role| role.name()).collect();
        return Err(format!("unable to validate expected prefixes - [{}]", expected.join(" ")));
    }
    claims(parts.raw, version)
}

/// Reads a token of any kind, whoever has signed it: what is in it is for the caller to judge.
pub(super) fn decode_any(token: &str) -> Result<Claims<Value>, String> {
    let parts = RawToken::of(token)?;
    // Compat: what says no version is of that in which its algorithm came up.
    let version = if parts.algorithm == ALGORITHM { 2 } else { 1 };
    parts.verify(version)?;
    claims(parts.raw, version)
}

/// Reads a token of one kind, whoever has signed it: what is in it is to be believed by nobody.
pub(super) fn decode_unsigned<T>(token: &str, kind: &str) -> Result<Claims<T>, String>
where
    T: DeserializeOwned + Default,
{
    let parts = RawToken::of(token)?;
    let (found, version) = kind_and_version(&parts.said)?;
    if found != kind {
        return Err(format!("not {kind} claim"));
    }
    claims(parts.raw, version)
}

fn claims<T: DeserializeOwned + Default>(raw: Value, version: i64) -> Result<Claims<T>, String> {
    let mut claims: Claims<T> = read(&raw)?;
    (claims.version, claims.raw) = (version, raw);
    Ok(claims)
}

/// A token that is taken apart and not believed yet.
struct RawToken<'a> {
    algorithm: String,
    /// Text that is signed: in version 2, and in version 1, which signed the body without the
    /// header.
    signed: [&'a str; 2],
    signature: Vec<u8>,
    raw: Value,
    said: Identifier,
}

impl<'a> RawToken<'a> {
    fn of(token: &'a str) -> Result<Self, String> {
        if token.len() > MAX_SIZE {
            let size = token.len();
            return Err(format!("token size {size} exceeds maximum of {MAX_SIZE} bytes: token too large"));
        }
        let parts: Vec<&str> = token.split('.').take(4).collect();
        let &[header, body, signature] = &parts[..] else { return Err("expected 3 chunks".to_owned()) };
        let algorithm = algorithm(&part(header)?)?;
        let mut raw: Value = serde_json::from_slice(&part(body)?).map_err(|error| error.to_string())?;
        drop_nulls(&mut raw);
        let said = read(&raw)?;
        let signed = [&token[..header.len() + 1 + body.len()], body];
        // Its fault is told behind those of what it says.
        let signature = part(signature);
        kind_and_version(&said)?;
        Ok(Self { algorithm, signed, signature: signature?, raw, said })
    }

    /// Whether its issuer has signed it.
    fn verify(&self, version: i64) -> Result<(), String> {
        let [second, first] = self.signed;
        let (signed, version) = if version == 2 { (second, 2) } else { (first, 1) };
        if is_signed(&self.said.iss, signed.as_bytes(), &self.signature) {
            Ok(())
        } else {
            Err(format!("claim failed V{version} signature verification"))
        }
    }
}

fn part(text: &str) -> Result<Vec<u8>, String> {
    base_n::decode(text, BASE64_URL).ok_or_else(|| "illegal base64 data".to_owned())
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

/// Takes out the fields of objects that are null. A null in a list is a mistake of who wrote it,
/// and stays.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The algorithm that the header names, if it is one that is understood.
fn algorithm(text: &[u8]) -> Result<String, String> {
    let header: TokenHeader = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if !header.typ.eq_ignore_ascii_case("JWT") {
        return Err(format!("not supported type {:?}", header.typ));
    }
    let algorithm = header.alg.to_ascii_lowercase();
    if algorithm != "ed25519" && algorithm != ALGORITHM {
        return Err(format!("unexpected {:?} algorithm", header.alg));
    }
    Ok(algorithm)
}

fn kind_and_version(said: &Identifier) -> Result<(&str, i64), String> {
    if !said.old_kind.is_empty() {
        return Ok((&said.old_kind, 1));
    }
    let (kind, version) = (said.nats.kind.as_str(), said.nats.version);
    match (kind, version) {
        (_, VERSION..) if version > VERSION => Err("JWT was generated by a newer version ".to_owned()),
        _ if !KINDS.contains(&kind) => Ok((kind, 1)),
        (_, 1 | 2) => Ok((kind, version)),
        _ => Err(format!("library supports version 2 or less - received {version}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_dashes_are_taken_off() {
        let framed = "-----BEGIN NATS OPERATOR JWT-----\neyJ0.b.c\n------END NATS OPERATOR JWT------\n\n";
        assert_eq!(undecorated(framed), "eyJ0.b.c");
        assert_eq!(undecorated("eyJ0.b.c"), "eyJ0.b.c");
    }

    #[test]
    fn what_is_no_token_is_refused_in_the_references_words() {
        let long = "x".repeat(MAX_SIZE + 1);
        let header = |text: &str| format!("{}.e30.", base_n::encode(text.as_bytes(), BASE64_URL));
        let wrong = |token: &str| decode::<Value>(token, "user", &[Role::Account]).unwrap_err();
        assert_eq!(
            wrong(&long),
            format!("token size {} exceeds maximum of {MAX_SIZE} bytes: token too large", MAX_SIZE + 1)
        );
        for token in ["", "a", "a.b", "a.b.c.d"] {
            assert_eq!(wrong(token), "expected 3 chunks");
        }
        assert_eq!(wrong("?.b.c"), "illegal base64 data");
        assert_eq!(wrong(&header(r#"{"typ":"JWS","alg":"ed25519"}"#)), "not supported type \"JWS\"");
        assert_eq!(wrong(&header(r#"{"typ":"jwt","alg":"none"}"#)), "unexpected \"none\" algorithm");
        let unsigned = wrong(&header(r#"{"typ":"JWT","alg":"ed25519-nkey"}"#));
        assert_eq!(unsigned, "claim failed V1 signature verification");
    }

    #[test]
    fn deep_claims_are_refused_and_not_followed() {
        let deep = format!("{{\"nats\":{}", "[".repeat(100_000));
        let token = format!(
            "{}.{}.",
            base_n::encode(br#"{"typ":"JWT","alg":"ed25519-nkey"}"#, BASE64_URL),
            base_n::encode(deep.as_bytes(), BASE64_URL)
        );
        assert!(decode::<Value>(&token, "user", &[Role::Account]).is_err());
    }
}

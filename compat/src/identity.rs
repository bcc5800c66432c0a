//! Keys and tokens for transcripts: a small issuer, so that a transcript can say who signs whom.
//!
//! Owns what `@…@` stands for. A key is made from its role and its name, and is the same each time;
//! tokens are issued when a conversation begins, so that their times are true.

use myelin_auth::KeyPair;
use myelin_stdx::base_n::{self, BASE64_URL};
use myelin_stdx::nkey::{self, Role};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// A token that is to be issued: `NAME KIND by ROLE:NAME for ROLE:NAME {claims}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    name: String,
    kind: String,
    issuer: String,
    subject: String,
    claims: String,
}

impl Order {
    /// Reads what stands behind `token:`.
    ///
    /// # Errors
    /// When it is no order.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (head, claims) = text.split_once('{').ok_or("a token needs its claims in braces")?;
        let words: Vec<&str> = head.split_whitespace().collect();
        let &[name, kind, "by", issuer, "for", subject] = &words[..] else {
            return Err("a token is NAME KIND by ROLE:NAME for ROLE:NAME {claims}".into());
        };
        [issuer, subject].into_iter().try_for_each(|key| pair(key).map(drop))?;
        let owned = str::to_owned;
        Ok(Self {
            name: owned(name),
            kind: owned(kind),
            issuer: owned(issuer),
            subject: owned(subject),
            claims: format!("{{{claims}"),
        })
    }
}

/// The tokens of one conversation, by name.
#[derive(Debug, Default)]
pub struct Identities(HashMap<String, String>);

impl Identities {
    /// Issues what was ordered. Later tokens may quote earlier ones.
    ///
    /// # Errors
    /// When claims are no JSON, or quote what is not there.
    pub fn issue(orders: &[Order]) -> Result<Self, String> {
        let mut all = Self::default();
        for order in orders {
            let claims = String::from_utf8(all.fill(order.claims.as_bytes())?).map_err(|e| e.to_string())?;
            let claims: Value = serde_json::from_str(&claims).map_err(|e| format!("{}: {e}", order.name))?;
            let Value::Object(claims) = claims else { return Err("claims are an object".into()) };
            all.0.insert(order.name.clone(), issue(order, claims)?);
        }
        Ok(all)
    }

    /// `text` with what `@…@` stands for: `@NAME@` a token, `@key:ROLE:NAME@` a public key,
    /// `@seed:ROLE:NAME@` a private one.
    ///
    /// # Errors
    /// When nothing is called so.
    pub fn fill(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        self.fill_signed(text, None)
    }

    /// Replaces what `@…@` stands for, as [`fill`](Self::fill) does; `@sig@` is what a key
    /// (`ROLE:NAME`) signs of a nonce.
    ///
    /// # Errors
    /// When nothing is called so.
    pub fn fill_signed(&self, text: &[u8], sign: Option<(&str, &str)>) -> Result<Vec<u8>, String> {
        let mut filled = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.iter().position(|&byte| byte == b'@') {
            let inner = &rest[start + 1..];
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'_' | b'-');
            let len = inner.iter().take_while(|byte| is_word(byte)).count();
            filled.extend_from_slice(&rest[..start]);
            if len == 0 || inner.get(len) != Some(&b'@') {
                filled.push(b'@');
                rest = inner;
                continue;
            }
            let word = String::from_utf8_lossy(&inner[..len]);
            filled.extend_from_slice(self.value(&word, sign)?.as_bytes());
            rest = &inner[len + 1..];
        }
        filled.extend_from_slice(rest);
        Ok(filled)
    }

    fn value(&self, word: &str, sign: Option<(&str, &str)>) -> Result<String, String> {
        if let Some(key) = word.strip_prefix("key:") {
            return Ok(pair(key)?.public());
        }
        if let Some(key) = word.strip_prefix("seed:") {
            let (role, seed) = seed(key)?;
            return Ok(nkey::encode_seed(role, &seed));
        }
        match (word, sign) {
            ("sig", Some((key, nonce))) => Ok(pair(key)?.sign(nonce.as_bytes())),
            _ => self.0.get(word).cloned().ok_or_else(|| format!("no token is called {word:?}")),
        }
    }
}

/// Answers a question of auth callout that came for this user from this server.
///
/// # Errors
/// When claims are no JSON, or a key is none.
pub(crate) fn answer(by: &str, claims: &str, user: &str, server: &str) -> Result<String, String> {
    let mut claims = object(claims)?;
    claims.entry("sub").or_insert(json!(user));
    claims.entry("aud").or_insert(json!(server));
    signed("authorization_response", by, claims)
}

/// Answers a request of auth callout with the token of a user that has these claims.
///
/// # Errors
/// When claims are no JSON, or a key is none.
pub(crate) fn admission(
    by: &str,
    user_by: &str,
    claims: &str,
    user: &str,
    server: &str,
) -> Result<String, String> {
    let mut claims = object(claims)?;
    claims.entry("sub").or_insert(json!(user));
    let token = signed("user", user_by, claims)?;
    answer(by, &json!({"nats": {"jwt": token}}).to_string(), user, server)
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|e| format!("bad claims: {e}"))
}

/// The key called `ROLE:NAME`, where the role is a letter.
fn seed(text: &str) -> Result<(Role, [u8; 32]), String> {
    let (letter, _) = text.split_once(':').ok_or_else(|| format!("a key is ROLE:NAME, not {text:?}"))?;
    let role = match letter {
        "O" => Role::Operator,
        "A" => Role::Account,
        "U" => Role::User,
        "N" => Role::Server,
        _ => return Err(format!("no role is called {letter:?}")),
    };
    Ok((role, Sha256::digest(text).into()))
}

fn pair(text: &str) -> Result<KeyPair, String> {
    let (role, seed) = seed(text)?;
    KeyPair::from_bytes(role, &seed).ok_or_else(|| format!("{text:?} makes no key"))
}

fn issue(order: &Order, mut claims: Map<String, Value>) -> Result<String, String> {
    claims.entry("jti").or_insert(json!(order.name));
    claims.entry("sub").or_insert(json!(pair(&order.subject)?.public()));
    signed(&order.kind, &order.issuer, claims)
}

/// A token with these claims and what all tokens have.
fn signed(kind: &str, issuer: &str, mut claims: Map<String, Value>) -> Result<String, String> {
    let issuer = pair(issuer)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?.as_secs() as i64;
    for name in ["exp", "nbf", "iat"] {
        if let Some(Value::String(text)) = claims.get(name) {
            let offset: i64 =
                text.parse().map_err(|_| format!("{name} is seconds from now, not {text:?}"))?;
            claims.insert(name.to_owned(), json!(now + offset));
        }
    }
    let mut set = |name: &str, value: Value| {
        claims.entry(name).or_insert(value);
    };
    set("jti", json!(kind));
    set("iat", json!(now));
    set("iss", json!(issuer.public()));
    set("nats", json!({}));
    if let Some(Value::Object(nats)) = claims.get_mut("nats") {
        nats.entry("type").or_insert(json!(kind));
        nats.entry("version").or_insert(json!(2));
    }
    let part = |value: &Value| base_n::encode(value.to_string().as_bytes(), BASE64_URL);
    // Version 1 signs the body without the header.
    let is_old = claims.contains_key("type") || claims["nats"]["version"] == 1;
    let header = part(&json!({"typ": "JWT", "alg": if is_old { "ed25519" } else { "ed25519-nkey" }}));
    let body = part(&Value::Object(claims));
    let signature = issuer.sign(if is_old { body.clone() } else { format!("{header}.{body}") }.as_bytes());
    Ok(format!("{header}.{body}.{signature}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_issued_and_quoted() {
        let order = |text: &str| Order::parse(text).unwrap();
        let orders = [
            order(r#"op operator by O:op for O:op {"name":"op"}"#),
            order(r#"acc account by O:op for A:acc {"exp":"+60","nats":{"signing_keys":["@key:A:sk@"]}}"#),
            order(r#"bob user by A:acc for U:bob {"nats":{"tags":["a:@key:U:bob@"]}}"#),
        ];
        let all = Identities::issue(&orders).unwrap();
        let filled = String::from_utf8(all.fill(b"a@b {\"jwt\":\"@bob@\"} @key:A:acc@ @").unwrap()).unwrap();
        assert!(filled.starts_with("a@b {\"jwt\":\"eyJ") && filled.ends_with(" @"), "{filled}");
        let token = all.value("bob", None).unwrap();
        let claims = myelin_auth::jwt::user(&token).unwrap();
        assert_eq!(claims.account(), pair("A:acc").unwrap().public());
        assert!(myelin_auth::jwt::account(&all.value("acc", None).unwrap()).is_ok());
        assert!(all.fill(b"@nobody@").is_err());
        assert!(Order::parse("bob user by X:a for U:b {}").is_err());
        let signed = all.fill_signed(b"@sig@", Some(("U:bob", "nonce"))).unwrap();
        assert_eq!(String::from_utf8(signed).unwrap(), pair("U:bob").unwrap().sign(b"nonce"));
    }
}

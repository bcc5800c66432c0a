//! The tokens of auth callout: what a server asks a service about a client, and what the service
//! answers.
//!
//! Owns their fields, in the reference's order, and the checks of an answer by itself.

use super::issues::Issues;
use super::token::Claims;
use crate::secret::Secret;
use crate::signature::KeyPair;
use myelin_stdx::base_n::{self, BASE32, BASE64_URL};
use myelin_stdx::nkey::Role;
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha512_256};

/// The kind of an answer.
pub(super) const RESPONSE: &str = "authorization_response";
/// For whom a question is.
const AUDIENCE: &str = "nats-authorization-request";

/// Server that asks.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ServerId {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cluster: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) xkey: String,
}

/// About whom, as the server sees it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ClientInformation {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) host: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) id: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name_tag: String,
    pub(crate) kind: &'static str,
    #[serde(rename = "type", skip_serializing_if = "str::is_empty")]
    pub(crate) connection: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) nonce: String,
}

/// Options that the client gave in CONNECT. Its secrets go to the service, which judges them, and
/// nowhere else.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ConnectOptions {
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "revealed")]
    pub(crate) jwt: Option<Secret>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) nkey: String,
    #[serde(rename = "sig", skip_serializing_if = "String::is_empty")]
    pub(crate) signature: String,
    #[serde(rename = "auth_token", skip_serializing_if = "Option::is_none", serialize_with = "revealed")]
    pub(crate) token: Option<Secret>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) user: String,
    #[serde(rename = "pass", skip_serializing_if = "Option::is_none", serialize_with = "revealed")]
    pub(crate) password: Option<Secret>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) lang: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    pub(crate) protocol: i64,
}

/// The TLS under its connection. Certificates are whole, as PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClientTls {
    /// `1.2` or `1.3`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// As in the registry of TLS.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cipher: String,
    /// Certificates that were shown and not verified.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certs: Vec<String>,
    /// Chains that were verified, each from the client's own certificate on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verified_chains: Vec<Vec<String>>,
}

/// A question.
#[derive(Debug, Default, Serialize)]
pub(crate) struct AuthorizationRequest {
    pub(crate) server_id: ServerId,
    pub(crate) user_nkey: String,
    pub(crate) client_info: ClientInformation,
    pub(crate) connect_opts: ConnectOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_tls: Option<ClientTls>,
    #[serde(rename = "type")]
    pub(crate) kind: RequestKind,
    pub(crate) version: Version,
}

/// Kind of a request, as it says itself.
#[derive(Debug, Default, Serialize)]
pub(crate) enum RequestKind {
    #[default]
    #[serde(rename = "authorization_request")]
    Request,
}

/// The version of its claims.
#[derive(Debug)]
pub(crate) struct Version(u8);

impl Default for Version {
    fn default() -> Self {
        Self(2)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u8(self.0)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The one place where what a client keeps secret is written down.
fn revealed<S: Serializer>(secret: &Option<Secret>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(secret.as_ref().and_then(Secret::text).unwrap_or_default())
}

/// Fields that all tokens have; their digest is the token's name.
#[derive(Serialize)]
struct TokenFields<'a> {
    aud: &'a str,
    exp: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    jti: &'a str,
    iat: i64,
    iss: &'a str,
    sub: &'a str,
}

#[derive(Serialize)]
struct SignedClaims<'a> {
    #[serde(flatten)]
    head: &'a TokenFields<'a>,
    nats: &'a AuthorizationRequest,
}

impl AuthorizationRequest {
    /// The token, signed by the server. Times are in seconds of the epoch.
    pub(crate) fn sign(self, subject: &str, issued_at: i64, expires: i64, keys: &KeyPair) -> String {
        let issuer = keys.public();
        let head =
            TokenFields { aud: AUDIENCE, exp: expires, jti: "", iat: issued_at, iss: &issuer, sub: subject };
        let id = base_n::encode(&Sha512_256::digest(text(&head)), BASE32);
        let whole = SignedClaims { head: &TokenFields { jti: &id, ..head }, nats: &self };
        let part = |bytes: &[u8]| base_n::encode(bytes, BASE64_URL);
        let signed = format!("{}.{}", part(br#"{"typ":"JWT","alg":"ed25519-nkey"}"#), part(&text(&whole)));
        let signature = keys.sign(signed.as_bytes());
        format!("{signed}.{signature}")
    }
}

fn text(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers can be written as JSON")
}

/// An answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AuthorizationResponse {
    /// The token of the user that the client becomes.
    pub(crate) jwt: String,
    /// Why it becomes none.
    pub(crate) error: String,
    /// The account, where the issuer is one of its signing keys.
    pub(crate) issuer_account: String,
}

/// An answer with what all tokens have.
pub(crate) type AuthorizationResponseClaims = Claims<AuthorizationResponse>;

impl AuthorizationResponseClaims {
    /// Issues of the response at `now`, in seconds of the epoch.
    pub(crate) fn issues(&self, now: i64) -> Issues {
        let mut issues = Issues::default();
        let AuthorizationResponse { jwt, error, issuer_account } = &self.nats;
        if !Role::User.owns(&self.subject) {
            issues.error("Subject must be a user public key");
        }
        if !Role::Server.owns(&self.audience) {
            issues.error("Audience must be a server public key");
        }
        match (error.is_empty(), jwt.is_empty()) {
            (true, true) => issues.error("Error or Jwt is required"),
            (false, false) => issues.error("Only Error or Jwt can be set"),
            _ => {}
        }
        if !issuer_account.is_empty() && !Role::Account.owns(issuer_account) {
            issues.error("issuer_account is not an account public key");
        }
        self.check_times(now, &mut issues);
        issues
    }
}

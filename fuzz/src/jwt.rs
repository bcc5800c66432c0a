//! Tokens with claims.
//!
//! Promised for any bytes, as a token and as the claims of one that is signed as it should be:
//! reading and checking do not panic; nobody is let in who has signed nothing, unless the token
//! says that this is enough; who is let in is in the account that signed.

use myelin_auth::operator::{Accounts, Trust, TrustedAccount};
use myelin_auth::{
    Attempt, AuthConfig, ConnectionType, Credentials, KeyPair, Method, Secret, authenticate, jwt,
};
use myelin_stdx::base_n::{self, BASE64_URL};
use myelin_stdx::entropy::OsEntropy;
use myelin_stdx::nkey::Role;
use serde_json::{Map, Value, json};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

struct Keys {
    operator: KeyPair,
    account: KeyPair,
    trust: Arc<Trust>,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let pair = |role, n| KeyPair::from_bytes(role, &[n; 32]).expect("any 32 bytes are a key");
    let operator = pair(Role::Operator, 1);
    let trust = Arc::new(Trust::new([operator.public()]));
    Keys { account: pair(Role::Account, 2), operator, trust }
});

/// One account.
struct Book(Arc<TrustedAccount>);

impl Accounts for Book {
    fn account(&self, key: &str, _: SystemTime) -> Result<Arc<TrustedAccount>, String> {
        if key == self.0.key() { Ok(Arc::clone(&self.0)) } else { Err("account missing".to_owned()) }
    }
}

/// Any bytes as a token, as the claims of an account, and as those of a user.
pub fn jwt(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    read(&text);
    let Ok(Value::Object(claims)) = serde_json::from_slice::<Value>(data) else { return };
    let keys = &*KEYS;
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let of_account = signed(&keys.operator, &keys.account.public(), "account", claims.clone());
    read(&of_account);
    let account = TrustedAccount::read(&keys.account.public(), &of_account, &keys.trust, now).ok();
    if let Some(account) = &account {
        let _ = (account.limits(), account.jetstream(), account.label(), account.is_expired(now));
    }
    let account = account
        .unwrap_or_else(|| TrustedAccount::provisional(&keys.account.public(), &keys.operator.public()));
    let of_user = signed(&keys.account, "", "user", claims);
    read(&of_user);
    let is_bearer = jwt::user(&of_user).is_ok_and(|claims| claims.nats.permissions.bearer_token);
    let credentials = Credentials { jwt: Some(Secret::new(of_user)), ..Credentials::default() };
    let attempt = Attempt {
        credentials: &credentials,
        via: ConnectionType::Standard,
        nonce: "nonce",
        peer: [127, 0, 0, 1].into(),
        now,
        entropy: &OsEntropy,
    };
    let config = AuthConfig::new(Method::Operator(Arc::clone(&keys.trust)));
    if let Ok(identity) = authenticate(&config, &attempt, &Book(Arc::new(account))).without_callout() {
        assert!(is_bearer, "nothing was signed");
        assert_eq!(identity.account.as_str(), keys.account.public());
    }
}

fn read(token: &str) {
    let _ = (jwt::operator(token), jwt::activation(token), jwt::undecorated(token));
    let _ = jwt::account(token).map(|claims| claims.issues(1_800_000_000));
    let _ = jwt::user(token).map(|claims| claims.issues(1_800_000_000));
}

/// The claims as a token of this kind, with whatever a token needs to be looked at.
fn signed(issuer: &KeyPair, subject: &str, kind: &str, mut claims: Map<String, Value>) -> String {
    claims.insert("iss".to_owned(), json!(issuer.public()));
    if !subject.is_empty() {
        claims.insert("sub".to_owned(), json!(subject));
    }
    if let Value::Object(nats) = claims.entry("nats").or_insert_with(|| json!({})) {
        nats.entry("type").or_insert_with(|| json!(kind));
        nats.entry("version").or_insert_with(|| json!(2));
    }
    let part = |value: &Value| base_n::encode(value.to_string().as_bytes(), BASE64_URL);
    let body = part(&Value::Object(claims));
    let signed = format!("{}.{body}", part(&json!({"typ": "JWT", "alg": "ed25519-nkey"})));
    let signature = issuer.sign(signed.as_bytes());
    format!("{signed}.{signature}")
}

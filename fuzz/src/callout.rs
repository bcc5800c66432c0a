//! What a callout service answers: any bytes, and any claims in an answer that is signed as it should be.
//!
//! Promised for any bytes: judging does not panic; nobody is let in by what the issuer has not signed; a reason is one line;
//! who is let in is in an account that there is, and may not ask in the server's stead.

use myelin_auth::callout::{Caller, Callout, SUBJECT, ServerKeys};
use myelin_auth::operator::{Accounts, TrustedAccount};
use myelin_auth::{
    AccountName, Attempt, AuthConfig, ConnectionType, Credentials, CurveKey, Decision, KeyPair, Method, User,
    Users, authenticate,
};
use myelin_stdx::digits::{self, BASE64_URL};
use myelin_stdx::nkey::Role;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Two accounts.
struct Book;

impl Accounts for Book {
    fn account(&self, _: &str, _: SystemTime) -> Result<Arc<TrustedAccount>, String> {
        Err("account missing".to_owned())
    }

    fn is_configured(&self, name: &str) -> bool {
        ["AUTH", "APP"].contains(&name)
    }
}

fn signed(kind: &str, by: &KeyPair, mut claims: Value) -> String {
    if let Some(claims) = claims.as_object_mut() {
        claims.insert("iss".to_owned(), json!(by.public()));
        let nats = claims.entry("nats").or_insert_with(|| json!({}));
        if let Some(nats) = nats.as_object_mut() {
            nats.insert("type".to_owned(), json!(kind));
            nats.insert("version".to_owned(), json!(2));
        }
    }
    let part = |text: String| digits::encode(text.as_bytes(), BASE64_URL);
    let header = part(json!({"typ": "JWT", "alg": "ed25519-nkey"}).to_string());
    let signed = format!("{header}.{}", part(claims.to_string()));
    let signature = by.sign(signed.as_bytes());
    format!("{signed}.{signature}")
}

/// Any bytes as an answer, and as the claims of a user in one.
pub fn callout(data: &[u8]) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let key = |role, n| KeyPair::from_bytes(role, &[n; 32]);
    let (Some(issuer), Some(signing)) = (key(Role::Account, 1), key(Role::Server, 2)) else { return };
    let (keys, service) = (ServerKeys { signing, curve: CurveKey::random() }, CurveKey::random());
    let callout = Callout {
        issuer: issuer.public(),
        account: AccountName::new("AUTH"),
        auth_users: vec!["auth".to_owned()],
        xkey: Some(service.public()),
        allowed_accounts: Vec::new(),
    };
    let config = AuthConfig {
        callout: Some(Arc::new(callout)),
        ..AuthConfig::new(Method::Users(Users::new(Vec::<User>::new())))
    };
    let credentials = Credentials::default();
    let attempt = Attempt {
        credentials: &credentials,
        via: ConnectionType::Standard,
        nonce: "n",
        peer: [127, 0, 0, 1].into(),
        now,
    };
    let Decision::Ask(mut question) = authenticate(&config, &attempt, &()) else { panic!("nobody is known") };
    let request = question
        .request(&keys, Default::default(), Caller::default(), now, Duration::from_secs(2))
        .expect("the service has a key");
    let token = service.open(&request.payload, &keys.curve.public()).expect("sealed for the service");
    let claims =
        std::str::from_utf8(&token).ok().and_then(|token| token.split('.').nth(1)).unwrap_or_default();
    let claims = digits::decode(claims, BASE64_URL).unwrap_or_default();
    let asked: Value = serde_json::from_slice(&claims).expect("a question is JSON");
    let user = asked["nats"]["user_nkey"].clone();
    let judge = |answer: &[u8]| question.judge(answer, &keys, &Book, now);
    let refused = |answer: &[u8]| {
        let reason = judge(answer).map(|_| ()).expect_err("not signed by the issuer").to_string();
        assert!(!reason.is_empty() && !reason.contains(['\n', '\r']), "{reason:?}");
    };
    refused(data);
    refused(&service.seal(data, &keys.curve.public()).expect("a key"));
    let mut inner: Value = serde_json::from_slice(data).unwrap_or_else(|_| json!({}));
    if let Some(fields) = inner.as_object_mut() {
        fields.insert("sub".to_owned(), user.clone());
    }
    let head = |jwt: String| json!({"sub": user, "aud": keys.signing.public(), "nats": {"jwt": jwt}});
    let Some(stranger) = key(Role::Account, 3) else { return };
    let answer = signed("authorization_response", &stranger, head(signed("user", &issuer, inner.clone())));
    refused(answer.as_bytes());
    let answer = signed("authorization_response", &issuer, head(signed("user", &stranger, inner.clone())));
    refused(answer.as_bytes());
    let answer = signed("authorization_response", &issuer, head(signed("user", &issuer, inner)));
    if let Ok(identity) = judge(answer.as_bytes()) {
        assert!(Book.is_configured(identity.account.as_str()));
        let may_ask = identity.permissions.is_none_or(|rules| rules.can_publish(SUBJECT.as_bytes()));
        assert!(!may_ask || identity.account.as_str() != "AUTH", "nobody asks in the server's stead");
    }
}

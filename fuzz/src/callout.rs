//! Answers of a callout service: any bytes, and any claims in an answer that is signed as it should
//! be.
//!
//! Promised for any bytes: judging does not panic; nobody is let in by what the issuer has not
//! signed; a reason is one line; who is let in is in an account that there is, and may not ask in
//! the server's stead.

use myelin_auth::callout::{AuthRequest, Callout, ClientInfo, SUBJECT, ServerKeys};
use myelin_auth::operator::{Accounts, TrustedAccount};
use myelin_auth::{
    AccountName, Attempt, AuthConfig, ConnectionType, Credentials, Decision, Identity, KeyPair, Method,
    Reject, User, Users, XKey, authenticate,
};
use myelin_stdx::base_n::{self, BASE64_URL};
use myelin_stdx::entropy::{OsEntropy, SeededEntropy};
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
    let part = |text: String| base_n::encode(text.as_bytes(), BASE64_URL);
    let header = part(json!({"typ": "JWT", "alg": "ed25519-nkey"}).to_string());
    let signed = format!("{header}.{}", part(claims.to_string()));
    let signature = by.sign(signed.as_bytes());
    format!("{signed}.{signature}")
}

/// Part of an answer that somebody else has signed.
///
/// Signatures are what an execution costs: each input is judged with one kind of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forged {
    Nothing,
    Answer,
    Claims,
}

impl Forged {
    /// Follows from the bytes, so that a find stays one: most are signed as they should be.
    fn of(data: &[u8]) -> Self {
        match crc32c::crc32c(data) % 8 {
            0 => Self::Answer,
            1 => Self::Claims,
            _ => Self::Nothing,
        }
    }
}

/// A question that waits for its answer. Keys and their curves are what takes time: inputs share
/// it.
struct CalloutService {
    issuer: KeyPair,
    stranger: KeyPair,
    keys: ServerKeys,
    service: XKey,
    question: Box<AuthRequest>,
    /// Public key of the user for whom the service is asked to decide.
    user: Value,
}

thread_local! {
    static ASKED: CalloutService = CalloutService::new();
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

impl CalloutService {
    fn new() -> Self {
        let key = |role, n| KeyPair::from_bytes(role, &[n; 32]).expect("any 32 bytes are a key");
        let (issuer, signing) = (key(Role::Account, 1), key(Role::Server, 2));
        let entropy = SeededEntropy::new(3);
        let (keys, service) = (ServerKeys { signing, curve: XKey::random(&entropy) }, XKey::random(&entropy));
        let mut question = ask(&issuer, &service);
        let request = question
            .request(
                &keys,
                Default::default(),
                ClientInfo::default(),
                now(),
                Duration::from_secs(2),
                &entropy,
            )
            .expect("the service has a key");
        let token = service.open(&request.payload, &keys.curve.public()).expect("sealed for the service");
        let claims =
            std::str::from_utf8(&token).ok().and_then(|token| token.split('.').nth(1)).unwrap_or_default();
        let claims = base_n::decode(claims, BASE64_URL).unwrap_or_default();
        let asked: Value = serde_json::from_slice(&claims).expect("a question is JSON");
        let user = asked["nats"]["user_nkey"].clone();
        let asked = Self { issuer, stranger: key(Role::Account, 3), keys, service, question, user };
        for forged in [Forged::Nothing, Forged::Answer, Forged::Claims] {
            asked.judge_claims(json!({}), forged);
        }
        asked
    }

    fn verify(&self, answer: &[u8]) -> Result<Identity, Reject> {
        self.question.verify(answer, &self.keys, &Book, now())
    }

    fn refused(&self, answer: &[u8]) {
        let reason = self.verify(answer).map(|_| ()).expect_err("not signed by the issuer").to_string();
        assert!(!reason.is_empty() && !reason.contains(['\n', '\r']), "{reason:?}");
    }

    fn seal(&self, answer: &[u8]) -> Vec<u8> {
        self.service.seal(answer, &self.keys.curve.public(), &OsEntropy).expect("a key")
    }

    /// Judges these claims as a user's, in an answer that is signed as it should be, or in a forged
    /// one.
    fn judge_claims(&self, mut inner: Value, forged: Forged) {
        if let Some(fields) = inner.as_object_mut() {
            fields.insert("sub".to_owned(), self.user.clone());
        }
        let answer = |by: &KeyPair, jwt: &str| {
            let audience = self.keys.signing.public();
            let head = json!({"sub": self.user, "aud": audience, "nats": {"jwt": jwt}});
            signed("authorization_response", by, head)
        };
        let claims = |by: &KeyPair| signed("user", by, inner);
        let genuine = match forged {
            Forged::Nothing => claims(&self.issuer),
            Forged::Answer => {
                return self.refused(answer(&self.stranger, &claims(&self.issuer)).as_bytes());
            }
            Forged::Claims => {
                return self.refused(answer(&self.issuer, &claims(&self.stranger)).as_bytes());
            }
        };
        if let Ok(identity) = self.verify(answer(&self.issuer, &genuine).as_bytes()) {
            assert!(Book.is_configured(identity.account.as_str()));
            let may_ask = identity.permissions.is_none_or(|rules| rules.can_publish(SUBJECT.as_bytes()));
            assert!(!may_ask || identity.account.as_str() != "AUTH", "nobody asks in the server's stead");
        }
    }
}

/// Auth request of a client that no configuration knows.
fn ask(issuer: &KeyPair, service: &XKey) -> Box<AuthRequest> {
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
        now: now(),
        entropy: &OsEntropy,
    };
    let Decision::AskCallout(question) = authenticate(&config, &attempt, &()) else {
        panic!("nobody is known")
    };
    question
}

/// Any bytes as an answer, and as the claims of a user in one.
pub fn callout(data: &[u8]) {
    ASKED.with(|asked| {
        // What is no JSON stands for no claims, which were judged at the beginning.
        match serde_json::from_slice(data) {
            Ok(inner) => asked.judge_claims(inner, Forged::of(data)),
            // The same bytes in a box take two exchanges of keys.
            Err(_) if Forged::of(data) == Forged::Answer => asked.refused(&asked.seal(data)),
            Err(_) => asked.refused(data),
        }
    });
}

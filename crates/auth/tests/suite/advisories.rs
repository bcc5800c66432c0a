//! Attacks on logins with keys and tokens that were published for nats-server, each as a class and
//! not only as its input.

use myelin_auth::operator::{Accounts, ClaimsFault, Trust, TrustedAccount};
use myelin_auth::{
    Attempt, AuthConfig, ConnectionType, ConnectionTypes, Credentials, Decision, DistinguishedName, Identity,
    Method, Permissions, Reject, Secret, StoredSecret, SubjectRules, authenticate, jwt,
};
use myelin_compat::identity::{Identities, Order};
use myelin_stdx::entropy::OsEntropy;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const LIMITS: &str = r#""limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}"#;
const NONCE: &str = "a-nonce-of-ours";

/// A server that trusts one operator, and whoever signs for it.
struct House {
    ids: Identities,
    config: AuthConfig,
    trust: Arc<Trust>,
}

impl Accounts for House {
    fn account(&self, key: &str, now: SystemTime) -> Result<Arc<TrustedAccount>, String> {
        for name in ["app", "other", "brief", "foreign"] {
            let token = self.text(&format!("@{name}@"));
            if self.text(&format!("@key:A:{name}@")) == key {
                let read = TrustedAccount::read(key, &token, &self.trust, now);
                return read.map(Arc::new).map_err(|fault| fault.to_string());
            }
        }
        Err("account missing".to_owned())
    }
}

impl House {
    fn with(orders: &[&str]) -> Self {
        let base = [
            format!(r#"app account by O:op for A:app {{"nats":{{{LIMITS}}}}}"#),
            format!(r#"other account by O:op for A:other {{"nats":{{{LIMITS}}}}}"#),
            format!(r#"brief account by O:op for A:brief {{"exp":"+100","nats":{{{LIMITS}}}}}"#),
            format!(r#"foreign account by O:eve for A:foreign {{"nats":{{{LIMITS}}}}}"#),
        ];
        let all = base.into_iter().chain(orders.iter().map(|order| (*order).to_owned()));
        let orders: Vec<_> = all.map(|order| Order::parse(&order).expect("a test is well made")).collect();
        let ids = Identities::issue(&orders).expect("a test is well made");
        let operator = String::from_utf8(ids.fill(b"@key:O:op@").expect("a test is well made"))
            .expect("a test is well made");
        let trust = Arc::new(Trust::new([operator]));
        Self { ids, config: AuthConfig::new(Method::Operator(Arc::clone(&trust))), trust }
    }

    fn text(&self, text: &str) -> String {
        String::from_utf8(self.ids.fill(text.as_bytes()).expect("a test is well made"))
            .expect("a test is well made")
    }

    /// A login with a token and a signature by this key, so many seconds from now.
    fn login(&self, token: &str, key: &str, seconds: u64) -> Result<Identity, Reject> {
        let signature = self.ids.fill_signed(b"@sig@", Some((key, NONCE))).expect("a test is well made");
        let credentials = Credentials {
            jwt: Some(Secret::new(self.text(token))),
            sig: Some(String::from_utf8(signature).expect("a test is well made")),
            ..Credentials::default()
        };
        let attempt = Attempt {
            credentials: &credentials,
            via: ConnectionType::Standard,
            nonce: NONCE,
            peer: [127, 0, 0, 1].into(),
            now: SystemTime::now() + Duration::from_secs(seconds),
            entropy: &OsEntropy,
        };
        authenticate(&self.config, &attempt, self).without_callout()
    }
}

fn fault(outcome: Result<Identity, Reject>) -> ClaimsFault {
    match outcome {
        Err(Reject::Claims(fault)) => fault,
        Err(other) => panic!("refused for {other}"),
        Ok(identity) => panic!("let in as {identity:?}"),
    }
}

/// CVE-2020-26892: expired tokens were let in.
#[test]
fn cve_2020_26892_what_has_expired_lets_nobody_in() {
    let house = House::with(&[
        r#"bob user by A:app for U:bob {"exp":"+100"}"#,
        r#"carol user by A:brief for U:carol {}"#,
        r#"early user by A:app for U:early {"nbf":"+50"}"#,
    ]);
    let expired = || ClaimsFault::NoLongerValid("claim is expired".to_owned());
    assert!(house.login("@bob@", "U:bob", 90).is_ok());
    assert_eq!(fault(house.login("@bob@", "U:bob", 110)), expired());
    let bob = house.login("@bob@", "U:bob", 0).unwrap();
    assert!(bob.claims.unwrap().expires().is_some(), "and the connection ends with the token");
    assert!(house.login("@carol@", "U:carol", 0).is_ok());
    let late = fault(house.login("@carol@", "U:carol", 110));
    assert_eq!(late, ClaimsFault::NoAccount("account validation failed".to_owned()));
    assert!(matches!(fault(house.login("@early@", "U:early", 0)), ClaimsFault::NoLongerValid(_)));
    assert!(house.login("@early@", "U:early", 60).is_ok());
}

/// The chain from a user to an operator has no weak link: each is broken once.
#[test]
fn nobody_signs_for_another() {
    let house = House::with(&[
        r#"bob user by A:app for U:bob {}"#,
        r#"eve user by A:other for U:eve {"nats":{"issuer_account":"@key:A:app@"}}"#,
        r#"own user by A:eve for U:eve {"nats":{"issuer_account":"@key:A:app@"}}"#,
        r#"alien user by A:foreign for U:eve {}"#,
        r#"lost user by A:lost for U:eve {}"#,
        r#"fake user by A:app for U:bob {"iss":"@key:A:other@"}"#,
    ]);
    assert!(house.login("@bob@", "U:bob", 0).is_ok());
    assert_eq!(house.login("@bob@", "U:eve", 0).err(), Some(Reject::SignatureWrong));
    assert_eq!(fault(house.login("@eve@", "U:eve", 0)), ClaimsFault::UnknownIssuer);
    assert_eq!(fault(house.login("@own@", "U:eve", 0)), ClaimsFault::UnknownIssuer);
    assert!(matches!(fault(house.login("@alien@", "U:eve", 0)), ClaimsFault::NoAccount(_)));
    assert!(matches!(fault(house.login("@lost@", "U:eve", 0)), ClaimsFault::NoAccount(_)));
    assert_eq!(fault(house.login("@fake@", "U:bob", 0)), ClaimsFault::Missing, "not signed by its issuer");
    // The token of an account or an operator is none of a user.
    assert_eq!(fault(house.login("@app@", "U:bob", 0)), ClaimsFault::Missing);
}

/// CVE-2021-3127: an activation for one import was taken for another.
#[test]
fn cve_2021_3127_an_activation_is_for_one_import_only() {
    let house = House::with(&[
        r#"act activation by A:other for A:app {"nats":{"subject":"svc.>","kind":"service"}}"#,
        r#"forother activation by A:other for A:brief {"nats":{"subject":"svc.>","kind":"service"}}"#,
        r#"byother activation by A:brief for A:app {"nats":{"subject":"svc.>","kind":"service"}}"#,
        r#"stream activation by A:other for A:app {"nats":{"subject":"svc.>","kind":"stream"}}"#,
    ]);
    let issues = |subject: &str, activation: &str| {
        let import = format!(
            r#"{{"subject":"{subject}","account":"@key:A:other@","type":"service","token":"@{activation}@"}}"#
        );
        let order =
            format!(r#"importer account by O:op for A:app {{"nats":{{{LIMITS},"imports":[{import}]}}}}"#);
        let order = Order::parse(&house.text(&order)).unwrap();
        let token = Identities::issue(&[order]).unwrap().fill(b"@importer@").unwrap();
        let claims = jwt::account(&String::from_utf8(token).unwrap()).unwrap();
        claims.issues(claims.issued_at).first().map(str::to_owned)
    };
    assert_eq!(issues("svc.a", "act"), None);
    assert_eq!(
        issues("other.a", "act").as_deref(),
        Some("activation token import subject \"svc.>\" doesn't match import \"other.a\"")
    );
    assert_eq!(
        issues("svc.a", "forother").as_deref(),
        Some("activation token doesn't match account it is being included in, \"svc.a\"")
    );
    assert_eq!(
        issues("svc.a", "byother").as_deref(),
        Some("activation token doesn't match account for import \"svc.a\"")
    );
    assert_eq!(
        issues("svc.a", "stream").as_deref(),
        Some("mismatch between token import type stream and type of import service")
    );
}

/// SN 2026-05: a secret was shown as if it were a token.
#[test]
fn sn_2026_05_what_is_a_secret_is_not_shown() {
    let house = House::with(&[
        r#"bob user by A:app for U:bob {}"#,
        r#"bearer user by A:app for U:bea {"nats":{"bearer_token":true}}"#,
    ]);
    let (bob, bearer) = (house.text("@bob@"), house.text("@bearer@"));
    let shown = |token: &str, key: &str| house.login(token, key, 0).unwrap().claims.unwrap();
    assert_eq!(shown("@bob@", "U:bob").shown_token(), Some(bob.as_str()));
    let identity = house.login("@bearer@", "U:eve", 0).unwrap();
    let text = format!("{identity:?} {:?}", shown("@bearer@", "U:eve"));
    assert!(identity.claims.unwrap().shown_token().is_none());
    let credentials = Credentials { jwt: Some(Secret::new(bearer.clone())), ..Credentials::default() };
    assert!(!text.contains(&bearer) && !format!("{credentials:?}").contains(&bearer));
}

/// SN 2026-16 and 2026-24: users for those without credentials were a way around.
#[test]
fn sn_2026_16_and_24_nobody_is_somebody_in_operator_mode() {
    let house = House::with(&[r#"sentinel user by A:app for U:s {"nats":{"bearer_token":true}}"#]);
    assert!(house.config.anonymous(ConnectionType::Standard).is_none());
    let nothing = Credentials::default();
    let attempt = Attempt {
        credentials: &nothing,
        via: ConnectionType::Standard,
        nonce: NONCE,
        peer: [127, 0, 0, 1].into(),
        now: SystemTime::now(),
        entropy: &OsEntropy,
    };
    assert_eq!(fault(authenticate(&house.config, &attempt, &house).without_callout()), ClaimsFault::Missing);
    let trust = Trust::new([house.text("@key:O:op@")]);
    let trust = trust.with_sentinel(Some(Secret::new(house.text("@sentinel@"))));
    let config = AuthConfig::new(Method::Operator(Arc::new(trust)));
    let outcome = authenticate(&config, &attempt, &house).without_callout();
    assert!(outcome.is_ok(), "the sentinel, with a CONNECT");
    assert!(config.anonymous(ConnectionType::Standard).is_none(), "and without one nobody");
}

/// A class of attacks: what an account takes back is taken back for connections that are there,
/// too.
#[test]
fn what_is_taken_back_is_taken_back_at_once() {
    let house = House::with(&[
        r#"bob user by A:app for U:bob {"iat":1000}"#,
        r#"bearer user by A:app for U:bea {"nats":{"bearer_token":true}}"#,
        r#"key user by A:sk for U:key {"nats":{"issuer_account":"@key:A:keys@"}}"#,
    ]);
    let account = |fields: &str| {
        let order = format!(r#"next account by O:op for A:app {{"nats":{{{LIMITS}{fields}}}}}"#);
        let order = Order::parse(&house.text(&order)).unwrap();
        let token = Identities::issue(&[order]).unwrap().fill(b"@next@").unwrap();
        let (key, token) = (house.text("@key:A:app@"), String::from_utf8(token).unwrap());
        Arc::new(TrustedAccount::read(&key, &token, &house.trust, SystemTime::now()).unwrap())
    };
    let bob = house.login("@bob@", "U:bob", 0).unwrap().claims.unwrap();
    for (fields, stays) in [
        ("", true),
        (r#","revocations":{"@key:U:bob@":999}"#, true),
        (r#","revocations":{"@key:U:bob@":1000}"#, false),
        (r#","revocations":{"*":1000}"#, false),
        (r#","revocations":{"@key:U:other@":5000}"#, true),
    ] {
        assert_eq!(bob.under(&account(fields)).is_ok(), stays, "{fields}");
    }
    let bearer = house.login("@bearer@", "U:eve", 0).unwrap().claims.unwrap();
    assert!(bearer.under(&account("")).is_ok());
    let narrow = LIMITS.replace("\"leaf\":-1", "\"leaf\":-1,\"disallow_bearer\":true");
    let order = format!(r#"next account by O:op for A:app {{"nats":{{{narrow}}}}}"#);
    let token = Identities::issue(&[Order::parse(&order).unwrap()]).unwrap().fill(b"@next@").unwrap();
    let (key, token) = (house.text("@key:A:app@"), String::from_utf8(token).unwrap());
    let strict = TrustedAccount::read(&key, &token, &house.trust, SystemTime::now()).unwrap();
    assert!(bearer.under(&Arc::new(strict)).is_err());
}

fn permissions(allow: &[&str], deny: &[&str]) -> Permissions {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let rules = || Some(SubjectRules { allow: owned(allow), deny: owned(deny) });
    Permissions::new(None, rules(), None).expect("a test is well made")
}

/// CVE-2022-29946 and SN 2026-18: what was denied could be had as a member of a queue.
#[test]
fn cve_2022_29946_and_sn_2026_18_a_queue_is_no_way_around() {
    for deny in ["secret", "secret.>", "*", ">", "secret.*"] {
        let denied = permissions(&[], &[deny]);
        for subject in ["secret", "secret.a", "*", "secret.*", "secret.>", ">"] {
            for queue in [&b"q"[..], b"*", b">", b"secret"] {
                let plain = denied.can_subscribe(subject.as_bytes(), None);
                let grouped = denied.can_subscribe(subject.as_bytes(), Some(queue));
                assert!(plain || !grouped, "{deny}: {subject} {queue:?}");
                let plain = denied.can_deliver(subject.as_bytes(), None);
                assert_eq!(denied.can_deliver(subject.as_bytes(), Some(queue)), plain, "{deny}: {subject}");
            }
        }
    }
    // A rule for queues denies these, also where the queue of the rule has wildcards.
    let queues = permissions(&["a"], &["a q.*", "a dead"]);
    for (queue, allowed) in [("q.a", false), ("dead", false), ("q", true), ("alive", true)] {
        assert_eq!(queues.can_subscribe(b"a", Some(queue.as_bytes())), allowed, "{queue}");
        assert_eq!(queues.can_deliver(b"a", Some(queue.as_bytes())), allowed, "{queue}");
    }
    assert!(queues.can_subscribe(b"a", None));
}

/// SN 2026-17: a subscription with wildcards that overlaps with a deny rule got what the rule
/// denies.
#[test]
fn sn_2026_17_what_overlaps_with_a_deny_rule_is_filtered() {
    for (pattern, deny, subject) in [
        ("*.b", "a.*", "a.b"),
        ("a.*", "*.b", "a.b"),
        (">", "a.*.c", "a.b.c"),
        ("a.>", "*.b.>", "a.b.c"),
        ("*.*.c", "a.>", "a.b.c"),
        ("*", "a", "a"),
    ] {
        let rules = permissions(&[], &[deny]);
        assert!(rules.can_subscribe(pattern.as_bytes(), None), "{pattern} {deny}");
        assert!(rules.needs_delivery_filter(pattern.as_bytes()), "{pattern} {deny}");
        assert!(!rules.can_deliver(subject.as_bytes(), None), "{pattern} {deny}");
    }
}

/// SN 2026-13: a certificate was taken for a user whose name only resembles its own.
#[test]
fn sn_2026_13_a_distinguished_name_is_one_as_a_whole() {
    let name = |text: &str| DistinguishedName::parse(text);
    let user = name("CN=bob,OU=ops,O=acme").unwrap();
    assert_eq!(name("CN=bob, OU=ops, O=acme").as_ref(), Some(&user));
    for other in [
        "CN=bob",
        "CN=bob,OU=ops",
        "CN=bob,OU=ops,O=acme,C=DE",
        "CN=bob,OU=ops,O=acme,O=acme",
        "CN=bob,OU=ops\\,O=acme",
        "CN=bob\\,OU=ops,O=acme",
        "CN=bobby,OU=ops,O=acme",
        "CN=ops,OU=bob,O=acme",
        "CN=bob+OU=ops,O=acme",
    ] {
        assert_ne!(name(other).as_ref(), Some(&user), "{other}");
    }
}

/// Finding 2 of the audit: copies shared a map of connection types, so that one user's change was
/// another's.
#[test]
fn tob_nats_2_ways_in_are_each_users_own() {
    let standard: ConnectionTypes = [ConnectionType::Standard].into_iter().collect();
    let copy = standard;
    let both: ConnectionTypes = [ConnectionType::Standard, ConnectionType::Mqtt].into_iter().collect();
    assert!(copy.allow(ConnectionType::Standard) && !copy.allow(ConnectionType::Mqtt));
    assert!(both.allow(ConnectionType::Mqtt) && !standard.allow(ConnectionType::Mqtt));
}

/// Finding 3 of the audit: passwords were compared byte by byte. Here by digests of one length,
/// whatever was sent.
#[test]
fn tob_nats_3_secrets_agree_as_a_whole_or_not() {
    let stored = StoredSecret::parse("correct horse");
    for (given, agrees) in [
        ("correct horse", true),
        ("correct hors", false),
        ("correct horse ", false),
        ("Correct horse", false),
        ("", false),
        ("correct horse\0", false),
    ] {
        assert_eq!(stored.agrees_with(&Secret::new(given)), agrees, "{given:?}");
    }
    assert!(!format!("{stored:?}").contains("horse"));
}

/// A class of attacks: who is in the account of a callout service asks in the server's stead. Not
/// even when its account gets another token.
#[test]
fn nobody_asks_a_callout_service_but_the_server() {
    let rules = r#""authorization":{"auth_users":["@key:U:svc@"]}"#;
    let account = |name: &str, more: &str| {
        format!(r#"{name} account by O:op for A:app {{"name":"{more}","nats":{{{LIMITS},{rules}}}}}"#)
    };
    let house = House::with(&[]);
    let token = |order: &str| {
        let order = Order::parse(&house.text(order)).unwrap();
        String::from_utf8(Identities::issue(&[order]).unwrap().fill(b"@next@").unwrap()).unwrap()
    };
    let key = house.text("@key:A:app@");
    let read = |more: &str| {
        let token = token(&account("next", more));
        Arc::new(TrustedAccount::read(&key, &token, &house.trust, SystemTime::now()).unwrap())
    };
    struct One(Arc<TrustedAccount>);
    impl Accounts for One {
        fn account(&self, _: &str, _: SystemTime) -> Result<Arc<TrustedAccount>, String> {
            Ok(Arc::clone(&self.0))
        }
    }
    let ids = Identities::issue(&[
        Order::parse(r#"svc user by A:app for U:svc {}"#).unwrap(),
        Order::parse(r#"other user by A:app for U:other {}"#).unwrap(),
    ])
    .unwrap();
    let login = |name: &str| {
        let text = |what: String, sign: Option<(&str, &str)>| {
            String::from_utf8(ids.fill_signed(what.as_bytes(), sign).unwrap()).unwrap()
        };
        let signer = format!("U:{name}");
        let credentials = Credentials {
            jwt: Some(Secret::new(text(format!("@{name}@"), None))),
            sig: Some(text("@sig@".to_owned(), Some((&signer, NONCE)))),
            ..Credentials::default()
        };
        let attempt = Attempt {
            credentials: &credentials,
            via: ConnectionType::Standard,
            nonce: NONCE,
            peer: [127, 0, 0, 1].into(),
            now: SystemTime::now(),
            entropy: &OsEntropy,
        };
        authenticate(&house.config, &attempt, &One(read("one")))
    };
    let may_ask = |permissions: Option<Arc<Permissions>>| {
        permissions.is_none_or(|rules| rules.can_publish(b"$SYS.REQ.USER.AUTH"))
    };
    let service = login("svc").without_callout().unwrap();
    assert!(!may_ask(service.permissions.clone()) && service.permissions.unwrap().can_publish(b"a"));
    let later = service.claims.unwrap().under(&read("two")).unwrap();
    assert!(!may_ask(later.permissions()));
    assert!(matches!(login("other"), Decision::AskCallout(_)), "all others are asked about");
}

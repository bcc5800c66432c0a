//! Keys and tokens made by Go's libraries mean here what they mean there.

use myelin_auth::jwt::{self, ClaimedResponseType, ExportType, SigningKey};
use myelin_auth::{KeyPair, is_signed};
use myelin_stdx::base_n::{self, BASE64_URL};

const VECTORS: &str = include_str!("../vectors/go.txt");

fn vector(name: &str) -> &'static str {
    let lines = VECTORS.lines().filter_map(|line| line.split_once(' '));
    lines.filter(|(found, _)| *found == name).map(|(_, value)| value).next().expect("a vector of this name")
}

#[test]
fn a_key_signs_as_it_does_in_go() {
    let pair = KeyPair::from_seed(vector("user_seed")).unwrap();
    assert_eq!(pair.public(), vector("user_key"));
    let signature = base_n::decode(&pair.sign(b"nonce"), BASE64_URL).unwrap();
    let hex: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, vector("user_signature_of_nonce_hex"));
    assert!(is_signed(&pair.public(), b"nonce", &signature));
}

#[test]
fn an_operator() {
    let claims = jwt::operator(vector("operator")).unwrap();
    assert_eq!((claims.name.as_str(), claims.version()), ("Op", 2));
    assert_eq!(claims.issuer, claims.subject);
    assert!(claims.nats.strict_signing_key_usage && claims.nats.signing_keys.len() == 1);
    assert_eq!(claims.nats.assert_server_version, "2.15.0");
    assert!(claims.nats.system_account.starts_with('A'));
}

#[test]
fn an_account() {
    let claims = jwt::account(vector("account")).unwrap();
    let operator = jwt::operator(vector("operator")).unwrap();
    assert_eq!(claims.issuer, operator.nats.signing_keys[0]);
    assert_eq!(claims.issues(claims.issued_at).first(), None);
    assert_eq!((claims.name.as_str(), claims.account_tags()), ("Acc", &["zone:eu".to_owned()][..]));
    let account = &claims.nats;
    let limits = &account.limits;
    assert_eq!((limits.conn, limits.subs, limits.payload, limits.disallow_bearer), (10, 20, 30, true));
    let tier = limits.tiered_limits["R1"];
    assert_eq!((tier.mem_storage, tier.disk_storage, tier.streams, tier.consumer), (1, 2, 3, 4));
    let scopes = account.signing_keys.iter().filter_map(|key| match key {
        SigningKey::Scoped(scope) => Some(scope),
        SigningKey::Plain(_) => None,
    });
    let scopes: Vec<_> = scopes.collect();
    assert_eq!((account.signing_keys.len(), scopes.len(), scopes[0].role.as_str()), (2, 1, "role"));
    assert_eq!(scopes[0].template.publish.allow, ["a.{{name()}}"]);
    assert!(scopes[0].template.bearer_token && scopes[0].template.max_subscriptions() == -1);
    assert_eq!(account.revocations[vector("user_key")], 1000);
    assert_eq!(account.default_permissions.publish.deny, ["secret"]);
    let service = account.exports.iter().find(|export| export.kind == ExportType::Service).unwrap();
    assert_eq!(
        (service.response_type(), service.response_threshold),
        (ClaimedResponseType::Chunked, 1_000_000_000)
    );
    assert_eq!(service.service_latency.as_ref().unwrap().sampling, None);
    let stream = account.exports.iter().find(|export| export.kind == ExportType::Stream).unwrap();
    assert!(stream.token_req && stream.account_token_position == 2);
    let imported = account.imports.iter().find(|import| import.kind == ExportType::Service).unwrap();
    assert!(imported.share && imported.local_subject == "my.x");
    let activation = jwt::activation(&imported.token).unwrap();
    assert_eq!((activation.nats.subject.as_str(), activation.subject), ("svc.>", claims.subject.clone()));
    let weights: Vec<u8> = account.mappings["m.*"].iter().map(jwt::WeightedMapping::weight).collect();
    assert_eq!(weights, [60, 40, 100]);
    assert_eq!(account.trace.as_ref().unwrap().sampling, 25);
    assert_eq!(account.cluster_traffic, "owner");
}

#[test]
fn a_user() {
    let claims = jwt::user(vector("user")).unwrap();
    let account = jwt::account(vector("account")).unwrap();
    assert_eq!(claims.account(), account.subject);
    assert_eq!(claims.issues(claims.issued_at).first(), None);
    assert_eq!(
        (claims.subject.as_str(), claims.user_tags()),
        (vector("user_key"), &["dept:sales".to_owned()][..])
    );
    let may = &claims.nats.permissions;
    assert_eq!(
        (may.publish.allow.len(), may.publish.deny.len(), may.subscribe.allow[0].as_str()),
        (2, 1, "d q")
    );
    let responses = may.resp.unwrap();
    assert_eq!((responses.max, responses.ttl), (5, 60_000_000_000));
    assert_eq!((may.src.as_slice(), may.times.len()), (&["10.0.0.0/8".to_owned()][..], 1));
    assert_eq!((may.max_subscriptions(), may.max_payload(), may.bearer_token), (7, 8, true));
    assert!(!may.are_empty());
}

#[test]
fn a_scoped_user_says_nothing_itself() {
    let claims = jwt::user(vector("scoped_user")).unwrap();
    assert!(claims.nats.permissions.are_empty());
    assert!(!claims.nats.issuer_account.is_empty());
}

#[test]
fn version_one_is_read_as_go_reads_it() {
    let user = jwt::user(vector("user_v1")).unwrap();
    assert_eq!((user.name.as_str(), user.version(), user.user_tags()), ("Old", 1, &["t:1".to_owned()][..]));
    assert_eq!(user.nats.permissions.max_payload(), -1, "what it does not say has no limit");
    let account = jwt::account(vector("account_v1")).unwrap();
    assert_eq!((account.name.as_str(), account.nats.limits.conn), ("OldAcc", 3));
    assert_eq!(user.account(), account.subject);
    assert_eq!(user.issuer, account.nats.signing_keys[0].key());
}

#[test]
fn no_token_is_taken_for_another_kind_or_after_a_change() {
    for kind in ["operator", "account", "user", "activation", "user_v1", "account_v1"] {
        let token = vector(kind);
        let taken = [
            jwt::operator(token).is_ok(),
            jwt::account(token).is_ok(),
            jwt::user(token).is_ok(),
            jwt::activation(token).is_ok(),
        ];
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 1, "{kind}");
        let body = token.find('.').unwrap() + 1;
        let end = token.rfind('.').unwrap();
        for at in (body..token.len()).step_by(7).filter(|&at| at != end) {
            let other = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            let any = jwt::operator(&changed).is_ok() || jwt::account(&changed).is_ok();
            let any = any || jwt::user(&changed).is_ok() || jwt::activation(&changed).is_ok();
            // The last digit has bits that mean nothing.
            assert!(!any || at == token.len() - 1, "{kind} changed at {at}");
        }
    }
}

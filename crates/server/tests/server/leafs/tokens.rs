//! Tokens of accounts that are replaced, taken back or at their end while leaf nodes are linked.

use super::Site;
use super::operators::write_credentials;
use crate::callout::{hear, pair, publish};
use crate::eventually;
use crate::process::Setup;
use crate::raw::Raw;
use crate::resolving::{BEARER, OPEN, issued, login, text};
use crate::routes::{Ours, Reference, ServerKind, free_port, wait_for_interest};
use myelin_compat::identity::Identities;
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Claims of a user that may do whatever its account lets it.
const USER: &str = r#"{"nats":{"subs":-1,"data":-1,"payload":-1}}"#;
/// An end that has not come yet for whoever was issued before it.
const REVOKED: &str = "99999999999";

/// An operator with a system account and an account for applications, of which there are more
/// tokens: a name and what is in it beside the limits.
fn identities(app: &[(&str, &str)], more: &[String]) -> Identities {
    let account = |(name, claims): &(&str, &str)| format!("{name} account by O:op for A:app {claims}");
    let mut orders = vec![
        r#"op operator by O:op for O:op {"name":"op","nats":{"system_account":"@key:A:sys@"}}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"nats":{{{OPEN}}}}}"#),
        format!("admin user by A:sys for U:admin {BEARER}"),
    ];
    orders.extend(app.iter().map(account));
    orders.extend([
        format!("edge user by A:app for U:edge {USER}"),
        format!("bearer user by A:app for U:bearer {BEARER}"),
        format!("sentinel user by A:app for U:sentinel {BEARER}"),
        r#"bob user by A:app for U:bob {"nats":{"bearer_token":true,"subs":-1,"data":-1,"payload":-1,"pub":{"allow":[">"]},"sub":{"allow":[">"]}}}"#
            .to_owned(),
    ]);
    orders.extend_from_slice(more);
    issued(&orders)
}

/// Claims of an account with these beside its limits. `first`: at the beginning of its token.
fn claims(first: &str, more: &str) -> String {
    format!(r#"{{{first}"nats":{{{OPEN}{more}}}}}"#)
}

/// A hub that believes the operator and has the first token of the account.
fn hub(kind: ServerKind, ids: &Identities) -> Option<Site> {
    let port = free_port();
    let config = format!(
        "server_name: HUB\nleafnodes {{ listen: \"127.0.0.1:{port}\", compression: off }}\n\
         authorization {{ timeout: 5 }}\noperator: \"@op@\"\nsystem_account: @key:A:sys@\nresolver: MEMORY\n\
         resolver_preload {{\n@key:A:sys@: \"@sys@\"\n@key:A:app@: \"@app@\"\n}}\n"
    );
    Site::configured(Setup::default(), kind, &text(ids, &config), port)
}

/// A leaf node that logs in by the token of this user, and says nothing else.
fn played(hub: &Site, ids: &Identities, user: &str) -> Raw {
    let mut raw = Raw::open(SocketAddr::from(([127, 0, 0, 1], hub.port)));
    raw.send(&text(ids, &format!("CONNECT {{\"jwt\":\"@{user}@\",\"name\":\"EDGE\"}}\r\n")));
    raw
}

/// Gives the account another token.
fn push(hub: &Site, ids: &Identities, token: &str) {
    let (mut admin, answer) = login(&hub.server, ids, "admin");
    assert_eq!(answer, "PONG");
    admin.subscribe("r", 1);
    let (subject, token) =
        (text(ids, "$SYS.REQ.ACCOUNT.@key:A:app@.CLAIMS.UPDATE"), text(ids, &format!("@{token}@")));
    admin.send(&format!("PUB {subject} r {}\r\n{token}\r\n", token.len()));
    let answer = admin.message();
    assert!(answer.text().contains("\"code\":200"), "{}", answer.text());
}

/// Errors that a link is told until its end.
fn last_words(raw: Raw) -> String {
    let all = raw.rest();
    all.split_inclusive("\r\n").filter(|line| line.starts_with("-ERR")).collect()
}

/// No client of the account is at the hub, which is usual.
#[test]
fn a_revocation_ends_the_link_of_an_account_without_clients() {
    let free = claims("", "");
    let revoked = claims("", &format!(r#","revocations":{{"@key:U:bearer@":{REVOKED}}}"#));
    let strict = free.replacen("\"subs\":-1,", "\"subs\":-1,\"disallow_bearer\":true,", 1);
    let ids = identities(&[("app", &free), ("revoked", &revoked), ("strict", &strict)], &[]);
    for kind in [Ours, Reference] {
        for (token, said) in [
            ("revoked", "-ERR 'User Authentication Revoked'\r\n"),
            ("strict", "-ERR 'Authorization Violation'\r\n"),
        ] {
            let Some(hub) = hub(kind, &ids) else { continue };
            let leaf = played(&hub, &ids, "bearer");
            hub.linked(1);
            push(&hub, &ids, token);
            assert_eq!(last_words(leaf), said, "{kind:?} {token}");
            hub.linked(0);
        }
    }
}

/// The account's key that signed is taken away, or users are revoked.
#[test]
fn those_whom_a_service_has_let_in_go_with_what_let_them_in() {
    let service = r#","authorization":{"auth_users":["@key:U:bob@"]}"#;
    let with = |more: &str| claims("", &format!("{service}{more}"));
    let signing = |keys: &str| with(&format!(r#","signing_keys":[{keys}]"#));
    let revoked = format!(r#","signing_keys":["@key:A:signer@"],"revocations":{{"*":{REVOKED}}}"#);
    let tokens =
        [("app", &signing(r#""@key:A:signer@""#)), ("unsigned", &with("")), ("revoked", &with(&revoked))];
    let tokens = tokens.map(|(name, claims)| (name, claims.as_str()));
    let ids = identities(&tokens, &[]);
    for kind in [Ours, Reference] {
        for (token, said) in [("unsigned", ""), ("revoked", "-ERR 'User Authentication Revoked'\r\n")] {
            let Some(hub) = hub(kind, &ids) else { continue };
            let (mut asked, _) = login(&hub.server, &ids, "bob");
            asked.subscribe("$SYS.REQ.USER.AUTH", 1);
            asked.barrier();
            let leaf = played(&hub, &ids, "sentinel");
            let question = hear(&mut asked, None);
            let free = json!({
                "name": "leaf", "iat": 1_700_000_000,
                "nats": { "issuer_account": text(&ids, "@key:A:app@"), "subs": -1, "data": -1, "payload": -1 },
            });
            let answer = question.admit(&pair(&ids, "A:app"), &pair(&ids, "A:signer"), free);
            publish(&mut asked, &question.reply, answer.as_bytes());
            hub.linked(1);
            push(&hub, &ids, token);
            assert_eq!(last_words(leaf), said, "{kind:?} {token}");
            hub.linked(0);
        }
    }
}

/// Subjects of the messages that have come to a client when one of `open` has.
fn heard(publisher: &mut Raw, subscriber: &mut Raw) -> Vec<String> {
    let mut heard = Vec::new();
    eventually("a message that nobody forbids", || {
        publisher.send("PUB secret 1\r\nx\r\nPUB open 1\r\nx\r\n");
        publisher.barrier();
        heard.extend(subscriber.barrier().into_iter().map(|message| message.subject));
        heard.iter().any(|subject| subject == "open")
    });
    heard
}

/// Compat: the reference takes them over at a hub, too, but in one direction only. There is no
/// other link for that.
#[test]
fn other_default_permissions_hold_for_links_that_are_there() {
    let defaults = |deny: &str| {
        let deny = format!(r#"{{"allow":[">"],"deny":[{deny}]}}"#);
        claims("", &format!(r#","default_permissions":{{"pub":{deny},"sub":{deny}}}"#))
    };
    let (open, closed, free) = (defaults(""), defaults("\"secret\""), claims("", ""));
    let ids = identities(&[("app", &open), ("closed", &closed), ("free", &free)], &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("edge.creds");
    write_credentials(&ids, "edge", &file);
    for kind in [Ours, Reference] {
        let Some(hub) = hub(Ours, &ids) else { continue };
        let remote = format!(
            "compression: off\nremotes: [{{ url: \"nats://127.0.0.1:{}\", credentials: {file:?} }}]",
            hub.port
        );
        let Some(leaf) = Site::start(kind, "EDGE", None, &remote, "") else { continue };
        hub.linked(1);
        leaf.linked(1);
        let id = hub.links()[0]["id"].clone();
        let ((mut far, _), mut near) = (login(&hub.server, &ids, "bob"), leaf.client());
        for client in [&mut far, &mut near] {
            client.send("SUB secret 1\r\nSUB open 2\r\n");
            client.barrier();
        }
        wait_for_interest(&mut near, &mut far);
        wait_for_interest(&mut far, &mut near);
        let forgotten = |heard: Vec<String>| heard.iter().all(|subject| subject == "open");
        push(&hub, &ids, "closed");
        eventually("the hub says nothing of it", || forgotten(heard(&mut far, &mut near)));
        // The leaf node was told before that.
        assert!(forgotten(heard(&mut near, &mut far)), "{kind:?}");
        push(&hub, &ids, "free");
        eventually("the hub says all again", || !forgotten(heard(&mut far, &mut near)));
        eventually("the leaf node says all again", || !forgotten(heard(&mut near, &mut far)));
        assert_eq!(hub.links()[0]["id"], id, "{kind:?}: it is the same link");
    }
}

/// The end of an account is that of its present token.
#[test]
fn a_renewed_account_ends_later_or_earlier() {
    let (soon, late, never) =
        (claims("\"exp\":\"+3\",", ""), claims("\"exp\":\"+3600\",", ""), claims("", ""));
    for kind in [Ours, Reference] {
        let ids = identities(&[("app", &soon), ("late", &late)], &[]);
        let end = Instant::now() + Duration::from_secs(4);
        let Some(hub) = hub(kind, &ids) else { continue };
        let mut leaf = played(&hub, &ids, "bearer");
        hub.linked(1);
        push(&hub, &ids, "late");
        eventually("the end of the first token is over", || Instant::now() > end);
        leaf.send("PING\r\n");
        eventually("the link is there", || leaf.line() == "PONG");
        hub.linked(1);
    }
    for kind in [Ours, Reference] {
        let ids = identities(&[("app", &never), ("soon", &soon)], &[]);
        let Some(hub) = hub(kind, &ids) else { continue };
        let leaf = played(&hub, &ids, "bearer");
        hub.linked(1);
        push(&hub, &ids, "soon");
        assert_eq!(last_words(leaf), "-ERR 'Account Authentication Expired'\r\n", "{kind:?}");
        hub.linked(0);
    }
}

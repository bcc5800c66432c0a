//! Credentials of WebSocket clients: cookies, the block's own rules, kinds of connections.

use super::peer::Peer;
use super::{address, server, servers};
use crate::raw::Raw;
use myelin_compat::identity::{Identities, Order};

const USERS: &str = "accounts { A { users [ {user: a, password: p}, \
                     {user: w, password: p, allowed_connection_types: [WEBSOCKET]}, \
                     {user: s, password: p, allowed_connection_types: [STANDARD]} ] } }\n";

const SENT_AWAY: Option<&str> = None;

/// Headers of the upgrade, fields of CONNECT, and the client's user then; `None` if it is sent
/// away.
type Row = (&'static str, &'static str, Option<&'static str>);

fn check(block: &str, around: &str, rows: &[Row]) {
    for server in &servers(block, around) {
        for (headers, fields, expected) in rows {
            let mut peer = Peer::open(address(server), headers);
            let id = peer.info()["client_id"].clone();
            peer.say(&format!("CONNECT {{\"verbose\":false{fields}}}\r\nPING\r\n"));
            let Some(user) = expected else {
                let rest = peer.rest();
                let lines = rest.lines();
                assert_eq!(lines, ["-ERR 'Authorization Violation'"], "{block} {headers} {fields}");
                assert_eq!(rest.closed_with(), Some((1008, "Authentication Failure".to_owned())));
                continue;
            };
            assert_eq!(peer.line(), "PONG", "{block} {headers} {fields}");
            let page = server.page(&format!("/connz?auth=1&cid={id}"));
            let conn = &page["connections"][0];
            assert_eq!(conn["type"], "websocket", "{page}");
            assert_eq!(conn["authorized_user"].as_str().unwrap_or_default(), *user, "{headers} {fields}");
        }
    }
}

#[test]
fn cookies_stand_for_what_connect_leaves_out() {
    check(
        "user_cookie: u, pass_cookie: p",
        USERS,
        &[
            ("Cookie: u=a; p=p\r\n", "", Some("a")),
            ("Cookie: x=y; u=\"a\"\r\nCookie: p=p\r\n", "", Some("a")),
            ("Cookie: u=x; p=y\r\n", ",\"user\":\"a\",\"pass\":\"p\"", Some("a")),
            ("Cookie: u=x; p=p\r\n", ",\"user\":\"a\"", Some("a")),
            ("Cookie: u=a; p=x\r\n", "", SENT_AWAY),
            ("Cookie: u=a; p=p\r\n", ",\"pass\":\"x\"", SENT_AWAY),
            ("Cookie: u=a\r\n", "", SENT_AWAY),
            ("", "", SENT_AWAY),
        ],
    );
    check(
        "token_cookie: t",
        "authorization { token: secret }",
        &[
            ("Cookie: t=secret\r\n", "", Some("[REDACTED]")),
            ("Cookie: t=x\r\n", ",\"auth_token\":\"secret\"", Some("[REDACTED]")),
            ("Cookie: t=secret\r\n", ",\"auth_token\":\"x\"", SENT_AWAY),
        ],
    );
}

#[test]
fn some_users_may_come_this_way_only() {
    check(
        "",
        USERS,
        &[
            ("", ",\"user\":\"w\",\"pass\":\"p\"", Some("w")),
            ("", ",\"user\":\"a\",\"pass\":\"p\"", Some("a")),
            ("", ",\"user\":\"s\",\"pass\":\"p\"", SENT_AWAY),
        ],
    );
    let server = server("", USERS);
    for (user, fine) in [("s", true), ("a", true), ("w", false)] {
        let mut raw = Raw::open(server.address());
        raw.send(&format!("CONNECT {{\"verbose\":false,\"user\":\"{user}\",\"pass\":\"p\"}}\r\nPING\r\n"));
        assert_eq!(raw.line() == "PONG", fine, "{user}");
    }
}

#[test]
fn the_block_has_rules_of_its_own() {
    // Nobody without credentials but here, and no users but those of all.
    check(
        "no_auth_user: w",
        USERS,
        &[
            ("", "", Some("w")),
            ("", ",\"user\":\"a\",\"pass\":\"p\"", Some("a")),
            ("", ",\"user\":\"a\",\"pass\":\"x\"", SENT_AWAY),
        ],
    );
    // A `no_auth_user` for all counts here too, unless the block has any rules.
    check("", &format!("{USERS}no_auth_user: a"), &[("", "", Some("a"))]);
    check("no_auth_user: w", &format!("{USERS}no_auth_user: a"), &[("", "", Some("w"))]);
    for around in ["", "authorization { user: b, password: q }", "authorization { token: q }"] {
        check(
            "authorization { user: a, password: p }",
            around,
            &[
                ("", ",\"user\":\"a\",\"pass\":\"p\"", Some("a")),
                ("", ",\"user\":\"b\",\"pass\":\"q\"", SENT_AWAY),
                ("", ",\"auth_token\":\"q\"", SENT_AWAY),
                ("", "", SENT_AWAY),
            ],
        );
        check(
            "authorization { token: t }",
            around,
            &[
                ("", ",\"auth_token\":\"t\"", Some("[REDACTED]")),
                ("", ",\"auth_token\":\"q\"", SENT_AWAY),
                ("", "", SENT_AWAY),
            ],
        );
    }
}

#[test]
fn rules_of_websocket_are_not_those_of_clients() {
    let server = server("authorization { user: a, password: p }", "");
    let mut raw = Raw::connect(&server);
    raw.barrier();
    assert_eq!(Peer::open(address(&server), "").info()["auth_required"], true);
}

#[test]
fn info_asks_for_credentials_as_the_reference_does() {
    for (block, around, expected) in [
        ("", "", None),
        ("", USERS, Some(true)),
        ("no_auth_user: w", USERS, Some(true)),
        ("", "accounts { A { users [ {user: a, password: p} ] } }\nno_auth_user: a", Some(true)),
        ("authorization { token: t }", "", Some(true)),
    ] {
        for server in &servers(block, around) {
            let info = Peer::open(address(server), "").info();
            assert_eq!(info["auth_required"].as_bool(), expected, "{block} {around}");
        }
    }
}

#[test]
fn the_block_has_a_time_of_its_own() {
    for server in
        &servers("authorization { timeout: 0.2 }", "authorization { user: a, password: p, timeout: 60 }")
    {
        let rest = Peer::open(address(server), "").rest();
        assert_eq!(rest.lines(), ["-ERR 'Authentication Timeout'"]);
        assert_eq!(rest.closed_with(), Some((1008, "Authentication Timeout".to_owned())));
    }
}

#[test]
fn a_cookie_may_be_a_token() {
    let limits = r#""subs":-1,"data":-1,"payload":-1"#;
    let open = format!(
        r#"{{"limits":{{{limits},"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}}}}"#
    );
    let orders = [
        r#"op operator by O:op for O:op {"name":"op","nats":{"system_account":"@key:A:sys@"}}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"name":"SYS","nats":{open}}}"#),
        format!(r#"app account by O:op for A:app {{"name":"APP","nats":{open}}}"#),
        format!(r#"bea user by A:app for U:bea {{"nats":{{{limits},"bearer_token":true}}}}"#),
        format!(r#"bob user by A:app for U:bob {{"nats":{{{limits}}}}}"#),
    ];
    let orders: Vec<_> = orders.iter().map(|order| Order::parse(order).unwrap()).collect();
    let ids = Identities::issue(&orders).unwrap();
    let text = |text: &str| String::from_utf8(ids.fill(text.as_bytes()).unwrap()).unwrap();
    let around = text(
        "operator: \"@op@\"\nresolver: MEM\nresolver_preload {\n@key:A:sys@: \"@sys@\"\n@key:A:app@: \"@app@\"\n}\n",
    );
    for server in &servers("jwt_cookie: token", &around) {
        let mut peer = Peer::open(address(server), &text("Cookie: token=@bea@\r\n"));
        peer.greet("");
        let user = &server.page("/connz?auth=1")["connections"][0]["authorized_user"];
        assert_eq!(*user, text("@key:U:bea@"));
        // Who is no bearer has to sign, and who has nothing is nobody.
        for cookies in ["Cookie: token=@bob@\r\n", "Cookie: token=x\r\n", ""] {
            let mut peer = Peer::open(address(server), &text(cookies));
            peer.info();
            peer.say("CONNECT {\"verbose\":false}\r\nPING\r\n");
            assert_eq!(peer.rest().lines(), ["-ERR 'Authorization Violation'"], "{cookies}");
        }
    }
}

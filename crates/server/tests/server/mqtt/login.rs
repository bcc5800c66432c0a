//! Credentials of MQTT clients in all their forms.

use super::peer::{Peer, hello};
use super::{address, servers};
use crate::callout::{AUTH, configured, hear, service};
use crate::process::Server;
use myelin_compat::identity::{Identities, Order};
use myelin_mqtt::packet::{ClientPacket, ConnectPacket, ReasonCode};

const NOT_AUTHORIZED: Option<&str> = None;

/// User and password, and the user that the client is then; `None` if it is sent away.
type Row = (Option<&'static str>, Option<&'static str>, Option<&'static str>);

/// Logs in; the user by `/connz`, nothing if the client is sent away.
fn login(server: &Server, user: Option<&str>, password: Option<&str>) -> Option<String> {
    let connect = ConnectPacket { user_name: user, password: password.map(str::as_bytes), ..hello("login") };
    let mut peer = Peer::dial(address(server));
    let reason = peer.greet(&connect);
    if reason != Some(ReasonCode::Success) {
        assert_eq!(reason, Some(ReasonCode::NotAuthorized));
        assert_eq!(peer.rest(), b"");
        return None;
    }
    let page = server.page("/connz?auth=1&mqtt_client=login");
    let user = page["connections"][0]["authorized_user"].as_str().unwrap_or_default().to_owned();
    peer.disconnect();
    peer.rest();
    Some(user)
}

fn check(block: &str, around: &str, rows: &[Row]) {
    for server in &servers(block, around) {
        for (user, password, expected) in rows {
            let came = login(server, *user, *password);
            assert_eq!(came.as_deref(), *expected, "{block} {around} {user:?} {password:?}");
        }
    }
}

#[test]
fn the_rules_of_clients_hold() {
    check("", "", &[(None, None, Some("")), (Some("u"), Some("p"), Some("u"))]);
    let rows = [
        (Some("u"), Some("p"), Some("u")),
        (Some("u"), Some("x"), NOT_AUTHORIZED),
        (Some("u"), None, NOT_AUTHORIZED),
        (None, None, NOT_AUTHORIZED),
    ];
    check("", "authorization { user: u, password: p }", &rows);
    let rows = [
        (Some("anybody"), Some("secret"), Some("anybody")),
        (Some("anybody"), Some("x"), NOT_AUTHORIZED),
        (None, None, NOT_AUTHORIZED),
    ];
    check("", "authorization { token: secret }", &rows);
    let users = "authorization { users: [ {user: u, password: p}, \
                 {user: m, password: p, allowed_connection_types: [mqtt]}, \
                 {user: s, password: p, allowed_connection_types: [STANDARD]} ] }\n";
    let rows = [
        (Some("u"), Some("p"), Some("u")),
        (Some("m"), Some("p"), Some("m")),
        (Some("s"), Some("p"), NOT_AUTHORIZED),
        (None, None, NOT_AUTHORIZED),
    ];
    check("", users, &rows);
    let rows = [(None, None, Some("u")), (Some("m"), Some("x"), NOT_AUTHORIZED)];
    check("", &format!("{users}no_auth_user: u"), &rows);
    check("no_auth_user: m", users, &[(None, None, Some("m")), (Some("u"), Some("p"), Some("u"))]);
}

#[test]
fn the_block_has_rules_of_its_own() {
    let clients = "authorization { user: c, password: c }";
    let rows = [
        (Some("m"), Some("p"), Some("m")),
        (Some("c"), Some("c"), NOT_AUTHORIZED),
        (None, None, NOT_AUTHORIZED),
    ];
    check("authorization { user: m, password: p }", clients, &rows);
    let rows = [(Some("x"), Some("t"), Some("x")), (Some("c"), Some("c"), NOT_AUTHORIZED)];
    check("authorization { token: t }", clients, &rows);
}

/// 2026-05: a token in the password is not shown, and nothing else is taken for one.
#[test]
fn a_token_may_be_in_the_password() {
    let orders = [
        r#"op operator by O:op for O:op {}"#,
        r#"sys account by O:op for A:sys {}"#,
        r#"app account by O:op for A:app {"nats":{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1,"mem_storage":-1,"disk_storage":-1,"streams":-1,"consumer":-1}}}"#,
        r#"bea user by A:app for U:bea {"nats":{"bearer_token":true,"subs":-1,"data":-1,"payload":-1}}"#,
        r#"bob user by A:app for U:bob {"nats":{"subs":-1,"data":-1,"payload":-1}}"#,
    ];
    let orders: Vec<_> = orders.iter().map(|order| Order::parse(order).expect("an order")).collect();
    let ids = Identities::issue(&orders).expect("tokens");
    let text = |text: &str| String::from_utf8(ids.fill(text.as_bytes()).expect("known")).expect("text");
    let around = text(
        "operator: \"@op@\"\nsystem_account: @key:A:sys@\nresolver: MEM\nresolver_preload {\n\
         @key:A:sys@: \"@sys@\"\n@key:A:app@: \"@app@\"\n}\n",
    );
    let (bearer, signer) = (text("@bea@"), text("@bob@"));
    for server in &servers("", &around) {
        assert_eq!(login(server, Some("any"), Some(&bearer)), Some("any".to_owned()));
        assert_eq!(login(server, Some("any"), Some(&signer)), None);
        assert_eq!(login(server, Some("any"), Some("no token")), None);
        assert_eq!(login(server, None, None), None);
        assert!(!server.log().contains(&bearer[40..]), "a token is not for the log");
    }
}

/// The log says who it was, and never the password.
#[test]
fn who_is_sent_away_is_named() {
    for server in &servers("", "authorization { user: u, password: secret }") {
        assert_eq!(login(server, Some("eve"), Some("hidden")), None);
        server.wait_for_log("\"login\" - authentication error - User \"eve\"");
        server.wait_for_log("<<- [CONNECT clientID=login clean username=eve password=****]");
        server.wait_for_log("->> [CONNACK sp=false rc=5]");
        server.wait_for_close("Authentication Failure");
        assert!(!server.log().contains("hidden"));
    }
}

/// A callout service of the configuration sees the token as one, and as the password.
#[test]
fn a_token_in_the_password_is_for_a_callout_service() {
    let order = |text: &str| Order::parse(text).expect("a test is well made");
    let orders = [r#"app account by A:app for A:app {"nats":{}}"#, r#"u user by A:app for U:u {"nats":{}}"#];
    let ids = Identities::issue(&orders.map(order)).expect("a test is well made");
    let token = String::from_utf8(ids.fill(b"@u@").expect("a test is well made")).expect("a token");
    for server in &servers("", &configured("", 5)) {
        let mut asked = service(server, AUTH);
        let mut peer = Peer::dial(address(server));
        let connect =
            ConnectPacket { user_name: Some("x"), password: Some(token.as_bytes()), ..hello("login") };
        peer.send(&ClientPacket::Connect(connect));
        let question = hear(&mut asked, None);
        let connect = question.claim("connect_opts");
        assert_eq!((&connect["jwt"], &connect["pass"]), (&token.as_str().into(), &token.as_str().into()));
    }
}

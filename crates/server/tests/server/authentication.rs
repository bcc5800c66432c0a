//! Authentication of clients, and accounts that do not see one another.

use crate::client::{connect, settle};
use crate::process::{Server, Setup};
use crate::raw::Raw;
use crate::soon;
use async_nats::{ConnectErrorKind, ConnectOptions};
use futures_util::{FutureExt as _, StreamExt as _};

/// bcrypt of `s3cret` at the lowest cost there is.
const HASH: &str = "$2a$04$9UpCYmgpngibC5TWIA1N5..UW.EEjCWuiBFMXI5dPyz4m6OwM6zay";

async fn is_refused(server: &Server, options: ConnectOptions) {
    let error = soon("a refusal", options.connect(server.url())).await.expect_err("not welcome");
    assert_eq!(error.kind(), ConnectErrorKind::AuthorizationViolation, "{error}");
}

async fn is_taken(server: &Server, options: ConnectOptions) {
    let (client, _events) = connect(server, options).await;
    settle(&client).await;
}

fn user(name: &str, password: &str) -> ConnectOptions {
    ConnectOptions::with_user_and_password(name.into(), password.into())
}

#[tokio::test]
async fn a_user_needs_the_right_password() {
    let server = Setup::default().flags(&["--user", "ann", "--pass", "s3cret"]).start();
    is_taken(&server, user("ann", "s3cret")).await;
    is_refused(&server, user("ann", "wrong")).await;
    is_refused(&server, user("bob", "s3cret")).await;
    is_refused(&server, ConnectOptions::new()).await;
    server.wait_for_close("Authentication Failure");
}

#[tokio::test]
async fn a_token_opens_the_door() {
    let server = Setup::default().flags(&["--auth", "t0ken"]).start();
    is_taken(&server, ConnectOptions::with_token("t0ken".into())).await;
    is_refused(&server, ConnectOptions::with_token("token".into())).await;
    is_refused(&server, ConnectOptions::new()).await;
}

#[tokio::test]
async fn a_hashed_password_is_checked_beside_the_traffic() {
    let users = format!("authorization {{ users: [ {{user: ann, password: \"{HASH}\"}} ] }}");
    let server = Server::with_config(&users);
    is_taken(&server, user("ann", "s3cret")).await;
    is_refused(&server, user("ann", "wrong")).await;
    is_refused(&server, user("ann", HASH)).await;
}

#[tokio::test]
async fn what_follows_connect_waits_for_a_slow_check() {
    let users = format!("authorization {{ users: [ {{user: ann, password: \"{HASH}\"}} ] }}");
    let server = Server::with_config(&users);
    let mut raw = Raw::open(server.address());
    raw.send("CONNECT {\"verbose\":false,\"pedantic\":false,\"user\":\"ann\",\"pass\":\"s3cret\"}\r\n");
    raw.send("SUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n");
    let messages = raw.until_pong();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].text(), "hi");
}

#[tokio::test]
async fn a_slow_check_that_fails_runs_nothing_of_what_follows() {
    let users = format!(
        "authorization {{ users: [ {{user: ann, password: \"{HASH}\"}}, {{user: bob, password: b}} ] }}"
    );
    let server = Server::with_config(&users);
    let (bob, _events) = connect(&server, user("bob", "b")).await;
    let mut sub = bob.subscribe("a").await.unwrap();
    settle(&bob).await;
    let mut raw = Raw::open(server.address());
    raw.send("CONNECT {\"verbose\":false,\"user\":\"ann\",\"pass\":\"wrong\"}\r\nPUB a 2\r\nhi\r\nPING\r\n");
    assert_eq!(raw.rest(), "-ERR 'Authorization Violation'\r\n");
    settle(&bob).await;
    assert!(sub.next().now_or_never().is_none());
}

#[tokio::test]
async fn a_user_may_take_the_ways_in_that_are_listed() {
    let server = Server::with_config(
        "authorization { users: [ {user: web, password: w, allowed_connection_types: [websocket, MQTT]}, \
         {user: tcp, password: t, clients: Standard}, {user: any, password: a, connection_types: []} ] }",
    );
    is_refused(&server, user("web", "w")).await;
    is_taken(&server, user("tcp", "t")).await;
    is_taken(&server, user("any", "a")).await;
    let mut raw = Raw::open(server.address());
    raw.send("CONNECT {\"verbose\":false,\"user\":\"web\",\"pass\":\"w\"}\r\nPING\r\n");
    assert_eq!(raw.rest(), "-ERR 'Authorization Violation'\r\n");
}

#[tokio::test]
async fn accounts_do_not_see_one_another() {
    let server = Server::with_config(
        "accounts { A { users: [ {user: a, password: a} ] }, B { users: [ {user: b, password: b} ] } }",
    );
    let ((a, _a_events), (b, _b_events)) =
        (connect(&server, user("a", "a")).await, connect(&server, user("b", "b")).await);
    let mut heard_by_a = a.subscribe("same.>").await.unwrap();
    let mut heard_by_b = b.subscribe("same.>").await.unwrap();
    settle(&a).await;
    settle(&b).await;
    a.publish("same.subject", "of a".into()).await.unwrap();
    b.publish("same.subject", "of b".into()).await.unwrap();
    settle(&a).await;
    settle(&b).await;
    a.publish("same.end", "".into()).await.unwrap();
    b.publish("same.end", "".into()).await.unwrap();
    for (sub, body) in [(&mut heard_by_a, "of a"), (&mut heard_by_b, "of b")] {
        let message = soon("a message", sub.next()).await.unwrap();
        assert_eq!((message.subject.as_str(), &message.payload[..]), ("same.subject", body.as_bytes()));
        let end = soon("a message", sub.next()).await.unwrap();
        assert_eq!(end.subject.as_str(), "same.end");
    }
}

#[tokio::test]
async fn an_account_serves_its_own_requests_only() {
    let server = Server::with_config(
        "accounts { A { users: [ {user: a, password: a} ] }, B { users: [ {user: b, password: b} ] } }",
    );
    let (a, _a_events) = connect(&server, user("a", "a")).await;
    let (b, _b_events) = connect(&server, user("b", "b")).await;
    let mut service = a.subscribe("service").await.unwrap();
    settle(&a).await;
    let error = soon("an error", b.request("service", "x".into())).await.unwrap_err();
    assert_eq!(error.kind(), async_nats::RequestErrorKind::NoResponders);
    assert!(service.next().now_or_never().is_none());
}

//! The official Rust client against the built program: what an application does.

use crate::process::Server;
use crate::soon;
use async_nats::{Client, ConnectOptions, Event, HeaderMap, RequestErrorKind, ServerError, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use rustix::process::Signal;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A client, and its events as they come.
pub(crate) async fn connect(server: &Server, options: ConnectOptions) -> (Client, UnboundedReceiver<Event>) {
    let (sender, events) = unbounded_channel();
    let options =
        options.reconnect_delay_callback(|_| Duration::from_millis(20)).event_callback(move |event| {
            let sender = sender.clone();
            async move {
                // The test may be over already.
                let _ = sender.send(event);
            }
        });
    (soon("connecting", options.connect(server.url())).await.expect("welcome"), events)
}

/// A client whose events do not matter.
pub(crate) async fn plain(server: &Server) -> Client {
    connect(server, ConnectOptions::new()).await.0
}

/// Waits for an event that `wanted` accepts.
pub(crate) async fn event(events: &mut UnboundedReceiver<Event>, wanted: impl Fn(&Event) -> bool) -> Event {
    let mut seen = Vec::new();
    let search = async {
        while let Some(event) = events.recv().await {
            if wanted(&event) {
                return Some(event);
            }
            seen.push(event);
        }
        None
    };
    match tokio::time::timeout(crate::PATIENCE, search).await {
        Ok(Some(event)) => event,
        _ => panic!("the event did not come, only {seen:?}"),
    }
}

/// Waits until the server has done what the client said so far: `flush` only writes the socket.
pub(crate) async fn settle(client: &Client) {
    let error = soon("an answer", client.request("nobody.is.there", "".into())).await.expect_err("nobody");
    assert_eq!(error.kind(), RequestErrorKind::NoResponders);
}

async fn next(sub: &mut Subscriber) -> async_nats::Message {
    soon("a message", sub.next()).await.expect("the subscription is alive")
}

/// Answers every request on `subject` with what came, until the client ends.
async fn echo_service(client: &Client, subject: &'static str) {
    let mut sub = client.subscribe(subject).await.expect("connected");
    let client = client.clone();
    settle(&client).await;
    tokio::spawn(async move {
        while let Some(request) = sub.next().await {
            if let Some(reply) = request.reply {
                client.publish(reply, request.payload).await.expect("connected");
            }
        }
    });
}

#[tokio::test]
async fn a_message_reaches_its_subscriber_and_nobody_else() {
    let server = Server::start();
    let (publisher, subscriber) = (plain(&server).await, plain(&server).await);
    let mut wanted = subscriber.subscribe("orders.new").await.unwrap();
    let mut other = subscriber.subscribe("orders.old").await.unwrap();
    settle(&subscriber).await;
    publisher.publish("orders.new", "one".into()).await.unwrap();
    publisher.publish("orders.old", "two".into()).await.unwrap();
    let message = next(&mut wanted).await;
    assert_eq!((message.subject.as_str(), &message.payload[..]), ("orders.new", &b"one"[..]));
    assert_eq!(&next(&mut other).await.payload[..], b"two");
}

#[tokio::test]
async fn wildcards_match_tokens() {
    let server = Server::start();
    let client = plain(&server).await;
    let mut star = client.subscribe("a.*.c").await.unwrap();
    let mut rest = client.subscribe("a.>").await.unwrap();
    for subject in ["a.b.c", "a.b", "a", "b.b.c", "a.x.c", "a.b.c.d"] {
        client.publish(subject, "x".into()).await.unwrap();
    }
    settle(&client).await;
    for expected in ["a.b.c", "a.x.c"] {
        assert_eq!(next(&mut star).await.subject.as_str(), expected);
    }
    for expected in ["a.b.c", "a.b", "a.x.c", "a.b.c.d"] {
        assert_eq!(next(&mut rest).await.subject.as_str(), expected);
    }
}

#[tokio::test]
async fn a_request_is_answered() {
    let server = Server::start();
    let (service, client) = (plain(&server).await, plain(&server).await);
    echo_service(&service, "echo").await;
    for size in [0, 1, 1000, 100_000] {
        let payload = vec![b'x'; size];
        let answer = soon("an answer", client.request("echo", payload.clone().into())).await.unwrap();
        assert_eq!(answer.payload, payload);
    }
}

#[tokio::test]
async fn many_requests_at_once_each_get_their_own_answer() {
    let server = Server::start();
    let (service, client) = (plain(&server).await, plain(&server).await);
    echo_service(&service, "echo").await;
    let requests = (0..500).map(|i| client.request("echo", format!("request {i}").into()));
    let answers = soon("answers", futures_util::future::join_all(requests)).await;
    for (i, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap().payload, format!("request {i}"));
    }
}

#[tokio::test]
async fn headers_arrive_as_they_were_sent() {
    let server = Server::start();
    let (publisher, subscriber) = (plain(&server).await, plain(&server).await);
    let mut sub = subscriber.subscribe("headers").await.unwrap();
    settle(&subscriber).await;
    let mut headers = HeaderMap::new();
    headers.insert("Trace", "abc");
    headers.append("Many", "1");
    headers.append("Many", "2");
    publisher.publish_with_headers("headers", headers.clone(), "body".into()).await.unwrap();
    publisher.publish_with_headers("headers", headers.clone(), "".into()).await.unwrap();
    for body in ["body", ""] {
        let message = next(&mut sub).await;
        assert_eq!(message.headers.as_ref(), Some(&headers));
        assert_eq!(message.payload, body);
    }
}

#[tokio::test]
async fn a_request_that_nobody_serves_fails_at_once() {
    let server = Server::start();
    let client = plain(&server).await;
    let error = soon("an error", client.request("nobody", "x".into())).await.unwrap_err();
    assert_eq!(error.kind(), RequestErrorKind::NoResponders);
}

#[tokio::test]
async fn draining_delivers_what_was_sent_before() {
    let server = Server::start();
    let (publisher, subscriber) = (plain(&server).await, plain(&server).await);
    let mut sub = subscriber.subscribe("drained").await.unwrap();
    settle(&subscriber).await;
    for i in 0..1000 {
        publisher.publish("drained", i.to_string().into()).await.unwrap();
    }
    settle(&publisher).await;
    sub.drain().await.unwrap();
    for i in 0..1000 {
        assert_eq!(next(&mut sub).await.payload, i.to_string());
    }
    assert!(soon("the end of the subscription", sub.next()).await.is_none());
}

#[tokio::test]
async fn a_drained_client_closes_after_its_messages() {
    let server = Server::start();
    let (subscriber, mut events) = connect(&server, ConnectOptions::new()).await;
    let mut sub = subscriber.subscribe("drained").await.unwrap();
    for i in 0..100 {
        subscriber.publish("drained", i.to_string().into()).await.unwrap();
    }
    settle(&subscriber).await;
    subscriber.drain().await.unwrap();
    for i in 0..100 {
        assert_eq!(next(&mut sub).await.payload, i.to_string());
    }
    event(&mut events, |event| *event == Event::Closed).await;
    server.wait_for_close("Client Closed");
}

#[tokio::test]
async fn unsubscribing_after_some_messages_ends_there() {
    let server = Server::start();
    let of_server = server.page("/varz")["subscriptions"].as_u64().unwrap();
    let client = plain(&server).await;
    let mut sub = client.subscribe("few").await.unwrap();
    sub.unsubscribe_after(3).await.unwrap();
    for i in 0..10 {
        client.publish("few", i.to_string().into()).await.unwrap();
    }
    for i in 0..3 {
        assert_eq!(next(&mut sub).await.payload, i.to_string());
    }
    assert!(soon("the end of the subscription", sub.next()).await.is_none());
    settle(&client).await;
    // What is left is the client's own, for answers.
    assert_eq!(server.page("/varz")["subscriptions"], of_server + 1);
}

#[tokio::test]
async fn a_client_comes_back_after_a_restart_with_its_subscriptions() {
    let mut server = Server::start();
    let (client, mut events) = connect(&server, ConnectOptions::new().retry_on_initial_connect()).await;
    let mut sub = client.subscribe("news").await.unwrap();
    client.publish("news", "before".into()).await.unwrap();
    assert_eq!(next(&mut sub).await.payload, "before");
    event(&mut events, |event| *event == Event::Connected).await;
    server.restart();
    event(&mut events, |event| *event == Event::Disconnected).await;
    event(&mut events, |event| *event == Event::Connected).await;
    client.publish("news", "after".into()).await.unwrap();
    assert_eq!(next(&mut sub).await.payload, "after");
}

#[tokio::test]
async fn lame_duck_mode_reaches_the_client_and_then_ends_the_server() {
    // Nothing shorter than 30 s is taken; few clients are closed one per second at most.
    let mut server = Server::with_config("lame_duck_duration: 30s\nlame_duck_grace_period: 2s\n");
    let (client, mut events) = connect(&server, ConnectOptions::new()).await;
    settle(&client).await;
    server.signal(Signal::USR2);
    event(&mut events, |event| *event == Event::LameDuckMode).await;
    event(&mut events, |event| *event == Event::Disconnected).await;
    assert_eq!(server.wait().code(), Some(0));
}

#[tokio::test]
async fn the_client_learns_the_payload_limit() {
    let server = Server::with_config("max_payload: 1000\n");
    let (client, mut events) = connect(&server, ConnectOptions::new()).await;
    assert_eq!(client.max_payload(), 1000);
    assert!(client.publish("big", vec![b'x'; 1001].into()).await.is_err());
    let mut sub = client.subscribe("big").await.unwrap();
    client.publish("big", vec![b'x'; 1000].into()).await.unwrap();
    assert_eq!(next(&mut sub).await.payload.len(), 1000);
    drop(sub);
    assert!(!matches!(events.try_recv(), Ok(Event::ServerError(_) | Event::Disconnected)));
}

#[tokio::test]
async fn a_slow_application_is_told_by_its_client_and_stays_connected() {
    let server = Server::start();
    let (client, mut events) = connect(&server, ConnectOptions::new().subscription_capacity(10)).await;
    let mut slow = client.subscribe("flood").await.unwrap();
    let mut quick = client.subscribe("quick").await.unwrap();
    for _ in 0..100 {
        client.publish("flood", "x".into()).await.unwrap();
    }
    event(&mut events, |event| matches!(event, Event::SlowConsumer(_))).await;
    client.publish("quick", "still here".into()).await.unwrap();
    assert_eq!(next(&mut quick).await.payload, "still here");
    assert_eq!(next(&mut slow).await.payload, "x");
}

#[tokio::test]
async fn a_violated_permission_reaches_the_event_callback() {
    let server = Server::with_config(
        r#"authorization { users: [ { user: a, password: b, permissions: {
            publish: { allow: ["out.>", "nobody.>"] }, subscribe: { allow: ["in.>", "_INBOX.>"] } } } ] }"#,
    );
    let options = ConnectOptions::new().user_and_password("a".into(), "b".into());
    let (client, mut events) = connect(&server, options).await;
    client.publish("forbidden.out", "x".into()).await.unwrap();
    let mut denied = client.subscribe("forbidden.in").await.unwrap();
    let is_error = |event: &Event| matches!(event, Event::ServerError(_));
    for what in [
        r#"permissions violation for publish to "forbidden.out""#,
        r#"permissions violation for subscription to "forbidden.in""#,
    ] {
        let Event::ServerError(ServerError::Other(text)) = event(&mut events, is_error).await else {
            panic!("the error is of another kind")
        };
        assert_eq!(text.to_lowercase(), what);
    }
    let mut allowed = client.subscribe("in.a").await.unwrap();
    client.publish("out.a", "x".into()).await.unwrap();
    settle(&client).await;
    assert!(denied.next().now_or_never().is_none());
    assert!(allowed.next().now_or_never().is_none());
}

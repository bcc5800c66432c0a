//! Accounts that let each other have something, as applications meet it: services, streams,
//! JetStream and key-value buckets of another account, and what a reload changes.

use crate::client::{connect, settle};
use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use crate::soon;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, PushConsumer, pull, push};
use async_nats::jetstream::{self, Context, kv};
use async_nats::{Client, ConnectOptions, HeaderMap};
use futures_util::{StreamExt as _, TryStreamExt as _};
use std::collections::BTreeSet;
use std::time::Duration;
use tempfile::TempDir;

/// `A` has JetStream and lets `B` have it. What the server delivers to `B` goes to subjects under a
/// prefix of its own.
const JETSTREAM: &str = r#"
    accounts {
        A {
            jetstream: enabled
            users: [ {user: a, password: p} ]
            exports: [
                {service: "$JS.API.>", response: stream, accounts: [B]}
                {service: "$JS.ACK.>", accounts: [B]}
                {service: "$JS.FC.>", accounts: [B]}
                {service: "$KV.>", accounts: [B]}
                {service: "orders.>", accounts: [B]}
                {stream: "to.b.>", accounts: [B]}
            ]
        }
        B {
            users: [ {user: b, password: p} ]
            imports: [
                {service: {account: A, subject: "$JS.API.>"}}
                {service: {account: A, subject: "$JS.ACK.>"}}
                {service: {account: A, subject: "$JS.FC.>"}}
                {service: {account: A, subject: "$KV.>"}}
                {service: {account: A, subject: "orders.>"}}
                {stream: {account: A, subject: "to.b.>"}}
            ]
        }
    }
"#;

async fn user(server: &Server, name: &str) -> Client {
    let options = ConnectOptions::with_user_and_password(name.to_owned(), "p".to_owned());
    connect(server, options.custom_inbox_prefix(format!("to.{name}"))).await.0
}

async fn with_jetstream() -> (TempDir, Server, Client, Client) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = format!("jetstream {{ store_dir: {:?} }}\n{JETSTREAM}", home.path());
    let server = Setup::default().config(&store).start();
    let (a, b) = (user(&server, "a").await, user(&server, "b").await);
    (home, server, a, b)
}

async fn with_orders(js: &Context) -> jetstream::stream::Stream {
    let subjects = vec!["orders.>".to_owned()];
    let config = jetstream::stream::Config { name: "ORDERS".to_owned(), subjects, ..Default::default() };
    let stream = soon("a stream", js.create_stream(config)).await.expect("the stream is made");
    for at in 0..100 {
        let ack = js.publish(format!("orders.{at}"), at.to_string().into()).await.expect("connected");
        assert_eq!(soon("an acknowledgement", ack.into_future()).await.expect("stored").sequence, at + 1);
    }
    stream
}

#[tokio::test]
async fn a_stream_of_another_account_is_read_by_a_pull_consumer() {
    let (_home, _server, a, b) = with_jetstream().await;
    let js = jetstream::new(b);
    let stream = with_orders(&js).await;
    let config = pull::Config { durable_name: Some("work".to_owned()), ..Default::default() };
    let mut consumer: PullConsumer = soon("a consumer", stream.create_consumer(config)).await.unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        let batch = soon("a batch", consumer.fetch().max_messages(25).messages()).await.unwrap();
        let messages: Vec<_> = soon("messages", batch.try_collect()).await.unwrap();
        assert_eq!(messages.len(), 25);
        for message in messages {
            assert!(message.subject.starts_with("orders."));
            soon("a confirmation", message.double_ack()).await.expect("acknowledged");
            assert!(seen.insert(message.payload.clone()));
        }
    }
    assert_eq!(seen.len(), 100);
    let info = soon("the consumer's state", consumer.info()).await.unwrap();
    assert_eq!((info.num_ack_pending, info.num_pending, info.ack_floor.stream_sequence), (0, 0, 100));
    // The owner sees the same.
    let owner = jetstream::new(a);
    let stored = soon("the stream", owner.get_stream("ORDERS")).await.unwrap();
    assert_eq!(stored.cached_info().state.messages, 100);
}

#[tokio::test]
async fn a_push_consumer_delivers_into_another_account_with_flow_control() {
    let (_home, _server, _a, b) = with_jetstream().await;
    let js = jetstream::new(b.clone());
    let stream = with_orders(&js).await;
    let config = push::Config {
        deliver_subject: b.new_inbox(),
        flow_control: true,
        idle_heartbeat: Duration::from_secs(1),
        ack_policy: AckPolicy::Explicit,
        ..Default::default()
    };
    let consumer: PushConsumer = soon("a consumer", stream.create_consumer(config)).await.unwrap();
    let mut messages = soon("messages", consumer.messages()).await.unwrap();
    for at in 0..100 {
        let message = soon("a message", messages.next()).await.unwrap().unwrap();
        assert_eq!(message.subject.as_str(), format!("orders.{at}"));
        message.ack().await.expect("acknowledged");
    }
    let mut consumer = consumer;
    loop {
        let info = soon("the consumer's state", consumer.info()).await.unwrap();
        if info.num_ack_pending == 0 {
            break;
        }
    }
}

#[tokio::test]
async fn a_bucket_of_another_account_is_written_read_and_watched() {
    let (_home, _server, a, b) = with_jetstream().await;
    let own = jetstream::new(a);
    let config = kv::Config { bucket: "B".to_owned(), history: 5, ..Default::default() };
    let bucket = soon("a bucket", own.create_key_value(config)).await.unwrap();
    let js = jetstream::new(b);
    let far = soon("the bucket", js.get_key_value("B")).await.unwrap();
    let mut watch = soon("a watch", far.watch_all()).await.unwrap();
    soon("a key", far.put("one", "1".into())).await.unwrap();
    soon("a key", bucket.put("two", "2".into())).await.unwrap();
    assert_eq!(soon("a value", bucket.get("one")).await.unwrap().unwrap(), "1");
    assert_eq!(soon("a value", far.get("two")).await.unwrap().unwrap(), "2");
    for (key, value) in [("one", "1"), ("two", "2")] {
        let entry = soon("an entry", watch.next()).await.unwrap().unwrap();
        assert_eq!((entry.key.as_str(), &entry.value[..]), (key, value.as_bytes()));
    }
    soon("a deletion", far.delete("one")).await.unwrap();
    assert_eq!(soon("a value", bucket.get("one")).await.unwrap(), None);
    let keys: BTreeSet<String> =
        soon("keys", async { far.keys().await.unwrap().try_collect().await }).await.unwrap();
    assert_eq!(keys, BTreeSet::from(["two".to_owned()]));
}

/// Services with one answer, and many requests under way.
#[tokio::test]
async fn services_of_another_account_answer_who_asks() {
    let server = Server::with_config(
        "accounts { A { users: [ {user: a, password: p} ], exports: [ {service: \"up.*\"} ] }, \
         B { users: [ {user: b, password: p} ], imports: [ {service: {account: A, subject: \"up.*\"}, to: \"far.$1\"} ] } }",
    );
    let (a, b) = (user(&server, "a").await, user(&server, "b").await);
    let mut requests = a.queue_subscribe("up.*", "workers".to_owned()).await.unwrap();
    settle(&a).await;
    let worker = a.clone();
    let served = tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let info = request.headers.as_ref().and_then(|h| h.get("Nats-Request-Info"));
            assert!(info.is_some_and(|info| info.as_str().starts_with("{\"acc\":\"B\"")));
            let reply = request.reply.expect("a request");
            worker
                .publish(reply, format!("{} {}", request.subject, request.payload.len()).into())
                .await
                .unwrap();
        }
    });
    let ask = |at: usize| {
        let b = b.clone();
        async move {
            let answer = b.request(format!("far.{at}"), "x".repeat(at).into()).await.expect("answered");
            assert_eq!(answer.payload, format!("up.{at} {at}"));
            assert!(answer.headers.unwrap_or_else(HeaderMap::new).get("Nats-Request-Info").is_none());
        }
    };
    soon("answers", futures_util::future::join_all((0..500).map(ask))).await;
    served.abort();
}

/// A client of the wire that has logged in.
fn login(server: &Server, user: &str) -> Raw {
    let mut raw = Raw::open(server.address());
    raw.send(&format!(
        "CONNECT {{\"verbose\":false,\"headers\":true,\"user\":\"{user}\",\"pass\":\"p\"}}\r\n"
    ));
    raw.barrier();
    raw
}

fn exchange(exports: &str, imports: &str, mappings: &str) -> String {
    format!(
        "accounts {{ A {{ users: [ {{user: a, password: p}} ], exports: [ {exports} ], mappings {{ {mappings} }} }}, \
         B {{ users: [ {{user: b, password: p}} ], imports: [ {imports} ] }} }}"
    )
}

#[test]
fn a_reload_changes_what_accounts_have_and_nobody_is_disconnected() {
    let both = "{stream: \"ev.>\"}, {service: \"svc.>\"}";
    let server = Server::with_config(&exchange(both, "", ""));
    let (mut a, mut b) = (login(&server, "a"), login(&server, "b"));
    a.subscribe("svc.*", 1);
    b.subscribe("ev.*", 1);
    b.subscribe("far.>", 2);
    a.barrier();
    b.barrier();
    let mut play = || {
        a.publish("ev.x", "event");
        a.barrier();
        b.publish("svc.x", "request");
        let heard: Vec<String> = b.barrier().iter().map(|message| message.subject.clone()).collect();
        let asked: Vec<String> = a.barrier().iter().map(|message| message.subject.clone()).collect();
        [heard.join(" "), asked.join(" ")]
    };
    assert_eq!(play(), ["", ""]);
    let imports = "{stream: {account: A, subject: \"ev.>\"}}, {service: {account: A, subject: \"svc.>\"}}";
    server.reload(&exchange(both, imports, ""));
    assert_eq!(play(), ["ev.x", "svc.x"]);
    server.reload(&exchange(both, imports, "\"ev.x\": \"ev.y\", \"svc.x\": \"svc.y\""));
    assert_eq!(play(), ["ev.y", "svc.y"]);
    let imports = "{stream: {account: A, subject: \"ev.>\"}, prefix: far}";
    server.reload(&exchange(both, imports, ""));
    assert_eq!(play(), ["far.ev.x", ""]);
    // What does not fit is refused, and what was stays.
    let lines = server.reload(&exchange("{service: \"svc.>\"}", imports, ""));
    assert!(lines.iter().any(|line| line.contains("stream import not authorized")), "{lines:#?}");
    assert_eq!(play(), ["far.ev.x", ""]);
    server.reload(&exchange("", "", ""));
    assert_eq!(play(), ["", ""]);
    let page = server.page("/accountz?acc=A");
    assert_eq!(page["account_detail"]["exports"], serde_json::Value::Null);
}

#[test]
fn monitoring_tells_what_accounts_let_each_other_have() {
    let imports = "{stream: {account: A, subject: \"ev.*\"}, to: \"far.$1\"}, \
                   {service: {account: A, subject: \"svc.>\"}, share: true}";
    let config = exchange(
        "{stream: \"ev.>\"}, {service: \"svc.>\", accounts: [B], response: stream}",
        imports,
        "x: y",
    );
    let server = Server::with_config(&config);
    let (mut a, mut b) = (login(&server, "a"), login(&server, "b"));
    a.subscribe("svc.>", 1);
    a.barrier();
    b.send("SUB in 1\r\nPUB svc.x in 0\r\n\r\n");
    b.barrier();
    let page = server.page("/accountz?acc=A");
    let detail = &page["account_detail"];
    assert_eq!(
        detail["exports"].to_string(),
        r#"[{"subject":"ev.>","type":"stream"},{"subject":"svc.>","type":"service","response_type":"Streamed","approved_accounts":["B"]}]"#
    );
    assert_eq!(detail["mappings"].to_string(), r#"{"x":[{"subject":"y","weight":100}]}"#);
    let responses = detail["responses"].as_object().unwrap();
    let (subject, waiting) = responses.iter().next().unwrap();
    assert!(subject.starts_with("_R_.") && responses.len() == 1);
    assert_eq!(
        (&waiting["subject"], &waiting["account"], &waiting["to"]),
        (&"in".into(), &"B".into(), &subject.as_str().into())
    );
    let page = server.page("/accountz?acc=B");
    let imports = &page["account_detail"]["imports"];
    assert_eq!((&imports[0]["subject"], &imports[0]["local_subject"]), (&"ev.*".into(), &"far.*".into()));
    assert_eq!(
        (&imports[1]["to"], &imports[1]["share"], &imports[1]["invalid"]),
        (&"svc.>".into(), &true.into(), &false.into())
    );
    b.subscribe("far.1", 2);
    b.barrier();
    eventually("the shadow is listed", || {
        let page = server.page("/subsz?subs=1&acc=A");
        let list = page["subscriptions_list"].as_array().unwrap();
        list.iter().any(|sub| sub["subject"] == "ev.1")
    });
}

/// An account that a reload takes away and another brings back has its streams again, and messages
/// reach them.
#[test]
fn an_account_that_comes_back_has_its_streams() {
    let store = tempfile::tempdir().unwrap();
    let config = |accounts: &str| {
        format!(
            "jetstream {{ store_dir: \"{}\" }}\naccounts {{\n{accounts}\nB {{ users: [{{user: b, password: p}}] }}\n}}",
            store.path().display()
        )
    };
    let with = config("A { jetstream: enabled, users: [{user: a, password: p}] }");
    let server = Setup::default().config(&with).start();
    let open = || {
        let mut raw = Raw::open(server.address());
        raw.send("CONNECT {\"user\":\"a\",\"pass\":\"p\",\"verbose\":false,\"pedantic\":false}\r\n");
        raw.subscribe("r", 1);
        raw.barrier();
        raw
    };
    let ask = |raw: &mut Raw, subject: &str, body: &str| {
        raw.send(&format!("PUB {subject} r {}\r\n{body}\r\n", body.len()));
        raw.message().text().to_owned()
    };
    let mut a = open();
    let made = ask(&mut a, "$JS.API.STREAM.CREATE.S", "{\"name\":\"S\",\"subjects\":[\"s.>\"]}");
    assert!(made.contains("\"did_create\":true"), "{made}");
    assert!(ask(&mut a, "s.x", "1").ends_with("\"seq\":1}"));
    server.reload(&config(""));
    a.rest();
    server.reload(&with);
    let mut a = open();
    assert!(ask(&mut a, "s.x", "2").ends_with("\"seq\":2}"));
    let info = ask(&mut a, "$JS.API.STREAM.INFO.S", "");
    assert!(info.contains("\"messages\":2"), "{info}");
}

//! The official Rust client against streams: what an application does that has no consumers yet.

use super::Home;
use crate::client::plain;
use crate::process::Server;
use crate::soon;
use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, DirectGetErrorKind, DiscardPolicy, StorageType, Stream};
use async_nats::jetstream::{self, Context, ErrorCode};
use futures_util::{StreamExt as _, TryStreamExt as _};
use std::time::Duration;

async fn context(server: &Server) -> Context {
    jetstream::new(plain(server).await)
}

fn config(name: &str) -> Config {
    Config {
        name: name.to_owned(),
        subjects: vec![format!("{name}.>")],
        allow_direct: true,
        ..Config::default()
    }
}

async fn with_stream(config: Config) -> (Home, Server, Context, Stream) {
    let home = Home::new();
    let server = home.start("");
    let js = context(&server).await;
    let stream = soon("a stream", js.create_stream(config)).await.expect("the stream is made");
    (home, server, js, stream)
}

async fn store(js: &Context, subject: &str, body: &str) -> u64 {
    let ack = js.publish(subject.to_owned(), body.to_owned().into()).await.expect("connected");
    soon("an acknowledgement", ack.into_future()).await.expect("it is stored").sequence
}

#[tokio::test]
async fn streams_come_change_are_listed_and_go() {
    let (_home, _server, js, mut stream) = with_stream(config("ONE")).await;
    let two = Config { storage: StorageType::Memory, ..config("TWO") };
    js.create_stream(two.clone()).await.unwrap();
    // The same again is no error, another one with its name is.
    js.get_or_create_stream(two.clone()).await.unwrap();
    let error = js.create_stream(Config { max_messages: 5, ..two }).await.unwrap_err();
    let CreateStreamErrorKind::JetStream(why) = error.kind() else { panic!("{error}") };
    assert_eq!(why.error_code(), ErrorCode::STREAM_NAME_EXIST);
    let mut names: Vec<String> = soon("names", js.stream_names().try_collect()).await.unwrap();
    names.sort();
    assert_eq!(names, ["ONE", "TWO"]);
    let listed: Vec<_> = soon("streams", js.streams().try_collect()).await.unwrap();
    let is_there = |kind| listed.iter().filter(|info| info.config.storage == kind).count() == 1;
    assert!(is_there(StorageType::File) && is_there(StorageType::Memory));
    assert_eq!(js.stream_by_subject("TWO.x").await.unwrap(), "TWO");

    let changed = Config { max_messages: 3, description: Some("changed".to_owned()), ..config("ONE") };
    assert_eq!(js.update_stream(changed).await.unwrap().config.max_messages, 3);
    for i in 0..5 {
        store(&js, "ONE.a", &i.to_string()).await;
    }
    let info = stream.info().await.unwrap();
    assert_eq!((info.state.messages, info.state.first_sequence, info.state.last_sequence), (3, 3, 5));
    assert_eq!(info.config.description.as_deref(), Some("changed"));

    assert!(js.delete_stream("ONE").await.unwrap().success);
    let error = js.get_stream("ONE").await.unwrap_err();
    let GetStreamErrorKind::JetStream(why) = error.kind() else { panic!("{error}") };
    assert_eq!(why.error_code(), ErrorCode::STREAM_NOT_FOUND);
    assert_eq!(js.query_account().await.unwrap().streams, 1);
}

#[tokio::test]
async fn ten_thousand_messages_are_acknowledged_in_order() {
    let (_home, server, js, mut stream) = with_stream(config("S")).await;
    let mut next = 0_u64;
    let mut waiting = std::collections::VecDeque::new();
    for i in 0..10_000 {
        let body = format!("message {i}");
        waiting.push_back(js.publish(format!("S.{}", i % 100), body.into()).await.unwrap());
        if waiting.len() > 1500 {
            let ack = soon("an acknowledgement", waiting.pop_front().unwrap().into_future()).await.unwrap();
            next += 1;
            assert_eq!((ack.sequence, ack.duplicate), (next, false));
        }
    }
    for ack in waiting {
        next += 1;
        assert_eq!(soon("an acknowledgement", ack.into_future()).await.unwrap().sequence, next);
    }
    let state = &stream.info().await.unwrap().state;
    assert_eq!((state.messages, state.last_sequence, state.subjects_count), (10_000, 10_000, 100));
    for i in [1, 5_000, 10_000] {
        let got = stream.direct_get(i).await.unwrap();
        assert_eq!((got.sequence, got.payload), (i, format!("message {}", i - 1).into()));
    }
    let page = server.page("/jsz?accounts=1&streams=1");
    let shown = &page["account_details"][0]["stream_detail"][0];
    assert_eq!((&shown["name"], &shown["state"]["messages"]), (&"S".into(), &10_000.into()), "{page}");
}

#[tokio::test]
async fn a_message_with_an_id_is_stored_once() {
    let (_home, _server, js, _stream) = with_stream(config("S")).await;
    for is_duplicate in [false, true, true] {
        let message = PublishMessage::build().message_id("the same").payload("x".into());
        let ack = js.send_publish("S.a", message).await.unwrap();
        let ack = soon("an acknowledgement", ack.into_future()).await.unwrap();
        assert_eq!((ack.sequence, ack.duplicate), (1, is_duplicate));
    }
}

#[tokio::test]
async fn what_a_publisher_expects_is_checked() {
    let (_home, _server, js, _stream) = with_stream(config("S")).await;
    let first = PublishMessage::build().message_id("one");
    js.send_publish("S.a", first).await.unwrap().await.unwrap();
    let wrong = [
        (PublishMessage::build().expected_last_sequence(7), PublishErrorKind::WrongLastSequence),
        (PublishMessage::build().expected_last_subject_sequence(7), PublishErrorKind::WrongLastSequence),
        (PublishMessage::build().expected_last_message_id("two"), PublishErrorKind::WrongLastMessageId),
        (PublishMessage::build().expected_stream("T"), PublishErrorKind::Other),
    ];
    for (message, kind) in wrong {
        let ack = js.send_publish("S.a", message).await.unwrap();
        let error = soon("an answer", ack.into_future()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let right = PublishMessage::build()
        .expected_last_sequence(1)
        .expected_last_subject_sequence(1)
        .expected_last_message_id("one")
        .expected_stream("S");
    assert_eq!(js.send_publish("S.a", right).await.unwrap().await.unwrap().sequence, 2);
}

#[tokio::test]
async fn messages_are_got_in_every_way() {
    let (_home, _server, js, stream) = with_stream(config("S")).await;
    for (subject, body) in [("S.a", "1"), ("S.b", "2"), ("S.a", "3"), ("S.b", "4")] {
        store(&js, subject, body).await;
    }
    assert_eq!(stream.direct_get(2).await.unwrap().payload, "2");
    assert_eq!(stream.direct_get_last_for_subject("S.a").await.unwrap().payload, "3");
    assert_eq!(stream.direct_get_first_for_subject("S.b").await.unwrap().payload, "2");
    assert_eq!(stream.direct_get_next_for_subject("S.b", Some(3)).await.unwrap().payload, "4");
    assert_eq!(stream.direct_get(9).await.unwrap_err().kind(), DirectGetErrorKind::NotFound);
    assert_eq!(stream.get_raw_message(3).await.unwrap().payload, "3");
    assert_eq!(stream.get_last_raw_message_by_subject("S.b").await.unwrap().sequence, 4);
    assert_eq!(stream.get_first_raw_message_by_subject("S.b", 1).await.unwrap().sequence, 2);
    assert_eq!(stream.get_next_raw_message_by_subject("S.b").await.unwrap().sequence, 2);
}

#[tokio::test]
async fn messages_are_deleted_and_purged() {
    let (_home, _server, js, mut stream) = with_stream(config("S")).await;
    for i in 0..20 {
        store(&js, if i % 2 == 0 { "S.even" } else { "S.odd" }, "x").await;
    }
    assert!(stream.delete_message(5).await.unwrap());
    assert_eq!(stream.direct_get(5).await.unwrap_err().kind(), DirectGetErrorKind::NotFound);
    assert_eq!(stream.purge().filter("S.odd").keep(3).await.unwrap().purged, 7);
    assert_eq!(stream.purge().sequence(4).await.unwrap().purged, 2);
    let counts: Vec<(String, usize)> =
        soon("subjects", stream.info_with_subjects("S.>").await.unwrap().try_collect()).await.unwrap();
    let mut counts = counts;
    counts.sort();
    assert_eq!(counts, [("S.even".to_owned(), 7), ("S.odd".to_owned(), 3)]);
    assert_eq!(stream.purge().await.unwrap().purged, 10);
    let state = &stream.info().await.unwrap().state;
    assert_eq!((state.messages, state.first_sequence, state.last_sequence), (0, 21, 20));
}

#[tokio::test]
async fn a_full_stream_that_discards_new_messages_says_so() {
    let full = Config { max_messages: 2, discard: DiscardPolicy::New, ..config("S") };
    let (_home, _server, js, _stream) = with_stream(full).await;
    store(&js, "S.a", "1").await;
    store(&js, "S.a", "2").await;
    let ack = js.publish("S.a", "3".into()).await.unwrap();
    let error = soon("an answer", ack.into_future()).await.unwrap_err();
    assert!(error.to_string().contains("maximum messages exceeded"), "{error}");
}

#[tokio::test]
async fn a_message_ends_when_its_header_says() {
    let mortal = Config { allow_message_ttl: true, ..config("S") };
    let (_home, _server, js, stream) = with_stream(mortal).await;
    let message = PublishMessage::build().ttl(Duration::from_secs(1)).payload("short".into());
    js.send_publish("S.a", message).await.unwrap().await.unwrap();
    store(&js, "S.b", "long").await;
    let gone = async {
        while stream.get_raw_message(1).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    soon("the end of the message", gone).await;
    assert_eq!(stream.get_raw_message(2).await.unwrap().payload, "long");
}

#[tokio::test]
async fn buckets_of_keys_and_values() {
    let home = Home::new();
    let server = home.start("");
    let js = context(&server).await;
    let settings = jetstream::kv::Config { bucket: "B".to_owned(), history: 5, ..Default::default() };
    let bucket = soon("a bucket", js.create_key_value(settings)).await.unwrap();
    assert_eq!(bucket.put("a", "one".into()).await.unwrap(), 1);
    assert_eq!(bucket.update("a", "two".into(), 1).await.unwrap(), 2);
    assert!(bucket.update("a", "wrong".into(), 1).await.is_err());
    assert!(bucket.create("a", "there already".into()).await.is_err());
    assert_eq!(bucket.get("a").await.unwrap().unwrap(), "two");
    assert_eq!(bucket.entry_for_revision("a", 1).await.unwrap().unwrap().value, "one");
    assert_eq!(bucket.create("b", "three".into()).await.unwrap(), 3);
    bucket.delete("b").await.unwrap();
    assert_eq!(bucket.get("b").await.unwrap(), None);
    bucket.purge("a").await.unwrap();
    assert_eq!(bucket.get("a").await.unwrap(), None);
    assert_eq!(bucket.create("a", "again".into()).await.unwrap(), 6);
    js.delete_key_value("B").await.unwrap();
    assert!(js.get_key_value("B").await.is_err());
}

#[tokio::test]
async fn what_was_stored_is_read_back_after_a_restart() {
    let (_home, mut server, js, _stream) = with_stream(config("S")).await;
    assert_eq!(store(&js, "S.a", "hello").await, 1);
    drop(js);
    server.restart();
    let js = context(&server).await;
    let stream = js.get_stream("S").await.unwrap();
    assert_eq!(stream.get_raw_message(1).await.unwrap().payload, "hello");
    assert_eq!(stream.direct_get_last_for_subject("S.a").await.unwrap().payload, "hello");
    assert_eq!(store(&js, "S.a", "again").await, 2);
    let names: Vec<_> = js.stream_names().collect().await;
    assert_eq!(names.len(), 1);
}

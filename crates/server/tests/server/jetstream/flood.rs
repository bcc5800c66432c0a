//! More than the server can take at once: it stays within bounds, serves others, and says what it
//! did not take.

use super::{Asker, Home, mebibytes, publish};
use crate::eventually;
use crate::raw::Raw;
use serde_json::{Value, json};

/// A publisher that asks for no answers; returns when the server has read everything.
fn flood(server: &crate::process::Server, messages: usize, size: usize) -> std::thread::JoinHandle<()> {
    let mut raw = Raw::connect(server);
    std::thread::spawn(move || {
        let chunk = publish("S.a", "", "", &vec![b'x'; size]).repeat(100);
        for _ in 0..messages / 100 {
            raw.send_bytes(&chunk);
        }
        raw.barrier();
    })
}

#[test]
fn publishes_without_replies_are_all_stored_while_others_are_served() {
    const MESSAGES: usize = 100_000;
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    asker.create("T", &json!({}));
    let floods = [flood(&server, MESSAGES, 100), flood(&server, MESSAGES, 100)];
    asker.raw.subscribe("echo", 2);
    let mut served = 0;
    while floods.iter().any(|flood| !flood.is_finished()) || served == 0 {
        asker.raw.publish("echo", "still served");
        assert_eq!(asker.raw.message().text(), "still served");
        assert!(asker.publish("T.a", "x").get("error").is_none());
        served += 1;
    }
    floods.into_iter().for_each(|flood| flood.join().expect("the flood was read"));
    eventually("all are stored", || asker.number("S", "messages") == 2 * MESSAGES as u64);
    assert!(mebibytes(&server) < 300, "{} MiB", mebibytes(&server));
    println!("{served} others were served meanwhile, {} MiB", mebibytes(&server));
}

/// Publishes beyond the messages that may wait for a stream are counted, and an advisory tells of
/// them.
#[test]
fn publishes_without_replies_that_do_not_fit_are_counted() {
    const MESSAGES: u64 = 1_000;
    let home = Home::new();
    let server = home.start("max_buffered_size: 20000");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    let mut watcher = Raw::connect(&server);
    watcher.subscribe("$JS.EVENT.ADVISORY.STREAM.MESSAGES_LOST.S", 1);
    watcher.barrier();
    flood(&server, MESSAGES as usize, 1_000).join().expect("the flood was read");
    flood(&server, MESSAGES as usize, 30_000).join().expect("the flood was read");
    assert_eq!(asker.number("S", "messages"), MESSAGES);
    // They are told once a second at most, when another one is lost.
    let (mut told, mut tries) = (0, 0);
    eventually("the losses are told", || {
        asker.raw.send_bytes(&publish("S.a", "", "", &[b'x'; 30_000]));
        tries += 1;
        for message in watcher.barrier() {
            let advisory = super::as_json(&message);
            assert_eq!(advisory["errors"][0]["err_code"], 10_167, "{advisory}");
            told = advisory["messages"].as_u64().expect("a number");
        }
        told >= MESSAGES
    });
    assert!(told <= MESSAGES + tries, "{told} were told, {tries} more were sent");
    assert_eq!(asker.publish("S.a", "small")["seq"], MESSAGES + 1);
    let warnings = server.log().matches("Dropping messages").count();
    assert!((1..=40).contains(&warnings), "{warnings} warnings");
}

#[test]
fn publishes_that_do_not_fit_are_answered() {
    const MESSAGES: usize = 1_000;
    let home = Home::new();
    let server = home.start("max_buffered_size: 20000");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    let mut chunk = Vec::new();
    for i in 0..MESSAGES {
        let reply = asker.reply();
        chunk.extend(publish("S.a", &reply, "", &vec![b'x'; if i % 2 == 0 { 100 } else { 30_000 }]));
    }
    asker.raw.send_bytes(&chunk);
    let mut stored = 0;
    for _ in 0..MESSAGES {
        let answer = super::as_json(&asker.raw.message());
        match answer["error"]["err_code"].as_u64() {
            None => stored += 1,
            Some(code) => assert_eq!(code, 10_167, "{answer}"),
        }
    }
    assert_eq!(stored, MESSAGES / 2);
    assert_eq!(asker.number("S", "messages"), stored as u64);
}

#[test]
fn requests_beyond_the_limit_are_dropped_counted_and_the_api_goes_on() {
    const REQUESTS: u64 = 5_000;
    let home = Home::new();
    let config = format!(
        "jetstream {{ store_dir: {:?}, request_queue_limit: 10 }}\naccounts {{\n\
         A: {{ jetstream: enabled, users: [{{ user: a, password: p }}] }}\n\
         SYS: {{ users: [{{ user: s, password: p }}] }}\n}}\nno_auth_user: a\nsystem_account: SYS\n",
        home.path()
    );
    let server = crate::process::Setup::default().config(&config).start();
    let mut system = Raw::open(server.address());
    system.send("CONNECT {\"verbose\":false,\"headers\":true,\"user\":\"s\",\"pass\":\"p\"}\r\n");
    system.subscribe("$JS.EVENT.ADVISORY.API.LIMIT_REACHED", 1);
    system.barrier();
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    let mut chunk = Vec::new();
    for _ in 0..REQUESTS {
        let reply = asker.reply();
        chunk.extend(publish("$JS.API.STREAM.INFO.S", &reply, "", b""));
    }
    asker.raw.send_bytes(&chunk);
    let (mut asked, mut answered, mut dropped) = (REQUESTS, 0, 0);
    let mut is_back = false;
    eventually("the API is back, and each request answered or told of", || {
        if !is_back {
            let reply = asker.reply();
            asker.raw.send_bytes(&publish("$JS.API.INFO", &reply, "", b""));
            asked += 1;
        }
        let came = asker.raw.barrier();
        answered += came.len() as u64;
        is_back |= came.iter().any(|message| message.text().contains("account_info_response"));
        for message in system.barrier() {
            dropped += super::as_json(&message)["dropped"].as_u64().expect("a number");
        }
        is_back && answered + dropped == asked
    });
    println!("{answered} answered, {dropped} dropped");
    assert!(dropped > 0, "the limit was not reached");
    assert!(server.log().contains("JetStream API queue limit reached"), "{}", server.log());
    assert!(server.log().lines().count() < 100, "a line for each request");
    assert_eq!(asker.api("INFO", &Value::Null)["streams"], 1);
}

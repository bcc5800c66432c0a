//! Dead letters in the page: found, shown, given back, removed.

use super::browser::{HOSTILE, api, go, is_clean, is_not_wider_than_the_screen, page};
use super::devtools::Browser;
use super::socket::sign_in;
use super::{ACCOUNTS, start};
use crate::jetstream::Home;
use crate::process::Server;
use crate::websocket::peer::Peer;
use myelin_stdx::base64;
use serde_json::{Value, json};

/// Makes a stream for dead letters, and one with a consumer whose messages die at once.
fn make_streams(peer: &mut Peer) {
    api(peer, "STREAM.CREATE.DEAD", &json!({ "name": "DEAD", "subjects": ["dlq.>"] }));
    api(peer, "STREAM.CREATE.ORDERS", &json!({ "name": "ORDERS", "subjects": ["orders.>"] }));
    let config = json!({
        "durable_name": "billing", "ack_policy": "explicit", "ack_wait": 50_000_000, "max_deliver": 1,
        "metadata": { "myelin.dlq.stream": "DEAD" },
    });
    let body = json!({ "stream_name": "ORDERS", "config": config });
    api(peer, "CONSUMER.DURABLE.CREATE.ORDERS.billing", &body);
}

/// Publishes a message with these header lines.
fn publish(peer: &mut Peer, subject: &str, headers: &str, payload: &str) {
    let head = format!("NATS/1.0\r\n{headers}\r\n");
    let (size, whole) = (head.len(), head.len() + payload.len());
    peer.say(&format!("HPUB {subject} {size} {whole}\r\n{head}{payload}\r\n"));
}

/// Lets somebody take three messages of the consumer, who acknowledges none.
fn take_all(server: &Server) -> Peer {
    let mut taker = sign_in(server, "ann");
    let body = json!({ "batch": 3 }).to_string();
    let (next, inbox) = ("$JS.API.CONSUMER.MSG.NEXT.ORDERS.billing", "_INBOX.y");
    taker.say(&format!("SUB {inbox} 2\r\nPUB {next} {inbox} {}\r\n{body}\r\n", body.len()));
    taker
}

/// A letter of a message that has never been.
fn letter(peer: &mut Peer, (seq, subject): (u32, &str), text: &str) {
    let reason = if text.is_empty() { "exhausted" } else { "terminated" };
    died(peer, ["ZZ", "c", subject, reason, text], (seq, 0));
}

/// A letter of a consumer that has given up so many minutes ago.
fn died(peer: &mut Peer, [stream, consumer, subject, reason, text]: [&str; 5], (seq, minutes): (u32, i64)) {
    let time = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
    let headers = format!(
        "Myelin-DLQ-Stream: {stream}\r\nMyelin-DLQ-Consumer: {consumer}\r\nMyelin-DLQ-Sequence: {seq}\r\n\
         Myelin-DLQ-Subject: {subject}\r\nMyelin-DLQ-Deliveries: 5\r\nMyelin-DLQ-Reason: {reason}\r\n\
         Myelin-DLQ-Reason-Text: {text}\r\nMyelin-DLQ-Time: {time}\r\n"
    );
    let payload = json!({ "id": seq, "total": 12.5 }).to_string();
    publish(peer, &format!("dlq.{stream}.{consumer}.{seq}"), &headers, &payload);
}

/// Letters for a picture.
pub(super) fn fill(peer: &mut Peer) {
    api(peer, "STREAM.CREATE.DEAD", &json!({ "name": "DEAD", "subjects": ["dlq.>"] }));
    for (n, minutes) in (0..).zip([190, 185, 121, 64, 61, 33, 12, 4, 2]) {
        let of = match n % 3 {
            0 => ["ORDERS", "billing", "orders.new.eu", "exhausted", ""],
            1 => ["ORDERS", "billing", "orders.new.us", "terminated", "no such customer"],
            _ => ["PAYMENTS", "ledger", "payments.card", "exhausted", ""],
        };
        died(peer, of, (4_000 + 37 * n, minutes));
    }
}

fn messages(peer: &mut Peer, stream: &str) -> Value {
    api(peer, &format!("STREAM.INFO.{stream}"), &Value::Null)["state"]["messages"].clone()
}

/// Header and payload of a message.
fn stored(peer: &mut Peer, stream: &str, seq: u64) -> (String, String) {
    let message = api(peer, &format!("STREAM.MSG.GET.{stream}"), &json!({ "seq": seq }))["message"].clone();
    let text = |name: &str| {
        let bytes = base64::decode(message[name].as_str().unwrap_or_default()).expect("base64");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    (text("hdrs"), text("data"))
}

fn wait_for_letters(browser: &mut Browser, count: u32) {
    browser.wait(&format!("document.querySelector('.counted')?.innerText === '{count}'"));
}

#[test]
fn dead_letters_are_found_shown_and_given_back() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let mut ann = sign_in(&server, "ann");
    make_streams(&mut ann);
    let Some(mut browser) = page(&server, "ann") else { return };
    for (subject, payload) in [("orders.b", "one"), ("orders.a", "{\"two\":2}"), ("orders.b", "three")] {
        let id = &payload[..3];
        let headers = format!("Trace: \u{e9} 7\r\nFold:\t1\r\n more: 2\r\nNats-Msg-Id: {id}\r\n");
        publish(&mut ann, subject, &headers, payload);
    }
    let _taker = take_all(&server);
    go(&mut browser, "/letters");
    browser.wait_for("ORDERS › billing");
    browser.press("DEAD");
    wait_for_letters(&mut browser, 3);

    // By keyboard: sought, opened, replayed.
    browser.key("/", 191);
    browser.fill("main .search", "orders.a");
    browser.wait("document.querySelector('.counted').innerText === '1 of 3'");
    browser.key("ArrowDown", 40);
    browser.key("Enter", 13);
    browser.wait_for("\"two\": 2");
    for text in ["exhausted", "billing", "orders.a", "Trace: \u{e9} 7", "Myelin-DLQ-Kept-Nats-Msg-Id: {\"t"] {
        browser.wait_for(text);
    }
    browser.press("Replay…");
    browser.wait("document.querySelector('dialog')");
    browser.key("Enter", 13);
    browser.wait_for("Published again.");
    wait_for_letters(&mut browser, 2);
    let (headers, payload) = stored(&mut ann, "ORDERS", 4);
    assert_eq!(payload, "{\"two\":2}");
    assert!(
        headers.starts_with(
            "NATS/1.0\r\nTrace: \u{e9} 7\r\nFold:\t1\r\n more: 2\r\nNats-Msg-Id: replay:dlq.ORDERS.billing."
        ),
        "{headers}"
    );
    assert!(!headers.contains("Myelin-DLQ") && !headers.contains("{\"t"), "{headers}");
    is_clean(&mut browser, &server);

    // The dialog outlives its page, and does nothing then.
    browser.press("Replay all…");
    browser.wait("document.querySelector('dialog')");
    go(&mut browser, "/letters");
    browser.wait_for("ORDERS › billing");
    browser.key("Enter", 13);
    browser.wait_for("No letters published again: their page was left.");
    assert_eq!(messages(&mut ann, "DEAD"), 2);
    go(&mut browser, "/letters/DEAD");

    // Stopped in a pause.
    browser.press("Replay all…");
    browser.wait("document.querySelector('dialog')");
    browser.fill("dialog input[type=number]", "0.3");
    browser.script("document.querySelector('dialog form').noValidate = true");
    browser.key("Enter", 13);
    browser.wait_for("1 of 2 published again");
    browser.press("Stop");
    browser.wait_for("1 letter published again.");
    assert_eq!(messages(&mut ann, "DEAD"), 1);

    // The rest, in the order of their stream.
    browser.press("Replay all…");
    browser.wait("document.querySelector('dialog')");
    browser.key("Enter", 13);
    browser.wait_for("This stream has no dead letters.");
    assert_eq!(messages(&mut ann, "DEAD"), 0);
    assert_eq!([5, 6].map(|seq| stored(&mut ann, "ORDERS", seq).1), ["one", "three"]);
    is_clean(&mut browser, &server);
}

#[test]
fn what_cannot_be_given_back_stays() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let mut ann = sign_in(&server, "ann");
    make_streams(&mut ann);
    let Some(mut browser) = page(&server, "ann") else { return };
    publish(&mut ann, "dlq.x", "A: 1\r\n", "no letter");
    letter(&mut ann, (1, "orders.c"), HOSTILE);
    letter(&mut ann, (2, "nowhere.at.all"), "");
    letter(&mut ann, (0, "$JS.API.STREAM.DELETE.ORDERS"), "first");
    go(&mut browser, "/letters/DEAD/1");
    browser.wait_for("This message is no dead letter");
    assert_eq!(browser.script("document.querySelector('.heading .line').hidden"), true);
    go(&mut browser, "/letters/DEAD");
    wait_for_letters(&mut browser, 3);
    browser.wait_for(HOSTILE);
    browser.press("Replay all…");
    browser.wait("document.querySelector('dialog')");
    browser.key("Enter", 13);
    browser.wait_for("No stream takes nowhere.at.all. 1 letter published again, 2 left.");
    assert_eq!((messages(&mut ann, "ORDERS"), messages(&mut ann, "DEAD")), (json!(1), json!(3)));
    browser.press("Replay all…");
    browser.wait("document.querySelector('dialog')");
    browser.script("document.querySelector('dialog select').value = 'terminated'");
    browser.script("document.querySelector('dialog form').requestSubmit()");
    browser.wait_for("0 letters published again. 1 passed over: Letter 4 would ask the server for something");
    assert_eq!((messages(&mut ann, "ORDERS"), messages(&mut ann, "DEAD")), (json!(1), json!(3)));
    go(&mut browser, "/letters/DEAD/4");
    browser.press("Replay…");
    browser.wait("document.querySelector('dialog')");
    browser.key("Enter", 13);
    browser.wait_for("Letter 4 would ask the server for something");
    assert_eq!(messages(&mut ann, "ORDERS"), 1);
    browser.press("Remove…");
    browser.wait("document.querySelector('dialog')");
    browser.key("Enter", 13);
    browser.wait_for("The letter is removed.");

    letter(&mut ann, (5, "orders.d"), "");
    browser.size(360, 640, true);
    for view in ["/letters", "/letters/DEAD", "/letters/DEAD/3", "/letters/NOWHERE"] {
        go(&mut browser, view);
        browser.wait("document.querySelector('main .table, main .panel, main .empty')");
        is_not_wider_than_the_screen(&mut browser);
    }
    browser.wait_for("stream not found");
    go(&mut browser, "/letters/DEAD");
    wait_for_letters(&mut browser, 2);
    // What is no letter stays, and nothing is to be done about it.
    browser.press("Purge…");
    is_not_wider_than_the_screen(&mut browser);
    let is_ready = "!document.querySelector('dialog button[type=submit]').disabled";
    assert_eq!(browser.script(is_ready), false);
    browser.fill("dialog form > .field input", "DEAD");
    browser.key("Enter", 13);
    browser.wait_for("2 letters removed.");
    assert_eq!(messages(&mut ann, "DEAD"), 1);
    browser.wait_for("This stream has no dead letters.");
    assert_eq!(browser.script("document.querySelector('.heading .line').hidden"), true);
    api(&mut ann, "STREAM.MSG.DELETE.DEAD", &json!({ "seq": 1 }));
    letter(&mut ann, (6, "orders.e"), "");
    wait_for_letters(&mut browser, 1);
    browser.press("Purge…");
    browser.fill("dialog form > .field input", "DEAD");
    browser.key("Enter", 13);
    browser.wait_for("1 letter removed.");
    assert_eq!(messages(&mut ann, "DEAD"), 0);
    is_clean(&mut browser, &server);
}

/// A message that just fits has no room for the id of a replay, and one that is larger than its
/// stream takes keeps nobody from those behind it.
#[test]
fn letters_that_are_too_large_stop_no_replay() {
    const LARGEST: usize = 1024 * 1024;
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let mut ann = sign_in(&server, "ann");
    make_streams(&mut ann);
    let small = json!({ "name": "SMALL", "subjects": ["s.>"], "max_msg_size": 100 });
    api(&mut ann, "STREAM.CREATE.SMALL", &small);
    let Some(mut browser) = page(&server, "ann") else { return };
    for size in [LARGEST - "NATS/1.0\r\n\r\n".len(), 5, 7] {
        publish(&mut ann, "orders.a", "", &"x".repeat(size));
    }
    let _taker = take_all(&server);
    go(&mut browser, "/letters/DEAD");
    wait_for_letters(&mut browser, 3);
    for (subject, size) in [("s.fits", 90), ("s.grown", 101), ("s.last", 10)] {
        let about = format!("Myelin-DLQ-Subject: {subject}\r\nMyelin-DLQ-Stream: SMALL\r\n");
        publish(&mut ann, &format!("dlq.{subject}"), &about, &"x".repeat(size));
    }
    wait_for_letters(&mut browser, 6);
    browser.press("Replay all…");
    browser.wait("document.querySelector('dialog')");
    browser.key("Enter", 13);
    let told = "1 passed over: The message of letter 5 is larger than is taken now.";
    browser.wait_for(&format!("5 letters published again. {told}"));
    wait_for_letters(&mut browser, 1);
    assert_eq!((messages(&mut ann, "ORDERS"), messages(&mut ann, "SMALL")), (json!(6), json!(2)));
    is_clean(&mut browser, &server);
}

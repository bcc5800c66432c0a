//! The page in a browser: what it shows, what it does, and that names stay text.

use super::devtools::Browser;
use super::socket::{request, sign_in};
use super::{ACCOUNTS, letters, pages, start};
use crate::jetstream::Home;
use crate::process::Server;
use crate::websocket::peer::Peer;
use serde_json::{Value, json};
use std::path::Path;

/// Markup that would run a script, if it were taken for markup.
pub(super) const HOSTILE: &str = "<img src=x onerror=window.pwned=1>";

/// A page of the dashboard, signed in as this user.
pub(super) fn page(server: &Server, user: &str) -> Option<Browser> {
    let mut browser = Browser::start()?;
    browser.size(1280, 800, false);
    browser.open(&format!("http://{}/ui/", pages(server)));
    enter(&mut browser, user, &format!("{user}'s"));
    browser.wait("document.querySelector('main#main .panel')");
    Some(browser)
}

pub(super) fn enter(browser: &mut Browser, user: &str, password: &str) {
    browser.fill("input[name=username]", user);
    browser.fill("input[name=password]", password);
    browser.press("Sign in");
}

pub(super) fn go(browser: &mut Browser, path: &str) {
    browser.script(&format!("location.hash = {}", json!(path)));
}

pub(super) fn api(peer: &mut Peer, operation: &str, body: &Value) -> Value {
    let answer = request(peer, &format!("$JS.API.{operation}"), body).expect("an answer");
    assert!(answer.get("error").is_none(), "{operation}: {answer}");
    answer
}

/// Nothing has gone wrong in the page, and nothing was fetched from elsewhere.
pub(super) fn is_clean(browser: &mut Browser, server: &Server) {
    assert_eq!(browser.script("String(window.pwned)"), "undefined");
    assert_eq!(browser.script("document.querySelectorAll('main img, main script').length"), 0);
    assert_eq!(browser.faults, Vec::<String>::new());
    let here = pages(server).to_string();
    let is_here = |url: &String| {
        url.starts_with(&format!("http://{here}/ui/")) || *url == format!("ws://{here}/ui/nats")
    };
    assert!(browser.asked_for.iter().all(is_here), "{:?}", browser.asked_for);
}

pub(super) fn is_not_wider_than_the_screen(browser: &mut Browser) {
    let wider = browser.script("document.documentElement.scrollWidth - innerWidth");
    assert!(wider.as_i64().is_some_and(|wider| wider <= 0), "by {wider}: {}", browser.text());
}

#[test]
fn names_stay_text_wherever_they_are_shown() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let mut ann = sign_in(&server, "ann");
    let (stream, consumer) = ("s<b\"&'", "c<i\"&'");
    let config = json!({
        "name": stream, "subjects": ["h.>"], "description": HOSTILE, "metadata": { HOSTILE: HOSTILE },
    });
    api(&mut ann, &format!("STREAM.CREATE.{stream}"), &config);
    let config = json!({ "durable_name": consumer, "ack_policy": "explicit", "description": HOSTILE });
    let body = json!({ "stream_name": stream, "config": config });
    api(&mut ann, &format!("CONSUMER.DURABLE.CREATE.{stream}.{consumer}"), &body);
    let subject = HOSTILE.replace(' ', "/");
    let payload = format!("<script>window.pwned=1</script>{HOSTILE}");
    let headers = format!("NATS/1.0\r\nX: {HOSTILE}\r\n\r\n");
    let (head, whole) = (headers.len(), headers.len() + payload.len());
    let publish = format!("HPUB h.{subject} {head} {whole}\r\n{headers}{payload}\r\n");
    ann.say(&publish);
    let mut named = Peer::over_path(crate::websocket::peer::dial(pages(&server)), "/ui/nats", "");
    named.greet(&format!(",\"name\":\"{HOSTILE}\",\"user\":\"ann\",\"pass\":\"ann's\""));

    let Some(mut browser) = page(&server, "ann") else { return };
    go(&mut browser, "/connections");
    browser.wait_for(HOSTILE);
    go(&mut browser, "/streams");
    browser.wait_for(stream);
    browser.press(stream);
    browser.wait_for(HOSTILE);
    browser.press("Count");
    browser.wait_for(&format!("h.{subject}"));
    browser.press("Messages");
    browser.wait("document.querySelector('details.message')");
    browser.script("document.querySelector('details.message').open = true");
    browser.wait_for(&payload);
    browser.wait_for(&format!("X: {HOSTILE}"));
    browser.press("Configuration");
    browser.wait_for("\"metadata\"");
    browser.press("Consumers");
    browser.press(consumer);
    browser.wait_for(HOSTILE);
    go(&mut browser, "/tail");
    browser.wait("document.querySelector('main input.search')");
    browser.fill("main input.search", "h.>");
    browser.press("Listen");
    browser.wait_for("Nothing has come yet.");
    ann.say(&format!("PING\r\n{publish}"));
    browser.wait_for(&format!("h.{subject}"));
    is_clean(&mut browser, &server);

    // For operators: connections with their users, and the log.
    browser.press("Sign out");
    enter(&mut browser, HOSTILE, HOSTILE);
    browser.wait_for("Authorization Violation");
    enter(&mut browser, "sys", "sys's");
    go(&mut browser, "/log");
    browser.wait_for(&format!("authentication error - User {:?}", HOSTILE));
    for view in ["/accounts", "/accounts/A", "/server", "/overview", "/connections"] {
        go(&mut browser, view);
        browser.wait("document.querySelector('main .table, main .panel')");
    }
    browser.wait_for(HOSTILE);
    browser.press(HOSTILE);
    browser.wait_for("Close connection");
    is_clean(&mut browser, &server);
}

#[test]
fn messages_are_published_and_purged_and_why_is_told() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let mut ann = sign_in(&server, "ann");
    api(&mut ann, "STREAM.CREATE.ORDERS", &json!({ "name": "ORDERS", "subjects": ["orders.*"] }));
    let config = json!({ "durable_name": "billing", "ack_policy": "explicit" });
    let body = json!({ "stream_name": "ORDERS", "config": config });
    api(&mut ann, "CONSUMER.DURABLE.CREATE.ORDERS.billing", &body);
    let Some(mut browser) = page(&server, "ann") else { return };
    go(&mut browser, "/streams/ORDERS/publish");
    browser.wait("document.querySelector('main form input')?.placeholder === 'orders.*'");
    browser.fill("main form input", "orders.new");
    browser.fill("main form textarea", "Trace: 7");
    browser.fill("main form .field:nth-of-type(3) textarea", "{\"a\":[1]}");
    browser.press("Publish");
    // The tab has that name, too, and comes first.
    browser.script("document.querySelector('main form').requestSubmit()");
    browser.wait_for("Stored in ORDERS as 1.");
    browser.press("Messages");
    browser.wait("document.querySelector('details.message')");
    browser.script("document.querySelector('details.message').open = true");
    browser.wait_for("{\n  \"a\": [\n    1\n  ]\n}");
    browser.wait_for("Trace: 7");
    browser.press("Consumers");
    browser.press("billing");
    browser.wait_for("no_pull_waits");
    browser.wait_for("holds everything back");
    browser.wait_for("Remedy: ");
    browser.wait("/Lag\\n+[\\d.]+ (ms|s)/.test(document.body.innerText)");

    go(&mut browser, "/streams/ORDERS");
    browser.press("Purge…");
    let is_ready = "!document.querySelector('dialog button[type=submit]').disabled";
    assert_eq!(browser.script(is_ready), false);
    browser.fill("dialog form > .field input", "ORDER");
    assert_eq!(browser.script(is_ready), false);
    browser.key("Escape", 27);
    browser.wait("!document.querySelector('dialog')");
    assert_eq!(api(&mut ann, "STREAM.INFO.ORDERS", &Value::Null)["state"]["messages"], 1);
    browser.press("Purge…");
    browser.fill("dialog form > .field input", "ORDERS");
    assert_eq!(browser.script(is_ready), true);
    browser.key("Enter", 13);
    browser.wait_for("1 messages are gone.");
    assert_eq!(api(&mut ann, "STREAM.INFO.ORDERS", &Value::Null)["state"]["messages"], 0);
    is_clean(&mut browser, &server);

    // Another account sees nothing of this.
    browser.press("Sign out");
    enter(&mut browser, "bob", "bob's");
    go(&mut browser, "/streams");
    browser.wait_for("This account has no streams yet.");
    go(&mut browser, "/streams/ORDERS");
    browser.wait_for("stream not found");
    go(&mut browser, "/log");
    browser.wait_for("This view is for users of the system account.");
    // And who may ask for little is told what it may not.
    browser.press("Sign out");
    enter(&mut browser, "amy", "amy's");
    go(&mut browser, "/streams");
    browser.wait_for("ORDERS");
    go(&mut browser, "/streams/ORDERS");
    browser.wait_for("Permissions Violation for Publish to \"$JS.API.STREAM.INFO.ORDERS\"");
}

#[test]
fn it_works_by_keyboard_and_on_a_phone_with_many_streams() {
    const STREAMS: usize = 1_000;
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let mut ann = sign_in(&server, "ann");
    for n in 0..STREAMS {
        let name = format!("STREAM_WITH_A_RATHER_LONG_NAME_{n}");
        let config = json!({ "name": name, "subjects": [format!("s.{n}")], "storage": "memory" });
        api(&mut ann, &format!("STREAM.CREATE.{name}"), &config);
    }
    let Some(mut browser) = Browser::start() else { return };
    browser.size(1280, 800, false);
    browser.open(&format!("http://{}/ui/", pages(&server)));
    browser.wait("document.activeElement.name === 'username'");
    browser.fill("input[name=username]", "ann");
    browser.key("Tab", 9);
    assert_eq!(browser.script("document.activeElement.name"), "password");
    browser.fill("input[name=password]", "ann's");
    browser.key("Enter", 13);
    browser.wait("document.querySelector('main#main .panel')");
    go(&mut browser, "/streams");
    browser.wait("document.querySelector('.counted')?.innerText === '1,000'");
    let rows = browser.script("document.querySelectorAll('main tbody tr').length");
    assert!(rows.as_u64().is_some_and(|rows| rows > 10 && rows < 120), "{rows}");
    browser.script("document.querySelector('.scroller').scrollTop = 1e9");
    browser.wait_for("STREAM_WITH_A_RATHER_LONG_NAME_999");
    browser.key("/", 191);
    assert_eq!(browser.script("document.activeElement.type"), "search");
    browser.fill("main .search", "NAME_19");
    browser.wait("document.querySelector('.counted').innerText === '11 of 1,000'");
    browser.key("ArrowDown", 40);
    browser.key("ArrowDown", 40);
    assert_eq!(browser.script("document.activeElement.innerText"), "STREAM_WITH_A_RATHER_LONG_NAME_190");
    browser.key("Enter", 13);
    browser.wait("document.querySelector('h1')?.innerText === 'STREAM_WITH_A_RATHER_LONG_NAME_190'");
    assert_eq!(browser.script("document.activeElement.id"), "main", "the keyboard goes on there");
    browser.size(360, 640, true);
    let views = ["/overview", "/connections", "/streams", "/tail", "/nowhere"].map(str::to_owned);
    let parts = ["", "/messages", "/consumers", "/publish", "/config"];
    let parts = parts.map(|part| format!("/streams/STREAM_WITH_A_RATHER_LONG_NAME_190{part}"));
    for view in views.iter().chain(&parts) {
        go(&mut browser, view);
        browser.wait("document.querySelector('main .table, main .panel, main .empty')");
        is_not_wider_than_the_screen(&mut browser);
    }
    browser.press("Purge…");
    is_not_wider_than_the_screen(&mut browser);
    browser.key("Escape", 27);
    is_clean(&mut browser, &server);
}

/// Views ask by one chain of questions, also where somebody comes back while answers are awaited,
/// and what fails beside it is told in the same place.
#[test]
fn a_view_asks_by_one_chain_and_tells_what_fails() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let mut ann = sign_in(&server, "ann");
    api(&mut ann, "STREAM.CREATE.ORDERS", &json!({ "name": "ORDERS", "subjects": ["orders.*"] }));
    let Some(mut browser) = page(&server, "ann") else { return };
    // What is sent because somebody looks again while the first question is being sent.
    browser.script(
        "window.send = WebSocket.prototype.send; window.within = 0; window.again = 0;
         WebSocket.prototype.send = function (data) {
             if (window.within === 1) window.again += 1;
             if (window.within === 0 && location.hash === '#/streams/ORDERS') {
                 window.within = 1;
                 document.dispatchEvent(new Event('visibilitychange'));
                 window.within = 2;
             }
             return window.send.call(this, data);
         }; 0",
    );
    go(&mut browser, "/streams/ORDERS");
    browser.wait_for("Sequences");
    assert_eq!(browser.script("[window.within, window.again]"), json!([2, 0]));

    let cut = "WebSocket.prototype.send = function (data) {
        if (new TextDecoder().decode(data).startsWith('PUB')) throw new Error('cut off');
        return window.send.call(this, data);
    }; 0";
    let whole = "WebSocket.prototype.send = window.send; 0";
    browser.script(whole);
    go(&mut browser, "/streams");
    browser.wait_for("ORDERS");
    browser.script(cut);
    browser.press("Load again");
    browser.wait("document.querySelector('main > .problem')?.innerText === 'cut off'");
    browser.script(whole);
    go(&mut browser, "/connections");
    browser.wait("document.querySelector('.counted')?.innerText > ''");
    browser.script(cut);
    browser.script("document.querySelectorAll('input[name=state]')[1].click()");
    browser.wait("document.querySelector('main > .problem')?.innerText === 'cut off'");
    browser.script(whole);
    is_clean(&mut browser, &server);
}

/// Writes the pictures of `docs/dashboard.md` anew, where that is asked for.
#[test]
fn pictures_of_the_documentation() {
    if std::env::var_os("MYELIN_RECORD").is_none() {
        return;
    }
    let home = Home::new();
    let server = start(&home, &format!("server_name: n1\n{ACCOUNTS}"));
    let mut ann = sign_in(&server, "ann");
    for (name, subjects) in [("ORDERS", "orders.>"), ("PAYMENTS", "payments.>"), ("SHIPMENTS", "shipments.>")]
    {
        let config = json!({ "name": name, "subjects": [subjects], "max_bytes": 1_000_000 });
        api(&mut ann, &format!("STREAM.CREATE.{name}"), &config);
    }
    for name in ["billing", "shipping"] {
        let config = json!({ "durable_name": name, "ack_policy": "explicit", "max_ack_pending": 20 });
        let body = json!({ "stream_name": "ORDERS", "config": config });
        api(&mut ann, &format!("CONSUMER.DURABLE.CREATE.ORDERS.{name}"), &body);
    }
    let mut publish = |times: u32| {
        for n in 0..times {
            let body = json!({ "id": n, "customer": format!("c-{}", n % 17), "total": 12.5 }).to_string();
            ann.say(&format!("PUB orders.new.eu {}\r\n{body}\r\n", body.len()));
        }
    };
    publish(300);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    std::fs::create_dir_all(&folder).expect("a folder");
    let Some(mut browser) = page(&server, "sys") else { return };
    browser.size(1120, 700, false);
    browser.scheme("dark");
    for round in 0..30 {
        publish(100 + 13 * (round % 7));
        let seen = browser.script("document.querySelector('.chart path.line').getAttribute('d')");
        browser.wait(&format!("document.querySelector('.chart path.line').getAttribute('d') !== {seen}"));
    }
    browser.picture(&folder.join("dashboard-overview-dark.png"));
    browser.press("Sign out");
    browser.scheme("light");
    enter(&mut browser, "ann", "ann's");
    go(&mut browser, "/streams/ORDERS/consumers/billing");
    browser.wait_for("no_pull_waits");
    browser.picture(&folder.join("dashboard-consumer-light.png"));
    browser.size(390, 700, true);
    go(&mut browser, "/streams/ORDERS/messages");
    browser.wait("document.querySelector('details.message')");
    browser.picture(&folder.join("dashboard-messages-phone.png"));
    letters::fill(&mut ann);
    browser.size(1120, 560, false);
    browser.scheme("dark");
    go(&mut browser, "/letters/DEAD");
    browser.wait_for("no such customer");
    browser.picture(&folder.join("dashboard-letters-dark.png"));
}

//! Views where something is slow, refused or gone: they say what they know, and no more.

use super::browser::{api, enter, go, is_clean, page};
use super::devtools::Browser;
use super::socket::{request, sign_in};
use super::{ACCOUNTS, pages, start};
use crate::jetstream::Home;
use crate::raw::Raw;
use crate::resources::allow_descriptors;
use rustix::process::Signal;
use serde_json::{Value, json};

/// Swallows requests that have this in their subjects, as many as there are places, and counts the
/// others.
fn swallow(browser: &mut Browser, subject: &str, places: u32) {
    browser.script(&format!(
        "window.places = {places}; window.asked = 0; window.send ??= WebSocket.prototype.send;
         WebSocket.prototype.send = function (data) {{
             const text = new TextDecoder().decode(data);
             const isMeant = text.startsWith('PUB ') && text.split(' ')[1].includes({});
             if (isMeant && window.places-- > 0) return undefined;
             if (isMeant) window.asked += 1;
             return window.send.call(this, data);
         }}; 0",
        json!(subject)
    ));
}

fn shows(browser: &mut Browser, text: &str) -> bool {
    browser.script(&format!("document.body.innerText.includes({})", json!(text))) == true
}

/// Silence at the sign-in takes no views away.
#[test]
fn an_operator_is_one_also_where_the_server_is_slow_to_say_so() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let Some(mut browser) = Browser::start() else { return };
    browser.size(1280, 800, false);
    browser.open(&format!("http://{}/ui/", pages(&server)));
    browser.wait("document.querySelector('input[name=username]')");
    swallow(&mut browser, ".VARZ", 1);
    enter(&mut browser, "sys", "sys's");
    browser.wait("document.querySelector('nav a[href=\"#/log\"]')");
    go(&mut browser, "/log");
    browser.wait_for("Server is ready");
    is_clean(&mut browser, &server);
}

#[test]
fn nothing_is_said_to_be_missing_where_nobody_could_look() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let mut ann = sign_in(&server, "ann");
    api(&mut ann, "STREAM.CREATE.DEAD", &json!({ "name": "DEAD", "subjects": ["dlq.>"] }));
    let Some(mut browser) = page(&server, "amy") else { return };
    let is_told = |view: &str| {
        let heading = format!("document.querySelector('h1')?.innerText === {}", json!(view));
        format!("{heading} && !document.querySelector('main > .problem').hidden")
    };
    go(&mut browser, "/letters/DEAD");
    browser.wait(&is_told("DEAD"));
    assert!(!shows(&mut browser, "This stream has no dead letters."));
    let hidden =
        "[...document.querySelectorAll('main button')].find((one) => one.textContent === 'More').hidden";
    assert_eq!(browser.script(hidden), true);
    go(&mut browser, "/connections");
    browser.wait(&is_told("Connections"));
    assert!(!shows(&mut browser, "Nobody is connected."));
    // Whoever may look is told.
    browser.press("Sign out");
    enter(&mut browser, "ann", "ann's");
    go(&mut browser, "/letters/DEAD");
    browser.wait_for("This stream has no dead letters.");
    // Streams of an account, where the server has not answered yet.
    browser.press("Sign out");
    enter(&mut browser, "sys", "sys's");
    browser.wait("document.querySelector('nav a[href=\"#/log\"]')");
    swallow(&mut browser, ".JSZ", 1000);
    go(&mut browser, "/accounts/A");
    browser.wait_for("Exports");
    assert!(!shows(&mut browser, "This account has no streams here."));
    go(&mut browser, "/overview");
    swallow(&mut browser, ".JSZ", 0);
    go(&mut browser, "/accounts/B");
    browser.wait_for("This account has no streams here.");
    go(&mut browser, "/accounts/A");
    browser.wait_for("DEAD");
    is_clean(&mut browser, &server);
}

#[test]
fn all_connections_of_an_account_are_shown() {
    const MANY: usize = 1030;
    allow_descriptors(MANY as u64 + 1000);
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let clients: Vec<Raw> = (0..MANY)
        .map(|_| {
            let mut client = Raw::open(server.address());
            client.send("CONNECT {\"verbose\":false,\"user\":\"ann\",\"pass\":\"ann's\"}\r\n");
            client.barrier();
            client
        })
        .collect();
    let Some(mut browser) = page(&server, "ann") else { return };
    go(&mut browser, "/connections");
    let counted = "document.querySelector('.counted')?.innerText";
    // The page is one, too.
    browser.wait(&format!("{counted} === '1,031'"));
    drop(clients);
    is_clean(&mut browser, &server);
}

#[test]
fn the_system_account_is_not_asked_for_streams_again_and_again() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let Some(mut browser) = page(&server, "sys") else { return };
    let problem = "document.querySelector('main > .problem').hidden";
    go(&mut browser, "/streams");
    browser.wait("document.querySelector('h1')?.innerText === 'Streams'");
    browser.wait_for("The system account has no streams. Those of all accounts are below Accounts");
    assert_eq!(browser.script(problem), true);
    swallow(&mut browser, "$JS.API", 0);
    go(&mut browser, "/letters");
    browser.wait_for("The system account has no streams: sign in as a user of an account.");
    go(&mut browser, "/streams");
    browser.wait_for("The system account has no streams. Those of all accounts are below Accounts");
    assert_eq!(browser.script(problem), true);
    assert_eq!(browser.script("window.asked"), 0);
    is_clean(&mut browser, &server);
}

#[test]
fn a_dialog_ends_with_the_session() {
    let home = Home::new();
    let server = start(&home, ACCOUNTS);
    let mut ann = sign_in(&server, "ann");
    api(&mut ann, "STREAM.CREATE.ORDERS", &json!({ "name": "ORDERS", "subjects": ["orders.*"] }));
    let Some(mut browser) = page(&server, "ann") else { return };
    go(&mut browser, "/streams/ORDERS");
    browser.wait_for("Sequences");
    browser.press("Purge…");
    browser.wait("document.querySelector('dialog')");
    let text = std::fs::read_to_string(server.config_file()).expect("the configuration");
    server.reload(&text.replace("user: ann,", "user: ann2,"));
    browser.wait("document.querySelector('input[name=username]')");
    assert_eq!(browser.script("document.querySelectorAll('dialog').length"), 0);
}

/// A server that was started anew does not know when it delivered last.
#[test]
fn a_consumer_that_has_delivered_did_not_never_deliver() {
    let home = Home::new();
    let mut server = start(&home, ACCOUNTS);
    let mut ann = sign_in(&server, "ann");
    api(&mut ann, "STREAM.CREATE.ORDERS", &json!({ "name": "ORDERS", "subjects": ["orders.*"] }));
    let config = json!({ "durable_name": "billing", "ack_policy": "explicit" });
    let body = json!({ "stream_name": "ORDERS", "config": config });
    api(&mut ann, "CONSUMER.DURABLE.CREATE.ORDERS.billing", &body);
    ann.say("PUB orders.a 2\r\n{}\r\n");
    let next = "$JS.API.CONSUMER.MSG.NEXT.ORDERS.billing";
    assert_eq!(request(&mut ann, next, &Value::Null), Ok(json!({})));
    drop(ann);
    server.signal(Signal::TERM);
    server.wait();
    server.restart();
    let Some(mut browser) = page(&server, "ann") else { return };
    go(&mut browser, "/streams/ORDERS/consumers/billing");
    browser.wait_for("Delivered");
    browser.wait("[...document.querySelectorAll('dd')].some((fact) => fact.innerText === '1')");
    assert!(!shows(&mut browser, "never"), "{}", browser.text());
    is_clean(&mut browser, &server);
}

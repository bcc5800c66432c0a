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

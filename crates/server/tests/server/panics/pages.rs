//! Panics in the parts that serve monitoring.

use super::{Stage, knock};
use crate::eventually;
use crate::jetstream::publish;
use crate::process::Setup;
use crate::raw::Raw;

pub(super) const CASES: &[&str] = &["otlp", "otlp-spans", "monitoring", "http", "pages", "meter"];

#[test]
fn pages_are_served_after_a_panic_in_any_part() {
    let stage = Stage::start(Setup::default());
    let pages = stage.server.monitor("Starting http monitor on ");
    let ask = b"GET /varz HTTP/1.0\r\n\r\n";
    for (count, part) in (1..).zip(["monitoring", "http", "pages"]) {
        stage.strike(part, |_| knock(pages, ask));
        assert_eq!(stage.panics(), count, "{part}");
        assert!(stage.server.page("/varz")["cpu"].is_number());
    }
    stage.strike("meter", |_| {});
    assert_eq!(stage.panics(), 4);
    stage.serves();
}

#[test]
fn metrics_are_pushed_when_that_has_panicked() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let config = format!("otlp {{ endpoint: \"http://{address}\", interval: \"100ms\" }}");
    let stage = Stage::start(Setup::default().config(&config));
    stage.strike("otlp", |_| {});
    // Whoever was there before is passed over.
    listener.set_nonblocking(true).expect("a listener");
    while listener.accept().is_ok() {}
    eventually("another push", || listener.accept().is_ok());
    stage.serves();
}

#[test]
fn spans_are_pushed_when_that_has_panicked() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    // Only spans are pushed this soon.
    let config = format!("otlp {{ endpoint: \"http://{address}\", interval: \"1h\", traces: true }}");
    let stage = Stage::start(Setup::default().config(&config));
    let header = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    let mut client = Raw::connect(&stage.server);
    let mut say = || {
        client.send_bytes(&publish("a", "", header, b"m"));
        client.barrier();
    };
    stage.strike("otlp-spans", |_| say());
    listener.set_nonblocking(true).expect("a listener");
    eventually("a push", || {
        say();
        listener.accept().is_ok()
    });
    drop(client);
    stage.serves();
}

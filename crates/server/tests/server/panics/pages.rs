//! Panics in the parts that serve monitoring.

use super::{Stage, knock};
use crate::process::Setup;

pub(super) const CASES: &[&str] = &["monitoring", "http", "pages", "meter"];

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

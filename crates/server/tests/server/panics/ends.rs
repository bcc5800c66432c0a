//! Panics in parts that the server cannot do without: it ends, with a message and an exit code, and
//! the next one finds what was promised.

use super::{Stage, ask_for, knock};
use crate::eventually;
use crate::jetstream::{Asker, Home};
use crate::process::Setup;
use rustix::process::Signal;
use serde_json::json;

pub(super) const CASES: &[&str] = &["main", "control", "shard", "js-disk"];

/// Strikes a part and waits for the end of the process.
fn end(stage: &mut Stage, part: &str, mut provoke: impl FnMut(&mut Stage)) -> (Option<i32>, String) {
    ask_for(stage.folder.path(), part);
    eventually(&format!("the end by {part}"), || {
        provoke(stage);
        !stage.server.is_running()
    });
    let status = stage.server.wait();
    let line = stage.server.wait_for_log("[FTL] ");
    (status.code(), line)
}

#[test]
fn a_shard_that_ends_ends_the_server() {
    let mut stage = Stage::start(Setup::default());
    let (code, line) = end(&mut stage, "shard", |stage| knock(stage.server.address(), b""));
    assert_eq!(code, Some(2));
    assert!(
        line.ends_with("shard has ended in a panic, and its connections would not be served: exit code 2"),
        "{line}"
    );
}

#[test]
fn a_panic_of_the_main_thread_ends_the_server() {
    let mut stage = Stage::start(Setup::default());
    let mut is_told = false;
    let (code, line) = end(&mut stage, "main", |stage| {
        if !std::mem::replace(&mut is_told, true) {
            stage.server.signal(Signal::USR1);
        }
    });
    assert_eq!(code, Some(2));
    assert!(line.contains("main has ended in a panic"), "{line}");
}

#[test]
fn a_panic_of_the_control_thread_ends_the_server_with_a_code_of_its_own() {
    let mut stage = Stage::start(Setup::default());
    let mut is_told = false;
    // The thread itself, and not a task on it, has something to do at the end only.
    let (code, line) = end(&mut stage, "control", |stage| {
        if !std::mem::replace(&mut is_told, true) {
            stage.server.signal(Signal::TERM);
        }
    });
    assert_eq!(code, Some(2));
    assert!(line.contains("control has ended in a panic, and nobody could connect any more"), "{line}");
}

#[test]
fn a_journal_that_panics_ends_the_server_and_what_was_acknowledged_is_there() {
    let home = Home::new();
    let mut stage = Stage::start(home.setup("sync_interval: always"));
    let mut asker = Asker::connect(&stage.server);
    asker.create("S", &json!({}));
    let acknowledged = (0..20).filter(|n| asker.publish("S.x", &n.to_string())["seq"].is_u64()).count();
    let (code, line) = end(&mut stage, "js-disk", |_| {
        // More would not be acknowledged.
        let _ = asker.raw.try_send(b"PUB S.x 4\r\nmore\r\n");
    });
    assert_eq!((code, acknowledged), (Some(1), 20));
    assert!(
        line.contains("js-disk has ended in a panic, and nothing could be made durable any more"),
        "{line}"
    );
    let server = home.setup("sync_interval: always").start();
    let messages = Asker::connect(&server).number("S", "messages");
    assert!(messages >= 20, "{messages}");
}

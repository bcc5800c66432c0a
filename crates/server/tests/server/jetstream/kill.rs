//! SIGKILL while messages are published: what was acknowledged is there, in order, and nothing that
//! was not sent.

use super::load::{self, BATCH, Known, Way};
use super::{Asker, Home};
use crate::process::Server;
use rustix::process::Signal;
use serde_json::{Value, json};

/// After how many acknowledgements of each run the server is killed.
const MOMENTS: [u64; 4] = [1, 333, 2_500, 1_000];

/// Promise of a mode about acknowledged messages after a kill: all are there, or those up to some
/// message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promise {
    All,
    Prefix,
}

/// Publishes and kills, several times on the same store.
fn torment(lines: &str, config: &Value, way: Way, promise: Promise) {
    let home = Home::new();
    let mut server = home.start(lines);
    let mut whole = way.config();
    let more = config.as_object().expect("a configuration").clone();
    whole.as_object_mut().expect("a configuration").extend(more);
    Asker::connect(&server).create("LOAD", &whole);
    let mut last = 0;
    for enough in MOMENTS {
        let known = load::run(&server, way, last + 1, enough, || server.signal(Signal::KILL));
        assert!(known.acked >= last + enough, "{known:?}");
        server.restart();
        last = check(&server, known, way, promise);
        let log = server.log();
        assert!(!log.contains("[ERR]") && !log.contains("[FTL]"), "{log}");
    }
    // It goes on as if nothing had happened.
    let next = load::message(last + 1);
    let ack = Asker::connect(&server).publish(&next.subject, "after");
    assert_eq!(ack, json!({ "stream": "LOAD", "seq": last + 1 }));
}

/// Checks what is stored; answers the last sequence.
fn check(server: &Server, known: Known, way: Way, promise: Promise) -> u64 {
    let mut asker = Asker::connect(server);
    let state = asker.state("LOAD");
    let all = asker.read_all("LOAD");
    for (stored, n) in all.iter().zip(1..) {
        assert_eq!(stored, &load::message(n));
    }
    let last = all.len() as u64;
    assert_eq!(state["messages"], last, "{state}");
    assert_eq!(state["last_seq"], last, "{state}");
    assert!(last <= known.written, "{last} of {known:?}");
    if promise == Promise::All {
        assert!(last >= known.acked, "{last} of {known:?}");
    }
    if way == Way::Atomic {
        assert_eq!(last % BATCH, 0, "half a batch is stored");
    }
    let page = server.page("/jsz?accounts=1&streams=1");
    assert_eq!(page["messages"], last, "{page}");
    last
}

#[test]
fn plain_messages() {
    torment("", &json!({}), Way::Plain, Promise::All);
}

#[test]
fn atomic_batches() {
    torment("", &json!({}), Way::Atomic, Promise::All);
}

#[test]
fn fast_batches() {
    torment("", &json!({}), Way::Fast, Promise::All);
}

#[test]
fn compressed_messages() {
    torment("", &json!({ "compression": "s2" }), Way::Plain, Promise::All);
}

#[test]
fn plain_messages_synced_always() {
    torment("sync_interval: always", &json!({}), Way::Plain, Promise::All);
}

#[test]
fn atomic_batches_synced_always() {
    torment("sync_interval: always", &json!({}), Way::Atomic, Promise::All);
}

#[test]
fn fast_batches_synced_always() {
    torment("sync_interval: always", &json!({}), Way::Fast, Promise::All);
}

#[test]
fn plain_messages_of_an_asynchronous_stream() {
    torment("", &json!({ "persist_mode": "async" }), Way::Plain, Promise::Prefix);
}

#[test]
fn fast_batches_of_an_asynchronous_stream() {
    torment("", &json!({ "persist_mode": "async" }), Way::Fast, Promise::Prefix);
}

#[test]
fn encrypted_messages() {
    torment("key: secret", &json!({}), Way::Plain, Promise::All);
}

#[test]
fn streams_in_memory_leave_nothing_and_harm_nobody() {
    let home = Home::new();
    let mut server = home.start("");
    for way in [Way::Plain, Way::Atomic, Way::Fast] {
        let mut asker = Asker::connect(&server);
        let mut config = way.config();
        config["storage"] = json!("memory");
        asker.create("LOAD", &config);
        let kept = asker.try_api("STREAM.INFO.KEPT", &Value::Null).get("error").is_none();
        if !kept {
            asker.create("KEPT", &json!({}));
            assert_eq!(asker.publish("KEPT.a", "kept")["seq"], 1);
        }
        load::run(&server, way, 1, 2_000, || server.signal(Signal::KILL));
        server.restart();
        let mut asker = Asker::connect(&server);
        let gone = asker.try_api("STREAM.INFO.LOAD", &Value::Null);
        assert_eq!(gone["error"]["err_code"], 10059, "{gone}");
        assert_eq!(asker.number("KEPT", "messages"), 1);
    }
}

//! Counters whose totals have to be read from the device.

use super::{Asker, Home, publish};
use rustix::fs::{Advice, fadvise};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const COUNTERS: u64 = 300;

/// Takes all files out of the system's memory.
fn chill(folder: &Path) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            chill(&path);
        } else {
            let file = fs::File::open(&path).expect("a file");
            file.sync_all().expect("a disk that syncs");
            fadvise(&file, 0, None, Advice::DontNeed).expect("a file that may be forgotten");
        }
    }
}

fn increment(asker: &mut Asker, n: u64) {
    let reply = asker.reply();
    asker.raw.send_bytes(&publish(&format!("C.{n}"), &reply, "Nats-Incr: 1\r\n", b""));
}

/// Increments wait for it in their order, and requests to the API do not disturb that.
#[test]
fn totals_that_are_cold_are_counted_on() {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("C", &json!({ "allow_msg_counter": true, "max_msgs_per_subject": 1 }));
    // One that copies it counts on from its own.
    let copy = json!({ "subjects": null, "allow_msg_counter": true, "sources": [{ "name": "C" }] });
    asker.create("D", &copy);
    for n in 0..COUNTERS {
        increment(&mut asker, n);
        assert!(asker.raw.message().text().contains("\"val\":\"1\""));
    }
    for round in 0..3 {
        server.signal(Signal::TERM);
        server.wait();
        chill(home.path());
        server.restart();
        let mut asker = Asker::connect(&server);
        let (first, mut totals) = (2 + round * 2, Vec::new());
        for n in (0..COUNTERS).chain(0..COUNTERS) {
            increment(&mut asker, n);
        }
        for _ in 0..2 * COUNTERS {
            let answer = asker.raw.message();
            let answer: Value = serde_json::from_slice(&answer.body).expect("an answer");
            totals.push(answer["val"].as_str().and_then(|val| val.parse::<u64>().ok()).expect("a total"));
        }
        let expected = |total: u64| vec![total; COUNTERS as usize];
        assert_eq!(totals, [expected(first), expected(first + 1)].concat());
        crate::eventually("the copy is complete", || {
            let last = asker.ask(&format!("$JS.API.DIRECT.GET.D.C.{}", COUNTERS - 1), "");
            last.text().ends_with(&format!("{{\"val\":\"{}\"}}", first + 1))
        });
    }
}

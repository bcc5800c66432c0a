//! Acknowledgements, clocks and message ids.

use std::sync::Arc;

use myelin_store::{Admission, NewMessage, Stream, Wait};
use myelin_wire::message_buf::MessageRef;

use super::{Bench, NOW, block, config, msg};
use crate::stream::{Effects, StreamCore, StreamSettings, storage_config};
use myelin_jsapi::config::StreamConfig;

#[test]
fn messages_of_a_parcel_are_stored_and_acknowledged_in_order() {
    let mut bench = Bench::new(config());
    let said = bench.msgs(&[msg("a", "r1"), msg("b", ""), msg("c", "r3")]);
    assert_eq!(said, [r#"r1 {"stream":"S","seq":1}"#, r#"r3 {"stream":"S","seq":3}"#]);
    let mut buffer = Vec::new();
    let message = bench.core.reader().get(2, Wait::Allowed, &mut buffer).unwrap().unwrap();
    assert_eq!((message.subject, message.payload, message.timestamp), (&b"b"[..], &b"hello"[..], NOW + 1));
}

#[test]
fn timestamps_grow_when_the_clock_does_not() {
    let mut bench = Bench::new(config());
    bench.msgs(&[msg("a", ""), msg("b", "")]);
    bench.now -= 1_000_000;
    bench.msgs(&[msg("c", "")]);
    let mut buffer = Vec::new();
    let message = bench.core.reader().get(3, Wait::Allowed, &mut buffer).unwrap().unwrap();
    assert_eq!(message.timestamp, NOW + 2);
}

#[test]
fn a_stream_without_acknowledgements_says_nothing() {
    let mut bench = Bench::new(StreamConfig { no_ack: true, max_msg_size: 3, ..config() });
    let short = MessageRef { payload: b"x", ..msg("a", "r") };
    assert!(bench.msgs(&[short, msg("a", "r")]).is_empty());
    assert_eq!((bench.last(), bench.core.drops()), (1, &[(10054, 1)][..]));
}

#[test]
fn a_message_that_comes_twice_is_stored_once() {
    let mut bench = Bench::new(config());
    let duplicate = r#"{"stream":"S","seq":2,"duplicate": true}"#;
    bench.publish("a", &[], "x");
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: one"], "x"), r#"{"stream":"S","seq":2}"#);
    assert_eq!(bench.publish("b", &["Nats-Msg-Id: one"], "y"), duplicate);
    bench.now += 120_000_000_000 + 1;
    assert_eq!(bench.publish("b", &["Nats-Msg-Id: one"], "y"), r#"{"stream":"S","seq":3}"#);
}

#[test]
fn the_same_id_twice_in_one_parcel_is_seen() {
    let mut bench = Bench::new(StreamConfig { max_msg_size: 60, ..config() });
    let headers = block(&["Nats-Msg-Id: one"]);
    let message = MessageRef { headers: headers.as_bytes(), ..msg("a", "r") };
    let said = bench.msgs(&[message, message, msg("b", "r"), message]);
    let duplicate = r#"r {"stream":"S","seq":1,"duplicate": true}"#;
    assert_eq!(said, [r#"r {"stream":"S","seq":1}"#, duplicate, r#"r {"stream":"S","seq":2}"#, duplicate]);
}

#[test]
fn ids_are_known_after_a_restart() {
    let settings = StreamSettings::default();
    let mut store = Stream::in_memory(storage_config(&config(), false), 1, NOW);
    let headers = ["Nats-Msg-Id: old", "Nats-Msg-Id: new"].map(|line| block(&[line]));
    for (at, headers) in headers.iter().enumerate() {
        let timestamp = NOW + at as i64 * 100_000_000_000;
        let message =
            NewMessage { timestamp, subject: b"a", headers: headers.as_bytes(), ..Default::default() };
        store.append(&[message], Admission::Check, timestamp, &mut Vec::new()).unwrap();
    }
    let now = NOW + 130_000_000_000;
    let core = StreamCore::new(Arc::new(config()), store, settings, now);
    let mut bench = Bench { core, now, effects: Effects::default() };
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: new"], "x"), r#"{"stream":"S","seq":2,"duplicate": true}"#);
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: old"], "x"), r#"{"stream":"S","seq":3}"#);
    // It counts from the message, not from the restart.
    bench.now = NOW + 230_000_000_000;
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: new"], "x"), r#"{"stream":"S","seq":4}"#);
}

#[test]
fn a_clock_that_is_set_back_is_followed() {
    let mut bench = Bench::new(config());
    let time = |bench: &Bench| {
        let mut buffer = Vec::new();
        let reader = bench.core.reader();
        reader.get(bench.last(), myelin_store::Wait::Allowed, &mut buffer).unwrap().unwrap().timestamp
    };
    bench.publish("a", &[], "x");
    let first = time(&bench);
    bench.now -= 500_000_000;
    bench.publish("a", &[], "x");
    assert_eq!(time(&bench), first + 1, "by a little it is waited for");
    bench.now -= 3_600_000_000_000;
    bench.publish("a", &[], "x");
    assert_eq!(time(&bench), bench.now);
    bench.msgs(&[msg("a", ""); 2]);
    assert_eq!(time(&bench), bench.now + 2, "and is in order from there on");
}

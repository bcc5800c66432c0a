//! Messages that are published again.

use super::{Bench, block, config, msg};
use myelin_jsapi::config::{Discard, Republish, StreamConfig};
use myelin_wire::message_buf::MessageRef;

fn republishing(source: &str, destination: &str, headers_only: bool) -> StreamConfig {
    let rule = Republish { source: source.into(), destination: destination.into(), headers_only };
    StreamConfig { republish: Some(rule), ..config() }
}

/// Republished message. `own`: the header lines that the stored one had, `end`: what follows the
/// stream's.
fn again(subject: &str, own: &str, stored: (&str, u64), nanos: u32, last: u64, end: &str) -> String {
    let (from, seq) = stored;
    let fraction = if nanos == 0 { String::new() } else { format!(".{nanos:09}") };
    format!(
        "{subject} NATS/1.0\r\n{own}Nats-Stream: S\r\nNats-Subject: {from}\r\nNats-Sequence: {seq}\r\n\
         Nats-Time-Stamp: 2023-11-14T22:13:20{fraction}Z\r\nNats-Last-Sequence: {last}\r\n{end}"
    )
}

#[test]
fn a_stored_message_is_published_again_before_it_is_acknowledged() {
    let mut bench = Bench::new(republishing("a.>", "again.>", false));
    let headers = block(&["A: b"]);
    let second = MessageRef { headers: headers.as_bytes(), ..msg("a.1", "") };
    let said = bench.msgs(&[msg("a.1", "r"), second, msg("other", "r")]);
    let expected = [
        again("again.1", "", ("a.1", 1), 0, 0, "\r\n hello"),
        r#"r {"stream":"S","seq":1}"#.to_owned(),
        again("again.1", "A: b\r\n", ("a.1", 2), 1, 1, "\r\n hello"),
        r#"r {"stream":"S","seq":3}"#.to_owned(),
    ];
    assert_eq!(said, expected);
}

#[test]
fn of_a_message_only_its_headers_may_be_published() {
    let mut bench = Bench::new(republishing("", "again.>", true));
    let said = bench.msgs(&[msg("a", "")]);
    assert_eq!(said, [again("again.a", "", ("a", 1), 0, 0, "Nats-Msg-Size: 5\r\n\r\n")]);
}

#[test]
fn what_was_refused_is_neither_published_nor_followed() {
    let config = StreamConfig {
        discard: Discard::New,
        discard_new_per_subject: true,
        max_msgs_per_subject: 1,
        ..republishing(">", "again.>", false)
    };
    let mut bench = Bench::new(config);
    let said = bench.msgs(&[msg("a", ""), msg("a", ""), msg("b", "")]);
    let expected = [
        again("again.a", "", ("a", 1), 0, 0, "\r\n hello"),
        // Compat: the message that was refused has used up its time, not its sequence.
        again("again.b", "", ("b", 2), 2, 0, "\r\n hello"),
    ];
    assert_eq!(said, expected);
    let mut bench = Bench::new(StreamConfig {
        discard: Discard::New,
        max_msgs: 1,
        ..republishing(">", "again.>", false)
    });
    bench.msgs(&[msg("a", "")]);
    bench.core.delete(1, bench.now, &mut bench.effects).unwrap();
    let said = bench.msgs(&[msg("a", ""), msg("a", "")]);
    assert_eq!(said.len(), 1);
}

//! Sizes, limits of streams and of accounts, and streams that keep nothing.

use std::path::Path;
use std::sync::Arc;

use myelin_store::{StoreOptions, Wait};
use myelin_wire::message_buf::MessageRef;

use super::release::{has_begun, on_disk_with};
use super::{Bench, block, config, error, msg};
use crate::stream::{StorageBudget, StreamSettings};
use myelin_jsapi::config::{Discard, Retention, Storage, StreamConfig, SubjectTransform};

#[test]
fn sizes_are_limited() {
    let mut bench = Bench::new(StreamConfig { max_msg_size: 20, ..config() });
    let refused = error(400, 10054, "message size exceeds maximum allowed");
    assert_eq!(bench.publish("a", &[], &"x".repeat(20)), r#"{"stream":"S","seq":1}"#);
    assert_eq!(bench.publish("a", &[], &"x".repeat(21)), refused);
    assert_eq!(bench.publish("a", &["A: b"], "xxx"), refused);
    let mut bench = Bench::new(config());
    let large = format!("A: {}", "b".repeat(66_000));
    assert_eq!(
        bench.publish("a", &[&large], "x"),
        error(400, 10097, "header size exceeds maximum allowed of 64k")
    );
}

#[test]
fn a_record_that_the_reference_cannot_store_is_refused() {
    let mut bench = Bench::new(StreamConfig { storage: Storage::File, ..config() });
    let refused = error(503, 10077, "message too large");
    assert_eq!(bench.publish("a", &[], &"x".repeat(32 << 20)), refused);
    let mut bench = Bench::new(config());
    assert_eq!(bench.publish("a", &[], &"x".repeat(32 << 20)), r#"{"stream":"S","seq":1}"#);
}

#[test]
fn a_sealed_stream_takes_nothing() {
    let mut bench = Bench::new(StreamConfig { sealed: true, ..config() });
    assert_eq!(bench.publish("a", &[], "x"), error(400, 10109, "invalid operation on sealed stream"));
}

#[test]
fn a_stream_that_discards_new_messages_says_why() {
    let new = StreamConfig { discard: Discard::New, ..config() };
    let mut bench = Bench::new(StreamConfig { max_msgs: 2, ..new.clone() });
    let full = format!("r {}", error(503, 10077, "maximum messages exceeded"));
    let said = bench.msgs(&[msg("a", "r"); 3]);
    assert_eq!(said, [r#"r {"stream":"S","seq":1}"#, r#"r {"stream":"S","seq":2}"#, &full]);
    let mut bench = Bench::new(StreamConfig { max_bytes: 10, ..new.clone() });
    assert_eq!(bench.publish("a", &[], "x"), error(503, 10077, "maximum bytes exceeded"));
    let per_subject = StreamConfig {
        max_msgs_per_subject: 1,
        discard_new_per_subject: true,
        allow_rollup_hdrs: true,
        ..new
    };
    let mut bench = Bench::new(per_subject);
    bench.publish("a", &[], "x");
    assert_eq!(bench.publish("a", &[], "x"), error(503, 10077, "maximum messages per subject exceeded"));
    assert_eq!(bench.publish("a", &["Nats-Rollup: sub"], "x"), r#"{"stream":"S","seq":2}"#);
    assert_eq!(bench.core.state().totals.messages, 1);
}

#[test]
fn the_id_of_a_message_that_was_refused_is_free() {
    let mut bench = Bench::new(StreamConfig { discard: Discard::New, max_msgs: 1, ..config() });
    let headers = block(&["Nats-Msg-Id: one"]);
    let message = MessageRef { headers: headers.as_bytes(), ..msg("a", "r") };
    let full = format!("r {}", error(503, 10077, "maximum messages exceeded"));
    let said = bench.msgs(&[msg("a", ""), message, message]);
    assert_eq!(said, [full.clone(), full]);
    bench.core.delete(1, bench.now, &mut bench.effects).unwrap();
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: one"], "x"), r#"{"stream":"S","seq":2}"#);
}

#[test]
fn an_account_keeps_no_more_than_it_may() {
    let account = Arc::new(StorageBudget::new(60));
    let settings = StreamSettings { account: Arc::clone(&account), ..StreamSettings::default() };
    let mut bench = Bench::with(StreamConfig { max_msgs: 1, ..config() }, settings);
    // 22 bytes each.
    let refused = error(400, 10002, "resource limits exceeded for account");
    let said = bench.msgs(&[msg("a", "r"); 3]);
    assert_eq!(said[2], r#"r {"stream":"S","seq":3}"#, "the others have gone by then");
    assert_eq!(account.used(), 22);
    account.set_limit(43);
    assert_eq!(bench.publish("a", &[], "hello"), refused);
    drop(bench);
    assert_eq!(account.used(), 0);
}

#[test]
fn a_server_that_keeps_too_much_takes_nothing() {
    let server = Arc::new(StorageBudget::new(30));
    let settings = StreamSettings { server: Arc::clone(&server), ..StreamSettings::default() };
    let mut bench = Bench::with(config(), settings);
    let refused = error(503, 10023, "insufficient resources");
    // Compat: what brings it above its limit is still taken.
    let said = bench.msgs(&[msg("a", "r"); 3]);
    assert_eq!(
        said,
        ["{\"stream\":\"S\",\"seq\":1}", "{\"stream\":\"S\",\"seq\":2}", &refused]
            .map(|text| format!("r {text}"))
    );
}

#[test]
fn a_stream_that_nobody_is_interested_in_counts_and_keeps_nothing() {
    let mut bench = Bench::new(StreamConfig { retention: Retention::Interest, ..config() });
    assert_eq!(bench.publish("a", &[], "x"), r#"{"stream":"S","seq":1}"#);
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: q"], "x"), r#"{"stream":"S","seq":2}"#);
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: q"], "x"), r#"{"stream":"S","seq":2,"duplicate": true}"#);
    assert_eq!(bench.publish("a", &["Nats-TTL: x"], "x"), r#"{"stream":"S","seq":3}"#);
    let totals = bench.core.state().totals;
    assert_eq!((totals.messages, totals.first_seq, totals.last_seq), (0, 4, 3));
}

#[test]
fn subjects_are_transformed_before_anything_else() {
    let rule = SubjectTransform { source: "in.*".into(), destination: "out.{{wildcard(1)}}".into() };
    let mut bench = Bench::new(StreamConfig { subject_transform: Some(rule), ..config() });
    let headers = block(&["Nats-Expected-Last-Subject-Sequence: 1"]);
    let expecting = MessageRef { headers: headers.as_bytes(), ..msg("in.1", "r") };
    let said = bench.msgs(&[msg("in.1", ""), expecting, msg("other", "")]);
    assert_eq!(said, [r#"r {"stream":"S","seq":2}"#]);
    let mut buffer = Vec::new();
    for (seq, subject) in [(1, "out.1"), (2, "out.1"), (3, "other")] {
        let message = bench.core.reader().get(seq, Wait::Allowed, &mut buffer).unwrap().unwrap();
        assert_eq!(message.subject, subject.as_bytes());
    }
}

#[test]
fn memory_for_ids_is_bounded_however_many_come_at_once() {
    let settings = StreamSettings { dedupe_bytes: 256 << 10, ..StreamSettings::default() };
    let mut bench = Bench::with(config(), settings);
    for round in 0..20 {
        let headers: Vec<_> = (0..6000).map(|n| block(&[&format!("Nats-Msg-Id: {round}-{n}")])).collect();
        let refs: Vec<_> = headers
            .iter()
            .map(|headers| MessageRef { headers: headers.as_bytes(), ..msg("a", "") })
            .collect();
        bench.msgs(&refs);
        let ids = bench.core.known_ids();
        assert!(ids.bytes < 2 << 20 && ids.count <= 12_000, "{ids:?}");
    }
}

/// A removal without room was remembered in memory alone: what the rollup had taken the place
/// of was back after a start.
#[test]
fn a_full_disk_takes_no_rollup_without_the_removal_of_what_it_takes_the_place_of() {
    for length in (200..2000).step_by(97) {
        let config = StreamConfig { allow_rollup_hdrs: true, ..config() };
        let options = StoreOptions { segment_bytes: Some(8 << 10), ..StoreOptions::new(Path::new("/store")) };
        let (mut bench, store, disk) = on_disk_with(options, config, StreamSettings::default());
        has_begun(&mut bench, &store);
        store.headroom().release().expect("the disk works");
        disk.set_capacity(Some(disk.used()));
        let (mut stored, mut refused) = (0, 0);
        while refused < 20 {
            let said = bench.publish("a", &[], &"x".repeat(length + 97));
            refused += u64::from(said.contains("insufficient resources"));
            let said = bench.publish("a", &["Nats-Rollup: sub"], &"x".repeat(length));
            if said.contains("insufficient resources") {
                continue;
            }
            stored += 1;
            // With that of the beginning.
            assert_eq!(bench.core.state().totals.messages, 2, "{length} bytes: {said}");
        }
        assert!(stored > 0, "{length} bytes");
    }
}

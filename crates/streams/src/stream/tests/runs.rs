//! Messages of one buffer must fare as if each had come alone. The plain twin of runs.

use myelin_store::Wait;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use proptest::prelude::*;

use super::interest::{Consumers, interested};
use super::{Bench, block, config};
use myelin_jsapi::config::{Discard, Republish, Retention, StreamConfig, SubjectTransform};

const LINES: [&str; 22] = [
    "A: b",
    "Nats-Msg-Id: 1",
    "Nats-Msg-Id: 2",
    "Nats-Expected-Last-Sequence: 3",
    "Nats-Expected-Last-Subject-Sequence: 0",
    "Nats-Expected-Last-Subject-Sequence: 2",
    "Nats-Expected-Last-Subject-Sequence-Subject: *",
    "Nats-Expected-Last-Msg-Id: 1",
    "Nats-Rollup: sub",
    "Nats-Rollup: all",
    "Nats-Rollup: x",
    "Nats-TTL: 1",
    "Nats-TTL: x",
    "Nats-Schedule-Next: purge",
    "Nats-Request-Info: {}",
    "Nats-Required-Api-Level: 1",
    "Nats-Batch-Id: b",
    "Nats-Batch-Sequence: 1",
    "Nats-Batch-Sequence: 2",
    "Nats-Batch-Sequence: 3",
    "Nats-Batch-Commit: 1",
    "Nats-Batch-Commit: eob",
];

const REPLIES: [&str; 9] = [
    "",
    "r",
    "_I.u.2.ok.1.0.$FI",
    "_I.u.2.ok.2.1.$FI",
    "_I.u.2.ok.3.1.$FI",
    "_I.u.2.ok.4.2.$FI",
    "_I.u.2.ok.4.3.$FI",
    "_I.u.2.ok.3.4.$FI",
    "_I.v.100.fail.1.0.$FI",
];

/// A subject, a reply subject and header lines.
type Spec = (usize, usize, Vec<usize>);

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let lines = prop_oneof![
        4 => Just(Vec::new()),
        6 => proptest::collection::vec(0..LINES.len(), 1..4),
        // What key-value clients say.
        3 => prop_oneof![Just(vec![4]), Just(vec![5])],
        // Members of a batch, one after the other.
        3 => (17..20_usize, 0..LINES.len()).prop_map(|(sequence, more)| vec![16, sequence, more]),
    ];
    proptest::collection::vec((0..3_usize, 0..REPLIES.len(), lines), 1..40)
}

fn configs() -> Vec<StreamConfig> {
    let all = StreamConfig {
        allow_atomic: true,
        allow_batched: true,
        allow_msg_ttl: true,
        allow_rollup_hdrs: true,
        republish: Some(Republish { source: ">".into(), destination: "again.>".into(), headers_only: false }),
        subject_transform: Some(SubjectTransform { source: "a".into(), destination: "b".into() }),
        ..config()
    };
    let discarding = StreamConfig { discard: Discard::New, ..all.clone() };
    let interest = StreamConfig { retention: Retention::Interest, ..all.clone() };
    vec![
        StreamConfig { max_msgs: 5, discard: Discard::New, ..interest.clone() },
        StreamConfig { max_msgs: 4, ..interest.clone() },
        interest,
        StreamConfig { max_msgs_per_subject: 2, ..all.clone() },
        StreamConfig { max_msgs: 4, republish: None, ..all },
        StreamConfig { max_msgs: 5, ..discarding.clone() },
        StreamConfig { max_msgs_per_subject: 2, discard_new_per_subject: true, ..discarding },
    ]
}

/// Messages that came out and messages that are stored, after these publishes in buffers of `size`.
fn outcome(config: &StreamConfig, specs: &[Spec], size: usize) -> (Vec<String>, Vec<String>) {
    let mut bench = Bench::with(config.clone(), interested(&Consumers::want(&["b"])));
    let mut said = Vec::new();
    for specs in specs.chunks(size) {
        let mut msgs = MessageBuf::default();
        for (subject, reply, lines) in specs {
            let headers = block(&lines.iter().map(|&line| LINES[line]).collect::<Vec<_>>());
            let subject = ["a", "b", "c"][*subject].as_bytes();
            let reply = REPLIES[*reply].as_bytes();
            msgs.push(MessageRef {
                subject,
                reply,
                headers: headers.as_bytes(),
                payload: b"x",
                ..Default::default()
            });
        }
        bench.core.publish(&msgs, bench.now, &mut bench.effects);
        said.extend(bench.said());
    }
    let mut stored = Vec::new();
    let (reader, mut buffer) = (bench.core.reader(), Vec::new());
    for seq in 1..=bench.last() {
        let message = reader.get(seq, Wait::Allowed, &mut buffer).unwrap();
        stored.push(format!("{message:?}"));
    }
    (
        said.iter().map(|line| without_time(line)).collect(),
        stored.iter().map(|line| without_time(line)).collect(),
    )
}

/// A message that is refused by the log uses up a nanosecond of its run.
fn without_time(line: &str) -> String {
    let mut text = line.to_owned();
    for (key, end) in [("Nats-Time-Stamp: ", "\r\n"), ("timestamp: ", ","), ("expires: ", ",")] {
        if let Some(start) = text.find(key)
            && let Some(length) = text[start..].find(end)
        {
            text.replace_range(start..start + length, "");
        }
    }
    text
}

proptest! {
    #[test]
    fn a_parcel_is_as_good_as_many(specs in specs(), config in 0..7_usize, size in 2..40_usize) {
        let config = &configs()[config];
        let (alone, together) = (outcome(config, &specs, 1), outcome(config, &specs, size));
        prop_assert_eq!(alone, together);
    }
}

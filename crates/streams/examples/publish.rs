//! Cost of a published message inside a stream's turn: nanoseconds of the processor for each,
//! without sockets and threads.
//!
//! `cargo run --release -p myelin-streams --example publish [BUFFERS [CASE]]`: medians of five,
//! buffers of 256 messages of 128 bytes. Streams keep 100,000 messages, so that evictions are part
//! of it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use myelin_disk::real::RealDisk;
use myelin_jsapi::config::{Republish, Storage, StreamConfig};
use myelin_store::entropy::SeededEntropy;
use myelin_store::{Admission, NewMessage, Store, StoreOptions, Stream, Timestamp};
use myelin_streams::stream::{Effects, StreamCore, StreamSettings, storage_config};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

const MESSAGES: usize = 256;
const ROUNDS: usize = 5;

fn main() {
    let bufs = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let only = std::env::args().nth(2).unwrap_or_default();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = StoreOptions::new(folder.path());
    let (store, _) = Store::open(Arc::new(RealDisk), options, Arc::new(SeededEntropy::new(1)))
        .expect("an empty store opens");
    for storage in [Storage::Memory, Storage::File] {
        let stream = |name: &str, config: &StreamConfig| match storage {
            Storage::Memory => Stream::in_memory(storage_config(config, false), 1, now()),
            Storage::File => {
                store.create_stream("A", name, b"", storage_config(config, false), now()).expect("a stream")
            }
        };
        println!("{storage:?}, {bufs} parcels of {MESSAGES}");
        show("  store alone", bufs, &mut |n| append(stream(&format!("append-{n}"), &config(storage)), bufs));
        for case in Case::ALL.iter().filter(|case| case.name.contains(&only)) {
            show(case.name, bufs, &mut |n| {
                let mut config = config(storage);
                (case.change)(&mut config);
                let stream = stream(&format!("{}-{n}", case.name.trim()), &config);
                publish(stream, config, bufs, case)
            });
        }
    }
}

/// A way to publish.
struct Case {
    name: &'static str,
    has_reply: bool,
    has_id: bool,
    change: fn(&mut StreamConfig),
}

impl Case {
    const PLAIN: Self = Self { name: "  acknowledged", has_reply: true, has_id: false, change: |_| {} };
    const ALL: [Self; 4] = [
        Self { name: "  without reply", has_reply: false, ..Self::PLAIN },
        Self::PLAIN,
        Self { name: "  with message ids", has_id: true, ..Self::PLAIN },
        Self { name: "  republished", change: republished, ..Self::PLAIN },
    ];

    fn msgs(&self, number: usize) -> MessageBuf {
        let mut msgs = MessageBuf::default();
        for at in 0..MESSAGES {
            let subject = format!("orders.{}", at % 16);
            let reply = if self.has_reply { format!("_INBOX.abcdefghijkl.{at}") } else { String::new() };
            let id = format!("NATS/1.0\r\nNats-Msg-Id: {number:010}-{at:06}\r\n\r\n");
            let headers = if self.has_id { id.as_bytes() } else { b"" };
            let (subject, reply, payload) = (subject.as_bytes(), reply.as_bytes(), &[b'x'; 128][..]);
            msgs.push(MessageRef { subject, reply, headers, payload, ..MessageRef::default() });
        }
        msgs
    }
}

fn republished(config: &mut StreamConfig) {
    config.republish =
        Some(Republish { source: ">".into(), destination: "again.>".into(), headers_only: false });
}

fn config(storage: Storage) -> StreamConfig {
    StreamConfig {
        name: "ORDERS".into(),
        storage,
        max_msgs: 100_000,
        max_msg_size: -1,
        duplicate_window: 120_000_000_000,
        ..StreamConfig::default()
    }
}

fn show(name: &str, bufs: usize, measure: &mut dyn FnMut(usize) -> u128) {
    let mut times: Vec<_> = (0..ROUNDS).map(measure).collect();
    times.sort_unstable();
    println!("{name:<20} {:>6} ns", times[ROUNDS / 2] / (bufs * MESSAGES) as u128);
}

fn publish(stream: Stream, config: StreamConfig, bufs: usize, case: &Case) -> u128 {
    let mut core = StreamCore::new(Arc::new(config), stream, StreamSettings::default(), now());
    let mut effects = Effects::default();
    let mut sum = 0;
    // Made and measured in groups: neither all in memory nor one at a time in the caches.
    for group in (0..bufs).step_by(100) {
        let numbers = group..bufs.min(group + 100);
        let group: Vec<_> = numbers.map(|number| case.msgs(number)).collect();
        let begun = spent();
        for msgs in &group {
            core.publish(msgs, now(), &mut effects);
            effects.clear();
        }
        sum += spent() - begun;
    }
    assert_eq!(core.state().totals.last_seq, (bufs * MESSAGES) as u64);
    sum
}

fn append(mut stream: Stream, bufs: usize) -> u128 {
    let msgs = Case::PLAIN.msgs(0);
    let refs = msgs.iter();
    let messages: Vec<_> = refs
        .map(|MessageRef { subject, payload, .. }| NewMessage { subject, payload, ..NewMessage::default() })
        .collect();
    let mut outcomes = Vec::new();
    let begun = spent();
    for _ in 0..bufs {
        stream.append(&messages, Admission::Check, now(), &mut outcomes).expect("the disk has room");
    }
    spent() - begun
}

/// Time of the processor, which other programs on it do not lengthen; where that is not to be had,
/// time.
fn spent() -> u128 {
    let read =
        || std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok();
    read().unwrap_or_else(|| now() as u128)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as Timestamp
}

//! Measures direct gets among many subjects:
//! `cargo bench -p myelin-streams --bench read [subjects]`.
//!
//! Prints nanoseconds for each request, the best of some rounds, from the message that asks to the
//! messages in the buffer. It is no test: numbers depend on the machine.

use std::sync::Arc;
use std::time::Instant;

use myelin_disk::real::RealDisk;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{Admission, NewMessage, Store, StoreOptions, Stream, StreamConfig, Wait};
use myelin_streams::read::{AnswerProgress, Readable, Requests};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

const ROUNDS: usize = 7;
const REQUESTS: u64 = 20_000;
const SLICE: usize = 128 * 1024;

fn main() {
    let subjects = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(1_000_000);
    println!("subjects: {subjects}");
    let mut memory = Stream::in_memory(StreamConfig::default(), 1, 1);
    measure("memory", &mut memory, subjects);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = StoreOptions::new(folder.path());
    let entropy = Arc::new(SeededEntropy::new(1));
    let (store, _) = Store::open(Arc::new(RealDisk), options, entropy).expect("a store opens");
    let mut file = store.create_stream("A", "S", b"", StreamConfig::default(), 1).expect("a stream begins");
    measure("file", &mut file, subjects);
    store.journal().round_now(&|| 1).expect("a round succeeds");
    seal(&mut file);
    ask("sealed", &file, subjects);
}

/// All that is in the stream gets into sealed segments.
fn seal(stream: &mut Stream) {
    stream.close_segment(0, 1).expect("a segment is closed");
    while let Some(job) = stream.next_job(1) {
        stream.finish(job.run(), 1).expect("upkeep succeeds");
    }
}

fn measure(what: &str, stream: &mut Stream, subjects: u64) {
    fill(stream, subjects);
    ask(what, stream, subjects);
}

fn ask(what: &str, stream: &Stream, subjects: u64) {
    let readable = Readable { name: "S".into(), reader: stream.reader(), max_bytes: 64 << 20 };
    let any = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % subjects;
    let prefix = "$JS.API.DIRECT.GET.S";
    rounds(&readable, &format!("{what}: by the subject"), 1, |n| {
        (format!("{prefix}.k.{}", any(n)), String::new())
    });
    let by_last = |n| (prefix.to_owned(), format!(r#"{{"last_by_subj":"k.{}"}}"#, any(n)));
    rounds(&readable, &format!("{what}: last_by_subj"), 1, by_last);
    rounds(&readable, &format!("{what}: seq"), 1, |n| {
        (prefix.to_owned(), format!(r#"{{"seq":{}}}"#, any(n) + 1))
    });
    rounds(&readable, &format!("{what}: one of a batch of 1000"), 1000, |n| {
        (prefix.to_owned(), format!(r#"{{"seq":{},"batch":1000}}"#, any(n) % (subjects - 1000) + 1))
    });
}

fn fill(stream: &mut Stream, subjects: u64) {
    let payload = [b'x'; 128];
    let mut outcomes = Vec::new();
    for from in (0..subjects).step_by(1000) {
        let names: Vec<String> = (from..subjects.min(from + 1000)).map(|n| format!("k.{n}")).collect();
        let message = |name| NewMessage {
            subject: str::as_bytes(name),
            payload: &payload,
            timestamp: 1_763_760_000_123_456_789,
            ..NewMessage::default()
        };
        let messages: Vec<_> = names.iter().map(|name| message(name)).collect();
        stream.append(&messages, Admission::Granted, 1, &mut outcomes).expect("the stream takes messages");
    }
}

/// Times requests whose texts are made before.
fn rounds(readable: &Readable, what: &str, each: u64, make: impl Fn(u64) -> (String, String)) {
    let texts: Vec<_> = (0..REQUESTS / each).map(make).collect();
    let (mut requests, mut out) = (Requests::default(), MessageBuf::default());
    let mut best = u64::MAX;
    for _ in 0..ROUNDS {
        let (begin, mut answered) = (Instant::now(), 0);
        for (subject, body) in &texts {
            let msg = MessageRef {
                subject: subject.as_bytes(),
                reply: b"_INBOX.2v4fGkzMfbFjTtXoYw3sJ1.1",
                payload: body.as_bytes(),
                ..MessageRef::default()
            };
            if let Some(mut batch) = requests.ask(readable, &msg, &mut out) {
                while batch.fill(&mut out, SLICE, Wait::Allowed) != AnswerProgress::Done {
                    answered += out.len() as u64;
                    out.clear();
                }
            }
            answered += out.len() as u64;
            out.clear();
        }
        assert!(answered >= REQUESTS, "every request is answered");
        best = best.min(begin.elapsed().as_nanos() as u64 / answered);
    }
    println!("{what:>36}: {best:>6} ns");
}

//! Messages on their way into a stream: header blocks and reply subjects of any kind. Each line of
//! the input is a message: subject and reply subject, then whatever is to stand in the header
//! block, with `|` for the end of a line.
//!
//! The stream discards the old ones, or the new ones: that follows from the bytes, for two streams
//! cost twice as much as one.
//!
//! Promised: nothing panics; what is said and stored is the same whether messages come in one
//! buffer or each in its own; the limits of the stream hold; a message without a batch that has a
//! reply subject gets one answer.

use myelin_jsapi::config::{Discard, Storage, StreamConfig};
use myelin_store::{Stream, Timestamp};
use myelin_streams::stream::{Effects, StreamCore, StreamSettings, storage_config};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;

const NOW: Timestamp = 1_700_000_000_000_000_000;
const MAX: i64 = 5;

/// Any lines as messages for a stream that allows everything.
pub fn publish(data: &[u8]) {
    let lines: Vec<_> = data.split(|byte| *byte == b'\n').map(Line::read).collect();
    let discard = if crc32c::crc32c(data).is_multiple_of(2) { Discard::Old } else { Discard::New };
    let together = run(&lines, discard, lines.len());
    assert_eq!(run(&lines, discard, 1), together);
}

/// One message.
struct Line {
    subject: Vec<u8>,
    reply: Vec<u8>,
    headers: Vec<u8>,
}

impl Line {
    fn read(line: &[u8]) -> Self {
        let mut parts = line.splitn(3, |byte| *byte == b' ');
        let mut part = || parts.next().unwrap_or_default();
        let (subject, reply, rest) = (part(), part(), part());
        let mut headers = Vec::new();
        if !rest.is_empty() {
            headers.extend_from_slice(b"NATS/1.0\r\n");
            for line in rest.split(|byte| *byte == b'|') {
                headers.extend_from_slice(line);
                headers.extend_from_slice(b"\r\n");
            }
            headers.extend_from_slice(b"\r\n");
        }
        // A broker lets no message through whose subject is empty.
        Self { subject: [b"s.", subject].concat(), reply: reply.to_vec(), headers }
    }

    /// Whether it has nothing to do with batches, so that its publisher hears of it once.
    fn is_plain(&self) -> bool {
        let has_batch = |key: &[u8]| self.headers.windows(key.len()).any(|bytes| bytes == key);
        !self.reply.is_empty()
            && !self.reply.ends_with(b".$FI")
            && !has_batch(b"Nats-Batch-Id")
            && !has_batch(b"Nats-Request-Info")
    }
}

/// An answer: its subject and its payload.
type Said = (Vec<u8>, Vec<u8>);

/// Answers to messages that come in buffers of `size`, and the state of the stream at the end: its
/// messages and its last sequence.
fn run(lines: &[Line], discard: Discard, size: usize) -> (Vec<Said>, u64, u64) {
    let config = config(discard);
    let store = Stream::in_memory(storage_config(&config, false), 1, NOW);
    let mut core = StreamCore::new(Arc::new(config), store, StreamSettings::default(), NOW);
    let mut effects = Effects::default();
    for lines in lines.chunks(size.max(1)) {
        let mut msgs = MessageBuf::default();
        for Line { subject, reply, headers } in lines {
            msgs.push(MessageRef { subject, reply, headers, payload: b"", ..MessageRef::default() });
        }
        core.publish(&msgs, NOW, &mut effects);
        assert!(core.state().totals.messages <= MAX as u64);
    }
    let said: Vec<_> = effects.out.iter().map(|msg| (msg.subject.to_vec(), msg.payload.to_vec())).collect();
    assert!(said.len() >= lines.iter().filter(|line| line.is_plain()).count());
    let totals = core.state().totals;
    (said, totals.messages, totals.last_seq)
}

fn config(discard: Discard) -> StreamConfig {
    StreamConfig {
        name: "S".into(),
        storage: Storage::Memory,
        max_msgs: MAX,
        max_msgs_per_subject: 3,
        max_msg_size: 4096,
        discard,
        duplicate_window: 120_000_000_000,
        allow_rollup_hdrs: true,
        allow_msg_ttl: true,
        subject_delete_marker_ttl: 60_000_000_000,
        allow_atomic: true,
        allow_batched: true,
        ..StreamConfig::default()
    }
}

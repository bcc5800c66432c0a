//! Batches of publishers: header blocks, reply subjects, and any order of messages. Each line of
//! the input is a message.
//!
//! Promised: a header block is read as four plain look-ups read it, and a flow subject says what
//! was read. A committed batch has all its messages in their order; a fast batch that minds gaps
//! stores no message behind a gap; and when all time is up, nothing is open and nothing is held.

use myelin_jsapi::ApiError;
use myelin_streams::stream::batch::{
    AtomicBatches, AtomicStep, BatchHeaders, BatchLimits, BatchReplies, FastBatches, FastRefusal, FastStep,
    FlowOperation, FlowSubject, InFlight, ReplySink,
};
use myelin_wire::header;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::HashMap;
use std::sync::Arc;

/// Any bytes as a header block, and any lines as messages.
pub fn batch(data: &[u8]) {
    read_headers(data);
    let mut stream = Stream::new();
    for (now, line) in (0..).zip(data.split(|byte| *byte == b'\n')) {
        read_ticket(line);
        let Some((fate, message)) = line.split_first() else { continue };
        match fate {
            b'a' => stream.atomic(message, now),
            b't' => stream.time(now),
            _ => stream.fast(*fate, message, now),
        }
        stream.check();
    }
    stream.time(i64::MAX - 1);
    assert_eq!((stream.in_flight.open(), stream.in_flight.held_bytes()), ((0, 0), 0));
}

fn read_headers(block: &[u8]) {
    let id = header::get(block, b"Nats-Batch-Id").filter(|id| !id.is_empty());
    let expected = id.map(|id| BatchHeaders {
        id,
        sequence: header::get(block, b"Nats-Batch-Sequence"),
        commit: header::get(block, b"Nats-Batch-Commit"),
        api_level: header::get(block, b"Nats-Required-Api-Level"),
    });
    assert_eq!(BatchHeaders::read(block), expected);
}

fn read_ticket(reply: &[u8]) {
    let Some(Ok(flow_subject)) = FlowSubject::read(reply) else { return };
    let gap = if flow_subject.gap_ok { "ok" } else { "fail" };
    let mut again = [b"p.", flow_subject.id].concat();
    let operation = flow_subject.operation as u8;
    again.extend_from_slice(
        format!(".{}.{gap}.{}.{operation}.$FI", flow_subject.flow, flow_subject.sequence).as_bytes(),
    );
    assert_eq!(FlowSubject::read(&again), Some(Ok(flow_subject)));
}

struct Stream {
    in_flight: Arc<InFlight>,
    atomic: AtomicBatches,
    fast: FastBatches,
    replies: BatchReplies,
    last: u64,
    /// Stored messages of each fast batch: whether the batch minds gaps, and its last message.
    stored: HashMap<Vec<u8>, (bool, u64)>,
}

impl Stream {
    fn new() -> Self {
        let in_flight = Arc::new(InFlight::new(BatchLimits::configured(3, 3, 4, 8)));
        let atomic = AtomicBatches::new(Arc::clone(&in_flight), true);
        let fast = FastBatches::new(Arc::clone(&in_flight), true);
        Self {
            in_flight,
            atomic,
            fast,
            replies: BatchReplies::new("S", "", false),
            last: 0,
            stored: HashMap::new(),
        }
    }

    /// The id, the sequence, the commit and the API level, with blanks between.
    fn atomic(&mut self, message: &[u8], now: i64) {
        let mut fields = message.split(|byte| *byte == b' ');
        let id = fields.next().unwrap_or_default();
        let sequence = fields.next();
        let headers = BatchHeaders { id, sequence, commit: fields.next(), api_level: fields.next() };
        let msg = MessageRef {
            subject: b"s",
            reply: b"r",
            payload: sequence.unwrap_or_default(),
            headers: b"",
            ..MessageRef::default()
        };
        let mut out = MessageBuf::default();
        let step = self.atomic.take(&headers, msg, now, &mut self.replies, &mut out);
        let AtomicStep::Commit(commit) = step else {
            assert_eq!(out.len(), 1, "each message is answered");
            return;
        };
        assert!(out.is_empty() && (1..=4).contains(&commit.count()));
        let messages = commit.done();
        for (place, msg) in (1u64..).zip(messages.iter()) {
            let sequence = std::str::from_utf8(msg.payload).ok().and_then(|text| text.parse().ok());
            assert_eq!(sequence, Some(place));
        }
        self.atomic.recycle(messages);
    }

    /// A reply subject. What becomes of the message is the first byte's to say.
    fn fast(&mut self, fate: u8, reply: &[u8], now: i64) {
        let Some(read) = FlowSubject::read(reply) else { return };
        let mut out = MessageBuf::default();
        let mut sink = ReplySink { reply, replies: &mut self.replies, out: &mut out };
        let FastStep::Store(place) = self.fast.take(read, None, now, &mut sink) else { return };
        let flow_subject = read.expect("what is malformed is not stored");
        assert!(!matches!(flow_subject.operation, FlowOperation::Ping | FlowOperation::CommitBefore));
        match fate {
            b'r' => self.fast.refused(place, &FastRefusal::Error(ApiError::STREAM_NOT_MATCH), &mut sink),
            b'd' => self.fast.refused(place, &FastRefusal::Duplicate(7), &mut sink),
            _ => {
                self.last += 1;
                self.fast.stored(place, self.last, &mut sink);
            }
        }
        self.note(&flow_subject);
    }

    fn note(&mut self, flow_subject: &FlowSubject<'_>) {
        let first = (!flow_subject.gap_ok, 0);
        let (minds, last) = self.stored.entry(flow_subject.id.to_vec()).or_insert(first);
        if flow_subject.sequence == 1 {
            (*minds, *last) = first;
        }
        assert!(!*minds || flow_subject.sequence == *last + 1);
        *last = flow_subject.sequence;
    }

    fn time(&mut self, now: i64) {
        self.atomic.due(now).for_each(drop);
        self.fast.due(now);
    }

    fn check(&self) {
        assert_eq!(self.in_flight.open(), (self.atomic.len(), self.fast.len()));
        assert!(self.atomic.len() <= 3 && self.fast.len() <= 3);
        assert_eq!(self.atomic.is_empty(), self.in_flight.held_bytes() == 0);
    }
}

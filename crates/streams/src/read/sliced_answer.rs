//! An answer that is made in slices: of many messages, or of one that a shard would have to wait
//! for.

use myelin_store::{Message, ReadError, Wait};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::answer::{self, BatchPosition, push_status};
use super::consecutive::Consecutive;
use super::direct::Buffers;
use super::multi_last::MultiLast;
use super::{Readable, lookup};
use myelin_jsapi::get_request::GetRequest;

/// How far a slice has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerProgress {
    /// The answer is complete.
    Done,
    /// The slice is full: there is more when the receiver has taken it.
    More,
    /// The next message is not in memory: to be gone on with where [`Wait::Allowed`] is true.
    Waits,
}

/// Answer that is made in slices. It holds its request, and may go from thread to thread between
/// slices.
#[derive(Debug)]
pub struct SlicedAnswer {
    get: PendingGet,
    stage: AnswerStage,
    buffers: Buffers,
}

/// Get that is being answered: who asked what.
#[derive(Debug)]
pub(super) struct PendingGet {
    pub(super) stream: Readable,
    pub(super) request: GetRequest,
    pub(super) reply: Box<[u8]>,
}

#[derive(Debug)]
enum AnswerStage {
    Begin,
    Consecutive(Box<Consecutive>),
    MultiLast(MultiLast),
    Done,
}

impl SlicedAnswer {
    pub(super) fn new(stream: Readable, request: GetRequest, reply: &[u8]) -> Self {
        let get = PendingGet { stream, request, reply: reply.into() };
        Self { get, stage: AnswerStage::Begin, buffers: Buffers::default() }
    }

    /// Whom the answer goes to.
    #[must_use]
    pub fn reply(&self) -> &[u8] {
        &self.get.reply
    }

    /// Adds the next messages to `out`, until these are `max_bytes` or a little more. At least one
    /// comes with every slice that does not wait.
    pub fn fill(&mut self, out: &mut MessageBuf, max_bytes: usize, wait: Wait) -> AnswerProgress {
        let Self { get, stage, buffers } = self;
        let full = out.bytes().saturating_add(max_bytes);
        loop {
            let result = match stage {
                AnswerStage::Begin => match begin(get, wait, buffers, out) {
                    Ok(next) => {
                        *stage = next;
                        continue;
                    }
                    Err(progress) => progress,
                },
                AnswerStage::Consecutive(run) => run.fill(get, buffers, out, full, wait),
                AnswerStage::MultiLast(lasts) => lasts.fill(get, buffers, out, full, wait),
                AnswerStage::Done => AnswerProgress::Done,
            };
            if result == AnswerProgress::Done {
                *stage = AnswerStage::Done;
            }
            return result;
        }
    }
}

fn begin(
    get: &PendingGet,
    wait: Wait,
    buffers: &mut Buffers,
    out: &mut MessageBuf,
) -> Result<AnswerStage, AnswerProgress> {
    let PendingGet { stream, request, reply } = get;
    if request.is_single() {
        return Err(read_single(stream, request, reply, wait, buffers, out));
    }
    if request.multi_last.is_empty() {
        return match Consecutive::begin(stream, request, wait) {
            Ok(run) => Ok(AnswerStage::Consecutive(Box::new(run))),
            // Compat: nobody is told.
            Err(error) => Err(pause(&error).unwrap_or(AnswerProgress::Done)),
        };
    }
    match MultiLast::begin(stream, request, wait) {
        Ok(Ok(lasts)) => Ok(AnswerStage::MultiLast(lasts)),
        Ok(Err(status)) => {
            push_status(out, reply, status);
            Err(AnswerProgress::Done)
        }
        Err(error) => Err(pause(&error).unwrap_or_else(|| {
            push_status(out, reply, format!("NATS/1.0 500 {error}\r\n\r\n").as_bytes());
            AnswerProgress::Done
        })),
    }
}

/// Answers with the one message that the request means.
pub(super) fn read_single(
    stream: &Readable,
    request: &GetRequest,
    reply: &[u8],
    wait: Wait,
    Buffers { stored, header_buf }: &mut Buffers,
    out: &mut MessageBuf,
) -> AnswerProgress {
    match lookup::read_one(&stream.reader, request, wait, stored) {
        Ok(Some(message)) => {
            let headers =
                if request.no_headers { b"" } else { header_buf.message(&stream.name, &message, None) };
            out.push(MessageRef {
                subject: reply,
                headers,
                payload: message.payload,
                ..MessageRef::default()
            });
            AnswerProgress::Done
        }
        // Compat: what cannot be read is not there.
        Ok(None) => not_found(out, reply),
        Err(error) => pause(&error).unwrap_or_else(|| unreadable(stream, out, reply)),
    }
}

/// Ends an answer that has no message.
pub(super) fn not_found(out: &mut MessageBuf, reply: &[u8]) -> AnswerProgress {
    push_status(out, reply, answer::MESSAGE_NOT_FOUND);
    AnswerProgress::Done
}

/// Ends an answer with a message that is there and cannot be read.
pub(super) fn unreadable(stream: &Readable, out: &mut MessageBuf, reply: &[u8]) -> AnswerProgress {
    if stream.reader.is_mended() {
        push_status(out, reply, answer::NOT_NOW);
        return AnswerProgress::Done;
    }
    not_found(out, reply)
}

/// Pause that an error means which is none, only a matter of time.
pub(super) fn pause(error: &ReadError) -> Option<AnswerProgress> {
    match error {
        ReadError::WouldWait | ReadError::More => Some(AnswerProgress::Waits),
        ReadError::Damaged(_) | ReadError::Io(_) => None,
    }
}

/// Count of what an answer has sent so far, and where it ends.
#[derive(Debug, Default)]
pub(super) struct Sent {
    messages: u64,
    bytes: i64,
    /// The last message.
    pub(super) last: u64,
}

impl Sent {
    /// Adds a message. Answers whether the request's limit of bytes is reached.
    ///
    /// Compat: counts what is stored, whether headers are sent or not; a negative limit is one
    /// message.
    pub(super) fn add(&mut self, message: &Message<'_>, get: &PendingGet) -> bool {
        let limit = match get.request.max_bytes {
            0 => get.stream.max_bytes,
            limit => limit,
        };
        let size = message.subject.len() + message.headers.len() + message.payload.len();
        self.bytes = self.bytes.saturating_add(size as i64);
        self.messages += 1;
        self.last = message.seq;
        self.bytes >= limit
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Position in the batch that a message behind these has.
    pub(super) fn place(&self, pending: u64) -> BatchPosition {
        BatchPosition { pending, last: self.last }
    }
}

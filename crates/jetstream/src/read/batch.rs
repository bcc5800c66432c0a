//! An answer that is made in slices: of many messages, or of one that a shard would have to wait for.

use myelin_broker::{MessageBuf, MessageRef};
use myelin_store::{Message, ReadError, Wait};

use super::answer::{self, Place, push_status};
use super::direct::Buffers;
use super::lasts::Lasts;
use super::run::Run;
use super::{Readable, Request, lookup};

/// How far a slice has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The answer is complete.
    Done,
    /// The slice is full: there is more when the receiver has taken it.
    More,
    /// What comes next is not in memory: to be gone on with where [`Wait::Allowed`] is true.
    Waits,
    /// What comes next is not released yet ([`ReadError::Unreleased`]): to be gone on with when the release position has
    /// moved. Only before the first message.
    Unreleased,
}

/// See the module. It holds its request, and may go from thread to thread between slices.
#[derive(Debug)]
pub struct Batch {
    asked: Asked,
    stage: Stage,
    buffers: Buffers,
}

/// Who asked what.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) stream: Readable,
    pub(super) request: Request,
    pub(super) reply: Box<[u8]>,
}

#[derive(Debug)]
enum Stage {
    Begin,
    Run(Box<Run>),
    Lasts(Lasts),
    Done,
}

impl Batch {
    pub(super) fn new(stream: Readable, request: Request, reply: &[u8]) -> Self {
        let asked = Asked { stream, request, reply: reply.into() };
        Self { asked, stage: Stage::Begin, buffers: Buffers::default() }
    }

    /// Reads from another reader from now on. Only before the first message.
    pub fn set_stream(&mut self, stream: Readable) {
        self.asked.stream = stream;
    }

    /// Whom the answer goes to.
    #[must_use]
    pub fn reply(&self) -> &[u8] {
        &self.asked.reply
    }

    /// Adds the next messages to `out`, until these are `max_bytes` or a little more. At least one comes with every slice
    /// that does not wait.
    pub fn fill(&mut self, out: &mut MessageBuf, max_bytes: usize, wait: Wait) -> Progress {
        let Self { asked, stage, buffers } = self;
        let full = out.bytes().saturating_add(max_bytes);
        loop {
            let result = match stage {
                Stage::Begin => match begin(asked, wait, buffers, out) {
                    Ok(next) => {
                        *stage = next;
                        continue;
                    }
                    Err(progress) => progress,
                },
                Stage::Run(run) => run.fill(asked, buffers, out, full, wait),
                Stage::Lasts(lasts) => lasts.fill(asked, buffers, out, full, wait),
                Stage::Done => Progress::Done,
            };
            if result == Progress::Done {
                *stage = Stage::Done;
            }
            return result;
        }
    }
}

fn begin(asked: &Asked, wait: Wait, buffers: &mut Buffers, out: &mut MessageBuf) -> Result<Stage, Progress> {
    let Asked { stream, request, reply } = asked;
    if request.is_single() {
        return Err(read_single(stream, request, reply, wait, buffers, out));
    }
    if request.multi_last.is_empty() {
        return match Run::begin(stream, request, wait) {
            Ok(run) => Ok(Stage::Run(Box::new(run))),
            // Compat: nobody is told.
            Err(error) => Err(pause(&error).unwrap_or(Progress::Done)),
        };
    }
    match Lasts::begin(stream, request, wait) {
        Ok(Ok(lasts)) => Ok(Stage::Lasts(lasts)),
        Ok(Err(status)) => {
            push_status(out, reply, status);
            Err(Progress::Done)
        }
        Err(error) => Err(pause(&error).unwrap_or_else(|| {
            push_status(out, reply, format!("NATS/1.0 500 {error}\r\n\r\n").as_bytes());
            Progress::Done
        })),
    }
}

/// Answers with the one message that the request means.
pub(super) fn read_single(
    stream: &Readable,
    request: &Request,
    reply: &[u8],
    wait: Wait,
    Buffers { stored, head }: &mut Buffers,
    out: &mut MessageBuf,
) -> Progress {
    match lookup::read_one(&stream.reader, request, wait, stored) {
        Ok(Some(message)) => {
            let headers = if request.no_headers { b"" } else { head.message(&stream.name, &message, None) };
            out.push(MessageRef {
                subject: reply,
                headers,
                payload: message.payload,
                ..MessageRef::default()
            });
            Progress::Done
        }
        // Compat: what cannot be read is not there.
        Ok(None) => not_found(out, reply),
        Err(error) => pause(&error).unwrap_or_else(|| not_found(out, reply)),
    }
}

/// Ends an answer that has no message.
pub(super) fn not_found(out: &mut MessageBuf, reply: &[u8]) -> Progress {
    push_status(out, reply, answer::MESSAGE_NOT_FOUND);
    Progress::Done
}

/// What an error means that is none, only a matter of time.
pub(super) fn pause(error: &ReadError) -> Option<Progress> {
    match error {
        ReadError::WouldWait | ReadError::More => Some(Progress::Waits),
        ReadError::Unreleased => Some(Progress::Unreleased),
        ReadError::Damaged(_) | ReadError::Io(_) => None,
    }
}

/// What an answer has sent so far, and where it ends.
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
    /// Compat: counts what is stored, whether headers are sent or not; a negative limit is one message.
    pub(super) fn add(&mut self, message: &Message<'_>, asked: &Asked) -> bool {
        let limit = match asked.request.max_bytes {
            0 => asked.stream.max_bytes,
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

    /// What a message behind these says of its place.
    pub(super) fn place(&self, pending: u64) -> Place {
        Place { pending, last: self.last }
    }
}

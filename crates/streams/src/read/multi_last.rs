//! The last message of each of many subjects, as of a sequence or time.

use myelin_store::{FoundMessage, ReadError, Seq, Storage, Wait};
use myelin_subject::has_wildcard;
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::Readable;
use super::answer::{NO_RESULTS, TOO_MANY_RESULTS};
use super::direct::Buffers;
use super::lookup::seq_at;
use super::sliced_answer::{AnswerProgress, PendingGet, Sent, pause, unreadable};
use myelin_jsapi::get_request::GetRequest;

/// No answer has more messages.
const MOST: usize = 1024;
/// Subjects that a shard looks up in one go.
const FEW: usize = 256;

/// Get of the last message of each of many subjects.
#[derive(Debug)]
pub(super) struct MultiLast {
    found: std::vec::IntoIter<FoundMessage>,
    up_to: Seq,
    sent: Sent,
    is_full: bool,
}

/// Up to where messages count.
enum UpTo {
    /// All that is there.
    End,
    At(Seq),
    /// Nothing is before it.
    Nothing,
}

impl MultiLast {
    /// Finds the messages; the inner error is the whole answer.
    pub(super) fn begin(
        stream: &Readable,
        request: &GetRequest,
        wait: Wait,
    ) -> Result<Result<Self, &'static [u8]>, ReadError> {
        if wait == Wait::Forbidden && is_long(request) {
            return Err(ReadError::WouldWait);
        }
        let last = stream.last_seq();
        let to = match up_to_of(stream, request, wait)? {
            UpTo::End => Seq::MAX,
            UpTo::At(seq) => seq,
            UpTo::Nothing => return Ok(Err(NO_RESULTS)),
        };
        let Some(found) = stream.reader.find_last(&request.multi_last, to, MOST)? else {
            return Ok(Err(TOO_MANY_RESULTS));
        };
        let Some(newest) = found.last().map(FoundMessage::seq) else { return Ok(Err(NO_RESULTS)) };
        let up_to = if to == Seq::MAX { last.max(newest) } else { to };
        Ok(Ok(Self { found: found.into_iter(), up_to, sent: Sent::default(), is_full: false }))
    }

    pub(super) fn fill(
        &mut self,
        get: &PendingGet,
        Buffers { stored, header_buf }: &mut Buffers,
        out: &mut MessageBuf,
        full: usize,
        wait: Wait,
    ) -> AnswerProgress {
        while !self.is_full
            && let Some(found) = self.found.as_slice().first()
        {
            let pending = self.pending() - 1;
            if found.seq() < get.request.seq {
                self.found.next();
                continue;
            }
            if self.sent.messages() > 0 && out.bytes() >= full {
                return AnswerProgress::More;
            }
            let message = match get.stream.reader.fetch(found, wait, stored) {
                Ok(message) => message,
                Err(error) => match pause(&error) {
                    Some(progress) => return progress,
                    None if get.stream.lacks(found.seq()) => {
                        self.found.next();
                        continue;
                    }
                    // Compat: without an end, whatever was sent before.
                    None => return unreadable(&get.stream, out, &get.reply),
                },
            };
            self.found.next();
            // Compat: `no_hdr` means nothing here.
            let headers = header_buf.message(&get.stream.name, &message, Some(self.sent.place(pending)));
            out.push(MessageRef {
                subject: &get.reply,
                headers,
                payload: message.payload,
                ..MessageRef::default()
            });
            let is_large = self.sent.add(&message, get);
            self.is_full = is_large || i64::try_from(self.sent.messages()) == Ok(get.request.batch);
        }
        let headers = header_buf.end(self.sent.place(self.pending()), Some(self.up_to));
        out.push(MessageRef { subject: &get.reply, headers, ..MessageRef::default() });
        AnswerProgress::Done
    }

    fn pending(&self) -> u64 {
        self.found.as_slice().len() as u64
    }
}

/// Whether finding the messages takes more than a look-up for each of a few subjects.
fn is_long(request: &GetRequest) -> bool {
    request.up_to_seq > 0
        || request.up_to_time.is_some()
        || request.multi_last.len() > FEW
        || request.multi_last.iter().any(|subject| has_wildcard(subject))
}

fn up_to_of(stream: &Readable, request: &GetRequest, wait: Wait) -> Result<UpTo, ReadError> {
    let reader = &stream.reader;
    if let Some(time) = request.up_to_time {
        let seq = seq_at(reader, time, wait)?;
        return Ok(if seq <= reader.state().totals.first_seq { UpTo::Nothing } else { UpTo::At(seq - 1) });
    }
    match request.up_to_seq {
        0 => Ok(UpTo::End),
        // Compat: a stream in files has nothing up to a sequence that it has not reached; one in
        // memory has everything.
        seq if seq > stream.last_seq() && reader.storage() == Storage::File => Ok(UpTo::Nothing),
        seq => Ok(UpTo::At(seq)),
    }
}

//! The last message of each of many subjects, as of a sequence or time.

use myelin_broker::{MessageBuf, MessageRef};
use myelin_store::{Found, ReadError, Seq, Storage, Wait};
use myelin_subject::has_wildcard;

use super::answer::{NO_RESULTS, TOO_MANY_RESULTS};
use super::batch::{Asked, Progress, Sent, not_found, pause};
use super::direct::Buffers;
use super::lookup::seq_at;
use super::{Readable, Request};

/// No answer has more messages.
const MOST: usize = 1024;
/// Subjects that a shard looks up in one go.
const FEW: usize = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct Lasts {
    found: std::vec::IntoIter<Found>,
    up_to: Seq,
    sent: Sent,
    is_full: bool,
}

/// Up to where messages count.
enum Bound {
    /// All that is there.
    End,
    At(Seq),
    /// Nothing is before it.
    Nothing,
}

impl Lasts {
    /// Finds the messages; the inner error is the whole answer.
    pub(super) fn begin(
        stream: &Readable,
        request: &Request,
        wait: Wait,
    ) -> Result<Result<Self, &'static [u8]>, ReadError> {
        if wait == Wait::Forbidden && is_long(request) {
            return Err(ReadError::WouldWait);
        }
        let last = stream.last_seq();
        let to = match bound(stream, request, wait)? {
            Bound::End => Seq::MAX,
            Bound::At(seq) => seq,
            Bound::Nothing => return Ok(Err(NO_RESULTS)),
        };
        let Some(found) = stream.reader.find_last(&request.multi_last, to, MOST)? else {
            return Ok(Err(TOO_MANY_RESULTS));
        };
        let Some(newest) = found.last().map(Found::seq) else { return Ok(Err(NO_RESULTS)) };
        let up_to = if to == Seq::MAX { last.max(newest) } else { to };
        Ok(Ok(Self { found: found.into_iter(), up_to, sent: Sent::default(), is_full: false }))
    }

    pub(super) fn fill(
        &mut self,
        asked: &Asked,
        Buffers { stored, head }: &mut Buffers,
        out: &mut MessageBuf,
        full: usize,
        wait: Wait,
    ) -> Progress {
        while !self.is_full
            && let Some(found) = self.found.as_slice().first()
        {
            let pending = self.pending() - 1;
            if found.seq() < asked.request.seq {
                self.found.next();
                continue;
            }
            if self.sent.messages() > 0 && out.bytes() >= full {
                return Progress::More;
            }
            let message = match asked.stream.reader.fetch(found, wait, stored) {
                Ok(message) => message,
                Err(error) => match pause(&error) {
                    Some(progress) => return progress,
                    None if asked.stream.lacks(found.seq()) => {
                        self.found.next();
                        continue;
                    }
                    // Compat: without an end, whatever was sent before.
                    None => return not_found(out, &asked.reply),
                },
            };
            self.found.next();
            // Compat: `no_hdr` means nothing here.
            let headers = head.message(&asked.stream.name, &message, Some(self.sent.place(pending)));
            out.push(MessageRef {
                subject: &asked.reply,
                headers,
                payload: message.payload,
                ..MessageRef::default()
            });
            let is_large = self.sent.add(&message, asked);
            self.is_full = is_large || i64::try_from(self.sent.messages()) == Ok(asked.request.batch);
        }
        let headers = head.end(self.sent.place(self.pending()), Some(self.up_to));
        out.push(MessageRef { subject: &asked.reply, headers, ..MessageRef::default() });
        Progress::Done
    }

    fn pending(&self) -> u64 {
        self.found.as_slice().len() as u64
    }
}

/// Whether finding the messages takes more than a look-up for each of a few subjects.
fn is_long(request: &Request) -> bool {
    request.up_to_seq > 0
        || request.up_to_time.is_some()
        || request.multi_last.len() > FEW
        || request.multi_last.iter().any(|subject| has_wildcard(subject))
}

fn bound(stream: &Readable, request: &Request, wait: Wait) -> Result<Bound, ReadError> {
    let reader = &stream.reader;
    if let Some(time) = request.up_to_time {
        let seq = seq_at(reader, time, wait)?;
        return Ok(if seq <= reader.state().totals.first_seq { Bound::Nothing } else { Bound::At(seq - 1) });
    }
    match request.up_to_seq {
        0 => Ok(Bound::End),
        // Compat: a stream in files has nothing up to a sequence that it has not reached; one in memory has everything.
        seq if seq > stream.last_seq() && reader.storage() == Storage::File => Ok(Bound::Nothing),
        seq => Ok(Bound::At(seq)),
    }
}

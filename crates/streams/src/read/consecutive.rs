//! Consecutive messages from a sequence or time on, of all subjects or of some.

use myelin_store::{Cursor, Filter, FoundMessage, ReadError, Seq, Wait};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::Readable;
use super::direct::Buffers;
use super::lookup::{WINDOW, first_seq, pending};
use super::sliced_answer::{AnswerProgress, PendingGet, Sent, not_found, pause, unreadable};
use myelin_jsapi::get_request::GetRequest;

/// Bytes that are read at once where all messages are wanted.
///
/// Perf: in pieces and not one by one: a batch costs a third (row js-get-batch).
const PIECE: usize = 64 << 10;
/// Messages that are looked up at once.
const AHEAD: usize = 256;

/// Get of consecutive messages from a sequence or time on.
#[derive(Debug)]
pub(super) struct Consecutive {
    filter: Filter,
    /// Where to go on.
    next: Seq,
    /// Messages to come, at most.
    left: u64,
    /// Whether there are no more to come for other reasons than `left`.
    is_over: bool,
    pending: u64,
    /// The stream's last sequence when these were counted.
    valid_through: Seq,
    /// Walks through the messages where all are wanted.
    cursor: Option<Cursor>,
    found: std::vec::IntoIter<FoundMessage>,
    sent: Sent,
}

impl Consecutive {
    pub(super) fn begin(stream: &Readable, request: &GetRequest, wait: Wait) -> Result<Self, ReadError> {
        let filter = Filter::new(&request.next_for);
        let next = first_seq(&stream.reader, request, wait)?;
        // In this order: what is stored in between is counted again at the end, rather than not at
        // all.
        let valid_through = stream.last_seq();
        let pending = pending(&stream.reader, &filter, next, wait)?;
        Ok(Self {
            cursor: filter.is_all().then(|| stream.reader.short_cursor(Filter::All, next, PIECE)),
            filter,
            next,
            left: u64::try_from(request.batch).unwrap_or(0),
            is_over: false,
            pending,
            valid_through,
            found: Vec::new().into_iter(),
            sent: Sent::default(),
        })
    }

    pub(super) fn fill(
        &mut self,
        get: &PendingGet,
        buffers: &mut Buffers,
        out: &mut MessageBuf,
        full: usize,
        wait: Wait,
    ) -> AnswerProgress {
        while self.left > 0 && !self.is_over {
            match self.add_one(get, buffers, out, wait) {
                Ok(true) if self.left > 0 && !self.is_over && out.bytes() >= full => {
                    return AnswerProgress::More;
                }
                Ok(true) => {}
                Ok(false) => self.stop(&get.stream),
                Err(error) => match pause(&error) {
                    Some(progress) => return progress,
                    None if get.stream.reader.is_mended() => return unreadable(&get.stream, out, &get.reply),
                    None if self.pass_over(&get.stream) => {}
                    None => self.stop(&get.stream),
                },
            }
            if self.is_over && self.sent.messages() == 0 {
                return not_found(out, &get.reply);
            }
        }
        self.end(get, buffers, out, wait)
            .map_or_else(|error| pause(&error).unwrap_or(AnswerProgress::Done), |()| AnswerProgress::Done)
    }

    /// Goes on behind the next message if that was removed, and erased, since it was found.
    fn pass_over(&mut self, stream: &Readable) -> bool {
        let Some(seq) = self.found.as_slice().first().map(FoundMessage::seq) else { return false };
        if !stream.lacks(seq) {
            return false;
        }
        self.found.next();
        self.next = seq + 1;
        self.pending = self.pending.saturating_sub(1);
        true
    }

    /// There is nothing behind what was sent.
    fn stop(&mut self, stream: &Readable) {
        self.is_over = true;
        self.next = stream.last_seq() + 1;
    }

    /// Adds the next message. False if there is none.
    fn add_one(
        &mut self,
        get: &PendingGet,
        buffers: &mut Buffers,
        out: &mut MessageBuf,
        wait: Wait,
    ) -> Result<bool, ReadError> {
        if self.cursor.is_none() && self.found.as_slice().is_empty() && !self.look_ahead(&get.stream, wait)? {
            return Ok(false);
        }
        let Buffers { stored, header_buf } = buffers;
        let message = match (&mut self.cursor, self.found.as_slice().first()) {
            (Some(cursor), _) => match cursor.next(wait)? {
                Some(message) => message,
                None => return Ok(false),
            },
            (None, Some(found)) => get.stream.reader.fetch(found, wait, stored)?,
            (None, None) => return Ok(false),
        };
        let _ = self.found.next();
        let headers = if get.request.no_headers {
            // Compat: what follows is not counted down then.
            b""
        } else {
            self.pending = self.pending.saturating_sub(1);
            header_buf.message(&get.stream.name, &message, Some(self.sent.place(self.pending)))
        };
        out.push(MessageRef {
            subject: &get.reply,
            headers,
            payload: message.payload,
            ..MessageRef::default()
        });
        self.next = message.seq + 1;
        self.left -= 1;
        if self.sent.add(&message, get) {
            self.left = 0;
        }
        Ok(true)
    }

    /// Finds the next messages. False if there are none. On a shard not far.
    fn look_ahead(&mut self, stream: &Readable, wait: Wait) -> Result<bool, ReadError> {
        let limit = self.left.min(AHEAD as u64) as usize;
        let mut found = std::mem::take(&mut self.found).collect::<Vec<_>>();
        loop {
            // What is missing is passed over at once, however much.
            let Some(from) = stream.reader.next_seq(&Filter::All, self.next)? else { return Ok(false) };
            let to = if self.filter.is_all() { Seq::MAX } else { from.saturating_add(WINDOW) };
            stream.reader.find(&self.filter, (from, to), limit, &mut found)?;
            if !found.is_empty() {
                self.found = found.into_iter();
                return Ok(true);
            }
            if to >= stream.last_seq() {
                return Ok(false);
            }
            self.next = to + 1;
            if wait == Wait::Forbidden {
                return Err(ReadError::WouldWait);
            }
        }
    }

    fn end(
        &mut self,
        get: &PendingGet,
        buffers: &mut Buffers,
        out: &mut MessageBuf,
        wait: Wait,
    ) -> Result<(), ReadError> {
        let PendingGet { stream, reply, .. } = get;
        if stream.last_seq() > self.valid_through {
            self.pending = pending(&stream.reader, &self.filter, self.next, wait)?;
        }
        let headers = buffers.header_buf.end(self.sent.place(self.pending), None);
        out.push(MessageRef { subject: reply, headers, ..MessageRef::default() });
        Ok(())
    }
}

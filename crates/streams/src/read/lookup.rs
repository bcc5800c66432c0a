//! Which message a request means.
//!
//! On a shard ([`Wait::Forbidden`]) what would read a lot to find it is refused with
//! [`ReadError::WouldWait`]: searches by time, among many subjects, and through long tables.

use myelin_store::{Filter, Message, ReadError, Seq, Storage, StreamReader, Timestamp, Wait};
use myelin_subject::has_wildcard;

use myelin_jsapi::get_request::GetRequest;

/// Sequences that a shard looks at to find the next message of a subject.
pub(super) const WINDOW: Seq = 8192;

/// Reads the one message that the request means.
pub(super) fn read_one<'b>(
    reader: &StreamReader,
    request: &GetRequest,
    wait: Wait,
    buffer: &'b mut Vec<u8>,
) -> Result<Option<Message<'b>>, ReadError> {
    let seq = first_seq(reader, request, wait)?;
    if !request.next_for.is_empty() {
        return read_next(reader, &Filter::new(&request.next_for), seq, wait, buffer);
    }
    if seq > 0 { reader.get(seq, wait, buffer) } else { read_last(reader, &request.last_for, wait, buffer) }
}

/// Where the request begins.
pub(super) fn first_seq(reader: &StreamReader, request: &GetRequest, wait: Wait) -> Result<Seq, ReadError> {
    match request.start_time {
        Some(time) => seq_at(reader, time, wait),
        None => Ok(request.seq),
    }
}

/// The first message accepted then or later.
pub(super) fn seq_at(reader: &StreamReader, time: Timestamp, wait: Wait) -> Result<Seq, ReadError> {
    if wait == Wait::Forbidden && reader.storage() == Storage::File {
        return Err(ReadError::WouldWait);
    }
    reader.seq_at(time)
}

/// How many messages from `from` on pass.
pub(super) fn pending(
    reader: &StreamReader,
    filter: &Filter,
    from: Seq,
    wait: Wait,
) -> Result<u64, ReadError> {
    let is_known = match filter {
        Filter::All => true,
        Filter::Subject(_) => from <= reader.state().totals.first_seq,
        Filter::Patterns(_) => false,
    };
    if wait == Wait::Forbidden && !is_known {
        return Err(ReadError::WouldWait);
    }
    reader.pending(filter, from)
}

fn read_last<'b>(
    reader: &StreamReader,
    subject: &[u8],
    wait: Wait,
    buffer: &'b mut Vec<u8>,
) -> Result<Option<Message<'b>>, ReadError> {
    if !has_wildcard(subject) {
        return reader.last_of(subject, wait, buffer);
    }
    let filter = Filter::new(subject);
    if filter.is_all() {
        // Compat: the message with the stream's last sequence, and nothing if just that was
        // deleted.
        let last = reader.state().totals.last_seq;
        let message = reader.last(&filter, wait, buffer)?;
        return Ok(message.filter(|message| message.seq >= last));
    }
    if wait == Wait::Forbidden {
        return Err(ReadError::WouldWait);
    }
    reader.last(&filter, wait, buffer)
}

fn read_next<'b>(
    reader: &StreamReader,
    filter: &Filter,
    seq: Seq,
    wait: Wait,
    buffer: &'b mut Vec<u8>,
) -> Result<Option<Message<'b>>, ReadError> {
    if wait == Wait::Allowed {
        return reader.next(filter, (seq, Seq::MAX), wait, buffer);
    }
    let totals = reader.state().totals;
    let to = seq.max(totals.first_seq).saturating_add(WINDOW);
    match reader.next(filter, (seq, to), wait, buffer)? {
        None if to < totals.last_seq => Err(ReadError::WouldWait),
        message => Ok(message),
    }
}

//! Messages of counters on their way into the log: each gets the total of its subject as its
//! payload.
//!
//! What the total was is read from the last message of the subject, or known from the run; so
//! messages of one buffer are one append, however many are for the same counter.
//!
//! A total that is not in memory holds up the publishes to its stream and nobody else: the thread
//! that reads brings it, while the core stays in its turn (`engine/live/turn.rs`).

use myelin_store::{Discard, ReadError, StreamReader, Wait};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::admit::Ingest;
use super::append_run::MsgDraft;
use super::core::StreamCore;
use super::header_edit;
use super::msg_headers::{Key, MsgHeaders};
use myelin_jsapi::ApiError;
use myelin_jsapi::counter::{self, Counter, Decimal};

/// Where a message of another stream comes from.
struct SourceTag {
    stream: String,
    /// Its subject there; nothing where that is the one here.
    subject: Option<String>,
}

impl StreamCore {
    /// Gives a message that is to be stored in a stream of counters what it has to say. In other
    /// streams it stays as it is.
    ///
    /// A message that says that it comes from another stream brings that one's total: what counts
    /// is by how much it has changed.
    pub(super) fn count(
        &mut self,
        msg: MessageRef<'_>,
        msg_headers: &MsgHeaders<'_>,
        draft: &mut MsgDraft,
    ) -> Result<(), ApiError> {
        if !self.rules.allows_counters {
            return Ok(());
        }
        let increment =
            Decimal::parse(msg_headers.get(Key::Increment)).ok_or(ApiError::MESSAGE_INCR_INVALID)?;
        let subject = self.run.apply(draft, msg).subject.to_vec();
        let mut counter = self.counter(&subject)?;
        let headers = self.run.apply(draft, msg).headers;
        let mut changed: Option<Vec<u8>> = None;
        if let Some(SourceTag { stream, subject: other }) = SourceTag::of(msg_headers) {
            let other = other.unwrap_or_else(|| String::from_utf8_lossy(&subject).into_owned());
            let increment = counter.add_sourced(&stream, &other, msg.payload)?;
            changed = Some(rewritten(headers, counter::INCREMENT, increment.to_string().as_bytes()));
        } else {
            counter.add(&increment);
        }
        if let Some(sources) = counter.sources() {
            changed = Some(rewritten(changed.as_deref().unwrap_or(headers), counter::SOURCES, &sources));
        }
        if let Some(headers) = changed {
            draft.headers = Some(self.run.keep(|kept| kept.extend_from_slice(&headers)));
        }
        draft.special().payload = Some(self.run.keep(|kept| counter.write_payload(kept)));
        let message = self.run.apply(draft, msg);
        self.rules.check_size(&message)?;
        if message.headers.len() + message.payload.len() > self.settings.max_payload {
            return Err(ApiError::STREAM_MESSAGE_EXCEEDS_MAXIMUM);
        }
        self.rules.check_headers(&message)?;
        // Only now is it clear what the message says, and not yet whether it is stored.
        draft.special().counted = Some((subject.into_boxed_slice(), counter));
        Ok(())
    }

    /// Counts a message of its own, in a stream of counters. If there is no room for it beside the
    /// run, that is stored.
    pub(super) fn count_alone(
        &mut self,
        msg: MessageRef<'_>,
        msg_headers: &MsgHeaders<'_>,
        draft: &mut MsgDraft,
        ingest: &mut Ingest<'_>,
    ) -> Result<(), ApiError> {
        if self.may_evict_counters() {
            self.flush(ingest);
        }
        let headers = draft.headers.clone();
        self.count(msg, msg_headers, draft)?;
        let size = self.rules.size(&self.run.apply(draft, msg));
        if self.run.has_drafts() && self.find_room(size, !draft.is_unwanted).is_err() {
            self.flush(ingest);
            // What it was added to may have been refused.
            draft.headers = headers;
            self.count(msg, msg_headers, draft)?;
        }
        Ok(())
    }

    /// Value of a subject's counter by its last message, stored or in the run.
    fn counter(&self, subject: &[u8]) -> Result<Counter, ApiError> {
        if let Some(counter) = self.run.counter(subject).filter(|_| !myelin_stdx::planted::bug(19)) {
            return Ok(counter.clone());
        }
        let mut buffer = Vec::new();
        // A counter that cannot be read must not begin anew.
        match self.store.read_last(subject, &mut buffer).map_err(ApiError::stream_store_failed)? {
            Some(last) => Ok(Counter::read(last.headers, last.payload)?),
            None => Ok(Counter::default()),
        }
    }

    /// Finds what messages of a buffer count on from, as far as it is not in memory: to be read
    /// first, by a thread that may wait.
    pub fn cold(&mut self, msgs: &MessageBuf) -> Option<Cold> {
        if !self.rules.allows_counters {
            return None;
        }
        let subjects: Vec<_> = msgs.iter().filter_map(|msg| self.cold_subject(msg.subject)).collect();
        (!subjects.is_empty()).then(|| Cold { reader: self.reader.clone(), subjects })
    }

    fn cold_subject(&mut self, subject: &[u8]) -> Option<Box<[u8]>> {
        let random = &mut || self.scratch.rng.next_u64() as u32;
        let text = &mut self.scratch.text;
        let changed =
            self.rules.transform.as_ref().is_some_and(|rule| rule.transform(subject, random, text).is_ok());
        let subject = if changed { &*text } else { subject };
        let mut buffer = Vec::new();
        let last = self.reader.last_of(subject, Wait::Forbidden, &mut buffer);
        matches!(last, Err(ReadError::WouldWait)).then(|| subject.into())
    }

    /// Whether storing the run may take the last message of some counter away, which then begins
    /// anew.
    pub(super) fn may_evict_counters(&self) -> bool {
        let limits = &self.rules.limits;
        if limits.discard != Discard::Old || (limits.messages.is_none() && limits.bytes.is_none()) {
            return false;
        }
        let totals = self.store.totals();
        let messages = totals.messages + self.run.drafts() as u64;
        limits.messages.is_some_and(|max| messages >= max)
            || limits.bytes.is_some_and(|max| totals.bytes + self.run.bytes >= max)
    }
}

/// Counters that are not in memory.
pub struct Cold {
    reader: StreamReader,
    subjects: Vec<Box<[u8]>>,
}

impl Cold {
    /// Brings them there. What cannot be read is told when it is read in earnest.
    pub fn warm(&self) {
        let mut buffer = Vec::new();
        for subject in &self.subjects {
            let _ = self.reader.last_of(subject, Wait::Allowed, &mut buffer);
        }
    }
}

impl SourceTag {
    /// Only streams say where a message comes from: what clients say of it was refused before.
    fn of(msg_headers: &MsgHeaders<'_>) -> Option<Self> {
        if !msg_headers.has(Key::StreamSource) {
            return None;
        }
        let text = String::from_utf8_lossy(msg_headers.get(Key::StreamSource));
        let mut words = text.split(' ').map(str::to_owned);
        Some(Self { stream: words.next().unwrap_or_default(), subject: words.nth(3) })
    }
}

fn rewritten(headers: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(headers.len() + key.len() + value.len() + 8);
    header_edit::write_set(headers, key, value, &mut out);
    out
}

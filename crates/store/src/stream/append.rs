//! New messages: admission, eviction, one write.
//!
//! Perf: per message one look-up in the subject index, one checksum, one copy; per batch one write,
//! one lock of the catalog, no allocation once buffers have their size. Measured by
//! `myelin bench store`.
//!
//! The order is that of contracts.md C1: admit on the appended state, append to the batch, write,
//! release. Space is reserved before anything is decided, so a full disk refuses a batch and leaves
//! the stream as it was.

use std::borrow::Cow;
use std::ops::{ControlFlow, RangeInclusive};

use crate::config::{Discard, Durability, Limits};
use crate::index::SubjectState;
use crate::ranges::Ranges;
use crate::record::{self, Control, EntryBatch};
use crate::{Seq, Timestamp};

use super::catalog::{Appended, Catalog, NewRow, Removed, size_of};
use super::errors::{AppendRefusal, StoreError};
use super::{Active, Stream, lookup};

/// Sequences that one segment may span; beyond, a new one begins.
pub(crate) const SEGMENT_SPAN: u64 = 1 << 31;
/// How far the synced part must have grown since the log last said so.
const DURABLE_STEP: u64 = 64 << 10;
/// How many messages a batch evicts beyond as many as it has: what limits that were made tighter
/// leave over goes little by little.
const SURPLUS: u64 = 64;
/// A batch's buffer beyond this is given back.
const SPARE_BYTES: usize = 1 << 20;
/// Sequences that one message of a batch may pass over. More need a call of [`Stream::skip`], which
/// begins a segment where it must.
pub const GAP_MAX: u64 = 1 << 20;
/// Messages whose subjects are brought near together.
const WARM: usize = 32;
/// Subjects from which on that is worth it.
const MANY_SUBJECTS: usize = 4096;

/// A message to be stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewMessage<'a> {
    /// The sequence that it must get, at most [`GAP_MAX`] behind the next one: those between are
    /// passed over in the same batch, as [`Stream::skip`] does. 0 for the next one.
    pub seq: Seq,
    /// When it was accepted. Times should not decrease: one that does is treated as about that of
    /// its neighbours by [`StreamReader::seq_at`](super::StreamReader::seq_at) and limits of age.
    pub timestamp: Timestamp,
    /// When it ends: `None` with the stream's own limit of age, `Timestamp::MAX` never.
    pub expires: Option<Timestamp>,
    /// A literal subject.
    pub subject: &'a [u8],
    /// The whole header block, or nothing.
    pub headers: &'a [u8],
    /// The rest of the message.
    pub payload: &'a [u8],
    /// Whether messages before it on this subject go when it is stored, so that it may exceed a
    /// limit per subject that refuses.
    pub is_rollup: bool,
    /// An earlier message that goes with this one's arrival, in the same batch: after a crash both
    /// have happened, or neither. 0 for none; one that is not there is passed over.
    pub ends: Seq,
}

/// Whether limits may refuse a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// As the stream's discard policy says.
    Check,
    /// Message that was admitted elsewhere (by a leader, by the stream that it is copied or
    /// restored from): store it, evict what must go.
    Granted,
}

/// Fate of each message of a batch: its sequence, or why it was not taken.
pub type AppendResult = Result<Seq, AppendRefusal>;

impl Stream {
    /// Stores messages, in order, as one batch: after a crash all of those that were taken are
    /// there, or none. `outcomes` is emptied and gets one entry per message.
    ///
    /// Where limits were made tighter, a batch evicts only little more than it adds:
    /// [`Stream::enforce`] does the rest.
    ///
    /// A sequence says what the message *will* have; that it is stored is known when
    /// [`Stream::released`] has reached it, in the default mode at once.
    ///
    /// # Errors
    /// None of the messages is stored. After [`StoreError::Full`] the stream is unchanged and may
    /// be asked again; after [`StoreError::TooLarge`] in smaller batches.
    pub fn append(
        &mut self,
        messages: &[NewMessage<'_>],
        admission: Admission,
        now: Timestamp,
        outcomes: &mut Vec<AppendResult>,
    ) -> Result<(), StoreError> {
        outcomes.clear();
        self.gone.clear();
        self.check()?;
        if messages.is_empty() {
            return Ok(());
        }
        self.make_room(room_for(messages, &self.config.limits), now)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let result = self.encode(messages, admission, now, &mut buffer, outcomes);
        let result = result.and_then(|()| self.write(&buffer, now));
        buffer.clear();
        buffer.shrink_to(SPARE_BYTES);
        self.buffer = buffer;
        if result.is_err() {
            self.gone.clear();
        }
        debug_assert!(result.is_err() || outcomes.len() == messages.len(), "each message has an outcome");
        debug_assert!(
            self.gone.iter().zip(self.gone.iter().skip(1)).all(|(one, next)| one.end() < next.start()),
            "what went is told in order, and once"
        );
        result
    }

    fn encode(
        &mut self,
        messages: &[NewMessage<'_>],
        admission: Admission,
        now: Timestamp,
        buffer: &mut Vec<u8>,
        outcomes: &mut Vec<AppendResult>,
    ) -> Result<(), StoreError> {
        let Active { segment, file } = self.active.clone();
        let mut batch = EntryBatch::begin(buffer, file.end(), &segment.context);
        if let Some(durable) = self.take_durable_mark(DURABLE_STEP) {
            batch.control(&durable, now);
        }
        let mut catalog = self.shared.catalog_mut();
        let mut entering = Entering {
            catalog: &mut catalog,
            limits: &self.config.limits,
            storage: self.config.storage,
            admission,
            first_before: 0,
            allowance: EvictionBudget { messages: SURPLUS, bytes: 0 },
            deleted: &mut self.evicted,
            gone: &mut self.gone,
        };
        entering.deleted.clear();
        entering.first_before = entering.catalog.totals().first_seq;
        for messages in messages.chunks(WARM) {
            entering.warm(messages);
            for message in messages {
                match entering.enter(message, &mut batch) {
                    Ok(outcome) => outcomes.push(outcome),
                    // Only a table that cannot be read leads here, with part of the batch entered.
                    Err(error) => {
                        drop(catalog);
                        return Err(self.fail(&error.to_string()));
                    }
                }
            }
        }
        entering.log_evictions(&mut batch, now);
        self.is_untidy = catalog.tidy_after(messages.len());
        drop(catalog);
        batch.finish();
        Ok(())
    }
}

impl Stream {
    /// Sequences that went in the last call of [`Stream::append`] because of limits, ascending.
    /// Some of them may have had no message before. Nothing after an error.
    #[must_use]
    pub fn evicted(&self) -> &[RangeInclusive<Seq>] {
        &self.gone
    }

    /// The last message of a subject, released or not: what the next message on it would follow.
    ///
    /// # Errors
    /// A table of the stream cannot be read.
    pub fn last_of(&self, subject: &[u8]) -> Result<Option<Seq>, StoreError> {
        let catalog = self.shared.catalog();
        match catalog.index().find(subject) {
            Some(id) => Ok(lookup::last_of(&catalog, id)?),
            None => Ok(None),
        }
    }

    /// How many messages this very subject has, released or not. Where it cannot be read how many
    /// of them are lost to damage, these count.
    #[must_use]
    pub fn count_of(&self, subject: &[u8]) -> u64 {
        let catalog = self.shared.catalog();
        let Some(id) = catalog.index().find(subject) else { return 0 };
        catalog.live_of(id).unwrap_or_else(|_| catalog.index().state(id).count)
    }

    /// The last message that passes a filter, released or not.
    ///
    /// # Errors
    /// A table of the stream cannot be read.
    pub fn last_matching(&self, filter: &lookup::Filter) -> Result<Option<Seq>, StoreError> {
        Ok(lookup::last(&self.shared.catalog(), filter)?)
    }

    /// Removes what exceeds the limits, after they were made tighter: about `budget` messages in
    /// one call. Answers whether to call again.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed.
    pub fn enforce(&mut self, budget: usize, now: Timestamp) -> Result<bool, StoreError> {
        self.check()?;
        let limits = self.config.limits;
        let surplus = self.over_subject_limit(&limits, budget)?;
        if !surplus.is_empty() {
            self.delete_all(&surplus, now)?;
            return Ok(true);
        }
        let totals = self.shared.catalog().totals();
        let over_messages = totals.messages.saturating_sub(limits.messages.unwrap_or(u64::MAX));
        let is_over_bytes = totals.bytes > limits.bytes.unwrap_or(u64::MAX);
        if limits.discard == Discard::New || (over_messages == 0 && !is_over_bytes) {
            return Ok(false);
        }
        let head = lookup::collect(&self.shared.catalog(), &lookup::Filter::All, 0, Seq::MAX, budget.max(1))?;
        let head = if is_over_bytes { self.head_over_bytes(head, &limits)? } else { head };
        let count = if is_over_bytes { head.len() } else { head.len().min(over_messages as usize) };
        self.delete_all(&head[..count], now)?;
        // What is left may be what was lost to damage, and no call would find it.
        Ok(count > 0)
    }

    /// The beginning of `head` that has to go for both limits.
    fn head_over_bytes(&self, head: Vec<Seq>, limits: &Limits) -> Result<Vec<Seq>, StoreError> {
        let catalog = self.shared.catalog();
        let (mut messages, mut bytes) = (catalog.totals().messages, catalog.totals().bytes);
        let mut going = Vec::new();
        for seq in head {
            if messages <= limits.messages.unwrap_or(u64::MAX) && bytes <= limits.bytes.unwrap_or(u64::MAX) {
                break;
            }
            let size = catalog.locate_named(seq)?.map_or(0, |(found, _)| found.size);
            debug_assert!(size <= bytes && messages > 0, "what may go was counted");
            bytes -= size;
            messages -= 1;
            going.push(seq);
        }
        Ok(going)
    }

    /// Up to `budget` messages that are too many of their subjects, the oldest of each.
    fn over_subject_limit(&self, limits: &Limits, budget: usize) -> Result<Vec<Seq>, StoreError> {
        let Some(max) = limits.messages_per_subject else { return Ok(Vec::new()) };
        let catalog = self.shared.catalog();
        let (mut over, mut unread) = (Vec::new(), Ok(()));
        catalog.index().for_each_matching(b">", None, &mut |id, text| {
            if catalog.index().state(id).count <= max.max(1) {
                return ControlFlow::Continue(());
            }
            match catalog.live_of(id) {
                Ok(live) if live > max.max(1) => over.push((text.to_vec(), (live - max.max(1)) as usize)),
                Ok(_) => {}
                Err(error) => unread = Err(error),
            }
            if over.len() < budget && unread.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        unread?;
        let mut surplus = Vec::new();
        for (text, count) in over {
            let left = budget.saturating_sub(surplus.len());
            let filter = lookup::Filter::Subject(text);
            surplus.extend(lookup::collect(&catalog, &filter, 0, Seq::MAX, count.min(left))?);
        }
        Ok(surplus)
    }
}

/// The most bytes that a batch can take, with everything that it evicts.
fn room_for(messages: &[NewMessage<'_>], limits: &Limits) -> u64 {
    const CONTROL: u64 = 128;
    const CONTROLS: u64 = 3 * CONTROL;
    const RANGE: u64 = 20;
    let sizes = messages
        .iter()
        // What fits nowhere is refused by itself.
        .filter(|m| record::fits(m.subject.len(), m.headers.len(), m.payload.len()))
        .map(|m| {
            let gap = if m.seq == 0 { 0 } else { CONTROL };
            gap + RANGE + record::max_message_len(m.subject.len(), m.headers.len(), m.payload.len()) as u64
        });
    let surplus = if limits.messages_per_subject.is_some() { SURPLUS * RANGE } else { 0 };
    sizes.sum::<u64>() + CONTROLS + surplus
}

/// Budget of what a batch may still evict: as much as it adds, and [`SURPLUS`] messages.
struct EvictionBudget {
    messages: u64,
    bytes: u64,
}

impl EvictionBudget {
    fn add(&mut self, size: u64) {
        self.messages += 1;
        self.bytes += size;
    }

    fn take(&mut self, removed: Removed) {
        self.messages = self.messages.saturating_sub(removed.messages);
        self.bytes = self.bytes.saturating_sub(removed.bytes);
    }
}

/// One batch on its way into the catalog.
struct Entering<'a> {
    catalog: &'a mut Catalog,
    limits: &'a Limits,
    storage: crate::Storage,
    admission: Admission,
    first_before: Seq,
    allowance: EvictionBudget,
    /// Sequences that went one by one: because of limits per subject, or because a message ended
    /// them.
    deleted: &'a mut Vec<Seq>,
    /// All that were evicted, at the end.
    gone: &'a mut Vec<RangeInclusive<Seq>>,
}

impl Entering<'_> {
    /// Perf: the subjects of a few messages are brought near together, where the index is larger
    /// than the nearest cache; among a million subjects that halves the cost of a message
    /// (`myelin bench store --rows subjects`).
    fn warm(&self, messages: &[NewMessage<'_>]) {
        if messages.len() > 1 && self.catalog.index().len() >= MANY_SUBJECTS {
            self.catalog.index().warm(messages.iter().map(|message| message.subject));
        }
    }

    fn enter(
        &mut self,
        message: &NewMessage<'_>,
        batch: &mut EntryBatch<'_>,
    ) -> Result<AppendResult, StoreError> {
        if let Err(refusal) = self.check_form(message) {
            return Ok(Err(refusal));
        }
        let size = size_of(self.storage, message.subject, message.headers, message.payload);
        if self.admission == Admission::Check
            && self.limits.discard == Discard::New
            && let Err(refusal) = self.check_limits(message, size)?
        {
            return Ok(Err(refusal));
        }
        if message.seq > self.catalog.next_seq() {
            let last = message.seq - 1;
            let has_evicted = self.first_before != self.catalog.totals().first_seq;
            batch.control(&Control::Skip { last }, message.timestamp);
            self.catalog.skip(last);
            // What a stream without messages has passed over is no eviction, and the entry says it.
            if self.catalog.totals().messages == 0 && !has_evicted {
                self.first_before = self.catalog.totals().first_seq;
            }
        }
        let seq = self.catalog.next_seq();
        debug_assert!(message.seq == 0 || message.seq == seq, "a message gets the sequence that it asks for");
        let offset = batch.message(&record::Message {
            seq,
            timestamp: message.timestamp,
            expires: message.expires,
            subject: message.subject,
            headers: message.headers,
            payload: message.payload,
        });
        let appended = self.catalog.append(&NewRow {
            seq,
            timestamp: message.timestamp,
            expires: message.expires,
            subject: message.subject,
            offset: u64::from(offset),
            size,
        });
        self.allowance.add(size);
        if (1..seq).contains(&message.ends) && self.catalog.remove(message.ends)?.messages > 0 {
            self.deleted.push(message.ends);
        }
        self.evict_of_subject(&appended)?;
        if self.limits.discard == Discard::Old {
            self.evict_oldest(size)?;
        }
        Ok(Ok(seq))
    }

    fn check_form(&self, message: &NewMessage<'_>) -> Result<(), AppendRefusal> {
        let length = message.headers.len() + message.payload.len();
        let too_large = self.limits.message_size.is_some_and(|max| length > max as usize)
            || !record::fits(message.subject.len(), message.headers.len(), message.payload.len());
        if too_large {
            return Err(AppendRefusal::TooLarge);
        }
        if message.subject.is_empty() {
            return Err(AppendRefusal::NoSubject);
        }
        let last = self.catalog.totals().last_seq;
        if message.seq != 0 && !(last + 1..=last + 1 + GAP_MAX).contains(&message.seq) {
            return Err(AppendRefusal::WrongSequence { last });
        }
        Ok(())
    }

    /// Whether a stream that discards new messages takes this one.
    ///
    /// Compat: a message that evicts an older one of its subject is exempt from the limit of
    /// messages, and from that of bytes unless it is larger than what it evicts.
    fn check_limits(
        &self,
        message: &NewMessage<'_>,
        size: u64,
    ) -> Result<Result<(), AppendRefusal>, StoreError> {
        let totals = &self.catalog.totals();
        let mut evicted_size = None;
        if let Some(max) = self.limits.messages_per_subject
            && let Some(id) = self.catalog.index().find(message.subject)
            && self.catalog.index().state(id).count >= max
            && self.catalog.live_of(id)? >= max
        {
            if self.limits.discard_new_per_subject && !message.is_rollup {
                return Ok(Err(AppendRefusal::MaxMessagesPerSubject));
            }
            let first = lookup::first_of(self.catalog, id)?;
            let located = first.map(|seq| self.catalog.locate_named(seq)).transpose()?.flatten();
            evicted_size = Some(located.map_or(0, |(found, _)| found.size));
        }
        if self.limits.messages.is_some_and(|max| totals.messages >= max) && evicted_size.is_none() {
            return Ok(Err(AppendRefusal::MaxMessages));
        }
        if self.limits.bytes.is_some_and(|max| totals.bytes + size > max)
            && evicted_size.is_none_or(|evicted| evicted < size)
        {
            return Ok(Err(AppendRefusal::MaxBytes));
        }
        Ok(Ok(()))
    }

    fn evict_of_subject(&mut self, appended: &Appended) -> Result<(), StoreError> {
        let Some(max) = self.limits.messages_per_subject else { return Ok(()) };
        let id = appended.subject;
        loop {
            let state = self.catalog.index().state(id);
            if state.count <= max.max(1) || self.allowance.messages == 0 {
                return Ok(());
            }
            if state.count == 2
                && let Some(before) = appended.before
                && before.0 == state.first
            {
                let removed = self.catalog.remove_known(id, before);
                self.allowance.take(removed);
                self.deleted.push(before.0);
                return Ok(());
            }
            let lost = self.catalog.lost_of(id)?;
            if state.count.saturating_sub(lost) <= max.max(1) {
                return Ok(());
            }
            let oldest = if lost > 0 {
                lookup::first_live_of(self.catalog, id)?
            } else {
                lookup::first_of(self.catalog, id)?
            };
            let Some(first) = oldest else { return Ok(()) };
            // Of two messages the other one is known.
            let leaving =
                if state.count > 2 { self.catalog.before_removal(id, first, state.last)? } else { None };
            let removed = match leaving {
                Some(leaving) if self.catalog.contains(first) => {
                    self.catalog.remove_known(id, (first, leaving.size))
                }
                _ => self.catalog.remove_of(id, first)?,
            };
            if removed.messages == 0 {
                // What the index took for the first message is none (it was lost to damage): it is
                // behind that.
                let first = first.saturating_add(1);
                self.catalog.correct_subject(id, SubjectState { first, first_exact: false, ..state });
                if first > state.last {
                    return Ok(());
                }
                continue;
            }
            self.allowance.take(removed);
            self.deleted.push(first);
            if let Some(next) = leaving.and_then(|leaving| leaving.next) {
                let state = self.catalog.index().state(id);
                self.catalog.correct_subject(id, SubjectState { first: next, first_exact: true, ..state });
            }
        }
    }

    /// `newest` is what the last message counts.
    fn evict_oldest(&mut self, newest: u64) -> Result<(), StoreError> {
        let messages = self.limits.messages.unwrap_or(u64::MAX);
        let bytes = self.limits.bytes.unwrap_or(u64::MAX);
        while (self.catalog.totals().messages > messages || self.catalog.totals().bytes > bytes)
            && self.catalog.totals().messages > 0
            // A large message may take the place of any number of small ones.
            && (self.allowance.messages > 0 || self.allowance.bytes > 0)
        {
            if self.catalog.totals().messages == 1 && self.catalog.totals().bytes > newest {
                // The rest was counted for messages that were lost to damage, which went without
                // their bytes.
                self.catalog.correct_bytes(newest);
                continue;
            }
            let removed = self.catalog.remove_head()?;
            self.allowance.take(removed);
        }
        Ok(())
    }

    /// Writes entries for what went: replay does not know the limits of today.
    fn log_evictions(&mut self, batch: &mut EntryBatch<'_>, now: Timestamp) {
        let first = self.catalog.totals().first_seq;
        if first != self.first_before {
            self.catalog.apply_head_removals();
        }
        self.deleted.retain(|&seq| seq >= first);
        if first != self.first_before {
            self.gone.push(self.first_before..=first - 1);
        }
        if !self.deleted.is_empty() {
            let ranges = Ranges::from_unsorted(std::mem::take(self.deleted));
            self.gone.extend(ranges.iter());
            batch.control(&Control::Delete(Cow::Owned(ranges)), now);
        }
        if first != self.first_before {
            batch.control(&Control::Trim { first }, now);
        }
    }
}

/// Whether readers may see a batch as soon as it was appended.
pub(super) fn is_released_at_once(durability: Durability) -> bool {
    durability != Durability::Synced
}

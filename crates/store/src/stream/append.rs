//! New messages: decided, encoded, written, and only then entered into the catalog.
//!
//! Perf: per message one look-up in the subject index, one checksum, one copy; per batch one write,
//! one look at the catalog and one change of it, no allocation once buffers have their size.
//! Measured by `myelin bench store`.
//!
//! The order is that of contracts.md C1: decide on the appended state (`decide.rs`), make the
//! entries, write them, follow the decision (`catalog/follow.rs`), release. Space is reserved
//! before anything is decided, so a full disk refuses a batch and leaves the stream as it was; so
//! does a table that cannot be read.

use std::borrow::Cow;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use crate::config::{Discard, Durability, Limits, StreamConfig};
use crate::record::{self, Control, EntryBatch};
use crate::segment::Totals;
use crate::{Seq, Timestamp};

use super::catalog::{Catalog, Planned, PlannedBatch, PlannedMessage};
use super::decide::{Deciding, SURPLUS};
use super::decision::{Decision, Whose};
use super::errors::StoreError;
use super::new_message::{Admission, AppendResult, NewMessage};
use super::release::Entered;
use super::{Active, Stream, lookup};

/// Sequences that one segment may span; beyond, a new one begins.
pub(crate) const SEGMENT_SPAN: u64 = 1 << 31;
/// How far the synced part must have grown since the log last said so.
pub(super) const DURABLE_STEP: u64 = 64 << 10;
/// A batch's buffer beyond this is given back.
pub(super) const SPARE_BYTES: usize = 1 << 20;

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
        self.decision.clear();
        self.check()?;
        if messages.is_empty() {
            return Ok(());
        }
        self.make_room(room_for(messages, &self.config.limits) + self.room_in_group(messages), now)?;
        let mut decision = std::mem::take(&mut self.decision);
        let result = self.append_batch(messages, admission, now, &mut decision, outcomes);
        if result.is_err() {
            decision.clear();
        }
        decision.shrink();
        self.decision = decision;
        debug_assert!(result.is_err() || outcomes.len() == messages.len(), "each message has an outcome");
        debug_assert!(
            self.evicted()
                .iter()
                .zip(self.evicted().iter().skip(1))
                .all(|(one, next)| one.end() < next.start()),
            "what went is told in order, and once"
        );
        result
    }

    fn append_batch(
        &mut self,
        messages: &[NewMessage<'_>],
        admission: Admission,
        now: Timestamp,
        decision: &mut Decision,
        outcomes: &mut Vec<AppendResult>,
    ) -> Result<(), StoreError> {
        let StreamConfig { limits, storage, .. } = &self.config;
        let catalog = self.shared.catalog();
        let stream = catalog.decided();
        let decided = Deciding::on(stream, limits, *storage, admission, messages, decision).decide(outcomes);
        drop(catalog);
        // It is opened anew, and the log says why: a table that cannot be read refuses every batch.
        decided.map_err(|error| self.fail(&error.to_string()))?;
        if self.group.is_some() {
            return self.append_in_group(messages, now, decision);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        self.encode(messages, now, &mut buffer, decision);
        let written = self.write(&buffer, now);
        buffer.clear();
        buffer.shrink_to(SPARE_BYTES);
        self.buffer = buffer;
        let end = written?;
        let shared = Arc::clone(&self.shared);
        let mut catalog = shared.catalog_mut();
        let entered = self.enter(&shared, end, decision.last());
        let is_direct = !decision.is_behind_waiting && matches!(entered, Entered::Passes(_));
        debug_assert!(!is_direct || !catalog.has_unreleased(), "what comes before is done before");
        let done = if is_direct {
            catalog.follow(messages, decision)
        } else {
            let batch = planned(messages, decision, &catalog);
            catalog.put(batch, &entered).map(drop)
        };
        self.is_untidy = done.is_ok() && catalog.tidy_after(messages.len());
        drop(catalog);
        self.entered(entered, done)
    }

    /// Makes the entries of a batch.
    fn encode(
        &mut self,
        messages: &[NewMessage<'_>],
        now: Timestamp,
        buffer: &mut Vec<u8>,
        decision: &mut Decision,
    ) {
        let Active { segment, file } = self.active.clone();
        let mut batch = EntryBatch::begin(buffer, file.end(), &segment.context);
        if let Some(durable) = self.take_durable_mark(DURABLE_STEP) {
            batch.control(&durable, now);
        }
        let mut next = decision.next();
        for row in &mut decision.rows {
            let message = &messages[row.message as usize];
            if row.seq > next {
                batch.control(&Control::Skip { last: row.seq - 1 }, message.timestamp);
            }
            row.offset = batch.message(&message.stored_as(row.seq));
            next = row.seq + 1;
        }
        if let Some(deleted) = &decision.deleted {
            batch.control(&Control::Delete(Cow::Borrowed(deleted)), now);
        }
        if let Some(first) = decision.first {
            batch.control(&Control::Trim { first }, now);
        }
        batch.finish();
    }
}

impl Stream {
    /// Sequences that went in the last call of [`Stream::append`] because of limits, ascending.
    /// Some of them may have had no message before. Nothing after an error.
    #[must_use]
    pub fn evicted(&self) -> &[RangeInclusive<Seq>] {
        self.decision.gone()
    }

    /// The last message of a subject, released or not: what the next message on it would follow.
    ///
    /// # Errors
    /// A table of the stream cannot be read.
    pub fn last_of(&self, subject: &[u8]) -> Result<Option<Seq>, StoreError> {
        Ok(self.shared.catalog().decided().last_of(subject)?)
    }

    /// How many messages this very subject has, released or not. Where it cannot be read how many
    /// of them are lost to damage, these count.
    #[must_use]
    pub fn count_of(&self, subject: &[u8]) -> u64 {
        self.shared.catalog().decided().count_of(subject)
    }

    /// The last message that passes a filter, released or not.
    ///
    /// # Errors
    /// A table of the stream cannot be read.
    pub fn last_matching(&self, filter: &lookup::Filter) -> Result<Option<Seq>, StoreError> {
        Ok(self.shared.catalog().decided().last(filter)?)
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
        if limits.discard == Discard::New {
            return Ok(false);
        }
        let totals = self.shared.catalog().decided().totals();
        let first = self.first_within(&limits, budget.max(1))?;
        if first == totals.first_seq {
            return Ok(false);
        }
        self.compact(first, usize::MAX, now)?;
        Ok(true)
    }

    /// Where a stream begins that has no more messages and bytes than it may, or comes nearer to
    /// that by `budget` messages. The oldest go, those that were lost to damage among them: else
    /// all that are there would go for the ones that only count.
    fn first_within(&self, limits: &Limits, budget: usize) -> Result<Seq, StoreError> {
        let catalog = self.shared.catalog();
        let stream = catalog.decided();
        let Totals { mut messages, mut bytes, first_seq: mut first, .. } = stream.totals();
        let is_over = |messages, bytes| {
            limits.messages.is_some_and(|most| messages > most)
                || limits.bytes.is_some_and(|most| bytes > most)
        };
        for _ in 0..budget {
            if messages == 0 || !is_over(messages, bytes) {
                break;
            }
            let size = stream.head_of(first, false)?.map_or(0, |(size, _)| size);
            debug_assert!(size <= bytes, "what may go was counted");
            if messages == 1 && !is_over(1, size) {
                // The other bytes were counted for messages that were lost to damage.
                break;
            }
            messages -= 1;
            bytes = bytes.saturating_sub(size);
            first = stream.next_live(first + 1);
        }
        Ok(first)
    }

    /// Up to `budget` messages that are too many of their subjects, the oldest of each.
    fn over_subject_limit(&self, limits: &Limits, budget: usize) -> Result<Vec<Seq>, StoreError> {
        let Some(max) = limits.messages_per_subject else { return Ok(Vec::new()) };
        let catalog = self.shared.catalog();
        let stream = catalog.decided();
        let (mut over, mut unread) = (Vec::new(), Ok(()));
        stream.each_above(max.max(1), &mut |text| {
            match stream.live_of(text) {
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
            surplus.extend(stream.collect(&filter, 0, Seq::MAX, count.min(left))?);
        }
        Ok(surplus)
    }
}

/// The most bytes that a batch can take, with everything that it evicts.
pub(super) fn room_for(messages: &[NewMessage<'_>], limits: &Limits) -> u64 {
    const CONTROL: u64 = 128;
    const CONTROLS: u64 = 3 * CONTROL;
    const RANGE: u64 = 20;
    let sizes = messages
        .iter()
        // What fits nowhere is refused by itself.
        .filter(|m| record::fits(m.subject.len(), m.headers.len(), m.payload.len()))
        .map(|m| {
            let gap = if m.seq == 0 { 0 } else { CONTROL };
            let ended = if m.ends == 0 { 0 } else { RANGE };
            gap + ended
                + RANGE
                + record::max_message_len(m.subject.len(), m.headers.len(), m.payload.len()) as u64
        });
    let surplus = if limits.messages_per_subject.is_some() { SURPLUS * RANGE } else { 0 };
    sizes.sum::<u64>() + CONTROLS + surplus
}

/// The batch that a decision makes, to be kept until it is released.
fn planned(messages: &[NewMessage<'_>], decision: &Decision, catalog: &Catalog) -> PlannedBatch {
    let mut plans = Vec::with_capacity(decision.rows.len());
    let mut next = decision.next();
    for row in &decision.rows {
        let message = &messages[row.message as usize];
        if row.seq > next {
            plans.push(Planned::Skip(row.seq - 1, message.timestamp));
        }
        plans.push(Planned::Message(PlannedMessage {
            seq: row.seq,
            timestamp: message.timestamp,
            expires: message.expires,
            subject: Box::from(message.subject),
            offset: u64::from(row.offset),
            size: u64::from(row.size),
        }));
        next = row.seq + 1;
    }
    if let Some(deleted) = &decision.deleted {
        plans.push(Planned::Delete(deleted.clone()));
    }
    if decision.lost_bytes > 0 {
        plans.push(Planned::LostBytes(decision.lost_bytes));
    }
    if let Some(first) = decision.first {
        plans.push(Planned::Trim(first));
    }
    plans.append(&mut first_plans(messages, decision, catalog));
    PlannedBatch { index: 0, plans }
}

/// Plans that note the oldest messages of subjects, which were looked up for a decision.
pub(super) fn first_plans(
    messages: &[NewMessage<'_>],
    decision: &Decision,
    catalog: &Catalog,
) -> Vec<Planned> {
    let mut plans = Vec::new();
    for removal in &decision.removals {
        let Some(next) = removal.next else { continue };
        let subject = match removal.whose {
            // It has released messages, and keeps its number as long as it has any.
            Whose::Subject(id) => catalog.decided().text(id),
            Whose::Row(row) => messages[decision.rows[row as usize].message as usize].subject,
            Whose::Nobody => continue,
        };
        plans.push(Planned::First(Box::from(subject), next));
    }
    plans
}

/// Whether readers may see a batch as soon as it was appended.
pub(super) fn is_released_at_once(durability: Durability) -> bool {
    durability != Durability::Synced
}

//! Decisions on appends: which messages a stream takes, and which go for them.
//!
//! Owns admission and eviction: which messages of a batch are taken, under which sequences, and
//! what goes because of them. Reads the stream as it will be behind what is in its log
//! ([`Decided`]) and changes nothing in it; what the batch itself
//! has added and taken away so far is counted beside it. What comes out is a [`Decision`], from
//! which the entries are made and which the catalog then follows without a limit being looked at
//! again (`catalog/follow.rs`).
//!
//! Perf: a message of a stream without a limit per subject costs one row here, and no look-up: its
//! subject is looked up when it is entered. Else the subject is looked up here, and entered by its
//! number. No allocation once the lists have their size.

use crate::Seq;
use crate::config::{Discard, Limits, Storage};
use crate::index::SubjectId;
use crate::ranges::Ranges;
use crate::record;

use super::catalog::{Decided, Removed, WARM, size_of};
use super::decision::{DecidedRemoval, DecidedRow, Decision, NONE, Scratch, SubjectPlan, Whose};
use super::errors::{AppendRefusal, ReadError};
use super::new_message::{Admission, AppendResult, GAP_MAX, NewMessage};

/// How many messages a batch evicts beyond as many as it has: what limits that were made tighter
/// leave over goes little by little.
pub(super) const SURPLUS: u64 = 64;

/// Budget of what a batch may still evict: as much as it adds, and [`SURPLUS`] messages.
#[derive(Clone, Copy)]
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

/// The oldest message that stays.
enum Oldest {
    /// Of the stream.
    Old(Seq),
    /// A row of the batch.
    Row(usize),
}

/// A batch that is being decided on.
pub(super) struct Deciding<'a> {
    stream: Decided<'a>,
    limits: &'a Limits,
    storage: Storage,
    admission: Admission,
    messages: &'a [NewMessage<'a>],
    decision: &'a mut Decision,
    /// Messages and bytes behind what was decided so far, and the next sequence.
    count: u64,
    bytes: u64,
    next: Seq,
    /// No message that stays is before it.
    head: Seq,
    head_row: usize,
    /// Whether there were messages before the batch.
    has_old: bool,
    /// The first sequence before anything was evicted.
    first_before: Seq,
    has_trimmed: bool,
    allowance: EvictionBudget,
}

impl<'a> Deciding<'a> {
    pub(super) fn on(
        stream: Decided<'a>,
        limits: &'a Limits,
        storage: Storage,
        admission: Admission,
        messages: &'a [NewMessage<'a>],
        decision: &'a mut Decision,
    ) -> Self {
        let totals = stream.totals();
        debug_assert!(decision.rows.is_empty() && decision.gone.is_empty(), "a decision begins without");
        (decision.next, decision.is_behind_waiting) = (stream.next_seq(), !stream.is_released());
        Self {
            stream,
            limits,
            storage,
            admission,
            messages,
            decision,
            count: totals.messages,
            bytes: totals.bytes,
            next: stream.next_seq(),
            head: totals.first_seq,
            head_row: 0,
            has_old: totals.messages > 0,
            first_before: totals.first_seq,
            has_trimmed: false,
            allowance: EvictionBudget { messages: SURPLUS, bytes: 0 },
        }
    }

    /// Decides on all messages; `outcomes` gets one entry for each.
    pub(super) fn decide(mut self, outcomes: &mut Vec<AppendResult>) -> Result<(), ReadError> {
        let is_warmed = self.limits.messages_per_subject.is_some();
        let messages = self.messages;
        for (at, message) in messages.iter().enumerate() {
            if is_warmed && at.is_multiple_of(WARM) {
                self.stream.catalog().warm(&messages[at..]);
            }
            outcomes.push(self.enter(at as u32, message)?);
        }
        self.end();
        Ok(())
    }

    fn enter(&mut self, at: u32, message: &NewMessage<'_>) -> Result<AppendResult, ReadError> {
        if let Err(refusal) = self.check_form(message) {
            return Ok(Err(refusal));
        }
        let size = size_of(self.storage, message.subject, message.headers, message.payload);
        let plan = match self.limits.messages_per_subject {
            Some(_) => self.plan_of(at, message.subject),
            None => NONE,
        };
        if self.admission == Admission::Check
            && self.limits.discard == Discard::New
            && let Err(refusal) = self.check_limits(message, plan, size)?
        {
            return Ok(Err(refusal));
        }
        if message.seq > self.next {
            // What a stream without messages has passed over is no eviction, and the entry says it.
            if self.count == 0 && self.first_before == self.next {
                (self.first_before, self.head) = (message.seq, message.seq);
            }
            self.next = message.seq;
        }
        let seq = self.next;
        debug_assert!(message.seq == 0 || message.seq == seq, "a message gets the sequence that it asks for");
        self.add(at, seq, plan, size);
        if (1..seq).contains(&message.ends) {
            // What the publisher ends takes nothing of what limits may evict.
            let allowance = self.allowance;
            self.remove_ended(message.ends)?;
            self.allowance = allowance;
        }
        if plan != NONE {
            self.evict_of_subject(plan as usize)?;
        }
        if self.limits.discard == Discard::Old {
            self.evict_oldest(size)?;
        }
        Ok(Ok(seq))
    }

    fn add(&mut self, message: u32, seq: Seq, plan: u32, size: u64) {
        let row = self.decision.rows.len() as u32;
        let mut subject = None;
        if let Some(plan) = self.decision.scratch.plans.get_mut(plan as usize) {
            if let Some(last) = self.decision.rows.get_mut(plan.last_row as usize) {
                last.next = row;
            }
            if plan.first_row == NONE {
                plan.first_row = row;
            }
            plan.last_row = row;
            plan.new += 1;
            subject = plan.id;
        }
        let size_of_row = u32::try_from(size).expect("messages are smaller than 4 GiB");
        let row = DecidedRow {
            seq,
            message,
            size: size_of_row,
            offset: 0,
            subject,
            plan,
            next: NONE,
            is_gone: false,
        };
        self.decision.rows.push(row);
        self.count += 1;
        self.bytes += size;
        self.next = seq + 1;
        self.allowance.add(size);
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
        if message.seq != 0 && !(self.next..=self.next + GAP_MAX).contains(&message.seq) {
            return Err(AppendRefusal::WrongSequence { last: self.next - 1 });
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
        plan: u32,
        size: u64,
    ) -> Result<Result<(), AppendRefusal>, ReadError> {
        let mut evicted_size = None;
        if let Some(max) = self.limits.messages_per_subject
            && let Some(plan) = self.decision.scratch.plans.get(plan as usize)
            && plan.old + plan.new >= max.max(1)
            && plan.old + plan.new - self.lost_of(plan)? >= max
            && (plan.old > 0 || !myelin_stdx::planted::bug(31))
        {
            if self.limits.discard_new_per_subject && !message.is_rollup {
                return Ok(Err(AppendRefusal::MaxMessagesPerSubject));
            }
            evicted_size = Some(self.oldest_size(plan)?);
        }
        if self.limits.messages.is_some_and(|max| self.count >= max) && evicted_size.is_none() {
            return Ok(Err(AppendRefusal::MaxMessages));
        }
        if self.limits.bytes.is_some_and(|max| self.bytes + size > max)
            && evicted_size.is_none_or(|evicted| evicted < size)
        {
            return Ok(Err(AppendRefusal::MaxBytes));
        }
        Ok(Ok(()))
    }

    /// How many messages of a subject count and are not there.
    fn lost_of(&self, plan: &SubjectPlan) -> Result<u64, ReadError> {
        let lost = plan.id.map_or(Ok(0), |id| self.stream.lost_of(id))?;
        Ok(lost.min(plan.old))
    }

    /// Bytes that the first message of a subject counts.
    fn oldest_size(&self, plan: &SubjectPlan) -> Result<u64, ReadError> {
        if let Some(id) = plan.id.filter(|_| plan.old > 0) {
            let first = self.first_old(plan, id, false)?;
            let located = first.map(|seq| self.stream.locate(seq)).transpose()?.flatten();
            return Ok(located.map_or(0, |found| found.size));
        }
        Ok(self.decision.rows.get(plan.first_row as usize).map_or(0, |row| u64::from(row.size)))
    }

    /// The first message of the stream with a subject; `is_sought`: whatever is known of where it
    /// is.
    fn first_old(
        &self,
        plan: &SubjectPlan,
        id: SubjectId,
        is_sought: bool,
    ) -> Result<Option<Seq>, ReadError> {
        if plan.is_first_exact && !is_sought {
            return Ok(Some(plan.first));
        }
        let text = self.stream.text(id);
        let mut from = plan.first.max(self.head);
        loop {
            let found = self.stream.next_of_subject(text, from, plan.last)?;
            match found {
                Some(seq) if self.is_single(seq) => from = seq + 1,
                found => return Ok(found),
            }
        }
    }

    fn is_single(&self, seq: Seq) -> bool {
        let singles = &self.decision.scratch.singles;
        !singles.is_empty() && singles.contains(&seq)
    }

    /// The place of the plan of a subject that a message of the batch has.
    fn plan_of(&mut self, message: u32, subject: &[u8]) -> u32 {
        let hash = self.stream.hash(subject);
        let is_alone = self.messages.len() == 1;
        if !is_alone && let Some(at) = self.find_plan(hash, subject) {
            return at;
        }
        let id = self.stream.find_hashed(hash, subject);
        self.push_plan(id, message, hash)
    }

    /// The place of the plan of a subject of the stream.
    fn plan_of_id(&mut self, id: SubjectId) -> usize {
        let text = self.stream.text(id);
        let hash = self.stream.hash(text);
        let found = match self.messages.len() {
            1 => self.decision.scratch.plans.iter().position(|plan| plan.id == Some(id)),
            _ => self.find_plan(hash, text).map(|at| at as usize),
        };
        found.unwrap_or_else(|| self.push_plan(Some(id), NONE, hash) as usize)
    }

    fn find_plan(&self, hash: u32, subject: &[u8]) -> Option<u32> {
        let Scratch { plans, by_subject, .. } = &self.decision.scratch;
        let text_of = |plan: &SubjectPlan| match plan.id {
            Some(id) => self.stream.text(id),
            None => self.messages[plan.message as usize].subject,
        };
        let is_it = |&at: &u32| {
            let plan = &plans[at as usize];
            plan.hash == hash && text_of(plan) == subject
        };
        by_subject.find(spread(hash), is_it).copied()
    }

    fn push_plan(&mut self, id: Option<SubjectId>, message: u32, hash: u32) -> u32 {
        let state = id.map(|id| self.stream.subject(id)).unwrap_or_default();
        let last_size = id.and_then(|id| self.stream.last_known(id)).map_or(0, |(_, size)| size);
        let Scratch { plans, by_subject, .. } = &mut self.decision.scratch;
        let at = plans.len() as u32;
        plans.push(SubjectPlan {
            hash,
            id,
            message,
            old: state.count,
            first: state.first,
            is_first_exact: state.first_exact,
            last: state.last,
            last_size,
            new: 0,
            first_row: NONE,
            last_row: NONE,
        });
        if self.messages.len() > 1 {
            by_subject.insert_unique(spread(hash), at, |&at| spread(plans[at as usize].hash));
        }
        at
    }

    /// Takes a message away that ends with another one's arrival.
    fn remove_ended(&mut self, seq: Seq) -> Result<(), ReadError> {
        if seq >= self.decision.next {
            if let Ok(row) = self.decision.rows.binary_search_by_key(&seq, |row| row.seq)
                && !self.decision.rows[row].is_gone
            {
                self.remove_row(row, None);
            }
            return Ok(());
        }
        let is_gone = self.decision.removals.iter().any(|removal| removal.seq == seq);
        if seq < self.head || !self.stream.contains(seq) || is_gone {
            return Ok(());
        }
        let (size, whose) = match self.stream.locate_named(seq)? {
            Some((found, subject)) => (found.size as u32, Whose::Subject(subject)),
            None => (0, Whose::Nobody),
        };
        // Wherever a message of the stream is looked for from here on, this one is passed over.
        self.decision.scratch.singles.insert(seq);
        let plan = match whose {
            Whose::Subject(id) if self.limits.messages_per_subject.is_some() => Some(self.plan_of_id(id)),
            _ => None,
        };
        self.remove_old(DecidedRemoval { seq, size, whose, next: None }, plan);
        Ok(())
    }

    /// Takes a message of the stream away, one by one, whose subject has this plan.
    fn remove_old(&mut self, removal: DecidedRemoval, plan: Option<usize>) {
        if let Some(at) = plan {
            self.decision.scratch.plans[at].forget_old(removal.seq);
        }
        if self.has_total_limits() {
            self.decision.scratch.singles.insert(removal.seq);
        }
        self.taken(removal.size);
        self.decision.removals.push(removal);
    }

    /// Takes a message of the batch away.
    fn remove_row(&mut self, at: usize, next: Option<Seq>) {
        let DecidedRow { seq, size, .. } = self.decision.rows[at];
        self.forget_row(at);
        self.taken(size);
        self.decision.removals.push(DecidedRemoval { seq, size, whose: Whose::Row(at as u32), next });
    }

    /// Counts a row of the batch as gone.
    fn forget_row(&mut self, at: usize) {
        let rows = &mut self.decision.rows;
        rows[at].is_gone = true;
        let Some(plan) = self.decision.scratch.plans.get_mut(rows[at].plan as usize) else { return };
        plan.new -= 1;
        while let Some(row) = rows.get(plan.first_row as usize)
            && row.is_gone
        {
            plan.first_row = row.next;
        }
    }

    fn taken(&mut self, size: u32) {
        let bytes = u64::from(size);
        self.count -= 1;
        self.bytes = if self.count == 0 { 0 } else { self.bytes.saturating_sub(bytes) };
        self.allowance.take(Removed { messages: 1, bytes });
    }

    fn has_total_limits(&self) -> bool {
        self.limits.discard == Discard::Old && (self.limits.messages.is_some() || self.limits.bytes.is_some())
    }

    fn evict_of_subject(&mut self, at: usize) -> Result<(), ReadError> {
        let Some(max) = self.limits.messages_per_subject else { return Ok(()) };
        loop {
            let plan = self.decision.scratch.plans[at];
            let count = plan.old + plan.new;
            if count <= max.max(1) || self.allowance.messages == 0 {
                return Ok(());
            }
            let Some(id) = plan.id.filter(|_| plan.old > 0) else {
                self.evict_row(plan);
                continue;
            };
            if plan.old == 1 && plan.last_size > 0 && plan.first <= plan.last {
                let (seq, size) = (plan.last, plan.last_size);
                let whose = Whose::Subject(id);
                self.remove_old(DecidedRemoval { seq, size, whose, next: None }, Some(at));
                continue;
            }
            let lost = self.lost_of(&plan)?;
            if count - lost <= max.max(1) {
                return Ok(());
            }
            let Some(first) = self.first_old(&plan, id, lost > 0)? else {
                // The rest of them was lost to damage.
                if plan.new < 2 {
                    return Ok(());
                }
                self.evict_row(plan);
                continue;
            };
            self.evict_old(at, id, first)?;
        }
    }

    /// Takes the oldest message of the batch away that a subject has.
    fn evict_row(&mut self, plan: SubjectPlan) {
        let mut next = self.decision.rows[plan.first_row as usize].next;
        while let Some(row) = self.decision.rows.get(next as usize)
            && row.is_gone
        {
            next = row.next;
        }
        let next = self.decision.rows.get(next as usize).map(|row| row.seq);
        self.remove_row(plan.first_row as usize, next.filter(|_| plan.old == 0 && plan.new > 2));
    }

    /// Takes message `first` of the stream away, the oldest of its subject.
    fn evict_old(&mut self, at: usize, id: SubjectId, first: Seq) -> Result<(), ReadError> {
        let plan = self.decision.scratch.plans[at];
        if !self.stream.contains(first) || self.is_single(first) {
            // What the index took for the first message is none (it was lost to damage): it is
            // behind that.
            self.decision.scratch.plans[at].begin_behind(first);
            return Ok(());
        }
        // Of two messages the other one is known.
        let leaving = match plan.old + plan.new {
            ..=2 => None,
            _ => self.stream.before_removal(id, first, plan.last)?,
        };
        let size = match leaving {
            Some(leaving) => leaving.size,
            None => self.stream.size_of(first)?.unwrap_or(0) as u32,
        };
        let next_row = || self.decision.rows.get(plan.first_row as usize).map(|row| row.seq);
        let next = leaving.and_then(|leaving| leaving.next.or_else(next_row));
        let next = next.filter(|next| !self.is_single(*next));
        self.remove_old(DecidedRemoval { seq: first, size, whose: Whose::Subject(id), next }, Some(at));
        self.decision.scratch.plans[at].begin_with(first, next);
        Ok(())
    }

    /// `newest` is what the last message counts.
    fn evict_oldest(&mut self, newest: u64) -> Result<(), ReadError> {
        let messages = self.limits.messages.unwrap_or(u64::MAX);
        let bytes = self.limits.bytes.unwrap_or(u64::MAX);
        while (self.count > messages || self.bytes > bytes)
            && self.count > 0
            // A large message may take the place of any number of small ones.
            && (self.allowance.messages > 0 || self.allowance.bytes > 0)
        {
            if self.count == 1 && self.bytes > newest {
                // The rest was counted for messages that were lost to damage, which went without
                // their bytes.
                self.decision.lost_bytes += self.bytes - newest;
                self.bytes = newest;
                continue;
            }
            self.remove_head()?;
        }
        Ok(())
    }

    fn remove_head(&mut self) -> Result<(), ReadError> {
        let singles = std::mem::take(&mut self.decision.scratch.singles);
        let head = self.find_head(|seq| !singles.is_empty() && singles.contains(&seq));
        self.decision.scratch.singles = singles;
        self.has_trimmed = true;
        match head {
            Oldest::Old(seq) => {
                let with_subject = self.limits.messages_per_subject.is_some();
                let (size, subject) = self.stream.head_of(seq, with_subject)?.unwrap_or((0, None));
                if let Some(id) = subject {
                    let at = self.plan_of_id(id);
                    self.decision.scratch.plans[at].forget_old(seq);
                    self.decision.scratch.plans[at].begin_behind(seq);
                }
                self.head = seq + 1;
                self.taken(size as u32);
            }
            // Where damage took messages that are counted, there is nothing to remove for them.
            Oldest::Row(at) if at >= self.decision.rows.len() => self.count = 0,
            Oldest::Row(at) if at + 1 == self.decision.rows.len() && self.count > 1 => self.count = 1,
            Oldest::Row(at) => {
                let DecidedRow { seq, size, .. } = self.decision.rows[at];
                self.forget_row(at);
                self.head = seq + 1;
                self.taken(size);
            }
        }
        Ok(())
    }

    /// The oldest message that stays, where `is_single` says which went one by one.
    fn find_head(&mut self, mut is_single: impl FnMut(Seq) -> bool) -> Oldest {
        let next = self.decision.next;
        while self.head < next && self.has_old {
            self.head = self.stream.next_live(self.head);
            if self.head >= next {
                break;
            }
            if !is_single(self.head) {
                return Oldest::Old(self.head);
            }
            self.head += 1;
        }
        while self.decision.rows.get(self.head_row).is_some_and(|row| row.is_gone) {
            self.head_row += 1;
        }
        self.head = self.decision.rows.get(self.head_row).map_or(self.next, |row| row.seq);
        Oldest::Row(self.head_row)
    }

    /// Puts together what goes: replay does not know the limits of today.
    fn end(mut self) {
        if self.decision.removals.is_empty() && !self.has_trimmed {
            return;
        }
        let mut singles: Vec<Seq> = self.decision.removals.iter().map(|removal| removal.seq).collect();
        singles.sort_unstable();
        if self.has_trimmed || singles.first().is_some_and(|seq| *seq <= self.head) || self.count == 0 {
            // Heads ascend, and so do these.
            let mut rest = singles.iter().peekable();
            self.find_head(|seq| {
                while rest.next_if(|single| **single < seq).is_some() {}
                rest.peek() == Some(&&seq)
            });
        }
        let first = if self.count == 0 { self.next } else { self.head };
        let Decision { gone, deleted, .. } = &mut *self.decision;
        if first != self.first_before {
            gone.push(self.first_before..=first - 1);
            singles.retain(|&seq| seq >= first);
        }
        if !singles.is_empty() {
            let ranges = Ranges::from_unsorted(singles);
            gone.extend(ranges.iter());
            *deleted = Some(ranges);
        }
        self.decision.first = (first != self.first_before).then_some(first);
    }
}

/// The table takes its groups from the upper bits, and its marks from the lower ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash) | u64::from(hash) << 32
}

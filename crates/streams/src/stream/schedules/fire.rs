//! Firing of a schedule that is due: its message, or the last one of the subject that it samples,
//! is stored on its target.
//!
//! Runs on a thread that may wait for the disk, a slice at a time.

use myelin_store::{Discard, Filter, Purge, ReadError, Seq, StoreError, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::super::admit::Ingest;
use super::super::append_run::{MsgDraft, MsgVerdict, Special};
use super::super::core::StreamCore;
use super::super::effects::Effects;
use super::super::header_edit;
use super::super::msg_headers::MsgHeaders;
use super::super::next_times::RETRY;
use super::super::rules::Rollup;
use super::super::ttl::SECOND;
use super::index::{PlannedFiring, ScheduleChange, SchedulePage};
use super::table::ScheduleTable;
use super::{NEXT, PATTERN, ROLLUP, SCHEDULER, SOURCE, TARGET, TTL, schedule_of, value};
use myelin_jsapi::ApiError;

/// Schedules that one slice fires: a moment of the turn.
const SLICE: usize = 100;
/// Schedules that one slice fires where limits may refuse one and take the next: then what is
/// announced would have another sequence. So each is a run of its own.
const SLICE_OF_SINGLES: usize = 20;
/// Schedules that one slice looks at to see whether they are still there.
const SWEPT: usize = 1000;
/// When to try again what was refused for good, as far as one can know.
const LONG_RETRY: i64 = 60 * SECOND;

/// When a schedule is due once more, if its message is stored, and which one it is.
#[derive(Clone, Copy, Debug)]
pub(in crate::stream) struct Recurrence {
    pub(in crate::stream) seq: Seq,
    /// When it was due this time.
    pub(in crate::stream) due: Timestamp,
    pub(in crate::stream) next: Option<Timestamp>,
}

/// Message that a schedule wants stored, as number `at` of a buffer.
struct PreparedFiring {
    at: usize,
    recurrence: Recurrence,
    /// Its subject, if it ends with that.
    ends: Option<Box<[u8]>>,
}

/// Decision about a schedule whose time is said to have come.
enum FireDecision {
    At(PreparedFiring),
    /// The schedule is not due before then.
    TooEarly(Timestamp),
    /// The message is no schedule any more.
    Nothing,
    /// Another schedule has its subject, and was to remove it.
    Replaced(Seq, Box<[u8]>),
}

impl StreamCore {
    /// When there is something to do for schedules. A stream that has failed does nothing.
    pub(in crate::stream) fn next_schedule(&self) -> Option<Timestamp> {
        if self.schedules.is_empty() || self.store.failure().is_some() {
            return None;
        }
        let sweep = self.schedules.wants_sweep().then_some(self.last.time);
        [sweep, self.schedules.next_due()].into_iter().flatten().min()
    }

    /// Does a slice of what is due.
    pub(in crate::stream) fn run_due_schedules(&mut self, now: Timestamp, effects: &mut Effects) {
        if self.schedules.next_due().is_some_and(|at| at <= now) && self.store.failure().is_none() {
            self.fire(now, effects);
        }
        if self.schedules.wants_sweep() {
            let store = &self.store;
            self.schedules.sweep(SWEPT, |seq| store.has(seq));
        }
        self.update_schedule_index();
    }

    /// Tells the index what has changed, if it is time.
    pub(in crate::stream) fn update_schedule_index(&mut self) {
        let last = self.store.totals().last_seq;
        if self.rules.allows_schedules && self.schedules.wants_index_write(last) {
            self.write_index(&[], Vec::new());
        }
    }

    /// Tells the index what has changed, and what else it is to know. Answers whether it does.
    fn write_index(&mut self, further: &[ScheduleChange], firings: Vec<PlannedFiring>) -> bool {
        let totals = self.store.totals();
        let mut changes = self.schedules.take_changes(totals.last_seq);
        changes.extend_from_slice(further);
        let page = SchedulePage { through: totals.last_seq, time: totals.last_timestamp, firings };
        let is_told = self.settings.schedule_index.write(&changes, &page);
        if !is_told {
            self.schedules.mark_urgent();
        }
        is_told
    }

    fn fire(&mut self, now: Timestamp, effects: &mut Effects) {
        self.drop_run();
        let may_refuse = self.rules.limits.discard == Discard::New;
        let slice = if may_refuse { SLICE_OF_SINGLES } else { SLICE };
        let (mut msgs, mut firings) = (MessageBuf::default(), Vec::new());
        while firings.len() < slice
            && let Some((due, seq)) = self.schedules.pop(now)
        {
            let decided = self.prepare_firing(due, seq, now, &mut msgs);
            match decided.and_then(|decision| self.clear_replaced(decision, now)) {
                Ok(FireDecision::At(firing)) => firings.push(firing),
                Ok(FireDecision::TooEarly(due)) => self.schedules.admit(due, seq),
                Ok(FireDecision::Nothing | FireDecision::Replaced(..)) => self.schedules.forget(seq),
                Err(ReadError::Io(_)) => self.schedules.push(now.saturating_add(RETRY), seq),
                // It may be readable when the file was put back.
                Err(_) => self.schedules.push(now.saturating_add(LONG_RETRY), seq),
            }
        }
        let mut ingest = Ingest { msgs: &msgs, now, effects, traces: None, closing: None, is_copy: false };
        for firing in firings {
            self.add_firing(&firing, &mut ingest);
            if may_refuse {
                self.flush_firings(&mut ingest);
            }
        }
        self.flush_firings(&mut ingest);
        self.drop_run();
    }

    /// Stores the run, once the index knows of it.
    fn flush_firings(&mut self, ingest: &mut Ingest<'_>) {
        if self.index_firings() {
            self.flush(ingest);
        } else {
            self.postpone(ingest.now);
            self.forget_drafts();
        }
    }

    /// Tells the index which schedules of the run will fire and be due again, and as what.
    fn index_firings(&mut self) -> bool {
        let drafts = self.run.entries().iter().filter(|entry| entry.verdict == MsgVerdict::Store);
        let next = self.store.totals().last_seq + 1;
        let (mut changes, mut firings) = (Vec::new(), Vec::new());
        for (at, entry) in (next..).zip(drafts) {
            let recurrence = entry.draft.special.as_ref().and_then(|special| special.recurrence);
            if let Some(Recurrence { seq, due, next: Some(next) }) = recurrence {
                changes.push(ScheduleChange::Due(seq, next));
                firings.push(PlannedFiring { schedule: seq, at, due });
            }
        }
        firings.is_empty() || self.write_index(&changes, firings)
    }

    /// Makes what is in the run fire a little later.
    fn postpone(&mut self, now: Timestamp) {
        let drafts = self.run.entries().iter().filter(|entry| entry.verdict == MsgVerdict::Store);
        for recurrence in drafts.filter_map(|entry| entry.draft.special.as_ref()?.recurrence) {
            self.schedules.push(now.saturating_add(RETRY), recurrence.seq);
            if recurrence.next.is_some() {
                self.schedules.correct(recurrence.due, recurrence.seq);
            }
        }
    }

    /// Puts into the buffer what a schedule that is due has to say.
    fn prepare_firing(
        &self,
        due: Timestamp,
        seq: Seq,
        now: Timestamp,
        msgs: &mut MessageBuf,
    ) -> Result<FireDecision, ReadError> {
        let mut buffer = Vec::new();
        let Some(message) = self.store.read(seq, &mut buffer)? else { return Ok(FireDecision::Nothing) };
        let (subject, own) = (message.subject, message.headers);
        let Ok(Some(schedule)) = schedule_of(own) else { return Ok(FireDecision::Nothing) };
        if let Some(decision) = self.replaced(subject, seq)? {
            return Ok(decision);
        }
        // What somebody else says of the message must not make it come before its time. It was
        // admitted a moment before the time that it has.
        let made = message.timestamp.saturating_sub(SECOND);
        match schedule.next(made, made) {
            Some(earliest) if earliest <= due => {}
            _ => {
                let first = schedule.next(message.timestamp, message.timestamp);
                return Ok(first.map_or(FireDecision::Nothing, FireDecision::TooEarly));
            }
        }
        let mut other = Vec::new();
        let sample = match value(own, SOURCE) {
            b"" => None,
            source => self.store.read_last(source, &mut other)?,
        };
        let content = sample.as_ref().unwrap_or(&message);
        let next = schedule.repeats().then(|| schedule.next(due, now)).flatten();
        let when = next.map_or_else(|| "purge".to_owned(), |next| schedule.show(next));
        let headers = headers_of(content.headers, subject, when.as_bytes(), own);
        msgs.push(MessageRef {
            subject: value(own, TARGET),
            headers: &headers,
            payload: content.payload,
            ..MessageRef::default()
        });
        let ends = next.is_none().then(|| subject.into());
        Ok(FireDecision::At(PreparedFiring {
            at: msgs.len() - 1,
            recurrence: Recurrence { seq, due, next },
            ends,
        }))
    }

    /// Removes what a schedule that ends now has taken the place of, and what could not be removed
    /// then: it ends with its own message, and is not to leave one that would fire in its place. So
    /// goes one that another has taken the place of, which may have no end.
    fn clear_replaced(&mut self, decision: FireDecision, now: Timestamp) -> Result<FireDecision, ReadError> {
        match &decision {
            FireDecision::At(PreparedFiring { recurrence, ends: Some(subject), .. })
                if self.store.count_of(subject) > 1 =>
            {
                self.clear_subject(subject, recurrence.seq, now)?;
            }
            FireDecision::Replaced(seq, subject) => {
                self.clear_subject(subject, seq + 1, now)?;
                return Ok(FireDecision::Nothing);
            }
            _ => {}
        }
        Ok(decision)
    }

    /// Removes the messages of a subject before a sequence.
    fn clear_subject(&mut self, subject: &[u8], below: Seq, now: Timestamp) -> Result<(), ReadError> {
        let filter = Some(Filter::Subject(subject.to_vec()));
        let mut purge = Purge { filter, below, ..Purge::default() };
        while self.store.purge(&mut purge, SWEPT, now).map_err(as_read)?.more {}
        Ok(())
    }

    /// Decision about a schedule that a message behind it ended. One that another schedule has put
    /// there does not.
    fn replaced(&self, subject: &[u8], seq: Seq) -> Result<Option<FireDecision>, ReadError> {
        let mut buffer = Vec::new();
        let last = self.store.read_last(subject, &mut buffer)?;
        let by = last.filter(|last| last.seq != seq && value(last.headers, SCHEDULER).is_empty());
        let has_rolled_up = |last: &[u8]| !value(last, b"Nats-Rollup").is_empty();
        Ok(by.map(|last| match schedule_of(last.headers) {
            Ok(Some(_)) if has_rolled_up(last.headers) => FireDecision::Replaced(seq, subject.into()),
            _ => FireDecision::Nothing,
        }))
    }

    fn add_firing(&mut self, firing: &PreparedFiring, ingest: &mut Ingest<'_>) {
        let Some(msg) = ingest.msgs.get(firing.at) else { return };
        let mut draft = MsgDraft::default();
        let verdict = match self.admit_firing(msg, firing, &mut draft, ingest) {
            Ok(()) => MsgVerdict::Store,
            Err(error) => {
                self.schedules.push(ingest.now.saturating_add(LONG_RETRY), firing.recurrence.seq);
                MsgVerdict::Refuse(Box::new(error))
            }
        };
        self.run.push(firing.at, draft, verdict);
    }

    /// Compat: of what is checked of other messages, only their size, the room, and whether the
    /// stream is sealed.
    fn admit_firing(
        &mut self,
        msg: MessageRef<'_>,
        firing: &PreparedFiring,
        draft: &mut MsgDraft,
        ingest: &mut Ingest<'_>,
    ) -> Result<(), ApiError> {
        let msg_headers = MsgHeaders::scan(msg.headers);
        self.transform(msg.subject, draft);
        self.ask_interest(msg, draft);
        self.rules.check_form(&self.run.apply(draft, msg))?;
        draft.rollup = Rollup::of(&msg_headers)?;
        let size = self.rules.size(&self.run.apply(draft, msg));
        if self.run.has_drafts() && self.find_room(size, !draft.is_unwanted).is_err() {
            // What waits may evict as much as it brings.
            self.flush_firings(ingest);
        }
        self.find_room(size, !draft.is_unwanted)?;
        self.enter(msg, &msg_headers, draft, size, ingest.now)?;
        draft.special().recurrence = Some(firing.recurrence);
        let Some(subject) = &firing.ends else { return Ok(()) };
        let is_alone = self.store.count_of(subject) == 1;
        if myelin_stdx::planted::bug(20) {
            return Ok(());
        }
        if !draft.is_unwanted {
            draft.special().ends = firing.recurrence.seq;
        }
        if !is_alone || draft.is_unwanted {
            // What others have put behind it goes as well.
            draft.special().retires = Some(self.run.keep(|kept| kept.extend_from_slice(subject)));
        }
        Ok(())
    }
}

impl ScheduleTable {
    /// Notes what became of a schedule, or of a message that one wanted stored: the sequence that
    /// it got, if it did.
    pub(in crate::stream) fn note_outcome(
        &mut self,
        special: &Special,
        stored: Option<Seq>,
        failure: Option<&StoreError>,
        now: Timestamp,
    ) {
        if let (Some(due), Some(seq)) = (special.due, stored) {
            self.admit(due, seq);
        }
        if let Some(Recurrence { seq, due, next }) = special.recurrence {
            let passes = matches!(failure, Some(StoreError::Full | StoreError::Io(_) | StoreError::Read(_)));
            let retry = if passes { RETRY } else { LONG_RETRY };
            match (stored, next) {
                // The index knows.
                (Some(_), Some(next)) => self.push(next, seq),
                (Some(_), None) => self.forget(seq),
                (None, _) => {
                    self.push(now.saturating_add(retry), seq);
                    if next.is_some() {
                        self.correct(due, seq);
                    }
                }
            }
        }
    }
}

/// Error of a removal as one of a read: after both it is tried again soon.
fn as_read(error: StoreError) -> ReadError {
    match error {
        StoreError::Read(error) => error,
        error => ReadError::Io(std::io::Error::other(error.to_string())),
    }
}

/// The headers of what a schedule stores: those of its content, with what it says itself in the
/// place of what was said of schedules and conditions.
fn headers_of(content: &[u8], subject: &[u8], when: &[u8], own: &[u8]) -> Vec<u8> {
    // All of schedules begin like their pattern.
    const GONE: [&[u8]; 5] = [PATTERN, b"Nats-Expected-", b"Nats-Msg-Id:", b"Nats-TTL:", b"Nats-Rollup:"];
    let mut headers = Vec::new();
    header_edit::write_without(content, &GONE, &mut headers);
    let (ttl, rollup) = (value(own, TTL), value(own, ROLLUP));
    let said: [(&[u8], &[u8]); 4] =
        [(SCHEDULER, subject), (NEXT, when), (b"Nats-TTL", ttl), (b"Nats-Rollup", rollup)];
    for (key, value) in said.into_iter().filter(|(_, value)| !value.is_empty()) {
        let mut longer = Vec::with_capacity(headers.len() + key.len() + value.len() + 16);
        header_edit::write_with(&headers, key, value, &mut longer);
        headers = longer;
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that fails once, when a segment begins for instance, refuses the message of a
    /// schedule that may well be stored a moment later.
    #[test]
    fn what_a_disk_refuses_is_soon_tried_again_and_what_a_limit_refuses_is_not() {
        let due_after = |failure: Option<StoreError>| {
            let mut table = ScheduleTable::default();
            let recurrence = Some(Recurrence { seq: 7, due: 5, next: None });
            let special = Special { recurrence, ..Special::default() };
            table.note_outcome(&special, None, failure.as_ref(), 10);
            table.next_due()
        };
        let io = || std::io::Error::other("planned");
        for failure in [StoreError::Full, StoreError::Io(io()), StoreError::Read(ReadError::Io(io()))] {
            assert_eq!(due_after(Some(failure)), Some(10 + RETRY));
        }
        assert_eq!(due_after(Some(StoreError::TooLarge)), Some(10 + LONG_RETRY));
        assert_eq!(due_after(None), Some(10 + LONG_RETRY));
    }
}

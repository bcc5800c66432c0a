//! What happens when a schedule is due: its message, or the last one of the subject that it samples, is stored on its target.
//!
//! Runs on a thread that may wait for the disk, a slice at a time.

use myelin_broker::{Letter, Parcel};
use myelin_store::{ReadError, Seq, StoreError, Timestamp};

use super::super::admit::Intake;
use super::super::core::StreamCore;
use super::super::effects::Effects;
use super::super::lines;
use super::super::marks::Marks;
use super::super::rules::Rollup;
use super::super::run::{Draft, Special, Verdict};
use super::super::ttl::SECOND;
use super::super::upkeep::RETRY;
use super::table::Table;
use super::{NEXT, PATTERN, ROLLUP, SCHEDULER, SOURCE, TARGET, TTL, schedule_of, value};
use crate::ApiError;

/// Schedules that one slice fires: a moment's hold of the turn.
const SLICE: usize = 100;
/// Schedules that one slice looks at to see whether they are still there.
const SWEPT: usize = 1000;
/// When to try again what was refused for good, as far as one can know.
const LONG_RETRY: i64 = 60 * SECOND;

/// When a schedule is due once more, if its message is stored, and which one it is.
#[derive(Clone, Copy, Debug)]
pub(in crate::stream) struct Again {
    pub(in crate::stream) seq: Seq,
    pub(in crate::stream) next: Option<Timestamp>,
}

/// What a schedule wants stored, as number `at` of a parcel.
struct Shot {
    at: usize,
    again: Again,
    /// Its subject, if it ends with that.
    ends: Option<Box<[u8]>>,
}

impl StreamCore {
    /// When there is something to do for schedules. A stream that has failed does nothing.
    pub(in crate::stream) fn next_schedule(&self) -> Option<Timestamp> {
        if self.schedules.is_empty() || self.store.failure().is_some() {
            return None;
        }
        let sweep = self.schedules.wants_sweep().then_some(self.last_time);
        [sweep, self.schedules.next_due()].into_iter().flatten().min()
    }

    /// Does a slice of what is due.
    pub(in crate::stream) fn tend_schedules(&mut self, now: Timestamp, effects: &mut Effects) {
        if self.schedules.next_due().is_some_and(|at| at <= now) && self.store.failure().is_none() {
            self.fire(now, effects);
        }
        if self.schedules.wants_sweep() {
            let store = &self.store;
            self.schedules.sweep(SWEPT, |seq| store.has(seq));
        }
        self.keep_schedules(false);
    }

    /// Tells the ledger what has changed.
    pub(in crate::stream) fn keep_schedules(&mut self, at_once: bool) {
        if !self.rules.allows_schedules {
            return;
        }
        let last = self.store.state().totals.last_seq;
        if let Some((changes, is_urgent)) = self.schedules.take_changes(last) {
            self.settings.ledger.write(&changes, last, is_urgent || at_once);
        }
    }

    fn fire(&mut self, now: Timestamp, effects: &mut Effects) {
        self.drop_run();
        let (mut parcel, mut shots) = (Parcel::default(), Vec::new());
        while shots.len() < SLICE
            && let Some((due, seq)) = self.schedules.pop(now)
        {
            match self.aim(due, seq, now, &mut parcel) {
                Ok(Some(shot)) => shots.push(shot),
                Ok(None) => self.schedules.forget(seq),
                // It may be readable later.
                Err(_) => self.schedules.push(now.saturating_add(LONG_RETRY), seq),
            }
        }
        let mut intake = Intake { parcel: &parcel, now, effects, closing: None, is_copy: false };
        for shot in shots {
            self.shoot(&shot, &mut intake);
        }
        self.flush(&mut intake);
        self.drop_run();
    }

    /// What a schedule that is due has to say, put into the parcel. `None` if it is none any more.
    fn aim(
        &self,
        due: Timestamp,
        seq: Seq,
        now: Timestamp,
        parcel: &mut Parcel,
    ) -> Result<Option<Shot>, ReadError> {
        let mut buffer = Vec::new();
        let Some(message) = self.store.read(seq, &mut buffer)? else { return Ok(None) };
        let (subject, own) = (message.subject, message.headers);
        let Ok(Some(schedule)) = schedule_of(own) else { return Ok(None) };
        if self.is_replaced(subject, seq)? {
            return Ok(None);
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
        parcel.push(Letter {
            subject: value(own, TARGET),
            headers: &headers,
            payload: content.payload,
            ..Letter::default()
        });
        let ends = next.is_none().then(|| subject.into());
        Ok(Some(Shot { at: parcel.len() - 1, again: Again { seq, next }, ends }))
    }

    /// Whether a message behind the schedule ended it. One that another schedule has put there does not.
    fn is_replaced(&self, subject: &[u8], seq: Seq) -> Result<bool, ReadError> {
        let mut buffer = Vec::new();
        let last = self.store.read_last(subject, &mut buffer)?;
        Ok(last.is_some_and(|last| last.seq != seq && value(last.headers, SCHEDULER).is_empty()))
    }

    fn shoot(&mut self, shot: &Shot, intake: &mut Intake<'_>) {
        let Some(letter) = intake.parcel.get(shot.at) else { return };
        let mut draft = Draft::default();
        let verdict = match self.admit_shot(letter, shot, &mut draft, intake) {
            Ok(()) => Verdict::Store,
            Err(error) => {
                self.schedules.push(intake.now.saturating_add(LONG_RETRY), shot.again.seq);
                Verdict::Refuse(Box::new(error))
            }
        };
        self.run.push(shot.at, draft, verdict);
    }

    /// Compat: of what is checked of other messages, only their size, the room, and whether the stream is sealed.
    fn admit_shot(
        &mut self,
        letter: Letter<'_>,
        shot: &Shot,
        draft: &mut Draft,
        intake: &mut Intake<'_>,
    ) -> Result<(), ApiError> {
        let marks = Marks::scan(letter.headers);
        self.transform(letter.subject, draft);
        self.ask_interest(letter, draft);
        self.rules.check_form(&self.run.apply(draft, letter))?;
        draft.rollup = Rollup::of(&marks)?;
        let size = self.rules.size(&self.run.apply(draft, letter));
        self.check_room(size, !draft.is_unwanted, intake)?;
        self.enter(letter, &marks, draft, size, intake.now)?;
        draft.special().again = Some(shot.again);
        let Some(subject) = &shot.ends else { return Ok(()) };
        let is_alone = self.store.count_of(subject) == 1;
        if is_alone && !draft.is_unwanted {
            draft.special().ends = shot.again.seq;
        } else {
            draft.special().retires = Some(self.run.keep(|kept| kept.extend_from_slice(subject)));
        }
        Ok(())
    }
}

impl Table {
    /// Notes what became of a schedule, or of a message that one wanted stored: the sequence that it got, if it did.
    pub(in crate::stream) fn settle(
        &mut self,
        special: &Special,
        stored: Option<Seq>,
        failure: Option<&StoreError>,
        now: Timestamp,
    ) {
        if let (Some(due), Some(seq)) = (special.due, stored) {
            self.admit(due, seq);
        }
        if let Some(Again { seq, next }) = special.again {
            let retry = if matches!(failure, Some(StoreError::Full)) { RETRY } else { LONG_RETRY };
            match (stored, next) {
                (Some(_), Some(due)) => self.repeat(due, seq),
                (Some(_), None) => self.forget(seq),
                // For the ledger it is as due as before.
                (None, _) => self.push(now.saturating_add(retry), seq),
            }
        }
    }
}

/// The headers of what a schedule stores: those of its content, with what it says itself in the place of what was said of
/// schedules and conditions.
fn headers_of(content: &[u8], subject: &[u8], when: &[u8], own: &[u8]) -> Vec<u8> {
    // All of schedules begin like their pattern.
    const GONE: [&[u8]; 5] = [PATTERN, b"Nats-Expected-", b"Nats-Msg-Id:", b"Nats-TTL:", b"Nats-Rollup:"];
    let mut headers = Vec::new();
    lines::write_without(content, &GONE, &mut headers);
    let (ttl, rollup) = (value(own, TTL), value(own, ROLLUP));
    let said: [(&[u8], &[u8]); 4] =
        [(SCHEDULER, subject), (NEXT, when), (b"Nats-TTL", ttl), (b"Nats-Rollup", rollup)];
    for (key, value) in said.into_iter().filter(|(_, value)| !value.is_empty()) {
        let mut longer = Vec::with_capacity(headers.len() + key.len() + value.len() + 16);
        lines::write_with(&headers, key, value, &mut longer);
        headers = longer;
    }
    headers
}

//! Admission of a schedule, or of a message that ends one.

use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::super::admit::Ingest;
use super::super::append_run::MsgDraft;
use super::super::core::StreamCore;
use super::super::header_edit;
use super::super::msg_headers::{Key, MsgHeaders};
use super::super::rules::{PublishRules, Rollup, is_other_literal};
use super::super::ttl;
use super::{PATTERN, ROLLUP, SOURCE, TARGET, TTL, schedule_of, value};
use myelin_jsapi::ApiError;
use myelin_jsapi::schedule::Schedule;
use myelin_wire::header;

impl PublishRules {
    /// Checks what a message says of a schedule. `None` if it says nothing.
    pub(in crate::stream) fn check_schedule(
        &self,
        msg_headers: &MsgHeaders<'_>,
        message: &MessageRef<'_>,
    ) -> Result<Option<Schedule>, ApiError> {
        // Compat: a zone is looked at even without a pattern.
        if !msg_headers.has_any(&[Key::Schedule, Key::ScheduleTimeZone]) {
            return Ok(None);
        }
        let disabled = ApiError::MESSAGE_SCHEDULES_DISABLED;
        let read = schedule_of(message.headers);
        let schedule = if self.allows_schedules { read? } else { read.map_err(|_| disabled.clone())? };
        let Some(schedule) = schedule else { return Ok(None) };
        if !self.allows_schedules {
            return Err(disabled);
        }
        self.check_schedule_parts(message)?;
        match msg_headers.get(Key::Rollup) {
            b"" => {}
            word if word.eq_ignore_ascii_case(b"sub") => {}
            _ => return Err(ApiError::MESSAGE_SCHEDULES_ROLLUP_INVALID),
        }
        Ok(Some(schedule))
    }

    fn check_schedule_parts(&self, message: &MessageRef<'_>) -> Result<(), ApiError> {
        let get = |key| value(message.headers, key);
        let ttl = get(TTL);
        ttl::parse(ttl).map_err(|_| ApiError::MESSAGE_SCHEDULES_TTL_INVALID)?;
        if !matches!(get(ROLLUP), b"" | b"sub") {
            return Err(ApiError::MESSAGE_SCHEDULES_ROLLUP_INVALID);
        }
        if !ttl.is_empty() && !self.allows_ttl {
            return Err(ApiError::MESSAGE_TTL_DISABLED);
        }
        let (target, source) = (get(TARGET), get(SOURCE));
        if !is_other_literal(target, message.subject) {
            return Err(ApiError::MESSAGE_SCHEDULES_TARGET_INVALID);
        }
        let is_source = source != target && is_other_literal(source, message.subject);
        if !source.is_empty() && !is_source {
            return Err(ApiError::MESSAGE_SCHEDULES_SOURCE_INVALID);
        }
        let is_ours =
            |subject| self.subjects.iter().any(|ours| myelin_subject::overlaps(ours.as_bytes(), subject));
        if !is_ours(target) {
            return Err(ApiError::MESSAGE_SCHEDULES_TARGET_INVALID);
        }
        if !source.is_empty() && !is_ours(source) {
            return Err(ApiError::MESSAGE_SCHEDULES_SOURCE_INVALID);
        }
        Ok(())
    }
}

impl StreamCore {
    /// Looks at what a message says of schedules; a schedule takes the place of older messages of
    /// its subject.
    pub(in crate::stream) fn check_schedule(
        &mut self,
        msg: MessageRef<'_>,
        msg_headers: &MsgHeaders<'_>,
        draft: &mut MsgDraft,
        ingest: &Ingest<'_>,
    ) -> Result<(), ApiError> {
        const KEYS: [Key; 4] = [Key::Schedule, Key::ScheduleTimeZone, Key::ScheduleNext, Key::Scheduler];
        if !msg_headers.has_any(&KEYS) {
            return Ok(());
        }
        let message = self.run.apply(draft, msg);
        if let Some(schedule) = self.rules.check_schedule(msg_headers, &message)? {
            let time = self.time_of_next(ingest.now);
            let due = schedule.next(time, time).ok_or(ApiError::MESSAGE_SCHEDULES_PATTERN_INVALID)?;
            draft.special().due = Some(due);
        }
        self.rules.check_scheduler(msg_headers, self.run.apply(draft, msg).subject)?;
        self.check_retirement(msg_headers, draft, ingest.msgs)
    }

    /// Makes a rollup of a schedule, and says so in its headers. Answers whether these are longer
    /// now.
    pub(in crate::stream) fn roll_up_schedule(
        &mut self,
        msg: MessageRef<'_>,
        msg_headers: &MsgHeaders<'_>,
        draft: &mut MsgDraft,
    ) -> Result<bool, ApiError> {
        if draft.special.as_ref().is_none_or(|special| special.due.is_none()) || msg_headers.has(Key::Rollup)
        {
            return Ok(false);
        }
        let rollup = self.rules.check_rollup_of_subject()?;
        let headers = self.run.apply(draft, msg).headers.to_vec();
        // Compat: where there is a line that says nothing it is the one that counts, and stays.
        draft.rollup = rollup.filter(|_| header::get(&headers, b"Nats-Rollup").is_none());
        let write = |kept: &mut Vec<u8>| header_edit::write_with(&headers, b"Nats-Rollup", b"sub", kept);
        draft.headers = Some(self.run.keep(write));
        Ok(true)
    }

    /// A message may end a schedule: that is what the subject must have, or nothing.
    fn check_retirement(
        &mut self,
        msg_headers: &MsgHeaders<'_>,
        draft: &mut MsgDraft,
        msgs: &MessageBuf,
    ) -> Result<(), ApiError> {
        if !msg_headers.has(Key::ScheduleNext) {
            return Ok(());
        }
        let scheduler = msg_headers.get(Key::Scheduler);
        let invalid = ApiError::MESSAGE_SCHEDULES_SCHEDULER_INVALID;
        let is_schedule = if let Some(in_run) = self.run.last_is_schedule(scheduler, msgs) {
            in_run
        } else {
            let mut buffer = Vec::new();
            let last = self.store.read_last(scheduler, &mut buffer);
            // Compat: what cannot be read is none.
            last.ok().flatten().is_none_or(|last| !value(last.headers, PATTERN).is_empty())
        };
        if !is_schedule {
            return Err(invalid);
        }
        draft.special().retires = Some(self.run.keep(|kept| kept.extend_from_slice(scheduler)));
        Ok(())
    }
}

impl PublishRules {
    fn check_rollup_of_subject(&self) -> Result<Option<Rollup>, ApiError> {
        self.check_rollup(&MsgHeaders::scan(b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"))
    }
}

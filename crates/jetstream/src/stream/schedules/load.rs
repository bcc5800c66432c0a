//! Finds the schedules of a stream that was opened.
//!
//! All messages are looked at, in order: a schedule is due as it says, and one that fired as its last message says. Where
//! messages are gone that one may be among them: then a time that is not behind the stream's last message, which may be gone
//! itself, is taken for one that was heeded, for the stream was at work then.

use std::collections::HashMap;

use myelin_store::{Filter, Message, Seq, Timestamp, Wait};

use super::super::core::StreamCore;
use super::table::Table;
use super::{NEXT, PATTERN, SCHEDULER, schedule_of, value};
use crate::json::parse_moment;

/// A schedule that was found.
struct Found {
    due: Timestamp,
    repeats: bool,
    /// The message that says when it is due: its number, among those that are there.
    said_by: (Seq, u64),
}

impl StreamCore {
    /// Reads the schedules of the log, as after a restart.
    pub(in crate::stream) fn load_schedules(&mut self) {
        self.schedules = Table::default();
        if !self.rules.allows_schedules {
            return;
        }
        let (mut found, mut messages) = (HashMap::new(), 0);
        let mut cursor = self.reader.cursor(Filter::All, 0);
        loop {
            let at = cursor.position();
            match cursor.next(Wait::Allowed) {
                Ok(Some(message)) => {
                    messages += 1;
                    self.look_for_schedule(&message, messages, &mut found);
                }
                Ok(None) => break,
                // What cannot be read is none; it may have said that another one fired.
                Err(_) => cursor.skip(at.max(cursor.position())),
            }
        }
        let totals = self.store.state().totals;
        for (seq, schedule) in found {
            let (said_by, number) = schedule.said_by;
            let is_complete = totals.last_seq - said_by == messages - number;
            let due = match totals.last_timestamp {
                time if !is_complete && schedule.repeats && schedule.due <= time => self.after(seq, time),
                _ => Some(schedule.due),
            };
            if let Some(due) = due {
                self.schedules.push(due, seq);
            }
        }
    }

    fn look_for_schedule(&self, message: &Message<'_>, number: u64, found: &mut HashMap<Seq, Found>) {
        if message.headers.is_empty() {
            return;
        }
        let said_by = (message.seq, number);
        if !value(message.headers, PATTERN).is_empty() {
            let Ok(Some(schedule)) = schedule_of(message.headers) else { return };
            let time = message.timestamp;
            if let Some(due) = schedule.next(time, time) {
                found.insert(message.seq, Found { due, repeats: schedule.repeats(), said_by });
            }
            return;
        }
        let Ok(next) = parse_moment(value(message.headers, NEXT)) else { return };
        let of = self.store.last_of(value(message.headers, SCHEDULER)).ok().flatten();
        if let Some(schedule) = of.and_then(|seq| found.get_mut(&seq)) {
            (schedule.due, schedule.said_by) = (next.timestamp(), said_by);
        }
    }

    /// When a schedule is due after `time`.
    fn after(&self, seq: Seq, time: Timestamp) -> Option<Timestamp> {
        let mut buffer = Vec::new();
        let message = self.store.read(seq, &mut buffer).ok()??;
        schedule_of(message.headers).ok()??.next(time, time)
    }
}

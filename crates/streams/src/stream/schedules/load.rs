//! Finds the schedules of a stream that was opened.
//!
//! The [`ScheduleIndex`](super::ScheduleIndex) has those up to some message; the messages behind it
//! are looked at, in order: a schedule is due as it says, and one that fired as its last message
//! says.
//!
//! Without an index (the stream is from before there were any, or was imported) all messages are
//! looked at. Where some are gone, the last one that a schedule fired may be among them: then a
//! time that is not behind the stream's last message, which may be gone itself, is taken for one
//! that was served, for the stream was at work then.

use std::collections::BTreeMap;
use std::sync::Arc;

use myelin_store::{Filter, Message, ReadError, Seq, Timestamp, Wait};

use super::super::core::StreamCore;
use super::index::{PlannedFiring, SchedulePage};
use super::table::ScheduleTable;
use super::{NEXT, PATTERN, SCHEDULER, schedule_of, value};
use myelin_jsapi::json::parse_moment;

/// A schedule that was found.
struct FoundSchedule {
    due: Timestamp,
    repeats: bool,
    /// The message that says when it is due: its number, among those that are there.
    said_by: (Seq, u64),
}

/// Search for schedules in messages.
#[derive(Default)]
struct ScheduleSearch {
    found: BTreeMap<Seq, FoundSchedule>,
    /// When schedules are due that the index may have.
    moved: BTreeMap<Seq, Timestamp>,
    messages: u64,
}

impl StreamCore {
    /// Finds the schedules of the log, as after a restart.
    pub(in crate::stream) fn load_schedules(&mut self) {
        self.schedules = ScheduleTable::default();
        if !self.rules.allows_schedules || !self.role().leads() {
            return;
        }
        let end = self.settings.found_end.take().unwrap_or(self.store.totals().last_seq);
        match self.settings.schedule_index.read().filter(|(page, _)| self.is_mine(page, end)) {
            Some((page, many)) => self.load_behind(&page, many, end),
            None => self.load_all(),
        }
        // Where not all could be read, the index would say less than the messages.
        if self.store.failure().is_none() {
            self.update_schedule_index();
        }
    }

    /// Whether what is written is of these messages, and not of some that were lost with the power:
    /// then fewer were found (up to `end`), or younger ones in their place.
    fn is_mine(&self, page: &SchedulePage, end: Seq) -> bool {
        let is_older = || self.reader.seq_at(page.time.saturating_add(1)).is_ok_and(|seq| seq > page.through);
        page.through <= end && is_older()
    }

    /// As the page says of messages up to its own end, and the others up to `end`.
    fn load_behind(&mut self, page: &SchedulePage, many: usize, end: Seq) {
        let Some(search) = self.search(page.through.saturating_add(1)) else { return };
        let ScheduleSearch { found, mut moved, .. } = search;
        // What has another's message where it was to have its own has not fired.
        for firing in page.firings.iter().filter(|firing| firing.at > end || self.is_of_another(firing)) {
            // What it has fired says more than where that was to be: one before it may have been
            // refused.
            moved.entry(firing.schedule).or_insert(firing.due);
        }
        if !moved.is_empty() {
            self.schedules.mark_urgent();
        }
        let schedule_index = Arc::clone(&self.settings.schedule_index);
        self.schedules.begin(many + found.len(), page.through);
        schedule_index.each(&mut |seq, due| match moved.get(&seq) {
            Some(&due) => self.schedules.admit(due, seq),
            None => self.schedules.push(due, seq),
        });
        self.take_all(found.into_iter().map(|(seq, schedule)| (seq, schedule.due)).collect());
    }

    /// Whether a message stands where the firing was to go, and is not what the schedule has fired.
    fn is_of_another(&self, firing: &PlannedFiring) -> bool {
        let (mut fired, mut schedule) = (Vec::new(), Vec::new());
        let Ok(Some(fired)) = self.store.read(firing.at, &mut fired) else { return false };
        // A schedule that cannot be read fires no more, whatever is said here.
        let Ok(Some(schedule)) = self.store.read(firing.schedule, &mut schedule) else { return false };
        value(fired.headers, SCHEDULER) != schedule.subject
    }

    fn load_all(&mut self) {
        self.settings.schedule_index.reset();
        let Some(ScheduleSearch { found, messages, .. }) = self.search(0) else { return };
        let totals = self.store.totals();
        let mut all = Vec::with_capacity(found.len());
        for (seq, schedule) in found {
            let (said_by, number) = schedule.said_by;
            let is_complete = totals.last_seq - said_by == messages - number;
            let due = match totals.last_timestamp {
                time if !is_complete && schedule.repeats && schedule.due <= time => self.after(seq, time),
                _ => Some(schedule.due),
            };
            all.extend(due.map(|due| (seq, due)));
        }
        self.schedules.begin(all.len(), 0);
        self.take_all(all);
        self.schedules.mark_urgent();
    }

    /// Takes schedules that the index has not.
    fn take_all(&mut self, mut all: Vec<(Seq, Timestamp)>) {
        all.sort_unstable();
        all.into_iter().for_each(|(seq, due)| self.schedules.admit(due, seq));
    }

    /// Looks at the messages from `from` on. `None`: the system refuses to read them, and the
    /// stream has failed.
    fn search(&self, from: Seq) -> Option<ScheduleSearch> {
        let mut search = ScheduleSearch::default();
        let mut cursor = self.reader.cursor(Filter::All, from);
        loop {
            let at = cursor.position();
            match cursor.next(Wait::Allowed) {
                Ok(Some(message)) => {
                    search.messages += 1;
                    self.note_schedule(&message, &mut search);
                }
                Ok(None) => return Some(search),
                Err(ReadError::Io(error)) => {
                    self.give_up_reading(&error);
                    return None;
                }
                // What is damaged is none; it may have said that another one fired.
                Err(_) => cursor.skip(at.max(cursor.position())),
            }
        }
    }

    fn note_schedule(&self, message: &Message<'_>, search: &mut ScheduleSearch) {
        if message.headers.is_empty() {
            return;
        }
        let said_by = (message.seq, search.messages);
        if !value(message.headers, PATTERN).is_empty() {
            let Ok(Some(schedule)) = schedule_of(message.headers) else { return };
            let time = message.timestamp;
            if let Some(due) = schedule.next(time, time) {
                search.found.insert(message.seq, FoundSchedule { due, repeats: schedule.repeats(), said_by });
            }
            return;
        }
        let Ok(next) = parse_moment(value(message.headers, NEXT)) else { return };
        let Ok(Some(of)) = self.store.last_of(value(message.headers, SCHEDULER)) else { return };
        match search.found.get_mut(&of) {
            Some(schedule) => (schedule.due, schedule.said_by) = (next.timestamp(), said_by),
            None => drop(search.moved.insert(of, next.timestamp())),
        }
    }

    /// When a schedule is due after `time`.
    fn after(&self, seq: Seq, time: Timestamp) -> Option<Timestamp> {
        let mut buffer = Vec::new();
        let message = self.store.read(seq, &mut buffer).ok()??;
        schedule_of(message.headers).ok()??.next(time, time)
    }
}

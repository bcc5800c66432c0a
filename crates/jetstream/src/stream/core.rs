//! A stream inside its turn: buffers in, effects out.
//!
//! Owns the log's writer, the message ids, and what waits to be said. A buffer becomes runs of messages, each stored by one
//! append; nothing is answered before the store has released what it answers (house.md 3.1).
//!
//! Perf: no allocation per message; headers are read once; an acknowledgement is one copy. Measured by
//! `examples/publish.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use myelin_broker::MessageBuf;
use myelin_stdx::rng::Rng;
use myelin_store::{Filter, NewMessage, Outcome, Purge, Reader, Seq, Stream, StreamState, Timestamp, Wait};

use super::admit::Ingest;
use super::append_run::{AppendRun, SPARE_MESSAGES};
use super::dedupe::{Dedupe, KnownIds};
use super::effects::Effects;
use super::interest_cleanup::InterestCleanup;
use super::losses::Losses;
use super::members::Batches;
use super::msg_headers::{Key, MsgHeaders};
use super::outgoing::Outgoing;
use super::reply::Replies;
use super::republish::Republish;
use super::rules::Rules;
use super::schedules::table::Table;
use super::settings::Settings;
use super::ttl::SECOND;
use crate::ApiError;
use crate::config::StreamConfig;

/// Message ids that have ended, or for which there is no memory, leave with one buffer: so many, and one for each that may
/// come with it.
const IDS_PER_PARCEL: usize = 1024;
/// A clock that goes back so far is waited for: times of messages do not decrease. One that was set back farther is followed.
const CLOCK_SKEW: i64 = SECOND;

/// See the module.
pub struct StreamCore {
    pub(super) config: Arc<StreamConfig>,
    pub(super) settings: Settings,
    pub(super) rules: Rules,
    pub(super) store: Stream,
    pub(super) reader: Reader,
    pub(super) ids: Dedupe,
    /// The id of the last message; empty for none.
    pub(super) last_msg_id: Vec<u8>,
    /// When the last message was accepted.
    pub(super) last_time: Timestamp,
    pub(super) run: AppendRun,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) spare: Vec<NewMessage<'static>>,
    /// For one text at a time.
    pub(super) text: Vec<u8>,
    pub(super) replies: Replies,
    pub(super) republish: Option<Republish>,
    pub(super) batches: Batches,
    pub(super) outgoing: Outgoing,
    pub(super) losses: Losses,
    /// When the next message ends; perhaps earlier.
    pub(super) next_expiry: Option<Timestamp>,
    /// Where the stream ended when some of what had ended was left for later, if it was.
    pub(super) expiry_left_at: Option<Seq>,
    /// When to go on with what was left over.
    pub(super) next_slice: Option<Timestamp>,
    /// When to ask the store for a job again.
    pub(super) next_job: Option<Timestamp>,
    /// When to have the store give memory back again.
    pub(super) next_tidying: Option<Timestamp>,
    /// Rollups that are not through.
    pub(super) leftovers: VecDeque<Purge>,
    /// What goes because nobody needs it.
    pub(super) settled: InterestCleanup,
    pub(super) schedules: Table,
    /// Bytes that the budgets were told of.
    charged: i64,
    pub(super) rng: Rng,
}

impl StreamCore {
    /// Takes over a stream that was created or opened. Reads the messages of the duplicate window for their ids.
    #[must_use]
    pub fn new(config: Arc<StreamConfig>, store: Stream, settings: Settings, now: Timestamp) -> Self {
        let reader = store.reader();
        let mut core = Self {
            rules: Rules::new(&config),
            ids: Dedupe::new(config.duplicate_window, settings.dedupe_bytes, settings.seed),
            republish: Republish::new(&config, settings.seed),
            batches: Batches::new(&config, &settings),
            replies: Replies::new(&config.name, &settings.domain),
            rng: Rng::seeded(settings.seed),
            config,
            run: AppendRun::new(settings.seed),
            settings,
            store,
            reader,
            last_msg_id: Vec::new(),
            last_time: 0,
            outcomes: Vec::new(),
            spare: Vec::new(),
            text: Vec::new(),
            outgoing: Outgoing::default(),
            losses: Losses::default(),
            next_expiry: None,
            expiry_left_at: None,
            // Limits may be tighter than when it was left.
            next_slice: Some(now),
            next_job: None,
            next_tidying: None,
            leftovers: VecDeque::new(),
            settled: InterestCleanup::default(),
            schedules: Table::default(),
            charged: 0,
        };
        core.remember(now);
        core.load_schedules();
        core.next_expiry = core.store.next_expiry().unwrap_or(Some(now));
        core.charge();
        core
    }

    /// Stores the messages of a buffer, in order, and answers each that asks for it.
    pub fn publish(&mut self, msgs: &MessageBuf, now: Timestamp, effects: &mut Effects) {
        let due = self.next_due();
        // Unless a panic left something.
        self.drop_run();
        self.ids.tidy(now, IDS_PER_PARCEL + msgs.len());
        let mut intake = Ingest { msgs, now, effects, closing: None, is_copy: false };
        if msgs.is_traced() {
            for (at, msg) in msgs.iter().enumerate() {
                self.take_traced(at, msg, &mut intake);
            }
        } else {
            for (at, msg) in msgs.iter().enumerate() {
                self.take(at, msg, &mut intake);
            }
        }
        self.flush(&mut intake);
        self.drop_run();
        if msgs.is_traced() {
            self.end_traces(msgs, effects);
        }
        self.outcomes.shrink_to(SPARE_MESSAGES);
        self.spare.shrink_to(SPARE_MESSAGES);
        effects.due_changed |= self.next_due().is_some_and(|at| due.is_none_or(|due| at < due));
        self.note_failure(effects);
    }

    /// To be called right after a panic in one of these methods was caught. What it had done is not known: only the log's files
    /// say what is true, and it must be opened anew.
    pub fn panicked(&mut self, effects: &mut Effects) {
        self.store.give_up("a panic while it worked");
        self.drop_run();
        self.released(effects);
    }

    /// Forgets the run and all that belongs to it.
    pub(super) fn drop_run(&mut self) {
        self.forget_drafts();
        self.run.end();
        self.outcomes.clear();
    }

    /// A round may have released what waits: says what may be said now.
    pub fn released(&mut self, effects: &mut Effects) {
        self.outgoing.release(self.store.release(), &mut effects.out);
        self.note_failure(effects);
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Arc<StreamConfig> {
        &self.config
    }

    /// A reader of the stream, which needs no turn.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// The stream in numbers.
    #[must_use]
    pub fn state(&self) -> StreamState {
        self.store.state()
    }

    /// What the message ids of the duplicate window take.
    #[must_use]
    pub fn known_ids(&self) -> KnownIds {
        self.ids.usage()
    }

    /// Messages without a reply subject that were not taken, by the error's number.
    #[must_use]
    pub fn losses(&self) -> &[(u16, u64)] {
        self.losses.by_error()
    }

    /// Counts messages without a reply subject that never came this far.
    pub fn lose(&mut self, err_code: u16, messages: u64, effects: &mut Effects) {
        self.losses.count_many(err_code, messages);
        effects.lost += messages;
    }

    /// Reads the ids of the duplicate window from the log, as after a restart.
    pub(super) fn remember(&mut self, now: Timestamp) {
        let mut buffer = Vec::new();
        let last = self.store.state().totals.last_seq;
        if let Ok(Some(message)) = self.reader.get(last, Wait::Allowed, &mut buffer) {
            self.last_time = message.timestamp;
            self.last_msg_id.extend_from_slice(MsgHeaders::scan(message.headers).get(Key::MsgId));
        }
        if self.config.duplicate_window <= 0 {
            return;
        }
        let from = now.saturating_sub(self.config.duplicate_window);
        let Ok(from) = self.reader.seq_at(from) else { return };
        let mut cursor = self.reader.cursor(Filter::All, from);
        loop {
            let at = cursor.position();
            match cursor.next(Wait::Allowed) {
                Ok(Some(message)) => {
                    let id = MsgHeaders::scan(message.headers).get(Key::MsgId);
                    if !id.is_empty()
                        && let Some(slot) = self.ids.begin(id, message.timestamp)
                    {
                        self.ids.stored(slot, message.seq, message.timestamp);
                        self.ids.tidy(now, 2);
                    }
                }
                Ok(None) => return,
                // Compat: what cannot be read has no id.
                Err(_) => cursor.skip(at.max(cursor.position())),
            }
        }
    }

    /// When a message that comes now is accepted: behind the one before it, unless the clock was set back.
    pub(super) fn time_of_next(&self, now: Timestamp) -> Timestamp {
        let next = self.last_time.saturating_add(1);
        if next.saturating_sub(now) > CLOCK_SKEW { now } else { now.max(next) }
    }

    /// Tells the budgets how the stream has grown.
    pub(super) fn charge(&mut self) {
        let bytes = i64::try_from(self.store.state().totals.bytes).unwrap_or(i64::MAX);
        let grown = bytes - self.charged;
        if grown != 0 {
            self.settings.account.add(grown);
            self.settings.server.add(grown);
            self.charged = bytes;
        }
    }

    /// A stream that has failed releases nothing more: who waits is told so.
    pub(super) fn note_failure(&mut self, effects: &mut Effects) {
        let Some(why) = self.store.failure() else { return };
        let error = ApiError::stream_store_failed(why);
        effects.failed = Some(why.to_owned());
        self.refuse_waiting(&error, &mut effects.out);
    }

    /// What waits will never be released. Nor is known what is left of the messages of open fast batches.
    pub(super) fn refuse_waiting(&mut self, error: &ApiError, out: &mut MessageBuf) {
        for msgs in self.outgoing.drain() {
            for msg in msgs.iter() {
                if self.replies.is_ack(&msg) {
                    self.replies.refused(msg.subject, error, out);
                } else if self.replies.is_refusal(&msg) {
                    out.push(msg);
                }
            }
        }
        let Batches { fast, voice, .. } = &mut self.batches;
        fast.fail(error, voice, out);
    }
}

impl Drop for StreamCore {
    /// The budgets are for what is there.
    fn drop(&mut self) {
        self.settings.account.add(-self.charged);
        self.settings.server.add(-self.charged);
    }
}

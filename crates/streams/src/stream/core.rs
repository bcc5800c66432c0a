//! A stream inside its turn: buffers in, effects out.
//!
//! Owns the log's writer, the message ids, and what waits to be said. A buffer becomes runs of
//! messages, each stored by one append; nothing is answered before the store has released what it
//! answers (contracts.md C1).
//!
//! Perf: no allocation per message; headers are read once; an acknowledgement is one copy. Measured
//! by `examples/publish.rs`.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use myelin_store::{
    Filter, Message, Purge, ReadError, Seq, Stream, StreamReader, StreamState, Timestamp, Wait,
};
use myelin_wire::message_buf::MessageBuf;

use super::admit::Ingest;
use super::admit_batch::Batches;
use super::append_run::AppendRun;
use super::append_scratch::AppendScratch;
use super::dedupe::{Dedupe, KnownIds};
use super::effects::Effects;
use super::interest_cleanup::InterestCleanup;
use super::last_msg::LastMsg;
use super::msg_headers::{Key, MsgHeaders};
use super::next_times::NextTimes;
use super::outgoing::OutgoingMsgs;
use super::quota::Quota;
use super::rules::PublishRules;
use super::schedules::table::ScheduleTable;
use super::settings::{StorageBudget, StreamSettings};
use super::traces::MessageTraces;
use super::ttl::SECOND;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamConfig;

/// Message ids that have ended, or for which there is no memory, leave with one buffer: so many,
/// and one for each that may come with it.
const IDS_PER_BUFFER: usize = 1024;
/// A clock that goes back so far is waited for: times of messages do not decrease. One that was set
/// back farther is followed.
const CLOCK_SKEW: i64 = SECOND;

/// Core of one stream: takes buffers of messages, stores them, says what comes of it.
pub struct StreamCore {
    pub(super) config: Arc<StreamConfig>,
    pub(super) settings: StreamSettings,
    pub(super) rules: PublishRules,
    pub(super) store: Stream,
    pub(super) reader: StreamReader,
    pub(super) ids: Dedupe,
    pub(super) last: LastMsg,
    pub(super) run: AppendRun,
    pub(super) scratch: AppendScratch,
    pub(super) outgoing: OutgoingMsgs,
    pub(super) batches: Batches,
    pub(super) next: NextTimes,
    /// Rollups that are not through.
    pub(super) pending_purges: VecDeque<Purge>,
    /// Messages that go because nobody needs them.
    pub(super) cleanup: InterestCleanup,
    pub(super) schedules: ScheduleTable,
    quota: Quota,
}

impl StreamCore {
    /// Takes over a stream that was created or opened. Reads the messages of the duplicate window
    /// for their ids.
    #[must_use]
    pub fn new(config: Arc<StreamConfig>, store: Stream, settings: StreamSettings, now: Timestamp) -> Self {
        let reader = store.reader();
        let mut core = Self {
            rules: PublishRules::new(&config),
            ids: Dedupe::new(config.duplicate_window, settings.dedupe_bytes, settings.seed),
            outgoing: OutgoingMsgs::new(&config, &settings),
            batches: Batches::new(&config, &settings),
            scratch: AppendScratch::new(settings.seed),
            quota: Quota::new(&settings.account, &settings.server),
            config,
            run: AppendRun::new(settings.seed),
            settings,
            store,
            reader,
            last: LastMsg::default(),
            next: NextTimes::default(),
            pending_purges: VecDeque::new(),
            cleanup: InterestCleanup::default(),
            schedules: ScheduleTable::default(),
        };
        core.load_ids(now);
        core.find_ids();
        core.load_schedules();
        core.next.expiry = core.store.next_expiry().unwrap_or(Some(now));
        // Limits may be tighter than when it was left. One that never stored anything has nothing
        // to do: nobody has to wake it.
        core.next.maintenance = (core.store.state().totals.last_seq > 0).then_some(now);
        core.charge();
        core
    }

    /// Stores the messages of a buffer, in order, and answers each that asks for it.
    pub fn publish(&mut self, msgs: &MessageBuf, now: Timestamp, effects: &mut Effects) {
        self.ingest(Ingest { msgs, now, effects, traces: None, closing: None, is_copy: false });
    }

    /// Does what [`Self::publish`] does for a buffer with traced messages, and says what becomes of
    /// those.
    pub fn publish_traced(
        &mut self,
        msgs: &MessageBuf,
        traces: &mut dyn MessageTraces,
        now: Timestamp,
        effects: &mut Effects,
    ) {
        self.ingest(Ingest { msgs, now, effects, traces: Some(traces), closing: None, is_copy: false });
    }

    #[inline]
    fn ingest(&mut self, mut ingest: Ingest<'_>) {
        let (msgs, now) = (ingest.msgs, ingest.now);
        let due = self.next_due();
        // Unless a panic left something.
        self.drop_run();
        debug_assert!(
            self.last.time <= self.time_of_next(now) || self.last.time - now >= CLOCK_SKEW,
            "time goes on"
        );
        self.ids.tidy(now, IDS_PER_BUFFER + msgs.len());
        if ingest.traces.is_some() {
            for (at, msg) in msgs.iter().enumerate() {
                self.take_traced(at, msg, &mut ingest);
            }
        } else {
            for (at, msg) in msgs.iter().enumerate() {
                self.take(at, msg, &mut ingest);
            }
        }
        self.flush(&mut ingest);
        self.drop_run();
        ingest.end_traces();
        let effects = ingest.effects;
        debug_assert!(
            self.store.failure().is_some() || self.run.is_empty(),
            "each message of a buffer is answered"
        );
        self.scratch.shrink();
        self.keep_up_expiry(now, effects);
        effects.due_changed |= self.next_due().is_some_and(|at| due.is_none_or(|due| at < due));
        self.note_failure(effects);
    }

    /// To be called right after a panic in one of these methods was caught. What it had done is not
    /// known: only the log's files say what is true, and it must be opened anew.
    pub fn panicked(&mut self, effects: &mut Effects) {
        self.store.give_up("a panic while it worked");
        self.drop_run();
        self.released(effects);
    }

    /// Forgets the run and all that belongs to it.
    pub(super) fn drop_run(&mut self) {
        self.forget_drafts();
        self.run.end();
        self.scratch.outcomes.clear();
        debug_assert!(
            self.run.is_empty() && !self.run.has_drafts(),
            "nothing is left of a run that was dropped"
        );
    }

    /// A round, or a commit, may have released what waits: says what may be said now.
    pub fn released(&mut self, effects: &mut Effects) {
        self.consumers_released(effects);
        self.feed_ids();
        self.outgoing.release_queue.release(self.store.release(), &mut effects.out);
        self.note_failure(effects);
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Arc<StreamConfig> {
        &self.config
    }

    /// A reader of the stream, which needs no turn.
    #[must_use]
    pub fn reader(&self) -> StreamReader {
        self.reader.clone()
    }

    /// The stream in numbers.
    #[must_use]
    pub fn state(&self) -> StreamState {
        self.store.state()
    }

    /// Resources that the message ids of the duplicate window take.
    #[must_use]
    pub fn known_ids(&self) -> KnownIds {
        self.ids.usage()
    }

    /// Messages without a reply subject that were not taken, by the error's number.
    #[must_use]
    pub fn drops(&self) -> &[(u16, u64)] {
        self.outgoing.drops.by_error()
    }

    /// Counts messages without a reply subject that never came this far.
    pub fn count_dropped(&mut self, err_code: u16, messages: u64, effects: &mut Effects) {
        self.outgoing.drops.count_many(err_code, messages);
        effects.dropped += messages;
    }

    /// Reads the ids of the duplicate window from the log, as after a restart.
    pub(super) fn load_ids(&mut self, now: Timestamp) {
        let mut buffer = Vec::new();
        let last = match self.store.group() {
            Some(_) => self.store.released(),
            None => self.store.totals().last_seq,
        };
        let last = self.reader.get(last, Wait::Allowed, &mut buffer);
        if !self.note_last(last) {
            return;
        }
        if self.config.duplicate_window <= 0 || myelin_stdx::planted::bug(3) {
            return;
        }
        let from = now.saturating_sub(self.config.duplicate_window);
        let from = match self.reader.seq_at(from) {
            Ok(from) => from,
            Err(ReadError::Io(error)) => return self.give_up_reading(&error),
            Err(_) => return,
        };
        self.each_id(from, Seq::MAX, |core, seq, time, id| {
            let accepted = if myelin_stdx::planted::bug(34) { now } else { time };
            if core.ids.enter_stored(id, seq, accepted) {
                core.ids.tidy(now, 2);
            }
        });
    }

    /// Reads released messages from `first` to `last`, and shows the sequence of each, its time and
    /// its message id, which is empty for none.
    pub(super) fn each_id(
        &mut self,
        first: Seq,
        last: Seq,
        mut visit: impl FnMut(&mut Self, Seq, Timestamp, &[u8]),
    ) {
        let reader = self.reader.clone();
        let mut cursor = reader.cursor(Filter::All, first);
        loop {
            let at = cursor.position();
            match cursor.next(Wait::Allowed) {
                Ok(Some(message)) if message.seq <= last => {
                    let id = MsgHeaders::scan(message.headers).get(Key::MsgId);
                    visit(self, message.seq, message.timestamp, id);
                }
                Ok(_) => return,
                Err(ReadError::Io(error)) => return self.give_up_reading(&error),
                // Compat: what is damaged has no id.
                Err(_) => cursor.skip(at.max(cursor.position())),
            }
        }
    }

    /// Notes the time and the id of the last message, if there is one that can be read. False where
    /// the system refuses to read it.
    pub(super) fn note_last(&mut self, last: Result<Option<Message<'_>>, ReadError>) -> bool {
        match last {
            Ok(Some(message)) => {
                self.last.time = message.timestamp;
                self.last.set_id(MsgHeaders::scan(message.headers).get(Key::MsgId));
            }
            Err(ReadError::Io(error)) => {
                self.give_up_reading(&error);
                return false;
            }
            // Compat: what is damaged has no id.
            Ok(None) | Err(_) => {}
        }
        true
    }

    /// Notes that the system refuses to read what has to be known before messages are taken: they
    /// are refused until the stream was opened anew.
    pub(super) fn give_up_reading(&self, error: &io::Error) {
        self.store.give_up(&format!("its messages could not be read: {error}"));
    }

    /// When a message that comes now is accepted: behind the one before it, unless the clock was
    /// set back.
    pub(super) fn time_of_next(&self, now: Timestamp) -> Timestamp {
        let next = self.last.time.saturating_add(1);
        if next.saturating_sub(now) > CLOCK_SKEW { now } else { now.max(next) }
    }

    /// Has what the stream holds count in another budget of its account from now on.
    pub fn charge_to(&mut self, account: &Arc<StorageBudget>) {
        self.quota.move_to(account);
        self.settings.account = Arc::clone(account);
    }

    /// Tells the budgets how the stream has grown.
    pub(super) fn charge(&mut self) {
        let elsewhere = self.copies_elsewhere();
        self.quota.charge(self.store.totals().bytes, elsewhere);
    }

    /// Other servers that are to store what is stored here: of a stream that is led here.
    pub(super) fn copies_elsewhere(&self) -> i64 {
        let is_led_here = self.settings.role.leads() && self.store.group().is_some();
        if is_led_here { (self.config.num_replicas - 1).max(0) } else { 0 }
    }

    /// A stream that has failed releases nothing more: who waits is told so. In a group the other
    /// members may have what was decided, and store it: nobody can say that it is not.
    pub(super) fn note_failure(&mut self, effects: &mut Effects) {
        let Some(why) = self.store.failure() else { return };
        let error = ApiError::stream_store_failed(why);
        effects.failed = Some(why.to_owned());
        self.refuse_waiting(&error, &mut effects.out);
    }

    /// Refuses what waits and will never be released, or forgets it in a group. Nor is known what
    /// is left of the messages of open fast batches.
    pub(super) fn refuse_waiting(&mut self, error: &ApiError, out: &mut MessageBuf) {
        let is_of_group = self.store.group().is_some();
        for msgs in self.outgoing.release_queue.drain().filter(|_| !is_of_group) {
            for msg in msgs.iter() {
                if self.outgoing.replies.is_ack(&msg) {
                    self.outgoing.replies.refused(msg.subject, error, out);
                } else if self.outgoing.replies.is_refusal(&msg) {
                    out.push(msg);
                }
            }
        }
        let Batches { fast, replies, .. } = &mut self.batches;
        if is_of_group {
            fast.forget();
        } else {
            fast.fail(error, replies, out);
        }
        debug_assert!(self.outgoing.release_queue.is_empty(), "nothing waits in a stream that has failed");
        debug_assert!(self.batches.fast.is_empty(), "no fast batch is open in a stream that has failed");
    }
}

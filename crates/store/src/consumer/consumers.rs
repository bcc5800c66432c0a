//! The consumers of one stream: their states in memory, and what has to be written about them.
//!
//! Owns what is written when. A change is applied at once and lies in memory, encoded, until
//! `flush` appends the changes of all consumers in one write (`log`). A consumer with too many of
//! them, because the disk is full, is written as a whole instead: nothing is lost and memory stays
//! bounded.
//!
//! Perf: `apply` runs once per delivery and acknowledgement: one lookup by id, no allocation.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use myelin_disk::File;

use super::delta::DeltaWriter;
use super::log::{ConsumerLog, Flushed};
use super::open::{self, LogStorage, Obsolete, OpenError, Stated};
use super::payload::{self, Definition};
use super::queue::{ChangeQueue, ProposalQueue};
use super::report::LogReport;
use super::resume::{ConsumerTable, Resumed};
use super::rewrite::{Drawn, Rewrite};
use super::{AckRules, Applied, ConsumerId, ConsumerState, Delta, SequencePair};
use crate::Timestamp;
use crate::record::ConsumerRecord;

/// Bytes of a consumer's name, at most.
const LONGEST_NAME: usize = 64 << 10;
/// Bytes of a consumer's configuration, at most.
const LONGEST_CONFIG: usize = 64 << 20;
/// Bytes of changes that a consumer may gather before its whole state is taken instead, if that is
/// shorter.
const MOST_CHANGES: usize = 64 << 10;
/// Bytes that a consumer keeps for its next changes.
const KEPT_CHANGES: usize = 1 << 10;

/// One consumer.
#[derive(Debug)]
pub struct Consumer {
    pub(super) definition: Definition,
    pub(super) state: ConsumerState,
    /// The number of its next entry.
    pub(super) serial: u64,
    pub(super) unwritten: Unwritten,
    pub(super) changes: DeltaWriter,
    /// The floor when `changes` began.
    pub(super) base: SequencePair,
}

/// Changes that the log does not know yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwritten {
    Nothing,
    Changes,
    Whole,
}

/// Why a consumer cannot be created, changed or removed. The caller's mistake in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerError {
    /// There is none with this id.
    Unknown(ConsumerId),
    /// Another one has this name.
    NameTaken(ConsumerId),
    /// The name is longer than 64 KiB, or the configuration longer than 64 MiB.
    TooLong,
    /// All ids were used.
    Exhausted,
}

impl fmt::Display for ConsumerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(id) => write!(f, "no consumer has the id {}", id.0),
            Self::NameTaken(id) => write!(f, "the consumer with the id {} has this name", id.0),
            Self::TooLong => f.write_str("the consumer's name or configuration is too long"),
            Self::Exhausted => f.write_str("the stream cannot have more consumers in its life"),
        }
    }
}

impl std::error::Error for ConsumerError {}

impl Consumer {
    fn new(definition: Definition) -> Self {
        Self {
            definition,
            state: ConsumerState::default(),
            serial: 0,
            unwritten: Unwritten::Nothing,
            changes: DeltaWriter::default(),
            base: SequencePair::default(),
        }
    }

    fn resumed(resumed: Resumed) -> Self {
        Self { state: resumed.state, serial: resumed.serial, ..Self::new(resumed.definition) }
    }

    fn to_resumed(&self) -> Resumed {
        let resumed = Resumed::new(self.definition.clone(), self.serial.wrapping_sub(1), 0);
        Resumed { state: self.state.clone(), ..resumed }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// How its state changes.
    #[must_use]
    pub fn rules(&self) -> AckRules {
        self.definition.rules
    }

    /// Configuration with which the consumer was created or updated last.
    #[must_use]
    pub fn config(&self) -> &[u8] {
        &self.definition.config
    }

    /// Its state, with everything that was applied.
    #[must_use]
    pub fn state(&self) -> &ConsumerState {
        &self.state
    }

    fn apply(&mut self, delta: Delta) -> Applied {
        self.state.apply(self.definition.rules, delta)
    }

    /// Applies `delta` and keeps it for the log. Answers whether the consumer has become dirty.
    fn apply_logged(&mut self, delta: Delta) -> (Applied, bool) {
        let floor = self.state.ack_floor();
        let applied = self.apply(delta);
        if applied != Applied::Changed {
            return (applied, false);
        }
        let was_clean = self.unwritten == Unwritten::Nothing;
        if was_clean {
            self.unwritten = Unwritten::Changes;
            self.base = floor;
            self.changes.begin(floor);
        }
        if self.unwritten == Unwritten::Changes {
            self.changes.push(delta);
            if self.changes.len() > MOST_CHANGES {
                self.condense();
            }
        }
        debug_assert!(self.unwritten != Unwritten::Nothing, "a change waits for the log");
        debug_assert!(
            self.unwritten != Unwritten::Changes || self.changes.len() > 0,
            "changes that wait are some"
        );
        (applied, was_clean)
    }

    fn condense(&mut self) {
        if self.changes.len() as u64 > payload::estimate_state(&self.state) {
            self.take_whole();
        }
    }

    fn take_whole(&mut self) {
        self.unwritten = Unwritten::Whole;
        self.changes.shrink(0);
    }

    /// The log knows everything.
    pub(super) fn written(&mut self) {
        self.unwritten = Unwritten::Nothing;
        self.changes.shrink(KEPT_CHANGES);
    }

    /// About how many bytes a fresh log holds of it.
    pub(super) fn estimate(&self) -> u64 {
        let texts = self.definition.name.len() + self.definition.config.len();
        64 + texts as u64 + payload::estimate_state(&self.state)
    }
}

/// About how many bytes a fresh log holds.
#[expect(clippy::disallowed_methods, reason = "a sum")]
fn estimate(consumers: &HashMap<ConsumerId, Consumer, RandomState>) -> u64 {
    consumers.values().map(Consumer::estimate).sum()
}

/// The consumers of one stream.
#[derive(Debug)]
pub struct Consumers {
    consumers: HashMap<ConsumerId, Consumer, RandomState>,
    names: HashMap<Box<str>, ConsumerId, RandomState>,
    pub(super) next: u64,
    /// How many there are, for who looks from outside.
    count: Arc<AtomicU32>,
    pub(super) sink: ChangeSink,
}

/// Where changes go that were applied.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are logs")]
pub(super) enum ChangeSink {
    /// A stream in memory has no use for them.
    Nowhere,
    /// To a log of the consumers' own.
    Log(ConsumerLog),
    /// Log that was let go of: changes go nowhere, until it is gone on with.
    Suspended(Box<ConsumerLog>),
    /// To the log of a group, which others see to.
    Group(ProposalQueue),
}

impl ChangeSink {
    fn log(&self) -> Option<&ConsumerLog> {
        if let Self::Log(log) = self { Some(log) } else { None }
    }

    fn log_mut(&mut self) -> Option<&mut ConsumerLog> {
        if let Self::Log(log) = self { Some(log) } else { None }
    }

    #[inline]
    fn changes(&mut self) -> Option<&mut ChangeQueue> {
        match self {
            Self::Nowhere | Self::Suspended(_) => None,
            Self::Log(log) => Some(&mut log.changes),
            Self::Group(proposals) => Some(&mut proposals.changes),
        }
    }
}

impl Consumers {
    /// Of a stream in memory: gone with the process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            consumers: HashMap::default(),
            names: HashMap::default(),
            next: 1,
            count: Arc::default(),
            sink: ChangeSink::Nowhere,
        }
    }

    /// Of a stream in files: reads what its directory holds, which may be nothing. What was read is
    /// durable afterwards, unless there is something to [`flush`](Self::flush) at once: then after
    /// that.
    ///
    /// # Errors
    /// [`OpenError`], if going on would mean to go on without consumers that exist. Damage is no
    /// error: see the report.
    pub fn open(place: LogStorage) -> Result<(Self, LogReport), OpenError> {
        Self::open_stated(place, Stated::default())
    }

    /// Opens the consumers of a stream in files, as [`Consumers::open`] does, where it is known how
    /// far their logs had come: the report says what is missing of that.
    ///
    /// # Errors
    /// As [`Consumers::open`].
    pub fn open_stated(place: LogStorage, stated: Stated) -> Result<(Self, LogReport), OpenError> {
        let mut opened = open::open(&place, stated)?;
        let read = std::mem::take(&mut opened.read.consumers);
        let mut consumers = Self::resumed(read, opened.read.next_consumer);
        let report = opened.read.report.clone();
        consumers.sink = ChangeSink::Log(ConsumerLog::resume(place, opened));
        Ok((consumers, report))
    }

    /// Consumers that decide for a group, which has come as far as `table`: what they change waits
    /// for [`Consumers::take_records`].
    pub(super) fn leading(table: ConsumerTable) -> Self {
        let mut consumers = Self::resumed(table.consumers, table.next);
        consumers.sink = ChangeSink::Group(ProposalQueue::default());
        consumers
    }

    /// Goes on as what is decided on for a group, which has come as far as `table`: see
    /// [`GroupConsumers::lead_with`](super::GroupConsumers::lead_with).
    pub(super) fn begin_anew(&mut self, table: ConsumerTable) {
        let mut proposals = match std::mem::replace(&mut self.sink, ChangeSink::Nowhere) {
            ChangeSink::Group(proposals) => proposals,
            ChangeSink::Nowhere | ChangeSink::Log(_) | ChangeSink::Suspended(_) => ProposalQueue::default(),
        };
        proposals.begin_anew();
        let anew = Self::leading(table);
        (self.consumers, self.names, self.next) = (anew.consumers, anew.names, anew.next);
        self.sink = ChangeSink::Group(proposals);
        self.count_all();
    }

    /// Whether what changes goes to the log of a group.
    #[must_use]
    pub fn is_in_group(&self) -> bool {
        matches!(self.sink, ChangeSink::Group(_))
    }

    fn resumed(read: BTreeMap<ConsumerId, Resumed>, next: u64) -> Self {
        let mut consumers = Self { next, ..Self::in_memory() };
        for (id, resumed) in read {
            consumers.names.insert(resumed.definition.name.clone(), id);
            consumers.consumers.insert(id, Consumer::resumed(resumed));
        }
        consumers.count_all();
        consumers
    }

    /// Changes since the last call, as records for the log of the group, in order. Nothing
    /// where that is not where changes go.
    pub fn take_records(&mut self) -> Vec<ConsumerRecord<'static>> {
        let mut records = Vec::new();
        if let ChangeSink::Group(proposals) = &mut self.sink {
            proposals.take(&mut self.consumers, |(id, kind, _), payload| {
                let payload = Cow::Owned(payload.to_vec());
                records.push(ConsumerRecord { consumer: id.0, kind: kind.code(), payload });
            });
        }
        records
    }

    /// The number of the last proposal that was taken with [`Consumers::take_records`]; 0: none.
    #[must_use]
    pub fn proposal(&self) -> u64 {
        if let ChangeSink::Group(proposals) = &self.sink { proposals.taken() } else { 0 }
    }

    /// Proposals up to this one are committed.
    pub fn committed(&mut self, proposal: u64) {
        if let ChangeSink::Group(proposals) = &mut self.sink {
            proposals.commit(proposal);
        }
    }

    /// Adds a consumer with an empty state; [`Delta::Reset`] says where it begins. `config` is kept
    /// as it is.
    ///
    /// # Errors
    /// [`ConsumerError`]; nothing has changed then.
    pub fn create(
        &mut self,
        name: &str,
        rules: AckRules,
        config: &[u8],
    ) -> Result<ConsumerId, ConsumerError> {
        check_lengths(name, config)?;
        if let Some(id) = self.names.get(name) {
            return Err(ConsumerError::NameTaken(*id));
        }
        let id = ConsumerId(self.next);
        self.next = self.next.checked_add(1).ok_or(ConsumerError::Exhausted)?;
        let definition = Definition { name: name.into(), rules, config: config.into() };
        if let Some(changes) = self.sink.changes() {
            changes.define(id, &definition);
        }
        self.names.insert(name.into(), id);
        self.consumers.insert(id, Consumer::new(definition));
        debug_assert!(self.names.len() == self.consumers.len(), "each consumer has a name of its own");
        debug_assert!(id.0 < self.next, "an id is given out once");
        self.count_all();
        Ok(id)
    }

    /// Gives a consumer other rules and another configuration. Its state stays.
    ///
    /// # Errors
    /// [`ConsumerError`]; nothing has changed then.
    pub fn update(&mut self, id: ConsumerId, rules: AckRules, config: &[u8]) -> Result<(), ConsumerError> {
        let consumer = self.consumers.get_mut(&id).ok_or(ConsumerError::Unknown(id))?;
        check_lengths("", config)?;
        if let Some(changes) = self.sink.changes() {
            // What was changed under the old rules is read under the old rules.
            changes.close_changes(id, consumer);
        }
        let is_defined = myelin_stdx::planted::bug(33) && consumer.definition.rules == rules;
        consumer.definition.rules = rules;
        consumer.definition.config = config.into();
        if let Some(changes) = self.sink.changes().filter(|_| !is_defined) {
            changes.define(id, &consumer.definition);
        }
        Ok(())
    }

    /// Removes a consumer. Its id is not used again, its name may be.
    ///
    /// # Errors
    /// [`ConsumerError::Unknown`].
    pub fn remove(&mut self, id: ConsumerId) -> Result<Consumer, ConsumerError> {
        let consumer = self.consumers.remove(&id).ok_or(ConsumerError::Unknown(id))?;
        self.names.remove(consumer.name());
        self.count_all();
        match &mut self.sink {
            ChangeSink::Nowhere | ChangeSink::Suspended(_) => {}
            ChangeSink::Log(log) => log.remove(id, consumer.serial, consumer.estimate()),
            ChangeSink::Group(proposals) => proposals.changes.remove(id, consumer.serial),
        }
        Ok(consumer)
    }

    /// Puts another state in the place of a consumer's.
    ///
    /// # Errors
    /// [`ConsumerError::Unknown`].
    pub fn replace(&mut self, id: ConsumerId, state: ConsumerState) -> Result<(), ConsumerError> {
        let consumer = self.consumers.get_mut(&id).ok_or(ConsumerError::Unknown(id))?;
        consumer.state = state;
        if let Some(changes) = self.sink.changes() {
            if consumer.unwritten == Unwritten::Nothing {
                changes.dirty(id);
            }
            consumer.take_whole();
        }
        Ok(())
    }

    /// Applies one change, and keeps it for the next flush if it had an effect.
    ///
    /// # Errors
    /// [`ConsumerError::Unknown`].
    pub fn apply_one(&mut self, id: ConsumerId, delta: Delta) -> Result<Applied, ConsumerError> {
        let consumer = self.consumers.get_mut(&id).ok_or(ConsumerError::Unknown(id))?;
        let Some(changes) = self.sink.changes() else { return Ok(consumer.apply(delta)) };
        let (applied, became_dirty) = consumer.apply_logged(delta);
        if became_dirty {
            changes.dirty(id);
        }
        Ok(applied)
    }

    /// Applies changes in order; answers how many of them had an effect. They are written by the
    /// next flush.
    ///
    /// # Errors
    /// [`ConsumerError::Unknown`].
    pub fn apply(&mut self, id: ConsumerId, deltas: &[Delta]) -> Result<usize, ConsumerError> {
        let consumer = self.consumers.get_mut(&id).ok_or(ConsumerError::Unknown(id))?;
        let mut changed = 0;
        for delta in deltas {
            let (applied, became_dirty) = match &self.sink {
                ChangeSink::Nowhere | ChangeSink::Suspended(_) => (consumer.apply(*delta), false),
                ChangeSink::Log(_) | ChangeSink::Group(_) => consumer.apply_logged(*delta),
            };
            changed += usize::from(applied == Applied::Changed);
            if let Some(changes) = self.sink.changes().filter(|_| became_dirty) {
                changes.dirty(id);
            }
        }
        Ok(changed)
    }

    /// Applies one change to every consumer, in the order of their ids: what becomes of the stream
    /// concerns all of them.
    pub fn apply_to_all(&mut self, delta: Delta) {
        for id in self.ids() {
            self.apply_one(id, delta).expect("the consumer was just listed");
        }
    }

    /// Ids of all consumers, in order.
    fn ids(&self) -> Vec<ConsumerId> {
        #[expect(clippy::disallowed_methods, reason = "they are sorted")]
        let mut ids: Vec<ConsumerId> = self.consumers.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Appends what was changed since the last flush, in one write. Answers the position whose
    /// release makes all changes so far safe; `None` for a stream in memory. In a group nothing is
    /// written here: the position is the proposal with which all changes so far go.
    ///
    /// # Errors
    /// Of the disk. Nothing is lost: the states in memory hold all changes, and the next flush
    /// tries again.
    pub fn flush(&mut self, now: Timestamp) -> io::Result<Option<Flushed>> {
        let log = match &mut self.sink {
            ChangeSink::Nowhere | ChangeSink::Suspended(_) => return Ok(None),
            ChangeSink::Log(log) => log,
            ChangeSink::Group(proposals) => return Ok(Some(Flushed { file: 0, end: proposals.last() })),
        };
        log.flush(&mut self.consumers, self.next, now).map(Some)
    }

    /// As [`Consumers::flush`]; but a log that is begun for it is safe with
    /// [`Store::settle_streams`](crate::Store::settle_streams), so that several share a sync.
    ///
    /// # Errors
    /// As [`Consumers::flush`].
    pub fn flush_noted(&mut self, now: Timestamp) -> io::Result<Option<Flushed>> {
        let Some(log) = self.sink.log_mut() else { return Ok(None) };
        log.flush_as(&mut self.consumers, self.next, now, true).map(Some)
    }

    /// Writes all that is known into another file, if a round has told that the one that is
    /// appended to, or was, may have lost something. The other one is durable.
    ///
    /// # Errors
    /// As [`Consumers::flush`]; and while the stream is being removed, because nothing is written.
    pub fn flush_failed(&mut self, now: Timestamp) -> io::Result<()> {
        let is_owed = match &mut self.sink {
            ChangeSink::Suspended(log) if log.has_failed() => {
                return Err(io::Error::other("the log has failed while the stream is being removed"));
            }
            ChangeSink::Log(log) => log.give_up_failed(),
            _ => false,
        };
        if is_owed {
            self.flush(now)?;
        }
        Ok(())
    }

    /// Writes what was changed, and lets go of the log: what changes goes nowhere until the
    /// consumers are those of a group, which go on in its file
    /// ([`GroupConsumers::take_over`](super::GroupConsumers::take_over)).
    ///
    /// # Errors
    /// Of the disk: the log is as it was.
    pub fn leave_log(&mut self, now: Timestamp) -> io::Result<()> {
        self.flush(now)?;
        self.sink = ChangeSink::Nowhere;
        Ok(())
    }

    /// All consumers as a table.
    pub(super) fn table(&self) -> ConsumerTable {
        let mut table = ConsumerTable::new(self.next);
        table.consumers = self.ids().into_iter().map(|id| (id, self.consumers[&id].to_resumed())).collect();
        table
    }

    /// Whether there is something to flush, or to propose.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        match &self.sink {
            ChangeSink::Nowhere | ChangeSink::Suspended(_) => false,
            ChangeSink::Log(log) => log.is_dirty(),
            ChangeSink::Group(proposals) => proposals.is_dirty(),
        }
    }

    /// Whether changes up to `position` are released, in the stream's mode of durability, or are
    /// committed in its group. One of a log from before there was a group is as good as that.
    #[must_use]
    pub fn is_released(&self, position: Flushed) -> bool {
        match &self.sink {
            ChangeSink::Nowhere | ChangeSink::Suspended(_) => true,
            ChangeSink::Log(log) => log.is_released(position),
            ChangeSink::Group(proposals) => position.file > 0 || proposals.is_committed(position.end),
        }
    }

    /// Whether changes up to `position` survive a loss of power, whatever that mode is.
    #[must_use]
    pub fn is_synced(&self, position: Flushed) -> bool {
        self.sink.log().is_none_or(|log| log.is_synced(position))
    }

    /// Whether most of the log is history, so that a checkpoint pays.
    pub fn checkpoint_due(&mut self) -> bool {
        match self.sink.log_mut() {
            None => false,
            Some(log) => log.checkpoint_due(|| estimate(&self.consumers)),
        }
    }

    /// Writes the log anew. Takes two syncs: not for a thread that serves connections. All changes
    /// so far are safe afterwards, and the log before is among the obsolete.
    ///
    /// # Errors
    /// Of the disk. The log before goes on to be the valid one.
    pub fn checkpoint(&mut self) -> io::Result<Option<Flushed>> {
        let Some(log) = self.sink.log_mut() else { return Ok(None) };
        log.checkpoint(&mut self.consumers, self.next).map(Some)
    }

    /// Begins to write the log anew without holding anybody up: to be [drawn](Self::draw) slice by
    /// slice, then [`Rewrite::write`] wants nothing of the consumers, which may change meanwhile.
    /// `None`: there is nothing to be written.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn begin_rewrite(&mut self, now: Timestamp) -> io::Result<Option<Rewrite>> {
        let Some(log) = self.sink.log_mut() else { return Ok(None) };
        log.begin_rewrite(&mut self.consumers, self.next, now)
    }

    /// Draws a slice of the log that is written anew; to be repeated while there is more.
    ///
    /// # Errors
    /// As [`flush`](Self::flush). It is given up then.
    pub fn draw(&mut self, rewrite: &mut Rewrite, now: Timestamp) -> io::Result<Drawn> {
        let Some(log) = self.sink.log_mut() else { return Ok(Drawn::Overtaken) };
        log.draw(rewrite, &mut self.consumers, self.next, now)
    }

    /// Goes on with the file that was written, or not if it could not be. Takes two syncs of
    /// little. `None` if another one was begun meanwhile, or too much was written.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn finish_rewrite(
        &mut self,
        rewrite: Rewrite,
        file: io::Result<Arc<dyn File>>,
        now: Timestamp,
    ) -> io::Result<Option<Flushed>> {
        let Some(log) = self.sink.log_mut() else { return Ok(None) };
        log.finish_rewrite(rewrite, file, &mut self.consumers, self.next, now)
    }

    /// Files that are needed no more, for the caller to remove or to keep for an operator, as
    /// `Store::put_away` does. Named once.
    pub fn take_obsolete(&mut self) -> Vec<Obsolete> {
        self.sink.log_mut().map(ConsumerLog::take_obsolete).unwrap_or_default()
    }

    /// A consumer.
    #[must_use]
    pub fn get(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(&id)
    }

    /// The state of a consumer.
    #[must_use]
    pub fn state(&self, id: ConsumerId) -> Option<&ConsumerState> {
        self.get(id).map(Consumer::state)
    }

    /// The consumer with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ConsumerId> {
        self.names.get(name).copied()
    }

    /// All consumers, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ConsumerId, &Consumer)> {
        self.ids().into_iter().filter_map(|id| Some((id, self.consumers.get(&id)?)))
    }

    fn count_all(&self) {
        self.count.store(u32::try_from(self.consumers.len()).unwrap_or(u32::MAX), Relaxed);
    }

    /// How many there are, also later.
    pub(crate) fn counter(&self) -> &Arc<AtomicU32> {
        &self.count
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.consumers.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.consumers.is_empty()
    }
}

fn check_lengths(name: &str, config: &[u8]) -> Result<(), ConsumerError> {
    if name.len() > LONGEST_NAME || config.len() > LONGEST_CONFIG {
        return Err(ConsumerError::TooLong);
    }
    Ok(())
}

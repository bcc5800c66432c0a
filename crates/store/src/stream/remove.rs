//! Removal of messages from a stream: delete, erase, purge, compact, truncate, skip.
//!
//! Each is decided on the stream behind everything in its log, written as one batch, and done to
//! the catalog when that is released. A removal that may concern many messages works in slices and
//! says where it stopped, so that nobody holds a turn for long.

use std::borrow::Cow;

use crate::ranges::Ranges;
use crate::record::Control;
use crate::{Seq, Timestamp};

use super::Stream;
use super::append::room_for;
use super::catalog::{Catalog, Decided, Removed};
use super::errors::{ReadError, StoreError};
use super::lookup::Filter;
use super::new_message::NewMessage;
use super::segment_storage::CONTROL_ROOM;

pub use myelin_stdx::seq::MAX_SEQ;

/// Bytes that a deletion takes for one message, at most.
const RANGE_ROOM: u64 = 20;

/// Way to do what a batch says to the catalog.
pub(super) type FollowBatch = fn(&mut Catalog) -> Result<Removed, ReadError>;

/// No way to do at once what a batch says.
pub(super) const NOT_NOW: Option<FollowBatch> = None;

/// Which messages a purge concerns.
#[derive(Clone, Debug, Default)]
pub struct Purge {
    /// Subjects; all without one.
    pub filter: Option<Filter>,
    /// Only messages below this sequence; 0 is without bound.
    pub below: Seq,
    /// How many of the newest to spare.
    pub keep: u64,
    /// The last sequence that it concerns; 0 stands for the stream's last one when the first slice
    /// runs, which notes it here.
    pub through: Seq,
}

/// How far a removal in slices has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovalProgress {
    /// Messages that were removed in this slice, in sum.
    pub removed: Removed,
    /// Whether the caller should call again.
    pub more: bool,
}

impl Stream {
    /// Removes one message; nothing is removed if there is none with this sequence.
    ///
    /// # Errors
    /// The message is still there, unless the stream has failed.
    pub fn delete(&mut self, seq: Seq, now: Timestamp) -> Result<Removed, StoreError> {
        self.delete_all(&[seq], now)
    }

    /// Removes several messages as one batch. They may come in any order; sequences without a
    /// message are passed over.
    ///
    /// # Errors
    /// All of them are still there, unless the stream has failed.
    pub fn delete_all(&mut self, seqs: &[Seq], now: Timestamp) -> Result<Removed, StoreError> {
        self.check()?;
        self.make_room_for_removal(self.room_for_deletion(seqs.len() as u64), now)?;
        let catalog = self.shared.catalog();
        if catalog.has_unreleased() {
            let controls = removal_behind_waiting(catalog.decided(), seqs);
            drop(catalog);
            if controls.is_empty() {
                return Ok(Removed::default());
            }
            return self.log(&controls, now, NOT_NOW);
        }
        let decided = catalog.decide_removal(seqs)?;
        drop(catalog);
        if decided.is_nothing() {
            self.is_untidy |= self.shared.catalog_mut().tidy_after(seqs.len());
            return Ok(Removed::default());
        }
        let rest = Some(decided.rest()).filter(|rest| !rest.is_empty());
        let rest = rest.map(|rest| Control::Delete(Cow::Owned(rest)));
        // In this order: what is behind the new first message is removed one by one in any case.
        let first = decided.first().map(|first| Control::Trim { first });
        let controls: Vec<Control<'_>> = rest.into_iter().chain(first).collect();
        let mut is_untidy = true;
        let follow = |catalog: &mut Catalog| {
            let removed = catalog.remove_all(&decided)?;
            is_untidy = catalog.tidy_after(seqs.len());
            Ok(removed)
        };
        let removed = self.log(&controls, now, Some(follow))?;
        self.is_untidy |= is_untidy;
        Ok(removed)
    }

    /// Removes messages of a stream, at most about `budget` in one call. What is stored between two
    /// slices stays, and counts for nothing: further slices take the same `purge`.
    ///
    /// Compat: without a filter `keep` counts over all messages, and a bound is a
    /// [`Stream::compact`]; with both a filter and a bound `keep` spares the newest of all that
    /// match, as the reference does.
    ///
    /// # Errors
    /// What earlier slices removed stays removed.
    pub fn purge(
        &mut self,
        purge: &mut Purge,
        budget: usize,
        now: Timestamp,
    ) -> Result<RemovalProgress, StoreError> {
        self.check()?;
        check_seq(purge.below)?;
        if purge.below == 1 {
            return Ok(RemovalProgress::default());
        }
        let last = self.shared.catalog().next_decided() - 1;
        if purge.through == 0 || purge.through > last {
            purge.through = last;
        }
        let all = purge.filter.as_ref().is_none_or(Filter::is_all);
        if all && purge.below == 0 && purge.keep == 0 {
            return self.trim(purge.through + 1, budget, now);
        }
        if all && purge.below > 1 {
            return self.trim(purge.below + u64::from(myelin_stdx::planted::bug(13)), budget, now);
        }
        let every = Filter::All;
        let filter = purge.filter.as_ref().unwrap_or(&every);
        let (doomed, more) = self.doomed(filter, purge, budget)?;
        if doomed.is_empty() {
            return Ok(RemovalProgress::default());
        }
        let removed = self.delete_all(&doomed, now)?;
        Ok(RemovalProgress { removed, more })
    }

    /// The oldest messages that a purge with a filter removes, and whether there are more.
    fn doomed(&self, filter: &Filter, purge: &Purge, budget: usize) -> Result<(Vec<Seq>, bool), StoreError> {
        let catalog = self.shared.catalog();
        let stream = catalog.decided();
        let newer = stream.pending(filter, purge.through.saturating_add(1))?;
        // None is spared for one that was lost.
        let is_live = purge.keep > 0 && catalog.may_have_lost();
        let matching = stream.count(filter, is_live)?;
        let matching = matching.saturating_sub(newer);
        if matching <= purge.keep {
            return Ok((Vec::new(), false));
        }
        let surplus = matching - purge.keep;
        let limit = budget.min(usize::try_from(surplus).unwrap_or(usize::MAX));
        let last = if purge.below == 0 { purge.through } else { purge.through.min(purge.below - 1) };
        let doomed = stream.collect(filter, 0, last, limit)?;
        debug_assert!(doomed.len() <= limit && doomed.is_sorted(), "the oldest go, and no more than may");
        debug_assert!(doomed.last().is_none_or(|seq| *seq <= last), "what came since stays");
        let more = doomed.len() == limit && (limit as u64) < surplus;
        Ok((doomed, more))
    }

    /// Removes everything below `first`. If that is behind the last sequence, the stream is empty
    /// and goes on there.
    ///
    /// # Errors
    /// What earlier slices removed stays removed.
    pub fn compact(
        &mut self,
        first: Seq,
        budget: usize,
        now: Timestamp,
    ) -> Result<RemovalProgress, StoreError> {
        self.check()?;
        check_seq(first)?;
        if first == 0 {
            let next = self.shared.catalog().next_decided();
            return self.trim(next, budget, now);
        }
        self.trim(first, budget, now)
    }

    fn trim(&mut self, first: Seq, budget: usize, now: Timestamp) -> Result<RemovalProgress, StoreError> {
        self.make_room_for_removal(CONTROL_ROOM, now)?;
        let catalog = self.shared.catalog();
        let stream = catalog.decided();
        let totals = stream.totals();
        if first <= totals.first_seq {
            return Ok(RemovalProgress::default());
        }
        // A stream that is emptied needs no look at each message.
        let target = if first > totals.last_seq {
            first
        } else {
            first.min(totals.first_seq.saturating_add(budget as u64))
        };
        let reached = stream.first_behind(target);
        let is_behind_waiting = !stream.is_released();
        drop(catalog);
        debug_assert!(reached >= totals.first_seq, "a slice never goes back");
        let mut is_untidy = true;
        let follow = |catalog: &mut Catalog| {
            let removed = catalog.trim(target)?;
            debug_assert!(catalog.totals().first_seq == reached, "the log says what happens");
            is_untidy = catalog.tidy_after(removed.messages.min(budget as u64) as usize);
            Ok(removed)
        };
        let follow = Some(follow).filter(|_| !is_behind_waiting);
        let removed = self.log(&[Control::Trim { first: reached }], now, follow)?;
        self.is_untidy |= is_untidy;
        debug_assert!(removed.messages <= totals.messages, "only messages are removed");
        if first > totals.last_seq + 1 {
            self.begin_behind_gap(now)?;
        }
        Ok(RemovalProgress { removed, more: reached < first })
    }

    /// After a jump the sequences of a segment might span too much. The jump is logged, so a full
    /// disk is no reason to say that it was not made: the next entry has to make room in any case,
    /// and begins the segment then.
    fn begin_behind_gap(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let span = self.shared.catalog().next_decided() - self.active.segment.first_seq;
        if span < super::append::SEGMENT_SPAN {
            return Ok(());
        }
        match self.roll(now) {
            Err(StoreError::Full) => Ok(()),
            rolled => rolled,
        }
    }

    /// Removes everything behind `last`; the next message gets `last + 1` again.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed: something waits for its release
    /// ([`StoreError::Unreleased`]), as anything may in a group.
    pub fn truncate(&mut self, last: Seq, now: Timestamp) -> Result<Removed, StoreError> {
        self.check()?;
        if self.group.is_some() || self.shared.catalog().has_unreleased() {
            return Err(StoreError::Unreleased);
        }
        if last >= self.shared.catalog().totals().last_seq {
            return Ok(Removed::default());
        }
        // Sequences are used again: they go to a new segment, whose beginning says what older ones
        // still show. It has room for the entry, and so has the one that ends with the same.
        self.make_room_for_removal(CONTROL_ROOM, now)?;
        let removed = self.or_from_headroom(|stream| stream.roll_behind(Some(last), now))?;
        debug_assert!(self.shared.catalog().totals().last_seq <= last, "nothing behind it is left");
        self.log(&[Control::Truncate { last }], now, Some(|_: &mut Catalog| Ok(Removed::default())))?;
        Ok(removed)
    }

    /// Passes over the sequences up to `last`: they are used and hold nothing. The last time of the
    /// stream is `now` then.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed.
    pub fn skip(&mut self, last: Seq, now: Timestamp) -> Result<(), StoreError> {
        self.check()?;
        check_seq(last)?;
        if last < self.shared.catalog().next_decided() {
            return Ok(());
        }
        self.make_room_for_removal(CONTROL_ROOM, now)?;
        let follow = |catalog: &mut Catalog| {
            catalog.skip_at(last, now);
            Ok(Removed::default())
        };
        self.log(&[Control::Skip { last }], now, Some(follow))?;
        debug_assert!(self.shared.catalog().next_decided() == last + 1, "what was passed over is used");
        self.begin_behind_gap(now)
    }

    /// Writes that the sequences up to `last` are used and lost: recovery has found that out.
    pub(crate) fn log_gap(&mut self, last: Seq, now: Timestamp) -> Result<(), StoreError> {
        self.make_room_for_removal(CONTROL_ROOM, now)?;
        self.log(&[Control::Skip { last }], now, Some(|_: &mut Catalog| Ok(Removed::default()))).map(drop)
    }

    /// Sees to it that there is room for messages which take the place of others, and for the
    /// removal of these behind them: up to `slice` of those that pass each filter, besides what is
    /// among the messages. To be asked for without headroom ([`Stream::has_headroom`]): a full disk
    /// may have room for the messages alone.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn make_room_for_rollups(
        &mut self,
        messages: &[NewMessage<'_>],
        filters: &[Option<Filter>],
        slice: u64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.check()?;
        let mut room = room_for(messages, &self.config.limits) + self.room_in_group(messages);
        room += RANGE_ROOM * messages.len() as u64;
        for filter in filters {
            // Without a filter what goes is one range.
            let count =
                filter.as_ref().map_or(Ok(0), |filter| self.shared.catalog().decided().count(filter, false));
            room += self.room_for_deletion(count?.min(slice));
        }
        self.make_room(room, now)
    }

    fn room_for_deletion(&self, messages: u64) -> u64 {
        2 * CONTROL_ROOM + RANGE_ROOM * messages + self.room_for_log_entry()
    }

    /// As [`Stream::make_room`], for what makes the stream smaller: on a full disk it may use the
    /// headroom, and what is reserved in a segment that is as long as others.
    pub(super) fn make_room_for_removal(&mut self, bytes: u64, now: Timestamp) -> Result<(), StoreError> {
        match self.or_from_headroom(|stream| stream.make_room(bytes, now)) {
            Err(StoreError::Full) if !self.has_placeholder() && !self.is_unfinished() => {
                self.active.file.reserve(bytes).map(drop).map_err(StoreError::from_io)
            }
            made => made,
        }
    }

    /// `act` changes nothing when the disk is full.
    pub(super) fn or_from_headroom<T>(
        &mut self,
        act: impl Fn(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match act(self) {
            Err(StoreError::Full) if self.release_headroom() => act(self),
            result => result,
        }
    }

    /// Whether a removal for which the disk is full gets room all the same.
    #[must_use]
    pub fn has_headroom(&self) -> bool {
        self.segment_storage.files().is_none_or(|files| files.store_env.headroom.is_held())
    }

    pub(super) fn release_headroom(&self) -> bool {
        self.segment_storage.files().is_some_and(|files| files.store_env.headroom.release().unwrap_or(false))
    }
}

/// Records of a removal of these messages, of a stream in which others wait.
pub(super) fn removal_behind_waiting(stream: Decided<'_>, seqs: &[Seq]) -> Vec<Control<'static>> {
    let mut going: Vec<Seq> = seqs.iter().copied().filter(|&seq| stream.contains(seq)).collect();
    going.sort_unstable();
    going.dedup();
    let (front, first) = stream.split_front(&going);
    let rest = Some(going.split_off(front)).filter(|rest| !rest.is_empty());
    let rest = rest.map(|rest| Control::Delete(Cow::Owned(Ranges::from_unsorted(rest))));
    let first = (front > 0).then_some(Control::Trim { first });
    rest.into_iter().chain(first).collect()
}

/// Refuses sequences so high that counting on from them would overflow.
fn check_seq(seq: Seq) -> Result<(), StoreError> {
    if seq > MAX_SEQ { Err(StoreError::SequenceTooHigh(seq)) } else { Ok(()) }
}

impl Removed {
    /// Adds what went with another removal.
    pub fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

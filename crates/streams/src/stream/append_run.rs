//! Messages of a buffer that were admitted and wait to be stored together, with the answers that
//! stand between them.
//!
//! Nothing here borrows the buffer: an entry names its message by number, and what had to be
//! written anew (a transformed subject, changed headers) stands in a buffer that is kept.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::FixedState;

use myelin_store::{NewMessage, Seq, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::batch::FastPlace;
use super::dedupe::IdSlot;
use super::rules::Rollup;
use super::schedules::Recurrence;
use myelin_jsapi::ApiError;
use myelin_jsapi::counter::Counter;

/// Buffers beyond this are given back.
const SPARE_BYTES: usize = 1 << 20;
/// Lists of messages, too.
pub(super) const SPARE_MESSAGES: usize = 1024;

/// Run of admitted messages that are stored together, with the answers that stand between them.
#[derive(Default)]
pub(super) struct AppendRun {
    hasher: FixedState,
    entries: Vec<RunEntry>,
    scratch: Vec<u8>,
    drafts: usize,
    unwanted: usize,
    rollups: usize,
    /// Messages that end a schedule.
    retiring: usize,
    /// Replies about batches between the messages.
    asides: MessageBuf,
    /// Which subjects the drafts may have, once somebody has asked.
    subjects: Option<Box<SubjectBits>>,
    /// Values of counters among the drafts, by subject.
    counters: HashMap<Box<[u8]>, Counter, FixedState>,
    /// Where messages of fast batches belong.
    places: Vec<FastPlace>,
    /// Sequence and time of each draft, where these are not the stream's to choose.
    stamps: Vec<(Seq, Timestamp)>,
    /// Bytes that the drafts will count against limits.
    pub(super) bytes: u64,
}

/// A message of the buffer and what becomes of it.
pub(super) struct RunEntry {
    /// Its number in the buffer.
    pub(super) msg: usize,
    pub(super) draft: MsgDraft,
    pub(super) verdict: MsgVerdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MsgVerdict {
    /// The message is to be stored.
    Store,
    /// The message is stored.
    Stored(Seq, Timestamp),
    /// The message had been stored before.
    Duplicate(Seq),
    /// The message is not taken.
    Refuse(Box<ApiError>),
    /// Its answers stand aside.
    Aside(Range<usize>),
}

/// A message as it is to be stored, where that differs from how it came.
#[derive(Clone, Debug, Default)]
pub(super) struct MsgDraft {
    pub(super) subject: Option<Range<usize>>,
    pub(super) headers: Option<Range<usize>>,
    pub(super) expires: Option<MsgExpiry>,
    pub(super) id: Option<IdSlot>,
    /// Nobody wants it: it gets a sequence and is not stored.
    pub(super) is_unwanted: bool,
    pub(super) rollup: Option<Rollup>,
    /// Of a message of a fast batch.
    pub(super) place: Option<usize>,
    /// Perf: few messages have any of this, and all would carry it.
    pub(super) special: Option<Box<Special>>,
}

/// Additions for counters and schedules.
#[derive(Clone, Debug, Default)]
pub(super) struct Special {
    pub(super) payload: Option<Range<usize>>,
    /// A message that goes with this one's arrival; 0 for none.
    pub(super) ends: Seq,
    /// When it is due, if it is a schedule.
    pub(super) due: Option<Timestamp>,
    /// Of a message that a schedule wants stored.
    pub(super) recurrence: Option<Recurrence>,
    /// The subject whose schedule ends with it.
    pub(super) retires: Option<Range<usize>>,
    /// Its subject, and what the counter there says with it. Nothing once it is in the run.
    pub(super) counted: Option<(Box<[u8]>, Counter)>,
}

/// When a message ends by its own header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MsgExpiry {
    Never,
    /// Nanoseconds after it was accepted.
    After(i64),
}

/// A bit for each of so many kinds of subjects: few of some hundred subjects share one.
struct SubjectBits([u64; 64]);

impl Default for SubjectBits {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl SubjectBits {
    fn bit(hasher: &FixedState, subject: &[u8]) -> usize {
        (hasher.hash_one(subject) % (64 * 64)) as usize
    }
}

impl AppendRun {
    /// `seed`, for hashes, should be hard to guess.
    pub(super) fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self { hasher: hasher.clone(), counters: HashMap::with_hasher(hasher), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether messages wait to be stored.
    pub(super) fn has_drafts(&self) -> bool {
        self.drafts > 0
    }

    /// Whether messages wait that are not stored.
    pub(super) fn has_unwanted(&self) -> bool {
        self.unwanted > 0
    }

    pub(super) fn has_rollups(&self) -> bool {
        self.rollups > 0
    }

    /// Whether messages wait that end a schedule.
    pub(super) fn retires(&self) -> bool {
        self.retiring > 0
    }

    /// Whether the last draft of a subject is a schedule; `None` if there is no draft of it.
    pub(super) fn last_is_schedule(&self, subject: &[u8], msgs: &MessageBuf) -> Option<bool> {
        let is_of = |entry: &&RunEntry| {
            let msg = msgs.get(entry.msg).filter(|_| entry.verdict == MsgVerdict::Store);
            msg.is_some_and(|msg| self.apply(&entry.draft, msg).subject == subject)
        };
        let last = self.entries.iter().rev().find(is_of)?;
        Some(last.draft.special.as_ref().is_some_and(|special| special.due.is_some()))
    }

    pub(super) fn drafts(&self) -> usize {
        self.drafts
    }

    pub(super) fn entries(&self) -> &[RunEntry] {
        &self.entries
    }

    pub(super) fn entries_mut(&mut self) -> &mut [RunEntry] {
        &mut self.entries
    }

    pub(super) fn push(&mut self, msg: usize, mut draft: MsgDraft, verdict: MsgVerdict) {
        let counted = draft.special.as_mut().and_then(|special| special.counted.take());
        // What is not to be stored does not count.
        if let (Some((subject, counter)), MsgVerdict::Store) = (counted, &verdict) {
            self.counters.insert(subject, counter);
        }
        self.drafts += usize::from(verdict == MsgVerdict::Store);
        self.unwanted += usize::from(verdict == MsgVerdict::Store && draft.is_unwanted);
        self.rollups += usize::from(draft.rollup.is_some());
        self.retiring += usize::from(draft.special.as_ref().is_some_and(|special| special.retires.is_some()));
        self.entries.push(RunEntry { msg, draft, verdict });
        debug_assert!(self.drafts <= self.entries.len(), "each draft is an entry of the run");
        debug_assert!(self.unwanted <= self.drafts, "what nobody wants is a draft");
        debug_assert!(self.rollups <= self.entries.len(), "each rollup is an entry of the run");
        debug_assert!(
            self.stamps.is_empty() || self.stamps.len() == self.drafts,
            "all drafts of a run have stamps, or none"
        );
    }

    /// Where to say something that has its place behind what the run has now.
    pub(super) fn asides(&mut self) -> &mut MessageBuf {
        &mut self.asides
    }

    /// Gives what was said aside since its length was `before` its place among the messages.
    pub(super) fn push_asides(&mut self, msg: usize, before: usize) {
        debug_assert!(before <= self.asides.len(), "what was said aside stays until the run is cleared");
        if self.asides.len() > before {
            self.push(msg, MsgDraft::default(), MsgVerdict::Aside(before..self.asides.len()));
        }
    }

    pub(super) fn aside_replies(&self, range: &Range<usize>) -> impl Iterator<Item = MessageRef<'_>> {
        range.clone().filter_map(|at| self.asides.get(at))
    }

    pub(super) fn keep_place(&mut self, place: FastPlace) -> usize {
        self.places.push(place);
        self.places.len() - 1
    }

    pub(super) fn place(&self, draft: &MsgDraft) -> Option<FastPlace> {
        draft.place.map(|at| self.places[at])
    }

    /// The draft that comes next must have this sequence, and was accepted then. For all drafts of
    /// a run or none.
    pub(super) fn push_stamp(&mut self, stamp: (Seq, Timestamp)) {
        debug_assert!(
            self.stamps.last().is_none_or(|last| last.0 < stamp.0),
            "messages of a mirror come in the order of their sequences"
        );
        self.stamps.push(stamp);
    }

    pub(super) fn take_stamps(&mut self) -> Vec<(Seq, Timestamp)> {
        std::mem::take(&mut self.stamps)
    }

    /// Has the subjects of the drafts noted from here on: to be called when there are none.
    pub(super) fn track_subjects(&mut self) {
        self.subjects.get_or_insert_default();
    }

    /// Notes the subject of a draft.
    pub(super) fn note_subject(&mut self, draft: &MsgDraft, msg: MessageRef<'_>) {
        if self.subjects.is_some() {
            let bit = SubjectBits::bit(&self.hasher, self.apply(draft, msg).subject);
            self.subjects.iter_mut().for_each(|subjects| subjects.0[bit / 64] |= 1 << (bit % 64));
        }
    }

    /// Whether a draft may have this subject. Of none, surely not.
    pub(super) fn may_have(&self, subject: &[u8]) -> bool {
        let is_noted = |subjects: &SubjectBits| {
            let bit = SubjectBits::bit(&self.hasher, subject);
            subjects.0[bit / 64] & (1 << (bit % 64)) != 0
        };
        self.drafts > 0 && self.subjects.as_deref().is_none_or(is_noted)
    }

    /// Value of a counter with the drafts.
    pub(super) fn counter(&self, subject: &[u8]) -> Option<&Counter> {
        self.counters.get(subject)
    }

    /// Keeps bytes that are not in the buffer.
    pub(super) fn keep(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let start = self.scratch.len();
        write(&mut self.scratch);
        start..self.scratch.len()
    }

    pub(super) fn kept(&self, range: &Range<usize>) -> &[u8] {
        &self.scratch[range.clone()]
    }

    /// A message of the buffer as it is to be stored.
    ///
    /// Perf: a thin LTO would call it for each message, with all of a message to copy: 43 of 3,400
    /// instructions.
    #[inline]
    pub(super) fn apply<'a>(&'a self, draft: &MsgDraft, msg: MessageRef<'a>) -> MessageRef<'a> {
        MessageRef {
            subject: draft.subject.as_ref().map_or(msg.subject, |range| self.kept(range)),
            headers: draft.headers.as_ref().map_or(msg.headers, |range| self.kept(range)),
            payload: draft.payload().map_or(msg.payload, |range| self.kept(range)),
            ..msg
        }
    }

    /// All drafts in order, accepted one nanosecond after the other from `first` on.
    pub(super) fn messages<'a>(
        &'a self,
        msgs: &'a MessageBuf,
        first: Timestamp,
    ) -> impl Iterator<Item = NewMessage<'a>> {
        let drafts = self.entries.iter().filter(|entry| entry.verdict == MsgVerdict::Store);
        let drafts = drafts.filter_map(|entry| Some((msgs.get(entry.msg)?, &entry.draft)));
        drafts.zip(first..).enumerate().map(|(at, ((msg, draft), timestamp))| {
            let (seq, timestamp) = self.stamps.get(at).copied().unwrap_or((0, timestamp));
            let MessageRef { subject, headers, payload, .. } = self.apply(draft, msg);
            let expires = draft.expires.map(|expiry| expiry.at(timestamp));
            NewMessage {
                seq,
                timestamp,
                expires,
                subject,
                headers,
                payload,
                is_rollup: draft.rollup.is_some(),
                ends: draft.special.as_ref().map_or(0, |special| special.ends),
            }
        })
    }

    /// The drafts as stretches of such that are stored and such that are not: how many, and whether
    /// nobody wants them.
    pub(super) fn stretches(&self) -> Vec<(usize, bool)> {
        let mut stretches: Vec<(usize, bool)> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.verdict == MsgVerdict::Store) {
            match stretches.last_mut().filter(|last| last.1 == entry.draft.is_unwanted) {
                Some(last) => last.0 += 1,
                None => stretches.push((1, entry.draft.is_unwanted)),
            }
        }
        debug_assert_eq!(
            stretches.iter().map(|stretch| stretch.0).sum::<usize>(),
            self.drafts,
            "each draft is in one stretch"
        );
        stretches
    }

    /// Forgets the entries. What was kept stays: a message that is being looked at may need it.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.asides.clear();
        self.places.clear();
        self.stamps.clear();
        self.subjects.iter_mut().for_each(|subjects| **subjects = SubjectBits::default());
        if !self.counters.is_empty() {
            self.counters.clear();
        }
        self.drafts = 0;
        self.unwanted = 0;
        self.rollups = 0;
        self.retiring = 0;
        self.bytes = 0;
    }

    /// Forgets what was kept, with the buffer.
    pub(super) fn end(&mut self) {
        debug_assert!(self.entries.is_empty(), "a run ends when its entries are answered or forgotten");
        debug_assert!(self.drafts == 0 && self.bytes == 0, "a run that ends has nothing to store");
        self.subjects = None;
        self.counters.shrink_to(SPARE_MESSAGES);
        self.entries.shrink_to(SPARE_MESSAGES);
        self.places.shrink_to(SPARE_MESSAGES);
        self.scratch.clear();
        self.scratch.shrink_to(SPARE_BYTES);
    }
}

impl Special {
    /// Whether the table of schedules is to know what became of the message.
    pub(super) fn is_of_schedules(&self) -> bool {
        self.due.is_some() || self.recurrence.is_some()
    }
}

impl MsgDraft {
    pub(super) fn special(&mut self) -> &mut Special {
        self.special.get_or_insert_default()
    }

    fn payload(&self) -> Option<&Range<usize>> {
        self.special.as_ref()?.payload.as_ref()
    }
}

impl MsgExpiry {
    /// When it ends, if it was accepted then.
    pub(super) fn at(self, accepted: Timestamp) -> Timestamp {
        match self {
            Self::Never => Timestamp::MAX,
            // The last moment of all stands for never.
            Self::After(time) => accepted.saturating_add(time).min(Timestamp::MAX - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_tell_which_subjects_share_a_bit() {
        let bits = |seed| {
            let run = AppendRun::new(seed);
            ["a", "b", "c"].map(|subject| SubjectBits::bit(&run.hasher, subject.as_bytes()))
        };
        assert_eq!(bits(1), bits(1));
        assert_ne!(bits(1), bits(2));
    }
}

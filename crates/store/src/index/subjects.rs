//! All subjects of one stream with what is known about each: how many messages it has, and its
//! first and last.
//!
//! Owns the life of a subject: entered, counted up and down, forgotten when nothing is left, its
//! space used again once the owner says that nobody asks for it any more. It never decides what a
//! stream keeps, and reads no message: where an end becomes unknown it keeps a bound and says so.
//!
//! Budget (`benches/index.rs`): an update under 150 ns among a million subjects, at most 64 bytes
//! for each beyond its text, no call over a few milliseconds.

use std::hash::BuildHasher;
use std::ops::ControlFlow;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use myelin_subject::{has_wildcard, matches};

use super::order::{SubjectOrder, SubjectScan, SubjectSummary};
use super::records::{Records, flag};
use super::table::IdTable;
use crate::Seq;

/// Names a subject within its index. Ids are not dense, and a forgotten subject's may be given to
/// another one after [`SubjectIndex::recycle`].
pub type SubjectId = u32;

/// State of a subject in an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubjectState {
    /// Messages with this subject. With 0 the rest says nothing.
    pub count: u64,
    /// The first message; if not exact, no message is before this.
    pub first: Seq,
    /// The last message; if not exact, no message is behind this.
    pub last: Seq,
    /// Whether `first` is a message.
    pub first_exact: bool,
    /// Whether `last` is a message.
    pub last_exact: bool,
}

/// Subjects of a stream. A subject is found while it has messages.
///
/// A subject that is entered and gets no message, or loses its last one, keeps id and text until
/// the next [`SubjectIndex::recycle`], and gets the same id if it comes back before.
#[derive(Debug)]
pub struct SubjectIndex {
    hasher: SeedableRandomState,
    records: Records,
    table: IdTable,
    order: SubjectOrder,
    /// Subjects with messages.
    live: usize,
    /// Messages of all subjects.
    messages: u64,
    touched: Vec<SubjectId>,
    /// Entered last, without message so far.
    entered: Option<SubjectId>,
    /// Without messages, now or at some time since they came here.
    idle: Vec<SubjectId>,
    /// Out of the table, to be taken out of the order.
    dead: Vec<SubjectId>,
    /// Which of the two flags those get.
    parity: usize,
    /// Being taken out of the order by the merge under way.
    collected: Vec<SubjectId>,
    /// Out of everything.
    freed: Vec<SubjectId>,
}

/// Subjects that are brought near together.
const WARM: usize = 32;

/// Dead subjects below which the order is not gone through. Small in tests.
const FEW_DEAD: usize = if cfg!(test) { 4 } else { 1024 };

/// Whoever has time to spare goes through the order for one dead subject among so many.
const SPARSE_DEAD: usize = 16;

/// A list of so many ids that is empty gives its memory back.
const SPARE_IDS: usize = 1024;

impl SubjectIndex {
    /// An empty index. The seed should not be known to clients, because subjects are theirs.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            hasher: SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()),
            records: Records::new(),
            table: IdTable::new(),
            order: SubjectOrder::default(),
            live: 0,
            messages: 0,
            touched: Vec::new(),
            entered: None,
            idle: Vec::new(),
            dead: Vec::new(),
            parity: 0,
            collected: Vec::new(),
            freed: Vec::new(),
        }
    }

    /// Subjects with messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether no subject has messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Messages of all subjects.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The id of a subject that has messages.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Option<SubjectId> {
        self.find_hashed(self.hash(text), text)
    }

    /// As [`SubjectIndex::find`], of a subject whose [`SubjectIndex::hash`] is known.
    #[must_use]
    pub fn find_hashed(&self, hash: u32, text: &[u8]) -> Option<SubjectId> {
        self.look_up(hash, text).filter(|&id| self.records.count(id) > 0)
    }

    /// The last message of a subject and its size, as far as that was told by
    /// [`SubjectIndex::appended`].
    #[must_use]
    pub fn last_known(&self, id: SubjectId) -> Option<(Seq, u32)> {
        let (count, _, last, flags) = self.records.read(id);
        let size = self.records.last_size(id);
        (count > 0 && size > 0 && flags & flag::LAST_EXACT != 0).then_some((last, size))
    }

    /// The id of a subject; a new one begins with count 0.
    ///
    /// # Panics
    /// If the text is longer than 65,535 bytes: no record of a stream can have such a subject.
    pub fn enter(&mut self, text: &[u8]) -> SubjectId {
        let hash = self.hash(text);
        if let Some(id) = self.look_up(hash, text) {
            return id;
        }
        self.list_entered();
        let id = self.insert(hash, text);
        self.order.push(id, &self.records);
        self.entered = Some(id);
        id
    }

    /// Brings what is known about these subjects near, before they are entered or found one by one.
    /// Changes nothing.
    ///
    /// Perf: the misses of up to 32 subjects overlap, which more than halves the time of an update
    /// among a million subjects (`benches/index.rs`). Not worth it for a single one.
    pub fn warm<'a>(&self, texts: impl IntoIterator<Item = &'a [u8]>) {
        let mut texts = texts.into_iter();
        let mut hashes = [0; WARM];
        loop {
            let mut asked = 0;
            let mut read = 0;
            for (hash, text) in hashes.iter_mut().zip(texts.by_ref()) {
                *hash = self.hash(text);
                read ^= self.table.peek(*hash);
                asked += 1;
            }
            std::hint::black_box(read);
            // The first one with this hash is almost always the one.
            self.records.warm(hashes[..asked].iter().filter_map(|&hash| self.table.find(hash, |_| true)));
            if asked < WARM {
                return;
            }
        }
    }

    /// The subject itself, also of a forgotten one until [`SubjectIndex::recycle`].
    #[must_use]
    pub fn text(&self, id: SubjectId) -> &[u8] {
        self.records.text(id)
    }

    /// As [`SubjectIndex::text`], of an id that may have been given out again, or be none any more:
    /// then whatever.
    #[must_use]
    pub fn text_or_other(&self, id: SubjectId) -> &[u8] {
        self.records.text_or_other(id)
    }

    /// State of a subject.
    #[must_use]
    pub fn state(&self, id: SubjectId) -> SubjectState {
        let (count, first, last, flags) = self.records.read(id);
        if count == 0 {
            return SubjectState::default();
        }
        let (first_exact, last_exact) = (flags & flag::FIRST_EXACT != 0, flags & flag::LAST_EXACT != 0);
        SubjectState { count, first, last, first_exact, last_exact }
    }

    /// Replaces what is known about a subject. Count 0 forgets it.
    pub fn set(&mut self, id: SubjectId, state: SubjectState) {
        let (count, _, _, flags) = self.records.read(id);
        self.change(id, (count, flags), state);
        // Whoever says so may mean another message, to which a sequence was given again.
        self.records.set_last_size(id, 0);
    }

    /// Counts a message that is the subject's last, and counts `size` bytes.
    pub fn appended(&mut self, id: SubjectId, seq: Seq, size: u32) {
        let (count, first, last, flags) = self.records.read(id);
        let is_only = count == 0;
        debug_assert!(is_only || flags & flag::LAST_EXACT == 0 || seq > last, "messages of a subject ascend");
        let state = SubjectState {
            count: count + 1,
            first: if is_only { seq } else { first },
            last: seq,
            first_exact: is_only || flags & flag::FIRST_EXACT != 0,
            last_exact: true,
        };
        self.change(id, (count, flags), state);
        self.records.set_last_size(id, size);
        debug_assert!(self.state(id) == state, "what was written is read");
    }

    /// Counts a message that is gone. If it was at an end, that end becomes a bound. Nothing
    /// changes for a subject that counts none: where damage has taken what says that a message was
    /// deleted, later states of its subject do not count it, and it is shown again until it is
    /// removed.
    pub fn removed(&mut self, id: SubjectId, seq: Seq) {
        let (count, _, _, flags) = self.records.read(id);
        if count == 0 {
            return;
        }
        let mut state = self.state(id);
        state.count = count - 1;
        if seq == state.first {
            (state.first, state.first_exact) = (seq.saturating_add(1), false);
        }
        if seq == state.last {
            (state.last, state.last_exact) = (seq.saturating_sub(1), false);
        }
        if state.count == 1 {
            state.join_ends();
        }
        self.change(id, (count, flags), state);
    }

    /// Takes the subjects that were changed since the last call, with the state of now: count 0 for
    /// subjects without messages.
    pub fn take_touched(&mut self) -> Vec<(SubjectId, SubjectState)> {
        let ids = std::mem::take(&mut self.touched);
        let mut states = Vec::with_capacity(ids.len());
        for ids in ids.chunks(WARM) {
            self.records.warm(ids.iter().copied());
            for &id in ids {
                let state = self.state(id);
                self.records.set_flags(id, self.records.flags(id) & !flag::TOUCHED);
                if state.count == 0 {
                    self.list(id);
                }
                states.push((id, state));
            }
        }
        states
    }

    /// How many subjects [`SubjectIndex::take_touched`] would give.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.touched.len()
    }

    /// As [`SubjectIndex::take_touched`] where nobody wants to know them, `limit` at a time; true
    /// when there are more.
    pub fn forget_touched(&mut self, limit: usize) -> bool {
        for _ in 0..limit {
            let Some(id) = self.touched.pop() else { break };
            self.records.set_flags(id, self.records.flags(id) & !flag::TOUCHED);
            if self.records.count(id) == 0 {
                self.list(id);
            }
        }
        give_back(&mut self.touched);
        !self.touched.is_empty()
    }

    /// Begins with subjects in sorted order: for recovery, into an index without subjects. Nothing
    /// counts as touched. Subjects that are out of order or without messages are left out; returns
    /// how many.
    pub fn load_sorted<'a>(&mut self, subjects: impl IntoIterator<Item = (&'a [u8], SubjectState)>) -> usize {
        assert!(self.order.len() == 0, "an index is loaded before it is used");
        let subjects = subjects.into_iter();
        self.table.reserve(subjects.size_hint().0.min(1 << 24));
        let (mut left_out, mut last) = (0, None);
        for (text, state) in subjects {
            let is_behind = last.is_none_or(|last| self.records.text(last) < text);
            if state.count == 0 || !is_behind || text.len() > usize::from(u16::MAX) {
                left_out += 1;
                continue;
            }
            let id = self.insert(self.hash(text), text);
            self.order.push_last(id);
            self.live += 1;
            self.messages = self.messages.saturating_add(state.count);
            self.write(id, state, 0);
            last = Some(id);
        }
        left_out
    }

    /// Says that nobody will ask for forgotten subjects any more: their ids and space may be used
    /// again. Subjects that are still on the list for [`SubjectIndex::take_touched`] stay.
    pub fn recycle(&mut self) {
        while self.recycle_some(usize::MAX) {}
    }

    /// As [`SubjectIndex::recycle`], about `limit` subjects at a time; true when there is more to
    /// do.
    pub fn recycle_some(&mut self, limit: usize) -> bool {
        let mut left = limit.max(1);
        self.free_some(&mut left);
        self.collect_some(&mut left);
        self.remove_idle(&mut left);
        left == 0
    }

    /// About how many subjects [`SubjectIndex::recycle_some`] has still to look at; 0: there is
    /// nothing to do.
    #[must_use]
    pub fn backlog(&self) -> usize {
        let is_collecting = self.order.is_merging_all() || self.is_order_due();
        let in_order = if is_collecting { self.order.len() } else { 0 };
        self.idle.len() + in_order + self.collected.len() + self.freed.len()
    }

    /// Whether [`SubjectIndex::defragment`] would give space of dead subjects back.
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        !self.dead.is_empty() && self.dead.len() >= self.order.len() / SPARSE_DEAD
    }

    /// Subjects with and without messages that take space, those included that nobody will ask for
    /// any more.
    #[must_use]
    pub fn held(&self) -> usize {
        self.order.len() + self.freed.len()
    }

    /// Puts the order of subjects in a better shape for questions, looking at about `limit`
    /// subjects; true when there is more to do. Never needed for a right answer: for whoever has
    /// time to spare.
    pub fn defragment(&mut self, limit: usize) -> bool {
        let mut left = limit.max(1);
        if !self.order.is_merging_all() && (self.order.is_scattered() || self.is_sparse()) {
            self.begin_collection();
        }
        self.collect_some(&mut left);
        left == 0
    }

    /// Visits the subjects that match, in bytewise order of their text, from behind `after`, until
    /// the visitor breaks off. On a shard use [`SubjectIndex::scan_matching`] instead: this looks
    /// at all of them if it must.
    pub fn for_each_matching(
        &self,
        pattern: &[u8],
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(SubjectId, &[u8]) -> ControlFlow<()>,
    ) {
        let _ = self.scan_matching(pattern, after, usize::MAX, visit);
    }

    /// As [`SubjectIndex::for_each_matching`], but looks at no more than `limit` subjects, matching
    /// or not.
    pub fn scan_matching(
        &self,
        pattern: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        visit: &mut dyn FnMut(SubjectId, &[u8]) -> ControlFlow<()>,
    ) -> SubjectScan {
        if has_wildcard(pattern) {
            return self.order.scan(&self.records, (pattern, after), limit, visit);
        }
        let found = self.find_literal(pattern).filter(|_| after.is_none_or(|after| after < pattern));
        match found.map(|id| visit(id, self.text(id))) {
            Some(ControlFlow::Break(())) => SubjectScan::Stopped,
            _ => SubjectScan::Done,
        }
    }

    /// How many subjects match, and how many messages they have.
    #[must_use]
    pub fn count_matching(&self, pattern: &[u8]) -> (u64, u64) {
        let summary = self.summary(pattern);
        (summary.subjects, summary.messages)
    }

    /// Counts and bounds of what matches.
    #[must_use]
    pub fn summary(&self, pattern: &[u8]) -> SubjectSummary {
        if has_wildcard(pattern) {
            return self.order.summary(&self.records, pattern);
        }
        let mut summary = SubjectSummary::default();
        if let Some(id) = self.find_literal(pattern) {
            summary.add(&self.records, id);
        }
        summary
    }

    /// Everything this index holds, texts included.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let lists = [&self.touched, &self.idle, &self.dead, &self.collected, &self.freed];
        size_of::<Self>()
            + self.records.memory_bytes()
            + self.table.memory_bytes()
            + self.order.memory_bytes()
            + lists.iter().map(|list| list.capacity() * size_of::<SubjectId>()).sum::<usize>()
    }

    /// Hash of a subject, the same as long as the index lives.
    #[must_use]
    pub fn hash(&self, text: &[u8]) -> u32 {
        (self.hasher.hash_one(text) >> 32) as u32
    }

    fn look_up(&self, hash: u32, text: &[u8]) -> Option<SubjectId> {
        self.table.find(hash, |id| self.records.text(id) == text)
    }

    fn find_literal(&self, pattern: &[u8]) -> Option<SubjectId> {
        self.find(pattern).filter(|_| matches(pattern, pattern))
    }

    fn insert(&mut self, hash: u32, text: &[u8]) -> SubjectId {
        let id = self.records.allocate(text);
        self.table.insert(hash, id);
        id
    }

    /// Writes a new state and keeps count of what has messages and what was touched.
    fn change(&mut self, id: SubjectId, (count, mut flags): (u64, u8), state: SubjectState) {
        debug_assert!(
            state.count == 0 || !state.first_exact || !state.last_exact || state.first <= state.last,
            "the first message comes before the last"
        );
        debug_assert!(
            state.count != 1 || !state.first_exact || !state.last_exact || state.first == state.last,
            "the only message is first and last"
        );
        debug_assert!(count == 0 || self.live > 0, "a subject with messages is counted");
        self.live += usize::from(count == 0 && state.count > 0);
        self.live -= usize::from(count > 0 && state.count == 0);
        // Counts that damage has made up may be any number.
        self.messages = self.messages.saturating_sub(count).saturating_add(state.count);
        if flags & flag::TOUCHED == 0 {
            flags |= flag::TOUCHED;
            self.touched.push(id);
        }
        self.write(id, state, flags);
    }

    fn write(&mut self, id: SubjectId, state: SubjectState, flags: u8) {
        let mut flags = flags & !(flag::FIRST_EXACT | flag::LAST_EXACT);
        if state.first_exact {
            flags |= flag::FIRST_EXACT;
        }
        if state.last_exact {
            flags |= flag::LAST_EXACT;
        }
        self.records.write(id, (state.count, state.first, state.last, flags));
    }

    /// The subject that was entered last is idle if it got no message.
    fn list_entered(&mut self) {
        if let Some(id) = self.entered.take()
            && self.records.count(id) == 0
        {
            self.list(id);
        }
    }

    /// Puts a subject without messages on the idle list, once. One that is touched comes there when
    /// it was taken.
    fn list(&mut self, id: SubjectId) {
        let flags = self.records.flags(id);
        debug_assert!(self.records.count(id) == 0, "a subject with messages is not forgotten");
        if flags & (flag::LISTED | flag::TOUCHED) == 0 {
            self.records.set_flags(id, flags | flag::LISTED);
            self.idle.push(id);
        }
    }

    /// Takes idle subjects out of the table.
    fn remove_idle(&mut self, left: &mut usize) {
        self.list_entered();
        while *left > 0 {
            let Some(id) = self.idle.pop() else { break };
            *left -= 1;
            let flags = self.records.flags(id);
            if self.records.count(id) > 0 || flags & flag::TOUCHED != 0 {
                self.records.set_flags(id, flags & !flag::LISTED);
            } else {
                debug_assert!(flags & flag::LISTED != 0, "what is on the list is marked");
                self.records.set_flags(id, flag::DEAD[self.parity]);
                self.table.remove(self.hash(self.records.text(id)), id);
                self.dead.push(id);
            }
        }
        give_back(&mut self.idle);
    }

    /// Whether there are enough dead subjects to go through the order for them.
    fn is_order_due(&self) -> bool {
        self.dead.len() >= FEW_DEAD.max(self.order.len() / 2)
    }

    /// Takes dead subjects out of the order, if there are enough of them to go through it.
    fn collect_some(&mut self, left: &mut usize) {
        if !self.order.is_merging_all() && self.is_order_due() {
            self.begin_collection();
        }
        if self.order.step_merge_all(left, &self.records) {
            self.freed.append(&mut self.collected);
        }
    }

    fn begin_collection(&mut self) {
        // The writer may have ended the last one.
        self.freed.append(&mut self.collected);
        self.collected = std::mem::take(&mut self.dead);
        self.order.begin_merge_all(flag::DEAD[self.parity], &self.records);
        self.parity = 1 - self.parity;
    }

    /// Gives the space of subjects back that nothing names any more.
    fn free_some(&mut self, left: &mut usize) {
        while *left > 0 {
            let Some(id) = self.freed.pop() else { break };
            *left -= 1;
            debug_assert!(self.records.count(id) == 0, "only a subject without messages is freed");
            self.records.free(id);
        }
        give_back(&mut self.freed);
    }
}

/// Lets go of the memory of an empty list.
fn give_back(ids: &mut Vec<SubjectId>) {
    if ids.is_empty() && ids.capacity() > SPARE_IDS {
        *ids = Vec::new();
    }
}

impl SubjectState {
    /// With one message both ends are the same: the exact one, or the bounds if they have met.
    fn join_ends(&mut self) {
        if self.last_exact {
            (self.first, self.first_exact) = (self.last, true);
        } else if self.first_exact || self.first == self.last {
            (self.last, self.last_exact) = (self.first, true);
            self.first_exact = true;
        }
    }
}

#[cfg(test)]
mod tests;

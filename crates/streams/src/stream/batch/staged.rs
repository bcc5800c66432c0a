//! Staged changes of an atomic batch's checked messages, for the checks of those behind them.
//!
//! The log does not know of a batch before all of it is checked; these are the checks that must
//! know. All other checks of a message are those of any message.

use hashbrown::{HashMap, HashSet};
use myelin_jsapi::ApiError;

type Map<V> = HashMap<Vec<u8>, V, foldhash::fast::RandomState>;

/// The messages of a commit that were found good so far.
///
/// Perf: subjects are remembered only if the caller says that someone will ask for them.
#[derive(Default)]
pub struct Staged {
    messages: u64,
    bytes: u64,
    ids: HashSet<Vec<u8>, foldhash::fast::RandomState>,
    /// How many messages each subject has. Subjects are those of the log: transformed.
    subjects: Option<Map<u64>>,
    /// Results of earlier look-ups for [`Staged::expect_last_of`].
    last_of: Map<u64>,
}

impl Staged {
    /// Nothing yet. `with_subjects` must be said if the stream limits messages per subject by
    /// refusing new ones, or if a message of the batch has `Nats-Expected-Last-Subject-Sequence` or
    /// `Nats-Rollup`.
    #[must_use]
    pub fn new(with_subjects: bool) -> Self {
        Self { subjects: with_subjects.then(Map::default), ..Self::default() }
    }

    /// A message has an id, which must be its own in the batch. Ids of the stream are looked up
    /// elsewhere.
    ///
    /// # Errors
    /// 10201
    pub fn expect_new_id(&mut self, id: &[u8]) -> Result<(), ApiError> {
        match self.ids.insert(id.into()) {
            true => Ok(()),
            false => Err(ApiError::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE),
        }
    }

    /// `Nats-Expected-Last-Sequence`: `last` is the stream's before the batch. Only a batch's first
    /// message may have it.
    ///
    /// # Errors
    /// 10071, and 10164 if it would be right.
    pub fn expect_last(&self, expected: u64, last: u64) -> Result<(), ApiError> {
        let last = last + self.messages;
        match (expected == last, self.messages) {
            (false, _) => Err(ApiError::stream_wrong_last_sequence(last)),
            (true, 0) => Ok(()),
            (true, _) => Err(ApiError::STREAM_WRONG_LAST_SEQUENCE_CONSTANT),
        }
    }

    /// `Nats-Expected-Last-Subject-Sequence`, for the message's subject or the one that it names.
    /// `look_up` gives the last sequence in the log, or 0.
    ///
    /// # Errors
    /// 10071, and 10164 if the batch itself writes that subject.
    pub fn expect_last_of(
        &mut self,
        subject: &[u8],
        expected: u64,
        look_up: impl FnOnce() -> u64,
    ) -> Result<(), ApiError> {
        if self.of(subject) > 0 {
            return Err(ApiError::STREAM_WRONG_LAST_SEQUENCE_CONSTANT);
        }
        let found = self.last_of.get(subject).copied();
        let last = found.unwrap_or_else(look_up);
        if last != expected {
            return Err(ApiError::stream_wrong_last_sequence(last));
        }
        if found.is_none() {
            self.last_of.insert(subject.into(), last);
        }
        Ok(())
    }

    /// `Nats-Rollup: sub` would take messages of the batch with it.
    ///
    /// # Errors
    /// 10111
    pub fn expect_rollup_of(&self, subject: &[u8]) -> Result<(), ApiError> {
        match self.of(subject) {
            0 => Ok(()),
            _ => Err(ApiError::stream_rollup_failed("batch rollup sub invalid")),
        }
    }

    /// `Nats-Rollup: all` would take messages of the batch with it.
    ///
    /// # Errors
    /// 10111
    pub fn expect_rollup_of_all(&self) -> Result<(), ApiError> {
        match self.messages {
            0 => Ok(()),
            _ => Err(ApiError::stream_rollup_failed("batch rollup all invalid")),
        }
    }

    /// A message has passed these checks. What the stream's limits say comes after this.
    pub fn add(&mut self, subject: &[u8], bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
        if let Some(subjects) = &mut self.subjects {
            *subjects.entry_ref(subject).or_insert(0) += 1;
        }
        debug_assert!(self.ids.len() as u64 <= self.messages, "a message has one id at most");
    }

    /// Messages so far.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages of a subject so far.
    #[must_use]
    pub fn of(&self, subject: &[u8]) -> u64 {
        debug_assert!(self.subjects.is_some(), "nobody said that subjects will be asked for");
        self.subjects.as_ref().and_then(|subjects| subjects.get(subject)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The reference answers batches so. Its stream ends at 3.
    const LAST: u64 = 3;

    fn code(result: Result<(), ApiError>) -> String {
        result.map_or_else(|error| format!("{} {}", error.err_code, error.description), |()| "ok".into())
    }

    #[test]
    fn only_the_first_may_expect_a_last_sequence() {
        let mut staged = Staged::new(false);
        assert_eq!(code(staged.expect_last(3, LAST)), "ok");
        assert_eq!(code(staged.expect_last(1, LAST)), "10071 wrong last sequence: 3");
        staged.add(b"s.b", 1);
        assert_eq!(code(staged.expect_last(4, LAST)), "10164 wrong last sequence");
        assert_eq!(code(staged.expect_last(3, LAST)), "10071 wrong last sequence: 4");
    }

    #[test]
    fn nobody_may_expect_anything_of_a_subject_that_the_batch_writes() {
        let mut staged = Staged::new(true);
        let never = || panic!("looked up twice");
        assert_eq!(code(staged.expect_last_of(b"s.a", 4, || 4)), "ok");
        staged.add(b"s.x", 1);
        assert_eq!(code(staged.expect_last_of(b"s.a", 4, never)), "ok");
        assert_eq!(code(staged.expect_last_of(b"s.a", 5, never)), "10071 wrong last sequence: 4");
        assert_eq!(code(staged.expect_last_of(b"s.x", 0, never)), "10164 wrong last sequence");
        staged.add(b"s.a", 1);
        assert_eq!(code(staged.expect_last_of(b"s.a", 4, never)), "10164 wrong last sequence");
        assert_eq!(code(staged.expect_last_of(b"new", 5, || 0)), "10071 wrong last sequence: 0");
    }

    #[test]
    fn a_rollup_comes_first() {
        let mut staged = Staged::new(true);
        assert_eq!(
            [code(staged.expect_rollup_of(b"s.r")), code(staged.expect_rollup_of_all())],
            ["ok", "ok"]
        );
        staged.add(b"s.r", 1);
        assert_eq!(code(staged.expect_rollup_of(b"s.r")), "10111 batch rollup sub invalid");
        assert_eq!(code(staged.expect_rollup_of(b"s.q")), "ok");
        assert_eq!(code(staged.expect_rollup_of_all()), "10111 batch rollup all invalid");
    }

    #[test]
    fn an_id_stands_once() {
        let mut staged = Staged::new(false);
        assert_eq!([code(staged.expect_new_id(b"1")), code(staged.expect_new_id(b"2"))], ["ok", "ok"]);
        let error = "10201 atomic publish batch contains duplicate message id";
        assert_eq!(code(staged.expect_new_id(b"1")), error);
    }

    #[test]
    fn messages_and_bytes_are_counted_for_limits() {
        let mut staged = Staged::new(true);
        for subject in ["a", "b", "a"] {
            staged.add(subject.as_bytes(), 10);
        }
        assert_eq!((staged.messages(), staged.bytes(), staged.of(b"a"), staged.of(b"c")), (3, 30, 2, 0));
    }
}

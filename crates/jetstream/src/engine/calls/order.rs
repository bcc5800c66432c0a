//! Order of answers: those to one connection leave in the order in which it has asked.

use myelin_broker::Account;
use myelin_wire::message_buf::MessageBuf;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Messages that a call has to say, and the account for them.
pub(super) type Answer = (Arc<Account>, MessageBuf);

/// A call, and the connection that has asked: 0 for services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallPlace {
    pub(super) number: u64,
    pub(super) conn: u64,
}

/// Answers that are ready, and those that must not overtake others.
///
/// Perf: where no call waits, nothing is kept of any.
#[derive(Default)]
pub(super) struct AnswerOrder {
    /// Calls that have not answered, and those behind them, by connection.
    lines: BTreeMap<u64, VecDeque<u64>>,
    /// Answers of those that are behind others.
    finished: BTreeMap<u64, Answer>,
    ready: VecDeque<Answer>,
}

impl AnswerOrder {
    /// A call does not answer now. Calls come in the order in which they were asked.
    pub(super) fn enter(&mut self, place: CallPlace) {
        let line = self.lines.entry(place.conn).or_default();
        debug_assert!(line.back().is_none_or(|last| *last < place.number), "calls come as they were asked");
        line.push_back(place.number);
    }

    /// A call answers that was not [entered](Self::enter).
    pub(super) fn answer_now(&mut self, place: CallPlace, answer: Answer) {
        if self.lines.contains_key(&place.conn) {
            self.enter(place);
            self.answer(place, answer);
        } else {
            self.ready.push_back(answer);
        }
    }

    /// A call answers that was [entered](Self::enter).
    pub(super) fn answer(&mut self, place: CallPlace, answer: Answer) {
        self.finished.insert(place.number, answer);
        let Some(line) = self.lines.get_mut(&place.conn) else { return };
        while let Some(answer) = line.front().and_then(|first| self.finished.remove(first)) {
            line.pop_front();
            self.ready.push_back(answer);
        }
        if line.is_empty() {
            self.lines.remove(&place.conn);
        }
    }

    /// The next answer that may leave.
    pub(super) fn next_ready(&mut self) -> Option<Answer> {
        self.ready.pop_front()
    }
}

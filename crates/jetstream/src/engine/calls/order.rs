//! Order of answers: those to one connection leave in the order in which it has asked.

use crate::engine::host::Task;
use myelin_broker::Account;
use myelin_wire::message_buf::MessageBuf;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Answer of a call.
pub(super) struct AccountAnswer {
    /// The account for its messages.
    pub(super) account: Arc<Account>,
    /// All that the call has to say.
    pub(super) out: MessageBuf,
    /// Tasks to be done when that is on its way.
    pub(super) then: Vec<Task>,
}

/// A call, and the connection that has asked: 0 for services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallPlace {
    pub(super) number: u64,
    pub(super) conn: u64,
}

/// Answers to one connection that are kept because of others before them: behind so many, a request
/// is not worked on before the first of those has answered.
const MOST_KEPT: usize = 64;

/// Answers that are ready, and those that must not overtake others.
///
/// Perf: where no call waits, nothing is kept of any.
#[derive(Default)]
pub(super) struct AnswerOrder {
    /// Calls that have not answered, and those behind them, by connection.
    lines: BTreeMap<u64, AnswerLine>,
    /// Answers of those that are behind others.
    finished: BTreeMap<u64, AccountAnswer>,
    ready: VecDeque<AccountAnswer>,
}

/// Calls of a connection whose answers wait for one that has none yet.
#[derive(Default)]
struct AnswerLine {
    numbers: VecDeque<u64>,
    /// How many of them have answered.
    kept: usize,
}

impl AnswerOrder {
    /// The call that a connection waits for, if so many answers are kept because of it that no more
    /// should be made.
    pub(super) fn holds_up(&self, conn: u64) -> Option<u64> {
        let line = self.lines.get(&conn).filter(|line| line.kept >= MOST_KEPT)?;
        line.numbers.front().copied()
    }

    /// A call does not answer now. Calls come in the order in which they were asked.
    pub(super) fn enter(&mut self, place: CallPlace) {
        let numbers = &mut self.lines.entry(place.conn).or_default().numbers;
        debug_assert!(
            numbers.back().is_none_or(|last| *last < place.number),
            "calls come as they were asked"
        );
        numbers.push_back(place.number);
    }

    /// A call answers that was not [entered](Self::enter).
    pub(super) fn answer_now(&mut self, place: CallPlace, answer: AccountAnswer) {
        if self.lines.contains_key(&place.conn) {
            self.enter(place);
            self.answer(place, answer);
        } else {
            self.ready.push_back(answer);
        }
    }

    /// A call answers that was [entered](Self::enter).
    pub(super) fn answer(&mut self, place: CallPlace, answer: AccountAnswer) {
        self.finished.insert(place.number, answer);
        let Some(line) = self.lines.get_mut(&place.conn) else { return };
        line.kept += 1;
        while let Some(answer) = line.numbers.front().and_then(|first| self.finished.remove(first)) {
            line.numbers.pop_front();
            line.kept -= 1;
            self.ready.push_back(answer);
        }
        if line.numbers.is_empty() {
            self.lines.remove(&place.conn);
        }
    }

    /// Answers that are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.lines.values().map(|line| line.kept).sum()
    }

    /// The next answer that may leave.
    pub(super) fn next_ready(&mut self) -> Option<AccountAnswer> {
        self.ready.pop_front()
    }
}

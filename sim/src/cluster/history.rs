//! Histories of one stream, and whether they are linearizable: whether all answers can be explained
//! by operations that happened one after the other, each at a moment between its question and its
//! answer.
//!
//! A stream is an append log with a number for each message, so the order of appends needs no
//! search: it is that of the numbers. Left to check is that this order fits the times at which
//! clients asked and were answered, and explains each condition, refusal, duplicate and read.

use std::collections::{BTreeMap, BTreeSet};

/// Condition of a publish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// There is none.
    #[default]
    Nothing,
    /// The last message of the stream has this sequence.
    Last(u64),
    /// The last message of the subject has this sequence; 0: there is none.
    LastOfSubject(u64),
}

/// Operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A message is published under a condition. `id` is that of all attempts to publish it.
    Publish {
        /// Condition under which it is stored.
        condition: Condition,
        /// Number that stands for its message id, if it has one.
        id: Option<u64>,
    },
    /// The last message of a subject is asked for.
    Read,
}

/// Answer that a client got, or what is known without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody knows.
    Unknown,
    /// Stored under this sequence.
    Stored(u64),
    /// A message with the same id has this sequence.
    Duplicate(u64),
    /// Refused: this is the last sequence, of the stream or of the subject.
    WrongLast(u64),
    /// Refused for another reason.
    Refused,
    /// Read: the last message of the subject has this sequence; 0: there is none.
    Read(u64),
}

/// Operation with its times, of any clock that counts all events.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Subject of the message.
    pub subject: u64,
    /// Question.
    pub action: Action,
    /// When it was first asked.
    pub asked: u64,
    /// When the answer came, if one has.
    pub answered: Option<u64>,
    /// The answer.
    pub outcome: Outcome,
}

impl Operation {
    fn seq(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Stored(seq) => Some(seq),
            _ => None,
        }
    }

    fn end(&self) -> u64 {
        self.answered.unwrap_or(u64::MAX)
    }

    fn id(&self) -> Option<u64> {
        match self.action {
            Action::Publish { id, .. } => id,
            Action::Read => None,
        }
    }

    fn condition(&self) -> Condition {
        match self.action {
            Action::Publish { condition, .. } => condition,
            Action::Read => Condition::Nothing,
        }
    }
}

/// The order of what was stored, and the earliest answers behind each place in it.
struct Order<'a> {
    /// By sequence.
    stored: BTreeMap<u64, &'a Operation>,
    /// Of the message with this sequence and all behind it: when the first was answered.
    answered_from: BTreeMap<u64, u64>,
    /// Earliest answers of one subject.
    answered_of_subject: BTreeMap<(u64, u64), u64>,
}

impl<'a> Order<'a> {
    fn of(operations: &'a [Operation]) -> Result<Self, String> {
        let mut stored = BTreeMap::new();
        for operation in operations {
            if let Some(seq) = operation.seq()
                && let Some(other) = stored.insert(seq, operation)
            {
                return Err(format!("{seq} is the sequence of two messages: {other:?} and {operation:?}"));
            }
        }
        let mut order = Self { stored, answered_from: BTreeMap::new(), answered_of_subject: BTreeMap::new() };
        let mut first = u64::MAX;
        let mut first_of: BTreeMap<u64, u64> = BTreeMap::new();
        for (&seq, operation) in order.stored.iter().rev() {
            first = first.min(operation.end());
            order.answered_from.insert(seq, first);
            let of = first_of.entry(operation.subject).or_insert(u64::MAX);
            *of = operation.end().min(*of);
            order.answered_of_subject.insert((operation.subject, seq), *of);
        }
        Ok(order)
    }

    /// When the first message behind a sequence was answered.
    fn answered_behind(&self, seq: u64) -> u64 {
        self.answered_from.range(seq + 1..).next().map_or(u64::MAX, |(_, at)| *at)
    }

    /// When the first message of a subject behind a sequence was answered.
    fn answered_behind_of(&self, subject: u64, seq: u64) -> u64 {
        let behind = self.answered_of_subject.range((subject, seq + 1)..=(subject, u64::MAX));
        behind.map(|(_, at)| *at).next().unwrap_or(u64::MAX)
    }

    /// When the message with a sequence was asked for: 0 where nobody knows whose it is.
    fn asked(&self, seq: u64) -> u64 {
        self.stored.get(&seq).map_or(0, |operation| operation.asked)
    }

    /// The last message of a subject before a sequence.
    fn last_of(&self, subject: u64, before: u64) -> u64 {
        let earlier = self.stored.range(..before).rev();
        earlier.filter(|(_, operation)| operation.subject == subject).map(|(&seq, _)| seq).next().unwrap_or(0)
    }
}

/// Facts about a history that say what can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether the outcome of each message that was stored is known, and nothing was removed.
    pub is_whole: bool,
    /// Whether the last message of a subject is removed by nothing.
    pub keeps_last: bool,
    /// Whether reads and refusals must not go by what is older than an answered write; otherwise
    /// they only must not show what is not there yet.
    pub are_answers_current: bool,
}

/// Checks the history of one stream.
///
/// # Errors
/// No order of the operations explains an answer: which one.
pub fn check(operations: &[Operation], rules: Rules) -> Result<(), String> {
    let Rules { is_whole, are_answers_current, .. } = rules;
    let order = Order::of(operations)?;
    for (&seq, operation) in &order.stored {
        if order.answered_behind(seq) < operation.asked {
            return Err(format!("{seq} was asked for behind the answer to a later one: {operation:?}"));
        }
        check_condition(&order, seq, operation, rules)?;
    }
    check_ids(operations)?;
    for operation in operations {
        let is_explained = match operation.outcome {
            Outcome::WrongLast(last) if are_answers_current => {
                is_refusal_right(&order, operation, last, is_whole)
            }
            Outcome::WrongLast(last) => {
                operation.condition() != Condition::Nothing && order.asked(last) <= operation.end()
            }
            Outcome::Read(last) if are_answers_current => {
                is_last_of_subject(&order, operation, last, is_whole)
            }
            Outcome::Read(last) => order.asked(last) <= operation.end(),
            _ => true,
        };
        if !is_explained {
            return Err(format!("there was no moment for the answer to {operation:?}"));
        }
    }
    Ok(())
}

fn check_condition(order: &Order<'_>, seq: u64, operation: &Operation, rules: Rules) -> Result<(), String> {
    let is_met = match operation.condition() {
        Condition::Nothing => true,
        Condition::Last(last) => last + 1 == seq,
        Condition::LastOfSubject(last) => {
            let found = order.last_of(operation.subject, seq);
            if rules.is_whole { found == last } else { (found <= last || !rules.keeps_last) && last < seq }
        }
    };
    if is_met { Ok(()) } else { Err(format!("{seq} was stored against its condition: {operation:?}")) }
}

/// Two messages with one id are one, and a duplicate is told the sequence of the first.
fn check_ids(operations: &[Operation]) -> Result<(), String> {
    let mut stored: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for operation in operations {
        if let (Some(id), Some(seq)) = (operation.id(), operation.seq())
            && let Some((other, _)) = stored.insert(id, (seq, operation.asked))
        {
            return Err(format!("id {id} was stored as {other} and as {seq}"));
        }
    }
    let is_missing = |id: u64| !stored.contains_key(&id);
    for operation in operations {
        let (Outcome::Duplicate(seq), Some(id)) = (operation.outcome, operation.id()) else { continue };
        let first = stored.get(&id);
        if first.is_some_and(|&(first, asked)| first != seq || asked > operation.end()) {
            return Err(format!("{operation:?} is a duplicate of {first:?}"));
        }
        // The first may have been answered to nobody; then all duplicates say the same.
        let others: BTreeSet<u64> = operations
            .iter()
            .filter(|other| other.id() == Some(id))
            .filter_map(|other| if let Outcome::Duplicate(seq) = other.outcome { Some(seq) } else { None })
            .collect();
        if is_missing(id) && others.len() > 1 {
            return Err(format!("id {id} was stored as all of {others:?}"));
        }
    }
    Ok(())
}

fn is_refusal_right(order: &Order<'_>, operation: &Operation, last: u64, is_whole: bool) -> bool {
    match operation.condition() {
        Condition::Nothing => false,
        Condition::Last(expected) => {
            expected != last
                && order.asked(last) <= operation.end()
                && order.answered_behind(last) >= operation.asked
        }
        Condition::LastOfSubject(expected) => {
            expected != last && is_last_of_subject(order, operation, last, is_whole)
        }
    }
}

/// Whether there was a moment between question and answer at which the last message of the subject
/// had this sequence.
fn is_last_of_subject(order: &Order<'_>, operation: &Operation, last: u64, is_whole: bool) -> bool {
    if !is_whole {
        return true;
    }
    let is_there = last == 0 || order.stored.get(&last).is_some_and(|one| one.subject == operation.subject);
    is_there
        && order.asked(last) <= operation.end()
        && order.answered_behind_of(operation.subject, last) >= operation.asked
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Rules = Rules { is_whole: true, keeps_last: true, are_answers_current: true };

    fn publish(condition: Condition, (asked, answered): (u64, u64), outcome: Outcome) -> Operation {
        let action = Action::Publish { condition, id: None };
        Operation { subject: 1, action, asked, answered: Some(answered), outcome }
    }

    fn stored(times: (u64, u64), seq: u64) -> Operation {
        publish(Condition::Nothing, times, Outcome::Stored(seq))
    }

    fn with_id(id: u64, times: (u64, u64), outcome: Outcome) -> Operation {
        let action = Action::Publish { condition: Condition::Nothing, id: Some(id) };
        Operation { action, ..publish(Condition::Nothing, times, outcome) }
    }

    fn read((asked, answered): (u64, u64), last: u64) -> Operation {
        let (action, outcome) = (Action::Read, Outcome::Read(last));
        Operation { subject: 1, action, asked, answered: Some(answered), outcome }
    }

    #[track_caller]
    fn is_wrong(operations: &[Operation], words: &str) {
        let why = check(operations, ALL).expect_err("it is planted");
        assert!(why.contains(words), "{why}");
    }

    #[test]
    fn what_can_be_explained_is_right() {
        let history = [
            stored((1, 10), 2),
            // At the same time, and before it in the stream.
            stored((2, 9), 1),
            publish(Condition::Last(2), (11, 12), Outcome::Stored(3)),
            publish(Condition::Last(2), (11, 13), Outcome::WrongLast(3)),
            publish(Condition::LastOfSubject(3), (14, 15), Outcome::Stored(4)),
            publish(Condition::Last(9), (14, 15), Outcome::WrongLast(3)),
            read((14, 15), 3),
            read((14, 16), 4),
            with_id(7, (17, 18), Outcome::Stored(5)),
            with_id(7, (17, 20), Outcome::Duplicate(5)),
            Operation { answered: None, ..publish(Condition::Last(5), (19, 0), Outcome::Unknown) },
        ];
        assert_eq!(check(&history, ALL), Ok(()));
    }

    #[test]
    fn two_messages_with_one_sequence_are_found() {
        is_wrong(&[stored((1, 2), 1), stored((3, 4), 1)], "two messages");
    }

    #[test]
    fn an_order_against_time_is_found() {
        is_wrong(&[stored((1, 2), 2), stored((3, 4), 1)], "behind the answer to a later one");
    }

    #[test]
    fn two_publishers_that_both_win_are_found() {
        let both = |seq| publish(Condition::Last(1), (3, 6), Outcome::Stored(seq));
        is_wrong(&[stored((1, 2), 1), both(2), both(3)], "against its condition");
        let both = |seq| publish(Condition::LastOfSubject(1), (3, 6), Outcome::Stored(seq));
        is_wrong(&[stored((1, 2), 1), both(2), both(3)], "against its condition");
    }

    #[test]
    fn a_refusal_by_what_was_not_there_is_found() {
        // The second message is asked for only after the refusal.
        let refused = publish(Condition::Last(0), (3, 4), Outcome::WrongLast(2));
        is_wrong(&[stored((1, 2), 1), refused, stored((5, 6), 2)], "no moment");
        // The second message was there already.
        let refused = publish(Condition::Last(0), (5, 6), Outcome::WrongLast(1));
        is_wrong(&[stored((1, 2), 1), stored((3, 4), 2), refused], "no moment");
        let refused = publish(Condition::Last(1), (3, 4), Outcome::WrongLast(1));
        is_wrong(&[stored((1, 2), 1), refused], "no moment");
        is_wrong(&[publish(Condition::Nothing, (3, 4), Outcome::WrongLast(0))], "no moment");
    }

    #[test]
    fn reads_of_the_past_and_of_the_future_are_found() {
        is_wrong(&[stored((1, 2), 1), stored((3, 4), 2), read((5, 6), 1)], "no moment");
        is_wrong(&[stored((1, 2), 1), read((3, 4), 0)], "no moment");
        is_wrong(&[stored((1, 2), 1), read((3, 4), 2), stored((5, 6), 2)], "no moment");
        is_wrong(&[stored((1, 2), 1), read((3, 4), 9)], "no moment");
    }

    #[test]
    fn duplicates_that_are_none_are_found() {
        let first = with_id(7, (1, 2), Outcome::Stored(1));
        is_wrong(&[first, with_id(7, (3, 4), Outcome::Stored(2))], "stored as 1 and as 2");
        is_wrong(&[first, with_id(7, (3, 4), Outcome::Duplicate(2))], "is a duplicate of");
        let later = with_id(7, (5, 6), Outcome::Stored(1));
        is_wrong(&[with_id(7, (3, 4), Outcome::Duplicate(1)), later], "is a duplicate of");
        let two = [1, 2].map(|seq| with_id(7, (3, 4), Outcome::Duplicate(seq)));
        is_wrong(&two, "all of");
    }
}

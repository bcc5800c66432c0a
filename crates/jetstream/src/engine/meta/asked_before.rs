//! Committed assignments as they come, with the requests of those that they have superseded.
//!
//! The meta stream keeps the last assignment of a stream. Of several that are committed one behind
//! the other a server that looks a moment later sees only the last one, and may be the one to
//! answer for all: so each says which requests the ones before came from.

use super::assignment::AskedBefore;
use super::{AnswerKind, Assignment, Meta};
use myelin_store::{Seq, Timestamp};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// Nanoseconds after which nobody waits for an answer any more.
const PATIENCE: Timestamp = 10_000_000_000;
/// Requests at most that an assignment says: more than are committed between two looks.
const MOST: usize = 128;

/// Assignment that was committed, whether somebody may wait for an answer, and its message where it
/// is the first one of its stream.
pub(super) type Committed = (Arc<Assignment>, bool, Option<Seq>);

impl Meta {
    /// Notes an assignment that was committed, with its message and when that was, and what is to
    /// be carried out because of it.
    pub(super) fn note_assignment(
        &self,
        (mut assignment, seq, at): (Assignment, Seq, Timestamp),
        are_answered: bool,
        changed: &mut Vec<Committed>,
    ) {
        // What is from an earlier life was answered then, or by another server: until everything is
        // here that was decided meanwhile, the time says what that is. It is another server's,
        // whose clock may differ.
        let is_current = self.leader_seen.has_been_current.load(Acquire);
        let is_of_this_life = self.groups.has_begun_before(at);
        let may_wait = |at| is_current || self.groups.has_begun_before(at);
        let is_new = are_answered && !self.was_found(seq) && may_wait(at);
        let is_first = is_new && is_of_this_life && self.is_first_look(&assignment, seq);
        let unseen: Vec<AskedBefore> = {
            let view = self.view();
            let is_unseen = |one: &&AskedBefore| is_new && may_wait(one.at) && !view.has_seen(one.nonce);
            assignment.asked_before.iter().filter(is_unseen).cloned().collect()
        };
        assignment.note_asked(at);
        if assignment.is_removed {
            // Whoever says that it is removed says it to these.
            assignment.asked_before.clone_from(&unseen);
        } else {
            changed.extend(unseen.into_iter().map(|one| (Arc::new(assignment.with_asked(one)), true, None)));
        }
        let assignment = Arc::new(assignment);
        self.view().set(&assignment, seq);
        changed.push((assignment, is_new, is_first.then_some(seq)));
    }
}

impl Assignment {
    /// Notes which request it comes from, for those that follow it. It was committed at this time.
    fn note_asked(&mut self, at: Timestamp) {
        let Self { nonce, asked, answer, asked_before, .. } = self;
        asked_before.retain(|one| one.at.saturating_add(PATIENCE) > at && one.nonce != *nonce);
        if asked.has_any() && *answer != AnswerKind::Refused {
            asked_before.push(AskedBefore { nonce: *nonce, at, asked: asked.clone(), answer: *answer });
        }
        asked_before.drain(..asked_before.len().saturating_sub(MOST));
    }

    /// The assignment as the answer to a request that one before it comes from.
    pub(super) fn with_asked(&self, before: AskedBefore) -> Self {
        let AskedBefore { asked, answer, .. } = before;
        Self { asked, answer, asked_before: Vec::new(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Asked;
    use super::*;

    #[test]
    fn requests_are_said_for_as_long_as_somebody_waits_and_not_more_than_can_wait() {
        let mut last = Assignment::sample("$G", "S");
        for nonce in 1..=200 {
            let asked = Asked { reply: format!("_INBOX.{nonce}"), ..Asked::default() };
            last = Assignment { nonce, asked, ..last };
            last.note_asked(PATIENCE);
        }
        let nonces = |of: &Assignment| of.asked_before.iter().map(|one| one.nonce).collect::<Vec<_>>();
        assert_eq!(nonces(&last), (73..=200).collect::<Vec<_>>());
        let word = |at| {
            let mut word = Assignment { nonce: 201, asked: Asked::default(), ..last.clone() };
            word.note_asked(at);
            nonces(&word).len()
        };
        assert_eq!((word(2 * PATIENCE - 1), word(2 * PATIENCE)), (MOST, 0));
    }
}

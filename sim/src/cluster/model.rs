//! Knowledge of clients of a cluster: what they asked for, and what they were told.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use myelin_jetstream::LiveStream;

use super::fast::OpenFast;
use super::history::{Action, Condition, Operation, Outcome};
use super::plan::{Kept, StreamPlan};

/// Message that a client publishes, perhaps more than once.
#[derive(Clone, Debug)]
pub(super) struct Publication {
    pub(super) payload: String,
    pub(super) subject: u64,
    pub(super) has_id: bool,
    pub(super) condition: Condition,
    /// Whether it ends by itself, and when it was sent last, in nanoseconds.
    pub(super) has_lifetime: bool,
    pub(super) time: u64,
    /// Batch that it is in.
    pub(super) batch: Option<u64>,
    /// When it was asked for first.
    pub(super) asked: u64,
    pub(super) answered: Option<u64>,
    pub(super) outcome: Outcome,
    /// Whether it was acknowledged, though not under which sequence.
    pub(super) must_be_there: bool,
}

/// Something that clients were told, and that a loss of power of all may take back.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Stored(usize),
    Seen(u64),
    Confirmed(u64),
    Deleted(u64),
    /// All below a sequence had been purged before.
    Purged(u64),
}

/// Question that was asked for the state of a stream, and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) subject: u64,
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) last: u64,
}

/// Delivery that can be answered.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) seq: u64,
    pub(super) reply: Vec<u8>,
}

/// Replica on a server, as it was seen last.
#[derive(Debug, Default)]
pub(super) struct KnownReplica {
    /// The life of the server.
    life: u64,
    live: Weak<LiveStream>,
    /// Index before which it is compared with no other one.
    until: u64,
}

impl KnownReplica {
    /// Looks at it again, when replicas have come up to the index `known`. Answers from which index
    /// on it is compared with others: one that was given the stream as a whole lacks what the giver
    /// had removed by then, which later entries remove.
    pub(super) fn see(&mut self, life: u64, live: &Arc<LiveStream>, known: u64) -> u64 {
        if self.life == life && !Weak::ptr_eq(&self.live, &Arc::downgrade(live)) {
            self.until = known;
        }
        (self.life, self.live) = (life, Arc::downgrade(live));
        self.until
    }
}

/// A stream as clients know it.
#[derive(Debug)]
pub(super) struct StreamModel {
    pub(super) plan: StreamPlan,
    pub(super) is_made: bool,
    pub(super) is_consumed: bool,
    /// Replicas that were asked for last; the plan has the least that there may be.
    pub(super) wanted: usize,
    /// Whether the last request for them was accepted.
    pub(super) is_scaled: bool,
    pub(super) publications: Vec<Publication>,
    pub(super) batches: u64,
    pub(super) looks: Vec<Look>,
    /// Payloads that were seen, by sequence.
    pub(super) seen: BTreeMap<u64, String>,
    /// Deliveries that wait to be acknowledged.
    pub(super) hands: Vec<Delivery>,
    pub(super) delivered: BTreeSet<u64>,
    /// Messages of which an acknowledgement was sent, and those of which one was confirmed, with
    /// the time of that.
    pub(super) settled: BTreeSet<u64>,
    pub(super) confirmed: BTreeMap<u64, u64>,
    /// Sequence below which a purge was asked for, and one below which all was purged.
    pub(super) purge_asked: u64,
    pub(super) purged: u64,
    pub(super) deletions: BTreeSet<u64>,
    pub(super) deleted: BTreeSet<u64>,
    /// A fast batch that goes on.
    pub(super) fast: Option<OpenFast>,
    /// Messages, the first and the last one, that replicas have at an index of their group's log.
    pub(super) states: BTreeMap<u64, (u64, u64, u64)>,
    /// The replica of each server.
    pub(super) replicas: BTreeMap<usize, KnownReplica>,
    /// With the times at which they were told.
    facts: Vec<(u64, Fact)>,
    /// Whether some of them were taken back.
    pub(super) has_lost: bool,
}

/// As much of a payload as names it: some are large.
fn beginning(payload: &str) -> &str {
    &payload[..payload.len().min(12)]
}

impl StreamModel {
    pub(super) fn new(plan: StreamPlan) -> Self {
        Self {
            wanted: plan.replicas,
            is_scaled: false,
            plan,
            is_made: false,
            is_consumed: false,
            publications: Vec::new(),
            batches: 0,
            looks: Vec::new(),
            seen: BTreeMap::new(),
            hands: Vec::new(),
            delivered: BTreeSet::new(),
            settled: BTreeSet::new(),
            confirmed: BTreeMap::new(),
            purge_asked: 0,
            purged: 0,
            deletions: BTreeSet::new(),
            deleted: BTreeSet::new(),
            fast: None,
            states: BTreeMap::new(),
            replicas: BTreeMap::new(),
            facts: Vec::new(),
            has_lost: false,
        }
    }

    /// Whether the last message of a subject stays, whatever limits there are.
    pub(super) fn keeps_last(&self) -> bool {
        let is_removed = self.purge_asked > 0 || !self.deletions.is_empty();
        self.plan.kept == Kept::Limits && !self.plan.has_lifetimes && !is_removed
    }

    /// Whether nothing is ever removed.
    pub(super) fn is_whole(&self) -> bool {
        let has_limit = self.plan.per_subject > 0 || self.plan.has_lifetimes;
        self.plan.kept == Kept::Limits && !has_limit && self.purge_asked == 0 && self.deletions.is_empty()
    }

    /// Highest sequence that a client was told.
    pub(super) fn last_told(&self) -> u64 {
        self.seen.last_key_value().map_or(0, |(seq, _)| *seq)
    }

    /// A message was seen: always the same under one sequence.
    pub(super) fn see(&mut self, seq: u64, payload: &str, now: u64) -> Result<(), String> {
        let name = &self.plan.name;
        if let Some(before) = self.seen.get(&seq) {
            let is_same = before == payload;
            let [before, payload] = [before.as_str(), payload].map(beginning);
            return if is_same {
                Ok(())
            } else {
                Err(format!("{name}: {seq} was {before:?}, and is {payload:?}"))
            };
        }
        self.seen.insert(seq, payload.to_owned());
        self.facts.push((now, Fact::Seen(seq)));
        Ok(())
    }

    /// A message was acknowledged.
    pub(super) fn stored(&mut self, name: usize, now: u64) {
        self.facts.push((now, Fact::Stored(name)));
    }

    /// Messages were acknowledged together, of which the last one's sequence is told.
    pub(super) fn all_stored(&mut self, names: &[usize], now: u64) {
        for &name in names {
            self.publications[name].must_be_there = true;
            self.stored(name, now);
        }
    }

    /// An acknowledgement was confirmed.
    pub(super) fn confirm(&mut self, seq: u64, now: u64) {
        if let Entry::Vacant(place) = self.confirmed.entry(seq) {
            place.insert(now);
            self.facts.push((now, Fact::Confirmed(seq)));
        }
    }

    /// A message was deleted.
    pub(super) fn delete(&mut self, seq: u64, now: u64) {
        if self.deleted.insert(seq) {
            self.facts.push((now, Fact::Deleted(seq)));
        }
    }

    /// All below a sequence was purged.
    pub(super) fn purge(&mut self, below: u64, now: u64) {
        self.facts.push((now, Fact::Purged(self.purged)));
        self.purged = self.purged.max(below);
    }

    /// Takes back all that was told since a time: those that knew of it have lost power.
    pub(super) fn forget_since(&mut self, time: u64) {
        self.has_lost = true;
        self.fast = None;
        // Others are given out under their indexes.
        self.states.clear();
        while let Some((_, fact)) = self.facts.pop_if(|(told, _)| *told >= time) {
            match fact {
                Fact::Stored(name) => {
                    let one = &mut self.publications[name];
                    (one.outcome, one.answered, one.must_be_there) = (Outcome::Unknown, None, false);
                }
                Fact::Seen(seq) => {
                    self.seen.remove(&seq);
                }
                Fact::Confirmed(seq) => {
                    self.confirmed.remove(&seq);
                }
                Fact::Deleted(seq) => {
                    self.deleted.remove(&seq);
                }
                Fact::Purged(before) => self.purged = before,
            }
        }
    }

    /// Whether a message may have been removed, or go at a limit, at some time.
    pub(super) fn may_go(&self, seq: u64) -> bool {
        let has_limit = self.plan.per_subject > 0 || self.plan.has_lifetimes;
        self.plan.kept != Kept::Limits || has_limit || seq < self.purge_asked || self.deletions.contains(&seq)
    }

    /// Whether nobody may miss a message any more, be it acknowledged.
    pub(super) fn may_be_gone(&self, seq: u64, subject: u64, kept: &BTreeMap<u64, u64>) -> bool {
        let is_settled = self.plan.kept != Kept::Limits && self.settled.contains(&seq);
        let per_subject = self.plan.per_subject;
        let is_limited = per_subject > 0 && {
            let later = kept.range(seq + 1..).filter(|(_, of)| **of == subject).count() as u64;
            let removed = self.deletions.range(seq + 1..).count() as u64;
            later + removed >= per_subject || (later >= 1 && seq < self.purge_asked)
        };
        is_settled || is_limited || seq < self.purge_asked || self.deletions.contains(&seq)
    }

    /// The history of the stream, with what was found in it at the end.
    pub(super) fn history(&self) -> Vec<Operation> {
        let found: BTreeMap<&str, u64> =
            self.seen.iter().map(|(seq, payload)| (payload.as_str(), *seq)).collect();
        let publishes = self.publications.iter().enumerate().map(|(number, one)| {
            let found = found.get(one.payload.as_str()).map(|seq| Outcome::Stored(*seq));
            // A copy with an id may be refused by a condition that an earlier one has met.
            let is_refused = one.has_id && matches!(one.outcome, Outcome::WrongLast(_) | Outcome::Refused);
            let is_unsure = is_refused || one.outcome == Outcome::Unknown;
            let (outcome, answered) = match found {
                Some(stored) if is_unsure => (stored, None),
                _ => (one.outcome, one.answered),
            };
            let id = one.has_id.then_some(number as u64);
            let action = Action::Publish { condition: one.condition, id };
            Operation { subject: one.subject, action, asked: one.asked, answered, outcome }
        });
        let looks = self.looks.iter().map(|look| Operation {
            subject: look.subject,
            action: Action::Read,
            asked: look.asked,
            answered: Some(look.answered),
            outcome: Outcome::Read(look.last),
        });
        publishes.chain(looks).collect()
    }
}

#[cfg(test)]
mod tests {
    use myelin_stdx::rng::Rng;

    use super::super::history::{self, Rules};
    use super::super::plan::ClusterPlan;
    use super::*;

    /// A stream to which so many messages were published, with ids.
    fn model(messages: usize) -> StreamModel {
        let plan = ClusterPlan::draw(&mut Rng::seeded(1)).streams[0].clone();
        let mut model = StreamModel::new(plan);
        model.publications = (0..messages)
            .map(|name| Publication {
                payload: format!("m{name}"),
                subject: 0,
                has_id: true,
                condition: Condition::Nothing,
                has_lifetime: false,
                time: 0,
                batch: None,
                asked: name as u64,
                answered: None,
                outcome: Outcome::Unknown,
                must_be_there: false,
            })
            .collect();
        model
    }

    #[test]
    fn all_messages_of_a_fast_batch_may_go_with_power() {
        let mut model = model(2);
        model.all_stored(&[0, 1], 7);
        assert!(model.publications.iter().all(|one| one.must_be_there));
        model.forget_since(8);
        assert!(model.publications.iter().all(|one| one.must_be_there), "it was told before");
        model.forget_since(7);
        assert!(!model.publications.iter().any(|one| one.must_be_there));
    }

    #[test]
    fn a_copy_is_refused_by_the_message_itself() {
        let mut model = model(1);
        let one = &mut model.publications[0];
        one.condition = Condition::LastOfSubject(0);
        (one.outcome, one.answered) = (Outcome::WrongLast(1), Some(9));
        let rules = Rules { is_whole: true, keeps_last: true, are_answers_current: true };
        assert!(history::check(&model.history(), rules).is_err(), "nothing is there that refuses it");
        model.see(1, "m0", 9).unwrap();
        assert_eq!(history::check(&model.history(), rules), Ok(()));
        model.publications[0].has_id = false;
        assert!(history::check(&model.history(), rules).is_err(), "it came once");
    }
}

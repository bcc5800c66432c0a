//! Knowledge of a run's clients: what was asked for, what was answered, and what a stream may and
//! must hold because of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::{Acks, ConsumerPlan, Kept, StreamLimits, StreamPlan};
use crate::publications::Publications;
use crate::tally::Tally;
use crate::world::Delivery;

/// Bytes that a message takes beyond its payload, at most.
const OVERHEAD: u64 = 400;
/// Somewhat less than the window in which streams without a limit of age know duplicates.
const DUPLICATE_WINDOW: u64 = 100_000_000_000;
/// How long a message is missing before it is gone for good.
const RETIRED: u64 = 1_000_000_000;
/// How much later than its time an old message is removed, at most.
const AGE_GRACE: u64 = 2_000_000_000;

/// Whether a stream or a consumer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Asked for, not answered.
    Making,
    There,
    /// Its removal was asked for.
    Leaving,
    Gone,
}

impl Status {
    /// Whether a server that starts may have it; `None`: it may and may not.
    pub(crate) fn is_sure(self) -> Option<bool> {
        match self {
            Self::There => Some(true),
            Self::Gone => Some(false),
            Self::Making | Self::Leaving => None,
        }
    }
}

/// Fate of a publish, as far as its publisher knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// An answer may still come.
    Asked,
    /// No answer comes any more.
    Unknown,
    Refused,
    Stored(u64),
}

/// A message that was published once. Its payload begins with its number.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) subject: String,
    pub(crate) size: u64,
    /// When it was asked for, and when it was first known to be stored: acknowledged or seen.
    pub(crate) asked: u64,
    pub(crate) stored: Option<u64>,
    pub(crate) fate: Fate,
    /// When it ends by its own lifetime, or fires as a schedule.
    pub(crate) ends: Option<u64>,
    /// Increment of a counter, and the total that somebody was told.
    pub(crate) count: (i64, Option<i64>),
    /// The message that it becomes as a schedule, and whether it is such a message.
    pub(crate) becomes: Option<u64>,
    pub(crate) is_made: bool,
    /// When its fast batch was acknowledged, which does not say its sequence.
    pub(crate) acked: Option<u64>,
    /// The messages that stand and fall with it, by their batch.
    pub(crate) batch: Option<u64>,
    /// The id by which the stream knows a message that comes twice.
    pub(crate) msg_id: Option<String>,
    /// The server's life in which it was published.
    pub(crate) life: u64,
    /// Somebody may have removed it. That is never taken back ([`Publications`] relies on it).
    pub(crate) may_go: bool,
    /// When somebody was told that it was removed.
    pub(crate) must_go: Option<u64>,
    /// When it was first found missing.
    pub(crate) missing: Option<u64>,
    /// The last of the server's lives that has ended with a loss of power which may have taken its
    /// removal: consumers and copies of that life may have passed over it.
    pub(crate) back_after: Option<u64>,
}

impl Publication {
    /// Whether it may have been removed, and be back, in a life of the server at whose end one was
    /// there that was made in another: that one may have passed over it.
    pub(crate) fn may_be_back(&self, made_in: u64) -> bool {
        self.back_after.is_some_and(|life| made_in <= life)
    }

    /// Whether nobody knows yet, or any more, what became of it.
    pub(crate) fn is_loose(&self) -> bool {
        matches!(self.fate, Fate::Asked | Fate::Unknown)
    }

    /// One of which nothing is known but that it was asked for.
    pub(crate) fn asked(subject: String, size: u64, asked: u64, life: u64) -> Self {
        Self {
            subject,
            size,
            asked,
            stored: None,
            fate: Fate::Asked,
            ends: None,
            count: (0, None),
            becomes: None,
            is_made: false,
            acked: None,
            batch: None,
            msg_id: None,
            life,
            may_go: false,
            must_go: None,
            missing: None,
            back_after: None,
        }
    }

    /// No answer says whether it is stored.
    pub(crate) fn unknown(&mut self) {
        if self.fate == Fate::Asked {
            self.fate = Fate::Unknown;
        }
    }
}

/// A consumer.
#[derive(Debug)]
pub(crate) struct ConsumerModel {
    pub(crate) plan: ConsumerPlan,
    pub(crate) status: Status,
    /// Acknowledgements that were sent, by sequence: of which delivery at most.
    pub(crate) acked: BTreeMap<u64, u64>,
    /// Messages whose acknowledgement was confirmed, by sequence.
    pub(crate) confirmed: BTreeMap<u64, Confirmation>,
    /// Messages that were delivered, and how often; 0: the server may not know of it.
    pub(crate) delivered: BTreeMap<u64, u64>,
    /// Since when it is known to be there.
    pub(crate) there_since: Option<u64>,
    /// The last one that came in this life of the server.
    pub(crate) last: u64,
    /// How many servers were there before it.
    pub(crate) made_in: u64,
    /// Since when it is paused, and until which time of day.
    pub(crate) paused: Option<(u64, i64)>,
    /// A change of its configuration that was not answered yet.
    pub(crate) update: Option<ConsumerPlan>,
}

/// Answer to an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirmation {
    /// When it came.
    pub(crate) at: u64,
    /// The turn of the server in which it came, and to which client: what another client gets in
    /// the same turn may have left before it.
    pub(crate) turn: u64,
    pub(crate) client: usize,
}

impl ConsumerModel {
    /// Notes an answer to the acknowledgement of a delivery. Compat: one of a delivery that is not
    /// younger than the last that was acknowledged with all before it is answered, and settles
    /// nothing; so is, with flow control, one of a message that the consumer has not delivered yet.
    /// Answers whether it settles the message.
    pub(crate) fn confirm(&mut self, delivery: &Delivery, confirmation: Confirmation) -> bool {
        let Delivery { seq, number, is_unsure, .. } = *delivery;
        let (is_settled, from) = match self.plan.acks {
            Acks::None => (false, seq),
            Acks::Explicit => (!(is_unsure && self.plan.has_flow_control), seq),
            Acks::All => {
                let is_late = self.acked.range(..seq).any(|(_, other)| *other >= number);
                (!is_late && !is_unsure, 0)
            }
        };
        let settled = self.delivered.range(from..=seq).filter(|_| is_settled);
        for (seq, _) in settled {
            self.confirmed.entry(*seq).or_insert(confirmation);
        }
        is_settled
    }

    /// A server has started that has it, configured with so many that may await their
    /// acknowledgement: as it was answered, or asked, for.
    pub(crate) fn has_come_back(&mut self, name: &str, max_ack_pending: i64) -> Result<(), String> {
        let is_it = |plan: &ConsumerPlan| {
            plan.acks == Acks::None || i64::try_from(plan.max_ack_pending) == Ok(max_ack_pending)
        };
        match self.update.take().filter(|update| is_it(update)) {
            Some(update) => self.plan = update,
            None if is_it(&self.plan) => {}
            None => {
                let wanted = self.plan.max_ack_pending;
                return Err(format!("{name}: it has max_ack_pending {max_ack_pending}, changed to {wanted}"));
            }
        }
        Ok(())
    }

    /// Whether a message that comes now had to stay away.
    pub(crate) fn is_settled(&self, seq: u64, turn: u64, client: usize) -> bool {
        let had = self.confirmed.get(&seq);
        had.is_some_and(|confirmed| confirmed.turn < turn || confirmed.client == client)
    }
}

/// Bit of the number of what a schedule makes, whose payload begins with the schedule's number.
pub(crate) const MADE: u64 = 1 << 60;

/// A stream.
#[derive(Debug)]
pub(crate) struct StreamModel {
    pub(crate) plan: StreamPlan,
    pub(crate) status: Status,
    /// A change of its configuration that was not answered yet.
    pub(crate) update: Option<StreamPlan>,
    /// The narrowest limits that its messages may have met.
    pub(crate) least: StreamLimits,
    pub(crate) publications: Publications,
    /// Publications that are gone for good, and such as were refused: nothing more is to be known
    /// of them, and they are many.
    pub(crate) gone: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    /// Which publication each sequence was given to. No entry changes, ever.
    pub(crate) given: BTreeMap<u64, u64>,
    pub(crate) consumers: Vec<ConsumerModel>,
    /// Purges that were not answered yet.
    pub(crate) purges: usize,
    /// When somebody was last told of a removal that was asked for.
    pub(crate) removed_at: Option<u64>,
    /// Whether its configuration has ever been changed.
    pub(crate) has_changed: bool,
    /// When it was changed, at last.
    pub(crate) changed: u64,
    /// Whether bytes of it may have been changed on the disk.
    pub(crate) is_damaged: bool,
    /// The publications that have an id, by that id.
    pub(crate) with_id: BTreeMap<String, Vec<u64>>,
    /// Numbers that the run had given out when the last server died.
    numbers: u64,
}

fn narrower(one: u64, other: u64) -> u64 {
    if one == 0 || other == 0 { one.max(other) } else { one.min(other) }
}

impl StreamModel {
    pub(crate) fn new(plan: StreamPlan) -> Self {
        let least = plan.limits;
        Self {
            plan,
            status: Status::Making,
            update: None,
            least,
            publications: Publications::default(),
            gone: BTreeSet::new(),
            refused: BTreeSet::new(),
            given: BTreeMap::new(),
            consumers: Vec::new(),
            purges: 0,
            removed_at: None,
            has_changed: false,
            changed: 0,
            is_damaged: false,
            with_id: BTreeMap::new(),
            numbers: 0,
        }
    }

    /// A sequence was seen with a publication: in an acknowledgement, a delivery, or in the stream.
    pub(crate) fn give(&mut self, seq: u64, id: u64, now: u64) -> Result<(), String> {
        let name = &self.plan.name;
        let had = *self.given.entry(seq).or_insert(id);
        if had != id {
            return Err(format!("{name}: sequence {seq} was given to message {had}, and to {id}"));
        }
        let Some(publication) = self.publications.get_mut(&id) else {
            return match (self.gone.contains(&id), self.refused.contains(&id)) {
                (true, _) => Ok(()),
                (_, true) => Err(format!("{name}: message {id} was refused, and is there as {seq}")),
                _ => Err(format!("{name}: nobody has published {id}")),
            };
        };
        match publication.fate {
            Fate::Refused => Err(format!("{name}: message {id} was refused, and is there as {seq}")),
            Fate::Stored(other) if other != seq => {
                if self.is_damaged && id & MADE != 0 {
                    // That it was made is forgotten with the damaged bytes.
                    return Ok(());
                }
                Err(format!("{name}: message {id} is there twice, as {other} and as {seq}"))
            }
            _ => {
                publication.fate = Fate::Stored(seq);
                publication.stored.get_or_insert(now);
                Ok(())
            }
        }
    }

    /// Forgets what is known of messages of which nothing more can be said.
    pub(crate) fn retire(&mut self, now: u64) {
        let is_old = |at: Option<u64>, age: u64| at.is_some_and(|at| now - at > age);
        let is_over = |one: &Publication| {
            let is_known = one.msg_id.is_some() && !is_old(one.stored, DUPLICATE_WINDOW);
            is_old(one.missing, RETIRED) && !one.is_made && one.becomes.is_none() && !is_known
        };
        let (gone, refused) = (&mut self.gone, &mut self.refused);
        self.publications.retain(|id, one| match one.fate {
            Fate::Refused if one.becomes.is_none() => {
                refused.insert(id);
                false
            }
            Fate::Stored(_) if is_over(one) => {
                gone.insert(id);
                false
            }
            _ => true,
        });
    }

    /// The limits that a change may bring.
    pub(crate) fn narrow(&mut self, limits: StreamLimits) {
        self.has_changed = true;
        let least = &mut self.least;
        least.messages = narrower(least.messages, limits.messages);
        least.per_subject = narrower(least.per_subject, limits.per_subject);
        least.bytes = narrower(least.bytes, limits.bytes);
        least.age = narrower(least.age.unsigned_abs(), limits.age.unsigned_abs()) as i64;
    }

    /// The limits are known again: what may have gone until now may stay gone.
    pub(crate) fn settle_limits(&mut self, now: u64, has_jumped: bool) {
        for id in self.over_limits(now, has_jumped) {
            if let Some(publication) = self.publications.get_mut(&id) {
                publication.may_go = true;
            }
        }
        if self.is_limited() {
            // So may those of which nobody knows whether they were stored.
            self.publications.values_mut().filter(|one| one.is_loose()).for_each(|one| one.may_go = true);
        }
        (self.least, self.changed) = (self.plan.limits, now);
    }

    /// Everything may have gone that is there now or is on its way, but for the message `except`.
    pub(crate) fn let_go(&mut self, subject: Option<&str>, except: Option<u64>) {
        let is_of = |one: &Publication| subject.is_none_or(|subject| subject == one.subject);
        self.publications.let_go(|all, id, one| {
            // Nobody may have seen what a schedule has made.
            let is_made_of = || one.becomes.and_then(|made| all.get(&made)).is_some_and(is_of);
            except != Some(id) && (is_of(one) || is_made_of())
        });
    }

    /// Everything below a sequence may have gone, and what may have one there.
    pub(crate) fn let_go_below(&mut self, seq: u64) {
        for publication in self.publications.values_mut() {
            publication.may_go |= publication.becomes.is_some();
            publication.may_go |= match publication.fate {
                Fate::Stored(other) => other < seq,
                Fate::Asked | Fate::Unknown | Fate::Refused => true,
            };
        }
    }

    /// Messages that limits may have removed, or refused to keep.
    pub(crate) fn over_limits(&self, now: u64, has_jumped: bool) -> Vec<u64> {
        if !self.is_limited() && self.publications.values().all(|one| one.ends.is_none()) {
            return Vec::new();
        }
        let (mut loose, mut stored) = (Vec::new(), Vec::new());
        // Perf: from the last one on they are almost sorted.
        for (&id, publication) in self.publications.iter().rev() {
            match publication.fate {
                Fate::Stored(seq) => stored.push((seq, id, publication)),
                Fate::Asked | Fate::Unknown => loose.push(publication),
                Fate::Refused => {}
            }
        }
        stored.sort_by_key(|(seq, ..)| std::cmp::Reverse(*seq));
        let size = |publication: &Publication| publication.size + OVERHEAD;
        let mut bytes: u64 = loose.iter().map(|publication| size(publication)).sum();
        let mut of_subject = Tally::default();
        loose.iter().for_each(|publication| *of_subject.of(&publication.subject) += 1);
        let least = self.least;
        let mut over = Vec::new();
        for (messages, (_, id, publication)) in (loose.len() as u64..).zip(stored) {
            bytes += size(publication);
            let later = of_subject.of(&publication.subject);
            let is_old = (least.age > 0
                && (has_jumped || now.saturating_sub(publication.asked) >= least.age.unsigned_abs()))
                || publication.ends.is_some_and(|ends| has_jumped || now >= ends);
            let is_over = !self.plan.refuses_new
                && ((least.messages > 0 && messages >= least.messages)
                    || (least.bytes > 0 && bytes > least.bytes));
            let evicts = !self.plan.refuses_per_subject || self.has_changed;
            if is_old || is_over || (evicts && least.per_subject > 0 && *later >= least.per_subject) {
                over.push(id);
            }
            *later += 1;
        }
        over
    }

    /// Whether messages go without an order.
    pub(crate) fn is_limited(&self) -> bool {
        let least = &self.least;
        least.messages + least.per_subject + least.bytes > 0 || least.age > 0
    }

    /// The message that makes `id` a duplicate for certain.
    pub(crate) fn duplicated(&self, id: u64, now: u64) -> Option<u64> {
        let one = self.publications.get(&id)?;
        let least = &self.least;
        if least.age > 0 || self.has_changed || self.is_damaged {
            // The window is not that of other streams.
            return None;
        }
        let has_limits =
            least.messages + least.per_subject + least.bytes > 0 || self.plan.kept != Kept::Limits;
        let is_known = |other: &Publication| {
            // It may have been stored long before anybody saw it.
            other.stored.is_some_and(|at| at < one.asked && now - other.asked < DUPLICATE_WINDOW)
                && (other.life == one.life || !(has_limits || other.may_go))
        };
        let others = self.with_id.get(one.msg_id.as_ref()?)?.iter().filter(|other| **other != id);
        others.copied().find(|other| self.publications.get(other).is_some_and(is_known))
    }

    /// Whether a message has lived too long.
    pub(crate) fn has_outlived(&self, one: &Publication, now: u64) -> bool {
        let age = self.plan.limits.age.unsigned_abs();
        let since_asked = |end: u64| end + one.stored.map_or(u64::MAX >> 2, |at| at - one.asked);
        // A schedule may fire late: where its stream has failed, or cannot be read.
        let begun = if one.is_made { since_asked(one.asked) } else { one.asked };
        (age > 0 && now > (begun + age).max(self.changed) + AGE_GRACE)
            || one.ends.is_some_and(|ends| now > since_asked(ends) + AGE_GRACE)
    }

    /// Whether a message that is published now is kept until it is acknowledged, or removed.
    pub(crate) fn keeps_new(&self, subject: &str) -> bool {
        let is_there =
            |consumer: &ConsumerModel| consumer.status == Status::There && consumer.plan.wants(subject);
        self.purges == 0 && (self.plan.kept != Kept::Interest || self.consumers.iter().any(is_there))
    }

    /// Whether a consumer that was there before a message has not been sent an acknowledgement of
    /// it.
    pub(crate) fn is_needed(&self, seq: u64, one: &Publication) -> bool {
        let needs = |consumer: &ConsumerModel| {
            consumer.status == Status::There
                && consumer.plan.wants(&one.subject)
                && consumer.there_since.is_some_and(|since| since < one.asked)
                && !consumer.acked.contains_key(&seq)
        };
        self.consumers.iter().any(needs)
    }

    pub(crate) fn consumer(&mut self, name: &str) -> Option<&mut ConsumerModel> {
        self.consumers.iter_mut().find(|consumer| consumer.plan.name == name)
    }

    /// Power is lost: what limits have just removed may be there again. Consumers may have passed
    /// over it, as over what somebody has removed: a removal is as durable as the messages of its
    /// time (docs/store.md, of a loss of power). Of a fast batch only the last sequence is told, so
    /// that the others may be among what went as long as nobody has seen them.
    pub(crate) fn lose_removals(&mut self, now: u64, has_jumped: bool, life: u64) {
        let over = self.over_limits(now, has_jumped);
        let Some(&newest) = over.iter().max() else { return };
        for (_, one) in self.publications.range_mut(0..).take_while(|(id, _)| **id <= newest) {
            if matches!(one.fate, Fate::Asked | Fate::Unknown) {
                one.back_after = Some(life);
            }
        }
        for id in over {
            self.publications.get_mut(&id).into_iter().for_each(|one| one.back_after = Some(life));
        }
    }

    /// Nobody answers any more what was asked for. `window`: what was done since then may be
    /// undone. `forgets`: how often messages came may be, too.
    /// `numbers`: how many the run had given out by then. `life`: which of the server's ends.
    pub(crate) fn server_died(&mut self, window: Option<u64>, forgets: bool, numbers: u64, life: u64) {
        let is_late = |at: Option<u64>| at.is_some_and(|at| window.is_some_and(|from| at >= from));
        // Not all that goes by such a removal has to.
        let was_removing = window.is_some() && self.purges > 0 || is_late(self.removed_at);
        self.purges = 0;
        // Perf: there are thousands, and where nothing is undone only those are concerned that the
        // last server was asked for.
        let from = window.map_or(self.numbers + 1, |_| 0);
        self.numbers = numbers;
        for (_, publication) in self.publications.range_mut(from..) {
            if publication.fate == Fate::Asked {
                publication.fate = Fate::Unknown;
            }
            publication.may_go |= is_late(publication.stored) || is_late(publication.acked);
            if publication.is_made && is_late(publication.stored) {
                // Its schedule may be there again, and make it once more.
                publication.fate = Fate::Unknown;
            }
            if is_late(publication.must_go) {
                publication.must_go = None;
                publication.back_after = Some(life);
            }
            if was_removing && publication.may_go {
                publication.back_after = Some(life);
            }
            if is_late(publication.missing) {
                publication.missing = None;
            }
        }
        for consumer in &mut self.consumers {
            consumer.last = 0;
            consumer.delivered.values_mut().filter(|_| forgets).for_each(|count| *count = 0);
            consumer.confirmed.retain(|_, one| !is_late(Some(one.at)));
        }
        if self.plan.is_in_memory {
            self.forget();
        }
    }

    /// The disk has failed, or a room has panicked: the stream knows the ids of what it still has.
    pub(crate) fn had_trouble(&mut self) {
        self.publications.values_mut().for_each(|one| one.life = 0);
    }

    /// Everything that is there is known by the disk only, and bytes of it were changed.
    pub(crate) fn damage(&mut self) {
        self.is_damaged = true;
        for publication in self.publications.values_mut() {
            (publication.must_go, publication.missing) = (None, None);
        }
    }

    /// Ends a stream in memory, with its consumers.
    fn forget(&mut self) {
        self.status = Status::Gone;
        self.forget_messages();
        self.consumers.clear();
    }

    /// The stream is gone, and nothing more comes from it: its server has ended.
    pub(crate) fn forget_messages(&mut self) {
        self.publications.clear();
        self.gone.clear();
        self.refused.clear();
        self.given.clear();
        self.with_id.clear();
        for consumer in &mut self.consumers {
            consumer.acked.clear();
            consumer.confirmed.clear();
            consumer.delivered.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use myelin_stdx::rng::Rng;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_age_of_what_a_schedule_has_made_begins_when_it_fires() {
        let mut plan = StreamPlan::draw(&mut Rng::seeded(1), "S".to_owned());
        plan.limits.age = 10 * SECOND as i64;
        let model = StreamModel::new(plan);
        let mut one = Publication::asked("S.1".to_owned(), 1, 5 * SECOND, 1);
        (one.is_made, one.stored) = (true, Some(9 * SECOND));
        assert!(!model.has_outlived(&one, 19 * SECOND + AGE_GRACE));
        assert!(model.has_outlived(&one, 19 * SECOND + AGE_GRACE + 1));
        one.is_made = false;
        assert!(model.has_outlived(&one, 15 * SECOND + AGE_GRACE + 1));
    }
}

//! Knowledge of a run's clients: what was asked for, what was answered, and what a stream may and
//! must hold because of it.

use std::collections::BTreeMap;

use crate::plan::{ConsumerPlan, Kept, StreamLimits, StreamPlan};

/// Bytes that a message takes beyond its payload, at most.
const OVERHEAD: u64 = 400;
/// Somewhat less than the window in which streams without a limit of age know duplicates.
const DUPLICATE_WINDOW: u64 = 100_000_000_000;
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
    /// The messages that stand and fall with it, by their batch.
    pub(crate) batch: Option<u64>,
    /// The id by which the stream knows a message that comes twice.
    pub(crate) msg_id: Option<String>,
    /// The server's life in which it was published.
    pub(crate) life: u64,
    /// Somebody may have removed it.
    pub(crate) may_go: bool,
    /// When somebody was told that it was removed.
    pub(crate) must_go: Option<u64>,
    /// When it was first found missing.
    pub(crate) missing: Option<u64>,
}

/// A consumer.
#[derive(Debug)]
pub(crate) struct ConsumerModel {
    pub(crate) plan: ConsumerPlan,
    pub(crate) status: Status,
    /// Acknowledgements that were confirmed, by sequence, and when that was.
    pub(crate) confirmed: BTreeMap<u64, u64>,
    /// Whoever was delivered, and how often at most.
    pub(crate) delivered: BTreeMap<u64, u64>,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct StreamModel {
    pub(crate) plan: StreamPlan,
    pub(crate) status: Status,
    /// A change of its configuration that was not answered yet.
    pub(crate) update: Option<StreamPlan>,
    /// The narrowest limits that its messages may have met.
    pub(crate) least: StreamLimits,
    pub(crate) publications: BTreeMap<u64, Publication>,
    /// Which publication each sequence was given to. No entry changes, ever.
    pub(crate) given: BTreeMap<u64, u64>,
    pub(crate) consumers: Vec<ConsumerModel>,
    /// Purges that were not answered yet.
    pub(crate) purges: usize,
    /// Whether its configuration has ever been changed.
    pub(crate) has_changed: bool,
    /// When it was changed, at last.
    pub(crate) changed: u64,
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
            publications: BTreeMap::new(),
            given: BTreeMap::new(),
            consumers: Vec::new(),
            purges: 0,
            has_changed: false,
            changed: 0,
        }
    }

    /// A sequence was seen with a publication: in an acknowledgement, a delivery, or in the stream.
    pub(crate) fn give(&mut self, seq: u64, id: u64, now: u64) -> Result<(), String> {
        let name = &self.plan.name;
        let had = *self.given.entry(seq).or_insert(id);
        if had != id {
            return Err(format!("{name}: sequence {seq} was given to message {had}, and to {id}"));
        }
        let publication = self.publications.get_mut(&id);
        let publication = publication.ok_or_else(|| format!("{name}: nobody has published {id}"))?;
        match publication.fate {
            Fate::Refused => Err(format!("{name}: message {id} was refused, and is there as {seq}")),
            Fate::Stored(other) if other != seq => {
                Err(format!("{name}: message {id} is there twice, as {other} and as {seq}"))
            }
            _ => {
                publication.fate = Fate::Stored(seq);
                publication.stored.get_or_insert(now);
                Ok(())
            }
        }
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
        let least = self.least;
        if least.messages + least.per_subject + least.bytes > 0 || least.age > 0 {
            // So may those of which nobody knows whether they were stored.
            let is_loose = |one: &Publication| matches!(one.fate, Fate::Asked | Fate::Unknown);
            self.publications.values_mut().filter(|one| is_loose(one)).for_each(|one| one.may_go = true);
        }
        (self.least, self.changed) = (self.plan.limits, now);
    }

    /// Everything may have gone that is there now or is on its way.
    pub(crate) fn let_go(&mut self, subject: Option<&str>) {
        for publication in self.publications.values_mut() {
            publication.may_go |= subject.is_none_or(|subject| subject == publication.subject);
        }
    }

    /// Messages that limits may have removed, or refused to keep.
    pub(crate) fn over_limits(&self, now: u64, has_jumped: bool) -> Vec<u64> {
        let (mut loose, mut stored) = (Vec::new(), Vec::new());
        for (&id, publication) in &self.publications {
            match publication.fate {
                Fate::Stored(seq) => stored.push((seq, id, publication)),
                Fate::Asked | Fate::Unknown => loose.push(publication),
                Fate::Refused => {}
            }
        }
        stored.sort_by_key(|(seq, ..)| std::cmp::Reverse(*seq));
        let size = |publication: &Publication| publication.size + OVERHEAD;
        let mut bytes: u64 = loose.iter().map(|publication| size(publication)).sum();
        let mut of_subject: BTreeMap<&str, u64> = BTreeMap::new();
        loose.iter().for_each(|publication| *of_subject.entry(&publication.subject).or_default() += 1);
        let least = self.least;
        let mut over = Vec::new();
        for (messages, (_, id, publication)) in (loose.len() as u64..).zip(stored) {
            bytes += size(publication);
            let later = of_subject.entry(&publication.subject).or_default();
            let is_old = least.age > 0
                && (has_jumped || now.saturating_sub(publication.asked) >= least.age.unsigned_abs());
            let is_over = !self.plan.refuses_new
                && ((least.messages > 0 && messages >= least.messages)
                    || (least.bytes > 0 && bytes > least.bytes));
            if is_old || is_over || (least.per_subject > 0 && *later >= least.per_subject) {
                over.push(id);
            }
            *later += 1;
        }
        over
    }

    /// The message that makes `id` a duplicate for certain.
    pub(crate) fn duplicated(&self, id: u64, now: u64) -> Option<u64> {
        let one = self.publications.get(&id)?;
        let least = &self.least;
        if least.age > 0 || self.has_changed {
            // The window is not that of other streams.
            return None;
        }
        let has_limits =
            least.messages + least.per_subject + least.bytes > 0 || self.plan.kept != Kept::Limits;
        let is_known = |other: &Publication| {
            other.stored.is_some_and(|at| at < one.asked && now - at < DUPLICATE_WINDOW)
                && (other.life == one.life || !(has_limits || other.may_go))
        };
        let others = self.publications.iter().filter(|(_, other)| other.msg_id == one.msg_id);
        others.filter(|(_, other)| is_known(other)).map(|(other, _)| *other).find(|other| *other != id)
    }

    /// Whether a message that was published at `asked` has lived too long.
    pub(crate) fn has_outlived(&self, asked: u64, now: u64) -> bool {
        let age = self.plan.limits.age.unsigned_abs();
        age > 0 && now > (asked + age).max(self.changed) + AGE_GRACE
    }

    /// Whether a message that is published now is kept until it is acknowledged, or removed.
    pub(crate) fn keeps_new(&self) -> bool {
        let is_there = |consumer: &ConsumerModel| consumer.status == Status::There;
        self.purges == 0 && (self.plan.kept != Kept::Interest || self.consumers.iter().any(is_there))
    }

    pub(crate) fn consumer(&mut self, name: &str) -> Option<&mut ConsumerModel> {
        self.consumers.iter_mut().find(|consumer| consumer.plan.name == name)
    }

    /// Nobody answers any more what was asked for. `window`: what was done since then may be
    /// undone.
    pub(crate) fn server_died(&mut self, window: Option<u64>) {
        self.purges = 0;
        let is_late = |at: Option<u64>| at.is_some_and(|at| window.is_some_and(|from| at >= from));
        for publication in self.publications.values_mut() {
            if publication.fate == Fate::Asked {
                publication.fate = Fate::Unknown;
            }
            publication.may_go |= is_late(publication.stored);
            if is_late(publication.must_go) {
                publication.must_go = None;
            }
            if is_late(publication.missing) {
                publication.missing = None;
            }
        }
        for consumer in &mut self.consumers {
            consumer.confirmed.retain(|_, at| !is_late(Some(*at)));
        }
        if self.plan.is_in_memory {
            self.forget();
        }
    }

    /// Ends a stream in memory, with its consumers.
    fn forget(&mut self) {
        self.status = Status::Gone;
        self.publications.clear();
        self.given.clear();
        self.consumers.clear();
    }
}

//! Promises about each consumer, and whether what is left keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use myelin_disk::faulty::Survival;
use myelin_store::Seq;
use myelin_store::consumer::{AckRules, Affected, ConsumerId, ConsumerState, Consumers, LogReport};

use crate::enumeration::Loss;

/// Everything that outlives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    name: String,
    rules: AckRules,
    config: Vec<u8>,
    state: ConsumerState,
}

/// Name of a stream, and one of its consumers.
pub(super) type Key = (&'static str, ConsumerId);
/// All consumers of a store.
pub(super) type All = BTreeMap<Key, Known>;

/// Promises of one run of the script.
#[derive(Clone, Default)]
pub(in crate::crash) struct Promises {
    pub(super) streams: BTreeSet<&'static str>,
    pub(super) consumers: BTreeMap<Key, Promise>,
    /// A recovery was cut short: what was there before it is not known.
    pub(super) is_second: bool,
}

/// Promises about one consumer.
#[derive(Clone)]
pub(super) struct Promise {
    /// `None` is not there. The newest is perhaps begun only.
    pub(super) history: Vec<Option<Known>>,
    /// Index of what survives the process.
    pub(super) released: usize,
    /// Index of what survives a loss of power.
    pub(super) durable: usize,
    /// Between two states of the history, as a recovery found it and began to write it.
    pub(super) between: Vec<Known>,
}

impl fmt::Debug for Promises {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, Promise { history, released, durable, between: _ }) in &self.consumers {
            write!(f, "\n{key:?}: {} states, released {released}, durable {durable}", history.len())?;
        }
        Ok(())
    }
}

impl Promise {
    /// There is one state only, for good.
    pub(super) fn settled(state: Option<Known>) -> Self {
        Self { history: vec![state], released: 0, durable: 0, between: Vec::new() }
    }

    pub(super) fn newest(&self) -> usize {
        self.history.len() - 1
    }

    fn least(&self, loss: Loss) -> usize {
        match loss {
            Loss::Process | Loss::ProcessOnFullDisk => self.released,
            Loss::Power(_) => self.durable,
        }
    }

    fn has(&self, found: Option<&Known>, least: usize) -> bool {
        let between = || found.is_some_and(|found| self.between.contains(found));
        self.history[least..].iter().any(|state| state.as_ref() == found) || between()
    }

    /// Whether a consumer that lost entries between others may be as `found`: set back, and never
    /// beyond what is certain.
    fn is_safe(&self, found: &Known, least: usize) -> bool {
        let begun = self.history[least..].iter().flatten();
        let pending = |seq: Seq| found.state.pending().get(seq).is_some();
        let redelivers = |seq: Seq| pending(seq) || seq > found.state.delivered().stream;
        let Some(newest) = begun.last() else { return false };
        let forgets_nothing = newest.state.pending().iter().all(|(seq, _)| redelivers(seq));
        let Some(promised) = &self.history[least] else { return forgets_nothing };
        let (last, floor) = (promised.state.delivered(), promised.state.ack_floor());
        let mut done = (1..=last.stream).filter(|seq| promised.state.pending().get(*seq).is_none());
        forgets_nothing
            && found.state.delivered().stream >= last.stream
            && found.state.delivered().consumer >= last.consumer
            && found.state.ack_floor().stream >= floor.stream
            && found.state.ack_floor().stream <= newest.state.ack_floor().stream
            && !done.any(pending)
    }
}

pub(super) fn known(consumers: &Consumers) -> BTreeMap<ConsumerId, Known> {
    let known = |consumer: &myelin_store::consumer::Consumer| Known {
        name: consumer.name().to_owned(),
        rules: consumer.rules(),
        config: consumer.config().to_owned(),
        state: consumer.state().clone(),
    };
    consumers.iter().map(|(id, consumer)| (id, known(consumer))).collect()
}

impl Promises {
    pub(super) fn keep(&mut self, newest: &BTreeMap<Key, usize>, released: bool, durable: bool) {
        for (key, at) in newest {
            let Some(promise) = self.consumers.get_mut(key) else { continue };
            if released {
                promise.released = promise.released.max(*at);
            }
            if durable {
                promise.durable = promise.durable.max(*at);
            }
        }
    }
}

/// Holds what was found of one stream against what was promised.
pub(super) fn hold(
    promises: &Promises,
    stream: &str,
    found: &BTreeMap<ConsumerId, Known>,
    report: &LogReport,
    loss: Loss,
) -> Result<(), String> {
    // A write that failed may have done any of its sectors, so they need not survive a loss of
    // power to be mixed.
    let is_mixed = promises.is_second || loss != Loss::Power(Survival::None);
    if report.missing > 0 || !report.unusable.is_empty() || (!report.bad.is_empty() && !is_mixed) {
        return Err("it is called damaged".into());
    }
    if let Some(id) = found.keys().find(|id| promises.consumers.keys().all(|(_, known)| known != *id)) {
        return Err(format!("nobody created {id:?}"));
    }
    for ((_, id), promise) in promises.consumers.iter().filter(|((name, _), _)| *name == stream) {
        let found = found.get(id);
        if promise.has(found, promise.least(loss)) {
            continue;
        }
        let is_rewound =
            report.affected.iter().any(|(other, _, how)| other == id && *how == Affected::Rewound);
        if is_mixed && is_rewound && found.is_some_and(|found| promise.is_safe(found, promise.least(loss))) {
            continue;
        }
        let at = promise.history.iter().position(|state| state.as_ref() == found);
        let wanted = &promise.history[promise.least(loss)..];
        return Err(format!("{id:?} is {found:?}, as in state {at:?}, and may be {wanted:#?}"));
    }
    Ok(())
}

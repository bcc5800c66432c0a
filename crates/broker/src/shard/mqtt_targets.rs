//! MQTT clients among the targets of a route.
//!
//! A PUBLISH has no sid, so all clients that see a subject under one topic get the same bytes: most
//! of them form one cohort, whatever their filters.

use super::cohort::{CohortId, Cohorts, SMALLEST};
use crate::subscription::Subscription;
use myelin_mqtt::sparkplug::Lifecycle;
use myelin_mqtt::topic;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Subscriptions of MQTT clients that see a subject under one name.
pub(super) struct MqttTargets {
    pub(super) subs: Vec<Arc<Subscription>>,
    /// Their connections, if these are distinct and nothing has to be asked for each message.
    pub(super) cohort: Option<CohortId>,
    /// The subject that they see.
    pub(super) subject: Box<[u8]>,
    /// Whether they get from where it is stored what MQTT clients publish with QoS 1 and 2.
    pub(super) leaves_stored: bool,
    /// Event in the life of a device that the message tells, with Sparkplug B.
    pub(super) lifecycle: Option<Lifecycle>,
}

impl MqttTargets {
    /// Sorts subscriptions into targets: the first of each connection, where they can share what
    /// they get, and the others.
    pub(super) fn of(
        subs: Vec<Arc<Subscription>>,
        subject: &[u8],
        mut cohorts: Option<&mut Cohorts>,
    ) -> Vec<Self> {
        let mut targets = Vec::new();
        let mut named: BTreeMap<(Vec<u8>, bool), Vec<Arc<Subscription>>> = BTreeMap::new();
        for sub in subs {
            let seen = match sub.import() {
                None => subject.to_vec(),
                Some(import) => import.naming().name(subject).to_vec(),
            };
            if !is_reserved(sub.original(), &seen) {
                named.entry((seen, sub.leaves_stored())).or_default().push(sub);
            }
        }
        for ((subject, leaves_stored), subs) in named {
            let mut seen = BTreeSet::new();
            let can_share =
                |sub: &Arc<Subscription>| !sub.conn().is_filtered() && seen.insert(sub.conn().slot());
            let (alike, apart): (Vec<_>, Vec<_>) = subs.into_iter().partition(can_share);
            let mut push = |subs: Vec<Arc<Subscription>>, cohort| {
                if !subs.is_empty() {
                    let (lifecycle, subject) = (Lifecycle::of_subject(&subject), subject.as_slice().into());
                    targets.push(Self { subs, cohort, subject, leaves_stored, lifecycle });
                }
            };
            let members = || alike.iter().map(|sub| Arc::clone(sub.conn())).collect();
            let cohorts = cohorts.as_deref_mut().filter(|_| alike.len() >= SMALLEST);
            let cohort = cohorts.map(|cohorts| cohorts.intern(members()));
            push(alike, cohort);
            push(apart, None);
        }
        targets
    }

    /// Bytes that they take, about.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>() + self.subject.len() + self.subs.len() * size_of::<Arc<Subscription>>()
    }
}

/// Whether a filter that begins with a wildcard leaves the subject out (MQTT-4.7.2-1).
fn is_reserved(sub: &Subscription, subject: &[u8]) -> bool {
    subject.first() == Some(&b'$') && topic::leaves_out_dollar(sub.subject())
}

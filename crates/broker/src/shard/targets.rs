//! Targets of a route: who gets a message, and the heads of the frames.

use super::cohort::{CohortId, Cohorts, SMALLEST};
use super::mqtt_targets::MqttTargets;
use crate::subscription::Subscription;
use myelin_wire::encode;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Receiver of a message in a route; one `match` in the fan-out decides.
pub(super) enum RouteTarget {
    /// One subscription.
    Client(ClientTarget),
    /// Connections that get the same bytes.
    Cohort(CohortTarget),
    /// Clients that speak MQTT.
    Mqtt(Box<MqttTargets>),
}

/// One subscription and the head of the frames that it gets.
pub(super) struct ClientTarget {
    pub(super) sub: Arc<Subscription>,
    pub(super) head: Range<u32>,
    /// Needs a look per message: a delivery limit, replies that must be remembered, or a client of
    /// MQTT in a queue group.
    pub(super) careful: bool,
}

/// Several subscriptions with one head, on distinct connections that all take headers or all do
/// not.
pub(super) struct CohortTarget {
    pub(super) cohort: CohortId,
    pub(super) subs: Vec<Arc<Subscription>>,
    pub(super) headers: bool,
    pub(super) head: Range<u32>,
}

pub(super) fn deliver_to(heads: &mut Vec<u8>, subject: &[u8], sub: Arc<Subscription>) -> ClientTarget {
    let head = match sub.import() {
        None => render_head(heads, subject, sub.sid()),
        Some(import) => render_head(heads, &import.naming().name(subject), sub.sid()),
    };
    let careful = is_careful(&sub);
    ClientTarget { sub, head, careful }
}

/// Appends a head and answers where it is.
pub(super) fn render_head(heads: &mut Vec<u8>, subject: &[u8], sid: &[u8]) -> Range<u32> {
    let start = heads.len() as u32;
    encode::head(heads, subject, sid);
    start..heads.len() as u32
}

/// Of clients that speak MQTT only members of queue groups are asked for, and these get no MSG.
pub(super) fn is_careful(sub: &Subscription) -> bool {
    sub.max() > 0
        || sub.conn().mqtt().is_some()
        || sub.conn().rights().is_some_and(|rights| rights.grants.is_some())
}

/// Key by which the frames of two subscriptions are equal: the sid, and whether headers are taken.
type FrameKey = (Box<[u8]>, bool);

/// Sorts plain subscriptions into cohorts of equal heads and the rest.
pub(super) fn share(
    (targets, heads): (&mut Vec<RouteTarget>, &mut Vec<u8>),
    subject: &[u8],
    subs: impl Iterator<Item = Arc<Subscription>>,
    cohorts: &mut Cohorts,
) {
    let mut alike: BTreeMap<FrameKey, Vec<Arc<Subscription>>> = BTreeMap::new();
    for sub in subs {
        // Shadows of one subscription have one sid and one connection.
        if is_careful(&sub) || sub.conn().is_filtered() || sub.import().is_some() {
            targets.push(RouteTarget::Client(deliver_to(heads, subject, sub)));
        } else {
            alike.entry((sub.sid().into(), sub.conn().headers())).or_default().push(sub);
        }
    }
    // A connection cannot have a sid twice, so the connections of one entry are distinct.
    for ((sid, headers), subs) in alike {
        if subs.len() < SMALLEST {
            targets.extend(subs.into_iter().map(|sub| RouteTarget::Client(deliver_to(heads, subject, sub))));
            continue;
        }
        let head = render_head(heads, subject, &sid);
        let cohort = cohorts.intern(subs.iter().map(|sub| Arc::clone(sub.conn())).collect());
        targets.push(RouteTarget::Cohort(CohortTarget { cohort, subs, headers, head }));
    }
}

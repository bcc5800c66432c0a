//! MQTT clients among the targets of a route.
//!
//! A PUBLISH has no sid, so all clients that see a subject under one topic get the same bytes: most
//! of them form one cohort, whatever their filters. Clients of MQTT 5 get other bytes, and form a
//! cohort of their own, but for those of whom each has to be [looked at](Receiver5).

use super::cohort::{CohortId, Cohorts, SMALLEST};
use crate::conn::Conn;
use crate::mqtt5_requests::INBOX_SID;
use crate::subscription::Subscription;
use myelin_mqtt::packet::SubscriptionId;
use myelin_mqtt::sparkplug::Lifecycle;
use myelin_mqtt::topic;
use smallvec::SmallVec;
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
    pub(super) form: MqttForm,
}

/// Subscriptions that see a message alike.
type Alike = Vec<Arc<Subscription>>;

/// Form of the packets that targets get.
pub(super) enum MqttForm {
    /// MQTT 3.1.1.
    Three,
    /// MQTT 5, the same for all.
    Five,
    /// MQTT 5, and each receiver has to be looked at.
    Each(Vec<Receiver5>),
}

/// A connection that gets a message in MQTT 5, for all of its subscriptions that match.
pub(super) struct Receiver5 {
    pub(super) subs: SmallVec<[Arc<Subscription>; 1]>,
    /// Numbers of the subscriptions, as far as the client has given some.
    pub(super) ids: SmallVec<[SubscriptionId; 1]>,
    /// No subscription wants what the client itself has published.
    pub(super) no_local: bool,
    /// Messages keep the retain flag that they were published with.
    pub(super) as_published: bool,
    /// Messages are answers to requests of the client.
    pub(super) is_inbox: bool,
}

impl Receiver5 {
    pub(super) fn of(subs: SmallVec<[Arc<Subscription>; 1]>) -> Self {
        let wishes = subs.iter().filter_map(|sub| Some(sub.conn().mqtt5()?.wishes(sub.sid())));
        let (mut ids, mut no_local, mut as_published) = (SmallVec::new(), !subs.is_empty(), false);
        for wish in wishes {
            ids.extend(wish.id.filter(|id| !ids.contains(id)));
            no_local &= wish.no_local;
            as_published |= wish.as_published;
        }
        let is_inbox = subs.iter().any(|sub| sub.sid() == INBOX_SID);
        Self { subs, ids, no_local, as_published, is_inbox }
    }

    pub(super) fn conn(&self) -> &Arc<Conn> {
        self.subs[0].conn()
    }

    /// Whether it gets what others get.
    fn is_like_others(&self) -> bool {
        let is_particular = self.conn().mqtt5().is_none_or(|five| five.is_particular());
        let has_wishes = self.no_local || self.as_published || !self.ids.is_empty();
        !(has_wishes || self.is_inbox || is_particular || self.conn().is_filtered())
    }
}

impl MqttTargets {
    /// Sorts subscriptions into targets: of version 3.1.1 the first of each connection, where they
    /// can share what they get, and the others; of MQTT 5 one receiver for each connection.
    pub(super) fn of(
        subs: Vec<Arc<Subscription>>,
        subject: &[u8],
        mut cohorts: Option<&mut Cohorts>,
    ) -> Vec<Self> {
        let mut targets = Vec::new();
        let mut named = BTreeMap::<(Vec<u8>, bool), [Alike; 2]>::new();
        for sub in subs {
            let seen = seen_subject(&sub, subject);
            if !is_reserved(sub.original(), &seen) {
                let speaks_5 = sub.conn().mqtt5().is_some();
                let alike = named.entry((seen, sub.leaves_stored())).or_default();
                alike[usize::from(speaks_5)].push(sub);
            }
        }
        for ((subject, leaves_stored), [three, five]) in named {
            let mut seen = BTreeSet::new();
            let can_share =
                |sub: &Arc<Subscription>| !sub.conn().is_filtered() && seen.insert(sub.conn().slot());
            let (alike, apart): (Vec<_>, Vec<_>) = three.into_iter().partition(can_share);
            let mut push = |subs: Vec<Arc<Subscription>>, is_shared: bool, form| {
                if !subs.is_empty() {
                    let cohorts = cohorts.as_deref_mut().filter(|_| is_shared && subs.len() >= SMALLEST);
                    let members = || subs.iter().map(|sub| Arc::clone(sub.conn())).collect();
                    let cohort = cohorts.map(|cohorts| cohorts.intern(members()));
                    let (lifecycle, subject) = (Lifecycle::of_subject(&subject), subject.as_slice().into());
                    targets.push(Self { subs, cohort, subject, leaves_stored, lifecycle, form });
                }
            };
            push(alike, true, MqttForm::Three);
            push(apart, false, MqttForm::Three);
            let (alike, each): (Vec<_>, Vec<_>) =
                by_connection(five).partition(|receiver| receiver.is_like_others());
            // One message for all subscriptions of a connection, so the first stands for them.
            push(
                alike.into_iter().flat_map(|receiver| receiver.subs.into_iter().next()).collect(),
                true,
                MqttForm::Five,
            );
            push(
                each.iter().flat_map(|receiver| receiver.subs.iter().cloned()).collect(),
                false,
                MqttForm::Each(each),
            );
        }
        targets
    }

    /// Bytes that they take, about.
    pub(super) fn cost(&self) -> usize {
        let each =
            if let MqttForm::Each(each) = &self.form { each.len() * size_of::<Receiver5>() } else { 0 };
        size_of::<Self>() + self.subject.len() + self.subs.len() * size_of::<Arc<Subscription>>() + each
    }
}

/// The subject under which a subscriber sees `subject`.
pub(super) fn seen_subject(sub: &Subscription, subject: &[u8]) -> Vec<u8> {
    match sub.import() {
        None => subject.to_vec(),
        Some(import) => import.naming().name(subject).to_vec(),
    }
}

/// Receivers of MQTT 5: each connection once.
fn by_connection(subs: Vec<Arc<Subscription>>) -> impl Iterator<Item = Receiver5> {
    let mut conns: BTreeMap<u32, SmallVec<[Arc<Subscription>; 1]>> = BTreeMap::new();
    for sub in subs {
        conns.entry(sub.conn().slot()).or_default().push(sub);
    }
    conns.into_values().map(Receiver5::of)
}

/// Whether a filter that begins with a wildcard leaves the subject out (MQTT-4.7.2-1).
pub(super) fn is_reserved(sub: &Subscription, subject: &[u8]) -> bool {
    subject.first() == Some(&b'$') && topic::leaves_out_dollar(sub.subject())
}

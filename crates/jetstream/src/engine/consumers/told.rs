//! What consumers tell those who listen: advisories and metrics.

use super::StreamConsumers;
use crate::advisory::consumer::{self, Delivery, Whose};
use crate::advisory::{Action, Advisory, Stamp};
use crate::consumer::config::ConsumerConfig;
use crate::consumer::{Answered, Effects, Event};
use crate::json::Moment;
use myelin_broker::{MessageBuf, MessageRef};

impl StreamConsumers {
    /// Adds advisories to what a consumer has to say.
    pub(super) fn advise(&self, name: &str, effects: &mut Effects) {
        for event in std::mem::take(&mut effects.events) {
            let until = || self.config(name).and_then(|config| config.pause_until);
            let account = self.account.name();
            let make = |stamp: Stamp<'_>, whose: Whose<'_>| advisory(stamp, account, whose, &event, &until);
            self.tell_of(name, &make, &mut effects.out);
        }
    }

    /// That a consumer was made, or is no more.
    pub(super) fn announce(&self, name: &str, action: Action, out: &mut MessageBuf) {
        self.tell_of(name, &|stamp, whose| consumer::consumer_action(stamp, whose, action), out);
    }

    /// That a consumer rests until a moment, if it does.
    pub(in crate::engine) fn tell_of_pause(&self, config: &ConsumerConfig, out: &mut MessageBuf) {
        let now = self.host.now();
        if let Some(until) = config.pause_until.filter(|until| until.timestamp() > now) {
            self.tell_of(&config.name, &|stamp, whose| consumer::paused(stamp, whose, Some(until)), out);
        }
    }

    fn tell_of(&self, name: &str, make: &dyn Fn(Stamp<'_>, Whose<'_>) -> Advisory, out: &mut MessageBuf) {
        let (id, time) = (self.host.unique_id(), self.host.now());
        let stamp = Stamp { id: &id, time, domain: &self.domain };
        let advisory = make(stamp, Whose { stream: &self.stream, consumer: name });
        let subject = advisory.subject.as_bytes();
        if self.account.has_interest(subject) {
            out.push(MessageRef { subject, payload: &advisory.body, ..MessageRef::default() });
        }
    }
}

fn advisory(
    stamp: Stamp<'_>,
    account: &str,
    whose: Whose<'_>,
    event: &Event,
    until: &dyn Fn() -> Option<Moment>,
) -> Advisory {
    match event {
        Event::MaxDeliveries { seq, deliveries } => consumer::max_deliveries(stamp, whose, *seq, *deliveries),
        Event::Nak(answered) => consumer::message_naked(stamp, whose, delivery(answered)),
        Event::Terminated(answered, reason) => {
            consumer::message_terminated(stamp, whose, delivery(answered), reason)
        }
        Event::Acknowledged(answered, delivered) => {
            consumer::acknowledged(stamp, whose, delivery(answered), *delivered)
        }
        Event::Pinned { group, id } => consumer::group_pinned(stamp, account, whose, group, id),
        Event::Unpinned { group, reason } => consumer::group_unpinned(stamp, account, whose, group, *reason),
        Event::Pause => consumer::paused(stamp, whose, until()),
    }
}

fn delivery(answered: &Answered) -> Delivery {
    Delivery { consumer_seq: answered.delivery.0, stream_seq: answered.seq, deliveries: answered.deliveries }
}

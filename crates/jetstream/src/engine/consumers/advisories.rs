//! Advisories and metrics of consumers.

use super::StreamConsumers;
use myelin_broker::Level;
use myelin_jsapi::advisory::consumer::{self, ConsumerRef, DeliveryInfo};
use myelin_jsapi::advisory::{Action, Advisory, AdvisoryHeader};
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_jsapi::json::Moment;
use myelin_streams::consumer::{AckedDelivery, ConsumerEvent, DeadLetterNews, Effects};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

impl StreamConsumers {
    /// Adds advisories to what a consumer has to say.
    pub(super) fn add_advisories(&self, name: &str, effects: &mut Effects) {
        for event in std::mem::take(&mut effects.events) {
            if let ConsumerEvent::DeadLetters(news) = &event {
                self.log_dead_letters(name, news);
            }
            let until = || self.config(name).and_then(|config| config.pause_until);
            let account = self.account.name();
            let make = |header: AdvisoryHeader<'_>, consumer_ref: ConsumerRef<'_>| {
                advisory(header, account, consumer_ref, &event, &until)
            };
            self.add_advisory(name, &make, &mut effects.out);
        }
    }

    fn log_dead_letters(&self, name: &str, news: &DeadLetterNews) {
        let consumer =
            format_args!("JetStream consumer '{} > {} > {name}'", self.account.name(), self.stream);
        match news {
            DeadLetterNews::Refused { stream, why } => self.host.log(
                Level::Warn,
                format_args!(
                    "{consumer}: stream '{stream}' does not take its dead letters: {why}. They stay where \
                     they are, and are tried again"
                ),
            ),
            DeadLetterNews::Taken { stream } => self
                .host
                .log(Level::Info, format_args!("{consumer}: stream '{stream}' takes its dead letters again")),
        }
    }

    /// Tells that a consumer was made, or is no more.
    pub(super) fn add_action_advisory(&self, name: &str, action: Action, out: &mut MessageBuf) {
        self.add_advisory(
            name,
            &|header, consumer_ref| consumer::consumer_action(header, consumer_ref, action),
            out,
        );
    }

    /// Tells that a consumer rests until a moment, if it does.
    pub(in crate::engine) fn add_pause_advisory(&self, config: &ConsumerConfig, out: &mut MessageBuf) {
        let now = self.host.now();
        if let Some(until) = config.pause_until.filter(|until| until.timestamp() > now) {
            self.add_advisory(
                &config.name,
                &|header, consumer_ref| consumer::paused(header, consumer_ref, Some(until)),
                out,
            );
        }
    }

    fn add_advisory(
        &self,
        name: &str,
        make: &dyn Fn(AdvisoryHeader<'_>, ConsumerRef<'_>) -> Advisory,
        out: &mut MessageBuf,
    ) {
        let (id, time) = (self.host.unique_id(), self.host.now());
        let header = AdvisoryHeader { id: &id, time, domain: &self.domain };
        let advisory = make(header, ConsumerRef { stream: &self.stream, consumer: name });
        let subject = advisory.subject.as_bytes();
        if self.account.has_interest(subject) {
            out.push(MessageRef { subject, payload: &advisory.body, ..MessageRef::default() });
        }
    }
}

fn advisory(
    header: AdvisoryHeader<'_>,
    account: &str,
    consumer_ref: ConsumerRef<'_>,
    event: &ConsumerEvent,
    until: &dyn Fn() -> Option<Moment>,
) -> Advisory {
    match event {
        ConsumerEvent::MaxDeliveries { seq, deliveries } => {
            consumer::max_deliveries(header, consumer_ref, *seq, *deliveries)
        }
        ConsumerEvent::Nak(answered) => consumer::message_naked(header, consumer_ref, delivery(answered)),
        ConsumerEvent::Terminated(answered, reason) => {
            consumer::message_terminated(header, consumer_ref, delivery(answered), reason)
        }
        ConsumerEvent::Acknowledged(answered, delivered) => {
            consumer::acknowledged(header, consumer_ref, delivery(answered), *delivered)
        }
        ConsumerEvent::Pinned { group, id } => {
            consumer::group_pinned(header, account, consumer_ref, group, id)
        }
        ConsumerEvent::Unpinned { group, reason } => {
            consumer::group_unpinned(header, account, consumer_ref, group, *reason)
        }
        ConsumerEvent::Pause => consumer::paused(header, consumer_ref, until()),
        ConsumerEvent::DeadLetters(DeadLetterNews::Refused { stream, why }) => {
            consumer::dead_letters(header, consumer_ref, stream, Some(why))
        }
        ConsumerEvent::DeadLetters(DeadLetterNews::Taken { stream }) => {
            consumer::dead_letters(header, consumer_ref, stream, None)
        }
    }
}

fn delivery(answered: &AckedDelivery) -> DeliveryInfo {
    DeliveryInfo {
        consumer_seq: answered.delivery.0,
        stream_seq: answered.seq,
        deliveries: answered.deliveries,
    }
}

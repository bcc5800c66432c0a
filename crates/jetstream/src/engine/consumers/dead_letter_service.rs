//! Where a stream answers to the dead letters of a consumer of another one.
//!
//! Only consumers that have dead letters receive here, on a subject of their own.

use super::live::ConsumerWork;
use super::{LiveConsumer, StreamConsumers};
use myelin_broker::{Level, Service, ServiceBatch, ServiceShard};
use myelin_jsapi::consumer::DeadLetterPolicy;
use myelin_streams::consumer::dead_letter_replies;
use std::sync::{Arc, Weak};

/// Service that receives the answers to the dead letters of one consumer.
struct DeadLetterService(Weak<LiveConsumer>);

impl Service for DeadLetterService {
    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        if let Some(consumer) = self.0.upgrade() {
            consumer.submit(ConsumerWork::DeadLetters(std::mem::take(&mut msgs.msgs)), shard);
        }
    }
}

impl StreamConsumers {
    /// Where a consumer hears of its dead letters, if it has any, and by which service. An operator
    /// is told of metadata that cannot be followed: who made the consumer elsewhere was not.
    pub(super) fn dead_letter_answers(
        &self,
        name: &str,
        consumer: &Weak<LiveConsumer>,
    ) -> Option<(String, Arc<dyn Service>)> {
        let policy = DeadLetterPolicy::read(&*self.config(name)?).unwrap_or_else(|why| {
            let consumer = format_args!("'{} > {} > {name}'", self.account.name(), self.stream);
            let what = format_args!("JetStream consumer {consumer} moves no dead letters: {why}");
            self.host.log(Level::Warn, what);
            None
        });
        policy?;
        let subject = format!("{}.>", dead_letter_replies(&self.stream, name));
        Some((subject, Arc::new(DeadLetterService(Weak::clone(consumer)))))
    }
}

//! Where clients answer to what consumers of one stream have delivered: acknowledgements and
//! answers to flow control.
//!
//! One service for all consumers of a stream, so that making a consumer does not touch the index of
//! interest. What would reach nobody if each had its own (the consumer is no more, or wants no
//! acknowledgements) is answered as if it had not.

use super::StreamConsumers;
use super::live::ConsumerWork;
use myelin_broker::{Service, ServiceBatch, ServiceShard};
use myelin_jsapi::consumer::config::AckPolicy;
use myelin_streams::consumer::AckSubject;
use myelin_wire::message_buf::MessageBuf;
use std::sync::{Arc, Weak};

/// Service that receives acknowledgements and answers to flow control for all consumers of one
/// stream.
pub(super) struct AckService(Weak<StreamConsumers>);

impl AckService {
    pub(super) fn to(consumers: &Weak<StreamConsumers>) -> Arc<dyn Service> {
        Arc::new(Self(Weak::clone(consumers)))
    }
}

/// Consumer that the message is for, and whether it is an answer to flow control.
fn address(subject: &[u8]) -> Option<(&[u8], bool)> {
    if let Some(rest) = subject.strip_prefix(b"$JS.FC.") {
        return rest.split(|byte| *byte == b'.').nth(1).map(|name| (name, true));
    }
    AckSubject::consumer(subject).map(|name| (name, false))
}

impl Service for AckService {
    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        let Some(consumers) = self.0.upgrade() else { return };
        // Mostly they are all for one: then nothing is copied.
        let mut first = None;
        let (mut is_one, mut wants_answers) = (true, false);
        for msg in msgs.iter() {
            let whose = address(msg.subject);
            is_one &= *first.get_or_insert(whose) == whose;
            wants_answers |= !msg.reply.is_empty();
        }
        let Some(first) = first else { return };
        if wants_answers {
            consumers.reply_no_responders(msgs, shard);
        }
        if is_one {
            let Some((name, is_flow)) = first else { return };
            let Some(consumer) = std::str::from_utf8(name).ok().and_then(|name| consumers.find(name)) else {
                return;
            };
            let all = std::mem::take(&mut msgs.msgs);
            return consumer
                .submit(if is_flow { ConsumerWork::Flow(all) } else { ConsumerWork::Acks(all) }, shard);
        }
        for (consumer, is_flow, outbox) in sort(&consumers, msgs) {
            consumer
                .submit(if is_flow { ConsumerWork::Flow(outbox) } else { ConsumerWork::Acks(outbox) }, shard);
        }
    }

    fn wants_origin(&self) -> bool {
        true
    }
}

impl StreamConsumers {
    /// Whether a consumer takes acknowledgements on this subject: it is there, is not about to end,
    /// and wants some.
    pub(in crate::engine) fn takes_acks_on(&self, subject: &[u8]) -> bool {
        let name = address(subject).and_then(|(name, _)| std::str::from_utf8(name).ok());
        let config = name.filter(|name| self.read().contains_key(*name)).and_then(|name| self.config(name));
        config.is_some_and(|config| !matches!(config.ack_policy, AckPolicy::None | AckPolicy::FlowControl))
    }

    /// Tells those who want to know that their acknowledgement was one to nobody.
    fn reply_no_responders(&self, msgs: &ServiceBatch, shard: &mut ServiceShard) {
        for (at, msg) in msgs.iter().enumerate() {
            if !msg.reply.is_empty()
                && !self.takes_acks_on(msg.subject)
                && let Some(origin) = msgs.origin(at)
            {
                shard.send_no_responders(&self.account, origin, &msg, self.host.instant());
            }
        }
    }
}

/// The messages of each consumer, in order. Those to nobody are dropped, as if nobody had received
/// them.
fn sort(consumers: &StreamConsumers, msgs: &MessageBuf) -> Vec<(Arc<super::LiveConsumer>, bool, MessageBuf)> {
    let mut sorted: Vec<(Arc<super::LiveConsumer>, bool, MessageBuf)> = Vec::new();
    for msg in msgs.iter() {
        let Some((name, is_flow)) = address(msg.subject) else { continue };
        let known = sorted
            .iter()
            .position(|(consumer, flow, _)| consumer.name().as_bytes() == name && *flow == is_flow);
        let at = match known {
            Some(at) => at,
            None => {
                let found = std::str::from_utf8(name).ok().and_then(|name| consumers.find(name));
                let Some(consumer) = found else { continue };
                sorted.push((consumer, is_flow, MessageBuf::default()));
                sorted.len() - 1
            }
        };
        sorted[at].2.push(msg);
    }
    sorted
}

//! Rules for the consumers of a work queue: each message is for one of them.

use super::limits::public;
use super::{AckPolicy, CheckContext, ConsumerConfig, DeliverPolicy, OtherConsumers};
use crate::config::Retention;
use crate::error::ApiError;
use myelin_subject::overlaps;

/// Rules for a new consumer.
pub(super) fn check_new(config: &ConsumerConfig, context: &CheckContext<'_>) -> Result<(), ApiError> {
    if context.stream.retention != Retention::WorkQueue || config.is_internal() {
        return Ok(());
    }
    if !matches!(config.ack_policy, AckPolicy::Explicit | AckPolicy::FlowControl) {
        return Err(ApiError::CONSUMER_WQ_REQUIRES_EXPLICIT_ACK);
    }
    if config.deliver_policy != DeliverPolicy::All {
        return Err(ApiError::CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL);
    }
    if public(context.consumers, |_| true) == 0 {
        return Ok(());
    }
    if config.filters().next().is_none() {
        return Err(ApiError::CONSUMER_WQ_MULTIPLE_UNFILTERED);
    }
    check_unique(config, context.consumers)
}

/// Rules for a changed one. Compat: one that gives up its filters is let through, whatever others
/// there are.
pub(super) fn check_changed(config: &ConsumerConfig, context: &CheckContext<'_>) -> Result<(), ApiError> {
    if context.stream.retention != Retention::WorkQueue {
        return Ok(());
    }
    check_unique(config, context.consumers)
}

/// Whether no other consumer wants any of what `config`'s filters say.
fn check_unique(config: &ConsumerConfig, consumers: &dyn OtherConsumers) -> Result<(), ApiError> {
    let mut unique = true;
    consumers.each(&mut |other| {
        let counts = !other.is_internal() && other.consumer_name() != config.consumer_name();
        unique = !counts || !collide(config, other);
        unique
    });
    if unique { Ok(()) } else { Err(ApiError::CONSUMER_WQ_CONSUMER_NOT_UNIQUE) }
}

fn collide(config: &ConsumerConfig, other: &ConsumerConfig) -> bool {
    let others = |filter: &str| {
        let mut theirs = other.filters().peekable();
        theirs.peek().is_none() || theirs.any(|their| overlaps(filter.as_bytes(), their.as_bytes()))
    };
    config.filters().any(others)
}

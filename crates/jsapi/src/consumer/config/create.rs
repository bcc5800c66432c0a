//! A request to create or change a consumer: what becomes of it, all checks in the reference's
//! order.

use super::check::check;
use super::defaults::{fill, fill_inactive_threshold};
use super::level::{adopt_required, set_required};
use super::update::check_changes;
use super::{AckPolicy, Action, CheckContext, ConsumerConfig, MatchedRequest, workqueue};
use crate::config::Retention;
use crate::error::ApiError;

const MAX_NAME: usize = 255;

/// Result of a request to create or update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// There is no such consumer yet; this is its configuration, with a name.
    New(Box<ConsumerConfig>),
    /// There is one of this name, which gets this configuration: perhaps the one that it has.
    Changed(Box<ConsumerConfig>),
}

impl Created {
    /// The configuration to keep.
    #[must_use]
    pub fn config(&self) -> &ConsumerConfig {
        match self {
            Self::New(config) | Self::Changed(config) => config,
        }
    }
}

/// Decides about a request. `new_name` gives a random name of eight alphanumeric characters.
///
/// Who applies it must know: both ways are answered alike, but only for a new consumer is its
/// creation announced. An advisory about a pause follows the answer when `pause_until` lies ahead.
///
/// # Errors
/// The first of the reference's reasons.
pub fn create(
    wanted: MatchedRequest,
    context: &CheckContext<'_>,
    new_name: &mut dyn FnMut() -> String,
) -> Result<Created, ApiError> {
    let MatchedRequest { mut config, action, pedantic } = wanted;
    let is_copy = config.direct && config.sourcing;
    adjust_sourcing(&mut config, context, new_name);
    let existing = context.consumers.find(&config.name).filter(|_| !config.name.is_empty());
    if let Some(existing) = &existing {
        keep(&mut config, existing);
        // A stream that copies this one, perhaps of another server than before, says whose it is.
        config.is_own |= existing.is_own && !is_copy;
    }
    set_required(&mut config);
    fill(&mut config, context.stream, context.limits, pedantic)?;
    check(&config, context.stream, context.limits)?;
    match existing {
        Some(existing) => change(config, &existing, action, context),
        None if action == Action::Update => Err(ApiError::CONSUMER_DOES_NOT_EXIST),
        None => create_new(config, context, new_name),
    }
}

/// A consumer through which another stream reads this one. Where messages go when they are
/// acknowledged it becomes a durable one; elsewhere each has a name of its own, since the other
/// stream always asks with the same.
fn adjust_sourcing(
    config: &mut ConsumerConfig,
    context: &CheckContext<'_>,
    new_name: &mut dyn FnMut() -> String,
) {
    if !config.direct || !config.sourcing || config.name.is_empty() {
        return;
    }
    if context.stream.retention == Retention::Limits {
        config.name = format!("{}-{}", config.name, new_name());
        return;
    }
    config.direct = false;
    config.durable_name.clone_from(&config.name);
    config.ack_policy = AckPolicy::FlowControl;
    config.ack_wait = 0;
    config.max_deliver = 0;
    config.inactive_threshold = 0;
}

/// Keeps settings that a request of this kind can not change, and is not refused for.
fn keep(config: &mut ConsumerConfig, existing: &ConsumerConfig) {
    config.pause_until = existing.pause_until;
    config.places = existing.places;
    if config.sourcing && config.is_durable() {
        config.deliver_policy = existing.deliver_policy;
        config.opt_start_seq = existing.opt_start_seq;
        config.opt_start_time = existing.opt_start_time;
    }
}

fn change(
    mut config: ConsumerConfig,
    existing: &ConsumerConfig,
    action: Action,
    context: &CheckContext<'_>,
) -> Result<Created, ApiError> {
    if action == Action::Create {
        adopt_required(&mut config, existing);
        // Compat: what only creation fills in, the threshold of one that is not durable, counts as
        // a difference here.
        if config != *existing {
            return Err(ApiError::CONSUMER_ALREADY_EXISTS);
        }
    }
    workqueue::check_changed(&config, context)?;
    check_changes(existing, &config, context.has_interest)?;
    config.pause_until = config.pause_until.map(|until| until.utc());
    if config.inactive_threshold != existing.inactive_threshold {
        fill_inactive_threshold(&mut config);
    }
    Ok(Created::Changed(Box::new(config)))
}

fn create_new(
    mut config: ConsumerConfig,
    context: &CheckContext<'_>,
    new_name: &mut dyn FnMut() -> String,
) -> Result<Created, ApiError> {
    if !config.is_internal() {
        context.limits.check_count(&config, context.stream, context.consumers)?;
    }
    workqueue::check_new(&config, context)?;
    if config.durable_name.len() > MAX_NAME {
        return Err(ApiError::consumer_name_too_long(MAX_NAME));
    }
    // Compat: others go as far as the file system lets them, which is no further.
    if config.name.len() > MAX_NAME && !config.direct {
        return Err(ApiError::consumer_create("error creating store for consumer"));
    }
    config.is_unnamed = config.name.is_empty();
    while config.name.is_empty() {
        let name = new_name();
        if context.consumers.find(&name).is_none() {
            config.name = name;
        }
    }
    fill_inactive_threshold(&mut config);
    Ok(Created::New(Box::new(config)))
}

//! Defaults of a consumer's configuration, in the reference's order.
//!
//! Pedantic clients are told instead, of the first of what would be adjusted; the texts are the
//! reference's.

use super::{AckPolicy, ConsumerConfig, ConsumerConfigLimits, PriorityPolicy};
use crate::config::StreamConfig;
use crate::error::ApiError;

const SECOND: i64 = 1_000_000_000;
const ACK_WAIT: i64 = 30 * SECOND;
const MAX_ACK_PENDING: i64 = 1_000;
const MAX_WAITING: i64 = 512;
const PINNED: i64 = 120 * SECOND;
/// How long a consumer that is not durable stays when nobody uses it.
const INACTIVE_THRESHOLD: i64 = 5 * SECOND;
/// The only heartbeat that goes with acknowledgement by flow control.
pub(super) const FLOW_CONTROL_HEARTBEAT: i64 = SECOND;

pub(super) fn fill(
    config: &mut ConsumerConfig,
    stream: &StreamConfig,
    limits: &ConsumerConfigLimits,
    pedantic: bool,
) -> Result<(), ApiError> {
    let defaults = Defaults { pedantic };
    defaults.negative(config)?;
    if !config.is_push() && config.max_waiting == 0 {
        config.max_waiting = MAX_WAITING;
    }
    let waits = matches!(config.ack_policy, AckPolicy::Explicit | AckPolicy::All);
    if config.ack_wait == 0 && waits {
        config.ack_wait = ACK_WAIT;
    }
    defaults.backoff(config)?;
    defaults.take_from_stream(config, stream)?;
    if config.max_ack_pending == 0 && config.ack_policy != AckPolicy::None {
        config.max_ack_pending = limits.default_ack_pending(config, stream, MAX_ACK_PENDING);
    }
    defaults.batch(config, limits.server.max_request_batch)?;
    if config.priority_policy == PriorityPolicy::PinnedClient && config.priority_timeout == 0 {
        config.priority_timeout = PINNED;
    }
    // Compat: the pedantic must say themselves what is needed, and are told by the checks.
    if config.ack_policy == AckPolicy::FlowControl && !pedantic {
        config.flow_control = true;
        config.idle_heartbeat = FLOW_CONTROL_HEARTBEAT;
    }
    Ok(())
}

/// A consumer that is not durable goes some time after its last use.
pub(super) fn fill_inactive_threshold(config: &mut ConsumerConfig) {
    if !config.is_durable() && config.inactive_threshold <= 0 {
        config.inactive_threshold = INACTIVE_THRESHOLD;
    }
}

struct Defaults {
    pedantic: bool,
}

impl Defaults {
    /// Something is about to be adjusted.
    fn adjust(&self, complaint: &str) -> Result<(), ApiError> {
        if self.pedantic { Err(ApiError::pedantic(complaint)) } else { Ok(()) }
    }

    /// Numbers below what means none.
    fn negative(&self, config: &mut ConsumerConfig) -> Result<(), ApiError> {
        let fields = [
            (&mut config.max_deliver, -1, "max_deliver must be set to -1"),
            (&mut config.max_waiting, 0, "max_waiting must not be negative"),
            (&mut config.max_ack_pending, -1, "max_ack_pending must be set to -1"),
            (&mut config.max_batch, 0, "max_batch must not be negative"),
            (&mut config.max_expires, 0, "max_expires must not be negative"),
            (&mut config.max_bytes, 0, "max_bytes must not be negative"),
            (&mut config.idle_heartbeat, 0, "idle_heartbeat must not be negative"),
            (&mut config.inactive_threshold, 0, "inactive_threshold must not be negative"),
            (&mut config.priority_timeout, 0, "priority_timeout must not be negative"),
        ];
        for (field, lowest, complaint) in fields {
            if *field < lowest {
                self.adjust(complaint)?;
                *field = lowest;
            }
        }
        if config.max_deliver == 0 {
            config.max_deliver = -1;
        }
        Ok(())
    }

    /// The first pause takes the place of the time to wait.
    fn backoff(&self, config: &mut ConsumerConfig) -> Result<(), ApiError> {
        let Some(&first) = config.backoff.first() else { return Ok(()) };
        if config.ack_wait != first {
            self.adjust("first backoff value has to equal batch AckWait")?;
        }
        config.ack_wait = first;
        Ok(())
    }

    fn take_from_stream(&self, config: &mut ConsumerConfig, stream: &StreamConfig) -> Result<(), ApiError> {
        let given = &stream.consumer_limits;
        if config.max_ack_pending == 0 {
            if given.max_ack_pending > 0 {
                self.adjust("max_ack_pending must be set if it's configured in stream limits")?;
            }
            config.max_ack_pending = given.max_ack_pending;
        }
        if config.inactive_threshold == 0 {
            if given.inactive_threshold > 0 {
                self.adjust("inactive_threshold must be set if it's configured in stream limits")?;
            }
            config.inactive_threshold = given.inactive_threshold;
        }
        Ok(())
    }

    fn batch(&self, config: &mut ConsumerConfig, limit: i64) -> Result<(), ApiError> {
        if config.is_push() || config.max_batch != 0 || limit <= 0 {
            return Ok(());
        }
        self.adjust("max_request_batch must be set if it's JetStream limits are set")?;
        config.max_batch = limit;
        Ok(())
    }
}

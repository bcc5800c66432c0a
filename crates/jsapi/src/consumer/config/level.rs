//! The API level that a consumer needs, and the versions that are shown with it.

use super::{AckPolicy, ConsumerConfig, PriorityPolicy};
use crate::config::{adopt_level, is_level_supported, set_level, show_versions};

/// Writes the level that `config` needs into its metadata and takes out what only answers may
/// carry.
pub(super) fn set_required(config: &mut ConsumerConfig) {
    let pauses = config.pause_until.is_some_and(|until| !until.is_zero());
    let has_priorities = config.priority_policy != PriorityPolicy::None
        || config.priority_timeout != 0
        || !config.priority_groups.is_empty();
    let needs = [(config.ack_policy == AckPolicy::FlowControl, 4), (pauses || has_priorities, 1)];
    set_level(&mut config.metadata, &needs);
}

/// Takes over the level from `previous`, so that a comparison of the two leaves versions aside.
pub(super) fn adopt_required(config: &mut ConsumerConfig, previous: &ConsumerConfig) {
    adopt_level(&mut config.metadata, &previous.metadata);
}

/// `config` as answers about one consumer show it: with the version and the level of this server.
/// Lists show it as it is.
#[must_use]
pub fn with_versions(config: &ConsumerConfig) -> ConsumerConfig {
    let mut shown = config.clone();
    show_versions(&mut shown.metadata);
    shown
}

/// Whether this server can run a consumer with this configuration: one that a later version has
/// written may need more.
#[must_use]
pub fn is_supported(config: &ConsumerConfig) -> bool {
    is_level_supported(&config.metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Moment;

    #[test]
    fn the_highest_need_counts() {
        let level = |config: ConsumerConfig| {
            let mut config = config;
            set_required(&mut config);
            config.metadata["_nats.req.level"].clone()
        };
        let plain = ConsumerConfig::default();
        assert_eq!(level(plain.clone()), "0");
        assert_eq!(level(ConsumerConfig { pause_until: Some(Moment::default()), ..plain.clone() }), "0");
        assert_eq!(level(ConsumerConfig { pause_until: Some(Moment::from(1)), ..plain.clone() }), "1");
        assert_eq!(level(ConsumerConfig { priority_timeout: -1, ..plain.clone() }), "1");
        let flow = AckPolicy::FlowControl;
        assert_eq!(level(ConsumerConfig { ack_policy: flow, priority_timeout: 1, ..plain }), "4");
    }
}

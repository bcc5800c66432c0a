//! The API level that a stream needs, and the versions that are shown with it.

use super::{PersistMode, StreamConfig};
use myelin_wire::REFERENCE_VERSION;
use std::collections::BTreeMap;

/// The level that this server offers.
pub const API_LEVEL: u32 = 5;

const REQUIRED: &str = "_nats.req.level";
const VERSION: &str = "_nats.ver";
const LEVEL: &str = "_nats.level";

/// Metadata of a stream or consumer besides its settings.
type Metadata = BTreeMap<String, String>;

/// Writes the level that `config` needs into its metadata and takes out what only answers may
/// carry.
pub(super) fn set_required(config: &mut StreamConfig) {
    let needs = [
        (config.allow_batched, 4),
        (config.allow_msg_counter, 2),
        (config.allow_atomic, 2),
        (config.allow_msg_schedules, 2),
        (config.persist_mode == PersistMode::Async, 2),
        (config.allow_msg_ttl || config.subject_delete_marker_ttl > 0, 1),
    ];
    set_level(&mut config.metadata, &needs);
}

/// Takes over the level from `previous`, so that a comparison of the two leaves versions aside.
pub(super) fn adopt_required(config: &mut StreamConfig, previous: &StreamConfig) {
    adopt_level(&mut config.metadata, &previous.metadata);
}

/// Writes the first of `needs` that is there, or 0, and takes out what only answers may carry.
pub(crate) fn set_level(metadata: &mut Metadata, needs: &[(bool, u32)]) {
    forget_versions(metadata);
    let level = needs.iter().find(|(used, _)| *used).map_or(0, |(_, level)| *level);
    metadata.insert(REQUIRED.to_owned(), level.to_string());
}

/// Takes over the level from `previous`.
pub(crate) fn adopt_level(metadata: &mut Metadata, previous: &Metadata) {
    forget_versions(metadata);
    match previous.get(REQUIRED) {
        Some(level) => metadata.insert(REQUIRED.to_owned(), level.clone()),
        None => metadata.remove(REQUIRED),
    };
}

/// Takes out what only answers may carry.
pub(super) fn forget_versions(metadata: &mut Metadata) {
    metadata.remove(VERSION);
    metadata.remove(LEVEL);
}

/// `config` as answers show it: with the version and the level of this server.
#[must_use]
pub fn with_versions(config: &StreamConfig) -> StreamConfig {
    let mut shown = config.clone();
    show_versions(&mut shown.metadata);
    shown
}

/// Adds the version and the level of this server.
pub(crate) fn show_versions(metadata: &mut Metadata) {
    metadata.insert(VERSION.to_owned(), REFERENCE_VERSION.to_owned());
    metadata.insert(LEVEL.to_owned(), API_LEVEL.to_string());
}

/// Whether this server can run a stream with this configuration: one that a later version has
/// written may need more.
#[must_use]
pub fn is_supported(config: &StreamConfig) -> bool {
    is_level_supported(&config.metadata)
}

/// Whether this server has the level that is written here.
pub(crate) fn is_level_supported(metadata: &Metadata) -> bool {
    let required = metadata.get(REQUIRED).filter(|level| !level.is_empty());
    required.is_none_or(|level| level.parse::<i64>().is_ok_and(|level| level <= i64::from(API_LEVEL)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_need_counts_and_versions_are_not_kept() {
        let mut config = StreamConfig { allow_msg_ttl: true, allow_batched: true, ..Default::default() };
        config.metadata.insert(VERSION.into(), "x".into());
        set_required(&mut config);
        assert_eq!(config.metadata.into_iter().collect::<Vec<_>>(), [(REQUIRED.into(), "4".into())]);
    }

    #[test]
    fn a_level_that_we_lack_or_cannot_read_is_not_supported() {
        for (level, supported) in [("5", true), ("6", false), ("x", false), ("", true)] {
            let mut config = StreamConfig::default();
            config.metadata.insert(REQUIRED.into(), level.into());
            assert_eq!(is_supported(&config), supported, "{level:?}");
        }
    }
}

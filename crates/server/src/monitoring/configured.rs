//! What the pages show of the configuration: made when it is loaded, replaced as a whole by a reload.

use crate::tls;
use jiff::Timestamp;
use myelin_conf::Loaded;
use myelin_conf::options::{Options, Port};
use myelin_monitor::{Limits, Settings};

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Configured {
    pub(super) limits: Limits,
    pub(super) settings: Settings,
    pub(super) wants_jetstream: bool,
    /// When it was loaded.
    pub(super) since: Timestamp,
}

impl Configured {
    pub(super) fn new(loaded: &Loaded, since: Timestamp) -> Self {
        let options = &loaded.options;
        Self {
            limits: limits(options),
            settings: settings(options, loaded.config_digest.clone().unwrap_or_default()),
            wants_jetstream: options.jetstream.enabled,
            since,
        }
    }
}

fn limits(options: &Options) -> Limits {
    let limits = &options.limits;
    Limits {
        // Compat: no connections at all are written as -1.
        max_connections: match limits.max_connections {
            0 => -1,
            max => i64::from(max),
        },
        max_subscriptions: limits.max_subscriptions.map_or(0, i64::from),
        ping_interval: limits.ping_interval,
        ping_max: i64::from(limits.ping_max),
        http_host: options.monitoring_host().to_owned(),
        // Compat: a random port is shown as it was asked for, not as it was bound.
        http_port: options.monitoring.port.map_or(0, Port::to_number),
        http_base_path: options.monitoring.shown_base_path().to_owned(),
        https_port: options.monitoring.https_port.map_or(0, Port::to_number),
        auth_timeout: options.auth_timeout().as_secs_f64(),
        max_control_line: limits.max_control_line as i32,
        max_payload: limits.shown_max_payload(),
        max_pending: limits.max_pending as i64,
    }
}

fn settings(options: &Options, config_digest: String) -> Settings {
    let flags = options.identity.feature_flags.merged();
    Settings {
        tls_timeout: options.tls_timeout().as_secs_f64(),
        write_deadline: options.limits.write_deadline,
        write_timeout: options.limits.write_timeout.name().to_owned(),
        config_digest,
        feature_flags: flags.into_iter().map(|(name, on)| (name.to_owned(), on)).collect(),
        system_account: options.accounts.system_account().unwrap_or_default().to_owned(),
        tags: options.identity.tags.clone(),
        metadata: options.identity.metadata.clone(),
        pinned_account_fails: 0,
        trusted_proxies: Some(&options.proxies.trusted).filter(|keys| !keys.is_empty()).cloned(),
        tls_cert_not_after: options.tls.as_ref().and_then(tls::expiry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_paths_are_shown_as_they_were_asked_for() {
        let mut options = Options::default();
        assert_eq!((limits(&options).http_port, limits(&options).http_base_path.as_str()), (0, ""));
        options.monitoring.port = Some(Port::Random);
        options.monitoring.base_path = "/mon".to_owned();
        assert_eq!((limits(&options).http_port, limits(&options).http_base_path.as_str()), (-1, "/mon"));
        options.monitoring.port = Some(Port::Fixed(8222));
        assert_eq!(limits(&options).http_port, 8222);
    }
}

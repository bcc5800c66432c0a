//! Changes of `mqtt{}`.

use super::{Changes, GoDuration, NotReloadable, Port};
use crate::options::{MqttOptions, Options, TlsOptions};
use std::collections::BTreeSet;
use std::time::Duration;

impl Changes<'_> {
    /// Compat: what is about sessions and their messages is said together if any of it has changed,
    /// and the rest may not, but for certificates.
    pub(super) fn mqtt(&mut self, bound: Option<u16>) {
        let (old, new) = (&self.old.mqtt, &self.new.mqtt);
        if fixed(old, bound) != fixed(new, bound) {
            let shown = |options: &Options| {
                let listener = &options.mqtt.listener;
                format!("{{{} {}}}", listener.host, listener.port.map_or(0, Port::to_number))
            };
            let (old, new) = (shown(self.old), shown(self.new));
            return self.refuse(NotReloadable::Field { field: "MQTT", old, new });
        }
        if live(old) == live(new) {
            return;
        }
        for (name, value) in live(new) {
            self.report(format!("Reloaded: MQTT {name} = {value}"));
        }
    }
}

/// Options that a running server takes over, as the log shows them.
fn live(options: &MqttOptions) -> [(&'static str, String); 6] {
    let duration = |duration: Duration| GoDuration(duration).to_string();
    [
        ("ack_wait", duration(options.ack_wait)),
        ("max_ack_pending", options.max_ack_pending.to_string()),
        ("stream_replicas", options.stream_replicas.unwrap_or(0).to_string()),
        // Ignored, and said all the same.
        ("consumer_replicas", "0".to_owned()),
        ("consumer_memory_storage", options.consumer_memory_storage.to_string()),
        ("consumer_inactive_threshold", duration(options.consumer_inactive_threshold.unwrap_or_default())),
    ]
}

/// The rest of TLS beside certificates: its time limit, and how it knows who comes in.
type TlsRules = (Option<Duration>, bool, BTreeSet<String>);

/// The others. A port that the system chose stays what it is.
fn fixed(options: &MqttOptions, bound: Option<u16>) -> (MqttOptions, Option<TlsRules>) {
    let default = MqttOptions::default();
    let mut fixed = MqttOptions {
        tls: None,
        ack_wait: default.ack_wait,
        max_ack_pending: default.max_ack_pending,
        stream_replicas: None,
        consumer_memory_storage: false,
        consumer_inactive_threshold: None,
        ..options.clone()
    };
    if fixed.listener.port == Some(Port::Random) {
        fixed.listener.port = bound.map(Port::Fixed);
    }
    let rules = |tls: &TlsOptions| (tls.timeout, tls.verify_and_map, tls.pinned_certs.clone());
    (fixed, options.tls.as_ref().map(rules))
}

//! `mqtt{}`: clients that speak MQTT 3.1.1 and 5.

use std::time::Duration;

use super::Options;
use super::field::{Diagnostics, Field, Read, read_block};
use super::listener::ListenerOptions;
use super::simple_authorization::SimpleAuthorization;
use super::table::BlockKind;
use super::tls::{TlsOptions, TlsUse};

/// MQTT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MqttOptions {
    /// Where MQTT is accepted; without a port there is none.
    pub listener: ListenerOptions,
    /// TLS.
    pub tls: Option<TlsOptions>,
    /// Instead of the credentials of ordinary clients.
    pub authorization: SimpleAuthorization,
    /// The user that clients without credentials become.
    pub no_auth_user: Option<String>,
    /// Time for a client to acknowledge a message. Default 30 s.
    pub ack_wait: Duration,
    /// Time for JetStream to answer. Default 5 s.
    pub js_api_timeout: Duration,
    /// Messages on their way to one subscription. Default 1024.
    pub max_ack_pending: u16,
    /// The JetStream domain that holds sessions and messages.
    pub js_domain: Option<String>,
    /// Replicas of MQTT's streams; `None` for as many as the cluster has servers, up to three.
    pub stream_replicas: Option<u32>,
    /// Consumers live in memory.
    pub consumer_memory_storage: bool,
    /// Consumers that nobody used for so long are removed.
    pub consumer_inactive_threshold: Option<Duration>,
    /// Refuse to publish with QoS 2.
    pub reject_qos2_publish: bool,
    /// Subscribe with QoS 1 who asks for 2.
    pub downgrade_qos2_subscribe: bool,
    /// Whether MQTT 5 is spoken beside 3.1.1. By default it is.
    pub speaks_5: bool,
    /// Address of other servers, as clients of MQTT 5 are told it in lame duck mode.
    pub server_reference: Option<String>,
}

impl Default for MqttOptions {
    fn default() -> Self {
        Self {
            listener: ListenerOptions::default(),
            tls: None,
            authorization: SimpleAuthorization::default(),
            no_auth_user: None,
            ack_wait: Duration::from_secs(30),
            js_api_timeout: Duration::from_secs(5),
            max_ack_pending: 1024,
            js_domain: None,
            stream_replicas: None,
            consumer_memory_storage: false,
            consumer_inactive_threshold: None,
            reject_qos2_publish: false,
            downgrade_qos2_subscribe: false,
            speaks_5: true,
            server_reference: None,
        }
    }
}

impl MqttOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        if field.name() != "mqtt" {
            return Ok(false);
        }
        read_block(field.block("Expected mqtt to be a map")?, BlockKind::Mqtt, report, |inner, report| {
            Ok(self.listener.set(inner, report)? || self.set_inner(inner, report)?)
        });
        Ok(true)
    }

    fn set_inner(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        let default = Self::default();
        match field.name() {
            "tls" => self.tls = Some(TlsOptions::read(field, TlsUse::Mqtt, report)?),
            "authorization" | "authentication" => {
                self.authorization = SimpleAuthorization::read(field, report)?;
            }
            "no_auth_user" => self.no_auth_user = field.optional_text()?,
            "ack_wait" | "ackwait" => {
                let text = "ack wait must be a positive value";
                self.ack_wait = positive(field, "ack_wait", text, report)?.unwrap_or(default.ack_wait);
            }
            "js_api_timeout" | "api_timeout" => {
                let text = "JS API timeout must be a positive value";
                let chosen = positive(field, "js_api_timeout", text, report)?;
                self.js_api_timeout = chosen.unwrap_or(default.js_api_timeout);
            }
            "max_ack_pending" | "max_pending" | "max_inflight" => {
                self.max_ack_pending = max_ack_pending(field, default.max_ack_pending)?;
            }
            "js_domain" => self.js_domain = field.optional_text()?,
            "stream_replicas" => self.stream_replicas = field.limit()?,
            "consumer_replicas" => {
                let text = "consumer replicas setting ignored in this server version";
                report.warnings.push(field.invalid_use(text));
            }
            "consumer_memory_storage" => self.consumer_memory_storage = field.boolean()?,
            "consumer_inactive_threshold" | "consumer_auto_cleanup" => {
                self.consumer_inactive_threshold =
                    field.chosen_duration("consumer_inactive_threshold", report)?;
            }
            "reject_qos2_publish" => self.reject_qos2_publish = field.boolean()?,
            "downgrade_qos2_subscribe" => self.downgrade_qos2_subscribe = field.boolean()?,
            "protocols" => self.speaks_5 = speaks_5(field)?,
            "server_reference" => self.server_reference = field.optional_text()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The first reason why these options cannot run with the others.
    pub(super) fn check(&self, options: &Options) -> Result<(), String> {
        if self.listener.port.is_none() {
            return Ok(());
        }
        let is_clustered = options.cluster.listener.port.is_some() || options.gateway.listener.port.is_some();
        if options.server.name.is_none() && is_clustered {
            return Err("mqtt requires server name to be explicitly set".to_owned());
        }
        options.check_user_exists(self.no_auth_user.as_deref())?;
        let has_users = options.authorization.has_users();
        if has_users && self.authorization.user.is_some() {
            let text = "mqtt authentication username not compatible with presence of users/nkeys";
            return Err(text.to_owned());
        }
        if has_users && self.authorization.token.is_some() {
            return Err("mqtt authentication token not compatible with presence of users/nkeys".to_owned());
        }
        let leaf_nodes = &options.leaf_nodes;
        let is_leaf = leaf_nodes.listener.port.is_some() || !leaf_nodes.remotes.is_empty();
        if !options.jetstream.enabled && !is_clustered && !is_leaf {
            return Err("mqtt requires JetStream to be enabled if running in standalone mode".to_owned());
        }
        Ok(())
    }
}

/// 0 is the default; a start ends with `text` when it is negative.
fn positive(field: &Field<'_>, name: &str, text: &str, report: &mut Diagnostics) -> Read<Option<Duration>> {
    let nanos = field.lenient_duration(name, report)?;
    if nanos < 0 {
        report.refuse_start(field.diagnostic(text));
    }
    Ok(u64::try_from(nanos).ok().filter(|&nanos| nanos > 0).map(Duration::from_nanos))
}

/// Versions of the protocol: 3 is always among them.
fn speaks_5(field: &Field<'_>) -> Read<bool> {
    let mut versions = Vec::new();
    for item in field.items()? {
        versions.push(Field::new(field.name(), item).integer()?);
    }
    let speaks = |version: i64| versions.contains(&version);
    match versions.iter().all(|version| matches!(version, 3 | 5)) && speaks(3) {
        true => Ok(speaks(5)),
        false => Err(field.diagnostic("mqtt protocols are [3] or [3, 5]")),
    }
}

fn max_ack_pending(field: &Field<'_>, default: u16) -> Read<u16> {
    let number = field.integer()?;
    match u16::try_from(number) {
        Ok(0) => Ok(default),
        Ok(number) => Ok(number),
        Err(_) => Err(field.diagnostic(format!("invalid value {number}, should in [0..65535] range"))),
    }
}

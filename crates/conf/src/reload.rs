//! Reload: which options it may change, and in which words the log says so.
//!
//! A reload is all or nothing: one change of an option that needs a restart refuses them all. Names
//! of fields, texts and their order are those of nats-server 2.15.2. Applies nothing itself.

mod cluster;
mod gateway;
mod jetstream;
mod leaf_nodes;
mod mqtt;
mod not_reloadable;
#[cfg(test)]
mod tests;

use crate::duration;
use crate::options::{AccountResolver, HandshakeFirst, LimitOptions, Options, Port};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::PathBuf;
use std::time::Duration;

pub use not_reloadable::NotReloadable;

/// The ports that are bound, which the options need not know.
#[derive(Debug, Clone, Copy)]
pub struct BoundPorts {
    /// Of clients.
    pub client: u16,
    /// Of WebSocket, if there is any.
    pub websocket: Option<u16>,
    /// Of MQTT, if there is any.
    pub mqtt: Option<u16>,
    /// Of routes, if there is any.
    pub cluster: Option<u16>,
    /// Of leaf nodes, if there is any.
    pub leaf: Option<u16>,
}

/// Compares the options in force with those of a reload. Answers the lines for the log, one for
/// each change.
///
/// # Errors
/// When an option changed that needs a restart: the first in the reference's order.
pub fn changes(old: &Options, new: &Options, bound: BoundPorts) -> Result<Vec<String>, NotReloadable> {
    let reported = compare(old, new, bound);
    reported.into_iter().filter(|change| change.is_said).map(|change| change.log_line).collect()
}

/// Changes that a reload would make, one for every option that is another in the new configuration,
/// in the reference's order.
pub fn check_reload(old: &Options, new: &Options, bound: BoundPorts) -> Vec<CheckedChange> {
    let reported = compare(old, new, bound).into_iter().filter(|change| change.is_change);
    reported
        .map(|change| CheckedChange {
            effect: change.effect,
            text: match change.log_line {
                Ok(line) => ["Reloaded: ", "Reload: ", "Reloaded "]
                    .iter()
                    .find_map(|begin| line.strip_prefix(begin))
                    .unwrap_or(&line)
                    .to_owned(),
                Err(refusal) => refusal.to_string(),
            },
        })
        .collect()
}

fn compare(old: &Options, new: &Options, bound: BoundPorts) -> Vec<Change> {
    let mut changes = Changes { old, new, reported: Vec::new() };
    changes.identity(bound.client);
    changes.logging_levels();
    changes.connections();
    changes.security();
    changes.protocol();
    changes.cluster(bound.cluster);
    changes.leaf_nodes(bound.leaf);
    changes.gateway();
    changes.websocket(bound.websocket);
    changes.mqtt(bound.mqtt);
    changes.files();
    changes.other_options();
    changes.reported
}

/// Effect of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The change holds at once, and nobody notices.
    Live,
    /// The change holds at once; clients whose login, place or number it concerns have to connect
    /// again.
    Reconnect,
    /// A reload is refused; the server must be started anew.
    Restart,
}

impl Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Live => "live",
            Self::Reconnect => "reconnect",
            Self::Restart => "restart",
        })
    }
}

/// One change that a reload would meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedChange {
    /// Effect of the change.
    pub effect: Effect,
    /// Text for the log: the option with its new value, or the refusal.
    pub text: String,
}

/// One change that is reported of a reload.
struct Change {
    effect: Effect,
    /// Some lines are said in any case.
    is_change: bool,
    /// Some changes are not in the log.
    is_said: bool,
    log_line: Result<String, NotReloadable>,
}

struct Changes<'o> {
    old: &'o Options,
    new: &'o Options,
    reported: Vec<Change>,
}

impl Changes<'_> {
    /// An option that needs a restart.
    fn fixed<T: PartialEq + Display>(&mut self, field: &'static str, get: impl Fn(&Options) -> T) {
        let (old, new) = (get(self.old), get(self.new));
        if old != new {
            self.refuse(NotReloadable::Field { field, old: old.to_string(), new: new.to_string() });
        }
    }

    fn refuse(&mut self, refusal: NotReloadable) {
        self.reported.push(Change {
            effect: Effect::Restart,
            is_change: true,
            is_said: true,
            log_line: Err(refusal),
        });
    }

    fn report(&mut self, line: String) {
        self.report_as(Effect::Live, true, line);
    }

    fn report_as(&mut self, effect: Effect, is_change: bool, line: String) {
        self.reported.push(Change { effect, is_change, is_said: true, log_line: Ok(line) });
    }

    /// A change of which the log says nothing.
    fn unsaid(&mut self, what: String) {
        let (effect, log_line) = (Effect::Live, Ok(what));
        self.reported.push(Change { effect, is_change: true, is_said: false, log_line });
    }

    /// An option whose value is nobody's business, and that may end connections.
    fn quiet_to_clients<T: PartialEq>(&mut self, line: &str, get: impl Fn(&Options) -> T) {
        if get(self.old) != get(self.new) {
            self.report_as(Effect::Reconnect, true, format!("Reloaded: {line}"));
        }
    }

    /// An option that is changed in the running server.
    fn live<T: PartialEq + Display>(&mut self, name: &str, get: impl Fn(&Options) -> T) {
        let (old, new) = (get(self.old), get(self.new));
        if old != new {
            self.report(format!("Reloaded: {name} = {new}"));
        }
    }

    /// An option that is changed in the running server and whose value is nobody's business.
    fn quiet<T: PartialEq>(&mut self, line: &str, get: impl Fn(&Options) -> T) {
        if get(self.old) != get(self.new) {
            self.report(format!("Reloaded: {line}"));
        }
    }

    fn identity(&mut self, bound: u16) {
        self.fixed("ServerName", |o| text(o.server.name.as_ref()));
        self.fixed("Host", |o| o.server.host.clone());
        // A port that the system chose stays what it is.
        if self.new.server.port != Port::Random {
            let new = self.new.server.port.to_bind();
            let old = match self.old.server.port {
                Port::Random => bound,
                Port::Fixed(port) => port,
            };
            if old != new {
                let (old, new) = (old.to_string(), new.to_string());
                self.refuse(NotReloadable::Field { field: "Port", old, new });
            }
        }
        let advertise = |o: &Options| text(o.server.client_advertise.as_ref());
        if advertise(self.old) != advertise(self.new) {
            // Compat: a line that begins differently.
            self.report(format!("Reload: client_advertise = {}", advertise(self.new)));
        }
    }

    fn logging_levels(&mut self) {
        self.live("trace", |o| o.logging.trace);
        self.live("debug", |o| o.logging.debug);
        self.live("trace_verbose", |o| o.logging.trace_verbose);
        self.live("trace_headers", |o| o.logging.trace_headers);
        self.fixed("NoHeaderSupport", |o| o.limits.no_header_support);
        self.live("logtime", |o| o.logging.logtime);
        self.live("logtime_utc", |o| o.logging.logtime_utc);
    }

    fn connections(&mut self) {
        let max = |o: &Options| max_connections(&o.limits);
        if max(self.old) != max(self.new) {
            let is_less = self.new.limits.max_connections < self.old.limits.max_connections;
            let effect = if is_less { Effect::Reconnect } else { Effect::Live };
            self.report_as(effect, true, format!("Reloaded: max_connections = {}", max(self.new)));
        }
        self.fixed("MaxSubs", |o| o.limits.max_subscriptions.unwrap_or(0));
        self.fixed("MaxSubTokens", |o| o.limits.max_sub_tokens.map_or(0, std::num::NonZero::get));
    }

    fn security(&mut self) {
        // Compat: said in any case, for the reference cannot tell.
        let users = |o: &Options| {
            let from = &o.authorization;
            (from.users.clone(), from.nkeys.clone(), from.callout.clone(), from.proxy_required)
        };
        let are_others = users(self.old) != users(self.new);
        self.report_as(Effect::Reconnect, are_others, "Reloaded: authorization users".to_owned());
        let accounts = |o: &Options| (o.accounts.clone(), o.resolver.preload.clone());
        let are_others = accounts(self.old) != accounts(self.new);
        self.report_as(Effect::Reconnect, are_others, "Reloaded: accounts".to_owned());
        self.no_auth_user();
        self.fixed("SystemAccount", |o| text(o.accounts.configured_system_account.as_ref()));
        self.fixed("NoSystemAccount", |o| o.accounts.no_system_account);
        self.quiet_to_clients("authorization username", |o| o.authorization.user.clone());
        self.quiet_to_clients("authorization password", |o| o.authorization.password.clone());
        self.fixed("ProxyProtocol", |o| o.server.proxy_protocol);
        self.quiet_to_clients("authorization token", |o| o.authorization.token.clone());
    }

    /// Compat: said whenever there is a block, for the files behind it may have changed.
    fn tls(&mut self) {
        self.live_as("tls timeout = ", |o| o.tls_timeout().as_secs_f64());
        let (old, new) = (self.old.tls.as_ref(), self.new.tls.as_ref());
        if old.is_some() || new.is_some() {
            let state = if new.is_some() { "enabled" } else { "disabled" };
            self.report_as(Effect::Live, old != new, format!("Reloaded: tls = {state}"));
        }
        let pinned = |o: &Options| o.tls.as_ref().map(|tls| tls.pinned_certs.clone()).unwrap_or_default();
        if pinned(self.old) != pinned(self.new) {
            let line = format!("Reloaded: {} pinned_certs", pinned(self.new).len());
            self.report_as(Effect::Reconnect, true, line);
        }
        self.fixed("AllowNonTLS", |o| o.allow_non_tls);
        let first = |o: &Options| o.tls.as_ref().map_or(HandshakeFirst::No, |tls| tls.handshake_first);
        self.live_as("Client TLS handshake first: ", |o| first(o) != HandshakeFirst::No);
        self.live_as("Client TLS handshake first fallback delay: ", |o| match first(o) {
            HandshakeFirst::Within(delay) => duration::format(delay),
            _ => duration::format(Duration::ZERO),
        });
    }

    fn live_as<T: PartialEq + Display>(&mut self, what: &str, get: impl Fn(&Options) -> T) {
        let (old, new) = (get(self.old), get(self.new));
        if old != new {
            self.report(format!("Reloaded: {what}{new}"));
        }
    }

    /// The user for clients without credentials may only disappear together with its name.
    fn no_auth_user(&mut self) {
        let name = |o: &Options| text(o.authorization.no_auth_user.as_ref());
        let gone = name(self.old);
        let is_gone = !gone.is_empty() && name(self.new).is_empty();
        if !is_gone || self.new.authorization.users.iter().any(|user| user.name == gone) {
            self.fixed("NoAuthUser", name);
        }
    }

    fn protocol(&mut self) {
        self.live("ping_interval", |o| GoDuration(o.limits.ping_interval));
        self.live("ping_max", |o| o.limits.ping_max);
        self.fixed("HTTPHost", |o| o.monitoring_host().to_owned());
        self.fixed("HTTPPort", |o| o.monitoring.port.map_or(0, Port::to_number));
        self.fixed("HTTPBasePath", |o| o.monitoring.shown_base_path().to_owned());
        self.fixed("HTTPSPort", |o| o.monitoring.https_port.map_or(0, Port::to_number));
        self.live("authorization timeout", |o| o.auth_timeout().as_secs_f64());
        self.live("max_control_line", |o| o.limits.max_control_line);
        self.live("max_payload", |o| o.limits.shown_max_payload());
        self.fixed("MaxPending", |o| o.limits.max_pending);
        if self.old.limits.no_fast_producer_stall != self.new.limits.no_fast_producer_stall {
            let not = if self.new.limits.no_fast_producer_stall { "not " } else { "" };
            self.report(format!("Reloaded: fast producers will {not}be stalled"));
        }
    }

    /// Compat: nothing but the certificates may change. The reference shows what did, passwords
    /// included.
    fn websocket(&mut self, bound: Option<u16>) {
        let compared = |o: &Options| {
            let mut websocket = o.websocket.clone();
            websocket.tls = None;
            websocket.allowed_origins.sort_unstable();
            // A port that the system chose stays what it is.
            if websocket.listener.port == Some(Port::Random) {
                websocket.listener.port = bound.map(Port::Fixed);
            }
            let tls = o.websocket.tls.as_ref();
            (websocket, tls.map(|tls| (tls.pinned_certs.clone(), tls.verify_and_map)))
        };
        if compared(self.old) == compared(self.new) {
            return;
        }
        let shown = |o: &Options| {
            let listener = &o.websocket.listener;
            format!("{{{} {}}}", listener.host, listener.port.map_or(0, Port::to_number))
        };
        self.refuse(NotReloadable::Field { field: "Websocket", old: shown(self.old), new: shown(self.new) });
    }

    fn files(&mut self) {
        self.jetstream();
        if self.new.server.pid_file.is_some() {
            self.live("pid_file", |o| path(o.server.pid_file.as_ref()));
        }
        self.live("ports_file_dir", |o| path(o.server.ports_file_dir.as_ref()));
        self.live("log_file", |o| path(o.logging.log_file.as_ref()));
        self.fixed("LogSizeLimit", |o| o.logging.log_size_limit.unwrap_or(0));
        self.fixed("LogMaxFiles", |o| o.logging.log_max_num.unwrap_or(0));
        self.live("syslog", |o| o.logging.syslog);
        self.live("remote_syslog", |o| text(o.logging.remote_syslog.as_ref()));
        self.routes();
    }

    /// Compat: safer than the reference, which logs the token that makes anybody its user.
    fn operators(&mut self) {
        let keys =
            |o: &Options| o.operators.list.iter().map(|operator| operator.key.clone()).collect::<Vec<_>>();
        self.quiet_to_clients("default_sentinel", |o| o.operators.default_sentinel.clone());
        if self.old.operators.list.is_empty() {
            self.fixed("TrustedKeys", |o| format!("[{}]", o.operators.trusted_keys.join(" ")));
        }
        self.fixed("TrustedOperators", |o| format!("[{}]", keys(o).join(" ")));
        let (old, new) = (&self.old.resolver.resolver, &self.new.resolver.resolver);
        if old == new {
            return;
        }
        if old.is_none() || new.is_none() {
            return self.refuse(NotReloadable::Move("an account resolver"));
        }
        let (old, new) = (resolver(old.as_ref()).to_owned(), resolver(new.as_ref()).to_owned());
        self.refuse(NotReloadable::Field { field: "AccountResolver", old, new });
    }

    fn other_options(&mut self) {
        self.tls();
        self.live("write_deadline", |o| GoDuration(o.limits.write_deadline));
        self.fixed("WriteTimeout", |o| o.limits.write_timeout.name());
        self.fixed("MaxClosedClients", |o| o.limits.max_closed_clients);
        self.fixed("LameDuckDuration", |o| GoDuration(o.server.lame_duck_duration));
        self.fixed("LameDuckGracePeriod", |o| GoDuration(o.server.lame_duck_grace_period));
        self.live("max_traced_msg_len", |o| o.logging.max_traced_msg_len.unwrap_or(0));
        self.live("connect_error_reports", |o| o.logging.connect_error_reports);
        self.live("reconnect_error_reports", |o| o.logging.reconnect_error_reports);
        self.operators();
        self.quiet("metrics", |o| o.monitoring.metrics.clone());
        self.quiet("otlp", |o| o.monitoring.otlp.clone());
        self.quiet("dashboard", |o| o.monitoring.dashboard);
        self.quiet("tags", |o| o.identity.tags.clone());
        self.quiet("metadata", |o| o.identity.metadata.clone());
        self.fixed("FeatureFlags", |o| map(&o.identity.feature_flags.0));
        self.quiet("OCSP", |o| o.ocsp.stapling.clone());
        if self.old.ocsp.cache != self.new.ocsp.cache {
            // Compat: the other line that begins differently.
            self.report("Reloaded OCSP peer cache".to_owned());
        }
        self.proxies();
    }

    /// Clients that came through a proxy which is trusted no more have to go.
    fn proxies(&mut self) {
        let (old, new) = (&self.old.proxies.trusted, &self.new.proxies.trusted);
        let without = |keys: &[String], others: &[String]| {
            let left = keys.iter().filter(|key| !others.contains(key));
            left.map(|key| format!("{key:?}")).collect::<Vec<_>>().join(" ")
        };
        let (gone, added) = (without(old, new), without(new, old));
        if !gone.is_empty() {
            let line = format!("Reloaded: proxies trusted keys [{gone}] were removed");
            self.report_as(Effect::Reconnect, true, line);
        }
        if !added.is_empty() {
            self.report(format!("Reloaded: proxies trusted keys [{added}] were added"));
        }
    }
}

/// A duration in Go's notation.
#[derive(PartialEq)]
struct GoDuration(Duration);

impl Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration::format(self.0))
    }
}

fn text(text: Option<&String>) -> String {
    text.cloned().unwrap_or_default()
}

fn path(path: Option<&PathBuf>) -> String {
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

/// Kind of a resolver. A URL may hold a password.
fn resolver(resolver: Option<&AccountResolver>) -> &'static str {
    match resolver {
        None => "none",
        Some(AccountResolver::Memory) => "MEM",
        Some(AccountResolver::Url(_)) => "URL",
        Some(AccountResolver::Full(_)) => "full",
        Some(AccountResolver::Cache(_)) => "cache",
    }
}

/// A map as Go prints it.
fn map(map: &BTreeMap<String, bool>) -> String {
    let pairs: Vec<_> = map.iter().map(|(name, value)| format!("{name}:{value}")).collect();
    format!("map[{}]", pairs.join(" "))
}

/// Compat: no connections at all are written as -1.
fn max_connections(limits: &LimitOptions) -> i64 {
    match limits.max_connections {
        0 => -1,
        max => i64::from(max),
    }
}

//! The typed options of the server: one file per group, each with its defaults and its fields.
//!
//! Owns what a configuration means. Never reads arguments or the environment: it is handed a parsed
//! tree, and looks at the files that this names through `files`. Plain data, known to this crate
//! and to `server` only.

mod accounts;
mod authorization;
mod cluster;
mod compression;
mod conflicts;
mod field;
mod gateway;
mod identity;
mod jetstream;
mod leaf;
mod limits;
mod link;
mod listener;
mod logging;
mod monitoring;
mod mqtt;
mod ocsp;
mod operators;
mod otlp;
mod permissions;
mod proxies;
mod resolver;
mod server;
mod simple_authorization;
pub(crate) mod table;
mod tls;
mod websocket;

pub use accounts::{
    AccountJetStreamOptions, AccountLimitOptions, AccountOptions, AccountsOptions, ClusterTraffic,
    DEFAULT_SYSTEM_ACCOUNT, ExportAccess, ExportOptions, GLOBAL_ACCOUNT, ImportOptions, LatencyOptions,
    LatencySampling, MappingDestination, MappingOptions, MessageTraceOptions, ResponseType, ServiceExport,
    ServiceImport, StreamExport, StreamImport, StreamName,
};
pub use authorization::{AuthCalloutOptions, AuthorizationOptions, NkeyUserOptions, UserOptions};
pub use cluster::{ClusterOptions, PoolSize, RoutePermissions};
pub use compression::{CompressionOptions, LinkCompression, RttThresholds};
pub use gateway::{GatewayOptions, RemoteGatewayOptions};
pub use identity::{FeatureFlags, IdentityOptions};
pub use jetstream::{BatchLimits, JetStreamLimits, JetStreamOptions, StoreCipher, SyncInterval, TpmOptions};
pub use leaf::{
    ClusterMigrate, DEFAULT_LEAF_PORT, LeafAuthorization, LeafCredentials, LeafNodeOptions, LeafProxyOptions,
    LeafRemoteOptions, LeafUserOptions,
};
pub use limits::{LimitOptions, UNLIMITED_PAYLOAD, WriteTimeout};
pub use link::LinkAuthorization;
pub use listener::ListenerOptions;
pub use logging::LoggingOptions;
pub use monitoring::{MetricsOptions, MonitoringOptions};
pub use mqtt::MqttOptions;
pub use ocsp::{OcspCacheOptions, OcspMode, OcspOptions, StaplingOptions};
pub use operators::{OperatorOptions, OperatorsOptions};
pub use otlp::OtlpOptions;
pub use permissions::{Permissions, QueueSubject, ResponsePermission, SubjectPermission};
pub use proxies::ProxiesOptions;
pub use resolver::{AccountResolver, CacheResolver, DeleteMode, FullResolver, ResolverOptions};
pub use server::{Port, ServerOptions};
pub use simple_authorization::SimpleAuthorization;
pub use websocket::WebSocketOptions;

pub(crate) use field::Diagnostics;
pub(crate) use logging::positive;
pub(crate) use table::missing_text;
pub use table::{BlockTable, Class, OptionEntry, blocks, page};
pub use tls::{
    CertificateFiles, CipherSuite, Curve, HandshakeFirst, InspectTls, OcspPeerOptions, TlsIdentity,
    TlsOptions, TlsVersion,
};

use crate::value::Map;
use field::{Field, Read, read_block};
use std::time::Duration;
use table::BlockKind;
use tls::TlsUse;

/// Everything that can be configured, with defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Listener, identity, lifecycle.
    pub server: ServerOptions,
    /// Protocol and connection limits.
    pub limits: LimitOptions,
    /// The log.
    pub logging: LoggingOptions,
    /// HTTP monitoring.
    pub monitoring: MonitoringOptions,
    /// Credentials and users.
    pub authorization: AuthorizationOptions,
    /// Accounts and the system account.
    pub accounts: AccountsOptions,
    /// Operators who sign accounts.
    pub operators: OperatorsOptions,
    /// Where account tokens are found.
    pub resolver: ResolverOptions,
    /// Trusted proxies.
    pub proxies: ProxiesOptions,
    /// JetStream.
    pub jetstream: JetStreamOptions,
    /// Tags, metadata, behaviours switched by name.
    pub identity: IdentityOptions,
    /// TLS for clients and for monitoring.
    pub tls: Option<TlsOptions>,
    /// With TLS: clients may do without.
    pub allow_non_tls: bool,
    /// OCSP.
    pub ocsp: OcspOptions,
    /// Routes.
    pub cluster: ClusterOptions,
    /// Gateways.
    pub gateway: GatewayOptions,
    /// Leaf nodes.
    pub leaf_nodes: LeafNodeOptions,
    /// WebSocket.
    pub websocket: WebSocketOptions,
    /// MQTT.
    pub mqtt: MqttOptions,
}

impl Options {
    /// Sets what a configuration file says, on top of what is set already. All errors are reported;
    /// the options are of use only if there are none.
    pub(crate) fn read(&mut self, root: &Map, report: &mut Diagnostics) {
        read_block(root, BlockKind::Top, report, |field, report| self.set(field, report));
        self.check_callout_accounts(report);
        self.apply_operator();
    }

    /// A single operator may name the system account and where accounts are found, if nobody else
    /// does.
    fn apply_operator(&mut self) {
        let [operator] = &self.operators.list[..] else { return };
        let system = &mut self.accounts.configured_system_account;
        *system = system.take().or_else(|| operator.system_account.clone());
        if self.resolver.resolver.is_none() {
            let url = operator.account_server_url.as_deref().unwrap_or_default();
            self.resolver.resolver = Some(AccountResolver::Url(format!("{url}/accounts")));
        }
    }

    fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "tls" => self.tls = Some(TlsOptions::read(field, TlsUse::Client, report)?),
            "allow_non_tls" => self.allow_non_tls = field.boolean()?,
            _ => return Ok(self.set_in_group(field, report)? || self.set_link(field, report)?),
        }
        Ok(true)
    }

    fn set_link(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        Ok(self.cluster.set(field, report)?
            || self.gateway.set(field, report)?
            || self.leaf_nodes.set(field, report)?
            || self.websocket.set(field, report)?
            || self.mqtt.set(field, report)?)
    }

    fn set_in_group(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        Ok(self.server.set(field, report)?
            || self.identity.set(field, report)?
            || self.limits.set(field, report)?
            || self.logging.set(field, report)?
            || self.monitoring.set(field, report)?
            || self.ocsp.set(field, report)?
            || self.jetstream.set(field, report)?
            || self.authorization.set(field, report)?
            || self.accounts.set(field, &mut self.authorization, report)?
            || self.operators.set(field, report)?
            || self.resolver.set(field, report)?
            || self.proxies.set(field, report)?)
    }

    /// Time for a client's TLS handshake.
    pub fn tls_timeout(&self) -> Duration {
        self.tls.as_ref().map_or(TlsOptions::DEFAULT_TIMEOUT, TlsOptions::client_timeout)
    }

    /// The address that monitoring binds to.
    pub fn monitoring_host(&self) -> &str {
        self.monitoring.host.as_deref().unwrap_or(&self.server.host)
    }

    /// Time to authenticate. Compat: the default grows with the time for the handshake.
    pub fn auth_timeout(&self) -> Duration {
        let configured = self.authorization.timeout;
        if self.tls.is_some() && configured == AuthorizationOptions::default().timeout {
            return self.tls_timeout() + Duration::from_secs(1);
        }
        configured
    }

    /// Whether clients without credentials join the global account although users exist.
    ///
    /// Compat: an operator who configures nothing but the system account wants users for that
    /// account, not a closed server.
    pub fn anonymous_joins_global(&self) -> bool {
        let only_system = matches!(&self.accounts.list[..],
            [only] if Some(only.name.as_str()) == self.accounts.chosen_system_account());
        only_system && self.authorization.no_auth_user.is_none() && !self.authorization.is_block_defined
    }
}

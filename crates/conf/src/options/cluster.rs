//! `cluster{}`: routes to the servers of the same cluster.

use std::collections::HashSet;
use std::time::Duration;

use super::compression::{CompressionOptions, LinkCompression};
use super::field::{Diagnostics, Field, Read, read_block};
use super::limits::WriteTimeout;
use super::link::{LinkAuthorization, read_urls};
use super::listener::ListenerOptions;
use super::permissions::{Permissions, QueueSubject, SubjectPermission};
use super::table::BlockKind;
use super::tls::{TlsOptions, TlsUse};
use super::{DEFAULT_SYSTEM_ACCOUNT, Options};
use crate::url::Url;

/// The name that leaf nodes use for "no cluster".
const RESERVED_NAME: &str = "_";
/// Longest time between two pings of a route.
const MAX_PING_INTERVAL: Duration = Duration::from_secs(30);

/// How many connections two servers of a cluster have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolSize {
    /// One, in the manner of servers before 2.10 (written as a negative number).
    Single,
    /// A number of connections that share the accounts.
    Connections(u32),
}

/// Which interest crosses a route.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoutePermissions {
    /// For which subjects our interest is sent to the other side; `None` for all.
    pub import: Option<SubjectPermission<String>>,
    /// For which subjects the other side's interest is taken; `None` for all.
    pub export: Option<SubjectPermission<String>>,
}

/// Routes and their listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Without blanks; `None` takes the gateway's name, or makes one up.
    pub name: Option<String>,
    /// Where routes are accepted; without a port there is no clustering.
    pub listener: ListenerOptions,
    /// How the other side logs in, and how we do when a URL names no user.
    pub authorization: LinkAuthorization,
    /// Permissions of all routes. Those of the `authorization` block count when the cluster has
    /// none.
    pub permissions: Option<RoutePermissions>,
    /// Servers to connect to.
    pub routes: Vec<Url>,
    /// TLS in both directions; peers always have to show a certificate.
    pub tls: Option<TlsOptions>,
    /// `host` or `host:port` that other servers are told instead of the bound address.
    pub advertise: Option<String>,
    /// Do not tell clients of the other servers' addresses.
    pub no_advertise: bool,
    /// How often a route that another server told us of is tried again after a failure.
    pub connect_retries: u32,
    /// Wait longer after each failed attempt, up to 30 s.
    pub connect_backoff: bool,
    /// Default three connections.
    pub pool_size: PoolSize,
    /// Accounts that have a connection of their own, as configured; see [`ClusterOptions::pinned`].
    pub pinned_accounts: Vec<String>,
    /// As written. Default `accept`; `on` is `s2_fast`.
    pub compression: CompressionOptions,
    /// `None` is that of clients, and at most 30 s.
    pub ping_interval: Option<Duration>,
    /// `None` is that of clients.
    pub ping_max: Option<u32>,
    /// `None` is that of clients.
    pub write_deadline: Option<Duration>,
    /// Reaction when the write deadline passes. By default the write is tried again.
    pub write_timeout: WriteTimeout,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            name: None,
            listener: ListenerOptions::default(),
            authorization: LinkAuthorization::default(),
            permissions: None,
            routes: Vec::new(),
            tls: None,
            advertise: None,
            no_advertise: false,
            connect_retries: 0,
            connect_backoff: false,
            pool_size: PoolSize::Connections(3),
            pinned_accounts: Vec::new(),
            compression: CompressionOptions::default(),
            ping_interval: None,
            ping_max: None,
            write_deadline: None,
            write_timeout: WriteTimeout::Default,
        }
    }
}

impl ClusterOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        if field.name() != "cluster" {
            return Ok(false);
        }
        let map = field.block("Expected map to define cluster")?;
        let (mut deprecated, missing) = (None, report.missing.len());
        read_block(map, BlockKind::Cluster, report, |inner, report| {
            Ok(self.listener.set(inner, report)?
                || self.set_link(inner, &mut deprecated, report)?
                || self.set_timing(inner, report)?)
        });
        self.permissions = self.permissions.take().or(deprecated);
        if self.listener.port.is_none() {
            // Compat: without a port it is but a name; routes are not looked at then.
            report.missing.truncate(missing);
        }
        Ok(true)
    }

    fn set_link(
        &mut self,
        field: &Field<'_>,
        deprecated: &mut Option<RoutePermissions>,
        report: &mut Diagnostics,
    ) -> Read<bool> {
        match field.name() {
            "name" => self.name = cluster_name(field, "cluster name cannot contain spaces")?,
            "authorization" => {
                let (authorization, permissions) = LinkAuthorization::read(field, "Cluster", report)?;
                self.authorization = authorization;
                if let Some(permissions) = permissions {
                    *deprecated = Some(RoutePermissions::new(permissions, field)?);
                    let text = "setting \"permissions\" within cluster authorization block is deprecated";
                    report.warnings.push(field.invalid_use(text));
                }
            }
            "permissions" => {
                let permissions = Permissions::read(field, report)?;
                if permissions.responses.is_some() {
                    return Err(field.diagnostic("Cluster permissions do not support dynamic responses"));
                }
                self.permissions = Some(RoutePermissions::new(permissions, field)?);
            }
            "routes" => self.routes = read_urls(field.items()?, "route", report),
            "tls" => self.tls = Some(TlsOptions::read(field, TlsUse::Cluster, report)?),
            "cluster_advertise" | "advertise" => self.advertise = field.optional_text()?,
            "no_advertise" => self.no_advertise = field.boolean()?,
            "connect_retries" => self.connect_retries = field.limit()?.unwrap_or(0),
            "connect_backoff" => self.connect_backoff = field.boolean()?,
            "pool_size" => self.pool_size = PoolSize::read(field)?,
            "accounts" => self.pinned_accounts = field.text_or_texts("accounts", report)?,
            "compression" => self.compression = CompressionOptions::read(field, "s2_fast", report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_timing(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "ping_interval" => {
                self.ping_interval = field.chosen_duration("ping_interval", report)?;
                if self.ping_interval > Some(MAX_PING_INTERVAL) {
                    let text = "Cluster 'ping_interval' will reset to 30s which is the max for routes";
                    report.warnings.push(field.diagnostic(text));
                }
            }
            "ping_max" => self.ping_max = field.limit()?,
            "write_deadline" => self.write_deadline = field.chosen_duration("write_deadline", report)?,
            "write_timeout" => self.write_timeout = WriteTimeout::read(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The way routes are compressed.
    ///
    /// # Errors
    /// The mode is unknown. Options that were loaded to run have been checked.
    pub fn compression(&self) -> Result<LinkCompression, String> {
        self.compression.resolve("s2_fast", LinkCompression::Accept)
    }

    /// Accounts that have a route of their own: the system account is always one of them, unless
    /// there is no pool.
    pub fn pinned(&self, system_account: Option<&str>) -> Vec<String> {
        let mut pinned = self.pinned_accounts.clone();
        if self.pool_size != PoolSize::Single && self.listener.port.is_some() {
            let missing = system_account.filter(|name| !pinned.iter().any(|pinned| pinned == name));
            pinned.extend(missing.map(str::to_owned));
        }
        pinned
    }

    /// The first reason why these options cannot run with the others.
    pub(super) fn check(&self, options: &Options) -> Result<(), String> {
        self.compression()?;
        let gateway = options.gateway.name.as_deref();
        let conflict = gateway.is_some() && self.name.is_some() && gateway != self.name.as_deref();
        if conflict {
            return Err("cluster name conflicts between cluster and gateway definitions".to_owned());
        }
        let is_leaf_alone = !options.leaf_nodes.remotes.is_empty() && self.listener.port.is_none();
        let fallback = options.server.name.as_deref().filter(|_| is_leaf_alone);
        if self.name.as_deref().or(gateway).or(fallback) == Some(RESERVED_NAME) {
            return Err("cluster name is reserved".to_owned());
        }
        self.check_pinned(options.accounts.system_account())
    }

    fn check_pinned(&self, system_account: Option<&str>) -> Result<(), String> {
        if !self.pinned_accounts.is_empty() && self.pool_size == PoolSize::Single {
            return Err("pool_size cannot be negative if pinned accounts are specified".to_owned());
        }
        let pinned = self.pinned(system_account);
        let mut seen = HashSet::new();
        match pinned.iter().find(|name| !seen.insert(*name)) {
            None => Ok(()),
            Some(twice) => {
                let all: Vec<_> = pinned.iter().map(|name| format!("{name:?}")).collect();
                let all = all.join(" ");
                Err(format!("found duplicate account name {twice:?} in pinned accounts list [{all}]"))
            }
        }
    }
}

/// A name for a cluster or a gateway.
pub(super) fn cluster_name(field: &Field<'_>, with_spaces: &str) -> Read<Option<String>> {
    match field.optional_text()? {
        Some(name) if name.contains(' ') => Err(field.diagnostic(with_spaces)),
        Some(name) if name == RESERVED_NAME => Err(field.diagnostic("cluster name is reserved")),
        name => Ok(name),
    }
}

impl PoolSize {
    fn read(field: &Field<'_>) -> Read<Self> {
        match field.integer()? {
            0 => Ok(ClusterOptions::default().pool_size),
            number if number < 0 => Ok(PoolSize::Single),
            number => Ok(PoolSize::Connections(u32::try_from(number).unwrap_or(u32::MAX))),
        }
    }
}

impl RoutePermissions {
    /// Permissions to publish are for imports, those to subscribe for exports, which know no
    /// queues.
    fn new(permissions: Permissions, field: &Field<'_>) -> Read<Self> {
        let export = permissions.subscribe.map(|export| {
            let allow = export.allow.map(|list| plain_subjects(list, "allow")).transpose()?;
            Ok(SubjectPermission { allow, deny: plain_subjects(export.deny, "deny")? })
        });
        let export = export.transpose().map_err(|message: String| field.diagnostic(message))?;
        Ok(Self { import: permissions.publish, export })
    }
}

fn plain_subjects(list: Vec<QueueSubject>, which: &str) -> Result<Vec<String>, String> {
    let plain = |entry: QueueSubject| match entry.queue {
        None => Ok(entry.subject),
        Some(queue) => {
            let text = format!("{} {queue}", entry.subject);
            Err(format!("cluster export {which}: subject {text:?} is not a valid subject"))
        }
    };
    list.into_iter().map(plain).collect()
}

/// The system account as far as leaf nodes and gateways are concerned: it exists unless it is
/// switched off.
pub(super) fn implied_system_account(options: &Options) -> Option<&'static str> {
    let is_implied =
        options.accounts.configured_system_account.is_none() && !options.accounts.no_system_account;
    is_implied.then_some(DEFAULT_SYSTEM_ACCOUNT)
}

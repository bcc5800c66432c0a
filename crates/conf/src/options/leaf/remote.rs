//! A server that we connect to as a leaf node.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use myelin_subject::is_valid_pattern;

use super::DEFAULT_LEAF_PORT;
use super::proxy::LeafProxyOptions;
use crate::options::GLOBAL_ACCOUNT;
use crate::options::compression::{CompressionOptions, LinkCompression};
use crate::options::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use crate::options::link::{read_url, read_urls};
use crate::options::table::BlockKind;
use crate::options::tls::{TlsOptions, TlsUse};
use crate::secret::Secret;
use crate::url::Url;
use crate::value::{Map, Node, Value};
use myelin_stdx::nkey::{self, Role};

/// How we log in at a remote whose URL names no user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LeafCredentials {
    /// Not at all.
    #[default]
    None,
    /// With a file of a JWT and a seed. Its path may begin with `~` and hold `$VARIABLES`.
    File(PathBuf),
    /// With a key of our own, given by its seed.
    Seed(Secret),
}

/// Whether leaders of streams move to other servers while the link to a remote is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClusterMigrate {
    /// Assets stay.
    #[default]
    Off,
    /// Assets move after so long.
    After(Duration),
}

/// A remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafRemoteOptions {
    /// Servers of the remote; all of them WebSocket or none. A missing port is 7422.
    pub urls: Vec<Url>,
    /// Try them in the order of the file.
    pub no_randomize: bool,
    /// The account of ours that is bound to the remote; `None` is the global account.
    pub account: Option<String>,
    /// How we log in.
    pub credentials: LeafCredentials,
    /// For the connection to the remote.
    pub tls: Option<TlsOptions>,
    /// We are the hub, although it is we who connect.
    pub hub: bool,
    /// Subjects whose messages we do not take from the remote.
    pub deny_imports: Vec<String>,
    /// Subjects whose messages we do not send to it.
    pub deny_exports: Vec<String>,
    /// Ask for compressed WebSocket frames.
    pub ws_compression: bool,
    /// Send WebSocket frames without mask.
    pub ws_no_masking: bool,
    /// Fate of leaders while the link is down.
    pub jetstream_cluster_migrate: ClusterMigrate,
    /// Whether the interest of local leaf nodes is kept from the remote.
    pub isolate_leafnode_interest: bool,
    /// Ask the remote to do the same with us.
    pub request_isolation: bool,
    /// As written. Default and `on` are `s2_auto`.
    pub compression: CompressionOptions,
    /// Time for the remote to send INFO. Default 1 s.
    pub first_info_timeout: Duration,
    /// For the TCP connection; `None` is that of all remotes.
    pub dial_timeout: Option<Duration>,
    /// Do not connect.
    pub disabled: bool,
    /// Reach the remote through this proxy.
    pub proxy: Option<LeafProxyOptions>,
    /// Never connect to servers that are not among `urls`.
    pub ignore_discovered_servers: bool,
}

impl Default for LeafRemoteOptions {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            no_randomize: false,
            account: None,
            credentials: LeafCredentials::None,
            tls: None,
            hub: false,
            deny_imports: Vec::new(),
            deny_exports: Vec::new(),
            ws_compression: false,
            ws_no_masking: false,
            jetstream_cluster_migrate: ClusterMigrate::Off,
            isolate_leafnode_interest: false,
            request_isolation: false,
            compression: CompressionOptions::default(),
            first_info_timeout: Duration::from_secs(1),
            dial_timeout: None,
            disabled: false,
            proxy: None,
            ignore_discovered_servers: false,
        }
    }
}

pub(super) fn read_remotes(field: &Field<'_>, report: &mut Diagnostics) -> Read<Vec<LeafRemoteOptions>> {
    let Value::Array(items) = field.value() else {
        let found = field.value().go_type();
        return Err(field.diagnostic(format!("Expected remotes field to be an array, got {found}")));
    };
    let (mut names, mut remotes) = (HashSet::new(), Vec::new());
    for item in items {
        let remote = read_remote(item, &mut names, report);
        remotes.extend(report.keep(remote));
    }
    Ok(remotes)
}

fn read_remote(
    node: &Node,
    names: &mut HashSet<String>,
    report: &mut Diagnostics,
) -> Read<LeafRemoteOptions> {
    let Value::Map(map) = &node.value else {
        let message =
            format!("Expected remote leafnode entry to be a map/struct, got {}", node.value.shown());
        return Err(diagnostic_at(&node.position, message));
    };
    let mut remote = LeafRemoteOptions::default();
    let errors = report.errors.len();
    read_block(map, BlockKind::LeafRemote, report, |field, report| {
        Ok(remote.set_link(field, report)? || remote.set_behaviour(field, report)?)
    });
    if report.errors.len() > errors {
        return Ok(remote);
    }
    if let Some(proxy) = &remote.proxy {
        let checked = proxy.check_urls(&remote.urls, remote.tls.is_some());
        checked.map_err(|error| diagnostic_at(place_of(map, "proxy", node), error))?;
    }
    // Compat: what is repeated is placed at the last field of the second remote.
    if !names.insert(remote.name(&remote.urls)) {
        let place = map.iter().last().map_or(&node.position, |(_, last)| &last.position);
        return Err(diagnostic_at(place, format!("duplicate remote {}", remote.safe_name(&remote.urls))));
    }
    Ok(remote)
}

fn place_of<'a>(map: &'a Map, name: &str, node: &'a Node) -> &'a crate::diagnostic::Position {
    let field = map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    field.map_or(&node.position, |(_, field)| &field.position)
}

impl LeafRemoteOptions {
    fn set_link(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "url" | "urls" => self.set_urls(field, report)?,
            "account" | "local" => self.account = field.optional_text()?,
            "creds" | "credentials" => {
                self.set_credentials(field, LeafCredentials::File(field.text()?.into()))?;
            }
            "nkey" | "seed" => self.set_credentials(field, LeafCredentials::Seed(seed(field)?))?,
            "tls" => self.tls = Some(TlsOptions::read(field, TlsUse::LeafRemote, report)?),
            "proxy" => self.proxy = Some(LeafProxyOptions::read(field, report)?),
            "first_info_timeout" => {
                let chosen = field.chosen_duration(field.written(), report)?;
                self.first_info_timeout = chosen.unwrap_or(Self::default().first_info_timeout);
            }
            "dial_timeout" => self.dial_timeout = field.chosen_duration(field.written(), report)?,
            "compression" => self.compression = CompressionOptions::read(field, "s2_auto", report)?,
            "ws_compress" | "ws_compression" | "websocket_compress" | "websocket_compression" => {
                self.ws_compression = field.boolean()?;
            }
            "ws_no_masking" | "websocket_no_masking" => self.ws_no_masking = field.boolean()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_behaviour(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "no_randomize" | "dont_randomize" => self.no_randomize = field.boolean()?,
            "hub" => self.hub = field.boolean()?,
            "deny_imports" | "deny_import" => self.deny_imports = subjects(field)?,
            "deny_exports" | "deny_export" => self.deny_exports = subjects(field)?,
            "jetstream_cluster_migrate" | "js_cluster_migrate" => {
                self.jetstream_cluster_migrate = ClusterMigrate::read(field, report)?;
            }
            "isolate_leafnode_interest" | "isolate" => self.isolate_leafnode_interest = field.boolean()?,
            "request_isolation" => self.request_isolation = field.boolean()?,
            "disabled" => self.disabled = field.boolean()?,
            "ignore_discovered_servers" => self.ignore_discovered_servers = field.boolean()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// One URL is added, a list replaces.
    fn set_urls(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<()> {
        match field.value() {
            Value::Text(text) => self.urls.push(read_url(text, "leafnode", field.node())?),
            Value::Array(items) => self.urls = read_urls(items, "leafnode", report),
            other => {
                let expected = "Expected remote leafnode url to be an array or string";
                return Err(field.diagnostic(format!("{expected}, got {}", other.shown())));
            }
        }
        Ok(())
    }

    fn set_credentials(&mut self, field: &Field<'_>, credentials: LeafCredentials) -> Read<()> {
        let is_other_kind = |held: &LeafCredentials| {
            !matches!(held, LeafCredentials::None)
                && std::mem::discriminant(held) != std::mem::discriminant(&credentials)
        };
        if is_other_kind(&self.credentials) {
            return Err(field.diagnostic("Remote leafnode can not have both creds and nkey defined"));
        }
        self.credentials = credentials;
        Ok(())
    }

    /// The URLs, all with a port.
    pub fn targets(&self) -> Vec<Url> {
        self.urls.iter().map(|url| url.or_port(DEFAULT_LEAF_PORT)).collect()
    }

    /// Name by which a remote with these URLs is one of its kind. Never to be logged.
    pub(super) fn name(&self, urls: &[Url]) -> String {
        let credentials = match &self.credentials {
            LeafCredentials::None => String::new(),
            LeafCredentials::File(path) => format!(", credentials={:?}", path.display().to_string()),
            LeafCredentials::Seed(seed) => format!(", nkey={:?}", seed.reveal()),
        };
        let urls: Vec<_> = urls.iter().map(|url| format!("{:?}", url.reveal())).collect();
        format!("urls=[{}], account={:?}{credentials}", urls.join(" "), self.account_name())
    }

    /// Names a remote for the log: without secrets.
    pub(super) fn safe_name(&self, urls: &[Url]) -> String {
        let credentials = match &self.credentials {
            LeafCredentials::None => String::new(),
            LeafCredentials::File(path) => format!(", credentials={:?}", path.display().to_string()),
            LeafCredentials::Seed(_) => ", nkey=\"[REDACTED]\"".to_owned(),
        };
        format!("urls=[{}], account={:?}{credentials}", safe_urls(urls), self.account_name())
    }

    /// Name by which a reload finds a remote again. Never to be logged.
    pub fn identity(&self) -> String {
        self.name(&self.targets())
    }

    /// Whether another remote is the same but for TLS, with it and with its proxy. A port that was
    /// not written down is the default one.
    pub fn is_with_other_tls(&self, other: &Self) -> bool {
        let without = |remote: &Self| {
            let proxy = remote.proxy.clone().map(|proxy| LeafProxyOptions { tls: None, ..proxy });
            Self { urls: remote.targets(), tls: None, proxy, ..remote.clone() }
        };
        without(self) == without(other)
    }

    /// Addresses and account, for the log: without secrets, and without how this server logs in.
    pub fn shown_name(&self) -> String {
        format!("urls=[{}], account={:?}", safe_urls(&self.targets()), self.account_name())
    }

    fn account_name(&self) -> &str {
        self.account.as_deref().unwrap_or(GLOBAL_ACCOUNT)
    }

    /// The way the link is compressed.
    ///
    /// # Errors
    /// The mode is unknown. Options that were loaded to run have been checked.
    pub fn compression(&self) -> Result<LinkCompression, String> {
        super::resolve(&self.compression)
    }

    /// The first reason why the remote cannot be used.
    pub(super) fn check(&self) -> Result<(), String> {
        let web_sockets = self.urls.iter().filter(|url| url.is_web_socket()).count();
        if web_sockets != 0 && web_sockets != self.urls.len() {
            return Err(format!(
                "remote leaf node configuration cannot have a mix of websocket and non-websocket urls: [{}]",
                safe_urls(&self.targets())
            ));
        }
        self.compression().map(drop)
    }
}

fn safe_urls(urls: &[Url]) -> String {
    let urls: Vec<_> = urls.iter().map(|url| format!("{:?}", url.to_string())).collect();
    urls.join(" ")
}

impl ClusterMigrate {
    /// Compat: of a block, `leader_migrate_delay` in lower case counts, and all else is ignored.
    fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Self> {
        match field.value() {
            Value::Boolean(false) => Ok(ClusterMigrate::Off),
            Value::Boolean(true) => Ok(ClusterMigrate::After(Duration::ZERO)),
            Value::Map(map) => {
                let Some((name, node)) = map.iter().find(|(key, _)| *key == "leader_migrate_delay") else {
                    return Ok(ClusterMigrate::After(Duration::ZERO));
                };
                let delay = Field::new(name, node).chosen_duration(name, report)?;
                Ok(ClusterMigrate::After(delay.unwrap_or_default()))
            }
            other => {
                let expected = "Expected boolean or map for jetstream_cluster_migrate";
                Err(field.diagnostic(format!("{expected}, got {}", other.go_type())))
            }
        }
    }
}

fn seed(field: &Field<'_>) -> Read<Secret> {
    let text = field.text()?;
    if !matches!(nkey::seed(text), Some((Role::User, _))) {
        let message = format!("Remote leafnode nkey is not a valid seed: {text:?}");
        return Err(field.diagnostic(message));
    }
    Ok(Secret::new(text))
}

/// A subject or a list of them.
fn subjects(field: &Field<'_>) -> Read<Vec<String>> {
    let texts = match field.value() {
        Value::Text(text) => vec![text.clone()],
        Value::Array(items) => {
            let text = |item: &Node| match &item.value {
                Value::Text(text) => Ok(text.clone()),
                _ => {
                    let message = "Subject in permissions array cannot be cast to string";
                    Err(diagnostic_at(&item.position, message))
                }
            };
            items.iter().map(text).collect::<Read<_>>()?
        }
        other => {
            let expected = "Expected subject permissions to be a subject, or array of subjects";
            return Err(field.diagnostic(format!("{expected}, got {}", other.go_type())));
        }
    };
    match texts.iter().find(|text| !is_valid_pattern(text.as_bytes())) {
        Some(wrong) => Err(field.diagnostic(format!("subject {wrong:?} is not a valid subject"))),
        None => Ok(texts),
    }
}

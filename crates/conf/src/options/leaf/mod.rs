//! `leafnodes{}`: leaf nodes that connect to us, and servers that we connect to as one.

mod authorization;
mod proxy;
mod remote;

pub use authorization::{LeafAuthorization, LeafUserOptions};
pub use proxy::LeafProxyOptions;
pub use remote::{ClusterMigrate, LeafCredentials, LeafRemoteOptions};

use std::collections::HashSet;
use std::time::Duration;

use super::cluster::implied_system_account;
use super::compression::{CompressionOptions, LinkCompression, RttThresholds};
use super::field::{Diagnostics, Field, Read, read_block};
use super::limits::WriteTimeout;
use super::listener::ListenerOptions;
use super::table::BlockKind;
use super::tls::{TlsOptions, TlsUse};
use super::{GLOBAL_ACCOUNT, Options};
use myelin_stdx::nkey::Role;

/// The port of a remote's URL that names none.
pub const DEFAULT_LEAF_PORT: u16 = 7422;

/// Leaf nodes in both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafNodeOptions {
    /// Where leaf nodes are accepted.
    pub listener: ListenerOptions,
    /// Authorization of leaf nodes.
    pub authorization: LeafAuthorization,
    /// Servers that we connect to.
    pub remotes: Vec<LeafRemoteOptions>,
    /// Wait between two attempts to connect to a remote. Default 1 s.
    pub reconnect: Duration,
    /// For the TCP connection to a remote. Default 1 s.
    pub dial_timeout: Duration,
    /// For leaf nodes that connect to us.
    pub tls: Option<TlsOptions>,
    /// `host` or `host:port` that leaf nodes are told instead of the bound address.
    pub advertise: Option<String>,
    /// Do not tell leaf nodes of the other servers' addresses.
    pub no_advertise: bool,
    /// Oldest version of a leaf node's server, at least 2.8.0.
    pub min_version: Option<[u64; 3]>,
    /// As written. Default and `on` are `s2_auto`.
    pub compression: CompressionOptions,
    /// Whether the interest of one leaf node is kept from the others.
    pub isolate_leafnode_interest: bool,
    /// `None` is that of clients.
    pub write_deadline: Option<Duration>,
    /// Reaction when the write deadline passes. By default the write is tried again.
    pub write_timeout: WriteTimeout,
}

impl Default for LeafNodeOptions {
    fn default() -> Self {
        Self {
            listener: ListenerOptions::default(),
            authorization: LeafAuthorization::default(),
            remotes: Vec::new(),
            reconnect: Duration::from_secs(1),
            dial_timeout: Duration::from_secs(1),
            tls: None,
            advertise: None,
            no_advertise: false,
            min_version: None,
            compression: CompressionOptions::default(),
            isolate_leafnode_interest: false,
            write_deadline: None,
            write_timeout: WriteTimeout::Default,
        }
    }
}

impl LeafNodeOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        if !matches!(field.name(), "leaf" | "leafnodes") {
            return Ok(false);
        }
        let map = field.block("Expected map to define a leafnode")?;
        read_block(map, BlockKind::LeafNodes, report, |inner, report| {
            Ok(self.listener.set(inner, report)?
                || self.set_link(inner, report)?
                || self.set_timing(inner, report)?)
        });
        Ok(true)
    }

    fn set_link(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "authorization" => {
                self.authorization = LeafAuthorization::read(field, report)?;
                self.authorization.check().map_err(|error| field.diagnostic(error))?;
            }
            "remotes" => self.remotes = remote::read_remotes(field, report)?,
            "tls" => self.tls = Some(TlsOptions::read(field, TlsUse::LeafNodes, report)?),
            "leafnode_advertise" | "advertise" => self.advertise = field.optional_text()?,
            "no_advertise" => self.no_advertise = field.boolean()?,
            "min_version" | "minimum_version" => self.min_version = Some(min_version(field)?),
            "compression" => self.compression = CompressionOptions::read(field, "s2_auto", report)?,
            "isolate_leafnode_interest" | "isolate" => self.isolate_leafnode_interest = field.boolean()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_timing(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        let default = Self::default();
        match field.name() {
            "reconnect" | "reconnect_delay" | "reconnect_interval" => {
                self.reconnect = field.chosen_duration("reconnect", report)?.unwrap_or(default.reconnect);
            }
            "dial_timeout" => {
                let chosen = field.chosen_duration("dial_timeout", report)?;
                self.dial_timeout = chosen.unwrap_or(default.dial_timeout);
            }
            "write_deadline" => self.write_deadline = field.chosen_duration("write_deadline", report)?,
            "write_timeout" => self.write_timeout = WriteTimeout::read(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The way the links of leaf nodes that connect to us are compressed.
    ///
    /// # Errors
    /// The mode is unknown. Options that were loaded to run have been checked.
    pub fn compression(&self) -> Result<LinkCompression, String> {
        resolve(&self.compression)
    }

    /// The first reason why these options cannot run with the others.
    pub(super) fn check(&self, options: &Options) -> Result<(), String> {
        self.authorization.check()?;
        let mut names = HashSet::new();
        for remote in &self.remotes {
            let urls = remote.targets();
            if !names.insert(remote.name(&urls)) {
                return Err(format!("duplicate remote {}", remote.safe_name(&urls)));
            }
        }
        self.check_accounts(options)?;
        self.compression()?;
        self.remotes.iter().try_for_each(LeafRemoteOptions::check)?;
        let is_alone = self.listener.port.is_none() || !options.gateway.is_configured();
        if is_alone || options.accounts.configured_system_account.is_some() {
            return Ok(());
        }
        Err("leaf nodes and gateways (both being defined) require a system account to also be configured"
            .to_owned())
    }

    /// Without operators, every account that is named has to exist; with them, it is a key.
    fn check_accounts(&self, options: &Options) -> Result<(), String> {
        if options.trusts_operators() {
            return self.check_operator_mode();
        }
        let exists = |name: &str| {
            name.is_empty()
                || name == GLOBAL_ACCOUNT
                || implied_system_account(options) == Some(name)
                || options.accounts.list.iter().any(|account| account.name == name)
        };
        let users = self.authorization.users.iter().map(|user| (&user.account, "authorization"));
        let remotes = self.remotes.iter().map(|remote| (&remote.account, "remote"));
        let named =
            std::iter::once((&self.authorization.account, "authorization")).chain(users).chain(remotes);
        for (name, place) in named.filter_map(|(name, place)| Some((name.as_deref()?, place))) {
            if !exists(name) {
                return Err(format!("cannot find local account {name:?} specified in leafnode {place}"));
            }
        }
        Ok(())
    }
}

impl LeafNodeOptions {
    fn check_operator_mode(&self) -> Result<(), String> {
        if !self.authorization.users.is_empty() {
            return Err("operator mode does not allow specifying users in leafnode config".to_owned());
        }
        let is_key = |account: &Option<String>| account.as_deref().is_some_and(|key| Role::Account.owns(key));
        if !self.remotes.iter().all(|remote| is_key(&remote.account)) {
            return Err("operator mode requires account nkeys in remotes. Please add an `account` key to each \
                 remote in your `leafnodes` section, to assign it to an account. Each account value should be a \
                 56 character public key, starting with the letter 'A'"
                .to_owned());
        }
        let account = &self.authorization.account;
        if self.listener.port.is_some() && account.is_some() && !is_key(account) {
            return Err("operator mode and non account nkeys are incompatible".to_owned());
        }
        Ok(())
    }
}

fn resolve(compression: &CompressionOptions) -> Result<LinkCompression, String> {
    compression.resolve("s2_auto", LinkCompression::S2Auto(RttThresholds::default()))
}

fn min_version(field: &Field<'_>) -> Read<[u64; 3]> {
    const OLDEST: [u64; 3] = [2, 8, 0];
    match version(field.text()?) {
        None => Err(field.diagnostic("invalid leafnode's minimum version: invalid semver")),
        Some(version) if version < OLDEST => {
            Err(field.diagnostic("the minimum version should be at least 2.8.0"))
        }
        Some(version) => Ok(version),
    }
}

/// The numbers of a semantic version.
fn version(text: &str) -> Option<[u64; 3]> {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (numbers, pre) = text.split_once('-').map_or((text, None), |(text, pre)| (text, Some(pre)));
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let is_number = |word: &str| {
        word.bytes().all(|byte| byte.is_ascii_digit()) && (word.len() == 1 || !word.starts_with('0'))
    };
    let is_pre =
        |word: &str| is_word(word) && (is_number(word) || word.contains(|c: char| !c.is_ascii_digit()));
    if !pre.is_none_or(|pre| pre.split('.').all(is_pre))
        || !build.is_none_or(|build| build.split('.').all(is_word))
    {
        return None;
    }
    let numbers: Vec<&str> = numbers.split('.').collect();
    let &[major, minor, patch] = &numbers[..] else { return None };
    let number = |text: &str| text.parse().ok().filter(|_| is_number(text));
    Some([number(major)?, number(minor)?, number(patch)?])
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_semantic() {
        for (text, numbers) in [
            ("2.8.0", Some([2, 8, 0])),
            ("2.10.12-beta.1+build.007", Some([2, 10, 12])),
            ("2.8.0--", Some([2, 8, 0])),
            ("02.8.0", None),
            ("2.8", None),
            ("2.8.0.1", None),
            ("v2.8.0", None),
            ("2.8.0-", None),
            ("2.8.0-01", None),
            ("2.8.0+", None),
            ("2.+8.0", None),
            ("", None),
        ] {
            assert_eq!(version(text), numbers, "{text}");
        }
    }
}

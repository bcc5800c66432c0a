//! Where the tokens of accounts are found: in memory, in a directory, or behind a URL.

use std::path::PathBuf;
use std::time::Duration;

use super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::table::BlockKind;
use super::tls::{TlsOptions, TlsUse};
use crate::duration;
use crate::files::{self, PathState};
use crate::url::Url;
use crate::value::{Map, Value};
use myelin_auth::jwt;

/// Where account tokens are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountResolver {
    /// In memory: only those that are preloaded.
    Memory,
    /// Behind this URL, to which the account's key is appended.
    Url(String),
    /// In a directory with all accounts, which servers keep alike.
    Full(FullResolver),
    /// In a directory with those that were needed; others are asked for.
    Cache(CacheResolver),
}

/// A directory with the tokens of all accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullResolver {
    /// The directory; it may not exist yet.
    pub dir: PathBuf,
    /// Effect of deleting an account.
    pub deletes: DeleteMode,
    /// Most tokens to keep; `None` is no limit.
    pub limit: Option<u64>,
    /// How often servers compare what they have. Default 1 minute.
    pub interval: Duration,
    /// How long to wait for other servers. Default 1.9 s.
    pub timeout: Duration,
}

/// Effect of deleting an account on its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeleteMode {
    /// Refusal of the deletion.
    #[default]
    Refused,
    /// The file is renamed.
    Renamed,
    /// The file is removed.
    Removed,
}

/// A directory with the tokens that were needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheResolver {
    /// The directory; it may not exist yet.
    pub dir: PathBuf,
    /// Most tokens to keep. Default 1000.
    pub limit: u64,
    /// How long a token is kept; `None` until it expires.
    pub ttl: Option<Duration>,
    /// How long to wait for other servers. Default 1.9 s.
    pub timeout: Duration,
}

/// The account resolver and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolverOptions {
    /// As configured. Without one, the only operator may name a URL.
    pub resolver: Option<AccountResolver>,
    /// TLS for a URL.
    pub tls: Option<TlsOptions>,
    /// Tokens to begin with, by the public key of their account.
    pub preload: Vec<(String, String)>,
    /// The only accounts that may be used, by public key; none is all of them.
    pub pinned_accounts: Vec<String>,
}

const DEFAULT_TIMEOUT: Duration = Duration::from_millis(1900);
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
const DEFAULT_CACHE_LIMIT: u64 = 1000;

impl ResolverOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "resolver" | "account_resolver" | "accounts_resolver" => {
                self.resolver = None;
                self.resolver = AccountResolver::read(field, report)?;
            }
            "resolver_tls" => self.tls = Some(TlsOptions::read(field, TlsUse::Resolver, report)?),
            "resolver_preload" => self.preload = preload(field, report)?,
            "resolver_pinned_accounts" => self.pinned_accounts = pinned_accounts(field, report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn preload(field: &Field<'_>, report: &mut Diagnostics) -> Read<Vec<(String, String)>> {
    let Value::Map(map) = field.value() else {
        return Err(field.diagnostic("preload should be a map of account_public_key:account_jwt"));
    };
    let mut preload = Vec::new();
    for (key, node) in map.iter() {
        match &node.value {
            Value::Text(token) if jwt::account(token).is_ok() => {
                preload.push((key.to_owned(), token.clone()));
            }
            Value::Text(_) => report.errors.push(diagnostic_at(&node.position, "invalid account JWT")),
            _ => {
                report.errors.push(diagnostic_at(&node.position, "preload map value should be a string JWT"))
            }
        }
    }
    Ok(preload)
}

fn pinned_accounts(field: &Field<'_>, report: &mut Diagnostics) -> Read<Vec<String>> {
    let unsupported = |rest: &str| format!("error parsing resolver_pinned_accounts: unsupported type {rest}");
    let items = match field.value() {
        Value::Text(key) => return Ok(vec![key.clone()]),
        Value::Array(items) => items,
        other => return Err(field.diagnostic(unsupported(other.type_name()))),
    };
    let mut keys = Vec::new();
    for item in items {
        match &item.value {
            Value::Text(key) => keys.push(key.clone()),
            other => {
                let message = unsupported(&format!("in array {}", other.type_name()));
                report.errors.push(diagnostic_at(&item.position, message));
            }
        }
    }
    Ok(keys)
}

impl AccountResolver {
    /// `None` when the value has been complained about.
    fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Option<Self>> {
        let unclear = || {
            field.diagnostic(
                "error parsing account resolver, should be MEM or  URL(\"url\") \
                 or a map containing dir and type state=[FULL|CACHE])",
            )
        };
        match field.value() {
            Value::Text(text) if text.to_ascii_uppercase().contains("MEM") => Ok(Some(Self::Memory)),
            Value::Text(text) => match url(text) {
                None => Err(unclear()),
                Some(url) if Url::parse(url).is_some() => Ok(Some(Self::Url(url.to_owned()))),
                Some(url) => Err(field.diagnostic(format!("error parsing account resolver url [{url:?}]"))),
            },
            Value::Map(map) => ResolverFields::read(map, field, report).map_or(Ok(None), |draft| {
                let resolver = draft.finish(field, report);
                resolver.map_or_else(|| Err(unclear()), Ok)
            }),
            other => {
                let found = other.type_name();
                Err(field.diagnostic(format!("error parsing operator resolver, wrong type {found}")))
            }
        }
    }
}

/// Text between the parentheses of `URL(...)`, without quotes; empty when there are no parentheses.
///
/// Compat: the first `url` counts, wherever it stands in the text.
fn url(text: &str) -> Option<&str> {
    let at = text.to_ascii_lowercase().find("url")?;
    let inner = || {
        let rest = text[at + 3..].strip_prefix('(')?.trim_start();
        let rest = rest.strip_prefix('"').unwrap_or(rest);
        let word = &rest[..rest.find(|c: char| c.is_ascii_whitespace() || c == '"').unwrap_or(rest.len())];
        let behind = &rest[word.len()..];
        let behind = behind.strip_prefix('"').unwrap_or(behind).trim_start();
        if behind.starts_with(')') { Some(word) } else { word.rfind(')').map(|end| &word[..end]) }
    };
    Some(inner().unwrap_or_default())
}

/// The fields of a block.
#[derive(Default)]
struct ResolverFields {
    dir: String,
    kind: String,
    allow_delete: bool,
    hard_delete: Option<bool>,
    limit: i64,
    ttl: i64,
    interval: i64,
    timeout: Option<i64>,
}

impl ResolverFields {
    /// `None` when a field has been complained about.
    fn read(map: &Map, block: &Field<'_>, report: &mut Diagnostics) -> Option<Self> {
        let mut draft = Self::default();
        let mut is_spoilt = false;
        read_block(map, BlockKind::Resolver, report, |field, _| {
            let is_read = draft.set(field, block);
            is_spoilt |= is_read.is_err();
            is_read
        });
        (!is_spoilt).then_some(draft)
    }

    fn set(&mut self, field: &Field<'_>, block: &Field<'_>) -> Read<bool> {
        // Compat: a bad duration is complained about at the resolver.
        let nanos = || duration::parse(field.text()?).map_err(|error| block.diagnostic(error));
        match field.name() {
            "dir" => field.text()?.clone_into(&mut self.dir),
            "type" => self.kind = field.text()?.to_uppercase(),
            "allow_delete" => self.allow_delete = field.boolean()?,
            "hard_delete" => self.hard_delete = Some(field.boolean()?),
            "limit" => self.limit = field.integer()?,
            "ttl" => self.ttl = nanos()?,
            "interval" => self.interval = nanos()?,
            "timeout" => self.timeout = Some(nanos()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The resolver, which is of use only without new diagnostics; `None` when the type is unknown.
    fn finish(self, field: &Field<'_>, report: &mut Diagnostics) -> Option<Option<AccountResolver>> {
        let errors = report.errors.len();
        let mut refuse = |is_wrong: bool, message: &str| {
            if is_wrong {
                report.errors.push(field.diagnostic(message));
            }
        };
        let is_cache = match self.kind.as_str() {
            "MEM" | "MEMORY" => return Some(Some(AccountResolver::Memory)),
            "CACHE" => true,
            "FULL" => false,
            _ => return None,
        };
        let is_missing = self.dir.is_empty();
        refuse(is_missing, "dir has no value and needs to point to a directory");
        let is_blocked = !is_missing && files::place(&self.dir) == PathState::Blocked;
        refuse(is_blocked, "dir needs to point to an accessible directory");
        if is_cache {
            // Compat: the reference panics when its timer starts.
            refuse(self.ttl < 0, "invalid ttl, needs to be positive");
            refuse(self.interval != 0, "CACHE does not accept sync");
            refuse(self.allow_delete, "CACHE does not accept allow_delete");
            refuse(self.hard_delete.is_some(), "CACHE does not accept hard_delete");
        } else {
            refuse(self.ttl != 0, "FULL does not accept ttl");
            let is_vain = self.hard_delete.is_some() && !self.allow_delete;
            refuse(is_vain, "hard_delete has no effect without delete");
        }
        if let Some(nanos @ ..=0) = self.timeout {
            let shown = duration::format(Duration::from_nanos(nanos.unsigned_abs()));
            let sign = if nanos < 0 { "-" } else { "" };
            refuse(true, &format!("Fetch timeout {sign}{shown} is too smal"));
        }
        let is_good = report.errors.len() == errors;
        Some(is_good.then(|| if is_cache { self.into_cache() } else { self.into_full() }))
    }

    fn into_cache(self) -> AccountResolver {
        let limit = u64::try_from(self.limit).ok().filter(|&limit| limit > 0);
        AccountResolver::Cache(CacheResolver {
            limit: limit.unwrap_or(DEFAULT_CACHE_LIMIT),
            ttl: positive(self.ttl),
            timeout: self.timeout.and_then(positive).unwrap_or(DEFAULT_TIMEOUT),
            dir: self.dir.into(),
        })
    }

    fn into_full(self) -> AccountResolver {
        let deletes = match (self.allow_delete, self.hard_delete) {
            (false, _) => DeleteMode::Refused,
            (true, Some(true)) => DeleteMode::Removed,
            (true, _) => DeleteMode::Renamed,
        };
        AccountResolver::Full(FullResolver {
            deletes,
            limit: u64::try_from(self.limit).ok().filter(|&limit| limit > 0),
            interval: positive(self.interval).unwrap_or(DEFAULT_INTERVAL),
            timeout: self.timeout.and_then(positive).unwrap_or(DEFAULT_TIMEOUT),
            dir: self.dir.into(),
        })
    }
}

fn positive(nanos: i64) -> Option<Duration> {
    u64::try_from(nanos).ok().filter(|&nanos| nanos > 0).map(Duration::from_nanos)
}

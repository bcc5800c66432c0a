//! Conflicts of operators, resolvers, callouts and proxies with the rest of the configuration.

use crate::options::{
    AccountResolver, Diagnostics, GLOBAL_ACCOUNT, OperatorOptions, OperatorsOptions, Options, ProxiesOptions,
    ResolverOptions,
};
use crate::{Diagnostic, Secret};
use myelin_auth::jwt;
use myelin_stdx::nkey::{self, Role};

/// The version that Myelin claims: what operators may ask for.
const VERSION: [u32; 3] = [2, 15, 2];

impl Options {
    /// Accounts that a callout may use must exist. Checked with the file, when all of it is read.
    pub(in crate::options) fn check_callout_accounts(&self, report: &mut Diagnostics) {
        let Some(callout) = &self.authorization.callout else { return };
        let has_global = self.accounts.global_mappings.is_some();
        // Compat: the global account counts only when it has been given mappings.
        let exists = |name: &String| {
            (has_global && name == GLOBAL_ACCOUNT)
                || self.accounts.list.iter().any(|known| known.name == *name)
        };
        let complain = |name| Diagnostic {
            position: None,
            message: format!("auth_callout allowed account {name:?} not found in configured accounts"),
        };
        let unknown = callout.allowed_accounts.iter().filter(|name| !exists(name));
        report.errors.extend(unknown.map(complain));
    }

    /// Whether operators agree with the rest. Without operators there is little to check.
    pub(super) fn check_operators(&self) -> Result<(), String> {
        let operators = &self.operators;
        if operators.list.is_empty() {
            return refuse(
                operators.default_sentinel.is_some(),
                "default sentinel requires operators and accounts",
            );
        }
        operators.default_sentinel.as_ref().map_or(Ok(()), check_sentinel)?;
        // A single operator brings a resolver along.
        let has_resolver = self.resolver.resolver.is_some() || operators.list.len() == 1;
        refuse(!has_resolver, "operators require an account resolver to be configured")?;
        let has_accounts = !self.accounts.list.is_empty() || self.accounts.global_mappings.is_some();
        refuse(has_accounts, "operators do not allow Accounts to be configured directly")?;
        let has_users = !self.authorization.users.is_empty() || !self.authorization.nkeys.is_empty();
        refuse(has_users, "operators do not allow users to be configured directly")?;
        let has_keys = !operators.trusted_keys.is_empty();
        refuse(has_keys, "conflicting options for 'TrustedKeys' and 'TrustedOperators'")?;
        self.check_operators_system_account()?;
        operators.list.iter().try_for_each(OperatorOptions::check_version)?;
        operators.check_keys()?;
        self.resolver.check_pinned()?;
        let has_callout = self.authorization.callout.is_some();
        refuse(has_callout, "operators do not allow authorization callouts to be configured directly")
    }

    fn check_operators_system_account(&self) -> Result<(), String> {
        let operators = &self.operators.list;
        let configured = self.accounts.configured_system_account.as_ref();
        let theirs = operators.iter().filter_map(|operator| operator.system_account.as_ref());
        match configured {
            Some(configured) => {
                let mut theirs = theirs.peekable();
                let differs = theirs.peek().is_some() && !theirs.any(|name| name == configured);
                refuse(differs, "system_account in config and operator JWT must be identical")
            }
            None => {
                let asks_others = matches!(
                    self.resolver.resolver,
                    Some(AccountResolver::Full(_) | AccountResolver::Cache(_))
                );
                let has_none = operators.first().is_some_and(|first| first.system_account.is_none());
                refuse(
                    asks_others && has_none,
                    "using nats based account resolver - the system account needs to be specified in \
                     configuration or the operator jwt",
                )
            }
        }
    }
}

fn refuse(is_wrong: bool, message: &str) -> Result<(), String> {
    if is_wrong { Err(message.to_owned()) } else { Ok(()) }
}

/// Whoever has no token becomes the user of this one, so it must need no proof.
fn check_sentinel(token: &Secret) -> Result<(), String> {
    let claims = jwt::user(token.reveal()).map_err(|_| "default sentinel JWT not valid".to_owned())?;
    let may = &claims.nats.permissions;
    let is_bearer = may.bearer_token;
    // What is left open may be filled in by a scope, which shows only when somebody connects.
    let may_be_bearer = !claims.nats.issuer_account.is_empty() && may.are_empty();
    refuse(!is_bearer && !may_be_bearer, "default sentinel must be a bearer token")
}

impl OperatorOptions {
    fn check_version(&self) -> Result<(), String> {
        let Some(version) = &self.required_version else { return Ok(()) };
        let key = &self.key;
        let required = parse_version(version).map_err(|error| {
            format!("operator {key} expects version {version} got error instead: {error}")
        })?;
        let parts = ["major", "minor", "update"].into_iter().zip(required).zip(VERSION);
        match parts.map(|((part, theirs), ours)| (part, theirs, i64::from(ours))).find(|(_, a, b)| a != b) {
            Some((part, theirs, ours)) if theirs > ours => {
                Err(format!("operator {key} expected {part} version {theirs} > server {part} version {ours}"))
            }
            _ => Ok(()),
        }
    }
}

fn parse_version(text: &str) -> Result<[i64; 3], String> {
    let parts: Vec<&str> = text.split('.').collect();
    let &[major, minor, update] = &parts[..] else {
        return Err("asserted server version must be of the form <major>.<minor>.<update>".to_owned());
    };
    let number = |part: &str| {
        part.parse::<i64>().map_err(|_| format!("asserted server version cant parse {part} to int"))
    };
    let version = [number(major)?, number(minor)?, number(update)?];
    if version.iter().any(|&part| part < 0) {
        // Compat: the typing mistake is the reference's.
        return Err(format!("asserted server version can'b contain negative values: {text}"));
    }
    Ok(version)
}

impl OperatorsOptions {
    fn check_keys(&self) -> Result<(), String> {
        let keys = self.list.iter().flat_map(|operator| {
            let own = (!operator.strict_signing_keys).then_some(&operator.key);
            own.into_iter().chain(&operator.signing_keys)
        });
        match keys.into_iter().find(|key| !Role::Operator.owns(key)) {
            Some(key) => Err(format!("trusted Keys {key:?} are required to be a valid public operator nkey")),
            None => Ok(()),
        }
    }
}

impl ResolverOptions {
    fn check_pinned(&self) -> Result<(), String> {
        match self.pinned_accounts.iter().find(|key| !Role::Account.owns(key)) {
            Some(key) => Err(format!("pinned account key {key:?} is not a valid public account nkey")),
            None => Ok(()),
        }
    }

    /// Whether there is a place for what is preloaded.
    pub(super) fn check_preload(&self) -> Result<(), String> {
        let is_read_only = matches!(self.resolver, Some(AccountResolver::Url(_)));
        refuse(
            is_read_only && !self.preload.is_empty(),
            "resolver preloads only available for writeable resolver types MEM/DIR/CACHE_DIR",
        )
    }
}

impl ProxiesOptions {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.trusted.iter().find(|key| nkey::public_key(key).is_none()) {
            Some(key) => Err(format!("proxy trusted key {key:?} is invalid")),
            None => Ok(()),
        }
    }
}

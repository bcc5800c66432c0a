//! Requests of the system account about tokens of accounts: to take one into force, to hand it out,
//! to list, to delete.
//!
//! What is stored in a directory comes into force here as well, for accounts that are known. Who
//! may say so: an operator whose signature a token carries; that somebody may ask at all is the
//! system account's own permissions' to say.

use super::{TokenSource, Tokens};
use crate::resolver::directory::TokenDirectory;
use myelin_auth::jwt::{self, AccountClaims};
use myelin_broker::Broker;
use myelin_conf::options::OperatorOptions;
use myelin_stdx::nkey::Role;
use myelin_subject::{Mappings, WeightedDestination};
use std::time::{SystemTime, UNIX_EPOCH};

/// Operator whose signature counts.
pub(super) struct Operator {
    key: String,
    signing_keys: Vec<String>,
    /// Accounts are signed by signing keys only.
    is_strict: bool,
}

impl Operator {
    pub(super) fn of(options: &OperatorOptions) -> Self {
        Self {
            key: options.key.clone(),
            signing_keys: options.signing_keys.clone(),
            is_strict: options.strict_signing_keys,
        }
    }

    fn is_trusted(&self, key: &str) -> bool {
        (!self.is_strict && key == self.key) || self.signing_keys.iter().any(|own| own == key)
    }
}

/// Result of a request: of which account, what is said of it, and why it failed if it did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Updated {
    pub(crate) account: String,
    pub(crate) message: String,
    pub(crate) error: Option<String>,
    /// Accounts that are no more.
    pub(crate) has_removed: bool,
}

impl Updated {
    fn new(account: &str, message: impl Into<String>, error: Option<String>) -> Self {
        Self { account: account.to_owned(), message: message.into(), error, has_removed: false }
    }
}

impl Tokens {
    /// Whether tokens are kept here, so that they can be listed and deleted; and whether all are,
    /// not only those in use.
    pub(crate) fn keeps(&self) -> Option<bool> {
        self.directory().map(|directory| !directory.evicts())
    }

    fn directory(&self) -> Option<&TokenDirectory> {
        match &self.source {
            TokenSource::TokenDirectory(directory) => Some(directory),
            _ => None,
        }
    }

    /// Takes the token of an account: that of `named`, if the request names one.
    pub(crate) fn update(&self, broker: &Broker, named: Option<&str>, token: &str) -> Updated {
        match self.directory() {
            Some(directory) if directory.evicts() => self.update_cache(directory, broker, named, token),
            Some(directory) => self.update_directory(directory, broker, named, token),
            None => update_known(broker, named.unwrap_or_default(), token),
        }
    }

    fn update_directory(
        &self,
        directory: &TokenDirectory,
        broker: &Broker,
        named: Option<&str>,
        token: &str,
    ) -> Updated {
        const FAILED: &str = "jwt update resulted in error";
        let claims = match jwt::account(token) {
            Ok(claims) => claims,
            Err(error) => return Updated::new("n/a", FAILED, Some(error)),
        };
        let key = claims.subject.as_str();
        if let Some(error) = invalid(&claims) {
            return Updated::new(key, "jwt validation failed", Some(error));
        }
        if let Err((account, error)) = self.check(&claims, named) {
            return Updated::new(&account, FAILED, Some(error));
        }
        match self.save(directory, broker, key, token) {
            Ok(()) => Updated::new(key, "jwt updated", None),
            Err(error) => Updated::new(key, FAILED, Some(error)),
        }
    }

    /// Compat: a cache takes only what is in use.
    fn update_cache(
        &self,
        directory: &TokenDirectory,
        broker: &Broker,
        named: Option<&str>,
        token: &str,
    ) -> Updated {
        const FAILED: &str = "jwt update cache resulted in error";
        let claims = match jwt::account(token) {
            Ok(claims) => claims,
            Err(error) => return Updated::new(named.unwrap_or("n/a"), FAILED, Some(error)),
        };
        let key = claims.subject.as_str();
        if let Err((account, error)) = self.check(&claims, named) {
            return Updated::new(&account, FAILED, Some(error));
        }
        if !is_known(broker, key) {
            return Updated::new(key, "jwt update cache skipped", None);
        }
        if let Some(error) = invalid(&claims) {
            return Updated::new(key, "jwt update cache validation failed", Some(error));
        }
        match self.save(directory, broker, key, token) {
            Ok(()) => Updated::new(key, "jwt updated cache", None),
            Err(error) => Updated::new(key, FAILED, Some(error)),
        }
    }

    /// Whether a token is of the account that is named, and signed by who may sign.
    fn check(&self, claims: &AccountClaims, named: Option<&str>) -> Result<(), (String, String)> {
        if let Some(named) = named.filter(|named| *named != claims.subject) {
            return Err((named.to_owned(), "subject does not match jwt content".to_owned()));
        }
        let is_operator = |operator: &Operator| operator.is_strict && operator.key == claims.issuer;
        if self.operator.as_ref().is_some_and(is_operator) {
            let error = "operator requires issuer to be a signing key";
            return Err((claims.subject.clone(), error.to_owned()));
        }
        Ok(())
    }

    /// Stores a token, and has it hold at once.
    ///
    /// Safer than the reference, which stores what nobody has signed who is trusted, and asks only
    /// when it is used: then the account is gone.
    fn save(
        &self,
        directory: &TokenDirectory,
        broker: &Broker,
        key: &str,
        token: &str,
    ) -> Result<(), String> {
        let now = SystemTime::now();
        if let Some(trusted) = broker.trusted() {
            myelin_auth::operator::TrustedAccount::read(key, token, trusted.trust(), now)
                .map_err(|fault| fault.to_string())?;
        }
        directory.save(key, token)?;
        if is_known(broker, key)
            && let Err(error) = broker.update_account(key, token, now)
        {
            self.log
                .error(format_args!("DirResolver - Update for account {key:?} resulted in error {error}"));
        }
        Ok(())
    }

    /// The token of an account that is kept here; `None` if it is not.
    pub(crate) fn lookup(&self, key: &str) -> Option<String> {
        self.directory()?.peek(key).ok()
    }

    /// The keys of all accounts that are kept here.
    pub(crate) fn list(&self) -> Vec<String> {
        self.directory().map(TokenDirectory::keys).unwrap_or_default()
    }

    /// Packs the tokens that another server lacks, `theirs` telling which it has: a message for
    /// each, in the form `KEY|TOKEN`.
    pub(crate) fn pack(&self, theirs: &[u8]) -> Vec<String> {
        let Some(directory) = self.directory() else { return Vec::new() };
        if directory.digest() == theirs {
            return Vec::new();
        }
        let keys = directory.keys().into_iter();
        keys.filter_map(|key| directory.peek(&key).ok().map(|token| format!("{key}|{token}"))).collect()
    }

    /// Takes tokens away that an operator's own request names.
    pub(crate) fn delete(&self, broker: &Broker, request: &str) -> Updated {
        let Some(directory) = self.directory() else {
            return Updated::new("", "delete accounts request by  failed", Some("no directory".to_owned()));
        };
        let (subject, named) = match jwt::generic(request) {
            Err(error) => (String::new(), Err(error)),
            Ok(claims) => (claims.subject.clone(), self.named(directory, broker, &claims)),
        };
        let accounts = match named {
            Ok(accounts) => accounts,
            Err(why) => {
                return Updated::new("", format!("delete accounts request by {subject} failed"), Some(why));
            }
        };
        let (mut done, mut faults) = (0, Vec::new());
        for key in &accounts {
            match directory.delete(key) {
                Ok(()) => {
                    done += 1;
                    self.log.debug(format_args!("Disable account {key} due to remove"));
                    broker.remove_account(key);
                }
                Err(error) => faults.push(error),
            }
        }
        let (message, error) = match faults.len() {
            0 => (format!("deleted {done} accounts"), None),
            failed => (format!("deleted {done} accounts, failed for {failed}"), Some(faults.join("\n"))),
        };
        Updated { has_removed: done > 0, ..Updated::new("", message, error) }
    }

    /// The accounts that a request to delete names, if it is good.
    fn named(
        &self,
        directory: &TokenDirectory,
        broker: &Broker,
        claims: &jwt::Claims<serde_json::Value>,
    ) -> Result<Vec<String>, String> {
        let fault = |why: &str| Err(why.to_owned());
        if !directory.deletes() {
            return fault("delete must be enabled in server config");
        }
        if claims.subject != claims.issuer {
            return fault("not self signed");
        }
        if !self.operator.as_ref().is_some_and(|operator| operator.is_trusted(&claims.issuer)) {
            return fault("not trusted");
        }
        let Some(list) = claims.nats.get("accounts").and_then(|accounts| accounts.as_array()) else {
            return fault("malformed request");
        };
        let system = broker.system_account();
        let mut accounts = Vec::with_capacity(list.len());
        for entry in list {
            let Some(key) = entry.as_str().filter(|key| Role::Account.owns(key)) else {
                return fault("malformed request");
            };
            if system.as_ref().is_some_and(|system| system.name() == key) {
                return fault("not allowed to delete system account");
            }
            accounts.push(key.to_owned());
        }
        Ok(accounts)
    }
}

/// Takes a token where none are kept: it holds if the account is an operator's and in use.
pub(crate) fn update_known(broker: &Broker, key: &str, token: &str) -> Updated {
    const FAILED: &str = "jwt update resulted in error";
    if token.is_empty() {
        return Updated::new(key, "jwt update error", Some("request body is empty".to_owned()));
    }
    match jwt::account(token) {
        Err(error) => Updated::new(key, FAILED, Some(error)),
        Ok(claims) if claims.subject != key => {
            Updated::new(key, FAILED, Some("subject does not match jwt content".to_owned()))
        }
        Ok(_) if !is_known(broker, key) => Updated::new(key, "jwt update skipped", None),
        Ok(_) => match broker.update_account(key, token, SystemTime::now()) {
            Ok(()) => Updated::new(key, "jwt updated", None),
            Err(error) => Updated::new(key, FAILED, Some(error)),
        },
    }
}

fn is_known(broker: &Broker, key: &str) -> bool {
    broker.trusted().is_some_and(|trusted| trusted.get(key).is_some())
}

/// Fault of a token beyond its times.
fn invalid(claims: &AccountClaims) -> Option<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let issues = claims.issues(i64::try_from(now).unwrap_or(i64::MAX));
    let blocking: Vec<_> = issues
        .iter()
        .filter(|issue| issue.blocking && !issue.time_check)
        .map(|issue| issue.description.clone())
        .collect();
    if !blocking.is_empty() {
        return Some(format!("validation errors: [{}]", blocking.join(" ")));
    }
    let mut mappings = Mappings::default();
    claims.nats.mappings.iter().find_map(|(source, destinations)| {
        let destinations: Vec<_> = destinations
            .iter()
            .map(|destination| WeightedDestination {
                subject: destination.subject.clone(),
                weight: destination.weight(),
                cluster: destination.cluster.clone(),
            })
            .collect();
        mappings.insert(source, &destinations).err().map(|error| error.to_string())
    })
}

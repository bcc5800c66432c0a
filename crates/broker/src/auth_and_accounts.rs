//! Rules of authentication and accounts: the part of the configuration that a reload replaces as
//! one, so that nobody is let in by the new rules into the old accounts.

use crate::account::Account;
use crate::cluster::Cluster;
use crate::imports::{AccountConfig, furnish};
use myelin_auth::AuthConfig;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// Where everybody is who is in no configured account.
const GLOBAL_ACCOUNT: &str = "$G";

/// Why there is no such directory.
#[derive(Debug, PartialEq, Eq)]
pub enum SetupError {
    /// Two accounts share a name.
    DuplicateAccount(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateAccount(name) => write!(f, "account {name:?} is defined twice"),
        }
    }
}

impl std::error::Error for SetupError {}

/// Rules of authentication and accounts of one configuration. Never changes: it is replaced.
pub(crate) struct AuthAndAccounts {
    pub(crate) auth: Arc<AuthConfig>,
    accounts: BTreeMap<String, Arc<Account>>,
    system_account: Option<String>,
    /// Of the server, the same for all directories of a broker.
    pub(crate) cluster: Arc<Cluster>,
    /// Accounts that were taken away and that somebody still holds: services, above all. One that
    /// comes back is the same.
    gone: BTreeMap<String, Weak<Account>>,
    /// Ids are part of the keys of cached routes, so none is given twice.
    next_id: u32,
    /// Accounts of the server itself, the same for all directories of a broker.
    internal: Arc<OnceLock<Box<[Arc<Account>]>>>,
}

impl AuthAndAccounts {
    /// The name of the server's own account.
    pub(crate) fn system_account(&self) -> Option<&str> {
        self.system_account.as_deref()
    }

    /// The given accounts beside the global one and the system account, which exist in any case.
    pub(crate) fn new(
        auth: AuthConfig,
        accounts: &[AccountConfig],
        system_account: Option<&str>,
    ) -> Result<Self, SetupError> {
        let empty = Self {
            auth: Arc::new(AuthConfig::open()),
            accounts: BTreeMap::new(),
            system_account: system_account.map(str::to_owned),
            cluster: Arc::default(),
            gone: BTreeMap::new(),
            next_id: 0,
            internal: Arc::default(),
        };
        Ok(empty.next(auth, accounts)?.take_effect())
    }

    /// A directory with other rules and accounts, to come into force later. Accounts of the same
    /// name are the same.
    pub(crate) fn next(
        &self,
        auth: AuthConfig,
        accounts: &[AccountConfig],
    ) -> Result<StagedAuthAndAccounts, SetupError> {
        let mut wanted = BTreeMap::new();
        for config in accounts {
            if wanted.insert(config.name.as_str(), config.clone()).is_some() {
                return Err(SetupError::DuplicateAccount(config.name.clone()));
            }
        }
        for name in [Some(GLOBAL_ACCOUNT), self.system_account.as_deref()].into_iter().flatten() {
            wanted.entry(name).or_insert_with(|| AccountConfig::named(name));
        }
        let system = self.system_account.as_deref();
        wanted.values_mut().for_each(|config| furnish(config, system));
        let asked = auth.callout.as_ref().map(|callout| callout.account.as_str());
        if let Some(config) = asked.and_then(|name| wanted.get_mut(name)) {
            config.is_asked = true;
        }
        let mut auth_and_accounts = Self {
            auth: Arc::new(auth),
            accounts: BTreeMap::new(),
            system_account: self.system_account.clone(),
            cluster: Arc::clone(&self.cluster),
            gone: self.gone.clone(),
            next_id: self.next_id,
            internal: Arc::clone(&self.internal),
        };
        let configs = wanted
            .into_iter()
            .map(|(name, config)| (auth_and_accounts.add(name, self.accounts.get(name)), config))
            .collect();
        let gone = self.accounts.iter().filter(|(name, _)| !auth_and_accounts.accounts.contains_key(*name));
        let gone: Vec<_> = gone.map(|(_, account)| Arc::clone(account)).collect();
        auth_and_accounts
            .gone
            .retain(|name, left| !auth_and_accounts.accounts.contains_key(name) && left.strong_count() > 0);
        let left = gone.iter().map(|account| (account.name().to_owned(), Arc::downgrade(account)));
        auth_and_accounts.gone.extend(left);
        Ok(StagedAuthAndAccounts { auth_and_accounts, configs, gone })
    }

    /// The account of this name. What is said about it follows when the directory takes effect.
    fn add(&mut self, name: &str, present: Option<&Arc<Account>>) -> Arc<Account> {
        let returned = || self.gone.get(name).and_then(Weak::upgrade);
        let account = present.cloned().or_else(returned).unwrap_or_else(|| {
            let is_system = self.system_account.as_deref() == Some(name);
            self.next_id += 1;
            Arc::new(Account::new(self.next_id - 1, is_system, AccountConfig::named(name), &self.cluster))
        });
        self.accounts.insert(name.to_owned(), Arc::clone(&account));
        account
    }

    /// Makes the server's own accounts. Only the first call counts.
    pub(crate) fn make_internal(&self, names: &[&str]) {
        let of_name = |(at, name): (usize, &&str)| {
            // Far from those of configured accounts, and of those with tokens.
            let id = u32::MAX - u32::try_from(at).unwrap_or(u32::MAX);
            Arc::new(Account::internal(id, name, &self.cluster))
        };
        self.internal.get_or_init(|| names.iter().enumerate().map(of_name).collect());
    }

    /// The server's own accounts, which are among no others and found by no name that somebody
    /// else has chosen.
    pub(crate) fn internal(&self) -> &[Arc<Account>] {
        self.internal.get().map_or(&[], |internal| internal)
    }

    pub(crate) fn account(&self, name: &str) -> Option<&Arc<Account>> {
        self.accounts.get(name)
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.accounts.values()
    }
}

/// A directory that is ready and changes nothing before it takes effect.
pub struct StagedAuthAndAccounts {
    auth_and_accounts: AuthAndAccounts,
    configs: Vec<(Arc<Account>, AccountConfig)>,
    /// Accounts that there are no more.
    gone: Vec<Arc<Account>>,
}

impl StagedAuthAndAccounts {
    /// Imports follow when all accounts are what they are to be, since they depend on what others
    /// export.
    pub(crate) fn take_effect(self) -> AuthAndAccounts {
        let accounts: Vec<_> = self.configs.iter().map(|(account, _)| Arc::clone(account)).collect();
        for (account, config) in self.configs {
            account.configure(config);
        }
        let find = |name: &str| self.auth_and_accounts.account(name).cloned();
        accounts.iter().for_each(|account| account.link(&find));
        self.gone.iter().for_each(Account::unlink);
        self.auth_and_accounts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imports::AccountLimits;

    fn limited(limits: AccountLimits) -> AccountConfig {
        AccountConfig { limits, ..AccountConfig::named("A") }
    }

    fn named(names: &[&str]) -> Vec<AccountConfig> {
        names.iter().map(|name| AccountConfig::named(name)).collect()
    }

    #[test]
    fn accounts_that_stay_are_the_same_and_ids_are_never_given_twice() {
        let first = AuthAndAccounts::new(AuthConfig::open(), &named(&["A", "B"]), Some("$SYS")).unwrap();
        let limits = AccountLimits { max_connections: Some(1), ..AccountLimits::default() };
        let second = first.next(AuthConfig::open(), &[limited(limits)]).unwrap().take_effect();
        let third = second.next(AuthConfig::open(), &named(&["A", "B"])).unwrap().take_effect();
        let a = first.account("A").unwrap();
        assert!(Arc::ptr_eq(a, second.account("A").unwrap()) && Arc::ptr_eq(a, third.account("A").unwrap()));
        assert!(second.account("B").is_none() && second.account("$G").is_some());
        assert!(second.account("$SYS").unwrap().is_system());
        // Who still holds an account that was taken away finds it again when it comes back.
        let held = Arc::clone(first.account("B").unwrap());
        assert!(Arc::ptr_eq(&held, third.account("B").unwrap()));
        let fourth = third.next(AuthConfig::open(), &named(&["A"])).unwrap().take_effect();
        let id = held.id;
        drop((first, second, third, held));
        let fifth = fourth.next(AuthConfig::open(), &named(&["A", "B"])).unwrap().take_effect();
        assert_ne!(fifth.account("B").unwrap().id, id);
    }

    #[test]
    fn limits_are_replaced_when_all_is_and_not_before() {
        let limits = AccountLimits { max_connections: Some(1), ..AccountLimits::default() };
        let first = AuthAndAccounts::new(AuthConfig::open(), &named(&["A"]), None).unwrap();
        let twice = [limited(limits), limited(limits)];
        assert_eq!(
            first.next(AuthConfig::open(), &twice).err(),
            Some(SetupError::DuplicateAccount("A".to_owned()))
        );
        assert_eq!(first.account("A").unwrap().limits(), AccountLimits::default());
        let next = first.next(AuthConfig::open(), &twice[..1]).unwrap();
        assert_eq!(first.account("A").unwrap().limits(), AccountLimits::default());
        next.take_effect();
        assert_eq!(first.account("A").unwrap().limits(), limits);
    }
}

//! Who may connect and which accounts there are: the part of the configuration that a reload replaces as
//! one, so that nobody is let in by the new rules into the old accounts.

use crate::account::{Account, AccountLimits};
use myelin_auth::AuthConfig;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

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

/// See the head of this file. Never changes: it is replaced.
pub(crate) struct Directory {
    pub(crate) auth: Arc<AuthConfig>,
    accounts: HashMap<String, Arc<Account>>,
    system_account: Option<String>,
    /// Ids are part of the keys of cached routes, so none is given twice.
    next_id: u32,
}

impl Directory {
    /// The given accounts beside the global one and the system account, which exist in any case.
    pub(crate) fn new(
        auth: AuthConfig,
        accounts: &[(String, AccountLimits)],
        system_account: Option<&str>,
    ) -> Result<Self, SetupError> {
        let empty = Self {
            auth: Arc::new(AuthConfig::open()),
            accounts: HashMap::new(),
            system_account: system_account.map(str::to_owned),
            next_id: 0,
        };
        Ok(empty.next(auth, accounts)?.take_effect())
    }

    /// A directory with other rules and accounts, to come into force later. Accounts of the same name are the
    /// same.
    pub(crate) fn next(
        &self,
        auth: AuthConfig,
        accounts: &[(String, AccountLimits)],
    ) -> Result<NextDirectory, SetupError> {
        let mut wanted = HashMap::with_capacity(accounts.len() + 2);
        for (name, limits) in accounts {
            if wanted.insert(name.as_str(), *limits).is_some() {
                return Err(SetupError::DuplicateAccount(name.clone()));
            }
        }
        for name in [Some(GLOBAL_ACCOUNT), self.system_account.as_deref()].into_iter().flatten() {
            wanted.entry(name).or_default();
        }
        let mut directory = Self {
            auth: Arc::new(auth),
            accounts: HashMap::with_capacity(wanted.len()),
            system_account: self.system_account.clone(),
            next_id: self.next_id,
        };
        let limits = wanted
            .into_iter()
            .map(|(name, limits)| (directory.add(name, limits, self.accounts.get(name)), limits))
            .collect();
        Ok(NextDirectory { directory, limits })
    }

    fn add(&mut self, name: &str, limits: AccountLimits, present: Option<&Arc<Account>>) -> Arc<Account> {
        let account = present.cloned().unwrap_or_else(|| {
            let is_system = self.system_account.as_deref() == Some(name);
            self.next_id += 1;
            Arc::new(Account::new(self.next_id - 1, name, is_system, limits))
        });
        self.accounts.insert(name.to_owned(), Arc::clone(&account));
        account
    }

    pub(crate) fn account(&self, name: &str) -> Option<&Arc<Account>> {
        self.accounts.get(name)
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.accounts.values()
    }
}

/// A directory that is ready and changes nothing before it takes effect.
pub struct NextDirectory {
    directory: Directory,
    limits: Vec<(Arc<Account>, AccountLimits)>,
}

impl NextDirectory {
    pub(crate) fn take_effect(self) -> Directory {
        self.limits.iter().for_each(|(account, limits)| account.set_limits(*limits));
        self.directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<(String, AccountLimits)> {
        names.iter().map(|name| ((*name).to_owned(), AccountLimits::default())).collect()
    }

    #[test]
    fn accounts_that_stay_are_the_same_and_ids_are_never_given_twice() {
        let first = Directory::new(AuthConfig::open(), &named(&["A", "B"]), Some("$SYS")).unwrap();
        let limits = AccountLimits { max_connections: Some(1), ..AccountLimits::default() };
        let second = first.next(AuthConfig::open(), &[("A".to_owned(), limits)]).unwrap().take_effect();
        let third = second.next(AuthConfig::open(), &named(&["A", "B"])).unwrap().take_effect();
        let a = first.account("A").unwrap();
        assert!(Arc::ptr_eq(a, second.account("A").unwrap()) && Arc::ptr_eq(a, third.account("A").unwrap()));
        assert!(second.account("B").is_none() && second.account("$G").is_some());
        assert!(second.account("$SYS").unwrap().is_system());
        assert_ne!(first.account("B").unwrap().id, third.account("B").unwrap().id);
    }

    #[test]
    fn limits_are_replaced_when_all_is_and_not_before() {
        let limits = AccountLimits { max_connections: Some(1), ..AccountLimits::default() };
        let first = Directory::new(AuthConfig::open(), &named(&["A"]), None).unwrap();
        let twice = [("A".to_owned(), limits), ("A".to_owned(), limits)];
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

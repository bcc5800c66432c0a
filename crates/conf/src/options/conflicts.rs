//! Conflicts of options that forbid each other. Checked when a server is about to run, with flags
//! applied, because a file alone may be completed by flags.

mod trust;

use super::limits::UNLIMITED_PAYLOAD;
use super::{
    AccountsOptions, AuthorizationOptions, GLOBAL_ACCOUNT, LimitOptions, MonitoringOptions, Options,
    ServerOptions, TlsOptions,
};
use crate::duration;

impl Options {
    /// The first reason why these options cannot run together.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.server.check()?;
        self.limits.check()?;
        self.check_operators()?;
        self.leaf_nodes.check(self)?;
        self.check_user_exists(self.authorization.no_auth_user.as_deref())?;
        self.proxies.check()?;
        self.gateway.check(self)?;
        self.cluster.check(self)?;
        self.mqtt.check(self)?;
        self.jetstream.check(self)?;
        self.websocket.check(self)?;
        self.monitoring.check(self)?;
        // Operators name accounts that only the resolver knows.
        if !self.trusts_operators() {
            self.accounts.check_system_account()?;
        }
        self.resolver.check_preload()
    }

    /// A cluster without a name of its own has that of its gateway.
    pub(crate) fn name_cluster(&mut self) {
        if self.cluster.name.is_none() {
            self.cluster.name.clone_from(&self.gateway.name);
        }
    }

    /// Whether accounts come in the JWTs of operators, so that they need not be in the file.
    pub(super) fn trusts_operators(&self) -> bool {
        !self.operators.list.is_empty()
    }

    /// Whether the user that clients without credentials become is one of the users.
    pub(super) fn check_user_exists(&self, name: Option<&str>) -> Result<(), String> {
        let Some(name) = name else { return Ok(()) };
        if self.trusts_operators() {
            return Err("no_auth_user not compatible with Trusted Operator".to_owned());
        }
        self.authorization.check_user_exists(name)
    }
}

impl ServerOptions {
    fn check(&self) -> Result<(), String> {
        if self.lame_duck_grace_period >= self.lame_duck_duration {
            return Err(format!(
                "lame duck grace period ({}) should be strictly lower than lame duck duration ({})",
                duration::format(self.lame_duck_grace_period),
                duration::format(self.lame_duck_duration)
            ));
        }
        if self.name.as_ref().is_some_and(|name| name.contains(' ')) {
            return Err("server name cannot contain spaces".to_owned());
        }
        Ok(())
    }
}

impl LimitOptions {
    fn check(&self) -> Result<(), String> {
        if self.max_payload != UNLIMITED_PAYLOAD && u64::from(self.max_payload) > self.max_pending {
            return Err(format!(
                "max_payload ({}) cannot be higher than max_pending ({})",
                self.max_payload, self.max_pending
            ));
        }
        Ok(())
    }
}

impl MonitoringOptions {
    /// The dashboard's clients come by the port of the pages, which asks nobody for a certificate.
    fn check(&self, options: &Options) -> Result<(), String> {
        let asks = |tls: &TlsOptions| tls.verify || tls.verify_and_map || !tls.pinned_certs.is_empty();
        if self.dashboard && options.tls.as_ref().is_some_and(asks) {
            return Err("dashboard is not possible where tls asks clients for certificates".to_owned());
        }
        Ok(())
    }
}

impl AuthorizationOptions {
    fn check_user_exists(&self, name: &str) -> Result<(), String> {
        if self.users.is_empty() && self.nkeys.is_empty() {
            return Err(format!("no_auth_user: \"{name}\" present, but users/nkeys are not defined"));
        }
        if self.user_names().contains(name) {
            return Ok(());
        }
        Err(format!(
            "no_auth_user: \"{name}\" not present as user or nkey in authorization block or account configuration"
        ))
    }
}

impl AccountsOptions {
    /// Compat: `$SYS` has to be defined if it is named, although it exists when nothing is named.
    fn check_system_account(&self) -> Result<(), String> {
        let Some(name) = &self.configured_system_account else { return Ok(()) };
        if name == GLOBAL_ACCOUNT || self.list.iter().any(|account| account.name == *name) {
            return Ok(());
        }
        Err("error resolving system account: account missing".to_owned())
    }
}

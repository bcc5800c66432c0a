//! The typed options of the server: one file per group, each with its defaults and its fields.
//!
//! Owns what a configuration means. Never reads files, arguments or the environment: it is handed a
//! parsed tree. Plain data, known to this crate and to `server` only.

mod accounts;
mod authorization;
mod conflicts;
mod field;
mod jetstream;
mod limits;
mod logging;
mod monitoring;
mod permissions;
mod server;
pub(crate) mod table;

pub use accounts::{AccountLimits, AccountOptions, AccountsOptions, DEFAULT_SYSTEM_ACCOUNT, GLOBAL_ACCOUNT};
pub use authorization::{AuthorizationOptions, UserOptions};
pub use jetstream::JetStreamOptions;
pub use limits::{LimitOptions, WriteTimeout};
pub use logging::LoggingOptions;
pub use monitoring::MonitoringOptions;
pub use permissions::{Permissions, QueueSubject, ResponsePermission, SubjectPermission};
pub use server::{Port, ServerOptions};

pub(crate) use field::Report;
pub(crate) use logging::positive;
pub(crate) use table::missing_text;
pub use table::page;

use crate::value::Map;
use field::{Field, Read, read_block};
use table::Scope;

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
    /// JetStream.
    pub jetstream: JetStreamOptions,
}

impl Options {
    /// Sets what a configuration file says, on top of what is set already. All errors are reported; the
    /// options are of use only if there are none.
    pub(crate) fn read(&mut self, root: &Map, report: &mut Report) {
        read_block(root, Scope::Top, report, |field, report| self.set(field, report));
    }

    fn set(&mut self, field: &Field<'_>, report: &mut Report) -> Read<bool> {
        Ok(self.server.set(field)?
            || self.limits.set(field, report)?
            || self.logging.set(field)?
            || self.monitoring.set(field)?
            || self.jetstream.set(field, report)?
            || self.authorization.set(field, report)?
            || self.accounts.set(field, &mut self.authorization, report)?)
    }

    /// The address that monitoring binds to.
    pub fn monitoring_host(&self) -> &str {
        self.monitoring.host.as_deref().unwrap_or(&self.server.host)
    }

    /// Whether clients without credentials join the global account although users exist.
    ///
    /// Compat: an operator who configures nothing but the system account wants users for that account,
    /// not a closed server.
    pub fn anonymous_joins_global(&self) -> bool {
        let only_system = matches!(&self.accounts.list[..],
            [only] if Some(only.name.as_str()) == self.accounts.chosen_system_account());
        only_system && self.authorization.no_auth_user.is_none() && !self.authorization.is_block_defined
    }
}

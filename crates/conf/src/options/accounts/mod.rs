//! The accounts a server isolates from each other, what they let each other have, and which of them
//! is the system account.
//!
//! What an account has of its own is read field by field (`exports`, `imports`, `mappings`,
//! `jetstream`, `trace`); whether exports and imports of all accounts fit each other is checked
//! when all are known (`exchange`).

mod exchange;
mod exports;
mod imports;
mod jetstream;
mod mappings;
mod trace;

pub use exports::{
    ExportAccess, ExportOptions, LatencyOptions, LatencySampling, ResponseType, ServiceExport, StreamExport,
};
pub use imports::{ImportOptions, ServiceImport, StreamImport, StreamName};
pub use jetstream::{AccountJetStreamOptions, ClusterTraffic};
pub use mappings::{MappingDestination, MappingOptions};
pub use trace::MessageTraceOptions;

use std::collections::HashSet;

use super::authorization::{AuthorizationOptions, UserList, read_users};
use super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::permissions::Permissions;
use super::table::BlockKind;
use crate::value::{Node, Value};
use myelin_stdx::nkey::Role;

/// Name of the account of every user that no account lists.
pub const GLOBAL_ACCOUNT: &str = "$G";
/// Name of the system account unless another one is configured.
pub const DEFAULT_SYSTEM_ACCOUNT: &str = "$SYS";

/// Limits of all connections of an account together; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountLimitOptions {
    /// Client connections; 0 admits none.
    pub max_connections: Option<u32>,
    /// Subscriptions of one connection.
    pub max_subscriptions: Option<u32>,
    /// Bytes of one message.
    pub max_payload: Option<u32>,
    /// Leaf nodes; 0 admits none.
    pub max_leafnodes: Option<u32>,
}

/// One configured account. Its users are in
/// [`AuthorizationOptions::users`](super::AuthorizationOptions::users) and
/// [`AuthorizationOptions::nkeys`](super::AuthorizationOptions::nkeys).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountOptions {
    /// Unique and never `$G`.
    pub name: String,
    /// The account's own public key.
    pub nkey: Option<String>,
    /// Limits that apply to the account.
    pub limits: AccountLimitOptions,
    /// Exports to other accounts.
    pub exports: Vec<ExportOptions>,
    /// Imports from other accounts.
    pub imports: Vec<ImportOptions>,
    /// Under which names its messages go.
    pub mappings: Vec<MappingOptions>,
    /// Limits in JetStream; `None` is nothing.
    pub jetstream: Option<AccountJetStreamOptions>,
    /// Where traces of its messages go.
    pub message_trace: Option<MessageTraceOptions>,
}

impl AccountOptions {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// All accounts and the choice of the system account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountsOptions {
    /// Configured accounts in the order of the file.
    pub list: Vec<AccountOptions>,
    /// Mappings of the global account; `None` when there is no such block.
    pub global_mappings: Option<Vec<MappingOptions>>,
    /// As configured; see [`AccountsOptions::system_account`].
    pub configured_system_account: Option<String>,
    /// Run without a system account unless one is configured.
    pub no_system_account: bool,
}

impl AccountsOptions {
    /// The account that is the system account, `$SYS` when none was chosen, or `None` when there is
    /// to be none.
    pub fn system_account(&self) -> Option<&str> {
        let chosen = self.chosen_system_account();
        chosen.or((!self.no_system_account).then_some(DEFAULT_SYSTEM_ACCOUNT))
    }

    /// The system account that the configuration chooses, by the option or by defining `$SYS`.
    pub(crate) fn chosen_system_account(&self) -> Option<&str> {
        let defined = || self.list.iter().any(|a| a.name == DEFAULT_SYSTEM_ACCOUNT);
        match &self.configured_system_account {
            Some(name) => Some(name),
            None => defined().then_some(DEFAULT_SYSTEM_ACCOUNT),
        }
    }
}

impl AccountsOptions {
    /// Reads one top-level field; answers whether it belongs to this group. Users of accounts go to
    /// `authorization`.
    pub(super) fn set(
        &mut self,
        field: &Field<'_>,
        authorization: &mut AuthorizationOptions,
        report: &mut Diagnostics,
    ) -> Read<bool> {
        match field.name() {
            "accounts" => {
                self.set_accounts(field, authorization, report)?;
                self.check_exchange(field, report);
            }
            "mappings" | "maps" => self.global_mappings = Some(mappings::read(field, report)?),
            "no_system_account" | "no_system" | "no_sys_acc" => self.no_system_account = field.boolean()?,
            "system_account" | "system" => self.configured_system_account = system_account(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A map of accounts, or a list of names.
    fn set_accounts(
        &mut self,
        field: &Field<'_>,
        authorization: &mut AuthorizationOptions,
        report: &mut Diagnostics,
    ) -> Read<()> {
        if let Value::Array(names) = field.value() {
            let mut seen = HashSet::new();
            for name in names {
                let account = account_name(name, &mut seen);
                self.list.extend(report.keep(account).map(AccountOptions::new));
            }
            return Ok(());
        }
        let mut user_names = authorization.user_names();
        for (name, node) in field.map()?.iter().filter(|(_, node)| !node.is_used_variable) {
            let account = self.add_account(name, node, authorization, &mut user_names, report);
            report.keep(account);
        }
        Ok(())
    }

    fn add_account(
        &mut self,
        name: &str,
        node: &Node,
        authorization: &mut AuthorizationOptions,
        user_names: &mut HashSet<String>,
        report: &mut Diagnostics,
    ) -> Read<()> {
        let Value::Map(map) = &node.value else {
            return Err(diagnostic_at(&node.position, "Expected map entries for accounts"));
        };
        check_reserved(name, node)?;
        let mut account = AccountOptions::new(name);
        let mut users = UserList::default();
        let mut defaults = None;
        read_block(map, BlockKind::Account, report, |field, report| {
            match field.name() {
                "users" => users = read_users(field, report)?,
                "default_permissions" => defaults = Some(Permissions::read(field, report)?),
                _ => return account.set(field, report),
            }
            Ok(true)
        });
        users.belong_to(name);
        users.apply_defaults(defaults.as_ref());
        self.list.push(account);
        let users_node =
            map.iter().find(|(key, _)| key.eq_ignore_ascii_case("users")).map_or(node, |(_, users)| users);
        authorization.add_account_users(users, user_names, users_node)
    }
}

impl AccountsOptions {
    /// Whether exports and imports fit each other. Compat: not looked at after other errors.
    fn check_exchange(&self, field: &Field<'_>, report: &mut Diagnostics) {
        if report.errors.is_empty() {
            let complaints = exchange::check(&self.list, self.no_system_account);
            report.errors.extend(complaints.into_iter().map(|message| field.diagnostic(message)));
        }
    }
}

impl AccountOptions {
    /// Reads one field other than users and their permissions.
    fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "nkey" => self.nkey = Some(account_key(field)?),
            "limits" => self.limits = AccountLimitOptions::read(field, report)?,
            "exports" => self.exports = exports::read(field, report)?,
            "imports" => self.imports = imports::read(field, report)?,
            "mappings" | "maps" => self.mappings.extend(mappings::read(field, report)?),
            "jetstream" => self.jetstream = AccountJetStreamOptions::read(field, report)?,
            "msg_trace" | "trace_dest" => self.message_trace = MessageTraceOptions::read(field, report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn account_key(field: &Field<'_>) -> Read<String> {
    match field.value() {
        Value::Text(key) if Role::Account.owns(key) => Ok(key.clone()),
        Value::Text(key) => Err(field.diagnostic(format!("Not a valid public nkey for an account: {key:?}"))),
        other => {
            let found = other.type_name();
            Err(field.diagnostic(format!("Not a valid public nkey for an account: {found}")))
        }
    }
}

/// An entry of a list of accounts.
fn account_name<'a>(node: &'a Node, seen: &mut HashSet<&'a str>) -> Read<&'a str> {
    let Value::Text(name) = &node.value else {
        let found = node.value.type_name();
        return Err(diagnostic_at(&node.position, format!("Expected the name of an account, got {found}")));
    };
    check_reserved(name, node)?;
    if !seen.insert(name) {
        return Err(diagnostic_at(&node.position, format!("Duplicate Account Entry: {name}")));
    }
    Ok(name)
}

fn check_reserved(name: &str, node: &Node) -> Read<()> {
    if name == GLOBAL_ACCOUNT {
        return Err(diagnostic_at(&node.position, format!("{name:?} is a Reserved Account")));
    }
    Ok(())
}

fn system_account(field: &Field<'_>) -> Read<Option<String>> {
    field.optional_text().map_err(|_| field.diagnostic("system account name must be a string"))
}

impl AccountLimitOptions {
    fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Self> {
        let Value::Map(map) = field.value() else {
            let found = field.value().type_name();
            return Err(field.diagnostic(format!("Expected account limits to be a map/struct, got {found}")));
        };
        let mut limits = Self::default();
        read_block(map, BlockKind::AccountLimits, report, |field, _| {
            match field.name() {
                "max_connections" | "max_conn" => limits.max_connections = limit(field)?,
                "max_subscriptions" | "max_subs" => limits.max_subscriptions = limit(field)?,
                "max_payload" | "max_pay" => limits.max_payload = limit(field)?,
                "max_leafnodes" | "max_leafs" => limits.max_leafnodes = limit(field)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        Ok(limits)
    }
}

/// -1 is no limit; 0 allows nothing.
fn limit(field: &Field<'_>) -> Read<Option<u32>> {
    if field.integer()? == -1 { Ok(None) } else { field.count().map(Some) }
}

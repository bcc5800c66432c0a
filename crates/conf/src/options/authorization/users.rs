//! A `users` list: those who prove themselves with a password, and those who do with an nkey.

use super::super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::super::permissions::Permissions;
use super::super::table::BlockKind;
use crate::secret::Secret;
use crate::value::{Node, Value};
use myelin_auth::ConnectionType;
use myelin_stdx::nkey::Role;

/// A user who authenticates with a name and a password.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UserOptions {
    /// Unique over all accounts; never empty.
    pub name: String,
    /// Plain text or a bcrypt hash; empty accepts only an empty password.
    pub password: Secret,
    /// The account that lists this user; `None` is the global account `$G`.
    pub account: Option<String>,
    /// The user's own permissions, else the defaults of the block that lists the user.
    pub permissions: Option<Permissions>,
    /// The ways in that the user may take; none listed allows all.
    pub connection_types: Vec<ConnectionType>,
    /// The user must come through a trusted proxy.
    pub proxy_required: bool,
}

/// A user who authenticates by signing with an nkey.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NkeyUserOptions {
    /// Public key of a user, unique over all accounts.
    pub nkey: String,
    /// As for [`UserOptions`].
    pub account: Option<String>,
    /// As for [`UserOptions`].
    pub permissions: Option<Permissions>,
    /// As for [`UserOptions`].
    pub connection_types: Vec<ConnectionType>,
    /// As for [`UserOptions`].
    pub proxy_required: bool,
}

/// The users of one list.
#[derive(Debug, Default)]
pub(in super::super) struct UserList {
    pub(super) users: Vec<UserOptions>,
    pub(super) nkeys: Vec<NkeyUserOptions>,
}

impl UserList {
    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.nkeys.is_empty()
    }

    /// Puts all users into an account.
    pub(in super::super) fn belong_to(&mut self, account: &str) {
        self.users.iter_mut().for_each(|user| user.account = Some(account.to_owned()));
        self.nkeys.iter_mut().for_each(|user| user.account = Some(account.to_owned()));
    }

    /// Users without permissions of their own get the default ones.
    pub(in super::super) fn apply_defaults(&mut self, defaults: Option<&Permissions>) {
        let own = self.users.iter_mut().map(|user| &mut user.permissions);
        let own = own.chain(self.nkeys.iter_mut().map(|user| &mut user.permissions));
        own.filter(|own| own.is_none()).for_each(|own| *own = defaults.cloned());
    }
}

impl UserList {
    /// Reads an entry.
    ///
    /// Compat: diagnostics about the entry as a whole stand at its last field.
    fn add(&mut self, node: &Node, report: &mut Diagnostics) -> Read<()> {
        let Value::Map(map) = &node.value else {
            let found = node.value.type_name();
            let message = format!("Expected user entry to be a map/struct, got {found}");
            return Err(diagnostic_at(&node.position, message));
        };
        let mut draft = UserFields::default();
        let mut is_spoilt = false;
        read_block(map, BlockKind::User, report, |field, report| {
            let is_read = draft.set(field, report);
            is_spoilt |= is_read.is_err();
            is_read
        });
        // What could not be read may be just what is missed.
        if is_spoilt {
            return Ok(());
        }
        let place = map.iter().last().map_or(&node.position, |(_, last)| &last.position);
        match draft.fault() {
            Some(fault) => return Err(diagnostic_at(place, fault)),
            None if draft.nkey.is_empty() => self.users.push(draft.into_user()),
            None => self.nkeys.push(draft.into_nkey_user()),
        }
        Ok(())
    }
}

/// Reads a `users` list. What is wrong with one user does not hide what is wrong with the next.
pub(in super::super) fn read_users(field: &Field<'_>, report: &mut Diagnostics) -> Read<UserList> {
    let Value::Array(items) = field.value() else {
        let found = field.value().type_name();
        return Err(field.diagnostic(format!("Expected users field to be an array, got {found}")));
    };
    let mut list = UserList::default();
    for item in items {
        let added = list.add(item, report);
        report.keep(added);
    }
    Ok(list)
}

/// The fields of an entry.
#[derive(Default)]
struct UserFields {
    nkey: String,
    name: String,
    password: String,
    permissions: Option<Permissions>,
    connection_types: Vec<ConnectionType>,
    proxy_required: bool,
}

impl UserFields {
    fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "nkey" => field.text()?.clone_into(&mut self.nkey),
            "user" | "username" => field.text()?.clone_into(&mut self.name),
            "pass" | "password" => field.text()?.clone_into(&mut self.password),
            "permission" | "permissions" | "authorization" => {
                let permissions = Permissions::read(field, report);
                self.permissions = report.keep(permissions);
            }
            "allowed_connection_types" | "connection_types" | "clients" => {
                let types = connection_types(field, report);
                self.connection_types = report.keep(types).unwrap_or_default();
            }
            "proxy_required" => self.proxy_required = field.boolean()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
    fn fault(&self) -> Option<&'static str> {
        let is_named = !self.name.is_empty();
        if self.nkey.is_empty() {
            return (!is_named).then_some("User entry requires a user");
        }
        if !Role::User.owns(&self.nkey) {
            return Some("Not a valid public nkey for a user");
        }
        let has_both = is_named || !self.password.is_empty();
        has_both.then_some("Nkey users do not take usernames or passwords")
    }

    fn into_user(self) -> UserOptions {
        UserOptions {
            name: self.name,
            password: Secret::new(self.password),
            account: None,
            permissions: self.permissions,
            connection_types: self.connection_types,
            proxy_required: self.proxy_required,
        }
    }

    fn into_nkey_user(self) -> NkeyUserOptions {
        NkeyUserOptions {
            nkey: self.nkey,
            account: None,
            permissions: self.permissions,
            connection_types: self.connection_types,
            proxy_required: self.proxy_required,
        }
    }
}

/// One type, or a list of them.
fn connection_types(field: &Field<'_>, report: &mut Diagnostics) -> Read<Vec<ConnectionType>> {
    let wrong = |place: &Node, within: &str, value: &Value| {
        let found = value.type_name();
        let message = format!("error parsing allowed connection types: unsupported type {within}{found}");
        diagnostic_at(&place.position, message)
    };
    let items = match field.value() {
        Value::Text(_) => std::slice::from_ref(field.node()),
        Value::Array(items) => items,
        other => return Err(wrong(field.node(), "", other)),
    };
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for item in items {
        let Value::Text(text) = &item.value else {
            report.errors.push(wrong(item, "in array ", &item.value));
            continue;
        };
        let name = text.to_uppercase();
        match ConnectionType::parse(&name) {
            Some(kind) => known.push(kind),
            None => unknown.push(format!("{name:?}")),
        }
    }
    if unknown.is_empty() {
        return Ok(known);
    }
    Err(field.diagnostic(format!("invalid connection types [{}]", unknown.join(" "))))
}

//! Who may connect: a single user, a token, or users, whether listed globally or inside accounts.

use std::collections::HashSet;
use std::time::Duration;

use super::field::{Field, Read, Report, complaint_at, read_block};
use super::permissions::Permissions;
use super::table::Scope;
use crate::secret::Secret;
use crate::value::{Node, Value};

/// A user who authenticates with a name and a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOptions {
    /// Unique over all accounts; never empty.
    pub name: String,
    /// Plain text or a bcrypt hash; empty accepts only an empty password.
    pub password: Secret,
    /// The account that lists this user; `None` is the global account `$G`.
    pub account: Option<String>,
    /// The user's own permissions, else the defaults of the block that lists the user.
    pub permissions: Option<Permissions>,
}

/// The rules of authentication. A file cannot combine users, a single user and a token, but flags can add
/// to it; then users count before the single user, and that before the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationOptions {
    /// Single user of the global account.
    pub user: Option<String>,
    /// Password of `user`; without a user it protects nothing.
    pub password: Option<Secret>,
    /// Single token, plain or bcrypt.
    pub token: Option<Secret>,
    /// How long a client may take to authenticate. Default 2 s.
    pub timeout: Duration,
    /// Users of the `authorization` block and of every account, in the order of the file.
    pub users: Vec<UserOptions>,
    /// Name of the user that clients without credentials become; always one of `users`.
    pub no_auth_user: Option<String>,
    /// The configuration has an `authorization` block, be it empty.
    pub is_block_defined: bool,
}

impl Default for AuthorizationOptions {
    fn default() -> Self {
        Self {
            user: None,
            password: None,
            token: None,
            timeout: Duration::from_secs(2),
            users: Vec::new(),
            no_auth_user: None,
            is_block_defined: false,
        }
    }
}

impl AuthorizationOptions {
    /// Whether INFO says `auth_required`: some credential is configured.
    pub fn is_required(&self) -> bool {
        self.user.is_some() || self.token.is_some() || !self.users.is_empty()
    }
}

impl AuthorizationOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Report) -> Read<bool> {
        match field.name() {
            "no_auth_user" => self.no_auth_user = field.optional_text()?,
            "authorization" => self.set_block(field, report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads the `authorization` block, which replaces a user or token that came from a flag.
    fn set_block(&mut self, field: &Field<'_>, report: &mut Report) -> Read<()> {
        let map = field.map()?;
        self.is_block_defined = true;
        (self.user, self.password, self.token) = (None, None, None);
        let mut users = None;
        let mut defaults = None;
        read_block(map, Scope::Authorization, report, |inner, report| {
            match inner.name() {
                "user" | "username" => self.user = inner.optional_text()?,
                "pass" | "password" => self.password = secret(inner)?,
                "token" => self.token = secret(inner)?,
                "timeout" => self.timeout = timeout(inner, report)?,
                "users" => users = Some(read_users(inner, report)?),
                "default_permission" | "default_permissions" | "permissions" => {
                    defaults = Some(Permissions::read(inner, report)?);
                }
                _ => return Ok(false),
            }
            Ok(true)
        });
        self.check_exclusive(field, users.is_some())?;
        let mut users = users.unwrap_or_default();
        apply_defaults(&mut users, defaults.as_ref());
        self.add_users(users, &mut self.user_names(), field.node())
    }

    fn check_exclusive(&self, block: &Field<'_>, has_list: bool) -> Read<()> {
        let has_users = has_list || !self.users.is_empty();
        if (self.user.is_some() || self.password.is_some()) && self.token.is_some() {
            return Err(block.complaint("Cannot have a user/pass and token"));
        }
        if has_users && self.user.is_some() {
            return Err(block.complaint("Can not have a single user/pass and a users array"));
        }
        if has_users && self.token.is_some() {
            return Err(block.complaint("Can not have a token and a users array"));
        }
        Ok(())
    }

    /// Adds the users that an account lists at `place`. `names` are those of all users so far.
    pub(super) fn add_account_users(
        &mut self,
        users: Vec<UserOptions>,
        names: &mut HashSet<String>,
        place: &Node,
    ) -> Read<()> {
        let conflict = match (&self.user, &self.token) {
            (Some(_), _) => "Can not have a single user/pass and accounts",
            (None, Some(_)) => "Can not have a token and accounts",
            (None, None) => return self.add_users(users, names, place),
        };
        if users.is_empty() { Ok(()) } else { Err(complaint_at(&place.position, conflict)) }
    }

    /// The names of all users so far.
    pub(super) fn user_names(&self) -> HashSet<String> {
        self.users.iter().map(|user| user.name.clone()).collect()
    }

    /// Names are unique over the block and all accounts.
    fn add_users(&mut self, users: Vec<UserOptions>, names: &mut HashSet<String>, place: &Node) -> Read<()> {
        if let Some(twice) = users.iter().find(|user| !names.insert(user.name.clone())) {
            return Err(complaint_at(&place.position, format!("Duplicate user {:?} detected", twice.name)));
        }
        self.users.extend(users);
        Ok(())
    }
}

/// A secret for which empty is the same as absent.
pub(super) fn secret(field: &Field<'_>) -> Read<Option<Secret>> {
    Ok(field.optional_text()?.map(Secret::new))
}

/// Seconds, or a duration in Go's notation; 0 is the default.
fn timeout(field: &Field<'_>, report: &mut Report) -> Read<Duration> {
    let chosen = field.login_timeout("authorization", report)?;
    Ok(chosen.unwrap_or(AuthorizationOptions::default().timeout))
}

/// Reads a `users` list. What is wrong with one user does not hide what is wrong with the next.
pub(super) fn read_users(field: &Field<'_>, report: &mut Report) -> Read<Vec<UserOptions>> {
    let Value::Array(items) = field.value() else {
        let found = field.value().type_name();
        return Err(field.complaint(format!("Expected users field to be an array, got {found}")));
    };
    let users = items.iter().filter_map(|item| {
        let user = read_user(item, report);
        report.keep(user)
    });
    Ok(users.collect())
}

fn read_user(node: &Node, report: &mut Report) -> Read<UserOptions> {
    let Value::Map(map) = &node.value else {
        let found = node.value.type_name();
        return Err(complaint_at(
            &node.position,
            format!("Expected user entry to be a map/struct, got {found}"),
        ));
    };
    let mut user =
        UserOptions { name: String::new(), password: Secret::default(), account: None, permissions: None };
    let before = report.errors.len();
    read_block(map, Scope::User, report, |field, report| {
        match field.name() {
            "user" | "username" => user.name = field.text()?.to_owned(),
            "pass" | "password" => user.password = Secret::new(field.text()?),
            "permission" | "permissions" | "authorization" => {
                user.permissions = Some(Permissions::read(field, report)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    });
    // A name that could not be read has been complained about already.
    if user.name.is_empty() && report.errors.len() == before {
        return Err(complaint_at(&node.position, "User entry requires a user"));
    }
    Ok(user)
}

/// Users without permissions of their own get the default ones.
pub(super) fn apply_defaults(users: &mut [UserOptions], defaults: Option<&Permissions>) {
    for user in users.iter_mut().filter(|user| user.permissions.is_none()) {
        user.permissions = defaults.cloned();
    }
}

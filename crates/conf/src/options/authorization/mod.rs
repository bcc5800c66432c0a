//! Authorization of clients: a single user, a token, or users, whether listed globally or inside
//! accounts.

mod callout;
mod users;

pub use callout::AuthCalloutOptions;
pub use users::{NkeyUserOptions, UserOptions};

pub(super) use users::{UserList, read_users};

use std::collections::HashSet;
use std::time::Duration;

use super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::permissions::Permissions;
use super::table::BlockKind;
use crate::secret::Secret;
use crate::value::Node;

/// The rules of authentication. A file cannot combine users, a single user and a token, but flags
/// can add to it; then users count before the single user, and that before the token.
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
    /// Users with an nkey, likewise.
    pub nkeys: Vec<NkeyUserOptions>,
    /// The service that decides who may connect.
    pub callout: Option<AuthCalloutOptions>,
    /// The single user, and whoever has the token, must come through a trusted proxy.
    pub proxy_required: bool,
    /// Name or nkey of the user that clients without credentials become; always one of them.
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
            nkeys: Vec::new(),
            callout: None,
            proxy_required: false,
            no_auth_user: None,
            is_block_defined: false,
        }
    }
}

impl AuthorizationOptions {
    /// Whether INFO says `auth_required`: some credential is configured.
    pub fn is_required(&self) -> bool {
        self.user.is_some() || self.token.is_some() || self.has_users()
    }
}

impl AuthorizationOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "no_auth_user" => self.no_auth_user = field.optional_text()?,
            "authorization" => self.set_block(field, report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads the `authorization` block, which replaces a user or token that came from a flag.
    fn set_block(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<()> {
        let map = field.map()?;
        self.is_block_defined = true;
        (self.user, self.password, self.token) = (None, None, None);
        (self.callout, self.proxy_required) = (None, false);
        let mut users = None;
        let mut defaults = None;
        read_block(map, BlockKind::Authorization, report, |inner, report| {
            match inner.name() {
                "user" | "username" => self.user = inner.optional_text()?,
                "pass" | "password" => self.password = secret(inner)?,
                "token" => self.token = secret(inner)?,
                "timeout" => self.timeout = timeout(inner, report)?,
                "users" => users = Some(read_users(inner, report)?),
                "default_permission" | "default_permissions" | "permissions" => {
                    defaults = Some(Permissions::read(inner, report)?);
                }
                "auth_callout" | "auth_hook" => self.callout = AuthCalloutOptions::read(inner, report)?,
                "proxy_required" => self.proxy_required = inner.boolean()?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        self.check_exclusive(field, users.is_some())?;
        let mut users: UserList = users.unwrap_or_default();
        users.apply_defaults(defaults.as_ref());
        self.add_users(users, &mut self.user_names(), field.node())
    }

    fn check_exclusive(&self, block: &Field<'_>, has_list: bool) -> Read<()> {
        let has_users = has_list || self.has_users();
        if (self.user.is_some() || self.password.is_some()) && self.token.is_some() {
            return Err(block.diagnostic("Cannot have a user/pass and token"));
        }
        if has_users && self.user.is_some() {
            return Err(block.diagnostic("Can not have a single user/pass and a users array"));
        }
        if has_users && self.token.is_some() {
            return Err(block.diagnostic("Can not have a token and a users array"));
        }
        Ok(())
    }

    /// Adds the users that an account lists at `place`. `names` are those of all users so far.
    pub(super) fn add_account_users(
        &mut self,
        users: UserList,
        names: &mut HashSet<String>,
        place: &Node,
    ) -> Read<()> {
        let conflict = match (&self.user, &self.token) {
            (Some(_), _) => "Can not have a single user/pass and accounts",
            (None, Some(_)) => "Can not have a token and accounts",
            (None, None) => return self.add_users(users, names, place),
        };
        if users.is_empty() { Ok(()) } else { Err(diagnostic_at(&place.position, conflict)) }
    }

    /// Whether there are users, be it by name or by nkey.
    pub(super) fn has_users(&self) -> bool {
        !self.users.is_empty() || !self.nkeys.is_empty()
    }

    /// The names and nkeys of all users so far.
    pub(super) fn user_names(&self) -> HashSet<String> {
        let names = self.users.iter().map(|user| &user.name);
        names.chain(self.nkeys.iter().map(|user| &user.nkey)).cloned().collect()
    }

    /// Names and nkeys are unique over the block and all accounts.
    fn add_users(&mut self, list: UserList, names: &mut HashSet<String>, place: &Node) -> Read<()> {
        let UserList { users, nkeys } = list;
        let twice = |kind: &str, name: &str| {
            Err(diagnostic_at(&place.position, format!("Duplicate {kind} {name:?} detected")))
        };
        if let Some(user) = users.iter().find(|user| !names.insert(user.name.clone())) {
            return twice("user", &user.name);
        }
        if let Some(user) = nkeys.iter().find(|user| !names.insert(user.nkey.clone())) {
            return twice("nkey", &user.nkey);
        }
        self.users.extend(users);
        self.nkeys.extend(nkeys);
        Ok(())
    }
}

/// A secret for which empty is the same as absent.
pub(super) fn secret(field: &Field<'_>) -> Read<Option<Secret>> {
    Ok(field.optional_text()?.map(Secret::new))
}

/// Seconds, or a duration in Go's notation; 0 is the default.
fn timeout(field: &Field<'_>, report: &mut Diagnostics) -> Read<Duration> {
    let chosen = field.login_timeout("authorization", report)?;
    Ok(chosen.unwrap_or(AuthorizationOptions::default().timeout))
}

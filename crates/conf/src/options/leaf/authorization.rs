//! Authorization of leaf nodes.

use std::collections::HashSet;
use std::time::Duration;

use crate::options::authorization::secret;
use crate::options::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use crate::options::table::BlockKind;
use crate::secret::Secret;
use crate::value::{Node, Value};
use myelin_stdx::nkey::Role;

/// A user of leaf nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeafUserOptions {
    /// Unique among the users of leaf nodes.
    pub name: String,
    /// Plain text or a bcrypt hash.
    pub password: Secret,
    /// The account that the leaf node is bound to; `None` is the global account.
    pub account: Option<String>,
    /// The leaf node must come through a trusted proxy.
    pub proxy_required: bool,
}

/// A single user, a single key, or users. Without any, the users of clients count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeafAuthorization {
    /// The single user.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// The single public key of a user.
    pub nkey: Option<String>,
    /// The account of the single user or key; `None` is the global account.
    pub account: Option<String>,
    /// Users; never together with a single user or key.
    pub users: Vec<LeafUserOptions>,
    /// Time for a leaf node to log in. `None`: 2 s, or with TLS 1 s more than the handshake may
    /// take.
    pub timeout: Option<Duration>,
    /// Leaf nodes must come through a trusted proxy.
    pub proxy_required: bool,
}

impl LeafAuthorization {
    pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Self> {
        let mut read = Self::default();
        read_block(field.map()?, BlockKind::LeafAuthorization, report, |inner, report| {
            match inner.name() {
                "user" | "username" => read.user = inner.optional_text()?,
                "pass" | "password" => read.password = secret(inner)?,
                "nkey" => read.nkey = nkey(inner)?,
                "timeout" => read.timeout = inner.login_timeout("leafnode authorization", report)?,
                "users" => read.users = read_users(inner, report)?,
                "account" => read.account = inner.optional_text()?,
                "proxy_required" => read.proxy_required = inner.boolean()?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        Ok(read)
    }

    /// Why these users cannot stand together.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.users.is_empty() {
            return Ok(());
        }
        if self.user.is_some() {
            return Err("can not have a single user/pass and a users array".to_owned());
        }
        if self.nkey.is_some() {
            return Err("can not have a single nkey and a users array".to_owned());
        }
        let mut names = HashSet::new();
        match self.users.iter().find(|user| !names.insert(&user.name)) {
            Some(twice) => Err(format!("duplicate user {:?} detected in leafnode authorization", twice.name)),
            None => Ok(()),
        }
    }
}

fn nkey(field: &Field<'_>) -> Read<Option<String>> {
    let key = field.text()?;
    if !Role::User.owns(key) {
        return Err(field.diagnostic("Not a valid public nkey for leafnode authorization"));
    }
    Ok(Some(key.to_owned()))
}

fn read_users(field: &Field<'_>, report: &mut Diagnostics) -> Read<Vec<LeafUserOptions>> {
    let Value::Array(items) = field.value() else {
        let found = field.value().shown();
        return Err(field.diagnostic(format!("Expected users field to be an array, got {found}")));
    };
    let users = items.iter().filter_map(|item| {
        let user = read_user(item, report);
        report.keep(user)
    });
    Ok(users.collect())
}

fn read_user(node: &Node, report: &mut Diagnostics) -> Read<LeafUserOptions> {
    let Value::Map(map) = &node.value else {
        let message = format!("Expected user entry to be a map/struct, got {}", node.value.shown());
        return Err(diagnostic_at(&node.position, message));
    };
    let mut user = LeafUserOptions::default();
    read_block(map, BlockKind::LeafUser, report, |field, _| {
        match field.name() {
            "user" | "username" => field.text()?.clone_into(&mut user.name),
            "pass" | "password" => user.password = Secret::new(field.text()?),
            "account" => user.account = field.optional_text()?,
            "proxy_required" => user.proxy_required = field.boolean()?,
            _ => return Ok(false),
        }
        Ok(true)
    });
    Ok(user)
}

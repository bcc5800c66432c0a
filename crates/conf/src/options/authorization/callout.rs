//! `auth_callout`: a service among the clients that decides who may connect.

use super::super::GLOBAL_ACCOUNT;
use super::super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::super::table::BlockKind;
use crate::value::Value;
use myelin_stdx::nkey::Role;

/// Whom the server asks, and who may answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthCalloutOptions {
    /// Public key of the account that signs the answers.
    pub issuer: String,
    /// The account that the service listens in. Default `$G`.
    pub account: String,
    /// Names or nkeys of the users that the service connects as; never empty.
    pub auth_users: Vec<String>,
    /// Public curve key that requests are sealed for.
    pub xkey: Option<String>,
    /// The only accounts that users may be put into; none is all of them.
    pub allowed_accounts: Vec<String>,
}

impl AuthCalloutOptions {
    /// Reads a block; `None` when it has been complained about.
    pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Option<Self>> {
        let Value::Map(map) = field.value() else {
            let found = field.value().type_name();
            let message = format!("Expected authorization callout to be a map/struct, got {found}");
            return Err(field.diagnostic(message));
        };
        let mut callout = Self {
            issuer: String::new(),
            account: GLOBAL_ACCOUNT.to_owned(),
            auth_users: Vec::new(),
            xkey: None,
            allowed_accounts: Vec::new(),
        };
        let mut is_spoilt = false;
        read_block(map, BlockKind::AuthCallout, report, |field, _| {
            let is_read = callout.set(field);
            is_spoilt |= is_read.is_err();
            is_read
        });
        if is_spoilt {
            return Ok(None);
        }
        // Compat: what is missing is missed at the last field.
        let place = map.iter().last().map_or(&field.node().position, |(_, last)| &last.position);
        if callout.issuer.is_empty() {
            let message = "Authorization callouts require an issuer to be specified";
            return Err(diagnostic_at(place, message));
        }
        if callout.auth_users.is_empty() {
            let message = "Authorization callouts require authorized users to be specified";
            return Err(diagnostic_at(place, message));
        }
        Ok(Some(callout))
    }

    fn set(&mut self, field: &Field<'_>) -> Read<bool> {
        match field.name() {
            "issuer" => self.issuer = key(field, Role::Account, "user to be a valid public account nkey")?,
            "account" | "acc" => {
                self.account = field.optional_text()?.unwrap_or_else(|| GLOBAL_ACCOUNT.to_owned());
            }
            "auth_users" | "users" => self.auth_users.extend(list(field, "auth_users")?),
            "xkey" | "key" => self.xkey = Some(key(field, Role::Curve, "xkey to be a valid public xkey")?),
            "allowed_accounts" => self.allowed_accounts.extend(list(field, "allowed accounts")?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn key(field: &Field<'_>, role: Role, expected: &str) -> Read<String> {
    let text = field.text()?;
    if role.owns(text) {
        return Ok(text.to_owned());
    }
    Err(field.diagnostic(format!("Expected callout {expected}, got {text:?}")))
}

fn list(field: &Field<'_>, name: &str) -> Read<Vec<String>> {
    match field.value() {
        Value::Array(_) => field.texts(),
        other => {
            let found = other.type_name();
            Err(field.diagnostic(format!("Expected {name} field to be an array, got {found}")))
        }
    }
}

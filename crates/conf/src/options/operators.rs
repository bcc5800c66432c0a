//! Operators: who signs the accounts that a server trusts, and the keys they sign with.

use super::field::{Diagnostics, Field, Read, diagnostic_at};
use crate::files;
use crate::secret::Secret;
use crate::value::Value;
use myelin_auth::jwt;
use myelin_stdx::nkey::Role;

/// Operator as its token describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorOptions {
    /// The token itself.
    pub jwt: String,
    /// Public key of the operator.
    pub key: String,
    /// Public key that signed the token.
    pub issuer: String,
    /// A name for people.
    pub name: String,
    /// For which system it is.
    pub audience: String,
    /// Seconds of the epoch.
    pub issued_at: i64,
    /// Seconds of the epoch; 0 is never.
    pub expires: i64,
    /// All that the token says.
    pub claims: serde_json::Value,
    /// Other keys that sign for the operator.
    pub signing_keys: Vec<String>,
    /// Accounts may be signed with `signing_keys` alone.
    pub strict_signing_keys: bool,
    /// URL under which account tokens are found.
    pub account_server_url: Option<String>,
    /// Public key of the system account.
    pub system_account: Option<String>,
    /// The oldest version of a server that the operator lets run.
    pub required_version: Option<String>,
}

/// Operators and the keys that are trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperatorsOptions {
    /// In the order of the file.
    pub list: Vec<OperatorOptions>,
    /// Public keys of operators that are trusted without a token.
    pub trusted_keys: Vec<String>,
    /// Token of the user that clients without a token become.
    pub default_sentinel: Option<Secret>,
}

impl OperatorsOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "operator" | "operators" | "roots" | "root" | "root_operators" | "root_operator" => {
                self.set_operators(field, report)?;
            }
            "trusted" | "trusted_keys" => self.set_trusted_keys(field, report)?,
            "default_sentinel" => self.default_sentinel = field.optional_text()?.map(Secret::new),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// One token or the path of its file, or a list of them.
    fn set_operators(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<()> {
        let items = match field.value() {
            Value::Text(_) => std::slice::from_ref(field.node()),
            Value::Array(items) => items,
            other => {
                let found = other.type_name();
                return Err(field.diagnostic(format!("error parsing operators: unsupported type {found}")));
            }
        };
        self.list.clear();
        for item in items {
            let Value::Text(text) = &item.value else {
                let found = item.value.type_name();
                let message = format!("unsupported type {found} where string is expected");
                report.errors.push(field.diagnostic(format!("error parsing operators: {message}")));
                break;
            };
            let operator = OperatorOptions::read(text)
                .map_err(|error| field.diagnostic(format!("error parsing operator JWT: {error}")));
            self.list.extend(report.keep(operator));
        }
        Ok(())
    }

    /// One key, or a list of them. Compat: a bad key is complained about at the last of the list.
    fn set_trusted_keys(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<()> {
        let items = match field.value() {
            Value::Text(_) => std::slice::from_ref(field.node()),
            Value::Array(items) => items,
            other => {
                let found = other.type_name();
                return Err(field.diagnostic(format!("error parsing trusted: unsupported type {found}")));
            }
        };
        let place = items.last().map_or(&field.node().position, |last| &last.position);
        self.trusted_keys.clear();
        for item in items {
            match &item.value {
                Value::Text(key) => self.trusted_keys.push(key.clone()),
                other => {
                    let found = other.type_name();
                    let message = format!("error parsing trusted: unsupported type in array {found}");
                    report.errors.push(diagnostic_at(&item.position, message));
                }
            }
        }
        let bad = self.trusted_keys.iter().filter(|key| !Role::Operator.owns(key));
        let complain = |key| format!("trust key {key:?} required to be a valid public operator nkey");
        report.errors.extend(bad.map(|key| diagnostic_at(place, complain(key))));
        Ok(())
    }
}

impl OperatorOptions {
    /// From a file, or from the token itself where there is no such file.
    fn read(text: &str) -> Result<Self, String> {
        let contents = match files::read(text) {
            Ok(contents) => String::from_utf8(contents).map_err(|_| "illegal base64 data".to_owned())?,
            Err(_) if text.starts_with(jwt::PREFIX) => text.to_owned(),
            Err(error) => return Err(error),
        };
        let token = jwt::undecorated(&contents);
        let claims = jwt::operator(token)?;
        let said = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(Self {
            jwt: token.to_owned(),
            key: claims.subject,
            issuer: claims.issuer,
            name: claims.name,
            audience: claims.audience,
            issued_at: claims.issued_at,
            expires: claims.expires,
            claims: claims.raw,
            signing_keys: claims.nats.signing_keys,
            strict_signing_keys: claims.nats.strict_signing_key_usage,
            account_server_url: said(claims.nats.account_server_url),
            system_account: said(claims.nats.system_account),
            required_version: said(claims.nats.assert_server_version),
        })
    }
}

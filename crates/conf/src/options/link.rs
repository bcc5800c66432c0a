//! Options that clusters and gateways have in common: one user whom other servers log in as, and
//! lists of URLs.

use std::collections::HashSet;
use std::time::Duration;

use super::authorization::{read_users, secret};
use super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::permissions::Permissions;
use super::table::BlockKind;
use crate::secret::Secret;
use crate::url::Url;
use crate::value::{Node, Value};

/// How other servers log in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkAuthorization {
    /// `None` lets every server in.
    pub user: Option<String>,
    /// Plain text or a bcrypt hash.
    pub password: Option<Secret>,
    /// Time for the other side to log in. `None`: 2 s, or with TLS 1 s more than the handshake may
    /// take.
    pub timeout: Option<Duration>,
}

impl LinkAuthorization {
    /// Reads the `authorization` block of `what`, with the permissions that it may hold.
    pub(super) fn read(
        field: &Field<'_>,
        what: &str,
        report: &mut Diagnostics,
    ) -> Read<(Self, Option<Permissions>)> {
        let mut link = Self::default();
        let (mut permissions, mut refused) = (None, [None; 3]);
        read_block(field.map()?, BlockKind::LinkAuthorization, report, |inner, report| {
            match inner.name() {
                "user" | "username" => link.user = inner.optional_text()?,
                "pass" | "password" => link.password = secret(inner)?,
                "timeout" => link.timeout = inner.login_timeout("authorization", report)?,
                "users" => {
                    read_users(inner, report)?;
                    refused[0] = Some("does not allow multiple users");
                }
                "token" => refused[1] = inner.optional_text()?.map(|_| "does not support tokens"),
                "auth_callout" | "auth_hook" => {
                    inner.map()?;
                    refused[2] = Some("does not support callouts");
                }
                "default_permission" | "default_permissions" | "permissions" => {
                    permissions = Some(Permissions::read(inner, report)?);
                }
                "proxy_required" => drop(inner.boolean()?),
                _ => return Ok(false),
            }
            Ok(true)
        });
        match refused.into_iter().flatten().next() {
            Some(reason) => Err(field.diagnostic(format!("{what} authorization {reason}"))),
            None => Ok((link, permissions)),
        }
    }
}

/// Reads a list of URLs. One that is written twice is warned of and counts once.
pub(super) fn read_urls(items: &[Node], kind: &str, report: &mut Diagnostics) -> Vec<Url> {
    let mut seen = HashSet::new();
    let mut urls = Vec::new();
    for item in items {
        let Value::Text(text) = &item.value else {
            let found = item.value.type_name();
            let message = format!("a {kind} url must be a string, not {found}");
            report.errors.push(diagnostic_at(&item.position, message));
            continue;
        };
        if !seen.insert(text) {
            let message = format!("invalid use of field {text:?}: Duplicate {kind} entry detected");
            report.warnings.push(diagnostic_at(&item.position, message));
            continue;
        }
        urls.extend(report.keep(read_url(text, kind, item)));
    }
    urls
}

/// Compat: a text that is no URL is shown in full, for nobody can tell where a password in it would
/// be.
pub(super) fn read_url(text: &str, kind: &str, place: &Node) -> Read<Url> {
    let fail = || diagnostic_at(&place.position, format!("error parsing {kind} url [{:?}]", text.trim()));
    Url::parse(text).ok_or_else(fail)
}

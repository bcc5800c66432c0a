//! The `authorization` block of WebSocket and MQTT, which replaces that of ordinary clients there.

use std::time::Duration;

use super::authorization::secret;
use super::field::{Diagnostics, Field, Read, read_block};
use super::table::BlockKind;
use crate::secret::Secret;

/// A single user or token. Not together with users of accounts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimpleAuthorization {
    /// The user.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// The token.
    pub token: Option<Secret>,
    /// Time to log in; `None` is that of ordinary clients.
    pub timeout: Option<Duration>,
}

impl SimpleAuthorization {
    pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Self> {
        let mut read = Self::default();
        read_block(field.map()?, BlockKind::SimpleAuthorization, report, |inner, report| {
            match inner.name() {
                "user" | "username" => read.user = inner.optional_text()?,
                "pass" | "password" => read.password = secret(inner)?,
                "token" => read.token = secret(inner)?,
                "timeout" => read.timeout = timeout(inner, report),
                _ => return Ok(false),
            }
            Ok(true)
        });
        Ok(read)
    }
}

/// Compat: the reference takes one second for whatever is no number, durations included. Here a
/// duration is one, and with anything else no server starts.
fn timeout(field: &Field<'_>, report: &mut Diagnostics) -> Option<Duration> {
    let timeout = field.value().seconds().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    if timeout.is_none() {
        report.refuse_start(field.diagnostic("'timeout' must be a number of seconds or a duration"));
    }
    timeout.filter(|timeout| !timeout.is_zero())
}

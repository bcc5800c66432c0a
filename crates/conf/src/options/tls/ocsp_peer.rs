//! `ocsp_peer{}`: whether a peer's certificate was revoked.

use std::time::Duration;

use super::read::Stop;
use crate::options::field::{Diagnostics, Field, read_block};
use crate::options::table::BlockKind;
use crate::value::{Map, Value};

/// How to check the certificates of peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OcspPeerOptions {
    /// Whether to check at all.
    pub verify: bool,
    /// Time for a CA to answer.
    pub ca_timeout: Duration,
    /// How far clocks may differ.
    pub allowed_clockskew: Duration,
    /// Log a bad certificate and go on.
    pub warn_only: bool,
    /// Take "unknown" for good.
    pub unknown_is_good: bool,
    /// Take silence of the CA for good.
    pub allow_when_ca_unreachable: bool,
    /// How long to keep an answer that does not say it.
    pub cache_ttl_when_next_update_unset: Duration,
}

impl Default for OcspPeerOptions {
    fn default() -> Self {
        Self {
            verify: false,
            ca_timeout: Duration::from_secs(2),
            allowed_clockskew: Duration::from_secs(30),
            warn_only: false,
            unknown_is_good: false,
            allow_when_ca_unreachable: false,
            cache_ttl_when_next_update_unset: Duration::from_secs(3600),
        }
    }
}

impl OcspPeerOptions {
    /// Reads the field `ocsp_peer`.
    pub(super) fn read(field: &Field<'_>) -> Stop<Self> {
        match field.value() {
            Value::Boolean(verify) => Ok(Self { verify: *verify, ..Self::default() }),
            Value::Map(map) => {
                // Compat: the place of the option stands in the message, behind that of its block.
                Self::read_map(map).map_err(|error| field.diagnostic(error.to_string()))
            }
            // Compat: the type named is that of the block around.
            _ => {
                Err(field
                    .diagnostic("error parsing ocsp peer config: unsupported type map[string]interface {}"))
            }
        }
    }

    fn read_map(map: &Map) -> Stop<Self> {
        let mut options = Self::default();
        let mut report = Diagnostics::default();
        read_block(map, BlockKind::OcspPeer, &mut report, |field, _| options.set(field));
        match report.errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(options),
        }
    }

    fn set(&mut self, field: &Field<'_>) -> Stop<bool> {
        match field.name() {
            "verify" => self.verify = switch(field)?,
            "ca_timeout" => time(field, &mut self.ca_timeout, false)?,
            "allowed_clockskew" => time(field, &mut self.allowed_clockskew, true)?,
            "cache_ttl_when_next_update_unset" => {
                time(field, &mut self.cache_ttl_when_next_update_unset, false)?;
            }
            "warn_only" => self.warn_only = switch(field)?,
            "unknown_is_good" => self.unknown_is_good = switch(field)?,
            "allow_when_ca_unreachable" => self.allow_when_ca_unreachable = switch(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Compat: a wrong type is called an unknown field.
fn switch(field: &Field<'_>) -> Stop<bool> {
    match field.value() {
        Value::Boolean(on) => Ok(*on),
        _ => Err(field.diagnostic(BlockKind::OcspPeer.unknown(field.written()))),
    }
}

/// Compat: a negative time is ignored, and the clock skew alone keeps to itself what is wrong with
/// it.
fn time(field: &Field<'_>, time: &mut Duration, is_vague: bool) -> Stop<()> {
    let read = field.value().seconds().map_err(|error| match error {
        Some(error) if !is_vague => error,
        _ => "unexpected type".to_owned(),
    });
    let seconds = read.map_err(|error| {
        field.diagnostic(format!("error parsing tls peer config, conversion error: {error}"))
    })?;
    if let Ok(duration) = Duration::try_from_secs_f64(seconds) {
        *time = duration;
    }
    Ok(())
}

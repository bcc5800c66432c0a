//! `ocsp` and `ocsp_cache`: proofs that certificates were not revoked.

use std::time::Duration;

use super::field::{Diagnostics, Field, Read};
use crate::duration;
use crate::value::{Map, Value};

/// When the server fetches a proof for its own certificate and staples it to handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OcspMode {
    /// When the certificate asks for it.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
    /// When the certificate asks for it, and the server stops when it was revoked.
    Must,
}

/// Stapling.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StaplingOptions {
    /// When.
    pub mode: OcspMode,
    /// The responder to ask instead of the one in the certificate.
    pub url: Option<String>,
}

/// Where answers about peers' certificates are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OcspCacheOptions {
    /// Whether there is a cache.
    pub enabled: bool,
    /// Directory of its file. Default `_rc_`.
    pub local_store: String,
    /// Keep revocations when a later answer takes them back.
    pub preserve_revoked: bool,
    /// Default 5 minutes, at least 1 s.
    pub save_interval: Duration,
}

impl Default for OcspCacheOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            local_store: "_rc_".to_owned(),
            preserve_revoked: false,
            save_interval: Duration::from_secs(300),
        }
    }
}

/// Proofs in both directions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OcspOptions {
    /// Of our own certificate; `None` when nothing was said.
    pub stapling: Option<StaplingOptions>,
    /// Of the peers'; `None` when nothing was said.
    pub cache: Option<OcspCacheOptions>,
}

impl OcspOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, _: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "ocsp" => self.stapling = Some(StaplingOptions::read(field)?),
            "ocsp_cache" => self.cache = Some(OcspCacheOptions::read(field)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl StaplingOptions {
    fn read(field: &Field<'_>) -> Read<Self> {
        match field.value() {
            Value::Boolean(true) => Ok(Self::default()),
            Value::Boolean(false) => Ok(Self { mode: OcspMode::Never, url: None }),
            Value::Map(map) => Self::read_map(map, field),
            other => {
                Err(field
                    .diagnostic(format!("error parsing ocsp config: unsupported type {}", other.go_type())))
            }
        }
    }

    /// Compat: names are compared as they are written, and the errors name types instead of values.
    fn read_map(map: &Map, block: &Field<'_>) -> Read<Self> {
        let mut read = Self::default();
        for (name, node) in map.iter() {
            let field = Field::new(name, node);
            match name {
                "mode" => read.mode = OcspMode::read(&field)?,
                "url" => read.url = field.optional_text()?,
                // Compat: no list is ever accepted.
                "urls" => {
                    let found = field.value().go_type();
                    let message = format!("interface conversion: interface {{}} is {found}, not []string");
                    return Err(block.diagnostic(message));
                }
                _ => return Err(field.diagnostic("error parsing ocsp config: unsupported field string")),
            }
        }
        Ok(read)
    }
}

impl OcspMode {
    fn read(field: &Field<'_>) -> Read<Self> {
        match field.text()?.to_lowercase().as_str() {
            "auto" => Ok(OcspMode::Auto),
            "always" => Ok(OcspMode::Always),
            "never" => Ok(OcspMode::Never),
            "must" => Ok(OcspMode::Must),
            _ => Err(field.diagnostic("error parsing ocsp config: unsupported ocsp mode string")),
        }
    }
}

impl OcspCacheOptions {
    fn read(field: &Field<'_>) -> Read<Self> {
        match field.value() {
            Value::Boolean(enabled) => Ok(Self { enabled: *enabled, ..Self::default() }),
            Value::Map(map) => {
                let mut read = Self::default();
                for (name, node) in map.iter() {
                    read.set(name, &Field::new(name, node))?;
                }
                Ok(read)
            }
            // Compat: the reference speaks of tags here.
            other => {
                Err(field.diagnostic(format!("error parsing tags: unsupported type {}", other.go_type())))
            }
        }
    }

    /// Compat: a value of the wrong type is called an unknown field.
    fn set(&mut self, name: &str, field: &Field<'_>) -> Read<()> {
        let fail = |what: String| field.diagnostic(format!("error parsing OCSP peer cache config, {what}"));
        let unknown = |_| fail(format!("unknown field [{name:?}]"));
        match field.name() {
            "type" => {
                let kind = field.text().map_err(unknown)?;
                self.enabled = match kind.to_lowercase().as_str() {
                    "local" => true,
                    "none" => false,
                    _ => return Err(fail(format!("unknown type [{kind}]"))),
                };
            }
            "local_store" => field.text().map_err(unknown)?.clone_into(&mut self.local_store),
            "preserve_revoked" => self.preserve_revoked = field.boolean().map_err(unknown)?,
            "save_interval" => self.save_interval = save_interval(field)?,
            _ => return Err(fail(format!("unknown field [{name:?}]"))),
        }
        Ok(())
    }
}

/// Whole seconds, at least one.
fn save_interval(field: &Field<'_>) -> Read<Duration> {
    let seconds = match field.value() {
        Value::Integer(seconds) => u64::try_from(*seconds).unwrap_or(0),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole seconds are meant"
        )]
        Value::Float(seconds) => *seconds as u64,
        Value::Text(text) => {
            let conversion = "error parsing tls peer config, conversion error";
            let nanos =
                duration::parse(text).map_err(|error| field.diagnostic(format!("{conversion}: {error}")))?;
            u64::try_from(nanos / 1_000_000_000).unwrap_or(0)
        }
        _ => {
            let conversion = "error parsing OCSP peer cache config, conversion error";
            return Err(field.diagnostic(format!("{conversion}: unexpected type")));
        }
    };
    Ok(Duration::from_secs(seconds.max(1)))
}

//! Reads `tls{}` field by field. Compat: the first thing that is wrong is the only one that is
//! told.

use std::time::Duration;

use super::{
    CertificateFiles, CipherSuite, Curve, HandshakeFirst, OcspPeerOptions, TlsIdentity, TlsOptions, TlsUse,
    TlsVersion,
};
use crate::diagnostic::Diagnostic;
use crate::duration;
use crate::options::field::{Diagnostics, Field, diagnostic_at, read_block};
use crate::options::table::BlockKind;
use crate::value::{Map, Node, Value};

/// A value, or the diagnostic that ends reading.
pub(super) type Stop<T> = Result<T, Diagnostic>;

/// Time that a handshake waits when nothing else is said.
const FALLBACK_DELAY: Duration = Duration::from_millis(50);

/// Fields of a block, before it is known whether they go together.
#[derive(Default)]
struct TlsFields {
    tls: TlsOptions,
    cert_file: String,
    key_file: String,
    certs: Option<Vec<CertificateFiles>>,
    allow_insecure: bool,
}

impl TlsOptions {
    /// Reads the block that is the value of `field`.
    pub(in crate::options) fn read(field: &Field<'_>, used: TlsUse, report: &mut Diagnostics) -> Stop<Self> {
        let Value::Map(map) = field.value() else {
            return Err(conversion(field.node(), "map[string]interface {}"));
        };
        let mut draft = TlsFields::default();
        let mut inner = Diagnostics::default();
        check_names(map)?;
        read_block(map, BlockKind::Tls, &mut inner, |field, _| draft.set(field, used));
        if let Some(error) = inner.errors.into_iter().next() {
            return Err(error);
        }
        let tls = draft.finish().map_err(|message| field.diagnostic(message))?;
        let tls = TlsOptions { position: Some(field.node().position.clone()), ..tls };
        report.warnings.extend(inner.warnings);
        report.missing.extend(inner.missing);
        report.tls.push(tls.clone());
        Ok(tls)
    }
}

/// Compat: in this block a variable is no excuse for an unknown field.
fn check_names(map: &Map) -> Stop<()> {
    let unknown = map.iter().find(|(name, _)| BlockKind::Tls.find(&name.to_lowercase()).is_none());
    match unknown {
        Some((name, node)) => Err(diagnostic_at(&node.position, BlockKind::Tls.unknown(name))),
        None => Ok(()),
    }
}

impl TlsFields {
    fn set(&mut self, field: &Field<'_>, used: TlsUse) -> Stop<bool> {
        let tls = &mut self.tls;
        match field.name() {
            "cert_file" => self.cert_file = file(field)?,
            "key_file" => self.key_file = file(field)?,
            "ca_file" => tls.ca_file = Some(file(field)?).filter(|name| !name.is_empty()).map(Into::into),
            "certs" | "certificates" => self.certs = Some(certificates(field)?),
            "insecure" => tls.insecure = switch(field)?,
            "verify" => tls.verify = switch(field)?,
            "verify_and_map" => {
                tls.verify_and_map = switch(field)?;
                tls.verify |= tls.verify_and_map;
            }
            "verify_cert_and_check_known_urls" => {
                tls.verify_known_urls = switch(field)?;
                tls.verify |= tls.verify_known_urls;
                if tls.verify_known_urls && !used.has_known_urls() {
                    let message = "verify_cert_and_check_known_urls not supported in this context";
                    return Err(field.diagnostic(message));
                }
            }
            "allow_insecure_cipher_suites" => self.allow_insecure = switch(field)?,
            "cipher_suites" => tls.cipher_suites = Some(list(field, "cipher", CipherSuite::from_name)?),
            "curve_preferences" => {
                tls.curve_preferences = Some(list(field, "curve preference", Curve::from_name)?);
            }
            "min_version" => tls.min_version = min_version(field)?,
            "timeout" => tls.timeout = timeout(field)?,
            "connection_rate_limit" => match field.value() {
                Value::Integer(rate) => {
                    tls.connection_rate_limit = u64::try_from(*rate).ok().filter(|rate| *rate > 0);
                }
                _ => return Err(wrong(field, "'connection_rate_limit' wrong type")),
            },
            "pinned_certs" => tls.pinned_certs = pinned(field)?,
            "handshake_first" | "first" | "immediate" => tls.handshake_first = handshake_first(field)?,
            "ocsp_peer" => tls.ocsp_peer = Some(OcspPeerOptions::read(field)?),
            _ => return store(field),
        }
        Ok(true)
    }

    /// Checks what the fields say together.
    fn finish(self) -> Result<TlsOptions, String> {
        let TlsFields { mut tls, cert_file, key_file, certs, allow_insecure } = self;
        if certs.as_ref().is_some_and(|certs| !certs.is_empty()) && !cert_file.is_empty() {
            let message = "cannot combine 'cert_file' option with 'certs' option";
            return Err(format!("error parsing tls config, {message}"));
        }
        let insecure = tls.cipher_suites.iter().flatten().filter(|suite| suite.is_insecure());
        let insecure: Vec<_> = insecure.map(|suite| suite.name()).collect();
        if !allow_insecure && !insecure.is_empty() {
            return Err(format!(
                "insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: {}",
                insecure.join(", ")
            ));
        }
        tls.identity = match (cert_file.is_empty(), key_file.is_empty(), certs) {
            (false, true, _) => return Err("missing 'key_file' in TLS configuration".to_owned()),
            (true, false, _) => return Err("missing 'cert_file' in TLS configuration".to_owned()),
            (false, false, _) => {
                TlsIdentity::One(CertificateFiles { cert_file: cert_file.into(), key_file: key_file.into() })
            }
            (true, true, Some(certs)) => TlsIdentity::Several(certs),
            (true, true, None) => TlsIdentity::Anonymous,
        };
        Ok(tls)
    }
}

fn wrong(field: &Field<'_>, what: &str) -> Diagnostic {
    field.diagnostic(format!("error parsing tls config, {what}"))
}

fn file(field: &Field<'_>) -> Stop<String> {
    match field.value() {
        Value::Text(name) => Ok(name.clone()),
        _ => Err(wrong(field, &format!("expected '{}' to be filename", field.name()))),
    }
}

fn switch(field: &Field<'_>) -> Stop<bool> {
    match field.value() {
        Value::Boolean(on) => Ok(*on),
        _ => Err(wrong(field, &format!("expected '{}' to be a boolean", field.name()))),
    }
}

/// Names that are known.
fn list<T>(field: &Field<'_>, what: &str, from_name: impl Fn(&str) -> Option<T>) -> Stop<Vec<T>> {
    let Value::Array(items) = field.value() else {
        return Err(conversion(field.node(), "[]interface {}"));
    };
    if items.is_empty() {
        return Err(wrong(field, &format!("'{}' cannot be empty", field.name())));
    }
    let read = items.iter().map(|item| {
        let name = text(item)?;
        from_name(name).ok_or_else(|| diagnostic_at(&item.position, format!("unrecognized {what} {name}")))
    });
    read.collect()
}

fn min_version(field: &Field<'_>) -> Stop<TlsVersion> {
    let version = match field.value() {
        Value::Text(name) => TlsVersion::from_name(name),
        other => Err(format!("'min_version' wrong type: {}", printed(other))),
    };
    version.map_err(|error| field.diagnostic(format!("error parsing tls config: {error}")))
}

/// Compat: 0 stands for the default, and less than that leaves no time at all.
fn timeout(field: &Field<'_>) -> Stop<Option<Duration>> {
    let seconds = field.value().seconds().map_err(|error| {
        wrong(field, &format!("'timeout' {}", error.unwrap_or_else(|| "wrong type".to_owned())))
    })?;
    if seconds == 0.0 {
        return Ok(None);
    }
    let longest = if seconds > 0.0 { Duration::MAX } else { Duration::ZERO };
    Ok(Some(Duration::try_from_secs_f64(seconds).unwrap_or(longest)))
}

fn pinned(field: &Field<'_>) -> Stop<std::collections::BTreeSet<String>> {
    const WHAT: &str = "hex-encoded sha256 of DER encoded SubjectPublicKeyInfo";
    let Value::Array(items) = field.value() else {
        return Err(wrong(field, &format!("expected 'pinned_certs' to be a list of {WHAT}")));
    };
    let read = items.iter().map(|item| {
        let key = text(item)?.to_lowercase();
        if key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(key);
        }
        let message = format!("error parsing tls config, 'pinned_certs' key {key} does not look like {WHAT}");
        Err(diagnostic_at(&item.position, message))
    });
    read.collect()
}

fn handshake_first(field: &Field<'_>) -> Stop<HandshakeFirst> {
    let text = match field.value() {
        Value::Boolean(true) => return Ok(HandshakeFirst::Yes),
        Value::Boolean(false) => return Ok(HandshakeFirst::No),
        Value::Text(text) => text,
        other => {
            let (name, found) = (field.written(), other.go_type());
            return Err(
                field.diagnostic(format!("field {name:?} should be a boolean or a string, got {found}"))
            );
        }
    };
    match text.to_lowercase().as_str() {
        "true" | "on" => return Ok(HandshakeFirst::Yes),
        "false" | "off" => return Ok(HandshakeFirst::No),
        "auto" | "auto_fallback" => return Ok(HandshakeFirst::Within(FALLBACK_DELAY)),
        _ => {}
    }
    match duration::parse(text).map(u64::try_from) {
        // Compat: no delay means that there is no falling back.
        Ok(Ok(0)) => Ok(HandshakeFirst::Yes),
        Ok(nanos) => Ok(HandshakeFirst::Within(Duration::from_nanos(nanos.unwrap_or(0)))),
        Err(_) => Err(field.diagnostic(format!("field {:?}'s value {text:?} is invalid", field.written()))),
    }
}

fn certificates(field: &Field<'_>) -> Stop<Vec<CertificateFiles>> {
    let unsupported = |at: &Node, found: &str| {
        diagnostic_at(&at.position, format!("error parsing certificates config: unsupported type {found}"))
    };
    let Value::Array(items) = field.value() else {
        // Compat: the type named is that of the block around.
        return Err(unsupported(field.node(), "map[string]interface {}"));
    };
    let read = items.iter().map(|item| {
        let Value::Map(map) = &item.value else { return Err(unsupported(item, item.value.go_type())) };
        let (mut cert_file, mut key_file, mut last) = (String::new(), String::new(), item);
        for (name, node) in map.iter() {
            last = node;
            let Value::Text(file) = &node.value else { return Err(unsupported(node, node.value.go_type())) };
            match name {
                "cert_file" => cert_file.clone_from(file),
                "key_file" => key_file.clone_from(file),
                _ => {
                    let message = format!("error parsing tls certs config, unknown field {name:?}");
                    return Err(diagnostic_at(&node.position, message));
                }
            }
        }
        if cert_file.is_empty() || key_file.is_empty() {
            let message =
                "error parsing certificates config: both 'cert_file' and 'cert_key' options are required";
            return Err(diagnostic_at(&last.position, message));
        }
        Ok(CertificateFiles { cert_file: cert_file.into(), key_file: key_file.into() })
    });
    read.collect()
}

/// The fields about the certificate store of Windows: checked, and of no use elsewhere. Compat:
/// that the store needs another system is an error, that the other fields have no store is none.
fn store(field: &Field<'_>) -> Stop<bool> {
    let name = field.name();
    let text = match field.value() {
        Value::Text(text) if !text.is_empty() => Some(text.to_lowercase()),
        _ => None,
    };
    match (name, text.as_deref()) {
        ("cert_store" | "cert_match_by" | "cert_match", None) => {
            Err(field.diagnostic(format!("expected '{name}' to be a valid non-empty string")))
        }
        ("cert_store", Some("windowscurrentuser" | "windowslocalmachine")) => {
            Err(field.diagnostic("cert_store not compatible with current operating system"))
        }
        ("cert_store", Some(_)) => Err(field.diagnostic("cert store type not implemented")),
        ("cert_match_by", Some("issuer" | "subject" | "thumbprint")) | ("cert_match", Some(_)) => Ok(true),
        ("cert_match_by", Some(_)) => Err(field.diagnostic("cert match by type not implemented")),
        ("cert_match_skip_invalid", _) => match field.value() {
            Value::Boolean(_) => Ok(true),
            _ => Err(field.diagnostic("expected 'cert_match_skip_invalid' to be a boolean")),
        },
        ("ca_certs_match", _) => match field.value() {
            Value::Array(items) if items.iter().any(|item| !matches!(item.value, Value::Text(_))) => {
                let found = "unsupported type *conf.token where string is expected";
                Err(field.diagnostic(format!("error parsing ca_cert_match: {found}")))
            }
            _ => Ok(true),
        },
        _ => Ok(false),
    }
}

fn text(node: &Node) -> Stop<&str> {
    match &node.value {
        Value::Text(text) => Ok(text),
        _ => Err(conversion(node, "string")),
    }
}

/// Compat: what Go says when a value is not of the type that it was taken for.
fn conversion(node: &Node, expected: &str) -> Diagnostic {
    let found = node.value.go_type();
    diagnostic_at(&node.position, format!("interface conversion: interface {{}} is {found}, not {expected}"))
}

/// The value as Go prints it.
fn printed(value: &Value) -> String {
    match value {
        Value::Boolean(on) => on.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) | Value::DateTime(text) => text.clone(),
        Value::Array(_) => "[]".to_owned(),
        Value::Map(_) => "map[]".to_owned(),
    }
}

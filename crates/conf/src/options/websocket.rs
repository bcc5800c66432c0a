//! `websocket{}`: clients, leaf nodes and MQTT clients over WebSocket.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Options;
use super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::listener::ListenerOptions;
use super::simple_authorization::SimpleAuthorization;
use super::table::BlockKind;
use super::tls::{TlsOptions, TlsUse};
use crate::url::Url;
use crate::value::{Map, Value};

/// WebSocket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebSocketOptions {
    /// Where WebSocket is accepted; without a port there is none.
    pub listener: ListenerOptions,
    /// `host` or `host:port` that clients are told instead of the bound address.
    pub advertise: Option<String>,
    /// Run without TLS, if there is no `tls`.
    pub no_tls: bool,
    /// TLS; required unless `no_tls`.
    pub tls: Option<TlsOptions>,
    /// The `Origin` of a request must be its host.
    pub same_origin: bool,
    /// Origins that may connect; empty for all. URLs with `http` or `https` and a host.
    pub allowed_origins: Vec<String>,
    /// For the request and the TLS handshake before it; `None` is 2 s.
    pub handshake_timeout: Option<Duration>,
    /// Compress frames when the client asks for it.
    pub compression: bool,
    /// Instead of the credentials of ordinary clients.
    pub authorization: SimpleAuthorization,
    /// Cookie that stands for the JWT of CONNECT.
    pub jwt_cookie: Option<String>,
    /// Cookie that stands for the user of CONNECT.
    pub user_cookie: Option<String>,
    /// Cookie that stands for the password of CONNECT.
    pub pass_cookie: Option<String>,
    /// Cookie that stands for the token of CONNECT.
    pub token_cookie: Option<String>,
    /// The user that clients without credentials become.
    pub no_auth_user: Option<String>,
    /// Headers of the answer to the upgrade, by their names as written.
    pub headers: BTreeMap<String, String>,
    /// `None` is that of ordinary clients.
    pub ping_interval: Option<Duration>,
}

impl WebSocketOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        if !matches!(field.name(), "websocket" | "ws") {
            return Ok(false);
        }
        let map = field.block("Expected websocket to be a map")?;
        read_block(map, BlockKind::WebSocket, report, |inner, report| {
            Ok(self.listener.set(inner, report)?
                || self.set_login(inner, report)?
                || self.set_transport(inner, report)?)
        });
        Ok(true)
    }

    fn set_login(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "authorization" | "authentication" => {
                self.authorization = SimpleAuthorization::read(field, report)?;
            }
            "jwt_cookie" => self.jwt_cookie = field.optional_text()?,
            "user_cookie" => self.user_cookie = field.optional_text()?,
            "pass_cookie" => self.pass_cookie = field.optional_text()?,
            "token_cookie" => self.token_cookie = field.optional_text()?,
            "no_auth_user" => self.no_auth_user = field.optional_text()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_transport(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "advertise" => self.advertise = field.optional_text()?,
            "no_tls" => self.no_tls = field.boolean()?,
            "tls" => self.tls = Some(TlsOptions::read(field, TlsUse::WebSocket, report)?),
            "same_origin" => self.same_origin = field.boolean()?,
            "allowed_origins" | "allowed_origin" | "allow_origins" | "allow_origin" | "origins"
            | "origin" => {
                self.allowed_origins = field.text_or_texts("allowed origins", report)?;
            }
            "handshake_timeout" => self.handshake_timeout = handshake_timeout(field)?,
            "compress" | "compression" => self.compression = field.boolean()?,
            "headers" => self.headers = headers(field, report)?,
            "ping_interval" => self.ping_interval = field.chosen_duration("ping_interval", report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The first reason why these options cannot run with the others.
    pub(super) fn check(&self, options: &Options) -> Result<(), String> {
        if self.listener.port.is_none() {
            return Ok(());
        }
        if self.tls.is_none() && !self.no_tls {
            return Err("websocket requires TLS configuration".to_owned());
        }
        self.allowed_origins.iter().try_for_each(|origin| check_origin(origin))?;
        options.check_user_exists(self.no_auth_user.as_deref())?;
        let has_users = options.authorization.has_users();
        if has_users && self.authorization.user.is_some() {
            let text = "websocket authentication username not compatible with presence of users/nkeys";
            return Err(text.to_owned());
        }
        if has_users && self.authorization.token.is_some() {
            let text = "websocket authentication token not compatible with presence of users/nkeys";
            return Err(text.to_owned());
        }
        let has_keys = options.trusts_operators() || !options.operators.trusted_keys.is_empty();
        if let Some(cookie) = self.jwt_cookie.as_deref().filter(|_| !has_keys) {
            return Err(format!(
                "trusted operators or trusted keys configuration is required for JWT authentication via cookie \
                 {cookie:?}"
            ));
        }
        self.headers.keys().try_for_each(|name| check_header(name))
    }
}

/// Seconds or a duration, for once without a warning.
fn handshake_timeout(field: &Field<'_>) -> Read<Option<Duration>> {
    let nanos = match field.value() {
        Value::Integer(seconds) => seconds.saturating_mul(1_000_000_000),
        Value::Text(text) => crate::duration::parse(text).map_err(|error| field.diagnostic(error))?,
        other => {
            let message = format!("error parsing handshake timeout: unsupported type {}", other.go_type());
            return Err(field.diagnostic(message));
        }
    };
    Ok(u64::try_from(nanos).ok().filter(|&nanos| nanos > 0).map(Duration::from_nanos))
}

fn headers(field: &Field<'_>, report: &mut Diagnostics) -> Read<BTreeMap<String, String>> {
    let Value::Map(map) = field.value() else {
        let found = field.value().go_type();
        return Err(field.diagnostic(format!("error parsing headers: unsupported type {found}")));
    };
    Ok(read_headers(map, report))
}

fn read_headers(map: &Map, report: &mut Diagnostics) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    for (name, node) in map.iter() {
        match &node.value {
            Value::Text(value) => drop(headers.insert(name.to_owned(), value.clone())),
            other => {
                let message =
                    format!("error parsing header key {name}: unsupported type {}", other.go_type());
                report.errors.push(diagnostic_at(&node.position, message));
            }
        }
    }
    headers
}

fn check_origin(origin: &str) -> Result<(), String> {
    let fail = |reason: &str| Err(format!("unable to parse allowed origin: parse {origin:?}: {reason}"));
    if origin.is_empty() {
        return fail("empty url");
    }
    let url = match Url::read(origin) {
        Ok(url) if url.scheme.is_empty() && !url.rest.starts_with('/') => {
            return fail("invalid URI for request");
        }
        Ok(url) => url,
        Err(reason) => return fail(&reason),
    };
    if url.scheme != "http" && url.scheme != "https" {
        return Err(format!(
            "unable to parse allowed origin {origin:?}: allowed origins must be absolute URLs with http or https \
             scheme"
        ));
    }
    if url.authority.is_empty() {
        return Err(format!("unable to parse allowed origin {origin:?}: host is required"));
    }
    Ok(())
}

fn check_header(name: &str) -> Result<(), String> {
    let lower = name.to_lowercase();
    if ["host", "content-length", "connection", "upgrade", "nats-no-masking"].contains(&lower.as_str()) {
        return Err(format!("websocket: invalid header {name:?} not allowed"));
    }
    if lower.starts_with("sec-websocket-") {
        return Err(format!("websocket: invalid header {name:?}, \"Sec-WebSocket-\" prefix not allowed"));
    }
    Ok(())
}

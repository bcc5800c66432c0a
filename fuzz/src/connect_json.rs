//! The JSON of CONNECT.
//!
//! Promised for any bytes: reading does not panic, and where the bytes are JSON by the strict rules
//! the fields and the verdict are those of a plain walk over the document. What is only JSON by
//! Go's lax rules (bytes that are not UTF-8, lone surrogates, great depth) the twin has no opinion
//! on.

use myelin_wire::connect::{Connect, ConnectCredentials};
use serde_json::Value;

use crate::document::Document;

/// Any bytes as the argument of CONNECT.
pub fn connect_json(data: &[u8]) {
    let mut read = Connect::default();
    let verdict = read.read(data);
    let Ok(document) = serde_json::from_slice::<Document>(data) else { return };
    let expected = document.onto(Connect::default());
    assert_eq!(verdict.is_ok(), expected.is_some(), "verdict");
    let Some(expected) = expected else { return };
    assert!(read == expected, "fields");
    assert!(read.read(data).is_ok() && read == expected, "the same document again changes nothing");
}

impl Document {
    /// The plain twin of [`Connect::read`]; `None` when the document is refused.
    fn onto(self, mut connect: Connect) -> Option<Connect> {
        let fields = match self {
            Self::Null => return Some(connect),
            Self::Object(fields) => fields,
            Self::Other => return None,
        };
        let (mut credentials, mut has_shown) = (ConnectCredentials::default(), false);
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
            let name = name.to_ascii_lowercase();
            if let Some(field) = truth(&mut connect, &name) {
                *field = value.as_bool()?;
            } else if let Some(field) = text(&mut connect, &name) {
                *field = value.as_str()?.into();
            } else if let Some(field) = credential(&mut credentials, &name) {
                *field = value.as_str()?.to_owned();
                // They stay from the first one on that says something.
                has_shown |= !field.is_empty();
            } else if name == "account" {
                connect.names_account = !value.as_str()?.is_empty();
            } else if name == "protocol" {
                connect.protocol = value.as_i64()?;
            } else if !may_be_ignored(&name, &value) {
                return None;
            }
        }
        connect.credentials = has_shown.then(|| Box::new(credentials));
        Some(connect)
    }
}

/// Fields that are read by nobody must still have their types.
fn may_be_ignored(name: &str, value: &Value) -> bool {
    match name {
        "tls_required" => value.is_boolean(),
        "import" | "export" => value.is_object(),
        "remote_account" => value.is_string(),
        _ => true,
    }
}

fn truth<'a>(connect: &'a mut Connect, name: &str) -> Option<&'a mut bool> {
    match name {
        "verbose" => Some(&mut connect.verbose),
        "pedantic" => Some(&mut connect.pedantic),
        "echo" => Some(&mut connect.echo),
        "headers" => Some(&mut connect.headers),
        "no_responders" => Some(&mut connect.no_responders),
        "new_account" => Some(&mut connect.new_account),
        _ => None,
    }
}

fn text<'a>(connect: &'a mut Connect, name: &str) -> Option<&'a mut Box<str>> {
    match name {
        "name" => Some(&mut connect.name),
        "lang" => Some(&mut connect.lang),
        "version" => Some(&mut connect.version),
        _ => None,
    }
}

fn credential<'a>(credentials: &'a mut ConnectCredentials, name: &str) -> Option<&'a mut String> {
    match name {
        "user" => Some(&mut credentials.user),
        "pass" => Some(&mut credentials.pass),
        "auth_token" => Some(&mut credentials.auth_token),
        "jwt" => Some(&mut credentials.jwt),
        "nkey" => Some(&mut credentials.nkey),
        "sig" => Some(&mut credentials.sig),
        "proxy_sig" => Some(&mut credentials.proxy_sig),
        _ => None,
    }
}

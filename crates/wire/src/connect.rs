//! CONNECT, the client's half of the handshake.

use crate::json::Text;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::fmt;

/// CONNECT: what a client said of itself. A second one is read on top of the first, as the
/// reference does.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the protocol's own: docs.nats.io, client protocol, CONNECT.
pub struct Connect {
    pub verbose: bool,
    pub pedantic: bool,
    pub echo: bool,
    pub headers: bool,
    pub no_responders: bool,
    pub protocol: i64,
    pub name: Box<str>,
    pub lang: Box<str>,
    pub version: Box<str>,
    /// Boxed: many clients show none, and an idle connection must stay small.
    pub credentials: Option<Box<ConnectCredentials>>,
    /// `account` is not empty.
    pub names_account: bool,
    pub new_account: bool,
}

/// Credentials of a client: the fields of CONNECT that say who it is, and signatures of the nonce
/// in INFO, by itself and by its proxy. What it has not said is empty.
#[derive(Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)] // As above.
pub struct ConnectCredentials {
    pub user: String,
    pub pass: String,
    pub auth_token: String,
    pub jwt: String,
    pub nkey: String,
    pub sig: String,
    pub proxy_sig: String,
}

impl Default for Connect {
    /// `Compat:` what holds for a session that never sends CONNECT, and for fields it leaves out:
    /// verbose, pedantic and echo are on.
    fn default() -> Self {
        Self {
            verbose: true,
            pedantic: true,
            echo: true,
            headers: false,
            no_responders: false,
            protocol: 0,
            name: Box::default(),
            lang: Box::default(),
            version: Box::default(),
            credentials: None,
            names_account: false,
            new_account: false,
        }
    }
}

/// The JSON was malformed, not an object, or a field had the wrong type: the connection is closed
/// without a word, as the reference does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadConnect;

impl Connect {
    /// One of the credentials; empty for none.
    pub fn credential(&self, of: impl FnOnce(&ConnectCredentials) -> &String) -> &str {
        self.credentials.as_deref().map_or("", |credentials| of(credentials))
    }

    /// Name of the user; empty for none.
    pub fn user(&self) -> &str {
        self.credential(|credentials| &credentials.user)
    }

    /// The user's public key; empty for none.
    pub fn nkey(&self) -> &str {
        self.credential(|credentials| &credentials.nkey)
    }

    fn show<'de, A: MapAccess<'de>>(
        &mut self,
        fields: &mut A,
        of: fn(&mut ConnectCredentials) -> &mut String,
    ) -> Result<(), A::Error> {
        if let Some(Text(text)) = fields.next_value::<Option<Text>>()?
            && (self.credentials.is_some() || !text.is_empty())
        {
            *of(self.credentials.get_or_insert_default()) = text;
        }
        Ok(())
    }

    /// Reads `json` on top of what is already known.
    ///
    /// Field names match without regard to case, unknown ones are ignored and `null` changes
    /// nothing: the rules of Go's decoder, which clients have come to rely on.
    ///
    /// # Errors
    /// [`BadConnect`]; `self` may then be half updated and must be thrown away.
    pub fn read(&mut self, json: &[u8]) -> Result<(), BadConnect> {
        if has_raw_control(json) {
            return Err(BadConnect);
        }
        let mut json = serde_json::Deserializer::from_slice(json);
        json.deserialize_option(Onto(self)).and_then(|()| json.end()).map_err(|_| BadConnect)
    }

    fn set<'de, A: MapAccess<'de>>(&mut self, name: &str, fields: &mut A) -> Result<(), A::Error> {
        match name.to_ascii_lowercase().as_str() {
            "verbose" => set(&mut self.verbose, fields),
            "pedantic" => set(&mut self.pedantic, fields),
            "echo" => set(&mut self.echo, fields),
            "headers" => set(&mut self.headers, fields),
            "no_responders" => set(&mut self.no_responders, fields),
            "new_account" => set(&mut self.new_account, fields),
            "protocol" => set(&mut self.protocol, fields),
            "name" => set_text(&mut self.name, fields),
            "lang" => set_text(&mut self.lang, fields),
            "version" => set_text(&mut self.version, fields),
            "user" => self.show(fields, |credentials| &mut credentials.user),
            "pass" => self.show(fields, |credentials| &mut credentials.pass),
            "auth_token" => self.show(fields, |credentials| &mut credentials.auth_token),
            "jwt" => self.show(fields, |credentials| &mut credentials.jwt),
            "nkey" => self.show(fields, |credentials| &mut credentials.nkey),
            "sig" => self.show(fields, |credentials| &mut credentials.sig),
            "proxy_sig" => self.show(fields, |credentials| &mut credentials.proxy_sig),
            "account" => {
                if let Some(Text(text)) = fields.next_value::<Option<Text>>()? {
                    self.names_account = !text.is_empty();
                }
                Ok(())
            }
            // Of no use to a client of this server: only their types are checked.
            "tls_required" => fields.next_value::<Option<bool>>().map(drop),
            "import" | "export" => fields.next_value::<Option<Map<String, Value>>>().map(drop),
            "remote_account" => fields.next_value::<Option<Text>>().map(drop),
            // Skipped whatever it holds, at any depth, without recursion.
            _ => fields.next_value::<IgnoredAny>().map(drop),
        }
    }
}

/// Whether a control character stands in a string: the lossy reading of strings would let it pass.
fn has_raw_control(json: &[u8]) -> bool {
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        match byte {
            0..=31 if in_string => return true,
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
    false
}

fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(field: &mut T, fields: &mut A) -> Result<(), A::Error> {
    if let Some(value) = fields.next_value::<Option<T>>()? {
        *field = value;
    }
    Ok(())
}

fn set_text<'de, A: MapAccess<'de>>(field: &mut Box<str>, fields: &mut A) -> Result<(), A::Error> {
    if let Some(Text(text)) = fields.next_value::<Option<Text>>()? {
        *field = text.into();
    }
    Ok(())
}

/// Reads an object, or null, onto what is there.
struct Onto<'a>(&'a mut Connect);

impl<'de> Visitor<'de> for Onto<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the object of a CONNECT")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, object: D) -> Result<(), D::Error> {
        object.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = fields.next_key()? {
            self.0.set(&name, &mut fields)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_keep_the_telnet_defaults() {
        let mut c = Connect::default();
        c.read(br#"{"Verbose":false,"HEADERS":true,"unknown":[1],"name":null}"#).unwrap();
        assert!(!c.verbose && c.headers && c.pedantic && c.echo);
    }

    #[test]
    fn a_second_connect_reads_on_top_of_the_first() {
        let mut c = Connect::default();
        c.read(br#"{"user":"a","verbose":false}"#).unwrap();
        c.read(br#"{"verbose":true}"#).unwrap();
        assert_eq!((c.user(), c.verbose), ("a", true));
        c.read(br#"{"user":""}"#).unwrap();
        assert_eq!(c.user(), "");
    }

    /// Most of a session's state before it has subscriptions.
    #[test]
    fn who_shows_no_credentials_is_small() {
        assert!(size_of::<Connect>() <= 72, "{}", size_of::<Connect>());
        let mut c = Connect::default();
        c.read(br#"{"name":"app","user":"","pass":"","auth_token":""}"#).unwrap();
        assert!(c.credentials.is_none());
    }

    #[test]
    fn what_is_not_utf_8_is_replaced() {
        let mut c = Connect::default();
        c.read(b"{\"name\":\"a\xff\"}").unwrap();
        assert_eq!(&*c.name, "a\u{fffd}");
        c.read(br#"{"lang":"\ud800","x":1e999}"#).unwrap();
        assert!(c.lang.contains('\u{fffd}'));
    }

    #[test]
    fn unknown_fields_may_be_deep() {
        let deep = format!(r#"{{"x":{}{},"verbose":false}}"#, "[".repeat(5000), "]".repeat(5000));
        let mut c = Connect::default();
        c.read(deep.as_bytes()).unwrap();
        assert!(!c.verbose);
    }

    #[test]
    fn wrong_types_and_broken_json_are_refused() {
        for bad in [
            "",
            "{",
            "[]",
            "1",
            r#"{"verbose":1}"#,
            r#"{"protocol":"1"}"#,
            r#"{"protocol":1.5}"#,
            r#"{"user":5}"#,
        ] {
            assert_eq!(Connect::default().read(bad.as_bytes()), Err(BadConnect), "{bad}");
        }
    }
}

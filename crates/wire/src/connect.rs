//! CONNECT, the client's half of the handshake.

use serde_json::{Map, Value};

/// What a client said of itself. A second CONNECT is read on top of the first, as the reference does.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the protocol's own; the feature map, section 1.4, explains them.
pub struct Connect {
    pub verbose: bool,
    pub pedantic: bool,
    pub echo: bool,
    pub headers: bool,
    pub no_responders: bool,
    pub protocol: i64,
    pub name: String,
    pub lang: String,
    pub version: String,
    pub user: String,
    pub pass: String,
    pub auth_token: String,
    pub jwt: String,
    pub nkey: String,
    pub sig: String,
    pub account: String,
    pub new_account: bool,
    pub tls_required: bool,
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
            name: String::new(),
            lang: String::new(),
            version: String::new(),
            user: String::new(),
            pass: String::new(),
            auth_token: String::new(),
            jwt: String::new(),
            nkey: String::new(),
            sig: String::new(),
            account: String::new(),
            new_account: false,
            tls_required: false,
        }
    }
}

/// The JSON was malformed, not an object, or a field had the wrong type: the connection is closed
/// without a word, as the reference does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadConnect;

impl Connect {
    /// Reads `json` on top of what is already known.
    ///
    /// Field names match without regard to case, unknown ones are ignored and `null` changes nothing:
    /// the rules of Go's decoder, which clients have come to rely on.
    ///
    /// # Errors
    /// [`BadConnect`]; `self` may then be half updated and must be thrown away.
    pub fn read(&mut self, json: &[u8]) -> Result<(), BadConnect> {
        let fields = match serde_json::from_slice::<Value>(json) {
            Ok(Value::Object(fields)) => fields,
            Ok(Value::Null) => return Ok(()),
            _ => return Err(BadConnect),
        };
        self.apply(fields)
    }

    fn apply(&mut self, fields: Map<String, Value>) -> Result<(), BadConnect> {
        for (name, value) in fields {
            match name.to_ascii_lowercase().as_str() {
                "verbose" => set_bool(&mut self.verbose, value)?,
                "pedantic" => set_bool(&mut self.pedantic, value)?,
                "echo" => set_bool(&mut self.echo, value)?,
                "headers" => set_bool(&mut self.headers, value)?,
                "no_responders" => set_bool(&mut self.no_responders, value)?,
                "tls_required" => set_bool(&mut self.tls_required, value)?,
                "new_account" => set_bool(&mut self.new_account, value)?,
                "protocol" => set_int(&mut self.protocol, value)?,
                "name" => set_string(&mut self.name, value)?,
                "lang" => set_string(&mut self.lang, value)?,
                "version" => set_string(&mut self.version, value)?,
                "user" => set_string(&mut self.user, value)?,
                "pass" => set_string(&mut self.pass, value)?,
                "auth_token" => set_string(&mut self.auth_token, value)?,
                "jwt" => set_string(&mut self.jwt, value)?,
                "nkey" => set_string(&mut self.nkey, value)?,
                "sig" => set_string(&mut self.sig, value)?,
                "account" => set_string(&mut self.account, value)?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn set_bool(field: &mut bool, value: Value) -> Result<(), BadConnect> {
    match value {
        Value::Bool(b) => *field = b,
        Value::Null => {}
        _ => return Err(BadConnect),
    }
    Ok(())
}

fn set_int(field: &mut i64, value: Value) -> Result<(), BadConnect> {
    match value {
        Value::Number(n) => *field = n.as_i64().ok_or(BadConnect)?,
        Value::Null => {}
        _ => return Err(BadConnect),
    }
    Ok(())
}

fn set_string(field: &mut String, value: Value) -> Result<(), BadConnect> {
    match value {
        Value::String(s) => *field = s,
        Value::Null => {}
        _ => return Err(BadConnect),
    }
    Ok(())
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
        assert_eq!((c.user.as_str(), c.verbose), ("a", true));
    }

    #[test]
    fn wrong_types_and_broken_json_are_refused() {
        for bad in ["", "{", "[]", "1", r#"{"verbose":1}"#, r#"{"protocol":"1"}"#, r#"{"protocol":1.5}"#, r#"{"user":5}"#] {
            assert_eq!(Connect::default().read(bad.as_bytes()), Err(BadConnect), "{bad}");
        }
    }
}

//! Faults of a CONNECT or INFO that cannot be read, in the words of Go's JSON package, which stand
//! in the reference's log. Cold: a connection says such a thing once and is closed.

use myelin_wire::json::{Value, ValueKind, syntax};

/// The fault of a CONNECT that could not be read.
pub(super) fn connect_fault(json: &[u8]) -> String {
    match Value::parse(json) {
        Err(fault) => fault.to_string(),
        Ok(value) => type_fault(value),
    }
}

/// The fault of an INFO that could not be read.
pub(super) fn info_fault(json: &[u8]) -> String {
    syntax::check(json).err().map_or_else(|| "invalid INFO".to_owned(), |fault| fault.to_string())
}

/// Which value is of the wrong type.
fn type_fault(top: Value<'_>) -> String {
    if top.kind() != ValueKind::Object {
        let kind = top.kind().name();
        return format!("json: cannot unmarshal {kind} into Go value of type server.ClientOpts");
    }
    let wrong = top.members().find_map(|(name, value)| {
        let (name, wanted) = known(&name.string())?;
        let fits = match (value.kind(), wanted) {
            (ValueKind::Null, _) | (ValueKind::Bool, "bool") | (ValueKind::String, "string") => true,
            (ValueKind::Object, wanted) => wanted.starts_with("server."),
            (ValueKind::Number, "int") => value.text().iter().all(|b| b.is_ascii_digit() || *b == b'-'),
            _ => false,
        };
        // Go shows a number only where a number was wanted.
        let shown = match (value.kind(), wanted) {
            (ValueKind::Number, "int") => format!("number {}", String::from_utf8_lossy(value.text())),
            (kind, _) => kind.name().to_owned(),
        };
        (!fits).then(|| {
            format!("json: cannot unmarshal {shown} into Go struct field ClientOpts.{name} of type {wanted}")
        })
    });
    wrong.unwrap_or_else(|| "invalid CONNECT".to_owned())
}

/// A field of CONNECT and its type, as the reference declares it.
fn known(name: &str) -> Option<(&'static str, &'static str)> {
    let fields = [
        (
            "bool",
            &["echo", "verbose", "pedantic", "tls_required", "headers", "no_responders", "new_account"][..],
        ),
        ("int", &["protocol"]),
        ("server.SubjectPermission", &["import", "export"]),
        ("string", &["nkey", "jwt", "sig", "auth_token", "user", "pass", "name", "lang", "version"]),
        ("string", &["account", "remote_account", "proxy_sig"]),
    ];
    fields.iter().find_map(|(kind, names)| {
        let known = names.iter().find(|known| known.eq_ignore_ascii_case(name))?;
        Some((*known, *kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_read_as_gos() {
        // What nats-server 2.15.2 logs for the same CONNECT.
        let field = "json: cannot unmarshal number into Go struct field ClientOpts.verbose of type bool";
        let array = "json: cannot unmarshal array into Go value of type server.ClientOpts";
        for (json, fault) in [
            (r#"{"a":"#, "unexpected end of JSON input"),
            ("xx", "invalid character 'x' looking for beginning of value"),
            (r#"{"verbose":1}"#, field),
            ("[]", array),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 2}"#, "invalid character '2' after object key:value pair"),
            (r#"{"a":[1 2]}"#, "invalid character '2' after array element"),
            (r#"{"a":"\x"}"#, "invalid character 'x' in string escape code"),
            (r#"{"a":"\u00g0"}"#, r"invalid character 'g' in \u hexadecimal character escape"),
            (r#"{"a":tru}"#, "invalid character '}' in literal true (expecting 'e')"),
            (r#"{"a":-}"#, "invalid character '}' in numeric literal"),
            (r#"{"a":1.}"#, "invalid character '}' after decimal point in numeric literal"),
            (r#"{"a":1e}"#, "invalid character '}' in exponent of numeric literal"),
            ("{} '", r"invalid character '\'' after top-level value"),
            ("{\"a\":\"\x01\"}", r"invalid character '\x01' in string literal"),
        ] {
            assert_eq!(connect_fault(json.as_bytes()), fault, "{json}");
        }
    }

    #[test]
    fn the_first_field_of_a_wrong_type_is_named() {
        let fault = connect_fault(br#"{"x":{"verbose":1}, "user" : "u","PROTOCOL":1.5,"name":2}"#);
        let what = "json: cannot unmarshal number 1.5 into Go struct field ClientOpts.protocol of type int";
        assert_eq!(fault, what);
    }
}

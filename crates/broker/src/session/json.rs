//! What is wrong with a CONNECT or INFO that cannot be read, in the words of Go's JSON package, which stand in
//! the reference's log. Cold: a connection says such a thing once and is closed.

use myelin_wire::error::Quoted;

/// Values nested deeper are refused.
const DEEPEST: usize = 10_000;

/// A value at the top of a CONNECT: its name and its text.
type Field<'a> = (&'a [u8], &'a [u8]);

/// The fault of a CONNECT that could not be read.
pub(super) fn connect_fault(json: &[u8]) -> String {
    match Scanner::run(json) {
        Err(fault) => fault,
        Ok(fields) => type_fault(json, &fields),
    }
}

/// The fault of an INFO that could not be read.
pub(super) fn info_fault(json: &[u8]) -> String {
    Scanner::run(json).err().unwrap_or_else(|| "invalid INFO".to_owned())
}

/// Which value is of the wrong type.
fn type_fault(json: &[u8], fields: &[Field<'_>]) -> String {
    let top = json.trim_ascii();
    if top.first() != Some(&b'{') {
        return format!("json: cannot unmarshal {} into Go value of type server.ClientOpts", kind(top));
    }
    let wrong = fields.iter().find_map(|(name, value)| {
        let (name, wanted) = known(name)?;
        let fits = match (kind(value), wanted) {
            ("null", _) | ("bool", "bool") | ("string", "string") => true,
            ("object", wanted) => wanted.starts_with("server."),
            ("number", "int") => value.iter().all(|b| b.is_ascii_digit() || *b == b'-'),
            _ => false,
        };
        // Go shows a number only where a number was wanted.
        let shown = match (kind(value), wanted) {
            ("number", "int") => format!("number {}", String::from_utf8_lossy(value)),
            (kind, _) => kind.to_owned(),
        };
        (!fits).then(|| {
            format!("json: cannot unmarshal {shown} into Go struct field ClientOpts.{name} of type {wanted}")
        })
    });
    wrong.unwrap_or_else(|| "invalid CONNECT".to_owned())
}

fn kind(value: &[u8]) -> &'static str {
    match value.first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// A field of CONNECT and its type, as the reference declares it.
fn known(name: &[u8]) -> Option<(&'static str, &'static str)> {
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
        let known = names.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some((*known, *kind))
    })
}

/// What may come next.
#[derive(Clone, Copy, PartialEq)]
enum Expect {
    Value,
    /// Or the end of an array that has just begun.
    FirstElement,
    Key,
    /// Or the end of an object that has just begun.
    FirstKey,
    Colon,
    /// A comma or the end of what is open.
    More,
}

struct Scanner<'a> {
    json: &'a [u8],
    at: usize,
    open: Vec<u8>,
    /// Fields of the outermost object.
    fields: Vec<Field<'a>>,
    /// Where the value of the last field begins.
    field_start: usize,
    key: &'a [u8],
}

impl<'a> Scanner<'a> {
    fn run(json: &'a [u8]) -> Result<Vec<Field<'a>>, String> {
        let scanner = Self { json, at: 0, open: Vec::new(), fields: Vec::new(), field_start: 0, key: &[] };
        scanner.document()
    }

    fn document(mut self) -> Result<Vec<Field<'a>>, String> {
        let mut expect = Expect::Value;
        loop {
            let Some(byte) = self.skip_space() else {
                let whole = self.open.is_empty() && expect == Expect::More;
                return if whole { Ok(self.fields) } else { Err(Self::cut()) };
            };
            expect = match (expect, byte) {
                (Expect::FirstElement, b']') | (Expect::FirstKey, b'}') => self.close(),
                (Expect::FirstElement | Expect::Value, _) => self.value(byte)?,
                (Expect::FirstKey | Expect::Key, b'"') => {
                    let start = self.at + 1;
                    self.string()?;
                    if self.open.len() == 1 {
                        self.key = &self.json[start..self.at - 1];
                    }
                    Expect::Colon
                }
                (Expect::FirstKey | Expect::Key, _) => {
                    return Err(self.fault("looking for beginning of object key string"));
                }
                (Expect::Colon, b':') => {
                    self.at += 1;
                    self.skip_space();
                    self.field_start = if self.open.len() == 1 { self.at } else { self.field_start };
                    Expect::Value
                }
                (Expect::Colon, _) => return Err(self.fault("after object key")),
                (Expect::More, _) => self.more(byte)?,
            };
        }
    }

    fn more(&mut self, byte: u8) -> Result<Expect, String> {
        match (self.open.last(), byte) {
            (None, _) => Err(self.fault("after top-level value")),
            (Some(b'{'), b',') => {
                self.at += 1;
                Ok(Expect::Key)
            }
            (Some(b'['), b',') => {
                self.at += 1;
                Ok(Expect::Value)
            }
            (Some(b'{'), b'}') | (Some(b'['), b']') => Ok(self.close()),
            (Some(b'{'), _) => Err(self.fault("after object key:value pair")),
            (Some(_), _) => Err(self.fault("after array element")),
        }
    }

    fn close(&mut self) -> Expect {
        self.open.pop();
        self.at += 1;
        self.value_ended();
        Expect::More
    }

    /// Notes a value of the outermost object.
    fn value_ended(&mut self) {
        if self.open == b"{" {
            self.fields.push((self.key, &self.json[self.field_start..self.at]));
        }
    }

    fn value(&mut self, byte: u8) -> Result<Expect, String> {
        match byte {
            b'{' | b'[' => {
                self.open.push(byte);
                self.at += 1;
                if self.open.len() > DEEPEST {
                    return Err("exceeded max depth".to_owned());
                }
                return Ok(if byte == b'{' { Expect::FirstKey } else { Expect::FirstElement });
            }
            b'"' => self.string()?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return Err(self.fault("looking for beginning of value")),
        }
        self.value_ended();
        Ok(Expect::More)
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.need()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    self.escape()?;
                }
                0..=31 => return Err(self.fault("in string literal")),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        let digits = match self.need()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => 0,
            b'u' => 4,
            _ => return Err(self.fault("in string escape code")),
        };
        self.at += 1;
        for _ in 0..digits {
            if !self.need()?.is_ascii_hexdigit() {
                return Err(self.fault("in \\u hexadecimal character escape"));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for wanted in word.bytes() {
            if self.need()? != wanted {
                let wanted = char::from(wanted);
                return Err(self.fault(&format!("in literal {word} (expecting '{wanted}')")));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.need()? == b'-' {
            self.at += 1;
        }
        if self.need()? == b'0' {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, context: &str) -> Result<(), String> {
        if !self.need()?.is_ascii_digit() {
            return Err(self.fault(context));
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn skip_space(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.peek()
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn need(&self) -> Result<u8, String> {
        self.peek().ok_or_else(Self::cut)
    }

    fn cut() -> String {
        "unexpected end of JSON input".to_owned()
    }

    fn fault(&self, context: &str) -> String {
        let character = match self.json[self.at] {
            b'\'' => r"\'".to_owned(),
            b'"' => "\"".to_owned(),
            byte => {
                let quoted = Quoted(char::from(byte).to_string().as_bytes()).to_string();
                quoted[1..quoted.len() - 1].to_owned()
            }
        };
        format!("invalid character '{character}' {context}")
    }
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

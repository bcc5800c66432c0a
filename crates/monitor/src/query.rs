//! The options behind the `?`, and what is answered when one cannot be understood.

use std::fmt;
use std::num::IntErrorKind;

/// The decoded options of a request. Of an option given twice the first counts.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
    /// Whether the request came by a message, and so the answer goes.
    pub(crate) is_message: bool,
    /// Only by a message: these accounts, if any are named.
    pub(crate) accounts: Vec<String>,
    /// Only by a message: clients that listen to what this matches.
    pub(crate) filter_subject: String,
}

impl Query {
    /// Reads what follows the `?`.
    ///
    /// Compat: a pair with a `;` or a broken percent escape is passed over, as Go does.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        Self { pairs: pairs.filter_map(decode_pair).collect(), ..Self::default() }
    }

    /// No options yet.
    pub(crate) fn of_message() -> Self {
        Self { is_message: true, ..Self::default() }
    }

    /// Gives an option a value, instead of the one that it had.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.pairs.retain(|(key, _)| key != name);
        self.pairs.push((name.to_owned(), value));
    }

    /// The text of an option, empty when it was not given.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// A switch, off when it was not given.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, BadQuery> {
        match self.text(name) {
            "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            text => Err(BadQuery::Flag { name, text: text.to_owned() }),
        }
    }

    /// A signed number, 0 when it was not given.
    pub(crate) fn int(&self, name: &'static str) -> Result<i64, BadQuery> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(0);
        }
        text.parse().map_err(|error: std::num::ParseIntError| BadQuery::Int {
            name,
            text: text.to_owned(),
            problem: Problem::of(error.kind()),
        })
    }

    /// An unsigned number, 0 when it was not given. A sign is an error, a `+` too.
    pub(crate) fn uint(&self, name: &'static str) -> Result<u64, BadQuery> {
        let text = self.text(name);
        let bad = |problem| BadQuery::Uint { name, text: text.to_owned(), problem };
        match text.as_bytes().first() {
            None => Ok(0),
            Some(b'+' | b'-') => Err(bad(Problem::Syntax)),
            Some(_) => text.parse().map_err(|error: std::num::ParseIntError| bad(Problem::of(error.kind()))),
        }
    }
}

/// Detail in which a connection's subscriptions are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subs {
    None,
    Subjects,
    Detail,
}

impl Subs {
    /// Reads the option `subs`: a switch, or `detail`.
    pub(crate) fn read(query: &Query) -> Result<Self, BadQuery> {
        if query.text("subs").to_lowercase() == "detail" {
            return Ok(Self::Detail);
        }
        Ok(if query.flag("subs")? { Self::Subjects } else { Self::None })
    }
}

fn decode_pair(pair: &str) -> Option<(String, String)> {
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    Some((decode(key, Plus::IsBlank)?, decode(value, Plus::IsBlank)?))
}

/// Meaning of a `+`: a blank in a query, itself in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    IsBlank,
    IsItself,
}

/// Undoes percent escapes; `None` when one is broken. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn decode(text: &str, plus: Plus) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let (escape, after) = rest.split_at_checked(2)?;
                bytes.push(hex(escape[0])? << 4 | hex(escape[1])?);
                rest = after;
            }
            b'+' if plus == Plus::IsBlank => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Why a request is answered with 400; the text is the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadQuery {
    Flag {
        name: &'static str,
        text: String,
    },
    Int {
        name: &'static str,
        text: String,
        problem: Problem,
    },
    Uint {
        name: &'static str,
        text: String,
        problem: Problem,
    },
    ConnState(String),
    Sort(String),
    /// A sort key that needs closed connections.
    NeedsClosed(&'static str),
    TestSubject(String),
    /// An account that does not exist.
    Account(String),
    /// Only the leader was asked.
    NotLeader,
    /// Of no account, and so of no subscriptions.
    FilterWithoutAccount,
}

/// Problem of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    Syntax,
    Range,
}

impl Problem {
    fn of(kind: &IntErrorKind) -> Self {
        match kind {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => Self::Range,
            _ => Self::Syntax,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "invalid syntax",
            Self::Range => "value out of range",
        })
    }
}

impl fmt::Display for BadQuery {
    /// Compat: the texts of the reference, with the Go functions' names in them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag { name, text } => write!(
                f,
                "Error decoding boolean for '{name}': strconv.ParseBool: parsing {}: invalid syntax",
                quoted(text)
            ),
            Self::Int { name, text, problem } => {
                write!(
                    f,
                    "Error decoding int for '{name}': strconv.Atoi: parsing {}: {problem}",
                    quoted(text)
                )
            }
            Self::Uint { name, text, problem } => write!(
                f,
                "Error decoding uint64 for '{name}': strconv.ParseUint: parsing {}: {problem}",
                quoted(text)
            ),
            Self::ConnState(text) => write!(f, "Error decoding state for {text}"),
            Self::Sort(text) => write!(f, "invalid sorting option: {text}"),
            Self::NeedsClosed(key) => write!(f, "sort by {key} only valid on closed connections"),
            Self::TestSubject(text) => {
                write!(f, "invalid test subject, must be valid publish subject: {text}")
            }
            Self::Account(name) => write!(f, "Account {name} does not exist"),
            Self::NotLeader => f.write_str("filtered response: not leader"),
            Self::FilterWithoutAccount => f.write_str("filter by subject only valid with account filtering"),
        }
    }
}

impl std::error::Error for BadQuery {}

/// `text` between double quotes with Go's escapes.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0b' => quoted.push_str("\\v"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_decoded() {
        let query = Query::parse("user=a%20b+c&acc=%24G&acc=second&bare&=none&bad=%zz&semi=1;2&late=1");
        assert_eq!(query.text("user"), "a b c");
        assert_eq!(query.text("acc"), "$G");
        assert_eq!(query.text("bare"), "");
        assert_eq!(query.text("bad"), "");
        assert_eq!(query.text("semi"), "");
        assert_eq!(query.text("late"), "1");
        assert_eq!(query.text("missing"), "");
    }

    #[test]
    fn broken_escapes_are_refused() {
        for text in ["%", "%2", "%2g", "a%+1"] {
            assert_eq!(decode(text, Plus::IsBlank), None, "{text}");
        }
        assert_eq!(decode("a+%2B%ff", Plus::IsItself).as_deref(), Some("a++\u{fffd}"));
    }

    #[test]
    fn flags_take_gos_spellings() {
        for (text, value) in [("1", true), ("T", true), ("True", true), ("0", false), ("f", false)] {
            assert_eq!(Query::parse(&format!("auth={text}")).flag("auth"), Ok(value));
        }
        assert_eq!(Query::parse("").flag("auth"), Ok(false));
        let error = Query::parse("auth=x%01%C3%A9%22").flag("auth").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"Error decoding boolean for 'auth': strconv.ParseBool: parsing "x\x01é\"": invalid syntax"#
        );
        assert!(Query::parse("auth=tRUE").flag("auth").is_err());
    }

    #[test]
    fn numbers_name_their_problem() {
        assert_eq!(Query::parse("limit=%2B5").int("limit"), Ok(5));
        assert_eq!(Query::parse("limit=-5").int("limit"), Ok(-5));
        let expected = [
            ("limit=x", r#"Error decoding int for 'limit': strconv.Atoi: parsing "x": invalid syntax"#),
            (
                "limit=99999999999999999999",
                r#"Error decoding int for 'limit': strconv.Atoi: parsing "99999999999999999999": value out of range"#,
            ),
        ];
        for (query, text) in expected {
            assert_eq!(Query::parse(query).int("limit").unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn unsigned_numbers_have_no_sign() {
        assert_eq!(Query::parse("cid=18446744073709551615").uint("cid"), Ok(u64::MAX));
        for text in ["-1", "+1"] {
            let query = Query::parse(&format!("cid={}", text.replace('+', "%2B")));
            assert_eq!(
                query.uint("cid").unwrap_err().to_string(),
                format!(
                    r#"Error decoding uint64 for 'cid': strconv.ParseUint: parsing "{text}": invalid syntax"#
                )
            );
        }
        let error = Query::parse("cid=18446744073709551616").uint("cid").unwrap_err();
        assert!(error.to_string().ends_with("value out of range"), "{error}");
    }
}

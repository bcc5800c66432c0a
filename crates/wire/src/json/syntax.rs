//! Where a JSON value ends, and in Go's words why it does not.
//!
//! Reads every byte once, remembers only what is open, and keeps nothing.

use crate::error::Quoted;
use std::fmt;

/// Values nested deeper are refused.
const DEEPEST: usize = 10_000;

/// Why a text is no JSON. Displays as Go's `SyntaxError` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyntaxFault {
    /// The text ends inside a value, or before one.
    Cut,
    /// A byte that cannot stand where it stands.
    Unexpected {
        /// The byte.
        byte: u8,
        /// Its place.
        at: usize,
        /// Context in which the fault was met.
        context: SyntaxContext,
    },
}

/// Context in which a byte did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntaxContext {
    /// The begin of any value.
    Value,
    /// The begin of a key.
    Key,
    /// The colon.
    AfterKey,
    /// A comma or the end of an object.
    AfterMember,
    /// A comma or the end of an array.
    AfterElement,
    /// Nothing more.
    AfterAll,
    /// The inside of a string.
    InString,
    /// The character after a backslash.
    InEscape,
    /// The digits after `\u`.
    InHex,
    /// The first digits of a number.
    InNumber,
    /// The digits of a fraction.
    InFraction,
    /// The digits of an exponent.
    InExponent,
    /// A bracket, where more is open than Go would follow.
    TooDeep,
    /// `true`, `false` or `null`.
    InWord(&'static str, char),
}

impl SyntaxFault {
    /// How many bytes Go had read when it gave up, the one at fault included. `None` at the end of
    /// the text.
    #[must_use]
    pub fn offset(&self) -> Option<usize> {
        match self {
            Self::Cut => None,
            Self::Unexpected { at, .. } => Some(at + 1),
        }
    }
}

impl fmt::Display for SyntaxFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("unexpected end of JSON input"),
            Self::Unexpected { byte, context, .. } => {
                write!(f, "invalid character {} {context}", Character(*byte))
            }
        }
    }
}

impl std::error::Error for SyntaxFault {}

impl fmt::Display for SyntaxContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value => "looking for beginning of value",
            Self::Key => "looking for beginning of object key string",
            Self::AfterKey => "after object key",
            Self::AfterMember => "after object key:value pair",
            Self::AfterElement => "after array element",
            Self::AfterAll => "after top-level value",
            Self::InString => "in string literal",
            Self::InEscape => "in string escape code",
            Self::InHex => "in \\u hexadecimal character escape",
            Self::InNumber => "in numeric literal",
            Self::InFraction => "after decimal point in numeric literal",
            Self::InExponent => "in exponent of numeric literal",
            Self::TooDeep => "exceeded max depth",
            Self::InWord(word, wanted) => return write!(f, "in literal {word} (expecting '{wanted}')"),
        })
    }
}

/// A byte between single quotes. Compat: Go takes each byte for a character of its own.
struct Character(u8);

impl fmt::Display for Character {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b'\'' => f.write_str(r"'\''"),
            b'"' => f.write_str("'\"'"),
            byte => {
                let quoted = Quoted(char::from(byte).to_string().as_bytes()).to_string();
                write!(f, "'{}'", &quoted[1..quoted.len() - 1])
            }
        }
    }
}

/// The first byte at or after `at` that is no blank.
pub(super) fn skip_blanks(json: &[u8], at: usize) -> usize {
    let blanks = json.iter().skip(at).take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    at + blanks.count()
}

/// Where the value ends that begins at `start`, blanks before it aside.
///
/// # Errors
/// When there is no whole value.
pub fn value_end(json: &[u8], start: usize) -> Result<usize, SyntaxFault> {
    Scanner { json, at: start, open: Vec::new() }.value()
}

/// Checks that `json` is one value, and nothing but blanks around it.
///
/// # Errors
/// When it is not.
pub fn check(json: &[u8]) -> Result<(), SyntaxFault> {
    let at = skip_blanks(json, value_end(json, 0)?);
    let context = SyntaxContext::AfterAll;
    json.get(at).map_or(Ok(()), |&byte| Err(SyntaxFault::Unexpected { byte, at, context }))
}

/// Token that may come next.
#[derive(Clone, Copy, PartialEq)]
enum Expect {
    Value,
    /// A value, or the end of an array that has just begun.
    FirstElement,
    Key,
    /// A key, or the end of an object that has just begun.
    FirstKey,
    Colon,
    /// A comma or the end of what is open.
    More,
}

struct Scanner<'a> {
    json: &'a [u8],
    at: usize,
    /// The brackets that are open.
    open: Vec<u8>,
}

impl Scanner<'_> {
    fn value(mut self) -> Result<usize, SyntaxFault> {
        let mut expect = Expect::Value;
        loop {
            if expect == Expect::More && self.open.is_empty() {
                return Ok(self.at);
            }
            self.at = skip_blanks(self.json, self.at);
            expect = self.step(expect)?;
        }
    }

    fn step(&mut self, expect: Expect) -> Result<Expect, SyntaxFault> {
        let byte = self.need()?;
        match (expect, byte) {
            (Expect::FirstElement, b']') | (Expect::FirstKey, b'}') => Ok(self.close()),
            (Expect::FirstElement | Expect::Value, _) => self.begin(byte),
            (Expect::FirstKey | Expect::Key, b'"') => self.string().map(|()| Expect::Colon),
            (Expect::FirstKey | Expect::Key, _) => Err(self.fault(SyntaxContext::Key)),
            (Expect::Colon, b':') => Ok(self.pass(Expect::Value)),
            (Expect::Colon, _) => Err(self.fault(SyntaxContext::AfterKey)),
            (Expect::More, _) => self.more(byte),
        }
    }

    fn more(&mut self, byte: u8) -> Result<Expect, SyntaxFault> {
        match (self.open.last(), byte) {
            (Some(b'{'), b',') => Ok(self.pass(Expect::Key)),
            (Some(b'['), b',') => Ok(self.pass(Expect::Value)),
            (Some(b'{'), b'}') | (Some(b'['), b']') => Ok(self.close()),
            (Some(b'{'), _) => Err(self.fault(SyntaxContext::AfterMember)),
            _ => Err(self.fault(SyntaxContext::AfterElement)),
        }
    }

    fn pass(&mut self, next: Expect) -> Expect {
        self.at += 1;
        next
    }

    fn close(&mut self) -> Expect {
        self.open.pop();
        self.pass(Expect::More)
    }

    fn begin(&mut self, byte: u8) -> Result<Expect, SyntaxFault> {
        match byte {
            b'{' => return self.nest(byte, Expect::FirstKey),
            b'[' => return self.nest(byte, Expect::FirstElement),
            b'"' => self.string()?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return Err(self.fault(SyntaxContext::Value)),
        }
        Ok(Expect::More)
    }

    fn nest(&mut self, bracket: u8, next: Expect) -> Result<Expect, SyntaxFault> {
        if self.open.len() == DEEPEST {
            return Err(self.fault(SyntaxContext::TooDeep));
        }
        self.open.push(bracket);
        Ok(self.pass(next))
    }

    fn string(&mut self) -> Result<(), SyntaxFault> {
        self.at += 1;
        loop {
            match self.need()? {
                b'"' => break,
                b'\\' => self.escape()?,
                0..=31 => return Err(self.fault(SyntaxContext::InString)),
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), SyntaxFault> {
        self.at += 1;
        let digits = match self.need()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => 0,
            b'u' => 4,
            _ => return Err(self.fault(SyntaxContext::InEscape)),
        };
        self.at += 1;
        for _ in 0..digits {
            if !self.need()?.is_ascii_hexdigit() {
                return Err(self.fault(SyntaxContext::InHex));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> Result<(), SyntaxFault> {
        for wanted in word.chars() {
            if char::from(self.need()?) != wanted {
                return Err(self.fault(SyntaxContext::InWord(word, wanted)));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxFault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.need()? == b'0' {
            self.at += 1;
        } else {
            self.digits(SyntaxContext::InNumber)?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits(SyntaxContext::InFraction)?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits(SyntaxContext::InExponent)?;
        }
        Ok(())
    }

    fn digits(&mut self, context: SyntaxContext) -> Result<(), SyntaxFault> {
        if !self.need()?.is_ascii_digit() {
            return Err(self.fault(context));
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }

    fn need(&self) -> Result<u8, SyntaxFault> {
        self.peek().ok_or(SyntaxFault::Cut)
    }

    fn fault(&self, context: SyntaxContext) -> SyntaxFault {
        SyntaxFault::Unexpected { byte: self.json[self.at], at: self.at, context }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_they_end() {
        for (json, end) in
            [("{} x", 2), (" 12,", 3), ("\"a\\\"\"b", 5), ("[1,{\"a\":[]}]]", 12), ("nullx", 4)]
        {
            assert_eq!(value_end(json.as_bytes(), 0), Ok(end), "{json}");
        }
    }

    #[test]
    fn faults_have_a_place_and_gos_words() {
        for (json, offset, text) in [
            ("{\"a\":", None, "unexpected end of JSON input"),
            ("", None, "unexpected end of JSON input"),
            ("{} '", Some(4), r"invalid character '\'' after top-level value"),
            ("[1 2]", Some(4), "invalid character '2' after array element"),
            ("\u{ff}", Some(1), "invalid character 'Ã' looking for beginning of value"),
            ("tru}", Some(4), "invalid character '}' in literal true (expecting 'e')"),
        ] {
            let fault = check(json.as_bytes()).unwrap_err();
            assert_eq!((fault.offset(), fault.to_string().as_str()), (offset, text), "{json}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let fault = check(&[b'['; 10_001]).unwrap_err();
        assert_eq!(fault.to_string(), "invalid character '[' exceeded max depth");
        assert_eq!(fault.offset(), Some(10_001));
        assert_eq!(check(&[b'['; 10_000]), Err(SyntaxFault::Cut));
    }
}

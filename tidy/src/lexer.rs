//! Tokens of a Rust file.

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or a keyword.
    Word,
    /// A lifetime or a label, with its quote.
    Lifetime,
    /// A number, a string, a byte string or a character.
    Literal,
    /// `//!` or `///`, without the slashes.
    Doc,
    /// Any other comment, as it stands.
    Comment,
    /// One sign.
    Sign,
}

/// A token, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Kind of the token.
    pub kind: Kind,
    /// The text; of [`Kind::Doc`] the text behind the slashes.
    pub text: &'a str,
    /// Line of the token, from 1.
    pub line: usize,
    /// Offset of [`Token::text`] in the file, in bytes.
    pub start: usize,
}

/// The tokens of a file, comments included, white space left out.
#[must_use]
pub fn lex(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    std::iter::from_fn(|| lexer.next()).collect()
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let first = rest.chars().next()?;
        let (kind, length) = token(rest, first);
        let (line, start) = (self.line, self.at);
        let whole = &rest[..length];
        self.line += whole.matches('\n').count();
        self.at += length;
        let slashes = if kind == Kind::Doc { 3 } else { 0 };
        Some(Token { kind, text: &whole[slashes..], line, start: start + slashes })
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        let space = rest.len() - rest.trim_start().len();
        self.line += rest[..space].matches('\n').count();
        self.at += space;
    }
}

/// Kind and length of the token that the text begins with.
fn token(rest: &str, first: char) -> (Kind, usize) {
    if rest.starts_with("//") {
        let length = rest.find('\n').unwrap_or(rest.len());
        let is_doc = rest.starts_with("//!") || (rest.starts_with("///") && !rest.starts_with("////"));
        return (if is_doc { Kind::Doc } else { Kind::Comment }, length);
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, rest.find("*/").map_or(rest.len(), |end| end + 2));
    }
    if let Some(length) = string(rest) {
        return (Kind::Literal, length);
    }
    if first == '\'' {
        return quoted(rest);
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    match first {
        _ if length == 0 => (Kind::Sign, first.len_utf8()),
        '0'..='9' => (Kind::Literal, length),
        _ => (Kind::Word, length),
    }
}

/// The length of a string literal with its prefix.
fn string(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        rest.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with('"') || (prefix.ends_with('r') && rest.starts_with('#')))
    })?;
    let body = &rest[prefix.len()..];
    if !prefix.ends_with('r') {
        return Some(prefix.len() + escaped(body, '"'));
    }
    let hashes = body.len() - body.trim_start_matches('#').len();
    // `r#type` is a word.
    let inner = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inner.find(&end).map_or(inner.len(), |at| at + end.len());
    Some(prefix.len() + hashes + 1 + length)
}

/// The length of what is quoted by `quote`, which it begins with.
fn escaped(body: &str, quote: char) -> usize {
    let mut chars = body.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == quote => return at + quote.len_utf8(),
            _ => {}
        }
    }
    body.len()
}

/// A character or a lifetime.
fn quoted(rest: &str) -> (Kind, usize) {
    let mut chars = rest.chars().skip(1);
    let (second, third) = (chars.next(), chars.next());
    if second == Some('\\') || third == Some('\'') {
        return (Kind::Literal, escaped(rest, '\''));
    }
    let name = rest[1..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len() - 1);
    (Kind::Lifetime, 1 + name)
}

#[cfg(test)]
mod tests {
    use super::{Kind, lex};

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        lex(text).into_iter().map(|token| (token.kind, token.text)).collect()
    }

    #[test]
    fn words_signs_and_literals_are_told_apart() {
        let text = "let a_1: &'a str = b\"x\\\"y\"; 'c' '\\'' 0x1f r#\"a\"b\"# br\"z\"";
        let expected = [
            (Kind::Word, "let"),
            (Kind::Word, "a_1"),
            (Kind::Sign, ":"),
            (Kind::Sign, "&"),
            (Kind::Lifetime, "'a"),
            (Kind::Word, "str"),
            (Kind::Sign, "="),
            (Kind::Literal, "b\"x\\\"y\""),
            (Kind::Sign, ";"),
            (Kind::Literal, "'c'"),
            (Kind::Literal, "'\\''"),
            (Kind::Literal, "0x1f"),
            (Kind::Literal, "r#\"a\"b\"#"),
            (Kind::Literal, "br\"z\""),
        ];
        assert_eq!(kinds(text), expected);
    }

    #[test]
    fn comments_are_no_code() {
        let text = "//! Head.\n/// Doc \"of\n// plain '\nfn /* in */ f";
        let expected = [
            (Kind::Doc, " Head."),
            (Kind::Doc, " Doc \"of"),
            (Kind::Comment, "// plain '"),
            (Kind::Word, "fn"),
            (Kind::Comment, "/* in */"),
            (Kind::Word, "f"),
        ];
        assert_eq!(kinds(text), expected);
    }

    #[test]
    fn lines_are_counted_through_literals() {
        let lines: Vec<usize> = lex("a \"\n\n\" b\nc").into_iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 1, 3, 4]);
    }
}

//! Splits configuration text into tokens, one per call.
//!
//! Owns the grammar of keys, separators, comments and scalars, and the stack of open brackets. It builds
//! no tree, looks up no variable and opens no file: that is `parser`. It keeps its nesting on the heap,
//! so no input can overflow the stack.

use crate::cursor::{Cursor, to_text};

/// How deep maps and arrays may be nested.
pub(crate) const MAX_DEPTH: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Key,
    Text,
    Boolean,
    Integer,
    Float,
    DateTime,
    /// `$NAME`; the text is the name alone.
    Variable,
    /// `include FILE`; the text is the file.
    Include,
    ArrayStart,
    ArrayEnd,
    MapStart,
    MapEnd,
    End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) text: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LexError {
    pub(crate) message: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

type Scan<T> = Result<T, LexError>;

/// What encloses the place of the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Top,
    /// Braces around the whole file, as in JSON. They make no map of their own.
    Block,
    Map,
    Array,
}

/// What may come next in the current scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A key (in an array: an element) or the end of the scope.
    Entry,
    /// What separates a key from its value, and the value.
    Value,
    /// A separator between entries or the end of the scope.
    Separator,
    /// The end of a block whose last inner block was closed.
    BlockEnd,
}

pub(crate) struct Lexer<'a> {
    cursor: Cursor<'a>,
    /// Never empty: `Top` is at the bottom.
    scopes: Vec<Scope>,
    expect: Expect,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(text), scopes: vec![Scope::Top], expect: Expect::Entry }
    }

    /// The next token. After `End` or an error there is nothing more to read.
    pub(crate) fn next_token(&mut self) -> Scan<Token> {
        loop {
            let scope = *self.scopes.last().expect("the top scope is never closed");
            let step = match (self.expect, scope) {
                (Expect::Entry, Scope::Top) => self.top_entry()?,
                (Expect::Entry, Scope::Block) => self.block_entry()?,
                (Expect::Entry, Scope::Map) => self.map_entry()?,
                (Expect::Entry, Scope::Array) => self.array_entry()?,
                (Expect::Value, Scope::Map) => Some(self.map_value()?),
                (Expect::Value, _) => Some(self.top_value()?),
                (Expect::Separator, Scope::Top) => self.top_separator()?,
                (Expect::Separator, Scope::Block) => self.block_separator()?,
                (Expect::Separator, Scope::Map) => self.map_separator()?,
                (Expect::Separator, Scope::Array) => self.array_separator()?,
                (Expect::BlockEnd, _) => self.block_end()?,
            };
            if let Some(token) = step {
                return Ok(token);
            }
        }
    }

    // Entries: each function handles one step and returns a token if that step made one.

    fn top_entry(&mut self) -> Scan<Option<Token>> {
        self.cursor.eat_while(char::is_whitespace);
        match self.cursor.peek() {
            None => self.end().map(Some),
            Some('{') => {
                self.open(Scope::Block)?;
                Ok(None)
            }
            Some(c) if self.at_comment(c) => self.comment(Expect::Entry),
            Some('/') => self.fail("expected a key, found '/'"),
            Some(_) => self.key().map(Some),
        }
    }

    fn block_entry(&mut self) -> Scan<Option<Token>> {
        self.cursor.eat_while(char::is_whitespace);
        match self.cursor.peek() {
            // Compat: the reference does not miss the brace that closes the file.
            None => self.end().map(Some),
            Some('{') => {
                self.open(Scope::Block)?;
                Ok(None)
            }
            Some('}') => {
                self.close_block();
                Ok(None)
            }
            Some(c) if self.at_comment(c) => self.comment(Expect::Entry),
            Some('/') => self.fail("expected a key, found '/'"),
            Some(_) => self.key().map(Some),
        }
    }

    fn map_entry(&mut self) -> Scan<Option<Token>> {
        self.cursor.eat_while(char::is_whitespace);
        match self.cursor.peek() {
            None => self.fail("a map is not closed, expected '}'"),
            Some('}') => Ok(Some(self.close(TokenKind::MapEnd))),
            Some(']') => self.fail("expected a key or '}', found ']'"),
            Some(c) if self.at_comment(c) => self.comment(Expect::Entry),
            Some('/') => {
                // Compat: a lone slash before a key of a map is dropped.
                self.cursor.bump();
                self.bare_key().map(Some)
            }
            Some(_) => self.key().map(Some),
        }
    }

    fn array_entry(&mut self) -> Scan<Option<Token>> {
        self.cursor.eat_while(char::is_whitespace);
        match self.cursor.peek() {
            Some(']') => Ok(Some(self.close(TokenKind::ArrayEnd))),
            Some(c) if self.at_comment(c) => self.comment(Expect::Entry),
            Some(c @ (',' | '/')) => self.fail(format!("expected a value of an array, found '{c}'")),
            _ => self.value().map(Some),
        }
    }

    // Separators. Compat: where a comment could begin, a lone slash passes for a blank or a separator.

    fn top_separator(&mut self) -> Scan<Option<Token>> {
        match self.cursor.peek() {
            Some(c) if self.at_comment(c) => return self.comment(Expect::Entry),
            Some(' ' | '\t' | '/') => {}
            None => self.expect = Expect::Entry,
            // Compat: a closing brace may follow a value although none was opened.
            Some('\n' | '\r' | ';' | ',' | '}') => self.expect = Expect::Entry,
            Some(c) => return self.fail_after("a new line after the value", c),
        }
        self.cursor.bump();
        Ok(None)
    }

    fn block_separator(&mut self) -> Scan<Option<Token>> {
        match self.cursor.peek() {
            Some(c) if self.at_comment(c) => return self.comment(Expect::Separator),
            Some(' ' | '\t' | '/') => {}
            Some('\n' | '\r' | ';' | ',') => self.expect = Expect::Entry,
            Some('}') => {
                self.close_block();
                return Ok(None);
            }
            Some(c) => return self.fail_after("a new line or '}' after the value", c),
            None => return self.fail("the outermost brace is not closed, expected '}'"),
        }
        self.cursor.bump();
        Ok(None)
    }

    fn block_end(&mut self) -> Scan<Option<Token>> {
        match self.cursor.peek() {
            Some(c) if self.at_comment(c) => return self.comment(Expect::Entry),
            Some(' ' | '\t' | '/' | '\n' | '\r') => {}
            Some(';' | ',') => self.expect = Expect::Entry,
            Some('}') => {
                self.close_block();
                return Ok(None);
            }
            Some(c) => return self.fail_after("'}'", c),
            None => return self.fail("the outermost brace is not closed, expected '}'"),
        }
        self.cursor.bump();
        Ok(None)
    }

    fn map_separator(&mut self) -> Scan<Option<Token>> {
        self.cursor.eat_while(is_blank);
        match self.cursor.peek() {
            Some(c) if self.at_comment(c) => return self.comment(Expect::Separator),
            Some('/' | ';' | ',' | '\n' | '\r') => self.expect = Expect::Entry,
            Some('}') => return Ok(Some(self.close(TokenKind::MapEnd))),
            Some(c) => return self.fail_after("',' or '}'", c),
            None => return self.fail("a map is not closed, expected '}'"),
        }
        self.cursor.bump();
        Ok(None)
    }

    fn array_separator(&mut self) -> Scan<Option<Token>> {
        self.cursor.eat_while(is_blank);
        match self.cursor.peek() {
            Some(c) if self.at_comment(c) => return self.comment(Expect::Separator),
            Some('/' | ',' | '\n' | '\r') => self.expect = Expect::Entry,
            Some(']') => return Ok(Some(self.close(TokenKind::ArrayEnd))),
            Some(c) => return self.fail_after("',' or ']'", c),
            None => return self.fail("an array is not closed, expected ']'"),
        }
        self.cursor.bump();
        Ok(None)
    }

    // Keys.

    fn key(&mut self) -> Scan<Token> {
        match self.cursor.peek() {
            Some(c @ ('=' | ':')) => self.fail(format!("expected a key, found '{c}'")),
            Some(quote @ ('"' | '\'')) => self.quoted_key(quote),
            _ => self.bare_key(),
        }
    }

    /// Compat: keys know no escapes, whatever their quotes.
    fn quoted_key(&mut self, quote: char) -> Scan<Token> {
        self.cursor.bump();
        self.cursor.mark();
        self.cursor.eat_while(|c| c != quote);
        let token = self.token(TokenKind::Key);
        if !self.cursor.eat(quote) {
            return self.fail("a quoted key is not closed");
        }
        self.expect = Expect::Value;
        Ok(token)
    }

    /// A key without quotes. Its first character may be anything but a separator, even a bracket.
    fn bare_key(&mut self) -> Scan<Token> {
        self.cursor.mark();
        self.cursor.bump();
        self.cursor.eat_while(|c| !c.is_whitespace() && !matches!(c, '=' | ':'));
        match self.cursor.peek() {
            None if self.scopes.last() == Some(&Scope::Map) => self.fail("a map is not closed, expected '}'"),
            Some(c) if c.is_whitespace() && self.cursor.token().eq_ignore_ascii_case(b"include") => {
                self.include()
            }
            _ => {
                self.expect = Expect::Value;
                Ok(self.token(TokenKind::Key))
            }
        }
    }

    fn include(&mut self) -> Scan<Token> {
        self.cursor.eat_while(is_blank);
        self.expect = Expect::Separator;
        match self.cursor.peek() {
            Some(quote @ ('"' | '\'')) => {
                self.cursor.bump();
                self.cursor.mark();
                self.cursor.eat_while(|c| c != quote);
                let token = self.token(TokenKind::Include);
                if !self.cursor.eat(quote) {
                    return self.fail("the file name of an include is not closed");
                }
                Ok(token)
            }
            Some(c) if c.is_ascii_digit() || matches!(c, '[' | '{' | '(' | '-' | '\\' | '\n' | '\r') => {
                self.cursor.bump();
                self.fail(format!("expected the file name of an include, found '{}'", c.escape_debug()))
            }
            _ => {
                self.cursor.mark();
                self.cursor.eat_while(|c| !is_blank(c) && !matches!(c, '\n' | '\r' | ';' | '}' | '\''));
                let token = self.token(TokenKind::Include);
                self.cursor.eat('\'');
                Ok(token)
            }
        }
    }

    // Values.

    fn top_value(&mut self) -> Scan<Token> {
        self.cursor.eat_while(char::is_whitespace);
        match self.cursor.peek() {
            // The parser knows what to say about a key without a value.
            None => return self.end(),
            Some('=' | ':') => {
                self.cursor.bump();
            }
            Some(_) => {}
        }
        self.cursor.eat_while(is_blank);
        if matches!(self.cursor.peek(), Some('\n' | '\r')) {
            self.cursor.bump();
            return self.fail("expected a value, found a new line");
        }
        self.value()
    }

    fn map_value(&mut self) -> Scan<Token> {
        self.cursor.eat_while(char::is_whitespace);
        if matches!(self.cursor.peek(), Some('=' | ':')) {
            self.cursor.bump();
        }
        self.cursor.eat_while(char::is_whitespace);
        match self.cursor.peek() {
            // The reference confuses the keys around a `}` in place of a value; here it is an error.
            Some(c @ (',' | '}')) => self.fail(format!("expected a value, found '{c}'")),
            _ => self.value(),
        }
    }

    fn value(&mut self) -> Scan<Token> {
        self.expect = Expect::Separator;
        self.cursor.eat_while(is_blank);
        self.cursor.mark();
        match self.cursor.peek() {
            Some('[') => self.open(Scope::Array),
            Some('{') => self.open(Scope::Map),
            Some('\'') => self.single_quoted(),
            Some('"') => {
                self.cursor.bump();
                self.cursor.mark();
                self.double_quoted()
            }
            Some('(') => self.block_text(),
            Some('-') => self.negative_number(),
            Some('0'..='9') => self.number(),
            Some('.') => self.fail("a number starts with a digit, not with '.'"),
            _ => self.bare_text(),
        }
    }

    fn single_quoted(&mut self) -> Scan<Token> {
        self.cursor.bump();
        self.cursor.mark();
        self.cursor.eat_while(|c| c != '\'');
        let token = self.token(TokenKind::Text);
        if self.cursor.eat('\'') { Ok(token) } else { self.fail("a quoted string is not closed") }
    }

    fn double_quoted(&mut self) -> Scan<Token> {
        let mut text = Vec::new();
        loop {
            self.cursor.eat_while(|c| !matches!(c, '"' | '\\'));
            text.extend_from_slice(self.cursor.token());
            match self.cursor.peek() {
                Some('\\') => self.escape(&mut text)?,
                Some(_) => break,
                None => return self.fail("a quoted string is not closed"),
            }
        }
        let token = self.token_with(TokenKind::Text, &text);
        self.cursor.bump();
        Ok(token)
    }

    /// Text without quotes, a boolean or a variable; some of it may have been stepped over already.
    fn bare_text(&mut self) -> Scan<Token> {
        let mut text = Vec::new();
        let mut has_escapes = false;
        loop {
            self.cursor.eat_while(|c| !ends_bare_text(c) && !matches!(c, '\\' | '\''));
            text.extend_from_slice(self.cursor.token());
            if self.cursor.peek() != Some('\\') {
                break;
            }
            has_escapes = true;
            self.escape(&mut text)?;
        }
        // Compat: a single quote ends bare text and vanishes.
        let is_quoted = self.cursor.peek() == Some('\'');
        let token = match text.strip_prefix(b"$") {
            _ if has_escapes || is_quoted => self.token_with(TokenKind::Text, &text),
            _ if boolean(&text).is_some() => self.token_with(TokenKind::Boolean, &text),
            Some(name) => self.token_with(TokenKind::Variable, name),
            None => self.token_with(TokenKind::Text, &text),
        };
        self.cursor.eat('\'');
        Ok(token)
    }

    /// Steps over one escape and marks what follows it.
    fn escape(&mut self, text: &mut Vec<u8>) -> Scan<()> {
        self.cursor.bump();
        let byte = match self.cursor.bump() {
            Some('t') => b'\t',
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some(c @ ('"' | '\\')) => c as u8,
            Some('x') => self.hexadecimal()?,
            _ => return self.fail(r#"unknown escape; allowed are \t \n \r \" \\ and \xHH"#),
        };
        text.push(byte);
        self.cursor.mark();
        Ok(())
    }

    fn hexadecimal(&mut self) -> Scan<u8> {
        let digit = |c: Option<char>| c.and_then(|c| c.to_digit(16)).and_then(|d| u8::try_from(d).ok());
        match (digit(self.cursor.bump()), digit(self.cursor.bump())) {
            (Some(high), Some(low)) => Ok(high << 4 | low),
            _ => self.fail(r"expected two hexadecimal digits after \x"),
        }
    }

    /// `( … )` over several lines; only a `)` alone on its line closes it.
    fn block_text(&mut self) -> Scan<Token> {
        self.cursor.bump();
        self.cursor.mark();
        loop {
            self.cursor.eat_while(|c| c != ')');
            let text = self.cursor.token();
            if self.cursor.bump().is_none() {
                return self.fail("a block of text is not closed, expected ')' alone on a line");
            }
            if !self.cursor.is_line_start(1) {
                continue;
            }
            match self.cursor.peek() {
                Some('\n') => return Ok(self.token_with(TokenKind::Text, text)),
                // Compat: at the end of the file the closing parenthesis stays in the text.
                None => return Ok(self.token(TokenKind::Text)),
                Some(_) => {}
            }
        }
    }

    // Numbers, and what starts like one.

    fn negative_number(&mut self) -> Scan<Token> {
        self.cursor.bump();
        self.digit_after('-')?;
        self.cursor.eat_while(|c| c.is_ascii_digit());
        match self.cursor.peek() {
            Some('.') => self.fraction(),
            Some(c) if is_unit(c) => self.number_with_unit(),
            _ => Ok(self.token(TokenKind::Integer)),
        }
    }

    fn number(&mut self) -> Scan<Token> {
        self.cursor.eat_while(|c| c.is_ascii_digit());
        match self.cursor.peek() {
            None => Ok(self.token(TokenKind::Integer)),
            Some('-') => self.date_time(),
            Some('.') => self.fraction(),
            Some(c) if is_unit(c) => self.number_with_unit(),
            Some(c) if self.ends_number(c) => Ok(self.token(TokenKind::Integer)),
            // Compat: the character that makes it text is not looked at, be it a quote or a backslash.
            Some(_) => {
                self.cursor.bump();
                self.bare_text()
            }
        }
    }

    fn number_with_unit(&mut self) -> Scan<Token> {
        self.cursor.bump();
        self.cursor.eat_while(|c| matches!(c, 'b' | 'B' | 'i' | 'I'));
        match self.cursor.peek() {
            Some(c) if !self.ends_number(c) => self.bare_text(),
            _ => Ok(self.token(TokenKind::Integer)),
        }
    }

    fn fraction(&mut self) -> Scan<Token> {
        self.cursor.bump();
        self.digit_after('.')?;
        self.cursor.eat_while(|c| c.is_ascii_digit());
        if self.cursor.peek() != Some('.') {
            return Ok(self.token(TokenKind::Float));
        }
        // A second dot makes it an address.
        self.cursor.eat_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':' | '-'));
        Ok(self.token(TokenKind::Text))
    }

    fn digit_after(&mut self, before: char) -> Scan<()> {
        if self.cursor.bump().is_some_and(|c| c.is_ascii_digit()) {
            return Ok(());
        }
        self.fail(format!("expected a digit after '{before}'"))
    }

    /// What ends a number. The reference takes `]` for text even in an array and so rejects `[1]`; JSON
    /// has it, so it is read.
    fn ends_number(&self, c: char) -> bool {
        ends_bare_text(c) && (c != ']' || self.scopes.last() == Some(&Scope::Array))
    }

    fn date_time(&mut self) -> Scan<Token> {
        let shape = "0000-00-00T00:00:00Z";
        let begin = self.cursor.token().len();
        for wanted in shape.chars().skip(begin.min(4)) {
            let fits = match (wanted, self.cursor.bump()) {
                ('0', Some(c)) => c.is_ascii_digit(),
                (wanted, found) => found == Some(wanted) && begin == 4,
            };
            if !fits {
                return self.fail("a date is written like 2006-01-02T15:04:05Z");
            }
        }
        Ok(self.token(TokenKind::DateTime))
    }

    // Scopes, tokens, errors.

    fn open(&mut self, scope: Scope) -> Scan<Token> {
        if self.scopes.len() > MAX_DEPTH {
            return self.fail(format!("maps and arrays are nested deeper than {MAX_DEPTH}"));
        }
        self.cursor.bump();
        self.cursor.mark();
        self.scopes.push(scope);
        self.expect = Expect::Entry;
        Ok(self.token(if scope == Scope::Array { TokenKind::ArrayStart } else { TokenKind::MapStart }))
    }

    fn close(&mut self, kind: TokenKind) -> Token {
        self.cursor.bump();
        self.cursor.mark();
        self.scopes.pop();
        self.expect = Expect::Separator;
        self.token(kind)
    }

    fn close_block(&mut self) {
        self.cursor.bump();
        self.scopes.pop();
        self.expect = match self.scopes.last() {
            Some(Scope::Block) => Expect::BlockEnd,
            _ => Expect::Entry,
        };
    }

    fn at_comment(&self, next: char) -> bool {
        next == '#' || self.cursor.looking_at(b"//")
    }

    fn comment(&mut self, expect: Expect) -> Scan<Option<Token>> {
        self.cursor.eat_while(|c| !matches!(c, '\n' | '\r'));
        self.expect = expect;
        Ok(None)
    }

    fn end(&mut self) -> Scan<Token> {
        self.cursor.mark();
        Ok(self.token(TokenKind::End))
    }

    /// The token from the mark to here.
    fn token(&mut self, kind: TokenKind) -> Token {
        let text = self.cursor.token();
        self.token_with(kind, text)
    }

    fn token_with(&mut self, kind: TokenKind, text: &[u8]) -> Token {
        let (line, column) = self.cursor.token_position(text.len());
        self.cursor.mark();
        Token { kind, text: to_text(text), line, column }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Scan<T> {
        let (line, column) = self.cursor.position();
        Err(LexError { message: message.into(), line, column })
    }

    fn fail_after<T>(&self, expected: &str, found: char) -> Scan<T> {
        self.fail(format!("expected {expected}, found '{}'", found.escape_debug()))
    }
}

/// The boolean that a bare word stands for.
pub(crate) fn boolean(word: &[u8]) -> Option<bool> {
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    if ["true", "yes", "on"].into_iter().any(is) {
        Some(true)
    } else if ["false", "no", "off"].into_iter().any(is) {
        Some(false)
    } else {
        None
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn ends_bare_text(c: char) -> bool {
    matches!(c, '\n' | '\r' | ';' | ',' | ']' | '}') || is_blank(c)
}

fn is_unit(c: char) -> bool {
    matches!(c.to_ascii_lowercase(), 'k' | 'm' | 'g' | 't' | 'p' | 'e')
}

//! Splits configuration text into tokens, one per call.
//!
//! Owns the grammar of keys, separators, comments and scalars, and the stack of open brackets. It
//! builds no tree, looks up no variable and opens no file: that is `parser`. It keeps its nesting
//! on the heap, so no input can overflow the stack.

mod number;
mod text;

use crate::cursor::{Cursor, to_text};

pub(crate) use text::boolean;

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

/// Enclosure of the place of the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Enclosure {
    Top,
    /// Braces around the whole file, as in JSON. They make no map of their own.
    Block,
    Map,
    Array,
}

/// Token that may come next in the current scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A key (in an array: an element) or the end of the scope.
    Entry,
    /// Separator between a key and its value, and the value.
    Value,
    /// A separator between entries or the end of the scope.
    Separator,
    /// The end of a block whose last inner block was closed.
    BlockEnd,
}

pub(crate) struct Lexer<'a> {
    cursor: Cursor<'a>,
    /// Never empty: `Top` is at the bottom.
    scopes: Vec<Enclosure>,
    expect: Expect,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(text), scopes: vec![Enclosure::Top], expect: Expect::Entry }
    }

    /// The next token. After `End` or an error there is nothing more to read.
    pub(crate) fn next_token(&mut self) -> Scan<Token> {
        loop {
            let scope = *self.scopes.last().expect("the top scope is never closed");
            let step = match (self.expect, scope) {
                (Expect::Entry, Enclosure::Top | Enclosure::Block) => self.top_entry()?,
                (Expect::Entry, Enclosure::Map) => self.map_entry()?,
                (Expect::Entry, Enclosure::Array) => self.array_entry()?,
                (Expect::Value, Enclosure::Map) => Some(self.map_value()?),
                (Expect::Value, _) => Some(self.top_value()?),
                (Expect::Separator, Enclosure::Top) => self.top_separator()?,
                (Expect::Separator, Enclosure::Block) => self.block_separator()?,
                (Expect::Separator, Enclosure::Map) => self.map_separator()?,
                (Expect::Separator, Enclosure::Array) => self.array_separator()?,
                (Expect::BlockEnd, _) => self.block_end()?,
            };
            if let Some(token) = step {
                return Ok(token);
            }
        }
    }

    // Entries: each function handles one step and returns a token if that step made one.

    fn top_entry(&mut self) -> Scan<Option<Token>> {
        let in_block = self.scopes.last() == Some(&Enclosure::Block);
        self.cursor.eat_while(char::is_whitespace);
        match self.cursor.peek() {
            // Compat: the end of the file may stand for the brace that closes it.
            None => return self.end().map(Some),
            Some('{') => {
                self.open(Enclosure::Block)?;
            }
            Some('}') if in_block => self.close_block(),
            Some(c) if self.at_comment(c) => return self.comment(Expect::Entry),
            Some('/') => return self.fail("expected a key, found '/'"),
            // Compat: outside a block a closing brace is a key.
            Some(_) => return self.key().map(Some),
        }
        Ok(None)
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

    // Separators. Compat: where a comment could begin, a lone slash passes for a blank or a
    // separator.

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
            None if self.scopes.last() == Some(&Enclosure::Map) => {
                self.fail("a map is not closed, expected '}'")
            }
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
                self.cursor.eat_while(|c| c != quote && !matches!(c, '\n' | '\r'));
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
            // The reference confuses the keys around a `}` in place of a value; here it is an
            // error.
            Some(c @ (',' | '}')) => self.fail(format!("expected a value, found '{c}'")),
            _ => self.value(),
        }
    }

    fn value(&mut self) -> Scan<Token> {
        self.expect = Expect::Separator;
        self.cursor.eat_while(is_blank);
        self.cursor.mark();
        match self.cursor.peek() {
            Some('[') => self.open(Enclosure::Array),
            Some('{') => self.open(Enclosure::Map),
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

    // Scopes, tokens, errors.

    fn open(&mut self, scope: Enclosure) -> Scan<Token> {
        if self.scopes.len() > MAX_DEPTH {
            return self.fail(format!("maps and arrays are nested deeper than {MAX_DEPTH}"));
        }
        self.cursor.bump();
        self.cursor.mark();
        self.scopes.push(scope);
        self.expect = Expect::Entry;
        Ok(self.token(if scope == Enclosure::Array { TokenKind::ArrayStart } else { TokenKind::MapStart }))
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
            Some(Enclosure::Block) => Expect::BlockEnd,
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

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

//! Integers with and without units, floats, dates, and the addresses and words that start like
//! them.

use super::text::ends_bare_text;
use super::{Enclosure, Lexer, Scan, Token, TokenKind};

impl Lexer<'_> {
    pub(super) fn negative_number(&mut self) -> Scan<Token> {
        self.cursor.bump();
        self.digit_after('-')?;
        self.cursor.eat_while(|c| c.is_ascii_digit());
        match self.cursor.peek() {
            Some('.') => self.fraction(),
            Some(c) if is_unit(c) => self.number_with_unit(),
            _ => Ok(self.token(TokenKind::Integer)),
        }
    }

    pub(super) fn number(&mut self) -> Scan<Token> {
        self.cursor.eat_while(|c| c.is_ascii_digit());
        match self.cursor.peek() {
            None => Ok(self.token(TokenKind::Integer)),
            Some('-') => self.date_time(),
            Some('.') => self.fraction(),
            Some(c) if is_unit(c) => self.number_with_unit(),
            Some(c) if self.ends_number(c) => Ok(self.token(TokenKind::Integer)),
            // Compat: the character that makes it text is not looked at, be it a quote or a
            // backslash.
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

    /// Whether a character ends a number. The reference takes `]` for text even in an array and so
    /// rejects `[1]`; JSON has it, so it is read.
    fn ends_number(&self, c: char) -> bool {
        ends_bare_text(c) && (c != ']' || self.scopes.last() == Some(&Enclosure::Array))
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
}

fn is_unit(c: char) -> bool {
    matches!(c.to_ascii_lowercase(), 'k' | 'm' | 'g' | 't' | 'p' | 'e')
}
